//! Exchanges with an endpoint over HTTP/2: many share a connection.

use super::Endpoint;
use super::call::{AnswerStart, Reply};
use super::pool::Connection;
use crate::clock::{Clock, Moment};
use crate::downstream::Content;
use crate::error::{Error, Side};
use crate::mux::{Mux, Progress, Receiver, Wire};
use crate::stream::Inbox;
use crate::worker::Worker;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use titan_h1::Framing;
use titan_h2::{Code, Event, ResponseStart};
use titan_http::{Method, ResponseHead, Status};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::{RecvError, TryRecvError};

/// How long a connection serves at the least before it gives way to others: less than most wait.
const TURN: Duration = Duration::from_millis(250);
/// How long the streams of one that has given way have to end before another one gives way.
const PAUSE: Duration = Duration::from_secs(1);

/// The connections of one worker that exchanges share, by endpoint.
#[derive(Default)]
pub(crate) struct Trunks {
    by_endpoint: RefCell<BTreeMap<u64, Towards>>,
}

/// The connections to one endpoint.
#[derive(Default)]
struct Towards {
    open: Vec<Rc<Trunk>>,
    /// Whether one is being opened, which those who come meanwhile wait for.
    is_opening: bool,
    /// Who waits, the first in front.
    waiting: VecDeque<oneshot::Sender<()>>,
    /// When one last gave way.
    gave_way: Option<Moment>,
}

/// A connection that exchanges share.
pub(crate) struct Trunk {
    pub(crate) mux: Rc<Mux>,
    endpoint: Arc<Endpoint>,
    opened: Moment,
    /// Whether it takes no more exchanges, because something is wrong with it.
    is_retired: Cell<bool>,
    /// When something last came from the endpoint.
    heard: Cell<Moment>,
    doubt: Cell<Doubt>,
}

/// Whether the endpoint is still there, as far as anybody has asked.
#[derive(Clone, Copy)]
enum Doubt {
    /// It is believed to be; not asked again before that.
    None { until: Moment },
    /// It has been asked, and has to answer by then.
    Asked { until: Moment },
}

/// An exchange that waits for its endpoint. Where it ends before anything has come, be it that its client has no
/// more patience, the connection may be dead, and that would be noticed by nobody.
pub(crate) struct Trial<'t> {
    trunk: &'t Trunk,
    clock: &'t Clock,
    began: Moment,
}

/// How long the answer to a ping may take.
const PONG: Duration = Duration::from_secs(2);
/// How long an endpoint that has answered one gets no other: servers send away who pings often.
const BELIEF: Duration = Duration::from_secs(60);

/// Whoever opens a connection; when dropped, those who wait for it look again.
pub(crate) struct Opening<'t> {
    trunks: &'t Trunks,
    endpoint: u64,
}

/// A wait for a stream. Whoever is told to look and has no use for a stream any more leaves it to the next one
/// who waits.
pub(crate) struct Offered<'t> {
    trunks: &'t Trunks,
    endpoint: u64,
    offered: oneshot::Receiver<()>,
}

impl Trunks {
    /// A connection to the endpoint that takes one more exchange.
    pub(crate) fn get(&self, endpoint: u64) -> Option<Rc<Trunk>> {
        let all = self.by_endpoint.borrow();
        let fit = |trunk: &&Rc<Trunk>| !trunk.is_retired.get() && trunk.mux.connection().can_open();
        all.get(&endpoint)?.open.iter().find(fit).map(Rc::clone)
    }

    /// Has those who come wait for the connection that the caller opens, for as long as this is kept.
    pub(crate) fn opening(&self, endpoint: u64) -> Opening<'_> {
        self.by_endpoint.borrow_mut().entry(endpoint).or_default().is_opening = true;
        Opening { trunks: self, endpoint }
    }

    /// Whether somebody opens a connection to the endpoint.
    pub(crate) fn is_opening(&self, endpoint: u64) -> bool {
        self.by_endpoint.borrow().get(&endpoint).is_some_and(|towards| towards.is_opening)
    }

    /// Waits until it may be worth while to look for a connection again.
    pub(crate) fn wait(&self, endpoint: u64) -> Offered<'_> {
        let (offer, offered) = oneshot::channel();
        self.by_endpoint.borrow_mut().entry(endpoint).or_default().waiting.push_back(offer);
        Offered { trunks: self, endpoint, offered }
    }

    /// Shares a connection from now on, in a task of its own, until nobody can use it.
    pub(crate) fn share(worker: &Rc<Worker>, connection: Connection) -> Rc<Trunk> {
        let limits = worker.snapshot().answer_limits;
        let mux = Mux::new(titan_h2::Connection::client(limits), Side::Upstream);
        let trunk = Trunk::new(mux, Arc::clone(&connection.endpoint), worker.clock.now());
        let mut all = worker.pools.trunks.by_endpoint.borrow_mut();
        all.entry(connection.endpoint.id).or_default().open.push(Rc::clone(&trunk));
        drop(tokio::task::spawn_local(drive(Rc::clone(worker), connection, Rc::clone(&trunk))));
        trunk
    }

    /// Closes what nobody uses and another worker waits for, or belongs to nobody any more; has what is used
    /// give way to those who wait elsewhere; forgets those who wait no more.
    pub(crate) fn sweep(&self, clock: &Clock) {
        self.by_endpoint.borrow_mut().retain(|_, towards| towards.sweep(clock));
    }

    /// The same for the connections to one endpoint.
    pub(crate) fn sweep_endpoint(&self, endpoint: u64, clock: &Clock) {
        if let Some(towards) = self.by_endpoint.borrow_mut().get_mut(&endpoint) {
            towards.sweep(clock);
        }
    }

    /// Lets as many of those who wait have a look as there is room for.
    fn offer(&self, trunk: &Trunk) {
        let mut all = self.by_endpoint.borrow_mut();
        let Some(towards) = all.get_mut(&trunk.endpoint.id).filter(|_| !trunk.is_retired.get())
        else {
            return;
        };
        while !towards.waiting.is_empty() && trunk.mux.connection().can_open() {
            // Each comes back for a stream; whoever finds none waits again.
            if towards.waiting.pop_front().is_some_and(|offer| offer.send(()).is_ok()) {
                break;
            }
        }
    }

    fn remove(&self, trunk: &Rc<Trunk>) {
        let mut all = self.by_endpoint.borrow_mut();
        let Some(towards) = all.get_mut(&trunk.endpoint.id) else { return };
        towards.open.retain(|other| !Rc::ptr_eq(other, trunk));
        towards.waiting.drain(..).for_each(wake);
        if towards.open.is_empty() && !towards.is_opening {
            all.remove(&trunk.endpoint.id);
        }
    }
}

impl Towards {
    /// Whether any connection is left, or anybody who waits for one.
    fn sweep(&mut self, clock: &Clock) -> bool {
        self.waiting.retain(|offer| !offer.is_closed());
        self.retire_idle();
        self.give_way(clock.now());
        self.is_opening || !self.open.is_empty() || !self.waiting.is_empty()
    }

    fn retire_idle(&self) {
        for trunk in &self.open {
            let Trunk { mux, endpoint, .. } = &**trunk;
            if mux.lanes() == 0 && (endpoint.slots.wanted() > 0 || endpoint.is_gone()) {
                trunk.retire();
            }
        }
    }

    /// Retires a connection that has had its turn, where there can be no other and somebody waits who cannot
    /// use it: on another worker, or for HTTP/1.1. The slot goes to whoever has waited longest.
    fn give_way(&mut self, now: Moment) {
        let Some(first) = self.open.first() else { return };
        let slots = &first.endpoint.slots;
        let is_wanted = slots.is_full() && slots.wanted() as usize > self.waiting.len();
        // The last one may have streams that go on for long.
        let is_soon = self.gave_way.is_some_and(|last| now.since(last) < PAUSE);
        if is_wanted && !is_soon {
            let has_had_its_turn =
                |trunk: &&Rc<Trunk>| !trunk.is_retired.get() && now.since(trunk.opened) >= TURN;
            let given = self.open.iter().find(has_had_its_turn).inspect(|trunk| trunk.retire());
            self.gave_way = given.map(|_| now).or(self.gave_way);
        }
    }
}

/// Has somebody who waits look again, if that one still does.
fn wake(offer: oneshot::Sender<()>) {
    let _ = offer.send(());
}

impl Future for Offered<'_> {
    type Output = Result<(), RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.offered).poll(cx)
    }
}

impl Drop for Offered<'_> {
    fn drop(&mut self) {
        if matches!(self.offered.try_recv(), Err(TryRecvError::Empty)) {
            return;
        }
        // By the time that the drivers look, the stream is taken, or nobody here wants it.
        let all = self.trunks.by_endpoint.borrow();
        let Some(towards) = all.get(&self.endpoint) else { return };
        towards.open.iter().for_each(|trunk| trunk.mux.wake_driver());
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut all = self.trunks.by_endpoint.borrow_mut();
        if let Some(towards) = all.get_mut(&self.endpoint) {
            towards.is_opening = false;
            towards.waiting.drain(..).for_each(wake);
        }
    }
}

impl Trunk {
    fn new(mux: Rc<Mux>, endpoint: Arc<Endpoint>, now: Moment) -> Rc<Trunk> {
        Rc::new(Trunk {
            mux,
            endpoint,
            opened: now,
            is_retired: Cell::new(false),
            heard: Cell::new(now),
            doubt: Cell::new(Doubt::None { until: now }),
        })
    }

    /// An exchange begins on it.
    pub(crate) fn trial<'t>(&'t self, clock: &'t Clock) -> Trial<'t> {
        Trial { trunk: self, clock, began: clock.now() }
    }

    /// Asks the endpoint whether it is there, unless that was asked not long ago.
    fn ask(&self, clock: &Clock) {
        if matches!(self.doubt.get(), Doubt::None { until } if clock.is_past(until)) {
            self.mux.connection().ping();
            self.doubt.set(Doubt::Asked { until: clock.deadline(PONG) });
            self.mux.wake_driver();
        }
    }

    /// Takes it out of use when the endpoint has not answered in time; until when it may.
    fn judge(&self, clock: &Clock) -> Moment {
        match self.doubt.get() {
            Doubt::Asked { until } if !self.is_retired.get() => {
                if clock.is_past(until) {
                    self.retire();
                }
                until
            }
            Doubt::Asked { .. } | Doubt::None { .. } => Moment::NEVER,
        }
    }

    /// Has it take no more exchanges.
    pub(crate) fn retire(&self) {
        self.is_retired.set(true);
        self.mux.wake_driver();
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        if self.trunk.heard.get() < self.began {
            self.trunk.ask(self.clock);
        }
    }
}

/// Moves what exchanges send and receive over a connection, until nobody can use it any more.
async fn drive(worker: Rc<Worker>, mut connection: Connection, trunk: Rc<Trunk>) {
    let timer = worker.clock.timer();
    let (mut inbox, mut progress) = (Inbox::default(), Progress::new(&worker.clock));
    let mut idle_until = None;
    let Trunk { mux, endpoint, is_retired, heard, doubt, .. } = &*trunk;
    poll_fn(|cx| {
        let clock = timer.clock();
        let mut wire = Wire {
            mux,
            stream: &mut connection.stream,
            inbox: &mut inbox,
            buffers: &worker.buffers,
            clock,
            patience: worker.snapshot().timeouts.write,
            progress: &mut progress,
        };
        let on_event = |event| {
            if matches!(event, Event::Pong) {
                doubt.set(Doubt::None { until: clock.deadline(BELIEF) });
            }
        };
        if wire.poll(cx, on_event).is_ready() {
            return Poll::Ready(());
        }
        heard.set(wire.progress.heard());
        let asked = trunk.judge(clock);
        let is_idle = mux.lanes() == 0;
        let is_useless = is_retired.get() || mux.connection().is_over() || endpoint.is_gone();
        idle_until = is_idle.then(|| idle_until.unwrap_or(clock.deadline(endpoint.idle_timeout)));
        let last = idle_until.unwrap_or(Moment::NEVER);
        if is_idle && (is_useless || clock.is_past(last)) {
            mux.connection().go_away(Code::NoError);
            let _ = wire.write(cx);
            return Poll::Ready(());
        }
        worker.pools.trunks.offer(&trunk);
        timer.wake_at(cx, last.min(asked).min(wire.progress.deadline()));
        Poll::Pending
    })
    .await;
    trunk.retire();
    mux.lose();
    connection.stream.say_goodbye();
    drop(connection);
    worker.pools.trunks.remove(&trunk);
}

/// The answer on its way in.
pub(crate) struct Answer {
    pub(crate) receiver: Receiver,
    pub(crate) method: Method,
}

impl Reply for Answer {
    type Body = Receiver;

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut ResponseHead,
    ) -> Poll<Result<AnswerStart, Error>> {
        self.receiver.poll_head(cx, head).map_ok(|start| {
            let ResponseStart { interim, .. } = start;
            let content = content(start, self.method, head.status);
            AnswerStart { interim, content, keep_alive: true }
        })
    }

    fn into_body(self) -> Receiver {
        self.receiver
    }
}

fn content(start: ResponseStart, method: Method, status: Status) -> Content {
    let ResponseStart { end, length, .. } = start;
    let can_have_body =
        method != Method::HEAD && !matches!(status, Status::NO_CONTENT | Status::NOT_MODIFIED);
    let framing = match length {
        _ if !can_have_body => Framing::None,
        _ if end => Framing::Length(0),
        Some(length) => Framing::Length(length),
        None => Framing::Chunked,
    };
    Content { framing, declared: length }
}

#[cfg(test)]
mod tests {
    use super::super::connect::Address;
    use super::super::slots::{Bidder, Slot, Wants};
    use super::super::{Place, Upstream};
    use super::*;
    use std::num::NonZeroU16;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[test]
    fn those_who_wait_look_again_when_opening_is_over() {
        let trunks = Trunks::default();
        let opening = trunks.opening(1);
        assert!(trunks.is_opening(1) && !trunks.is_opening(2));
        let mut waits = trunks.wait(1);
        assert!(waits.offered.try_recv().is_err());
        drop(opening);
        assert!(!trunks.is_opening(1));
        assert_eq!(waits.offered.try_recv(), Ok(()));
    }

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// An endpoint that takes two connections.
    fn endpoint() -> Arc<Endpoint> {
        let text = "{ listeners: ['127.0.0.1:0'], workers: 1, routes: [{ upstream: u }], \
                    upstreams: { u: { endpoints: '127.0.0.1:1', max_connections: 2 } } }";
        let config = titan_config::Config::parse("test", text).unwrap();
        let upstream = Upstream::new(&config.upstreams[0], None);
        let address = Address::Ip(([127, 0, 0, 1], 1).into());
        upstream.set_places(vec![Place { address, host: "a".into(), weight: NonZeroU16::MIN }]);
        Arc::clone(&upstream.members().endpoints[0])
    }

    #[test]
    fn what_was_offered_to_one_who_left_is_for_the_next() {
        let endpoint = endpoint();
        let id = endpoint.id;
        let connection = titan_h2::Connection::client(titan_h2::Limits::default());
        let mux = Mux::new(connection, Side::Upstream);
        let woken = Arc::new(Woken::default());
        mux.set_driver(&Context::from_waker(&Arc::clone(&woken).into()));
        let trunk = Trunk::new(mux, endpoint, Moment::NEVER);
        let trunks = Trunks::default();
        let (first, mut second, third) = (trunks.wait(id), trunks.wait(id), trunks.wait(id));
        trunks.by_endpoint.borrow_mut().entry(id).or_default().open.push(Rc::clone(&trunk));
        let woken = || woken.0.load(Ordering::Relaxed);
        drop(third);
        assert_eq!(woken(), 0);
        trunks.offer(&trunk);
        assert!(second.offered.try_recv().is_err());
        drop(first);
        assert_eq!(woken(), 1);
        trunks.offer(&trunk);
        assert_eq!(second.offered.try_recv(), Ok(()));
    }

    #[test]
    fn another_gives_way_where_the_streams_of_the_first_go_on() {
        let endpoint = endpoint();
        let mut taken = [(); 2].map(|()| endpoint.slots.try_take(None).unwrap());
        taken.iter_mut().for_each(Slot::share);
        let _elsewhere =
            endpoint.slots.queue(Bidder { client: None, worker: 1 }, Wants::Slot).unwrap();
        let clock = Clock::new();
        let trunk = || {
            let connection = titan_h2::Connection::client(titan_h2::Limits::default());
            let mux = Mux::new(connection, Side::Upstream);
            Trunk::new(mux, Arc::clone(&endpoint), clock.now())
        };
        let mut towards = Towards { open: vec![trunk(), trunk()], ..Towards::default() };
        let mut retired_after = |wait: Duration| {
            towards.give_way(clock.deadline(wait));
            towards.open.iter().filter(|trunk| trunk.is_retired.get()).count()
        };
        assert_eq!(retired_after(Duration::ZERO), 0);
        assert_eq!(retired_after(TURN), 1);
        assert_eq!(retired_after(TURN * 2), 1);
        assert_eq!(retired_after(TURN + PAUSE), 2);
    }
}
