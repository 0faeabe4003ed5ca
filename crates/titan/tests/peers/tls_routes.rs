//! TLS that passes through the gateway, from openssl to nginx, also with HAProxy and the PROXY protocol in front.

use crate::gateway::Gateway;
use crate::haproxy::HaProxy;
use crate::nginx::Nginx;
use crate::place::Folder;
use crate::program::peer;
use crate::tls::certify_for;
use crate::wait::until;
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Output;

/// A client that trusts the certificate of that folder for `name`, and asks for it over HTTP; what openssl says, and its exit code.
fn asks(address: SocketAddr, name: &str, trusted: &Path, more: &[&str]) -> Output {
    let mut command = peer("openssl");
    command.args(["s_client", "-quiet", "-verify_return_error", "-connect", &address.to_string()]);
    command.args(["-servername", name, "-verify_hostname", name, "-CAfile"]);
    command.arg(trusted).args(more);
    let request = trusted.with_file_name("request");
    fs::write(&request, format!("GET / HTTP/1.0\r\nHost: {name}\r\n\r\n")).unwrap();
    command.stdin(fs::File::open(request).unwrap()).output().unwrap()
}

/// An nginx with a certificate of its own for that name, which responds with the name.
fn server(folder: &Folder, name: &str) -> Nginx {
    certify_for(folder, &["-newkey", "rsa:2048"], &format!("DNS:{name}"));
    let path = |file: &str| folder.path().join(file).display().to_string();
    Nginx::start(&format!(
        "ssl_certificate {}; ssl_certificate_key {}; ssl_protocols TLSv1.2 TLSv1.3;\n\
         location / {{ return 200 'this is $ssl_server_name in $ssl_protocol'; }}",
        path("site.pem"),
        path("site.key")
    ))
}

/// A gateway that passes both names on.
fn passing(folder: Folder, a: SocketAddr, b: SocketAddr, more: &str) -> Gateway {
    let log = folder.path().join("access.log");
    let config = format!(
        "admin: off\nroutes: [{{ respond: 204 }}]\nupstreams: {{ a: {{ endpoints: '{a}' }}, b: {{ endpoints: '{b}' }} }}\n\
         access_log: {{ file: '{}' }}\n\
         listeners: [{{ address: 127.0.0.1:0{more}, tls_routes: [\
         {{ names: a.example, mode: passthrough, upstream: a }}, {{ names: '*.b.example', mode: passthrough, upstream: b }}] }}]\n",
        log.display()
    );
    Gateway::start_in(folder, &config)
}

#[test]
fn openssl_speaks_to_the_server_that_has_the_name() {
    let (of_a, of_b) = (Folder::new(), Folder::new());
    let (a, b) = (server(&of_a, "a.example"), server(&of_b, "x.b.example"));
    let gateway = passing(Folder::new(), a.address, b.address, "");
    let [a_pem, b_pem] = [&of_a, &of_b].map(|folder| folder.path().join("site.pem"));
    for (version, protocol) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        for (name, trusted) in [("a.example", &a_pem), ("x.b.example", &b_pem)] {
            let output = asks(gateway.address(), name, trusted, &[version, "-ign_eof"]);
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.ends_with(&format!("this is {name} in {protocol}")), "{output:?}");
        }
    }
    // The certificate is the server's own: whoever trusts another one is not fooled.
    let output = asks(gateway.address(), "a.example", &b_pem, &["-ign_eof"]);
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    // What no route takes is not TLS of anybody.
    let output = asks(gateway.address(), "c.example", &a_pem, &["-ign_eof"]);
    let text = String::from_utf8_lossy(&output.stderr).to_lowercase();
    assert!(!output.status.success() && text.contains("unrecognized name"), "{output:?}");
}

#[test]
fn the_client_behind_a_balancer_is_in_the_access_log() {
    let (of_a, folder) = (Folder::new(), Folder::new());
    let log = folder.path().join("access.log");
    let a = server(&of_a, "a.example");
    let expecting = ", proxy_protocol: { from: [127.0.0.1] }";
    let gateway = passing(folder, a.address, a.address, expecting);
    let trusted = of_a.path().join("site.pem");
    for version in ["send-proxy", "send-proxy-v2"] {
        let balancer = HaProxy::to("tcp", gateway.address(), version);
        let bind = ["-bind", "127.9.8.7", "-ign_eof"];
        let output = asks(balancer.address, "a.example", &trusted, &bind);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.ends_with("this is a.example in TLSv1.3"), "{output:?}");
    }
    let records = || -> Vec<Value> {
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    until("both connections to be told", || records().len() == 2);
    for record in records() {
        let told = [&record["event"], &record["client"], &record["sni"]];
        assert_eq!(told, ["connection", "127.9.8.7", "a.example"], "{record:#}");
    }
}
