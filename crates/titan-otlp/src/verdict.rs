//! What a collector has made of a message: accepted, to be sent again, or refused. Pure; no I/O.
//!
//! What may be sent again is what the specification of OTLP says so of; what comes back is not trusted with anything but that.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::time::Duration;
use titan_config::OtlpProtocol;
use titan_http::Status;
use titan_io::protobuf::{Read, bytes_of, fields, number_of};
use titan_upstream::client::Answer;

/// What a collector has made of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It has it, but for so many records, which it does not want, and why.
    Accepted { rejected: u64, why: String },
    /// It may accept it later: not before that time has passed, if it has said so.
    Later { after: Option<Duration>, why: String },
    /// It does not accept it, and will not.
    Refused { why: String },
}

/// Characters that are shown of what a collector says.
const SHOWN: usize = 200;
/// The longest that it may ask for.
const MOST_PATIENCE: Duration = Duration::from_secs(300);

impl Verdict {
    pub(crate) fn of(answer: &Answer, protocol: OtlpProtocol) -> Verdict {
        match protocol {
            OtlpProtocol::Grpc => of_call(answer),
            OtlpProtocol::Http => of_response(answer),
        }
    }

    /// It has not come to a response.
    pub(crate) fn unreachable(why: String) -> Verdict {
        Verdict::Later { after: None, why }
    }
}

fn of_call(answer: &Answer) -> Verdict {
    let status = answer.head.status;
    if status != Status::OK {
        let why = format!("status {status} in place of a call's");
        return match is_passing(status) {
            true => Verdict::Later { after: retry_after(answer), why },
            false => Verdict::Refused { why },
        };
    }
    let code = answer.grpc_status().map(|it| std::str::from_utf8(it).unwrap_or_default());
    let Some(code) = code.and_then(|code| code.parse::<u32>().ok()) else {
        return Verdict::Refused { why: "the response has no grpc-status".to_owned() };
    };
    if code == 0 {
        // A message without compression: none was asked for.
        return accepted(answer.body.get(5..).unwrap_or_default());
    }
    let said = shown(answer.grpc_field(b"grpc-message").unwrap_or_default());
    let why = format!("grpc-status {code}{}{said}", if said.is_empty() { "" } else { ": " });
    let after = answer.grpc_field(b"grpc-status-details-bin").and_then(retry_info);
    match code {
        // CANCELLED, DEADLINE_EXCEEDED, ABORTED, OUT_OF_RANGE, UNAVAILABLE, DATA_LOSS.
        1 | 4 | 10 | 11 | 14 | 15 => Verdict::Later { after, why },
        // RESOURCE_EXHAUSTED: for now, if it says for how long.
        8 if after.is_some() => Verdict::Later { after, why },
        _ => Verdict::Refused { why },
    }
}

fn of_response(answer: &Answer) -> Verdict {
    let status = answer.head.status;
    if status.is_success() {
        return accepted(&answer.body);
    }
    let is_message = answer.head.fields.named(b"content-type").next() == Some(MEDIA_TYPE);
    let said = if is_message { bytes_of(&answer.body, 2) } else { None };
    let said = shown(said.unwrap_or_default());
    let why = format!("status {status}{}{said}", if said.is_empty() { "" } else { ": " });
    match is_passing(status) {
        true => Verdict::Later { after: retry_after(answer), why },
        false => Verdict::Refused { why },
    }
}

/// What messages are as bodies of HTTP.
pub(crate) const MEDIA_TYPE: &[u8] = b"application/x-protobuf";

/// What is in the response to a message that was accepted.
fn accepted(message: &[u8]) -> Verdict {
    let partial = bytes_of(message, 1).unwrap_or_default();
    // A number below zero would be one beyond all records.
    let rejected = number_of(partial, 1).unwrap_or_default();
    let why = shown(bytes_of(partial, 2).unwrap_or_default());
    Verdict::Accepted { rejected, why }
}

fn is_passing(status: Status) -> bool {
    matches!(status.code(), 429 | 502 | 503 | 504)
}

/// What `Retry-After` says, within bounds.
fn retry_after(answer: &Answer) -> Option<Duration> {
    answer.retry_after().map(|after| after.min(MOST_PATIENCE))
}

/// The delay of a `RetryInfo` among the details of a `google.rpc.Status`.
fn retry_info(details: &[u8]) -> Option<Duration> {
    let config =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let status = GeneralPurpose::new(&STANDARD, config).decode(details).ok()?;
    let details = fields(&status).filter_map(|(field, value)| match value {
        Read::Bytes(any) if field == 3 => Some(any),
        _ => None,
    });
    let is_it =
        |any: &&[u8]| bytes_of(any, 1).is_some_and(|url| url.ends_with(b"google.rpc.RetryInfo"));
    let info = details.into_iter().find(is_it)?;
    let delay = bytes_of(bytes_of(info, 2)?, 1).unwrap_or_default();
    let seconds = number_of(delay, 1).unwrap_or_default();
    let nanos = u32::try_from(number_of(delay, 2).unwrap_or_default()).unwrap_or_default();
    let after = Duration::from_secs(seconds.min(MOST_PATIENCE.as_secs()))
        .saturating_add(Duration::from_nanos(nanos.into()));
    Some(after.min(MOST_PATIENCE))
}

/// The beginning of what it says, of printable characters alone.
fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let printable = text.chars().filter(|c| matches!(c, ' '..='~'));
    printable.take(SHOWN).collect()
}

#[cfg(test)]
mod tests;
