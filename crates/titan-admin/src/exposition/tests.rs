//! The exposition of a gateway that has served, read by a strict parser.

mod folded;
mod messages;
mod read;

use super::endpoints::OF_ENDPOINT;
use super::policies::OF_KEY_SET;
use super::*;
use crate::reloads::{Reloads, SourceStatus, Subject};
use read::{Given, parse, parse_open};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;
use titan_config::Config;
use titan_proxy::{Exemplar, Files, Gateway};

const CONFIG: &str = "
workers: 2
listeners: [127.0.0.1:0]
admin: off
routes:
  - { name: fixed, path: /fixed, respond: 200, apply: [few] }
  - { name: proxied, path: /proxied, upstream: nobody }
upstreams:
  nobody: unix:/nowhere/at-all
policies:
  few: { rate_limit: { rates: 1/h } }
";

/// How a gateway is doing with others.
const FLEET: FleetStatus =
    FleetStatus { is_in_sync: true, unpublished: 1, received: 4, unreadable: 6, refills: 8 };

/// Starts a gateway and sends it requests: one that succeeds, one that fails, one without a route.
fn served() -> Gateway {
    let gateway =
        Gateway::start(&Config::parse("test", CONFIG).unwrap(), &Files::default(), None).unwrap();
    let address = gateway.listeners()[0].socket_address.unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    for (path, close) in [("/fixed", ""), ("/proxied", ""), ("/", "Connection: close\r\n")] {
        write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\n{close}\r\n").unwrap();
    }
    stream.read_to_end(&mut Vec::new()).unwrap();
    // Two pages would differ otherwise.
    let metrics = gateway.metrics();
    while metrics.sum(|cells| cells.closed.get()) == 0 {
        std::thread::yield_now();
    }
    gateway
}

fn request(gateway: &Gateway, path: &str) {
    let mut stream = TcpStream::connect(gateway.listeners()[0].socket_address.unwrap()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
}

fn text_of(gateway: &Gateway) -> String {
    text_after(gateway, &Reloads::new([0xa0; 32]))
}

fn text_after(gateway: &Gateway, reloads: &Reloads) -> String {
    page(gateway, reloads, (Format::Prometheus, usize::MAX))
}

fn page(gateway: &Gateway, reloads: &Reloads, how: (Format, usize)) -> String {
    page_after(gateway, reloads, how, &Mutex::default())
}

/// The page after others that had told of things without series of their own.
fn page_after(
    gateway: &Gateway,
    reloads: &Reloads,
    how: (Format, usize),
    others: &Mutex<Others>,
) -> String {
    String::from_utf8(written(gateway, reloads, how, others)).unwrap()
}

fn written(
    gateway: &Gateway,
    reloads: &Reloads,
    (format, most): (Format, usize),
    others: &Mutex<Others>,
) -> Vec<u8> {
    let sources = Sources {
        metrics: &gateway.metrics(),
        status: &gateway.status(),
        attempts: &reloads.attempts(),
        revoked: Some(((2, 7), Some(FLEET))),
        calls: &[("reload", "done", 3)],
        wrong_tokens: 5,
        started: UNIX_EPOCH,
        dropped: Dropped { queue: 3, rate: 4 },
        most,
        others,
    };
    write(&sources, format)
}

#[test]
fn exemplars_stand_behind_their_buckets_where_the_format_has_them() {
    let (gateway, reloads) = (served(), Reloads::new([0xa0; 32]));
    let at = UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
    let exemplars = gateway.exemplars();
    exemplars.note(b"fixed", Exemplar { trace: [0xab; 16], value: 700, at });
    exemplars.note(b"fixed", Exemplar { trace: [0xcd; 16], value: 70_000_000, at });
    let page = |format| page(&gateway, &reloads, (format, usize::MAX));
    let open = page(Format::OpenMetrics);
    let shown: Vec<_> = open.lines().filter_map(|line| line.split_once(" # {")).collect();
    let [(one, first), (other, second)] = shown[..] else { panic!("{shown:?}") };
    let of_bucket = |bound: &str| {
        format!("titan_request_duration_seconds_bucket{{route=\"fixed\",le=\"{bound}\"}} ")
    };
    assert!(one.starts_with(&of_bucket("0.001")), "{one}");
    assert!(other.starts_with(&of_bucket("+Inf")), "{other}");
    let trace = |byte: &str| format!("trace_id=\"{}\"", byte.repeat(16));
    assert_eq!(first, format!("{}}} 0.0007 1700000000.250", trace("ab")));
    assert_eq!(second, format!("{}}} 70 1700000000.250", trace("cd")));
    assert!(!page(Format::Prometheus).contains(" # {"));
}

#[test]
fn it_says_which_configuration_is_in_force_and_how_the_last_attempt_went() {
    let gateway = served();
    let reloads = Reloads::new([0xa0; 32]);
    let lines = |at: f64, outcome: [u8; 3], (digest, id): (&str, &str)| {
        let [applied, refused, successful] = outcome;
        let text = text_after(&gateway, &reloads);
        for line in [
            format!("titan_config_info{{sha256=\"{}\"{id}}} 1", digest.repeat(32)),
            format!("titan_config_reloads_total{{outcome=\"applied\"}} {applied}"),
            format!("titan_config_reloads_total{{outcome=\"refused\"}} {refused}"),
            format!("titan_config_last_reload_timestamp_seconds {at}"),
            format!("titan_config_last_reload_successful {successful}"),
            "titan_config_in_use 1".to_owned(),
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
    };
    lines(0.0, [0, 0, 1], ("a0", ""));
    reloads.note_id(3);
    reloads.note_refused(Subject::Configuration, UNIX_EPOCH + Duration::from_secs(5));
    lines(5.0, [0, 1, 0], ("a0", ",id=\"3\""));
    reloads.note_applied(
        Subject::Configuration,
        ([0xb1; 32], 4),
        UNIX_EPOCH + Duration::from_millis(7500),
    );
    lines(7.5, [1, 1, 1], ("b1", ",id=\"4\""));
}

#[test]
fn mirrors_have_figures_and_those_that_compare_have_more() {
    let text = "
listeners: [127.0.0.1:0]
admin: off
upstreams: { u: '127.0.0.1:1', next: '127.0.0.1:2' }
routes:
  - { name: a, path: /a, upstream: u, mirror: next }
  - { name: b, path: /b, upstream: u, mirror: { upstream: next, compare: {} } }
";
    let config = Config::parse("test", text).unwrap();
    let text = text_of(&Gateway::start(&config, &Files::default(), None).unwrap());
    for (line, is_there) in [
        ("titan_mirror_copies_total{route='a',upstream='next'} 0", true),
        ("titan_mirror_copies_dropped_total{route='a',upstream='next',reason='pressure'} 0", true),
        ("titan_mirror_comparisons_total{route='b',upstream='next',result='equal'} 0", true),
        ("titan_mirror_comparisons_total{route='b',upstream='next',result='different'} 0", true),
        ("titan_mirror_comparisons_total{route='a',upstream='next',result='equal'} 0", false),
        ("titan_mirror_differences_total{route='b',upstream='next',part='header'} 0", true),
        ("titan_mirror_not_compared_total{route='b',upstream='next',reason='too-late'} 0", true),
    ] {
        let line = line.replace('\'', "\"");
        assert_eq!(text.lines().any(|it| it == line), is_there, "{line}\n{text}");
    }
}

#[test]
fn tls_routes_have_figures() {
    let text = "
listeners:
  - name: tcp
    address: 127.0.0.1:0
    tls_routes:
      - { names: [db.example, other.example], mode: passthrough, upstream: u }
      - { mode: passthrough, upstream: u }
admin: off
upstreams: { u: '127.0.0.1:1' }
routes: [{ respond: 204 }]
";
    let config = Config::parse("test", text).unwrap();
    let gateway = Gateway::start(&config, &Files::default(), None).unwrap();
    let routes = gateway.status().tls_routes();
    let cells = routes[0].counted.cells(0);
    [(&cells.opened, 3), (&cells.closed, 1), (&cells.received, 70), (&cells.sent, 80)]
        .into_iter()
        .for_each(|(counter, count)| counter.add(count));
    cells.failures[titan_proxy::TlsFailure::Idle as usize].add(1);
    let text = text_of(&gateway);
    let labels = "listener=\"tcp\",route=\"db.example\"";
    for line in [
        format!("titan_tls_route_connections_total{{{labels}}} 3"),
        format!("titan_tls_route_connections_open{{{labels}}} 2"),
        format!("titan_tls_route_received_bytes_total{{{labels}}} 70"),
        format!("titan_tls_route_sent_bytes_total{{{labels}}} 80"),
        format!("titan_tls_route_failures_total{{{labels},reason=\"idle\"}} 1"),
        format!("titan_tls_route_failures_total{{{labels},reason=\"connect\"}} 0"),
        "titan_tls_route_connections_total{listener=\"tcp\",route=\"*\"} 0".to_owned(),
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
}

#[test]
fn the_exposition_is_in_the_format_and_says_what_happened() {
    let gateway = served();
    let page = text_of(&gateway);
    let families = parse(&page);
    let sum = |family: &str, labels: &str| {
        let of_labels = |(sample, _): &(&String, &f64)| sample.contains(labels);
        families[family].samples.iter().filter(of_labels).map(|(_, value)| value).sum::<f64>()
    };
    assert_eq!(sum("titan_requests_total", "route=\"fixed\",class=\"2xx\""), 1.0);
    assert_eq!(sum("titan_requests_total", "route=\"proxied\",class=\"5xx\""), 1.0);
    assert_eq!(sum("titan_requests_total", "route=\"(none)\",class=\"4xx\""), 1.0);
    assert_eq!(sum("titan_rate_limit_requests_total", "policy=\"few\",verdict=\"allowed\""), 1.0);
    assert_eq!(sum("titan_rate_limit_requests_total", ""), 1.0);
    let verdicts = ["passed", "responded", "refused"]
        .map(|it| sum("titan_policy_requests_total", &format!("policy=\"few\",verdict=\"{it}\"")));
    assert_eq!(verdicts, [1.0, 0.0, 0.0]);
    assert_eq!(sum("titan_requests_begun_total", ""), 3.0);
    assert_eq!(sum("titan_connections_accepted_total", ""), 1.0);
    assert_eq!(sum("titan_exchange_failures_total", "code=\"no-route\""), 1.0);
    assert_eq!(sum("titan_exchange_failures_total", "code=\"connect\""), 1.0);
    assert_eq!(sum("titan_request_duration_seconds", "_count{route=\"fixed\"}"), 1.0);
    for (family, all) in [
        ("titan_request_size_bytes", "titan_received_bytes_total"),
        ("titan_response_size_bytes", "titan_sent_bytes_total"),
    ] {
        let of_route = |route| sum(family, &format!("_sum{{route=\"{route}\"}}"));
        let routes = ["fixed", "proxied", "(none)"].map(of_route);
        assert!(routes.iter().all(|bytes| *bytes > 0.0), "{routes:?}");
        assert_eq!(routes.iter().sum::<f64>(), sum(all, ""));
        assert_eq!(sum(family, "_count{route=\"fixed\"}"), 1.0);
    }
    assert!(sum("titan_received_bytes_total", "") > 0.0);
    assert!(sum("titan_sent_bytes_total", "") > 0.0);
    let endpoint = "upstream=\"nobody\",endpoint=\"unix:/nowhere/at-all\"";
    for family in OF_ENDPOINT {
        let is_healthy = family.name == "titan_endpoint_healthy";
        let wanted = f64::from(u8::from(is_healthy));
        assert_eq!(sum(family.name, endpoint), wanted, "{}", family.name);
    }
}

#[test]
fn key_sets_that_are_fetched_have_figures() {
    let keys = "{ algorithms: RS256, keys: { jwks_url: 'http://127.0.0.1:1/keys' }, issuer: ";
    let config = format!(
        "{{ listeners: [127.0.0.1:0], workers: 1, admin: off, routes: [{{ respond: 200 }}], apply: [t],\n\
         policies: {{ t: {{ jwt: {{ providers: [{keys} a }}, {keys} b }}] }} }} }} }}"
    );
    let gateway =
        Gateway::start(&Config::parse("test", &config).unwrap(), &Files::default(), None).unwrap();
    let families = parse(&text_of(&gateway));
    for family in OF_KEY_SET {
        let samples: Vec<_> = families[family.name].samples.keys().collect();
        let name = family.name;
        let wanted = ["a", "b"].map(|it| format!("{name}{{policy=\"t\",issuer=\"{it}\"}}"));
        assert_eq!(samples, wanted.each_ref());
    }
    assert_eq!(families["titan_jwks_keys"].samples.values().sum::<f64>(), 0.0);
}

#[test]
fn it_says_what_is_on_trial_and_what_was_taken_back() {
    let gateway = served();
    let reloads = Reloads::new([0xa0; 32]);
    reloads.note_standing(true, None, 3);
    reloads.note_taken_back(Cause::Guard);
    let text = text_after(&gateway, &reloads);
    for line in [
        "titan_config_on_trial 1\n",
        "titan_config_taken_back_total{cause=\"unconfirmed\"} 0\n",
        "titan_config_taken_back_total{cause=\"guard\"} 1\n",
        "titan_history_unsaved 3\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
}

#[test]
fn it_says_how_sources_fare() {
    let gateway = served();
    let reloads = Reloads::new([0xa0; 32]);
    let succeeded = SystemTime::now() - Duration::from_secs(90);
    let source = |name: &str, succeeded, failure: Option<&str>| SourceStatus {
        name: name.to_owned(),
        kind: "http",
        local_files: false,
        revision: None,
        succeeded,
        failure: failure.map(str::to_owned),
        documents: 3,
        held_back: vec![("a".to_owned(), "b".to_owned())],
    };
    let failing = source("failing", None, Some("it is silent"));
    reloads.note_sources(vec![failing, source("up", Some(succeeded), None)]);
    let families = parse(&text_after(&gateway, &reloads));
    let samples = |figure: &str| {
        let family = format!("titan_source_{figure}");
        let samples = families[&family].samples.iter();
        samples.map(|(name, value)| (name.replace(&family, ""), *value)).collect::<Vec<_>>()
    };
    let both = |failing: f64, up: f64| {
        let named = |name: &str, value| (format!("{{source=\"{name}\"}}"), value);
        vec![named("failing", failing), named("up", up)]
    };
    assert_eq!(samples("up"), both(0.0, 1.0));
    assert_eq!(samples("documents"), both(3.0, 3.0));
    assert_eq!(samples("held_back"), both(1.0, 1.0));
    let since = samples("last_success_seconds");
    assert_eq!((since.len(), since[0].1), (1, 90.0));
}

#[test]
fn breakers_tell_their_state_and_what_led_there() {
    let text = |per: &str| {
        format!(
            "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: off\n\
             routes: [{{ upstream: u, retries: 0 }}]\nupstreams: {{ u: {{ endpoints: 'unix:/nowhere',
            circuit_breaker: {{ per: {per}, consecutive_failures: 1, open_time: 1h, max_open_time: 1h }} }} }}"
        )
    };
    for (per, labels) in
        [("upstream", "upstream=\"u\""), ("endpoint", "upstream=\"u\",endpoint=\"unix:/nowhere\"")]
    {
        let config = Config::parse("test", &text(per)).unwrap();
        let gateway = Gateway::start(&config, &Files::default(), None).unwrap();
        let address = gateway.listeners()[0].socket_address.unwrap();
        for _ in 0..3 {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
        }
        let families = parse(&text_of(&gateway));
        let sample = |family: &str, more: &str| {
            let family = format!("titan_circuit_breaker_{family}");
            families[&family].samples[&format!("{family}{{{labels}{more}}}")]
        };
        let states = [",state=\"closed\"", ",state=\"open\"", ",state=\"half-open\""];
        assert_eq!(states.map(|state| sample("state", state)), [0.0, 1.0, 0.0]);
        let [opened, tried] = [",from=\"closed\",to=\"open\"", ",from=\"open\",to=\"half-open\""]
            .map(|change| sample("transitions_total", change));
        assert_eq!((opened, tried), (1.0, 0.0));
        let rejected = &families["titan_circuit_breaker_rejected_total"].samples;
        assert_eq!(rejected["titan_circuit_breaker_rejected_total{upstream=\"u\"}"], 2.0);
        assert!(sample("state_seconds_total", states[2]) == 0.0);
    }
}

#[test]
fn every_family_is_there() {
    let gateway =
        Gateway::start(&Config::parse("test", CONFIG).unwrap(), &Files::default(), None).unwrap();
    let mut families = parse(&text_of(&gateway));
    // Policies bring their own.
    for metric in gateway.metrics().policies() {
        assert_eq!(families.remove(metric.name).map(|it| it.kind), Some("counter".into()));
    }
    let names: Vec<_> =
        families.iter().map(|(name, family)| format!("{name} {}", family.kind)).collect();
    insta::assert_snapshot!(names.join("\n"), @r"
    titan_access_log_dropped_total counter
    titan_access_log_failing gauge
    titan_access_log_lines_total counter
    titan_access_log_written_bytes_total counter
    titan_admin_calls_total counter
    titan_admin_tokens_refused_total counter
    titan_build_info gauge
    titan_circuit_breaker_rejected_total counter
    titan_circuit_breaker_state gauge
    titan_circuit_breaker_state_seconds_total counter
    titan_circuit_breaker_transitions_total counter
    titan_config_in_use gauge
    titan_config_info gauge
    titan_config_last_reload_successful gauge
    titan_config_last_reload_timestamp_seconds gauge
    titan_config_on_trial gauge
    titan_config_reloads_total counter
    titan_config_taken_back_total counter
    titan_connections_accepted_total counter
    titan_connections_closed_total counter
    titan_connections_open gauge
    titan_connections_refused_total counter
    titan_endpoint_connections_idle gauge
    titan_endpoint_connections_open gauge
    titan_endpoint_ejections_total counter
    titan_endpoint_healthy gauge
    titan_endpoint_probes_failed_total counter
    titan_endpoint_probes_total counter
    titan_endpoint_requests_active gauge
    titan_endpoint_requests_waiting gauge
    titan_events_dropped_total counter
    titan_exchange_failures_total counter
    titan_history_unsaved gauge
    titan_http2_connections_closed_total counter
    titan_http2_connections_open gauge
    titan_http2_connections_opened_total counter
    titan_http2_streams_closed_total counter
    titan_http2_streams_open gauge
    titan_http2_streams_opened_total counter
    titan_http3_connections_closed_total counter
    titan_http3_connections_open gauge
    titan_http3_connections_opened_total counter
    titan_http3_early_requests_total counter
    titan_http3_streams_closed_total counter
    titan_http3_streams_open gauge
    titan_http3_streams_opened_total counter
    titan_jwt_revocations gauge
    titan_jwt_revocations_capacity gauge
    titan_jwt_revocations_in_sync gauge
    titan_jwt_revocations_received_total counter
    titan_jwt_revocations_refills_total counter
    titan_jwt_revocations_unpublished gauge
    titan_jwt_revocations_unreadable_total counter
    titan_memory_bytes gauge
    titan_memory_limit_bytes gauge
    titan_metrics_folded gauge
    titan_metrics_series gauge
    titan_mirror_comparisons_total counter
    titan_mirror_copies_dropped_total counter
    titan_mirror_copies_failed_total counter
    titan_mirror_copies_running gauge
    titan_mirror_copies_total counter
    titan_mirror_differences_total counter
    titan_mirror_not_compared_total counter
    titan_otlp_dropped_total counter
    titan_otlp_failing gauge
    titan_otlp_retries_total counter
    titan_otlp_sent_total counter
    titan_pressure_actions_total counter
    titan_pressure_level gauge
    titan_pressure_ratio gauge
    titan_process_cpu_seconds_total counter
    titan_process_max_fds gauge
    titan_process_open_fds gauge
    titan_process_resident_memory_bytes gauge
    titan_process_start_time_seconds gauge
    titan_quic_datagrams_forwarded_total counter
    titan_quic_datagrams_handed_over_total counter
    titan_quic_migrations_total counter
    titan_quic_packets_lost_total counter
    titan_quic_receive_errors_total counter
    titan_quic_retries_total counter
    titan_quic_round_trip_seconds histogram
    titan_received_bytes_total counter
    titan_records_dropped_total counter
    titan_request_duration_seconds histogram
    titan_request_size_bytes histogram
    titan_requests_begun_total counter
    titan_requests_total counter
    titan_response_size_bytes histogram
    titan_sent_bytes_total counter
    titan_source_documents gauge
    titan_source_held_back gauge
    titan_source_last_success_seconds gauge
    titan_source_up gauge
    titan_tls_client_certificates_refused_total counter
    titan_tls_handshakes_failed_total counter
    titan_tls_handshakes_total counter
    titan_tunnels_closed_total counter
    titan_tunnels_open gauge
    titan_tunnels_opened_total counter
    titan_upstream_attempt_duration_seconds histogram
    titan_upstream_attempts_total counter
    titan_upstream_connect_duration_seconds histogram
    titan_upstream_connects_total counter
    titan_upstream_failures_total counter
    titan_upstream_first_byte_duration_seconds histogram
    titan_upstream_hedges_refused_total counter
    titan_upstream_hedges_total counter
    titan_upstream_hedges_won_total counter
    titan_upstream_requests_total counter
    titan_upstream_retries_refused_total counter
    titan_upstream_retries_total counter
    titan_upstream_reuses_total counter
    titan_upstream_shed_total counter
    titan_worker_busy_seconds_total counter
    titan_worker_lag_level gauge
    titan_worker_lag_seconds gauge
    ");
}
