//! HTTP/3 as others see it: aioquic, whose encoder uses QPACK's dynamic table and which does as it is told, and Chromium.
//! quic-go and curl judge it in `conformance/http3`.

use crate::client::metrics;
use crate::gateway::{Gateway, config_to};
use crate::go;
use crate::place::{Folder, own_address};
use crate::program::{Program, output_of, peer, python_with};
use crate::tls::certify;
use crate::upstream;
use crate::wait::until;
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// A gateway that speaks HTTP/3 as localhost and sends everything to `upstream`; what is below `/one` over one connection. With several
/// workers, datagrams of a client come to others than its own when its address changes.
fn gateway(upstream: SocketAddr, listener: &str) -> Gateway {
    let folder = Folder::new();
    certify(&folder, &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    let tls = "tls: { certificates: { cert: site.pem, key: site.key } }";
    let listener =
        format!("{{ address: 127.0.0.1:0, protocols: [h3, h2, h1], {tls}, {listener} }}");
    let one = format!(
        "upstreams: {{ one: {{ endpoints: \"{upstream}\", max_connections: 1, queue: {{ timeout: 20s }} }},"
    );
    let routes =
        "[{ prefix: /one, upstream: one, rewrite: { prefix: / } }, { prefix: /, upstream: it }]";
    let config = config_to(upstream)
        .replace("workers: 2", "workers: 4")
        .replace("127.0.0.1:0", &listener)
        .replace("admin: off", "admin: 127.0.0.1:0")
        .replace("[{ upstream: it }]", routes)
        .replace("upstreams: {", &one);
    Gateway::start_in(folder, &config)
}

/// Has aioquic try that against a gateway.
fn aioquic(gateway: &Gateway, case: &str) {
    let authority = gateway.folder.path().join("site.pem");
    let mut command = python_with("aioquic", "http3", "client.py");
    output_of(command.arg(case).arg(gateway.address().to_string()).arg(authority));
}

/// The sum of a counter over all workers.
fn count(gateway: &Gateway, name: &str) -> u64 {
    let metrics = metrics(gateway.admin());
    let lines = metrics.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    values.sum()
}

#[test]
fn aioquic_finds_requests_and_bodies_whole() {
    let server = go::Server::start();
    let gateway = gateway(server.address, "");
    for case in ["requests", "trailers", "parallel", "cancellation"] {
        aioquic(&gateway, case);
    }
    assert_eq!(count(&gateway, "titan_http3_connections_opened_total"), 4);
    assert_eq!(count(&gateway, "titan_quic_retries_total"), 0);
}

#[test]
fn aioquic_finds_that_its_dynamic_table_is_read() {
    let server = go::Server::start();
    aioquic(&gateway(server.address, ""), "dynamic_table");
}

#[test]
fn aioquic_gets_first_what_is_urgent() {
    let server = go::Server::start();
    aioquic(&gateway(server.address, ""), "priorities");
}

#[test]
fn aioquic_may_change_keys_and_addresses() {
    let server = go::Server::start();
    let gateway = gateway(server.address, "");
    aioquic(&gateway, "key_update");
    assert_eq!(count(&gateway, "titan_quic_migrations_total"), 0);
    aioquic(&gateway, "migration");
    until("the connection ends", || count(&gateway, "titan_http3_connections_open") == 0);
    // That is looked at once in a second, and at the end.
    assert!(count(&gateway, "titan_quic_migrations_total") > 0);
}

#[test]
fn aioquic_is_led_to_a_connection() {
    let server = go::Server::start();
    aioquic(&gateway(server.address, ""), "version_negotiation");
    let gateway = gateway(server.address, "retry_above: 0");
    aioquic(&gateway, "retry");
    assert_eq!(count(&gateway, "titan_quic_retries_total"), 1);
}

/// What Chromium loads: it tells by which protocol it got the page itself, and what the page asks for.
const PAGE: &str = "<!doctype html><meta charset=utf-8><title>HTTP/3</title><script>
    const bodies = Array.from({ length: 20 }, (_, i) => fetch(`/piece?${i}`).then((it) => it.text()));
    const posted = fetch('/piece?posted', { method: 'POST', body: 'x'.repeat(1_000_000) }).then((it) => it.text());
    Promise.all([...bodies, posted]).then((texts) => {
        const pages = performance.getEntriesByType('navigation');
        const pieces = performance.getEntriesByType('resource').filter((it) => it.name.includes('/piece'));
        const protocols = [...pages, ...pieces].map((it) => it.nextHopProtocol);
        fetch(`/told?${protocols.length}-${[...new Set(protocols)]}-${new Set(texts).size}`);
    });
</script>";

#[test]
fn chromium_loads_a_page() {
    let told = Arc::new(Mutex::new(String::new()));
    let tells = Arc::clone(&told);
    let upstream = upstream::serve(TcpListener::bind(own_address()).unwrap(), move |request| {
        let target = request.head.split(' ').nth(1).unwrap_or_default();
        if let Some(what) = target.strip_prefix("/told?") {
            what.clone_into(&mut tells.lock().unwrap());
        }
        let is_piece = target.starts_with("/piece");
        if is_piece { format!("{target}: {}", request.body.len()) } else { PAGE.to_owned() }
    });
    let gateway = gateway(upstream, "");
    let _chromium = Program::start(&mut chromium(&gateway), &gateway.folder);
    until("the page tells how it came", || !told.lock().unwrap().is_empty());
    // The page, 20 pieces and what was posted, by one protocol, each with a response of its own.
    assert_eq!(*told.lock().unwrap(), "22-h3-21");
    // It has others for what it asks for without credentials, such as the icon.
    let opened = count(&gateway, "titan_http3_connections_opened_total");
    assert!((1..=3).contains(&opened), "{opened} connections for 22 requests");
}

/// Chromium without a window, which opens the site of a gateway by HTTP/3 at once: it has heard of no `Alt-Svc` yet.
fn chromium(gateway: &Gateway) -> Command {
    let port = gateway.address().port();
    let mut command = peer("chromium");
    // Its sandbox needs what containers and root do not have; it only sees this page.
    command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    command.args(["--no-first-run", "--disable-background-networking", "--no-proxy-server"]);
    command.arg("--host-resolver-rules=MAP localhost 127.0.0.1");
    command.arg(format!("--user-data-dir={}", gateway.folder.path().join("chromium").display()));
    command.arg(format!("--origin-to-force-quic-on=localhost:{port}"));
    command.arg(format!("--ignore-certificate-errors-spki-list={}", key_hash(gateway)));
    command.stdout(Stdio::null()).arg(format!("https://localhost:{port}/"));
    command
}

/// SHA-256 of the public key of the certificate, in base64.
fn key_hash(gateway: &Gateway) -> String {
    let openssl = "openssl x509 -in site.pem -noout -pubkey | openssl pkey -pubin -outform der \
                   | openssl dgst -sha256 -binary | openssl base64";
    let mut command = peer("sh");
    let output = output_of(command.arg("-ec").arg(openssl).current_dir(gateway.folder.path()));
    String::from_utf8(output).unwrap().trim_end().to_owned()
}
