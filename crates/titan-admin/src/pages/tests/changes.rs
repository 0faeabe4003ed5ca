//! Calls that have the program change its configuration.

use super::*;
use crate::orders::{NotUpgraded, UpgradeOrder, Upgraded};
use std::path::PathBuf;
use titan_config::{LogArea, LogLevel};

fn findings(message: &str) -> Findings {
    let json = vec![json!({ "file": "new.yaml", "severity": "error", "message": message })];
    Findings { text: format!("error: {message}\n"), json }
}

#[tokio::test]
async fn a_configuration_that_is_sent_is_put_in_force() {
    let desk = Desk::new();
    let body = "listeners: [...]";
    let ask = Ask {
        method: Method::PUT,
        target: "/config?name=new.yaml&confirm=5m",
        fields: &[("Content-Type", "application/yaml")],
        body,
        ..Ask::default()
    };
    let (status, document) = desk
        .ordered(&ask, |order| {
            let Order::Configuration(ConfigOrder::Change { change, author, done }) = order else {
                panic!("{order:?}")
            };
            let Change::Apply { documents, safeguards } = change else { panic!("{change:?}") };
            assert_eq!(
                (documents[0].name.as_str(), documents[0].text.as_str()),
                ("new.yaml", body)
            );
            assert_eq!(safeguards.confirm, Some(Duration::from_secs(300)));
            assert_eq!(author, Author::Peer { uid: 0, pid: Some(7) });
            let (entry, warnings) = (entry(), Findings::default());
            let (summary, notes) = ("workers    1\n".to_owned(), Vec::new());
            let _ = done.send(Ok(Applied { entry, warnings, summary, notes }));
        })
        .await;
    assert_eq!(status, 200);
    let wanted = json!({
        "file": "new.yaml",
        "valid": true,
        "diagnostics": [],
        "text": "",
        "applied": {
            "entry": {
                "id": 3,
                "at": "1970-01-01T00:00:00Z",
                "source": "admin",
                "author": { "peer": { "uid": 0, "pid": 7 } },
                "in_force": true,
                "repeats": null,
                "outcome": "applied",
                "why": null,
                "sha256": "ab".repeat(32),
            },
            "summary": "workers    1\n",
            "notes": [],
        },
    });
    assert_eq!(document, wanted);
    let line = format!(
        "uid 0 (pid 7): PUT /config?name=new.yaml&confirm=5m: done (200): {} bytes",
        body.len()
    );
    assert_eq!(desk.lines(), [line]);
}

#[tokio::test]
async fn what_is_not_put_in_force_says_why() {
    let desk = Desk::new();
    let fails = async |why: NotApplied| {
        let ask = Ask { method: Method::POST, target: "/reload", ..Ask::default() };
        let refuse = |order| {
            let Order::Configuration(ConfigOrder::Change { change, done, .. }) = order else {
                panic!("{order:?}")
            };
            assert_eq!(change, Change::Reload);
            let _ = done.send(Err(why));
        };
        desk.ordered(&ask, refuse).await
    };
    let (status, document) = fails(NotApplied::Refused(findings("no"))).await;
    assert_eq!(status, 422);
    let diagnostics = findings("no").json;
    let wanted = json!({
        "file": "new.yaml", "valid": false, "diagnostics": diagnostics, "text": "error: no\n"
    });
    assert_eq!(document, wanted);
    assert_eq!(fails(NotApplied::Failed(findings("in use"))).await.0, 503);
    for (why, status) in [
        (NotApplied::Conflict("one waits".to_owned()), 409),
        (NotApplied::NotFound("no entry".to_owned()), 404),
        (NotApplied::Superseded, 409),
        (NotApplied::Unavailable, 503),
    ] {
        let detail = why.to_string();
        let (got, document) = fails(why).await;
        assert_eq!((got, document["detail"].as_str()), (status, Some(&*detail)));
    }
    let outcomes: Vec<_> = desk.lines().iter().map(|line| line[29..].to_owned()).collect();
    assert_eq!(
        outcomes,
        [
            "refused (422)",
            "failed (503)",
            "refused (409)",
            "refused (404)",
            "refused (409)",
            "failed (503)"
        ]
    );
    let counts: Vec<_> = desk.pages.audit.counts().filter(|(.., count)| *count > 0).collect();
    assert_eq!(counts, [("reload", "refused", 4), ("reload", "failed", 2)]);
}

#[tokio::test]
async fn a_program_takes_over_or_it_is_said_why_not() {
    let desk = Desk::new();
    let asks = async |body, outcome: Result<Upgraded, NotUpgraded>| {
        let fields = &[("Content-Type", "application/json")];
        let (method, target) = (Method::POST, "/upgrade");
        let ask = Ask { method, target, fields, body, ..Ask::default() };
        let mut wanted = None;
        let (status, document) = desk
            .ordered(&ask, |order| {
                let Order::Upgrade(UpgradeOrder { program, done }) = order else {
                    panic!("{order:?}")
                };
                wanted = program;
                let _ = done.send(outcome);
            })
            .await;
        (wanted, status, document)
    };
    let program = PathBuf::from("/opt/titan");
    let upgraded = Upgraded { program: program.clone(), pid: 42, version: "9.0.0".to_owned() };
    let (wanted, status, document) = asks("{\"program\":\"/opt/titan\"}", Ok(upgraded)).await;
    assert_eq!((wanted, status), (Some(program), 200));
    assert_eq!(document, json!({ "program": "/opt/titan", "pid": 42, "version": "9.0.0" }));
    for (why, status) in [
        (NotUpgraded::Failed("it is a directory".to_owned()), 422),
        (NotUpgraded::Conflict("one is on trial".to_owned()), 409),
        (NotUpgraded::Unavailable, 503),
    ] {
        let detail = why.to_string();
        let (wanted, got, document) = asks("", Err(why)).await;
        assert_eq!((wanted, got, document["detail"].as_str()), (None, status, Some(&*detail)));
    }
    let wanted = [
        "uid 0 (pid 7): POST /upgrade: done (200): program /opt/titan",
        "uid 0 (pid 7): POST /upgrade: refused (422): the program that runs",
        "uid 0 (pid 7): POST /upgrade: refused (409): the program that runs",
        "uid 0 (pid 7): POST /upgrade: failed (503): the program that runs",
    ];
    assert_eq!(desk.lines(), wanted);
}

#[test]
fn no_token_has_a_program_executed() {
    let desk = Desk::new();
    let fields = &[("Host", "localhost"), ("Authorization", "Bearer all")];
    for (place, is_secure) in [(Place::ThisMachine, false), (Place::Network, true)] {
        let (peer, method, target) = (client(is_secure), Method::POST, "/upgrade");
        let ask = Ask { place, peer, method, target, fields, ..Ask::default() };
        assert_eq!(desk.status(&ask), 403);
        let line = desk.lines().concat();
        assert!(line.contains("POST /upgrade: denied (403): this executes a program"), "{line}");
    }
    assert!(desk.ordered.try_lock().unwrap().try_recv().is_err());
}

#[tokio::test]
async fn bodies_and_parameters_that_are_none_never_reach_the_program() {
    let desk = Desk::new();
    for (method, target, body) in [
        (Method::PUT, "/config", ""),
        (Method::PUT, "/config", " \n"),
        (Method::PUT, "/config?confirm=soon", "a: 1"),
        (Method::POST, "/reload?confirm=5m", ""),
        (Method::POST, "/confirm?id=1", ""),
        (Method::POST, "/rollback?id=x", ""),
        (Method::POST, "/upgrade?program=/opt/titan", ""),
        (Method::POST, "/upgrade", "/opt/titan"),
    ] {
        let response = desk.responds(&Ask { method, target, body, ..Ask::default() }).await;
        assert_eq!(response.head.status.code(), 400, "{target}");
    }
    let large = "x".repeat(titan_config::bounds::MAX_FILE + 1);
    let ask = Ask { method: Method::PUT, target: "/config", body: &large, ..Ask::default() };
    assert_eq!(desk.responds(&ask).await.head.status.code(), 413);
    let ask = Ask { method: Method::POST, target: "/reload", body: &large, ..Ask::default() };
    assert_eq!(desk.responds(&ask).await.head.status.code(), 413);
    assert!(desk.ordered.lock().await.try_recv().is_err());
}

#[tokio::test]
async fn a_call_for_another_gateway_is_refused() {
    let desk = Desk::new();
    let [own, other] =
        [FILE, "/etc/other.yaml"].map(|file| Identity::name(Path::new(file)).unwrap());
    let call = async |method, target, name: &str| {
        let fields = [(Identity::FIELD, name)];
        desk.responds(&Ask { method, target, fields: &fields, ..Ask::default() }).await
    };
    for (method, target) in [(Method::POST, "/reload"), (Method::GET, "/history")] {
        let refused = call(method, target, &other).await;
        assert_eq!(refused.head.status, Status::CONFLICT, "{target}");
        let told = String::from_utf8(refused.body).unwrap();
        assert!(told.contains("started with another file, /etc/titan.yaml"), "{told}");
    }
    assert_eq!(desk.lines(), ["uid 0 (pid 7): POST /reload: refused (409)"]);
    let (served, _) = tokio::join!(call(Method::GET, "/history", &own), async {
        drop(desk.ordered.lock().await.recv().await);
    });
    assert_ne!(served.head.status, Status::CONFLICT);
}

fn time_of(text: &Value) -> time::OffsetDateTime {
    let format = &time::format_description::well_known::Rfc3339;
    time::OffsetDateTime::parse(text.as_str().unwrap(), format).unwrap()
}

#[test]
fn an_endpoint_is_drained_for_a_time_by_somebody() {
    let desk = Desk::new();
    let states = || {
        let (status, shown) = desk.asks(Method::GET, "/upstreams");
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!((status, &shown["upstreams"][0]["name"]), (200, &json!("api")));
        shown["upstreams"][0]["endpoints"][0].clone()
    };
    assert_eq!((&states()["state"], &states()["since"]), (&json!("healthy"), &json!(null)));
    let fields = &[("Content-Type", "application/json")];
    let orders = |body: &str| {
        let ask =
            Ask { method: Method::POST, target: "/upstreams/api", fields, body, ..Ask::default() };
        desk.status(&ask)
    };
    assert_eq!(orders(r#"{"action":"drain","endpoint":"127.0.0.1:1","for":"10m"}"#), 204);
    let line = desk.lines().join("\n");
    assert!(
        line.contains("POST /upstreams/api") && line.contains("drain 127.0.0.1:1 for 600s"),
        "{line}"
    );
    let end = std::time::Instant::now() + Duration::from_secs(10);
    while states()["state"] != "draining" {
        assert!(std::time::Instant::now() < end, "{}", states());
        std::thread::yield_now();
    }
    assert_eq!(states()["why"], "an operator drains it");
    assert_eq!(orders(r#"{"action":"eject","endpoint":"127.0.0.1:1","for":"10m"}"#), 204);
    while states()["state"] != "ejected" {
        assert!(std::time::Instant::now() < end, "{}", states());
        std::thread::yield_now();
    }
    let shown = states();
    let reasons = shown["reasons"].as_array().unwrap().iter().map(|it| (&it["state"], &it["why"]));
    let wanted = [
        (&json!("ejected"), &json!("an operator has ejected it")),
        (&json!("draining"), &json!("an operator drains it")),
    ];
    assert_eq!(reasons.collect::<Vec<_>>(), wanted);
    assert_eq!((&shown["why"], &shown["since"]), (wanted[0].1, &shown["reasons"][0]["since"]));
    for reason in shown["reasons"].as_array().unwrap() {
        let [since, until] = ["since", "until"].map(|it| time_of(&reason[it]));
        assert_eq!(until - since, time::Duration::minutes(10));
    }
    for (body, status) in [
        (r#"{"action":"drain","endpoint":"127.0.0.1:1","for":"25h"}"#, 400),
        (r#"{"action":"drain","endpoint":"127.0.0.1:1","for":"10"}"#, 400),
        (r#"{"action":"restore","endpoint":"127.0.0.1:1","for":"10s"}"#, 400),
        (r#"{"action":"stop","endpoint":"127.0.0.1:1"}"#, 400),
        (r#"{"action":"drain"}"#, 400),
        (r#"{"action":"drain","endpoint":"127.0.0.1:1","x":1}"#, 400),
        (r#"{"action":"drain","endpoint":"127.0.0.1:2"}"#, 404),
        (r#"{"action":"open_breaker","endpoint":"127.0.0.1:1"}"#, 404),
        (r#"{"action":"release_breaker","for":"1m"}"#, 400),
    ] {
        assert_eq!(orders(body), status, "{body}");
    }
}

#[test]
fn an_order_that_cannot_be_meant_is_told_what_there_is() {
    let desk = Desk::new();
    let fields = &[("Content-Type", "application/json")];
    let refused = |name: &str, body: &str| {
        let target = &format!("/upstreams/{name}");
        let ask = Ask { method: Method::POST, target, fields, body, ..Ask::default() };
        let problem = runtime().block_on(desk.responds(&ask)).body;
        let problem: Value = serde_json::from_slice(&problem).unwrap();
        problem["detail"].as_str().unwrap().to_owned()
    };
    for (name, body, detail) in [
        (
            "apis",
            r#"{"action":"open_breaker"}"#,
            "there is no upstream `apis`; there are `api`, `next`",
        ),
        (
            "api",
            r#"{"action":"drain","endpoint":"a:1"}"#,
            "the upstream `api` has no endpoint `a:1`; it has `127.0.0.1:1`",
        ),
        (
            "api",
            r#"{"action":"open_breaker","endpoint":"127.0.0.1:1"}"#,
            "the breaker of `api` is one for all its endpoints; leave `endpoint` out",
        ),
        ("next", r#"{"action":"open_breaker"}"#, "`next` has no `circuit_breaker`"),
        (
            "api",
            r#"{"action":"drain","endpoint":"127.0.0.1:1","for":60}"#,
            "`for` is a duration with its unit, such as \"15m\"",
        ),
        (
            "api",
            "drain it",
            "expected value at line 1 column 1; send {\"action\": \"drain\", \"endpoint\": \"10.0.0.7:8080\", \"for\": \"15m\"}",
        ),
    ] {
        assert_eq!(refused(name, body), detail, "{body}");
    }
    refused("api", "{\"action\":\"drain\\nuid 0\"}");
    let line = desk.lines().pop().unwrap();
    assert!(line.contains("refused (400): `action` is none of `drain`"), "{line}");
    refused("api", "{\"action\":\"drain\",\"a\\nuid 0\":1}");
    let line = desk.lines().pop().unwrap();
    assert!(line.contains("unknown field `a\\nuid 0`"), "{line}");
}

#[test]
fn one_upstream_is_shown_by_its_name() {
    let desk = Desk::new();
    let asks = |target| {
        let (status, shown) = desk.asks(Method::GET, target);
        (status, serde_json::from_str::<Value>(&shown).unwrap())
    };
    let (_, all) = asks("/upstreams");
    assert_eq!(asks("/upstreams/next"), (200, all["upstreams"][1].clone()));
    let (status, problem) = asks("/upstreams/nexte");
    assert_eq!(
        (status, &problem["detail"]),
        (404, &json!("there is no upstream `nexte`; there are `api`, `next`"))
    );
}

#[test]
fn a_breaker_is_opened_by_hand_and_released() {
    let desk = Desk::new();
    let breaker = || {
        let (_, shown) = desk.asks(Method::GET, "/upstreams");
        let shown: Value = serde_json::from_str(&shown).unwrap();
        shown["upstreams"][0]["breaker"].clone()
    };
    let fields = &[("Content-Type", "application/json")];
    let orders = |body: &str| {
        let ask =
            Ask { method: Method::POST, target: "/upstreams/api", fields, body, ..Ask::default() };
        desk.status(&ask)
    };
    assert_eq!((&breaker()["state"], &breaker()["by_operator"]), (&json!("closed"), &json!(false)));
    assert_eq!(orders(r#"{"action":"open_breaker","for":"10m"}"#), 204);
    let shown = breaker();
    assert_eq!((&shown["state"], &shown["by_operator"]), (&json!("open"), &json!(true)));
    assert_eq!(shown["why"], "forced by hand");
    assert!(shown["ends_in_seconds"].as_f64().is_some_and(|left| left > 500.0), "{shown}");
    assert!(desk.lines()[0].ends_with("open the breaker of the upstream for 600s"));
    assert_eq!(orders(r#"{"action":"close_breaker"}"#), 204);
    assert_eq!(breaker()["state"], "closed");
    assert_eq!(orders(r#"{"action":"release_breaker"}"#), 204);
    assert_eq!(breaker()["by_operator"], false);
}

#[test]
fn other_levels_hold_for_their_time() {
    let desk = Desk::new();
    let put = |body: &str| {
        let fields = [("Content-Type", "application/json")];
        let ask =
            Ask { method: Method::PUT, target: "/log", fields: &fields, body, ..Ask::default() };
        let response = runtime().block_on(desk.responds(&ask));
        let shown: Value = serde_json::from_slice(&response.body).unwrap();
        (response.head.status.code(), shown)
    };
    let (status, shown) = put(r#"{"areas": {"health": "debug", "tls": "error"}, "for": "10m"}"#);
    assert_eq!((status, &shown["changed"]), (200, &json!(["tls", "health"])));
    assert_eq!(
        (&shown["levels"]["health"], &shown["levels"]["start"]),
        (&json!("debug"), &json!("info"))
    );
    let left = shown["ends_in_seconds"].as_f64().unwrap();
    assert!(left > 590.0 && left <= 600.0, "{left}");
    assert!(desk.gateway.log().takes(LogArea::Health, LogLevel::Debug));
    let (_, shown) = put(r#"{"level": "debug"}"#);
    assert_eq!(
        (shown["changed"].as_array().unwrap().len(), &shown["ends_in_seconds"]),
        (12, &json!(null))
    );
    assert_eq!(put("{}").1["changed"], json!([]));
    for (body, wanted) in [
        (r#"{"areas": {"healt": "debug"}}"#, "did you mean `health`?"),
        (r#"{"level": "loud"}"#, "`loud` is none of the levels"),
        (r#"{"level": "debug", "for": "3d"}"#, "not between 1s and 24h"),
        (r#"{"level": "debug", "for": 5}"#, "is a duration"),
        (r#"{"for": "5m"}"#, "needs a `level`"),
        (r#"{"lvl": "debug"}"#, "unknown field"),
    ] {
        let (status, shown) = put(body);
        assert!(status == 400 && shown["detail"].as_str().unwrap().contains(wanted), "{shown}");
    }
    let lines = desk.lines();
    assert_eq!(lines[0], "uid 0 (pid 7): PUT /log: done (200): health debug tls error for 600s");
    assert!(lines[1].ends_with("all debug until the configuration changes"), "{}", lines[1]);
    assert!(lines[2].ends_with("done (200): the levels of the configuration"), "{}", lines[2]);
    assert!(lines[3].contains("refused (400): `healt` is not an area"), "{}", lines[3]);
}

#[test]
fn whoever_has_calls_left_out_of_the_log_is_in_it() {
    let desk = Desk::new();
    let fields = [("Content-Type", "application/json")];
    let body = r#"{"level": "error"}"#;
    let ask = Ask { method: Method::PUT, target: "/log", fields: &fields, body, ..Ask::default() };
    assert_eq!(runtime().block_on(desk.responds(&ask)).head.status.code(), 200);
    assert!(!desk.gateway.log().takes(LogArea::Admin, LogLevel::Warn));
    assert_eq!(desk.lines().len(), 1);
}
