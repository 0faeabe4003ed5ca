//! Hedges: second tries of requests that take long, while the first ones go on.

use crate::bounds::MAX_METHODS;
use crate::diagnostic::Diagnostic;
use crate::method::served_method;
use crate::node::Node;
use crate::problem::Problem;
use crate::quantity::{Percent, display_duration, parse_duration, parse_hundredths};
use crate::read::{Read, Reading, default};
use crate::readers::{duration, one_or_list, short_for, text};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;
use titan_http::Method;

section! {
    "hedge", "a hedge", Any;
    /// When a request that takes long is sent to a second endpoint, while the first one goes on with it. The client gets the
    /// response that begins first, and the other request is cancelled: over HTTP/2 its stream is reset, over HTTP/1.1 its
    /// connection is closed. A text sets `after` alone; `{}` takes all defaults.
    ///
    /// A hedge is a retry that begins early. It counts as one of the route's `retries`, and `retry_budget` pays for it. It goes
    /// to an endpoint that was not tried, or not at all; a request has at most one. Without effect on routes with
    /// `retries: 0`, on requests that the route does not repeat once they were sent (`retries.methods`), or with a body that is
    /// not held (`limits.retry_body`), and on those that switch protocols.
    pub struct Hedge {
        /// How long the first endpoint has: a percentile of how long it takes from the choice of an endpoint to the head of its
        /// response, over all endpoints and workers, such as `p95` or `p99.9`, or a fixed time. A percentile is that of the
        /// last 10 to 20 s, or longer where there are few requests, and needs five responses that take longer: the hundredth request
        /// is the first that `p95` can apply to. Costs 6 KiB of memory, and a timer for each request.
        pub after: HedgeDelay = default("p95", hedge_delay()),
        /// Never sooner than that: a second request costs more than to wait for a moment.
        pub min_delay: Duration = default("10ms", duration(DELAYS)),
        /// The methods that are hedged. An endpoint may have done all that was asked before it is cancelled, so they should have
        /// no effect.
        pub methods: Vec<Method> =
            default("[GET, HEAD, OPTIONS]", one_or_list(served_method(), 1..=MAX_METHODS)),
    }
}

/// How long a request takes that is hedged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HedgeDelay {
    /// Longer than so many of them do. More than none, and not all.
    Percentile(Percent),
    /// That long.
    Fixed(Duration),
}

/// Written as in a file.
impl fmt::Display for HedgeDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HedgeDelay::Percentile(rank) => {
                write!(f, "p{}", rank.to_string().trim_end_matches('%'))
            }
            HedgeDelay::Fixed(delay) => f.write_str(&display_duration(*delay)),
        }
    }
}

const DELAYS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);

const SUCH_AS: &str = "write a percentile, such as `p95` or `p99.9`, or a duration, such as `50ms`";

const DELAY: TextShape = TextShape {
    what: "a percentile or a duration",
    examples: "`p95` or `50ms`",
    pattern: None,
    max: 16,
};

pub(crate) fn hedge() -> impl Read<Value = Hedge> {
    short_for("after", section_of::<Hedge>()).then(check)
}

fn hedge_delay() -> impl Read<Value = HedgeDelay> {
    text(DELAY, parse_delay)
}

fn parse_delay(text: &str) -> Result<HedgeDelay, Problem> {
    if let Some(number) = text.strip_suffix('%') {
        let problem = Problem::new("a percentile begins with `p`");
        return Err(problem.help(format!("did you mean `p{number}`?")));
    }
    if parse_hundredths(text).is_some() {
        let problem = Problem::new("this is neither a percentile nor a duration");
        return Err(problem.help(format!("did you mean `p{text}` or `{text}ms`?")));
    }
    let Some(number) = text.strip_prefix('p') else {
        let delay = parse_duration(text).map_err(|problem| match problem.help {
            Some(_) if text.starts_with(|c: char| c.is_ascii_digit()) => problem,
            _ => Problem::new("this begins like neither").help(SUCH_AS),
        })?;
        return match DELAYS.contains(&delay) {
            true => Ok(HedgeDelay::Fixed(delay)),
            false => Err(Problem::new("only durations from 1ms to 1m are possible here")),
        };
    };
    let hundredths = parse_hundredths(number).ok_or_else(|| {
        let problem = Problem::new("this is not a number with at most two decimals");
        problem.help(SUCH_AS)
    })?;
    match u16::try_from(hundredths) {
        Ok(0) => Err(Problem::new("every request takes longer than `p0`")
            .help("to hedge one in twenty, write `p95`")),
        Ok(hundredths) if hundredths < Percent::ALL.as_hundredths() => {
            Ok(HedgeDelay::Percentile(Percent::hundredths(hundredths)))
        }
        _ => Err(Problem::new("no request takes longer than `p100`")
            .help("to hedge one in a hundred, write `p99`")),
    }
}

fn check(hedge: Hedge, node: &Node, to: &mut Reading<'_>) -> Option<Hedge> {
    let min_delay = node.entry("min_delay");
    if let (HedgeDelay::Fixed(delay), Some(entry)) = (hedge.after, min_delay) {
        let error = Diagnostic::error(entry.key_span, "`min_delay` has no effect");
        let error = error.label(format!("`after` is a fixed time, {delay:?}"));
        return to.fail(error.help("remove it, or make `after` a percentile, such as `p95`"));
    }
    Some(hedge)
}
