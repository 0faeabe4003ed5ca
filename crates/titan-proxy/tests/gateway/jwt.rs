//! The identity of a request, by its token.

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::hmac;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use titan_proxy::Files;
use titan_testkit::h2::Head;
use titan_testkit::upstream::{self, Upstream, ok};
use titan_testkit::{
    Certificate, Gateway, Request, Response, certificate, gateway, start_with, usual, waits_until,
};

const SECRET: &str = "forty bytes that nobody but us can guess";
const OTHER: &str = "forty bytes that are another secret, too";

/// Seconds since 1970, and so many more.
pub(super) fn at(more: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
    i64::try_from(now.as_secs()).expect("it is not that late") + more
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn signed(header: &str, claims: &str, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let signed = format!("{}.{}", encoded(header), encoded(claims));
    format!("{signed}.{}", encoded(sign(signed.as_bytes())))
}

/// A token of these claims with the secret.
pub(super) fn token(claims: &str) -> String {
    token_by(SECRET, claims)
}

fn token_by(secret: &str, claims: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    signed("{\"alg\":\"HS256\"}", claims, |text| hmac::sign(&key, text).as_ref().to_vec())
}

/// A valid token.
fn good() -> String {
    token(&format!("{{\"sub\":\"ann\",\"exp\":{}}}", at(60)))
}

pub(super) const PROVIDER: &str =
    "providers: { algorithms: HS256, keys: { secret: forty bytes that nobody but us can guess } }";

/// A gateway that asks for tokens, with these fields in its policy, in front of an upstream.
fn under(fields: &str) -> (Gateway, Upstream) {
    let upstream = upstream::replies(ok("x"));
    (gateway(&file(fields), &[&upstream]), upstream)
}

fn file(fields: &str) -> String {
    format!("policies: {{ p: {{ jwt: {{ {fields} }} }} }}\napply: [p]")
}

/// What a client gets with that token.
pub(crate) fn gets(gateway: &Gateway, token: &str) -> Response {
    asks(gateway, "/", &format!("Authorization: Bearer {token}\r\n"))
}

fn asks(gateway: &Gateway, target: &str, fields: &str) -> Response {
    gateway.asks(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
}

/// The last request that the upstream got.
fn last(upstream: &Upstream) -> Request {
    upstream.requests().pop().expect("it got one")
}

fn refused(gateway: &Gateway, reason: &str) -> u64 {
    gateway.metrics().of_policies("titan_jwt_refused_total", reason)
}

// field: policy.jwt, jwt_keys.secret
#[test]
fn a_request_needs_a_good_token() {
    let (gateway, upstream) = under(PROVIDER);
    gets(&gateway, &good()).has_body("x").lacks("www-authenticate");
    asks(&gateway, "/", "")
        .has_field("www-authenticate", "Bearer realm=\"gateway\"")
        .has_problem(401, "token-missing");
    let refused_field = "Bearer realm=\"gateway\", error=\"invalid_token\"";
    gets(&gateway, &token_by(OTHER, &format!("{{\"exp\":{}}}", at(60))))
        .has_field("www-authenticate", refused_field)
        .has_problem(401, "token-invalid");
    gets(&gateway, &token(&format!("{{\"exp\":{}}}", at(-60))))
        .has_field("www-authenticate", refused_field)
        .has_problem(401, "token-invalid");
    asks(&gateway, "/", "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n")
        .has_field("www-authenticate", "Bearer realm=\"gateway\", error=\"invalid_request\"")
        .has_problem(400, "token-ambiguous");
    assert_eq!(upstream.requests().len(), 1);
    assert_eq!((refused(&gateway, "signature"), refused(&gateway, "expired")), (1, 1));
}

// field: jwt_provider.algorithms, jwt_provider.keys, jwt_keys.pem, jwt_keys.secret_file, jwt_keys.jwks
#[test]
fn keys_come_from_files() {
    let key = Ed25519KeyPair::generate().expect("there is randomness");
    let der: PublicKeyX509Der<'_> = key.public_key().as_der().expect("it can be written");
    let pem = format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        STANDARD.encode(der.as_ref())
    );
    let jwks = format!(
        "{{\"keys\":[{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"k\",\"x\":\"{}\"}}]}}",
        encoded(key.public_key())
    );
    let by_key =
        signed("{\"alg\":\"EdDSA\",\"kid\":\"k\"}", &format!("{{\"exp\":{}}}", at(60)), |text| {
            key.sign(text).as_ref().to_vec()
        });
    for (kind, algorithm, text, token) in [
        ("pem", "EdDSA", pem, &by_key),
        ("jwks", "EdDSA", jwks, &by_key),
        ("secret_file", "HS256", format!("{SECRET}\n"), &good()),
    ] {
        let policy = format!("providers: {{ algorithms: {algorithm}, keys: {{ {kind}: key }} }}");
        let upstream = upstream::replies(ok("x"));
        let starts = |bytes: &str| start_with(&file(&policy), &[&upstream], &files("key", bytes));
        let gateway = starts(&text).unwrap_or_else(|error| panic!("{error}"));
        gets(&gateway, token).has_body("x");
        let error = starts("{}").map(drop).expect_err("these are no keys").to_string();
        assert!(error.starts_with("key cannot be used: "), "{error}");
    }
}

/// The files of a gateway, with that one among them.
fn files(name: &str, bytes: &str) -> Files {
    let mut files = Certificate::files(&[("usual", usual())]);
    files.insert(name.into(), bytes.as_bytes().to_vec());
    files
}

#[test]
fn with_other_keys_tokens_of_the_old_ones_are_no_longer_valid() {
    let policy = "providers: { algorithms: HS256, keys: { secret_file: key } }";
    let upstream = upstream::replies(ok("x"));
    let gateway = start_with(&file(policy), &[&upstream], &files("key", SECRET));
    let gateway = gateway.unwrap_or_else(|error| panic!("{error}"));
    let old = good();
    gets(&gateway, &old).has_body("x");
    gets(&gateway, &old).has_body("x");
    assert!(gateway.rereads(&files("key", "short")).is_err());
    gets(&gateway, &old).has_body("x");
    gateway.rereads(&files("key", OTHER)).expect("it can be used");
    gets(&gateway, &old).has_problem(401, "token-invalid");
    gets(&gateway, &token_by(OTHER, &format!("{{\"exp\":{}}}", at(60)))).has_body("x");
}

// field: jwt.token, jwt_token.scheme, jwt_token.cookie, jwt_token.query
#[test]
fn a_token_is_where_the_policy_says() {
    let places = "token: [{ scheme: Token }, { cookie: session }, { query: access_token }]";
    let (gateway, upstream) = under(&format!("{PROVIDER}, {places}"));
    let good = good();
    asks(&gateway, "/?a=1", &format!("Authorization: token {good}\r\nCookie: b=2\r\n"))
        .has_body("x");
    assert_eq!(last(&upstream).message.field("authorization"), None);
    asks(&gateway, "/", &format!("Cookie: a=1; session={good}; b=2\r\n")).has_body("x");
    assert_eq!(last(&upstream).message.field("cookie"), Some("a=1; b=2"));
    asks(&gateway, &format!("/p?a=1&access_token={good}&b"), "").has_body("x");
    assert_eq!(last(&upstream).target, "/p?a=1&b");
    asks(&gateway, "/", &format!("Authorization: Bearer {good}\r\n"))
        .has_field("www-authenticate", "Token realm=\"gateway\"")
        .has_problem(401, "token-missing");
    asks(&gateway, &format!("/?access_token={good}"), &format!("Cookie: session={good}\r\n"))
        .has_problem(400, "token-ambiguous");
}

// field: jwt.forward
#[test]
fn the_upstream_gets_the_token_where_the_policy_says_so() {
    let places = "token: [{ scheme: Bearer }, { cookie: session }], forward: true";
    let (gateway, upstream) = under(&format!("{PROVIDER}, {places}"));
    let good = good();
    gets(&gateway, &good).has_body("x");
    let forwarded = format!("Bearer {good}");
    assert_eq!(last(&upstream).message.field("authorization"), Some(forwarded.as_str()));
    let fields = format!("Cookie: session={good}\r\nAuthorization: Basic YTpi\r\n");
    asks(&gateway, "/", &fields).has_body("x");
    let request = last(&upstream);
    assert_eq!(request.message.field("authorization"), Some(forwarded.as_str()));
    assert_eq!(request.message.field("cookie"), None);
}

// field: jwt.headers
#[test]
fn claims_reach_the_upstream_in_fields_that_no_client_can_write() {
    let headers = "headers: { X-User: sub, X-Roles: /realm/roles }";
    let upstream = upstream::replies(ok("x"));
    let text = format!(
        "{}\nroutes: [{{ prefix: /, upstream: u }}, {{ prefix: /open, upstream: u, without: [jwt] }}]",
        file(&format!("{PROVIDER}, {headers}"))
    );
    let gateway = gateway(&text, &[&upstream]);
    let forged = "X-User: root\r\nx_user: root\r\nX-ROLES: admin\r\nX-Users: kept\r\n";
    let claims =
        format!("{{\"sub\":\"ann\",\"exp\":{},\"realm\":{{\"roles\":[\"a\",\"b\"]}}}}", at(60));
    asks(&gateway, "/", &format!("{forged}Authorization: Bearer {}\r\n", token(&claims)))
        .has_body("x");
    let request = last(&upstream);
    assert_eq!(request.message.field("x-user"), Some("ann"));
    assert_eq!(request.message.field("x-roles"), Some("a,b"));
    assert_eq!(request.message.field("x_user"), None);
    assert_eq!(request.message.field("x-users"), Some("kept"));
    asks(&gateway, "/", &format!("{forged}Authorization: Bearer {}\r\n", good())).has_body("x");
    assert_eq!(last(&upstream).message.field("x-roles"), None);
    asks(&gateway, "/open", forged).has_body("x");
    assert_eq!(last(&upstream).message.field("x-user"), None);
}

// field: jwt.require
#[test]
fn a_policy_says_what_claims_there_have_to_be() {
    let (gateway, _upstream) = under(&format!("{PROVIDER}, require: [sub]"));
    gets(&gateway, &token("{\"sub\":\"ann\"}")).has_body("x");
    gets(&gateway, &token(&format!("{{\"exp\":{}}}", at(60)))).has_problem(401, "token-invalid");
    assert_eq!(refused(&gateway, "claim"), 1);
}

// field: jwt.required
#[test]
fn a_request_without_a_token_passes_where_none_is_required() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway(
        &file(&format!("{PROVIDER}, required: false, headers: {{ X-User: sub }}")),
        &[&upstream],
    );
    let forged = "X-User: root\r\nx_user: root\r\n";
    asks(&gateway, "/", forged).has_body("x").lacks("www-authenticate");
    let request = last(&upstream);
    assert_eq!((request.field("x-user"), request.field("x_user")), (None, None));
    gets(&gateway, &good()).has_body("x");
    assert_eq!(last(&upstream).field("x-user"), Some("ann"));
    for bad in ["", "a.b.c", &token(&format!("{{\"exp\":{}}}", at(-60)))] {
        gets(&gateway, bad).has_problem(401, "token-invalid");
    }
    asks(&gateway, "/", "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n")
        .has_problem(400, "token-ambiguous");
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn a_rule_may_ask_whether_there_is_a_token() {
    let text = format!(
        "policies:\n  t: {{ jwt: {{ {PROVIDER}, required: false }} }}\n  \
         p: {{ authorise: {{ rules: \"!has(claims.sub) || claims.sub == 'ann'\" }} }}\napply: [t, p]"
    );
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway(&text, &[&upstream]);
    asks(&gateway, "/", "").has_body("x");
    gets(&gateway, &good()).has_body("x");
    let other = token(&format!("{{\"sub\":\"bob\",\"exp\":{}}}", at(60)));
    gets(&gateway, &other).has_problem(403, "rule-refused");
}

// field: jwt.leeway, jwt.max_age
#[test]
fn clocks_may_be_off_and_tokens_old_by_so_much() {
    let (gateway, _upstream) = under(&format!("{PROVIDER}, leeway: 5m, max_age: 1h"));
    let with = |exp: i64, iat: i64| {
        gets(&gateway, &token(&format!("{{\"exp\":{},\"iat\":{}}}", at(exp), at(iat)))).status
    };
    assert_eq!((with(-240, -300), with(-360, -400)), (200, 401));
    assert_eq!((with(60, -3_600), with(60, -4_000)), (200, 401));
    assert_eq!((with(600, 240), with(600, 360)), (200, 401));
    assert_eq!(["expired", "old", "early"].map(|it| refused(&gateway, it)), [1, 1, 1]);
}

// field: jwt.types, jwt.realm
#[test]
fn a_policy_says_what_types_of_tokens_it_takes() {
    let (gateway, _upstream) = under(&format!("{PROVIDER}, types: at+jwt, realm: the shop"));
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let claims = format!("{{\"exp\":{}}}", at(60));
    let typed = signed("{\"alg\":\"HS256\",\"typ\":\"at+JWT\"}", &claims, |text| {
        hmac::sign(&key, text).as_ref().to_vec()
    });
    gets(&gateway, &typed).has_body("x");
    gets(&gateway, &good())
        .has_field("www-authenticate", "Bearer realm=\"the shop\", error=\"invalid_token\"")
        .has_problem(401, "token-invalid");
}

// field: jwt.providers, jwt_provider.issuer, jwt_provider.audience
#[test]
fn a_token_is_from_its_issuer_for_its_audience() {
    let keys = format!("algorithms: HS256, keys: {{ secret: {SECRET} }}");
    let other = format!("algorithms: HS256, keys: {{ secret: '{OTHER}' }}");
    let providers = format!(
        "providers: [{{ issuer: one, audience: api, {keys} }}, {{ issuer: two, {other} }}]"
    );
    let (gateway, _upstream) = under(&providers);
    let with = |secret: &str, issuer: &str, more: &str| {
        let claims = format!("{{\"exp\":{},\"iss\":\"{issuer}\"{more}}}", at(60));
        gets(&gateway, &token_by(secret, &claims)).status
    };
    let to_api = ",\"aud\":[\"api\",\"b\"]";
    assert_eq!((with(SECRET, "one", to_api), with(OTHER, "two", "")), (200, 200));
    assert_eq!((with(OTHER, "one", to_api), with(SECRET, "two", "")), (401, 401));
    assert_eq!((with(SECRET, "one", ""), with(OTHER, "two", to_api)), (401, 401));
    assert_eq!(with(SECRET, "three", to_api), 401);
}

// field: jwt.cache
#[test]
fn a_token_that_is_known_is_not_checked_again() {
    let counts = |gateway: &Gateway| {
        let metrics = gateway.metrics();
        (
            metrics.of_policies("titan_jwt_cache_hits_total", ""),
            metrics.of_policies("titan_jwt_cache_misses_total", ""),
        )
    };
    let good = good();
    let (gateway, _upstream) = under(PROVIDER);
    (0..3).for_each(|_| drop(gets(&gateway, &good).has_body("x")));
    assert_eq!(counts(&gateway), (2, 1));
    let (gateway, _upstream) = under(&format!("{PROVIDER}, cache: 0"));
    (0..3).for_each(|_| drop(gets(&gateway, &good).has_body("x")));
    assert_eq!(counts(&gateway), (0, 3));
}

#[test]
fn a_token_that_is_known_ends_when_it_says() {
    let (gateway, _upstream) = under(&format!("{PROVIDER}, leeway: 0s"));
    let short = token(&format!("{{\"exp\":{}}}", at(2)));
    gets(&gateway, &short).has_body("x");
    waits_until("the token has ended", || gets(&gateway, &short).status == 401);
    assert_eq!(refused(&gateway, "expired"), 1);
}

#[test]
fn pages_can_read_why_they_are_refused_and_ask_leave_without_a_token() {
    let text = format!(
        "policies: {{ p: {{ jwt: {{ {PROVIDER} }} }}, c: {{ cors: {{ origins: https://a }} }} }}\n\
         apply: [p, c]"
    );
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway(&text, &[&upstream]);
    asks(&gateway, "/", "Origin: https://a\r\n")
        .has_field("access-control-allow-origin", "https://a")
        .has_problem(401, "token-missing");
    gateway
        .asks(
            "OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: https://a\r\n\
             Access-Control-Request-Method: GET\r\n\r\n",
        )
        .has_status(204);
    assert_eq!(upstream.requests(), []);
}

#[test]
fn streams_tunnels_and_calls_need_tokens_too() {
    let (gateway, upstream) = under(PROVIDER);
    let mut client = gateway.connects_h2();
    client.get("/").has_field("www-authenticate", "Bearer realm=\"gateway\"").has_status(401);
    let call = Head::post("/a.B/C").with("content-type", "application/grpc");
    let stream = client.asks(&call);
    client.response(stream).has_status(200).has_field("grpc-status", "16");
    let good = format!("Bearer {}", good());
    let stream = client.asks(&Head::get("/").with("authorization", &good));
    client.response(stream).has_status(200).has_body("x");
    let options = "Connection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    asks(&gateway, "/", options).has_problem(401, "token-missing");
    assert_eq!(upstream.requests().len(), 1);
}

/// A source of keys that can change and fail.
#[derive(Default)]
pub(crate) struct Source {
    keys: Mutex<Option<String>>,
    fetched: AtomicUsize,
}

impl Source {
    pub(crate) fn listens(self: &Arc<Self>) -> Upstream {
        let source = Arc::clone(self);
        upstream::responds(move |request| {
            assert_eq!(request.target, "/keys?all");
            source.fetched.fetch_add(1, Ordering::Relaxed);
            match source.keys.lock().expect("nobody panics").as_ref() {
                Some(keys) => ok(keys),
                None => b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n".to_vec(),
            }
        })
    }

    pub(crate) fn has(&self, keys: Option<&[&Signer]>) {
        let set = |keys: &[&Signer]| {
            let keys: Vec<_> = keys.iter().map(|key| key.jwk()).collect();
            format!("{{\"keys\":[{}]}}", keys.join(","))
        };
        *self.keys.lock().expect("nobody panics") = keys.map(set);
    }

    pub(crate) fn fetched(&self) -> usize {
        self.fetched.load(Ordering::Relaxed)
    }
}

pub(crate) struct Signer {
    name: &'static str,
    key: Ed25519KeyPair,
}

impl Signer {
    pub(crate) fn new(name: &'static str) -> Signer {
        Signer { name, key: Ed25519KeyPair::generate().expect("there is randomness") }
    }

    fn jwk(&self) -> String {
        let (name, x) = (self.name, encoded(self.key.public_key()));
        format!("{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"{name}\",\"x\":\"{x}\"}}")
    }

    pub(crate) fn token(&self) -> String {
        let header = format!("{{\"alg\":\"EdDSA\",\"kid\":\"{}\"}}", self.name);
        signed(&header, &format!("{{\"exp\":{}}}", at(60)), |text| {
            self.key.sign(text).as_ref().to_vec()
        })
    }
}

/// A gateway with keys from that source, fetched with these settings.
fn fetches(source: &Upstream, more: &str) -> (Gateway, Upstream) {
    let upstream = upstream::replies(ok("x"));
    (gateway(&fetching(source, more), &[&upstream]), upstream)
}

pub(crate) fn fetching(source: &Upstream, more: &str) -> String {
    let url = format!("{{ url: 'http://{}/keys?all', {more} }}", source.address());
    file(&format!("providers: {{ algorithms: EdDSA, keys: {{ jwks_url: {url} }} }}"))
}

// field: jwt_keys.jwks_url, jwks_url.url
#[test]
fn keys_are_fetched_and_kept_while_their_source_fails() {
    let (source, one) = (Arc::new(Source::default()), Signer::new("one"));
    let listening = source.listens();
    let (gateway, _upstream) = fetches(&listening, "refresh: 1s, pause: 1s");
    gets(&gateway, &one.token()).has_problem(503, "token-keys").lacks("www-authenticate");
    assert!(!gateway.status().is_ready());
    asks(&gateway, "/", "").has_problem(401, "token-missing");
    source.has(Some(&[&one]));
    waits_until("the keys are there", || gateway.status().is_ready());
    gets(&gateway, &one.token()).has_body("x");
    source.has(None);
    let before = source.fetched();
    waits_until("it was asked again", || source.fetched() > before);
    gets(&gateway, &one.token()).has_body("x");
    assert!(gateway.status().is_ready());
}

#[test]
fn a_set_without_keys_withdraws_those_of_before() {
    let (source, one) = (Arc::new(Source::default()), Signer::new("one"));
    source.has(Some(&[&one]));
    let listening = source.listens();
    let (gateway, _upstream) = fetches(&listening, "refresh: 1s, pause: 1s");
    waits_until("the keys are there", || gateway.status().is_ready());
    let token = one.token();
    gets(&gateway, &token).has_body("x");
    assert_eq!(gateway.status().key_sets()[0].keys, 1);
    source.has(Some(&[]));
    waits_until("the key is withdrawn", || gets(&gateway, &token).status != 200);
    gets(&gateway, &token).has_problem(401, "token-invalid");
    assert_eq!(gateway.status().key_sets()[0].keys, 0);
    assert!(gateway.tells_of_keys().contains("the previous keys are no longer used"));
    assert!(gateway.status().is_ready(), "other routes are served");
    source.has(Some(&[&one]));
    waits_until("it is back", || gets(&gateway, &token).status == 200);
}

#[test]
fn a_file_without_keys_withdraws_those_of_before() {
    let one = Signer::new("one");
    let set = |keys: &str| files("key", &format!("{{\"keys\":[{keys}]}}"));
    let policy = "providers: { algorithms: EdDSA, keys: { jwks: key } }";
    let upstream = upstream::replies(ok("x"));
    let gateway = start_with(&file(policy), &[&upstream], &set(&one.jwk()));
    let gateway = gateway.unwrap_or_else(|error| panic!("{error}"));
    let token = one.token();
    gets(&gateway, &token).has_body("x");
    // Keys of no use are a slip; none are none.
    assert!(gateway.rereads(&set("{\"kty\":\"none\"}")).is_err());
    gets(&gateway, &token).has_body("x");
    gateway.rereads(&set("")).expect("a set may be empty");
    gets(&gateway, &token).has_problem(401, "token-invalid");
}

// field: jwks_url.max_stale
#[test]
fn keys_that_cannot_be_fetched_for_too_long_count_no_more() {
    let (source, one) = (Arc::new(Source::default()), Signer::new("one"));
    source.has(Some(&[&one]));
    let listening = source.listens();
    let (gateway, _upstream) = fetches(&listening, "refresh: 1s, pause: 1s, max_stale: 2s");
    waits_until("the keys are there", || gateway.status().is_ready());
    let token = one.token();
    gets(&gateway, &token).has_body("x");
    source.has(None);
    waits_until("the keys are too old", || gets(&gateway, &token).status != 200);
    gets(&gateway, &token).has_problem(503, "token-keys");
    waits_until("it is told", || {
        gateway.tells_of_keys().contains("the previous keys are no longer used")
    });
    assert!(gateway.status().is_ready(), "other routes are served");
    let set = gateway.status().key_sets().remove(0);
    assert!(set.keys == 0 && set.failed > 0 && set.fetched_at > 0, "{set:?}");
    source.has(Some(&[&one]));
    waits_until("the same set is back", || gets(&gateway, &token).status == 200);
}

// field: jwks_url.refresh
#[test]
fn keys_are_fetched_again_from_time_to_time() {
    let (source, one, two) = (Arc::new(Source::default()), Signer::new("one"), Signer::new("two"));
    source.has(Some(&[&one]));
    let listening = source.listens();
    let (gateway, _upstream) = fetches(&listening, "refresh: 1s, pause: 1s");
    waits_until("the keys are there", || gateway.status().is_ready());
    gets(&gateway, &one.token()).has_body("x");
    let old = one.token();
    gets(&gateway, &old).has_body("x");
    source.has(Some(&[&two]));
    waits_until("the old key is gone", || gets(&gateway, &old).status == 401);
    gets(&gateway, &two.token()).has_body("x");
}

// field: jwks_url.pause
#[test]
fn an_unknown_key_causes_a_fetch_but_not_too_often() {
    let (source, one, two) = (Arc::new(Source::default()), Signer::new("one"), Signer::new("two"));
    source.has(Some(&[&one]));
    let listening = source.listens();
    let (gateway, _upstream) = fetches(&listening, "refresh: 1h, pause: 1s");
    waits_until("the keys are there", || gateway.status().is_ready());
    source.has(Some(&[&one, &two]));
    gets(&gateway, &one.token()).has_body("x");
    let began = Instant::now();
    waits_until("the new key is there", || gets(&gateway, &two.token()).status == 200);
    // The first, and one that all of these tokens have asked for.
    assert!(source.fetched() as u64 <= 2 + began.elapsed().as_secs(), "{}", source.fetched());
    let source = Arc::new(Source::default());
    source.has(Some(&[&one]));
    let listening = source.listens();
    let (gateway, _upstream) = fetches(&listening, "refresh: 1h, pause: 1h");
    waits_until("the keys are there", || gateway.status().is_ready());
    (0..20).for_each(|_| drop(gets(&gateway, &two.token()).has_problem(401, "token-invalid")));
    assert_eq!(source.fetched(), 1);
}

// field: jwks_url.ca
#[test]
fn the_source_of_keys_is_verified() {
    let (own, other) = (certificate(&["localhost"]), certificate(&["localhost"]));
    let one = Signer::new("one");
    let keys = format!("{{\"keys\":[{}]}}", one.jwk());
    // A gateway is the source, for it speaks TLS.
    let source = start_with(
        &format!(
            "listeners: [{{ address: '127.0.0.1:0', tls: {{ certificates: [{{ cert: a.pem, key: a.key }}] }} }}]\n\
             routes: [{{ path: /keys, respond: {{ status: 200, body: '{keys}' }} }}]"
        ),
        &[],
        &Certificate::files(&[("a", &own)]),
    );
    let source = source.unwrap_or_else(|error| panic!("{error}"));
    let port = source.address().port();
    let trusting = |ca: &Certificate| {
        let upstream = upstream::replies(ok("x"));
        let url = format!("{{ url: 'https://localhost:{port}/keys', ca: ca, pause: 1s }}");
        let text =
            file(&format!("providers: {{ algorithms: EdDSA, keys: {{ jwks_url: {url} }} }}"));
        let gateway = start_with(&text, &[&upstream], &files("ca", &ca.cert));
        (gateway.unwrap_or_else(|error| panic!("{error}")), upstream)
    };
    let (gateway, _upstream) = trusting(&own);
    waits_until("the keys are there", || gateway.status().is_ready());
    gets(&gateway, &one.token()).has_body("x");
    let (gateway, _upstream) = trusting(&other);
    waits_until("it has failed", || gateway.tells_of_keys().contains("certificate"));
    gets(&gateway, &one.token()).has_problem(503, "token-keys");
}
