//! What is counted for routes.

use super::family::{Distribution, Family, SERIES, Unit, by_name};
use super::folding::{Figures, Other, fold};
use super::page::Page;
use std::collections::HashMap;
use std::sync::Arc;
use titan_proxy::{
    BUCKETS, Counted, Counter, Durations, Exemplar, Histogram, HistogramSum, RouteCells, Sizes,
};

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

/// Requests by class, and how long they took; and their sizes.
pub(super) type RouteSum = (([u64; CLASSES.len()], HistogramSum), [HistogramSum; 2]);

/// A histogram of the sizes of requests or of responses.
type OfSizes = fn(&RouteCells) -> &Histogram<Sizes>;

impl Page {
    /// So many with series of their own, and besides them what no route took, which is the last of these.
    pub(super) fn routes(
        &mut self,
        routes: &[Arc<Counted<RouteCells>>],
        exemplars: &RouteExemplars,
        (own, other): (usize, &mut Other<1, RouteSum>),
    ) {
        let Some((none, named)) = routes.split_last() else { return };
        let mut rows = fold(named.iter().map(|it| ([it.name()], of_route(it))), own, other);
        rows.push(([none.name()], of_route(none)));
        let cells = by_name(routes);
        self.begin(REQUESTS);
        for ([route], ((classes, _), _)) in &rows {
            for (class, count) in CLASSES.into_iter().zip(classes) {
                self.sample(REQUESTS.name, &[("route", route), ("class", class)], count);
            }
        }
        self.begin(DURATION);
        let unit = Unit::of::<Durations>();
        for ([route], ((_, sum), _)) in &rows {
            let exemplars = exemplars.get(*route).map_or(&[][..], |of_route| of_route);
            let of = cells.get(route).copied();
            let durations = Distribution { sum, of, which: |cells| &cells.latency };
            self.histogram(DURATION, &[("route", route)], &unit, &durations, exemplars);
        }
        let unit = Unit::of::<Sizes>();
        let sizes: [OfSizes; 2] = [|cells| &cells.received, |cells| &cells.sent];
        for (place, (family, which)) in SIZES.into_iter().zip(sizes).enumerate() {
            self.begin(family);
            for ([route], (_, sums)) in &rows {
                let of = cells.get(route).copied();
                let sizes = Distribution { sum: &sums[place], of, which };
                self.histogram(family, &[("route", route)], &unit, &sizes, &[]);
            }
        }
    }
}

/// The cells of one route, added up over all workers.
fn of_route(route: &Counted<RouteCells>) -> RouteSum {
    let mut classes = [0; CLASSES.len()];
    for cells in route.workers() {
        classes.add(&cells.classes.each_ref().map(Counter::get));
    }
    let duration = route.histogram(|cells| &cells.latency);
    let sizes = [route.histogram(|cells| &cells.received), route.histogram(|cells| &cells.sent)];
    ((classes, duration), sizes)
}
