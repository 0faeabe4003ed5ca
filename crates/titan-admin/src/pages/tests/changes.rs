//! Calls that have the program change its configuration.

use super::*;

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
            let Order::Change { change, author, done } = order else { panic!("{order:?}") };
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
        "uid 0 (pid 7): PUT /config?name=new.yaml&confirm=5m: done (200): sha256 {}",
        hex(sha256(body.as_bytes()))
    );
    assert_eq!(desk.lines(), [line]);
}

#[tokio::test]
async fn what_is_not_put_in_force_says_why() {
    let desk = Desk::new();
    let fails = async |why: NotApplied| {
        let ask = Ask { method: Method::POST, target: "/reload", ..Ask::default() };
        let refuse = |order| {
            let Order::Change { change: Change::Reload, done, .. } = order else {
                panic!("{order:?}")
            };
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
async fn bodies_and_parameters_that_are_none_never_reach_the_program() {
    let desk = Desk::new();
    for (method, target, body) in [
        (Method::PUT, "/config", ""),
        (Method::PUT, "/config", " \n"),
        (Method::PUT, "/config?confirm=soon", "a: 1"),
        (Method::POST, "/reload?confirm=5m", ""),
        (Method::POST, "/confirm?id=1", ""),
        (Method::POST, "/rollback?id=x", ""),
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
