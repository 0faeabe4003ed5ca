//! What is counted for routes.

use super::text::{Family, Text, Unit};
use std::sync::Arc;
use titan_proxy::{Counted, Counter, HistogramSum, RouteCells};

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

/// The cells of one route, added up over all workers.
struct RouteSum {
    classes: [u64; CLASSES.len()],
    duration: HistogramSum,
    sizes: [HistogramSum; 2],
}

impl RouteSum {
    fn of(route: &Counted<RouteCells>) -> RouteSum {
        let mut classes = [0; CLASSES.len()];
        for RouteCells { classes: counts, .. } in route.workers() {
            classes.iter_mut().zip(counts).for_each(|(sum, count)| *sum += Counter::get(count));
        }
        RouteSum {
            classes,
            duration: route.histogram(|cells| &cells.latency),
            sizes: [route.histogram(|cells| &cells.received), route.histogram(|cells| &cells.sent)],
        }
    }
}

impl Text {
    pub(super) fn routes(&mut self, routes: &[Arc<Counted<RouteCells>>]) {
        let sums: Vec<_> = routes.iter().map(|route| (route.name(), RouteSum::of(route))).collect();
        self.begin(REQUESTS);
        for (route, RouteSum { classes, .. }) in &sums {
            for (class, count) in CLASSES.into_iter().zip(classes) {
                self.sample(REQUESTS.name, &[("route", route), ("class", class)], count);
            }
        }
        self.begin(DURATION);
        let unit = Unit::seconds();
        for (route, RouteSum { duration, .. }) in &sums {
            self.histogram(DURATION, &[("route", route)], &unit, duration);
        }
        let unit = Unit::bytes();
        for (place, family) in SIZES.into_iter().enumerate() {
            self.begin(family);
            for (route, RouteSum { sizes, .. }) in &sums {
                self.histogram(family, &[("route", route)], &unit, &sizes[place]);
            }
        }
    }
}
