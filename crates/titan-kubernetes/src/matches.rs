//! From what routes match to what Titan's routes match.

use crate::credentials::Unusable;
use crate::objects::{GrpcMatch, HttpMatch, PathMatch, ValueMatch};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What a request has to be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Match {
    pub(crate) path: MatchPath,
    pub(crate) method: Option<String>,
    /// By name, in lower case.
    pub(crate) headers: BTreeMap<String, Value>,
    pub(crate) query: BTreeMap<String, Value>,
}

/// A path, in Titan's language.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MatchPath {
    /// This one, or all that fit the pattern.
    Whole(String),
    /// This one, and all below it.
    Prefix(String),
}

/// A kind of match.
pub(crate) trait Matching {
    /// What it matches.
    fn matching(&self) -> Result<Match, Unusable>;
}

impl Match {
    /// All requests.
    pub(crate) fn all() -> Match {
        Match {
            path: MatchPath::Prefix("/".to_owned()),
            method: None,
            headers: BTreeMap::new(),
            query: BTreeMap::new(),
        }
    }

    /// How specific it is among those with the same path: by method, then by the number of conditions.
    pub(crate) fn specificity(&self) -> (bool, usize, usize) {
        (self.method.is_some(), self.headers.len(), self.query.len())
    }

    /// The fields of a route.
    pub(crate) fn written(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        match &self.path {
            MatchPath::Whole(path) => fields.insert("path".to_owned(), path.as_str().into()),
            MatchPath::Prefix(path) => fields.insert("prefix".to_owned(), path.as_str().into()),
        };
        if let Some(method) = &self.method {
            fields.insert("methods".to_owned(), json!([method]));
            if method == "GET" {
                fields.insert("head".to_owned(), json!(false));
            }
        }
        for (key, conditions) in [("headers", &self.headers), ("query", &self.query)] {
            if !conditions.is_empty() {
                fields.insert(key.to_owned(), json!(conditions));
            }
        }
        fields
    }
}

impl Matching for HttpMatch {
    fn matching(&self) -> Result<Match, Unusable> {
        let PathMatch { of_type, value } = self.path.clone().unwrap_or_default();
        let value = value.unwrap_or_else(|| "/".to_owned());
        let path = match of_type.as_deref().unwrap_or("PathPrefix") {
            "Exact" => MatchPath::Whole(literal(&value)),
            "PathPrefix" => MatchPath::Prefix(prefix(&value)),
            other => return Err(unsupported(format!("paths are not matched by {other}"))),
        };
        let headers = conditions(&self.headers, str::to_ascii_lowercase)?;
        let query = conditions(&self.query_params, str::to_owned)?;
        Ok(Match { path, method: self.method.clone(), headers, query })
    }
}

impl Matching for GrpcMatch {
    fn matching(&self) -> Result<Match, Unusable> {
        let method = self.method.clone().unwrap_or_default();
        let of_type = method.of_type.as_deref().unwrap_or("Exact");
        if of_type != "Exact" {
            return Err(unsupported(format!("methods are not matched by {of_type}")));
        }
        let path = match (method.service.as_deref(), method.method.as_deref()) {
            (Some(service), Some(method)) => {
                MatchPath::Whole(literal(&format!("/{service}/{method}")))
            }
            (Some(service), None) => MatchPath::Prefix(literal(&format!("/{service}"))),
            (None, Some(method)) => {
                MatchPath::Whole(format!("/{{service}}{}", literal(&format!("/{method}"))))
            }
            (None, None) => MatchPath::Prefix("/".to_owned()),
        };
        let headers = conditions(&self.headers, str::to_ascii_lowercase)?;
        Ok(Match { path, method: None, headers, query: BTreeMap::new() })
    }
}

/// Of several conditions on one name the first counts.
fn conditions(
    all: &[ValueMatch],
    name_of: impl Fn(&str) -> String,
) -> Result<BTreeMap<String, Value>, Unusable> {
    let mut conditions = BTreeMap::new();
    for ValueMatch { of_type, name, value } in all {
        let condition = match of_type.as_deref().unwrap_or("Exact") {
            "Exact" => json!(value),
            "RegularExpression" => json!({ "regex": whole(name, value)? }),
            other => return Err(unsupported(format!("values are not matched by {other}"))),
        };
        conditions.entry(name_of(name)).or_insert(condition);
    }
    Ok(conditions)
}

/// An expression that has to match all of a value.
fn whole(name: &str, expression: &str) -> Result<String, Unusable> {
    match regex::bytes::Regex::new(expression) {
        Ok(_) => Ok(format!("^(?:{expression})$")),
        Err(error) => {
            // It draws the expression over several lines; what is wrong stands in the last one.
            let told = error.to_string();
            let why = told.lines().last().unwrap_or_default().trim_start_matches("error: ");
            Err(unsupported(format!("{name}: `{expression}` is no regular expression: {why}")))
        }
    }
}

/// A path of which nothing is a pattern.
fn literal(path: &str) -> String {
    path.replace('*', "\\*").replace("/:", "/\\:")
}

/// A prefix counts by whole segments, with or without a slash at its end.
fn prefix(path: &str) -> String {
    match path.trim_end_matches('/') {
        "" => "/".to_owned(),
        path => literal(path),
    }
}

/// A value that is not served.
pub(crate) fn unsupported(message: String) -> Unusable {
    Unusable { reason: "UnsupportedValue", message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Result<String, Unusable> {
        let read: HttpMatch = serde_json::from_str(text).unwrap();
        read.matching().map(|it| Value::Object(it.written()).to_string())
    }

    #[test]
    fn http_requests_are_matched() {
        for (text, expected) in [
            ("{}", r#"{"prefix":"/"}"#),
            (r#"{"path": {"type": "PathPrefix", "value": "/v2/"}}"#, r#"{"prefix":"/v2"}"#),
            (r#"{"path": {"type": "Exact", "value": "/v2/"}}"#, r#"{"path":"/v2/"}"#),
            (r#"{"path": {"type": "Exact", "value": "/:a/*"}}"#, r#"{"path":"/\\:a/\\*"}"#),
            (r#"{"method": "GET"}"#, r#"{"prefix":"/","methods":["GET"],"head":false}"#),
            (r#"{"method": "HEAD"}"#, r#"{"prefix":"/","methods":["HEAD"]}"#),
            (
                r#"{"headers": [{"name": "Version", "value": "one"}, {"name": "version", "value": "two"}]}"#,
                r#"{"prefix":"/","headers":{"version":"one"}}"#,
            ),
            (
                r#"{"queryParams": [{"name": "A", "value": "b+", "type": "RegularExpression"}]}"#,
                r#"{"prefix":"/","query":{"A":{"regex":"^(?:b+)$"}}}"#,
            ),
        ] {
            let [expected, found] = [expected, &written(text).unwrap()]
                .map(|it| serde_json::from_str::<Value>(it).unwrap());
            assert_eq!(found, expected, "{text}");
        }
        for (text, why) in [
            (r#"{"path": {"type": "RegularExpression", "value": "/a+"}}"#, "paths are not matched"),
            (
                r#"{"headers": [{"name": "A", "type": "RegularExpression", "value": "a(b"}]}"#,
                "A: `a(b` is no regular expression: unclosed group",
            ),
        ] {
            let bad = written(text).unwrap_err();
            assert_eq!(bad.reason, "UnsupportedValue");
            assert!(bad.message.starts_with(why), "{}", bad.message);
        }
    }

    #[test]
    fn grpc_calls_are_matched_by_their_path() {
        for (text, expected) in [
            ("{}", MatchPath::Prefix("/".to_owned())),
            (
                r#"{"method": {"service": "a.B", "method": "C"}}"#,
                MatchPath::Whole("/a.B/C".to_owned()),
            ),
            (r#"{"method": {"service": "a.B"}}"#, MatchPath::Prefix("/a.B".to_owned())),
            (r#"{"method": {"method": "C"}}"#, MatchPath::Whole("/{service}/C".to_owned())),
        ] {
            let read: GrpcMatch = serde_json::from_str(text).unwrap();
            assert_eq!(read.matching().unwrap().path, expected, "{text}");
        }
    }
}
