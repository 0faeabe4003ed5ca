//! What the program can be asked to do while it serves, with its configuration above all: by whom, and what came of it.
//!
//! [`Orders`] is the side that asks, from any thread. The program takes them at the other end, one at a time, where its
//! signals arrive too. Each order carries the way back for its outcome.

pub use crate::history::Document;

use crate::history::{Author, Entry};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use titan_config::Masked;
use tokio::sync::{mpsc, oneshot};

/// The way to the program. It leads nowhere once a drain has begun.
#[derive(Clone, Debug)]
pub struct Orders(mpsc::Sender<Order>);

/// What is asked for, with the way back for what came of it.
#[derive(Debug)]
pub enum Order {
    /// Something with the configuration.
    Configuration(ConfigOrder),
    /// Another process.
    Upgrade(UpgradeOrder),
}

/// What is asked for that concerns the configuration.
#[derive(Debug)]
pub enum ConfigOrder {
    /// Another configuration.
    Change {
        /// Which.
        change: Change,
        /// Who asks.
        author: Author,
        /// Takes what came of it.
        done: oneshot::Sender<Result<Applied, NotApplied>>,
    },
    /// The configuration that is on trial is to stay.
    Confirm {
        /// Who says so.
        author: Author,
        /// Takes the entry that stays.
        done: oneshot::Sender<Result<Applied, NotApplied>>,
    },
    /// What these documents would change, read as those of [`Change::Apply`] are.
    Plan {
        /// What they say.
        documents: Vec<Document>,
        /// Takes the plan.
        done: oneshot::Sender<Result<Planned, NotApplied>>,
    },
    /// What one configuration of the history changed in another.
    Compare {
        /// The id of the newer one.
        id: u64,
        /// That of the older one; without it the one before.
        against: Option<u64>,
        /// Takes the plan.
        done: oneshot::Sender<Result<Planned, NotApplied>>,
    },
    /// What a request would get under the configuration in force.
    Explain {
        /// The request.
        question: Question,
        /// Takes the explanation. A request that nobody could send is refused.
        done: oneshot::Sender<Result<Explained, NotApplied>>,
    },
    /// The configuration in force, to be shown.
    InForce(oneshot::Sender<Result<InForce, NotApplied>>),
    /// What was in force, the latest first.
    History(oneshot::Sender<Result<History, NotApplied>>),
}

/// Another process is to take over from the one that is asked.
#[derive(Debug)]
pub struct UpgradeOrder {
    /// What is started, by its absolute path; without one, the program that runs.
    pub program: Option<PathBuf>,
    /// Takes what came of it.
    pub done: oneshot::Sender<Result<Upgraded, NotUpgraded>>,
}

/// Another configuration, and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// What the file says that the gateway was started with.
    Reload,
    /// These documents, read as if they stood in place of that file.
    Apply {
        /// What they say.
        documents: Vec<Document>,
        /// What takes them back.
        safeguards: Safeguards,
    },
    /// One of the history; without an id the one before the one in force.
    Rollback(Option<u64>),
}

/// What takes a configuration back that has just come into force.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Safeguards {
    /// How long there is to confirm it.
    pub confirm: Option<Duration>,
    /// Which figures must not become worse.
    pub guard: Option<Guard>,
}

impl Safeguards {
    /// Whether there is any.
    pub fn is_any(self) -> bool {
        self != Safeguards::default()
    }
}

/// Takes a configuration back when requests fare worse under it than before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guard {
    /// How long it looks on.
    pub window: Duration,
    /// How many times worse is too bad: more than 1.
    pub factor: f64,
}

/// A configuration has come into force, or stays there.
#[derive(Clone, Debug)]
pub struct Applied {
    /// Its entry in the history.
    pub entry: Entry,
    /// What there is to say of it.
    pub warnings: Findings,
    /// What it comes to, as `titan check` prints it.
    pub summary: String,
    /// What else whoever asked has to know, such as that the history could not be written.
    pub notes: Vec<String>,
}

/// What a configuration would change, as `titan plan` tells it.
#[derive(Clone, Debug)]
pub struct Planned {
    /// For people.
    pub text: String,
    /// For programs.
    pub json: serde_json::Value,
}

/// A request that a client would send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The method.
    pub method: String,
    /// An absolute URL, or a path with a `Host` among the fields.
    pub url: String,
    /// The header fields, each as in `Name: value`.
    pub fields: Vec<String>,
    /// The address that the client connects from; without it nothing is decided by the address.
    pub client: Option<IpAddr>,
}

/// What a request would get, and why, as `titan explain` tells it.
#[derive(Clone, Debug)]
pub struct Explained {
    /// For people.
    pub text: String,
    /// For programs.
    pub json: serde_json::Value,
}

/// What was found in a configuration, as `titan check` tells it.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// For people.
    pub text: String,
    /// For programs: the `diagnostics` of `titan check --json`.
    pub json: Vec<serde_json::Value>,
}

/// Why the configuration in force is the one from before.
#[derive(Clone, Debug)]
pub enum NotApplied {
    /// The other one is wrong.
    Refused(Findings),
    /// It is right, and could not be put in force: an address is in use, say.
    Failed(Findings),
    /// Something is in the way: a configuration that waits for its confirmation, or none that does.
    Conflict(String),
    /// There is no such entry in the history.
    NotFound(String),
    /// Another change was asked for before this one's turn came.
    Superseded,
    /// The gateway drains, or too many orders wait.
    Unavailable,
}

/// Another process has taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgraded {
    /// What was started.
    pub program: PathBuf,
    /// The process that serves now.
    pub pid: u32,
    /// The version that it says it has.
    pub version: String,
}

/// Why the process that was asked goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotUpgraded {
    /// The other program cannot be started, or does not serve.
    Failed(String),
    /// Something is in the way: a configuration that waits for its confirmation, or another upgrade.
    Conflict(String),
    /// The gateway drains, or too many orders wait.
    Unavailable,
}

/// The configuration in force, to be shown.
#[derive(Clone, Debug)]
pub struct InForce {
    /// Its entry in the history.
    pub entry: Entry,
    /// The names of its documents.
    pub names: Vec<String>,
    /// What they say, with stars in place of secrets.
    pub masked: Arc<[Masked]>,
    /// What it comes to, as `titan check` prints it.
    pub summary: Arc<str>,
    /// Until when it waits to be confirmed, where it does.
    pub confirm_until: Option<SystemTime>,
}

/// What was in force.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The latest first.
    pub entries: Vec<Entry>,
    /// Why it, or a part of it, is not on the disk.
    pub notes: Vec<String>,
}

/// More orders than this do not wait.
const WAITING: usize = 16;

/// The way to the program, and where it arrives.
pub fn orders() -> (Orders, mpsc::Receiver<Order>) {
    let (orders, ordered) = mpsc::channel(WAITING);
    (Orders(orders), ordered)
}

impl Orders {
    /// Asks for another configuration, and waits for what comes of it.
    pub async fn change(&self, change: Change, author: Author) -> Result<Applied, NotApplied> {
        self.ask(|done| ConfigOrder::Change { change, author, done }).await?
    }

    /// Has the configuration stay that is on trial.
    pub async fn confirm(&self, author: Author) -> Result<Applied, NotApplied> {
        self.ask(|done| ConfigOrder::Confirm { author, done }).await?
    }

    /// What these documents would change in the configuration in force.
    pub async fn plan(&self, documents: Vec<Document>) -> Result<Planned, NotApplied> {
        self.ask(|done| ConfigOrder::Plan { documents, done }).await?
    }

    /// What a configuration of the history changed in another one, or in the one before it.
    pub async fn compare(&self, id: u64, against: Option<u64>) -> Result<Planned, NotApplied> {
        self.ask(|done| ConfigOrder::Compare { id, against, done }).await?
    }

    /// What a request would get under the configuration in force.
    pub async fn explain(&self, question: Question) -> Result<Explained, NotApplied> {
        self.ask(|done| ConfigOrder::Explain { question, done }).await?
    }

    /// The configuration in force.
    pub async fn in_force(&self) -> Result<InForce, NotApplied> {
        self.ask(ConfigOrder::InForce).await?
    }

    /// What was in force.
    pub async fn history(&self) -> Result<History, NotApplied> {
        self.ask(ConfigOrder::History).await?
    }

    /// Has another process take over, and waits until it serves or has failed.
    pub async fn upgrade(&self, program: Option<PathBuf>) -> Result<Upgraded, NotUpgraded> {
        let outcome = self.send(|done| Order::Upgrade(UpgradeOrder { program, done })).await;
        outcome.unwrap_or(Err(NotUpgraded::Unavailable))
    }

    async fn ask<T>(
        &self,
        order: impl FnOnce(oneshot::Sender<T>) -> ConfigOrder,
    ) -> Result<T, NotApplied> {
        let outcome = self.send(|done| Order::Configuration(order(done))).await;
        outcome.ok_or(NotApplied::Unavailable)
    }

    /// What comes back; nothing where the program takes no order, or drops this one.
    async fn send<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Option<T> {
        let (done, outcome) = oneshot::channel();
        self.0.try_send(order(done)).ok()?;
        outcome.await.ok()
    }
}

/// What a person is told. For what is wrong with a configuration that is the text of `titan check`.
impl fmt::Display for NotApplied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotApplied::Refused(findings) | NotApplied::Failed(findings) => {
                f.write_str(findings.text.trim_end())
            }
            NotApplied::Conflict(why) | NotApplied::NotFound(why) => f.write_str(why),
            NotApplied::Superseded => {
                f.write_str("another change was requested before this one could begin")
            }
            NotApplied::Unavailable => f.write_str(UNAVAILABLE),
        }
    }
}

impl std::error::Error for NotApplied {}

impl fmt::Display for NotUpgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotUpgraded::Failed(why) | NotUpgraded::Conflict(why) => why,
            NotUpgraded::Unavailable => UNAVAILABLE,
        })
    }
}

impl std::error::Error for NotUpgraded {}

const UNAVAILABLE: &str = "the gateway is draining, or too many requests are waiting for it";

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().unwrap()
    }

    #[test]
    fn what_nobody_takes_any_more_is_told() {
        let (orders, ordered) = orders();
        drop(ordered);
        let outcome = runtime().block_on(orders.confirm(Author::Signal));
        assert!(matches!(outcome, Err(NotApplied::Unavailable)));
        let outcome = runtime().block_on(orders.upgrade(None));
        assert_eq!(outcome, Err(NotUpgraded::Unavailable));
    }

    #[test]
    fn orders_wait_up_to_a_bound() {
        let (orders, mut ordered) = orders();
        runtime().block_on(async {
            let ask = || {
                let orders = orders.clone();
                async move { orders.change(Change::Reload, Author::Watch).await }
            };
            let mut waiting: Vec<_> = (0..WAITING).map(|_| Box::pin(ask())).collect();
            for one in &mut waiting {
                // Polled once, each is on its way.
                tokio::select! { biased; _ = one => unreachable!(), () = async {} => {} }
            }
            assert!(matches!(ask().await, Err(NotApplied::Unavailable)));
            let Some(Order::Configuration(ConfigOrder::Change { change, author, done })) =
                ordered.recv().await
            else {
                unreachable!()
            };
            assert_eq!((change, author), (Change::Reload, Author::Watch));
            let _ = done.send(Err(NotApplied::Superseded));
            assert!(matches!(waiting.remove(0).await, Err(NotApplied::Superseded)));
        });
    }
}
