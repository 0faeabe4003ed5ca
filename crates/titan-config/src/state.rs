//! What the gateway keeps between two starts, and where.

use crate::bounds::{MAX_HISTORY, MAX_PATH_BYTES};
use crate::problem::Problem;
use crate::read::{Read, default, optional};
use crate::readers::{short_for, text, whole};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use std::num::NonZeroU16;
use std::path::PathBuf;

section! {
    "state", "the state directory", Any;
    /// The history of configurations, which `titan history` prints and `titan rollback` goes back in. A plain string sets
    /// `directory` alone.
    pub struct State {
        /// The directory that stores the history; it is created if it does not exist, and only its owner can read it. No other
        /// process may use it. A relative path starts at the directory of the configuration file. Secrets are left out. If
        /// it cannot be used, or its disk is full, Titan warns, keeps the history in memory and tries again.
        pub directory: Option<PathBuf> =
            optional("`$STATE_DIRECTORY`, which systemd sets; without it the history is in memory only", directory()),
        /// How many configurations are kept. Each takes as much memory and disk space as its text has bytes. Those that say the same
        /// as the one before go first, then the oldest.
        pub history: NonZeroU16 = default("20", whole(1..=MAX_HISTORY)),
    }
}

pub(crate) fn state() -> impl Read<Value = State> {
    short_for("directory", section_of::<State>())
}

fn directory() -> impl Read<Value = PathBuf> {
    let shape = TextShape {
        what: "a path to a directory",
        examples: "`/var/lib/titan`",
        pattern: None,
        max: MAX_PATH_BYTES,
    };
    text(shape, |text| match text {
        "" => Err(Problem::new("it is empty")),
        text if text.contains('\0') => Err(Problem::new("it contains a NUL byte")),
        text => Ok(PathBuf::from(text)),
    })
}
