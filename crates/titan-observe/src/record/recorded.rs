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
            Text::Referer => bare_url(self.raw(text)),
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
            // Without a sign of its own the pair may have an escaped one, or be a secret as it is.
            let is_secret = match value {
                b"" if !name.ends_with(b"=") => secrets.holds_secret(name),
                value => {
                    secrets.is_secret(name.strip_suffix(b"=").unwrap_or(name))
                        || secrets.holds_secret(value)
                }
            };
            match is_secret {
                true if value.is_empty() && !name.ends_with(b"=") => out.extend_from_slice(MASK),
                true if !value.is_empty() => {
                    out.extend_from_slice(name);
                    out.extend_from_slice(MASK);
                }
                _ => out.extend_from_slice(pair),
            }
        }
        true
    }

    /// The values that the configuration wanted to know.
    pub fn captured(&self, secrets: &mut SecretNames) -> impl Iterator<Item = CapturedValue<'r>> {
        let (mut reader, arena) = (Reader(self.captured), self.arena);
        std::iter::from_fn(move || {
            let Captured { kind, name, value } = reader.captured()?;
            let (name, value) = (name.of(arena), value.of(arena));
            let is_hidden = secrets.is_secret(name) || secrets.holds_secret(value);
            Some(CapturedValue { kind, name, value: if is_hidden { MASK } else { value } })
        })
    }

    /// One of them, by its name.
    pub fn find(
        &self,
        kind: CaptureKind,
        wanted: &JudgedName,
        secrets: &mut SecretNames,
    ) -> Option<&'r [u8]> {
        let (mut reader, name) = (Reader(self.captured), wanted.as_str().as_bytes());
        loop {
            let Captured { kind: of, name: found, value } = reader.captured()?;
            if of == kind && found.of(self.arena).eq_ignore_ascii_case(name) {
                let value = value.of(self.arena);
                let is_hidden = wanted.is_secret() || secrets.holds_secret(value);
                return Some(if is_hidden { MASK } else { value });
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

/// The URL of a page without query and fragment, and without what is before its host: a user may be named there, with a
/// password.
fn bare_url(url: &[u8]) -> &[u8] {
    let end = url.iter().position(|byte| b"?#".contains(byte)).unwrap_or(url.len());
    let url = &url[..end];
    let host = url.windows(2).position(|part| part == b"//").map_or(0, |end| end + 2);
    let end = url[host..].iter().position(|byte| *byte == b'/').map_or(url.len(), |end| host + end);
    let user = url[host..end].iter().rposition(|byte| *byte == b'@');
    user.map_or(url, |user| &url[host + user + 1..])
}
