//! How the sources of the configuration fare.

use super::{Family, Page};
use crate::reloads::{SourceState, SourceStatus};
use std::time::SystemTime;

const UP: Family =
    Family::gauge("titan_source_up", "Whether the source could be asked when it was asked last.");

const SINCE: Family = Family::gauge(
    "titan_source_last_success_seconds",
    "Seconds since the source could be asked; none where it never could.",
);

const DOCUMENTS: Family =
    Family::gauge("titan_source_documents", "Documents of the source that are in force.");

const HELD_BACK: Family = Family::gauge(
    "titan_source_held_back",
    "Documents of the source that do not fit and are held back.",
);

impl Page {
    pub(super) fn sources(&mut self, sources: &[SourceStatus], now: SystemTime) {
        let mut each = |family: Family, figure: &dyn Fn(&SourceStatus) -> Option<u64>| {
            self.begin(family);
            for source in sources {
                if let Some(figure) = figure(source) {
                    self.sample(family.name, &[("source", &source.name)], figure);
                }
            }
        };
        let since = |then: SystemTime| now.duration_since(then).unwrap_or_default().as_secs();
        each(UP, &|source| Some(u64::from(source.state() == SourceState::Up)));
        each(SINCE, &|source| source.succeeded.map(since));
        each(DOCUMENTS, &|source| u64::try_from(source.documents).ok());
        each(HELD_BACK, &|source| u64::try_from(source.held_back.len()).ok());
    }
}
