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

/// A share of a whole, to a hundredth of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(u16);

impl Percent {
    /// Nothing.
    pub const NONE: Percent = Percent(0);
    /// The whole.
    pub const ALL: Percent = Percent(100 * 100);

    /// So many hundredths of a percent; at most the whole.
    pub const fn hundredths(hundredths: u16) -> Percent {
        if hundredths < Percent::ALL.0 { Percent(hundredths) } else { Percent::ALL }
    }

    /// How many hundredths of a percent.
    pub const fn as_hundredths(self) -> u16 {
        self.0
    }

    /// That share of a number, rounded down.
    pub fn of(self, number: u64) -> u64 {
        let whole = u128::from(Percent::ALL.0);
        u64::try_from(u128::from(number) * u128::from(self.0) / whole).unwrap_or(u64::MAX)
    }

    /// Whether a number that is drawn from all numbers of 64 bits falls within the share.
    pub fn takes(self, random: u64) -> bool {
        self == Percent::ALL || random < self.of(u64::MAX)
    }
}

/// Written as in a file.
impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 100, self.0 % 100) {
            (whole, 0) => write!(f, "{whole}%"),
            (whole, part) if part % 10 == 0 => write!(f, "{whole}.{}%", part / 10),
            (whole, part) => write!(f, "{whole}.{part:02}%"),
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

pub(crate) fn parse_percent(text: &str) -> Result<Percent, Problem> {
    let such_as = "write a percentage, such as `20%`";
    let Some(number) = text.strip_suffix('%') else {
        let problem = Problem::new("the `%` is missing");
        return Err(match parse_hundredths(text) {
            Some(hundredths @ 1..100) if text.starts_with('0') => {
                problem.help(format!("did you mean `{hundredths}%`?"))
            }
            Some(_) => problem.help(format!("did you mean `{text}%`?")),
            None => Problem::new("this is not a number").help(such_as),
        });
    };
    let hundredths = parse_hundredths(number.trim_end_matches(' '));
    let hundredths = hundredths.ok_or_else(|| {
        let problem = Problem::new("this is not a number with at most two decimals");
        problem.help(such_as)
    })?;
    let most = Percent::ALL.0.into();
    match hundredths > most {
        true => Err(Problem::new("this is more than the whole").help("at most `100%`")),
        false => Ok(Percent(u16::try_from(hundredths).unwrap_or(Percent::ALL.0))),
    }
}

/// A number with up to two decimals, in hundredths.
pub(crate) fn parse_hundredths(text: &str) -> Option<u32> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    if !is_number(whole) || !is_number(part) || part.len() > 2 {
        return None;
    }
    let part = format!("{part:0<2}").parse::<u32>().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(100)?.checked_add(part)
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

    #[test]
    fn percentages_are_shares_of_a_whole() {
        for (text, hundredths) in [("20%", 2_000), ("0%", 0), ("100 %", 10_000), ("0.5%", 50)] {
            assert_eq!(parse_percent(text), Ok(Percent(hundredths)), "{text}");
        }
        for (text, help) in [
            ("20", "did you mean `20%`?"),
            ("0.2", "did you mean `20%`?"),
            ("120%", "at most `100%`"),
            ("0.125%", "write a percentage, such as `20%`"),
            ("-1%", "write a percentage, such as `20%`"),
            ("", "write a percentage, such as `20%`"),
        ] {
            assert_eq!(parse_percent(text).unwrap_err().help.unwrap(), help, "{text}");
        }
        assert_eq!(Percent(2_000).of(10), 2);
        assert!(Percent::ALL.takes(u64::MAX) && !Percent::NONE.takes(0));
        assert!(Percent(5_000).takes(u64::MAX / 2 - 9) && !Percent(5_000).takes(u64::MAX / 2 + 9));
    }

    proptest! {
        #[test]
        fn sizes_read_back_as_displayed(bytes: u64) {
            let size = ByteSize(bytes);
            prop_assert_eq!(parse_size(&size.to_string()), Ok(size));
        }

        #[test]
        fn percentages_read_back_as_displayed(hundredths in 0..=10_000_u16) {
            let percent = Percent(hundredths);
            prop_assert_eq!(parse_percent(&percent.to_string()), Ok(percent));
        }

        #[test]
        fn durations_read_back_as_displayed(milliseconds: u64) {
            let duration = Duration::from_millis(milliseconds);
            prop_assert_eq!(parse_duration(&display_duration(duration)), Ok(duration));
        }
    }
}
