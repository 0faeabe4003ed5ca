//! Calls as they come from a socket: a head, a peer and a body in, a response out.

mod changes;
mod description;
mod recorder;
mod sessions;

use super::*;
use crate::hex::hex;
use crate::history::{self, Author, Entry, Source};
use crate::orders::{self, Applied, Change, ConfigOrder, Findings, NotApplied, Order};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use titan_config::Config;
use titan_observe::events::Field;
use titan_proxy::Files;
use titan_proxy::sha256;
use tokio::sync::mpsc;
use tokio::time::Instant;

const SELF: Peer = Peer::Process { uid: 0, pid: Some(7) };

/// An interface, and what it asks the program for.
struct Desk {
    gateway: Gateway,
    _store: Option<Arc<RevocationStore>>,
    pages: Arc<Pages>,
    ordered: tokio::sync::Mutex<mpsc::Receiver<Order>>,
}

/// What a client says.
struct Ask<'a> {
    place: Place,
    peer: Peer,
    method: Method,
    target: &'a str,
    fields: &'a [(&'a str, &'a str)],
    body: &'a str,
}

impl Default for Ask<'_> {
    fn default() -> Self {
        Ask {
            place: Place::Unix,
            peer: SELF,
            method: Method::GET,
            target: "/",
            fields: &[("Host", "localhost")],
            body: "",
        }
    }
}

fn client(is_secure: bool) -> Peer {
    Peer::Client { address: SocketAddr::from(([127, 0, 0, 1], 4711)), is_secure }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// What the gateway was started with.
const FILE: &str = "/etc/titan.yaml";

impl Desk {
    fn new() -> Desk {
        Desk::with_store(None)
    }

    fn with_store(store: Option<Arc<RevocationStore>>) -> Desk {
        let digest = |token: &str| hex(sha256(token.as_bytes()));
        let text = format!(
            "{{ listeners: [127.0.0.1:0], workers: 1, \
             routes: [{{ respond: 200 }}, {{ path: /m, upstream: api, record_bodies: 1KiB, \
             mirror: {{ upstream: next, compare: {{}} }} }}], \
             upstreams: {{ api: {{ endpoints: [127.0.0.1:1], circuit_breaker: {{}} }}, next: '127.0.0.1:2' }}, admin: {{ tokens: {{ \
             ci: {{ sha256: {}, rights: full }}, board: {} }} }} }}",
            digest("all"),
            digest("look")
        );
        let config = Config::parse("test", &text).unwrap();
        let gateway = Gateway::start(&config, &Files::default(), None).unwrap();
        let access = Access::new(&config, &Files::default()).unwrap();
        let (orders, ordered) = orders::orders();
        let reloads = Arc::new(Reloads::new([0; 32]));
        reloads.note_sources(vec![description::source()]);
        let identity = Identity::of(Path::new(FILE));
        let pages =
            Arc::new(Pages::new(&gateway, &reloads, store.as_ref(), &access, (orders, identity)));
        Desk { gateway, _store: store, pages, ordered: tokio::sync::Mutex::new(ordered) }
    }

    /// The response of the server, and how long that took.
    async fn responds(&self, ask: &Ask<'_>) -> Response {
        let Ask { place, peer, method, target, fields, body } = ask;
        let mut head = RequestHead { method: *method, ..RequestHead::default() };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        head.set_path(path.as_bytes()).unwrap();
        head.set_query(Some(query.as_bytes()).filter(|it| !it.is_empty())).unwrap();
        for (name, value) in *fields {
            head.fields.append_named(name.as_bytes(), value.as_bytes()).unwrap();
        }
        let site = Site { pages: Arc::clone(&self.pages), place: *place };
        match site.admit(&head, peer).await {
            Ok(most) if body.len() > most => Response::problem(Status::CONTENT_TOO_LARGE, ""),
            Ok(_) => {
                site.respond(Request { head, body: body.as_bytes().to_vec(), peer: peer.clone() })
                    .await
            }
            Err(refusal) => refusal,
        }
    }

    /// Its status where nothing is asked of the program.
    fn status(&self, ask: &Ask<'_>) -> u16 {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(self.responds(ask)).head.status.code()
    }

    fn asks(&self, method: Method, target: &str) -> (u16, String) {
        let response = runtime().block_on(self.responds(&Ask { method, target, ..Ask::default() }));
        (response.head.status.code(), String::from_utf8(response.body).unwrap())
    }

    /// The response where the program does that with what it is asked for.
    async fn ordered(&self, ask: &Ask<'_>, program: impl FnOnce(Order)) -> (u16, Value) {
        let (response, ()) = tokio::join!(self.responds(ask), async {
            program(self.ordered.lock().await.recv().await.unwrap());
        });
        let document = serde_json::from_slice(&response.body).unwrap();
        (response.head.status.code(), document)
    }

    fn lines(&self) -> Vec<String> {
        let events = self.gateway.log().take();
        let calls = events.iter().filter(|event| event.kind() == "call");
        calls.map(|it| format!("{}: {}", it.field(Field::Caller).unwrap(), it.message())).collect()
    }
}

#[test]
fn ready_until_it_drains_and_alive_beyond() {
    let desk = Desk::new();
    assert_eq!(desk.asks(Method::GET, "/readyz"), (200, "ready\n".to_owned()));
    desk.gateway.drain();
    assert_eq!(desk.asks(Method::GET, "/readyz"), (503, "draining\n".to_owned()));
    assert_eq!(desk.asks(Method::GET, "/healthz"), (200, "ok\n".to_owned()));
}

#[test]
fn calls_have_their_methods_and_no_others() {
    let place = revocations::tests::Place::new();
    let desk = Desk::with_store(Some(Arc::new(place.opens().unwrap())));
    for path in ["/", "/healthz", "/readyz", "/metrics", "/openapi.json"] {
        assert_eq!(desk.asks(Method::GET, path).0, 200, "{path}");
        assert_eq!(desk.asks(Method::HEAD, path).0, 200, "{path}");
        assert_eq!(desk.asks(Method::POST, path).0, 405, "{path}");
    }
    for (method, path) in [
        (Method::POST, "/config"),
        (Method::GET, "/reload"),
        (Method::DELETE, "/history"),
        (Method::PUT, "/jwt/revocations"),
        (Method::DELETE, "/jwt/revocations"),
        (Method::GET, "/jwt/revocations/1"),
        (Method::OPTIONS, "/config"),
    ] {
        assert_eq!(desk.asks(method, path).0, 405, "{path}");
    }
    for path in ["/nothing", "/metrics/", "/config/", "/jwt/revocations/", "/jwt/revocations/1/2"] {
        assert_eq!(desk.asks(Method::GET, path).0, 404, "{path}");
    }
}

#[test]
fn the_index_lists_every_page() {
    // These are the list itself, and a way to a page that is in it.
    let is_listed = |entry: &&calls::Entry| !["/", "/dashboard"].contains(&entry.path);
    for entry in calls::CALLS.iter().filter(is_listed) {
        let path = entry.path.trim_end_matches("/{id}").trim_end_matches("{file}");
        assert!(INDEX.contains(&format!("\n{path} ")), "{path}");
    }
}

#[test]
fn probes_can_do_nothing_but_read() {
    let place = revocations::tests::Place::new();
    let desk = Desk::with_store(Some(Arc::new(place.opens().unwrap())));
    let probes = Probes { pages: Arc::clone(&desk.pages), place: Place::Network };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let status = |method, path: &str| {
        let mut head = RequestHead { method, ..RequestHead::default() };
        head.set_path(path.as_bytes()).unwrap();
        let request = Request { head, body: Vec::new(), peer: client(false) };
        runtime.block_on(probes.respond(request)).head.status.code()
    };
    for entry in calls::CALLS {
        let is_open = ["/", "/healthz", "/readyz", "/metrics"].contains(&entry.path);
        for method in [Method::GET, Method::PUT, Method::POST, Method::DELETE] {
            let wanted = match (is_open, method) {
                (true, Method::GET) => 200,
                (true, _) => 405,
                (false, _) => 404,
            };
            assert_eq!(status(method, entry.path), wanted, "{} {}", method.as_str(), entry.path);
        }
    }
    assert!(!PROBES.contains("config"));
}

#[test]
fn what_anybody_may_call_takes_no_body() {
    let desk = Desk::new();
    for (method, target, status) in [
        (Method::GET, "/metrics", 413),
        (Method::GET, "/config", 413),
        (Method::POST, "/confirm", 503),
    ] {
        let ask = Ask { method, target, body: "x", ..Ask::default() };
        desk.ordered.try_lock().unwrap().close();
        assert_eq!(desk.status(&ask), status, "{target}");
    }
    let probes = Probes { pages: Arc::clone(&desk.pages), place: Place::ThisMachine };
    let admitted = runtime().block_on(probes.admit(&RequestHead::default(), &client(false)));
    assert_eq!(admitted.ok(), Some(0));
}

#[tokio::test]
async fn a_call_whose_body_has_not_come_is_noted_too() {
    let desk = Desk::new();
    let give_up = |method, path: &[u8], token: &str, (status, why)| {
        let mut head = RequestHead { method, ..RequestHead::default() };
        head.set_path(path).unwrap();
        head.fields.append(FieldName::Authorization, token.as_bytes()).unwrap();
        let site = Site { pages: Arc::clone(&desk.pages), place: Place::ThisMachine };
        site.give_up(&head, &client(false), status, why);
    };
    let late = (Status::REQUEST_TIMEOUT, "late");
    give_up(Method::PUT, b"/config", "Bearer all", (Status::CONTENT_TOO_LARGE, "large"));
    give_up(Method::POST, b"/plan", "Bearer all", (Status::SERVICE_UNAVAILABLE, "no room"));
    give_up(Method::POST, b"/reload", "Bearer gone", late);
    give_up(Method::GET, b"/config", "Bearer all", late);
    assert_eq!(
        desk.lines(),
        [
            "token ci from 127.0.0.1:4711: PUT /config: refused (413): large",
            "token ci from 127.0.0.1:4711: POST /plan: failed (503): no room",
            "127.0.0.1:4711: POST /reload: denied (401): this is none of the tokens in `admin.tokens`",
        ]
    );
}

#[tokio::test]
async fn a_denied_call_is_noted_with_the_token_that_it_had() {
    let desk = Desk::new();
    let host = ("Host", "localhost");
    let ask = async |fields: &[(&str, &str)]| {
        let (place, peer, method, target) =
            (Place::ThisMachine, client(false), Method::POST, "/reload");
        desk.responds(&Ask { place, peer, method, target, fields, ..Ask::default() }).await;
    };
    for _ in 0..20 {
        ask(&[host]).await;
    }
    assert_eq!(desk.lines().len(), 10, "anybody can cause these");
    let token = ("Authorization", "Bearer all");
    ask(&[host, token, ("Content-Type", "text/plain")]).await;
    ask(&[host, token, ("Origin", "null")]).await;
    ask(&[("Host", "evil.example"), token]).await;
    let lines = desk.lines();
    for (line, status) in lines.iter().zip([415, 403, 403]) {
        let start = format!("token ci from 127.0.0.1:4711: POST /reload: denied ({status}): ");
        assert!(line.starts_with(&start), "{line}");
    }
    assert_eq!(lines.len(), 3);
}

#[test]
fn over_tcp_a_token_says_what_may_be_called() {
    let place = revocations::tests::Place::new();
    let desk = Desk::with_store(Some(Arc::new(place.opens().unwrap())));
    let open = (Method::GET, "/metrics");
    let read = (Method::GET, "/jwt/revocations");
    let write = (Method::DELETE, "/jwt/revocations/1");
    let none: &[(&str, &str)] = &[("Host", "localhost")];
    let token = |token| vec![("Host", "127.0.0.1"), ("Authorization", token)];
    let (look, all) = (token("Bearer look"), token("bearer all"));
    let (wrong, other) = (token("Bearer al"), token("Basic all"));
    let twice = [token("Bearer all"), token("Bearer look")].concat();
    for (fields, statuses) in [
        (none, [200, 401, 401]),
        (&look, [200, 200, 403]),
        (&all, [200, 200, 404]),
        (&wrong, [200, 401, 401]),
        (&other, [200, 401, 401]),
        (&twice[..], [200, 401, 401]),
    ] {
        let got = [open, read, write].map(|(method, target)| {
            let (place, peer) = (Place::ThisMachine, client(false));
            desk.status(&Ask { place, peer, method, target, fields, ..Ask::default() })
        });
        assert_eq!(got, statuses, "{fields:?}");
    }
    // On a network no token is taken without TLS, however right it is.
    for (is_secure, status) in [(false, 403), (true, 404)] {
        let (place, peer, (method, target)) = (Place::Network, client(is_secure), write);
        let ask = Ask { place, peer, method, target, fields: &all, ..Ask::default() };
        assert_eq!(desk.status(&ask), status);
    }
}

#[test]
fn tokens_and_their_rights_can_change_while_it_runs() {
    let desk = Desk::new();
    let fields = &[("Host", "localhost"), ("Authorization", "Bearer all")];
    let status = || {
        let (place, peer) = (Place::ThisMachine, client(false));
        desk.status(&Ask { place, peer, target: "/jwt/revocations", fields, ..Ask::default() })
    };
    assert_eq!(status(), 404);
    let text = "{ listeners: [127.0.0.1:0], routes: [{ respond: 200 }] }";
    let without = Config::parse("test", text).unwrap();
    desk.pages.access.replace(Access::prepare(&without, &Files::default()).unwrap());
    assert_eq!(status(), 403, "there are no tokens any more");
}

#[test]
fn over_a_unix_socket_only_root_and_the_user_of_the_process_may_call() {
    let desk = Desk::new();
    let ours = rustix::process::geteuid().as_raw();
    for (uid, status) in [(0, 404), (ours, 404), (ours + 1, 403), (u32::MAX, 403)] {
        let peer = Peer::Process { uid, pid: None };
        let ask = Ask { peer, target: "/jwt/revocations", ..Ask::default() };
        assert_eq!(desk.status(&ask), status, "{uid}");
    }
}

#[test]
fn a_name_that_leads_here_opens_nothing_that_is_for_this_machine() {
    let desk = Desk::new();
    let status = |place, host: &str| {
        let fields = &[("Host", host)];
        let peer = client(false);
        desk.status(&Ask { place, peer, target: "/metrics", fields, ..Ask::default() })
    };
    for host in ["localhost", "LocalHost:8484", "127.0.0.1:8484", "192.0.2.1", "[::1]:9", "[::1]"] {
        assert_eq!(status(Place::ThisMachine, host), 200, "{host}");
    }
    for host in
        ["evil.example:8484", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80"]
    {
        assert_eq!(status(Place::ThisMachine, host), 403, "{host}");
        assert_eq!(status(Place::Network, host), 200, "{host}");
    }
    let peer = client(false);
    let place = Place::ThisMachine;
    let ask = Ask { place, peer, target: "/metrics", fields: &[], ..Ask::default() };
    assert_eq!(desk.status(&ask), 200, "a client of HTTP/1.0 is no browser");
}

#[test]
fn a_name_that_leads_to_the_probes_of_this_machine_opens_nothing() {
    let desk = Desk::new();
    for (place, host, status) in [
        (Place::ThisMachine, "evil.example:9090", 403),
        (Place::ThisMachine, "127.0.0.1:9090", 200),
        (Place::ThisMachine, "localhost:9090", 200),
        // The kubelet, and a scrape by name.
        (Place::Network, "10.1.2.3:9090", 200),
        (Place::Network, "gateway.internal:9090", 200),
    ] {
        let probes = Probes { pages: Arc::clone(&desk.pages), place };
        let mut head = RequestHead::default();
        head.fields.append(FieldName::Host, host.as_bytes()).unwrap();
        let refused = runtime().block_on(probes.admit(&head, &client(false))).err();
        assert_eq!(refused.map_or(200, |it| it.head.status.code()), status, "{host}");
    }
}

/// The requests that browsers send for a page of another origin, or of this one: all of them with a right token, which a
/// page would have to know.
#[test]
fn a_page_in_a_browser_can_change_nothing() {
    const HOST: (&str, &str) = ("Host", "127.0.0.1:8484");
    const TOKEN: (&str, &str) = ("Authorization", "Bearer all");
    const CROSS: (&str, &str) = ("Sec-Fetch-Site", "cross-site");
    const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");
    let desk = Desk::new();
    type Case<'a> = (&'a str, Method, &'a str, &'a [(&'a str, &'a str)], u16);
    let cases: &[Case<'_>] = &[
        (
            "a form",
            Method::POST,
            "/reload",
            &[HOST, ("Origin", "https://evil.example"), CROSS, FORM],
            403,
        ),
        ("a form of an old browser", Method::POST, "/reload", &[HOST, TOKEN, FORM], 415),
        (
            "a file in a form",
            Method::POST,
            "/reload",
            &[HOST, TOKEN, ("Content-Type", "multipart/form-data; boundary=x")],
            415,
        ),
        (
            "fetch, no-cors",
            Method::POST,
            "/reload",
            &[HOST, TOKEN, ("Origin", "null"), CROSS, ("Content-Type", "text/plain;charset=UTF-8")],
            403,
        ),
        (
            "a beacon of an old browser",
            Method::POST,
            "/rollback",
            &[HOST, TOKEN, ("Content-Type", "text/plain;charset=UTF-8")],
            415,
        ),
        (
            "fetch of the same site",
            Method::POST,
            "/confirm",
            &[HOST, TOKEN, ("Sec-Fetch-Site", "same-site")],
            403,
        ),
        (
            "fetch of this origin",
            Method::PUT,
            "/config",
            &[HOST, TOKEN, ("Sec-Fetch-Site", "same-origin")],
            403,
        ),
        (
            "an origin alone",
            Method::DELETE,
            "/jwt/revocations/1",
            &[HOST, TOKEN, ("Origin", "http://127.0.0.1:8484")],
            403,
        ),
        (
            "a preflight",
            Method::OPTIONS,
            "/config",
            &[
                HOST,
                ("Origin", "https://evil.example"),
                CROSS,
                ("Access-Control-Request-Method", "PUT"),
                ("Access-Control-Request-Headers", "authorization"),
            ],
            405,
        ),
        (
            "a name that leads here",
            Method::POST,
            "/reload",
            &[("Host", "evil.example"), TOKEN],
            403,
        ),
        (
            "an image",
            Method::GET,
            "/jwt/revocations",
            &[HOST, TOKEN, CROSS, ("Sec-Fetch-Mode", "no-cors"), ("Sec-Fetch-Dest", "image")],
            403,
        ),
        (
            "a link",
            Method::GET,
            "/jwt/revocations",
            &[HOST, CROSS, ("Sec-Fetch-Mode", "navigate")],
            403,
        ),
        (
            "an address that was typed",
            Method::GET,
            "/jwt/revocations",
            &[HOST, TOKEN, ("Sec-Fetch-Site", "none")],
            404,
        ),
        (
            "what no address bar sends",
            Method::POST,
            "/reload",
            &[HOST, TOKEN, ("Sec-Fetch-Site", "none")],
            403,
        ),
    ];
    for (name, method, target, fields, status) in cases {
        for place in [Place::ThisMachine, Place::Network] {
            // A name is one of this interface's own on a network, where a page does not know the token.
            if place == Place::Network && fields.contains(&("Host", "evil.example")) {
                continue;
            }
            let ask = Ask { place, peer: client(true), method: *method, target, fields, body: "" };
            assert_eq!(desk.status(&ask), *status, "{name}");
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let fields = &[HOST, ("Origin", "https://evil.example")];
    let target = "/metrics";
    let peer = client(false);
    let ask = Ask { place: Place::ThisMachine, peer, target, fields, ..Ask::default() };
    let response = runtime.block_on(desk.responds(&ask));
    let allows = response.head.fields.named(b"Access-Control-Allow-Origin").next();
    assert_eq!(allows, None, "no page may read what it gets");
    assert_eq!(response.head.fields.get(FieldName::SetCookie), None);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_token_costs_its_connection_a_second_and_is_counted() {
    let desk = Desk::new();
    let fields = &[("Host", "localhost"), ("Authorization", "Bearer guess")];
    let ask = Ask {
        place: Place::ThisMachine,
        peer: client(false),
        target: "/config",
        fields,
        ..Ask::default()
    };
    let started = Instant::now();
    let response = desk.responds(&ask).await;
    assert_eq!((response.head.status.code(), response.is_last), (401, false));
    assert_eq!(started.elapsed(), PENALTY);
    let challenge = response.head.fields.get(FieldName::WwwAuthenticate).unwrap();
    assert_eq!(challenge, b"Bearer error=\"invalid_token\"");
    assert_eq!(desk.pages.access.refused(), 1);

    let started = Instant::now();
    let mut waiting: Vec<_> = (0..PENALTIES).map(|_| Box::pin(desk.responds(&ask))).collect();
    for one in &mut waiting {
        tokio::select! { biased; _ = one => unreachable!(), () = async {} => {} }
    }
    let one_more = desk.responds(&ask).await;
    assert_eq!((one_more.head.status.code(), one_more.is_last), (401, true));
    assert_eq!(started.elapsed(), Duration::ZERO, "it takes no place from anybody");
    for one in waiting {
        assert!(!one.await.is_last);
    }
    assert!(!desk.responds(&ask).await.is_last, "they have made room");
    assert_eq!(desk.pages.access.refused(), 3 + PENALTIES as u64);
}

/// An entry of the history, as the program tells of one.
fn entry() -> Entry {
    Entry {
        id: 3,
        at: SystemTime::UNIX_EPOCH.into(),
        source: Source::Admin,
        author: Some(Author::Peer { uid: 0, pid: Some(7) }),
        in_force: true,
        repeats: None,
        outcome: history::Outcome::Applied,
        why: None,
        sha256: hex([0xab; 32]),
    }
}

#[tokio::test]
async fn every_call_that_changes_something_is_noted_with_who_made_it() {
    let desk = Desk::new();
    let target = "/jwt/revocations/1";
    let token = [("Host", "localhost"), ("Authorization", "Bearer all")];
    let reads = [("Host", "localhost"), ("Authorization", "Bearer look")];
    for (peer, fields) in
        [(SELF, &[][..]), (client(false), &token), (client(false), &reads), (client(false), &[])]
    {
        let place = if peer == SELF { Place::Unix } else { Place::ThisMachine };
        desk.responds(&Ask {
            place,
            peer,
            method: Method::DELETE,
            target,
            fields,
            ..Ask::default()
        })
        .await;
    }
    let lines = desk.lines();
    for (line, start) in lines.iter().zip([
        "uid 0 (pid 7): DELETE /jwt/revocations/1: refused (404)",
        "token ci from 127.0.0.1:4711: DELETE /jwt/revocations/1: refused (404)",
        "token board from 127.0.0.1:4711: DELETE /jwt/revocations/1: denied (403): this token has `rights: read`",
        "127.0.0.1:4711: DELETE /jwt/revocations/1: denied (401): this needs a token",
    ]) {
        assert!(line.starts_with(start), "{line}");
    }
    assert_eq!(lines.len(), 4);
    desk.responds(&Ask { target: "/jwt/revocations", ..Ask::default() }).await;
    assert_eq!(desk.lines().len(), 0, "nothing is changed");
    let target = format!("/reload?{}", "x".repeat(5000));
    desk.responds(&Ask { method: Method::POST, target: &target, ..Ask::default() }).await;
    let lines = desk.lines();
    assert!(lines[0].ends_with("xxx…: refused (400)") && lines[0].len() < 300, "{lines:?}");
}
