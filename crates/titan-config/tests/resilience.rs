//! What is wrong with settings that are to keep an upstream serving.

use titan_config::Config;

/// The report on an upstream with these settings.
fn report(settings: &str) -> String {
    report_on("a:1", settings)
}

/// The same for one with these endpoints.
fn report_on(endpoints: &str, settings: &str) -> String {
    let upstream = format!("upstreams: {{ a: {{ endpoints: {endpoints}, {settings} }} }}");
    let text = format!("{upstream}\nlisteners: [':80']\nroutes: [{{ upstream: a }}]\n");
    match Config::parse("titan.yaml", &text) {
        Ok(config) => config.warnings.to_string(),
        Err(report) => report.to_string(),
    }
}

#[test]
fn a_port_for_probes_of_a_unix_socket_is_refused() {
    let report = report_on("[a:1, 'unix:/run/b.sock']", "health: { probe: tcp, port: 9000 }");
    let is_told = report.contains("a Unix socket has none") && report.contains("of its own");
    assert!(is_told, "{report}");
}

#[test]
fn a_name_beside_a_feed_is_refused() {
    let report = report_on("['feed:shop/front', 'a:1']", "max_idle: 1");
    assert!(report.contains("`a:1` is a name beside a feed"), "{report}");
    for feed in ["feed:", "feed:a b", "feed:\u{e4}"] {
        let report = report_on(&format!("['{feed}']"), "max_idle: 1");
        assert!(report.contains("the name of a feed has letters"), "{report}");
    }
}

#[test]
fn health_that_cannot_be_found_out_is_refused() {
    let cases = [
        ("health: { probe: { http: {} } }", "`path` is missing", "path"),
        (
            "health: { probe: tcp, timeout: 2s }",
            "a probe may take longer than the time to the next one",
            "shorten `timeout`",
        ),
        ("health: { probe: tls }", "a TLS probe needs TLS", "probe with `tcp`"),
        ("health: { probe: { grpc: {} } }", "a gRPC probe needs HTTP/2", "protocol: h2"),
        ("health: { probe: { http: /a, grpc: b } }", "", "grpc"),
        (
            "health: { probe: { http: { path: /, contains: '' } } }",
            "every body contains the empty text",
            "leave `contains` out",
        ),
        (
            "health: { probe: { http: { path: /, statuses: 2x } } }",
            "`2x` is not a status or a range of them",
            "not a number",
        ),
        ("ejection: { time: 1h }", "`time` is longer than `max_time`", "lengthen `max_time`"),
        ("ejection: { max_share: 120% }", "120%", "100%"),
        ("ejection: { consecutive_failures: 0 }", "0", "1"),
        ("panic_below: 101%", "101%", "100%"),
        ("health: { probe: http }", "http", "tcp"),
        (
            "ejection: { consecutive_errors: 5, statuses: [] }",
            "`consecutive_errors` counts `statuses`, and there are none",
            "name some in `statuses`",
        ),
        (
            "panic_below: 100%",
            "as soon as one endpoint fails, all of them get requests",
            "lower `panic_below`",
        ),
    ];
    for (settings, message, help) in cases {
        let report = report(settings);
        let is_told =
            report.contains(message) && report.contains(help) && report.contains("titan.yaml:1:");
        assert!(is_told && report.contains("error"), "{settings}: {report}");
    }
}

#[test]
fn what_panic_undoes_is_said() {
    const USELESS: &str = "as soon as one endpoint fails";
    const TOO_MANY: &str = "ejection can leave so few";
    let two = "['10.0.0.1:80', '10.0.0.2:80']";
    let four = "['10.0.0.1:80', '10.0.0.2:80', '10.0.0.3:80', '10.0.0.4:80']";
    let backup = "['10.0.0.1:80', { address: '10.0.0.2:80', priority: 1 }]";
    let drains = "['10.0.0.1:80', '10.0.0.2:80', { address: '10.0.0.3:80', drain: true }]";
    for (endpoints, settings, told) in [
        (two, "", ""),
        (four, "", ""),
        ("a:1", "", ""),
        (two, "panic_below: 50%", ""),
        (two, "panic_below: 51%", USELESS),
        (two, "panic_below: 51%, ejection: off", ""),
        (two, "panic_below: 51%, ejection: off, health: tcp", USELESS),
        (drains, "panic_below: 51%", USELESS),
        (four, "panic_below: 75%, ejection: { max_share: 25% }", ""),
        (four, "panic_below: 75%", TOO_MANY),
        (four, "panic_below: 76%", USELESS),
        ("a:1", "panic_below: 50%", ""),
        ("a:1", "panic_below: 51%", TOO_MANY),
        (two, "ejection: { max_share: 100% }", ""),
        (four, "ejection: { max_share: 100% }", TOO_MANY),
        ("'10.0.0.1:80'", "panic_below: 100%", ""),
        (backup, "panic_below: 100%", ""),
    ] {
        let report = report_on(endpoints, settings);
        assert_eq!(report.contains("error"), told == USELESS, "{report}");
        for message in [USELESS, TOO_MANY] {
            let is_told = report.contains(message);
            assert_eq!(is_told, message == told, "{endpoints} {settings}: {report}");
        }
    }
}

#[test]
fn the_servers_of_a_service_have_their_own_ports() {
    let report = |address: &str| {
        let text = format!(
            "upstreams: {{ a: '{address}' }}\nlisteners: [':80']\nroutes: [{{ upstream: a }}]\n"
        );
        Config::parse("titan.yaml", &text)
            .map(|config| config.upstreams[0].endpoints[0].address.to_string())
    };
    assert_eq!(report("srv:_http._TCP.Shop.internal.").unwrap(), "srv:_http._tcp.shop.internal");
    for (address, message, help) in [
        (
            "srv:_http._tcp.shop:80",
            "SRV records say which ports there are",
            "did you mean `srv:_http._tcp.shop`?",
        ),
        ("srv:", "a label between dots is empty", ""),
        ("srv:a b", "", ""),
    ] {
        let report = report(address).unwrap_err().to_string();
        assert!(report.contains(message) && report.contains(help), "{address}: {report}");
    }
}
