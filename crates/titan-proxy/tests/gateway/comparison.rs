//! Responses to requests, compared with those to their copies.

use titan_proxy::{ComparisonStatus, ResponseDifference, ShownValue};
use titan_testkit::h2::Head;
use titan_testkit::upstream::{self, Upstream, ok_with};
use titan_testkit::{Gateway, gateway, waits_until};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A gateway whose requests go to the first upstream, and copies of them to the second; responses are compared.
fn compared(compare: &str, upstreams: &[&dyn std::fmt::Display; 2]) -> Gateway {
    gateway(&configuration(&format!(", compare: {{ {compare} }}")), upstreams)
}

fn configuration(settings: &str) -> String {
    format!(
        "upstreams: {{ u: $0, shadow: $1 }}\n\
         routes: [{{ name: r, upstream: u, mirror: {{ upstream: shadow{settings} }} }}]"
    )
}

fn json(fields: &str, body: &str) -> Vec<u8> {
    ok_with(&format!("Content-Type: application/json\r\n{fields}"), body)
}

fn status(gateway: &Gateway) -> ComparisonStatus {
    gateway.status().mirrors().remove(0).comparison.expect("it compares")
}

fn not_compared(gateway: &Gateway, reason: &str) -> u64 {
    let counts = status(gateway).not_compared;
    counts.iter().find(|(name, _)| *name == reason).expect("it is a reason").1
}

/// How many pairs were equal, how many different, and how many not compared, once so many are judged.
#[track_caller]
fn waits_for(gateway: &Gateway, judged: u64) -> [u64; 3] {
    let counts = || {
        let ComparisonStatus { equal, different, not_compared, .. } = status(gateway);
        [equal, different, not_compared.iter().map(|(_, count)| count).sum()]
    };
    waits_until("all are judged", || counts().iter().sum::<u64>() == judged);
    counts()
}

/// The differences of the newest sample: part and place.
fn differences(gateway: &Gateway) -> Vec<String> {
    let sample = status(gateway).samples.pop().expect("something differs");
    let line = |it: &ResponseDifference| format!("{} {}", it.part, it.place);
    sample.differences.iter().map(line).collect()
}

// field: mirror.compare
#[test]
fn responses_are_compared_in_all_combinations_of_protocols() {
    let body = |value| format!(r#"{{"list":[{}1],"value":{value}}}"#, "1,".repeat(10_000));
    let endpoint = |is_h2: bool, chunked: bool, value: u32| -> Upstream {
        let body = body(value);
        let head =
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
        let response = match chunked {
            true => format!("{head}\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).into_bytes(),
            false => json("", &body),
        };
        if is_h2 { upstream::replies_h2(response) } else { upstream::replies(response) }
    };
    for [from_h2, to_h2, shadow_h2] in
        [0, 1, 2, 3, 4, 5, 6, 7].map(|it| [it & 1 > 0, it & 2 > 0, it & 4 > 0])
    {
        for (value, expected) in [(1, [1, 0, 0]), (2, [0, 1, 0])] {
            let (original, shadow) =
                (endpoint(to_h2, !to_h2, 1), endpoint(shadow_h2, false, value));
            let protocol = |is_h2| if is_h2 { "h2" } else { "h1" };
            let text = format!(
                "upstreams:\n  u: {{ endpoints: $0, protocol: {} }}\n  shadow: {{ endpoints: $1, protocol: {} }}\n\
                 routes: [{{ upstream: u, mirror: {{ upstream: shadow, compare: {{}} }} }}]",
                protocol(to_h2),
                protocol(shadow_h2)
            );
            let gateway = gateway(&text, &[&original, &shadow]);
            if from_h2 {
                let mut client = gateway.connects_h2();
                let stream = client.asks(&Head::get("/"));
                client.response(stream).has_status(200).has_body(body(1));
            } else {
                gateway.get("/").has_status(200).has_body(body(1));
            }
            assert_eq!(waits_for(&gateway, 1), expected, "{from_h2} {to_h2} {shadow_h2}");
        }
    }
}

#[test]
fn calls_differ_if_their_status_does() {
    let endpoint = |trailers: &str| {
        upstream::replies_h2(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n\
             5\r\n\0\0\0\0\0\r\n0\r\n{trailers}\r\n"
        ))
    };
    let failed = "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\ngrpc-status: 14\r\n\
        Content-Length: 0\r\n\r\n";
    for compare in ["{}", "{ body: off }", "{ body: 1B }"] {
        let unequal = if compare == "{ body: 1B }" { [0, 0, 1] } else { [1, 0, 0] };
        for (shadow, expected) in [
            (endpoint("grpc-status: 0\r\n"), unequal),
            (endpoint("grpc-status: 14\r\n"), [0, 1, 0]),
            (endpoint(""), [0, 1, 0]),
            (upstream::replies_h2(failed), [0, 1, 0]),
        ] {
            let original = endpoint("grpc-status: 0\r\n");
            let text = format!(
                "upstreams:\n  u: {{ endpoints: $0, protocol: h2 }}\n  shadow: {{ endpoints: $1, protocol: h2 }}\n\
                 routes: [{{ upstream: u, mirror: {{ upstream: shadow, compare: {compare} }} }}]"
            );
            let gateway = gateway(&text, &[&original, &shadow]);
            let mut client = gateway.connects_h2();
            let call = Head::post("/a.B/C").with("content-type", "application/grpc");
            let stream = client.asks(&call.with("te", "trailers"));
            client.response(stream).has_status(200);
            assert_eq!(waits_for(&gateway, 1), expected, "{compare}");
            if expected == [0, 1, 0] {
                assert_eq!(differences(&gateway), ["status grpc-status"]);
            }
        }
    }
}

// field: comparison.headers
#[test]
fn chosen_headers_are_compared_as_they_come() {
    let endpoint = |tag: &str| {
        let fields = format!("ETag: {tag}\r\nX-Version: {tag}\r\nSet-Cookie: sid={tag}\r\n");
        upstream::replies(json(&fields, "{}"))
    };
    let (upstream, shadow) = (endpoint("1"), endpoint("2"));
    let transform = "policies: { p: { transform: { response: { headers: { set: { X-Version: '7' } } } } } }\napply: [p]\n";
    let text = configuration(", compare: { headers: [X-Version, Set-Cookie, X-None] }");
    let gateway = gateway(&(transform.to_owned() + &text), &[&upstream, &shadow]);
    gateway.get("/").has_field("x-version", "7");
    assert_eq!(waits_for(&gateway, 1), [0, 1, 0]);
    let sample = status(&gateway).samples.remove(0);
    let shown = |value: Option<&str>, bytes| {
        Some(ShownValue { kind: "string", bytes, value: value.map(str::to_owned) })
    };
    let expected = [
        ("X-Version", shown(Some("1"), 1), shown(Some("2"), 1)),
        ("Set-Cookie", shown(None, 5), shown(None, 5)),
    ];
    let differences = expected.map(|(place, original, mirror)| ResponseDifference {
        part: "header",
        place: place.to_owned(),
        original,
        mirror,
    });
    assert_eq!(sample.differences, differences);
    assert!(sample.request_id.as_ref().is_some_and(|id| !id.is_empty()));
}

// field: comparison.ignore, comparison.show
#[test]
fn members_are_ignored_and_shown_by_their_place() {
    let endpoint =
        |id| upstream::replies(json("", &format!(r#"{{"id":{id},"meta":{{"at":{id}}}}}"#)));
    let (upstream, shadow) = (endpoint(1), endpoint(2));
    for (compare, expected) in
        [("ignore: [/id, /meta/*]", [1, 0, 0]), ("ignore: /id, show: [/meta]", [0, 1, 0])]
    {
        let gateway = compared(compare, &[&upstream, &shadow]);
        gateway.get("/").has_status(200);
        assert_eq!(waits_for(&gateway, 1), expected);
        if expected == [0, 1, 0] {
            assert_eq!(differences(&gateway), ["body /meta/at"]);
            let shown = status(&gateway).samples[0].differences[0].mirror.clone().unwrap();
            assert_eq!(shown.value.as_deref(), Some("2"));
        }
    }
}

// field: comparison.samples
#[test]
fn the_newest_samples_are_kept_over_reloads() {
    let (upstream, shadow) = (upstream::replies(json("", "1")), upstream::replies(json("", "2")));
    let gateway = compared("samples: 2", &[&upstream, &shadow]);
    for number in 1..=3 {
        gateway.get(&format!("/{number}")).has_status(200);
        waits_for(&gateway, number);
    }
    let text = configuration(", compare: { samples: 2, ignore: /a }");
    gateway.reloads(&text, &[&upstream, &shadow]).unwrap();
    let ComparisonStatus { different, samples, .. } = status(&gateway);
    let paths: Vec<_> = samples.iter().map(|sample| &*sample.path).collect();
    assert_eq!((different, paths), (3, vec!["/2", "/3"]));
    gateway.reloads(&configuration(""), &[&upstream, &shadow]).unwrap();
    assert_eq!(gateway.status().mirrors()[0].comparison, None);
}

// field: comparison.body
#[test]
fn a_large_body_is_passed_on_and_not_compared() {
    let large = format!("\"{}\"", "x".repeat(500_000));
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x}\r\n{large}\r\n0\r\n\r\n",
        large.len()
    );
    for response in [json("", &large), chunked.into_bytes()] {
        let (upstream, shadow) = (upstream::replies(response), upstream::replies(json("", "1")));
        let gateway = compared("body: 1KiB", &[&upstream, &shadow]);
        gateway.get("/").has_status(200).has_body(&large);
        waits_for(&gateway, 1);
        assert_eq!(not_compared(&gateway, "body-too-large"), 1);
    }
}

/// What the gateway makes of a response is no difference.
#[test]
fn responses_are_compared_before_policies_change_them() {
    let body = format!("\"{}\"", "x".repeat(50_000));
    let (upstream, shadow) =
        (upstream::replies(json("", &body)), upstream::replies(json("", &body)));
    let text = configuration(", compare: { headers: [Content-Encoding] }");
    let text = format!("policies: {{ c: {{ compress: {{}} }} }}\napply: [c]\n{text}");
    let gateway = gateway(&text, &[&upstream, &shadow]);
    let mut client = gateway.connects();
    client.sends("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    client.response().has_field("content-encoding", "gzip");
    assert_eq!(waits_for(&gateway, 1), [1, 0, 0]);
}

/// Whatever becomes of the copy or of the response, the client gets it, and no comparison.
#[test]
fn responses_without_another_one_are_not_compared() {
    let fails = upstream::replies("").then_closes();
    let responds = upstream::replies(json("", "1"));
    for (upstream, shadow, reason) in
        [(&fails, &responds, "no-response"), (&responds, &fails, "copy-failed")]
    {
        let gateway = compared("", &[upstream, shadow]);
        gateway.get("/");
        waits_for(&gateway, 1);
        assert_eq!(not_compared(&gateway, reason), 1);
    }
}

#[test]
fn a_response_is_not_waited_for_beyond_the_time_of_the_copy() {
    let (upstream, shadow) = (upstream::listens(), upstream::replies(json("", "1")));
    let text = configuration(", timeout: 300ms, compare: {}");
    let gateway = gateway(&text, &[&upstream, &shadow]);
    let mut client = gateway.connects();
    client.sends(GET);
    let mut endpoint = upstream.accepts();
    endpoint.request();
    endpoint.sends("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na");
    waits_for(&gateway, 1);
    assert_eq!(not_compared(&gateway, "too-late"), 1);
    waits_until("it is over", || gateway.status().mirrors()[0].running == 0);
    endpoint.sends("bc");
    client.response().has_status(200).has_body("abc");
}

#[test]
fn what_is_compared_no_longer_takes_no_memory() {
    let (upstream, shadow) = (upstream::listens(), upstream::replies(json("", "1")));
    let text = configuration(", body: 1MiB, timeout: 100ms, compare: { body: 1MiB }");
    let limits = "limits: { mirror_memory: 1MiB }";
    let gateway = gateway(&format!("{limits}\n{text}"), &[&upstream, &shadow]);
    let mut client = gateway.connects();
    client.sends(GET);
    let mut endpoint = upstream.accepts();
    endpoint.request();
    endpoint.sends("HTTP/1.1 200 OK\r\nContent-Length: 700000\r\n\r\n");
    endpoint.sends("x".repeat(600_000));
    waits_for(&gateway, 1);
    assert_eq!(not_compared(&gateway, "too-late"), 1);
    waits_until("it is over", || gateway.status().mirrors()[0].running == 0);
    let body = "x".repeat(600_000);
    let length = body.len();
    let mut other = gateway.connects();
    other.sends(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"));
    let mut second = upstream.accepts();
    assert!(second.request().text() == body);
    waits_until("it is copied", || gateway.status().mirrors()[0].sent == 2);
    endpoint.sends("x".repeat(100_000));
    client.response().has_status(200);
}

#[test]
fn a_response_whose_client_leaves_is_not_compared() {
    let (upstream, shadow) = (upstream::listens(), upstream::replies(json("", "1")));
    let gateway = gateway(&configuration(", timeout: 1h, compare: {}"), &[&upstream, &shadow]);
    let mut client = gateway.connects();
    client.sends(GET);
    let mut endpoint = upstream.accepts();
    endpoint.request();
    endpoint.sends("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na");
    shadow.waits_for_requests(1);
    client.resets();
    waits_for(&gateway, 1);
    assert_eq!(not_compared(&gateway, "no-response"), 1);
}
