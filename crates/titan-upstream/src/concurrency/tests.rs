//! Permits, over their whole life.

use super::*;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const CONFIG: titan_config::Concurrency = titan_config::Concurrency {
    min: 1,
    max: 100,
    initial: 1,
    queue: 1,
    delay_target: Duration::from_millis(20),
};

fn concurrency(registry: &Registry, config: &titan_config::Concurrency) -> Arc<Concurrency> {
    Concurrency::of(registry, "api", config)
}

/// Polls once.
fn now_or_waits<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn counts(concurrency: &Concurrency) -> (u32, u32) {
    let ConcurrencyStatus { running, waiting, .. } = concurrency.status();
    (running, waiting)
}

#[tokio::test(start_paused = true)]
async fn a_permit_goes_to_the_one_that_waits() {
    let concurrency = concurrency(&Registry::default(), &CONFIG);
    let permit = concurrency.try_enter(None).unwrap();
    let mut turn = pin!(concurrency.wait(Importance::Default, None));
    assert!(now_or_waits(turn.as_mut()).is_pending());
    assert_eq!(counts(&concurrency), (1, 1));
    drop(permit);
    let permit = turn.await.ok();
    assert_eq!((counts(&concurrency), permit.is_some()), ((1, 0), true));
    drop(permit);
    assert_eq!(counts(&concurrency), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn who_finds_no_place_and_who_waits_too_long_is_refused() {
    let concurrency = concurrency(&Registry::default(), &CONFIG);
    let _permit = concurrency.try_enter(None).unwrap();
    let mut first = pin!(concurrency.wait(Importance::Default, None));
    assert!(now_or_waits(first.as_mut()).is_pending());
    let second = concurrency.wait(Importance::Default, None).await;
    assert_eq!(second.err(), Some(Kind::Overloaded));
    let begun = tokio::time::Instant::now();
    assert_eq!(first.await.err(), Some(Kind::Overloaded));
    assert_eq!(begun.elapsed(), CONFIG.delay_target * 10);
    assert_eq!(counts(&concurrency), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_more_important_request_takes_the_place_of_another() {
    let concurrency = concurrency(&Registry::default(), &CONFIG);
    let _permit = concurrency.try_enter(None).unwrap();
    let mut sheddable = pin!(concurrency.wait(Importance::Sheddable, None));
    assert!(now_or_waits(sheddable.as_mut()).is_pending());
    let mut critical = pin!(concurrency.wait(Importance::Critical, None));
    assert!(now_or_waits(critical.as_mut()).is_pending());
    assert_eq!(sheddable.await.err(), Some(Kind::Overloaded));
    assert_eq!(counts(&concurrency), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn who_leaves_holds_nothing() {
    let concurrency = concurrency(&Registry::default(), &CONFIG);
    let permit = concurrency.try_enter(None).unwrap();
    {
        let mut before = pin!(concurrency.wait(Importance::Default, None));
        assert!(now_or_waits(before.as_mut()).is_pending());
    }
    assert_eq!(counts(&concurrency), (1, 0));
    {
        let mut told = pin!(concurrency.wait(Importance::Default, None));
        assert!(now_or_waits(told.as_mut()).is_pending());
        drop(permit);
        assert_eq!(counts(&concurrency), (1, 0));
    }
    assert_eq!(counts(&concurrency), (0, 0));
}

#[test]
fn the_limit_outlives_a_reload_within_the_new_bounds() {
    let registry = Registry::default();
    let before = concurrency(&registry, &titan_config::Concurrency { initial: 50, ..CONFIG });
    let _permit = before.try_enter(None);
    let after = concurrency(&registry, &titan_config::Concurrency { max: 30, ..CONFIG });
    assert_eq!((after.status().limit, counts(&after)), (50, (1, 0)));
    after.take_effect();
    assert_eq!(after.status().limit, 30);
}

#[test]
fn errors_tell_of_load_only_where_they_say_so() {
    let took = Duration::from_millis(5);
    for (status, call, sample) in [
        (Status::OK, None, Some(Sample::Responded(took))),
        (Status::OK, Some("0"), Some(Sample::Responded(took))),
        (Status::OK, Some("5"), None),
        (Status::OK, Some("8"), Some(Sample::Dropped)),
        (Status::OK, Some("14"), Some(Sample::Dropped)),
        (Status::NOT_FOUND, None, Some(Sample::Responded(took))),
        (Status::INTERNAL_SERVER_ERROR, None, None),
        (Status::SERVICE_UNAVAILABLE, None, Some(Sample::Dropped)),
        (Status::TOO_MANY_REQUESTS, None, Some(Sample::Dropped)),
        (Status::GATEWAY_TIMEOUT, None, Some(Sample::Dropped)),
    ] {
        let mut head = ResponseHead::with_status(status);
        if let Some(call) = call {
            head.fields.append_named(b"grpc-status", call.as_bytes()).unwrap();
        }
        assert_eq!(Sample::of(&head, Some(took)), sample, "{status} {call:?}");
    }
    assert_eq!(Sample::of(&ResponseHead::with_status(Status::OK), None), None);
}
