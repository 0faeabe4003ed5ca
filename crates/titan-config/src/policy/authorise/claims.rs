//! Required claims of tokens.

use crate::bounds::{MAX_CLAIMS, MAX_TOKEN, MAX_VALUE};
use crate::diagnostic::Diagnostic;
use crate::node::{Kind, Node};
use crate::policy::claim::{CLAIM, Claim, claim, parse_claim};
use crate::problem::Problem;
use crate::read::{Read, Reading, optional};
use crate::readers::{Named, mapping, one_or_list, short_for, text};
use crate::section::{section, section_of};
use crate::shape::{Shape, TextShape};

section! {
    "granted", "required grants", Any;
    /// What a claim of the token must contain. The claim is a list of words, or a string of words with spaces between
    /// them. A plain string or a list sets `all` alone.
    pub(crate) struct GrantedFields {
        /// It must contain every one of these.
        pub(crate) all: Option<Vec<String>> = optional("none of them", one_or_list(word(), 1..=MAX_CLAIMS)),
        /// It must contain at least one of these.
        pub(crate) any: Option<Vec<String>> = optional("none of them", one_or_list(word(), 1..=MAX_CLAIMS)),
        /// The claim, by name or JSON pointer: a nested one is `/realm_access/roles`, not `realm_access.roles`.
        pub(crate) claim: Option<Claim> = optional("`scope` for scopes, `roles` for roles", claim()),
    }
}

/// Words that a claim has to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The claim.
    pub claim: Claim,
    /// Each of these; of both lists one has something.
    pub all: Vec<String>,
    /// One of these, if there are any.
    pub any: Vec<String>,
}

section! {
    "claim_rule", "a claim rule", Any;
    /// What a claim must be. A value that is not a list counts as a list of that one value. Strings, numbers and
    /// booleans are never equal to one another: quotes make a string of `7` and `true`. A missing claim satisfies no
    /// rule.
    pub(crate) struct ClaimRuleFields {
        /// It is exactly this, and not a list.
        pub(crate) equals: Option<ClaimValue> = optional("anything", claim_value()),
        /// At least one of its values is among these.
        pub(crate) any: Option<Vec<ClaimValue>> = optional("anything", claim_values()),
        /// All of these are among its values.
        pub(crate) all: Option<Vec<ClaimValue>> = optional("anything", claim_values()),
        /// None of its values is among these.
        pub(crate) none: Option<Vec<ClaimValue>> = optional("anything", claim_values()),
        /// All of its values are among these.
        pub(crate) only: Option<Vec<ClaimValue>> = optional("anything", claim_values()),
    }
}

/// What a claim has to be; everything that is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRule {
    /// The claim.
    pub claim: Claim,
    /// How the file calls it.
    pub name: String,
    /// It is exactly this.
    pub equals: Option<ClaimValue>,
    /// One of its values is among these.
    pub any: Option<Vec<ClaimValue>>,
    /// These are among its values.
    pub all: Option<Vec<ClaimValue>>,
    /// None of its values is among these.
    pub none: Option<Vec<ClaimValue>>,
    /// Its values are among these.
    pub only: Option<Vec<ClaimValue>>,
}

/// A value of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimValue {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// `true` or `false`.
    Bool(bool),
}

/// The scopes that a token has to grant (RFC 8693 section 4.2).
pub(super) fn scopes() -> impl Read<Value = Granted> {
    short_for("all", section_of::<GrantedFields>()).then(|fields, node, to| {
        let granted = granted(fields, "scope", node, to)?;
        let mut words = granted.all.iter().chain(&granted.any);
        let Some(bad) = words.find(|word| !is_scope(word)) else { return Some(granted) };
        let error = Diagnostic::error(node.span, format!("`{bad}` is not a scope"));
        to.fail(error.label("expected printable ASCII without spaces, quotes and backslashes"))
    })
}

/// The roles that a token has to grant.
pub(super) fn roles() -> impl Read<Value = Granted> {
    short_for("all", section_of::<GrantedFields>())
        .then(|fields, node, to| granted(fields, "roles", node, to))
}

fn granted(
    fields: GrantedFields,
    usual: &str,
    node: &Node,
    to: &mut Reading<'_>,
) -> Option<Granted> {
    let GrantedFields { all, any, claim } = fields;
    if all.is_none() && any.is_none() {
        let error = Diagnostic::error(node.span, "this requires nothing of the token");
        return to.fail(error.label("expected `all`, `any` or both"));
    }
    let claim = claim.unwrap_or_else(|| Claim::named(usual));
    Some(Granted { claim, all: all.unwrap_or_default(), any: any.unwrap_or_default() })
}

/// RFC 6749 section 3.3: what can stand in `scope` of a challenge, too.
fn is_scope(word: &str) -> bool {
    word.bytes().all(|byte| matches!(byte, b'!' | b'#'..=b'[' | b']'..=b'~'))
}

/// Rules for claims.
pub(in super::super) fn claim_rules() -> impl Read<Value = Vec<ClaimRule>> {
    let named = |name: &str| Ok((parse_claim(name)?, name.to_owned()));
    mapping(CLAIM, named, ClaimRuleReader, 0..=MAX_CLAIMS).then(|rules, _, to| {
        for (index, Named { key, key_span, .. }) in rules.iter().enumerate() {
            if let Some(first) = rules[..index].iter().find(|before| before.key.0 == key.0) {
                let error = Diagnostic::error(*key_span, "two rules for one claim");
                return to.fail(error.label("here again").also(first.key_span, "first here"));
            }
        }
        Some(rules.into_iter().map(rule).collect())
    })
}

fn rule(named: Named<(Claim, String), ClaimRuleFields>) -> ClaimRule {
    let Named { key: (claim, name), value, .. } = named;
    let ClaimRuleFields { equals, any, all, none, only } = value;
    ClaimRule { claim, name, equals, any, all, none, only }
}

/// A value that the claim must equal, values of which it must have one, or the section.
struct ClaimRuleReader;

impl Read for ClaimRuleReader {
    type Value = ClaimRuleFields;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<ClaimRuleFields> {
        let nothing =
            ClaimRuleFields { equals: None, any: None, all: None, none: None, only: None };
        match node.kind {
            Kind::Text(_) => {
                let equals = claim_value().read(node, to)?;
                Some(ClaimRuleFields { equals: Some(equals), ..nothing })
            }
            Kind::List(_) => {
                let any = claim_values().read(node, to)?;
                Some(ClaimRuleFields { any: Some(any), ..nothing })
            }
            Kind::Map(_) => {
                let fields = section_of::<ClaimRuleFields>().read(node, to)?;
                if fields != nothing {
                    return Some(fields);
                }
                let error = Diagnostic::error(node.span, "this requires nothing of the claim");
                to.fail(
                    error.help(
                        "to require that a claim is present, use `require` in the `jwt` policy",
                    ),
                )
            }
            Kind::Null => to.mismatch(node, self),
        }
    }

    fn shape(&self) -> Shape {
        let section = section_of::<ClaimRuleFields>().shape();
        Shape::Either(vec![claim_values().shape(), section])
    }
}

fn claim_values() -> impl Read<Value = Vec<ClaimValue>> {
    one_or_list(claim_value(), 1..=MAX_CLAIMS)
}

fn claim_value() -> impl Read<Value = ClaimValue> {
    ClaimValueReader
}

struct ClaimValueReader;

impl Read for ClaimValueReader {
    type Value = ClaimValue;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<ClaimValue> {
        let written = text(VALUE, |text| Ok(text.to_owned())).read(node, to)?;
        let is_plain = matches!(&node.kind, Kind::Text(text) if !text.quoted);
        let is_number = written.parse::<f64>().is_ok() && !written.ends_with(char::is_alphabetic);
        if is_plain && is_number && written.parse::<i64>().is_err() {
            let message = format!("claims cannot be compared with the number {written}");
            let error = Diagnostic::error(node.span, message);
            let error = error.label("expected a string, `true`, `false` or a whole number");
            return to
                .fail(error.help(format!("quote it if the claim is the string \"{written}\"")));
        }
        Some(match (is_plain, written.as_str(), written.parse()) {
            (true, "true", _) => ClaimValue::Bool(true),
            (true, "false", _) => ClaimValue::Bool(false),
            (true, _, Ok(number)) => ClaimValue::Number(number),
            _ => ClaimValue::Text(written),
        })
    }

    fn shape(&self) -> Shape {
        let number = Shape::Whole { min: i64::MIN, max: i64::MAX };
        Shape::Either(vec![Shape::Text(VALUE), number, Shape::Boolean])
    }
}

fn word() -> impl Read<Value = String> {
    text(WORD, |word| match word {
        "" => Err(Problem::new("it is empty")),
        word => Ok(word.to_owned()),
    })
}

const WORD: TextShape =
    TextShape { what: "a scope or role", examples: "`orders:read`", pattern: None, max: MAX_TOKEN };
const VALUE: TextShape =
    TextShape { what: "a claim value", examples: "`sales`", pattern: None, max: MAX_VALUE };
