//! A record as its readers see it: without what is secret.

use super::attempted::time_to_head;
use super::bytes::{Lists, Reader};
use super::{Attempted, BodyOf, CaptureKind, Facts, Place, RecordedBody, Text};
use crate::secret::{JudgedName, SecretNames};
use std::net::IpAddr;
use std::time::Duration;

/// A record of an exchange that is over.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'r> {
    /// What it tells that is no text.
    pub facts: Facts,
    lists: Lists<'r>,
    /// All of it, as it was found.
    bytes: &'r [u8],
}

/// A field or a claim as it may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Masked<'r> {
    /// Its name.
    pub name: &'r [u8],
    /// What it says; stars if it is secret.
    pub value: &'r [u8],
}

/// A request that may be asked about once more.
pub struct Replayed {
    /// The method.
    pub method: String,
    /// The absolute URL.
    pub url: String,
    /// The header fields, each as in `Name: value`. The credentials of `Authorization` are among them.
    pub fields: Vec<String>,
    /// Whose connection it came over.
    pub peer: Option<IpAddr>,
    /// What has stars in place of what the client sent.
    pub replaced: Vec<String>,
    /// What must not be seen of what is made of it.
    credentials: Option<String>,
}

impl Replayed {
    /// A text about it, with stars in place of its credentials.
    pub fn mask(&self, text: &str) -> String {
        match &self.credentials {
            None => text.to_owned(),
            Some(credentials) => text.replace(credentials.as_str(), "***"),
        }
    }

    /// Whether a field is as it came: credentials long enough to be found again wherever they are shown.
    fn keeps(&mut self, name: &str, value: &str) -> bool {
        let (_, credentials) = value.split_once(' ').unwrap_or_default();
        let is_kept = name.eq_ignore_ascii_case("authorization")
            && credentials.len() >= MIN_CREDENTIALS
            && self.credentials.is_none();
        if is_kept {
            self.credentials = Some(credentials.to_owned());
        }
        is_kept
    }
}

/// Shorter ones would be in texts by chance.
const MIN_CREDENTIALS: usize = 16;

/// What stands in place of what is secret.
const MASK: &[u8] = b"***";

impl<'r> Recorded<'r> {
    /// The first record of many, and the rest.
    pub fn first_of(bytes: &'r [u8]) -> Option<(Recorded<'r>, &'r [u8])> {
        let (facts, lists, bytes, rest) = Reader(bytes).record()?;
        Some((Recorded { facts, lists, bytes }, rest))
    }

    /// All of it, as [`Recorded::first_of`] reads it. Secrets are in it.
    pub fn bytes(&self) -> &'r [u8] {
        self.bytes
    }

    /// Whether the head of the request could be read. Of one that could not there is no method, host, path and field.
    pub fn has_head(&self) -> bool {
        !self.raw(Text::Method).is_empty()
    }

    /// A text that is not secret; empty where there is none. The query is told by [`Recorded::write_query`] alone.
    pub fn text(&self, text: Text) -> &'r [u8] {
        match text {
            Text::Target => self.path(),
            text => self.raw(text),
        }
    }

    /// What the client says that it is.
    pub fn user_agent(&self) -> &'r [u8] {
        self.request_field(b"user-agent").unwrap_or_default()
    }

    /// The page that the request comes from, as its client says, without query.
    pub fn referer(&self) -> &'r [u8] {
        bare_url(self.request_field(b"referer").unwrap_or_default())
    }

    /// The request as it may be asked about once more: with stars in place of secrets, but for the credentials that `Authorization`
    /// has, by which policies decide.
    pub fn replayed(&self) -> Replayed {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut replayed = Replayed {
            method: text(self.text(Text::Method)),
            url: format!("{}://{}", self.facts.scheme.as_str(), text(self.text(Text::Host))),
            fields: Vec::new(),
            peer: self.facts.peer,
            replaced: Vec::new(),
            credentials: None,
        };
        let (mut secrets, mut query) = (SecretNames::default(), Vec::new());
        replayed.url.push_str(&text(self.path()));
        if self.write_query(&mut secrets, &mut query) {
            replayed.url.push('?');
            replayed.url.push_str(&text(&query));
            if split(self.raw(Text::Target)).1 != Some(&query[..]) {
                replayed.replaced.push("the query".to_owned());
            }
        }
        let shown = self.values(CaptureKind::RequestHeader, &mut secrets).map(|it| it.value);
        let shown: Vec<_> = shown.collect();
        for ((name, value), shown) in self.pairs(CaptureKind::RequestHeader).zip(shown) {
            let (name, value, shown) = (text(name), text(value), text(shown));
            let is_kept = replayed.keeps(&name, &value);
            if !is_kept && shown != value {
                replayed.replaced.push(name.clone());
            }
            replayed.fields.push(format!("{name}: {}", if is_kept { &value } else { &shown }));
        }
        replayed
    }

    /// The policies that let the request pass, in their order.
    pub fn passed(&self) -> impl Iterator<Item = &'r [u8]> + use<'r> {
        let (mut reader, arena) = (Reader(self.lists.passed), self.lists.arena);
        std::iter::from_fn(move || Some(reader.listed_place()?.of(arena)))
    }

    /// The attempts, in the order in which they began but for the last one, which decided what came of the exchange.
    pub fn attempts(&self) -> impl Iterator<Item = Attempted<&'r [u8]>> + use<'r> {
        let (mut reader, arena) = (Reader(self.lists.attempts), self.lists.arena);
        std::iter::from_fn(move || Some(reader.attempt()?.read(arena)))
    }

    /// The attempt that decided what came of the exchange, if there was one.
    pub fn last_attempt(&self) -> Option<Attempted<&'r [u8]>> {
        let arena = self.lists.arena;
        Some(Reader(self.lists.attempts).last_attempt()?.read(arena))
    }

    /// What is kept of a body, where anything is. Secrets are in it.
    pub fn body(&self, of: BodyOf) -> Option<RecordedBody<'r>> {
        RecordedBody::find(of, self.lists.bodies)
    }

    /// How long it took to the head of the response.
    pub fn time_to_head(&self) -> Duration {
        let last = self.last_attempt().map(|last| (last.began, last.head));
        time_to_head(last, self.facts.took)
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

    /// The fields of the request or the response, or the claims, in order.
    pub fn values(
        &self,
        kind: CaptureKind,
        secrets: &mut SecretNames,
    ) -> impl Iterator<Item = Masked<'r>> {
        self.pairs(kind).map(move |(name, value)| Masked {
            name,
            value: match secrets.is_secret(name) || hides(kind, name, value, secrets) {
                true => MASK,
                false => value,
            },
        })
    }

    /// Appends what is there under a name, of several values their list, or stars if it is secret; whether there is any.
    pub fn write_value(
        &self,
        kind: CaptureKind,
        wanted: &JudgedName,
        secrets: &mut SecretNames,
        out: &mut Vec<u8>,
    ) -> bool {
        let (start, name) = (out.len(), wanted.as_str().as_bytes());
        let named = self.pairs(kind).filter(|(of, _)| of.eq_ignore_ascii_case(name));
        let (mut count, mut is_hidden) = (0, wanted.is_secret());
        for (name, value) in named {
            if count > 0 {
                out.extend_from_slice(b", ");
            }
            count += 1;
            is_hidden = is_hidden || hides(kind, name, value, secrets);
            out.extend_from_slice(value);
        }
        if is_hidden && count > 0 {
            out.truncate(start);
            out.extend_from_slice(MASK);
        }
        count > 0
    }

    fn pairs(&self, kind: CaptureKind) -> impl Iterator<Item = (&'r [u8], &'r [u8])> + use<'r> {
        let Lists { request_lines, response_lines, claims, arena, .. } = self.lists;
        let mut reader = Reader(match kind {
            CaptureKind::RequestHeader => request_lines,
            CaptureKind::ResponseHeader => response_lines,
            CaptureKind::Claim => claims,
        });
        std::iter::from_fn(move || {
            let (name, value) = reader.pair()?;
            Some((name.of(arena), value.of(arena)))
        })
    }

    /// The first value of that field of the request.
    fn request_field(&self, wanted: &[u8]) -> Option<&'r [u8]> {
        let mut pairs = self.pairs(CaptureKind::RequestHeader);
        pairs.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
    }

    fn raw(&self, text: Text) -> &'r [u8] {
        let place: Place = self.lists.texts[text as usize];
        place.of(self.lists.arena)
    }
}

/// Whether a value is hidden whatever its name is.
fn hides(kind: CaptureKind, name: &[u8], value: &[u8], secrets: &mut SecretNames) -> bool {
    let is_challenge =
        kind == CaptureKind::ResponseHeader && name.eq_ignore_ascii_case(b"www-authenticate");
    match is_challenge {
        // What its parameters are called tells what is wanted, and nothing that anybody has; a URL in one of them may.
        true => names_user(value) || secrets.holds_secret(&value[start_of_query(value)..]),
        false => shows_secret(value, secrets),
    }
}

/// Where the query of a URL in a value begins, or perhaps one that is escaped; the end if nowhere.
fn start_of_query(value: &[u8]) -> usize {
    value.iter().position(|byte| b"?#%".contains(byte)).unwrap_or(value.len())
}

/// Whether a value has a secret in it, or is a URL that names a user, perhaps with a password.
fn shows_secret(value: &[u8], secrets: &mut SecretNames) -> bool {
    value.contains(&b'@') && names_user(value) || secrets.holds_secret(value)
}

/// Whether it is a URL with something before its host.
fn names_user(url: &[u8]) -> bool {
    let host = url.windows(2).position(|part| part == b"//").map(|end| &url[end + 2..]);
    host.is_some_and(|host| {
        host.iter().take_while(|byte| !b"/?#".contains(byte)).any(|byte| *byte == b'@')
    })
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
    let url = without_query(url);
    let host = url.windows(2).position(|part| part == b"//").map_or(0, |end| end + 2);
    let end = url[host..].iter().position(|byte| *byte == b'/').map_or(url.len(), |end| host + end);
    let user = url[host..end].iter().rposition(|byte| *byte == b'@');
    user.map_or(url, |user| &url[host + user + 1..])
}

fn without_query(url: &[u8]) -> &[u8] {
    let end = url.iter().position(|byte| b"?#".contains(byte)).unwrap_or(url.len());
    &url[..end]
}
