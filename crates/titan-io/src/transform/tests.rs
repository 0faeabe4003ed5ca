//! Lists of transforms against the same done naively to a whole body.

use super::*;
use crate::relay::{Pump, StallLimits, Stop};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

/// A body in pieces, with a pause behind each.
#[derive(Default)]
struct Pieces {
    left: std::collections::VecDeque<Vec<u8>>,
    here: Vec<u8>,
    /// How it fails behind its last piece.
    fails: Option<Kind>,
    trailers: Fields,
    /// Whether it has paused since the last piece.
    is_pausing: bool,
    has_ended: bool,
    /// What `poll_ahead` finds, at each poll.
    ahead: std::collections::VecDeque<usize>,
}

impl BodySource for Pieces {
    fn poll_data(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if !self.here.is_empty() || self.has_ended {
            return Poll::Ready(Ok(()));
        }
        self.is_pausing = !self.is_pausing;
        if self.is_pausing {
            return Poll::Pending;
        }
        match (self.left.pop_front(), self.fails) {
            (Some(piece), _) => self.here = piece,
            (None, Some(kind)) => return Poll::Ready(Err(kind.into())),
            (None, None) => self.has_ended = true,
        }
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        &self.here
    }

    fn consume(&mut self, count: usize) {
        self.here.drain(..count);
    }

    fn is_done(&self) -> bool {
        self.has_ended && self.here.is_empty()
    }

    fn is_last(&self) -> bool {
        self.has_ended && self.trailers.is_empty()
    }

    fn trailers(&self) -> &Fields {
        &self.trailers
    }
}

impl RequestBody for Pieces {
    fn poll_ahead(&mut self, _: &mut Context<'_>, wanted: usize) -> Poll<Result<(), Error>> {
        self.ahead.pop_front();
        if self.ahead() >= wanted { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn ahead(&self) -> usize {
        self.ahead.front().copied().unwrap_or_default()
    }

    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<ClientState> {
        Poll::Pending
    }

    fn poll_lost(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn is_broken(&self) -> bool {
        false
    }

    fn is_abandoned(&self) -> bool {
        false
    }

    fn set_limit(&mut self, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn received(&self) -> u64 {
        0
    }
}

/// Whether a body has asked to be polled again, because others are to have their turn before.
#[derive(Default)]
struct Again(AtomicBool);

impl Wake for Again {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Transforms of every kind: each has a twin that does the same to all of a body.
#[derive(Clone, Copy, Debug)]
enum Toy {
    /// Puts each byte out so many times, and little at once.
    Swell(usize),
    /// Holds bytes back until there are some.
    Hold,
    /// Lets bytes below 100 through alone.
    Sift,
    /// Passes a byte at a time, each of which costs half a turn.
    Toil,
    /// Has the names of the trailers, and how many bytes there were, in place of trailers; but one remains.
    Seal,
}

/// A toy at work.
struct Running {
    toy: Toy,
    held: Vec<u8>,
    count: usize,
}

const AT_ONCE: usize = 7;

impl Toy {
    fn runs(self) -> Running {
        Running { toy: self, held: Vec::new(), count: 0 }
    }

    /// What happens to a body that has come as far as that, and to its trailers where they have come too.
    fn naive(self, body: &[u8], trailers: Option<&mut Fields>) -> Vec<u8> {
        match self {
            Toy::Swell(times) => body.iter().flat_map(|byte| vec![*byte; times]).collect(),
            Toy::Hold | Toy::Toil => body.to_vec(),
            Toy::Sift => body.iter().copied().filter(|byte| *byte < 100).collect(),
            Toy::Seal => {
                let sealed = trailers.map(|trailers| {
                    let text = seal(body.len(), trailers);
                    *trailers = sealed_trailers();
                    text
                });
                [body, &sealed.unwrap_or_default()].concat()
            }
        }
    }
}

fn seal(count: usize, trailers: &Fields) -> Vec<u8> {
    let names: Vec<_> = trailers.iter().map(|field| field.name.to_vec()).collect();
    [count.to_string().as_bytes(), &names.concat()].concat()
}

fn sealed_trailers() -> Fields {
    let mut fields = Fields::default();
    fields.append_named(b"sealed", b"1").unwrap();
    fields
}

impl BodyTransform for Running {
    fn take(
        &mut self,
        input: &[u8],
        turn: &mut Turn,
        out: &mut Vec<u8>,
    ) -> Result<StepResult, Error> {
        let all = StepResult { bytes: input.len(), has_more: false };
        turn.spend(input.len());
        match self.toy {
            Toy::Swell(times) => {
                let bytes = if self.held.is_empty() {
                    let count = input.len().min(AT_ONCE);
                    self.held = Toy::Swell(times).naive(&input[..count], None);
                    count
                } else {
                    0
                };
                let count = self.held.len().min(AT_ONCE);
                out.extend(self.held.drain(..count));
                Ok(StepResult { bytes, has_more: !self.held.is_empty() })
            }
            Toy::Hold => {
                self.held.extend_from_slice(input);
                if self.held.len() > AT_ONCE {
                    out.append(&mut self.held);
                }
                Ok(all)
            }
            Toy::Sift => {
                out.extend(self.toy.naive(input, None));
                Ok(all)
            }
            Toy::Toil => {
                out.push(input[0]);
                turn.spend(TURN / 2);
                Ok(StepResult { bytes: 1, has_more: false })
            }
            Toy::Seal => {
                self.count += input.len();
                out.extend_from_slice(input);
                Ok(all)
            }
        }
    }

    fn end(&mut self, trailers: &Fields, out: &mut Vec<u8>) -> Result<Option<Fields>, Error> {
        out.append(&mut self.held);
        let Toy::Seal = self.toy else { return Ok(None) };
        out.extend(seal(self.count, trailers));
        Ok(Some(sealed_trailers()))
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        out.append(&mut self.held);
        Ok(())
    }
}

fn toys() -> impl Strategy<Value = Vec<Toy>> {
    let toy = prop_oneof![
        (1_usize..30).prop_map(Toy::Swell),
        Just(Toy::Hold),
        Just(Toy::Sift),
        Just(Toy::Toil),
        Just(Toy::Seal),
    ];
    proptest::collection::vec(toy, 0..4)
}

fn listed(toys: &[Toy]) -> Transforms<'static> {
    let mut transforms = Transforms::default();
    toys.iter().for_each(|toy| transforms.push(toy.runs()));
    transforms
}

/// A body after one toy after the other.
fn naive(toys: &[Toy], body: &[u8], mut trailers: Option<&mut Fields>) -> Vec<u8> {
    let through = |body: Vec<u8>, toy: &Toy| toy.naive(&body, trailers.as_deref_mut());
    toys.iter().fold(body.to_vec(), through)
}

proptest! {
    #[test]
    fn however_it_comes_and_is_taken_it_is_what_the_naive_twins_make_of_it(
        toys in toys(),
        pieces in proptest::collection::vec(proptest::collection::vec(90_u8..110, 1..60), 0..6),
        window in 1_usize..80,
        trailers in proptest::collection::vec("[a-z]{1,5}", 0..3),
        fails: bool,
    ) {
        let mut source = Pieces { left: pieces.clone().into(), ..Pieces::default() };
        source.fails = fails.then_some(Kind::Truncated);
        for name in &trailers {
            source.trailers.append_named(name.as_bytes(), b"x").unwrap();
        }
        let mut ended = source.trailers.clone();
        let mut body = Transformed::new(&mut source, listed(&toys));
        let again = Arc::<Again>::default();
        let waker = Waker::from(Arc::clone(&again));
        let mut cx = Context::from_waker(&waker);
        let (mut out, mut has_failed) = (Vec::new(), false);
        let mut was_last = false;
        while !body.is_done() && !has_failed {
            match body.poll_data(&mut cx) {
                Poll::Ready(Ok(())) => {
                    was_last |= body.is_last();
                    let count = body.data().len().min(window);
                    out.extend_from_slice(&body.data()[..count]);
                    body.consume(count);
                }
                Poll::Ready(Err(error)) => {
                    prop_assert_eq!(error.kind, Kind::Truncated);
                    has_failed = true;
                }
                Poll::Pending if again.0.swap(false, Ordering::Relaxed) => {}
                // Nothing is held back while the source pauses.
                Poll::Pending => {
                    let come = pieces.len() - body.source.left.len();
                    let so_far = naive(&toys, &pieces[..come].concat(), None);
                    prop_assert_eq!(&out, &so_far);
                }
            }
        }
        prop_assert_eq!(has_failed, fails);
        let whole = (!fails).then_some(&mut ended);
        prop_assert_eq!(out, naive(&toys, &pieces.concat(), whole));
        if !fails {
            let names = |fields: &Fields| fields.iter().map(|it| it.name.to_vec()).collect::<Vec<_>>();
            prop_assert_eq!(names(body.trailers()), names(&ended));
            prop_assert_eq!(body.is_last(), ended.is_empty());
            prop_assert!(!was_last || ended.is_empty());
            prop_assert_eq!(body.arrived(0), pieces.concat().len() as u64);
        }
    }
}

#[test]
fn the_end_is_reported_with_the_last_bytes() {
    let mut source = Pieces { here: b"abc".into(), has_ended: true, ..Pieces::default() };
    let mut body = Transformed::new(&mut source, listed(&[Toy::Hold, Toy::Swell(2)]));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(body.poll_data(&mut cx).is_ready());
    assert!(body.is_last() && !body.is_done(), "it would be ended by a frame of its own");
    assert_eq!(body.data(), b"aabbcc");
}

#[test]
fn others_have_their_turn() {
    let piece = vec![7; 100];
    let mut source = Pieces { here: piece, has_ended: true, ..Pieces::default() };
    let mut body = Transformed::new(&mut source, listed(&[Toy::Toil]));
    let mut cx = Context::from_waker(Waker::noop());
    let mut turns = 0;
    while !body.is_done() {
        turns += u32::from(body.poll_data(&mut cx).is_pending());
        body.consume(body.data().len());
    }
    assert_eq!(turns, 49);
}

/// It takes nothing, puts nothing out, and says nothing.
struct Idle;

impl BodyTransform for Idle {
    fn take(&mut self, _: &[u8], _: &mut Turn, _: &mut Vec<u8>) -> Result<StepResult, Error> {
        Ok(StepResult { bytes: 0, has_more: false })
    }

    fn end(&mut self, _: &Fields, _: &mut Vec<u8>) -> Result<Option<Fields>, Error> {
        Ok(None)
    }
}

#[test]
fn what_does_nothing_is_asked_no_more() {
    let mut source = Pieces { here: b"x".into(), ..Pieces::default() };
    let mut transforms = Transforms::default();
    transforms.push(Idle);
    let polled = Transformed::new(&mut source, transforms)
        .poll_data(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Ready(Err(error)) if error.kind == Kind::Internal));
}

/// What lies ahead of the transforms is what shows that the client sends.
#[tokio::test(start_paused = true)]
async fn a_body_that_comes_slowly_ahead_of_its_transforms_is_no_stall() {
    const SECOND: Duration = Duration::from_secs(1);
    let clock = crate::clock::Clock::new();
    let mut cx = Context::from_waker(Waker::noop());
    for (step, stops) in [(1, false), (0, true)] {
        let limits = StallLimits { source: 3 * SECOND, sink: SECOND, source_rate: 1, sink_rate: 0 };
        let ahead = (0..=40_usize).map(|second| 100 + second * step).collect();
        let mut source = Pieces { ahead, ..Pieces::default() };
        let mut body = Transformed::new(&mut source, listed(&[Toy::Hold]));
        let mut pump = Pump::new(limits);
        let mut stop = None;
        for _ in 0..30 {
            stop = match pump.poll_ahead(&mut cx, &clock, &mut body, 1000) {
                Poll::Ready(Err(error)) => stop.or(Some(error)),
                _ => stop,
            };
            tokio::time::advance(SECOND).await;
            clock.tick();
        }
        assert_eq!(matches!(stop, Some(Stop::SourceStalled)), stops, "{stop:?}");
        assert_eq!(stop.is_some(), stops, "{stop:?}");
    }
}
