//! Tests of routing: a table of behaviours, and a naive router that the trie has to agree with.

use super::*;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use titan_config::{Config, PathEnd, PathPattern, QueryMatch, Segment, ValueMatch};
use titan_policies::matched::MAX_PARAMS;
use titan_policies::values::Unmet;

/// Routes with these fields, named `0`, `1` and so on.
fn routes(fields: &[&str]) -> Routes {
    let route = |(index, fields)| format!("  - {{name: '{index}', respond: 204, {fields}}}\n");
    let routes: String = fields.iter().enumerate().map(route).collect();
    config(&format!("listeners: [':0']\nroutes:\n{routes}"), |config| Routes::new(&config.routes))
}

fn config<T>(text: &str, build: impl FnOnce(&Config) -> T) -> T {
    build(&Config::parse("test", text).unwrap_or_else(|report| panic!("{report}")))
}

/// What happens to `GET a.example/path?query`, perhaps with header fields on further lines: the route
/// and what it captured, or the status and Allow.
fn ask(routes: &Routes, request: &str) -> String {
    with_request(request, |request| match routes.find(request) {
        Ok(Match { route, params, .. }) => {
            let captured = (0..MAX_PARAMS).map(|index| params.get(index, request.path));
            let captured = captured.map(|part| String::from_utf8(part.to_vec()).unwrap());
            let captured: Vec<_> = captured.take(params.count()).collect();
            format!("{route} {}", captured.join(" ")).trim_end().to_owned()
        }
        Err(NoMatch::NotFound) => "404".to_owned(),
        Err(NoMatch::MethodNotAllowed(allow)) => format!("405 {allow}"),
    })
}

fn with_request<T>(text: &str, run: impl FnOnce(&Request<'_>) -> T) -> T {
    let mut lines = text.split('\n');
    let (method, target) = lines.next().unwrap().split_once(' ').unwrap();
    let (target, query) = match target.split_once('?') {
        Some((target, query)) => (target, Some(query.as_bytes())),
        None => (target, None),
    };
    let (host, path) = target.split_at(target.find(['/', '*']).unwrap());
    let mut fields = Fields::default();
    for (name, value) in lines.map(|line| line.split_once(": ").unwrap()) {
        fields.append_named(name.as_bytes(), value.as_bytes()).unwrap();
    }
    run(&Request {
        method: Method::parse(method.as_bytes()).unwrap(),
        host: Some(host.as_bytes()).filter(|host| !host.is_empty()),
        path: path.as_bytes(),
        query,
        fields: &fields,
        identity: None,
        listener: ListenerSet::of(0),
    })
}

#[track_caller]
fn table(routes: &Routes, rows: &[(&str, &str)]) {
    for (request, expected) in rows {
        assert_eq!(ask(routes, request), *expected, "{request}");
    }
}

#[test]
fn a_prefix_ends_at_a_segment_boundary() {
    let rows = [
        ("GET a/api", "0"),
        ("GET a/api/", "0"),
        ("GET a/api/x", "0"),
        ("GET a/apix", "404"),
        ("GET a/", "404"),
    ];
    table(&routes(&["prefix: /api"]), &rows);
}

#[test]
fn a_slash_at_the_end_of_an_exact_path_counts() {
    let both = routes(&["path: /a", "path: /a/"]);
    table(&both, &[("GET a/a", "0"), ("GET a/a/", "1"), ("GET a/a/b", "404")]);
    table(&routes(&["path: /"]), &[("GET a/", "0"), ("GET a/a", "404"), ("OPTIONS a*", "404")]);
}

#[test]
fn parameters_capture_what_stands_in_their_place() {
    let routes = routes(&["path: '/u/{id}'", "path: '/u/{id}/f/{*rest}'"]);
    let rows = [
        ("GET a/u/7", "0 7"),
        ("GET a/u/", "404"),
        ("GET a/u/7/f/a/b", "1 7 a/b"),
        ("GET a/u/7/f/", "1 7"),
        ("GET a/u/7/f", "404"),
    ];
    table(&routes, &rows);
}

#[test]
fn the_closest_path_wins_whatever_the_order_in_the_file() {
    let routes = routes(&[
        "prefix: /",
        "prefix: /a",
        "path: '/a/{*rest}'",
        "path: '/a/{x}'",
        "path: /a/b",
        "path: '/{x}/c'",
        "prefix: /a/b/c",
    ]);
    let rows = [
        ("GET a/", "0"),
        ("GET a/a", "1"),
        ("GET a/a/", "2"),
        ("GET a/a/z/z", "2 z/z"),
        ("GET a/a/z", "3 z"),
        ("GET a/a/b", "4"),
        ("GET a/a/c", "3 c"),
        ("GET a/z/c", "5 z"),
        ("GET a/a/b/c/d", "6"),
        ("GET a/a/b/d", "2 b/d"),
    ];
    table(&routes, &rows);
}

#[test]
fn a_search_goes_back_where_the_closer_way_ends_nowhere() {
    let routes = routes(&["path: /a/b/c", "path: '/a/{x}/d'", "path: '/{x}/b/{y}'"]);
    let rows = [("GET a/a/b/d", "1 b"), ("GET a/a/b/e", "2 a e"), ("GET a/a/z/c", "404")];
    table(&routes, &rows);
}

#[test]
fn hosts_go_from_exact_over_wildcards_to_any() {
    let routes = routes(&[
        "prefix: /x",
        "prefix: /x, host: '*.example'",
        "prefix: /x, host: '*.a.example'",
        "prefix: /x, host: [b.a.example, '[::1]']",
        "prefix: /y, host: '*.example'",
    ]);
    let rows = [
        ("GET b.a.example/x", "3"),
        ("GET B.A.Example./x", "3"),
        ("GET [::1]/x", "3"),
        ("GET c.a.example/x", "2"),
        ("GET d.c.a.example/x", "2"),
        ("GET a.example/x", "1"),
        ("GET example/x", "0"),
        ("GET .example/x", "0"),
        ("GET /x", "0"),
        ("GET b.a.example/y", "4"),
        ("GET b.a.example/z", "404"),
    ];
    table(&routes, &rows);
    let long = format!("GET {}.example/x", "a.".repeat(200));
    assert_eq!(ask(&routes, &long), "0", "a longer name than DNS allows is under no wildcard");
}

#[test]
fn a_route_for_any_host_is_the_fall_back() {
    let routes = routes(&["prefix: /, host: a.example, methods: [GET]", "path: /b"]);
    let rows = [
        ("GET a.example/b", "0"),
        ("POST a.example/b", "1"),
        ("POST a.example/c", "405 GET, HEAD"),
        ("GET b.example/c", "404"),
    ];
    table(&routes, &rows);
}

#[test]
fn methods_that_no_route_allows_get_a_list_of_those_that_are() {
    let routes = routes(&[
        "path: /a, methods: [GET]",
        "path: /a, methods: [POST, PURGE]",
        "path: /a, methods: [DELETE], headers: {x-admin: '1'}",
        "path: /b, methods: [HEAD]",
        "path: /b, methods: [GET]",
    ]);
    let rows = [
        ("HEAD a/a", "0"),
        ("PURGE a/a", "1"),
        ("PUT a/a", "405 GET, HEAD, POST, PURGE"),
        ("OPTIONS a/a", "405 GET, HEAD, POST, PURGE"),
        ("PUT a/a\nx-admin: 1", "405 DELETE, GET, HEAD, POST, PURGE"),
        ("get a/a", "405 GET, HEAD, POST, PURGE"),
        ("HEAD a/b", "3"),
    ];
    table(&routes, &rows);
}

#[test]
fn priority_then_conditions_then_methods_decide_between_equal_paths() {
    let routes = routes(&[
        "path: /a",
        "path: /a, methods: [GET]",
        "path: /a, query: {v: '1'}",
        "path: /a, query: {v: '1'}, headers: {x-a: '1'}",
        "path: /a, query: {w: '1'}, priority: 1",
    ]);
    let rows = [
        ("POST a/a", "0"),
        ("GET a/a", "1"),
        ("GET a/a?v=1", "2"),
        ("GET a/a?v=1\nx-a: 1", "3"),
        ("GET a/a?v=1&w=1\nx-a: 1", "4"),
    ];
    table(&routes, &rows);
}

#[test]
fn header_conditions_look_at_every_line() {
    let routes = routes(&[
        "path: /exact, headers: {X-Canary: 'on'}",
        "path: /present, headers: {x-a: {present: true}}",
        "path: /absent, headers: {x-a: {present: false}}",
        "path: /prefix, headers: {user-agent: {prefix: curl/}}",
        "path: /regex, headers: {x-v: {regex: '^v[0-9]+$'}}",
    ]);
    let rows = [
        ("GET a/exact\nx-canary: off\nX-CANARY: on", "0"),
        ("GET a/exact\nx-canary: ON", "404"),
        ("GET a/exact", "404"),
        ("GET a/present\nx-a: ", "1"),
        ("GET a/present", "404"),
        ("GET a/absent", "2"),
        ("GET a/absent\nX-A: 1", "404"),
        ("GET a/prefix\nUser-Agent: curl/8", "3"),
        ("GET a/prefix\nUser-Agent: not curl/8", "404"),
        ("GET a/regex\nx-v: v12", "4"),
        ("GET a/regex\nx-v: v12a", "404"),
    ];
    table(&routes, &rows);
}

#[test]
fn query_conditions_compare_decoded_names_and_values() {
    let routes = routes(&[
        "path: /exact, query: {'a b': 'c&d'}",
        "path: /empty, query: {x: ''}",
        "path: /plus, query: {x: 'a+b'}",
        "path: /absent, query: {x: {present: false}}",
        "path: /regex, query: {x: {regex: '^a$'}}",
    ]);
    let rows = [
        ("GET a/exact?a%20b=c%26d", "0"),
        ("GET a/exact?z&a%20b=x&a%20b=c%26d", "0"),
        ("GET a/exact?a+b=c%26d", "404"),
        ("GET a/exact?A%20b=c%26d", "404"),
        ("GET a/empty?x", "1"),
        ("GET a/empty?x=", "1"),
        ("GET a/empty?x==", "404"),
        ("GET a/plus?x=a+b", "2"),
        ("GET a/plus?x=a%2Bb", "2"),
        ("GET a/plus?x=a%20b", "404"),
        ("GET a/absent", "3"),
        ("GET a/absent?&xx=x", "3"),
        ("GET a/absent?%78", "404"),
        ("GET a/regex?x=%61", "4"),
        ("GET a/regex?x=%6", "404"),
    ];
    table(&routes, &rows);
}

#[test]
fn the_asterisk_is_served_by_routes_for_every_path() {
    table(&routes(&["path: /a", "prefix: /"]), &[("OPTIONS a*", "1")]);
    table(&routes(&["path: '/{*rest}'", "prefix: /a"]), &[("OPTIONS a*", "404")]);
}

#[test]
fn as_many_parts_as_a_pattern_may_have_are_captured() {
    let pattern: String = (0..MAX_PARAMS).map(|at| format!("/{{p{at}}}")).collect();
    let (path, captured) = ("/abc".repeat(MAX_PARAMS), " abc".repeat(MAX_PARAMS));
    let routes = routes(&[&format!("path: '{pattern}'")]);
    assert_eq!(ask(&routes, &format!("GET a{path}")), format!("0{captured}"));
}

#[test]
fn explain_says_why_earlier_routes_do_not_match() {
    let routes = routes(&[
        "prefix: /",
        "path: /a, methods: [POST]",
        "path: /a, headers: {x-canary: '1'}",
        "path: /a, query: {v: {present: false}}, headers: {x-b: {present: true}}",
        "path: /b",
        "path: /a, host: [a.example, b.example]",
        "path: /a, host: ['*.example', c.example], priority: -1, query: {v: '2'}",
    ]);
    let mut told = Vec::new();
    with_request("GET b.example/a?v=1\nx-b: 1", |request| {
        routes.explain(request, |route, mismatch| told.push((route, mismatch)));
    });
    assert_eq!(told, [(5, None)]);
    told.clear();
    with_request("GET d.example/a?v=1\nx-b: 1", |request| {
        routes.explain(request, |route, mismatch| told.push((route, mismatch)));
    });
    let why = |route| told.iter().find(|told| told.0 == route).unwrap().1;
    assert_eq!(why(5), Some(Mismatch::Host));
    assert_eq!(why(6), Some(Mismatch::Query("v", Unmet::Other)));
    assert_eq!(why(3), Some(Mismatch::Query("v", Unmet::Present)));
    assert_eq!(why(2), Some(Mismatch::Header("x-canary", Unmet::Missing)));
    assert_eq!(why(1), Some(Mismatch::Method));
    assert_eq!(why(4), Some(Mismatch::Path));
    assert_eq!(told.last(), Some(&(0, None)));
    assert_eq!(told.len(), 7);
    assert_eq!(why(2).unwrap().to_string(), "the header x-canary is missing");
}

#[test]
fn a_split_gives_each_upstream_its_weight_and_none_to_others() {
    let text = "listeners: [':0']\nroutes: [{upstream: {b: 1, a: 3}}]\nupstreams: {a: '127.0.0.1:1', b: '127.0.0.1:2'}";
    config(text, |config| {
        let titan_config::Action::Proxy(proxy) = &config.routes[0].action else { unreachable!() };
        let split = Split::new(&proxy.shares);
        let mut counts = [0; 2];
        (0..4000).for_each(|_| counts[split.pick()] += 1);
        assert_eq!(counts, [3000, 1000]);
    });
}

/// A route of the property tests.
#[derive(Clone, Debug)]
struct Sample {
    hosts: Vec<HostPattern>,
    path: PathPattern,
    priority: i32,
    methods: Vec<Method>,
    head: bool,
    query: Vec<QueryMatch>,
    listeners: ListenerSet,
}

/// A request of the property tests.
#[derive(Clone, Debug)]
struct Asked {
    method: Method,
    host: Option<&'static str>,
    path: String,
    query: Option<&'static str>,
    listener: usize,
}

fn build(samples: &[Sample]) -> Routes {
    Routes::of(samples.iter().map(|sample| Spec {
        hosts: &sample.hosts,
        path: &sample.path,
        priority: sample.priority,
        conditions: Conditions::new(
            (&sample.methods, sample.head),
            &[],
            &sample.query,
            &[],
            sample.listeners,
        ),
    }))
}

/// Every route under each of its hosts, sorted as the module's head says.
fn sorted(samples: &[Sample]) -> Vec<(usize, Option<&HostPattern>)> {
    let mut all = Vec::new();
    for (index, Sample { hosts, .. }) in samples.iter().enumerate() {
        all.extend(hosts.is_empty().then_some((index, None)));
        all.extend(hosts.iter().map(|host| (index, Some(host))));
    }
    let host_rank = |host: Option<&HostPattern>| match host {
        Some(HostPattern::Exact(_)) => 0,
        Some(HostPattern::Under(suffix)) => 1000 - suffix.len(),
        None => 1001,
    };
    all.sort_by(|&(one, one_host), &(other, other_host)| {
        let (first, second) = (&samples[one], &samples[other]);
        let conditions = |it: &Sample| it.query.len() + usize::from(!it.listeners.is_all());
        let lacks_head = |sample: &Sample| !sample.methods.contains(&Method::HEAD);
        host_rank(one_host)
            .cmp(&host_rank(other_host))
            .then(first.path.precedence(&second.path))
            .then(second.priority.cmp(&first.priority))
            .then(conditions(second).cmp(&conditions(first)))
            .then(first.methods.is_empty().cmp(&second.methods.is_empty()))
            .then(lacks_head(first).cmp(&lacks_head(second)))
            .then(one.cmp(&other))
    });
    all
}

fn naive_host(pattern: Option<&HostPattern>, host: Option<&str>) -> bool {
    match (pattern, host.map(str::to_lowercase)) {
        (None, _) => true,
        (Some(HostPattern::Exact(name)), Some(host)) => *name == host,
        (Some(HostPattern::Under(suffix)), Some(host)) => {
            host.len() > suffix.len() && host.ends_with(suffix.as_str())
        }
        (Some(_), None) => false,
    }
}

fn naive_path(pattern: &PathPattern, path: &str) -> Option<Vec<String>> {
    let parts: Vec<&str> = path[1..].split('/').collect();
    let (mut captured, count) = (Vec::new(), pattern.segments.len());
    for (at, segment) in pattern.segments.iter().enumerate() {
        match (segment, parts.get(at)?) {
            (Segment::Literal(text), part) if text == part => {}
            (Segment::Param(_), part) if !part.is_empty() => captured.push((*part).to_owned()),
            _ => return None,
        }
    }
    match pattern.end {
        PathEnd::Exact => (parts.len() == count).then_some(captured),
        PathEnd::Prefix => Some(captured),
        PathEnd::Rest(_) => (parts.len() > count).then(|| {
            captured.push(parts[count..].join("/"));
            captured
        }),
    }
}

/// As the table's outcome, with the parts that were captured.
fn naive_find(samples: &[Sample], asked: &Asked) -> Result<(usize, Vec<String>), Vec<String>> {
    let mut allowed = Vec::new();
    for (index, host) in sorted(samples) {
        let sample = &samples[index];
        let captured = naive_path(&sample.path, &asked.path);
        let Some(captured) = captured.filter(|_| naive_host(host, asked.host)) else { continue };
        let pairs: Vec<&str> = asked.query.into_iter().flat_map(|it| it.split('&')).collect();
        let holds = |it: &QueryMatch| match &it.value {
            ValueMatch::Exact(value) => pairs.contains(&format!("{}={value}", it.name).as_str()),
            _ => pairs.iter().any(|pair| pair.starts_with(&it.name)),
        };
        let comes_in =
            sample.listeners.is_all() || sample.listeners.indices().any(|it| it == asked.listener);
        if !comes_in || !sample.query.iter().all(holds) {
            continue;
        }
        let mut methods: Vec<_> = sample.methods.iter().map(Method::to_string).collect();
        if sample.head && methods.contains(&"GET".to_owned()) {
            methods.push("HEAD".to_owned());
        }
        if methods.is_empty() || methods.contains(&asked.method.to_string()) {
            return Ok((index, captured));
        }
        allowed.extend(methods);
    }
    allowed.sort();
    allowed.dedup();
    Err(allowed)
}

fn segment() -> impl Strategy<Value = Segment> {
    prop_oneof![
        select(["a", "b"].as_slice()).prop_map(|text| Segment::Literal(text.into())),
        Just(Segment::Param("p".into())),
    ]
}

fn sample() -> impl Strategy<Value = Sample> {
    let host = select(vec![
        HostPattern::Exact("x.y".into()),
        HostPattern::Exact("a.x.y".into()),
        HostPattern::Under(".y".into()),
        HostPattern::Under(".x.y".into()),
    ]);
    let end = select(vec![
        (PathEnd::Exact, false),
        (PathEnd::Exact, true),
        (PathEnd::Rest("r".into()), false),
        (PathEnd::Prefix, false),
    ]);
    let path = (proptest::collection::vec(segment(), 0..3), end);
    let path = path.prop_map(|(mut segments, (end, is_directory))| {
        if is_directory || segments.is_empty() && end == PathEnd::Exact {
            segments.push(Segment::Literal(String::new()));
        }
        PathPattern { segments, end }
    });
    let conditions = vec![
        QueryMatch { name: "v".into(), value: ValueMatch::Exact("1".into()) },
        QueryMatch { name: "w".into(), value: ValueMatch::Present },
    ];
    let methods = vec![Method::GET, Method::HEAD, Method::POST];
    let query = prop_oneof![2 => Just(Vec::new()), 1 => subsequence(conditions, 1..=2)];
    let methods = prop_oneof![1 => Just(Vec::new()), 1 => subsequence(methods, 1..=2)];
    let hosts = prop_oneof![1 => Just(Vec::new()), 1 => proptest::collection::vec(host, 1..3)];
    let listeners = select(vec![
        ListenerSet::ALL,
        ListenerSet::of(0),
        ListenerSet::of(1),
        ListenerSet::of(0).and(ListenerSet::of(2)),
    ]);
    let rest = (0..2, methods, any::<bool>(), query, listeners);
    (hosts, path, rest).prop_map(|(hosts, path, (priority, methods, head, query, listeners))| {
        let mut unique: Vec<HostPattern> = Vec::new();
        hosts.into_iter().for_each(|it| {
            if !unique.contains(&it) {
                unique.push(it);
            }
        });
        Sample { hosts: unique, path, priority, methods, head, query, listeners }
    })
}

fn asked() -> impl Strategy<Value = Asked> {
    let host =
        select(vec![None, Some("x.y"), Some("A.x.Y"), Some("b.x.y"), Some("z.y"), Some("y")]);
    let path = proptest::collection::vec(select(["a", "b", "c", ""].as_slice()), 1..4);
    let query = select(vec![None, Some("v=1"), Some("v=2&w"), Some("w&v=1")]);
    let method = select(vec![Method::GET, Method::HEAD, Method::POST, Method::PUT]);
    (method, host, path, query, 0..3_usize).prop_map(|(method, host, path, query, listener)| {
        // Empty segments stand at the end alone: a normal path has no others.
        let (last, first) = path.split_last().unwrap();
        let first: Vec<&str> = first.iter().copied().filter(|part| !part.is_empty()).collect();
        let path = [first.as_slice(), &[*last]].concat().join("/");
        Asked { method, host, path: format!("/{path}"), query, listener }
    })
}

impl Asked {
    fn ask<T>(&self, run: impl FnOnce(&Request<'_>) -> T) -> T {
        run(&Request {
            method: self.method,
            host: self.host.map(str::as_bytes),
            path: self.path.as_bytes(),
            query: self.query.map(str::as_bytes),
            fields: &Fields::default(),
            identity: None,
            listener: ListenerSet::of(self.listener),
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_trie_agrees_with_trying_every_route_in_order(
        samples in proptest::collection::vec(sample(), 1..24),
        asked in asked(),
    ) {
        let routes = build(&samples);
        let found = asked.ask(|request| match routes.find(request) {
            Ok(Match { route, params, .. }) => {
                let captured = (0..params.count()).map(|at| params.get(at, request.path));
                Ok((route, captured.map(|it| String::from_utf8(it.into()).unwrap()).collect()))
            }
            Err(NoMatch::NotFound) => Err(Vec::new()),
            Err(NoMatch::MethodNotAllowed(Allow(mut allow))) => {
                allow.sort_by_key(Method::to_string);
                Err(allow.iter().map(Method::to_string).collect())
            }
        });
        prop_assert_eq!(found, naive_find(&samples, &asked));
    }

    #[test]
    fn an_explanation_ends_with_what_is_found(
        samples in proptest::collection::vec(sample(), 1..24),
        asked in asked(),
    ) {
        let routes = build(&samples);
        asked.ask(|request| {
            let mut told = Vec::new();
            routes.explain(request, |route, mismatch| told.push((route, mismatch)));
            match routes.find(request) {
                Ok(found) => prop_assert_eq!(told.pop(), Some((found.route, None))),
                Err(_) => prop_assert_eq!(told.len(), samples.len()),
            }
            for (route, mismatch) in told {
                let Sample { hosts, path, .. } = &samples[route];
                let serves = |host| naive_host(Some(host), asked.host);
                let expected = match hosts.is_empty() || hosts.iter().any(serves) {
                    false => Some(Mismatch::Host),
                    true if naive_path(path, &asked.path).is_none() => Some(Mismatch::Path),
                    true => routes.mismatch(route, request),
                };
                prop_assert!(expected.is_some());
                prop_assert_eq!(mismatch, expected);
            }
            Ok(())
        })?;
    }
}
