//! Sets of statuses, as a configuration lists them: `204`, `4xx`, `200-299`.

use crate::problem::Problem;
use crate::read::Read;
use crate::readers::{one_or_list, text};
use crate::shape::TextShape;
use std::fmt;
use std::str::FromStr;
use titan_http::Status;

/// A set of statuses.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Statuses(Vec<(u16, u16)>);

const FIRST: u16 = 100;
const LAST: u16 = 599;

const RANGE: TextShape = TextShape {
    what: "a status or a range of them",
    examples: "`204`, `4xx` or `200-299`",
    pattern: Some("^[1-5]([0-9][0-9]|xx)$|^[1-5][0-9][0-9]-[1-5][0-9][0-9]$"),
    max: 7,
};

impl Statuses {
    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a status is one of them.
    pub fn contains(&self, status: Status) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&status.code()))
    }
}

/// One or several between commas, each as a file has it.
impl FromStr for Statuses {
    type Err = String;

    fn from_str(text: &str) -> Result<Statuses, String> {
        let ranges = text.split(',').map(|range| parse_range(range.trim()).map_err(|it| it.told()));
        Ok(Statuses(ranges.collect::<Result<_, _>>()?))
    }
}

/// Written as in a file.
impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            match last - first {
                0 => write!(f, "{first}")?,
                99 if first % 100 == 0 => write!(f, "{}xx", first / 100)?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Statuses({self})")
    }
}

/// Reads one or several, of which each is within the range.
pub(crate) fn statuses(first: u16, last: u16) -> impl Read<Value = Statuses> {
    let range = text(RANGE, move |text| {
        let range = parse_range(text)?;
        match first <= range.0 && range.1 <= last {
            true => Ok(range),
            false => Err(Problem::new(format!("only {first} to {last} are possible here"))),
        }
    });
    one_or_list(range, 0..=MAX_RANGES).map(|mut ranges| {
        ranges.sort_unstable();
        ranges.dedup();
        Statuses(ranges)
    })
}

/// Whether that is a status, or a range of them.
pub(crate) fn names_statuses(text: &str) -> bool {
    parse_range(text).is_ok()
}

/// Ranges in one list.
const MAX_RANGES: usize = 32;

fn parse_range(text: &str) -> Result<(u16, u16), Problem> {
    let range = match text.strip_suffix("xx") {
        Some(class) => parse_code(class).map(|class| (class * 100, class * 100 + 99)),
        None => match text.split_once('-') {
            Some((first, last)) => parse_code(first).zip(parse_code(last)),
            None => parse_code(text).map(|code| (code, code)),
        },
    };
    let (first, last) = range.ok_or_else(|| Problem::new("it is not a number"))?;
    match first > last {
        true => {
            Err(Problem::new("it ends before it begins").help(format!("write `{last}-{first}`")))
        }
        false if first < FIRST || last > LAST => {
            Err(Problem::new("statuses are from 100 to 599 (RFC 9110 section 15)"))
        }
        false => Ok((first, last)),
    }
}

fn parse_code(text: &str) -> Option<u16> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten().filter(|code| *code <= LAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_they_are_shown() {
        for text in ["204", "4xx", "200-399", "500-599"] {
            let shown = Statuses(vec![parse_range(text).unwrap()]).to_string();
            assert_eq!(shown, text.replace("500-599", "5xx"));
        }
        let all = Statuses(vec![(200, 299), (404, 404)]);
        let contains = |code| all.contains(Status::from_code(code).unwrap());
        assert!(contains(200) && contains(299) && contains(404) && !contains(300));
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in ["", "xx", "2x", "6xx", "99", "600", "299-200", "200-", "200-600", "+200"] {
            assert!(parse_range(text).is_err(), "{text}");
        }
    }
}
