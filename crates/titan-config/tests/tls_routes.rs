//! What is said about TLS routes.

use titan_config::{Config, TlsMode};

/// What is said of a text, whether it is an error or a warning.
fn report(text: &str) -> String {
    match Config::parse("titan.yaml", text) {
        Ok(config) => config.warnings.to_string(),
        Err(report) => report.to_string(),
    }
}

#[test]
fn tls_routes_that_could_not_be_served() {
    let of = |routes: &str, listener: &str, upstream: &str| {
        report(&format!(
            "listeners: [{{ address: \":443\", tls_routes: [{routes}]{listener} }}]\nroutes: [{{ respond: 204 }}]\n\
             upstreams: {{ u: {{ endpoints: [\"u:1\"]{upstream} }} }}\n"
        ))
    };
    let pass = "{ names: a.b, mode: passthrough, upstream: u }";
    let rest = "{ mode: passthrough, upstream: u }";
    let terminate = "{ names: c.d, mode: terminate, upstream: u }";
    let twice = "{ names: [x.b, A.b], mode: passthrough, upstream: u }";
    for (routes, listener, upstream, wanted) in [
        (vec![pass, twice], "", "", "the name `a.b` is taken twice"),
        (vec![rest, pass, rest], "", "", "two TLS routes of the listener have no `names`"),
        (vec![terminate], "", "", "this listener has no certificates"),
        (vec![pass], ", redirect_to_https: true", "", "this listener serves nothing without TLS"),
        (vec![pass], "", ", tls: {}", "the gateway cannot encrypt for the upstream `u` here"),
        (vec!["{ mode: passthrough, upstream: w }"], "", "", "there is no upstream `w`"),
        (
            vec!["{ names: 10.0.0.1, mode: passthrough, upstream: u }"],
            "",
            "",
            "names, and not for addresses",
        ),
        (
            vec!["{ names: \"[::1]\", mode: passthrough, upstream: u }"],
            "",
            "",
            "names, and not for addresses",
        ),
        (vec!["{ mode: proxy, upstream: u }"], "", "", "expected"),
        (vec!["{ mode: passthrough }"], "", "", "`upstream` is missing"),
        (vec!["{ mode: https }"], "", "", "this listener has no certificates"),
        (vec!["{ mode: https, upstream: u }"], "", "", "HTTPS goes by the routes of the file"),
        (vec!["{ upstream: u }"], "", "", "`mode` is missing"),
    ] {
        let says = of(&routes.join(", "), listener, upstream);
        assert!(says.contains(wanted), "{routes:?}: {says}");
    }
    let warned = report(
        "listeners: [{ address: \":443\", tls_routes: [{ mode: passthrough, upstream: u }] }]\n\
         routes: [{ respond: 204 }]\nupstreams: { u: { endpoints: [\"u:1\"], protocol: h2 } }\n",
    );
    assert!(warned.contains("connections of this TLS route are not HTTP/2 to `u`"), "{warned}");
    let clean = report(
        "listeners: [{ address: \":443\", tls_routes: [{ mode: passthrough, upstream: u }] }]\n\
         routes: [{ respond: 204 }]\nupstreams: { u: \"u:1\" }\n",
    );
    assert_eq!(clean, "");
}

#[test]
fn https_needs_no_upstream() {
    let text = "listeners: [{ address: \":443\", tls: { certificates: { cert: a, key: b } }, \
        tls_routes: [{ mode: passthrough, upstream: u }, { names: a.b, mode: https }] }]\n\
        routes: [{ respond: 204 }]\nupstreams: { u: \"u:1\" }\n";
    let config = Config::parse("titan.yaml", text).unwrap_or_else(|report| panic!("{report}"));
    let [passed, https] = &config.listeners[0].tls_routes[..] else { panic!("there are two") };
    assert_eq!((passed.mode, passed.shares.len()), (TlsMode::Passthrough, 1));
    assert_eq!((https.mode, https.shares.len()), (TlsMode::Https, 0));
}

#[test]
fn where_nothing_is_read_nothing_else_is_said() {
    let of = |listener: &str, upstream: &str| {
        report(&format!(
            "listeners: [{{ address: \":443\", tcp: u{listener} }}]\nroutes: [{{ respond: 204 }}]\n\
             upstreams: {{ u: {{ endpoints: [\"u:1\"]{upstream} }} }}\n"
        ))
    };
    for (listener, upstream, wanted) in [
        (
            ", tls: { certificates: { cert: a, key: b } }",
            "",
            "nothing of these connections is read",
        ),
        (
            ", tls_routes: { mode: passthrough, upstream: u }",
            "",
            "nothing of these connections is read",
        ),
        (", redirect_to_https: true", "", "nothing of these connections is read"),
        ("", ", protocol: h2", "are not HTTP/2 to `u`"),
    ] {
        let says = of(listener, upstream);
        assert!(says.contains(wanted), "{listener}: {says}");
    }
    assert_eq!(of("", ""), "");
    assert_eq!(of("", ", tls: {}"), "", "the gateway encrypts what it cannot read");
    let missing = "listeners: [{ address: ':1', tcp: w }]\nroutes: [{ respond: 204 }]";
    assert!(report(missing).contains("there is no upstream `w`"));
}
