//! Error codes (RFC 9113 section 7), and what ends a whole connection.

use crate::hpack::BadBlock;
use std::fmt;
use titan_http::section::Fault;
use titan_http::stream::Flood;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal $text:literal;)*) => {
        /// Why a stream or a connection ends, as it stands in RST_STREAM and GOAWAY.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// The code of a number; one that the registry does not have is as good as INTERNAL_ERROR.
            pub fn from_number(number: u32) -> Code {
                match number {
                    $($number => Code::$name,)*
                    _ => Code::InternalError,
                }
            }

            /// The number as it stands in frames.
            pub fn number(self) -> u32 {
                match self {
                    $(Code::$name => $number,)*
                }
            }

            /// The name that the registry gives it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$name => $text,)*
                }
            }

            /// Every code there is, for tables of metrics and for tests.
            pub const ALL: &[Code] = &[$(Code::$name,)*];
        }
    };
}

codes! {
    /// Nothing went wrong.
    NoError = 0 "NO_ERROR";
    /// A rule was broken that has no code of its own.
    ProtocolError = 1 "PROTOCOL_ERROR";
    /// The sender failed.
    InternalError = 2 "INTERNAL_ERROR";
    /// More was sent than the window allowed.
    FlowControlError = 3 "FLOW_CONTROL_ERROR";
    /// SETTINGS were not acknowledged.
    SettingsTimeout = 4 "SETTINGS_TIMEOUT";
    /// A frame on a stream that is closed.
    StreamClosed = 5 "STREAM_CLOSED";
    /// A frame of a length that it may not have.
    FrameSizeError = 6 "FRAME_SIZE_ERROR";
    /// Nothing was done with the stream: it can be sent again.
    RefusedStream = 7 "REFUSED_STREAM";
    /// The stream is no longer wanted.
    Cancel = 8 "CANCEL";
    /// The state of the header compression is lost.
    CompressionError = 9 "COMPRESSION_ERROR";
    /// The connection of a CONNECT was reset.
    ConnectError = 10 "CONNECT_ERROR";
    /// The peer costs too much.
    EnhanceYourCalm = 11 "ENHANCE_YOUR_CALM";
    /// The transport is not secure enough.
    InadequateSecurity = 12 "INADEQUATE_SECURITY";
    /// Only HTTP/1.1 will do.
    Http11Required = 13 "HTTP_1_1_REQUIRED";
}

impl Code {
    /// The code for a peer that has broken a rule of messages.
    pub(crate) fn of(fault: Fault) -> Code {
        match fault {
            Fault::StreamClosed => Code::StreamClosed,
            Fault::TooManyStreams => Code::RefusedStream,
            Fault::PriorityLength => Code::FrameSizeError,
            Fault::WindowOverflow => Code::FlowControlError,
            _ => Code::ProtocolError,
        }
    }
}

macro_rules! violations {
    ($($(#[$doc:meta])* $name:ident = $code:ident $text:literal;)*) => {
        /// What a peer did that ends the whole connection.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Violation {
            $($(#[$doc])* $name,)*
        }

        impl Violation {
            /// The code that the peer gets.
            pub fn code(self) -> Code {
                match self {
                    $(Violation::$name => Code::$code,)*
                }
            }

            /// What it is, and the section that forbids it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Violation::$name => $text,)*
                }
            }

            /// Every violation there is, for tables of metrics and for tests.
            pub const ALL: &[Violation] = &[$(Violation::$name,)*];
        }
    };
}

violations! {
    /// The connection does not begin with the client's preface.
    Preface = ProtocolError "the connection does not begin with the preface (RFC 9113 section 3.4)";
    /// The first frame is not SETTINGS.
    NoSettings = ProtocolError "the first frame is not SETTINGS (RFC 9113 section 3.4)";
    /// A frame longer than 16,384 bytes.
    FrameTooLong = FrameSizeError "a frame exceeds SETTINGS_MAX_FRAME_SIZE (RFC 9113 section 4.2)";
    /// A frame whose length does not fit its type.
    FrameLength = FrameSizeError "a frame has a length that its type does not allow (RFC 9113 section 4.2)";
    /// Padding as long as the frame or longer.
    Padding = ProtocolError "the padding exceeds the frame (RFC 9113 section 6.1)";
    /// Stream 0 where a stream belongs, or a stream where 0 belongs.
    StreamZero = ProtocolError "a frame is on stream 0 where it may not be, or is not where it \
        must be (RFC 9113 section 6)";
    /// A stream number that this peer may not open.
    StreamNumber = ProtocolError "a stream identifier is out of order (RFC 9113 section 5.1.1)";
    /// A frame on a stream that was not opened.
    IdleStream = ProtocolError "a frame on an idle stream (RFC 9113 section 5.1)";
    /// A frame on a stream that the peer has ended.
    ClosedStream = StreamClosed "a frame on a closed stream (RFC 9113 section 5.1)";
    /// Something else between HEADERS and the end of its block, or CONTINUATION without HEADERS.
    Continuation = ProtocolError "a field block is interrupted, or a CONTINUATION frame has no \
        field block to continue (RFC 9113 section 6.10)";
    /// A setting with a value that it may not have.
    SettingValue = ProtocolError "a setting has a value that is not allowed (RFC 9113 section 6.5.2)";
    /// An initial window beyond 2^31-1, or one that makes a window so.
    SettingWindow = FlowControlError "SETTINGS_INITIAL_WINDOW_SIZE overflows a window (RFC 9113 section 6.9.2)";
    /// A push, which was switched off.
    Push = ProtocolError "PUSH_PROMISE, which this side does not allow (RFC 9113 section 6.6)";
    /// A WINDOW_UPDATE of 0 for the connection.
    WindowIncrement = ProtocolError "a window is increased by 0 (RFC 9113 section 6.9)";
    /// The window of the connection exceeds 2^31-1.
    WindowOverflow = FlowControlError "a window exceeds 2^31-1 (RFC 9113 section 6.9.1)";
    /// More data than the window of the connection, or of a stream, allows.
    WindowExceeded = FlowControlError "more data than the window allows (RFC 9113 section 6.9)";
    /// A field block that cannot be decoded.
    Compression = CompressionError "a field block cannot be decoded (RFC 7541)";
    /// A field block far beyond the limit on heads.
    BlockTooLong = EnhanceYourCalm "a field block is far too long (RFC 9113 section 10.5.1)";
    /// Too much that costs, too little that gets anything done.
    Flood = EnhanceYourCalm "the peer causes excessive work without making progress (RFC 9113 section 10.5)";
    /// Responses to control frames that the peer does not read.
    Unread = EnhanceYourCalm "the peer does not read the replies to its frames (RFC 9113 section 10.5)";
    /// A preface of HTTP/1 style responses, such as a client role that hears HTTP/1.
    NotHttp2 = Http11Required "the peer speaks HTTP/1 (RFC 9113 section 3.3)";
}

/// The end of a connection: the peer broke a rule after which nothing more on it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fatal {
    /// The code in GOAWAY.
    pub code: Code,
    /// What it did.
    pub violation: Violation,
}

impl Fatal {
    pub(crate) fn of(violation: Violation) -> Fatal {
        Fatal { code: violation.code(), violation }
    }
}

impl From<BadBlock> for Violation {
    fn from(block: BadBlock) -> Violation {
        match block {
            BadBlock::Compression(_) => Violation::Compression,
            BadBlock::TooMuch => Violation::BlockTooLong,
        }
    }
}

impl From<Flood> for Violation {
    fn from(_: Flood) -> Violation {
        Violation::Flood
    }
}

impl From<Violation> for Fatal {
    fn from(violation: Violation) -> Fatal {
        Fatal::of(violation)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.violation)
    }
}

impl std::error::Error for Fatal {}
