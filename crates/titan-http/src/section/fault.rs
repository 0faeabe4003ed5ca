//! What a peer did wrong with one message on a stream of HTTP/2 or HTTP/3: a variant per fault, so that logs, metrics and tests can
//! tell them apart.

use crate::status::Status;
use std::fmt;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $status:ident $text:literal;)*) => {
        /// A message that is refused. The stream is over; the connection goes on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Fault {
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            /// What a server would respond, where a response is due (`Event::Refused`) and in logs. A
            /// gateway responds with 502 when its upstream did it.
            pub fn status(self) -> Status {
                match self {
                    $(Fault::$name => Status::$status,)*
                }
            }

            /// The fault and the section that forbids it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Fault::$name => $text,)*
                }
            }

            /// Every fault there is, for tables of metrics and for tests.
            pub const ALL: &[Fault] = &[$(Fault::$name,)*];
        }
    };
}

faults! {
    /// A field name with an upper-case letter.
    NameUpperCase = BAD_REQUEST "a field name has an upper-case letter (RFC 9113 section 8.2.1)";
    /// A field name that is empty or has a byte that no token has.
    NameByte = BAD_REQUEST "a field name is not a token (RFC 9113 section 8.2.1)";
    /// A control byte in a field value, such as CR, LF or NUL.
    ValueByte = BAD_REQUEST "a field value contains a control byte (RFC 9113 section 8.2.1)";
    /// White space at the beginning or the end of a field value.
    ValueSpace = BAD_REQUEST "a field value begins or ends with white space (RFC 9113 section 8.2.1)";
    /// A field that speaks of the connection, which HTTP/2 does by itself.
    ConnectionField = BAD_REQUEST "a connection-specific field (RFC 9113 section 8.2.2)";
    /// `te` with anything but `trailers`.
    Te = BAD_REQUEST "the TE field has a value other than trailers (RFC 9113 section 8.2.2)";
    /// A pseudo-header field behind a regular one.
    PseudoLate = BAD_REQUEST "a pseudo-header field after a regular one (RFC 9113 section 8.3)";
    /// A pseudo-header field that is not defined for this kind of message.
    PseudoUnknown = BAD_REQUEST "a pseudo-header field that is not allowed there (RFC 9113 section 8.3)";
    /// A pseudo-header field that stands there twice.
    PseudoTwice = BAD_REQUEST "a pseudo-header field twice (RFC 9113 section 8.3)";
    /// A pseudo-header field in a trailer section.
    PseudoInTrailers = BAD_REQUEST "a pseudo-header field in trailers (RFC 9113 section 8.1)";
    /// No `:method`.
    NoMethod = BAD_REQUEST ":method is missing (RFC 9113 section 8.3.1)";
    /// No `:scheme`.
    NoScheme = BAD_REQUEST ":scheme is missing (RFC 9113 section 8.3.1)";
    /// No `:path`.
    NoPath = BAD_REQUEST ":path is missing (RFC 9113 section 8.3.1)";
    /// Neither `:authority` nor `host`; with CONNECT, no `:authority`.
    NoAuthority = BAD_REQUEST ":authority and Host are missing (RFC 9113 section 8.3.1)";
    /// A `:method` that is no token, or longer than any that is known.
    Method = BAD_REQUEST ":method is not a known token (RFC 9113 section 8.3.1)";
    /// A `:scheme` other than `http` and `https`.
    Scheme = BAD_REQUEST ":scheme is not http or https (RFC 9113 section 8.3.1)";
    /// A `:path` that is empty or does not begin with `/`, or `*` without OPTIONS.
    Path = BAD_REQUEST ":path does not begin with a slash (RFC 9113 section 8.3.1)";
    /// A byte in `:path` that no target may have.
    PathByte = BAD_REQUEST ":path contains a byte that is not allowed (RFC 9113 section 8.3.1)";
    /// `:path` exceeds its limit.
    TargetTooLong = URI_TOO_LONG ":path exceeds its limit (RFC 9110 section 15.5.15)";
    /// An `:authority` that is no host with an optional port.
    Authority = BAD_REQUEST ":authority is malformed (RFC 9113 section 8.3.1)";
    /// A `host` that is no host with an optional port.
    HostMalformed = BAD_REQUEST "the Host field is malformed (RFC 9110 section 7.2)";
    /// More than one `host`, equal or not.
    SecondHost = BAD_REQUEST "there is more than one Host field (RFC 9110 section 7.2)";
    /// A `host` that is not `:authority`.
    HostDiffers = BAD_REQUEST "the Host field differs from :authority (RFC 9113 section 8.3.1)";
    /// CONNECT with `:scheme` or `:path`, and without `:protocol`.
    ConnectTarget = BAD_REQUEST "CONNECT with :scheme or :path (RFC 9113 section 8.5)";
    /// CONNECT with a body of declared length: it could as well be the tunnel's.
    ConnectLength = BAD_REQUEST "CONNECT with Content-Length (RFC 9110 section 9.3.6)";
    /// `:protocol` without CONNECT.
    ProtocolWithoutConnect = BAD_REQUEST ":protocol without CONNECT (RFC 8441 section 4)";
    /// A `:protocol` that is no token.
    Protocol = BAD_REQUEST ":protocol is not a token (RFC 8441 section 4)";
    /// More than one `content-length`, equal or not.
    SecondContentLength = BAD_REQUEST "there is more than one Content-Length (RFC 9113 section 8.1.1)";
    /// A `content-length` that is no number of digits below 2^63.
    ContentLength = BAD_REQUEST "the Content-Length is malformed (RFC 9113 section 8.1.1)";
    /// More bytes of body than `content-length` says.
    BodyTooLong = BAD_REQUEST "the body is longer than its Content-Length (RFC 9113 section 8.1.1)";
    /// Fewer bytes of body than `content-length` says.
    BodyTooShort = BAD_REQUEST "the body is shorter than its Content-Length (RFC 9113 section 8.1.1)";
    /// A body where the response can have none.
    BodyForbidden = BAD_REQUEST "a body in a response that cannot have one (RFC 9110 section 6.4.1)";
    /// An expectation other than `100-continue`.
    Expectation = EXPECTATION_FAILED "the expectation is not 100-continue (RFC 9110 section 10.1.1)";
    /// No `:status`.
    NoStatus = BAD_REQUEST ":status is missing (RFC 9113 section 8.3.2)";
    /// A `:status` that is not three digits from 100 to 599.
    Status = BAD_REQUEST ":status is not within 100 to 599 (RFC 9113 section 8.3.2)";
    /// Status 101, which HTTP/2 does not have.
    SwitchingProtocols = BAD_REQUEST "101 (Switching Protocols) in HTTP/2 (RFC 9113 section 8.6)";
    /// The head exceeds its limit.
    HeadTooLarge = FIELDS_TOO_LARGE "the head exceeds its limit (RFC 6585 section 5)";
    /// There are more field lines than the limit.
    TooManyFields = FIELDS_TOO_LARGE "there are too many fields (RFC 6585 section 5)";
    /// A trailer field that may only stand in a head.
    TrailerForbidden = BAD_REQUEST "a field is not allowed in trailers (RFC 9110 section 6.5.1)";
    /// The trailer section exceeds its limit.
    TrailersTooLarge = FIELDS_TOO_LARGE "the trailers exceed their limit (RFC 6585 section 5)";
    /// A frame on a stream that the peer has ended, or reset.
    StreamClosed = BAD_REQUEST "a frame on a stream that is closed (RFC 9113 section 5.1)";
    /// More streams at the same time than this side takes.
    TooManyStreams = SERVICE_UNAVAILABLE "more streams than SETTINGS_MAX_CONCURRENT_STREAMS (RFC 9113 section 5.1.2)";
    /// A stream that depends on itself.
    DependsOnItself = BAD_REQUEST "a stream depends on itself (RFC 7540 section 5.3.1)";
    /// PRIORITY that does not have five bytes.
    PriorityLength = BAD_REQUEST "PRIORITY of a length other than 5 (RFC 9113 section 6.3)";
    /// The window of a stream is increased by 0.
    WindowIncrement = BAD_REQUEST "the window of a stream is increased by 0 (RFC 9113 section 6.9)";
    /// The window of a stream exceeds 2^31-1.
    WindowOverflow = BAD_REQUEST "the window of a stream exceeds 2^31-1 (RFC 9113 section 6.9.1)";
    /// A second head in the place of trailers: it does not end the message.
    TrailersNotLast = BAD_REQUEST "trailers that do not end the message (RFC 9113 section 8.1)";
    /// DATA before the head of the response.
    NoHead = BAD_REQUEST "a body before the final head (RFC 9113 section 8.1)";
    /// A response that ends with an interim head.
    InterimLast = BAD_REQUEST "an interim response ends the stream (RFC 9113 section 8.1)";
}

impl Fault {
    /// Whether the client deserves a response: it broke no rule of the protocol, it merely asked for
    /// more than this side takes.
    pub fn gets_response(self) -> bool {
        matches!(
            self,
            Fault::HeadTooLarge | Fault::TooManyFields | Fault::TargetTooLong | Fault::Expectation
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for Fault {}
