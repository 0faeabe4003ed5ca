//! Memory of exchanges and of their calls to endpoints, which one leaves to the next.

use crate::snapshot::Snapshot;
use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::time::Duration;
use titan_h1::{BodyReader, Framing, RequestReader};
use titan_http::RequestHead;
use titan_io::clock::CoarseInstant;
use titan_io::message::Outbox;
use titan_upstream::call::CallMemory;

/// Memory that an exchange uses.
pub(crate) struct Scratch {
    pub(crate) requests: RequestReader,
    pub(crate) request: RequestHead,
    pub(crate) request_body: BodyReader,
    pub(crate) to_client: Outbox,
    /// A text that is being put together.
    pub(crate) text: Vec<u8>,
}

/// Memory that is used again.
pub(crate) trait Reused: Sized {
    /// For a worker that serves from `snapshot`.
    fn new(snapshot: &Snapshot) -> Self;
    /// The memory that each of its texts has come to.
    fn texts(&self) -> impl Iterator<Item = usize>;

    /// What it takes in all.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.texts().sum::<usize>()
    }
}

/// The unused memory of this kind on one worker. What was given back last is lent first: it is still in the cache.
pub(crate) struct Scratches<S> {
    kept: RefCell<Vec<Made<S>>>,
    /// What these take.
    bytes: Cell<usize>,
    /// How many of them were unused since `looked`.
    unused: Cell<usize>,
    looked: Cell<Option<CoarseInstant>>,
}

/// What is on loan; goes back when dropped.
pub(crate) struct Lease<S: Reused> {
    lent: Option<Made<S>>,
    home: Rc<Scratches<S>>,
}

/// What was made for a snapshot: its readers have the limits of that one.
struct Made<S> {
    snapshot: u64,
    /// Only a pointer moves when it is lent and given back, for each request.
    memory: Box<S>,
    /// What it took when it was given back: to ask it again would fetch it into the cache before it is used.
    bytes: usize,
}

/// How many bytes of each kind a worker keeps.
const KEPT: usize = 16 << 20;
/// A text that has grown beyond this is not kept.
const KEPT_TEXT: usize = 64 << 10;
/// How long unused memory is kept: at least this long, and at most twice as long.
const WHILE: Duration = Duration::from_secs(10);

impl<S> Default for Scratches<S> {
    fn default() -> Scratches<S> {
        let (kept, bytes, unused, looked) = Default::default();
        Scratches { kept, bytes, unused, looked }
    }
}

impl<S: Reused> Scratches<S> {
    /// Lends one of them with the limits of `snapshot`, or a new one.
    pub(crate) fn lend(self: &Rc<Self>, snapshot: &Snapshot) -> Lease<S> {
        Lease { lent: Some(self.take(snapshot)), home: Rc::clone(self) }
    }

    fn take(&self, snapshot: &Snapshot) -> Made<S> {
        let mut kept = self.kept.borrow_mut();
        while let Some(made) = kept.pop() {
            self.bytes.set(self.bytes.get() - made.bytes);
            self.unused.set(self.unused.get().min(kept.len()));
            if made.snapshot == snapshot.id {
                return made;
            }
        }
        Made { snapshot: snapshot.id, memory: Box::new(S::new(snapshot)), bytes: 0 }
    }

    /// Keeps one for later, where there is room.
    fn put_back(&self, mut made: Made<S>) {
        made.bytes = made.memory.bytes();
        let bytes = self.bytes.get() + made.bytes;
        if bytes <= KEPT && made.memory.texts().all(|length| length <= KEPT_TEXT) {
            self.bytes.set(bytes);
            self.kept.borrow_mut().push(made);
        }
    }

    /// What is kept for later takes that many bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Frees what was unused for a while. To be called now and then.
    pub(crate) fn sweep(&self, now: CoarseInstant) {
        let looked = self.looked.get().unwrap_or(now);
        self.looked.set(Some(looked));
        if now.since(looked) < WHILE {
            return;
        }
        let mut kept = self.kept.borrow_mut();
        // Those at the bottom were used last a longer time ago than those above them.
        let freed: usize = kept.drain(..self.unused.get()).map(|made| made.bytes).sum();
        self.bytes.set(self.bytes.get() - freed);
        self.unused.set(kept.len());
        self.looked.set(Some(now));
    }
}

impl<S: Reused> Deref for Lease<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.lent.as_ref().expect("only drop takes it").memory
    }
}

impl<S: Reused> DerefMut for Lease<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.lent.as_mut().expect("only drop takes it").memory
    }
}

impl<S: Reused> Drop for Lease<S> {
    fn drop(&mut self) {
        if let Some(lent) = self.lent.take() {
            self.home.put_back(lent);
        }
    }
}

impl Reused for Scratch {
    fn new(snapshot: &Snapshot) -> Scratch {
        let requests = snapshot.request_limits;
        Scratch {
            requests: RequestReader::new(requests),
            request: RequestHead::default(),
            request_body: BodyReader::new(Framing::None, &requests),
            to_client: Outbox::default(),
            text: Vec::new(),
        }
    }

    fn texts(&self) -> impl Iterator<Item = usize> {
        let Scratch { requests: _, request, request_body, to_client, text } = self;
        let (head, body) = (request.fields.capacity(), request_body.capacity());
        [head, body, to_client.capacity(), text.capacity()].into_iter()
    }
}

impl Reused for CallMemory {
    fn new(snapshot: &Snapshot) -> CallMemory {
        CallMemory::new(snapshot.response_limits)
    }

    fn texts(&self) -> impl Iterator<Item = usize> {
        self.capacities().into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_io::clock::Clock;
    use titan_policies::credentials::PolicyCredentials;

    fn snapshot() -> Snapshot {
        snapshot_with("")
    }

    fn snapshot_with(settings: &str) -> Snapshot {
        let text = format!("{{ listeners: [':0'], routes: [{{ respond: 204 }}], {settings} }}");
        let config = titan_config::Config::parse("test", &text).unwrap();
        Snapshot::unconnected(&config, &PolicyCredentials::unread(&config))
    }

    /// A scratch whose texts have grown to that.
    fn grown(snapshot: &Snapshot, to: usize) -> Made<Scratch> {
        let mut memory = Box::new(Scratch::new(snapshot));
        memory.text.reserve_exact(to);
        Made { snapshot: snapshot.id, memory, bytes: 0 }
    }

    fn kept(scratches: &Scratches<Scratch>) -> (usize, usize) {
        let kept = scratches.kept.borrow();
        assert_eq!(scratches.bytes.get(), kept.iter().map(|it| it.memory.bytes()).sum::<usize>());
        (kept.len(), scratches.bytes.get())
    }

    #[test]
    fn what_is_kept_is_bounded_in_sum() {
        let (snapshot, scratches) = (snapshot(), Scratches::default());
        scratches.put_back(grown(&snapshot, KEPT_TEXT + 1));
        assert_eq!(kept(&scratches).0, 0, "none that is too large");
        (0..1000).for_each(|_| scratches.put_back(grown(&snapshot, KEPT_TEXT)));
        let (count, bytes) = kept(&scratches);
        assert!(count < 256 && bytes <= KEPT && bytes > KEPT / 8 * 7, "{count} of {bytes} bytes");
        let taken: Vec<_> = (0..count).map(|_| scratches.take(&snapshot)).collect();
        assert_eq!(kept(&scratches), (0, 0));
        taken.into_iter().for_each(|scratch| scratches.put_back(scratch));
        assert_eq!(kept(&scratches), (count, bytes));
    }

    #[test]
    fn limits_are_those_of_the_snapshot_that_serves() {
        let (before, scratches) = (snapshot(), Scratches::<Scratch>::default());
        let after = snapshot_with("limits: { head: 4KiB, response_trailers: 1KiB }");
        let lent = [(); 2].map(|()| scratches.take(&before));
        let [first, second] = lent;
        scratches.put_back(first);
        assert_eq!(scratches.take(&after).memory.requests.limits().head, 4 << 10);
        assert_eq!(kept(&scratches), (0, 0), "what has other limits is of no use any more");
        // On loan while the other one came.
        scratches.put_back(second);
        assert_eq!(scratches.take(&after).memory.requests.limits().head, 4 << 10);
        scratches.put_back(scratches.take(&after));
        assert_eq!(kept(&scratches).0, 1);
    }

    #[test]
    fn unused_memory_is_freed() {
        let (snapshot, scratches, clock) = (snapshot(), Scratches::default(), Clock::new());
        (0..100).for_each(|_| scratches.put_back(grown(&snapshot, 1 << 10)));
        let look = |after: u32| scratches.sweep(clock.deadline(WHILE * after));
        look(0);
        look(1);
        assert_eq!(kept(&scratches).0, 100, "they have not been seen to be of no use");
        let used: Vec<_> = (0..30).map(|_| scratches.take(&snapshot)).collect();
        used.into_iter().for_each(|scratch| scratches.put_back(scratch));
        scratches.sweep(clock.deadline(WHILE));
        assert_eq!(kept(&scratches).0, 100, "not before a while is over");
        look(2);
        assert_eq!(kept(&scratches).0, 30);
        look(3);
        assert_eq!(kept(&scratches), (0, 0));
    }
}
