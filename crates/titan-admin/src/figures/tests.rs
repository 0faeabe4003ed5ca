//! The figures of a gateway that serves, sampled when the test says so.

use super::problems::{About, Problem, Severity};
use super::*;
use crate::reloads::Subject;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::UNIX_EPOCH;
use titan_config::Config;
use titan_proxy::{
    BreakerState, Condition, Fact, Files, KeySetStatus, PressureLevel, Reason, UpstreamStatus,
};

const CONFIG: &str = "
workers: 2
listeners: [127.0.0.1:0]
admin: off
routes:
  - { name: fine, path: /fine, respond: 200 }
  - { name: broken, path: /broken, respond: 503 }
  - { name: away, path: /away, upstream: nobody }
upstreams:
  nobody: { endpoints: [unix:/nowhere/at-all], circuit_breaker: {} }
";

fn started(config: &str) -> (Gateway, Arc<Figures>) {
    let config = Config::parse("test", config).unwrap();
    let gateway = Gateway::start(&config, &Files::default(), None).unwrap();
    let reloads = Arc::new(Reloads::new([0xa0; 32]));
    let figures = Arc::new(Figures::new(&gateway, &reloads, SystemTime::now()));
    (gateway, figures)
}

/// Sends requests and waits until they are counted: a connection closes after that.
fn ask(gateway: &Gateway, path: &str, times: usize) {
    let mut stream = TcpStream::connect(gateway.listeners()[0].socket_address.unwrap()).unwrap();
    for time in 1..=times {
        let close = if time == times { "Connection: close\r\n" } else { "" };
        write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\n{close}\r\n").unwrap();
    }
    stream.read_to_end(&mut Vec::new()).unwrap();
}

fn shown(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap()
}

fn named<'v>(list: &'v Value, name: &str) -> &'v Value {
    list.as_array().unwrap().iter().find(|it| it["name"] == name).unwrap()
}

#[test]
fn what_a_gateway_serves_is_shown_over_time_and_by_route() {
    let (gateway, figures) = started(CONFIG);
    figures.sample(Duration::ZERO);
    ask(&gateway, "/fine", 30);
    ask(&gateway, "/broken", 10);
    ask(&gateway, "/away", 1);
    ask(&gateway, "/none", 1);
    figures.sample(TICK);
    let window = shown(&figures.window(None));
    let rates = window["series"]["rate"].as_array().unwrap();
    assert_eq!((rates.len(), &rates[148], &rates[149]), (150, &Value::Null, &json!(21.0)));
    assert_eq!(window["series"]["errors"][149], json!(5.5));
    assert_eq!(window["series"]["client_errors"][149], json!(0.5));
    assert!(window["series"]["p99"][149].as_f64().unwrap() > 0.0);
    let length = window["now"].as_f64().unwrap() - window["from"].as_f64().unwrap();
    assert!((length - 300.0).abs() < 1e-3, "{length}");
    let of_route = shown(&figures.window(Some(b"window=3600&route=br%6Fken")));
    assert_eq!((&of_route["step"], &of_route["series"]["rate"][179]), (&json!(20), &json!(5.0)));

    let routes = shown(&figures.view(View::Routes));
    let names: Vec<_> =
        routes["routes"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names, ["fine", "broken", "away", "(none)"]);
    let away = named(&routes["routes"], "away");
    assert_eq!((&away["error_share"], &away["upstreams"]), (&json!(1.0), &json!(["nobody"])));
    let fine = named(&routes["routes"], "fine");
    assert_eq!((&fine["rate"], &fine["error_share"]), (&json!(15.0), &json!(0.0)));
    assert!(fine["bytes_out_rate"].as_f64().unwrap() > 1000.0);
    let upstreams = shown(&figures.view(View::Upstreams));
    let nobody = named(&upstreams["upstreams"], "nobody");
    assert_eq!(nobody["error_share"], json!(1.0));

    let now = shown(&figures.view(View::Now));
    assert_eq!((&now["rate"], &now["workers"][1]["worker"]), (&json!(21.0), &json!(1)));
    assert_eq!(now["configuration"]["version"], "a0".repeat(32));
    let problem = &now["problems"][0];
    assert_eq!(problem["about"], json!({ "kind": "route", "name": "broken" }));
    let text = problem["text"].as_str().unwrap();
    assert!(text.starts_with("route `broken`: 100% of the responses are errors since "), "{text}");
    assert!(text.ends_with(" UTC, 5.0 of 5.0 a second"), "{text}");
    assert_eq!(problem["since"].as_f64(), Some(now["at"].as_f64().unwrap() - 2.0));
}

#[test]
fn another_query_is_refused_with_what_there_is() {
    let (_gateway, figures) = started(CONFIG);
    figures.sample(Duration::ZERO);
    let status = |query: &str| figures.window(Some(query.as_bytes())).head.status.code();
    for (query, wanted) in [
        ("", 200),
        ("window=86400", 200),
        ("window=60", 400),
        ("window=-300", 400),
        ("window=99999999999999999999", 400),
        ("step=2", 400),
        ("route=nobody", 404),
        ("route=%FF%00", 404),
        ("route=(none)", 200),
    ] {
        assert_eq!(status(query), wanted, "{query}");
    }
}

#[test]
fn routes_beyond_the_budget_are_one() {
    let routes: Vec<_> = (0..MOST + 20)
        .map(|place| format!("{{ name: r{place}, path: /r{place}/, respond: 200 }}"))
        .collect();
    let config = format!(
        "{{ workers: 1, listeners: [127.0.0.1:0], admin: off, routes: [{}] }}",
        routes.join(", ")
    );
    let (gateway, figures) = started(&config);
    figures.sample(Duration::ZERO);
    for (place, times) in [(MOST - 1, 2), (MOST, 4), (MOST + 19, 6)] {
        ask(&gateway, &format!("/r{place}/"), times);
    }
    figures.sample(TICK);
    let all = shown(&figures.view(View::Routes));
    let all = &all["routes"];
    assert_eq!(all.as_array().unwrap().len(), MOST + 2);
    assert_eq!(named(all, &format!("r{}", MOST - 1))["rate"], json!(1.0));
    assert_eq!(named(all, OTHER)["rate"], json!(5.0));
    assert_eq!(figures.window(Some(b"route=(other)")).head.status, Status::OK);
    assert_eq!(shown(&figures.window(None))["series"]["rate"][149], json!(6.0));
    let missing = figures.window(Some(format!("route=r{MOST}").as_bytes()));
    assert_eq!(missing.head.status, Status::NOT_FOUND);
}

#[test]
fn routes_that_come_and_go_leave_no_peaks() {
    let (gateway, _) = started(CONFIG);
    ask(&gateway, "/fine", 30);
    let routes = gateway.status().routes();
    let now = SystemTime::now();
    let mut store = Store::new(now);
    let mut note = |places: &[usize], tick: u32| {
        let routes = places.iter().map(|place| Arc::clone(&routes[*place])).collect();
        let sample = Sample { routes, upstreams: Vec::new(), workers: Vec::new(), drops: [0; 2] };
        store.note(sample, (TICK * tick, now), Vec::new);
        let rate = |series: &series::Series| series.last().rate;
        (rate(&store.all), store.routes.iter().map(|(name, it)| (name.clone(), rate(it))).collect())
    };
    let none = || ("(none)".to_owned(), 0.0);
    let at_first: Vec<(String, f32)> = note(&[1, 3], 0).1;
    assert!(at_first[0].1.is_nan(), "there was no time yet");
    assert_eq!(note(&[1, 3], 1), (0.0, vec![("broken".to_owned(), 0.0), none()]));
    // What `fine` has counted before it came was not served now; what others do goes on.
    ask(&gateway, "/broken", 4);
    let (all, with_fine) = note(&[0, 1, 3], 2);
    assert_eq!(all, 2.0);
    assert!(with_fine[0].0 == "fine" && with_fine[0].1.is_nan());
    assert_eq!(with_fine[1], ("broken".to_owned(), 2.0));
    ask(&gateway, "/fine", 2);
    assert_eq!(note(&[1, 3], 3), (1.0, vec![("broken".to_owned(), 0.0), none()]));
}

#[test]
fn what_is_made_of_a_sample_is_made_once() {
    let (gateway, figures) = started(CONFIG);
    figures.sample(Duration::ZERO);
    let first = figures.made(View::Routes);
    assert!(Arc::ptr_eq(&first, &figures.made(View::Routes)));
    ask(&gateway, "/fine", 2);
    figures.sample(TICK);
    let second = figures.made(View::Routes);
    assert!(!Arc::ptr_eq(&first, &second) && first != second);
}

#[test]
fn those_who_read_along_get_each_sample_and_the_slow_are_cut_off() {
    let (_gateway, figures) = started(CONFIG);
    figures.sample(Duration::ZERO);
    let response = figures.live();
    let first = String::from_utf8(response.body).unwrap();
    assert!(first.starts_with("retry: 2000\n:\nevent: now\ndata: {\"at\":"), "{first}");
    for event in ["\n\nevent: routes\ndata: {", "\n\nevent: upstreams\ndata: {"] {
        assert!(first.contains(event), "{first}");
    }
    assert!(first.ends_with("}\n\n"));
    drop(figures.live());
    let slow = response.rest.unwrap();
    // The one that has gone is forgotten.
    figures.sample(TICK);
    assert_eq!(lock(&figures.readers).len(), 1);
    let mut ticks = 1;
    while !lock(&figures.readers).is_empty() {
        ticks += 1;
        figures.sample(TICK * ticks);
        assert!(ticks < 300, "there is a bound");
    }
    drop(slow);
}

#[test]
fn the_thread_samples_and_ends_with_the_figures() {
    let (_gateway, figures) = started(CONFIG);
    figures.start().unwrap();
    figures.start().unwrap();
    let weak = Arc::downgrade(&figures);
    while lock(&figures.store).samples == 0 {
        thread::yield_now();
    }
    drop(figures);
    while weak.upgrade().is_some() {
        thread::yield_now();
    }
}

/// An upstream of three endpoints.
fn upstream() -> UpstreamStatus {
    let config = "{ listeners: [127.0.0.1:0], workers: 1, admin: off, routes: [{ upstream: api }], upstreams: { api: \
        { endpoints: ['127.0.0.1:1', '127.0.0.1:2', '127.0.0.1:3'], circuit_breaker: {} } } }";
    let (gateway, _) = started(config);
    gateway.status().upstreams_now().remove(0)
}

/// 03:42 on the second day of Unix time.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(86_400 + 3 * 3600 + 42 * 60)
}

fn texts(problems: &[Problem]) -> Vec<(Severity, &str)> {
    problems.iter().map(|it| (it.severity, it.text.as_str())).collect()
}

#[test]
fn what_is_wrong_with_an_upstream_is_told_with_since_when_and_why() {
    let mut upstream = upstream();
    assert_eq!(problems::of_upstream(&upstream, now()), []);
    let mut eject = |place: usize, minutes: u64, why: &str| {
        let endpoint = &mut upstream.endpoints[place].endpoint;
        endpoint.condition = Condition::Ejected;
        let since = now() - Duration::from_secs(minutes * 60);
        let reason = Reason { fact: Fact::Ejected, why: why.to_owned(), since, until: None };
        endpoint.story.reasons.push(reason);
        problems::of_upstream(&upstream, now())
    };
    assert_eq!(
        texts(&eject(0, 30, "5 consecutive 502")),
        [(
            Severity::Warning,
            "upstream `api`: 1 of 3 endpoints ejected since 03:12 UTC, 5 consecutive 502"
        )]
    );
    let two = eject(2, 40, "refused");
    assert_eq!(two[0].since, Some(unix(now() - Duration::from_secs(2400))));
    assert_eq!(two[0].about, About { kind: "upstream", name: "api".to_owned() });
    assert_eq!(
        texts(&two),
        [(
            Severity::Warning,
            "upstream `api`: 2 of 3 endpoints ejected since 03:02 UTC, 5 consecutive 502, and others"
        )]
    );
    assert_eq!(
        texts(&eject(1, 24 * 60, "refused"))[0],
        (
            Severity::Error,
            "upstream `api`: all 3 endpoints ejected since 1970-01-01 03:42 UTC, 5 consecutive 502, and others"
        )
    );
    upstream.endpoints.clear();
    let breaker = upstream.breaker.as_mut().unwrap();
    breaker.status.state = BreakerState::Open;
    breaker.lasted = Duration::from_secs(120);
    let gone = problems::of_upstream(&upstream, now());
    assert_eq!(
        texts(&gone),
        [
            (Severity::Error, "upstream `api`: it has no endpoint"),
            (Severity::Error, "upstream `api`: its circuit breaker is open since 03:40 UTC"),
        ]
    );
}

#[test]
fn what_is_wrong_with_the_configuration_is_told() {
    let reloads = Reloads::new([0; 32]);
    assert_eq!(problems::of_attempts(&reloads.attempts(), now()), []);
    reloads.note_refused(Subject::Configuration, now() - Duration::from_secs(60));
    reloads.note_standing(true, Some(now() + Duration::from_secs(300)), 2);
    let found = problems::of_attempts(&reloads.attempts(), now());
    let told = [
        "another configuration was refused at 03:41 UTC: the one from before is in force",
        "the configuration in force is on trial: it is taken back at 03:47 UTC unless it is confirmed",
        "2 configurations of the history are not on the disk",
    ];
    assert_eq!(texts(&found), told.map(|text| (Severity::Warning, text)));
}

#[test]
fn what_does_not_know_since_when_is_dated_while_it_lasts() {
    let mut since = HashMap::new();
    let mut dated = |drops: u64, minutes: u64| {
        let draft = problems::of_drops("events", drops);
        let at = now() + Duration::from_secs(60 * minutes);
        let found = problems::dated(draft.into_iter(), &mut since, at);
        found.into_iter().map(|it| it.text).next()
    };
    assert_eq!(dated(0, 0), None);
    let first = "events are dropped since 03:43 UTC, 7 in the last seconds";
    assert_eq!(dated(7, 1).as_deref(), Some(first));
    assert_eq!(dated(7, 2).as_deref(), Some(first));
    assert_eq!(dated(0, 3), None);
    assert_eq!(
        dated(1, 4).as_deref(),
        Some("events are dropped since 03:46 UTC, 1 in the last seconds")
    );
}

#[test]
fn the_worst_comes_first_and_not_too_much() {
    let route =
        |name: &str, errors| problems::of_route(name, (errors, 100, 10.0), None, now()).unwrap();
    let mut all: Vec<_> = (0..60).map(|place| route(&format!("r{place}"), 6)).collect();
    all.push(route("bad", 50));
    let sorted = problems::sorted(all);
    assert_eq!(sorted.len(), 51);
    assert_eq!(
        sorted[0].text,
        "route `bad`: 50% of the responses are errors, 5.0 of 10.0 a second"
    );
    assert_eq!(sorted[50].text, "11 more problems are not shown here");
    assert!(problems::of_route("r", (2, 2, 10.0), None, now()).is_none(), "too few to say");
    assert!(problems::of_route("r", (4, 100, 10.0), None, now()).is_none(), "less than a share");
}

#[test]
fn a_breaker_that_opens_is_a_problem_of_the_gateway() {
    let (gateway, figures) = started(CONFIG);
    figures.sample(Duration::ZERO);
    ask(&gateway, "/away", 60);
    figures.sample(TICK);
    let now = shown(&figures.view(View::Now));
    let texts: Vec<_> = now["problems"].as_array().unwrap().iter().map(|it| &it["text"]).collect();
    let is_told = texts.iter().any(|text| {
        text.as_str().unwrap().starts_with("upstream `nobody`: its circuit breaker is open since ")
    });
    assert!(is_told, "{texts:?}");
}

#[test]
fn what_the_process_lacks_is_told() {
    let told = |draft: Option<problems::Draft>| {
        let dated = problems::dated(draft.into_iter(), &mut HashMap::new(), now());
        dated.into_iter().next().map(|it| (it.severity, it.text))
    };
    let is = |found: Option<(Severity, String)>, severity, text: &str| {
        assert_eq!(found, Some((severity, text.to_owned())));
    };
    let millis = Duration::from_millis;
    assert_eq!(told(problems::of_worker(3, Some(0.9), millis(99))), None);
    let late = told(problems::of_worker(3, Some(0.99), millis(120)));
    is(late, Severity::Warning, "worker 3: its timers are 120.0ms late since 03:42 UTC");
    let busy = told(problems::of_worker(3, Some(0.973), millis(1)));
    is(busy, Severity::Warning, "worker 3: it uses 97% of a core since 03:42 UTC");
    let pressure = |level| told(problems::of_pressure(level, [0.5, 0.913]));
    assert_eq!(pressure(PressureLevel::None), None);
    let text = "50% of the descriptors and 91% of the memory are in use: connections close after their response since 03:42 UTC";
    is(pressure(PressureLevel::StopKeepAlive), Severity::Warning, text);
    let closed = pressure(PressureLevel::StopAccepting).unwrap();
    assert!(closed.0 == Severity::Error && closed.1.contains("no connection is accepted"));
    let fault = "cannot write to /a: No space left on device (os error 28)".to_owned();
    let text = "access log `file /a`: cannot write to /a: No space left on device (os error 28) since 03:42 UTC; 12 lines are lost so far";
    let failing = told(Some(problems::of_log("file /a", Some(fault), 12)));
    is(failing, Severity::Warning, text);
    let log = told(Some(problems::of_log("stdout", None, 12)));
    let text =
        "access log `stdout`: it takes lines too slowly since 03:42 UTC; 12 lines are lost so far";
    is(log, Severity::Warning, text);
}

#[test]
fn a_key_set_without_keys_is_a_problem_once_it_could_not_be_fetched() {
    let set = |keys, failed| KeySetStatus {
        policy: "users".to_owned(),
        issuer: "https://id.example".to_owned(),
        keys,
        fetched_at: 0,
        failed,
    };
    assert_eq!(problems::of_key_set(&set(0, 0)), None);
    assert_eq!(problems::of_key_set(&set(2, 9)), None);
    let told = problems::of_key_set(&set(0, 3)).unwrap();
    assert_eq!(
        texts(&[told]),
        [(
            Severity::Error,
            "policy `users`: there are no keys of https://id.example, so tokens are refused; fetching them has failed 3 times"
        )]
    );
}
