//! What an exchange was, as attributes: by the names of OpenTelemetry's semantic conventions where these have one, the stable ones
//! of HTTP first, and below `titan.` for the rest.

use crate::routes::RoutePaths;
use crate::value::{Value, attribute};
use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use titan_config::{Captures, HeaderName};
use titan_io::error::Side;
use titan_observe::record::{
    Attempted, CaptureKind, Event, Facts, Phases, Recorded, Text, TlsVersion,
};
use titan_observe::secret::{JudgedName, SecretNames};

/// Writes the attributes of exchanges.
#[derive(Debug)]
pub(crate) struct Attributes {
    /// What the configuration wants to know beside what every record has, by the names of its attributes.
    captured: Vec<(CaptureKind, JudgedName, String)>,
    routes: Arc<RoutePaths>,
    secrets: SecretNames,
    /// A text that is being put together.
    scratch: Vec<u8>,
}

/// Attributes that are being written, as one field.
pub(crate) struct Writing<'o> {
    /// The number of the field.
    pub(crate) field: u64,
    pub(crate) out: &'o mut Vec<u8>,
}

/// The methods that the conventions know. Others are `_OTHER`: a client may send any.
const METHODS: [&[u8]; 10] = [
    b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH",
    b"QUERY",
];

impl Attributes {
    /// Those of every exchange, and these.
    pub(crate) fn new(captures: &Captures, routes: &Arc<RoutePaths>) -> Attributes {
        let Captures { request_headers, response_headers, claims } = captures;
        // The conventions have the names of fields in lower case.
        let lower = |name: &HeaderName| name.as_str().to_ascii_lowercase();
        let named = |kind, name: &str, attribute| (kind, JudgedName::new(name), attribute);
        let mut captured = Vec::new();
        captured.extend(request_headers.iter().map(|name| {
            let attribute = format!("http.request.header.{}", lower(name));
            named(CaptureKind::RequestHeader, name.as_str(), attribute)
        }));
        captured.extend(response_headers.iter().map(|name| {
            let attribute = format!("http.response.header.{}", lower(name));
            named(CaptureKind::ResponseHeader, name.as_str(), attribute)
        }));
        captured.extend(claims.iter().map(|claim| {
            let name = claim.to_string();
            named(CaptureKind::Claim, &name, format!("titan.claim.{name}"))
        }));
        let (routes, secrets) = (Arc::clone(routes), SecretNames::default());
        Attributes { captured, routes, secrets, scratch: Vec::new() }
    }

    /// The pattern of the path of the route that has taken the request, if there is one.
    pub(crate) fn route(&self, record: &Recorded<'_>) -> Option<&[u8]> {
        self.routes.get(record.text(Text::Route))
    }

    /// Appends all that there is.
    pub(crate) fn write(&mut self, record: &Recorded<'_>, field: u64, out: &mut Vec<u8>) {
        let mut to = Writing { field, out };
        self.request(record, &mut to);
        to.text("http.route", self.route(record).unwrap_or_default());
        response(record, &mut to);
        self.client(record, &mut to);
        decisions(record, &mut to);
        let last = record.last_attempt();
        last.iter().for_each(|last| decisive(last, &mut to));
        phases(&record.facts.phases, &mut to);
        self.captured(record, &mut to);
    }

    fn request(&mut self, record: &Recorded<'_>, to: &mut Writing<'_>) {
        if record.facts.event == Event::Connection {
            return to.int("titan.received_bytes", record.facts.request_bytes);
        }
        to.method(record.text(Text::Method));
        to.text("url.scheme", record.facts.scheme.as_str().as_bytes());
        to.text("url.path", record.path());
        self.scratch.clear();
        if record.write_query(&mut self.secrets, &mut self.scratch) {
            to.text("url.query", &self.scratch);
        }
        let host = record.text(Text::Host);
        let name = titan_http::host_of(host);
        to.text(
            "server.address",
            name.strip_prefix(b"[").and_then(|it| it.strip_suffix(b"]")).unwrap_or(name),
        );
        let port =
            host.get(name.len() + 1..).and_then(|it| std::str::from_utf8(it).ok()?.parse().ok());
        if let Some(port) = port {
            to.int("server.port", port);
        }
        to.text("user_agent.original", record.user_agent());
        let referer = record.referer();
        if !referer.is_empty() {
            to.put("http.request.header.referer", Value::Texts(referer));
        }
        to.int("http.request.size", record.facts.request_bytes);
    }

    fn client(&mut self, record: &Recorded<'_>, to: &mut Writing<'_>) {
        let Facts { version, tls, client, peer, .. } = record.facts;
        if record.facts.event != Event::Connection {
            to.text("network.protocol.name", b"http");
            to.text("network.protocol.version", version.as_str().as_bytes());
        }
        self.address("client.address", client, to);
        self.address("network.peer.address", peer, to);
        if let Some(tls) = tls {
            to.text("tls.protocol.name", b"tls");
            let version: &[u8] = match tls {
                TlsVersion::Tls12 => b"1.2",
                TlsVersion::Tls13 => b"1.3",
            };
            to.text("tls.protocol.version", version);
        }
        to.text("tls.client.server_name", record.text(Text::Sni));
        to.text("titan.listener", record.text(Text::Listener));
    }

    fn address(&mut self, name: &str, address: Option<IpAddr>, to: &mut Writing<'_>) {
        if let Some(address) = address {
            self.scratch.clear();
            let _ = write!(self.scratch, "{address}");
            to.text(name, &self.scratch);
        }
    }

    fn captured(&mut self, record: &Recorded<'_>, to: &mut Writing<'_>) {
        let Attributes { captured, secrets, scratch, .. } = self;
        for (kind, name, attribute) in captured {
            scratch.clear();
            if !record.write_value(*kind, name, secrets, scratch) {
                continue;
            }
            match kind {
                CaptureKind::RequestHeader | CaptureKind::ResponseHeader => {
                    to.put(attribute, Value::Texts(scratch));
                }
                CaptureKind::Claim => to.text(attribute, scratch),
            }
        }
    }
}

fn response(record: &Recorded<'_>, to: &mut Writing<'_>) {
    let Facts { status, response_bytes, is_complete, .. } = record.facts;
    if let Some(status) = status {
        to.int("http.response.status_code", status.code().into());
    }
    match record.facts.event {
        Event::Connection => to.int("titan.sent_bytes", response_bytes),
        _ => to.int("http.response.size", response_bytes),
    }
    to.text("titan.route", record.text(Text::Route));
    match (record.text(Text::Error), status) {
        (b"", Some(status)) if status.class() == 5 => to.text("error.type", &status.digits()),
        (code, _) => to.text("error.type", code),
    }
    to.put("titan.complete", Value::Bool(is_complete));
}

fn decisions(record: &Recorded<'_>, to: &mut Writing<'_>) {
    let Facts { attempts, caused_by, token_cache, auth_cache, .. } = record.facts;
    if attempts > 0 {
        to.int("titan.attempts", attempts.into());
    }
    let side: &[u8] = match caused_by {
        None => b"",
        Some(Side::Downstream) => b"client",
        Some(Side::Upstream) => b"upstream",
        Some(Side::Gateway) => b"gateway",
    };
    to.text("titan.caused_by", side);
    to.text("titan.refused_by", record.text(Text::RefusedBy));
    to.text("titan.request_id", record.text(Text::RequestId));
    for (name, used) in [("titan.token_cache", token_cache), ("titan.auth_cache", auth_cache)] {
        to.text(name, used.map_or("", |used| used.name()).as_bytes());
    }
}

/// The attempt that decided what came of the exchange.
fn decisive(last: &Attempted<&[u8]>, to: &mut Writing<'_>) {
    to.text("titan.upstream", last.upstream);
    to.text("titan.endpoint", last.endpoint);
    if let Some(status) = last.status {
        to.int("titan.upstream_status", status.code().into());
    }
    to.milliseconds("titan.connect_ms", last.connect);
    to.milliseconds("titan.tls_ms", last.tls);
    to.milliseconds("titan.upstream_head_ms", last.head);
}

fn phases(phases: &Phases, to: &mut Writing<'_>) {
    let Phases { head, policies, queue } = *phases;
    to.milliseconds("titan.head_ms", head);
    to.milliseconds("titan.policies_ms", policies);
    to.milliseconds("titan.queue_ms", queue);
}

/// A method as the conventions have it, if they know it.
pub(crate) fn known_method(method: &[u8]) -> Option<&[u8]> {
    METHODS.contains(&method).then_some(method)
}

impl Writing<'_> {
    /// The method, under its own name only if the conventions know it.
    pub(crate) fn method(&mut self, method: &[u8]) {
        match known_method(method) {
            Some(method) => self.text("http.request.method", method),
            None if method.is_empty() => {}
            None => {
                self.text("http.request.method", b"_OTHER");
                self.text("http.request.method_original", method);
            }
        }
    }

    pub(crate) fn put(&mut self, name: &str, value: Value<'_>) {
        attribute(self.field, name, value, self.out);
    }

    /// A text, unless it is empty.
    pub(crate) fn text(&mut self, name: &str, value: &[u8]) {
        if !value.is_empty() {
            self.put(name, Value::Text(value));
        }
    }

    pub(crate) fn int(&mut self, name: &str, value: u64) {
        self.put(name, Value::Int(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    pub(crate) fn milliseconds(&mut self, name: &str, duration: Option<Duration>) {
        if let Some(duration) = duration {
            self.put(name, Value::Double(milliseconds(duration)));
        }
    }
}

/// A duration in milliseconds, to the microsecond.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}
