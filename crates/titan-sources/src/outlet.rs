//! The way from a source to the program, and back.
//!
//! ```text
//! source: Outlet -- Delivery, the newest one alone --> Inlet: program
//!                <-- Verdict, the newest one alone ---
//! ```
//!
//! Neither side waits for the other one, and nothing piles up between them: what a source has now is all that matters.

use crate::delivery::Delivery;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::watch;

/// The two ends for the source of this name.
pub fn outlet(name: impl Into<Arc<str>>) -> (Outlet, Inlet) {
    let (deliver, delivered) = watch::channel(None);
    let (judge, judged) = watch::channel(None);
    let (tell, told) = watch::channel(Health::default());
    let inlet = Inlet { name: name.into(), delivered, judge, told };
    (Outlet { deliver, judged, tell }, inlet)
}

/// What a source delivers to.
#[derive(Debug)]
pub struct Outlet {
    deliver: watch::Sender<Option<Arc<Delivery>>>,
    judged: watch::Receiver<Option<Verdict>>,
    tell: watch::Sender<Health>,
}

impl Outlet {
    /// Delivers all that the source has now. It replaces a delivery that the program has not taken yet. A source that could be asked
    /// says so first: otherwise what it delivers comes into force while it counts as failing.
    pub fn deliver(&self, delivery: Delivery) {
        self.deliver.send_replace(Some(Arc::new(delivery)));
    }

    /// What became of a delivery, the latest that is known: waits for one that was not returned yet. [`Verdict::revision`] says
    /// of which delivery; those of deliveries that were replaced before they were taken never come. `None` once the
    /// program takes nothing more. It may be dropped while it waits.
    pub async fn verdicts(&mut self) -> Option<Verdict> {
        self.judged.changed().await.ok()?;
        self.judged.borrow_and_update().clone()
    }

    /// Notes that the source could be asked, whether or not it has something new.
    pub fn succeeded(&self) {
        let now = SystemTime::now();
        self.tell.send_modify(|health| {
            (health.succeeded, health.failure) = (Some(now), None);
        });
    }

    /// Notes something that people should look at, whether or not the source can be asked. It is told once.
    pub fn warn(&self, what: String) {
        self.tell.send_modify(|health| health.warning = Some(what));
    }

    /// Notes that the source could not be asked, and why.
    pub fn failed(&self, why: String) {
        self.tell.send_modify(|health| health.failure = Some(why));
    }

    /// Waits until the program takes nothing more.
    pub async fn closed(&self) {
        self.deliver.closed().await;
    }
}

/// Where the program takes what a source delivers.
#[derive(Debug)]
pub struct Inlet {
    name: Arc<str>,
    delivered: watch::Receiver<Option<Arc<Delivery>>>,
    judge: watch::Sender<Option<Verdict>>,
    told: watch::Receiver<Health>,
}

impl Inlet {
    /// What the source is called.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The latest delivery: waits for one that was not returned yet. `None` once the source has ended and all is taken. It may be
    /// dropped while it waits.
    pub async fn next(&mut self) -> Option<Arc<Delivery>> {
        self.delivered.changed().await.ok()?;
        self.delivered.borrow_and_update().clone()
    }

    /// How the source fares.
    pub fn health(&self) -> Health {
        self.told.borrow().clone()
    }

    /// Tells the source what became of a delivery. It replaces what the source has not looked at yet.
    pub fn judge(&self, verdict: Verdict) {
        self.judge.send_replace(Some(verdict));
    }
}

/// How a source fares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// When it could be asked last.
    pub succeeded: Option<SystemTime>,
    /// Why it could not be asked since.
    pub failure: Option<String>,
    /// What people should look at, the latest.
    pub warning: Option<String>,
}

/// What became of a delivery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// That of the delivery.
    pub revision: String,
    /// The documents that are held back, by name, each with the reason. What was in force of them before stays in force where
    /// it fits the rest.
    pub refused: BTreeMap<String, String>,
    /// Whether all others are in force. Otherwise what was in force before still is.
    pub in_force: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::Document;

    fn delivery(revision: &str) -> Delivery {
        let document = Document { name: "a.yaml".to_owned(), text: String::new() };
        Delivery::new(revision, vec![document]).unwrap()
    }

    #[tokio::test]
    async fn the_newest_delivery_is_taken() {
        let (outlet, mut inlet) = outlet("shop");
        assert_eq!(&**inlet.name(), "shop");
        outlet.deliver(delivery("1"));
        outlet.deliver(delivery("2"));
        assert_eq!(inlet.next().await.unwrap().revision(), "2");
        let wait = async { inlet.next().await };
        let deliver = async { outlet.deliver(delivery("3")) };
        let (next, ()) = tokio::join!(wait, deliver);
        assert_eq!(next.unwrap().revision(), "3");
    }

    #[tokio::test]
    async fn what_a_source_delivered_before_it_ended_is_taken() {
        let (outlet, mut inlet) = outlet("shop");
        outlet.deliver(delivery("1"));
        drop(outlet);
        assert_eq!(inlet.next().await.unwrap().revision(), "1");
        assert_eq!(inlet.next().await, None);
    }

    #[test]
    fn how_a_source_fares_is_known() {
        let (outlet, inlet) = outlet("shop");
        assert_eq!(inlet.health(), Health::default());
        outlet.succeeded();
        outlet.failed("it is silent".to_owned());
        outlet.warn("it is odd".to_owned());
        let Health { succeeded, failure, .. } = inlet.health();
        assert_eq!((succeeded.is_some(), failure.as_deref()), (true, Some("it is silent")));
        outlet.succeeded();
        let Health { failure, warning, .. } = inlet.health();
        assert_eq!((failure, warning.as_deref()), (None, Some("it is odd")));
    }

    #[tokio::test]
    async fn verdicts_come_back() {
        let (mut outlet, inlet) = outlet("shop");
        let refused = BTreeMap::from([("a.yaml".to_owned(), "line 1: what is this".to_owned())]);
        let verdict = Verdict { revision: "1".to_owned(), refused, in_force: true };
        inlet.judge(Verdict::default());
        inlet.judge(verdict.clone());
        assert_eq!(outlet.verdicts().await, Some(verdict));
        drop(inlet);
        assert_eq!(outlet.verdicts().await, None);
        outlet.closed().await;
    }
}
