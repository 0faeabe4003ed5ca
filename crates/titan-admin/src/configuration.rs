//! `/config`, `/plan`, `/reload`, `/confirm`, `/rollback`, `/history` and `/explain`: what the program is asked to do, and what came of it.

use crate::calls;
use crate::history::{Author, Entry};
use crate::http::{Request, Response, media_type};
use crate::orders::{
    Applied, Change, Document, Explained, Findings, Guard, History, InForce, NotApplied, Orders,
    Planned, Question, Safeguards,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;
use time::OffsetDateTime;
use titan_http::{Status, query};

/// What a configuration is called that is sent without a name.
const UNNAMED: &str = "the request";
/// Bytes of a name.
const MAX_NAME: usize = 255;
/// How long there may be to confirm.
const CONFIRM: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
/// How long a guard may look on.
const WINDOW: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
/// How many times worse is too bad where the query does not say.
const FACTOR: f64 = 2.0;
const MAX_FACTOR: f64 = 1000.0;

/// The configuration in force, as it is shown.
#[derive(Serialize)]
struct Shown<'a> {
    entry: &'a Entry,
    #[serde(with = "time::serde::rfc3339::option")]
    confirm_until: Option<OffsetDateTime>,
    summary: &'a str,
    documents: Vec<ShownDocument<'a>>,
}

#[derive(Serialize)]
struct ShownDocument<'a> {
    name: &'a str,
    text: &'a str,
}

/// What a configuration would change: the keys of `titan plan --json`, and more.
#[derive(Serialize)]
struct PlanShown {
    #[serde(flatten)]
    plan: Value,
    /// The same as people read it.
    text: String,
}

/// What a change has come to: the keys of `titan check --json`, and more.
#[derive(Serialize)]
struct Changed {
    /// What was read; unknown for a configuration without findings that was not sent.
    file: Option<String>,
    valid: bool,
    diagnostics: Vec<Value>,
    /// The same as people read it.
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<InForceNow>,
}

#[derive(Serialize)]
struct InForceNow {
    entry: Entry,
    summary: String,
    notes: Vec<String>,
}

/// The parameters of a request, or which of them is wrong.
type Parameters<T> = Result<T, String>;

/// Shows what is in force.
pub(crate) async fn read(orders: &Orders) -> Response {
    match orders.in_force().await {
        Ok(in_force) => Response::json(Status::OK, &Shown::of(&in_force)),
        Err(error) => not_applied(&error),
    }
}

/// Shows what was in force.
pub(crate) async fn history(orders: &Orders) -> Response {
    match orders.history().await {
        Ok(History { entries, notes }) => {
            Response::json(Status::OK, &json!({ "entries": entries, "notes": notes }))
        }
        Err(error) => not_applied(&error),
    }
}

/// Puts the configuration in the body in force.
pub(crate) async fn put(orders: &Orders, request: Request, author: Author) -> Response {
    let (name, safeguards) = match put_parameters(request.head.query()) {
        Ok(parameters) => parameters,
        Err(fault) => return Response::problem(Status::BAD_REQUEST, &fault),
    };
    let documents = match documents(&name, request.body) {
        Ok(documents) => documents,
        Err(fault) => return Response::problem(Status::BAD_REQUEST, &fault),
    };
    changed(Some(&name), orders.change(Change::Apply { documents, safeguards }, author).await)
}

/// Shows what the configuration in the body would change.
pub(crate) async fn plan(orders: &Orders, request: Request) -> Response {
    let read = name(request.head.query()).and_then(|name| {
        let documents = documents(&name, request.body)?;
        Ok((name, documents))
    });
    let (name, documents) = match read {
        Ok(read) => read,
        Err(fault) => return Response::problem(Status::BAD_REQUEST, &fault),
    };
    match orders.plan(documents).await {
        Ok(Planned { text, json: plan }) => Response::json(Status::OK, &PlanShown { plan, text }),
        Err(NotApplied::Refused(findings)) => {
            let refused = Changed::new(Some(&name), findings, None);
            Response::json(Status::UNPROCESSABLE_CONTENT, &refused)
        }
        Err(error) => not_applied(&error),
    }
}

/// Shows what a configuration of the history changed.
pub(crate) async fn compare(orders: &Orders, request: &Request) -> Response {
    let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    let id = number(calls::segment(request.head.path(), 1));
    let mut against = Some(None);
    for (name, value) in query::pairs(request.head.query()) {
        against = (&*name == b"against").then(|| number(&value).map(Some)).flatten();
    }
    let (Some(id), Some(against)) = (id, against) else {
        let detail = "expected the id of an entry, and `against` (that of another one) or nothing";
        return Response::problem(Status::BAD_REQUEST, detail);
    };
    match orders.compare(id, against).await {
        Ok(Planned { text, json: plan }) => Response::json(Status::OK, &PlanShown { plan, text }),
        Err(NotApplied::Refused(findings)) => {
            // Today it could not be put in force: a file that it names may be gone.
            Response::problem(Status::CONFLICT, findings.text.trim_end())
        }
        Err(error) => not_applied(&error),
    }
}

/// What is asked about a request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default)]
    client: Option<IpAddr>,
}

/// Explains what a request would get.
pub(crate) async fn explain(orders: &Orders, request: &Request) -> Response {
    if !media_type(&request.head).eq_ignore_ascii_case(b"application/json") {
        return Response::problem(Status::BAD_REQUEST, "send `Content-Type: application/json`");
    }
    let Asked { method, url, headers, client } = match serde_json::from_slice(&request.body) {
        Ok(asked) => asked,
        Err(error) => {
            let detail = format!("{error}; send {EXAMPLE}");
            return Response::problem(Status::BAD_REQUEST, &detail);
        }
    };
    let fields = headers.into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
    match orders.explain(Question { method, url, fields, client }).await {
        Ok(Explained { text, json: explained }) => {
            Response::json(Status::OK, &ExplanationShown { explained, text })
        }
        Err(NotApplied::Refused(findings)) => {
            Response::problem(Status::BAD_REQUEST, findings.text.trim_end())
        }
        Err(error) => not_applied(&error),
    }
}

const EXAMPLE: &str = r#"{"method": "GET", "url": "http://a.example/x", "headers": [["Accept", "*/*"]], "client": "203.0.113.7"}"#;

/// What a request would get: the keys of `titan explain --json`, and more.
#[derive(Serialize)]
struct ExplanationShown {
    #[serde(flatten)]
    explained: Value,
    /// The same as people read it.
    text: String,
}

/// The configuration in a body.
fn documents(name: &str, body: Vec<u8>) -> Parameters<Vec<Document>> {
    match String::from_utf8(body) {
        Ok(text) if text.trim().is_empty() => {
            Err("the body is empty: send a configuration (curl: `-T FILE`)".to_owned())
        }
        Ok(text) => Ok(vec![Document { name: name.to_owned(), text }]),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            Err(format!("the body is not UTF-8 at byte {at}"))
        }
    }
}

/// Reads the file again.
pub(crate) async fn reload(orders: &Orders, request: &Request, author: Author) -> Response {
    match no_parameters(request.head.query()) {
        Ok(()) => changed(None, orders.change(Change::Reload, author).await),
        Err(fault) => Response::problem(Status::BAD_REQUEST, &fault),
    }
}

/// Has what is on trial stay.
pub(crate) async fn confirm(orders: &Orders, request: &Request, author: Author) -> Response {
    match no_parameters(request.head.query()) {
        Ok(()) => changed(None, orders.confirm(author).await),
        Err(fault) => Response::problem(Status::BAD_REQUEST, &fault),
    }
}

/// Puts an earlier configuration in force.
pub(crate) async fn roll_back(orders: &Orders, request: &Request, author: Author) -> Response {
    match id(request.head.query()) {
        Ok(id) => changed(None, orders.change(Change::Rollback(id), author).await),
        Err(fault) => Response::problem(Status::BAD_REQUEST, &fault),
    }
}

/// The response to a change; `name` is what was sent, where something was.
fn changed(name: Option<&str>, outcome: Result<Applied, NotApplied>) -> Response {
    match outcome {
        Ok(Applied { entry, warnings, summary, notes }) => {
            let applied = InForceNow { entry, summary, notes };
            Response::json(Status::OK, &Changed::new(name, warnings, Some(applied)))
        }
        Err(NotApplied::Refused(findings)) => {
            Response::json(Status::UNPROCESSABLE_CONTENT, &Changed::new(name, findings, None))
        }
        Err(NotApplied::Failed(findings)) => {
            Response::json(Status::SERVICE_UNAVAILABLE, &Changed::new(name, findings, None))
        }
        Err(error) => not_applied(&error),
    }
}

fn not_applied(error: &NotApplied) -> Response {
    let status = match error {
        NotApplied::Refused(_) => Status::UNPROCESSABLE_CONTENT,
        NotApplied::NotFound(_) => Status::NOT_FOUND,
        NotApplied::Conflict(_) | NotApplied::Superseded => Status::CONFLICT,
        NotApplied::Failed(_) | NotApplied::Unavailable => Status::SERVICE_UNAVAILABLE,
    };
    Response::problem(status, &error.to_string())
}

impl Changed {
    fn new(name: Option<&str>, findings: Findings, applied: Option<InForceNow>) -> Changed {
        let Findings { text, json: diagnostics } = findings;
        let named = diagnostics.first().and_then(|it| it["file"].as_str());
        let file = named.or(name).map(str::to_owned);
        Changed { file, valid: applied.is_some(), diagnostics, text, applied }
    }
}

impl Shown<'_> {
    fn of(in_force: &InForce) -> Shown<'_> {
        let InForce { entry, names, masked, summary, confirm_until } = in_force;
        let documents = names.iter().zip(&**masked);
        let documents = documents.map(|(name, masked)| ShownDocument { name, text: &masked.text });
        let confirm_until = confirm_until.map(OffsetDateTime::from);
        Shown { entry, confirm_until, summary, documents: documents.collect() }
    }
}

fn put_parameters(query: Option<&[u8]>) -> Parameters<(String, Safeguards)> {
    let (mut name, mut safeguards) = (UNNAMED.to_owned(), Safeguards::default());
    let (mut window, mut factor) = (None, None);
    for (key, value) in parameters(query)? {
        match key.as_ref() {
            "name" => name = check_name(value.into_owned())?,
            "confirm" => safeguards.confirm = Some(duration(&key, &value, CONFIRM)?),
            "guard" => window = Some(duration(&key, &value, WINDOW)?),
            "factor" => factor = Some(parse_factor(&value)?),
            _ => return Err(unknown(&key, "`name`, `confirm`, `guard` and `factor`")),
        }
    }
    safeguards.guard = match (window, factor) {
        (Some(window), factor) => Some(Guard { window, factor: factor.unwrap_or(FACTOR) }),
        (None, Some(_)) => return Err("`factor` has no effect without `guard`".to_owned()),
        (None, None) => None,
    };
    Ok((name, safeguards))
}

fn name(query: Option<&[u8]>) -> Parameters<String> {
    let mut name = UNNAMED.to_owned();
    for (key, value) in parameters(query)? {
        match key.as_ref() {
            "name" => name = check_name(value.into_owned())?,
            _ => return Err(unknown(&key, "`name`")),
        }
    }
    Ok(name)
}

fn check_name(name: String) -> Parameters<String> {
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(format!("`name` has to have 1 to {MAX_NAME} bytes"));
    }
    match name.contains(char::is_control) {
        true => Err("`name` contains a control character".to_owned()),
        false => Ok(name),
    }
}

fn id(query: Option<&[u8]>) -> Parameters<Option<u64>> {
    let mut id = None;
    for (key, value) in parameters(query)? {
        match key.as_ref() {
            "id" => {
                let parsed =
                    value.parse().map_err(|_| "`id` is not that of an entry of the history");
                id = Some(parsed?);
            }
            _ => return Err(unknown(&key, "`id`")),
        }
    }
    Ok(id)
}

fn no_parameters(query: Option<&[u8]>) -> Parameters<()> {
    match parameters(query)?.first() {
        None => Ok(()),
        Some((key, _)) => Err(unknown(key, "none")),
    }
}

/// All of them; none may be there twice.
fn parameters(query: Option<&[u8]>) -> Parameters<Vec<(Cow<'_, str>, Cow<'_, str>)>> {
    let mut found: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
    for (key, value) in query::pairs(query) {
        let text = |bytes| match bytes {
            Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        };
        let (key, value) = (text(key), text(value));
        if found.iter().any(|(other, _)| *other == key) {
            return Err(format!("`{key}` is there twice"));
        }
        found.push((key, value));
    }
    Ok(found)
}

fn unknown(key: &str, known: &str) -> String {
    format!("there is no parameter `{key}`; this call knows {known}")
}

fn duration(key: &str, text: &str, range: RangeInclusive<Duration>) -> Parameters<Duration> {
    let parsed = titan_config::duration(text).ok().filter(|duration| range.contains(duration));
    parsed.ok_or_else(|| {
        let (least, most) = (range.start().as_secs(), range.end().as_secs());
        format!("`{key}` is not a duration such as `30s` or `5m`, from {least}s to {most}s")
    })
}

fn parse_factor(text: &str) -> Parameters<f64> {
    let parsed = text.parse().ok().filter(|factor| *factor > 1.0 && *factor <= MAX_FACTOR);
    parsed.ok_or_else(|| format!("`factor` is not a number above 1, up to {MAX_FACTOR}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_what_they_say_or_refused() {
        let parse = |query: &str| put_parameters(Some(query.as_bytes()));
        let (name, safeguards) = parse("").unwrap();
        assert_eq!((name.as_str(), safeguards), (UNNAMED, Safeguards::default()));
        let (name, safeguards) = parse("name=a%20b&confirm=5m&guard=30s").unwrap();
        let guard = Guard { window: Duration::from_secs(30), factor: FACTOR };
        assert_eq!(name, "a b");
        let confirm = Some(Duration::from_secs(300));
        assert_eq!(safeguards, Safeguards { confirm, guard: Some(guard) });
        assert_eq!(parse("guard=1m&factor=1.5").unwrap().1.guard.unwrap().factor, 1.5);
        for (query, word) in [
            ("confirm=5", "duration"),
            ("confirm=0s", "duration"),
            ("confirm=25h", "duration"),
            ("guard=2h", "duration"),
            ("factor=2", "without `guard`"),
            ("guard=1m&factor=1", "above 1"),
            ("guard=1m&factor=nan", "above 1"),
            ("name=", "1 to 255 bytes"),
            ("name=%0a", "control"),
            ("confrim=5m", "no parameter `confrim`"),
            ("confirm=5m&confirm=5m", "twice"),
        ] {
            let error = parse(query).unwrap_err();
            assert!(error.contains(word), "{query}: {error}");
        }
        assert_eq!(id(Some(b"id=7")), Ok(Some(7)));
        assert_eq!(id(None), Ok(None));
        assert!(id(Some(b"id=-1")).is_err() && id(Some(b"x=1")).is_err());
        assert!(no_parameters(Some(b"confirm=5m")).is_err());
    }
}
