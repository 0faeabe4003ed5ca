//! Signing in, and what a browser may do then.

use super::*;

const HOST: (&str, &str) = ("Host", "127.0.0.1:8484");
const OWN: (&str, &str) = ("Origin", "http://127.0.0.1:8484");
const SAME: (&str, &str) = ("Sec-Fetch-Site", "same-origin");
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// What a browser is given for a token.
struct SignedIn {
    cookie: String,
    csrf: String,
}

impl Desk {
    async fn browses(
        &self,
        (method, target): (Method, &str),
        fields: &[(&str, &str)],
        body: &str,
    ) -> Response {
        let (place, peer) = (Place::ThisMachine, client(false));
        self.responds(&Ask { place, peer, method, target, fields, body }).await
    }

    async fn signs_in(&self, token: &str) -> SignedIn {
        let body = json!({ "token": token }).to_string();
        let fields = [HOST, OWN, SAME, JSON];
        let response = self.browses((Method::POST, "/session"), &fields, &body).await;
        assert_eq!(response.head.status, Status::OK);
        let cookie = response.head.fields.get(FieldName::SetCookie).unwrap();
        let cookie = std::str::from_utf8(cookie).unwrap();
        let (cookie, rest) = cookie.split_once("; ").unwrap();
        assert_eq!(rest, "HttpOnly; SameSite=Strict; Path=/; Max-Age=43200");
        let shown: Value = serde_json::from_slice(&response.body).unwrap();
        SignedIn { cookie: cookie.to_owned(), csrf: shown["csrf"].as_str().unwrap().to_owned() }
    }
}

fn shown(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap()
}

#[tokio::test]
async fn a_browser_signs_in_reads_changes_and_signs_out() {
    let desk = Desk::new();
    desk.ordered.lock().await.close();
    let SignedIn { cookie, csrf } = desk.signs_in("all").await;
    let (cookie, csrf) = (("Cookie", cookie.as_str()), ("X-CSRF-Token", csrf.as_str()));
    let get = (Method::GET, "/session");
    let who = desk.browses(get, &[HOST, SAME, cookie], "").await;
    assert_eq!(who.head.fields.get(FieldName::CacheControl), Some(&b"no-store"[..]));
    let who = shown(&who);
    assert_eq!(
        (&who["user"], &who["rights"], &who["csrf"]),
        (&json!("ci"), &json!("full"), &json!(csrf.1))
    );
    let left = who["expires"].as_u64().unwrap() - revocations::now();
    assert!((12 * 3600 - 60..=12 * 3600).contains(&left), "{left}");
    let reads = desk.browses((Method::GET, "/upstreams"), &[HOST, SAME, cookie], "").await;
    assert_eq!(reads.head.status, Status::OK);
    let order = json!({ "action": "drain", "endpoint": "127.0.0.1:1" }).to_string();
    let call = (Method::POST, "/upstreams/api");
    let fields = [HOST, OWN, SAME, JSON, cookie, csrf];
    assert_eq!(desk.browses(call, &fields, &order).await.head.status, Status::NO_CONTENT);
    let out =
        desk.browses((Method::DELETE, "/session"), &[HOST, OWN, SAME, cookie, csrf], "").await;
    assert_eq!(out.head.status, Status::NO_CONTENT);
    let gone = out.head.fields.get(FieldName::SetCookie).unwrap();
    assert!(gone.starts_with(b"titan_session=; ") && gone.ends_with(b"; Max-Age=0"));
    assert_eq!(desk.browses(get, &[HOST, SAME, cookie], "").await.head.status.code(), 401);
    assert_eq!(
        desk.lines(),
        [
            "127.0.0.1:4711: POST /session: done (200): as ci",
            "session ci from 127.0.0.1:4711: POST /upstreams/api: done (204): drain 127.0.0.1:1 for 900s",
            "session ci from 127.0.0.1:4711: DELETE /session: done (204)",
        ]
    );
}

#[tokio::test]
async fn who_may_only_read_changes_nothing_with_a_session_either() {
    let desk = Desk::new();
    let SignedIn { cookie, csrf } = desk.signs_in("look").await;
    let fields = [HOST, OWN, SAME, ("Cookie", &cookie), ("X-CSRF-Token", &csrf)];
    for (method, target) in [
        (Method::POST, "/reload"),
        (Method::PUT, "/config"),
        (Method::POST, "/plan"),
        (Method::POST, "/upstreams/api"),
        (Method::PUT, "/log"),
        (Method::POST, "/upgrade"),
    ] {
        let response = desk.browses((method, target), &fields, "").await;
        assert_eq!(response.head.status, Status::FORBIDDEN, "{target}");
    }
    let lines = desk.lines();
    assert!(lines[1].starts_with("session board from 127.0.0.1:4711: POST /reload: denied (403)"));
    let out = desk.browses((Method::DELETE, "/session"), &fields, "").await;
    assert_eq!(out.head.status, Status::NO_CONTENT, "but leave");
}

/// What browsers send for other pages, with the cookie, as if they did not know `SameSite`.
#[tokio::test]
async fn a_session_is_of_use_to_no_other_page() {
    let desk = Desk::new();
    desk.ordered.lock().await.close();
    let SignedIn { cookie, csrf } = desk.signs_in("all").await;
    let other = desk.signs_in("all").await;
    let (cookie, csrf) = (("Cookie", cookie.as_str()), ("X-CSRF-Token", csrf.as_str()));
    let foreign = ("X-CSRF-Token", other.csrf.as_str());
    let site = |site| ("Sec-Fetch-Site", site);
    let origin = |origin| ("Origin", origin);
    let post = (Method::POST, "/reload");
    let get = (Method::GET, "/upstreams");
    type Case<'a> = (&'a str, (Method, &'a str), &'a [(&'a str, &'a str)], u16);
    let cases: &[Case<'_>] = &[
        ("our page", post, &[HOST, OWN, SAME, csrf], 503),
        ("an old browser", post, &[HOST, OWN, csrf], 503),
        ("no CSRF token", post, &[HOST, OWN, SAME], 403),
        ("that of another session", post, &[HOST, OWN, SAME, foreign], 403),
        ("an empty one", post, &[HOST, OWN, SAME, ("X-CSRF-Token", "")], 403),
        ("two", post, &[HOST, OWN, SAME, csrf, foreign], 403),
        ("no word of where it comes from", post, &[HOST, csrf], 403),
        ("another origin", post, &[HOST, origin("https://evil.example"), csrf], 403),
        ("another port", post, &[HOST, origin("http://127.0.0.1:8485"), csrf], 403),
        ("no origin", post, &[HOST, origin("null"), csrf], 403),
        ("two origins", post, &[HOST, OWN, origin("http://evil.example"), csrf], 403),
        ("the same site", post, &[HOST, OWN, site("same-site"), csrf], 403),
        ("another site", post, &[HOST, OWN, site("cross-site"), csrf], 403),
        ("what no address bar sends", post, &[HOST, site("none"), csrf], 403),
        ("a form", post, &[HOST, OWN, SAME, csrf, ("Content-Type", "text/plain")], 415),
        ("a program", post, &[HOST, OWN, csrf, ("Authorization", "Bearer all")], 403),
        ("a name that leads here", get, &[("Host", "evil.example")], 403),
        ("reading", get, &[HOST, SAME], 200),
        ("an address that was typed", get, &[HOST, site("none")], 200),
        ("an image elsewhere", get, &[HOST, site("cross-site")], 403),
        ("fetch elsewhere", get, &[HOST, origin("https://evil.example")], 403),
        ("a sibling", get, &[HOST, site("same-site")], 403),
    ];
    for (name, call, fields, status) in cases {
        let fields = [*fields, &[cookie]].concat();
        assert_eq!(desk.browses(*call, &fields, "").await.head.status.code(), *status, "{name}");
    }
    let upgrade = (Method::POST, "/upgrade");
    let response = desk.browses(upgrade, &[HOST, OWN, SAME, csrf, cookie], "").await;
    assert_eq!(response.head.status, Status::FORBIDDEN, "no session executes a program");
}

#[tokio::test]
async fn nobody_is_signed_in_by_another_page() {
    let desk = Desk::new();
    let body = "{\"token\":\"look\"}";
    let post = (Method::POST, "/session");
    for (fields, status) in [
        (&[HOST, JSON][..], 200),
        (&[HOST, JSON, ("Origin", "https://evil.example")], 403),
        (&[HOST, JSON, ("Sec-Fetch-Site", "cross-site")], 403),
        (&[HOST, OWN, ("Content-Type", "text/plain")], 415),
        (&[HOST, OWN], 400),
        (&[("Host", "evil.example"), JSON], 403),
    ] {
        let response = desk.browses(post, fields, body).await;
        assert_eq!(response.head.status.code(), status, "{fields:?}");
        assert_eq!(response.head.fields.get(FieldName::SetCookie).is_some(), status == 200);
    }
}

#[tokio::test]
async fn nobody_is_signed_in_where_others_read_along() {
    let desk = Desk::new();
    let asks = async |method, target, is_secure, fields: &[(&str, &str)], body| {
        let (place, peer) = (Place::Network, client(is_secure));
        desk.responds(&Ask { place, peer, method, target, fields, body }).await
    };
    let host = ("Host", "gw.example");
    let signs_in = async |is_secure| {
        let body = "{\"token\":\"all\"}";
        asks(Method::POST, "/session", is_secure, &[host, JSON], body).await
    };
    assert_eq!(signs_in(false).await.head.status, Status::FORBIDDEN);
    let response = signs_in(true).await;
    let cookie = response.head.fields.get(FieldName::SetCookie).unwrap();
    assert!(cookie.ends_with(b"; Secure"));
    let cookie = std::str::from_utf8(cookie).unwrap().split(';').next().unwrap();
    for (origin, is_secure, status) in [
        ("https://gw.example", true, 200),
        ("http://gw.example", true, 403),
        ("https://gw.example", false, 403),
    ] {
        let fields = [host, ("Cookie", cookie), ("Origin", origin)];
        let response = asks(Method::GET, "/upstreams", is_secure, &fields, "").await;
        assert_eq!(response.head.status.code(), status, "{origin}");
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_are_not_guessed_by_signing_in() {
    let desk = Desk::new();
    let post = (Method::POST, "/session");
    let guess = || desk.browses(post, &[HOST, OWN, JSON], "{\"token\":\"guess\"}");
    let started = Instant::now();
    let response = guess().await;
    assert_eq!((response.head.status.code(), response.is_last), (401, false));
    assert_eq!(started.elapsed(), PENALTY);
    let mut waiting: Vec<_> = (0..PENALTIES).map(|_| Box::pin(guess())).collect();
    for one in &mut waiting {
        tokio::select! { biased; _ = one => unreachable!(), () = async {} => {} }
    }
    let one_more = guess().await;
    assert_eq!((one_more.head.status.code(), one_more.is_last), (401, true));
    desk.signs_in("all").await;
    assert_eq!(desk.pages.access.refused(), 2 + PENALTIES as u64);
    let lines = desk.lines();
    assert_eq!(lines[0], "127.0.0.1:4711: POST /session: denied (401)");
    assert!(!lines.concat().contains("guess"), "what is presented is told to nobody");
}

#[tokio::test]
async fn who_calls_is_told_without_a_session_too() {
    let desk = Desk::new();
    let get = (Method::GET, "/session");
    let token = ("Authorization", "Bearer look");
    let by_token = shown(&desk.browses(get, &[HOST, token], "").await);
    let wanted = json!({ "user": "board", "rights": "read", "csrf": null, "expires": null, "trace_url": null });
    assert_eq!(by_token, wanted);
    let process = desk.responds(&Ask { target: "/session", ..Ask::default() }).await;
    let wanted = json!({ "user": "uid 0", "rights": "full", "csrf": null, "expires": null, "trace_url": null });
    assert_eq!(shown(&process), wanted);
    assert_eq!(desk.browses(get, &[HOST, SAME], "").await.head.status.code(), 401);
}

#[tokio::test]
async fn whoever_signs_in_again_leaves_no_session_behind() {
    let desk = Desk::new();
    let first = desk.signs_in("look").await;
    let (first, body) = (("Cookie", first.cookie.as_str()), json!({ "token": "all" }).to_string());
    let post = (Method::POST, "/session");
    let wrong = desk.browses(post, &[HOST, OWN, SAME, first, JSON], "{}").await;
    assert_eq!(wrong.head.status, Status::BAD_REQUEST);
    let reads = async || {
        let response = desk.browses((Method::GET, "/upstreams"), &[HOST, SAME, first], "").await;
        response.head.status.code()
    };
    assert_eq!(reads().await, 200);
    let again = desk.browses(post, &[HOST, OWN, SAME, first, JSON], &body).await;
    assert_eq!(again.head.status, Status::OK);
    assert_eq!(reads().await, 401);
    let delete = (Method::DELETE, "/session");
    let out = desk.browses(delete, &[HOST, OWN, SAME, first], "").await;
    assert_eq!(out.head.status, Status::NO_CONTENT, "that session has ended");
    let gone = out.head.fields.get(FieldName::SetCookie).unwrap();
    assert!(gone.ends_with(b"; Max-Age=0"));
    let evil = ("Origin", "https://evil.example");
    assert_eq!(desk.browses(delete, &[HOST, evil, first], "").await.head.status.code(), 403);
}

#[tokio::test]
async fn streams_end_with_the_session() {
    let desk = Desk::new();
    let SignedIn { cookie, csrf } = desk.signs_in("look").await;
    let mut head = RequestHead::default();
    head.set_path(b"/figures/live").unwrap();
    for (name, value) in [HOST, SAME, ("Cookie", &cookie)] {
        head.fields.append_named(name.as_bytes(), value.as_bytes()).unwrap();
    }
    let site = Site { pages: Arc::clone(&desk.pages), place: Place::ThisMachine };
    assert!(site.may_go_on(&head, &client(false)));
    let fields = [HOST, OWN, SAME, ("Cookie", &cookie), ("X-CSRF-Token", &csrf)];
    desk.browses((Method::DELETE, "/session"), &fields, "").await;
    assert!(!site.may_go_on(&head, &client(false)));
}
