//! How much load retries may add to an upstream that fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use titan_proxy::UpstreamCells;
use titan_testkit::upstream::{self, Upstream, ok};
use titan_testkit::{Gateway, Request, gateway};

/// Endpoints that close each connection once they have read a request.
fn failing(count: usize) -> Vec<Upstream> {
    (0..count).map(|_| upstream::replies("").then_closes()).collect()
}

/// A gateway that may retry as often as it can, under that budget.
fn under(budget: &str, endpoints: &[Upstream]) -> Gateway {
    let list: Vec<_> = endpoints.iter().map(|it| format!("\"{}\"", it.address())).collect();
    gateway(
        &format!(
            "routes: [{{ upstream: u, retries: 5 }}]
upstreams: {{ u: {{ endpoints: [{}], retry_budget: {budget} }} }}",
            list.join(", ")
        ),
        &[],
    )
}

/// The requests that endpoints have seen.
fn load(endpoints: &[Upstream]) -> usize {
    endpoints.iter().map(|endpoint| endpoint.requests().len()).sum()
}

/// A figure of the only upstream.
fn counted(gateway: &Gateway, figure: impl Fn(&UpstreamCells) -> u64) -> u64 {
    gateway.status().upstreams().iter().map(|upstream| upstream.sum(&figure)).sum()
}

// field: upstream.retry_budget, retry_budget.share
#[test]
fn with_every_endpoint_failing_the_load_is_a_fifth_higher() {
    const CLIENTS: usize = 4;
    const EACH: usize = 75;
    const OFFERED: usize = CLIENTS * EACH;
    for (budget, least, most) in [
        ("{ floor: 0 }", OFFERED + OFFERED / 10, OFFERED * 12 / 10),
        ("{ share: 50%, floor: 0 }", OFFERED * 13 / 10, OFFERED * 15 / 10),
    ] {
        let endpoints = failing(6);
        let gateway = under(budget, &endpoints);
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    (0..EACH).for_each(|_| {
                        gateway.get("/").has_problem(502, "upstream-closed");
                    });
                });
            }
        });
        let load = load(&endpoints);
        assert!((least..=most).contains(&load), "{load} requests of {OFFERED} under {budget}");
        assert_eq!(counted(&gateway, |cells| cells.requests.get()), OFFERED as u64);
        assert_eq!(counted(&gateway, UpstreamCells::all_retries), (load - OFFERED) as u64);
    }
}

// field: retry_budget.floor
#[test]
fn few_requests_are_retried_in_any_case() {
    for (floor, asked) in [(1, 2), (2, 3), (10, 6)] {
        let endpoints = failing(6);
        let gateway = under(&format!("{{ share: 0%, floor: {floor} }}"), &endpoints);
        gateway.get("/").has_problem(502, "upstream-closed");
        assert_eq!(load(&endpoints), asked, "{floor}");
    }
}

#[test]
fn a_budget_that_is_used_up_leaves_the_first_failure() {
    let endpoints = failing(2);
    let gateway = under("{ share: 1%, floor: 0 }", &endpoints);
    gateway.get("/").has_problem(502, "upstream-closed");
    assert_eq!(load(&endpoints), 1);
    assert_eq!(counted(&gateway, |cells| cells.retries_refused.get()), 1);
    let told = gateway.upstream_failures();
    let told: Vec<_> =
        told.iter().map(|told| (told.code, told.what.as_str(), told.count)).collect();
    let limited = "no retry (reset_before_response): retries are limited to 1% of its requests and 0 a second";
    assert!(told.contains(&("retry-budget", limited, 1)), "{told:?}");
}

/// The requests before it have paid for the retries.
#[test]
fn an_endpoint_that_dies_among_others_costs_no_request() {
    let fails = Arc::new(AtomicBool::new(false));
    let dies = |fails: Arc<AtomicBool>| {
        move |_: &Request| match fails.load(Ordering::Relaxed) {
            true => Vec::new(),
            false => ok("fine"),
        }
    };
    let first = upstream::responds(dies(Arc::clone(&fails))).then_closes();
    let others = [upstream::responds(|_| ok("fine")), upstream::responds(|_| ok("fine"))];
    let text =
        "upstreams: { u: { endpoints: [$0, $1, $2], ejection: off, retry_budget: { floor: 0 } } }";
    let gateway = gateway(text, &[&first, &others[0], &others[1]]);
    let get = || drop(gateway.get("/").has_status(200));
    (0..60).for_each(|_| get());
    fails.store(true, Ordering::Relaxed);
    (0..30).for_each(|_| get());
    assert!(counted(&gateway, UpstreamCells::all_retries) >= 9);
}

/// What is saved belongs to the upstream, whatever of it changes.
#[test]
fn a_reload_leaves_the_budget_as_it_is() {
    let endpoints = failing(2);
    let gateway = under("{ share: 10%, floor: 0 }", &endpoints);
    (0..9).for_each(|_| drop(gateway.get("/")));
    assert_eq!(counted(&gateway, UpstreamCells::all_retries), 0);
    let text = "upstreams:
  u: { endpoints: [$0, $1], max_idle: 0, retry_budget: { share: 11%, floor: 0 } }";
    gateway.reloads(text, &[&endpoints[0].address(), &endpoints[1].address()]).unwrap();
    gateway.get("/");
    assert_eq!(counted(&gateway, UpstreamCells::all_retries), 1, "the tenth request pays the rest");
}
