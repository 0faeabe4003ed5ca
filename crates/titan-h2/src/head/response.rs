//! The head of a response (RFC 9113 section 8.3.2).

use super::facts::Facts;
use super::{BadBlock, HeadReader, Size};
use crate::error::Fault;
use crate::hpack::{Key, Line};
use titan_http::{FieldName, ResponseHead, Status, Version};

/// A response, apart from its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseFacts {
    /// Whether another response follows.
    pub(crate) interim: bool,
    /// What `content-length` declares, except with 1xx and 204, where it says nothing.
    pub(crate) length: Option<u64>,
    /// Whether no body can follow: 204, 304, and responses to HEAD.
    pub(crate) has_no_body: bool,
}

/// How much of a response its head is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Something follows.
    Beginning,
    /// All of it. A gRPC call that fails at once ends so (Trailers-Only): what would stand in the trailers is in the
    /// head, which may be as long as they.
    Whole,
}

/// Reads the head of a response.
pub(super) fn read(
    reader: &mut HeadReader,
    block: &[u8],
    is_head_request: bool,
    extent: Extent,
    head: &mut ResponseHead,
) -> Result<Result<ResponseFacts, Fault>, BadBlock> {
    head.clear();
    head.version = Version::Http2;
    let limit = match extent {
        Extent::Beginning => reader.limits.head,
        Extent::Whole => reader.limits.longest_list(),
    };
    let mut size = Size::new(limit, &reader.limits);
    let mut facts = Facts::default();
    let most = reader.limits.fields;
    reader.decoder.decode(block, |line| {
        let fits = size.add(&line)?;
        let outcome = match fits {
            true => take(&line, &mut facts, head, most),
            false => Err(Fault::HeadTooLarge),
        };
        facts.note_outcome(outcome);
        Ok(())
    })?;
    Ok(finish(&facts, is_head_request, head))
}

#[inline]
fn take(
    line: &Line<'_>,
    facts: &mut Facts,
    head: &mut ResponseHead,
    most: usize,
) -> Result<(), Fault> {
    if let Some(fault) = line.fault {
        return Err(fault);
    }
    match line.key {
        Key::Field(id) => {
            facts.read_field(id, line.value);
            if head.fields.len() >= most {
                return Err(Fault::TooManyFields);
            }
            head.fields.push_checked(id, line.name, line.value).map_err(|_| Fault::HeadTooLarge)
        }
        Key::Status => {
            facts.read_pseudo(Key::Status)?;
            head.status = status(line.value)?;
            Ok(())
        }
        _ => Err(Fault::PseudoUnknown),
    }
}

fn status(value: &[u8]) -> Result<Status, Fault> {
    let &[hundreds @ b'0'..=b'9', tens @ b'0'..=b'9', ones @ b'0'..=b'9'] = value else {
        return Err(Fault::Status);
    };
    let digit = |byte: u8| u16::from(byte - b'0');
    let code = digit(hundreds) * 100 + digit(tens) * 10 + digit(ones);
    Status::from_code(code).ok_or(Fault::Status)
}

/// The block is complete: what its lines say together.
fn finish(
    facts: &Facts,
    is_head_request: bool,
    head: &mut ResponseHead,
) -> Result<ResponseFacts, Fault> {
    facts.check()?;
    if !facts.has(Key::Status) {
        return Err(Fault::NoStatus);
    }
    if head.status == Status::SWITCHING_PROTOCOLS {
        return Err(Fault::SwitchingProtocols);
    }
    let interim = head.status.is_informational();
    let has_no_length = interim || head.status == Status::NO_CONTENT;
    if has_no_length {
        head.fields.remove(FieldName::ContentLength);
    }
    Ok(ResponseFacts {
        interim,
        length: facts.length.filter(|_| !has_no_length),
        has_no_body: !interim && (is_head_request || has_no_length || is_unmodified(head.status)),
    })
}

fn is_unmodified(status: Status) -> bool {
    status == Status::NOT_MODIFIED
}
