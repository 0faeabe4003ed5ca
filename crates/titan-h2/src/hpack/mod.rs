//! HPACK (RFC 7541): lists of fields to bytes and back.
//!
//! | in reading order | |
//! |---|---|
//! | `line` | a field as it comes out of a block: what its name means, and what is wrong with it |
//! | `static_table` | the fields that both sides know from the beginning |
//! | `table` | the fields that the peer's encoder has added |
//! | `corrupt` | what is wrong with a block that cannot be decoded |
//! | `huffman` | the code that strings may be written in |
//! | `decode` | blocks to lines |
//! | `encode` | fields to blocks, without a table and without Huffman: what costs the least |

mod line;

mod static_table;

mod table;

mod corrupt;

mod huffman;

mod decode;

mod encode;

pub(crate) use corrupt::BadBlock;
pub(crate) use decode::Decoder;
pub(crate) use encode::{Secrecy, write_indexed, write_literal, write_size_update};
pub(crate) use line::{Key, Line};
pub(crate) use static_table::{FieldIndex, pseudo};
