//! What the process uses, for those who watch it.

use crate::pressure::{most_descriptors, open_descriptors, resident_memory};
use std::time::Duration;

/// What the process uses. What the system does not tell is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessFigures {
    /// Bytes of memory.
    pub resident: Option<u64>,
    /// Open descriptors.
    pub descriptors: Option<u64>,
    /// How many it may open; `None` without a limit.
    pub most_descriptors: Option<u64>,
    /// The processor time of all its threads.
    pub processor: Option<Duration>,
}

impl ProcessFigures {
    /// Those of now: it takes a few system calls.
    pub fn now() -> ProcessFigures {
        let clock = rustix::time::ClockId::ProcessCPUTime;
        ProcessFigures {
            resident: resident_memory().ok(),
            descriptors: open_descriptors().ok(),
            most_descriptors: most_descriptors(),
            processor: Duration::try_from(rustix::time::clock_gettime(clock)).ok(),
        }
    }
}
