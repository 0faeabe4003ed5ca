//! Things without series of their own.

use super::*;
use crate::exposition::folding::OTHER;

/// As many routes, upstreams, endpoints, mirrors and policies, the first of which has a request.
pub(super) fn many(count: usize) -> Gateway {
    let lines = |line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
    // Copies would be sent at any time: none is made of a request.
    let asked = [0, count - 2, count - 1, count - 1];
    let route = |n: usize| {
        let mirror =
            if asked.contains(&n) { String::new() } else { format!(", mirror: u{}", n - 1) };
        format!("  - {{ name: r{n}, path: /r{n}, upstream: u{n}, apply: [p{n}]{mirror} }}\n")
    };
    let endpoints = "endpoints: ['unix:/a', 'unix:/b'], circuit_breaker: { per: endpoint }";
    let config = format!(
        "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: off\nroutes:\n{}upstreams:\n{}policies:\n{}",
        lines(&route),
        lines(&|n| format!("  u{n}: {{ {endpoints} }}\n")),
        lines(&|n| format!("  p{n}: {{ rate_limit: {{ rates: 1/h }} }}\n")),
    );
    let gateway =
        Gateway::start(&Config::parse("test", &config).unwrap(), &Files::default(), None).unwrap();
    asked.iter().for_each(|route| request(&gateway, &format!("/r{route}")));
    gateway
}

#[test]
fn what_is_beyond_the_limit_is_added_up_and_counted() {
    let (gateway, reloads) = (many(40), Reloads::new([0xa0; 32]));
    let of = |most| parse(&page(&gateway, &reloads, (Format::Prometheus, most)));
    let (all, few) = (of(usize::MAX), of(2000));
    let series = |families: &BTreeMap<String, Given>| -> usize {
        families.values().map(|family| family.samples.len()).sum()
    };
    assert!(series(&few) <= 2000 && series(&few) > 1500, "{}", series(&few));
    let told = few["titan_metrics_series"].samples["titan_metrics_series"];
    assert_eq!(told.to_string(), (series(&few) - 9).to_string(), "but for those of the page");
    let sum = |families: &BTreeMap<String, Given>, family: &str| -> f64 {
        families[family].samples.values().sum()
    };
    for name in all.keys().filter(|name| {
        let kinds = ["requests_", "upstream_", "mirror_", "policy_"];
        let of = name.strip_prefix("titan_").unwrap();
        kinds.iter().any(|start| of.starts_with(start)) || of.ends_with("_size_bytes")
    }) {
        // Of numbers that are not whole the sum depends on their order.
        assert!((sum(&all, name) - sum(&few, name)).abs() < 1e-6, "{name}");
    }
    assert_eq!(sum(&few, "titan_circuit_breaker_state"), 80.0);
    let count = |family: &str, name: &str| {
        let labelled = format!("=\"{name}\"");
        let samples = few[family].samples.iter().filter(|(series, _)| series.contains(&labelled));
        samples.map(|(_, count)| count).sum::<f64>()
    };
    assert_eq!(
        (count("titan_requests_total", "r0"), count("titan_requests_total", OTHER)),
        (1.0, 3.0)
    );
    // The policy of the last route has refused the second request.
    assert_eq!(count("titan_upstream_requests_total", OTHER), 2.0);
    assert!(count("titan_policy_requests_total", OTHER) >= 2.0);
    assert_eq!(count("titan_requests_total", "(none)"), 0.0);
    let folded = |families: &BTreeMap<String, Given>| {
        let kinds = ["route", "upstream", "endpoint", "mirror", "policy", "certificate"];
        let series = |kind| format!("titan_metrics_folded{{kind=\"{kind}\"}}");
        kinds.map(|kind| families["titan_metrics_folded"].samples[&series(kind)])
    };
    assert_eq!(folded(&all), [0.0; 6]);
    let folded = folded(&few);
    assert!(folded[..2].iter().all(|count| *count > 20.0) && folded[5] == 0.0, "{folded:?}");
}

/// A configuration of these routes, each of which responds.
fn of_routes(names: &[&str]) -> Config {
    let route = |name: &&str| format!("{{ name: {name}, path: /{name}, respond: 200 }}");
    let routes = names.iter().map(route).collect::<Vec<_>>().join(", ");
    let text =
        format!("{{ workers: 1, listeners: [127.0.0.1:0], admin: off, routes: [{routes}] }}");
    Config::parse("test", &text).unwrap()
}

fn ask(gateway: &Gateway, paths: &[&str]) {
    paths.iter().for_each(|path| request(gateway, path));
}

#[test]
fn what_is_added_up_never_falls_whatever_a_reload_does() {
    let (reloads, others) = (Reloads::new([0xa0; 32]), Mutex::default());
    let gateway = Gateway::start(&of_routes(&["a", "b", "c"]), &Files::default(), None).unwrap();
    let load = |names: &[&str]| {
        gateway.loader().load(&of_routes(names), &Files::default(), None).map(drop).unwrap();
    };
    let count = |most| {
        let page = page_after(&gateway, &reloads, (Format::Prometheus, most), &others);
        let of = |name: &str| -> f64 {
            let samples = &parse(&page)[name.strip_suffix("_count").unwrap_or(name)].samples;
            let is_other = |series: &str| series.starts_with(name) && series.contains(OTHER);
            samples.iter().filter(|(series, _)| is_other(series)).map(|(_, count)| count).sum()
        };
        let counts = ["titan_requests_total", "titan_request_duration_seconds_count"].map(of);
        assert_eq!(counts[0], counts[1]);
        counts[0]
    };
    ask(&gateway, &["/a", "/a", "/b", "/b", "/b", "/c"]);
    assert_eq!(count(0), 6.0);
    load(&["a", "c"]);
    assert_eq!(count(0), 6.0, "what is gone stays in it");
    ask(&gateway, &["/a"]);
    load(&["c", "a", "b"]);
    assert_eq!(count(0), 7.0);
    ask(&gateway, &["/b"]);
    assert_eq!(count(0), 8.0, "another one of that name");
    assert_eq!(count(usize::MAX), 0.0);
    ask(&gateway, &["/a", "/a"]);
    assert_eq!(count(0), 8.0, "what had series of its own has counted there");
    ask(&gateway, &["/c", "/a"]);
    assert_eq!(count(0), 10.0);
}
