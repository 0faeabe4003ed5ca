//! What a transform may not say, and how it is told.

use titan_config::Config;

/// What is wrong with a transform on a route with that path and more.
fn wrong_on(route: &str, transform: &str) -> String {
    let text = format!(
        "listeners: [\":80\"]\nroutes: [{{ {route}, apply: [p] }}]\nupstreams: {{ a: a:1 }}\n\
         policies: {{ p: {{ transform: {{ {transform} }} }} }}\n"
    );
    match Config::parse("titan.yaml", &text) {
        Ok(_) => "nothing".to_owned(),
        Err(report) => report.to_string(),
    }
}

fn wrong(transform: &str) -> String {
    wrong_on("path: '/{id}', upstream: a", transform)
}

#[test]
fn fields_that_frame_messages_or_belong_to_the_gateway_stay() {
    let names = [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "Transfer_Encoding",
        "Transfer.Encoding",
        "Content~Length",
        "Max!Forwards",
        "X.Request_Id",
        "Client.Cert",
        "Connection",
        "Keep-Alive",
        "TE",
        "Trailer",
        "Upgrade",
        "Expect",
        "Max-Forwards",
        "Via",
        "Forwarded",
        "X-Forwarded-For",
        "X_Forwarded_Host",
        "X.Forwarded.For",
        "X-Forwarded-Port",
        "X-Real-IP",
        "Client-Cert",
        "X-Request-Id",
        "Proxy-Connection",
        "Date",
        "Sec-WebSocket-Key",
    ];
    for name in names {
        for change in [
            "remove: [N]",
            "rename: { N: x }",
            "rename: { x: N }",
            "set: { N: x }",
            "append: { N: x }",
            "set_if_absent: { N: x }",
        ] {
            let changes = change.replace('N', name);
            let report = wrong(&format!("request: {{ headers: {{ {changes} }} }}"));
            assert!(report.contains("can be changed"), "{changes}: {report}");
        }
    }
    let names = [
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
        "Trailer",
        "Upgrade",
        "Date",
        "Server",
        "Content-Encoding",
        "Content-Range",
        "Access-Control-Allow-Origin",
        "access_control_max_age",
    ];
    for name in names {
        for change in ["remove: [N]", "set: { N: x }", "append: { N: x }"] {
            let changes = change.replace('N', name);
            let report = wrong(&format!("response: {{ headers: {{ {changes} }} }}"));
            assert!(report.contains("can be changed"), "{changes}: {report}");
        }
    }
    assert!(wrong("response: { headers: { set: { Vary: x } } }").contains("append to it"));
    assert_eq!(wrong("response: { headers: { append: { Vary: x } } }"), "nothing");
}

#[test]
fn the_id_of_a_request_is_in_no_field_that_says_something_else() {
    let with = |name: &str| {
        let text = format!(
            "listeners: [\":80\"]\nroutes: [{{ respond: 204 }}]\nforwarding: {{ request_id: {name} }}\n"
        );
        Config::parse("titan.yaml", &text).map(drop).map_err(|report| report.to_string())
    };
    for name in [
        "Host",
        "Content_Length",
        "X-Real-IP",
        "x.forwarded.for",
        "Client_Cert",
        "Sec-WebSocket-Key",
    ] {
        let report = with(name).expect_err(name);
        assert!(report.contains(&format!("`{name}` cannot carry the request id")), "{report}");
    }
    for name in ["X-Request-Id", "X_Request_Id", "X-Trace"] {
        assert_eq!(with(name), Ok(()), "{name}");
    }
}

#[test]
fn the_id_of_a_request_is_the_gateways_whatever_it_is_called() {
    let text = "listeners: [\":80\"]\nroutes: [{ respond: 204, apply: [p] }]\nforwarding: { request_id: X-Id }\n\
        policies: { p: { transform: { request: { headers: { set: { x-id: a } } } } } }\n";
    let report = Config::parse("titan.yaml", text).unwrap_err().to_string();
    assert!(report.contains("the policy changes `X-Id`"), "{report}");
}

#[test]
fn the_id_of_a_request_is_in_no_field_that_upstreams_take_for_another() {
    let text = "listeners: [\":80\"]\nroutes: [{ respond: 204, apply: [p] }]\nforwarding: { request_id: X-Id }\n\
        policies: { p: { transform: { request: { headers: { set: { X.Id: a } } } } } }\n";
    let report = Config::parse("titan.yaml", text).unwrap_err().to_string();
    assert!(report.contains("the policy changes `X-Id`"), "{report}");
}

#[test]
fn a_field_that_stays_names_its_key() {
    let told = |name: &str| wrong(&format!("request: {{ headers: {{ set: {{ {name}: x }} }} }}"));
    for (name, key) in [
        ("X-Real-IP", "x_real_ip"),
        ("x_real_ip", "x_real_ip"),
        ("X-Forwarded-For", "x_forwarded"),
        ("X-Forwarded-Host", "x_forwarded"),
        ("Forwarded", "forwarded"),
        ("Via", "via"),
        ("X-Request-Id", "request_id"),
        ("Client-Cert-Chain", "client_cert"),
    ] {
        let report = told(name);
        assert!(report.contains(&format!("`forwarding.{key}` controls it")), "{name}: {report}");
    }
    assert!(!told("X-Forwarded-Prefix").contains("`forwarding."), "no key says anything of it");
}

#[test]
fn no_value_has_a_line_end() {
    for value in ["\"a\\r\\nb: c\"", "\"a\\nb\"", "\"a\\0\"", "\"{header:a\\n}\""] {
        let report = wrong(&format!("request: {{ headers: {{ set: {{ x: {value} }} }} }}"));
        assert!(report.contains("is not a value template"), "{value}: {report}");
    }
}

#[test]
fn variables_are_those_that_there_are() {
    let with =
        |value: &str| wrong(&format!("request: {{ headers: {{ set: {{ x: '{value}' }} }} }}"));
    assert_eq!(with("{id} {method} {{x}} {header:a} {param:q}"), "nothing");
    assert!(with("{nobody}").contains("there is no variable `{nobody}` for the transform `p`"));
    for value in ["{header:}", "{header:a b}", "{param:}", "{}", "{a-b}", "{cookie:a}", "{a", "a}"]
    {
        assert!(with(value).contains("is not a value template"), "{value}: {}", with(value));
    }
    let path = |replace: &str| {
        wrong(&format!("request: {{ path: {{ regex: '^/(?<a>x)', replace: '{replace}' }} }}"))
    };
    assert_eq!(path("/{0}{1}{a}"), "nothing");
    for replace in ["/{2}", "/{b}", "/{+1}"] {
        assert!(path(replace).contains("there is no group"), "{}", path(replace));
    }
    for replace in ["/a b", "/?a", "/#", "/é", "/{"] {
        assert!(path(replace).contains("is not a path replacement"), "{}", path(replace));
    }
}

#[test]
fn claims_need_tokens() {
    let report = wrong("request: { headers: { set: { x: '{claim:sub}' } } }");
    assert!(
        report.contains("the transform `p` uses token claims, but no policy checks tokens"),
        "{report}"
    );
    let report = wrong("request: { headers: { set: { x: '{claim:}' } } }");
    assert!(report.contains("is not a value template"), "{report}");
}

#[test]
fn a_path_has_one_rule() {
    let rule = "request: { path: { regex: x, replace: y } }";
    let report = wrong_on("prefix: /a, upstream: a, rewrite: { prefix: /b }", rule);
    assert!(report.contains("two rules rewrite the path of this route"), "{report}");
}

#[test]
fn groups_are_not_written_as_elsewhere() {
    let warned = |regex: &str, replace: &str| {
        let text = format!(
            "listeners: [':80']\nroutes: [{{ upstream: a, apply: [p] }}]\nupstreams: {{ a: a:1 }}\npolicies: \
             {{ p: {{ transform: {{ request: {{ path: {{ regex: '{regex}', replace: '{replace}' }} }} }} }} }}\n"
        );
        Config::parse("titan.yaml", &text).expect("a right file").warnings.to_string()
    };
    let told = warned("^/a(.*)$", "/b$1");
    assert!(told.contains("`$1` is literal text here") && told.contains("write `{1}`"), "{told}");
    for (regex, replace) in [("^/a", "/b$1"), ("^/a(.*)$", "/b$a"), ("^/a(.*)$", "/b{1}")] {
        assert_eq!(warned(regex, replace), "");
    }
}

#[test]
fn what_is_said_twice_is_refused() {
    let of = |changes: &str| wrong(&format!("request: {{ headers: {{ {changes} }} }}"));
    assert!(of("set: { X-A: a, x-a: b }").contains("this name appears twice"));
    assert!(of("rename: { x-a: x-c, x-b: X-C }").contains("the new name is already in use"));
    assert!(of("rename: { x-a: X-A }").contains("the new name is already in use"));
    assert!(of("set: { x-a: '' }").contains("use `remove`"));
}

#[test]
fn statuses_that_frame_responses_stay() {
    for pair in [
        "204: 200", "304: 200", "206: 200", "101: 200", "200: 204", "200: 304", "x: 200",
        "200: 600",
    ] {
        assert_ne!(wrong(&format!("response: {{ status: {{ {pair} }} }}")), "nothing", "{pair}");
    }
}

#[test]
fn statuses_that_need_a_field_come_with_it() {
    let of = |status: &str, headers: &str| {
        wrong(&format!("response: {{ status: {{ {status} }}, headers: {{ {headers} }} }}"))
    };
    for (status, field, value) in [
        ("404: 401", "WWW-Authenticate", "Basic realm=\"staff\""),
        ("404: 405", "Allow", "GET, HEAD"),
    ] {
        let report = of(status, "");
        assert!(report.contains(&format!("needs the header {field}")), "{report}");
        assert!(report.contains(&format!("set: {{ {field}: '{value}' }}")), "{report}");
        for kind in ["set", "append", "set_if_absent"] {
            let given = format!("{kind}: {{ {}: '{value}' }}", field.to_lowercase());
            assert_eq!(of(status, &given), "nothing", "{status}");
        }
        // It may be empty, and sets nothing then.
        let report = of(status, &format!("set: {{ {field}: '{{header:X-A}}' }}"));
        assert!(report.contains("needs the header"), "{report}");
        assert!(of(status, &format!("rename: {{ X-A: {field} }}")).contains("needs the header"));
    }
    assert_eq!(of("401: 401", ""), "nothing");
    for status in ["404: 407", "405: 426"] {
        assert!(of(status, "").contains("choose another status: the gateway sets this header"));
    }
}

#[test]
fn values_that_no_field_could_have_are_not_made() {
    for (rule, says) in [
        ("{ regex: a, replace: '{1}' }", "there is no group `{1}`"),
        ("{ regex: a, replace: \"b\\nc\" }", "a value cannot contain"),
        ("{ regex: '(', replace: a }", "a regular expression"),
    ] {
        let report = wrong(&format!("response: {{ replace: {{ x-a: {rule} }} }}"));
        assert!(report.contains(says), "{rule}: {report}");
    }
    let report = wrong("request: { replace: { Host: { regex: a, replace: b } } }");
    assert!(report.contains("Host"), "{report}");
}

#[test]
fn cookies_that_browsers_would_drop_or_that_cannot_be_written() {
    let of = |rule: &str| wrong(&format!("response: {{ cookies: {{ {rule} }} }}"));
    for (rule, says) in [
        ("same_site: none", "needs `secure: true` in this rule"),
        ("same_site: none, secure: false", "needs `secure: true` in this rule"),
        ("names: a", "this rule changes nothing"),
        ("names: 'a b', secure: true", "a b"),
        ("path: shop", "it does not start with a slash"),
        ("path: '/a; Domain=b'", "it contains characters that an attribute cannot have"),
        ("domain: 'a; Path=/'", "it is not a domain name"),
        ("domain: '.'", "it is not a domain name"),
    ] {
        let report = of(rule);
        assert!(report.contains(says), "{rule}: {report}");
    }
    assert_eq!(of("same_site: none, secure: true"), "nothing");
}

#[test]
fn conditions_look_at_what_there_is() {
    let of_request = wrong("request: { when: response.status == 200 }");
    assert!(of_request.contains("there is no variable `response`"), "{of_request}");
    let unknown = wrong("response: { when: response.body == '' }");
    assert!(unknown.contains("`response` has no `body`"), "{unknown}");
    let no_truth = wrong("response: { when: response.status }");
    assert!(no_truth.contains("its result is neither true nor false"), "{no_truth}");
    let claims = wrong("response: { when: claims.sub == 'a' }");
    assert!(claims.contains("the transform `p` uses token claims"), "{claims}");
    assert_eq!(
        wrong("response: { when: response.status == 200 && request.path == '/' }"),
        "nothing"
    );
}
