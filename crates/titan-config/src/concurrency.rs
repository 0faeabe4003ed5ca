//! How many requests run at an upstream at the same moment, and which of them give way.

use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::read::{At, Read, Reading, at, default, optional};
use crate::readers::{duration, whole, words, words_or};
use crate::section::{section, section_of};
use std::time::Duration;

/// How much it matters that a request is served when not all can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Importance {
    /// Before all others.
    Critical,
    /// As most are.
    Default,
    /// The first to be refused.
    Sheddable,
}

/// A limit of running requests that finds itself, and the queue in front of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// The least that it may be; at least 1.
    pub min: u32,
    /// The most that it may be; at least `min`.
    pub max: u32,
    /// What it is at first; between these.
    pub initial: u32,
    /// How many requests may wait.
    pub queue: u32,
    /// How long requests may wait, while more come than are served.
    pub delay_target: Duration,
}

const MAX_LIMIT: i64 = 1_000_000;
const MAX_QUEUE: i64 = 16_384;
const MIN: u32 = 4;
const INITIAL: u32 = 20;
const DELAY_TARGET: Duration = Duration::from_millis(20);

section! {
    "concurrency", "concurrency settings", Any;
    /// Limits the requests that run at an upstream at the same moment, over all workers, by a number that finds itself:
    /// it grows while responses take as long as they do without load, and falls when they take longer. `adaptive` takes
    /// all defaults. A request runs until the head of its response has come, but not while it pauses before a retry. Beyond the
    /// limit requests wait in `queue`, the more important routes first (`importance`), then the clients with the fewest
    /// running. What cannot wait gets 503 with `Retry-After` (`overloaded`), and gRPC calls get UNAVAILABLE. About every 10 s
    /// under load, the limit is halved for a moment to measure how long responses take without load.
    pub(crate) struct ConcurrencyFields {
        /// The limit is never less than this.
        pub(crate) min: Option<At<u32>> =
            optional("4, or `max` or `initial` if that is less", at(whole(1..=MAX_LIMIT))),
        /// The limit is never more than this.
        pub(crate) max: u32 = default("1000", whole(1..=MAX_LIMIT)),
        /// The limit until the first responses have come. It belongs to the upstream's name, and survives reloads.
        pub(crate) initial: Option<At<u32>> =
            optional("20, or the nearest that `min` and `max` allow", at(whole(1..=MAX_LIMIT))),
        /// How many requests may wait for others to end, over all workers. 0: none waits. In a full queue the least important
        /// give way, and a client gives up a place to one that has fewer.
        pub(crate) queue: u32 = default("200", whole(0..=MAX_QUEUE)),
        /// How long a request may wait while more come than are served. Once the oldest has waited longer for ten times that
        /// long, the newest are served first, because their clients are the likeliest to be still there, and those that have
        /// waited longer than this are refused. Before that, a burst may wait for ten times that long.
        pub(crate) delay_target: Option<At<Duration>> = optional(
            "20 ms",
            at(duration(Duration::from_millis(1)..=Duration::from_secs(10))),
        ),
    }
}

pub(crate) fn concurrency() -> impl Read<Value = Option<Concurrency>> {
    let words = [("off", None), ("adaptive", Some(Concurrency::ADAPTIVE))];
    words_or(&words, section_of::<ConcurrencyFields>().then(check).map(Some))
}

pub(crate) fn importance() -> impl Read<Value = Importance> {
    words(&[
        ("critical", Importance::Critical),
        ("default", Importance::Default),
        ("sheddable", Importance::Sheddable),
    ])
}

impl Concurrency {
    /// What `adaptive` stands for.
    const ADAPTIVE: Concurrency = Concurrency {
        min: MIN,
        max: 1000,
        initial: INITIAL,
        queue: 200,
        delay_target: DELAY_TARGET,
    };
}

fn check(fields: ConcurrencyFields, _: &Node, to: &mut Reading<'_>) -> Option<Concurrency> {
    let ConcurrencyFields { min, max, initial, queue, delay_target } = fields;
    if let Some(min) = min.as_ref().filter(|min| min.value > max) {
        let error = Diagnostic::error(min.span, "`min` is more than `max`");
        let error = error.label(format!("`max` is {max}"));
        return to.fail(error.help(format!("set `max` to at least {}", min.value)));
    }
    let first = initial.as_ref().map_or(INITIAL, |it| it.value);
    let min = min.map_or(MIN.min(max).min(first), |it| it.value);
    if let Some(initial) = initial.as_ref().filter(|it| !(min..=max).contains(&it.value)) {
        let error = Diagnostic::error(initial.span, "`initial` is not between `min` and `max`");
        return to.fail(error.label(format!("expected a number from {min} to {max}")));
    }
    if let Some(target) = delay_target.as_ref().filter(|_| queue == 0) {
        let error = Diagnostic::error(target.span, "`delay_target` has no effect with `queue: 0`");
        let error = error.label("nothing waits");
        return to.fail(error.help("remove `delay_target`, or give the queue a length"));
    }
    Some(Concurrency {
        min,
        max,
        initial: first.clamp(min, max),
        queue,
        delay_target: delay_target.map_or(DELAY_TARGET, |it| it.value),
    })
}
