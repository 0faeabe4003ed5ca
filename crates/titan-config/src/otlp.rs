//! Collectors of OpenTelemetry: where records of exchanges are sent by its protocol (OTLP).

use crate::address::{EndpointAddress, parse_endpoint};
use crate::bounds::{MAX_HEADERS, MAX_RESOURCE, MAX_VALUE};
use crate::diagnostic::Diagnostic;
use crate::header::parse_request_header;
use crate::location::Location;
use crate::node::{Node, quote};
use crate::policy::{Url, parse_url};
use crate::problem::Problem;
use crate::read::{At, Read, Reading, at, default, optional, required};
use crate::readers::{Named, mapping, message_mapping, short_for, text, words};
use crate::section::{section, section_of};
use crate::servers::Server;
use crate::shape::TextShape;
use crate::timeouts::timeout;
use crate::tls::{UpstreamTls, tls_settings};
use crate::token::{
    HEADER_NAME, HeaderName, HeaderValue, NAME, Name, header_value, parse_name, unexpected,
};
use crate::upstream::{Protocol, Upstream};
use std::time::Duration;

/// A collector of OpenTelemetry, and how it is sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// Its name, by which access logs refer to it.
    pub name: Name,
    /// Where connections to it lead, as an upstream with one endpoint.
    pub upstream: Upstream,
    /// What its requests are for.
    pub endpoint: Url,
    /// How messages go to it.
    pub protocol: OtlpProtocol,
    /// More fields of its requests.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether messages are compressed.
    pub compression: OtlpCompression,
    /// How long it may take to accept a message.
    pub timeout: Duration,
    /// What it calls the gateway.
    pub service: String,
    /// What else it is told of the gateway.
    pub resource: Vec<(AttributeName, String)>,
}

/// How messages go to a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OtlpProtocol {
    /// As calls of gRPC.
    Grpc,
    /// As requests of HTTP/1.1, in Protocol Buffers.
    Http,
}

/// Whether messages to a collector are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OtlpCompression {
    /// With gzip.
    Gzip,
    /// They are not.
    None,
}

/// The name of an attribute: 1 to 255 printable characters of ASCII without spaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttributeName(String);

impl AttributeName {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Collector {
    /// The same collector wherever the file has it.
    pub fn without_locations(&self) -> Collector {
        Collector { upstream: self.upstream.without_locations(), ..self.clone() }
    }
}

section! {
    "collector", "a collector", Any;
    /// A collector of OpenTelemetry, or another server that accepts its protocol (OTLP). What it does not accept in time is dropped
    /// and counted (`titan_otlp_dropped_total`); no request waits for it. A plain string sets `endpoint` alone.
    pub(crate) struct CollectorFields {
        /// Its URL: `http://127.0.0.1:4317`, or `https://otlp.example.com` with TLS. With `protocol: http`, messages go to
        /// `/v1/logs` below its path.
        pub(crate) endpoint: At<Url> = required(at(text(URL, parse_collector_url))),
        /// How messages go to it: `grpc` (usually port 4317), or `http`: requests of HTTP/1.1 with Protocol Buffers (usually
        /// port 4318).
        pub(crate) protocol: OtlpProtocol = default("grpc", words(&[
            ("grpc", OtlpProtocol::Grpc),
            ("http", OtlpProtocol::Http),
        ])),
        /// More fields of its requests, such as a key: `{ api-key: "${file:otlp.key}" }`.
        pub(crate) headers: Vec<(HeaderName, HeaderValue)> = default("{}", headers()),
        /// How TLS is spoken with it; its `endpoint` begins with `https`.
        pub(crate) tls: Option<UpstreamTls> =
            optional("all defaults where `endpoint` begins with `https`", tls_settings()),
        /// Whether messages are compressed: `gzip` or `none`. It takes time of the thread that sends, not of a worker.
        pub(crate) compression: OtlpCompression = default("gzip", words(&[
            ("gzip", OtlpCompression::Gzip),
            ("none", OtlpCompression::None),
        ])),
        /// How long it may take to accept a message, from connecting on. Then the message is sent again, for about a minute in all.
        pub(crate) timeout: Duration = default("10s", timeout()),
        /// What the collector calls the gateway: the attribute `service.name`.
        pub(crate) service: String = default("titan", text(ATTRIBUTE_VALUE, parse_value)),
        /// More attributes of the gateway itself: `{ deployment.environment.name: production }`.
        pub(crate) resource: Vec<(AttributeName, String)> = default("{}", resource()),
    }
}

const URL: TextShape = TextShape {
    what: "the URL of a collector",
    examples: "`http://127.0.0.1:4317` or `https://otlp.example.com`",
    pattern: Some("^https?://.+"),
    max: MAX_VALUE,
};

const HEADER: TextShape =
    TextShape { what: "a request header of a collector", examples: "`api-key`", ..HEADER_NAME };

const ATTRIBUTE: TextShape = TextShape {
    what: "the name of an attribute",
    examples: "`deployment.environment.name`",
    pattern: Some("^[!-~]{1,255}$"),
    max: 255,
};

const ATTRIBUTE_VALUE: TextShape = TextShape {
    what: "the value of an attribute",
    examples: "`production`: one line of text",
    pattern: Some("^.+$"),
    max: MAX_VALUE,
};

/// A collector that has no name yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CollectorDraft {
    fields: CollectorFields,
    upstream: crate::upstream::UpstreamFields,
}

impl CollectorDraft {
    /// The collector of that name.
    pub(crate) fn finish(self, name: Name, location: Location) -> Collector {
        let CollectorFields {
            endpoint,
            protocol,
            headers,
            tls: _,
            compression,
            timeout,
            service,
            resource,
        } = self.fields;
        let upstream = self.upstream.finish(name.clone(), location, None);
        let endpoint = endpoint.value;
        Collector {
            name,
            upstream,
            endpoint,
            protocol,
            headers,
            compression,
            timeout,
            service,
            resource,
        }
    }
}

pub(crate) fn collector() -> impl Read<Value = CollectorDraft> {
    short_for("endpoint", section_of::<CollectorFields>()).then(check)
}

/// The name of a collector of the file, with its place.
pub(crate) fn collector_name() -> impl Read<Value = At<Name>> {
    let shape = TextShape { what: "the name of a collector", examples: "`collector`", ..NAME };
    let problem = |text: &str| {
        let problem = Problem::new("this is not a name");
        problem.help(format!(
            "declare it at the top level, `otlp: {{ collector: \"{text}\" }}`, and write `otlp: collector` here"
        ))
    };
    let parse = move |text: &str| match text.contains("://") {
        true => Err(problem(text)),
        false => parse_name(text),
    };
    at(text(shape, parse)).then(|name, _, to| {
        let At { value, span } = &name;
        if to.declared.collectors.use_name(value.as_str()).is_some() {
            return Some(name);
        }
        let message = format!("there is no collector {}", quote(value.as_str()));
        let near = to.did_you_mean(value.as_str(), to.declared.collectors.iter());
        let help = near.unwrap_or_else(|| {
            format!("declare it at the top level: `otlp: {{ {value}: \"http://127.0.0.1:4317\" }}`")
        });
        to.fail(Diagnostic::error(*span, message).label("not found in `otlp`").help(help))
    })
}

fn check(fields: CollectorFields, node: &Node, to: &mut Reading<'_>) -> Option<CollectorDraft> {
    let CollectorFields { endpoint: url, headers, tls, protocol, .. } = &fields;
    let urls = std::slice::from_ref(url);
    let server = Server { what: "collector", key: "endpoint", urls, tls: tls.as_ref() };
    let is_fine = check_path(&fields, to) & server.check_tls(node, to);
    check_port(&fields, node, to);
    server.check_headers(headers, node, to);
    let upstream = server.upstream(
        match protocol {
            OtlpProtocol::Grpc => Protocol::H2,
            OtlpProtocol::Http => Protocol::H1,
        },
        to,
    )?;
    is_fine.then_some(CollectorDraft { fields, upstream })
}

fn parse_collector_url(text: &str) -> Result<Url, Problem> {
    let help = |problem: Problem, url: String| problem.help(format!("did you mean `{url}`?"));
    let url = match text.split_once("://") {
        None => {
            return Err(help(Problem::new("it has no scheme"), format!("http://{text}")));
        }
        Some(("grpc" | "tcp" | "dns", rest)) => {
            let problem = Problem::new("its scheme is neither `http` nor `https`");
            return Err(help(problem, format!("http://{rest}")));
        }
        Some(("grpcs" | "tls", rest)) => {
            let problem = Problem::new("its scheme is neither `http` nor `https`");
            return Err(help(problem, format!("https://{rest}")));
        }
        Some(_) => parse_url(text)?,
    };
    let path = url.target.trim_end_matches('/');
    if let Some(place) = text.find('?').filter(|_| path.contains('?')) {
        return Err(Problem::new("a collector's URL has no query").part(place..text.len()));
    }
    let signal =
        ["/v1/logs", "/v1/traces", "/v1/metrics"].into_iter().find(|it| path.ends_with(it));
    if let Some(signal) = signal {
        let base = text.trim_end_matches('/').trim_end_matches(signal);
        let problem = Problem::new(format!("the gateway appends `{signal}` itself"));
        return Err(help(problem, base.to_owned()));
    }
    let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
    match parse_endpoint(&format!("{host}:{}", url.port))? {
        EndpointAddress::Ip(_) | EndpointAddress::Dns { .. } => {}
        EndpointAddress::Srv(_) | EndpointAddress::Unix(_) | EndpointAddress::Feed(_) => {
            return Err(Problem::new("its host is missing or malformed"));
        }
    }
    Ok(Url { target: path.to_owned(), ..url })
}

/// Calls of gRPC have paths of their own.
fn check_path(fields: &CollectorFields, to: &mut Reading<'_>) -> bool {
    let At { value: url, span } = &fields.endpoint;
    if fields.protocol != OtlpProtocol::Grpc || url.target.is_empty() {
        return true;
    }
    let error = Diagnostic::error(*span, "a collector has no path with `protocol: grpc`");
    let error = error.label(format!("it has the path `{}`", url.target));
    to.add(error.help("remove the path, or set `protocol: http`"));
    false
}

/// The ports that nearly all collectors have say which protocol is spoken there.
fn check_port(fields: &CollectorFields, node: &Node, to: &mut Reading<'_>) {
    let At { value: url, span } = &fields.endpoint;
    let (usual, help) = match (fields.protocol, url.port) {
        (OtlpProtocol::Grpc, 4318) => ("HTTP", "set `protocol: http`, or use port 4317"),
        (OtlpProtocol::Http, 4317) => ("gRPC", "remove `protocol: http`, or use port 4318"),
        _ => return,
    };
    let message = format!("collectors usually speak OTLP over {usual} at port {}", url.port);
    let mut warning = Diagnostic::warning(*span, message);
    if let Some(entry) = node.entry("protocol") {
        warning = warning.also(entry.key_span, "the protocol is set here");
    }
    to.add(warning.help(help));
}

fn headers() -> impl Read<Value = Vec<(HeaderName, HeaderValue)>> {
    message_mapping(HEADER, parse_header, header_value(), 0..=MAX_HEADERS)
        .map(|named| named.into_iter().map(|Named { key, value, .. }| (key, value)).collect())
}

/// A field that the protocol leaves free.
fn parse_header(text: &str) -> Result<HeaderName, Problem> {
    let lower = text.to_ascii_lowercase();
    let is_of_protocol = matches!(
        lower.as_str(),
        "content-type" | "content-encoding" | "te" | "user-agent" | "accept-encoding"
    );
    match is_of_protocol || lower.starts_with("grpc-") {
        true => Err(Problem::new("the gateway writes this header itself")),
        false => parse_request_header(text),
    }
}

fn resource() -> impl Read<Value = Vec<(AttributeName, String)>> {
    let value = text(ATTRIBUTE_VALUE, parse_value);
    mapping(ATTRIBUTE, parse_attribute, value, 0..=MAX_RESOURCE)
        .map(|named| named.into_iter().map(|Named { key, value, .. }| (key, value)).collect())
}

fn parse_attribute(text: &str) -> Result<AttributeName, Problem> {
    match text.char_indices().find(|(_, c)| !c.is_ascii_graphic()) {
        Some((at, c)) => Err(unexpected(at, c)),
        None if text.is_empty() => Err(Problem::new("it is empty")),
        None if text == "service.name" => {
            Err(Problem::new("it has a key of its own").help("write `service` instead"))
        }
        None => Ok(AttributeName(text.to_owned())),
    }
}

fn parse_value(text: &str) -> Result<String, Problem> {
    match text.char_indices().find(|(_, c)| c.is_control()) {
        Some((at, c)) => Err(unexpected(at, c)),
        None if text.is_empty() => Err(Problem::new("it is empty")),
        None => Ok(text.to_owned()),
    }
}
