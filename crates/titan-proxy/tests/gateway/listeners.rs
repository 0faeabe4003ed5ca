//! Where clients connect: addresses of every kind, the PROXY protocol, workers that share a port.

use std::net::TcpListener;
use std::path::PathBuf;
use titan_proxy::LoadError;
use titan_testkit::upstream::{self, ok};
use titan_testkit::{Gateway, Peer, Upstream, gateway, start, waits_until};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A folder that is removed with all that is in it.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("titan-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder can be made");
        Folder(path)
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left stays in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_unix_socket_serves_clients() {
    let folder = Folder::new("listener");
    let path = folder.join("gateway.sock");
    let upstream = upstream::replies(ok("x"));
    for workers in [1, 2] {
        let text = format!("workers: {workers}\nlisteners: ['unix:{}']", path.display());
        let _gateway = gateway(&text, &[&upstream]);
        let mut client = Peer::connects_to_unix(&path);
        client.sends(GET).response().has_body("x");
        client.expects_nothing_more();
    }
    // There is no address to tell.
    assert_eq!(upstream.requests()[0].field("x-forwarded-for"), None);
    assert_eq!(upstream.requests()[0].field("x-forwarded-proto"), Some("http"));
}

#[test]
fn the_file_of_a_unix_socket_goes_with_its_listener() {
    let folder = Folder::new("files");
    let (stays, goes) = (folder.join("stays.sock"), folder.join("goes.sock"));
    let at = |paths: &[&PathBuf]| {
        let paths: Vec<_> = paths.iter().map(|path| format!("'unix:{}'", path.display())).collect();
        format!("listeners: [{}]\nroutes: [{{ respond: 204 }}]", paths.join(", "))
    };
    let gateway = gateway(&at(&[&stays, &goes]), &[]);
    gateway.reloads(&at(&[&stays]), &[]).unwrap();
    assert!(stays.exists() && !goes.exists());
    gateway.reloads(&at(&[&stays, &goes]), &[]).unwrap();
    // Somebody has put another file in its place.
    std::fs::rename(&goes, folder.join("moved.sock")).unwrap();
    std::fs::write(&goes, "").unwrap();
    gateway.drains();
    assert!(!stays.exists() && goes.exists());
}

#[test]
fn a_unix_socket_in_use_is_not_taken() {
    let folder = Folder::new("in-use");
    let path = folder.join("gateway.sock");
    let _other = upstream::listens_at_unix(&path);
    let text =
        format!("listeners: ['unix:{}']\nroutes: [{{ path: /, respond: 204 }}]", path.display());
    let error = start(&text, &[]).err().expect("the socket is in use");
    assert!(
        matches!(&error, LoadError::Bind { address, .. } if address.contains("gateway.sock")),
        "{error}"
    );
    assert!(path.exists());
}

#[test]
fn an_endpoint_may_be_a_unix_socket() {
    let folder = Folder::new("endpoint");
    let upstream = upstream::listens_at_unix(&folder.join("endpoint.sock"));
    let upstream = upstream.responds(|request| ok(&request.target));
    let gateway = gateway("", &[&upstream]);
    gateway.get("/a").has_body("/a");
    gateway.get("/b").has_body("/b");
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn both_sides_may_speak_over_version_6() {
    if TcpListener::bind("[::1]:0").is_err() {
        println!("skipped: this machine has no IPv6");
        return;
    }
    let upstream = upstream::listens_at("[::1]:0".parse().expect("an address"));
    let upstream = upstream.responds(|_| ok("six"));
    let gateway = gateway("listeners: ['[::1]:0']\nforwarding: { forwarded: true }", &[&upstream]);
    gateway.get("/").has_body("six");
    assert_eq!(upstream.request().field("x-forwarded-for"), Some("::1"));
    assert_eq!(upstream.request().field("forwarded"), Some("for=\"[::1]\";host=\"a\";proto=http"));
}

#[test]
fn a_port_alone_is_both_versions() {
    let gateway = gateway("listeners: [':0']\nroutes: [{ path: /, respond: 204 }]", &[]);
    let port = gateway.address().port();
    Peer::connects(([127, 0, 0, 1], port).into()).sends(GET).response().has_status(204);
    if TcpListener::bind("[::1]:0").is_ok() {
        let address = format!("[::1]:{port}").parse().expect("an address");
        Peer::connects(address).sends(GET).response().has_status(204);
    }
}

// field: file.listeners, listener.name, listener.address
#[test]
fn each_listener_serves_under_its_name() {
    let text =
        "listeners: [{ name: one, address: '127.0.0.1:0' }, { name: two, address: '127.0.0.1:0' }]
routes: [{ path: /, respond: 204 }]";
    let gateway = gateway(text, &[]);
    assert_ne!(gateway.address_of("one"), gateway.address_of("two"));
    for name in ["one", "two"] {
        Peer::connects(gateway.address_of(name)).sends(GET).response().has_status(204);
    }
}

// field: route.listeners
#[test]
fn a_route_serves_what_comes_in_at_its_listeners() {
    let folder = Folder::new("routes");
    let at = |name: &str| folder.join(name);
    let of = |names: [&str; 3], own: &str| {
        let listener = |name| format!("{{ name: {name}, address: 'unix:{}' }}", at(name).display());
        format!(
            "listeners: [{}]
routes:
  - {{ path: /, respond: 204 }}
  - {{ path: /, listeners: {own}, respond: 201 }}
  - {{ path: /status, listeners: [outside, third], respond: 202 }}",
            names.map(listener).join(", ")
        )
    };
    let names = ["inside", "outside", "third"];
    let gateway = gateway(&of(names, "inside"), &[]);
    let get = |name: &str, path: &str| {
        let mut client = Peer::connects_to_unix(&at(name));
        client.sends(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).response().status
    };
    assert_eq!(names.map(|name| get(name, "/")), [201, 204, 204]);
    assert_eq!(names.map(|name| get(name, "/status")), [404, 202, 202]);
    // A connection goes by the configuration of its request. A listener is where it listens, wherever it is in the list.
    let mut kept = Peer::connects_to_unix(&at("outside"));
    kept.sends(GET).response().has_status(204);
    gateway.reloads(&of(["third", "outside", "inside"], "outside"), &[]).unwrap();
    kept.sends(GET).response().has_status(201);
    assert_eq!(names.map(|name| get(name, "/")), [204, 201, 204]);
}

#[test]
fn a_busy_port_is_an_error_that_names_it() {
    let busy = upstream::listens();
    let text = format!("listeners: ['127.0.0.1:0', {busy}]\nroutes: [{{ path: /, respond: 204 }}]");
    let error = start(&text, &[]).err().expect("the port is busy");
    let address = busy.address().to_string();
    assert!(matches!(&error, LoadError::Bind { address: at, .. } if *at == address), "{error}");
    assert!(error.to_string().contains(&address), "{error}");
}

/// Another gateway shares its port among its workers, and with no other process.
#[test]
fn a_port_of_another_gateway_is_busy() {
    let routes = "workers: 2\nroutes: [{ path: /, respond: 204 }]";
    let first = gateway(routes, &[]);
    let text = format!("listeners: ['{}']\n{routes}", first.address());
    assert!(start(&text, &[]).is_err());
    first.get("/").has_status(204);
}

#[test]
fn workers_share_a_port() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway("workers: 2", &[&upstream]);
    let metrics = gateway.metrics();
    assert_eq!(metrics.workers().len(), 2);
    // The kernel chooses by the client's port: after so many each has had one, but for a chance of 2^-99.
    for _ in 0..100 {
        gateway.get("/").has_body("x");
    }
    assert!(metrics.workers().iter().all(|cells| cells.accepted.get() > 0));
}

// field: file.workers, workers.threads
#[test]
fn there_are_as_many_workers_as_configured() {
    let routes = "routes: [{ path: /, respond: 204 }]";
    let count = |workers: &str| {
        gateway(&format!("workers: {workers}\n{routes}"), &[]).metrics().workers().len()
    };
    assert_eq!((count("1"), count("3"), count("{ threads: 5 }")), (1, 3, 5));
    let cores = std::thread::available_parallelism().expect("a count of cores").get();
    assert_eq!(count("auto"), cores);
}

/// How many worker threads of this process may use one core alone, as the kernel shows them.
fn pinned_workers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a list of threads");
    let is_pinned = |path: PathBuf| {
        // A thread may end while it is looked at.
        let status = std::fs::read_to_string(path.join("status")).unwrap_or_default();
        let line =
            |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let is_worker = line("Name:").is_some_and(|name| name.starts_with("worker-"));
        is_worker && line("Cpus_allowed_list:").is_some_and(|list| list.parse::<u32>().is_ok())
    };
    tasks.filter(|task| task.as_ref().is_ok_and(|task| is_pinned(task.path()))).count()
}

// field: workers.pin
#[test]
fn workers_stay_on_a_core_each_where_asked_to() {
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1) {
        println!("skipped: this machine has one core, and every thread stays on it");
        return;
    }
    let routes = "routes: [{ path: /, respond: 204 }]";
    // Every other gateway of this process leaves its workers where they are.
    assert_eq!(pinned_workers(), 0);
    let gateway = gateway(&format!("workers: {{ threads: 2, pin: true }}\n{routes}"), &[]);
    waits_until("two workers on one core each", || pinned_workers() == 2);
    gateway.get("/").has_status(204);
}

const BEHIND: &str =
    "listeners: [{ address: '127.0.0.1:0', proxy_protocol: { from: [127.0.0.2] } }]";

/// What happens to a connection that starts so, from a peer that must send a header.
fn introduced(gateway: &Gateway, header: &[u8]) -> Peer {
    let mut client = Peer::connects_from("127.0.0.2", gateway.address());
    client.offers(header).offers(GET);
    client
}

/// The head may take longer than the test waits for the gateway to end.
#[test]
fn a_balancer_that_says_nothing_does_not_hold_up_the_drain() {
    let text =
        format!("{BEHIND}\nroutes: [{{ respond: 204 }}]\ntimeouts: {{ head: 60s, drain: 60s }}");
    let gateway = gateway(&text, &[]);
    let _silent = Peer::connects_from("127.0.0.2", gateway.address());
    waits_until("it to be accepted", || gateway.metrics().sum(|cells| cells.accepted.get()) == 1);
    gateway.drains();
    gateway.waits_for_end();
}

fn told(upstream: &Upstream) -> Option<String> {
    upstream.requests().last().and_then(|it| it.field("x-forwarded-for").map(str::to_owned))
}

// field: listener.proxy_protocol
#[test]
fn a_balancer_sends_the_address_of_the_client() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway(BEHIND, &[&upstream]);
    let two = |command: u8, family: u8, block: &[u8]| {
        let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
        header.extend([0x20 | command, family, 0, u8::try_from(block.len()).expect("it is short")]);
        header.extend(block);
        header
    };
    let mut six = [0; 36];
    (six[0], six[1], six[15]) = (0x20, 0x01, 7);
    let cases: [(Vec<u8>, &str); 6] = [
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\n".to_vec(), "192.0.2.1"),
        (b"PROXY TCP6 2001:db8::1 ::1 1000 80\r\n".to_vec(), "2001:db8::1"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.2"),
        (two(1, 0x11, &[192, 0, 2, 9, 192, 0, 2, 2, 1, 0, 0, 80]), "192.0.2.9"),
        (two(1, 0x21, &six), "2001::7"),
        (two(0, 0, &[]), "127.0.0.2"),
    ];
    for (header, client) in cases {
        let mut connection = introduced(&gateway, &header);
        for _ in 0..2 {
            connection.response().has_body("x");
            assert_eq!(told(&upstream).as_deref(), Some(client), "{}", header.escape_ascii());
            connection.sends(GET);
        }
        connection.response().has_body("x");
    }
}

#[test]
fn a_balancer_s_header_may_come_in_pieces() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway(BEHIND, &[&upstream]);
    let mut client = Peer::connects_from("127.0.0.2", gateway.address());
    client.sends_slowly("PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\n").sends(GET);
    client.response().has_body("x");
    assert_eq!(told(&upstream).as_deref(), Some("192.0.2.1"));
}

#[test]
fn a_balancer_without_a_header_is_closed() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway(BEHIND, &[&upstream]);
    for header in ["", "PROXY TCP4 nonsense\r\n", "\r\n\r\n\0\r\nQUIT\n\x31\x11\0\0"] {
        let rest = introduced(&gateway, header.as_bytes()).rest();
        assert_eq!(rest, b"", "{header:?}");
    }
    assert_eq!(upstream.connections(), 0);
}

// field: proxy_protocol.from
#[test]
fn a_header_from_any_other_peer_is_a_bad_request() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway(BEHIND, &[&upstream]);
    for header in ["PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\n", "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\0"]
    {
        let mut client = gateway.connects();
        client.offers(header).offers(GET);
        client.response().has_problem(400, "malformed");
        client.expects_close();
    }
    gateway.get("/").has_body("x");
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_balancer_s_clients_are_counted_one_by_one() {
    let text = "listeners: [{ address: '127.0.0.1:0', proxy_protocol: { from: [127.0.0.2] }, max_connections_per_client: 1 }]
routes: [{ path: /, respond: 204 }]";
    let gateway = gateway(text, &[]);
    let header = |last: u8| format!("PROXY TCP4 192.0.2.{last} 192.0.2.2 1000 80\r\n");
    let mut first = introduced(&gateway, header(1).as_bytes());
    first.response().has_status(204);
    introduced(&gateway, header(2).as_bytes()).response().has_status(204);
    assert_eq!(introduced(&gateway, header(1).as_bytes()).rest(), b"");
}
