//! Rules: CEL expressions that requests must meet.

use super::RuleSubject;
use super::view::is_met;
use crate::authorise::RULE_REFUSED;
use crate::story::Story;
use titan_config::{Rule, RulePart};
use titan_http::RequestHead;
use titan_io::error::Kind;

/// The rules of a policy.
pub(super) struct Rules(Vec<Rule>);

impl Rules {
    /// The rules of a policy, if it has any.
    pub(super) fn new(rules: &[Rule]) -> Option<Rules> {
        (!rules.is_empty()).then(|| Rules(rules.to_vec()))
    }

    pub(super) fn on_request(
        &self,
        request: &RequestHead,
        asked: RuleSubject<'_>,
    ) -> Result<(), Kind> {
        let all = self.0.iter().all(|rule| is_met(rule, request, asked) == Ok(true));
        if all { Ok(()) } else { Err(RULE_REFUSED) }
    }

    /// Which rules a request meets.
    pub(super) fn explain(
        &self,
        request: &RequestHead,
        asked: RuleSubject<'_>,
        story: &mut Story<'_>,
    ) {
        for rule in &self.0 {
            let text = rule.text();
            if story.is_anybody && rule.reads(RulePart::Client) {
                let line =
                    format!("needs a client address for the rule {text}; set one with `--from`");
                story.tell(line);
                continue;
            }
            let why = match is_met(rule, request, asked) {
                Ok(true) => {
                    story.tell(format!("meets the rule {text}"));
                    continue;
                }
                Ok(false) => String::new(),
                Err(unmet) => unmet.to_string(),
            };
            story.refuse(RULE_REFUSED, format!("does not meet the rule {text}{why}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorise::view::{MAX_ITEMS, MAX_MEMBERS, Unmet};
    use serde_json::{Map, Value as Json};
    use titan_config::{Config, Policy};

    fn rules(written: &str) -> Vec<Rule> {
        let text = format!(
            "listeners: [{{ address: ':1', tls: {{ certificates: [{{ cert: c, key: k }}], client_certificates: {{ ca: a }} }} }}]
routes: [{{ respond: 204 }}]\napply: [t, p]\npolicies:
  t: {{ jwt: {{ providers: {{ algorithms: HS256, keys: {{ secret_file: k }} }} }} }}
  p:\n    authorise:\n      rules:\n        - |-\n          {}",
            written.replace('\n', "\n          ")
        );
        let config = Config::parse("titan.yaml", &text).unwrap_or_else(|it| panic!("{it}"));
        match &config.policies[1].policy {
            Policy::Authorise(policy) => policy.rules.clone(),
            _ => panic!("it is the second"),
        }
    }

    /// Whether a certain request meets a rule.
    fn met(written: &str) -> Result<bool, Unmet> {
        let mut request = RequestHead { method: titan_http::Method::GET, ..RequestHead::default() };
        request.set_path(b"/a/b").unwrap();
        request.set_query(Some(b"x=1&x=%32&y")).unwrap();
        for (name, value) in [
            ("Host", "A.example:80"),
            ("X-A", "1"),
            ("x-a", ""),
            ("X-B", "\u{e9}"),
            ("X.C", "3"),
            ("x_c", "4"),
        ] {
            request.fields.append_named(name.as_bytes(), value.as_bytes()).unwrap();
        }
        let claims =
            r#"{"sub":"ann","groups":["a","b"],"level":3,"deep":{"er":[{"x":true}]},"rate":0.5}"#;
        let Ok(Json::Object(claims)) = serde_json::from_str(claims) else { panic!() };
        let client = Some("192.0.2.1".parse().unwrap());
        let asked = RuleSubject { claims: Some(&claims), identity: None, client };
        is_met(&rules(written)[0], &request, asked)
    }

    #[test]
    fn a_rule_sees_the_request_and_its_client() {
        for rule in [
            "request.method == 'GET' && request.path == '/a/b'",
            "request.path.startsWith('/a/') && request.path.endsWith('b') && size(request.path) == 4",
            "matches(request.path, '^/[a-z]/')",
            "request.path.matches('^/[a-z]/') && !request.path.matches('^/[a-z]$')",
            "request.query.x == ['1', '2'] && request.query['y'] == [''] && !('z' in request.query)",
            "request.headers['x-a'] == '1, ' && request.headers['x-b'] == '\u{e9}'",
            "request.headers['x-c'] == '3, 4' && request.headers['x_c'] == '4'",
            "request.headers.exists(name, name.startsWith('x-c'))",
            "!has(request.headers.authorization) && request.headers.host.contains('example')",
            "claims.sub == 'ann' && 'b' in claims.groups && claims.level >= 3 && claims.rate < 1.0",
            "claims.deep.er[0].x && !has(claims.none) && !('none' in claims)",
            "claims.groups.exists(it, it == 'b') && claims.groups.all(it, size(it) == 1)",
            "claims.groups.exists_one(it, it in ['b', 'c'])",
            "client.address == '192.0.2.1' && !has(certificate.subject)",
            "int('7') + 1 == 8 && string(7) == '7' && (claims.level > 2 ? true : false)",
            "request.path == '/a/b'\n  || request.path == '/c'",
        ] {
            assert_eq!(met(rule), Ok(true), "{rule}");
        }
    }

    #[test]
    fn what_cannot_be_said_is_not_met() {
        for rule in [
            "claims.none == 1",
            "certificate.subject == ''",
            "claims.level > 'a'",
            "claims.level / 0 == 1",
            "9223372036854775807 + claims.level > 0",
            "claims.groups[2] == 'c'",
            "int(claims.sub) == 1",
            "request.path.contains(claims.level)",
            "claims.groups.all(it, it == 1 / 0)",
            "claims.sub",
            "claims.level",
            "claims.deep",
            "request.query.x",
        ] {
            assert!(met(rule).is_err(), "{rule}");
        }
        // Where the result does not depend on it, it may be missing.
        assert_eq!(met("claims.none == 1 || true"), Ok(true));
        assert_eq!(met("false && claims.none == 1"), Ok(false));
    }

    #[test]
    fn a_loop_has_so_many_turns_at_most() {
        let with = |items: usize| {
            let list = vec![Json::from(1); items];
            let claims = Map::from_iter([("list".to_owned(), Json::Array(list))]);
            let asked = RuleSubject { claims: Some(&claims), ..RuleSubject::default() };
            let judge = |rule: &str| is_met(&rules(rule)[0], &RequestHead::default(), asked);
            (judge("claims.list.all(it, it == 1)"), judge("size(claims.list) > 0"))
        };
        assert_eq!(with(MAX_ITEMS), (Ok(true), Ok(true)));
        assert_eq!(with(MAX_ITEMS + 1), (Err(Unmet::TooMuch), Ok(true)));
        assert_eq!(with(MAX_MEMBERS).1, Ok(true));
        assert_eq!(with(MAX_MEMBERS + 1).1, Err(Unmet::TooMuch));
    }

    /// A worker has 2 MiB, and more on it than this.
    #[test]
    fn the_deepest_rule_needs_little_stack() {
        let sum = rules(&format!("{} == 1", vec!["claims.level"; 13].join(" + ")));
        let nested = rules(&format!("{}claims.level{} == 1", "size([".repeat(6), "])".repeat(6)));
        let judge = move || {
            let claims = Map::from_iter([("level".to_owned(), Json::from(1))]);
            let asked = RuleSubject { claims: Some(&claims), ..RuleSubject::default() };
            let request = RequestHead::default();
            (is_met(&sum[0], &request, asked), is_met(&nested[0], &request, asked))
        };
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(judge);
        assert_eq!(thread.unwrap().join().unwrap(), (Ok(false), Ok(true)));
    }
}
