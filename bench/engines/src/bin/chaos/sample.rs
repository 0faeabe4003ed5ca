//! What became of one request.

use std::fmt;
use std::time::Duration;

/// A request, and how it fared.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub kind: Kind,
    /// From the beginning of the load.
    pub sent: Duration,
    pub took: Duration,
    /// The name of the endpoint that has answered, or why none has.
    pub outcome: Result<u8, Failure>,
}

/// How a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub method: Method,
    pub connection: Connection,
}

/// Of gRPC, a call that may be made again, and one that may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// One that is kept for the next request.
    Kept,
    /// One of its own.
    New,
}

/// Why a request has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// Another status than 200.
    Status(u16),
    /// Another gRPC status than 0.
    Call(u16),
    /// The response ended before its end.
    Cut,
    /// The connection ended without a response.
    Closed,
    /// There was no whole response in time.
    Late,
    /// The gateway took no connection.
    Unreachable,
    /// A whole response, and not the one that endpoints send.
    Wrong,
}

impl Kind {
    /// The kinds of a load, each about as often as the others.
    pub const ALL: [Self; 4] = [
        Self { method: Method::Get, connection: Connection::Kept },
        Self { method: Method::Post, connection: Connection::Kept },
        Self { method: Method::Get, connection: Connection::New },
        Self { method: Method::Post, connection: Connection::New },
    ];
}

impl Method {
    /// The path that gateways know it by.
    pub fn path(self) -> &'static str {
        match self {
            Self::Get => "/get",
            Self::Post => "/post",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status}"),
            Self::Call(status) => write!(f, "grpc-{status}"),
            Self::Cut => f.write_str("cut"),
            Self::Closed => f.write_str("closed"),
            Self::Late => f.write_str("late"),
            Self::Unreachable => f.write_str("unreachable"),
            Self::Wrong => f.write_str("wrong"),
        }
    }
}

/// How many bytes an endpoint's response has; the first one is its name.
pub const BODY: usize = 4 << 10;

/// The name of the endpoint that has sent that body.
pub fn sender(body: &[u8]) -> Result<u8, Failure> {
    match body {
        [name, rest @ ..] if body.len() == BODY && rest.iter().all(|byte| *byte == b'.') => {
            Ok(*name)
        }
        _ => Err(Failure::Wrong),
    }
}
