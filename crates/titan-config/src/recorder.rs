//! What is kept of the last exchanges.

use crate::quantity::ByteSize;
use crate::read::{Read, default};
use crate::readers::{size, word_or};
use crate::section::{section, section_of};

section! {
    "recorder", "recorder settings", Any;
    /// The last exchanges in full, in memory: both heads with secrets masked, how long each phase took, what each policy decided, and
    /// each attempt at an endpoint. `titan recorder` and `/recorder` of the admin interface find them by the id of the request,
    /// route, status, client and time; `titan tap` shows them live. The beginning of bodies is kept only
    /// where a route says so (`record_bodies`).
    pub struct Recorder {
        /// The memory that all of them have. An eighth of it is for failures, of which a few of each kind are kept in each second,
        /// and an eighth for the slowest exchanges of each minute; the rest is for the last ones, whatever became of them. An
        /// exchange has some 600 bytes, with long heads more.
        pub memory: ByteSize = default("32MiB", size(MIN_MEMORY..=MAX_MEMORY)),
    }
}

const MIN_MEMORY: u64 = 1 << 20;
const MAX_MEMORY: u64 = 1 << 40;

pub(crate) fn recorder() -> impl Read<Value = Option<Recorder>> {
    word_or("off", None, section_of::<Recorder>().map(Some))
}
