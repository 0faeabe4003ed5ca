//! What a peer did wrong: a variant per fault, so that logs, metrics and tests can tell them apart.

use std::fmt;
use titan_http::Status;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $status:ident $text:literal;)*) => {
        /// A message that is refused. After one, nothing more on the connection can be trusted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Error {
            $($(#[$doc])* $name,)*
        }

        impl Error {
            /// What a server responds before it closes. A gateway responds with 502 when its upstream did it.
            pub fn status(&self) -> Status {
                match self {
                    $(Error::$name => Status::$status,)*
                }
            }

            /// The fault and the section that forbids it.
            pub fn as_str(&self) -> &'static str {
                match self {
                    $(Error::$name => $text,)*
                }
            }

            /// Every fault there is, for tables of metrics and for tests.
            pub const ALL: &[Error] = &[$(Error::$name,)*];
        }
    };
}

faults! {
    /// A CR without LF.
    BareCr = BAD_REQUEST "a CR without LF (RFC 9112 section 2.2)";
    /// An LF without CR.
    BareLf = BAD_REQUEST "an LF without CR (RFC 9112 section 2.2)";
    /// More than one empty line before a request.
    EmptyLines = BAD_REQUEST "more than one empty line before the request line (RFC 9112 section 2.2)";
    /// A byte in the method that no token has, or no method at all.
    Method = BAD_REQUEST "the method is not a token (RFC 9112 section 3.1)";
    /// A method longer than any that is known.
    MethodTooLong = NOT_IMPLEMENTED "the method is longer than any known method (RFC 9112 section 3)";
    /// The request line has no target, or more than one SP before it.
    NoTarget = BAD_REQUEST "the request line has no target (RFC 9112 section 3)";
    /// A byte in the target that no URI has, or a fragment.
    TargetByte = BAD_REQUEST "the target contains a byte that is not allowed (RFC 9112 section 3.2)";
    /// A target in no form, or in a form that the method does not allow.
    TargetForm = BAD_REQUEST "the target does not have a form that the method allows (RFC 9112 section 3.2)";
    /// The authority in the target is malformed.
    TargetAuthority = BAD_REQUEST "the authority in the target is malformed (RFC 9112 section 3.2)";
    /// The target exceeds its limit.
    TargetTooLong = URI_TOO_LONG "the target exceeds its limit (RFC 9112 section 3)";
    /// The version is not `HTTP/` DIGIT `.` DIGIT.
    Version = BAD_REQUEST "the version is malformed (RFC 9112 section 2.3)";
    /// A major version other than 1.
    VersionNotServed = VERSION_NOT_SUPPORTED "the major version is not 1 (RFC 9110 section 15.6.6)";
    /// The status line is not version, SP, three digits.
    StatusLine = BAD_REQUEST "the status line is malformed (RFC 9112 section 4)";
    /// A status code outside 100 to 599.
    StatusCode = BAD_REQUEST "the status code is outside 100 to 599 (RFC 9110 section 15)";
    /// A control byte in the reason phrase.
    ReasonByte = BAD_REQUEST "the reason phrase contains a control byte (RFC 9112 section 4)";
    /// A line that begins with white space: a folded value, or a hidden first line.
    ObsFold = BAD_REQUEST "a field line begins with white space (RFC 9112 sections 2.2 and 5.2)";
    /// A field line that begins with its colon.
    EmptyFieldName = BAD_REQUEST "a field name is empty (RFC 9112 section 5)";
    /// A byte in a field name that no token has, or a line without a colon.
    FieldNameByte = BAD_REQUEST "a field name is not a token (RFC 9112 section 5)";
    /// White space between a field name and its colon.
    SpaceBeforeColon = BAD_REQUEST "there is white space before the colon (RFC 9112 section 5.1)";
    /// A control byte in a field value.
    ValueByte = BAD_REQUEST "a field value contains a control byte (RFC 9110 section 5.5)";
    /// The head exceeds its limit.
    HeadTooLong = FIELDS_TOO_LARGE "the head exceeds its limit (RFC 6585 section 5)";
    /// There are more field lines than the limit.
    TooManyFields = FIELDS_TOO_LARGE "there are too many fields (RFC 6585 section 5)";
    /// An HTTP/1.1 request without `Host`.
    NoHost = BAD_REQUEST "the Host field is missing (RFC 9112 section 3.2)";
    /// More than one `Host`, equal or not.
    SecondHost = BAD_REQUEST "there is more than one Host field (RFC 9112 section 3.2)";
    /// A `Host` that is no authority.
    HostMalformed = BAD_REQUEST "the Host field is malformed (RFC 9110 section 7.2)";
    /// A `Host` that is not the authority in the target.
    HostDiffers = BAD_REQUEST "the Host field differs from the target's authority (RFC 9112 section 3.2.2)";
    /// A `Connection` member that is no token.
    ConnectionOption = BAD_REQUEST "a Connection member is not a token (RFC 9110 section 7.6.1)";
    /// An expectation other than `100-continue`.
    Expectation = EXPECTATION_FAILED "the expectation is not 100-continue (RFC 9110 section 10.1.1)";
    /// `Content-Length` together with `Transfer-Encoding`.
    LengthAndCoding = BAD_REQUEST "Content-Length beside Transfer-Encoding (RFC 9112 section 6.3)";
    /// A second `Content-Length`, equal or not, or a list of lengths.
    SecondContentLength = BAD_REQUEST "there is more than one Content-Length (RFC 9112 section 6.3)";
    /// A `Content-Length` that is no number of digits below 2^63.
    ContentLength = BAD_REQUEST "the Content-Length is malformed (RFC 9110 section 8.6)";
    /// `Transfer-Encoding` in an HTTP/1.0 message.
    CodingInHttp10 = BAD_REQUEST "Transfer-Encoding in HTTP/1.0 (RFC 9112 section 6.1)";
    /// A `Transfer-Encoding` list with a member that is no token, such as an empty one.
    CodingMalformed = BAD_REQUEST "the Transfer-Encoding list is malformed (RFC 9112 section 6.1)";
    /// `chunked` applied twice.
    ChunkedTwice = BAD_REQUEST "the chunked coding is applied twice (RFC 9112 section 6.1)";
    /// A coding after `chunked`.
    ChunkedNotLast = BAD_REQUEST "the chunked coding is not the last (RFC 9112 section 6.1)";
    /// A transfer coding other than `chunked`.
    CodingUnknown = NOT_IMPLEMENTED "a transfer coding is not supported (RFC 9112 section 6.1)";
    /// A body on CONNECT: it could as well be the tunnel's.
    ConnectWithBody = BAD_REQUEST "CONNECT with a body (RFC 9110 section 9.3.6)";
    /// `Transfer-Encoding` or `Content-Length` where a response cannot have a body at all.
    FramingForbidden = BAD_REQUEST "framing fields in a 1xx or 204 response (RFC 9112 section 6.1)";
    /// The body exceeds its limit.
    BodyTooLong = CONTENT_TOO_LARGE "the body exceeds its limit (RFC 9110 section 15.5.14)";
    /// A chunk-size line that does not begin with digits, or goes on with anything but `;`.
    ChunkSize = BAD_REQUEST "the chunk size is malformed (RFC 9112 section 7.1)";
    /// A chunk size of more than 16 digits, or of 2^63 or more.
    ChunkSizeOverflow = BAD_REQUEST "the chunk size overflows (RFC 9112 section 7.1)";
    /// A chunk extension that is neither a name nor a name with a value.
    ChunkExtension = BAD_REQUEST "a chunk extension is malformed (RFC 9112 section 7.1.1)";
    /// The chunk-size line exceeds its limit.
    ChunkLineTooLong = BAD_REQUEST "the chunk-size line exceeds its limit (RFC 9112 section 7.1.1)";
    /// The data of a chunk is not followed by CRLF.
    ChunkEnd = BAD_REQUEST "chunk data is not as long as its size (RFC 9112 section 7.1)";
    /// A trailer field that may only stand in a head.
    TrailerForbidden = BAD_REQUEST "a field is not allowed in trailers (RFC 9110 section 6.5.1)";
    /// The trailer section exceeds its limit.
    TrailersTooLong = FIELDS_TOO_LARGE "the trailers exceed their limit (RFC 6585 section 5)";
    /// The peer closed before the message was complete.
    Truncated = BAD_REQUEST "the message ends before it is complete (RFC 9112 section 8)";
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for Error {}
