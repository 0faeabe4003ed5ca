//! What a connection or a stream is ended with (RFC 9114 section 8.1, RFC 9204 section 6).

use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal $text:literal;)*) => {
        /// A code that a stream is reset with, or a connection closed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $name,)*
            /// One that is defined elsewhere, or nowhere; it means what `NoError` means (RFC 9114 section 9).
            Other(u64),
        }

        impl Code {
            /// The code of that number.
            pub fn of(number: u64) -> Code {
                match number {
                    $($value => Code::$name,)*
                    other => Code::Other(other),
                }
            }

            /// Its number.
            pub fn number(self) -> u64 {
                match self {
                    $(Code::$name => $value,)*
                    Code::Other(number) => number,
                }
            }

            /// Every code that is known.
            pub const ALL: &[Code] = &[$(Code::$name,)*];
        }

        /// As its specification calls it.
        impl fmt::Display for Code {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Code::$name => f.write_str($text),)*
                    Code::Other(number) => write!(f, "{number:#x}"),
                }
            }
        }
    };
}

codes! {
    /// There is nothing wrong.
    NoError = 0x100 "H3_NO_ERROR";
    /// The peer breaks a rule for which there is no other code.
    GeneralProtocol = 0x101 "H3_GENERAL_PROTOCOL_ERROR";
    /// This side has failed.
    Internal = 0x102 "H3_INTERNAL_ERROR";
    /// A stream that the peer may not open.
    StreamCreation = 0x103 "H3_STREAM_CREATION_ERROR";
    /// A stream has ended that the connection needs.
    ClosedCriticalStream = 0x104 "H3_CLOSED_CRITICAL_STREAM";
    /// A frame that is not allowed there.
    FrameUnexpected = 0x105 "H3_FRAME_UNEXPECTED";
    /// A frame whose layout or size is wrong.
    Frame = 0x106 "H3_FRAME_ERROR";
    /// The peer costs too much.
    ExcessiveLoad = 0x107 "H3_EXCESSIVE_LOAD";
    /// A stream or a push is called by a wrong number.
    Id = 0x108 "H3_ID_ERROR";
    /// Wrong SETTINGS.
    Settings = 0x109 "H3_SETTINGS_ERROR";
    /// No SETTINGS at the beginning of the control stream.
    MissingSettings = 0x10a "H3_MISSING_SETTINGS";
    /// Nothing was done with the request.
    RequestRejected = 0x10b "H3_REQUEST_REJECTED";
    /// The request, or its response, is of no interest any more.
    RequestCancelled = 0x10c "H3_REQUEST_CANCELLED";
    /// The stream of a client has ended before its request was whole.
    RequestIncomplete = 0x10d "H3_REQUEST_INCOMPLETE";
    /// A message is malformed.
    Message = 0x10e "H3_MESSAGE_ERROR";
    /// The connection that CONNECT has opened was reset.
    Connect = 0x10f "H3_CONNECT_ERROR";
    /// To be asked for by HTTP/1.1.
    VersionFallback = 0x110 "H3_VERSION_FALLBACK";
    /// A datagram that is malformed (RFC 9297).
    Datagram = 0x33 "H3_DATAGRAM_ERROR";
    /// A field section cannot be decoded.
    Decompression = 0x200 "QPACK_DECOMPRESSION_FAILED";
    /// An instruction of the encoder makes no sense.
    EncoderStream = 0x201 "QPACK_ENCODER_STREAM_ERROR";
    /// An instruction of the decoder makes no sense.
    DecoderStream = 0x202 "QPACK_DECODER_STREAM_ERROR";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_numbers_are_each_others() {
        for code in Code::ALL {
            assert_eq!(Code::of(code.number()), *code);
            assert!(code.to_string().starts_with(['H', 'Q']));
        }
        assert_eq!(Code::ALL.len(), 21);
        assert_eq!(Code::of(0x21), Code::Other(0x21));
        assert_eq!(
            (Code::Other(0x21).number(), Code::Other(0x21).to_string()),
            (0x21, "0x21".to_owned())
        );
    }
}
