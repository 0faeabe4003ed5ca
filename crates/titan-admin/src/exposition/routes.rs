//! What is counted for routes.

use super::folding::fold;
use super::text::{Family, SERIES, Text, Unit};
use std::collections::HashMap;
use std::sync::Arc;
use titan_proxy::{BUCKETS, Counted, Counter, Exemplar, HistogramSum, RouteCells};

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
type RouteSum = (([u64; CLASSES.len()], HistogramSum), [HistogramSum; 2]);

impl Text {
    /// So many with series of their own, and besides them what no route took, which is the last of these.
    pub(super) fn routes(
        &mut self,
        routes: &[Arc<Counted<RouteCells>>],
        exemplars: &RouteExemplars,
        own: usize,
    ) {
        let Some((none, named)) = routes.split_last() else { return };
        let mut rows = fold(named.iter().map(|it| ([it.name()], of_route(it))), own);
        rows.push(([none.name()], of_route(none)));
        self.begin(REQUESTS);
        for ([route], ((classes, _), _)) in &rows {
            for (class, count) in CLASSES.into_iter().zip(classes) {
                self.sample(REQUESTS.name, &[("route", route), ("class", class)], count);
            }
        }
        self.begin(DURATION);
        let unit = Unit::seconds();
        for ([route], ((_, duration), _)) in &rows {
            let exemplars = exemplars.get(*route).map_or(&[][..], |of_route| of_route);
            self.histogram(DURATION, &[("route", route)], &unit, duration, exemplars);
        }
        let unit = Unit::bytes();
        for (place, family) in SIZES.into_iter().enumerate() {
            self.begin(family);
            for ([route], (_, sizes)) in &rows {
                self.histogram(family, &[("route", route)], &unit, &sizes[place], &[]);
            }
        }
    }
}

/// The cells of one route, added up over all workers.
fn of_route(route: &Counted<RouteCells>) -> RouteSum {
    let mut classes = [0; CLASSES.len()];
    for RouteCells { classes: counts, .. } in route.workers() {
        classes.iter_mut().zip(counts).for_each(|(sum, count)| *sum += Counter::get(count));
    }
    let duration = route.histogram(|cells| &cells.latency);
    let sizes = [route.histogram(|cells| &cells.received), route.histogram(|cells| &cells.sent)];
    ((classes, duration), sizes)
}
