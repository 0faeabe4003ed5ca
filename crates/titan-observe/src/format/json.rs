//! A record as an object of JSON. What there was not is not there; names and meaning are documented in
//! `docs/access-log.schema.json`.

use super::template::side_name;
use super::{Formatter, text};
use crate::record::{CaptureKind, Facts, Phases, Recorded, Text};
use std::net::IpAddr;
use std::time::Duration;
use titan_config::{Captures, HeaderName};
use titan_http::Status;

/// An object that is being written.
struct Object<'o>(&'o mut Vec<u8>);

/// Appends the object of a record.
pub(super) fn write(
    formatter: &mut Formatter,
    captures: &Captures,
    record: &Recorded<'_>,
    out: &mut Vec<u8>,
) {
    let Facts { event, started, took, .. } = record.facts;
    out.extend_from_slice(b"{\"time\":\"");
    formatter.stamps.rfc3339(started, out);
    out.push(b'"');
    let mut object = Object(out);
    object.word("event", event.name());
    client(record, &mut object);
    request(formatter, record, &mut object);
    response(record, &mut object);
    phases(&record.facts.phases, &mut object);
    object.duration("duration_ms", Some(took));
    object.text("request_id", record.text(Text::RequestId));
    object.text("trace_id", record.text(Text::TraceId));
    let Captures { request_headers, response_headers, claims } = captures;
    let mut captured =
        |kind, name: &str| record.find(kind, name.as_bytes(), &mut formatter.secrets);
    let values = request_headers.iter().map(HeaderName::as_str);
    let values = values.filter_map(|it| Some((it, captured(CaptureKind::RequestHeader, it)?)));
    object.texts("request_headers", values);
    let values = response_headers.iter().map(HeaderName::as_str);
    let values = values.filter_map(|it| Some((it, captured(CaptureKind::ResponseHeader, it)?)));
    object.texts("response_headers", values);
    let values = claims.iter().map(ToString::to_string);
    let values = values.filter_map(|it| {
        let value = captured(CaptureKind::Claim, &it)?;
        Some((it, value))
    });
    object.texts("claims", values);
    out.push(b'}');
}

/// Who sent it, and over what.
fn client(record: &Recorded<'_>, object: &mut Object<'_>) {
    let Facts { version, tls, client, peer, .. } = record.facts;
    object.text("listener", record.text(Text::Listener));
    object.address("client", client);
    object.address("peer", peer);
    object.key("protocol");
    object.0.extend_from_slice(b"\"HTTP/");
    object.0.extend_from_slice(version.as_str().as_bytes());
    object.0.push(b'"');
    if let Some(tls) = tls {
        object.word("tls_version", tls.name());
    }
    object.text("sni", record.text(Text::Sni));
}

/// What was requested.
fn request(formatter: &mut Formatter, record: &Recorded<'_>, object: &mut Object<'_>) {
    object.text("method", record.text(Text::Method));
    object.word("scheme", record.facts.scheme.as_str());
    object.text("host", record.text(Text::Host));
    object.text("path", record.path());
    formatter.scratch.clear();
    if record.write_query(&mut formatter.secrets, &mut formatter.scratch) {
        object.text_or_empty("query", &formatter.scratch);
    }
    object.text("user_agent", record.text(Text::UserAgent));
    object.text("referer", record.text(Text::Referer));
    object.number("request_bytes", record.facts.request_bytes);
}

/// What came of it, and by whose doing.
fn response(record: &Recorded<'_>, object: &mut Object<'_>) {
    let Facts { status, upstream_status, attempts, caused_by, response_bytes, .. } = record.facts;
    let Facts { token_cache, auth_cache, .. } = record.facts;
    object.text("route", record.text(Text::Route));
    object.text("upstream", record.text(Text::Upstream));
    object.text("endpoint", record.text(Text::Endpoint));
    if attempts > 0 {
        object.number("attempts", attempts.into());
    }
    object.status("status", status);
    object.status("upstream_status", upstream_status);
    object.number("response_bytes", response_bytes);
    object.key("complete");
    object.0.extend_from_slice(if record.facts.is_complete { b"true" } else { b"false" });
    object.text("error", record.text(Text::Error));
    if let Some(side) = caused_by {
        object.word("caused_by", side_name(side));
    }
    object.text("refused_by", record.text(Text::RefusedBy));
    for (name, used) in [("token_cache", token_cache), ("auth_cache", auth_cache)] {
        if let Some(used) = used {
            object.word(name, used.name());
        }
    }
}

fn phases(phases: &Phases, object: &mut Object<'_>) {
    let Phases { head, policies, queue, connect, tls, upstream_head } = *phases;
    object.duration("head_ms", head);
    object.duration("policies_ms", policies);
    object.duration("queue_ms", queue);
    object.duration("connect_ms", connect);
    object.duration("tls_ms", tls);
    object.duration("upstream_head_ms", upstream_head);
}

impl Object<'_> {
    fn key(&mut self, name: &str) {
        self.0.extend_from_slice(b",\"");
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    /// A text of the gateway's own.
    fn word(&mut self, name: &str, value: &str) {
        self.key(name);
        self.0.push(b'"');
        self.0.extend_from_slice(value.as_bytes());
        self.0.push(b'"');
    }

    fn text(&mut self, name: &str, value: &[u8]) {
        if !value.is_empty() {
            self.text_or_empty(name, value);
        }
    }

    fn text_or_empty(&mut self, name: &str, value: &[u8]) {
        self.key(name);
        self.string(value);
    }

    fn string(&mut self, value: &[u8]) {
        self.0.push(b'"');
        text::json(value, self.0);
        self.0.push(b'"');
    }

    fn number(&mut self, name: &str, value: u64) {
        self.key(name);
        text::number(value, self.0);
    }

    fn status(&mut self, name: &str, status: Option<Status>) {
        if let Some(status) = status {
            self.number(name, status.code().into());
        }
    }

    fn duration(&mut self, name: &str, duration: Option<Duration>) {
        if let Some(duration) = duration {
            self.key(name);
            text::milliseconds(duration, self.0);
        }
    }

    fn address(&mut self, name: &str, address: Option<IpAddr>) {
        if let Some(address) = address {
            self.key(name);
            self.0.push(b'"');
            text::address(address, self.0);
            self.0.push(b'"');
        }
    }

    /// An object of texts, if there are any.
    fn texts<'r>(&mut self, name: &str, values: impl Iterator<Item = (impl AsRef<str>, &'r [u8])>) {
        let mut is_open = false;
        for (field, value) in values {
            match is_open {
                true => self.0.push(b','),
                false => {
                    self.key(name);
                    self.0.push(b'{');
                }
            }
            is_open = true;
            self.string(field.as_ref().as_bytes());
            self.0.push(b':');
            self.string(value);
        }
        if is_open {
            self.0.push(b'}');
        }
    }
}
