//! Media ranges of `Accept` (RFC 9110 section 12.5.1): how welcome a media type is.

use crate::coding::parse_weight;
use crate::field_name::FieldName;
use crate::fields::Fields;

/// How welcome a media type is to a client. Of two, the greater one is what it should get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Welcome {
    /// In thousandths; 0 for one that is not wanted.
    pub weight: u16,
    /// Of two that are as welcome the one that is named is meant: programs often take `*/*` besides.
    specific: u8,
}

impl Welcome {
    /// That of `media_type`, without parameters, to a client with these fields. A range that has one of the parameters `with` must
    /// agree with its value; other parameters do not matter.
    pub fn of(fields: &Fields, media_type: &str, with: &[(&str, &str)]) -> Welcome {
        let members = fields.members(FieldName::Accept);
        let ranges = members.filter_map(|member| range(member, media_type, with));
        // The most specific range decides.
        let decides = ranges.max().unwrap_or_default();
        Welcome { weight: decides.1, specific: decides.0 }
    }
}

/// How specific a range is that has the media type, and its weight in thousandths; one that is malformed has none.
fn range(member: &[u8], media_type: &str, with: &[(&str, &str)]) -> Option<(u8, u16)> {
    let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    let name = parts.next()?;
    let (kind, _) = media_type.split_once('/')?;
    let is = |name: &[u8], wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
    let mut specific = match name {
        b"*/*" => 0,
        _ if name.strip_suffix(b"/*").is_some_and(|it| is(it, kind)) => 1,
        _ if is(name, media_type) => 2,
        _ => return None,
    };
    let mut weight = 1000;
    for part in parts {
        let (key, value) = split(part);
        match with.iter().find(|(wanted, _)| is(key, wanted)) {
            _ if is(key, "q") => weight = parse_weight(part)?,
            Some((_, wanted)) if is(value, wanted) => specific = 3,
            Some(_) => return None,
            None => {}
        }
    }
    Some((specific, weight))
}

/// The name of a parameter, and its value without quotes.
fn split(parameter: &[u8]) -> (&[u8], &[u8]) {
    let at = parameter.iter().position(|&byte| byte == b'=').unwrap_or(parameter.len());
    let (name, value) = parameter.split_at(at);
    let value = value.strip_prefix(b"=").unwrap_or_default();
    let bare = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    (name, bare.unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_range_decides() {
        for (accept, weight) in [
            ("a/b", 1000),
            ("a/b;q=0.5, */*", 500),
            ("*/*;q=0.2, A/*;q=0.3", 300),
            ("a/*;q=0.3, A/B ; q=0", 0),
            ("a/b;v=1;q=0.7, a/b;q=0.1", 700),
            ("a/b;v=\"1\" ;q=0.7, a/b;q=0.1", 700),
            ("a/b;V=2, a/*;q=0.4", 400),
            ("a/b;x=2;q=0.9", 900),
            ("a/b;w=2;v=1;q=0.8, a/b;q=0.1", 800),
            ("a/b;v=1;w=1", 0),
            ("a/b;q=2", 0),
            ("a/c, b/*", 0),
            ("", 0),
        ] {
            let mut fields = Fields::default();
            fields.append(FieldName::Accept, accept.as_bytes()).unwrap();
            let found = Welcome::of(&fields, "a/b", &[("v", "1"), ("w", "2")]);
            assert_eq!(found.weight, weight, "{accept}");
        }
    }

    #[test]
    fn of_two_that_are_as_welcome_the_one_that_is_named_comes_first() {
        let mut fields = Fields::default();
        fields.append(FieldName::Accept, b"*/*, a/b").unwrap();
        assert!(Welcome::of(&fields, "a/b", &[]) > Welcome::of(&fields, "c/d", &[]));
    }
}
