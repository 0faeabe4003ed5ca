//! What the JSON gateway of etcd is asked and responds with: Protocol Buffers as JSON, keys and values in Base64, numbers of 64 bits as
//! texts. Fields with zero values are left out.

use crate::message::shown;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// Bytes, in Base64.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

/// A number of 64 bits that is never negative: a revision, a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Number(pub(crate) u64);

/// Which keys are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RangeRequest {
    /// The first key.
    pub(crate) key: Bytes,
    /// The first key that is not wanted any more.
    pub(crate) range_end: Bytes,
    /// How many at most; 0 for all.
    pub(crate) limit: Number,
    /// As of that revision; 0 for now.
    pub(crate) revision: Number,
    /// Only those that were changed at that revision or later.
    pub(crate) min_mod_revision: Number,
    /// Whether their values are left out.
    pub(crate) keys_only: bool,
}

/// Keys with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct RangeResponse {
    /// Who responds.
    pub(crate) header: Header,
    /// The keys, in their order.
    pub(crate) kvs: Vec<KeyValue>,
    /// Whether there are more than were wanted.
    pub(crate) more: bool,
    /// How many there are in the range, wanted or not.
    pub(crate) count: Number,
}

/// Who responds, and as of which revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Header {
    /// The cluster.
    pub(crate) cluster_id: Number,
    /// The revision of its store.
    pub(crate) revision: Number,
}

/// A key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct KeyValue {
    /// The key.
    pub(crate) key: Bytes,
    /// When it was changed last.
    pub(crate) mod_revision: Number,
    /// Its value.
    pub(crate) value: Bytes,
}

/// What is done if all comparisons hold, and what otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct TxnRequest {
    /// The comparisons.
    pub(crate) compare: Vec<Compare>,
    /// What is done if they hold.
    pub(crate) success: Vec<RequestOp>,
    /// What is done if one does not.
    pub(crate) failure: Vec<RequestOp>,
}

/// A comparison of when keys were changed last; one that is not there was changed at 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Compare {
    /// What is compared.
    pub(crate) target: &'static str,
    /// How.
    pub(crate) result: &'static str,
    /// The first key.
    pub(crate) key: Bytes,
    /// The first key that is not meant; nothing for the key alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) range_end: Option<Bytes>,
    /// What with.
    pub(crate) mod_revision: Number,
}

/// A part of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum RequestOp {
    /// Keys are read.
    #[serde(rename = "request_range")]
    Range(RangeRequest),
    /// A key gets a value.
    #[serde(rename = "request_put")]
    Put {
        /// The key.
        key: Bytes,
        /// The value.
        value: Bytes,
    },
    /// A key is removed.
    #[serde(rename = "request_delete_range")]
    Delete {
        /// The key.
        key: Bytes,
    },
}

/// What has come of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct TxnResponse {
    /// Who responds.
    pub(crate) header: Header,
    /// Whether the comparisons have held.
    pub(crate) succeeded: bool,
    /// What has come of its parts.
    pub(crate) responses: Vec<ResponseOp>,
}

/// What has come of a part of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ResponseOp {
    /// What was read, if it has read.
    pub(crate) response_range: RangeResponse,
}

/// What is to be watched, as the first message of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct WatchRequest {
    /// The only message.
    pub(crate) create_request: WatchCreateRequest,
}

/// Which keys are watched, from when on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct WatchCreateRequest {
    /// The first key.
    pub(crate) key: Bytes,
    /// The first key that is not watched any more.
    pub(crate) range_end: Bytes,
    /// The first revision whose events are told.
    pub(crate) start_revision: Number,
    /// Whether a watch without events is told of the revision now and then.
    pub(crate) progress_notify: bool,
    /// Whether many events of one revision may come in several messages.
    pub(crate) fragment: bool,
}

/// A line of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct WatchLine {
    /// A message.
    pub(crate) result: Option<WatchResponse>,
    /// Why there are no more.
    pub(crate) error: Option<Fault>,
}

/// A message of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct WatchResponse {
    /// Who tells.
    pub(crate) header: Header,
    /// Whether the watch has begun.
    pub(crate) created: bool,
    /// Whether it has ended.
    pub(crate) canceled: bool,
    /// Why.
    pub(crate) cancel_reason: String,
    /// Where it could begin at the earliest, if the revisions it was to begin with are gone.
    pub(crate) compact_revision: Number,
    /// Whether more events of the same revision follow.
    pub(crate) fragment: bool,
    /// What has happened.
    pub(crate) events: Vec<Event>,
}

/// A change of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Event {
    /// What has happened.
    #[serde(rename = "type")]
    pub(crate) kind: EventKind,
    /// The key, as it is now.
    pub(crate) kv: KeyValue,
}

/// What has happened to a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum EventKind {
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
pub(crate) struct Fault {
    /// In words.
    pub(crate) message: String,
    /// The same of older versions.
    pub(crate) error: String,
}

/// Who asks.
#[derive(Serialize)]
pub(crate) struct AuthenticateRequest<'a> {
    /// The user.
    pub(crate) name: &'a str,
    /// The password.
    pub(crate) password: &'a str,
}

/// What shows who asks.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct AuthenticateResponse {
    /// It is sent with requests.
    pub(crate) token: String,
}

impl Bytes {
    /// Those of a text.
    pub(crate) fn of(text: &str) -> Bytes {
        Bytes(text.as_bytes().to_vec())
    }

    /// The first key that does not begin with these bytes any more. Without any it is the end of all keys, which etcd writes as a zero
    /// byte.
    pub(crate) fn end_of_prefix(&self) -> Bytes {
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
    pub(crate) fn next(&self) -> Bytes {
        let mut next = self.0.clone();
        next.push(0);
        Bytes(next)
    }
}

impl Compare {
    /// Whether the key was changed last at that revision; at 0 whether it is not there.
    pub(crate) fn is_as_of(key: Bytes, revision: Number) -> Compare {
        let (target, result) = ("MOD", "EQUAL");
        Compare { target, result, key, range_end: None, mod_revision: revision }
    }

    /// Whether none of these keys was changed after that revision.
    pub(crate) fn none_since((key, range_end): (Bytes, Bytes), revision: Number) -> Compare {
        let (target, result, mod_revision) = ("MOD", "LESS", revision.next());
        Compare { target, result, key, range_end: Some(range_end), mod_revision }
    }
}

impl Number {
    /// The number after this one.
    pub(crate) fn next(self) -> Number {
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
    pub(crate) fn text(&self) -> String {
        let text = if self.message.is_empty() { &self.error } else { &self.message };
        shown(text)
    }
}

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
    fn a_transaction_is_what_etcd_reads() {
        let key = Bytes::of("/t/a");
        let range = (Bytes::of("/t/"), Bytes::of("/t0"));
        let request = TxnRequest {
            compare: vec![
                Compare::none_since(range, Number(7)),
                Compare::is_as_of(key.clone(), Number(0)),
            ],
            success: vec![
                RequestOp::Put { key: key.clone(), value: Bytes::of("x") },
                RequestOp::Delete { key },
            ],
            failure: Vec::new(),
        };
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(
            text,
            [
                r#"{"compare":[{"target":"MOD","result":"LESS","key":"L3Qv","range_end":"L3Qw","mod_revision":"8"},"#,
                r#"{"target":"MOD","result":"EQUAL","key":"L3QvYQ==","mod_revision":"0"}],"#,
                r#""success":[{"request_put":{"key":"L3QvYQ==","value":"eA=="}},"#,
                r#"{"request_delete_range":{"key":"L3QvYQ=="}}],"failure":[]}"#,
            ]
            .concat()
        );
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
