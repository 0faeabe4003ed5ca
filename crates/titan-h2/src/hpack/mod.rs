//! HPACK (RFC 7541): lists of fields to bytes and back.
//!
//! | in reading order | |
//! |---|---|
//! | `static_table` | the fields that both sides know from the beginning |
//! | `corrupt` | what is wrong with a block that cannot be decoded |
//! | `decode` | blocks to lines |
//! | `encode` | fields to blocks, without a table and without Huffman: what costs the least |

mod static_table;

mod corrupt;

mod decode;

mod encode;

pub(crate) use corrupt::BadBlock;
pub(crate) use decode::Decoder;
pub(crate) use encode::{Hpack, write_size_update};
