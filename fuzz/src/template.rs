//! Templates: text of a file, filled in with parts of a request. What fills them in needs no I/O and is compiled in here.

#[expect(dead_code, reason = "nothing is matched here")]
#[path = "../../crates/titan-policies/src/matched.rs"]
mod route;
#[expect(dead_code, reason = "it is filled in without a match")]
#[expect(clippy::module_inception, reason = "it is the file's own name")]
#[path = "../../crates/titan-proxy/src/template.rs"]
mod template;

use route::{MAX_PARAMS, Params};
use serde_json::json;
use template::{Parts, PathRewrite, write_location};
use titan_config::{Action, Config, Rewrite, Template};
use titan_http::path::{Normal, normalise, settle};

/// What stands between the template, the path, the query and the host.
pub const NEXT_PART: u8 = b'\n';

/// What a request brings stays what it is: bytes of a URI, in the place that the file has given it, and bounded. The host
/// stays the one that the file or the request names.
pub fn template(data: &[u8]) {
    let mut parts = data.splitn(4, |byte| *byte == NEXT_PART);
    let mut next = || parts.next().unwrap_or_default();
    let (text, path, query, host) = (next(), next(), next(), next());
    let Ok(text) = std::str::from_utf8(text) else { return };
    let mut path = path.to_vec();
    if settle(&mut path).is_err() {
        return;
    }
    let params = captured(&path);
    let parts = Parts {
        authority: (!host.is_empty()).then_some(host),
        path: &path,
        matched: &path,
        query: (!query.is_empty()).then_some(query),
        params: &params,
    };
    // Each piece brings no more than the longest part, escaped.
    let longest =
        [text.len(), path.len(), query.len() + 1, host.len()].into_iter().max().unwrap_or(0);
    let most = |template: &Template| (template.pieces.len() + 1) * 3 * longest;
    if let Some(template) = redirect(text) {
        let mut out = b"stale".to_vec();
        if write_location(&template, &parts, &mut out).is_ok() {
            assert!(out.len() <= most(&template));
            is_location(text, host, &out);
        }
    }
    if let Some(template) = rewrite(text) {
        let (mut out, most) = (b"stale".to_vec(), most(&template));
        if PathRewrite::Path(template).apply(&parts, &mut out).is_ok() {
            assert!(out.len() <= most);
            assert_eq!(normalise(&out, &mut Vec::new()), Ok(Normal::Same));
        }
    }
}

fn is_location(text: &str, host: &[u8], out: &[u8]) {
    assert!(out.iter().all(u8::is_ascii_graphic), "{text}");
    assert!(text.starts_with("//") || !out.starts_with(b"//"), "{text}");
    let Some((scheme, rest)) =
        text.split_once("://").filter(|(scheme, _)| !scheme.contains(['/', '{']))
    else {
        return;
    };
    let authority = &out[scheme.len() + "://".len()..];
    let authority = authority.split(|byte| b"/?#".contains(byte)).next().unwrap_or_default();
    assert!(!authority.contains(&b'@') && !authority.contains(&b'\\'), "{text}");
    let end = rest.find(['/', '?', '#', '{']).unwrap_or(rest.len());
    match rest[end..].chars().next() {
        Some('{') if rest.starts_with("{host}") => assert!(authority.starts_with(host), "{text}"),
        // Labels that were captured may stand within it.
        Some('{') => {}
        _ => assert_eq!(authority, &rest.as_bytes()[..end], "{text}"),
    }
}

/// What `/{a}/{*rest}` captures.
fn captured(path: &[u8]) -> Params {
    const { assert!(MAX_PARAMS >= 2) };
    let end = path[1..].iter().position(|byte| *byte == b'/').map_or(path.len(), |at| at + 1);
    Params::of_spans(&[(1, end), ((end + 1).min(path.len()), path.len())])
}

fn redirect(text: &str) -> Option<Template> {
    match action(&json!({ "path": "/{a}/{*rest}", "redirect": text }))? {
        Action::Redirect(redirect) => Some(redirect.to),
        _ => None,
    }
}

fn rewrite(text: &str) -> Option<Template> {
    let route = json!({ "path": "/{a}/{*rest}", "upstream": "u", "rewrite": { "path": text } });
    match action(&route)? {
        Action::Proxy(proxy) => match &proxy.rewrite {
            Some(Rewrite::Path(template)) => Some(template.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// What a route of a file does.
fn action(route: &serde_json::Value) -> Option<Action> {
    let file =
        json!({ "listeners": [":1"], "routes": [route], "upstreams": { "u": "127.0.0.1:1" } });
    let config = Config::parse("titan.yaml", &file.to_string()).ok()?;
    config.routes.first().map(|route| route.action.clone())
}
