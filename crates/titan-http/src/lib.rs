//! HTTP semantics that all versions share (RFC 9110): heads, fields, methods, statuses. No I/O.
//!
//! One [`RequestHead`] and one [`ResponseHead`] serve HTTP/1, 2 and 3, so that middleware is written
//! once. A head keeps its bytes in one reusable text buffer and everything else as spans into it:
//! reading, changing and writing a head costs no allocation once the buffers have grown.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

mod text;

mod alike;

mod length;

mod version;

mod method;

mod status;

mod scheme;

pub mod path;

pub mod query;

mod body_length;

mod field_name;

mod fields;

mod authority;

mod trailer;

mod hop;

pub mod cookie;

pub mod coding;

pub mod media_range;

mod head;

pub mod huffman;

pub mod section;

pub mod stream;

pub use alike::{fold_byte, fold_name, is_alike, is_plain_name, starts_alike};
pub use authority::{Authority, BadAuthority, host_of};
pub use body_length::BodyLength;
pub use field_name::{FieldName, FieldSet};
pub use fields::{BadField, Field, Fields};
pub use head::{RequestHead, ResponseHead, Target, TargetForm};
pub use hop::remove_hop_by_hop;
pub use length::{MAX_LENGTH, parse_length};
pub use method::Method;
pub use scheme::Scheme;
pub use status::Status;
pub use text::{Span, is_field_byte, is_target_byte, is_token, is_token_byte, list_members};
pub use trailer::may_be_trailer;
pub use version::Version;
