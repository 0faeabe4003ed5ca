//! The OpenTelemetry Collector's receiver gets what the gateway has to tell it.

use crate::client::{Client, Response};
use crate::gateway::Gateway;
use crate::go;
use crate::place::{Folder, own_address};
use crate::program::Program;
use crate::tls::certify;
use crate::wait::eventually;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The receiver, which writes what it gets to a file.
pub(crate) struct Collector {
    program: Program,
    config: Value,
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    folder: Folder,
}

impl Collector {
    pub(crate) fn start() -> Collector {
        Collector::start_in(Folder::new(), &json!({}))
    }

    /// One whose connections are secured like that.
    fn start_in(folder: Folder, tls: &Value) -> Collector {
        let (grpc, http) = (own_address(), own_address());
        let received = folder.path().join("received");
        let mut protocols = json!({
            "grpc": { "endpoint": grpc.to_string() },
            "http": { "endpoint": http.to_string() },
        });
        if tls != &json!({}) {
            protocols["grpc"]["tls"] = tls.clone();
            protocols["http"]["tls"] = tls.clone();
        }
        let config = json!({
            "otlp": { "protocols": protocols },
            "file": { "path": received, "flush_interval": "10ms", "append": true },
        });
        let program = Collector::launch(&config, &folder, [grpc, http]);
        Collector { program, config, grpc, http, folder }
    }

    fn launch(config: &Value, folder: &Folder, listens: [SocketAddr; 2]) -> Program {
        static BUILT: OnceLock<PathBuf> = OnceLock::new();
        let mut command = Command::new(BUILT.get_or_init(|| go::build("otlp")));
        let program = Program::start(command.arg(config.to_string()), folder);
        listens.into_iter().fold(program, Program::listens_on)
    }

    fn kill(&mut self) {
        self.program.kill();
    }

    fn restart(&mut self) {
        self.program = Collector::launch(&self.config, &self.folder, [self.grpc, self.http]);
    }

    /// What it got, a message after the other.
    pub(crate) fn messages(&self) -> Vec<Value> {
        let received = self.folder.path().join("received");
        let text = std::fs::read_to_string(received).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The log records among that, each with the attributes of who has sent it.
    fn logs(&self) -> Vec<(Value, Value)> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let messages = self.messages().into_iter();
        let of_resources = messages.flat_map(|message| list(&message["resourceLogs"]));
        let records = of_resources.flat_map(|it| {
            let resource = attributes(&it["resource"]);
            let of_scopes = list(&it["scopeLogs"]).into_iter();
            let records = of_scopes.flat_map(|it| list(&it["logRecords"])).collect::<Vec<_>>();
            records.into_iter().map(move |record| (resource.clone(), record))
        });
        records.collect()
    }

    /// The log records, once there are as many.
    fn gets(&self, count: usize) -> Vec<(Value, Value)> {
        eventually(&format!("{count} log records"), || {
            Some(self.logs()).filter(|logs| logs.len() >= count)
        })
    }
}

/// The attributes of a thing, by name.
pub(crate) fn attributes(of: &Value) -> Value {
    let plain = |value: &Value| {
        let (kind, value) = value.as_object().unwrap().iter().next().unwrap();
        match kind.as_str() {
            "intValue" => json!(value.as_str().unwrap().parse::<i64>().unwrap()),
            "arrayValue" => value["values"][0]["stringValue"].clone(),
            _ => value.clone(),
        }
    };
    let all = of["attributes"].as_array().cloned().unwrap_or_default();
    let all = all.iter().map(|it| (it["key"].as_str().unwrap().to_owned(), plain(&it["value"])));
    Value::Object(all.collect())
}

/// A gateway that tells a collector of its exchanges, and has an admin interface.
fn gateway(folder: Folder, collector: &str, more: &str) -> Gateway {
    let admin = own_address();
    let config = format!(
        "workers: 2
listeners: [127.0.0.1:0]
admin: {{ address: '{admin}' }}
routes:
  - {{ name: page, prefix: /, respond: {{ body: x }} }}
  - {{ name: gone, prefix: /gone, upstream: gone }}
upstreams: {{ gone: '127.0.0.1:1' }}
otlp: {{ it: {collector} }}
access_log: {{ otlp: it, {more} }}
"
    );
    Gateway::start_in(folder, &config)
}

fn get(gateway: &Gateway, target: &str, fields: &str) -> u16 {
    let head = format!("GET {target} HTTP/1.1\r\nHost: Shop.example:8080\r\n{fields}\r\n");
    response(gateway.address(), &head).status
}

fn response(address: SocketAddr, head: &str) -> Response {
    let mut client = Client::connect(address).unwrap();
    client.send(head.as_bytes()).unwrap();
    client.response().unwrap()
}

/// The value of a metric.
pub(crate) fn metric(gateway: &Gateway, series: &str) -> f64 {
    let page = response(gateway.admin(), "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").body;
    let page = String::from_utf8(page).unwrap();
    let line = page.lines().find_map(|line| line.strip_prefix(series));
    line.unwrap_or_else(|| panic!("no {series}: {page}")).trim().parse().unwrap()
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

// field: file.otlp, access_log.otlp, collector.endpoint, collector.service, collector.resource
#[test]
fn a_collector_gets_a_log_record_for_each_exchange() {
    let collector = Collector::start();
    let section = format!(
        "{{ endpoint: 'http://{}', service: edge, resource: {{ deployment.environment.name: test }} }}",
        collector.grpc
    );
    let gateway = gateway(Folder::new(), &section, "request_headers: [X-Tenant, Cookie]");
    let fields = format!(
        "traceparent: 00-{TRACE}-b7ad6b7169203331-01\r\nX-Tenant: a\r\nCookie: s=1\r\nUser-Agent: me\r\n"
    );
    assert_eq!(get(&gateway, "/a%20b?x=1&token=secret", &fields), 200);
    assert_eq!(get(&gateway, "/gone", ""), 502);
    let logs = collector.gets(2);
    // Each worker hands on what it has by itself.
    let of = |path: &str| {
        logs.iter().find(|(_, record)| attributes(record)["url.path"] == path).unwrap()
    };
    let (resource, record) = of("/a%20b");
    assert_eq!(resource["service.name"], "edge");
    assert_eq!(resource["deployment.environment.name"], "test");
    assert_eq!(record["traceId"], TRACE);
    assert_eq!(record["severityText"], "INFO");
    assert_eq!(record["eventName"], "titan.request");
    assert_eq!(record["body"]["stringValue"], "GET /a%20b 200");
    let seen = attributes(record);
    for (name, value) in [
        ("http.request.method", json!("GET")),
        ("url.scheme", json!("http")),
        ("url.path", json!("/a%20b")),
        ("url.query", json!("x=1&token=***")),
        ("server.address", json!("Shop.example")),
        ("server.port", json!(8080)),
        ("http.response.status_code", json!(200)),
        ("http.route", json!("/*")),
        ("titan.route", json!("page")),
        ("network.protocol.version", json!("1.1")),
        ("client.address", json!("127.0.0.1")),
        ("user_agent.original", json!("me")),
        ("http.request.header.x-tenant", json!("a")),
        ("http.request.header.cookie", json!("***")),
        ("titan.complete", json!(true)),
    ] {
        assert_eq!(seen[name], value, "{name}: {seen:#}");
    }
    let (_, record) = of("/gone");
    let seen = attributes(record);
    assert_eq!(record["severityText"], "ERROR");
    assert_eq!(seen["error.type"], "connect");
    assert_eq!(seen["titan.caused_by"], "upstream");
    let sent = r#"titan_otlp_sent_total{collector="it",signal="logs"}"#;
    eventually("both are counted", || (metric(&gateway, sent) >= 2.0).then_some(()));
}

// field: collector.protocol, collector.tls, collector.compression
#[test]
fn it_is_told_in_each_protocol_over_tls_and_knows_who_tells() {
    let folder = Folder::new();
    certify(&folder, &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    let path = |name: &str| folder.path().join(name);
    let tls = json!({
        "cert_file": path("site.pem"), "key_file": path("site.key"), "client_ca_file": path("site.pem"),
    });
    let (cert, key) = (path("site.pem"), path("site.key"));
    let collector = Collector::start_in(folder, &tls);
    let mut count = 0;
    for (protocol, address) in [("grpc", collector.grpc), ("http", collector.http)] {
        for compression in ["gzip", "none"] {
            let section = format!(
                "{{ endpoint: 'https://{address}', protocol: {protocol}, compression: {compression}, \
                 tls: {{ ca: {ca}, name: localhost, certificate: {{ cert: {ca}, key: {key} }} }} }}",
                ca = cert.display(),
                key = key.display()
            );
            let gateway = gateway(Folder::new(), &section, "format: '{method} {path} {status}'");
            let target = format!("/{protocol}/{compression}");
            assert_eq!(get(&gateway, &target, ""), 200);
            count += 1;
            let logs = collector.gets(count);
            let body = &logs[count - 1].1["body"]["stringValue"];
            assert_eq!(body, &json!(format!("GET {target} 200")));
        }
    }
}

#[test]
fn what_a_collector_misses_while_it_is_away_it_gets_later() {
    let mut collector = Collector::start();
    let section = format!("'http://{}'", collector.grpc);
    let gateway = gateway(Folder::new(), &section, "");
    assert_eq!(get(&gateway, "/0", ""), 200);
    collector.gets(1);
    // It has it before the gateway knows that, and would get it again.
    let sent = r#"titan_otlp_sent_total{collector="it",signal="logs"}"#;
    eventually("it is known to have it", || (metric(&gateway, sent) >= 1.0).then_some(()));
    collector.kill();
    assert_eq!(get(&gateway, "/1", ""), 200);
    let failing = r#"titan_otlp_failing{collector="it",signal="logs"}"#;
    eventually("it fails", || (metric(&gateway, failing) >= 1.0).then_some(()));
    assert_eq!(get(&gateway, "/2", ""), 200);
    collector.restart();
    let paths = collector
        .gets(3)
        .into_iter()
        .map(|(_, record)| attributes(&record)["url.path"].to_string());
    // What waits and what is sent again go by different timers.
    let paths: BTreeSet<String> = paths.collect();
    assert_eq!(paths, ["/0", "/1", "/2"].map(|path| format!("\"{path}\"")).into());
    eventually("it fails no more", || (metric(&gateway, failing) == 0.0).then_some(()));
    let retries = r#"titan_otlp_retries_total{collector="it",signal="logs"}"#;
    assert!(metric(&gateway, retries) >= 1.0);
}

#[test]
fn what_waits_is_sent_before_the_gateway_ends() {
    let collector = Collector::start();
    let section = format!("{{ endpoint: 'http://{}', protocol: http }}", collector.http);
    let mut gateway = gateway(Folder::new(), &section, "");
    assert_eq!(get(&gateway, "/last", ""), 200);
    gateway.terminate();
    assert_eq!(gateway.exit_code(), Some(0));
    collector.gets(1);
}
