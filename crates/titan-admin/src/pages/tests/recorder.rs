//! What is shown of the last exchanges.

use super::*;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::pin;
use std::sync::mpsc::sync_channel;
use std::task::Poll;
use titan_observe::observer::Subscriber;
use titan_observe::record::{ExchangeRecord, Text};
use titan_observe::recorder::RecorderWriter;
use titan_observe::ring::{Batch, MAX_BATCHES, Ring};
use tokio::task::yield_now;

/// Asks the gateway for that path; the id of the request.
pub(super) fn asks(gateway: &Gateway, path: &str) -> String {
    let address = gateway.listeners()[0].socket_address;
    let mut client = TcpStream::connect(address.unwrap()).unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: shop.example\r\nAuthorization: Bearer abcdefghijklmnopqrst\r\n\
         X-Pin: 123\r\nCookie: a=refuses\r\nX-Html: <b>[31m\u{202e}\r\nConnection: close\r\n\r\n"
    );
    client.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    let id = response.lines().find_map(|line| line.strip_prefix("X-Request-Id: "));
    id.unwrap_or_else(|| panic!("{response}")).to_owned()
}

fn document(desk: &Desk, target: &str) -> (u16, Value) {
    let (status, body) = desk.asks(Method::GET, target);
    (status, serde_json::from_str(&body).unwrap())
}

#[test]
fn an_exchange_is_found_by_the_id_that_its_response_carries() {
    let desk = Desk::new();
    let id = asks(&desk.gateway, "/a?token=abc");
    let (status, exchange) = document(&desk, &format!("/recorder/{id}"));
    assert_eq!((status, &exchange["request_id"]), (200, &json!(id)));
    assert_eq!((&exchange["path"], &exchange["query"]), (&json!("/a"), &json!("token=***")));
    let head = exchange["request_head"].as_array().unwrap();
    assert!(head.contains(&json!(["Authorization", "***"])), "{head:?}");
    assert!(head.contains(&json!(["X-Html", "<b>[31m\u{202e}"])), "as text: {head:?}");
    assert_eq!(exchange["decisions"][0]["what"], "route");
    let (status, problem) = document(&desk, "/recorder/none");
    assert_eq!(status, 404);
    assert!(problem["detail"].as_str().unwrap().contains("recorder.memory"), "{problem}");
}

#[test]
fn bodies_are_shown_of_one_exchange_alone() {
    let desk = Desk::new();
    let id = asks(&desk.gateway, "/m");
    let (_, exchange) = document(&desk, &format!("/recorder/{id}"));
    assert_eq!(exchange.get("request_body"), None, "there was none");
    let shown = &exchange["response_body"];
    assert_eq!((&shown["encoding"], &shown["bytes"]), (&json!("text"), &shown["kept"]));
    assert!(shown["content"].as_str().unwrap().contains(&id), "a problem document: {shown}");
    let (_, listing) = document(&desk, "/recorder");
    let listed = &listing["exchanges"][0];
    assert_eq!((&listed["request_id"], listed.get("response_body")), (&json!(id), None));
    let without = asks(&desk.gateway, "/a");
    let (_, exchange) = document(&desk, &format!("/recorder/{without}"));
    assert_eq!((&exchange["status"], exchange.get("response_body")), (&json!(200), None));
}

#[test]
fn exchanges_are_listed_by_what_is_asked_for() {
    let desk = Desk::new();
    let id = asks(&desk.gateway, "/a");
    asks(&desk.gateway, "/m");
    // Until both are there.
    assert_eq!(document(&desk, &format!("/recorder/{id}")).0, 200);
    let paths = |query: &str| {
        let (status, listing) = document(&desk, &format!("/recorder{query}"));
        assert_eq!(status, 200, "{listing}");
        let path = |it: &Value| it["path"].as_str().unwrap().to_owned();
        let all = listing["exchanges"].as_array().unwrap().iter().map(path).collect::<Vec<_>>();
        (all, listing)
    };
    while paths("").0.len() < 2 {}
    assert_eq!(paths("?failed=true").0, ["/m"]);
    assert_eq!(paths("?upstream=api&status=5xx").0, ["/m"]);
    assert_eq!(paths("?path=%2Fa").0, ["/a"]);
    assert_eq!(paths("?status=200&client=127.0.0.0/8").0, ["/a"]);
    let (one, listing) = paths("?limit=1");
    assert_eq!((one, &listing["has_more"]), (vec!["/m".to_owned()], &json!(true)));
    assert_eq!(listing["covers"]["bytes_at_most"], 32 << 20);
    for (query, detail) in [
        ("?limit=0", "`limit`: write a number from 1 to 1000"),
        ("?status=abc", "`status`: it is not a number"),
        ("?colour=red", "there is no condition of that name; there are `id`, `route`"),
        ("?id=%ff", "the query is not UTF-8"),
    ] {
        let (status, problem) = document(&desk, &format!("/recorder{query}"));
        let told = problem["detail"].as_str().unwrap();
        assert!(status == 400 && told.starts_with(detail), "{query}: {told}");
    }
    let (status, problem) = document(&desk, "/tap?rate=1001");
    assert_eq!(
        (status, &problem["detail"]),
        (400, &json!("`rate`: write a number from 1 to 1000"))
    );
}

#[test]
fn exchanges_are_told_live_until_the_reader_goes() {
    let desk = Desk::new();
    runtime().block_on(async {
        for (accept, begins) in
            [("*/*", "{\"time\""), ("text/event-stream", "event: exchange\ndata: {")]
        {
            let fields = [("Host", "localhost"), ("Accept", accept)];
            let ask = Ask { target: "/tap?path=/m", fields: &fields, ..Ask::default() };
            let mut response = desk.responds(&ask).await;
            assert_eq!(response.head.status.code(), 200);
            let mut told = response.rest.take().unwrap();
            asks(&desk.gateway, "/b");
            asks(&desk.gateway, "/m");
            let piece = loop {
                let piece = told.next().await.expect("it goes on");
                let piece = String::from_utf8(piece.to_vec()).unwrap();
                if !piece.trim_matches(['\n', ':']).is_empty() {
                    break piece;
                }
            };
            assert!(piece.starts_with(begins) && piece.contains("\"path\":\"/m\""), "{piece}");
            assert!(
                !piece.contains("_body\""),
                "bodies are not for everybody who looks on: {piece}"
            );
            assert!(piece.ends_with('\n') && piece.trim_end().lines().count() <= 2, "{piece}");
        }
    });
}

/// Has the gateway's recorder told of so many exchanges.
fn records(gateway: &Gateway, count: usize) {
    let (sender, batches) = sync_channel(MAX_BATCHES);
    let (mut ring, recorder) = (Ring::<Batch>::new(sender), gateway.status().recorder());
    let mut record = ExchangeRecord::default();
    for number in 0..count {
        record.clear();
        record.facts.set_started(number as u64);
        record.set(Text::Target, format!("/{number}?{}", "x".repeat(400)).as_bytes());
        ring.push(&record, false);
    }
    ring.flush();
    let mut writer = RecorderWriter(recorder);
    batches.try_iter().for_each(|batch| writer.take(&Arc::new(batch)));
}

#[test]
fn what_was_left_out_is_told_at_the_end() {
    let desk = Desk::new();
    runtime().block_on(async {
        let ask = Ask { target: "/tap?rate=3", ..Ask::default() };
        let mut told = desk.responds(&ask).await.rest.take().unwrap();
        told.next().await.expect("the first beat");
        records(&desk.gateway, 10);
        desk.gateway.status().recorder().limit(0);
        let mut pieces = Vec::new();
        while let Some(piece) = told.next().await {
            pieces.push(String::from_utf8(piece.to_vec()).unwrap());
        }
        let (last, before) = pieces.split_last().unwrap();
        assert_eq!((last.as_str(), before.len()), ("{\"skipped\":7}\n", 3), "{before:?}");
    });
}

#[test]
fn a_count_of_what_was_left_out_that_does_not_fit_is_told_later() {
    const ALL: usize = 400;
    let desk = Desk::new();
    runtime().block_on(async {
        tokio::time::pause();
        let ask = Ask { target: "/tap?rate=1000", ..Ask::default() };
        let mut told = desk.responds(&ask).await.rest.take().unwrap();
        told.next().await.expect("the first beat");
        records(&desk.gateway, ALL);
        let (mut exchanges, mut skipped) = (0, 0);
        let mut count = |piece: Arc<[u8]>| {
            let document: Value = serde_json::from_slice(&piece).unwrap_or_default();
            match document["skipped"].as_u64() {
                Some(more) => skipped += more,
                None => exchanges += u64::from(document.is_object()),
            }
        };
        // The reader takes nothing while it is twice to be told how many it has missed.
        tokio::time::sleep(Duration::from_secs(25)).await;
        for _ in 0..10 {
            count(told.next().await.unwrap());
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        desk.gateway.status().recorder().limit(0);
        while let Some(piece) = told.next().await {
            count(piece);
        }
        assert!(skipped > 0 && exchanges > 0);
        assert_eq!(exchanges + skipped, ALL as u64);
    });
}

/// How often a call has its turn until it is responded to: in between, others have theirs.
fn turns(desk: &Desk, target: &str) -> usize {
    let ask = Ask { target, ..Ask::default() };
    let (mut call, mut turns) = (pin!(desk.responds(&ask)), 0);
    let response = runtime().block_on(poll_fn(|cx| {
        turns += 1;
        call.as_mut().poll(cx)
    }));
    assert_eq!(response.head.status.code(), 200, "{target}");
    turns
}

#[test]
fn a_search_of_much_memory_lets_others_have_their_turn() {
    let desk = Desk::new();
    assert_eq!(turns(&desk, "/healthz"), 1);
    records(&desk.gateway, 2_000);
    // 1.2 MB, in batches of 256 KiB, are looked at piece by piece.
    let search = turns(&desk, "/recorder?path=/none");
    assert!(search > 4, "{search}");
    // What was found is written so many at a time.
    let listing = turns(&desk, "/recorder?limit=1000");
    assert!(listing >= search + 1_000 / 64, "{listing}");
}

#[test]
fn a_tap_of_much_lets_others_have_their_turn() {
    let desk = Desk::new();
    runtime().block_on(async {
        let ask = Ask { target: "/tap?rate=1000", ..Ask::default() };
        let mut told = desk.responds(&ask).await.rest.take().unwrap();
        told.next().await.expect("the first beat");
        records(&desk.gateway, 100);
        let (mut rounds, mut pieces) = (0, 0);
        while pieces < 100 {
            rounds += 1;
            yield_now().await;
            poll_fn(|cx| {
                while let Poll::Ready(Some(_)) = pin!(told.next()).poll(cx) {
                    pieces += 1;
                }
                Poll::Ready(())
            })
            .await;
        }
        assert!(rounds > 50, "{rounds}");
    });
}

#[test]
fn what_became_of_a_request_is_explained_without_its_secrets() {
    let desk = Desk::new();
    let id = asks(&desk.gateway, "/a?token=ab%2Bc&page=2");
    let target = format!("/recorder/{id}?explain=true");
    let explained = |order: Order| {
        let Order::Configuration(ConfigOrder::Explain { question, done }) = order else {
            panic!("{order:?}")
        };
        assert_eq!(
            (&*question.method, &*question.url),
            ("GET", "http://shop.example/a?token=***&page=2")
        );
        assert_eq!(question.client, Some("127.0.0.1".parse().unwrap()));
        let asked = question.fields.join(" | ");
        assert!(asked.contains("Authorization: Bearer abcdefghijklmnopqrst"), "{asked}");
        let text = format!("route r\nwithout {asked} {}\n", question.url);
        assert!(asked.contains("X-Pin: *** | Cookie: ***"), "{asked}");
        let token = "abcdefghijklmnopqrst";
        let json = json!({ "forwarded": { "headers": [["X-Token", token]] }, "status": 200 });
        let _ = done.send(Ok(orders::Explained { text, json }));
    };
    let ask = Ask { target: &target, ..Ask::default() };
    let (status, exchange) = runtime().block_on(desk.ordered(&ask, explained));
    let explanation = &exchange["explanation"];
    assert_eq!((status, &explanation["same_configuration"]), (200, &json!(true)));
    assert!(explanation["text"].as_str().unwrap().starts_with("route r\n"));
    assert_eq!(explanation["outcome"]["forwarded"]["headers"][0][1], "***");
    assert_eq!(explanation["replaced"], json!(["the query", "X-Pin", "Cookie"]));
    for secret in ["abcdefgh", "ab%2Bc", "ab+c", "123\"", "refuses"] {
        assert!(!exchange.to_string().contains(secret), "{secret}: {exchange:#}");
    }
}

#[test]
fn a_request_whose_head_could_not_be_read_is_not_judged() {
    let desk = Desk::new();
    let id = asks(&desk.gateway, "/not a path");
    let (_, exchange) = document(&desk, &format!("/recorder/{id}?explain=true"));
    let explanation = &exchange["explanation"];
    assert_eq!((&explanation["outcome"], &explanation["replaced"]), (&Value::Null, &json!([])));
    let why = explanation["text"].as_str().unwrap();
    assert!(why.starts_with("its head could not be read"), "{why}");
    assert_eq!((exchange.get("method"), &exchange["status"]), (None, &json!(400)));
}
