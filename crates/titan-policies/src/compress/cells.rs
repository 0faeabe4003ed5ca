//! Counters of compression.

use crate::policy::{Metric, no_event};
use titan_io::counter::Counter;

/// What is made of them.
pub(super) const METRICS: &[Metric<CompressCells>] = &[
    Metric {
        name: "titan_compress_responses_total",
        help: "Responses that were compressed.",
        label: "",
        figures: |cells| vec![("", cells.responses.get())],
        event: no_event,
    },
    Metric {
        name: "titan_compress_input_bytes_total",
        help: "Bytes of response bodies before compression.",
        label: "",
        figures: |cells| vec![("", cells.input.get())],
        event: no_event,
    },
    Metric {
        name: "titan_compress_output_bytes_total",
        help: "Bytes of response bodies after compression.",
        label: "",
        figures: |cells| vec![("", cells.output.get())],
        event: no_event,
    },
];

/// Counters of compression.
#[derive(Default)]
pub(crate) struct CompressCells {
    /// Responses that were compressed.
    pub(super) responses: Counter,
    /// Bytes of their bodies before that.
    pub(super) input: Counter,
    /// Bytes of their bodies after that.
    pub(super) output: Counter,
}
