//! How the endpoints of upstreams are spoken with.

use super::told_under;

/// What is told of an upstream with these settings of TLS.
fn spoken(tls: &str) -> String {
    let config = format!(
        "listeners: ':80'\nroutes: [{{ prefix: /, upstream: u }}]\nupstreams: {{ u: {{ endpoints: 'a.example:443', tls: {tls} }} }}"
    );
    let told = told_under(&config, "GET", "http://a/", &[]);
    let line = told.lines().find(|line| line.contains("TLS"));
    line.unwrap_or_else(|| panic!("no TLS in {told}")).to_owned()
}

#[test]
fn names_of_certificates_are_told_that_are_looked_for() {
    for (tls, wanted) in [
        ("{}", ", TLS"),
        ("{ name: b.example }", ", TLS with b.example"),
        ("{ alt_names: spiffe://x/y }", ", TLS, verified as spiffe://x/y"),
        (
            "{ name: b.example, alt_names: [c.example, spiffe://x/y] }",
            ", TLS with b.example, verified as one of c.example, spiffe://x/y",
        ),
        ("{ verify: false }", ", TLS without verification"),
    ] {
        let line = spoken(tls);
        assert!(line.ends_with(wanted), "{tls}: {line}");
    }
}
