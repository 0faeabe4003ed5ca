//! What the JSON gateway of etcd is asked and responds with: Protocol Buffers as JSON, keys and values in Base64, numbers of 64 bits as
//! texts. Fields with zero values are left out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// Bytes, in Base64.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub Vec<u8>);

/// A number of 64 bits that is never negative: a revision, a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number(pub u64);

/// Which keys are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RangeRequest {
    /// The first key.
    pub key: Bytes,
    /// The first key that is not wanted any more.
    pub range_end: Bytes,
    /// How many at most; 0 for all.
    pub limit: Number,
    /// As of that revision; 0 for now.
    pub revision: Number,
    /// Only those that were changed at that revision or later.
    pub min_mod_revision: Number,
    /// Whether their values are left out.
    pub keys_only: bool,
}

/// Keys with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RangeResponse {
    /// Who responds.
    pub header: Header,
    /// The keys, in their order.
    pub kvs: Vec<KeyValue>,
    /// Whether there are more than were wanted.
    pub more: bool,
    /// How many there are in the range, wanted or not.
    pub count: Number,
}

/// Who responds, and as of which revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Header {
    /// The cluster.
    pub cluster_id: Number,
    /// The revision of its store.
    pub revision: Number,
}

/// A key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct KeyValue {
    /// The key.
    pub key: Bytes,
    /// When it was changed last.
    pub mod_revision: Number,
    /// Its value.
    pub value: Bytes,
}

/// What is to be watched, as the first message of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WatchRequest {
    /// The only message.
    pub create_request: WatchCreateRequest,
}

/// Which keys are watched, from when on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WatchCreateRequest {
    /// The first key.
    pub key: Bytes,
    /// The first key that is not watched any more.
    pub range_end: Bytes,
    /// The first revision whose events are told.
    pub start_revision: Number,
    /// Whether a watch without events is told of the revision now and then.
    pub progress_notify: bool,
    /// Whether many events of one revision may come in several messages.
    pub fragment: bool,
}

/// A line of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct WatchLine {
    /// A message.
    pub result: Option<WatchResponse>,
    /// Why there are no more.
    pub error: Option<Fault>,
}

/// A message of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct WatchResponse {
    /// Who tells.
    pub header: Header,
    /// Whether the watch has begun.
    pub created: bool,
    /// Whether it has ended.
    pub canceled: bool,
    /// Why.
    pub cancel_reason: String,
    /// Where it could begin at the earliest, if the revisions it was to begin with are gone.
    pub compact_revision: Number,
    /// Whether more events of the same revision follow.
    pub fragment: bool,
    /// What has happened.
    pub events: Vec<Event>,
}

/// A change of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Event {
    /// What has happened.
    #[serde(rename = "type")]
    pub kind: EventKind,
    /// The key, as it is now.
    pub kv: KeyValue,
}

/// What has happened to a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum EventKind {
    /// It has another value.
    #[default]
    #[serde(rename = "PUT")]
    Put,
    /// It is gone.
    #[serde(rename = "DELETE")]
    Delete,
}

/// Why a request has failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Fault {
    /// In words.
    pub message: String,
    /// The same of older versions.
    pub error: String,
}

/// Who asks.
#[derive(Serialize)]
pub struct AuthenticateRequest<'a> {
    /// The user.
    pub name: &'a str,
    /// The password.
    pub password: &'a str,
}

/// What shows who asks.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct AuthenticateResponse {
    /// It is sent with requests.
    pub token: String,
}

impl Bytes {
    /// Those of a text.
    pub fn of(text: &str) -> Bytes {
        Bytes(text.as_bytes().to_vec())
    }

    /// The first key that does not begin with these bytes any more. Without any it is the end of all keys, which etcd writes as a zero
    /// byte.
    pub fn end_of_prefix(&self) -> Bytes {
        let mut end = self.0.clone();
        while let Some(last) = end.pop() {
            if let Some(next) = last.checked_add(1) {
                end.push(next);
                return Bytes(end);
            }
        }
        Bytes(vec![0])
    }

    /// The key right after this one.
    pub fn next(&self) -> Bytes {
        let mut next = self.0.clone();
        next.push(0);
        Bytes(next)
    }
}

impl Number {
    /// The number after this one.
    pub fn next(self) -> Number {
        Number(self.0.saturating_add(1))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Fault {
    /// The words, as far as they can be shown: they may be anything.
    pub fn text(&self) -> String {
        let text = if self.message.is_empty() { &self.error } else { &self.message };
        shown(text)
    }
}

/// As much of a message of a server as is shown.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|char| matches!(char, ' '..='~')).take(MAX_MESSAGE).collect()
}

/// Characters of a message of a server that are shown.
const MAX_MESSAGE: usize = 200;

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        deserializer.deserialize_str(BytesVisitor)
    }
}

struct BytesVisitor;

impl Visitor<'_> for BytesVisitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes in Base64")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
        STANDARD.decode(text).map(Bytes).map_err(|_| E::custom("this is not Base64"))
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Number, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number that is not negative, or one as a text")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Number, E> {
        Ok(Number(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
        text.parse().map(Number).map_err(|_| E::custom("this is no such number"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_the_first_key_behind_it() {
        assert_eq!(Bytes::of("/titan/").end_of_prefix(), Bytes::of("/titan0"));
        assert_eq!(Bytes(vec![b'a', 255, 255]).end_of_prefix(), Bytes::of("b"));
        assert_eq!(Bytes(vec![255]).end_of_prefix(), Bytes(vec![0]));
    }

    #[test]
    fn a_range_is_read_as_etcd_writes_it() {
        let text = r#"{"header":{"cluster_id":"14841639068965178418","member_id":"1","revision":"7","raft_term":"2"},
            "kvs":[{"key":"L3RpdGFuL2E=","create_revision":"5","mod_revision":"6","version":"2","value":"eA=="}],"count":"1"}"#;
        let response: RangeResponse = serde_json::from_str(text).unwrap();
        let header = Header { cluster_id: Number(14_841_639_068_965_178_418), revision: Number(7) };
        assert_eq!((response.header, response.more, response.count), (header, false, Number(1)));
        let key =
            KeyValue { key: Bytes::of("/titan/a"), mod_revision: Number(6), value: Bytes::of("x") };
        assert_eq!(response.kvs, [key]);
    }

    #[test]
    fn what_etcd_does_not_write_is_no_response() {
        for text in
            ["7", r#"{"count":-1}"#, r#"{"count":"x"}"#, r#"{"kvs":[{"key":"*"}]}"#, r#"{"kvs":7}"#]
        {
            assert!(serde_json::from_str::<RangeResponse>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_request_is_what_etcd_reads() {
        let key = Bytes::of("/t/");
        let range_end = key.end_of_prefix();
        let request = RangeRequest { key, range_end, limit: Number(5), ..RangeRequest::default() };
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(
            text,
            r#"{"key":"L3Qv","range_end":"L3Qw","limit":"5","revision":"0","min_mod_revision":"0","keys_only":false}"#
        );
    }
}
