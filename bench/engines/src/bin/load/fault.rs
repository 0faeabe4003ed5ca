//! What can be wrong with a response or a connection.

use std::fmt;
use std::io;

use h3::error::StreamError;

/// One error of the run.
#[derive(Debug)]
pub enum Fault {
    /// The connection could not be opened.
    Connect(io::Error),
    /// TLS failed.
    Tls(String),
    /// So many handshakes were full ones where all but the first had to be resumed.
    NotResumed(u64),
    /// A stream, or the HTTP/2 connection under it, failed.
    Stream(h2::Error),
    /// A stream, or the HTTP/3 connection under it, failed.
    Http3(String),
    /// What is sent behind the body is not what has to be there.
    Trailers(String),
    /// Not the response that opens a tunnel.
    NoTunnel(String),
    /// The connection closed while answers were owed.
    Cut { owed: usize },
    /// The head is not one this program reads, or too long.
    BadHead(String),
    /// Any status but 200.
    Status(String),
    /// The length announced is not the length expected, or none is announced.
    Length { announced: Option<usize>, expected: usize },
    /// Not in the coding that was asked for, or not in that coding alone.
    Coding(String),
    /// The body differs, first in the piece that begins at `near`.
    Body { near: usize },
    /// Bytes after the last response.
    Surplus(usize),
    /// A response before the request was sent.
    Early,
    /// An idle connection was closed.
    Dropped,
    /// No response within the time that a run may take.
    Unanswered,
}

impl From<StreamError> for Fault {
    fn from(error: StreamError) -> Self {
        Self::Http3(error.to_string())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => write!(f, "cannot connect: {error}"),
            Self::Tls(error) => write!(f, "TLS: {error}"),
            Self::NotResumed(count) => write!(f, "{count} handshakes were not resumed"),
            Self::Stream(error) => write!(f, "HTTP/2: {error}"),
            Self::Http3(error) => write!(f, "HTTP/3: {error}"),
            Self::Trailers(fields) => write!(f, "trailers {fields}"),
            Self::NoTunnel(head) => write!(f, "no tunnel was opened: {head:?}"),
            Self::Cut { owed } => write!(f, "closed with {owed} answers owed"),
            Self::BadHead(head) => write!(f, "unreadable head {head:?}"),
            Self::Status(line) => write!(f, "status {line:?}"),
            Self::Length { announced, expected } => {
                write!(f, "announces {announced:?} bytes where {expected} are right")
            }
            Self::Coding(what) => write!(f, "coded body: {what}"),
            Self::Body { near } => write!(f, "wrong body bytes after {near}"),
            Self::Surplus(count) => write!(f, "{count} bytes after the last response"),
            Self::Early => f.write_str("answered before the request was sent"),
            Self::Dropped => f.write_str("an idle connection was closed"),
            Self::Unanswered => f.write_str("no response in time"),
        }
    }
}
