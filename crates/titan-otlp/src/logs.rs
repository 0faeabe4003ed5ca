//! A record of an exchange as a log record (OpenTelemetry's `LogRecord`).

use crate::attributes::{Attributes, milliseconds};
use crate::routes::RoutePaths;
use crate::value::{self, Value};
use std::sync::Arc;
use titan_config::{AccessLog, LogFormat};
use titan_http::Status;
use titan_io::error::Side;
use titan_io::protobuf;
use titan_observe::format::{Formatter, WriteRecord};
use titan_observe::record::{Event, Facts, Recorded, Text};

/// Writes records as log records, each as one field of the message that they are sent in.
#[derive(Debug)]
pub struct LogRecords {
    /// What the body is, where the configuration says so.
    format: Option<Formatter>,
    attributes: Attributes,
    body: Vec<u8>,
    record: Vec<u8>,
}

/// The field of `ScopeLogs` that has the records.
pub(crate) const RECORDS: u64 = 2;

/// The fields of a `LogRecord`.
mod field {
    pub(super) const TIME: u64 = 1;
    pub(super) const SEVERITY: u64 = 2;
    pub(super) const SEVERITY_TEXT: u64 = 3;
    pub(super) const BODY: u64 = 5;
    pub(super) const ATTRIBUTES: u64 = 6;
    pub(super) const FLAGS: u64 = 8;
    pub(super) const TRACE_ID: u64 = 9;
    pub(super) const SPAN_ID: u64 = 10;
    pub(super) const OBSERVED_TIME: u64 = 11;
    pub(super) const EVENT_NAME: u64 = 12;
}

/// How much a record asks to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    Info,
    Warn,
    Error,
}

impl LogRecords {
    /// Those of a log. In JSON a line would repeat what the attributes say: then the body is what is looked at first.
    pub fn new(log: &AccessLog, routes: &Arc<RoutePaths>) -> LogRecords {
        let format = match log.format {
            LogFormat::Json => None,
            LogFormat::Combined | LogFormat::Template(_) => {
                Some(Formatter::new(&log.format, &log.captures))
            }
        };
        let attributes = Attributes::new(&log.captures, routes);
        LogRecords { format, attributes, body: Vec::new(), record: Vec::new() }
    }

    fn write_body(&mut self, record: &Recorded<'_>) {
        let LogRecords { format, body, .. } = self;
        body.clear();
        if let Some(format) = format {
            format.line(record, body);
            body.pop_if(|last| *last == b'\n');
            return;
        }
        let digits = record.facts.status.map(Status::digits);
        let [method, path]: [&[u8]; 2] = match (record.has_head(), record.facts.event) {
            (true, _) => [record.text(Text::Method), record.path()],
            (false, Event::Connection) => [b"connection", record.text(Text::Route)],
            (false, _) => [b"no request", b"head"],
        };
        let parts = [method, path, digits.as_ref().map_or(b"", |it| it)];
        body.extend_from_slice(&parts.join(&b' '));
    }

    fn write_record(&mut self, recorded: &Recorded<'_>) {
        self.write_body(recorded);
        let LogRecords { attributes, body, record: out, .. } = self;
        let Facts { event, started, took, .. } = recorded.facts;
        out.clear();
        let began = started.saturating_mul(1_000);
        let took_nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        protobuf::fixed64(field::TIME, began, out);
        protobuf::fixed64(field::OBSERVED_TIME, began.saturating_add(took_nanos), out);
        let severity = Severity::of(&recorded.facts);
        protobuf::number(field::SEVERITY, severity.number(), out);
        protobuf::bytes(field::SEVERITY_TEXT, severity.name().as_bytes(), out);
        value::text_value(field::BODY, body, out);
        let duration = Value::Double(milliseconds(took));
        value::attribute(field::ATTRIBUTES, "titan.duration_ms", duration, out);
        attributes.write(recorded, field::ATTRIBUTES, out);
        if let Some(id) = trace_id(recorded.text(Text::TraceId)) {
            protobuf::bytes(field::TRACE_ID, &id, out);
        }
        if let Some(trace) = recorded.facts.trace {
            protobuf::bytes(field::SPAN_ID, &trace.span.to_be_bytes(), out);
            protobuf::fixed32(field::FLAGS, trace.is_sampled().into(), out);
        }
        protobuf::bytes(field::EVENT_NAME, event_name(event).as_bytes(), out);
    }
}

impl WriteRecord for LogRecords {
    fn write(&mut self, record: &Recorded<'_>, out: &mut Vec<u8>) {
        self.write_record(record);
        protobuf::bytes(RECORDS, &self.record, out);
    }
}

impl Severity {
    fn of(facts: &Facts) -> Severity {
        let class = facts.status.map(Status::class);
        match (facts.caused_by, class) {
            (Some(Side::Upstream | Side::Gateway), _) | (_, Some(5)) => Severity::Error,
            (Some(Side::Downstream), _) | (_, Some(4)) => Severity::Warn,
            _ => Severity::Info,
        }
    }

    fn number(self) -> u64 {
        match self {
            Severity::Info => 9,
            Severity::Warn => 13,
            Severity::Error => 17,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Severity::Info => "INFO",
            Severity::Warn => "WARN",
            Severity::Error => "ERROR",
        }
    }
}

fn event_name(event: Event) -> &'static str {
    match event {
        Event::Request => "titan.request",
        Event::TunnelOpened => "titan.tunnel_opened",
        Event::TunnelClosed => "titan.tunnel_closed",
        Event::Connection => "titan.connection",
    }
}

/// The id of a trace, of 32 hexadecimal digits.
fn trace_id(text: &[u8]) -> Option<[u8; 16]> {
    let is_one = text.len() == 32 && text.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(text).ok().filter(|_| is_one)?;
    u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests;
