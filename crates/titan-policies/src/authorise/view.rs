//! What rules see of a request.
//!
//! The cost of a rule is bounded when the file is read: its length, its depth, no loops in loops. Here its input is
//! bounded: heads and tokens have limits, lists and mappings have `MAX_MEMBERS`, and loops have `MAX_ITEMS`.

use super::{Identity, RuleSubject};
use cel::extractors::This;
use cel::{Context, Env, ExecutionError, Value};
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};
use titan_config::{CertificatePart, Rule, RulePart};
use titan_http::host_of;
use titan_http::query;
use titan_http::{RequestHead, fold_name, is_plain_name};

/// The items that a list or a mapping may have where a rule goes through such.
pub(super) const MAX_ITEMS: usize = 256;
/// The items that one may have where it does not: each takes many times the bytes that it has in a request.
pub(super) const MAX_MEMBERS: usize = 4096;

/// The functions that rules call; what they may call is decided when the file is read.
static ENV: LazyLock<Arc<Env>> =
    LazyLock::new(|| Arc::new(Env::default().with_optional_support(false).with_stdlib()));

/// Why it is unknown whether a rule is met.
#[derive(Debug, PartialEq)]
pub(crate) enum Unmet {
    /// What it uses is larger than it may be.
    TooMuch,
    /// Its result is neither true nor false.
    NoTruth,
    Error(Box<ExecutionError>),
}

/// Behind what cannot be said.
impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unmet::TooMuch => f.write_str(" (its evaluation takes too many steps)"),
            Unmet::NoTruth => f.write_str(" (its result is not true or false)"),
            Unmet::Error(error) => write!(f, " ({error})"),
        }
    }
}

impl Unmet {
    /// Whether it uses something that is absent.
    pub(crate) fn is_absence(&self) -> bool {
        use ExecutionError::{IndexOutOfBounds, NoSuchKey};
        matches!(self, Unmet::Error(error) if matches!(**error, NoSuchKey(_) | IndexOutOfBounds(_)))
    }
}

/// What a rule sees of a request. By default nothing: a rule that uses anything then ends in an error.
pub(crate) struct View(Context<'static, 'static>);

impl Default for View {
    fn default() -> View {
        View(Context::with_env(Arc::clone(&ENV)))
    }
}

impl View {
    /// What that rule uses.
    pub(crate) fn of(
        rule: &Rule,
        request: &RequestHead,
        asked: RuleSubject<'_>,
    ) -> Result<View, Unmet> {
        let View(mut context) = View::default();
        let seen = Seen { rule, most: if rule.loops() { MAX_ITEMS } else { MAX_MEMBERS } };
        context.add_variable_from_value("request", seen.request(request)?);
        context.add_variable_from_value("client", seen.client(asked));
        if rule.reads(RulePart::Claims) {
            // Where no token is required there may be none: it says nothing.
            let nothing = Map::new();
            let claims = seen.object(asked.claims.unwrap_or(&nothing))?;
            context.add_variable_from_value("claims", claims);
        }
        if rule.reads(RulePart::Certificate) {
            context.add_variable_from_value("certificate", seen.certificate(asked.identity)?);
        }
        if !rule.patterns().is_empty() {
            let patterns = Arc::clone(rule.patterns());
            let matches = move |This(text): This<Arc<String>>, written: Arc<String>| {
                let mut known = patterns.iter().filter(|(known, _)| *known == *written);
                known.next().is_some_and(|(_, pattern)| pattern.is_match(text.as_bytes()))
            };
            let added = context.add_function("matches", matches);
            added.expect("nothing else is called so: the library has no regular expressions here");
        }
        Ok(View(context))
    }

    /// The same with a response of that status.
    pub(crate) fn with_status(mut self, status: u16) -> View {
        let response = HashMap::from([("status".to_owned(), Value::Int(status.into()))]);
        self.0.add_variable_from_value("response", response);
        self
    }

    /// Whether it meets the rule that it was made for.
    pub(crate) fn meets(&self, rule: &Rule) -> Result<bool, Unmet> {
        match rule.program().execute(&self.0) {
            Ok(Value::Bool(is_met)) => Ok(is_met),
            Ok(_) => Err(Unmet::NoTruth),
            Err(error) => Err(Unmet::Error(Box::new(error))),
        }
    }
}

/// Whether a request meets a rule.
pub(super) fn is_met(
    rule: &Rule,
    request: &RequestHead,
    asked: RuleSubject<'_>,
) -> Result<bool, Unmet> {
    View::of(rule, request, asked)?.meets(rule)
}

/// What a rule sees: no more than it uses.
struct Seen<'r> {
    rule: &'r Rule,
    /// The items that a list or a mapping may have.
    most: usize,
}

impl Seen<'_> {
    fn request(&self, request: &RequestHead) -> Result<Value, Unmet> {
        let mut parts: HashMap<String, Value> = HashMap::new();
        let mut put = |name: &str, value: Value| drop(parts.insert(name.to_owned(), value));
        if self.rule.reads(RulePart::Method) {
            put("method", request.method.as_str().into());
        }
        if self.rule.reads(RulePart::Host) {
            let host = request.authority().map(host_of).unwrap_or_default();
            put("host", text(host).to_ascii_lowercase().into());
        }
        if self.rule.reads(RulePart::Path) {
            put("path", text(request.path()).into());
        }
        if self.rule.reads(RulePart::Query) {
            put("query", self.query(request)?);
        }
        if self.rule.reads(RulePart::Headers) {
            put("headers", self.headers(request)?);
        }
        Ok(parts.into())
    }

    fn query(&self, request: &RequestHead) -> Result<Value, Unmet> {
        let mut values: HashMap<String, Vec<Value>> = HashMap::new();
        for (name, value) in query::pairs(request.query()) {
            values.entry(text(&name)).or_default().push(text(&value).into());
        }
        self.fits(values.values().map(Vec::len).chain([values.len()]))?;
        Ok(values.into())
    }

    /// Fields of one name are one (RFC 9110 section 5.3). One that upstreams may take for another is there by both
    /// names, so that no rule over all names misses it.
    fn headers(&self, request: &RequestHead) -> Result<Value, Unmet> {
        let mut values: HashMap<String, Vec<String>> = HashMap::new();
        for field in request.fields.iter() {
            let name = text(field.name).to_ascii_lowercase();
            if !is_plain_name(field.name) {
                values.entry(fold_name(&name)).or_default().push(text(field.value));
            }
            values.entry(name).or_default().push(text(field.value));
        }
        self.fits([values.len()])?;
        let joined = values.into_iter().map(|(name, lines)| (name, lines.join(", ")));
        Ok(joined.collect::<HashMap<_, _>>().into())
    }

    fn client(&self, asked: RuleSubject<'_>) -> Value {
        let address = asked.client.map(|it| ("address".to_owned(), Value::from(it.to_string())));
        address.into_iter().collect::<HashMap<_, _>>().into()
    }

    /// Empty where the client has shown none.
    fn certificate(&self, identity: Option<&Identity>) -> Result<Value, Unmet> {
        let mut parts: HashMap<String, Value> = HashMap::new();
        let Some(identity) = identity else { return Ok(parts.into()) };
        for (name, part) in LISTS {
            let values: Vec<&str> = identity.values(*part).collect();
            self.fits([values.len()])?;
            parts.insert((*name).to_owned(), values.into());
        }
        for (name, part) in TEXTS {
            let value = identity.values(*part).next().unwrap_or_default();
            parts.insert((*name).to_owned(), value.into());
        }
        Ok(parts.into())
    }

    fn object(&self, members: &Map<String, Json>) -> Result<Value, Unmet> {
        self.fits([members.len()])?;
        let members = members.iter().map(|(name, value)| Ok((name.clone(), self.value(value)?)));
        Ok(members.collect::<Result<HashMap<_, _>, Unmet>>()?.into())
    }

    /// A part of a token. How deep it can be is bounded where tokens are read.
    fn value(&self, value: &Json) -> Result<Value, Unmet> {
        Ok(match value {
            Json::Null => Value::Null,
            Json::Bool(is) => Value::Bool(*is),
            Json::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => Value::Int(whole),
                (None, Some(number)) => Value::Float(number),
                (None, None) => return Err(Unmet::TooMuch),
            },
            Json::String(text) => text.as_str().into(),
            Json::Array(items) => {
                self.fits([items.len()])?;
                let items: Result<Vec<_>, _> = items.iter().map(|it| self.value(it)).collect();
                items?.into()
            }
            Json::Object(members) => self.object(members)?,
        })
    }

    fn fits(&self, lengths: impl IntoIterator<Item = usize>) -> Result<(), Unmet> {
        match lengths.into_iter().all(|length| length <= self.most) {
            true => Ok(()),
            false => Err(Unmet::TooMuch),
        }
    }
}

const LISTS: &[(&str, CertificatePart)] = &[
    ("dns", CertificatePart::Dns),
    ("uri", CertificatePart::Uri),
    ("email", CertificatePart::Email),
    ("ip", CertificatePart::Ip),
];
const TEXTS: &[(&str, CertificatePart)] =
    &[("subject", CertificatePart::Subject), ("fingerprint", CertificatePart::Fingerprint)];

/// Bytes that are not UTF-8 become a string that no rule compares with.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
