//! `openapi.json` against what is served: every call, every status of it, and every body.

use super::*;
use crate::orders::{Explained, History, InForce, NotUpgraded, Planned, UpgradeOrder, Upgraded};
use crate::reloads::SourceStatus;
use std::collections::BTreeSet;
use titan_config::{AdminRights, Masked};
use titan_http::ResponseHead;
use titan_proxy::{ComparisonStatus, MirrorStatus, ResponseDifference, Sample, ShownValue};

fn api() -> Value {
    serde_json::from_str(DESCRIPTION).unwrap()
}

/// What a reference in the description stands for.
fn resolved<'a>(api: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(path) => api.pointer(path.strip_prefix('#').unwrap()).expect(path),
        None => value,
    }
}

/// Why a value is not what a schema says; nothing if it is. Knows the words that the description uses, and no others.
fn fault(api: &Value, schema: &Value, value: &Value) -> Option<String> {
    let schema = resolved(api, schema);
    let is_of = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("unknown type {other}"),
    };
    for (word, rule) in schema.as_object().unwrap() {
        let is_right = match word.as_str() {
            "type" if rule.is_string() => is_of(rule.as_str().unwrap()),
            "type" => rule.as_array().unwrap().iter().any(|it| is_of(it.as_str().unwrap())),
            "enum" => rule.as_array().unwrap().contains(value),
            "anyOf" => rule.as_array().unwrap().iter().any(|it| fault(api, it, value).is_none()),
            "properties" => {
                let inner = rule.as_object().unwrap().iter();
                let wrong = inner.filter_map(|(key, rule)| fault(api, rule, value.get(key)?));
                if let Some(wrong) = wrong.into_iter().next() {
                    return Some(wrong);
                }
                true
            }
            "required" => rule
                .as_array()
                .unwrap()
                .iter()
                .all(|key| value.get(key.as_str().unwrap()).is_some()),
            "additionalProperties" => {
                let known = schema["properties"].as_object().unwrap();
                value.as_object().is_none_or(|it| it.keys().all(|key| known.contains_key(key)))
            }
            "items" => value
                .as_array()
                .is_none_or(|all| all.iter().all(|item| fault(api, rule, item).is_none())),
            "minimum" => value.as_f64() >= rule.as_f64(),
            "maxLength" | "pattern" | "format" | "description" => true,
            other => panic!("unknown word {other}"),
        };
        if !is_right {
            return Some(format!("{value} breaks `{word}: {rule}`"));
        }
    }
    None
}

/// Every call that is described: its method, path, name and statuses.
fn described(api: &Value) -> BTreeSet<(String, String, String)> {
    let mut found = BTreeSet::new();
    for (path, operations) in api["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap().to_owned();
            found.insert((method.to_uppercase(), path.clone(), name));
        }
    }
    found
}

#[test]
fn what_is_described_is_what_is_served() {
    let api = api();
    let served = calls::CALLS.iter().map(|entry| {
        (entry.method.as_str().to_owned(), entry.path.to_owned(), entry.name.to_owned())
    });
    assert_eq!(described(&api), served.collect());
    for entry in calls::CALLS {
        let operation = &api["paths"][entry.path][entry.method.as_str().to_lowercase()];
        let right = match entry.right.filter(|_| !entry.is_local()) {
            None => json!([{}]),
            Some(AdminRights::Read) => json!([{ "token": ["read"] }, {}]),
            Some(AdminRights::Full) => json!([{ "token": ["full"] }, {}]),
        };
        assert_eq!(operation["security"], right, "{}", entry.name);
    }
}

/// What was served: a call with the status and the type of the response.
#[derive(Default)]
struct Served(BTreeSet<(&'static str, u16, String)>);

impl Served {
    /// Notes a response, which has to be as described.
    fn note(&mut self, api: &Value, call: Call, response: &Response) {
        let entry = calls::CALLS.iter().find(|entry| entry.call == call).unwrap();
        let ResponseHead { status, fields, .. } = &response.head;
        let name = entry.name;
        let operation = &api["paths"][entry.path][entry.method.as_str().to_lowercase()];
        let described = &operation["responses"][status.code().to_string()];
        assert!(!described.is_null(), "{name} responds with {}", status.code());
        let media_type = fields.get(FieldName::ContentType).unwrap_or_default();
        let media_type = std::str::from_utf8(media_type).unwrap().split(';').next().unwrap();
        self.0.insert((name, status.code(), media_type.to_owned()));
        if response.body.is_empty() {
            assert!(resolved(api, described)["content"].is_null(), "{name} {}", status.code());
            return;
        }
        let schema = &resolved(api, described)["content"][media_type]["schema"];
        assert!(!schema.is_null(), "{name} {}: {media_type}", status.code());
        let is_json = media_type.ends_with("/json") || media_type.ends_with("+json");
        let body = match is_json {
            true => serde_json::from_slice(&response.body).unwrap(),
            false => String::from_utf8_lossy(&response.body).into(),
        };
        let fault = fault(api, schema, &body);
        assert_eq!(fault, None, "{name} {}: {body}", status.code());
    }
}

/// What is described: every status and media type of every call, but for what any of them may respond.
fn all_responses(api: &Value) -> BTreeSet<(&'static str, u16, String)> {
    let mut found = BTreeSet::new();
    for entry in calls::CALLS {
        let operation = &api["paths"][entry.path][entry.method.as_str().to_lowercase()];
        for (status, response) in operation["responses"].as_object().unwrap() {
            let Ok(status) = status.parse() else { continue };
            let content = resolved(api, response)["content"].as_object();
            match content {
                Some(content) => found.extend(
                    content.keys().map(|media_type| (entry.name, status, media_type.clone())),
                ),
                None => drop(found.insert((entry.name, status, String::new()))),
            }
        }
    }
    found
}

/// The program, which does that with every order.
fn program(order: ConfigOrder, outcome: Result<(), NotApplied>) {
    let warning = json!({
        "severity": "warning", "file": "titan.yaml", "line": 1, "column": null, "path": null,
        "message": "m", "hint": "h"
    });
    let warnings = Findings { text: "warning: m\n".to_owned(), json: vec![warning] };
    let applied = || {
        let (entry, summary, notes) = (entry(), "workers 1\n".to_owned(), vec!["n".to_owned()]);
        Applied { entry, warnings, summary, notes }
    };
    match (order, outcome) {
        (ConfigOrder::Change { done, .. } | ConfigOrder::Confirm { done, .. }, outcome) => {
            let _ = done.send(outcome.map(|()| applied()));
        }
        (ConfigOrder::InForce(shown), Ok(())) => {
            let names = vec!["titan.yaml".to_owned()];
            let masked = [Masked { text: "a".to_owned(), secrets: Vec::new() }].into();
            let (summary, confirm_until) = ("".into(), Some(SystemTime::UNIX_EPOCH));
            let in_force = InForce { entry: entry(), names, masked, summary, confirm_until };
            let _ = shown.send(Ok(in_force));
        }
        (ConfigOrder::Explain { done, .. }, outcome) => {
            let json = json!({
                "route": "r", "action": "upstream", "upstreams": ["u"], "received": [["a", "b"]],
                "forwarded": { "path": "/", "query": "", "host": "h", "headers": [["a", "b"]] },
                "status": null, "code": null, "location": null,
                "policies": [{ "policy": "jwt", "verdict": "passes" }],
            });
            let _ = done.send(outcome.map(|()| Explained { text: "route r\n".to_owned(), json }));
        }
        (ConfigOrder::Plan { done, .. } | ConfigOrder::Compare { done, .. }, outcome) => {
            let field = json!({ "field": "respond", "old": "204", "new": null, "weaker": false });
            let part =
                json!({ "part": "routes", "name": "r", "change": "changed", "fields": [field] });
            let json = json!({
                "result": "weaker",
                "changes": [part],
                "moves": [{ "requests": "/…", "from": "a", "to": "b" }],
                "unreached": ["c"],
                "weaker": [{ "part": "limits", "name": null, "what": "w", "requests": null }],
            });
            let _ = done.send(outcome.map(|()| Planned { text: "1 changed\n".to_owned(), json }));
        }
        (ConfigOrder::History(told), Ok(())) => {
            let _ = told.send(Ok(History { entries: vec![entry()], notes: Vec::new() }));
        }
        (ConfigOrder::InForce(shown), Err(why)) => drop(shown.send(Err(why))),
        (ConfigOrder::History(told), Err(why)) => drop(told.send(Err(why))),
    }
}

/// What is wrong with a configuration.
fn found() -> Findings {
    let json = vec![json!({
        "severity": "error", "file": "f", "line": null, "column": 2, "path": "p", "message": "m",
        "hint": null
    })];
    Findings { text: "error: m\n".to_owned(), json }
}

/// A request that its call responds to.
fn good(call: Call) -> Ask<'static> {
    let entry = calls::CALLS.iter().find(|entry| entry.call == call).unwrap();
    let target = match call {
        Call::Restore => "/jwt/revocations/1",
        Call::DashboardFile => "/dashboard/app.js",
        Call::CompareHistory => "/history/2/plan",
        Call::ReadUpstream | Call::OrderUpstream => "/upstreams/api",
        Call::ReadExchange => "/recorder/none",
        _ => entry.path,
    };
    let (fields, body): (&[(&str, &str)], &str) = match call {
        Call::PutConfig | Call::Plan => (&[("Content-Type", "application/yaml")], "a: 1"),
        Call::OrderUpstream => (
            &[("Content-Type", "application/json")],
            "{\"action\":\"drain\",\"endpoint\":\"127.0.0.1:1\"}",
        ),
        Call::PutLog => (
            &[("Content-Type", "application/json")],
            "{\"areas\":{\"health\":\"debug\"},\"for\":\"10m\"}",
        ),
        Call::Explain => {
            (&[("Content-Type", "application/json")], "{\"method\":\"GET\",\"url\":\"http://a/\"}")
        }
        Call::SignIn => (&[("Content-Type", "application/json")], "{\"token\":\"all\"}"),
        Call::Revoke => {
            (&[("Content-Type", "application/json")], "{\"jti\":\"a\",\"exp\":9999999999}")
        }
        _ => (&[], ""),
    };
    Ask { method: entry.method, target, fields, body, ..Ask::default() }
}

/// A source of which everything can be told.
pub(super) fn source() -> SourceStatus {
    SourceStatus {
        name: "shop".to_owned(),
        kind: "http",
        local_files: false,
        revision: Some("17".to_owned()),
        succeeded: Some(SystemTime::UNIX_EPOCH),
        failure: Some("no response within 10s".to_owned()),
        documents: 1,
        held_back: vec![("shop.yaml".to_owned(), "1:1: unknown key".to_owned())],
    }
}

/// A mirror that has come to everything that there is.
fn mirror() -> MirrorStatus {
    let value = |value: Option<&str>| {
        Some(ShownValue { kind: "string", bytes: 3, value: value.map(str::to_owned) })
    };
    let difference = |part, original, mirror| ResponseDifference {
        part,
        place: "/a".to_owned(),
        original,
        mirror,
    };
    let sample = Sample {
        at: SystemTime::UNIX_EPOCH,
        method: "GET".to_owned(),
        path: "/x".to_owned(),
        request_id: Some("id".to_owned()),
        differences: vec![
            difference("body", value(Some("\"a\"")), value(None)),
            difference("header", None, value(None)),
        ],
        more: 2,
    };
    let comparison = ComparisonStatus {
        equal: 3,
        different: 1,
        differing: vec![("status", 0), ("header", 1), ("body", 1)],
        not_compared: vec![("busy", 4)],
        places: vec![("body", "/*/a".to_owned(), 1)],
        samples: vec![Arc::new(Sample { request_id: None, ..sample.clone() }), Arc::new(sample)],
    };
    MirrorStatus {
        route: "r".to_owned(),
        upstream: "shadow".to_owned(),
        running: 1,
        sent: 10,
        failed: 2,
        dropped: vec![("too-many", 5)],
        comparison: Some(comparison),
    }
}

#[test]
fn differences_are_shown_the_newest_first() {
    let text = mirrors::list(&[mirror()]).body;
    let shown: Value = serde_json::from_slice(&text).unwrap();
    let shown = &shown["mirrors"][0];
    let copies = json!({
        "sent": 10, "failed": 2, "running": 1, "dropped": [{ "reason": "too-many", "count": 5 }]
    });
    assert_eq!(
        (&shown["route"], &shown["upstream"], &shown["copies"]),
        (&json!("r"), &json!("shadow"), &copies)
    );
    let comparison = &shown["comparison"];
    assert_eq!(comparison["places"], json!([{ "part": "body", "place": "/*/a", "count": 1 }]));
    assert_eq!(comparison["samples"][0]["request_id"], "id");
    let differences = json!([
        {
            "part": "body", "place": "/a",
            "original": { "type": "string", "bytes": 3, "value": "\"a\"" },
            "mirror": { "type": "string", "bytes": 3, "value": null }
        },
        {
            "part": "header", "place": "/a", "original": null,
            "mirror": { "type": "string", "bytes": 3, "value": null }
        }
    ]);
    assert_eq!(comparison["samples"][1]["differences"], differences);
}

#[tokio::test]
async fn every_response_is_described_and_every_described_one_is_served() {
    let (api, mut served) = (api(), Served::default());
    let place = revocations::tests::Place::new();
    let store = Arc::new(place.opens_for(1).unwrap());
    let (desk, without) = (Desk::with_store(Some(Arc::clone(&store))), Desk::new());
    let large = "x".repeat(titan_config::bounds::MAX_FILE + 1);
    for entry in calls::CALLS {
        let (call, mut ask) = (entry.call, good(entry.call));
        // Anybody, from a name that leads here or without a token, and with the type of a form.
        (ask.place, ask.peer) = (Place::ThisMachine, client(false));
        ask.fields = &[("Host", "evil.example")];
        served.note(&api, call, &desk.responds(&ask).await);
        if entry.right.is_some() {
            ask.fields = &[];
            served.note(&api, call, &desk.responds(&ask).await);
        }
        let mut ask = good(call);
        if entry.writes() {
            ask.fields = &[("Content-Type", "text/plain")];
            served.note(&api, call, &desk.responds(&ask).await);
        }
        ask = Ask { body: &large, ..good(call) };
        if matches!(
            call,
            Call::PutConfig
                | Call::Plan
                | Call::Revoke
                | Call::OrderUpstream
                | Call::PutLog
                | Call::SignIn
                | Call::Explain
        ) {
            served.note(&api, call, &desk.responds(&ask).await);
        }
        // What the program makes of it.
        let outcomes: Vec<Result<(), NotApplied>> = match call {
            Call::CompareHistory => vec![
                Ok(()),
                Err(NotApplied::Refused(found())),
                Err(NotApplied::NotFound("n".to_owned())),
                Err(NotApplied::Unavailable),
            ],
            Call::Explain => vec![
                Ok(()),
                Err(NotApplied::Refused(found())),
                Err(NotApplied::Conflict("c".to_owned())),
                Err(NotApplied::Unavailable),
            ],
            Call::Plan => {
                let conflict = NotApplied::Conflict("c".to_owned());
                let refused = NotApplied::Refused(found());
                vec![Ok(()), Err(refused), Err(conflict), Err(NotApplied::Unavailable)]
            }
            Call::PutConfig | Call::Reload | Call::Rollback | Call::Confirm => {
                let mut all = vec![
                    Ok(()),
                    Err(NotApplied::Failed(found())),
                    Err(NotApplied::Conflict("c".to_owned())),
                    Err(NotApplied::Unavailable),
                ];
                if call != Call::Confirm {
                    all.push(Err(NotApplied::Refused(found())));
                }
                if call == Call::Rollback {
                    all.push(Err(NotApplied::NotFound("n".to_owned())));
                }
                all
            }
            Call::ReadConfig | Call::History => {
                let conflict = NotApplied::Conflict("c".to_owned());
                vec![Ok(()), Err(conflict), Err(NotApplied::Unavailable)]
            }
            _ => Vec::new(),
        };
        for outcome in outcomes {
            let ask = good(call);
            let (response, ()) = tokio::join!(desk.responds(&ask), async {
                let order = desk.ordered.lock().await.recv().await;
                let Some(Order::Configuration(order)) = order else { panic!("{order:?}") };
                program(order, outcome);
            });
            served.note(&api, call, &response);
        }
        // Parameters that are none.
        if matches!(
            call,
            Call::PutConfig
                | Call::Plan
                | Call::Reload
                | Call::Confirm
                | Call::Rollback
                | Call::Upgrade
                | Call::CompareHistory
        ) {
            let target = format!("{}?x=1", entry.path);
            let ask = Ask { target: &target, ..good(call) };
            served.note(&api, call, &desk.responds(&ask).await);
        }
    }
    let outcomes = [
        Ok(Upgraded { program: "/opt/titan".into(), pid: 42, version: "9.0.0".to_owned() }),
        Err(NotUpgraded::Failed("it is a directory".to_owned())),
        Err(NotUpgraded::Conflict("one is on trial".to_owned())),
        Err(NotUpgraded::Unavailable),
    ];
    for outcome in outcomes {
        let ask = good(Call::Upgrade);
        let (response, ()) = tokio::join!(desk.responds(&ask), async {
            let order = desk.ordered.lock().await.recv().await;
            let Some(Order::Upgrade(UpgradeOrder { done, .. })) = order else {
                panic!("{order:?}")
            };
            let _ = done.send(outcome);
        });
        served.note(&api, Call::Upgrade, &response);
    }
    for call in [Call::Index, Call::Health, Call::Readiness, Call::Metrics, Call::Description] {
        served.note(&api, call, &desk.responds(&good(call)).await);
    }
    for accept in ["application/openmetrics-text", "application/vnd.google.protobuf"] {
        let fields = [("Accept", accept)];
        let response = desk.responds(&Ask { fields: &fields, ..good(Call::Metrics) }).await;
        assert_eq!(response.head.fields.get(FieldName::Vary), Some(&b"Accept"[..]));
        served.note(&api, Call::Metrics, &response);
    }
    let elsewhere = "{\"action\":\"eject\",\"endpoint\":\"127.0.0.1:2\"}";
    for body in [good(Call::OrderUpstream).body, elsewhere, "{"] {
        let ask = Ask { body, ..good(Call::OrderUpstream) };
        served.note(&api, Call::OrderUpstream, &desk.responds(&ask).await);
    }
    served.note(&api, Call::ReadLog, &desk.responds(&good(Call::ReadLog)).await);
    for body in [good(Call::PutLog).body, "{"] {
        let ask = Ask { body, ..good(Call::PutLog) };
        served.note(&api, Call::PutLog, &desk.responds(&ask).await);
    }
    served.note(&api, Call::ListCertificates, &desk.responds(&good(Call::ListCertificates)).await);
    for call in [Call::SignIn, Call::ReadSession, Call::SignOut] {
        served.note(&api, call, &desk.responds(&good(call)).await);
    }
    for body in ["{\"token\":\"none\"}", "{"] {
        let ask = Ask { body, ..good(Call::SignIn) };
        served.note(&api, Call::SignIn, &desk.responds(&ask).await);
    }
    let page = [("Accept", "text/html")];
    let redirected = desk.responds(&Ask { fields: &page, ..good(Call::Index) }).await;
    served.note(&api, Call::Index, &redirected);
    let folder = desk.responds(&good(Call::DashboardFolder)).await;
    assert_eq!(folder.head.status, Status::PERMANENT_REDIRECT);
    assert_eq!(folder.head.fields.get(FieldName::Location), Some(&b"dashboard/"[..]));
    served.note(&api, Call::DashboardFolder, &folder);
    for target in ["app.js", "app.css", "icon.svg", "index.html", "none"] {
        let target = &format!("/dashboard/{target}");
        let response = desk.responds(&Ask { target, ..good(Call::DashboardFile) }).await;
        served.note(&api, Call::DashboardFile, &response);
    }
    let known = [("If-None-Match", "*")];
    for call in [Call::Dashboard, Call::DashboardFile] {
        served.note(&api, call, &desk.responds(&good(call)).await);
        served.note(&api, call, &desk.responds(&Ask { fields: &known, ..good(call) }).await);
    }
    let text =
        "{ listeners: [127.0.0.1:0], routes: [{ respond: 200 }], admin: { dashboard: false } }";
    let off = Config::parse("test", text).unwrap();
    without.pages.access.replace(Access::prepare(&off, &Files::default()).unwrap());
    for call in [Call::DashboardFolder, Call::Dashboard, Call::SignIn] {
        served.note(&api, call, &without.responds(&good(call)).await);
    }
    let mirrors = desk.responds(&good(Call::ListMirrors)).await;
    served.note(&api, Call::ListMirrors, &mirrors);
    served.note(&api, Call::ListMirrors, &mirrors::list(&[mirror()]));
    served.note(&api, Call::ListSources, &desk.responds(&good(Call::ListSources)).await);
    served.note(&api, Call::ListUpstreams, &desk.responds(&good(Call::ListUpstreams)).await);
    for target in ["/upstreams/api", "/upstreams/none"] {
        let ask = Ask { target, ..good(Call::ReadUpstream) };
        served.note(&api, Call::ReadUpstream, &desk.responds(&ask).await);
    }
    for call in [
        Call::Figures,
        Call::FiguresNow,
        Call::FiguresOfRoutes,
        Call::FiguresOfUpstreams,
        Call::LiveFigures,
    ] {
        served.note(&api, call, &desk.responds(&good(call)).await);
    }
    let recorded = recorder::asks(&desk.gateway, "/m");
    let one = format!("/recorder/{recorded}");
    for (call, target) in [
        (Call::ReadExchange, one.as_str()),
        (Call::ReadExchange, "/recorder/none"),
        (Call::ReadExchange, "/recorder/none?explain=maybe"),
        (Call::ListExchanges, "/recorder"),
        (Call::ListExchanges, "/recorder?limit=0"),
        (Call::Tap, "/tap"),
        (Call::Tap, "/tap?colour=red"),
    ] {
        served.note(&api, call, &desk.responds(&Ask { target, ..good(call) }).await);
    }
    let events = [("Accept", "text/event-stream")];
    served.note(&api, Call::Tap, &desk.responds(&Ask { fields: &events, ..good(Call::Tap) }).await);
    for target in ["/figures?window=10", "/figures?route=none-such"] {
        let ask = Ask { target, ..good(Call::Figures) };
        served.note(&api, Call::Figures, &desk.responds(&ask).await);
    }
    let revocations = [
        (Call::ListRevocations, "/jwt/revocations?limit=x", ""),
        (Call::Revoke, "", "{"),
        (Call::Revoke, "", "{\"jti\":\"a\",\"exp\":9999999999}"),
        (Call::Revoke, "", "{\"jti\":\"a\",\"exp\":9999999999}"),
        (Call::Revoke, "", "{\"jti\":\"b\",\"exp\":9999999999}"),
        (Call::ListRevocations, "", ""),
        (Call::Restore, "", ""),
        (Call::Restore, "", ""),
    ];
    for (call, target, body) in revocations {
        let good = good(call);
        let target = if target.is_empty() { good.target } else { target };
        served.note(&api, call, &desk.responds(&Ask { target, body, ..good }).await);
    }
    for call in [Call::ListRevocations, Call::Revoke] {
        served.note(&api, call, &without.responds(&good(call)).await);
    }
    served.note(&api, Call::Revoke, &desk.responds(&good(Call::Revoke)).await);
    let (_cut_off, of_fleet) = revocations::tests::cut_off();
    let of_fleet = Desk::with_store(Some(Arc::new(of_fleet)));
    let body = "{\"jti\":\"a\",\"exp\":9999999999}";
    let ask = Ask { body, ..good(Call::Revoke) };
    served.note(&api, Call::Revoke, &of_fleet.responds(&ask).await);
    served.note(&api, Call::Restore, &of_fleet.responds(&good(Call::Restore)).await);
    place.fails(&store);
    let (call, ask) = (Call::Restore, Ask { target: "/jwt/revocations/2", ..good(Call::Restore) });
    served.note(&api, call, &desk.responds(&ask).await);
    let body = "{\"jti\":\"a\",\"exp\":99999999999}";
    let ask = Ask { body, ..good(Call::Revoke) };
    served.note(&api, Call::Revoke, &desk.responds(&ask).await);
    desk.gateway.drain();
    served.note(&api, Call::Readiness, &desk.responds(&good(Call::Readiness)).await);
    assert_eq!(served.0, all_responses(&api));
}

#[test]
fn every_word_of_the_history_is_described() {
    let api = api();
    let entry = &api["components"]["schemas"]["Entry"]["properties"];
    let peer = Author::Peer { uid: 1, pid: None };
    let named = [Author::Token("t".to_owned()), Author::Source("s".to_owned())];
    for author in [Author::Signal, Author::Watch, peer].into_iter().chain(named) {
        let next = match author {
            Author::Signal
            | Author::Watch
            | Author::Peer { .. }
            | Author::Token(_)
            | Author::Source(_) => json!(author),
        };
        assert_eq!(fault(&api, &entry["author"], &next), None);
    }
    let sources = [
        Source::Start,
        Source::Signal,
        Source::Watch,
        Source::Delivery,
        Source::Admin,
        Source::Rollback,
        Source::TakenBack,
    ];
    assert_eq!(entry["source"]["enum"], json!(sources));
}
