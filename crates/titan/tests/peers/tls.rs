//! HTTPS, as curl and openssl see it.

use crate::curl::{Request, to};
use crate::gateway::{Gateway, config_to};
use crate::go;
use crate::nginx::Nginx;
use crate::place::{Folder, own_address};
use crate::program::{Program, output_of, peer};
use crate::wait::until;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// A gateway that speaks HTTPS as localhost and sends everything to `upstream`.
fn secure(upstream: SocketAddr) -> Gateway {
    let folder = Folder::new();
    certify(&folder, &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    let tls =
        "{ address: 127.0.0.1:0, tls: { certificates: [{ cert: site.pem, key: site.key }] } }";
    let config =
        config_to(upstream).replace("listeners: [127.0.0.1:0]", &format!("listeners: [{tls}]"));
    Gateway::start_in(folder, &config)
}

/// Writes a new certificate for localhost and its key.
pub(crate) fn certify(folder: &Folder, kind: &[&str]) {
    certify_for(folder, kind, "DNS:localhost");
}

/// The same for other names.
pub(crate) fn certify_for(folder: &Folder, kind: &[&str], names: &str) {
    let path = |name: &str| folder.path().join(name);
    let mut command = peer("openssl");
    command.args(["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"]).args(kind);
    command.args(["-addext", &format!("subjectAltName={names}")]);
    command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    output_of(command.arg("-keyout").arg(path("new.key")).arg("-out").arg(path("new.pem")));
    // As a tool would that renews certificates: never half a file, but for a moment half a pair.
    std::fs::rename(path("new.pem"), path("site.pem")).unwrap();
    std::fs::rename(path("new.key"), path("site.key")).unwrap();
}

/// A request of a client that trusts the certificate that is there now.
fn curl(gateway: &Gateway) -> Request {
    let port = gateway.address().port();
    let authority = gateway.folder.path().join("site.pem");
    let resolve = format!("localhost:{port}:127.0.0.1");
    let request = to(&format!("https://localhost:{port}"));
    request.args(["--cacert", authority.to_str().unwrap(), "--resolve", &resolve])
}

/// What openssl says of a connection.
fn openssl(gateway: &Gateway, arguments: &[&str]) -> String {
    let mut command = peer("openssl");
    command.args(["s_client", "-connect", &gateway.address().to_string()]).args(arguments);
    let output = command.stdin(Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn bodies_go_both_ways_sealed() {
    let server = go::Server::start();
    let gateway = secure(server.address);
    let file = gateway.folder.write("source", vec![b'x'; 20_000_000]);
    let data = format!("@{}", file.display());
    let response = curl(&gateway).args(["--data-binary", &data, "-H", "Expect:"]).get("/post");
    let seen = response.seen();
    assert_eq!(seen["BodyLength"], 20_000_000);
    assert_eq!(seen["Header"]["X-Forwarded-Proto"][0], "https");
    let response = curl(&gateway).args(["--data-binary", &data, "-H", "Expect:"]).get("/mirror");
    assert_eq!((response.status(), response.code), (200, Some(0)));
    assert_eq!(response.body.len(), 20_000_000);
}

#[test]
fn versions_and_suites_are_those_of_today() {
    let server = go::Server::start();
    let gateway = secure(server.address);
    for (version, is_spoken) in
        [("-tls1", false), ("-tls1_1", false), ("-tls1_2", true), ("-tls1_3", true)]
    {
        let text = openssl(&gateway, &[version, "-cipher", "ALL:@SECLEVEL=0"]);
        assert_eq!(!text.contains("Cipher is (NONE)"), is_spoken, "{version}: {text}");
    }
    // No forward secrecy, no authenticated encryption, no key exchange that can be trusted.
    for weak in ["AES128-SHA", "AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-SHA", "aNULL", "eNULL"] {
        let suite = format!("{weak}:@SECLEVEL=0");
        let text = openssl(&gateway, &["-tls1_2", "-cipher", &suite]);
        assert!(text.is_empty() || text.contains("Cipher is (NONE)"), "{weak}: {text}");
    }
    let text = openssl(&gateway, &["-tls1_2"]);
    assert!(text.contains("Secure Renegotiation IS supported"), "{text}");
    assert!(text.contains("Compression: NONE"), "{text}");
    let text = openssl(&gateway, &["-alpn", "h3,http/1.1"]);
    assert!(text.contains("ALPN protocol: http/1.1"), "{text}");
}

#[test]
fn a_session_is_resumed() {
    let server = go::Server::start();
    let gateway = secure(server.address);
    let text = openssl(&gateway, &["-tls1_2", "-reconnect"]);
    assert_eq!(text.matches("Reused, TLSv1.2").count(), 5, "{text}");
}

#[test]
fn early_data_for_another_server_is_skipped() {
    let server = go::Server::start();
    let gateway = secure(server.address);
    let folder = &gateway.folder;
    let other = own_address();
    let mut command = peer("openssl");
    command.args(["s_server", "-quiet", "-cert", "site.pem", "-key", "site.key", "-early_data"]);
    command.args(["-accept", &other.to_string()]).current_dir(folder.path());
    let other_server = Program::start(&mut command, folder).listens_on(other);
    let mut command = peer("openssl");
    command.args(["s_client", "-ign_eof", "-sess_out", "session", "-connect", &other.to_string()]);
    let client = Program::start(command.current_dir(folder.path()).stdout(Stdio::null()), folder);
    until("the client has a ticket", || {
        let session = std::fs::read_to_string(folder.path().join("session"));
        session.is_ok_and(|session| session.contains("-----END"))
    });
    drop((client, other_server));
    for bytes in [100, 10_000, 16_384] {
        folder.write("early", vec![b'x'; bytes]);
        let arguments = ["-sess_in", "session", "-early_data", "early"];
        let text = openssl_says(&gateway, &arguments);
        assert!(text.contains("Early data was rejected"), "{bytes}: {text}");
        assert!(text.contains("HTTP/1.1 200 OK"), "{bytes}: {text}");
    }
}

#[test]
fn a_client_that_accepts_one_kind_of_signature_gets_it() {
    let folder = Folder::new();
    let ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
    let pairs = [
        ("ec", &ec[..], "DNS:a.test,DNS:www.a.test"),
        ("rsa", &["-newkey", "rsa:2048"][..], "DNS:www.a.test,DNS:a.test"),
        ("one", &ec[..], "DNS:x.b.test"),
        ("all", &["-newkey", "rsa:2048"][..], "DNS:*.b.test"),
    ];
    let mut certificates = Vec::new();
    for (name, kind, names) in pairs {
        certify_for(&folder, kind, names);
        for end in ["pem", "key"] {
            let path = |name: &str| folder.path().join(format!("{name}.{end}"));
            std::fs::rename(path("site"), path(name)).unwrap();
        }
        certificates.push(format!("{{ cert: {name}.pem, key: {name}.key }}"));
    }
    let tls = format!("{{ certificates: [{}] }}", certificates.join(", "));
    let gateway = Gateway::start_in(
        folder,
        &format!(
            "listeners: [{{ address: 127.0.0.1:0, tls: {tls} }}]\nadmin: off\nroutes: [{{ respond: 204 }}]\n"
        ),
    );
    for name in [&["-noservername"][..], &["-servername", "a.test"], &["-servername", "x.b.test"]] {
        for (signature, kind) in
            [("ecdsa_secp256r1_sha256", "ECDSA"), ("rsa_pss_rsae_sha256", "RSA-PSS")]
        {
            let text = openssl(&gateway, &[name, &["-sigalgs", signature]].concat());
            let wanted = format!("Peer signature type: {kind}");
            assert!(text.contains(&wanted), "{name:?} {signature}: {text}");
        }
    }
}

#[test]
fn a_certificate_that_changes_on_disk_is_used() {
    let server = go::Server::start();
    let gateway = secure(server.address);
    assert_eq!(curl(&gateway).get("/").status(), 200);
    // Of another kind, too.
    certify(&gateway.folder, &["-newkey", "rsa:2048"]);
    until("the new certificate is in use", || {
        openssl(&gateway, &["-tls1_3"]).contains("Peer signature type: RSA-PSS")
    });
    assert_eq!(curl(&gateway).get("/").status(), 200);
}

// field: upstream_tls.certificate
#[test]
fn an_endpoint_gets_the_certificate_of_the_gateway() {
    let (theirs, ours) = (Folder::new(), Folder::new());
    let kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
    certify(&theirs, &kind);
    certify(&ours, &[&kind[..], &["-subj", "/CN=gateway"]].concat());
    let path = |folder: &Folder, name: &str| folder.path().join(name).display().to_string();
    let nginx = Nginx::start(&format!(
        "ssl_certificate {}; ssl_certificate_key {}; ssl_client_certificate {}; ssl_verify_client on;\n\
         location / {{ return 200 \"$ssl_client_s_dn asked for $ssl_server_name\"; }}",
        path(&theirs, "site.pem"),
        path(&theirs, "site.key"),
        path(&ours, "site.pem"),
    ));
    let authority = path(&theirs, "site.pem");
    let config = config_to(nginx.address);
    let (head, _) = config.split_once("upstreams:").unwrap();
    let asks = |certificate: &str| {
        let tls = format!("{{ ca: {authority}, name: localhost, {certificate} }}");
        let address = nginx.address;
        let text =
            format!("{head}upstreams: {{ it: {{ endpoints: \"{address}\", tls: {tls} }} }}\n");
        to(&Gateway::start(&text).url("")).get("/")
    };
    let own = format!(
        "certificate: {{ cert: {}, key: {} }}",
        path(&ours, "site.pem"),
        path(&ours, "site.key")
    );
    assert_eq!(asks(&own).text(), "CN=gateway asked for localhost");
    // A client that presents no certificate gets nothing.
    assert_eq!(asks("verify: true").status(), 400);
}

#[test]
fn a_certificate_to_develop_with_is_trusted_where_its_authority_is() {
    let server = go::Server::start();
    let folder = Folder::new();
    let mut cert = Command::new(env!("CARGO_BIN_EXE_titan"));
    cert.arg("cert").arg("--out").arg(folder.path());
    let says = String::from_utf8(output_of(&mut cert)).unwrap();
    // It is used as it says that it can be.
    let (_, rest) = says.split_once("listeners:\n").unwrap();
    let (listener, _) = rest.split_once("routes:\n").unwrap();
    let listener = listener.replace("8443", "0");
    let config = config_to(server.address)
        .replace("listeners: [127.0.0.1:0]", &format!("listeners:\n{listener}"));
    let gateway = Gateway::start_in(folder, &config);
    let authority = gateway.folder.path().join("ca.pem");
    let port = gateway.address().port();
    for host in ["localhost", "127.0.0.1"] {
        let response = to(&format!("https://{host}:{port}"))
            .args(["--cacert", authority.to_str().unwrap(), "-4"])
            .get("/");
        assert_eq!(response.seen()["Host"].as_str(), Some(&*format!("{host}:{port}")));
    }
    // What is there is not overwritten.
    let again = cert.output().unwrap();
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("already exists"));
}

#[test]
fn credentials_that_cannot_be_used_are_found_by_the_check() {
    let folder = Folder::new();
    folder.write("bad.pem", "nothing");
    let file = folder.write(
        "titan.yaml",
        "listeners:\n\
         - address: ':0'\n  tls:\n    \
         certificates: [{ cert: no.pem, key: no.key }, { cert: bad.pem, key: bad.key }]\n    \
         client_certificates: { ca: bad.pem, crl: none.pem }\n\
         routes: [{ upstream: a }]\n\
         upstreams:\n  a: { endpoints: ['127.0.0.1:1'], tls: { ca: bad.pem } }\n",
    );
    for command in ["check", "run"] {
        let mut titan = Command::new(env!("CARGO_BIN_EXE_titan"));
        titan.arg(command).args((command == "run").then_some("--config")).arg(&file);
        let output = titan.output().unwrap();
        let says = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{says}");
        // All at once, each with the place of its listener or upstream.
        let name = file.display();
        for (place, wanted) in [
            ("2:3", "no.pem cannot be used: it cannot be read: "),
            ("2:3", "bad.pem cannot be used: it contains no certificate in PEM format"),
            ("8:3", "bad.pem cannot be used: it contains no certificate in PEM format"),
        ] {
            let line = says.lines().find(|line| {
                line.starts_with(&format!("error: {name}:{place}: ")) && line.contains(wanted)
            });
            assert!(line.is_some(), "{place}: {wanted}: {says}");
        }
    }
}

#[test]
fn a_list_that_is_no_longer_good_is_spoken_of() {
    let folder = Folder::new();
    certify(&folder, &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    authority_in(&folder, "clients");
    const CONFIG: &str = "listeners: [{ address: '127.0.0.1:0', tls: { \
        certificates: [{ cert: site.pem, key: site.key }], \
        client_certificates: { ca: clients.pem, crl: crl.pem } } }]\n\
        admin: off\nroutes: [{ respond: 204 }]\n";
    folder.write("index", "");
    folder.write("number", "01\n");
    folder.write(
        "ca.conf",
        "[ca]\ndefault_ca = x\n[x]\ndatabase = index\ncrlnumber = number\ndefault_md = sha256\n",
    );
    let list =
        ["ca", "-gencrl", "-config", "ca.conf", "-cert", "clients.pem", "-keyfile", "clients.key"];
    let lasts = |seconds: &str| {
        openssl_in(&folder, &[&list[..], &["-crlsec", seconds, "-out", "crl.pem"]].concat());
        let file = folder.write("titan.yaml", CONFIG);
        let mut titan = Command::new(env!("CARGO_BIN_EXE_titan"));
        let output = titan.arg("check").arg(file).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(lasts("90000"), "");
    assert!(lasts("80000").contains("titan.yaml:1:13: crl.pem: the revocation list expires at "));
    let gateway = Gateway::start_in(folder, CONFIG);
    let says = || std::fs::read_to_string(gateway.folder.path().join("stderr")).unwrap();
    until("a warning", || says().contains("warn tls crl.pem: the revocation list expires at "));
}

#[test]
fn it_is_said_why_an_endpoint_is_not_trusted() {
    let theirs = Folder::new();
    certify(&theirs, &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    let path = |name: &str| theirs.path().join(name).display().to_string();
    let nginx = Nginx::start(&format!(
        "ssl_certificate {}; ssl_certificate_key {}; location / {{ return 204; }}",
        path("site.pem"),
        path("site.key"),
    ));
    let config = config_to(nginx.address).replace("idle_timeout: 1s", "tls: on");
    let gateway = Gateway::start(&config);
    assert_eq!(to(&gateway.url("")).get("/").status(), 502);
    let wanted = format!(" {}: invalid peer certificate: ", nginx.address);
    let says = || std::fs::read_to_string(gateway.folder.path().join("stderr")).unwrap();
    until("the reason to be said", || says().contains(&wanted));
    // Once is enough.
    assert_eq!(to(&gateway.url("")).get("/").status(), 502);
    assert_eq!(says().matches(&wanted).count(), 1);
}

/// Runs openssl in a folder; what it writes to standard output.
fn openssl_in(folder: &Folder, arguments: &[&str]) -> String {
    let mut command = peer("openssl");
    let output = output_of(command.args(arguments).current_dir(folder.path()));
    String::from_utf8(output).unwrap()
}

/// An authority in `name.pem` and `name.key`.
fn authority_in(folder: &Folder, name: &str) {
    let (cert, key) = (format!("{name}.pem"), format!("{name}.key"));
    let subject = format!("/CN={name}");
    let kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
    let out = ["-subj", &subject, "-keyout", &key, "-out", &cert];
    let arguments = [&["req", "-x509", "-nodes", "-days", "2"][..], &kind, &out].concat();
    openssl_in(folder, &arguments);
}

/// A client's certificate in `client.pem` and `client.key`, of that authority.
fn client_in(folder: &Folder, authority: &str, subject: &str) {
    folder.write("ext", "extendedKeyUsage=clientAuth\nsubjectAltName=URI:spiffe://test/a\n");
    let kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-multivalue-rdn"];
    let out = ["-utf8", "-subj", subject, "-keyout", "client.key", "-out", "client.csr"];
    openssl_in(folder, &[&["req", "-nodes"][..], &kind, &out].concat());
    let (cert, key) = (format!("{authority}.pem"), format!("{authority}.key"));
    let sign = ["x509", "-req", "-in", "client.csr", "-CA", &cert, "-CAkey", &key, "-days", "2"];
    let more = ["-set_serial", "7", "-extfile", "ext", "-out", "client.pem"];
    openssl_in(folder, &[&sign[..], &more].concat());
}

#[test]
fn a_client_is_known_by_its_certificate() {
    let server = go::Server::start();
    let folder = Folder::new();
    certify(&folder, &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    authority_in(&folder, "clients");
    authority_in(&folder, "others");
    let subject = "/C=DE/O=A, \\\"B\\\" <C>; Inc./OU=x+UID=y/CN=#J\u{f6}rg /emailAddress=j@x.test";
    client_in(&folder, "clients", subject);
    // What we make of it is what openssl makes of it.
    let form = ["-nameopt", "RFC2253,-esc_msb,utf8"];
    let show = ["x509", "-in", "client.pem", "-noout", "-subject"];
    let subject = openssl_in(&folder, &[&show[..], &form].concat());
    let subject = subject.trim_end_matches('\n').strip_prefix("subject=").unwrap().to_owned();
    assert!(subject.contains("CN=\\#J\u{f6}rg\\ ") && subject.contains('+'), "{subject}");
    let tls = "certificates: [{ cert: site.pem, key: site.key }], client_certificates: { ca: clients.pem }";
    let route = format!("client_certificate: {{ subject: {} }}", serde_json::json!(subject));
    let config = config_to(server.address)
        .replace(
            "listeners: [127.0.0.1:0]",
            &format!("listeners: [{{ address: 127.0.0.1:0, tls: {{ {tls} }} }}]"),
        )
        .replace("[{ upstream: it }]", &format!("[{{ {route}, upstream: it }}]"))
        + "forwarding: { client_cert: leaf }\n";
    assert!(config.contains("client_certificate:"), "{config}");
    let gateway = Gateway::start_in(folder, &config);
    let path = |name: &str| gateway.folder.path().join(name).display().to_string();
    let shows =
        || curl(&gateway).args(["--cert", &path("client.pem"), "--key", &path("client.key")]);
    let pem = std::fs::read_to_string(path("client.pem")).unwrap();
    let lines: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    assert_eq!(shows().get("/").seen()["Header"]["Client-Cert"][0], format!(":{lines}:"));
    // No other client is admitted, and each gets an alert that says why.
    assert_eq!(curl(&gateway).get("/").code, Some(56));
    let text = openssl_says(&gateway, &["-tls1_3"]);
    assert!(text.contains("alert certificate required"), "{text}");
    // Other clients from now on.
    std::fs::copy(path("others.pem"), path("new")).unwrap();
    std::fs::rename(path("new"), path("clients.pem")).unwrap();
    until("the other authority is in use", || shows().get("/").code == Some(56));
}

/// What openssl prints and complains of when it sends a request.
fn openssl_says(gateway: &Gateway, arguments: &[&str]) -> String {
    let mut command = peer("openssl");
    let folder = gateway.folder.path();
    let head = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let request = gateway.folder.write("request", head);
    command.args(["s_client", "-ign_eof", "-connect", &gateway.address().to_string()]);
    command.args(arguments).current_dir(folder);
    let output = command.stdin(std::fs::File::open(request).unwrap()).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}
