//! Rates: so many requests in so long.

use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::problem::Problem;
use crate::quantity::{display_duration, parse_duration};
use crate::read::{Read, Reading, optional, required};
use crate::readers::{short_for, text, whole};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::timeouts::DAY;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

/// So many requests in so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many, evenly spread.
    pub count: NonZeroU32,
    /// In how long.
    pub window: Duration,
    /// How many at once after a pause.
    pub burst: NonZeroU32,
}

impl Rate {
    /// The time that one request takes of the rate, in nanoseconds; never a fraction less.
    pub fn interval(&self) -> u64 {
        let nanoseconds = self.window.as_nanos().div_ceil(self.count.get().into());
        u64::try_from(nanoseconds).unwrap_or(u64::MAX)
    }
}

/// Without the burst, as it can be written.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = display_duration(self.window);
        let unit = window.strip_prefix('1').filter(|unit| unit.len() == 1);
        write!(f, "{}/{}", self.count, unit.unwrap_or(&window))
    }
}

section! {
    "rate", "a rate", Any;
    /// A number of requests in a period. A plain string sets `rate` alone.
    pub(crate) struct RateFields {
        /// How many requests in which period, spread evenly: `100/s`, `1000/m`, `20/10s`.
        pub(crate) rate: (NonZeroU32, Duration) = required(text(RATE, parse_rate)),
        /// How many requests may come at once after a pause.
        pub(crate) burst: Option<NonZeroU32> = optional("the number in `rate`", whole(1..=1_000_000_000)),
    }
}

const RATE: TextShape = TextShape {
    what: "a rate",
    examples: "`100/s`, `1000/m` or `20/10s`",
    pattern: Some("^[0-9]+/[0-9]*(s|m|h|d)$"),
    max: 32,
};

/// The longest window.
const MAX_WINDOW: Duration = Duration::from_secs(31 * 24 * 3600);
/// The longest time in which a whole burst comes back.
const MAX_REPLENISHING: Duration = Duration::from_secs(366 * 24 * 3600);
/// The highest rate: the time of a request is counted in nanoseconds.
const MAX_PER_SECOND: u64 = 1_000_000;

pub(crate) fn rate() -> impl Read<Value = Rate> {
    short_for("rate", section_of::<RateFields>()).then(|fields, node, to| {
        let RateFields { rate: (count, window), burst } = fields;
        check_rate(Rate { count, window, burst: burst.unwrap_or(count) }, node, to)
    })
}

fn check_rate(rate: Rate, node: &Node, to: &mut Reading<'_>) -> Option<Rate> {
    let replenishing = u128::from(rate.interval()) * u128::from(rate.burst.get());
    if replenishing > MAX_REPLENISHING.as_nanos() {
        let error = Diagnostic::error(node.span, "the burst takes more than a year to refill");
        return to.fail(error.label("expected a smaller `burst`"));
    }
    Some(rate)
}

pub(crate) fn parse_rate(text: &str) -> Result<(NonZeroU32, Duration), Problem> {
    let (count, window) = text.split_once('/').ok_or_else(|| Problem::new("it has no `/`"))?;
    let start = count.len() + 1;
    let bad_count = || Problem::new("expected a number of at least 1").part(0..count.len());
    let is_plain = count.bytes().all(|byte| byte.is_ascii_digit());
    let plain = count.trim_end_matches(|c: char| c == ' ' || c.is_ascii_alphabetic());
    if plain.len() < count.len() && plain.parse::<NonZeroU32>().is_ok() {
        let problem =
            Problem::new("the count must come before the `/`").part(plain.len()..count.len());
        return Err(problem.help(format!("did you mean `{plain}/{}`?", window.trim_start())));
    }
    let number: NonZeroU32 = count.parse().ok().filter(|_| is_plain).ok_or_else(bad_count)?;
    let number_of = if window.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "1" };
    let bad_window = || {
        let problem = Problem::new("expected a period from 1s to 31d").part(start..text.len());
        problem.help("use `s`, `m`, `h` or `d`, with or without a number before it")
    };
    let window = parse_duration(&format!("{number_of}{window}")).map_err(|_| bad_window())?;
    let is_whole = window.subsec_nanos() == 0;
    if !is_whole || !(Duration::from_secs(1)..=MAX_WINDOW.max(DAY)).contains(&window) {
        return Err(bad_window());
    }
    match u64::from(number.get()) > MAX_PER_SECOND * window.as_secs() {
        true => Err(Problem::new("it is more than a million a second")),
        false => Ok((number, window)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_and_a_time() {
        for (text, count, seconds) in [
            ("1/s", 1, 1),
            ("1000/m", 1000, 60),
            ("20/10s", 20, 10),
            ("7/d", 7, 86_400),
            ("9/2h", 9, 7200),
        ] {
            let (number, window) = parse_rate(text).unwrap();
            assert_eq!((number.get(), window.as_secs()), (count, seconds), "{text}");
            let rate = Rate { count: number, window, burst: number };
            assert_eq!(rate.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        let cases = [
            "",
            "1",
            "/s",
            "0/s",
            "1/",
            "1/0s",
            "1/500ms",
            "+1/s",
            "-1/s",
            "1/s/s",
            "1/32d",
            "1000001/s",
            "1 / s",
        ];
        for text in cases {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_time_of_a_request_is_never_rounded_down() {
        let rate = |count, seconds| Rate {
            count: NonZeroU32::new(count).unwrap(),
            window: Duration::from_secs(seconds),
            burst: NonZeroU32::MIN,
        };
        assert_eq!(rate(3, 1).interval(), 333_333_334);
        assert_eq!(rate(1_000_000, 1).interval(), 1000);
        assert_eq!(rate(1000, 60).interval(), 60_000_000);
    }
}
