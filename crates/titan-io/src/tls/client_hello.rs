//! The ClientHello, as far as the name goes that the client asks for (RFC 8446 section 4.1.2, RFC 6066 section 3). Pure; no I/O.
//!
//! It is read from the records that it comes in (RFC 8446 section 5.1), however small they are and in whatever pieces they come: each
//! byte is looked at once, and of all of them only the name is kept. Which versions, ciphers and extensions a client offers does not
//! matter: whoever holds the handshake judges those.

use std::mem;

/// Bytes that a ClientHello may have, with the heads of its records: those of browsers have some 2 KiB.
pub const MAX_HELLO: usize = 16 << 10;

/// Bytes that a record may carry (RFC 8446 section 5.1).
const MAX_RECORD: usize = 1 << 14;
/// The type of records that carry handshakes.
const HANDSHAKE: u8 = 22;
/// The upper half of all versions that a record of TLS, or of SSL 3.0, can have. The lower one says nothing.
const VERSION: u8 = 3;
/// The type of a ClientHello among the messages of a handshake.
const CLIENT_HELLO: usize = 1;
/// Bytes of the type and the length of a message.
const MESSAGE_HEAD: usize = 4;
/// Bytes of the version that is offered, and of the random ones.
const FIXED: usize = 2 + 32;
/// Bytes that the name of a host may have: more than any has.
const MAX_NAME: usize = 255;
/// Bytes that an id of a session may have.
const MAX_SESSION: usize = 32;
/// The type of the extension with the names of the server.
const SERVER_NAME: usize = 0;
/// The type of a name of a host among those.
const HOST_NAME: usize = 0;

/// What is wrong with the beginning of a connection that should be a ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadHello {
    /// It is no record of a handshake.
    NoHandshake,
    /// It is another message of a handshake.
    OtherMessage,
    /// Its lengths contradict each other.
    Malformed,
    /// It is longer than [`MAX_HELLO`].
    TooLong,
    /// It asks for two names, or for something that is none.
    Name,
}

impl BadHello {
    /// What to tell of it.
    pub(super) fn text(self) -> &'static str {
        match self {
            BadHello::NoHandshake => "what came is no record of a TLS handshake",
            BadHello::OtherMessage => "what came is no ClientHello",
            BadHello::Malformed => "the lengths in the ClientHello contradict each other",
            BadHello::TooLong => "the ClientHello is longer than 16 KiB",
            BadHello::Name => "the ClientHello asks for a name that is none, or for several",
        }
    }
}

/// What a ClientHello says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadHello {
    /// The name of a host that the client asks for, as it came.
    pub(super) name: Option<Vec<u8>>,
}

/// Reads a ClientHello that comes in pieces.
///
/// `record_left == 0` until the head of a record has come.
#[derive(Debug, Default)]
pub(super) struct HelloParser {
    /// Bytes of the head of the record that have come: what it carries, a version, and the length in two.
    head_read: u8,
    /// The upper half of that length.
    length: u8,
    /// Bytes of the record that are still to come.
    record_left: usize,
    message: Message,
}

/// The message, out of its records.
#[derive(Debug)]
struct Message {
    step: Step,
    /// Bytes of the step that are still to come.
    missing: usize,
    /// The number that the step is, as far as it has come.
    number: usize,
    /// Bytes of the message behind this step.
    left: usize,
    /// Bytes of the list of names behind this step; `None` before there is such a list.
    names_left: Option<usize>,
    /// The name that the client asks for.
    name: Option<Vec<u8>>,
}

/// What comes next in a message.
///
/// ```text
/// Type Length Fixed SessionLength Session SuitesLength Suites CompressionLength Compression   (may end here)
///   ExtensionsLength { ExtensionType ExtensionLength (Extension | NamesLength { NameType NameLength Name } OtherNames) }
/// ```
#[derive(Clone, Copy, Debug)]
enum Step {
    Type,
    Length,
    Fixed,
    SessionLength,
    Session,
    SuitesLength,
    Suites,
    CompressionLength,
    Compression,
    ExtensionsLength,
    ExtensionType,
    ExtensionLength { has_names: bool },
    Extension,
    NamesLength { extension: usize },
    NameType,
    NameLength,
    Name,
    OtherNames,
}

impl Default for Message {
    fn default() -> Message {
        let (step, missing, left) = (Step::Type, 1, MESSAGE_HEAD - 1);
        Message { step, missing, number: 0, left, names_left: None, name: None }
    }
}

impl HelloParser {
    /// Takes in what comes next of the connection. What it says once the whole message has come: nothing behind that is looked
    /// at. After that, or an error, there is nothing more to ask.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Result<Option<ReadHello>, BadHello> {
        while let Some((first, rest)) = bytes.split_first() {
            if self.record_left == 0 {
                self.read_head(*first)?;
                bytes = rest;
                continue;
            }
            let (piece, rest) = bytes.split_at(bytes.len().min(self.record_left));
            self.record_left -= piece.len();
            bytes = rest;
            if self.message.read(piece)? {
                return Ok(Some(ReadHello { name: self.message.name.take() }));
            }
        }
        Ok(None)
    }

    /// Takes in the next byte of the head of a record.
    fn read_head(&mut self, byte: u8) -> Result<(), BadHello> {
        match self.head_read {
            0 if byte != HANDSHAKE => return Err(BadHello::NoHandshake),
            1 if byte != VERSION => return Err(BadHello::NoHandshake),
            3 => self.length = byte,
            4 => {
                let length = usize::from(u16::from_be_bytes([self.length, byte]));
                // An empty one is forbidden, and would be free.
                if !(1..=MAX_RECORD).contains(&length) {
                    return Err(BadHello::NoHandshake);
                }
                (self.head_read, self.record_left) = (0, length);
                return Ok(());
            }
            _ => {}
        }
        self.head_read += 1;
        Ok(())
    }
}

impl Message {
    /// Takes in what comes next of it; whether that was all.
    fn read(&mut self, mut bytes: &[u8]) -> Result<bool, BadHello> {
        loop {
            let (piece, rest) = bytes.split_at(bytes.len().min(self.missing));
            self.missing -= piece.len();
            bytes = rest;
            self.take(piece);
            if self.missing > 0 {
                return Ok(false);
            }
            let Some((step, length)) = self.next()? else { return Ok(true) };
            self.left = self.left.checked_sub(length).ok_or(BadHello::Malformed)?;
            (self.step, self.missing) = (step, length);
        }
    }

    /// Takes in a part of a step.
    fn take(&mut self, piece: &[u8]) {
        match self.step {
            Step::Name => self.name.get_or_insert_default().extend_from_slice(piece),
            Step::Fixed
            | Step::Session
            | Step::Suites
            | Step::Compression
            | Step::Extension
            | Step::OtherNames => {}
            // At most three bytes.
            _ => piece.iter().for_each(|byte| self.number = self.number << 8 | usize::from(*byte)),
        }
    }

    /// The step after one that is complete, and its length; `None` at the end.
    fn next(&mut self) -> Result<Option<(Step, usize)>, BadHello> {
        let number = mem::take(&mut self.number);
        let next = match self.step {
            Step::Type if number != CLIENT_HELLO => return Err(BadHello::OtherMessage),
            Step::Type => (Step::Length, 3),
            Step::Length if number > MAX_HELLO => return Err(BadHello::TooLong),
            Step::Length => {
                self.left = number;
                (Step::Fixed, FIXED)
            }
            Step::Fixed => (Step::SessionLength, 1),
            Step::SessionLength if number > MAX_SESSION => return Err(BadHello::Malformed),
            Step::SessionLength => (Step::Session, number),
            Step::Session => (Step::SuitesLength, 2),
            Step::SuitesLength => (Step::Suites, at_least_one(number)?),
            Step::Suites => (Step::CompressionLength, 1),
            Step::CompressionLength => (Step::Compression, at_least_one(number)?),
            Step::Compression if self.left > 0 => (Step::ExtensionsLength, 2),
            Step::ExtensionsLength if number != self.left => return Err(BadHello::Malformed),
            Step::ExtensionType => (Step::ExtensionLength { has_names: number == SERVER_NAME }, 2),
            Step::ExtensionLength { has_names: true } => {
                let extension = number.checked_sub(2).ok_or(BadHello::Malformed)?;
                (Step::NamesLength { extension }, 2)
            }
            Step::ExtensionLength { has_names: false } => (Step::Extension, number),
            Step::NamesLength { extension } => self.begin_names(number, extension)?,
            Step::NameType if number == HOST_NAME => self.within_names(Step::NameLength, 2)?,
            // How long others are is not known.
            Step::NameType => (Step::OtherNames, self.names_left.replace(0).unwrap_or(0)),
            Step::NameLength if self.name.is_some() || number > MAX_NAME => {
                return Err(BadHello::Name);
            }
            Step::NameLength => self.within_names(Step::Name, at_least_one(number)?)?,
            Step::Name if self.names_left > Some(0) => self.within_names(Step::NameType, 1)?,
            Step::Compression
            | Step::ExtensionsLength
            | Step::Extension
            | Step::Name
            | Step::OtherNames => match self.left {
                0 => return Ok(None),
                _ => (Step::ExtensionType, 2),
            },
        };
        Ok(Some(next))
    }

    /// Begins a list of names of that many bytes, which must be all of its extension.
    fn begin_names(&mut self, bytes: usize, extension: usize) -> Result<(Step, usize), BadHello> {
        // Of two an endpoint might go by the other one.
        if self.names_left.is_some() {
            return Err(BadHello::Name);
        }
        if bytes != extension {
            return Err(BadHello::Malformed);
        }
        self.names_left = Some(at_least_one(bytes)?);
        self.within_names(Step::NameType, 1)
    }

    /// A step within the list of names.
    fn within_names(&mut self, step: Step, length: usize) -> Result<(Step, usize), BadHello> {
        let left = self.names_left.and_then(|left| left.checked_sub(length));
        self.names_left = Some(left.ok_or(BadHello::Malformed)?);
        Ok((step, length))
    }
}

/// The length of something that must not be empty.
fn at_least_one(length: usize) -> Result<usize, BadHello> {
    if length == 0 { Err(BadHello::Malformed) } else { Ok(length) }
}
