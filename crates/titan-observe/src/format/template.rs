//! A record as a text with fields. What there was not is `-`.

use super::{Memory, text};
use crate::record::{CacheUse, CaptureKind, Facts, Phases, Recorded, Text};
use crate::secret::JudgedName;
use std::time::Duration;
use titan_config::{LogField, LogPart, LogTemplate};
use titan_http::Status;
use titan_io::error::Side;

/// The parts of a line.
#[derive(Debug)]
pub(super) struct Template(Vec<Part>);

#[derive(Debug)]
enum Part {
    Text(Box<str>),
    Field(LogField),
    Captured(CaptureKind, JudgedName),
}

impl Template {
    pub(super) fn new(template: &LogTemplate) -> Template {
        Template(template.parts.iter().map(Part::new).collect())
    }

    /// Appends a record.
    pub(super) fn write(&self, memory: &mut Memory, record: &Recorded<'_>, out: &mut Vec<u8>) {
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Field(name) => field(memory, *name, record, out),
                Part::Captured(kind, name) => {
                    let Memory { secrets, scratch, .. } = &mut *memory;
                    scratch.clear();
                    record.write_value(*kind, name, secrets, scratch);
                    text::escaped(scratch, out);
                }
            }
        }
    }
}

impl Part {
    fn new(part: &LogPart) -> Part {
        let captured =
            |kind, name: &dyn ToString| Part::Captured(kind, JudgedName::new(name.to_string()));
        match part {
            LogPart::Text(text) => Part::Text(text.as_str().into()),
            LogPart::Field(field) => Part::Field(*field),
            LogPart::RequestHeader(name) => captured(CaptureKind::RequestHeader, &name.as_str()),
            LogPart::ResponseHeader(name) => captured(CaptureKind::ResponseHeader, &name.as_str()),
            LogPart::Claim(claim) => captured(CaptureKind::Claim, claim),
        }
    }
}

fn field(memory: &mut Memory, name: LogField, record: &Recorded<'_>, out: &mut Vec<u8>) {
    let facts = &record.facts;
    let Facts { started, took, .. } = *facts;
    let Phases { head, policies, queue } = facts.phases;
    let last = || record.last_attempt();
    match name {
        LogField::Time => memory.stamps.rfc3339(started, out),
        LogField::Event => word(facts.event.name(), out),
        LogField::Listener => text::escaped(record.text(Text::Listener), out),
        LogField::Protocol => word(facts.protocol(), out),
        LogField::TlsVersion => word(facts.tls.map_or("-", |tls| tls.name()), out),
        LogField::Sni => text::escaped(record.text(Text::Sni), out),
        LogField::Client => or_none(facts.client, out, text::address),
        LogField::Peer => or_none(facts.peer, out, text::address),
        LogField::Method => text::escaped(record.text(Text::Method), out),
        LogField::Scheme => word(facts.scheme_name(), out),
        LogField::Host => text::escaped(record.text(Text::Host), out),
        LogField::Path => text::escaped(record.path(), out),
        LogField::Query => query(memory, record, out),
        LogField::Route => text::escaped(record.text(Text::Route), out),
        LogField::Upstream => text::escaped(last().map_or(b"", |last| last.upstream), out),
        LogField::Endpoint => text::escaped(last().map_or(b"", |last| last.endpoint), out),
        LogField::Attempts => text::number(facts.attempts.into(), out),
        LogField::Status => status(facts.status, out),
        LogField::UpstreamStatus => status(last().and_then(|last| last.status), out),
        LogField::Error => text::escaped(record.text(Text::Error), out),
        LogField::CausedBy => word(facts.caused_by.map_or("-", side_name), out),
        LogField::RefusedBy => text::escaped(record.text(Text::RefusedBy), out),
        LogField::TokenCache => word(facts.token_cache.map_or("-", CacheUse::name), out),
        LogField::AuthCache => word(facts.auth_cache.map_or("-", CacheUse::name), out),
        LogField::RequestBytes => text::number(facts.request_bytes, out),
        LogField::ResponseBytes => text::number(facts.response_bytes, out),
        LogField::HeadMs => milliseconds(head, out),
        LogField::PoliciesMs => milliseconds(policies, out),
        LogField::QueueMs => milliseconds(queue, out),
        LogField::ConnectMs => milliseconds(last().and_then(|last| last.connect), out),
        LogField::TlsMs => milliseconds(last().and_then(|last| last.tls), out),
        LogField::UpstreamHeadMs => milliseconds(last().and_then(|last| last.head), out),
        LogField::DurationMs => text::milliseconds(took, out),
        LogField::RequestId => text::escaped(record.text(Text::RequestId), out),
        LogField::TraceId => text::escaped(record.text(Text::TraceId), out),
        LogField::UserAgent => text::escaped(record.user_agent(), out),
        LogField::Referer => text::escaped(record.referer(), out),
        LogField::Complete => word(if facts.is_complete { "true" } else { "false" }, out),
    }
}

/// A side as logs call it.
pub(super) fn side_name(side: Side) -> &'static str {
    match side {
        Side::Downstream => "client",
        Side::Upstream => "upstream",
        Side::Gateway => "gateway",
    }
}

fn word(word: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(word.as_bytes());
}

fn or_none<T>(value: Option<T>, out: &mut Vec<u8>, write: fn(T, &mut Vec<u8>)) {
    match value {
        Some(value) => write(value, out),
        None => out.push(b'-'),
    }
}

fn status(status: Option<Status>, out: &mut Vec<u8>) {
    or_none(status.map(|status| status.code().into()), out, text::number);
}

fn milliseconds(duration: Option<Duration>, out: &mut Vec<u8>) {
    or_none(duration, out, text::milliseconds);
}

fn query(memory: &mut Memory, record: &Recorded<'_>, out: &mut Vec<u8>) {
    memory.scratch.clear();
    memory.scratch.push(b'?');
    match record.write_query(&mut memory.secrets, &mut memory.scratch) {
        true => text::escaped(&memory.scratch, out),
        false => out.push(b'-'),
    }
}
