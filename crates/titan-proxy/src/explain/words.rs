//! Parts of a configuration in words, each with its values.

use crate::files::{Plan, Site, ending, join};
use crate::route::Mismatch;
use std::borrow::Cow;
use titan_config::{
    Action, Backoff, Balance, BreakerScope, Cap, CertificatePart, CircuitBreaker, Comparison,
    Concurrency, Config, Endpoint, Fallback, FileId, HashKey, Hedge, HedgeDelay, Importance,
    Limits, ListenAddress, Listener, MemberPattern, Mirror, Proxy, Retries, RetryBudget, Route,
    RouteTimeouts, SendHost, StaticFiles, StickyCookie, Token, Upstream, UpstreamId, UpstreamTls,
    ValueMatch,
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
    format!("{name}{address}{tls}{}{mark}", listener.over_udp())
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
    (route, config): (&Route, &Config),
    mismatch: Mismatch<'_>,
    head: &RequestHead,
    identity: Option<&Identity>,
) -> String {
    match mismatch {
        Mismatch::Host => format!("its host is {}", any_of(&route.hosts)),
        Mismatch::Path => format!("its path is {}", code(&route.path.to_string())),
        Mismatch::Listener => {
            let names = route.listeners.indices().filter_map(|index| config.listeners.get(index));
            let names: Vec<_> = names.map(|listener| &listener.name).collect();
            format!("its listener is {}", any_of(&names))
        }
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
        Some(UpstreamTls { name, alt_names, .. }) => {
            let name = name.as_ref().map(|name| format!(" with {}", name.as_str()));
            // The certificate is for these then, whatever name was asked for.
            let names: Vec<_> = alt_names.iter().map(ToString::to_string).collect();
            let verified = match names.as_slice() {
                [] => String::new(),
                [only] => format!(", verified as {only}"),
                names => format!(", verified as one of {}", names.join(", ")),
            };
            format!(", TLS{}{verified}", name.unwrap_or_default())
        }
    };
    let protocol = upstream.protocol.in_words(upstream.tls.is_some());
    format!("{tls}{protocol}")
}

pub(super) fn endpoint(endpoint: &Endpoint) -> String {
    let Endpoint { address, weight, priority, is_remote, is_draining, location: _ } = endpoint;
    let weight = Some(weight.get()).filter(|weight| *weight != 1);
    let priority = Some(priority).filter(|priority| **priority != 0);
    let facts = [
        weight.map(|weight| format!("weight {weight}")),
        priority.map(|priority| format!("priority {priority}")),
        is_remote.then(|| "in another zone".to_owned()),
        is_draining.then(|| "draining".to_owned()),
    ];
    facts.into_iter().flatten().fold(address.to_string(), |text, fact| format!("{text}, {fact}"))
}

/// What is retried, and how.
fn retries(retries: &Retries) -> String {
    let Retries {
        attempts,
        on,
        statuses,
        grpc,
        header,
        methods,
        idempotency_key,
        per_try_timeout,
        backoff: Backoff { base, max },
        max_retry_after,
    } = retries;
    if *attempts == 0 {
        return "none".to_owned();
    }
    let grpc: Vec<_> = grpc.iter().map(|status| status.name()).collect();
    let methods = methods.as_ref().map(|methods| {
        let names: Vec<_> = methods.iter().map(Method::as_str).collect();
        format!("whatever was sent: {}", names.join("|"))
    });
    let responds = retries.look_at_responses();
    let facts = [
        Some(on.names().collect::<Vec<_>>().join(", ")).filter(|names| !names.is_empty()),
        (!statuses.is_empty()).then(|| format!("statuses {statuses}")),
        (!grpc.is_empty()).then(|| format!("gRPC statuses {}", grpc.join(", "))),
        header.as_ref().map(|name| format!("responses with {}", name.as_str())),
        methods,
        idempotency_key.as_ref().map(|name| format!("whatever was sent with {}", name.as_str())),
        per_try_timeout.map(|timeout| format!("each within {timeout:?}")),
        Some(format!("pauses from {base:?} to {max:?}")),
        responds.then(|| format!("Retry-After up to {max_retry_after:?}")),
    ];
    let facts: Vec<_> = facts.into_iter().flatten().collect();
    format!("{attempts}: {}", facts.join("; "))
}

/// How many retries an upstream may get.
pub(super) fn retry_budget(budget: &RetryBudget) -> String {
    let RetryBudget { share, floor } = budget;
    format!("retries for {share} of its requests, and {floor} a second")
}

/// When a request is sent to a second endpoint as well.
pub(super) fn hedge(hedge: &Hedge) -> String {
    let Hedge { after, min_delay, methods } = hedge;
    let after = match after {
        HedgeDelay::Percentile(_) => format!("{after} of its latency, at least {min_delay:?}"),
        HedgeDelay::Fixed(_) => after.to_string(),
    };
    let methods: Vec<_> = methods.iter().map(Method::as_str).collect();
    format!("{} also go to a second endpoint after {after}", methods.join("|"))
}

/// How many requests may run at an upstream.
pub(super) fn concurrency(concurrency: &Concurrency) -> String {
    let Concurrency { min, max, initial: _, queue, delay_target } = concurrency;
    let waits = match queue {
        0 => "none waits".to_owned(),
        _ => format!("{queue} wait, for {delay_target:?} while more come than are served"),
    };
    format!("{min} to {max} at once, by latency; {waits}")
}

/// How much the requests of a route matter, and what that does to them; nothing where they matter as most do.
pub(super) fn importance(route: &Route, config: &Config) -> Option<String> {
    let is_limited = |proxy: &Proxy| {
        proxy.shares.iter().any(|share| config.upstream(share.upstream).concurrency.is_some())
    };
    let waits = matches!(&route.action, Action::Proxy(proxy) if is_limited(proxy));
    let (name, turn) = match route.importance {
        Importance::Critical => ("critical", "served before others that wait"),
        Importance::Default => return None,
        Importance::Sheddable => ("sheddable", "served after others that wait"),
    };
    let pressure = config.pressure.as_ref().filter(|_| route.importance == Importance::Sheddable);
    let shed =
        pressure.map(|it| format!("refused while the gateway is at {} of its limits", it.shed));
    let turn = waits.then(|| turn.to_owned());
    let effects: Vec<_> = [shed, turn].into_iter().flatten().collect();
    Some(match effects.is_empty() {
        true => format!("{name}, which changes nothing here"),
        false => format!("{name}: {}", effects.join("; ")),
    })
}

/// When the circuit breaker of an upstream opens.
pub(super) fn circuit_breaker(breaker: &CircuitBreaker) -> String {
    let CircuitBreaker { window, min_requests, slow_after, .. } = breaker;
    let of = format!("of at least {min_requests} requests in {window:?}");
    let causes = [
        breaker.failure_share.map(|share| format!("{share} {of} fail")),
        breaker.slow_share.map(|share| format!("{share} {of} take longer than {slow_after:?}")),
        breaker.consecutive_failures.map(|count| format!("{count} in a row fail")),
    ];
    let causes: Vec<_> = causes.into_iter().flatten().collect();
    let whose = match breaker.per {
        BreakerScope::Upstream => "opens",
        BreakerScope::Endpoint => "opens for an endpoint",
    };
    format!("{whose} if {}", causes.join(", or "))
}

/// What happens while it is open.
pub(super) fn open_breaker<'n>(
    breaker: &CircuitBreaker,
    name: impl Fn(UpstreamId) -> &'n str,
) -> String {
    let CircuitBreaker { open_time, max_open_time, half_open_requests, close_after, .. } = breaker;
    let instead = match &breaker.fallback {
        None => "clients get 503".to_owned(),
        Some(Fallback::Respond(respond)) => format!("clients get {}", status(respond.status)),
        Some(Fallback::Upstream(id)) => format!("requests go to {}", name(*id)),
        Some(Fallback::File(file)) => format!("clients get {}", file.path.display()),
    };
    format!(
        "then {instead}, for {open_time:?} to {max_open_time:?}; {half_open_requests} requests at a time try it, {close_after} close it"
    )
}

/// How long a request may take in all; `None` if that is not limited.
pub(super) fn deadline(timeouts: &RouteTimeouts, is_call: bool) -> Option<String> {
    let RouteTimeouts { total, deadline_header, .. } = timeouts;
    let facts = [
        total.at_most().map(|total| format!("{total:?}")),
        is_call.then(|| "grpc-timeout".to_owned()),
        deadline_header.as_ref().map(|name| format!("{} in milliseconds", name.as_str())),
    ];
    let facts: Vec<_> = facts.into_iter().flatten().collect();
    let which = if facts.len() > 1 { "the first of " } else { "" };
    (!facts.is_empty()).then(|| format!("{which}{}, over all attempts", facts.join(", ")))
}

/// Which requests are copied, and to where.
pub(super) fn mirror(mirror: &Mirror, upstream: &str) -> String {
    let Mirror { upstream: _, share, body, concurrent, timeout, compare: _ } = mirror;
    format!(
        "{share} of the requests are copied to {upstream}, with bodies of up to {body}, at most {concurrent} at once, each for \
         {timeout:?}"
    )
}

/// What of the responses to copies is compared.
pub(super) fn comparison(comparison: &Comparison) -> String {
    let Comparison { headers, body, ignore, show, samples } = comparison;
    let mut parts = vec!["the status".to_owned()];
    parts.extend(headers.iter().map(|name| name.as_str().to_owned()));
    parts.extend(body.map(|most| format!("bodies of up to {most}")));
    let ignored: Vec<_> = ignore.iter().map(MemberPattern::to_string).collect();
    let ignored = match ignored.is_empty() {
        true => String::new(),
        false => format!(" without {}", ignored.join(", ")),
    };
    let shown: Vec<_> = show.iter().map(MemberPattern::to_string).collect();
    let shown = match shown.is_empty() {
        true => "without values of members".to_owned(),
        false => format!("with values of {}", shown.join(", ")),
    };
    let parts = parts.join(", ");
    format!(
        "its responses are compared: {parts}{ignored}; {samples} that differ are shown, {shown}"
    )
}

/// The timeouts and limits in force.
pub(super) fn terms(
    proxy: &Proxy,
    limits: &Limits,
    takes_tunnels: bool,
) -> [(&'static str, String); 4] {
    let RouteTimeouts { body, write, connect, response, response_body, tunnel, .. } =
        &*proxy.timeouts;
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
        (_, false) => "none: the upstream uses no HTTP/1.1".to_owned(),
    };
    let retries = retries(&proxy.retries);
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
