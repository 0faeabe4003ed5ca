//! Where early data cannot be taken.

use titan_config::Config;

/// What is said of a listener with early data and these settings.
fn report(tls: &str, settings: &str) -> String {
    let text = format!(
        "listeners: [{{ address: \":443\", tls: {{ certificates: {{ cert: a.pem, key: a.key }}{tls} }}, \
         early_data: true{settings} }}]\nroutes: [{{ respond: 204 }}]\n"
    );
    match Config::parse("titan.yaml", &text) {
        Ok(config) => config.warnings.to_string(),
        Err(report) => report.to_string(),
    }
}

#[test]
fn early_data_is_taken_in_http3_alone_and_from_clients_without_certificates() {
    const H3: &str = ", protocols: [h3, h1]";
    const CERTIFICATES: &str = ", client_certificates: { ca: ca.pem }";
    assert_eq!(report("", H3), "");
    for (tls, settings, wanted, help) in [
        ("", "", "early data is taken in HTTP/3 alone", "add `h3` to `protocols`"),
        ("", ", protocols: h2", "early data is taken in HTTP/3 alone", "add `h3` to `protocols`"),
        (CERTIFICATES, H3, "a replay would pass for the client", "on a separate listener"),
    ] {
        let said = report(tls, settings);
        assert!(said.contains(wanted) && said.contains(help), "{tls}{settings}: {said}");
    }
}
