//! Memory of exchanges, which one leaves to the next.

use crate::snapshot::Snapshot;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use titan_h1::{BodyReader, Framing, RequestReader};
use titan_http::{RequestHead, ResponseHead};
use titan_io::clock::Moment;
use titan_upstream::h1::H1Codec;

/// Memory that an exchange uses.
pub(crate) struct Scratch {
    /// The snapshot whose limits its readers have.
    snapshot: u64,
    pub(crate) requests: RequestReader,
    pub(crate) request: RequestHead,
    pub(crate) request_body: BodyReader,
    pub(crate) to_client: Vec<u8>,
    pub(crate) work: Work,
}

/// The part of it that serves the upstream's side.
pub(crate) struct Work {
    pub(crate) codec: H1Codec,
    pub(crate) response: ResponseHead,
    /// A text that is being put together.
    pub(crate) text: Vec<u8>,
}

/// The scratches of one worker that nobody uses. The one given back last is lent first: it is still in the cache.
#[derive(Default)]
pub(crate) struct Scratches {
    #[expect(
        clippy::vec_box,
        reason = "lent and given back for each request: only a pointer moves"
    )]
    kept: RefCell<Vec<Box<Scratch>>>,
    /// What these take.
    bytes: Cell<usize>,
    /// How many of them nobody has used since `looked`.
    unused: Cell<usize>,
    looked: Cell<Option<Moment>>,
}

/// How many bytes of scratches a worker keeps.
const KEPT: usize = 16 << 20;
/// A text that has grown beyond this is not kept.
const KEPT_TEXT: usize = 64 << 10;
/// How long what nobody uses is kept: that long, and as long again at the most.
const WHILE: Duration = Duration::from_secs(10);

impl Scratches {
    /// One of them with the limits of `snapshot`, or a new one.
    pub(crate) fn take(&self, snapshot: &Snapshot) -> Box<Scratch> {
        let mut kept = self.kept.borrow_mut();
        while let Some(scratch) = kept.pop() {
            self.bytes.set(self.bytes.get() - scratch.bytes());
            self.unused.set(self.unused.get().min(kept.len()));
            if scratch.snapshot == snapshot.id {
                return scratch;
            }
        }
        Box::new(Scratch::new(snapshot))
    }

    /// Keeps one for later, where there is room.
    pub(crate) fn put_back(&self, scratch: Box<Scratch>) {
        let bytes = self.bytes.get() + scratch.bytes();
        if bytes <= KEPT && scratch.texts().iter().all(|length| *length <= KEPT_TEXT) {
            self.bytes.set(bytes);
            self.kept.borrow_mut().push(scratch);
        }
    }

    /// Gives back what nobody has used for a while. To be called now and then.
    pub(crate) fn sweep(&self, now: Moment) {
        let looked = self.looked.get().unwrap_or(now);
        self.looked.set(Some(looked));
        if now.since(looked) < WHILE {
            return;
        }
        let mut kept = self.kept.borrow_mut();
        // Those at the bottom were used last a longer time ago than those above them.
        let freed: usize = kept.drain(..self.unused.get()).map(|scratch| scratch.bytes()).sum();
        self.bytes.set(self.bytes.get() - freed);
        self.unused.set(kept.len());
        self.looked.set(Some(now));
    }
}

impl Scratch {
    fn new(snapshot: &Snapshot) -> Scratch {
        let (requests, responses) = (snapshot.request_limits, snapshot.response_limits);
        Scratch {
            snapshot: snapshot.id,
            requests: RequestReader::new(requests),
            request: RequestHead::default(),
            request_body: BodyReader::new(Framing::None, &requests),
            to_client: Vec::new(),
            work: Work {
                codec: H1Codec::new(responses),
                response: ResponseHead::default(),
                text: Vec::new(),
            },
        }
    }

    /// The memory that its texts have come to.
    fn texts(&self) -> [usize; 7] {
        let Scratch { snapshot: _, requests: _, request, request_body, to_client, work } = self;
        let Work { codec, response, text } = work;
        let [out, trailers] = codec.capacities();
        [
            request.fields.capacity(),
            response.fields.capacity(),
            request_body.capacity(),
            to_client.capacity(),
            text.capacity(),
            out,
            trailers,
        ]
    }

    fn bytes(&self) -> usize {
        size_of::<Scratch>() + self.texts().iter().sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_io::clock::Clock;
    use titan_policies::credentials::Keys;

    fn snapshot() -> Snapshot {
        snapshot_with("")
    }

    fn snapshot_with(settings: &str) -> Snapshot {
        let text = format!("{{ listeners: [':0'], routes: [{{ respond: 204 }}], {settings} }}");
        let config = titan_config::Config::parse("test", &text).unwrap();
        Snapshot::unconnected(&config, Keys::unread(&config))
    }

    /// A scratch whose texts have grown to that.
    fn grown(snapshot: &Snapshot, to: usize) -> Box<Scratch> {
        let mut scratch = Box::new(Scratch::new(snapshot));
        scratch.to_client.reserve_exact(to);
        scratch.work.text.reserve_exact(to);
        scratch
    }

    fn kept(scratches: &Scratches) -> (usize, usize) {
        let kept = scratches.kept.borrow();
        assert_eq!(scratches.bytes.get(), kept.iter().map(|it| it.bytes()).sum::<usize>());
        (kept.len(), scratches.bytes.get())
    }

    #[test]
    fn what_is_kept_is_bounded_in_sum() {
        let (snapshot, scratches) = (snapshot(), Scratches::default());
        scratches.put_back(grown(&snapshot, KEPT_TEXT + 1));
        assert_eq!(kept(&scratches).0, 0, "none that is too large");
        (0..1000).for_each(|_| scratches.put_back(grown(&snapshot, KEPT_TEXT)));
        let (count, bytes) = kept(&scratches);
        assert!(count < 128 && bytes <= KEPT && bytes > KEPT / 8 * 7, "{count} of {bytes} bytes");
        let taken: Vec<_> = (0..count).map(|_| scratches.take(&snapshot)).collect();
        assert_eq!(kept(&scratches), (0, 0));
        taken.into_iter().for_each(|scratch| scratches.put_back(scratch));
        assert_eq!(kept(&scratches), (count, bytes));
    }

    #[test]
    fn limits_are_those_of_the_snapshot_that_serves() {
        let (before, scratches) = (snapshot(), Scratches::default());
        let after = snapshot_with("limits: { head: 4KiB, response_trailers: 1KiB }");
        let lent = [(); 2].map(|()| scratches.take(&before));
        let [first, second] = lent;
        scratches.put_back(first);
        assert_eq!(scratches.take(&after).requests.limits().head, 4 << 10);
        assert_eq!(kept(&scratches), (0, 0), "what has other limits is of no use any more");
        // On loan while the other one came.
        scratches.put_back(second);
        assert_eq!(scratches.take(&after).requests.limits().head, 4 << 10);
        scratches.put_back(scratches.take(&after));
        assert_eq!(kept(&scratches).0, 1);
    }

    #[test]
    fn what_nobody_uses_is_given_back() {
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
