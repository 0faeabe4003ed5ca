//! Field sections of HTTP/2 and HTTP/3: from the lines that a block decodes to, to heads, trailers and facts, and back (RFC 9113
//! section 8, RFC 9114 section 4). What both versions say of messages is decided here, once.
//!
//! | in reading order | |
//! |---|---|
//! | [`Fault`] | what is wrong with one message, and the status to respond with |
//! | [`Line`], [`Key`] | a field as it comes out of a block: what its name means, and what is wrong with it |
//! | [`SectionLimits`], [`Size`] | how long a section may be |
//! | [`Table`] | the fields that an encoder has added, for blocks to refer to |
//! | `facts` | what the fields of a message say about it |
//! | [`RequestSection`], [`ResponseSection`], [`TrailerSection`] | a section, line by line |
//! | [`Encoding`] | heads and trailers to lines |

mod fault;

mod line;

mod size;

mod table;

mod facts;

mod request;

mod response;

mod trailers;

mod write;

pub use facts::CONNECTION_FIELDS;
pub use fault::Fault;
pub use line::{Key, Line, OVERHEAD, check_name, check_value};
pub use request::{RequestFacts, RequestSection};
pub use response::{Extent, ResponseFacts, ResponseSection};
pub use size::{OVERSIZE_FACTOR, SectionLimits, Size, TooMuch};
pub use table::{Name, Table};
pub use trailers::{Excess, TrailerSection};
pub use write::{
    Destination, Encoding, Secrecy, room_for, size_of_fields, size_of_response, write_fields,
    write_request, write_response,
};
