//! How many connections may be open at once, in sum and for each client, and which one closes for the next.
//!
//! ```text
//!            a slot is free            waits for the client
//! Queued ──────────────────▶ Busy ◀───────────────────────▶ Waits ──▶ Leaves
//!                                                   another one needs the slot
//! ```

use super::{ClientNetwork, Peer};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};

/// The connections that a server may have open.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    connections: Mutex<Connections>,
    /// How many are open or queued.
    open: watch::Sender<usize>,
}

#[derive(Debug)]
struct Connections {
    /// How many there may be.
    most: usize,
    /// How many of them one client may have.
    share: usize,
    /// Whether all have to close as soon as they are idle.
    is_closing: bool,
    all: BTreeMap<u64, Connection>,
    /// Those that wait for a slot, in the order in which they have come.
    queue: VecDeque<u64>,
    /// Greater than any number that was used.
    next: u64,
}

#[derive(Debug)]
struct Connection {
    client: Client,
    stage: Stage,
    /// When another stage was chosen for it.
    news: Arc<Notify>,
}

/// Who shares a part of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Client {
    Network(ClientNetwork),
    User(u32),
}

/// How many connections there are, and how many of each client.
#[derive(Default)]
struct Count {
    all: usize,
    of: HashMap<Client, usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// There is no slot for it yet.
    Queued,
    /// It must not close: its request is being served, or the body of one is being received.
    Busy,
    /// It waits for its client, since that moment, and closes if another one needs its slot.
    Waits(u64, What),
    /// It has to close.
    Leaves,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A handshake, or a request: without it, the connection also closes when the server does.
    Begin,
    /// The rest of a head, or that the client takes a response.
    GoOn,
    /// The end of a response that comes piece by piece: it closes with the server, but makes no room for others.
    Stream,
}

/// There are as many responses that come piece by piece as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<ConnectionSlots>,
    id: u64,
    news: Arc<Notify>,
}

impl ConnectionSlots {
    /// So many, all free, and so many of them for each client.
    pub(super) fn new(most: u32, share: u32) -> ConnectionSlots {
        let connections = Connections {
            most: most as usize,
            share: share as usize,
            is_closing: false,
            all: BTreeMap::new(),
            queue: VecDeque::new(),
            next: 0,
        };
        ConnectionSlots { connections: Mutex::new(connections), open: watch::Sender::new(0) }
    }

    /// The place of a connection from there, which may have to queue. `None` if too many do.
    pub(super) fn enter(self: &Arc<ConnectionSlots>, peer: &Peer) -> Option<Slot> {
        let mut connections = self.lock();
        let news = Arc::new(Notify::new());
        let id = connections.add(Client::of(peer), &news)?;
        self.open.send_replace(connections.all.len());
        Some(Slot { slots: Arc::clone(self), id, news })
    }

    /// Has all connections close as soon as they are idle. No further one is there to come.
    pub(super) fn close(&self) {
        let mut connections = self.lock();
        connections.is_closing = true;
        for connection in connections.all.values_mut() {
            if matches!(connection.stage, Stage::Waits(_, What::Begin | What::Stream)) {
                connection.enter(Stage::Leaves);
            }
        }
    }

    /// Waits until no connection is open.
    pub(super) async fn are_free(&self) {
        let _ = self.open.subscribe().wait_for(|open| *open == 0).await;
    }

    /// Whether all connections have to close.
    pub(super) fn is_closing(&self) -> bool {
        self.lock().is_closing
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Waits until the connection may be served.
    pub(super) async fn is_free(&self) {
        self.is_in(|stage| stage != Stage::Queued).await;
    }

    /// Does `work`, which waits for the client. `None` if the connection has to close before that is done.
    pub(super) async fn waiting<T>(&self, what: What, work: impl Future<Output = T>) -> Option<T> {
        self.slots.lock().begin_to_wait(self.id, what);
        self.unless_it_leaves(work).await
    }

    /// Does `work`, which sends a response piece by piece. `None` if the server closes before that is done.
    pub(super) async fn streaming<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, NoRoom> {
        self.slots.lock().begin_to_stream(self.id)?;
        Ok(self.unless_it_leaves(work).await)
    }

    async fn unless_it_leaves<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            // What has come at the same moment is served.
            biased;
            done = work => {
                self.slots.lock().stay(self.id);
                Some(done)
            }
            () = self.is_in(|stage| stage == Stage::Leaves) => None,
        }
    }

    /// Whether all connections have to close.
    pub(super) fn is_closing(&self) -> bool {
        self.slots.is_closing()
    }

    async fn is_in(&self, wanted: impl Fn(Stage) -> bool) {
        while !self.slots.lock().all.get(&self.id).is_some_and(|it| wanted(it.stage)) {
            self.news.notified().await;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut connections = self.slots.lock();
        connections.remove(self.id);
        self.slots.open.send_replace(connections.all.len());
    }
}

impl Connections {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Adds one that queues unless there is a slot. `None` if too many do: as many may as may be open, of all clients and of each.
    fn add(&mut self, client: Client, news: &Arc<Notify>) -> Option<u64> {
        let open = self.count(|stage| stage != Stage::Queued);
        let queued = self.count(|stage| stage == Stage::Queued);
        if !self.has_room(&open, client) && !self.has_room(&queued, client) {
            return None;
        }
        let id = self.number();
        let connection = Connection { client, stage: Stage::Queued, news: Arc::clone(news) };
        self.all.insert(id, connection);
        self.queue.push_back(id);
        self.settle();
        Some(id)
    }

    fn remove(&mut self, id: u64) {
        self.all.remove(&id);
        self.queue.retain(|queued| *queued != id);
        self.settle();
    }

    fn count(&self, is_counted: impl Fn(Stage) -> bool) -> Count {
        let mut count = Count::default();
        self.all.values().filter(|it| is_counted(it.stage)).for_each(|it| count.add(it.client));
        count
    }

    fn has_room(&self, count: &Count, client: Client) -> bool {
        count.all < self.most && count.of(client) < self.share
    }

    fn begin_to_wait(&mut self, id: u64, what: What) {
        let since = self.number();
        let is_over = self.is_closing && what != What::GoOn;
        self.enter(id, if is_over { Stage::Leaves } else { Stage::Waits(since, what) });
        self.settle();
    }

    /// Half of the connections may, and half of those of each client: the others stay for calls.
    fn begin_to_stream(&mut self, id: u64) -> Result<(), NoRoom> {
        let Some(client) = self.all.get(&id).map(|it| it.client) else { return Err(NoRoom) };
        let streams = self.count(|stage| matches!(stage, Stage::Waits(_, What::Stream)));
        // Nor does one begin that would end at once.
        let is_over = self.is_closing;
        if is_over || streams.all >= self.most / 2 || streams.of(client) >= self.share / 2 {
            return Err(NoRoom);
        }
        self.begin_to_wait(id, What::Stream);
        Ok(())
    }

    fn stay(&mut self, id: u64) {
        self.enter(id, Stage::Busy);
        // It may have been the one that was to leave.
        self.settle();
    }

    /// Gives free slots to those that queue, and has as many others leave as it takes for the rest of the queue.
    fn settle(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        let mut open = self.count(|stage| stage != Stage::Queued);
        // When all have left that are to leave, and those have come that these make room for.
        let mut soon = self.count(|stage| !matches!(stage, Stage::Queued | Stage::Leaves));
        for id in std::mem::take(&mut self.queue) {
            let client = self.all[&id].client;
            if self.has_room(&open, client) {
                self.enter(id, Stage::Busy);
                open.add(client);
                soon.add(client);
                continue;
            }
            self.queue.push_back(id);
            if !self.has_room(&soon, client) {
                let Some((other, its_client)) = self.to_leave(client, &soon) else { continue };
                self.enter(other, Stage::Leaves);
                soon.remove(its_client);
            }
            soon.add(client);
        }
    }

    fn enter(&mut self, id: u64, stage: Stage) {
        if let Some(connection) = self.all.get_mut(&id) {
            connection.enter(stage);
        }
    }

    /// Which connection leaves for one of that client: its own where its share is used up, otherwise one of the client that has
    /// the most. Of these it is the one that has waited for longest.
    fn to_leave(&self, client: Client, count: &Count) -> Option<(u64, Client)> {
        let is_own = count.of(client) >= self.share;
        let waiting = self.all.iter().filter_map(|(id, it)| match it.stage {
            Stage::Waits(since, What::Begin | What::GoOn) if !is_own || it.client == client => {
                Some(((count.of(it.client), Reverse(since)), (*id, it.client)))
            }
            _ => None,
        });
        waiting.max_by_key(|(rank, _)| *rank).map(|(_, found)| found)
    }
}

impl Count {
    fn of(&self, client: Client) -> usize {
        self.of.get(&client).copied().unwrap_or_default()
    }

    fn add(&mut self, client: Client) {
        self.all += 1;
        *self.of.entry(client).or_default() += 1;
    }

    fn remove(&mut self, client: Client) {
        self.all -= 1;
        self.of.entry(client).and_modify(|count| *count -= 1);
    }
}

impl Connection {
    fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        self.news.notify_one();
    }
}

impl Client {
    fn of(peer: &Peer) -> Client {
        match peer {
            Peer::Process { uid, .. } => Client::User(*uid),
            Peer::Client { address, .. } => Client::Network(ClientNetwork::of(address.ip())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::net::{IpAddr, SocketAddr};

    fn client(address: &str) -> Peer {
        let address: IpAddr = address.parse().unwrap();
        Peer::Client { address: SocketAddr::from((address, 1)), is_secure: false }
    }

    fn stage(slot: &Slot) -> Stage {
        slot.slots.lock().all[&slot.id].stage
    }

    fn waits(slot: &Slot, what: What) {
        slot.slots.lock().begin_to_wait(slot.id, what);
    }

    #[test]
    fn a_client_has_its_share_and_as_many_that_wait() {
        let slots = Arc::new(ConnectionSlots::new(4, 2));
        let network = ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4"];
        let ours = network.map(|address| slots.enter(&client(address)).unwrap());
        assert_eq!(
            [0, 1, 2, 3].map(|it| stage(&ours[it]) == Stage::Queued),
            [false, false, true, true]
        );
        assert!(slots.enter(&client("2001:db8::5")).is_none());
        let other = slots.enter(&client("2001:db8:0:1::1")).unwrap();
        assert_eq!(stage(&other), Stage::Busy, "another network");
        let [first, second, third, fourth] = ours;
        drop(third);
        drop(first);
        assert_eq!((stage(&second), stage(&fourth)), (Stage::Busy, Stage::Busy));
    }

    #[test]
    fn whose_share_is_used_up_gives_way_to_itself() {
        let slots = Arc::new(ConnectionSlots::new(4, 2));
        let other = slots.enter(&client("10.0.0.2")).unwrap();
        let ours = [(); 2].map(|()| slots.enter(&client("10.0.0.1")).unwrap());
        waits(&other, What::Begin);
        waits(&ours[1], What::GoOn);
        waits(&ours[0], What::Begin);
        let next = slots.enter(&client("10.0.0.1")).unwrap();
        assert_eq!(stage(&ours[1]), Stage::Leaves, "it waits for longer than the other one");
        assert!(matches!(stage(&other), Stage::Waits(..)));
        // Its request has come at the last moment: now the other one has to go.
        slots.lock().stay(ours[1].id);
        assert_eq!((stage(&ours[0]), stage(&next)), (Stage::Leaves, Stage::Queued));
    }

    #[test]
    fn who_has_the_most_gives_way_to_others() {
        let slots = Arc::new(ConnectionSlots::new(4, 3));
        let one = slots.enter(&client("10.0.0.1")).unwrap();
        waits(&one, What::Begin);
        let many = [(); 3].map(|()| slots.enter(&client("10.0.0.2")).unwrap());
        many.iter().for_each(|it| waits(it, What::GoOn));
        let next = slots.enter(&client("10.0.0.3")).unwrap();
        assert_eq!((stage(&many[0]), stage(&next)), (Stage::Leaves, Stage::Queued));
        assert!(matches!(stage(&one), Stage::Waits(..)));
        let another = slots.enter(&client("10.0.0.4")).unwrap();
        assert_eq!((stage(&many[1]), stage(&another)), (Stage::Leaves, Stage::Queued));
        let [first, ..] = many;
        drop(first);
        assert_eq!((stage(&next), stage(&another)), (Stage::Busy, Stage::Queued));
    }

    #[tokio::test]
    async fn streams_take_half_of_the_slots_and_give_way_to_nobody() {
        let slots = Arc::new(ConnectionSlots::new(6, 4));
        let enter = |address| slots.enter(&client(address)).unwrap();
        let begin = |slot: &Slot| slots.lock().begin_to_stream(slot.id);
        let ours = [(); 3].map(|()| enter("10.0.0.1"));
        assert_eq!([0, 1, 2].map(|it| begin(&ours[it])), [Ok(()), Ok(()), Err(NoRoom)]);
        let theirs = [(); 2].map(|()| enter("10.0.0.2"));
        assert_eq!([0, 1].map(|it| begin(&theirs[it])), [Ok(()), Err(NoRoom)], "of all");
        waits(&ours[2], What::Begin);
        let more = [(); 2].map(|()| enter("10.0.0.1"));
        assert_eq!(stage(&ours[2]), Stage::Leaves, "the only one that may");
        assert_eq!(more.each_ref().map(stage), [Stage::Busy, Stage::Queued]);
        let work = async { slots.close() };
        let streaming = async { theirs[1].streaming(pending::<()>()).await };
        drop(ours);
        assert_eq!(tokio::join!(streaming, work).0, Ok(None), "the server closes");
        assert_eq!(stage(&theirs[0]), Stage::Leaves);
        assert_eq!(begin(&more[0]), Err(NoRoom), "it closes");
    }

    #[tokio::test]
    async fn what_has_begun_goes_on_when_the_server_closes() {
        let slots = Arc::new(ConnectionSlots::new(2, 2));
        let [idle, begun] = [(); 2].map(|()| slots.enter(&client("10.0.0.1")).unwrap());
        let waiting = async {
            assert_eq!(idle.waiting(What::Begin, pending::<()>()).await, None);
            assert_eq!(idle.waiting(What::Begin, async { 1 }).await, Some(1), "it had come");
        };
        let going_on = begun.waiting(What::GoOn, pending::<()>());
        tokio::pin!(going_on);
        tokio::select! { biased; _ = &mut going_on => unreachable!(), () = async {} => {} }
        tokio::join!(waiting, async { slots.close() });
        tokio::select! { biased; _ = &mut going_on => unreachable!(), () = async {} => {} }
    }
}
