//! Pumps between scripted sources and sinks, under a paused clock.

use super::*;
use crate::clock::TICK;
use std::mem::take;
use std::task::Waker;
use titan_http::Fields;
use tokio::time::advance;

const SECOND: Duration = Duration::from_secs(1);

/// A body of which so much has come and not been consumed.
#[derive(Default)]
struct Source {
    here: Vec<u8>,
    /// Bytes that have come and give nothing yet.
    sealed: u64,
    ended: bool,
    /// How it fails once what is here was consumed.
    fails: Option<Kind>,
    no_fields: Fields,
}

/// Takes as much as it has room for, and flushes while it has some.
#[derive(Default)]
struct Sink {
    room: usize,
    /// Room that only an insisting writer finds.
    hidden: usize,
    written: u64,
}

impl BodySource for Source {
    fn poll_data(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match self.here.is_empty() && !self.ended {
            // Told once: the next call might find an end.
            true if self.fails.is_some() => Poll::Ready(Err(take(&mut self.fails).unwrap().into())),
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }

    fn data(&self) -> &[u8] {
        &self.here
    }

    fn consume(&mut self, count: usize) {
        self.here.drain(..count);
    }

    fn is_done(&self) -> bool {
        self.ended && self.here.is_empty()
    }

    fn is_last(&self) -> bool {
        self.ended
    }

    fn arrived(&self, taken: u64) -> u64 {
        taken + self.sealed
    }

    fn trailers(&self) -> &Fields {
        &self.no_fields
    }
}

impl BodySink for Sink {
    fn poll_send(
        &mut self,
        _: &mut Context<'_>,
        data: &[u8],
        _: bool,
    ) -> Poll<Result<usize, Error>> {
        let count = data.len().min(self.room);
        self.room -= count;
        self.written += count as u64;
        if count > 0 { Poll::Ready(Ok(count)) } else { Poll::Pending }
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.room > 0 { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn poll_end(&mut self, cx: &mut Context<'_>, _: &Fields) -> Poll<Result<(), Error>> {
        self.poll_flush(cx)
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn insist(&mut self) {
        self.room += take(&mut self.hidden);
    }
}

/// A pump between the two, and the clock that it is judged by.
struct Scene {
    clock: Rc<Clock>,
    pump: Pump,
    source: Source,
    sink: Sink,
}

impl Scene {
    fn new(limits: StallLimits) -> Scene {
        let source = Source::default();
        let sink = Sink { room: usize::MAX, ..Sink::default() };
        Scene { clock: Clock::new(), pump: Pump::new(limits), source, sink }
    }

    fn poll(&mut self) -> Poll<Result<(), Stop>> {
        let mut cx = Context::from_waker(Waker::noop());
        self.pump.poll(&mut cx, &self.clock, &mut self.source, &mut self.sink)
    }

    /// Lets time pass, and asks the pump as its timer would.
    async fn after(&mut self, time: Duration) -> Poll<Result<(), Stop>> {
        advance(time).await;
        self.clock.tick();
        self.poll()
    }

    async fn brings(&mut self, bytes: usize, after: Duration) -> Poll<Result<(), Stop>> {
        self.source.here.resize(bytes, b'x');
        self.after(after).await
    }
}

fn limits(rate: u64) -> StallLimits {
    StallLimits { source: 20 * SECOND, sink: 5 * SECOND, source_rate: rate, sink_rate: 0 }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_brings_nothing_stalls() {
    let mut scene = Scene::new(limits(0));
    assert!(scene.poll().is_pending());
    assert!(scene.after(20 * SECOND).await.is_pending(), "never early");
    assert!(matches!(scene.after(SECOND).await, Poll::Ready(Err(Stop::SourceStalled))));
}

#[tokio::test(start_paused = true)]
async fn a_source_that_brings_something_has_all_its_time_again() {
    let mut scene = Scene::new(limits(0));
    assert!(scene.poll().is_pending());
    for _ in 0..5 {
        assert!(scene.brings(1, 19 * SECOND).await.is_pending());
    }
    assert_eq!(scene.pump.taken(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_source_whose_bytes_give_nothing_yet_goes_on_too() {
    let mut scene = Scene::new(limits(100));
    assert!(scene.poll().is_pending());
    for _ in 0..30 {
        scene.source.sealed += 100;
        assert!(scene.after(SECOND).await.is_pending());
    }
    assert!(scene.after(10 * SECOND).await.is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_takes_nothing_stalls() {
    let mut scene = Scene::new(limits(0));
    scene.sink.room = 0;
    assert!(scene.brings(10, SECOND).await.is_pending());
    assert!(scene.after(5 * SECOND).await.is_pending(), "never early");
    assert!(matches!(scene.after(SECOND).await, Poll::Ready(Err(Stop::SinkStalled))));
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_takes_something_has_all_its_time_again() {
    let mut scene = Scene::new(limits(0));
    for _ in 0..10 {
        scene.sink.room = 1;
        assert!(scene.brings(10, 4 * SECOND).await.is_pending());
    }
    assert_eq!(scene.pump.taken(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_takes_less_than_it_reports_has_all_its_time_again() {
    let mut scene = Scene::new(limits(0));
    scene.sink.room = 0;
    assert!(scene.brings(10, SECOND).await.is_pending());
    for _ in 0..5 {
        scene.sink.hidden = 1;
        assert!(scene.after(6 * SECOND).await.is_pending());
    }
    assert_eq!(scene.pump.taken(), 5);
    assert!(matches!(scene.after(6 * SECOND).await, Poll::Ready(Err(Stop::SinkStalled))));
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_does_not_flush_is_waited_for_and_not_the_source() {
    let mut scene = Scene::new(limits(0));
    scene.sink.room = 10;
    assert!(scene.brings(10, SECOND).await.is_pending());
    assert!(matches!(scene.after(6 * SECOND).await, Poll::Ready(Err(Stop::SinkStalled))));
}

#[tokio::test(start_paused = true)]
async fn a_source_below_its_rate_is_given_up_after_a_window() {
    let mut scene = Scene::new(limits(100));
    assert!(scene.poll().is_pending());
    for _ in 0..9 {
        assert!(scene.brings(99, SECOND).await.is_pending());
    }
    assert!(matches!(scene.brings(99, SECOND).await, Poll::Ready(Err(Stop::SourceTooSlow))));
}

#[tokio::test(start_paused = true)]
async fn a_source_may_pause_as_long_as_its_rate_is_kept() {
    let mut scene = Scene::new(limits(100));
    assert!(scene.poll().is_pending());
    for _ in 0..10 {
        assert!(scene.brings(1000, 9 * SECOND).await.is_pending());
        assert!(scene.after(SECOND).await.is_pending());
    }
}

#[tokio::test(start_paused = true)]
async fn each_window_is_judged_by_itself() {
    let mut scene = Scene::new(limits(100));
    assert!(scene.poll().is_pending());
    assert!(scene.brings(100_000, 10 * SECOND).await.is_pending());
    assert!(matches!(scene.brings(10, 10 * SECOND).await, Poll::Ready(Err(Stop::SourceTooSlow))));
}

#[tokio::test(start_paused = true)]
async fn a_source_is_not_blamed_for_a_slow_sink() {
    let mut scene = Scene::new(limits(100));
    for _ in 0..20 {
        scene.sink.room = 1;
        assert!(scene.brings(1000, 4 * SECOND).await.is_pending());
    }
    scene.sink.room = usize::MAX;
    assert!(scene.poll().is_pending());
    assert!(scene.after(9 * SECOND).await.is_pending(), "its time starts now");
}

/// A pump whose sink has to take so much in each second.
fn taking(rate: u64) -> StallLimits {
    StallLimits { source: SECOND, sink: 30 * SECOND, source_rate: 0, sink_rate: rate }
}

#[tokio::test(start_paused = true)]
async fn a_sink_below_its_rate_is_given_up_when_it_takes_some_more() {
    let mut scene = Scene::new(taking(100));
    scene.sink.room = 0;
    assert!(scene.brings(100_000, SECOND).await.is_pending());
    for _ in 0..9 {
        scene.sink.room = 99;
        assert!(scene.after(SECOND).await.is_pending());
    }
    scene.sink.room = 99;
    assert!(matches!(scene.after(SECOND).await, Poll::Ready(Err(Stop::SinkTooSlow))));
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_takes_much_at_a_time_may_pause() {
    let mut scene = Scene::new(taking(100));
    scene.sink.room = 0;
    assert!(scene.brings(100_000, SECOND).await.is_pending());
    for _ in 0..3 {
        assert!(scene.after(28 * SECOND).await.is_pending(), "how long is said by `sink`");
        scene.sink.room = 2800;
        assert!(scene.after(Duration::ZERO).await.is_pending());
    }
    scene.sink.room = 2000;
    assert!(matches!(scene.after(28 * SECOND).await, Poll::Ready(Err(Stop::SinkTooSlow))));
}

#[tokio::test(start_paused = true)]
async fn a_sink_is_not_blamed_for_a_slow_source() {
    let mut scene = Scene::new(StallLimits { source: 60 * SECOND, ..taking(100) });
    for _ in 0..5 {
        assert!(scene.brings(10, 20 * SECOND).await.is_pending());
    }
    scene.sink.room = 0;
    assert!(scene.brings(1000, SECOND).await.is_pending());
    scene.sink.room = 1;
    assert!(scene.after(9 * SECOND).await.is_pending(), "its time has started just now");
}

#[tokio::test(start_paused = true)]
async fn a_pump_that_is_done_does_not_wait() {
    let mut scene = Scene::new(limits(100));
    scene.source.ended = true;
    assert!(matches!(scene.brings(10, SECOND).await, Poll::Ready(Ok(()))));
    assert!(scene.pump.is_done());
    assert_eq!(scene.pump.deadline(), CoarseInstant::NEVER);
}

#[tokio::test(start_paused = true)]
async fn what_came_before_a_failure_is_handed_over() {
    let mut scene =
        Scene::new(StallLimits { source: SECOND, sink: SECOND, source_rate: 0, sink_rate: 0 });
    scene.sink.room = 3;
    scene.source.fails = Some(Kind::Truncated);
    assert!(scene.brings(3, Duration::ZERO).await.is_pending());
    assert_eq!(scene.sink.written, 3);
    scene.sink.room = 1;
    let Poll::Ready(Err(Stop::Source(error))) = scene.poll() else { panic!("it has failed") };
    assert_eq!(error.kind, Kind::Truncated);
    // One that takes nothing is not waited for any longer than else.
    let mut scene =
        Scene::new(StallLimits { source: SECOND, sink: SECOND, source_rate: 0, sink_rate: 0 });
    scene.sink.room = 3;
    scene.source.fails = Some(Kind::Truncated);
    assert!(scene.brings(3, Duration::ZERO).await.is_pending());
    let stalled = scene.after(SECOND + 2 * TICK).await;
    assert!(matches!(stalled, Poll::Ready(Err(Stop::SinkStalled))), "{stalled:?}");
    // The client's own failure concerns no other side.
    let mut scene =
        Scene::new(StallLimits { source: SECOND, sink: SECOND, source_rate: 0, sink_rate: 0 });
    scene.sink.room = 3;
    scene.source.fails = Some(Kind::ClientGone);
    let failed = scene.brings(3, Duration::ZERO).await;
    assert!(matches!(failed, Poll::Ready(Err(Stop::Source(_)))), "{failed:?}");
}
