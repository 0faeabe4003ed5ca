//! What the process uses: memory by purpose, descriptors, processor time.

use super::family::Family;
use super::page::Page;
use titan_proxy::{Cells, Counter, MemoryStatus, Metrics, ProcessFigures};

const MEMORY: Family =
    Family::gauge("titan_memory_bytes", "Memory that the gateway accounts for, by its purpose.");

const LIMIT: Family =
    Family::gauge("titan_memory_limit_bytes", "How much memory there may be for that purpose.");

/// In the order of the figures in [`Page::process_figures`].
const OF_PROCESS: [Family; 3] = [
    Family::gauge("titan_process_resident_memory_bytes", "Memory of the process."),
    Family::gauge("titan_process_open_fds", "Open descriptors of the process."),
    Family::gauge("titan_process_max_fds", "How many descriptors the process may open."),
];

const PROCESSOR: Family = Family::counter(
    "titan_process_cpu_seconds_total",
    "Processor time of all threads of the process.",
);

/// A cell of a worker.
type Cell = fn(&Cells) -> &Counter;

/// The memory that workers have of their own, with its purpose.
const OF_WORKERS: [(&str, Cell); 3] = [
    ("receive_buffers", |cells| &cells.receive_buffers),
    ("kept_heads", |cells| &cells.kept_heads),
    ("compression", |cells| &cells.compression),
];

impl Page {
    /// Those that the system tells.
    pub(super) fn process_figures(&mut self, figures: &ProcessFigures) {
        let ProcessFigures { resident, descriptors, most_descriptors, processor } = *figures;
        let counts = [resident, descriptors, most_descriptors];
        for (family, count) in OF_PROCESS.into_iter().zip(counts) {
            if let Some(count) = count {
                self.single(family, count);
            }
        }
        if let Some(processor) = processor {
            self.single(PROCESSOR, processor.as_secs_f64());
        }
    }

    /// Memory by purpose, over all workers.
    pub(super) fn memory(&mut self, metrics: &Metrics, bodies: &[MemoryStatus]) {
        self.begin(MEMORY);
        for (purpose, of) in OF_WORKERS {
            let bytes = metrics.sum(|cells| of(cells).get());
            self.sample(MEMORY.name, &[("purpose", purpose)], bytes);
        }
        for MemoryStatus { purpose, used, .. } in bodies {
            self.sample(MEMORY.name, &[("purpose", purpose)], used);
        }
        self.begin(LIMIT);
        for MemoryStatus { purpose, most, .. } in bodies {
            self.sample(LIMIT.name, &[("purpose", purpose)], most);
        }
    }
}
