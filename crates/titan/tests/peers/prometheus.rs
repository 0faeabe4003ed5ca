//! Prometheus reads the gateway's metrics, and promtool finds nothing to complain about.

use crate::client::Client;
use crate::gateway::Gateway;
use crate::place::{Folder, own_address};
use crate::program::{Program, peer, python};
use crate::upstream;
use crate::wait::{eventually, until};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::process::Command;

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
        let (address, folder) = (own_address(), Folder::new());
        let config = format!(
            "global: {{ scrape_interval: 100ms, scrape_timeout: 100ms, evaluation_interval: 100ms }}\n\
             scrape_configs: [{{ job_name: titan, static_configs: [{{ targets: ['{target}'] }}] }}]\n"
        );
        let file = folder.write("prometheus.yml", config);
        let mut command = peer("prometheus");
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
        command.arg(format!("--web.listen-address={address}"));
        let program = Program::start(&mut command, &folder).listens_on(address);
        until("Prometheus is ready", || get(address, "/-/ready", "").contains("is Ready"));
        Prometheus { _program: program, address, _folder: folder }
    }

    /// What a query comes to; none while there are no data for it.
    fn query(&self, query: &str) -> Vec<Series> {
        let response: Value = serde_json::from_slice(
            get(self.address, &format!("/api/v1/query?query={}", escaped(query)), "").as_bytes(),
        )
        .unwrap();
        assert_eq!(response["status"], "success", "{query}: {response}");
        let series = |it: &Value| Series {
            labels: it["metric"].clone(),
            value: it["value"][1].as_str().unwrap().parse().unwrap(),
        };
        response["data"]["result"].as_array().unwrap().iter().map(series).collect()
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
        let gateway = Gateway::start(&format!(
            "workers: 2
listeners: [127.0.0.1:0]
admin: {{ address: '{admin}' }}
routes:
  - {{ name: shop, path: /shop, upstream: shop, apply: [few], mirror: {{ upstream: next, compare: {{}} }} }}
  - {{ name: broken, path: /broken, upstream: nobody, retries: 1 }}
  - {{ name: fixed, path: /fixed, respond: 200, apply: [few] }}
  - {{ name: text, path: /metrics, upstream: admin, send_host: endpoint, apply: [as_text] }}
upstreams:
  shop: {{ endpoints: '{shop}', circuit_breaker: {{}}, concurrency: adaptive }}
  next: {{ endpoints: '{next}', circuit_breaker: {{ per: endpoint }} }}
  nobody: unix:/nowhere/at-all
  admin: '{admin}'
policies:
  as_text: {{ transform: {{ request: {{ headers: {{ set: {{ Accept: text/plain }} }} }} }} }}
  few: {{ rate_limit: {{ rates: 1000/h }} }}
"
        ));
        let site = Site { gateway };
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
