//! What is counted for routes.

use super::family::{Distribution, Family, SERIES, Unit};
use super::folding::{Figures, fold};
use super::page::Page;
use std::collections::HashMap;
use std::sync::Arc;
use titan_proxy::{BUCKETS, Counted, Counter, Durations, Exemplar, Histogram, RouteCells, Sizes};

/// The label values of [`RouteCells::classes`].
const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

const REQUESTS: Family = Family::counter(
    "titan_requests_total",
    "Exchanges by route and status class; `none` means no complete response.",
);

const DURATION: Family = Family::histogram(
    "titan_request_duration_seconds",
    "From the complete request head to the end of the response.",
);

/// Request, and response.
const SIZES: [Family; 2] = [
    Family::histogram("titan_request_size_bytes", "Bytes of requests, with their heads."),
    Family::histogram("titan_response_size_bytes", "Bytes of responses, with their heads."),
];

/// Those of the durations of each route that has any.
pub(super) type RouteExemplars = HashMap<String, [Option<Exemplar>; BUCKETS]>;

/// How many series a route has.
pub(super) const OF_EACH: usize = CLASSES.len() + 3 * SERIES;

/// A histogram of the sizes of requests or of responses.
type OfSizes = fn(&RouteCells) -> &Histogram<Sizes>;

impl Page {
    /// So many with series of their own, and besides them what no route took, which is the last of these.
    pub(super) fn routes(
        &mut self,
        routes: &[Arc<Counted<RouteCells>>],
        exemplars: &RouteExemplars,
        own: usize,
    ) {
        let Some((none, named)) = routes.split_last() else { return };
        let mut rows = fold(named.iter().map(|it| ([it.name()], vec![&**it])), own);
        rows.push(([none.name()], vec![none]));
        self.begin(REQUESTS);
        for ([route], of) in &rows {
            for (class, count) in CLASSES.into_iter().zip(classes(of)) {
                self.sample(REQUESTS.name, &[("route", route), ("class", class)], count);
            }
        }
        self.begin(DURATION);
        let unit = Unit::of::<Durations>();
        for ([route], of) in &rows {
            let exemplars = exemplars.get(*route).map_or(&[][..], |of_route| of_route);
            let durations = Distribution { of, which: |cells| &cells.latency };
            self.histogram(DURATION, &[("route", route)], &unit, &durations, exemplars);
        }
        let unit = Unit::of::<Sizes>();
        let sizes: [OfSizes; 2] = [|cells| &cells.received, |cells| &cells.sent];
        for (family, which) in SIZES.into_iter().zip(sizes) {
            self.begin(family);
            for ([route], of) in &rows {
                let sizes = Distribution { of, which };
                self.histogram(family, &[("route", route)], &unit, &sizes, &[]);
            }
        }
    }
}

/// Requests by class, of all these over all workers.
fn classes(routes: &[&Counted<RouteCells>]) -> [u64; CLASSES.len()] {
    let mut classes = [0; CLASSES.len()];
    for cells in routes.iter().flat_map(|route| route.workers()) {
        classes.add(&cells.classes.each_ref().map(Counter::get));
    }
    classes
}
