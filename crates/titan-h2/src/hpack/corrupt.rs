//! What is wrong with a block that cannot be decoded.

use titan_http::huffman::BadCode;
use titan_http::section::TooMuch;

/// A block after which nothing more on the connection can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadBlock {
    /// It cannot be decoded; with what is wrong.
    Compression(&'static str),
    /// It decodes to a multiple of what is accepted.
    TooMuch,
}

/// Why a block cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Corrupt {
    /// It ends within a representation.
    Truncated,
    /// An integer of more than 32 bits, or in more bytes than such a one needs.
    Integer,
    /// An index of no entry.
    Index,
    /// The table is to be larger than was allowed.
    SizeUpdate,
    /// The size of the table changes behind a line.
    LateSizeUpdate,
    /// Huffman code with EOS in it.
    EndOfString,
    /// Huffman code that does not end as it has to.
    Padding,
}

impl From<BadCode> for Corrupt {
    fn from(bad: BadCode) -> Corrupt {
        match bad {
            BadCode::EndOfString => Corrupt::EndOfString,
            BadCode::Padding => Corrupt::Padding,
        }
    }
}

impl From<TooMuch> for BadBlock {
    fn from(_: TooMuch) -> BadBlock {
        BadBlock::TooMuch
    }
}

impl From<Corrupt> for BadBlock {
    fn from(corrupt: Corrupt) -> BadBlock {
        BadBlock::Compression(match corrupt {
            Corrupt::Truncated => "a block ends within a line (RFC 7541 section 3.1)",
            Corrupt::Integer => "an integer in a block is too large (RFC 7541 section 5.1)",
            Corrupt::Index => {
                "a block refers to an entry that does not exist (RFC 7541 section 2.3.3)"
            }
            Corrupt::SizeUpdate => "a table size update exceeds its limit (RFC 7541 section 6.3)",
            Corrupt::LateSizeUpdate => {
                "a table size update follows a field line (RFC 7541 section 4.2)"
            }
            Corrupt::EndOfString => "a string contains the EOS symbol (RFC 7541 section 5.2)",
            Corrupt::Padding => "a string has invalid padding (RFC 7541 section 5.2)",
        })
    }
}
