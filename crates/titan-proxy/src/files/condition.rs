//! Conditions of a request (RFC 9110 section 13), in the order of section 13.2.2.

use std::time::{Duration, SystemTime};
use titan_http::{Fields, Method};

/// What tells a state of a file from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validators<'v> {
    /// The strong entity tag, in its quotes.
    pub(super) tag: &'v [u8],
    /// When it was changed last, in whole seconds; never later than now.
    pub(super) modified: Option<SystemTime>,
}

/// What happens to a request under its conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It gets its response.
    Go,
    /// It gets its response, and what it says of a part does not count.
    GoWhole,
    /// The client has the same: 304.
    Same,
    /// It was made for another state: 412.
    Failed,
}

/// For how long a file has to be unchanged before the second of its last change tells its states apart.
const SETTLED: Duration = Duration::from_secs(2);

/// Judges a request of GET or HEAD.
pub(super) fn judge(
    method: Method,
    fields: &Fields,
    validators: Validators<'_>,
    now: SystemTime,
) -> Verdict {
    let Validators { tag, modified } = validators;
    if has(fields, b"If-Match") {
        if !any_tag(fields, b"If-Match", |listed| is_strongly(listed, tag)) {
            return Verdict::Failed;
        }
    } else if let (Some(date), Some(modified)) = (date(fields, b"If-Unmodified-Since"), modified)
        && modified > date
    {
        return Verdict::Failed;
    }
    if has(fields, b"If-None-Match") {
        if any_tag(fields, b"If-None-Match", |listed| is_weakly(listed, tag)) {
            return Verdict::Same;
        }
    } else if let (Some(date), Some(modified)) = (date(fields, b"If-Modified-Since"), modified)
        && modified <= date
    {
        return Verdict::Same;
    }
    // Parts are defined for GET alone (section 14.2).
    match method == Method::GET && may_part(fields, validators, now) {
        true => Verdict::Go,
        false => Verdict::GoWhole,
    }
}

/// Whether `If-Range` lets the client have a part: it has other parts of the same state.
fn may_part(fields: &Fields, validators: Validators<'_>, now: SystemTime) -> bool {
    let Validators { tag, modified } = validators;
    let mut values = fields.named(b"If-Range");
    let Some(value) = values.next() else { return true };
    if values.next().is_some() {
        return false;
    }
    if value.contains(&b'"') {
        return is_strongly(value, tag);
    }
    let is_settled =
        |modified: &SystemTime| now.duration_since(*modified).is_ok_and(|age| age >= SETTLED);
    let modified = modified.filter(is_settled);
    modified.is_some() && parse_date(value) == modified
}

fn has(fields: &Fields, name: &[u8]) -> bool {
    fields.named(name).next().is_some()
}

/// The date in a field that is there once.
fn date(fields: &Fields, name: &[u8]) -> Option<SystemTime> {
    let mut values = fields.named(name);
    let (value, another) = (values.next()?, values.next());
    if another.is_some() { None } else { parse_date(value) }
}

fn parse_date(value: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(value).ok()?).ok()
}

fn is_strongly(listed: &[u8], tag: &[u8]) -> bool {
    listed == tag
}

fn is_weakly(listed: &[u8], tag: &[u8]) -> bool {
    listed.strip_prefix(b"W/").unwrap_or(listed) == tag
}

/// Whether one of the tags in the fields of that name is meant, or any (`*`). What is malformed ends its list.
fn any_tag(fields: &Fields, name: &[u8], is_meant: impl Fn(&[u8]) -> bool) -> bool {
    fields.named(name).any(|value| value == b"*" || Tags(value).any(&is_meant))
}

/// The entity tags of a list. A tag may have commas in it.
struct Tags<'v>(&'v [u8]);

impl<'v> Iterator for Tags<'v> {
    type Item = &'v [u8];

    fn next(&mut self) -> Option<&'v [u8]> {
        let start = self.0.iter().position(|byte| !b", \t".contains(byte))?;
        let list = &self.0[start..];
        self.0 = &[];
        let quoted = list.strip_prefix(b"W/").unwrap_or(list).strip_prefix(b"\"")?;
        let end = quoted.iter().position(|&byte| byte == b'"')?;
        let (tag, rest) = list.split_at(list.len() - quoted.len() + end + 1);
        if rest.first().is_none_or(|byte| b", \t".contains(byte)) {
            self.0 = rest;
        }
        Some(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: &str = "\"a,b\"";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn judged(method: Method, lines: &[(&str, &str)]) -> Verdict {
        let mut fields = Fields::default();
        for (name, value) in lines {
            fields.append_named(name.as_bytes(), value.as_bytes()).unwrap();
        }
        let modified = parse_date(THEN.as_bytes());
        let now = modified.unwrap() + Duration::from_secs(60);
        judge(method, &fields, Validators { tag: TAG.as_bytes(), modified }, now)
    }

    #[track_caller]
    fn is(verdict: Verdict, lines: &[(&str, &str)]) {
        assert_eq!(judged(Method::GET, lines), verdict, "{lines:?}");
    }

    #[test]
    fn the_client_may_have_the_same() {
        for tags in [TAG, "W/\"a,b\"", "*", "\"x\", \"a,b\"", "\"\",\"a,b\",\"y\"", " ,\t\"a,b\" "]
        {
            is(Verdict::Same, &[("If-None-Match", tags)]);
        }
        is(Verdict::Same, &[("If-None-Match", "\"x\""), ("If-None-Match", TAG)]);
        for tags in ["\"x\"", "a,b", "\"a", "\"x\"\"a,b\"", "x, \"a,b\"", "", "\"*\""] {
            is(Verdict::Go, &[("If-None-Match", tags)]);
        }
        is(Verdict::Same, &[("If-Modified-Since", THEN)]);
        is(Verdict::Same, &[("If-Modified-Since", AFTER)]);
        is(Verdict::Go, &[("If-Modified-Since", BEFORE)]);
        is(Verdict::Go, &[("If-Modified-Since", "yesterday")]);
        is(Verdict::Go, &[("If-Modified-Since", THEN), ("If-Modified-Since", THEN)]);
    }

    #[test]
    fn the_request_may_be_for_another_state() {
        for tags in [TAG, "*", "\"x\", \"a,b\""] {
            is(Verdict::Go, &[("If-Match", tags)]);
        }
        for tags in ["W/\"a,b\"", "\"x\"", "", "a"] {
            is(Verdict::Failed, &[("If-Match", tags)]);
        }
        is(Verdict::Failed, &[("If-Unmodified-Since", BEFORE)]);
        is(Verdict::Go, &[("If-Unmodified-Since", THEN)]);
        is(Verdict::Go, &[("If-Unmodified-Since", "yesterday")]);
    }

    #[test]
    fn conditions_have_an_order() {
        is(Verdict::Go, &[("If-Match", TAG), ("If-Unmodified-Since", BEFORE)]);
        is(Verdict::Failed, &[("If-Match", "\"x\""), ("If-None-Match", TAG)]);
        is(Verdict::Failed, &[("If-Unmodified-Since", BEFORE), ("If-None-Match", TAG)]);
        is(Verdict::Same, &[("If-Match", TAG), ("If-None-Match", TAG)]);
        is(Verdict::Go, &[("If-None-Match", "\"x\""), ("If-Modified-Since", AFTER)]);
        is(Verdict::Same, &[("If-None-Match", TAG), ("If-Range", "\"x\"")]);
    }

    #[test]
    fn ranges_are_for_clients_with_other_parts_of_the_same_file() {
        is(Verdict::Go, &[("If-Range", TAG)]);
        is(Verdict::Go, &[("If-Range", THEN)]);
        for value in ["\"x\"", "W/\"a,b\"", BEFORE, AFTER, "", "*"] {
            is(Verdict::GoWhole, &[("If-Range", value)]);
        }
        is(Verdict::GoWhole, &[("If-Range", TAG), ("If-Range", TAG)]);
        assert_eq!(judged(Method::HEAD, &[]), Verdict::GoWhole);
    }

    #[test]
    fn a_second_is_too_long_for_a_file_that_changes() {
        let mut fields = Fields::default();
        fields.append_named(b"If-Range", THEN.as_bytes()).unwrap();
        let modified = parse_date(THEN.as_bytes());
        let validators = Validators { tag: TAG.as_bytes(), modified };
        let after = |seconds| modified.unwrap() + Duration::from_secs(seconds);
        assert_eq!(judge(Method::GET, &fields, validators, after(1)), Verdict::GoWhole);
        assert_eq!(judge(Method::GET, &fields, validators, after(2)), Verdict::Go);
        let undated = Validators { modified: None, ..validators };
        assert_eq!(judge(Method::GET, &fields, undated, after(2)), Verdict::GoWhole);
    }
}
