//! The static table (RFC 7541 appendix A): the fields that both sides know from the beginning.

use titan_http::FieldName;
use titan_http::FieldName::*;
use titan_http::section::{Key, Line};

/// Where a name stands in the static table: what a literal refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldIndex(pub(super) u8);

/// Pseudo fields and their values, by index.
pub(crate) mod pseudo {
    use super::FieldIndex;

    pub(crate) const AUTHORITY: FieldIndex = FieldIndex(1);
    pub(crate) const GET: FieldIndex = FieldIndex(2);
    pub(crate) const POST: FieldIndex = FieldIndex(3);
    pub(crate) const METHOD: FieldIndex = GET;
    pub(crate) const ROOT: FieldIndex = FieldIndex(4);
    pub(crate) const HTTP: FieldIndex = FieldIndex(6);
    pub(crate) const HTTPS: FieldIndex = FieldIndex(7);
    pub(crate) const STATUS: FieldIndex = FieldIndex(8);
}

/// How many entries there are; the dynamic table begins behind them.
pub(super) const COUNT: usize = ENTRIES.len();

/// The entry with that index, which begins at 1.
#[inline]
pub(super) fn get(index: usize) -> Option<Line<'static>> {
    ENTRIES.get(index.checked_sub(1)?).copied()
}

impl FieldIndex {
    /// The status whose line the table has.
    pub(crate) fn of_status(code: u16) -> Option<FieldIndex> {
        let index = match code {
            200 => 8,
            204 => 9,
            206 => 10,
            304 => 11,
            400 => 12,
            404 => 13,
            500 => 14,
            _ => return None,
        };
        Some(FieldIndex(index))
    }

    /// The entry with that name, in any case.
    #[inline]
    pub(crate) fn of_name(id: FieldName, name: &[u8]) -> Option<FieldIndex> {
        let index = match id {
            Other => of_other(name),
            known => BY_NAME[known as usize],
        };
        (index > 0).then_some(FieldIndex(index))
    }
}

/// The index of a name that `FieldName` does not know, in any case; 0 where the table does not
/// either.
fn of_other(name: &[u8]) -> u8 {
    let same_length: &[u8] = match name.len() {
        4 => &[34, 37, 45],
        7 => &[36, 51, 52],
        8 => &[39, 42],
        13 => &[18, 41, 44],
        14 => &[15],
        15 => &[17],
        16 => &[27, 29],
        17 => &[40],
        19 => &[25, 43],
        25 => &[56],
        27 => &[20],
        _ => &[],
    };
    let is_same =
        |&&index: &&u8| get(index.into()).is_some_and(|line| line.name.eq_ignore_ascii_case(name));
    same_length.iter().find(is_same).copied().unwrap_or(0)
}

static BY_NAME: [u8; 64] = by_name();

#[expect(clippy::cast_possible_truncation, reason = "the table has 61 entries")]
const fn by_name() -> [u8; 64] {
    let mut table = [0; 64];
    let mut at = 0;
    while at < COUNT {
        if let Key::Field(name) = ENTRIES[at].key {
            table[name as usize] = at as u8 + 1;
        }
        at += 1;
    }
    table[Other as usize] = 0;
    table
}

const fn field(name: FieldName) -> Key {
    Key::Field(name)
}

const fn entry(name: &'static str, value: &'static str, key: Key) -> Line<'static> {
    Line { key, name: name.as_bytes(), value: value.as_bytes(), fault: None }
}

static ENTRIES: [Line<'static>; 61] = [
    entry(":authority", "", Key::Authority), // 1
    entry(":method", "GET", Key::Method),
    entry(":method", "POST", Key::Method),
    entry(":path", "/", Key::Path),
    entry(":path", "/index.html", Key::Path),
    entry(":scheme", "http", Key::Scheme),
    entry(":scheme", "https", Key::Scheme),
    entry(":status", "200", Key::Status),
    entry(":status", "204", Key::Status),
    entry(":status", "206", Key::Status), // 10
    entry(":status", "304", Key::Status),
    entry(":status", "400", Key::Status),
    entry(":status", "404", Key::Status),
    entry(":status", "500", Key::Status),
    entry("accept-charset", "", field(Other)),
    entry("accept-encoding", "gzip, deflate", field(AcceptEncoding)),
    entry("accept-language", "", field(Other)),
    entry("accept-ranges", "", field(Other)),
    entry("accept", "", field(Accept)),
    entry("access-control-allow-origin", "", field(Other)), // 20
    entry("age", "", field(Age)),
    entry("allow", "", field(Allow)),
    entry("authorization", "", field(Authorization)),
    entry("cache-control", "", field(CacheControl)),
    entry("content-disposition", "", field(Other)),
    entry("content-encoding", "", field(ContentEncoding)),
    entry("content-language", "", field(Other)),
    entry("content-length", "", field(ContentLength)),
    entry("content-location", "", field(Other)),
    entry("content-range", "", field(ContentRange)), // 30
    entry("content-type", "", field(ContentType)),
    entry("cookie", "", field(Cookie)),
    entry("date", "", field(Date)),
    entry("etag", "", field(Other)),
    entry("expect", "", field(Expect)),
    entry("expires", "", field(Other)),
    entry("from", "", field(Other)),
    entry("host", "", field(Host)),
    entry("if-match", "", field(Other)),
    entry("if-modified-since", "", field(Other)), // 40
    entry("if-none-match", "", field(Other)),
    entry("if-range", "", field(Other)),
    entry("if-unmodified-since", "", field(Other)),
    entry("last-modified", "", field(Other)),
    entry("link", "", field(Other)),
    entry("location", "", field(Location)),
    entry("max-forwards", "", field(MaxForwards)),
    entry("proxy-authenticate", "", field(ProxyAuthenticate)),
    entry("proxy-authorization", "", field(ProxyAuthorization)),
    entry("range", "", field(Range)), // 50
    entry("referer", "", field(Other)),
    entry("refresh", "", field(Other)),
    entry("retry-after", "", field(RetryAfter)),
    entry("server", "", field(Server)),
    entry("set-cookie", "", field(SetCookie)),
    entry("strict-transport-security", "", field(Other)),
    entry("transfer-encoding", "", field(TransferEncoding)),
    entry("user-agent", "", field(UserAgent)),
    entry("vary", "", field(Vary)),
    entry("via", "", field(Via)), // 60
    entry("www-authenticate", "", field(WwwAuthenticate)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use titan_http::section::{check_name, check_value};

    #[test]
    fn entries_are_what_reading_them_would_give() {
        for line in &ENTRIES {
            assert_eq!(line.key, Key::of(line.name));
            assert_eq!(check_name(line.key, line.name).or(check_value(line.value)), None);
        }
        assert_eq!(get(0), None);
        assert_eq!(get(62), None);
        assert_eq!(get(61).unwrap().name, b"www-authenticate");
    }

    fn id_of(line: &Line<'_>) -> FieldName {
        FieldName::of(line.name)
    }

    #[test]
    fn every_name_is_found() {
        for line in ENTRIES.iter().filter(|line| !line.name.starts_with(b":")) {
            let index = FieldIndex::of_name(id_of(line), line.name).unwrap();
            assert_eq!(get(index.0.into()).unwrap(), *line);
            let upper = line.name.to_ascii_uppercase();
            assert_eq!(FieldIndex::of_name(id_of(line), &upper), Some(index));
        }
        assert_eq!(FieldIndex::of_name(Te, b"te"), None);
        assert_eq!(FieldIndex::of_name(Other, b"x-any"), None);
    }

    #[test]
    fn pseudo_fields_are_where_they_are_said_to_be() {
        let at = |index: FieldIndex| {
            let line = get(index.0.into()).unwrap();
            (line.key, line.value)
        };
        assert_eq!(at(pseudo::AUTHORITY).0, Key::Authority);
        assert_eq!(at(pseudo::GET), (Key::Method, b"GET".as_slice()));
        assert_eq!(at(pseudo::POST), (Key::Method, b"POST".as_slice()));
        assert_eq!(at(pseudo::ROOT), (Key::Path, b"/".as_slice()));
        assert_eq!(at(pseudo::HTTP), (Key::Scheme, b"http".as_slice()));
        assert_eq!(at(pseudo::HTTPS), (Key::Scheme, b"https".as_slice()));
        for code in [200, 204, 206, 304, 400, 404, 500] {
            let line = at(FieldIndex::of_status(code).unwrap());
            assert_eq!(line, (Key::Status, code.to_string().as_bytes()));
        }
        assert_eq!(at(pseudo::STATUS).0, Key::Status);
    }
}
