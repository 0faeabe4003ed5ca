//! Parts of a configuration in words, each with its values.

use crate::files::{Plan, Site, ending, join};
use crate::route::Mismatch;
use std::borrow::Cow;
use titan_config::{
    Balance, Cap, CertificatePart, Config, Endpoint, FileId, HashKey, Limits, ListenAddress,
    Listener, Protocol, Proxy, Route, RouteTimeouts, SendHost, StaticFiles, StickyCookie, Token,
    Upstream, UpstreamTls, ValueMatch,
};
use titan_http::{Method, RequestHead, Status, query};
use titan_io::tls::Identity;

/// Bytes as text.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A value set off from the words around it.
pub(super) fn code(value: &str) -> String {
    format!("`{value}`")
}

/// The number, and its reason phrase if it has one.
pub(super) fn status(status: Status) -> String {
    format!("{status} {}", status.reason()).trim_end().to_owned()
}

pub(super) fn listener(listener: &Listener, port: Option<u16>) -> String {
    let address = listener.address.to_string();
    let name = match listener.name == address {
        true => String::new(),
        false => format!("{}: ", listener.name),
    };
    let tls = if listener.tls.is_some() { ", TLS" } else { "" };
    let mark = if is_at(listener, port) { ", the port of the URL" } else { "" };
    format!("{name}{address}{tls}{mark}")
}

/// Whether a listener is at that port.
pub(super) fn is_at(listener: &Listener, port: Option<u16>) -> bool {
    let of_listener = match &listener.address {
        ListenAddress::Tcp(address) => Some(address.port()),
        ListenAddress::Any(port) => Some(*port),
        ListenAddress::Unix(_) => None,
    };
    port.is_some() && port == of_listener
}

/// The parts of a certificate that conditions know.
pub(super) const PARTS: [CertificatePart; 6] = [
    CertificatePart::Subject,
    CertificatePart::Dns,
    CertificatePart::Uri,
    CertificatePart::Email,
    CertificatePart::Ip,
    CertificatePart::Fingerprint,
];

/// The key of a condition on that part.
pub(super) fn part(part: CertificatePart) -> &'static str {
    match part {
        CertificatePart::Any => "certificate",
        CertificatePart::Subject => "subject",
        CertificatePart::Dns => "dns",
        CertificatePart::Uri => "uri",
        CertificatePart::Email => "email",
        CertificatePart::Ip => "ip",
        CertificatePart::Fingerprint => "fingerprint",
    }
}

/// Its name, what it takes, and where the file says so.
pub(super) fn route(route: &Route, config: &Config) -> String {
    let Route { name, hosts, path, methods, location, .. } = route;
    let methods = methods.iter().map(Method::as_str).collect::<Vec<_>>().join("|");
    let space = if methods.is_empty() { "" } else { " " };
    let hosts = hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join("|");
    let place = match location.file {
        FileId::MAIN => format!("line {}", location.line),
        _ => format!("{}:{}", config.file_names.of(*location), location.line),
    };
    format!("{name}, {place}: {methods}{space}{hosts}{path}")
}

/// Why `route` does not take the request.
pub(super) fn mismatch(
    route: &Route,
    mismatch: Mismatch<'_>,
    head: &RequestHead,
    identity: Option<&Identity>,
) -> String {
    match mismatch {
        Mismatch::Host => format!("its host is {}", any_of(&route.hosts)),
        Mismatch::Path => format!("its path is {}", code(&route.path.to_string())),
        Mismatch::Method => format!("its method is {}", any_of(&route.methods)),
        Mismatch::Header(name, _) => {
            let conditions = &route.headers;
            let asked = conditions.iter().find(|condition| condition.name.as_str() == name);
            let given = head.fields.named(name.as_bytes()).map(Cow::Borrowed);
            let asked = asked.map(|condition| &condition.value);
            condition(&format!("the header {name}"), asked, given)
        }
        Mismatch::Certificate(part, _) => {
            let asked = route.certificate.iter().find(|condition| condition.part == part);
            let given = identity.into_iter().flat_map(|identity| identity.values(part));
            let asked = asked.map(|condition| &condition.value);
            condition(part.words(), asked, given.map(|text| Cow::Borrowed(text.as_bytes())))
        }
        Mismatch::Query(name, _) => {
            let asked = route.query.iter().find(|condition| condition.name == name);
            let given = query::values(head.query(), name);
            let asked = asked.map(|condition| &condition.value);
            condition(&format!("the query parameter {name}"), asked, given)
        }
    }
}

fn any_of<T: ToString>(values: &[T]) -> String {
    let values: Vec<_> = values.iter().map(|value| code(&value.to_string())).collect();
    values.join(" or ")
}

fn condition<'v>(
    what: &str,
    asked: Option<&ValueMatch>,
    given: impl Iterator<Item = Cow<'v, [u8]>>,
) -> String {
    let given: Vec<_> = given.map(|value| code(&text(&value))).collect();
    let asked = asked.map_or(String::new(), |asked| format!("; {}", must(asked)));
    match given.is_empty() {
        true => format!("{what} is missing{asked}"),
        false => format!("{what} is {}{asked}", given.join(" and ")),
    }
}

fn must(asked: &ValueMatch) -> String {
    match asked {
        ValueMatch::Present => "it must be present".to_owned(),
        ValueMatch::Absent => "it must be absent".to_owned(),
        ValueMatch::Exact(value) => format!("it must be {}", code(value)),
        ValueMatch::Prefix(start) => format!("it must start with {}", code(start)),
        ValueMatch::Regex(pattern) => format!("it must match {}", code(pattern.as_str())),
    }
}

pub(super) fn host_sent(send: &SendHost, head: &RequestHead) -> String {
    match (send, head.authority()) {
        (SendHost::Preserve, Some(authority)) => text(authority),
        (SendHost::Preserve | SendHost::Endpoint, _) => "the host of the endpoint".to_owned(),
        (SendHost::Fixed(host), _) => host.as_str().to_owned(),
    }
}

pub(super) fn balance(balance: &Balance) -> String {
    match balance {
        Balance::RoundRobin => "round_robin".to_owned(),
        Balance::LeastRequests => "least_requests".to_owned(),
        Balance::P2cEwma => "p2c_ewma".to_owned(),
        Balance::Random => "random".to_owned(),
        Balance::ConsistentHash(key) => format!("consistent_hash of {}", hash_key(key)),
        Balance::StickyCookie(StickyCookie { name, .. }) => {
            format!("sticky_cookie {}", name.as_str())
        }
    }
}

fn hash_key(key: &HashKey) -> String {
    match key {
        HashKey::Header(name) => format!("the header {}", name.as_str()),
        HashKey::Cookie(name) => format!("the cookie {}", name.as_str()),
        HashKey::Query(name) => format!("the query parameter {name}"),
        HashKey::ClientAddress => "the client's address".to_owned(),
    }
}

/// How the endpoints of an upstream are spoken with, where that is not HTTP/1.1 as it is.
pub(super) fn spoken(upstream: &Upstream) -> String {
    let tls = match &upstream.tls {
        None => String::new(),
        Some(UpstreamTls { verify: false, .. }) => ", TLS without verification".to_owned(),
        Some(UpstreamTls { name: Some(name), .. }) => format!(", TLS with {}", name.as_str()),
        Some(_) => ", TLS".to_owned(),
    };
    let protocol = match (upstream.protocol, &upstream.tls) {
        (Protocol::H2, _) => ", HTTP/2",
        (Protocol::Auto, Some(_)) => ", HTTP/2 or HTTP/1.1",
        (Protocol::H1, _) | (Protocol::Auto, None) => "",
    };
    format!("{tls}{protocol}")
}

pub(super) fn endpoint(endpoint: &Endpoint) -> String {
    let Endpoint { address, weight, location: _ } = endpoint;
    match weight.get() {
        1 => address.to_string(),
        weight => format!("{address}, weight {weight}"),
    }
}

/// The timeouts and limits in force.
pub(super) fn terms(
    proxy: &Proxy,
    limits: &Limits,
    takes_tunnels: bool,
) -> [(&'static str, String); 4] {
    let RouteTimeouts { body, write, connect, response, response_body, tunnel } = &proxy.timeouts;
    let timeouts = format!(
        "connect {connect:?}, response {response:?}, response_body {response_body:?}, \
         body {body:?}, write {write:?}, tunnel {tunnel:?}"
    );
    let body = match proxy.body_limit {
        Cap::AtMost(most) => most.to_string(),
        Cap::Unlimited => "unlimited".to_owned(),
    };
    let Limits { head, target, fields, .. } = limits;
    let held = proxy.retry_body.map_or(String::new(), |most| format!(", retry_body {most}"));
    let limits = format!("body {body}, head {head}, target {target}, {fields} fields{held}");
    let upgrades: Vec<_> = proxy.upgrades.iter().map(Token::as_str).collect();
    let upgrades = match (upgrades.as_slice(), takes_tunnels) {
        ([], _) => "none".to_owned(),
        (_, true) => upgrades.join(", "),
        (_, false) => "none: the upstream uses only HTTP/2".to_owned(),
    };
    let retries = proxy.retries.to_string();
    [("timeouts", timeouts), ("limits", limits), ("retries", retries), ("upgrades", upgrades)]
}

/// Which files a request may get. What is on the disk is not known.
pub(super) fn files(files: &Site, plan: &Plan) -> Vec<(&'static str, String)> {
    let StaticFiles { root, index, precompressed, .. } = files.config();
    let Plan { name, is_directory } = plan;
    let shown = |name: &[u8]| root.join(text(name)).display().to_string();
    let described = |name: &[u8]| format!("{}, {}", shown(name), files.media_type(name));
    let mut lines = Vec::new();
    if *is_directory {
        let names = index.iter().map(|index| join(name, index.as_bytes()));
        lines.extend(names.map(|name| ("file", described(&name))));
        if index.is_empty() {
            lines.push(("file", "none: there is no index for directories".to_owned()));
        }
    } else {
        lines.push(("file", described(name)));
        lines.push(("", "or, if that is a directory, 301 to the path with a slash".to_owned()));
    }
    if let Some(fallback) = files.fallback(name) {
        let fallback = described(fallback.as_bytes());
        lines.push(("", format!("or, if it does not exist, {fallback}")));
    }
    if !precompressed.is_empty() {
        let endings: Vec<_> = precompressed.iter().map(|it| text(ending(*it))).collect();
        lines.push(("", format!("or a precompressed file next to it: {}", endings.join(", "))));
    }
    lines
}
