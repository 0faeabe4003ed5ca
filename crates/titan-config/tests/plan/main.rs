//! What a plan says of two configurations.

#[path = "../around/mod.rs"]
mod around;
mod names;
mod policies;

use around::Around;
use titan_config::{Plan, Resolved};

/// A gateway with these parts; what it must have and does not is added.
fn resolved(text: &str) -> Resolved {
    let mut file = text.to_owned();
    let has = |key: &str| text.lines().any(|line| line.starts_with(key));
    for (key, addition) in [
        ("listeners:", "\nlisteners: [\":80\"]"),
        ("routes:", "\nroutes: [{ name: r, upstream: a }]"),
        ("upstreams:", "\nupstreams: { a: a:1 }"),
    ] {
        if !has(key) {
            file.push_str(addition);
        }
    }
    match Resolved::parse("titan.yaml", &file) {
        Ok(resolved) => resolved,
        Err(report) => panic!("{report}\n{file}"),
    }
}

fn plan(old: &str, new: &str) -> Plan {
    Plan::new(&resolved(old), &resolved(new))
}

/// What is weaker, in words.
fn weaker(old: &str, new: &str) -> Vec<String> {
    let weaker = plan(old, new).weaker.into_iter();
    weaker.map(|it| format!("{}: {}", it.part.name.unwrap_or_default(), it.what)).collect()
}

#[test]
fn what_means_the_same_is_no_change() {
    for (one, other) in [
        ("limits: { body: 1MiB }", "limits: { body: 1048576 }"),
        ("limits: { body: 64MiB }", ""),
        ("timeouts: { idle: 1m }", "timeouts: { idle: 60s }"),
        ("listeners: [\":80\"]", "listeners: { address: \":80\" }"),
        (
            "routes: [{ name: x, host: A.example, methods: [GET, PUT], respond: 200 }]",
            "routes: [{ name: x, host: [a.example], methods: [PUT, GET], respond: { status: 200 } }]",
        ),
        (
            "routes: [{ name: x, prefix: /x, upstream: a }, { name: y, prefix: /y, respond: 204 }]",
            "routes: [{ name: y, prefix: /y, respond: 204 }, { prefix: /x, upstream: { a: 3 }, upgrades: websocket }]",
        ),
        (
            "upstreams: { a: [a:1, b:1], b: b:1 }\nroutes: [{ upstream: { a: 1, b: 1 } }]",
            "upstreams: { b: b:1, a: { endpoints: [b:1, { address: a:1 }], tls: off } }\nroutes: [{ upstream: { b: 1, a: 1 } }]",
        ),
        (
            "apply: [net]\npolicies: { net: { authorise: { allow: 192.0.2.1 } } }",
            "routes: [{ name: r, upstream: a, apply: net }]\napply: net\npolicies: { net: { authorise: { allow: [192.0.2.1/32] } } }",
        ),
    ] {
        let plan = plan(one, other);
        assert!(plan.is_empty(), "{one}\n{other}\n{plan}");
    }
}

#[test]
fn a_plan_names_what_comes_goes_and_changes() {
    let old = "listeners: [\":80\", { address: \":443\", tls: { certificates: { cert: a.pem, key: a.key }, min_version: \"1.3\" } }]
limits: { body: 1MiB }
routes:
  - { name: users, prefix: /users, upstream: api }
  - { name: old, prefix: /old, respond: 410 }
upstreams: { api: [a:1, b:1] }
";
    let new = "listeners: [\":81\", { address: \":443\", tls: { certificates: { cert: b.pem, key: a.key } } }]
limits: { body: 2MiB }
routes:
  - { name: users, prefix: /users, upstream: api, retries: 3, limits: { body: 1KiB } }
  - { name: me, path: /users/me, upstream: api }
upstreams: { api: { endpoints: [a:1, c:1], balance: p2c_ewma } }
";
    insta::assert_snapshot!(plan(old, new), @r#"
    ~ listener :81
        address: ":80" -> ":81"
    ~ listener :443
        tls.certificates[a.pem].cert: a.pem -> b.pem
        tls.min_version: 1.3 -> 1.2    (weaker)
    ~ route users
        retries.attempts: 1 -> 3
        limits.body: 1MiB -> 1KiB
    - route old
    + route me
    ~ upstream api
        endpoints: - { address: "b:1" }
        endpoints: + { address: "c:1" }
        balance: round_robin -> p2c_ewma
    ~ limits.body: 1MiB -> 2MiB    (weaker)

    requests that another route takes:
      /users/me: users -> me

    weaker:
      listener :443: tls.min_version: 1.3 -> 1.2
      limits.body: 1MiB -> 2MiB

    1 added, 1 removed, 5 changed; 2 weaker
    "#);
}

#[test]
fn more_of_bodies_in_the_recorder_is_weaker() {
    let route = |fields: &str| format!("routes: [{{ name: r, upstream: a{fields} }}]");
    let (none, some, more) =
        (route(""), route(", record_bodies: 1KiB"), route(", record_bodies: 2KiB"));
    for (old, new) in [(&none, &some), (&some, &more)] {
        assert_eq!(weaker(old, new).len(), 1, "{new}");
        assert_eq!(weaker(new, old), Vec::<String>::new(), "the other way round: {old}");
    }
    let renamed = some.replace("name: r", "name: other");
    assert_eq!(weaker(&none, &renamed).len(), 1, "under another name");
}

#[test]
fn a_route_that_needs_no_token_any_more_is_weaker() {
    let policies = "policies: { users: { jwt: { providers: { algorithms: RS256, keys: { jwks: a.json } } } } }\n";
    let with = |routes: &str| format!("{policies}{routes}");
    let applied = with("apply: users");
    let gone = "r: no `jwt` applies any more; it was `users`";
    for (old, new) in [
        (applied.clone(), with("apply: users\nroutes: [{ name: r, upstream: a, without: jwt }]")),
        (applied.clone(), with("")),
        (
            with("routes: [{ name: x, prefix: /x, upstream: a, apply: users }]"),
            with(
                "routes: [{ name: x, prefix: /x, upstream: a, apply: users }, { name: r, path: /x/y, upstream: a }]",
            ),
        ),
        (
            with("routes: [{ name: x, prefix: /x, upstream: a, apply: users }]"),
            with("routes: [{ name: r, prefix: /x, upstream: a }]"),
        ),
        (
            with(
                "routes: [{ name: x, prefix: /x, upstream: a, apply: users }, { name: r, upstream: a }]",
            ),
            with("routes: [{ name: r, upstream: a }]"),
        ),
        (
            with("routes: [{ name: x, path: \"/{id}/x\", upstream: a, apply: users }]"),
            with(
                "routes: [{ name: x, path: \"/{id}/x\", upstream: a, apply: users }, \
                 { name: r, path: \"/y/{*all}\", methods: GET, upstream: a }]",
            ),
        ),
        // HEAD goes to a route that lists it before it goes to one for GET, wherever the two stand in the file.
        (
            with("routes: [{ name: x, methods: GET, upstream: a, apply: users }]"),
            with(
                "routes: [{ name: x, methods: GET, upstream: a, apply: users }, \
                 { name: r, methods: HEAD, upstream: a }]",
            ),
        ),
        (
            with(
                "routes: [{ name: r, methods: GET, upstream: a }, \
                 { name: x, methods: HEAD, upstream: a, apply: users }]",
            ),
            with("routes: [{ name: r, methods: GET, upstream: a }]"),
        ),
        (
            with("routes: [{ name: x, methods: [GET, POST], upstream: a, apply: users }]"),
            with(
                "routes: [{ name: x, methods: [GET, POST], upstream: a, apply: users }, \
                 { name: r, methods: [HEAD, PUT], upstream: a }]",
            ),
        ),
        // No route took these requests, but the file applies the policy to all routes.
        (
            with("apply: users\nroutes: [{ name: x, prefix: /x, upstream: a }]"),
            with(
                "apply: users\nroutes: [{ name: x, prefix: /x, upstream: a }, \
                 { name: r, prefix: /r, upstream: a, without: jwt }]",
            ),
        ),
    ] {
        assert_eq!(weaker(&old, &new), [gone], "{new}");
        assert_eq!(weaker(&new, &old), Vec::<String>::new(), "the other way round: {old}");
    }
}

#[test]
fn requests_that_another_route_takes_as_well_guarded_are_not_weaker() {
    let policies = "policies: { users: { jwt: { providers: { algorithms: RS256, keys: { jwks: a.json } } } } }\n";
    let old = format!("{policies}routes: [{{ name: x, prefix: /x, upstream: a, apply: users }}]");
    for routes in [
        "routes: [{ name: x, prefix: /x, upstream: a, apply: users }, { name: y, prefix: /y, upstream: a }]",
        "routes: [{ name: x, prefix: /x, upstream: a, apply: users }, { name: y, path: /x/y, upstream: a, apply: users }]",
        // Both take what the prefix takes, so nothing gets to the open one below it.
        "routes: [{ name: x, prefix: /x, upstream: a, apply: users }, { name: y, upstream: a }]",
        "routes: [{ name: p, path: /x, upstream: a, apply: users }, \
         { name: q, path: \"/x/{*rest}\", upstream: a, apply: users }, { name: y, upstream: a }]",
    ] {
        let new = format!("{policies}{routes}");
        assert_eq!(weaker(&old, &new), Vec::<String>::new(), "{routes}");
    }
}

#[test]
fn what_lets_more_pass_is_weaker() {
    let tls = |of: &str| {
        format!(
            "listeners: [{{ address: \":443\", tls: {{ certificates: {{ cert: a, key: b }}{of} }} }}]"
        )
    };
    let authorise = |of: &str| {
        format!("apply: p\npolicies: {{ p: {{ authorise: {{ deny: 192.0.2.1{of} }} }} }}")
    };
    let limited = |of: &str| format!("apply: p\npolicies: {{ p: {{ rate_limit: {{ {of} }} }} }}");
    let jwt = |of: &str, also: &str| {
        format!(
            "apply: [p, q]\npolicies: {{ q: {{ authorise: {{ {also} deny: 192.0.2.1 }} }}, \
             p: {{ jwt: {{ providers: {{ algorithms: [RS256], keys: {{ jwks: a.json }} }}{of} }} }} }}"
        )
    };
    let cors = |of: &str| format!("apply: p\npolicies: {{ p: {{ cors: {{ {of} }} }} }}");
    let upstream = |of: &str| format!("upstreams: {{ a: {{ endpoints: a:1{of} }} }}");
    for (old, new, what) in [
        (tls(", min_version: \"1.3\""), tls(""), ":443: tls.min_version: 1.3 -> 1.2"),
        (
            tls(", client_certificates: { ca: c }"),
            tls(", client_certificates: { ca: c, mode: optional }"),
            ":443: tls.client_certificates.mode: required -> optional",
        ),
        (
            tls(", client_certificates: { ca: c }"),
            tls(""),
            ":443: tls.client_certificates: - { ca: c }",
        ),
        (
            tls(""),
            format!("{}\n", tls("").replace("}]", "}, \":80\"]")),
            ":80: new, and weaker than all before, even `:443`: tls: { certificates: [{ cert: a, key: b }] } -> off",
        ),
        (
            authorise(", allow: 10.0.0.0/16"),
            authorise(", allow: 10.0.0.0/8"),
            "p: authorise.allow: + 10.0.0.0/8",
        ),
        (authorise(", allow: 10.0.0.0/16"), authorise(""), "p: authorise.allow: - [10.0.0.0/16]"),
        (
            authorise(", rules: [\"request.path == '/x'\"]"),
            authorise(""),
            "p: authorise.rules: - \"request.path == '/x'\"",
        ),
        (
            limited("rates: 10/s"),
            limited("rates: 20/s"),
            "p: rate_limit.rates: [{ rate: \"10/s\" }] -> [{ rate: \"20/s\" }]",
        ),
        (
            limited("rates: 10/s"),
            limited("rates: 10/s, shadow: true"),
            "p: rate_limit.shadow: false -> true",
        ),
        (jwt("", "scopes: [a, b],"), jwt("", "scopes: a,"), "q: authorise.scopes.all: - b"),
        (jwt("", "claims: { t: x },"), jwt("", ""), "q: authorise.claims.t: - { equals: x }"),
        (jwt("", ""), jwt(", leeway: 1m", ""), "p: jwt.leeway: 30s -> 1m"),
        (
            jwt("", ""),
            jwt("", "").replace("[RS256]", "[RS256, ES256]"),
            "p: jwt.providers[].algorithms: + ES256",
        ),
        (
            cors("origins: \"https://b.a.example\""),
            cors("origins: \"https://*.a.example\""),
            "p: cors.origins: + \"https://*.a.example\"",
        ),
        (
            upstream(", tls: on"),
            upstream(", tls: { verify: false }"),
            "a: tls.verify: true -> false",
        ),
        (upstream(", tls: on"), upstream(""), "a: tls: {} -> off"),
        (
            "limits: { body: 1MiB }".to_owned(),
            "limits: { body: unlimited }".to_owned(),
            ": limits.body: 1MiB -> unlimited",
        ),
        (
            "forwarding: { trusted_proxies: 10.0.0.0/16 }".to_owned(),
            "forwarding: { trusted_proxies: [10.0.0.0/8] }".to_owned(),
            ": forwarding.trusted_proxies: + 10.0.0.0/8",
        ),
        (
            "routes: [{ name: r, upstream: a, limits: { body: 1KiB } }]".to_owned(),
            String::new(),
            "r: limits.body: 1KiB -> 64MiB",
        ),
        (
            "routes: [{ name: r, respond: 403 }]".to_owned(),
            "routes: [{ name: r, upstream: a }]".to_owned(),
            "r: requests were refused before",
        ),
    ] {
        assert_eq!(weaker(&old, &new), [what], "{old}\n{new}");
        assert_eq!(weaker(&new, &old), Vec::<String>::new(), "the other way round: {old}\n{new}");
    }
}

/// Whether each change makes something weaker, as told in these words.
fn assert_weaker<'t>(changes: impl IntoIterator<Item = (String, String, &'t str)>) {
    let changes = changes.into_iter();
    let missed = changes.filter_map(|(old, new, what)| {
        let weaker = weaker(&old, &new);
        let is_told = weaker.iter().any(|it| it.contains(what));
        (!is_told).then(|| format!("{old}\n{new}\nexpected: {what}\nfound: {weaker:#?}"))
    });
    let missed: Vec<_> = missed.collect();
    assert!(missed.is_empty(), "{}", missed.join("\n\n"));
}

/// Routes of which any two match some path in common: each of their segments is `x` or a parameter.
fn crossing(bits: u32) -> String {
    let route = |number: u32| {
        let segment = |bit: u32| match number >> bit & 1 {
            0 => "/x".to_owned(),
            _ => format!("/{{p{bit}}}"),
        };
        let path: String = (0..bits).map(segment).collect();
        format!("  - {{ name: r{number}, path: \"{path}\", upstream: a }}\n")
    };
    format!("routes:\n{}", (0..1 << bits).map(route).collect::<String>())
}

#[test]
fn what_is_too_much_to_compare_is_weaker() {
    let few = crossing(4);
    assert_eq!(weaker(&few, &few.replacen("r0,", "other,", 1)), Vec::<String>::new());
    let many = crossing(11);
    let new =
        format!("{}limits: {{ body: 1MiB }}\n", many.replacen("r0,", "other, methods: GET,", 1));
    let plan = plan(&many, &new);
    let told: Vec<_> =
        plan.weaker.iter().map(|it| (it.part.name.as_deref(), it.what.as_str())).collect();
    let what = "too many routes match the same requests to compare them all: counted as weaker";
    assert_eq!(told, [(None, what)]);
    assert!(plan.to_string().contains("limits.body: 64MiB -> 1MiB\n"), "the rest is compared");
    // Where they match as before, all stay where they are, however many there are.
    assert_eq!(weaker(&many, &many.replacen("r0,", "other,", 1)), Vec::<String>::new());
}

#[test]
fn a_plan_that_nobody_wants_any_more_is_not_made() {
    let [old, new] = [crossing(4), crossing(4).replacen("r0,", "other, methods: GET,", 1)]
        .map(|it| resolved(&it));
    assert!(Plan::while_wanted(&old, &new, &|| true).is_some());
    assert_eq!(Plan::while_wanted(&old, &new, &|| false), None);
}

#[test]
fn secrets_are_not_shown() {
    let with = |secret: &str| {
        format!(
            "apply: p\npolicies: {{ p: {{ jwt: {{ providers: {{ algorithms: HS256, keys: {{ secret: {secret} }} }} }} }} }}"
        )
    };
    let (one, other) = ("s".repeat(40), "t".repeat(40));
    let shown = format!("{:?}\n{0}", plan(&with(&one), &with(&other)));
    assert!(
        shown.contains("secret") && !shown.contains(&one) && !shown.contains(&other),
        "{shown}"
    );
}

#[test]
fn what_other_files_say_is_compared_and_what_they_keep_is_hidden() {
    let around = Around::files(&[
        ("more.yaml", "routes: [{ respond: { headers: { X-Note: \"${file:key}\" } } }]"),
        ("key", "a secret of a file"),
    ]);
    let read = |text: &str| Resolved::from(around.read(text).unwrap());
    let joined = read("include: more.yaml\nlisteners: [\":80\"]");
    let whole =
        "listeners: [\":80\"]\nroutes: [{ respond: { headers: { X-Note: \"${file:key}\" } } }]";
    assert!(Plan::new(&joined, &read(whole)).is_empty());
    let shown = Plan::new(&joined, &read(&whole.replace("${file:key}", "other"))).to_string();
    assert!(shown.contains("\"***\" -> other"), "{shown}");
}

#[test]
fn of_what_comes_from_a_file_no_direction_is_known() {
    let around = Around::files(&[("rate", "10/s"), ("size", "1KiB")]);
    let read = |limits: &str| {
        let file = format!(
            "listeners: [\":80\"]\nroutes: [{{ name: r, respond: 200 }}]\napply: p\n{limits}"
        );
        Resolved::from(around.read(&file).unwrap())
    };
    let with = |rate: &str, size: &str| {
        read(&format!(
            "limits: {{ head: \"{size}\" }}\npolicies: {{ p: {{ rate_limit: {{ rates: \"{rate}\" }} }} }}"
        ))
    };
    let hidden = with("${file:rate}", "${file:size}");
    let plan = Plan::new(&hidden, &with("1000/s", "32KiB"));
    let told: Vec<_> = plan.weaker.iter().map(|it| it.what.split(':').next().unwrap()).collect();
    assert_eq!(told, ["rate_limit.rates", "limits.head"], "{plan}");
}
