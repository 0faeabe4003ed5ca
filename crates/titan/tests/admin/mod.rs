//! The admin interface of the program: its sockets, who may call, and what the commands make of it.

use crate::titan::{Titan, call, config, output};
use rcgen::{CertificateParams, KeyPair};
use rustix::process::Signal;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A gateway that responds with that status, and an admin interface with these keys.
fn serving(status: u16, admin: &str) -> String {
    format!(
        "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: {{ address: 127.0.0.1:0{admin} }}\n\
         routes: [{{ respond: {status} }}]\n"
    )
}

/// The SHA-256 of `token` as the configuration has it.
pub(super) fn hash_of(token: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, token.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a client gets that connects to the listener.
fn served(titan: &Titan) -> u16 {
    call(TcpStream::connect(&titan.address).unwrap(), "GET", "/", &[], "").0
}

/// A path for a socket that no other test uses.
fn socket(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("titan-{name}-{}.sock", std::process::id()))
}

fn over_tcp(titan: &Titan, method: &str, target: &str, fields: &[&str]) -> u16 {
    let stream = TcpStream::connect(titan.admin.as_ref().unwrap()).unwrap();
    call(stream, method, target, fields, "").0
}

fn reload(titan: &Titan) -> (Option<i32>, String, String) {
    output(["reload", "--socket", titan.socket.to_str().unwrap()])
}

#[test]
fn the_socket_is_for_its_owner_alone_and_goes_with_the_process() {
    let mut titan = Titan::start("socket", &serving(200, ""));
    let mode = fs::metadata(&titan.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
    assert_eq!(titan.call("GET", "/healthz", &[], ""), (200, "ok\n".to_owned()));
    titan.signal(Signal::TERM);
    titan.waits_for("draining");
    assert!(!titan.socket.exists());
    assert_eq!(titan.exit_code(), Some(0));
}

#[test]
fn the_socket_stays_when_another_process_takes_over() {
    let mut titan = Titan::start("over", &serving(200, ""));
    titan.upgrades();
    // That of the old process would be gone with it.
    titan.waits_for("draining");
    assert_eq!(titan.call("GET", "/healthz", &[], "").0, 200);
    assert_eq!(reload(&titan).0, Some(0));
    titan.signal(Signal::TERM);
    titan.waits_for("draining");
    titan.ends();
    assert!(!titan.socket.exists());
}

// field: admin.socket
#[test]
fn a_socket_can_be_elsewhere_or_off() {
    let path = socket("elsewhere");
    let text = serving(200, &format!(", socket: {}", path.display()));
    let titan = Titan::start("elsewhere", &text);
    let stream = UnixStream::connect(&path).unwrap();
    assert_eq!(call(stream, "GET", "/healthz", &[], "").0, 200);
    assert!(!titan.socket.exists());
    // The commands find it by the configuration.
    let (code, out, err) = output(["reload", "-c", titan.file.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    // It is named: a second gateway that cannot have it does not start.
    let (code, _, err) = output([config("second", &text)]);
    assert_eq!(code, Some(1));
    assert!(err.contains(&format!("cannot listen on unix:{}", path.display())), "{err}");
    drop(titan);
    // It was killed.
    fs::remove_file(&path).unwrap();
    let titan = Titan::start("off", &serving(200, ", socket: off"));
    assert!(!titan.socket.exists());
    let (code, _, err) = output(["reload", "-c", titan.file.to_str().unwrap()]);
    assert_eq!(code, Some(2), "{err}");
}

#[test]
fn a_socket_without_a_directory_says_what_to_create() {
    let directory = socket("no").with_extension("d");
    let path = directory.join("admin.sock");
    let text = serving(200, &format!(", socket: {}", path.display()));
    let (path, directory) = (path.display(), directory.display());
    let told = |text: &str| {
        let (code, _, err) = output([config("nowhere", text)]);
        assert_eq!(code, Some(1), "{err}");
        err
    };
    let err = told(&text);
    let wanted =
        format!("error: cannot listen on unix:{path} for the admin interface: No such file");
    assert!(err.starts_with(&wanted), "{err}");
    assert!(err.contains(&format!("create it (`mkdir -p {directory}`)")), "{err}");
    let of_listener = serving(200, "").replace("127.0.0.1:0]", &format!("\"unix:{path}\"]"));
    assert!(told(&of_listener).contains(&format!("help: there is no directory {directory}: ")));
}

#[test]
fn a_second_gateway_serves_without_the_socket_at_the_usual_place() {
    let first = Titan::start("first", &serving(200, ""));
    let second = Titan::start_beside(&first, &serving(200, ""));
    assert_eq!(served(&second.0), 200);
    let why = "another process uses it; set `admin.socket`";
    assert!(second.1.contains(why), "{}", second.1);
    // That of the first is still there when the second has gone.
    drop(second);
    assert_eq!(first.call("GET", "/healthz", &[], "").0, 200);
}

#[test]
fn reload_puts_the_file_in_force_or_says_what_is_wrong_with_it() {
    let titan = Titan::start("reload", &serving(200, ""));
    fs::write(&titan.file, serving(204, "")).unwrap();
    let (code, out, err) = reload(&titan);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.starts_with("configuration 2 is in force (sha256 "), "{out}");
    assert!(out.contains("\nworkers    1\n"), "{out}");
    assert_eq!(served(&titan), 204);
    fs::write(&titan.file, serving(204, "").replace("respond", "respnd")).unwrap();
    let (code, out, err) = reload(&titan);
    let (checked, _, errors) = output(["check".as_ref(), titan.file.as_os_str()]);
    assert_eq!((code, checked, out.as_str()), (Some(2), Some(2), ""));
    assert_eq!(err, errors + "the previous configuration stays in force\n");
    assert_eq!(served(&titan), 204);
    let (_, metrics) = titan.call("GET", "/metrics", &[], "");
    for line in ["outcome=\"done\"} 1\n", "outcome=\"refused\"} 1\n"] {
        let line = format!("titan_admin_calls_total{{call=\"reload\",{line}");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

#[test]
fn a_reload_tells_where_a_new_listener_is() {
    let mut titan = Titan::start("new-listener", &serving(200, ""));
    let more = "listeners: [127.0.0.1:0, { name: more, address: '127.83.83.2:0' }]";
    fs::write(&titan.file, serving(200, "").replace("listeners: [127.0.0.1:0]", more)).unwrap();
    titan.signal(Signal::HUP);
    let told = titan.waits_for("info listener listening on http://127.83.83.2:");
    let told = format!("127.83.83.2:{told}");
    let address = told.strip_suffix(" (more)").unwrap();
    assert_eq!(call(TcpStream::connect(address).unwrap(), "GET", "/", &[], "").0, 200);
    titan.waits_for(&format!("{} was read again and is in force", titan.file.display()));
}

#[test]
fn a_gateway_that_cannot_be_reached_is_told_with_where_it_was_looked_for() {
    let (code, out, err) = output(["reload", "--socket", "/nowhere/admin.sock"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.starts_with("error: no gateway can be reached: /nowhere/admin.sock: "), "{err}");
    assert!(err.contains("help: `titan run` prints where its socket is"), "{err}");
}

#[test]
fn a_configuration_that_is_sent_is_in_force_and_shown_without_its_secrets() {
    let titan = Titan::start("put", &serving(200, ""));
    let text = serving(204, &format!(", tokens: {{ ci: {} }}", hash_of("secret")));
    let yaml = ["Content-Type: application/yaml"];
    let (status, told) = titan.call("PUT", "/config?name=new.yaml", &yaml, &text);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(status, 200, "{told}");
    assert_eq!((told["file"].as_str(), told["valid"].as_bool()), (Some("new.yaml"), Some(true)));
    assert_eq!(served(&titan), 204);
    let (status, shown) = titan.call("GET", "/config", &[], "");
    assert_eq!(status, 200);
    assert!(!shown.contains(&hash_of("secret")[..8]), "{shown}");
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let document = shown["documents"][0]["text"].as_str().unwrap();
    assert!(document.starts_with("workers: 1\n") && document.contains("{ ci: *** }"), "{document}");
    assert_eq!(shown["entry"]["sha256"].as_str(), Some(&*hash_of(document)));
    // What is refused is told as `titan check` tells it.
    let wrong = text.replace("respond", "respnd");
    let file = config("new", &wrong);
    let name = file.to_str().unwrap();
    let (status, told) = titan.call("PUT", &format!("/config?name={name}"), &yaml, &wrong);
    let (_, checked, _) = output(["check", "--json", name]);
    let (told, checked): (Value, Value) =
        (serde_json::from_str(&told).unwrap(), serde_json::from_str(&checked).unwrap());
    assert_eq!(status, 422, "{told}");
    for key in ["file", "valid", "diagnostics"] {
        assert_eq!(told[key], checked[key]);
    }
    assert_eq!(served(&titan), 204);
}

#[test]
fn credentials_and_comments_leave_the_process_nowhere() {
    const CREDENTIAL: &str = "hunter2Zk9u";
    let folder = socket("credentials").with_extension("d");
    let state = folder.display();
    let text = |credential: &str| {
        format!(
            "workers: 1 # {CREDENTIAL}\nlisteners: [127.0.0.1:0]\nadmin: {{ address: 127.0.0.1:0 }}\nstate: {state}\n\
             upstreams: {{ u: '127.0.0.1:1' }}\nroutes:\n  - {{ respond: 204, headers: {{ X-Api-Key: {credential} }} }}\n  \
             - {{ prefix: /u, upstream: u, apply: [t, f] }}\n  \
             - {{ prefix: /r, redirect: 'https://a.example/?token={credential}' }}\npolicies:\n  \
             t: {{ transform: {{ request: {{ headers: {{ set: {{ Authorization: 'Basic {credential}' }} }}, \
             query: {{ set: {{ api_key: {credential} }} }} }} }} }}\n  \
             f: {{ authorise: {{ forward_auth: {{ upstream: u, path: '/v?token={credential}' }} }} }}\n"
        )
    };
    let mut titan = Titan::start("credentials", &text(CREDENTIAL));
    let yaml = ["Content-Type: application/yaml"];
    let other = text("hunter2other");
    let (_, planned) = titan.call("POST", "/plan", &yaml, &other);
    let (_, wrong) =
        titan.call("PUT", "/config", &yaml, &other.replace("forward_auth", "forwards"));
    let (status, put) = titan.call("PUT", "/config", &yaml, &other);
    assert_eq!(status, 200, "{put}");
    let (_, shown) = titan.call("GET", "/config", &[], "");
    let (_, metrics) = titan.call("GET", "/metrics", &[], "");
    let (_, history) = titan.call("GET", "/history", &[], "");
    // In this process nothing is forgotten.
    assert_eq!(titan.call("POST", "/rollback", &[], "").0, 200);
    let written = folder.join("history");
    let written =
        fs::read_dir(written).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap());
    let written: Vec<String> = written.map(|it| String::from_utf8(it).unwrap()).collect();
    assert_eq!(written.iter().filter(|it| it.contains("headers.set.Authorization")).count(), 3);
    let file = titan.file.as_os_str().to_owned();
    let (_, resolved, _) = output(["check".as_ref(), "--resolved".as_ref(), file.as_os_str()]);
    let (_, listed, _) = output(["check".as_ref(), "--list-routes".as_ref(), file.as_os_str()]);
    assert!(resolved.contains("https://a.example/?token=***"), "{resolved}");
    let said = titan.events_up_to_that(|line| line.contains("/rollback"));
    let all = [planned, wrong, put, shown, metrics, history, resolved, listed, said];
    for told in written.iter().chain(&all) {
        assert!(!told.contains("hunter2"), "{told}");
    }
    drop(titan);
    fs::remove_dir_all(folder).unwrap();
}

// field: admin.tokens, admin_token.sha256, admin_token.rights
#[test]
fn over_tcp_a_token_is_needed_and_tokens_change_with_a_reload() {
    let tokens = |all: &str| {
        let (all, look) = (hash_of(all), hash_of("look"));
        serving(
            200,
            &format!(", tokens: {{ all: {{ sha256: {all}, rights: full }}, look: {look} }}"),
        )
    };
    let titan = Titan::start("tokens", &tokens("first"));
    let (first, second) = ("Authorization: Bearer first", "Authorization: Bearer second");
    let look = "Authorization: Bearer look";
    assert_eq!(over_tcp(&titan, "GET", "/metrics", &[]), 200);
    assert_eq!(over_tcp(&titan, "GET", "/config", &[]), 401);
    assert_eq!(over_tcp(&titan, "GET", "/config", &[look]), 200);
    assert_eq!(over_tcp(&titan, "POST", "/reload", &[look]), 403);
    assert_eq!(over_tcp(&titan, "POST", "/reload", &[first]), 200);
    fs::write(&titan.file, tokens("second")).unwrap();
    assert_eq!(over_tcp(&titan, "POST", "/reload", &[first]), 200);
    assert_eq!(over_tcp(&titan, "POST", "/reload", &[first]), 401);
    assert_eq!(over_tcp(&titan, "POST", "/reload", &[second]), 200);
    assert_eq!(over_tcp(&titan, "POST", "/upgrade", &[second]), 403);
    let mut titan = titan;
    titan.waits_for("serves with ");
    let said = titan.events_up_to_that(|line| line.contains("/upgrade"));
    let why = " POST /upgrade: denied (403): this executes a program, which no token allows: call it over the Unix socket";
    assert!(said.contains(why), "{said}");
    let denied = said.lines().find(|line| line.contains(" admin ")).unwrap();
    assert!(denied.starts_with("warn admin caller=\"token look from 127.0.0.1:"), "{denied}");
    assert!(
        denied.contains(" POST /reload: denied (403): this token has `rights: read`"),
        "{denied}"
    );
    assert!(said.contains("info admin caller=\"token all from 127.0.0.1:"), "{said}");
}

// field: admin.metrics_series
#[test]
fn the_page_of_metrics_is_as_long_as_it_may_be_and_that_changes_with_a_reload() {
    let of = |series: u32| {
        let routes: String =
            (0..100).map(|n| format!("{{ path: /r{n}, respond: 200 }}, ")).collect();
        let text = serving(200, &format!(", metrics_series: {series}"));
        text.replace("routes: [", &format!("routes: [{routes}"))
    };
    let titan = Titan::start("series", &of(1000));
    let figures = || {
        let page = titan.call("GET", "/metrics", &[], "").1;
        let figure = |name: &str| {
            let value = page.lines().find_map(|line| line.strip_prefix(name));
            value.unwrap().trim().parse::<u32>().unwrap()
        };
        (figure("titan_metrics_series "), figure("titan_metrics_folded{kind=\"route\"} "))
    };
    let (series, folded) = figures();
    assert!(series <= 1000 && folded > 80, "{series} {folded}");
    fs::write(&titan.file, of(50_000)).unwrap();
    assert_eq!(titan.call("POST", "/reload", &[], "").0, 200);
    let (series, folded) = figures();
    assert!(series > 5000 && folded == 0, "{series} {folded}");
}

/// A certificate for 127.0.0.1 in these files, and a client that trusts it.
fn certified(directory: &Path) -> Arc<ClientConfig> {
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    fs::write(directory.join("admin.pem"), certificate.pem()).unwrap();
    fs::write(directory.join("admin.key"), key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Makes a call over TLS at that address.
fn over_tls(address: &str, client: &Arc<ClientConfig>, target: &str, fields: &[&str]) -> u16 {
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let tls = ClientConnection::new(Arc::clone(client), name).unwrap();
    let stream = TcpStream::connect(address).unwrap();
    call(StreamOwned::new(tls, stream), "GET", target, fields, "").0
}

// field: admin.tls
#[test]
fn the_interface_speaks_tls_and_a_reload_changes_its_certificate() {
    let directory = std::env::temp_dir().join(format!("titan-admin-tls-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let client = certified(&directory);
    let path = |name: &str| directory.join(name).display().to_string();
    let text = serving(
        200,
        &format!(
            ", tls: {{ certificates: {{ cert: {}, key: {} }} }}, tokens: {{ look: {} }}",
            path("admin.pem"),
            path("admin.key"),
            hash_of("look")
        ),
    );
    let titan = Titan::start("tls", &text);
    let address = titan.admin.clone().unwrap();
    let token = ["Authorization: Bearer look"];
    assert_eq!(over_tls(&address, &client, "/healthz", &[]), 200);
    assert_eq!(over_tls(&address, &client, "/config", &token), 200);
    let renewed = certified(&directory);
    assert_eq!(reload(&titan).0, Some(0));
    assert_eq!(over_tls(&address, &renewed, "/config", &token), 200);
    // A certificate that cannot be read is refused, as that of a listener is.
    fs::write(directory.join("admin.pem"), "none").unwrap();
    let (code, _, err) = reload(&titan);
    assert_eq!(code, Some(2));
    assert!(err.contains("admin.pem"), "{err}");
    assert_eq!(over_tls(&address, &renewed, "/healthz", &[]), 200);
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_unix_socket_as_the_address_serves_everything() {
    let path = socket("address");
    let text = format!(
        "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: \"unix:{}\"\nroutes: [{{ respond: 200 }}]\n",
        path.display()
    );
    let titan = Titan::start("address", &text);
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
    assert!(!titan.socket.exists(), "there is no second one");
    for (method, target) in [("GET", "/metrics"), ("GET", "/config"), ("POST", "/reload")] {
        let stream = UnixStream::connect(&path).unwrap();
        assert_eq!(call(stream, method, target, &[], "").0, 200, "{target}");
    }
    drop(titan);
    // It was killed.
    fs::remove_file(&path).unwrap();
}

#[test]
fn what_is_fixed_of_the_interface_is_told() {
    let titan = Titan::start("fixed", &serving(200, ""));
    for (admin, key) in
        [(", probes: 127.0.0.1:0", "admin.probes"), (", socket: off", "admin.socket")]
    {
        fs::write(&titan.file, serving(200, admin)).unwrap();
        let (code, _, err) = reload(&titan);
        assert_eq!(code, Some(2));
        assert!(err.contains(&format!("`{key}` cannot change while the gateway runs")), "{err}");
    }
}
