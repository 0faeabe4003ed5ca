//! Parts of files and conditions of requests. What judges them is pure and is compiled in here.

#[path = "../../crates/titan-proxy/src/files/condition.rs"]
mod condition;
#[expect(clippy::module_inception, reason = "it is the file's own name")]
#[path = "../../crates/titan-proxy/src/files/range.rs"]
mod range;

use crate::CHOICES;
use condition::{Validators, Verdict, judge};
use range::{RequestedRange, wanted};
use std::time::{Duration, SystemTime};
use titan_http::{FieldName, Fields, Method};

/// The fields that are looked at. A line is one of them by its first byte; the rest is the value.
pub const NAMES: [&str; 6] =
    ["Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"];
/// What stands between lines.
pub const NEXT_LINE: u8 = b'\n';

/// 1994-11-06 08:49:37
const CHANGED: Duration = Duration::from_secs(784_111_777);
const TAG: &[u8] = b"\"a,b\"";

/// A part is one that there is, and the one that a plain reading of the field says; conditions decide nothing that
/// they do not ask for.
pub fn range(data: &[u8]) {
    let Some((choices, input)) = data.split_first_chunk::<CHOICES>() else { return };
    let length = match choices[0] % 4 {
        0 => u64::from(choices[1]) % 60,
        1 => u64::MAX,
        2 => 0,
        _ => u64::from(u16::from_le_bytes([choices[1], choices[2]])),
    };
    let fields = fields(input);
    let ranges: Vec<_> = fields.all(FieldName::Range).collect();
    let part = wanted(&fields, length);
    assert_eq!(part, plainly(&ranges, length));
    if let RequestedRange::Part(part) = part {
        assert!(part.start < part.end && part.end <= length);
    }
    conditions(&fields, choices[3]);
}

fn fields(input: &[u8]) -> Fields {
    let mut fields = Fields::default();
    for line in input.split(|byte| *byte == NEXT_LINE) {
        let Some((name, value)) = line.split_first() else { continue };
        let name = NAMES[usize::from(*name) % NAMES.len()];
        // What no field may hold is left out.
        let _ = fields.append_named(name.as_bytes(), value);
    }
    fields
}

fn plainly(ranges: &[&[u8]], length: u64) -> RequestedRange {
    match ranges {
        [value] => part(value, length).unwrap_or(RequestedRange::Whole),
        _ => RequestedRange::Whole,
    }
}

/// With numbers that are larger than any length.
fn part(value: &[u8], length: u64) -> Option<RequestedRange> {
    let text = std::str::from_utf8(value).ok()?;
    let (unit, part) = text.split_once('=')?;
    let (first, last) = part.trim_ascii().split_once('-')?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !unit.eq_ignore_ascii_case("bytes") || !is_number(first) || !is_number(last) || length == 0 {
        return None;
    }
    let number = |text: &str| text.parse().unwrap_or(u128::MAX);
    let length = u128::from(length);
    let (start, end) = match (first, last) {
        ("", "") => return None,
        ("", count) => (length.saturating_sub(number(count)), length),
        (first, "") => (number(first), length),
        // What is too large to be counted is as large as anything else that is.
        (first, last) if number(last).min(u64::MAX.into()) < number(first).min(u64::MAX.into()) => {
            return None;
        }
        (first, last) => (number(first), number(last).saturating_add(1).min(length)),
    };
    let small = |number: u128| u64::try_from(number).expect("it is within the length");
    Some(match start < end {
        true => RequestedRange::Part(small(start)..small(end)),
        false => RequestedRange::Beyond,
    })
}

fn conditions(fields: &Fields, choice: u8) {
    let modified = SystemTime::UNIX_EPOCH + CHANGED;
    let validators =
        Validators { tag: TAG, modified: choice.is_multiple_of(2).then_some(modified) };
    let now = modified + Duration::from_secs(u64::from(choice / 2 % 4));
    let verdict = |method| judge(method, fields, validators, now);
    let has = |name: &str| fields.named(name.as_bytes()).next().is_some();
    let of_get = verdict(Method::GET);
    match of_get {
        Verdict::Go => assert_eq!(verdict(Method::HEAD), Verdict::GoWhole),
        other => assert_eq!(verdict(Method::HEAD), other),
    }
    match of_get {
        Verdict::Go => {}
        Verdict::GoWhole => assert!(has("If-Range")),
        Verdict::Same => assert!(has("If-None-Match") || has("If-Modified-Since")),
        Verdict::Failed => assert!(has("If-Match") || has("If-Unmodified-Since")),
    }
    // With the tag in them lists are met, whatever else they say.
    for (name, wanted) in [("If-Match", Verdict::Failed), ("If-None-Match", Verdict::Same)] {
        let mut more = fields.clone();
        more.append_named(name.as_bytes(), TAG).expect("there is room");
        let is_so = judge(Method::GET, &more, validators, now) == wanted;
        assert!(!is_so || wanted == Verdict::Same || has("If-Unmodified-Since"));
    }
}
