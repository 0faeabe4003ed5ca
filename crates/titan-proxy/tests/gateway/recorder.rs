//! What is kept of the last exchanges.

use serde_json::Value;
use titan_observe::format::FullFormatter;
use titan_observe::record::Recorded;
use titan_observe::recorder::Filter;
use titan_testkit::h2::Head;
use titan_testkit::upstream::{self, ok_with};
use titan_testkit::{Gateway, gateway, waits_until};

/// The exchange of that id, once it is there.
pub(crate) fn recorded(gateway: &Gateway, id: &str) -> Value {
    let filter = Filter { id: Some(id.to_owned()), ..Filter::default() };
    let mut found = Vec::new();
    waits_until("the record", || {
        found = gateway.status().recorder().find(&filter, 10).records;
        !found.is_empty()
    });
    assert_eq!(found.len(), 1);
    let (record, _) = Recorded::first_of(&found[0]).expect("it is a record");
    let mut text = Vec::new();
    FullFormatter::default().object_with_bodies(&record, &mut text);
    serde_json::from_slice(&text).expect("it is JSON")
}

pub(crate) fn id(response: &titan_testkit::Response) -> String {
    response.field("X-Request-Id").expect("each response has its id").to_owned()
}

/// What was decided, in lines.
fn decisions(record: &Value) -> Vec<String> {
    let list = record["decisions"].as_array().expect("there are some");
    let text = |it: &Value| {
        format!("{}: {}", it["what"].as_str().unwrap_or("?"), it["text"].as_str().unwrap_or("?"))
    };
    list.iter().map(text).collect()
}

// field: file.recorder
#[test]
fn an_exchange_is_kept_in_full_without_an_access_log() {
    let upstream = upstream::responds(|_| ok_with("X-Kind: a\r\nSet-Cookie: sid=1\r\n", "hello"));
    let address = upstream.address();
    let gateway =
        gateway("routes: [{ name: api, upstream: u }]\nupstreams: { u: $0 }", &[&upstream]);
    let response = gateway.asks(
        "POST /a?token=abc HTTP/1.1\r\nHost: shop.example\r\nX-Tenant: acme\r\nAuthorization: Bearer abc\r\n\
         Content-Length: 3\r\n\r\nabc",
    );
    let record = recorded(&gateway, &id(&response));
    assert_eq!((&record["path"], &record["query"]), (&"/a".into(), &"token=***".into()));
    let sent = record["request_head"].as_array().unwrap();
    let wanted = serde_json::json!([
        ["Host", "shop.example"],
        ["X-Tenant", "acme"],
        ["Authorization", "***"],
        ["Content-Length", "3"]
    ]);
    assert_eq!(&record["request_head"], &wanted, "{sent:?}");
    let got = record["response_head"].as_array().unwrap();
    assert!(got.contains(&serde_json::json!(["X-Kind", "a"])), "{got:?}");
    assert!(got.contains(&serde_json::json!(["Set-Cookie", "***"])), "{got:?}");
    let told = decisions(&record);
    assert_eq!(told[0], "route: route `api` takes the request");
    assert_eq!(told[1], format!("endpoint: endpoint {address} of upstream `u`, the only one"));
    assert!(told[2].starts_with("connect: connected in "), "{told:?}");
    assert!(
        told[3].starts_with(&format!("attempt: {address} responds with 200 after ")),
        "{told:?}"
    );
    assert!(told[4].starts_with("response: the client gets 200, "), "{told:?}");
    assert_eq!(told.len(), 5);
}

#[test]
fn what_policies_decide_is_kept() {
    let gateway = gateway(
        "policies:
  slow: { rate_limit: { rates: 1/h } }
  hidden: { maintenance: { allow: 10.0.0.0/8 } }
routes: [{ path: /, respond: 204, apply: [slow] }, { path: /hidden, respond: 204, apply: [slow, hidden] }]",
        &[],
    );
    let passed = recorded(&gateway, &id(&gateway.get("/")));
    assert!(
        decisions(&passed).contains(&"policy: policy `slow` lets it pass".to_owned()),
        "{passed:#}"
    );
    let refused = recorded(&gateway, &id(&gateway.get("/")));
    let told = decisions(&refused);
    assert!(told.contains(&"policy: policy `slow` refuses it".to_owned()), "{told:?}");
    assert_eq!(refused["status"], 429);
    let hidden = decisions(&recorded(&gateway, &id(&gateway.get("/hidden"))));
    assert!(hidden.iter().any(|it| it.starts_with("policy: policy `hidden` re")), "{hidden:?}");
}

#[test]
fn each_attempt_is_kept() {
    let (dead, alive) = (upstream::refuses(), upstream::replies(ok_with("", "a")));
    let gateway = gateway(
        "routes: [{ upstream: u }]\nupstreams: { u: { endpoints: [\"$0\", $1], balance: round_robin } }",
        &[&dead, &alive],
    );
    // One of two requests begins with each endpoint.
    let ids = [gateway.get("/"), gateway.get("/")].map(|response| id(&response));
    let records = ids.map(|id| recorded(&gateway, &id));
    let retried =
        records.iter().find(|record| record["attempts"] == 2).expect("one met the dead endpoint");
    let tried = retried["tried"].as_array().unwrap();
    assert_eq!((&tried[0]["kind"], &tried[1]["kind"]), (&"first".into(), &"retry".into()));
    assert_eq!(
        (&tried[0]["error"], &tried[0]["endpoint"]),
        (&"connect".into(), &dead.to_string().into())
    );
    assert_eq!((&tried[1]["status"], &tried[1]["balance"]), (&200.into(), &"round_robin".into()));
    assert_eq!(tried[1]["choices"], 2);
    assert_eq!((tried.len(), &retried["endpoint"]), (2, &alive.address().to_string().into()));
}

#[test]
fn a_connection_that_had_died_is_an_attempt_with_an_end() {
    let upstream = upstream::listens();
    let gateway = gateway("", &[&upstream]);
    let mut client = gateway.connects();
    client.sends("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut endpoint = upstream.accepts();
    endpoint.request();
    endpoint.sends(ok_with("", "a"));
    client.response().has_status(200);
    client.sends("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    endpoint.request();
    endpoint.closes();
    let mut next = upstream.accepts();
    next.request();
    next.sends(ok_with("", "b"));
    let record = recorded(&gateway, &id(&client.response()));
    let tried = record["tried"].as_array().unwrap();
    assert_eq!(tried.len(), 2, "{record:#}");
    let [first, second] = [&tried[0], &tried[1]];
    assert_eq!((&first["reused"], &second["reused"]), (&true.into(), &false.into()));
    assert_eq!(first["error"], "upstream-closed");
    let time = |of: &Value, name: &str| of[name].as_f64().unwrap();
    assert!(
        time(second, "began_ms") >= time(first, "began_ms") + time(first, "took_ms") - 0.002,
        "{record:#}"
    );
    assert!(second["connect_ms"].is_number(), "{record:#}");
}

#[test]
fn how_a_second_attempt_got_its_connection_is_kept() {
    let (one, other) = (upstream::listens(), upstream::listens());
    let gateway = gateway(
        "routes: [{ upstream: u }]\nupstreams: { u: { endpoints: [$0, $1], hedge: 1ms } }",
        &[&one, &other],
    );
    let mut client = gateway.connects();
    client.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let (mut first, mut second) = (one.accepts(), other.accepts());
    first.request();
    second.request();
    first.sends(ok_with("", "a"));
    let record = recorded(&gateway, &id(&client.response()));
    let tried = record["tried"].as_array().unwrap();
    assert_eq!(tried.len(), 2, "{record:#}");
    let hedge = tried.iter().find(|it| it["kind"] == "hedge").unwrap();
    assert_eq!(
        (&hedge["reused"], hedge["connect_ms"].is_number()),
        (&false.into(), true),
        "{record:#}"
    );
    assert!(hedge["took_ms"].is_number(), "it has ended: {record:#}");
    assert_eq!(tried[1]["kind"], "first", "the one that decides is the last: {record:#}");
}

#[test]
fn heads_of_http2_are_kept_like_others() {
    let upstream = upstream::replies(ok_with("", "a"));
    let gateway = gateway("", &[&upstream]);
    let mut client = gateway.connects_h2();
    let stream = client.asks(&Head::get("/b").with("x-tenant", "acme"));
    let response = client.response(stream);
    let id = response.field("x-request-id").expect("each response has its id").to_owned();
    let record = recorded(&gateway, &id);
    assert_eq!((&record["protocol"], &record["path"]), (&"HTTP/2".into(), &"/b".into()));
    let sent = record["request_head"].as_array().unwrap();
    assert!(sent.contains(&serde_json::json!(["x-tenant", "acme"])), "{sent:?}");
}

// field: recorder.memory
#[test]
fn memory_follows_the_configuration_and_records_outlive_it() {
    let text = |recorder: &str| format!("recorder: {recorder}\nroutes: [{{ respond: 204 }}]");
    let gateway = gateway(&text("{ memory: 2MiB }"), &[]);
    let first = id(&gateway.get("/"));
    recorded(&gateway, &first);
    let most = || gateway.status().recorder().coverage().bytes_at_most;
    assert_eq!(most(), 2 << 20);
    gateway.reloads(&text("{ memory: 3MiB }"), &[]).unwrap();
    assert_eq!(most(), 3 << 20);
    recorded(&gateway, &first);
    gateway.reloads(&text("off"), &[]).unwrap();
    assert_eq!((most(), gateway.status().recorder().coverage().bytes), (0, 0));
    gateway.get("/").has_status(204);
    gateway.reloads(&text("{ memory: 1MiB }"), &[]).unwrap();
    let last = id(&gateway.get("/"));
    recorded(&gateway, &last);
    let all = gateway.status().recorder().find(&Filter::default(), 10);
    assert_eq!(all.records.len(), 1, "what came while it was off is not there");
}
