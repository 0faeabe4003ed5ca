//! The static table (RFC 9204 appendix A): the fields that both sides know from the beginning.

use titan_http::FieldName;
use titan_http::FieldName::*;
use titan_http::section::{Key, Line};

/// Where a line or its name stands in the static table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticIndex(pub(super) u8);

/// Pseudo fields and their values, by index.
pub(super) mod pseudo {
    use super::StaticIndex;

    /// `:authority`.
    pub(crate) const AUTHORITY: StaticIndex = StaticIndex(0);
    /// `:path: /`.
    pub(crate) const PATH: StaticIndex = StaticIndex(1);
    /// `:method`.
    pub(crate) const METHOD: StaticIndex = StaticIndex(15);
    /// `:scheme: http`.
    pub(crate) const HTTP: StaticIndex = StaticIndex(22);
    /// `:scheme: https`.
    pub(crate) const HTTPS: StaticIndex = StaticIndex(23);
    /// `:status`.
    pub(crate) const STATUS: StaticIndex = StaticIndex(24);
}

/// The entry with that index.
#[inline]
pub(super) fn get(index: usize) -> Option<Line<'static>> {
    ENTRIES.get(index).copied()
}

impl StaticIndex {
    /// The line with that name and value.
    pub(super) fn of_line(name: StaticIndex, value: &[u8]) -> Option<StaticIndex> {
        let first = usize::from(name.0);
        let entries = ENTRIES.iter().enumerate().skip(first);
        let mut same = entries.take_while(|(_, line)| line.name == ENTRIES[first].name);
        let found = same.find(|(_, line)| line.value == value);
        found.and_then(|(index, _)| u8::try_from(index).ok()).map(StaticIndex)
    }

    /// The status whose line the table has.
    pub(super) fn of_status(code: u16) -> Option<StaticIndex> {
        let index = match code {
            103 => 24,
            200 => 25,
            304 => 26,
            404 => 27,
            503 => 28,
            100 => 63,
            204 => 64,
            206 => 65,
            302 => 66,
            400 => 67,
            403 => 68,
            421 => 69,
            425 => 70,
            500 => 71,
            _ => return None,
        };
        Some(StaticIndex(index))
    }

    /// The first entry with that name, in any case.
    #[inline]
    pub(super) fn of_name(id: FieldName, name: &[u8]) -> Option<StaticIndex> {
        match id {
            Other => of_other(name),
            known => Some(BY_NAME[known as usize]).filter(|index| *index != NONE).map(StaticIndex),
        }
    }
}

/// That of a name that `FieldName` does not know.
fn of_other(name: &[u8]) -> Option<StaticIndex> {
    let mut rest = *OF_LENGTH.get(name.len())?;
    while rest != 0 {
        let index = rest.trailing_zeros();
        if ENTRIES[index as usize].name.eq_ignore_ascii_case(name) {
            return u8::try_from(index).ok().map(StaticIndex);
        }
        rest &= rest - 1;
    }
    None
}

/// Which entries have a name of that length which `FieldName` does not know, a bit for each: most names have few to be compared with.
static OF_LENGTH: [u128; 33] = of_length();

const fn of_length() -> [u128; 33] {
    let mut entries = [0; 33];
    let mut at = 0;
    while at < ENTRIES.len() {
        if matches!(ENTRIES[at].key, Key::Field(Other)) {
            entries[ENTRIES[at].name.len()] |= 1 << at;
        }
        at += 1;
    }
    entries
}

const NONE: u8 = u8::MAX;

static BY_NAME: [u8; 64] = by_name();

#[expect(clippy::cast_possible_truncation, reason = "the table has 99 entries")]
const fn by_name() -> [u8; 64] {
    let mut table = [NONE; 64];
    let mut at = ENTRIES.len();
    while at > 0 {
        at -= 1;
        if let Key::Field(name) = ENTRIES[at].key {
            table[name as usize] = at as u8;
        }
    }
    table[Other as usize] = NONE;
    table
}

const fn field(name: FieldName) -> Key {
    Key::Field(name)
}

const fn entry(name: &'static str, value: &'static str, key: Key) -> Line<'static> {
    Line { key, name: name.as_bytes(), value: value.as_bytes(), fault: None }
}

static ENTRIES: [Line<'static>; 99] = [
    entry(":authority", "", Key::Authority), // 0
    entry(":path", "/", Key::Path),
    entry("age", "0", field(Age)),
    entry("content-disposition", "", field(Other)),
    entry("content-length", "0", field(ContentLength)),
    entry("cookie", "", field(Cookie)),
    entry("date", "", field(Date)),
    entry("etag", "", field(Other)),
    entry("if-modified-since", "", field(Other)),
    entry("if-none-match", "", field(Other)),
    entry("last-modified", "", field(Other)), // 10
    entry("link", "", field(Other)),
    entry("location", "", field(Location)),
    entry("referer", "", field(Other)),
    entry("set-cookie", "", field(SetCookie)),
    entry(":method", "CONNECT", Key::Method),
    entry(":method", "DELETE", Key::Method),
    entry(":method", "GET", Key::Method),
    entry(":method", "HEAD", Key::Method),
    entry(":method", "OPTIONS", Key::Method),
    entry(":method", "POST", Key::Method), // 20
    entry(":method", "PUT", Key::Method),
    entry(":scheme", "http", Key::Scheme),
    entry(":scheme", "https", Key::Scheme),
    entry(":status", "103", Key::Status),
    entry(":status", "200", Key::Status),
    entry(":status", "304", Key::Status),
    entry(":status", "404", Key::Status),
    entry(":status", "503", Key::Status),
    entry("accept", "*/*", field(Accept)),
    entry("accept", "application/dns-message", field(Accept)), // 30
    entry("accept-encoding", "gzip, deflate, br", field(AcceptEncoding)),
    entry("accept-ranges", "bytes", field(Other)),
    entry("access-control-allow-headers", "cache-control", field(Other)),
    entry("access-control-allow-headers", "content-type", field(Other)),
    entry("access-control-allow-origin", "*", field(Other)),
    entry("cache-control", "max-age=0", field(CacheControl)),
    entry("cache-control", "max-age=2592000", field(CacheControl)),
    entry("cache-control", "max-age=604800", field(CacheControl)),
    entry("cache-control", "no-cache", field(CacheControl)),
    entry("cache-control", "no-store", field(CacheControl)), // 40
    entry("cache-control", "public, max-age=31536000", field(CacheControl)),
    entry("content-encoding", "br", field(ContentEncoding)),
    entry("content-encoding", "gzip", field(ContentEncoding)),
    entry("content-type", "application/dns-message", field(ContentType)),
    entry("content-type", "application/javascript", field(ContentType)),
    entry("content-type", "application/json", field(ContentType)),
    entry("content-type", "application/x-www-form-urlencoded", field(ContentType)),
    entry("content-type", "image/gif", field(ContentType)),
    entry("content-type", "image/jpeg", field(ContentType)),
    entry("content-type", "image/png", field(ContentType)), // 50
    entry("content-type", "text/css", field(ContentType)),
    entry("content-type", "text/html; charset=utf-8", field(ContentType)),
    entry("content-type", "text/plain", field(ContentType)),
    entry("content-type", "text/plain;charset=utf-8", field(ContentType)),
    entry("range", "bytes=0-", field(Range)),
    entry("strict-transport-security", "max-age=31536000", field(Other)),
    entry("strict-transport-security", "max-age=31536000; includesubdomains", field(Other)),
    entry(
        "strict-transport-security",
        "max-age=31536000; includesubdomains; preload",
        field(Other),
    ),
    entry("vary", "accept-encoding", field(Vary)),
    entry("vary", "origin", field(Vary)), // 60
    entry("x-content-type-options", "nosniff", field(Other)),
    entry("x-xss-protection", "1; mode=block", field(Other)),
    entry(":status", "100", Key::Status),
    entry(":status", "204", Key::Status),
    entry(":status", "206", Key::Status),
    entry(":status", "302", Key::Status),
    entry(":status", "400", Key::Status),
    entry(":status", "403", Key::Status),
    entry(":status", "421", Key::Status),
    entry(":status", "425", Key::Status), // 70
    entry(":status", "500", Key::Status),
    entry("accept-language", "", field(Other)),
    entry("access-control-allow-credentials", "FALSE", field(Other)),
    entry("access-control-allow-credentials", "TRUE", field(Other)),
    entry("access-control-allow-headers", "*", field(Other)),
    entry("access-control-allow-methods", "get", field(Other)),
    entry("access-control-allow-methods", "get, post, options", field(Other)),
    entry("access-control-allow-methods", "options", field(Other)),
    entry("access-control-expose-headers", "content-length", field(Other)),
    entry("access-control-request-headers", "content-type", field(Other)), // 80
    entry("access-control-request-method", "get", field(Other)),
    entry("access-control-request-method", "post", field(Other)),
    entry("alt-svc", "clear", field(Other)),
    entry("authorization", "", field(Authorization)),
    entry(
        "content-security-policy",
        "script-src 'none'; object-src 'none'; base-uri 'none'",
        field(Other),
    ),
    entry("early-data", "1", field(Other)),
    entry("expect-ct", "", field(Other)),
    entry("forwarded", "", field(Forwarded)),
    entry("if-range", "", field(Other)),
    entry("origin", "", field(Origin)), // 90
    entry("purpose", "prefetch", field(Other)),
    entry("server", "", field(Server)),
    entry("timing-allow-origin", "*", field(Other)),
    entry("upgrade-insecure-requests", "1", field(Other)),
    entry("user-agent", "", field(UserAgent)),
    entry("x-forwarded-for", "", field(XForwardedFor)),
    entry("x-frame-options", "deny", field(Other)),
    entry("x-frame-options", "sameorigin", field(Other)),
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
        assert_eq!(get(99), None);
        assert_eq!(
            (get(98).unwrap().name, get(0).unwrap().key),
            (b"x-frame-options".as_slice(), Key::Authority)
        );
    }

    #[test]
    fn every_name_is_found_and_every_line_that_stands_with_others_of_its_name() {
        for (index, line) in ENTRIES.iter().enumerate() {
            let Key::Field(id) = line.key else { continue };
            let upper = line.name.to_ascii_uppercase();
            let name = StaticIndex::of_name(id, &upper).unwrap();
            let first = ENTRIES.iter().position(|other| other.name == line.name).unwrap();
            assert_eq!(usize::from(name.0), first);
            // One name stands in two places.
            if index != 75 {
                assert_eq!(
                    StaticIndex::of_line(name, line.value),
                    Some(StaticIndex(u8::try_from(index).unwrap()))
                );
            }
        }
        assert_eq!(StaticIndex::of_name(Te, b"te"), None);
        for name in [b"".as_slice(), b"x-any", b"x-request-id", &[b'a'; 32], &[b'a'; 200]] {
            assert_eq!(StaticIndex::of_name(Other, name), None);
        }
        let accept = StaticIndex::of_name(Accept, b"accept").unwrap();
        assert_eq!(StaticIndex::of_line(accept, b"text/html"), None);
    }

    #[test]
    fn pseudo_fields_are_where_they_are_said_to_be() {
        let at = |index: StaticIndex| {
            let line = get(index.0.into()).unwrap();
            (line.key, line.value)
        };
        assert_eq!(at(pseudo::AUTHORITY).0, Key::Authority);
        assert_eq!(at(pseudo::PATH), (Key::Path, b"/".as_slice()));
        assert_eq!(at(pseudo::METHOD).0, Key::Method);
        assert_eq!(at(pseudo::HTTP), (Key::Scheme, b"http".as_slice()));
        assert_eq!(at(pseudo::HTTPS), (Key::Scheme, b"https".as_slice()));
        assert_eq!(at(pseudo::STATUS).0, Key::Status);
        let statuses = ENTRIES.iter().filter(|line| line.key == Key::Status);
        assert_eq!(statuses.clone().count(), 14);
        for line in statuses {
            let code = std::str::from_utf8(line.value).unwrap().parse().unwrap();
            assert_eq!(at(StaticIndex::of_status(code).unwrap()), (Key::Status, line.value));
        }
        assert_eq!(StaticIndex::of_status(201), None);
        assert_eq!(StaticIndex::of_line(pseudo::METHOD, b"GET"), Some(StaticIndex(17)));
    }
}
