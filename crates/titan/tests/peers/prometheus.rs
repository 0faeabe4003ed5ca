//! Prometheus reads the gateway's metrics, and promtool finds nothing to complain about.

use crate::client::Client;
use crate::gateway::Gateway;
use crate::place::{Folder, own_address};
use crate::program::{Program, output_of, peer, python};
use crate::tls::certify;
use crate::upstream;
use crate::wait::{eventually, until};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A Prometheus that scrapes one gateway ten times a second.
struct Prometheus {
    _program: Program,
    address: SocketAddr,
    _folder: Folder,
}

/// A series that a query has returned: its labels, and its value now.
#[derive(Debug)]
struct Series {
    labels: Value,
    value: f64,
}

impl Prometheus {
    /// One that scrapes there.
    fn of(target: SocketAddr) -> Prometheus {
        Prometheus::with(target, &[])
    }

    /// The same with more arguments.
    fn with(target: SocketAddr, arguments: &[&str]) -> Prometheus {
        let (address, folder) = (own_address(), Folder::new());
        let config = format!(
            "global: {{ scrape_interval: 100ms, scrape_timeout: 100ms, evaluation_interval: 100ms }}\n\
             rule_files: ['{}']\n\
             scrape_configs: [{{ job_name: titan, static_configs: [{{ targets: ['{target}'] }}] }}]\n",
            monitoring("alerts.yml").display()
        );
        let file = folder.write("prometheus.yml", config);
        let mut command = peer("prometheus");
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
        command.arg(format!("--web.listen-address={address}")).args(arguments);
        let program = Program::start(&mut command, &folder).listens_on(address);
        until("Prometheus is ready", || get(address, "/-/ready", "").contains("is Ready"));
        Prometheus { _program: program, address, _folder: folder }
    }

    /// What a query comes to; none while there are no data for it.
    fn query(&self, query: &str) -> Vec<Series> {
        let data = self.call(&format!("query?query={}", escaped(query)));
        let series = |it: &Value| Series {
            labels: it["metric"].clone(),
            value: it["value"][1].as_str().unwrap().parse().unwrap(),
        };
        data["result"].as_array().unwrap().iter().map(series).collect()
    }

    /// The response of its interface to a call.
    fn call(&self, target: &str) -> Value {
        let response = get(self.address, &format!("/api/v1/{target}"), "");
        let mut response: Value = serde_json::from_str(&response).unwrap();
        assert_eq!(response["status"], "success", "{target}: {response}");
        response["data"].take()
    }

    /// Waits until a query comes to that.
    fn shows(&self, query: &str, value: f64) {
        eventually(&format!("{query} is {value}"), || {
            let series = self.query(query);
            (series.len() == 1 && is_near(series[0].value, value)).then_some(())
        });
    }
}

/// A gateway that has something to tell of everything, and has served.
struct Site {
    gateway: Gateway,
}

impl Site {
    fn start() -> Site {
        let service = || upstream::serve(TcpListener::bind("127.0.0.1:0").unwrap(), |_| "x".into());
        let (shop, next, admin) = (service(), service(), own_address());
        let folder = Folder::new();
        certify(&folder, &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
        let config = format!(
            "workers: 2
listeners:
  - 127.0.0.1:0
  - {{ name: tls, address: 127.0.0.1:0, tls: {{ certificates: {{ cert: site.pem, key: site.key }} }} }}
admin: {{ address: '{admin}' }}
routes:
  - {{ name: shop, path: /shop, upstream: shop, apply: [few], mirror: {{ upstream: next, compare: {{}} }} }}
  - {{ name: broken, path: /broken, upstream: nobody, retries: 1 }}
  - {{ name: fixed, path: /fixed, respond: 200, apply: [few] }}
  - {{ name: text, path: /metrics, upstream: admin, send_host: endpoint, apply: [as_text] }}
  - {{ name: closed, path: /closed, respond: 200, apply: [tokens] }}
  - {{ name: shared, path: /shared, respond: 200, apply: [of_fleet] }}
stores:
  fleet: {{ address: 'redis://127.0.0.1:1', hash_key: a key of no fleet }}
upstreams:
  shop: {{ endpoints: '{shop}', circuit_breaker: {{}}, concurrency: adaptive }}
  next: {{ endpoints: '{next}', circuit_breaker: {{ per: endpoint }} }}
  nobody: unix:/nowhere/at-all
  admin: '{admin}'
policies:
  as_text: {{ transform: {{ request: {{ headers: {{ set: {{ Accept: text/plain }} }} }} }} }}
  few: {{ rate_limit: {{ rates: 1000/h }} }}
  of_fleet: {{ rate_limit: {{ rates: 1000/h, shared: fleet }} }}
  tokens: {{ jwt: {{ providers: {{ algorithms: RS256, issuer: i, keys: {{ jwks_url: 'http://127.0.0.1:1/keys' }} }} }} }}
"
        );
        let site = Site { gateway: Gateway::start_in(folder, &config) };
        for (path, status) in [("/shop", 200), ("/shop", 200), ("/fixed", 200), ("/broken", 502)] {
            assert_eq!(site.status(path), status, "{path}");
        }
        site
    }

    fn status(&self, path: &str) -> u16 {
        let mut client = Client::connect(self.gateway.address()).unwrap();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        client.response().unwrap().status
    }

    /// How long a request takes.
    fn takes(&self, path: &str) -> Duration {
        let start = Instant::now();
        assert_eq!(self.status(path), 200, "{path}");
        start.elapsed()
    }

    fn metrics(&self, accept: &str) -> String {
        get(self.gateway.admin(), "/metrics", &format!("Accept: {accept}\r\n"))
    }
}

/// The body of a response.
fn get(address: SocketAddr, target: &str, fields: &str) -> String {
    let mut client = Client::connect(address).unwrap();
    let head = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\n{fields}\r\n");
    client.send(head.as_bytes()).unwrap();
    client.response().unwrap().text().to_owned()
}

/// A file for those who watch gateways.
fn monitoring(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/monitoring");
    folder.join(name).canonicalize().unwrap()
}

/// For a query of a URL.
fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        match byte.is_ascii_alphanumeric() {
            true => escaped.push(byte.into()),
            false => write!(escaped, "%{byte:02X}").unwrap(),
        }
        escaped
    })
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-9
}

/// Whether `command` accepts the page, and what it says.
fn judged(command: &mut Command, page: &str) -> (String, bool) {
    let folder = Folder::new();
    let page = File::open(folder.write("metrics", page)).unwrap();
    let output = command.stdin(page).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&said).into_owned(), output.status.success())
}

const ACCEPTED: (String, bool) = (String::new(), true);

#[test]
fn promtool_has_no_complaint() {
    let page = Site::start().metrics("*/*");
    assert_eq!(judged(peer("promtool").args(["check", "metrics"]), &page), ACCEPTED);
}

/// The reference of OpenMetrics refuses whatever its specification forbids.
#[test]
fn the_parser_of_openmetrics_has_no_complaint() {
    let page = Site::start().metrics("application/openmetrics-text; version=1.0.0");
    let mut parser = python("prometheus", "parse.py", &["prometheus_client"]);
    assert_eq!(judged(&mut parser, &page), ACCEPTED);
    let (said, _) = judged(&mut parser, page.strip_suffix("# EOF\n").unwrap());
    assert!(said.contains("Missing # EOF"), "{said}");
}

/// It asks for OpenMetrics.
#[test]
fn it_returns_the_figures() {
    let site = Site::start();
    let prometheus = Prometheus::of(site.gateway.admin());
    prometheus.shows("up", 1.0);
    prometheus.shows("titan_requests_total{route='shop', class='2xx'}", 2.0);
    prometheus.shows("titan_requests_total{route='broken', class='5xx'}", 1.0);
    prometheus.shows("titan_request_duration_seconds_count{route='shop'}", 2.0);
    prometheus.shows("sum(titan_request_duration_seconds_bucket{route='shop', le='+Inf'})", 2.0);
    prometheus.shows("titan_upstream_requests_total{upstream='shop'}", 2.0);
    prometheus.shows("titan_rate_limit_requests_total{policy='few', verdict='allowed'}", 3.0);
    prometheus.shows("titan_circuit_breaker_state{upstream='shop', state='closed'}", 1.0);
    prometheus.shows("sum(titan_mirror_comparisons_total{route='shop'})", 2.0);
    assert_eq!(site.status("/fixed"), 200);
    prometheus.shows("titan_requests_total{route='fixed', class='2xx'}", 2.0);
    let kinds = prometheus.query("count by (__name__) ({__name__=~'titan_.+'})");
    assert!(kinds.len() > 50, "{kinds:?}");
    assert!(kinds.iter().all(|it| it.labels["__name__"].is_string() && it.value >= 1.0));
}

/// A route of the gateway asks for the other format in its place.
#[test]
fn it_reads_the_text_format_too() {
    let site = Site::start();
    let page = get(site.gateway.address(), "/metrics", "Accept: application/openmetrics-text\r\n");
    assert!(!page.contains("# EOF"));
    let prometheus = Prometheus::of(site.gateway.address());
    prometheus.shows("up", 1.0);
    prometheus.shows("titan_requests_total{route='shop', class='2xx'}", 2.0);
    prometheus.shows("titan_request_duration_seconds_bucket{route='shop', le='10.0'}", 2.0);
}

/// It asks for messages, and has all histograms as native ones: they answer what those with fixed buckets answer, and more exactly.
#[test]
fn it_reads_native_histograms() {
    let site = Site::start();
    let prometheus =
        Prometheus::with(site.gateway.admin(), &["--enable-feature=native-histograms"]);
    prometheus.shows("up", 1.0);
    prometheus.shows("titan_requests_total{route='shop', class='2xx'}", 2.0);
    let (durations, sizes) = ["titan_request_duration_seconds", "titan_response_size_bytes"]
        .map(|it| format!("{it}{{route='shop'}}"))
        .into();
    prometheus.shows(&format!("histogram_count({durations})"), 2.0);
    let longest = (0..20).map(|_| site.takes("/shop")).max().unwrap();
    prometheus.shows(&format!("histogram_count({durations})"), 22.0);
    let value = |query: &str| match &prometheus.query(query)[..] {
        [series] => series.value,
        found => panic!("{query}: {found:?}"),
    };
    let quantile =
        |part: &str, of: &str| value(&format!("histogram_quantile({part}, rate({of}[1m]))"));
    // A bucket is 9 % wide.
    let ninth = quantile("0.9", &durations);
    assert!(ninth > 0.0 && ninth < longest.as_secs_f64() * 1.1, "{ninth} of {longest:?}");
    // All responses since the first scrape are of one size, and the buckets of sizes are 41 % wide.
    let size = value(&format!("histogram_sum({sizes})")) / 22.0;
    for part in ["0.1", "0.9"] {
        let found = quantile(part, &sizes);
        assert!(found > size / 1.42 && found < size * 1.42, "{part}: {found} of {size}");
    }
    assert!(prometheus.query("{__name__=~'titan_.+_bucket'}").is_empty());
    for name in [
        "titan_request_duration_seconds",
        "titan_request_size_bytes",
        "titan_response_size_bytes",
        "titan_upstream_connect_duration_seconds",
        "titan_upstream_first_byte_duration_seconds",
        "titan_upstream_attempt_duration_seconds",
    ] {
        // Those that have no value yet are native too.
        let all = value(&format!("count(histogram_count({name}))"));
        assert!(all >= 4.0, "{name}: {all}");
    }
    // The same page as before is there for others.
    let page = site.metrics("*/*");
    assert_eq!(judged(peer("promtool").args(["check", "metrics"]), &page), ACCEPTED);
    assert!(page.contains("titan_request_duration_seconds_count{route=\"shop\"} 22\n"), "{page}");
}

#[test]
fn alerts_fire_when_they_should() {
    output_of(peer("promtool").args(["test", "rules"]).arg(monitoring("alerts_test.yml")));
    let (rules, test) = ["alerts.yml", "alerts_test.yml"]
        .map(|name| std::fs::read_to_string(monitoring(name)).unwrap())
        .into();
    let alerts: Vec<_> = rules.lines().filter_map(|line| line.split_once("- alert: ")).collect();
    assert!(alerts.len() > 10);
    for (_, alert) in alerts {
        let fires = format!("alertname: {alert}\n        eval_time");
        assert!(test.contains(&fires), "nothing shows that {alert} fires");
    }
}

/// A dashboard's queries, and an alert's, are about metrics that there are.
#[test]
fn the_dashboard_has_data_and_rules_can_be_evaluated() {
    let site = Site::start();
    let prometheus = Prometheus::of(site.gateway.admin());
    prometheus.shows("up", 1.0);
    let dashboard = std::fs::read(monitoring("grafana.json")).unwrap();
    let dashboard: Value = serde_json::from_slice(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let variables = variables.iter().filter_map(|it| it["query"]["query"].as_str());
    let of_variables = variables.map(|query| {
        let inner = query.strip_prefix("label_values(").and_then(|it| it.strip_suffix(')'));
        let (metric, label) = inner.unwrap().rsplit_once(", ").unwrap();
        format!("count by ({label}) ({metric})")
    });
    let annotations = dashboard["annotations"]["list"].as_array().unwrap();
    // Nothing has changed here yet.
    let of_annotations = annotations.iter().map(|it| it["expr"].as_str().unwrap());
    let of_annotations = of_annotations.map(|query| query.replace("> 0", ">= 0"));
    let queries: Vec<_> = targets
        .map(|target| target["expr"].as_str().unwrap().to_owned())
        .chain(of_annotations)
        .chain(of_variables)
        .map(|query| filled_in(&query))
        .collect();
    assert!(queries.len() > 50);
    for query in queries {
        eventually(&format!("data for {query}"), || {
            site.status("/shop");
            (!prometheus.query(&query).is_empty()).then_some(())
        });
    }
    let page = site.metrics("*/*");
    let rules = std::fs::read_to_string(monitoring("alerts.yml")).unwrap();
    for name in rules.split(|c: char| !c.is_ascii_lowercase() && c != '_') {
        // A family, or a sample of one.
        let is_there =
            page.contains(&format!("# TYPE {name} ")) || page.contains(&format!("\n{name}{{"));
        assert!(is_there || !name.starts_with("titan_"), "{name}");
    }
    let annotation = dashboard["annotations"]["list"][0]["expr"].as_str().unwrap();
    prometheus.query(&filled_in(annotation));
    eventually("each rule was evaluated", || {
        let groups = prometheus.call("rules");
        let rules = groups["groups"][0]["rules"].as_array()?;
        assert!(rules.iter().all(|rule| rule["health"] != "err"), "{rules:?}");
        rules.iter().all(|rule| rule["health"] == "ok").then_some(())
    });
}

/// A query of the dashboard as it asks where everything is selected.
fn filled_in(query: &str) -> String {
    let all = ["$instance", "$route", "$upstream"];
    let query = query.replace("$__rate_interval", "30s").replace("$job", "titan");
    let query = all.iter().fold(query, |query, variable| query.replace(variable, ".*"));
    assert!(!query.contains('$'), "{query}");
    query
}
