//! A record as an object of JSON. What there was not is not there; names and meaning are documented in
//! `docs/access-log.schema.json`.

use super::template::side_name;
use super::{Memory, judged, text};
use crate::decisions::{Decision, decisions};
use crate::record::{
    Attempted, BodyOf, CaptureKind, Facts, HeadCut, Masked, Phases, Recorded, RecordedBody, Text,
};
use crate::secret::JudgedName;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::net::IpAddr;
use std::time::Duration;
use titan_config::{Captures, HeaderName};
use titan_http::Status;

/// What records in JSON have of what was captured.
#[derive(Debug)]
pub(super) struct Json {
    request_headers: Vec<JudgedName>,
    response_headers: Vec<JudgedName>,
    claims: Vec<JudgedName>,
}

/// An object that is being written. Each piece that does not change is written at once: there are dozens in a record.
struct Object<'o>(&'o mut Vec<u8>);

/// What leads to the value of a member.
macro_rules! key {
    ($name:literal) => {
        concat!(",\"", $name, "\":").as_bytes()
    };
}

/// The same, and the quotation mark of a text.
macro_rules! text {
    ($name:literal) => {
        concat!(",\"", $name, "\":\"").as_bytes()
    };
}

impl Json {
    pub(super) fn new(captures: &Captures) -> Json {
        let Captures { request_headers, response_headers, claims } = captures;
        Json {
            request_headers: judged(request_headers.iter().map(HeaderName::as_str)),
            response_headers: judged(response_headers.iter().map(HeaderName::as_str)),
            claims: judged(claims.iter()),
        }
    }

    /// Appends the object of a record.
    pub(super) fn write(&self, memory: &mut Memory, record: &Recorded<'_>, out: &mut Vec<u8>) {
        let mut object = begin(memory, record, out);
        let Json { request_headers, response_headers, claims } = self;
        let of_request = (CaptureKind::RequestHeader, &request_headers[..]);
        object.captured(key!("request_headers"), of_request, (record, memory));
        let of_response = (CaptureKind::ResponseHeader, &response_headers[..]);
        object.captured(key!("response_headers"), of_response, (record, memory));
        object.captured(key!("claims"), (CaptureKind::Claim, claims), (record, memory));
        out.push(b'}');
    }
}

/// Appends the object of a record with everything that it has.
pub(super) fn write_full(memory: &mut Memory, record: &Recorded<'_>, out: &mut Vec<u8>) {
    let mut object = begin(memory, record, out);
    let secrets = &mut memory.secrets;
    let Facts { request_cut, response_cut, .. } = record.facts;
    object.cut(key!("request_cut"), request_cut);
    object.cut(key!("response_cut"), response_cut);
    for (key, kind) in [
        (key!("request_head"), CaptureKind::RequestHeader),
        (key!("response_head"), CaptureKind::ResponseHeader),
        (key!("claims"), CaptureKind::Claim),
    ] {
        let pairs = record.values(kind, secrets).map(|Masked { name, value }| [name, value]);
        object.list(key, pairs, |[name, value], object| {
            object.0.push(b'[');
            object.quoted(name);
            object.0.push(b',');
            object.quoted(value);
            object.0.push(b']');
        });
    }
    object.list(key!("tried"), record.attempts(), attempt);
    object.list(key!("decisions"), decisions(record).into_iter(), decision);
    out.push(b'}');
}

/// The same with the beginning of both bodies, where they are kept.
pub(super) fn write_with_bodies(memory: &mut Memory, record: &Recorded<'_>, out: &mut Vec<u8>) {
    write_full(memory, record, out);
    out.pop();
    let mut object = Object(out);
    for (key, of) in
        [(key!("request_body"), BodyOf::Request), (key!("response_body"), BodyOf::Response)]
    {
        if let Some(body) = record.body(of) {
            object.0.extend_from_slice(key);
            self::body(body, &mut object);
        }
    }
    out.push(b'}');
}

fn body(body: RecordedBody<'_>, object: &mut Object<'_>) {
    object.0.extend_from_slice(b"{\"bytes\":");
    text::number(body.length, object.0);
    object.number(key!("kept"), body.beginning.len() as u64);
    match body.text() {
        Some(text) => {
            object.word(text!("encoding"), "text");
            object.text_or_empty(text!("content"), text.as_bytes());
        }
        None => {
            object.word(text!("encoding"), "base64");
            object.word(text!("content"), &BASE64_STANDARD.encode(body.beginning));
        }
    }
    object.0.push(b'}');
}

/// Begins the object of a record with what each of them has.
fn begin<'o>(memory: &mut Memory, record: &Recorded<'_>, out: &'o mut Vec<u8>) -> Object<'o> {
    let Facts { event, started, took, .. } = record.facts;
    out.extend_from_slice(b"{\"time\":\"");
    memory.stamps.rfc3339(started, out);
    out.push(b'"');
    let mut object = Object(out);
    object.word(text!("event"), event.name());
    client(record, &mut object);
    request(memory, record, &mut object);
    let last = record.last_attempt();
    response(record, last.as_ref(), &mut object);
    phases(record, last.as_ref(), &mut object);
    object.duration(key!("duration_ms"), Some(took));
    object.text(text!("request_id"), record.text(Text::RequestId));
    object.text(text!("trace_id"), record.text(Text::TraceId));
    object
}

/// An attempt as an object.
fn attempt(attempt: Attempted<&[u8]>, object: &mut Object<'_>) {
    let Attempted { kind, is_reused, began, took, connect, tls, head, .. } = attempt;
    let Attempted { status, caused_by, error, upstream, endpoint, balance, choices, .. } = attempt;
    object.0.extend_from_slice(b"{\"kind\":\"");
    object.0.extend_from_slice(kind.name().as_bytes());
    object.0.push(b'"');
    object.text(text!("upstream"), upstream);
    object.text(text!("endpoint"), endpoint);
    object.text(text!("balance"), balance);
    object.number(key!("choices"), choices.into());
    object.duration(key!("began_ms"), Some(began));
    object.duration(key!("took_ms"), took);
    object.truth(key!("reused"), is_reused);
    object.duration(key!("connect_ms"), connect);
    object.duration(key!("tls_ms"), tls);
    object.duration(key!("head_ms"), head);
    object.status(key!("status"), status);
    object.text(text!("error"), error);
    if let Some(side) = caused_by {
        object.word(text!("caused_by"), side_name(side));
    }
    object.0.push(b'}');
}

fn decision(decision: Decision, object: &mut Object<'_>) {
    let Decision { at, what, text } = decision;
    object.0.extend_from_slice(b"{\"what\":\"");
    object.0.extend_from_slice(what.name().as_bytes());
    object.0.push(b'"');
    object.duration(key!("at_ms"), at);
    object.text(text!("text"), text.as_bytes());
    object.0.push(b'}');
}

/// Who sent it, and over what.
fn client(record: &Recorded<'_>, object: &mut Object<'_>) {
    let Facts { tls, client, peer, .. } = record.facts;
    object.text(text!("listener"), record.text(Text::Listener));
    object.address(text!("client"), client);
    object.address(text!("peer"), peer);
    object.word(text!("protocol"), record.facts.protocol());
    if let Some(tls) = tls {
        object.word(text!("tls_version"), tls.name());
    }
    object.text(text!("sni"), record.text(Text::Sni));
}

/// What was requested.
fn request(memory: &mut Memory, record: &Recorded<'_>, object: &mut Object<'_>) {
    object.text(text!("method"), record.text(Text::Method));
    object.word(text!("scheme"), record.facts.scheme_name());
    object.text(text!("host"), record.text(Text::Host));
    object.text(text!("path"), record.path());
    memory.scratch.clear();
    if record.write_query(&mut memory.secrets, &mut memory.scratch) {
        object.text_or_empty(text!("query"), &memory.scratch);
    }
    object.text(text!("user_agent"), record.user_agent());
    object.text(text!("referer"), record.referer());
    object.number(key!("request_bytes"), record.facts.request_bytes);
}

/// What came of it, and by whose doing.
fn response(record: &Recorded<'_>, last: Option<&Attempted<&[u8]>>, object: &mut Object<'_>) {
    let Facts { status, attempts, caused_by, response_bytes, .. } = record.facts;
    let Facts { token_cache, auth_cache, .. } = record.facts;
    object.text(text!("route"), record.text(Text::Route));
    if let Some(last) = last {
        object.text(text!("upstream"), last.upstream);
        object.text(text!("endpoint"), last.endpoint);
    }
    if attempts > 0 {
        object.number(key!("attempts"), attempts.into());
    }
    object.status(key!("status"), status);
    object.status(key!("upstream_status"), last.and_then(|last| last.status));
    object.number(key!("response_bytes"), response_bytes);
    object.truth(key!("complete"), record.facts.is_complete);
    object.text(text!("error"), record.text(Text::Error));
    if let Some(side) = caused_by {
        object.word(text!("caused_by"), side_name(side));
    }
    object.text(text!("refused_by"), record.text(Text::RefusedBy));
    for (key, used) in [(text!("token_cache"), token_cache), (text!("auth_cache"), auth_cache)] {
        if let Some(used) = used {
            object.word(key, used.name());
        }
    }
}

fn phases(record: &Recorded<'_>, last: Option<&Attempted<&[u8]>>, object: &mut Object<'_>) {
    let Phases { head, policies, queue } = record.facts.phases;
    object.duration(key!("head_ms"), head);
    object.duration(key!("policies_ms"), policies);
    object.duration(key!("queue_ms"), queue);
    if let Some(Attempted { connect, tls, head, .. }) = last {
        object.duration(key!("connect_ms"), *connect);
        object.duration(key!("tls_ms"), *tls);
        object.duration(key!("upstream_head_ms"), *head);
    }
}

impl Object<'_> {
    /// A text of the gateway's own.
    fn word(&mut self, key: &[u8], value: &str) {
        self.0.extend_from_slice(key);
        self.0.extend_from_slice(value.as_bytes());
        self.0.push(b'"');
    }

    fn text(&mut self, key: &[u8], value: &[u8]) {
        if !value.is_empty() {
            self.text_or_empty(key, value);
        }
    }

    fn text_or_empty(&mut self, key: &[u8], value: &[u8]) {
        self.0.extend_from_slice(key);
        text::json(value, self.0);
        self.0.push(b'"');
    }

    /// A text within a list.
    fn quoted(&mut self, value: &[u8]) {
        self.0.push(b'"');
        text::json(value, self.0);
        self.0.push(b'"');
    }

    fn list<T>(
        &mut self,
        key: &[u8],
        items: impl Iterator<Item = T>,
        write: impl Fn(T, &mut Object<'_>),
    ) {
        self.0.extend_from_slice(key);
        self.0.push(b'[');
        for (place, item) in items.enumerate() {
            if place > 0 {
                self.0.push(b',');
            }
            write(item, self);
        }
        self.0.push(b']');
    }

    /// What is not there of a head, unless all of it is.
    fn cut(&mut self, key: &[u8], cut: HeadCut) {
        let HeadCut { missing, shortened } = cut;
        if cut != HeadCut::default() {
            self.0.extend_from_slice(key);
            self.0.extend_from_slice(b"{\"missing\":");
            text::number(missing.into(), self.0);
            self.number(key!("shortened"), shortened.into());
            self.0.push(b'}');
        }
    }

    fn truth(&mut self, key: &[u8], value: bool) {
        self.0.extend_from_slice(key);
        self.0.extend_from_slice(if value { b"true" } else { b"false" });
    }

    fn number(&mut self, key: &[u8], value: u64) {
        self.0.extend_from_slice(key);
        text::number(value, self.0);
    }

    fn status(&mut self, key: &[u8], status: Option<Status>) {
        if let Some(status) = status {
            self.0.extend_from_slice(key);
            self.0.extend_from_slice(&status.digits());
        }
    }

    fn duration(&mut self, key: &[u8], duration: Option<Duration>) {
        if let Some(duration) = duration {
            self.0.extend_from_slice(key);
            text::milliseconds(duration, self.0);
        }
    }

    fn address(&mut self, key: &[u8], address: Option<IpAddr>) {
        if let Some(address) = address {
            self.0.extend_from_slice(key);
            text::address(address, self.0);
            self.0.push(b'"');
        }
    }

    /// An object of what was captured under these names, if there is any of it.
    fn captured(
        &mut self,
        key: &[u8],
        (kind, names): (CaptureKind, &[JudgedName]),
        (record, memory): (&Recorded<'_>, &mut Memory),
    ) {
        let Memory { secrets, scratch, .. } = memory;
        let mut is_open = false;
        for name in names {
            scratch.clear();
            if !record.write_value(kind, name, secrets, scratch) {
                continue;
            }
            match is_open {
                true => self.0.extend_from_slice(b",\""),
                false => {
                    self.0.extend_from_slice(key);
                    self.0.extend_from_slice(b"{\"");
                }
            }
            is_open = true;
            text::json(name.as_str().as_bytes(), self.0);
            self.0.extend_from_slice(b"\":\"");
            text::json(scratch, self.0);
            self.0.push(b'"');
        }
        if is_open {
            self.0.push(b'}');
        }
    }
}
