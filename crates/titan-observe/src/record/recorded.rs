//! A record as its readers see it: without what is secret.

use super::bytes::Reader;
use super::{CaptureKind, Captured, Facts, Place, Text};
use crate::secret::{JudgedName, SecretNames};

/// A record of an exchange that is over.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'r> {
    /// What it tells that is no text.
    pub facts: Facts,
    texts: [Place; Text::COUNT],
    captured: &'r [u8],
    arena: &'r [u8],
}

/// A value that the configuration wanted to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedValue<'r> {
    /// Where it comes from.
    pub kind: CaptureKind,
    /// The name of the field or claim.
    pub name: &'r [u8],
    /// What it says; stars if it is secret.
    pub value: &'r [u8],
}

/// What stands in place of what is secret.
const MASK: &[u8] = b"***";

impl<'r> Recorded<'r> {
    /// The first record of many, and the rest.
    pub fn first_of(bytes: &'r [u8]) -> Option<(Recorded<'r>, &'r [u8])> {
        let mut reader = Reader(bytes);
        let length = reader.u32() as usize;
        let (record, rest) = bytes.split_at_checked(length)?;
        let mut reader = Reader(record.get(4..)?);
        let facts = reader.facts();
        let (texts, captured, arena) = reader.texts();
        Some((Recorded { facts, texts, captured, arena }, rest))
    }

    /// A text that is not secret; empty where there is none. The query is told by [`Recorded::write_query`] alone.
    pub fn text(&self, text: Text) -> &'r [u8] {
        match text {
            Text::Target => self.path(),
            Text::Referer => without_user(split(self.raw(text)).0),
            text => self.raw(text),
        }
    }

    /// The path that was requested, as the client sent it.
    pub fn path(&self) -> &'r [u8] {
        split(self.raw(Text::Target)).0
    }

    /// Appends the query, with stars in place of values whose names tell that they are secret; whether there was one.
    pub fn write_query(&self, secrets: &mut SecretNames, out: &mut Vec<u8>) -> bool {
        let Some(query) = split(self.raw(Text::Target)).1 else { return false };
        for (place, pair) in query.split(|byte| *byte == b'&').enumerate() {
            if place > 0 {
                out.push(b'&');
            }
            let value =
                pair.iter().position(|byte| *byte == b'=').map_or(pair.len(), |end| end + 1);
            let (name, value) = pair.split_at(value);
            let is_secret = secrets.is_secret(name) || secrets.holds_secret(value);
            out.extend_from_slice(name);
            out.extend_from_slice(if is_secret && !value.is_empty() { MASK } else { value });
        }
        true
    }

    /// The values that the configuration wanted to know.
    pub fn captured(&self, secrets: &mut SecretNames) -> impl Iterator<Item = CapturedValue<'r>> {
        let (mut reader, arena) = (Reader(self.captured), self.arena);
        std::iter::from_fn(move || {
            let Captured { kind, name, value } = reader.captured()?;
            let (name, value) = (name.of(arena), value.of(arena));
            let value = if secrets.is_secret(name) { MASK } else { value };
            Some(CapturedValue { kind, name, value })
        })
    }

    /// One of them, by its name.
    pub fn find(&self, kind: CaptureKind, wanted: &JudgedName) -> Option<&'r [u8]> {
        let (mut reader, name) = (Reader(self.captured), wanted.as_str().as_bytes());
        loop {
            let Captured { kind: of, name: found, value } = reader.captured()?;
            if of == kind && found.of(self.arena).eq_ignore_ascii_case(name) {
                return Some(if wanted.is_secret() { MASK } else { value.of(self.arena) });
            }
        }
    }

    fn raw(&self, text: Text) -> &'r [u8] {
        self.texts[text as usize].of(self.arena)
    }
}

/// A target before its question mark, and behind it.
fn split(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match target.iter().position(|byte| *byte == b'?') {
        Some(end) => (&target[..end], Some(&target[end + 1..])),
        None => (target, None),
    }
}

/// The URL of a page without what is before its host: a user may be named there, with a password.
fn without_user(url: &[u8]) -> &[u8] {
    let host = url.windows(3).position(|part| part == b"://").map_or(0, |end| end + 3);
    let end = url[host..].iter().position(|byte| *byte == b'/').map_or(url.len(), |end| host + end);
    let user = url[host..end].iter().rposition(|byte| *byte == b'@');
    user.map_or(url, |user| &url[host + user + 1..])
}
