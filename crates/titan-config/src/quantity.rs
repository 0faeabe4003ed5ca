//! Quantities: sizes, durations and limits that can be switched off, and their syntax.

use crate::problem::Problem;
use std::fmt;
use std::time::Duration;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

impl ByteSize {
    /// The size of `bytes` bytes.
    pub const fn new(bytes: u64) -> ByteSize {
        ByteSize(bytes)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The number of bytes in 32 bits; saturates.
    pub fn as_u32(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }

    /// The number of bytes as the length of something in memory; saturates where memory cannot be that large.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// Written as in a file, with the largest unit that loses nothing.
impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |factor: u64| self.0 != 0 && self.0.is_multiple_of(factor);
        match SIZE_UNITS.iter().filter(|(_, factor)| fits(*factor)).max_by_key(|(_, factor)| factor)
        {
            Some((unit, factor)) => write!(f, "{}{unit}", self.0 / factor),
            None => write!(f, "{}B", self.0),
        }
    }
}

/// A limit that may be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap<T> {
    /// No limit.
    Unlimited,
    /// At most that much.
    AtMost(T),
}

impl<T> Cap<T> {
    /// The limit, or nothing when there is none.
    pub fn at_most(self) -> Option<T> {
        match self {
            Cap::Unlimited => None,
            Cap::AtMost(most) => Some(most),
        }
    }
}

/// A duration written as in a file, with the largest unit that loses nothing.
pub(crate) fn display_duration(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    let fits = |factor: u64| milliseconds != 0 && milliseconds.is_multiple_of(factor.into());
    match DURATION_UNITS.iter().rev().find(|(_, factor)| fits(*factor)) {
        Some((unit, factor)) => format!("{}{unit}", milliseconds / u128::from(*factor)),
        None => format!("{milliseconds}ms"),
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

const SIZE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("KiB", KIB),
    ("MiB", MIB),
    ("GiB", GIB),
    ("TiB", TIB),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

const DURATION_UNITS: &[(&str, u64)] =
    &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

pub(crate) fn parse_size(text: &str) -> Result<ByteSize, Problem> {
    let (number, unit) = split_unit(text, "write a size, such as `64KiB`")?;
    let factor = match unit {
        "" => 1,
        unit => factor_of(unit, SIZE_UNITS, number)?,
    };
    number.checked_mul(factor).map(ByteSize).ok_or_else(too_large)
}

/// The duration that a text such as `30s` stands for, as in the file, or what is wrong with it.
pub fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|Problem { reason, help, part: _ }| match help {
        Some(help) => format!("{reason}: {help}"),
        None => reason,
    })
}

pub(crate) fn parse_duration(text: &str) -> Result<Duration, Problem> {
    let such_as = "write a duration, such as `30s`";
    if is_date(text) {
        return Err(Problem::new("this is a date").help(such_as));
    }
    let (number, unit) = split_unit(text, such_as)?;
    if unit.is_empty() {
        let problem = Problem::new("the unit is missing");
        return Err(problem.help(format!("did you mean `{number}s` or `{number}ms`?")));
    }
    let factor = factor_of(unit, DURATION_UNITS, number).map_err(|problem| {
        let days = match unit {
            "w" => 7,
            "y" => 365,
            _ => return compound(text).map_or(problem.clone(), |seconds| problem.help(seconds)),
        };
        problem.help(format!("did you mean `{}d`?", number.saturating_mul(days)))
    })?;
    number.checked_mul(factor).map(Duration::from_millis).ok_or_else(too_large)
}

/// What to write for a duration of several units, such as `1m30s`.
fn compound(text: &str) -> Option<String> {
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let unit = rest.find(|c: char| !c.is_ascii_digit())?;
        let next =
            rest[unit..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| unit + at);
        let (_, factor) = DURATION_UNITS.iter().find(|(name, _)| *name == &rest[unit..next])?;
        let part = rest[..unit].parse::<u64>().ok()?.checked_mul(*factor)?;
        sum = sum.checked_add(Duration::from_millis(part))?;
        rest = &rest[next..];
    }
    Some(format!("did you mean `{}`?", display_duration(sum)))
}

/// Whether it begins like a date of RFC 3339 or of HTTP: `2026-01-02`, `Fri, 02 Jan 2026`.
fn is_date(text: &str) -> bool {
    let years = text.bytes().take_while(u8::is_ascii_digit).count();
    let days = ["Mon, ", "Tue, ", "Wed, ", "Thu, ", "Fri, ", "Sat, ", "Sun, "];
    years == 4 && text[years..].starts_with('-') || days.iter().any(|day| text.starts_with(day))
}

/// A number and what follows it; `such_as` helps where there is no number.
fn split_unit<'t>(text: &'t str, such_as: &str) -> Result<(u64, &'t str), Problem> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(Problem::new("this does not start with a number").help(such_as));
    }
    let number = number.parse().map_err(|_| too_large())?;
    Ok((number, unit.trim_start_matches(' ')))
}

fn factor_of(unit: &str, units: &[(&str, u64)], number: u64) -> Result<u64, Problem> {
    if let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) {
        return Ok(*factor);
    }
    let names: Vec<_> = units.iter().map(|(name, _)| *name).collect();
    let problem = match unit.starts_with(['.', ',']) {
        true => Problem::new("fractions are not supported"),
        false => Problem::new(format!("the unit `{}` does not exist", unit.escape_debug())),
    };
    Err(match nearest_unit(unit, &names) {
        Some(meant) => problem.help(format!("did you mean `{number}{meant}`?")),
        None => {
            problem.help(format!("write a whole number with one of the units {}", names.join(", ")))
        }
    })
}

/// The unit that was meant by another case, or by its full name.
fn nearest_unit<'a>(unit: &str, names: &[&'a str]) -> Option<&'a str> {
    let unit = unit.to_ascii_lowercase();
    let meant = match unit.as_str() {
        "sec" | "secs" | "second" | "seconds" => "s",
        "msec" | "millis" | "milliseconds" => "ms",
        "min" | "mins" | "minute" | "minutes" => "m",
        "hour" | "hours" | "hr" => "h",
        "day" | "days" => "d",
        "k" => "KiB",
        "m" => "MiB",
        "g" => "GiB",
        "byte" | "bytes" => "B",
        other => other,
    };
    names.iter().copied().find(|name| name.eq_ignore_ascii_case(meant))
}

fn too_large() -> Problem {
    Problem::new("this number is too large")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        for (text, bytes) in
            [("512", 512), ("512B", 512), ("16KiB", 16 << 10), ("1KB", 1000), ("2 GiB", 2 << 30)]
        {
            assert_eq!(parse_size(text), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "KiB", "-1", "1.5MiB", "1Mib/s", "99999999999999999999", "20000000TiB"] {
            assert!(parse_size(text).is_err(), "{text}");
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert!(parse_duration("10").is_err(), "a duration needs its unit");
    }

    proptest! {
        #[test]
        fn sizes_read_back_as_displayed(bytes: u64) {
            let size = ByteSize(bytes);
            prop_assert_eq!(parse_size(&size.to_string()), Ok(size));
        }

        #[test]
        fn durations_read_back_as_displayed(milliseconds: u64) {
            let duration = Duration::from_millis(milliseconds);
            prop_assert_eq!(parse_duration(&display_duration(duration)), Ok(duration));
        }
    }
}
