//! What ends a connection because of its compression (RFC 9204 section 6).

use titan_http::section::TooMuch;

/// What is wrong with what the peer has compressed, or said of what this side has: with the text of what, for logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corrupt {
    /// QPACK_DECOMPRESSION_FAILED: a field section that cannot be decoded.
    Section(&'static str),
    /// QPACK_ENCODER_STREAM_ERROR: an instruction of the encoder that makes no sense.
    EncoderStream(&'static str),
    /// QPACK_DECODER_STREAM_ERROR: an instruction of the decoder that makes no sense.
    DecoderStream(&'static str),
    /// A section that decodes to a multiple of what is accepted.
    TooMuch,
}

impl From<TooMuch> for Corrupt {
    fn from(_: TooMuch) -> Corrupt {
        Corrupt::TooMuch
    }
}
