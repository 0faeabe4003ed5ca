//! The head of a response (RFC 9113 section 8.3.2).

use super::facts::Facts;
use super::fault::Fault;
use super::line::{Key, Line};
use super::size::{SectionLimits, Size, TooMuch};
use crate::field_name::FieldName;
use crate::head::ResponseHead;
use crate::status::Status;
use crate::version::Version;

/// A response, apart from its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseFacts {
    /// Whether another response follows.
    pub interim: bool,
    /// What `content-length` declares, except with 1xx and 204, where it says nothing.
    pub length: Option<u64>,
    /// Whether no body can follow: 204, 304, and responses to HEAD.
    pub has_no_body: bool,
}

/// How much of a response its head is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Something follows.
    Beginning,
    /// All of it. A gRPC call that fails at once ends so (Trailers-Only): what would stand in the trailers is in the
    /// head, which may be as long as they.
    Whole,
}

/// The head of a response, on the way from its field section.
pub struct ResponseSection<'a> {
    most: usize,
    size: Size,
    facts: Facts,
    head: &'a mut ResponseHead,
}

impl<'a> ResponseSection<'a> {
    /// One of a message of that version.
    pub fn new(
        version: Version,
        limits: &SectionLimits,
        extent: Extent,
        head: &'a mut ResponseHead,
    ) -> ResponseSection<'a> {
        head.clear();
        head.version = version;
        let limit = match extent {
            Extent::Beginning => limits.head,
            Extent::Whole => limits.longest_list(),
        };
        let size = Size::new(limit, limits);
        ResponseSection { most: limits.fields, size, facts: Facts::default(), head }
    }

    /// Takes the next line.
    ///
    /// # Errors
    ///
    /// When there is so much that nothing more should be decoded.
    #[inline]
    pub fn take(&mut self, line: Line<'_>) -> Result<(), TooMuch> {
        let outcome = match self.size.add(&line)? {
            true => self.take_line(&line),
            false => Err(Fault::HeadTooLarge),
        };
        self.facts.note_outcome(outcome);
        Ok(())
    }

    #[inline]
    fn take_line(&mut self, line: &Line<'_>) -> Result<(), Fault> {
        if let Some(fault) = line.fault {
            return Err(fault);
        }
        match line.key {
            Key::Field(id) => {
                self.facts.read_field(id, line.value);
                let fields = &mut self.head.fields;
                if fields.len() >= self.most {
                    return Err(Fault::TooManyFields);
                }
                fields.push_checked(id, line.name, line.value).map_err(|_| Fault::HeadTooLarge)
            }
            Key::Status => {
                self.facts.read_pseudo(Key::Status)?;
                self.head.status = status(line.value)?;
                Ok(())
            }
            _ => Err(Fault::PseudoUnknown),
        }
    }

    /// The section is complete: what its lines say together.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn finish(self, is_head_request: bool) -> Result<ResponseFacts, Fault> {
        finish(&self.facts, is_head_request, self.head)
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
