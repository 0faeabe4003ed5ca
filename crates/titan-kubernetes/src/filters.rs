//! From filters to policies and actions of Titan's routes.

use crate::credentials::Unusable;
use crate::matches::{MatchPath, unsupported};
use crate::names::without_variables;
use crate::objects::{
    Cors, Filter, Fraction, HeaderChanges, Mirror, PathModifier, Redirect, Rewrite,
};
use serde_json::{Map, Value, json};

/// What the filters of a rule say, and those of what serves it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Filters<'f> {
    requests: Vec<&'f HeaderChanges>,
    responses: Vec<&'f HeaderChanges>,
    pub(crate) redirect: Option<&'f Redirect>,
    pub(crate) rewrite: Option<&'f Rewrite>,
    pub(crate) mirrors: Vec<&'f Mirror>,
    pub(crate) cors: Option<&'f Cors>,
}

impl<'f> Filters<'f> {
    /// Sorts filters by what they do.
    pub(crate) fn of(filters: &'f [Filter]) -> Result<Filters<'f>, Unusable> {
        let mut sorted = Filters::default();
        for filter in filters {
            match filter.of_type.as_str() {
                "RequestHeaderModifier" => sorted.requests.extend(&filter.request_header_modifier),
                "ResponseHeaderModifier" => {
                    sorted.responses.extend(&filter.response_header_modifier);
                }
                "RequestRedirect" => sorted.redirect = filter.request_redirect.as_ref(),
                "URLRewrite" => sorted.rewrite = filter.url_rewrite.as_ref(),
                "RequestMirror" => sorted.mirrors.extend(&filter.request_mirror),
                "CORS" => sorted.cors = filter.cors.as_ref(),
                other => {
                    return Err(unsupported(format!(
                        "filters of the type {other} are not supported"
                    )));
                }
            }
        }
        Ok(sorted)
    }

    /// Adds those of what serves the rule. These can change header fields alone.
    pub(crate) fn add(&mut self, more: &Filters<'f>) -> Result<(), Unusable> {
        let Filters { requests, responses, redirect, rewrite, mirrors, cors } = more;
        if redirect.is_some() || rewrite.is_some() || cors.is_some() || !mirrors.is_empty() {
            let message = "in `backendRefs`, filters can change header fields alone";
            return Err(unsupported(message.to_owned()));
        }
        self.requests.extend(requests);
        self.responses.extend(responses);
        Ok(())
    }

    /// A policy that changes header fields, where they do.
    pub(crate) fn transform(&self) -> Option<Value> {
        let sides = [("request", &self.requests), ("response", &self.responses)];
        let changes = sides.into_iter().filter(|(_, changes)| !changes.is_empty());
        let transform: Map<_, _> = changes
            .map(|(side, changes)| (side.to_owned(), json!({ "headers": written(changes) })))
            .collect();
        (!transform.is_empty()).then(|| json!({ "transform": transform }))
    }
}

fn written(changes: &[&HeaderChanges]) -> Value {
    let mut keys = Map::new();
    for HeaderChanges { set, add, remove } in changes {
        for (key, fields) in [("set", set), ("append", add)] {
            for field in fields {
                let value = without_variables(&field.value);
                let named = keys.entry(key).or_insert_with(|| json!({}));
                named[field.name.to_ascii_lowercase()] = value.into();
            }
        }
        if !remove.is_empty() {
            let named = keys.entry("remove").or_insert_with(|| json!([]));
            named
                .as_array_mut()
                .into_iter()
                .for_each(|it| it.extend(remove.iter().map(|it| it.as_str().into())));
        }
    }
    Value::Object(keys)
}

/// A redirect of what comes by a socket with this scheme and port.
pub(crate) fn redirect(
    redirect: &Redirect,
    path: &MatchPath,
    (own_scheme, own_port): (&str, u16),
) -> Result<Value, Unusable> {
    let Redirect { scheme, hostname, path: modifier, port, status_code } = redirect;
    let port = match (port, scheme.as_deref()) {
        (Some(port), _) => *port,
        (None, Some("http")) => 80,
        (None, Some("https")) => 443,
        (None, _) => own_port,
    };
    let scheme = scheme.as_deref().unwrap_or(own_scheme);
    let host = hostname.as_deref().unwrap_or("{hostname}");
    let is_usual = matches!((scheme, port), ("http", 80) | ("https", 443));
    let port = if is_usual { String::new() } else { format!(":{port}") };
    let path = match modifier {
        None => "{path}".to_owned(),
        Some(PathModifier { of_type, replace_full_path, replace_prefix_match }) => {
            match of_type.as_str() {
                "ReplaceFullPath" => without_variables(replace_full_path.as_deref().unwrap_or("/")),
                "ReplacePrefixMatch" => {
                    check_prefix(path)?;
                    let to =
                        replace_prefix_match.as_deref().unwrap_or_default().trim_end_matches('/');
                    // The rest begins with a slash or is nothing.
                    let to = without_variables(to);
                    if to.is_empty() { "{rest}".to_owned() } else { format!("{to}{{rest}}") }
                }
                other => return Err(unsupported(format!("paths are not changed by {other}"))),
            }
        }
    };
    let to = format!("{scheme}://{host}{port}{path}{{query}}");
    Ok(json!({ "to": to, "status": status_code.unwrap_or(302) }))
}

/// The fields of a route that send something else to its upstream than came.
pub(crate) fn rewrite(rewrite: &Rewrite, path: &MatchPath) -> Result<Map<String, Value>, Unusable> {
    let mut fields = Map::new();
    if let Some(hostname) = &rewrite.hostname {
        fields.insert("send_host".to_owned(), hostname.as_str().into());
    }
    let Some(PathModifier { of_type, replace_full_path, replace_prefix_match }) = &rewrite.path
    else {
        return Ok(fields);
    };
    let written = match of_type.as_str() {
        "ReplaceFullPath" => {
            json!({ "path": without_variables(replace_full_path.as_deref().unwrap_or("/")) })
        }
        "ReplacePrefixMatch" => {
            check_prefix(path)?;
            let to = replace_prefix_match.as_deref().unwrap_or_default().trim_end_matches('/');
            json!({ "prefix": if to.is_empty() { "/" } else { to } })
        }
        other => return Err(unsupported(format!("paths are not changed by {other}"))),
    };
    fields.insert("rewrite".to_owned(), written);
    Ok(fields)
}

fn check_prefix(path: &MatchPath) -> Result<(), Unusable> {
    match path {
        MatchPath::Prefix(_) => Ok(()),
        MatchPath::Whole(_) => {
            Err(unsupported("ReplacePrefixMatch needs matches of the type PathPrefix".to_owned()))
        }
    }
}

/// The share of requests that is copied, as the configuration has it; none where none is.
pub(crate) fn mirrored_share(mirror: &Mirror) -> Option<String> {
    const WHOLE: u64 = 100 * 100;
    let hundredths = match (mirror.percent, mirror.fraction) {
        (Some(percent), _) => u64::from(percent) * 100,
        (None, Some(Fraction { numerator, denominator })) => {
            let (part, whole) = (u64::from(numerator), u64::from(denominator.unwrap_or(100)));
            // Of few requests a few are copied: what is asked for is not nothing.
            let least = u64::from(part > 0);
            (part * WHOLE).checked_div(whole).unwrap_or(WHOLE).max(least)
        }
        (None, None) => WHOLE,
    };
    let hundredths = hundredths.min(WHOLE);
    match (hundredths / 100, hundredths % 100) {
        (0, 0) => None,
        (percent, 0) => Some(format!("{percent}%")),
        (percent, rest) => Some(format!("{percent}.{rest:02}%")),
    }
}

/// A policy for pages of other origins.
pub(crate) fn cors(cors: &Cors) -> Value {
    let Cors {
        allow_origins,
        allow_credentials,
        allow_methods,
        allow_headers,
        expose_headers,
        max_age,
    } = cors;
    let credentials = allow_credentials.unwrap_or_default();
    let any = |list: &[String]| list.iter().any(|it| it == "*");
    let mut policy = Map::new();
    let mut put = |key: &str, value: Value| policy.insert(key.to_owned(), value);
    match any(allow_origins) {
        // With credentials, browsers want the origin itself.
        true if credentials => put("origins", json!([{ "regex": ".*" }])),
        true => put("origins", json!("*")),
        false => put("origins", json!(allow_origins)),
    };
    if credentials {
        put("credentials", json!(true));
        // Not asked for by the API, which says nothing of WebSockets.
        put("websockets", json!(false));
    }
    match any(allow_methods) {
        true => put("methods", json!("*")),
        false if allow_methods.is_empty() => None,
        false => put("methods", json!(allow_methods)),
    };
    match any(allow_headers) {
        true => put("headers", json!("*")),
        false if allow_headers.is_empty() => None,
        false => put("headers", json!(allow_headers)),
    };
    // With credentials, `*` is a name like others.
    let is_any_name = credentials && any(expose_headers);
    if !expose_headers.is_empty() && !is_any_name {
        put("expose", json!(expose_headers));
    }
    put("max_age", json!(format!("{}s", max_age.unwrap_or(5).min(86_400))));
    json!({ "cors": policy })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(text: &str, prefix: &str) -> String {
        let read: Redirect = serde_json::from_str(text).unwrap();
        let path = MatchPath::Prefix(prefix.to_owned());
        redirect(&read, &path, ("http", 8080)).unwrap()["to"].as_str().unwrap().to_owned()
    }

    #[test]
    fn redirects_change_what_they_name() {
        for (text, expected) in [
            ("{}", "http://{hostname}:8080{path}{query}"),
            (r#"{"scheme": "https"}"#, "https://{hostname}{path}{query}"),
            (r#"{"scheme": "https", "port": 8443}"#, "https://{hostname}:8443{path}{query}"),
            (r#"{"port": 80, "hostname": "example.org"}"#, "http://example.org{path}{query}"),
            (
                r#"{"path": {"type": "ReplaceFullPath", "replaceFullPath": "/a{b}"}}"#,
                "http://{hostname}:8080/a{{b}}{query}",
            ),
            (
                r#"{"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/x/"}}"#,
                "http://{hostname}:8080/x{rest}{query}",
            ),
            (
                r#"{"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}"#,
                "http://{hostname}:8080{rest}{query}",
            ),
        ] {
            assert_eq!(location(text, "/old"), expected, "{text}");
        }
    }

    #[test]
    fn a_share_is_a_percentage_or_a_fraction() {
        for (text, expected) in [
            ("{}", Some("100%")),
            (r#"{"percent": 42}"#, Some("42%")),
            (r#"{"percent": 0}"#, None),
            (r#"{"fraction": {"numerator": 1, "denominator": 2}}"#, Some("50%")),
            (r#"{"fraction": {"numerator": 1, "denominator": 800}}"#, Some("0.12%")),
            (r#"{"fraction": {"numerator": 1, "denominator": 1000000}}"#, Some("0.01%")),
            (r#"{"fraction": {"numerator": 0, "denominator": 9}}"#, None),
            (r#"{"fraction": {"numerator": 7}}"#, Some("7%")),
            (r#"{"fraction": {"numerator": 7, "denominator": 0}}"#, Some("100%")),
        ] {
            let share = mirrored_share(&serde_json::from_str(text).unwrap());
            assert_eq!(share.as_deref(), expected, "{text}");
        }
    }
}
