//! Syntax of other proxies' files, and its equivalent here. It would often be valid here but match nothing; so it is
//! an error, which says what to write.

use crate::host_name::parse_host_name;
use crate::problem::Problem;
use std::ops::Range;

/// A segment of a path as other proxies write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForeignSegment<'a> {
    /// `:id` (Express, Gin), `<id>` (Flask), `{id:[0-9]+}` (gorilla/mux): one segment.
    Param(&'a str),
    /// `*`, `**`, `*rest`, `{rest...}` (Go), `{rest+}` (AWS), `{**rest}` (ASP.NET), `{rest=**}` (gRPC transcoding): the rest.
    Rest(&'a str),
    /// `:id.json`: a parameter with something behind it.
    Part,
    /// A `*` among other characters: a pattern within a segment.
    Glob,
}

/// What has to stand behind a backslash to mean itself in the path of a route.
pub(crate) const ESCAPED: [char; 3] = ['*', ':', '<'];

/// Looks for what others mean by the path of a route.
pub(crate) fn check_path(text: &str) -> Result<(), Problem> {
    check_expression(text)?;
    let Some((at, part, foreign)) = first_foreign(text) else { return Ok(()) };
    let (reason, whole) = match foreign {
        ForeignSegment::Param(_) => ("write a parameter in braces", true),
        ForeignSegment::Rest(_) => {
            ("write the rest of a path as `{*rest}`", is_last(text, at, part))
        }
        ForeignSegment::Part => ("a parameter must be a whole segment", false),
        ForeignSegment::Glob => ("`*` is not a wildcard here", false),
    };
    let problem = Problem::new(reason).part(at..at + part.len());
    Err(match (whole.then(|| translated(text)).flatten(), foreign) {
        (Some(path), ForeignSegment::Rest("rest")) => {
            let prefix = text[..at - 1].to_owned();
            let prefix = if prefix.is_empty() { "/" } else { &prefix };
            problem.help(format!("did you mean `path: {path}`, or `prefix: {prefix}`?"))
        }
        (Some(path), _) => problem.help(format!("did you mean `{path}`?")),
        (None, _) => problem.help(LITERAL),
    })
}

/// Looks for what others mean by a prefix.
pub(crate) fn check_prefix(text: &str) -> Result<(), Problem> {
    check_expression(text)?;
    let Some((at, part, foreign)) = first_foreign(text) else { return Ok(()) };
    let place = at..at + part.len();
    if !matches!(foreign, ForeignSegment::Rest(_)) || !is_last(text, at, part) {
        let problem = match foreign {
            ForeignSegment::Glob => Problem::new("`*` is not a wildcard here").help(LITERAL),
            _ => Problem::new("a prefix cannot have parameters")
                .help("use `path`: `path: /users/{id}/{*rest}`"),
        };
        return Err(problem.part(place));
    }
    let shorter = if at == 1 { "/" } else { &text[..at - 1] };
    let problem = Problem::new("a prefix already matches everything below it").part(place);
    Err(problem.help(format!("did you mean `{shorter}`?")))
}

const LITERAL: &str = "`{name}` matches a whole segment, `prefix` matches whole segments; for a literal `*` or `:` \
        write `\\*` or `\\:`";

/// The first segment that means something elsewhere, with where it starts.
fn first_foreign(text: &str) -> Option<(usize, &str, ForeignSegment<'_>)> {
    let mut start = 1;
    text.strip_prefix('/')?.split('/').find_map(|part| {
        let at = start;
        start += part.len() + 1;
        foreign(part).map(|foreign| (at, part, foreign))
    })
}

fn is_last(text: &str, at: usize, part: &str) -> bool {
    at + part.len() == text.len()
}

fn foreign(part: &str) -> Option<ForeignSegment<'_>> {
    if let Some(name) = part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        return in_braces(name);
    }
    if let Some(name) = part.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
        let name = name.rsplit(':').next().unwrap_or(name);
        return is_name(name).then_some(ForeignSegment::Param(name));
    }
    // `:8080` is not a parameter.
    let named = part.strip_prefix(':').filter(|it| it.starts_with(|c: char| is_letter(c)));
    if let Some(name) = named {
        return Some(if is_name(name) {
            ForeignSegment::Param(name)
        } else {
            ForeignSegment::Part
        });
    }
    match part.strip_prefix('*') {
        Some("" | "*") => Some(ForeignSegment::Rest("rest")),
        Some(name) if is_name(name) => Some(ForeignSegment::Rest(name)),
        _ => has_star(part).then_some(ForeignSegment::Glob),
    }
}

/// What stands between braces elsewhere, and could not here.
fn in_braces(text: &str) -> Option<ForeignSegment<'_>> {
    let behind = ["...", "+", "*"].into_iter().find_map(|rest| text.strip_suffix(rest));
    let name = behind.or_else(|| text.strip_prefix("**")).filter(|name| is_name(name));
    if let Some(name) = name {
        return Some(ForeignSegment::Rest(name));
    }
    let (name, rule) = text.split_once([':', '=']).filter(|(name, _)| is_name(name))?;
    match rule {
        "**" | ".*" | ".+" => Some(ForeignSegment::Rest(name)),
        _ => Some(ForeignSegment::Param(name)),
    }
}

fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether some `*` has no backslash before it.
fn has_star(part: &str) -> bool {
    part.char_indices().any(|(at, c)| c == '*' && !part[..at].ends_with('\\'))
}

/// The path as it is written here, where that can be told.
fn translated(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.strip_prefix('/')?.split('/').collect();
    let last = parts.len() - 1;
    let segment = |(index, part): (usize, &&str)| match foreign(part) {
        None => Some((*part).to_owned()),
        Some(ForeignSegment::Param(name)) => Some(format!("{{{name}}}")),
        Some(ForeignSegment::Rest(name)) if index == last => Some(format!("{{*{name}}}")),
        Some(ForeignSegment::Rest(_) | ForeignSegment::Part | ForeignSegment::Glob) => None,
    };
    let segments: Option<Vec<_>> = parts.iter().enumerate().map(segment).collect();
    Some(format!("/{}", segments?.join("/")))
}

/// Looks for Traefik's rules.
fn check_rule(text: &str) -> Result<(), Problem> {
    let rule =
        [("PathPrefix(", "prefix"), ("Path(", "path")].into_iter().find_map(|(begin, key)| {
            let path = text.strip_prefix(begin)?.strip_suffix(')')?;
            Some((path.trim_matches(['`', '"', '\'']), key))
        });
    match rule {
        Some((path, key)) => {
            let problem = Problem::new("a path needs no modifier");
            Err(problem.help(format!("did you mean `{key}: {path}`?")))
        }
        None => Ok(()),
    }
}

/// Looks for a regular expression, and for what nginx writes before one: `~`, `~*`, `^~` and `=`.
fn check_expression(text: &str) -> Result<(), Problem> {
    check_rule(text)?;
    let path = text.trim_start_matches(['~', '^', '=', '*', ' ']);
    if path.len() == text.len() && !ENDS.iter().any(|end| text.ends_with(end)) {
        return Ok(());
    }
    let literal = path.find(METACHARACTERS).map_or(path, |at| &path[..at]);
    let literal = literal.trim_end_matches('/');
    let literal = if literal.is_empty() && path.starts_with('/') { "/" } else { literal };
    let problem = Problem::new("paths are not regular expressions and have no modifiers");
    Err(match (literal.starts_with('/'), literal == path && text.starts_with('=')) {
        (true, true) => problem.help(format!("did you mean `path: {literal}`?")),
        (true, false) => problem.help(format!("did you mean `prefix: {literal}`?")),
        (false, _) => {
            problem.help("use `prefix: /api` or `path: /users/{id}`, which match whole segments")
        }
    })
}

/// How regular expressions for paths end.
const ENDS: [&str; 5] = ["/.*", "(.*)", "/.+", "(.*)$", ".*$"];
const METACHARACTERS: [char; 9] = ['(', '[', '.', '*', '+', '?', '$', '\\', '|'];

/// Looks for what others mean by the host of a route.
pub(crate) fn check_host(text: &str) -> Result<(), Problem> {
    if text == "_" {
        let problem = Problem::new("a route without `host` serves every host");
        return Err(problem.help("remove `host`"));
    }
    if let Some(rest) = text.strip_prefix('.').filter(|rest| parse_host_name(rest).is_ok()) {
        let problem = Problem::new("a wildcard host begins with `*.`");
        return Err(
            problem.help(format!("did you mean `\"*.{rest}\"`? It does not match `{rest}` itself"))
        );
    }
    if text.starts_with(['~', '^']) {
        let problem = Problem::new("a host is not a regular expression");
        return Err(problem.help("`\"*.example.com\"` matches every subdomain"));
    }
    if let Some(hosts) = text.strip_prefix("Host(").and_then(|rest| rest.strip_suffix(')')) {
        let hosts = hosts.replace(['`', '"', '\''], "");
        let problem = Problem::new("a host needs no modifier");
        return Err(match hosts.contains(',') {
            true => problem.help(format!("did you mean `[{hosts}]`?")),
            false => problem.help(format!("did you mean `{hosts}`?")),
        });
    }
    several(text, &[',', ' '], "write several hosts as a list")
}

/// Looks for what others mean by any method, or by several.
pub(crate) fn check_method(text: &str) -> Result<(), Problem> {
    if matches!(text, "*" | "ANY" | "ALL" | "any" | "all") {
        let problem = Problem::new("a route without `methods` serves every method");
        return Err(problem.help("remove `methods`"));
    }
    several(text, &['|', ',', ' '], "write several methods as a list")
}

/// Looks for several things in one text, where a list is meant.
pub(crate) fn several(text: &str, between: &[char], reason: &'static str) -> Result<(), Problem> {
    let parts: Vec<_> = text.split(between).filter(|part| !part.is_empty()).collect();
    if parts.len() < 2 {
        return Ok(());
    }
    // In brackets a `*` at the start and a `:` before a number need quotes.
    let is_plain = |part: &&str| !part.contains(['*', ':', '[', '{']);
    let quoted =
        |part: &&str| if is_plain(part) { (*part).to_owned() } else { format!("\"{part}\"") };
    let list = parts.iter().map(quoted).collect::<Vec<_>>().join(", ");
    Err(Problem::new(reason).help(format!("did you mean `[{list}]`?")))
}

/// nginx's variables of a request, longer ones first, and what they are in a template.
const VARIABLES: [(&str, &str); 13] = [
    ("?$query_string", "{query}"),
    ("?$args", "{query}"),
    ("$is_args$args", "{query}"),
    ("$request_uri", "{path}{query}"),
    ("$document_uri", "{path}"),
    ("$query_string", "{query}"),
    ("$server_name", "{host}"),
    ("$http_host", "{host}"),
    ("$is_args", ""),
    ("$scheme", "https"),
    ("$host", "{host}"),
    ("$args", "{query}"),
    ("$uri", "{path}"),
];

/// Looks for nginx's variables in the template of a path or of a redirect target.
pub(crate) fn check_variables(text: &str) -> Result<(), Problem> {
    let captured = text.match_indices('$').find(|(at, _)| {
        let after = &text[at + 1..];
        let after = after.strip_prefix('{').unwrap_or(after);
        after.starts_with(|c: char| c.is_ascii_digit())
    });
    if let Some((at, _)) = captured {
        let problem = Problem::new("`$` does not start a variable").part(at..at + 2);
        return Err(problem.help(
            "`{name}` is what the route's `path` captured under that name; write a literal `$` as `%24`",
        ));
    }
    let is_there = |(name, _): &&(&str, &str)| text.contains(*name);
    let Some((first, _)) = VARIABLES.iter().find(is_there) else { return Ok(()) };
    let at = text.find(first).unwrap_or(0);
    let meant =
        VARIABLES.iter().fold(text.to_owned(), |text, (name, ours)| text.replace(name, ours));
    let problem = Problem::new("`$` does not start a variable").part(at..at + first.len());
    Err(problem.help(format!("did you mean `{meant}`? Write a literal `$` as `%24`")))
}

/// A variable of nginx in the value of a field or a parameter, where it is sent as it stands; with what it is here.
pub(crate) fn variable_in_value(text: &str) -> Option<(&'static str, &'static str)> {
    let known = VARIABLES_OF_VALUES.iter().chain(&VARIABLES);
    known.copied().find(|(name, _)| name.starts_with('$') && text.contains(name))
}

const VARIABLES_OF_VALUES: [(&str, &str); 6] = [
    ("$proxy_add_x_forwarded_for", "{client}"),
    ("$remote_addr", "{client}"),
    ("$request_id", "{request_id}"),
    ("$request_method", "{method}"),
    ("$scheme", "{scheme}"),
    ("$http_", "{header:NAME}"),
];

/// Looks for parameters of others in a path that is made.
pub(crate) fn check_made_path(text: &str) -> Result<(), Problem> {
    check_variables(text)?;
    let Some((at, part, foreign)) = first_foreign(text) else { return Ok(()) };
    let place: Range<usize> = at..at + part.len();
    match foreign {
        ForeignSegment::Param(name) if part.starts_with([':', '<']) => {
            let problem = Problem::new("write a parameter in braces").part(place);
            Err(problem.help(format!("did you mean `{{{name}}}`? Write a literal `:` as `%3A`")))
        }
        ForeignSegment::Rest(_) if part.starts_with('*') => {
            let problem = Problem::new("write the rest of the path as `{rest}`").part(place);
            Err(problem.help("the route's `path` must capture it: `/api/{*rest}`"))
        }
        _ => Ok(()),
    }
}

/// What nginx writes behind an address, and Go's and HAProxy's names for one.
pub(crate) fn after_port(port: &str) -> Option<(&str, &'static str)> {
    let (digits, rest) = port.split_at(port.find(|c: char| !c.is_ascii_digit())?);
    let help = match rest.trim_start() {
        rest if rest.starts_with('/') => {
            "an address has no path: to change paths, use `rewrite` in a route"
        }
        rest if rest.starts_with("weight") => "write `weight` as a key next to `address`",
        _ => "options are separate keys here, such as `tls`",
    };
    (!digits.is_empty()).then_some((digits, help))
}

/// The explanation of a key that the section does not have and that stands for several elsewhere, or for a place.
pub(crate) fn explain_key(section: &str, key: &str) -> Option<&'static str> {
    let own = KEYS_OF.iter().find(|(of, names, _)| *of == section && names.contains(&key));
    let known = || KEYS.iter().find(|(name, _)| *name == key).map(|(_, help)| *help);
    own.map(|(_, _, help)| *help).or_else(known)
}

/// What others have in place of one section.
const KEYS_OF: &[(&str, &[&str], &str)] = &[
    (
        "rewrite",
        &["strip_prefix", "stripPrefix", "strip", "regex", "replacement"],
        "`rewrite: { prefix: / }` strips the route's `prefix`; for regular expressions, use a \
            `transform` policy",
    ),
    (
        "route",
        &["strip_prefix", "strip_path", "stripPrefix"],
        "`rewrite: { prefix: / }` strips the route's `prefix`",
    ),
    (
        "upstream",
        &["sticky", "sticky_session"],
        "`balance: { sticky_cookie: {} }` keeps a client on the same endpoint",
    ),
    (
        "health",
        &["http", "grpc", "tcp", "tls", "type", "protocol", "path", "uri", "url", "endpoint"],
        "`probe` says what is asked: `probe: { http: /healthz }`, `probe: { grpc: {} }`, `probe: tcp` or `probe: tls`",
    ),
    (
        "cache_rule",
        &["match", "path", "pattern", "glob", "extension", "extensions"],
        "`name: '\\.js$'` matches names by regular expression; `types: text/css` matches the media type",
    ),
    (
        "log",
        &["file", "filePath", "path", "output", "outputs", "access", "requests"],
        "events go to standard error, and the service manager, or whatever starts the gateway, keeps them; requests are not \
            among them",
    ),
    (
        "rate",
        &["requests", "per", "limit", "window", "period", "unit", "average", "count"],
        "write a rate as `rates: 5/s` or `rates: { rate: 5/s, burst: 10 }`",
    ),
];

const ACCESS_LOG: &str = "write `access_log` at the top level of the file: `access_log: stdout`, or `access_log: { file: PATH }`";
const CHECKS: &str = "`health` probes endpoints: `health: { probe: { http: /up } }`";
const HTTP3: &str =
    "HTTP/3 is one of the `protocols` of a listener with TLS: `protocols: [h3, h2, h1]`";

const KEYS: &[(&str, &str)] = &[
    (
        "rule",
        "Host(`a.example`) is `host: a.example`, PathPrefix(`/api`) is `prefix: /api`, \
            Path(`/x`) is `path: /x`; all conditions of a route must match",
    ),
    (
        "match",
        "put conditions directly into the route: `host`, `path` or `prefix`, `methods`, `headers`, `query`",
    ),
    (
        "matches",
        "put conditions directly into the route: `host`, `path` or `prefix`, `methods`, `headers`, `query`",
    ),
    ("route", "put the upstream's name directly into the route: `upstream: api`"),
    (
        "handle",
        "put the action directly into the route: `upstream`, `redirect`, `respond` or `files`",
    ),
    (
        "reverse_proxy",
        "define the upstream under a name in `upstreams`, and name it in the route: `upstream: api`",
    ),
    ("entryPoints", "every listener serves every route"),
    ("virtual_hosts", "put hosts into the routes: `routes: [{ host: a.example, upstream: api }]`"),
    ("http", "put `listeners`, `routes` and `upstreams` at the top level of the file"),
    (
        "server",
        "put `listeners` and `routes` at the top level of the file; each route has its own `host`",
    ),
    ("static_resources", "put `listeners`, `routes` and `upstreams` at the top level of the file"),
    ("load_assignment", "`endpoints` is a list of addresses: `endpoints: [\"10.0.0.1:8080\"]`"),
    ("access_log", ACCESS_LOG),
    ("accessLog", ACCESS_LOG),
    ("access_logs", ACCESS_LOG),
    ("accesslog", ACCESS_LOG),
    ("health_check", CHECKS),
    ("health_checks", CHECKS),
    ("healthCheck", CHECKS),
    ("circuitBreaker", "did you mean `circuit_breaker`?"),
    ("circuit_breakers", "did you mean `circuit_breaker`?"),
    ("outlier_detection", "`ejection` takes endpoints out whose requests fare badly"),
    ("http3", HTTP3),
    ("quic", HTTP3),
    ("middlewares", "to apply policies to a route, list their names in `apply`"),
    ("plugins", "define policies in `policies`, and list their names in `apply` of the route"),
];
