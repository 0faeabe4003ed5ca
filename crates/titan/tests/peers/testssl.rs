//! HTTPS, as testssl.sh judges it.

use crate::gateway::Gateway;
use crate::place::Folder;
use crate::program::{output_of, peer};
use serde_json::Value;
use std::process::{Command, Stdio};

/// What is found with the certificate of a test, or is none of the gateway's business; each with the reason.
const EXPECTED: &[(&str, &str)] = &[
    ("cert_revocation", "the authority of the test publishes no list of revoked certificates"),
    ("security_headers", "they are for the application behind the gateway to choose"),
    (
        "cipher_order",
        "the client's order decides: all suites are strong, and it knows whether it has hardware for AES",
    ),
    (
        "sessionresumption_ticket",
        "openssl hangs up before the ticket has come, now and then; resumption has tests of its own",
    ),
    ("engine_problem", "the openssl that testssl.sh uses lacks an engine for GOST"),
];

/// Protocols, kinds of ciphers, forward secrecy, preferences, defaults, the head of a response, and every attack.
const CHECKS: [&str; 7] = ["-p", "-s", "-f", "-P", "-S", "-h", "-U"];

/// Findings that only tell, or praise. Whatever else there is has to be expected.
const HARMLESS: [&str; 2] = ["INFO", "OK"];

#[test]
fn nothing_weak_is_found() {
    let folder = Folder::new();
    let mut cert = Command::new(env!("CARGO_BIN_EXE_titan"));
    output_of(cert.arg("cert").arg("--out").arg(folder.path()));
    let pair = "certificates: [{ cert: localhost.pem, key: localhost.key }]";
    let listener = format!("{{ address: 127.0.0.1:0, tls: {{ {pair}, hsts: 365d }} }}");
    let config =
        format!("listeners: [{listener}]\nadmin: off\nroutes: [{{ respond: {{ body: hi }} }}]\n");
    let gateway = Gateway::start_in(folder, &config);
    let folder = gateway.folder.path();
    let found = folder.join("found.json");
    // Some of the checks wait for a response that must not come. All take about 40 s.
    let mut testssl = peer("timeout");
    testssl.args(["300", "testssl", "--quiet", "--color", "0", "--warnings", "batch"]);
    testssl.args(["--nodns", "none", "--ip", "127.0.0.1"]);
    testssl.args(["--connect-timeout", "10", "--openssl-timeout", "10"]);
    testssl.arg("--add-ca").arg(folder.join("ca.pem")).arg("--jsonfile").arg(&found).args(CHECKS);
    testssl.arg(format!("localhost:{}", gateway.address().port()));
    // The number of checks that were not possible is its exit code; what was found says more.
    let output = testssl.stdin(Stdio::null()).output().unwrap();
    let says = String::from_utf8_lossy(&output.stdout).into_owned();
    let text = std::fs::read_to_string(&found).unwrap();
    let findings: Result<Vec<Value>, _> = serde_json::from_str(&text);
    let findings = findings.unwrap_or_else(|error| panic!("not ended in time ({error}): {says}"));
    let is_met = |id: &str, text: &str| {
        findings
            .iter()
            .any(|it| it["id"] == id && it["finding"].as_str().unwrap().starts_with(text))
    };
    // That everything was looked at.
    for (id, text) in [
        ("TLS1_2", "offered"),
        ("TLS1_3", "offered"),
        ("SSLv3", "not offered"),
        ("ALPN_HTTP2", "h2"),
        ("cipherlist_AVERAGE", "not offered"),
        ("PFS", "offered"),
        ("cert_chain_of_trust", "passed"),
        ("HSTS_time", "365 days"),
        ("secure_renego", "supported"),
        ("RC4", "not vulnerable"),
        ("LUCKY13", "not vulnerable"),
    ] {
        assert!(is_met(id, text), "{id}: no {text}: {says}");
    }
    let mut unexpected = Vec::new();
    for finding in &findings {
        let [id, severity] = ["id", "severity"].map(|key| finding[key].as_str().unwrap());
        let is_expected = EXPECTED.iter().any(|(expected, _)| *expected == id);
        if !HARMLESS.contains(&severity) && !is_expected {
            unexpected.push(finding);
        }
    }
    assert!(unexpected.is_empty(), "{unexpected:#?}\n{says}");
}
