//! Events: what the gateway tells the operator of itself, other than a line for each request.
//!
//! Whoever has something to tell makes an [`Event`], with the time at which it happened, and hands it to the [`Log`]. That neither
//! waits nor writes: the event goes to a bounded queue, and a thread of its own writes what is there ([`Writer`]).
//!
//! ```text
//! Event -> level of its area -> queue -> repeated within a minute? -> too many in a second? -> line -> standard error
//!              left out         full: counted   once, with a count      counted
//! ```
//!
//! | what | module | entry |
//! |---|---|---|
//! | text that is one line, whatever it is made of | `text` | `Text::of` |
//! | one event | `event` | [`Event::new`] |
//! | from which level on events of an area are written | `levels` | `Levels` |
//! | events as lines | `line` | `Form::line` |
//! | what is left out because it repeats, or is too much | `repeats`, `rate` | `Repeats::sift` |
//! | where events go in | `log` | [`Log::tell`] |
//! | what writes them, and whether the journal reads that | `writer`, `journal` | [`Writer::to_standard_error`] |

mod text;

mod event;

mod levels;

mod line;

mod repeats;

mod rate;

mod log;

mod journal;

mod writer;

pub use event::{Event, Field, Repeat};
pub use levels::{LevelsNow, Wish};
pub use log::{Dropped, Log};
pub use text::Text;
pub use writer::Writer;
