//! QPACK (RFC 9204): lists of fields to bytes and back.
//!
//! | in reading order | |
//! |---|---|
//! | `error` | what ends a connection because of its compression |
//! | `static_table` | the fields that both sides know from the beginning |
//! | `integer` | integers and strings |
//! | `decoder` | field sections to lines, by what the peer's encoder has put into the dynamic table |
//! | `encoder` | fields to sections, and what the peer's decoder may say of them |

mod error;

mod static_table;

mod integer;

mod decoder;

mod encoder;

pub use decoder::{CAPACITY, Decoded, Decoder};
pub use encoder::{Qpack, read_feedback, write_prefix};
pub use error::Corrupt;
pub use static_table::StaticIndex;
