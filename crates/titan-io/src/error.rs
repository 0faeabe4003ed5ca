//! The errors of exchanges: which side caused them, the response to them, and whether to retry.

use rustix::io::Errno;
use std::{fmt, io};
pub use titan_http::Status;

/// A failed exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// Which side caused it.
    pub side: Side,
    /// What happened.
    pub kind: Kind,
}

/// Which side caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The client.
    Downstream,
    /// The endpoint, or the network to it.
    Upstream,
    /// The gateway: its own decision.
    Gateway,
}

/// Why a policy refuses a request. Each policy declares its own, with [`refusals`](crate::refusals).
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The name in problem documents, logs and metrics.
    pub code: &'static str,
    /// Which side causes it.
    pub side: Side,
    /// The status of the response.
    pub status: Status,
    /// The detail of the response.
    pub detail: &'static str,
}

/// Declares why a policy refuses requests: a [`Kind`] for each line, and `REFUSALS` with all of them.
///
/// A line is `NAME Side STATUS "code" "What the client is told.";`.
#[macro_export]
macro_rules! refusals {
    ($($(#[$doc:meta])* $NAME:ident $side:ident $status:ident $code:literal $detail:literal;)+) => {
        $(
            $(#[$doc])*
            pub const $NAME: $crate::error::Kind =
                $crate::error::Kind::Refused(&$crate::error::Refusal {
                    code: $code,
                    side: $crate::error::Side::$side,
                    status: $crate::error::Status::$status,
                    detail: $detail,
                });
        )+

        /// All of them.
        pub const REFUSALS: &[$crate::error::Kind] = &[$($NAME,)+];
    };
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $side:ident $status:ident $code:literal $detail:literal;)*) => {
        /// What happened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            /// A message that breaks HTTP/1.1.
            Malformed(titan_h1::Error),
            /// A message that breaks HTTP/2.
            MalformedStream(titan_h2::Fault),
            /// A path that cannot be normalized.
            Path(titan_http::path::BadPath),
            /// A policy refuses the request.
            Refused(&'static Refusal),
            $($(#[$doc])* $name,)*
        }

        impl Kind {
            /// The codes of all kinds except those of policies.
            pub const CODES: &[&str] = &["malformed", "bad-path", $($code,)*];

            /// The index of this kind in [`Kind::CODES`]; none for refusals of policies.
            pub fn index(self) -> Option<usize> {
                let code = self.code();
                Kind::CODES.iter().position(|known| *known == code)
            }

            /// The name of the kind in problem documents, logs and metrics.
            pub fn code(self) -> &'static str {
                match self {
                    Kind::Malformed(_) | Kind::MalformedStream(_) => "malformed",
                    Kind::Path(_) => "bad-path",
                    Kind::Refused(refusal) => refusal.code,
                    $(Kind::$name => $code,)*
                }
            }

            fn fixed(self) -> Option<(Side, Status, &'static str)> {
                match self {
                    Kind::Malformed(_) | Kind::MalformedStream(_) | Kind::Path(_) => None,
                    Kind::Refused(Refusal { side, status, detail, .. }) => {
                        Some((*side, *status, *detail))
                    }
                    $(Kind::$name => Some((Side::$side, Status::$status, $detail)),)*
                }
            }
        }

        /// The kinds without data.
        pub const FIXED: &[Kind] = &[$(Kind::$name,)*];
    };
}

kinds! {
    /// The head did not arrive in time.
    HeadTimeout Downstream REQUEST_TIMEOUT "head-timeout" "The request head did not arrive in time.";
    /// The body paused for too long.
    BodyTimeout Downstream REQUEST_TIMEOUT "body-timeout" "The request body paused for too long.";
    /// The body comes more slowly than the minimum rate.
    BodyTooSlow Downstream REQUEST_TIMEOUT "body-too-slow" "The request body arrives too slowly.";
    /// The body exceeds the limit of its route.
    BodyTooLarge Downstream CONTENT_TOO_LARGE "body-too-large" "The request body exceeds the limit.";
    /// Other bodies use the memory in which this one would be held.
    RequestMemory Gateway SERVICE_UNAVAILABLE "request-memory" "Too many request bodies are being held in memory.";
    /// The client closed or reset the connection.
    ClientGone Downstream BAD_REQUEST "client-gone" "The client closed the connection.";
    /// The client stopped reading the response.
    ClientStalled Downstream REQUEST_TIMEOUT "client-stalled" "The client stopped reading the response.";
    /// The client takes its response more slowly than the minimum rate.
    ClientTooSlow Downstream REQUEST_TIMEOUT "client-too-slow" "The client reads the response too slowly.";
    /// The Connection field names too many fields, in a request or in a response.
    ConnectionList Downstream BAD_REQUEST "connection-list" "The Connection field names too many fields.";
    /// A field name contains characters that this configuration does not allow.
    FieldName Downstream BAD_REQUEST "field-name" "A field name contains characters that are not allowed here.";
    /// The client has presented a certificate that is no longer accepted.
    ClientCertificate Downstream FORBIDDEN "client-certificate" "The client's certificate is no longer accepted.";
    /// The connection was accepted under rules of the listener that others have replaced: TLS where there was none, say.
    ConnectionOutdated Downstream MISDIRECTED_REQUEST "connection-outdated" "The rules for connections have changed: open another one.";
    /// A CONNECT request: the gateway opens no tunnels.
    ConnectMethod Downstream NOT_IMPLEMENTED "connect-method" "CONNECT is not supported.";
    /// The request has come through this gateway too often.
    Loop Gateway BAD_GATEWAY "loop" "The request has passed through this gateway too often.";
    /// The path has an encoded slash, which its route refuses.
    EncodedSlash Downstream BAD_REQUEST "encoded-slash" "The path contains an encoded slash, which is not allowed here.";
    /// The path has a parameter, which its route refuses.
    PathParameter Downstream BAD_REQUEST "path-parameter" "The path contains a parameter (;), which is not allowed here.";
    /// The path differs from that of another route only in letter case, which its route refuses.
    PathCase Downstream BAD_REQUEST "path-case" "The path differs only in letter case from one that is served here.";
    /// No route matches the request.
    NoRoute Gateway NOT_FOUND "no-route" "No route matches this request.";
    /// A route matches the path, but not this method.
    MethodNotAllowed Gateway METHOD_NOT_ALLOWED "method-not-allowed" "This method is not allowed for this path.";
    /// There is no file for the path.
    NoFile Gateway NOT_FOUND "no-file" "There is no file for this path.";
    /// The gateway has no permission to read the file.
    FileForbidden Gateway FORBIDDEN "file-forbidden" "The file may not be read.";
    /// The file cannot be opened or read.
    FileUnreadable Gateway INTERNAL_SERVER_ERROR "file-unreadable" "The file cannot be read.";
    /// The file became shorter while it was sent.
    FileShrunk Gateway INTERNAL_SERVER_ERROR "file-shrunk" "The file became shorter while it was sent.";
    /// The request is for another version of the file.
    PreconditionFailed Downstream PRECONDITION_FAILED "precondition-failed" "The file has changed: a precondition of the request failed.";
    /// The request is for a part that the file does not have.
    BeyondFile Downstream RANGE_NOT_SATISFIABLE "range-not-satisfiable" "The requested range is outside the file.";
    /// A rewritten path or a redirect is not valid.
    BadRewrite Gateway BAD_REQUEST "bad-rewrite" "The rewritten path or redirect target is not valid.";
    /// A redirect needs the host, and the request has none.
    NoHost Downstream BAD_REQUEST "no-host" "The redirect needs a host, and the request names none.";
    /// The upstream has no endpoint, or all were tried.
    NoEndpoint Gateway SERVICE_UNAVAILABLE "no-endpoint" "The upstream has no available endpoint.";
    /// Every connection is in use, and too many requests already wait.
    QueueFull Gateway SERVICE_UNAVAILABLE "queue-full" "Too many requests are waiting for the upstream.";
    /// No connection became free in time.
    QueueTimeout Gateway SERVICE_UNAVAILABLE "queue-timeout" "No connection to the upstream became free in time.";
    /// The circuit breaker of the upstream is open.
    CircuitOpen Gateway SERVICE_UNAVAILABLE "circuit-open" "The upstream is failing, and gets no requests for a while.";
    /// As many requests run at the upstream as it can serve, and others wait already that matter as much.
    Overloaded Gateway SERVICE_UNAVAILABLE "overloaded" "Too many requests are being served at the moment.";
    /// The gateway has no descriptor or memory left for a connection to the endpoint.
    NoSocket Gateway SERVICE_UNAVAILABLE "no-socket" "The gateway cannot open more connections at the moment.";
    /// The endpoint refused the connection.
    Connect Upstream BAD_GATEWAY "connect" "The upstream could not be reached.";
    /// The endpoint did not accept the connection in time.
    ConnectTimeout Upstream GATEWAY_TIMEOUT "connect-timeout" "The upstream did not accept the connection in time.";
    /// The endpoint and the gateway could not agree on TLS.
    Tls Upstream BAD_GATEWAY "upstream-tls" "A TLS connection to the upstream could not be established.";
    /// The endpoint closed the connection before it had responded.
    Closed Upstream BAD_GATEWAY "upstream-closed" "The upstream closed the connection without responding.";
    /// The endpoint reset the stream before it had responded.
    Reset Upstream BAD_GATEWAY "upstream-reset" "The upstream reset the stream without responding.";
    /// The endpoint has not processed the request, and says so.
    Unprocessed Upstream SERVICE_UNAVAILABLE "upstream-refused" "The upstream accepts no requests at the moment.";
    /// The head of the response did not arrive in time.
    ResponseTimeout Upstream GATEWAY_TIMEOUT "response-timeout" "The upstream did not respond in time.";
    /// The body of the response paused for too long.
    ResponseStalled Upstream GATEWAY_TIMEOUT "response-stalled" "The upstream's response stalled.";
    /// The response ended early.
    Truncated Upstream BAD_GATEWAY "truncated" "The upstream's response is incomplete.";
    /// The endpoint sent too many interim responses.
    TooManyInterim Upstream BAD_GATEWAY "too-many-interim" "The upstream sent too many interim responses.";
    /// The endpoint switched to a protocol that was not requested.
    UnexpectedUpgrade Upstream BAD_GATEWAY "unexpected-upgrade" "The upstream switched protocols without being asked to.";
    /// The endpoint responded to an upgrade request without switching protocols.
    UpgradeIgnored Upstream BAD_GATEWAY "upgrade-ignored" "The upstream did not switch protocols.";
    /// The client asks for a tunnel in a protocol that the route does not allow, or where none is possible.
    UpgradeRefused Gateway NOT_IMPLEMENTED "upgrade-refused" "Upgrading to that protocol is not allowed for this path.";
    /// Too many tunnels are open.
    TooManyTunnels Gateway SERVICE_UNAVAILABLE "too-many-tunnels" "Too many tunnels are open.";
    /// The deadline of a gRPC call is malformed.
    BadDeadline Downstream BAD_REQUEST "bad-grpc-timeout" "The grpc-timeout field is not valid.";
    /// The field with the deadline of a request (`deadline_header`) is malformed.
    BadDeadlineField Downstream BAD_REQUEST "bad-deadline" "The field with the deadline is not a number of milliseconds.";
    /// The body of a gRPC-Web text call is not valid base64.
    BadWebText Downstream BAD_REQUEST "bad-grpc-web-text" "The body is not base64.";
    /// The deadline of a request has passed.
    Deadline Gateway GATEWAY_TIMEOUT "deadline" "The deadline of the request has passed.";
    /// The gateway itself failed.
    Internal Gateway INTERNAL_SERVER_ERROR "internal" "The gateway failed.";
}

impl Error {
    /// A failure whose side follows from its kind.
    pub fn new(kind: Kind) -> Error {
        Error { side: kind.fixed().map_or(Side::Downstream, |(side, ..)| side), kind }
    }

    /// A client's message that breaks HTTP/1.1.
    pub fn bad_request(error: titan_h1::Error) -> Error {
        Error { side: Side::Downstream, kind: Kind::Malformed(error) }
    }

    /// An endpoint's message that breaks HTTP/1.1.
    pub fn bad_response(error: titan_h1::Error) -> Error {
        Error { side: Side::Upstream, kind: Kind::Malformed(error) }
    }

    /// The status of the response, if one can still be sent.
    pub fn status(self) -> Status {
        match (self.kind, self.side) {
            (Kind::Malformed(error), Side::Downstream) => error.status(),
            (Kind::MalformedStream(fault), Side::Downstream) => fault.status(),
            (Kind::Malformed(_) | Kind::MalformedStream(_), _)
            | (Kind::ConnectionList, Side::Upstream) => Status::BAD_GATEWAY,
            (Kind::Path(_), _) => Status::BAD_REQUEST,
            (kind, _) => {
                kind.fixed().map_or(Status::INTERNAL_SERVER_ERROR, |(_, status, _)| status)
            }
        }
    }

    /// Whether the client's connection cannot be used after this.
    pub fn ends_the_connection(self) -> bool {
        let is_late =
            matches!(self.kind, Kind::HeadTimeout | Kind::BodyTimeout | Kind::BodyTooSlow);
        let is_malformed = matches!(self.kind, Kind::Malformed(_)) && self.side == Side::Downstream;
        let is_too_much = self.status() == Status::CONTENT_TOO_LARGE;
        let is_outdated = matches!(self.kind, Kind::ClientCertificate | Kind::ConnectionOutdated);
        is_late || is_malformed || is_too_much || is_outdated
    }

    /// Of this failure and that of a later attempt, the one to report: the later one, unless it says only that an
    /// endpoint was not reached.
    pub fn or_more_telling(self, later: Error) -> Error {
        let is_unreached =
            |error: Error| matches!(error.kind, Kind::Connect | Kind::ConnectTimeout);
        if is_unreached(later) && !is_unreached(self) { self } else { later }
    }

    /// Whether there is no client left to respond to.
    pub fn has_no_client(self) -> bool {
        matches!(self.kind, Kind::ClientGone | Kind::ClientStalled | Kind::ClientTooSlow)
    }

    /// Whether the client sends its body too slowly, or not at all.
    pub fn is_slow_client(self) -> bool {
        matches!(self.kind, Kind::BodyTimeout | Kind::BodyTooSlow)
    }

    /// Whether no endpoint has processed the request, so that it can go to another one whatever its method.
    pub fn nothing_was_done(self) -> bool {
        let is_full = matches!(self.kind, Kind::QueueFull | Kind::QueueTimeout);
        let is_unreached = matches!(self.kind, Kind::Connect | Kind::ConnectTimeout | Kind::Tls);
        is_full || is_unreached || self.kind == Kind::Unprocessed
    }

    /// Whether another endpoint might do better.
    pub fn is_worth_a_retry(self) -> bool {
        self.nothing_was_done() || matches!(self.kind, Kind::Closed)
    }
}

/// Whether a connection has failed because this process or this machine has no descriptor or memory left: its peer has no part in
/// that. `EADDRNOTAVAIL` is none of these errors: it says that no port is left, but also that the machine has no IPv6.
pub fn is_shortage(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}

impl From<Kind> for Error {
    fn from(kind: Kind) -> Error {
        Error::new(kind)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.side) {
            (Kind::Malformed(error), Side::Downstream) => {
                write!(f, "The request is malformed: {error}.")
            }
            (Kind::Malformed(error), _) => {
                write!(f, "The upstream's response is malformed: {error}.")
            }
            (Kind::MalformedStream(fault), Side::Downstream) => {
                write!(f, "The request is malformed: {fault}.")
            }
            (Kind::MalformedStream(fault), _) => {
                write!(f, "The upstream's response is malformed: {fault}.")
            }
            (Kind::Path(error), _) => write!(f, "The path is not acceptable: {error}."),
            (kind, _) => f.write_str(kind.fixed().map_or("", |(.., detail)| detail)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_was_not_reached_says_the_least() {
        let error_of =
            |first: Kind, later: Kind| Error::new(first).or_more_telling(later.into()).kind;
        assert_eq!(error_of(Kind::Tls, Kind::Connect), Kind::Tls);
        assert_eq!(error_of(Kind::Closed, Kind::ConnectTimeout), Kind::Closed);
        assert_eq!(error_of(Kind::Connect, Kind::Tls), Kind::Tls);
        assert_eq!(error_of(Kind::Connect, Kind::ConnectTimeout), Kind::ConnectTimeout);
        assert_eq!(error_of(Kind::Tls, Kind::Closed), Kind::Closed);
    }

    #[test]
    fn a_shortage_is_no_failure_of_the_peer() {
        let is_shortage = |errno: Errno| is_shortage(&errno.into());
        assert!([Errno::MFILE, Errno::NFILE, Errno::NOMEM].into_iter().all(is_shortage));
        // A full listen queue of a Unix socket is the last of these.
        assert!(
            ![Errno::CONNREFUSED, Errno::ADDRNOTAVAIL, Errno::AGAIN].into_iter().any(is_shortage)
        );
        assert!(!super::is_shortage(&io::ErrorKind::UnexpectedEof.into()));
    }

    #[test]
    fn codes_are_unique_and_found() {
        for kind in FIXED {
            assert_eq!(kind.index().map(|index| Kind::CODES[index]), Some(kind.code()));
        }
        let mut codes = Kind::CODES.to_vec();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Kind::CODES.len());
    }

    #[test]
    fn what_the_client_can_tell_apart() {
        let status = |kind| Error::new(kind).status().code();
        assert_eq!(status(Kind::Connect), 502);
        assert_eq!(status(Kind::QueueFull), 503);
        assert_eq!(status(Kind::ResponseTimeout), 504);
    }
}
