//! Required claims of tokens.

use crate::authorise::INSUFFICIENT_SCOPE;
use crate::findings::{Findings, TokenChallenge};
use crate::jwt::find;
use crate::story::Story;
use serde_json::{Map, Value};
use titan_config::{ClaimRule, ClaimValue, Granted};
use titan_io::error::Kind;

/// What a request's token has to say.
pub(super) struct Claims {
    scopes: Option<Granted>,
    roles: Option<Granted>,
    rules: Vec<ClaimRule>,
    /// Whether clients learn what is missing.
    is_told: bool,
}

impl Claims {
    /// What the policy asks of tokens, if it does.
    pub(super) fn new(config: &titan_config::Authorise) -> Option<Claims> {
        let (scopes, roles) = (config.scopes.clone(), config.roles.clone());
        let rules = config.claims.clone();
        let is_any = scopes.is_some() || roles.is_some() || !rules.is_empty();
        is_any.then_some(Claims { scopes, roles, rules, is_told: config.tell_missing })
    }

    pub(super) fn on_request(&self, findings: &mut Findings) -> Result<(), Kind> {
        // Without a policy for tokens there are none, and no configuration that requires them.
        let missing = findings.claims().map_or_else(|| Some(Vec::new()), |it| self.missing(it));
        let Some(missing) = missing else { return Ok(()) };
        let (missing, scopes) =
            if self.is_told { (missing, self.scopes()) } else { Default::default() };
        findings.missing = missing;
        findings.token_challenge = Some(TokenChallenge::Insufficient(scopes));
        Err(INSUFFICIENT_SCOPE)
    }

    /// What the token lacks, good or not.
    pub(super) fn explain(&self, claims: Option<&Map<String, Value>>, story: &mut Story<'_>) {
        match claims.map_or_else(|| Some(Vec::new()), |claims| self.missing(claims)) {
            None => story.tell("the token meets the requirements"),
            Some(missing) => {
                let lacks = format!("the token lacks {}", missing.join(" and "));
                story.refuse(INSUFFICIENT_SCOPE, lacks);
            }
        }
    }

    /// What a token lacks, in words; nothing if it has everything that is required.
    pub(super) fn missing(&self, claims: &Map<String, Value>) -> Option<Vec<String>> {
        let lists = [("scope", &self.scopes), ("role", &self.roles)];
        let granted = lists.into_iter().filter_map(|(what, it)| Some((what, it.as_ref()?)));
        let mut missing: Vec<_> = granted.flat_map(|(what, it)| lacks(what, it, claims)).collect();
        let unmet = self.rules.iter().filter(|rule| !holds(rule, claims));
        missing.extend(unmet.map(|rule| format!("claim {}", rule.name)));
        (!missing.is_empty()).then_some(missing)
    }

    /// The scopes that a token needs, as a challenge lists them (RFC 6750 section 3).
    fn scopes(&self) -> String {
        let all = self.scopes.iter().flat_map(|it| it.all.iter().chain(&it.any));
        all.map(String::as_str).collect::<Vec<_>>().join(" ")
    }
}

/// Which words a claim lacks, in words.
fn lacks(what: &str, granted: &Granted, claims: &Map<String, Value>) -> Vec<String> {
    let Granted { claim, all, any } = granted;
    let found = find(claims, claim);
    let has = |word: &String| found.is_some_and(|value| has_word(value, word));
    let mut missing: Vec<_> =
        all.iter().filter(|word| !has(word)).map(|word| format!("{what} {word}")).collect();
    match any.as_slice() {
        [] => {}
        any if any.iter().any(has) => {}
        [one] => missing.push(format!("{what} {one}")),
        any => missing.push(format!("one of the {what}s {}", any.join(", "))),
    }
    missing
}

/// Whether a list has the word, or a text in which spaces stand between words.
fn has_word(value: &Value, word: &str) -> bool {
    match value {
        Value::String(text) => text.split(' ').any(|it| it == word),
        Value::Array(items) => items.iter().any(|item| item.as_str() == Some(word)),
        _ => false,
    }
}

/// Whether a token keeps the rule.
pub(crate) fn holds(rule: &ClaimRule, claims: &Map<String, Value>) -> bool {
    let ClaimRule { claim, name: _, equals, any, all, none, only } = rule;
    let value = match find(claims, claim) {
        None | Some(Value::Null) => return false,
        Some(value) => value,
    };
    let values = match value {
        Value::Array(items) => items.as_slice(),
        value => std::slice::from_ref(value),
    };
    let is_in =
        |value: &Value, among: &[ClaimValue]| among.iter().any(|known| is_same(value, known));
    let has = |wanted: &ClaimValue| values.iter().any(|value| is_same(value, wanted));
    equals.as_ref().is_none_or(|wanted| is_same(value, wanted))
        && any.as_ref().is_none_or(|any| any.iter().any(has))
        && all.as_ref().is_none_or(|all| all.iter().all(has))
        && none.as_ref().is_none_or(|none| !none.iter().any(has))
        && only.as_ref().is_none_or(|only| values.iter().all(|value| is_in(value, only)))
}

fn is_same(value: &Value, known: &ClaimValue) -> bool {
    match (value, known) {
        (Value::String(text), ClaimValue::Text(known)) => text == known,
        (Value::Number(number), ClaimValue::Number(known)) => number.as_i64() == Some(*known),
        (Value::Bool(is), ClaimValue::Bool(known)) => is == known,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a token with these claims keeps these rules of the policy.
    fn keeps(rules: &str, claims: &str) -> bool {
        let text = format!(
            "listeners: [\":1\"]\nroutes: [{{ respond: 204 }}]\napply: [t, p]\npolicies:
  t: {{ jwt: {{ providers: {{ algorithms: HS256, keys: {{ secret_file: k }} }} }} }}
  p: {{ authorise: {{ {rules} }} }}"
        );
        let config = titan_config::Config::parse("titan.yaml", &text).unwrap();
        let titan_config::Policy::Authorise(policy) = &config.policies[1].policy else { panic!() };
        let Ok(Value::Object(claims)) = serde_json::from_str(claims) else { panic!("{claims}") };
        Claims::new(policy).unwrap().missing(&claims).is_none()
    }

    #[test]
    fn words_are_whole_and_of_texts_alone() {
        let cases = [
            (r#"{"scope":"a b"}"#, true),
            (r#"{"scope":["b","a"]}"#, true),
            (r#"{"scope":"b  a "}"#, true),
            (r#"{"scope":"a"}"#, false),
            (r#"{"scope":"a B"}"#, false),
            (r#"{"scope":"ab"}"#, false),
            (r#"{"scope":"a,b"}"#, false),
            (r#"{"scope":"a\tb"}"#, false),
            (r#"{"scope":["a b"]}"#, false),
            (r#"{"scope":["a",["b"]]}"#, false),
            (r#"{"scope":{"a":true,"b":true}}"#, false),
            (r#"{"scope":null}"#, false),
            (r#"{"scp":"a b"}"#, false),
            ("{}", false),
        ];
        for (claims, may) in cases {
            assert_eq!(keeps("scopes: [a, b]", claims), may, "{claims}");
        }
        assert!(keeps("scopes: { any: [a, c], all: b }", r#"{"scope":"b c"}"#));
        assert!(!keeps("scopes: { any: [a, c], all: b }", r#"{"scope":"b d"}"#));
        assert!(!keeps("scopes: { any: [a, c], all: b }", r#"{"scope":"a c"}"#));
        assert!(keeps("roles: { all: x, claim: /realm/roles }", r#"{"realm":{"roles":["x"]}}"#));
        assert!(!keeps("roles: { all: x, claim: /realm/roles }", r#"{"/realm/roles":["x"]}"#));
        assert!(keeps("roles: x y", r#"{"roles":["x y"]}"#));
    }

    #[test]
    fn values_have_types_and_lists_are_sets() {
        let cases = [
            ("a: x", r#"{"a":"x"}"#, true),
            ("a: x", r#"{"a":["x"]}"#, false),
            ("a: 7", r#"{"a":7}"#, true),
            ("a: 7", r#"{"a":"7"}"#, false),
            ("a: 7", r#"{"a":7.5}"#, false),
            ("a: '7'", r#"{"a":"7"}"#, true),
            ("a: true", r#"{"a":true}"#, true),
            ("a: true", r#"{"a":"true"}"#, false),
            ("a: 'true'", r#"{"a":true}"#, false),
            ("a: [x, y]", r#"{"a":"y"}"#, true),
            ("a: [x, y]", r#"{"a":["z","y"]}"#, true),
            ("a: [x, y]", r#"{"a":"x y"}"#, false),
            ("a: { all: [x, y] }", r#"{"a":["z","y","x"]}"#, true),
            ("a: { all: [x, y] }", r#"{"a":["x"]}"#, false),
            ("a: { none: [x, y] }", r#"{"a":["z"]}"#, true),
            ("a: { none: [x, y] }", r#"{"a":["z","x"]}"#, false),
            ("a: { none: [x, y] }", r#"{"a":"x"}"#, false),
            // What is not there proves nothing.
            ("a: { none: [x, y] }", "{}", false),
            ("a: { none: [x, y] }", r#"{"a":null}"#, false),
            ("a: { only: [x, y] }", r#"{"a":["x"]}"#, true),
            ("a: { only: [x, y] }", r#"{"a":["x","z"]}"#, false),
            ("a: { only: [x, y] }", r#"{"a":"y"}"#, true),
            ("a: { any: [x], none: [y] }", r#"{"a":["x","y"]}"#, false),
            ("/a/0/b: x", r#"{"a":[{"b":"x"}]}"#, true),
            ("a: x, b: y", r#"{"a":"x"}"#, false),
        ];
        for (rules, claims, may) in cases {
            assert_eq!(keeps(&format!("claims: {{ {rules} }}"), claims), may, "{rules} {claims}");
        }
    }
}
