//! Two readings of a gateway that has seen much, a second apart, for the tests of what is made of them.

use super::reading::{Counts, Reading, upstreams};
use std::time::{Duration, Instant, SystemTime};

/// The first one.
const BEFORE: &str = r#"
titan_build_info{version="1.2.3"} 1
titan_process_start_time_seconds 1799900000
titan_config_last_reload_timestamp_seconds 1799999900
titan_config_last_reload_successful 0
titan_config_on_trial 1
titan_config_in_use 2
titan_pressure_level 1
titan_pressure_ratio{resource="descriptors"} 0.02
titan_pressure_ratio{resource="memory"} 0.4
titan_connections_accepted_total{worker="0"} 100
titan_connections_open{worker="0"} 7
titan_connections_open{worker="1"} 9
titan_http2_streams_open{worker="0"} 21
titan_http2_streams_open{worker="1"} 0
titan_tunnels_open{worker="0"} 1
titan_connections_refused_total{worker="0"} 5
titan_tls_handshakes_failed_total{worker="0"} 6
titan_received_bytes_total{worker="0"} 1000
titan_sent_bytes_total{worker="0"} 1000
titan_requests_begun_total{worker="0"} 1000
titan_requests_begun_total{worker="1"} 1000
titan_worker_busy_seconds_total{worker="0"} 10
titan_worker_busy_seconds_total{worker="1"} 10
titan_worker_lag_seconds{worker="0"} 0.00025
titan_worker_lag_seconds{worker="1"} 0.12
titan_requests_total{route="shop",class="2xx"} 1000
titan_requests_total{route="shop",class="3xx"} 0
titan_requests_total{route="shop",class="4xx"} 100
titan_requests_total{route="shop",class="5xx"} 10
titan_requests_total{route="shop",class="none"} 3
titan_request_duration_seconds_bucket{route="shop",le="0.001"} 0
titan_request_duration_seconds_bucket{route="shop",le="0.01"} 500
titan_request_duration_seconds_bucket{route="shop",le="10"} 600
titan_request_duration_seconds_bucket{route="shop",le="+Inf"} 600
titan_response_size_bytes_sum{route="shop"} 0
titan_requests_total{route="a-route-whose-name-is-longer-than-a-column",class="2xx"} 5
titan_request_duration_seconds_bucket{route="a-route-whose-name-is-longer-than-a-column",le="0.001"} 0
titan_request_duration_seconds_bucket{route="a-route-whose-name-is-longer-than-a-column",le="0.01"} 0
titan_request_duration_seconds_bucket{route="a-route-whose-name-is-longer-than-a-column",le="10"} 0
titan_request_duration_seconds_bucket{route="a-route-whose-name-is-longer-than-a-column",le="+Inf"} 0
titan_requests_total{route="evilESC[2J<b>RLOtxt",class="2xx"} 5
titan_exchange_failures_total{code="upstream-timeout"} 4
titan_exchange_failures_total{code="circuit-open"} 4
titan_upstream_requests_total{upstream="shop"} 1000
titan_upstream_attempts_total{upstream="shop"} 1000
titan_upstream_failures_total{upstream="shop"} 50
titan_upstream_retries_total{upstream="shop",reason="connect"} 5
titan_upstream_hedges_total{upstream="shop"} 1
titan_upstream_shed_total{upstream="shop"} 0
titan_circuit_breaker_rejected_total{upstream="shop"} 0
titan_upstream_requests_total{upstream="idle"} 0
titan_upstream_attempts_total{upstream="idle"} 0
titan_upstream_failures_total{upstream="idle"} 0
titan_endpoint_healthy{upstream="idle",endpoint="10.0.9.1:80"} 0
"#;

/// What has changed a second later.
const AFTER: [(&str, &str); 21] = [
    ("titan_requests_total{route=\"shop\",class=\"2xx\"} 1000", "2230"),
    ("titan_requests_total{route=\"shop\",class=\"4xx\"} 100", "110"),
    ("titan_requests_total{route=\"shop\",class=\"5xx\"} 10", "12"),
    ("titan_request_duration_seconds_bucket{route=\"shop\",le=\"0.01\"} 500", "1700"),
    ("titan_request_duration_seconds_bucket{route=\"shop\",le=\"10\"} 600", "1822"),
    ("titan_request_duration_seconds_bucket{route=\"shop\",le=\"+Inf\"} 600", "1842"),
    ("titan_response_size_bytes_sum{route=\"shop\"} 0", "3000000"),
    ("titan_connections_accepted_total{worker=\"0\"} 100", "104"),
    ("titan_connections_refused_total{worker=\"0\"} 5", "7"),
    ("titan_received_bytes_total{worker=\"0\"} 1000", "513000"),
    ("titan_sent_bytes_total{worker=\"0\"} 1000", "3146728"),
    ("titan_requests_begun_total{worker=\"0\"} 1000", "2242"),
    ("titan_worker_busy_seconds_total{worker=\"0\"} 10", "10.953"),
    ("titan_worker_busy_seconds_total{worker=\"1\"} 10", "10.02"),
    ("titan_exchange_failures_total{code=\"upstream-timeout\"} 4", "6"),
    ("titan_upstream_requests_total{upstream=\"shop\"} 1000", "2242"),
    ("titan_upstream_attempts_total{upstream=\"shop\"} 1000", "2250"),
    ("titan_upstream_failures_total{upstream=\"shop\"} 50", "60"),
    ("titan_upstream_retries_total{upstream=\"shop\",reason=\"connect\"} 5", "13"),
    ("titan_worker_lag_seconds{worker=\"1\"} 0.12", "0.12"),
    ("titan_circuit_breaker_rejected_total{upstream=\"shop\"} 0", "3"),
];

/// How the upstreams are doing; `requests` and `failures` are of the first endpoint.
fn listing(requests: u64, failures: u64) -> String {
    format!(
        r#"{{"upstreams":[
{{"name":"idle","panic":true,"breaker":null,"endpoints":[]}},
{{"name":"shop","panic":false,"breaker":{{"state":"open",
"why":"12 of 20 requests failed","since":"2027-01-15T07:59:30Z","ends_in_seconds":20.5}},
"endpoints":[
{{"address":"10.0.0.7:8080","state":"healthy","why":null,"since":null,"reasons":[],
"requests":{requests},"failures":{failures},"latency_seconds":0.0021,"requests_active":12,
"requests_waiting":0,"connections_open":14,"ejections":0}},
{{"address":"[2001:db8:1234:5678:9abc:def0:1234:5678]:8080","state":"ejected",
"why":"5 failures in a row: \u001b]0;x\u0007 status 503","since":"2027-01-15T07:58:00Z",
"reasons":[{{"state":"ejected","until":"2027-01-15T08:05:00Z"}}],
"requests":7,"failures":7,"latency_seconds":null,"requests_active":0,"requests_waiting":2,"connections_open":0,"ejections":1}}
]}}]}}"#
    )
}

/// The time of the second one.
pub(super) fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

/// One that says that.
pub(super) fn reading(text: &str, listing: Option<&str>, at: Instant) -> Reading {
    Reading {
        at,
        time: now(),
        counts: Counts::parse(text).unwrap(),
        upstreams: listing.map(|listing| upstreams(listing.as_bytes()).unwrap()),
    }
}

/// Both.
pub(super) fn readings() -> [Reading; 2] {
    let start = Instant::now();
    // What would be obeyed is not written into a source.
    let before = BEFORE.replace("ESC", "\u{1b}").replace("RLO", "\u{202e}");
    let mut after = before.clone();
    for (line, value) in AFTER {
        assert!(after.contains(line), "{line}");
        let series = line.rsplit_once(' ').unwrap().0;
        after = after.replace(&format!("{line}\n"), &format!("{series} {value}\n"));
    }
    let (one, other) = (listing(1000, 50), listing(1200, 51));
    [
        reading(&before, Some(&one), start),
        reading(&after, Some(&other), start + Duration::from_secs(1)),
    ]
}
