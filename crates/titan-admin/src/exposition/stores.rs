//! The stores that gateways count together in. There are so few that each has series of its own.

use super::family::{Distribution, Family, Unit};
use super::page::Page;
use titan_proxy::{Durations, StoreCells, StoreStatus};

const CALLS: Family = Family::counter(
    "titan_store_calls_total",
    "Calls to the store for requests, by outcome; all but `replied` leave the request to `without_store`.",
);

const DURATION: Family = Family::histogram(
    "titan_store_call_duration_seconds",
    "How long calls to the store took that got a reply.",
);

/// In the order of the figures in [`Page::stores`].
const OF_STORE: [Family; 3] = [
    Family::gauge("titan_store_up", "Whether no worker is without a connection to the store."),
    Family::gauge(
        "titan_store_gateways",
        "Gateways that share what is counted in the store, as seen last; 0 before any were.",
    ),
    Family::counter(
        "titan_store_losses_total",
        "Connections to the store that were lost or could not be made.",
    ),
];

impl Page {
    /// How each store is doing.
    pub(super) fn stores(&mut self, stores: &[StoreStatus]) {
        if stores.is_empty() {
            return;
        }
        for (place, family) in OF_STORE.into_iter().enumerate() {
            self.begin(family);
            for StoreStatus { name, is_up, gateways, losses, .. } in stores {
                let figure = [u64::from(*is_up), u64::from(*gateways), *losses][place];
                self.sample(family.name, &[("store", name)], figure);
            }
        }
        self.begin(CALLS);
        for StoreStatus { name, counted, .. } in stores {
            for (place, (outcome, _)) in StoreCells::default().outcomes().enumerate() {
                let count = counted.sum(|cells| cells.outcomes().nth(place).map_or(0, |it| it.1));
                self.sample(CALLS.name, &[("store", name), ("outcome", outcome)], count);
            }
        }
        self.begin(DURATION);
        let unit = Unit::of::<Durations>();
        for StoreStatus { name, counted, .. } in stores {
            let sum = counted.histogram(|cells| &cells.took);
            let of = Some(&**counted);
            let took = Distribution { sum: &sum, of, which: |cells: &StoreCells| &cells.took };
            self.histogram(DURATION, &[("store", name)], &unit, &took, &[]);
        }
    }
}
