//! Parts of a file (RFC 9110 section 14).
//!
//! | Range | response |
//! |---|---|
//! | `bytes=0-99`, `bytes=100-`, `bytes=-100` | that part |
//! | `bytes=0-99` of 50 bytes | the part that exists |
//! | `bytes=50-`, `bytes=-0` of 50 bytes | 416 |
//! | any part of an empty file, several parts, another unit, anything malformed, two fields | the whole |
//!
//! A server may respond with the whole file if a client requests several parts. This one always does: so overlapping
//! parts, or a thousand small ones, cost no more than the file.

use std::ops::Range;
use titan_http::{FieldName, Fields};

/// The part of a file that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestedRange {
    /// All of it.
    Whole,
    /// Those bytes, of which there is one at least.
    Part(Range<u64>),
    /// Bytes that it does not have.
    Beyond,
}

/// The part of a file of that length that a request asks for.
pub(super) fn wanted(fields: &Fields, length: u64) -> RequestedRange {
    let mut all = fields.all(FieldName::Range);
    match (all.next(), all.next()) {
        (Some(value), None) => parse(value, length).unwrap_or(RequestedRange::Whole),
        _ => RequestedRange::Whole,
    }
}

/// None where the field says nothing that can be done.
fn parse(value: &[u8], length: u64) -> Option<RequestedRange> {
    let (unit, range) = value.split_at_checked(b"bytes=".len())?;
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return None;
    }
    let range = range.trim_ascii();
    let dash = range.iter().position(|&byte| byte == b'-')?;
    let (first, last) = (number(&range[..dash])?, number(&range[dash + 1..])?);
    match (first, last) {
        (None, None) => None,
        // Some clients ask for a part of everything, and would take 416 for a failure.
        _ if length == 0 => None,
        (None, Some(0)) => Some(RequestedRange::Beyond),
        (None, Some(count)) => Some(RequestedRange::Part(length.saturating_sub(count)..length)),
        (Some(first), Some(last)) if last < first => None,
        (Some(first), _) if first >= length => Some(RequestedRange::Beyond),
        (Some(first), last) => {
            let end = last.map_or(length, |last| last.saturating_add(1).min(length));
            Some(RequestedRange::Part(first..end))
        }
    }
}

/// A number, where there is one; more than can be counted is as much as can be. None where it is no number.
fn number(digits: &[u8]) -> Option<Option<u64>> {
    if digits.is_empty() {
        return Some(None);
    }
    let add = |sum: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(sum.saturating_mul(10).saturating_add(digit))
    };
    digits.iter().try_fold(0, add).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str], length: u64) -> RequestedRange {
        let mut fields = Fields::default();
        for value in values {
            fields.append(FieldName::Range, value.as_bytes()).unwrap();
        }
        wanted(&fields, length)
    }

    #[test]
    fn a_part_is_what_there_is_of_it() {
        let cases: &[(&str, Range<u64>)] = &[
            ("bytes=0-0", 0..1),
            ("bytes=0-49", 0..50),
            ("Bytes=10-19", 10..20),
            ("bytes=49-", 49..50),
            ("bytes=0-", 0..50),
            ("bytes=-1", 49..50),
            ("bytes=-50", 0..50),
            ("bytes=-99999999999999999999999", 0..50),
            ("bytes=40-99999999999999999999999", 40..50),
            ("bytes=40-18446744073709551615", 40..50),
            ("bytes= 1-2 ", 1..3),
        ];
        for (value, part) in cases {
            assert_eq!(of(&[value], 50), RequestedRange::Part(part.clone()), "{value}");
        }
    }

    #[test]
    fn what_is_not_there_is_beyond() {
        for value in ["bytes=50-", "bytes=50-60", "bytes=-0", "bytes=99999999999999999999999-"] {
            assert_eq!(of(&[value], 50), RequestedRange::Beyond, "{value}");
        }
        for value in ["bytes=0-", "bytes=0-0", "bytes=5-", "bytes=-5", "bytes=-0"] {
            assert_eq!(of(&[value], 0), RequestedRange::Whole, "{value}");
        }
    }

    #[test]
    fn anything_else_gets_the_whole() {
        let values = [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-",
            "bytes=1-a",
            "bytes=5-4",
            "bytes=0-1,3-4",
            "bytes=0-1,",
            "bytes=1--2",
            "bytes=+1-2",
            "bytes=1 -2",
            "items=0-1",
            "0-1",
            "bytes=0x1-2",
        ];
        for value in values {
            assert_eq!(of(&[value], 50), RequestedRange::Whole, "{value}");
        }
        assert_eq!(of(&[], 50), RequestedRange::Whole);
        assert_eq!(of(&["bytes=0-1", "bytes=0-1"], 50), RequestedRange::Whole);
    }
}
