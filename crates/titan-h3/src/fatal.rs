//! What ends a connection.

use crate::code::Code;
use crate::qpack::Corrupt;
use std::fmt;
use titan_http::stream::Flood;

/// The end of a connection: the peer has broken a rule after which nothing more on it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fatal {
    /// The code that the connection is closed with.
    pub code: Code,
    /// What the peer has done, as far as the code does not say it.
    pub why: &'static str,
}

impl From<Code> for Fatal {
    fn from(code: Code) -> Fatal {
        Fatal { code, why: "" }
    }
}

impl From<Flood> for Fatal {
    fn from(_: Flood) -> Fatal {
        let why = "the peer causes excessive work without making progress (RFC 9114 section 10.5)";
        Fatal { code: Code::ExcessiveLoad, why }
    }
}

impl From<Corrupt> for Fatal {
    fn from(corrupt: Corrupt) -> Fatal {
        let (code, why) = match corrupt {
            Corrupt::Section(why) => (Code::Decompression, why),
            Corrupt::EncoderStream(why) => (Code::EncoderStream, why),
            Corrupt::DecoderStream(why) => (Code::DecoderStream, why),
            Corrupt::TooMuch => {
                (Code::ExcessiveLoad, "a field section is far too long (RFC 9114 section 10.5.1)")
            }
        };
        Fatal { code, why }
    }
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why {
            "" => self.code.fmt(f),
            why => write!(f, "{}: {why}", self.code),
        }
    }
}

impl std::error::Error for Fatal {}
