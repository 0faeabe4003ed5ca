//! Rules: CEL expressions, read as a file has them and evaluated on requests. What evaluates them needs no I/O and is compiled
//! in here.

#[expect(dead_code, reason = "rules over responses are evaluated in the same way")]
#[path = "../../crates/titan-policies/src/authorise/view.rs"]
mod view;

use crate::CHOICES;
use cel::ExecutionError;
use serde_json::{Map, Value, json};
use std::net::{IpAddr, Ipv4Addr};
use titan_config::{CertificatePart, Config, Policy, Rule, RulePart};
use titan_http::{Method, RequestHead};
use view::{Unmet, is_met};

/// What rules are evaluated on, as in `authorise`.
#[derive(Clone, Copy, Default)]
struct RuleSubject<'a> {
    claims: Option<&'a Map<String, Value>>,
    identity: Option<&'a Identity>,
    client: Option<IpAddr>,
}

/// The certificate of a client.
struct Identity(Vec<(CertificatePart, &'static str)>);

impl Identity {
    fn values(&self, part: CertificatePart) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(it, _)| *it == part).map(|(_, value)| *value)
    }
}

/// A rule is read or refused; one that was read is evaluated on any request, uses nothing but what it says that it
/// uses, and decides the same each time. The first bytes choose the request.
pub fn rule(data: &[u8]) {
    let Some((choices, input)) = data.split_first_chunk::<CHOICES>() else { return };
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Some(rule) = parse(text) else { return };
    let claims = claims(choices[0]);
    let identity = Identity(vec![
        (CertificatePart::Dns, "a.example"),
        (CertificatePart::Dns, "b.example"),
        (CertificatePart::Subject, "CN=a"),
    ]);
    let full = RuleSubject {
        claims: claims.as_object(),
        identity: Some(&identity),
        client: Some(Ipv4Addr::LOCALHOST.into()),
    };
    let request = request(choices[1]);
    for (request, asked) in
        [(&request, full), (&request, RuleSubject::default()), (&RequestHead::default(), full)]
    {
        let outcome = is_met(&rule, request, asked);
        // Which of several errors is met first depends on the order of mappings, which have none.
        assert_eq!(outcome.as_ref().ok(), is_met(&rule, request, asked).as_ref().ok(), "{text}");
        if let Err(Unmet::Error(error)) = &outcome {
            let is_unknown = matches!(**error, ExecutionError::UndeclaredReference(_));
            assert!(!is_unknown, "{text}: {error}");
        }
        let with_less = is_met(&rule, request, used_by(&rule, asked));
        assert_eq!(outcome.ok(), with_less.ok(), "{text}");
    }
}

/// No more than the rule says that it uses.
fn used_by<'a>(rule: &Rule, asked: RuleSubject<'a>) -> RuleSubject<'a> {
    RuleSubject {
        claims: asked.claims.filter(|_| rule.reads(RulePart::Claims)),
        identity: asked.identity.filter(|_| rule.reads(RulePart::Certificate)),
        client: asked.client.filter(|_| rule.reads(RulePart::Client)),
    }
}

/// The rule as a file has it; a string of JSON is one of YAML.
fn parse(text: &str) -> Option<Rule> {
    let file = json!({
        "listeners": [{ "address": ":1", "tls": {
            "certificates": [{ "cert": "c", "key": "k" }],
            "client_certificates": { "ca": "a" },
        }}],
        "routes": [{ "respond": 204 }],
        "apply": ["token", "rule"],
        "policies": {
            "token": { "jwt": { "providers": { "algorithms": "HS256", "keys": { "secret_file": "k" } } } },
            "rule": { "authorise": { "rules": text } },
        },
    });
    let config = Config::parse("titan.yaml", &file.to_string()).ok()?;
    let rules = config.policies.iter().find_map(|named| match &named.policy {
        Policy::Authorise(policy) => Some(&policy.rules),
        _ => None,
    });
    rules?.first().cloned()
}

fn claims(choice: u8) -> Value {
    match choice % 4 {
        0 => json!({}),
        1 => json!({ "sub": "ann", "groups": ["a", "b"], "level": 3, "rate": 0.5 }),
        2 => json!({ "groups": "a", "deep": { "er": [{ "x": true }, null] }, "level": -1e300 }),
        _ => json!({ "groups": (0..200).collect::<Vec<u32>>(), "sub": "x".repeat(1000) }),
    }
}

fn request(choice: u8) -> RequestHead {
    let method = [Method::GET, Method::POST][usize::from(choice % 2)];
    let mut request = RequestHead { method, ..RequestHead::default() };
    request.set_path(b"/a/b").expect("there is room");
    request.set_query(Some(b"x=1&x=%32&y")).expect("there is room");
    let value = "1, ".repeat(usize::from(choice));
    let lines = [("Host", "A.example:80"), ("X-A", &value), ("X-B", "\u{e9}"), ("x_c", "4")];
    for (name, value) in lines {
        request.fields.append_named(name.as_bytes(), value.as_bytes()).expect("there is room");
    }
    request
}
