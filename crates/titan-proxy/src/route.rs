//! Which route takes a request: a hash of hosts, then a trie of path segments. Pure; allocates nothing.
//!
//! Routes are tried in the order of how closely they describe the request, never in file order, and
//! the first one that takes it wins. That order, most significant first:
//!
//! 1. host: exact, then the longest wildcard, then any. `*.a.example` stands for one or more labels;
//!    case, port and a final dot do not count.
//! 2. path, segment by segment from the left: literal, `{param}` (never empty), then the end of the
//!    pattern: exact, `{*rest}` (after a slash, perhaps empty), prefix. So a longer prefix comes before
//!    a shorter one. A slash at the end of an exact path counts.
//! 3. the higher priority,
//! 4. the greater number of header, query, certificate and listener conditions,
//! 5. a list of methods before none. GET in a list takes HEAD too, after a route that lists HEAD, unless `head` is `false`.
//!
//! A route that does not match the request leaves it to the next one, over all hosts: a route for any host is the
//! fallback of those for one.

mod condition;
mod layout;
mod look_alikes;
#[cfg(test)]
mod tests;

pub(crate) use condition::Mismatch;
pub(crate) use titan_policies::matched::{Match, Params};

pub(crate) use look_alikes::{Folded, LookAlikes, plain_reading};

use crate::origin::Origin;
use condition::Conditions;
use layout::Spec;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::slice;
use titan_config::{HostPattern, ListenerSet, Route, Share};
use titan_http::{Fields, Method, RequestHead, Span, host_of};
use titan_io::tls::Identity;
use titan_upstream::balance::Rotation;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Every route, laid out for the search.
pub(crate) struct Routes {
    /// In order of precedence.
    hosts: Vec<Host>,
    /// Where in `hosts` an exact host stands.
    exact: HostIndex,
    /// Where in `hosts` a wildcard stands, by what follows its star.
    under: HostIndex,
    /// Where in `hosts` the routes for any host stand.
    any: Option<usize>,
    nodes: Vec<Node>,
    /// By the index of the route; none of most.
    conditions: Vec<Option<Box<Conditions>>>,
}

/// What decides between routes.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    /// What is to be done.
    pub(crate) method: Method,
    /// The host without its port, in any case.
    pub(crate) host: Option<&'a [u8]>,
    /// The path in its normal form, or `*`.
    pub(crate) path: &'a [u8],
    /// What follows the `?`.
    pub(crate) query: Option<&'a [u8]>,
    /// The header fields.
    pub(crate) fields: &'a Fields,
    /// Who the client is, where it has shown that.
    pub(crate) identity: Option<&'a Identity>,
    /// Which listener it came in at.
    pub(crate) listener: ListenerSet,
}

/// Why no route takes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoMatch {
    /// No route is for this host, path, header and query.
    NotFound,
    /// Those that are want another method.
    MethodNotAllowed(Allow),
}

/// The methods that a route would have taken. Displayed as the value of an `Allow` field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allow(Vec<Method>);

/// Divides the requests of a route between upstreams by weight.
pub(crate) enum Split {
    /// There is one.
    One(usize),
    /// There are several.
    Several(Box<Shares>),
}

/// Upstreams, and whose turn it is.
pub(crate) struct Shares {
    upstreams: Box<[usize]>,
    rotation: Rotation,
}

type HostIndex = HashMap<Box<[u8]>, usize, BuildHasherDefault<HostHasher>>;

/// The routes of one host pattern.
struct Host {
    pattern: Option<HostPattern>,
    /// The node of the path before its first segment.
    root: usize,
}

/// A place in a path pattern: what may come next, and the routes that may end here. There may be a node for each of a hundred
/// thousand routes: it is small.
#[derive(Default)]
struct Node {
    /// Sorted by text.
    literals: Box<[(Box<[u8]>, u32)]>,
    param: Option<NonZeroU32>,
    ends: Ends,
}

/// Routes, by precedence: those that end with their pattern, those with a rest, and prefixes.
#[derive(Default)]
struct Ends {
    routes: Box<[u32]>,
    /// Where those with a rest begin.
    rest: u32,
    /// Where prefixes begin.
    prefix: u32,
}

impl Routes {
    /// Lays out the routes of a configuration.
    pub(crate) fn new(routes: &[Route]) -> Routes {
        Routes::of(routes.iter().map(|route| Spec {
            hosts: &route.hosts,
            path: &route.path,
            priority: route.priority,
            conditions: Conditions::new(
                (&route.methods, route.head),
                &route.headers,
                &route.query,
                &route.certificate,
                route.listeners,
            ),
        }))
    }

    /// The route that takes `request`.
    pub(crate) fn find(&self, request: &Request<'_>) -> Result<Match, NoMatch> {
        let mut found = None;
        let mut is_method_refused = false;
        self.walk(request, &mut |route, params| match self.mismatch(route, request) {
            None => {
                found = Some(Match { route, params: *params, path: Span::default() });
                ControlFlow::Break(())
            }
            Some(mismatch) => {
                is_method_refused |= mismatch == Mismatch::Method;
                ControlFlow::Continue(())
            }
        });
        match found {
            Some(found) => Ok(found),
            None if is_method_refused => Err(NoMatch::MethodNotAllowed(self.allow(request))),
            None => Err(NoMatch::NotFound),
        }
    }

    /// Tells `sink` of every route in order of precedence why it does not take `request`, until the
    /// one that does (`None`). Runs the same search as [`Routes::find`].
    pub(crate) fn explain<'r>(
        &'r self,
        request: &Request<'_>,
        mut sink: impl FnMut(usize, Option<Mismatch<'r>>),
    ) {
        let mut reached = vec![false; self.conditions.len()];
        self.walk(request, &mut |route, _| {
            reached[route] = true;
            ControlFlow::Continue(())
        });
        let serves = self.hosts_that_serve(request);
        let all = self.in_order();
        let mut is_served = vec![false; self.conditions.len()];
        all.iter().for_each(|&(host, route)| is_served[route] |= serves[host]);
        let mut is_told = vec![false; self.conditions.len()];
        for (host, route) in all {
            // A route with several hosts is listed once, where the request would meet it.
            if is_told[route] || is_served[route] && !serves[host] {
                continue;
            }
            is_told[route] = true;
            let mismatch = match (serves[host], reached[route]) {
                (false, _) => Some(Mismatch::Host),
                (true, false) => Some(Mismatch::Path),
                (true, true) => self.mismatch(route, request),
            };
            sink(route, mismatch);
            if mismatch.is_none() {
                return;
            }
        }
    }

    /// Whether `holds` for any route whose host and path fit, whatever its conditions.
    pub(crate) fn any_under(&self, request: &Request<'_>, holds: impl Fn(usize) -> bool) -> bool {
        let mut found = false;
        self.walk(request, &mut |route, _| {
            found = holds(route);
            if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        found
    }

    /// The first condition of a route that `request` does not meet.
    fn mismatch(&self, route: usize, request: &Request<'_>) -> Option<Mismatch<'_>> {
        self.conditions[route].as_ref().and_then(|conditions| conditions.mismatch(request))
    }

    /// The methods with which some route would take `request`.
    fn allow(&self, request: &Request<'_>) -> Allow {
        let mut allow = Allow::default();
        self.walk(request, &mut |route, _| {
            if let Some(conditions) = &self.conditions[route]
                && conditions.mismatch(request) == Some(Mismatch::Method)
            {
                conditions.methods().for_each(|method| allow.add(method));
            }
            ControlFlow::Continue(())
        });
        allow
    }

    /// Offers every route whose host and path fit, by precedence, until `on_route` breaks.
    fn walk<F: FnMut(usize, &Params) -> ControlFlow<()>>(
        &self,
        request: &Request<'_>,
        on_route: &mut F,
    ) {
        let path = request.path;
        let first = path.first().is_some_and(|&byte| byte == b'/').then_some(1);
        let mut walk = Walk { nodes: &self.nodes, path, params: Params::default(), on_route };
        let _ = self.each_host(request.host, |host| {
            walk.descend(&self.nodes[self.hosts[host].root], first)
        });
    }

    /// Visits the hosts that serve `host`, by precedence. A longer name than DNS allows is not folded:
    /// no pattern is that long.
    fn each_host(
        &self,
        host: Option<&[u8]>,
        mut visit: impl FnMut(usize) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut folded = [0; 256];
        let has_patterns = !(self.exact.is_empty() && self.under.is_empty());
        let host = host.filter(|host| has_patterns && host.len() <= folded.len());
        if let Some(host) = host.map(|host| fold(host, &mut folded)) {
            if let Some(&exact) = self.exact.get(host) {
                visit(exact)?;
            }
            self.each_wildcard(host, &mut visit)?;
        }
        self.any.map_or(ControlFlow::Continue(()), visit)
    }

    fn each_wildcard(
        &self,
        host: &[u8],
        visit: &mut impl FnMut(usize) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if self.under.is_empty() {
            return ControlFlow::Continue(());
        }
        let dots = (1..host.len()).filter(|&at| host[at] == b'.');
        for wildcard in dots.filter_map(|at| self.under.get(&host[at..])) {
            visit(*wildcard)?;
        }
        ControlFlow::Continue(())
    }

    fn hosts_that_serve(&self, request: &Request<'_>) -> Vec<bool> {
        let mut serves = vec![false; self.hosts.len()];
        let _ = self.each_host(request.host, |host| {
            serves[host] = true;
            ControlFlow::Continue(())
        });
        serves
    }

    /// Every route under every host it is for, by precedence.
    fn in_order(&self) -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        for (index, host) in self.hosts.iter().enumerate() {
            self.push_in_order(&self.nodes[host.root], index, &mut all);
        }
        all
    }

    fn push_in_order(&self, node: &Node, host: usize, all: &mut Vec<(usize, usize)>) {
        let literals = node.literals.iter().map(|(_, child)| *child as usize);
        for child in literals.chain(node.param()) {
            self.push_in_order(&self.nodes[child], host, all);
        }
        all.extend(node.ends.routes.iter().map(|&route| (host, route as usize)));
    }
}

impl Node {
    /// The child for a literal segment.
    fn literal(&self, segment: &[u8]) -> Option<usize> {
        let found = self.literals.binary_search_by(|(text, _)| text.as_ref().cmp(segment));
        found.ok().map(|place| self.literals[place].1 as usize)
    }

    /// The child for a parameter.
    fn param(&self) -> Option<usize> {
        self.param.map(|child| child.get() as usize)
    }
}

impl Ends {
    fn exact(&self) -> &[u32] {
        &self.routes[..self.rest as usize]
    }

    fn rest(&self) -> &[u32] {
        &self.routes[self.rest as usize..self.prefix as usize]
    }

    fn prefix(&self) -> &[u32] {
        &self.routes[self.prefix as usize..]
    }
}

/// A way through the trie along one path. Each node is reached by one way only, so that a search
/// visits no node twice, however much it has to go back.
struct Walk<'a, F> {
    nodes: &'a [Node],
    path: &'a [u8],
    params: Params,
    on_route: &'a mut F,
}

impl<F: FnMut(usize, &Params) -> ControlFlow<()>> Walk<'_, F> {
    /// Offers what lies under `node`; the next segment of the path starts at `from`, if there is one.
    fn descend(&mut self, node: &Node, from: Option<usize>) -> ControlFlow<()> {
        let Some(start) = from else {
            self.offer(node.ends.exact())?;
            return self.offer(node.ends.prefix());
        };
        let slash = self.path[start..].iter().position(|&byte| byte == b'/');
        let end = slash.map_or(self.path.len(), |length| start + length);
        let next = slash.map(|_| end + 1);
        if let Some(child) = node.literal(&self.path[start..end]) {
            self.descend(&self.nodes[child], next)?;
        }
        if let Some(child) = node.param().filter(|_| start != end) {
            self.capture(start..end, |walk| walk.descend(&walk.nodes[child], next))?;
        }
        let rest = node.ends.rest();
        if !rest.is_empty() {
            self.capture(start..self.path.len(), |walk| walk.offer(rest))?;
        }
        self.offer(node.ends.prefix())
    }

    fn offer(&mut self, routes: &[u32]) -> ControlFlow<()> {
        routes.iter().try_for_each(|&route| (self.on_route)(route as usize, &self.params))
    }

    fn capture(
        &mut self,
        part: std::ops::Range<usize>,
        inside: impl FnOnce(&mut Self) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.params.push(part);
        let flow = inside(self);
        self.params.pop();
        flow
    }
}

impl<'a> Request<'a> {
    /// The view of a head whose path is in its normal form, on a connection from there.
    pub(crate) fn new(head: &'a RequestHead, origin: &'a Origin) -> Request<'a> {
        let RequestHead { method, version: _, target: _, fields } = head;
        let (host, path, query) = (head.authority().map(host_of), head.path(), head.query());
        let identity = origin.shown.as_ref().map(|shown| &*shown.identity);
        let listener = origin.listener();
        Request { method: *method, host, path, query, fields, identity, listener }
    }
}

impl Allow {
    /// Those methods.
    pub(crate) fn of(methods: impl Into<Vec<Method>>) -> Allow {
        Allow(methods.into())
    }

    fn add(&mut self, method: Method) {
        if !self.0.contains(&method) {
            self.0.push(method);
        }
    }
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, method) in self.0.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { ", " })?;
            f.write_str(method.as_str())?;
        }
        Ok(())
    }
}

impl Split {
    /// The places of the upstreams that requests go to.
    pub(crate) fn upstreams(&self) -> &[usize] {
        match self {
            Split::One(upstream) => slice::from_ref(upstream),
            Split::Several(shares) => &shares.upstreams,
        }
    }

    /// The weighted split of a route.
    pub(crate) fn new(shares: &[Share]) -> Split {
        if let [only] = shares {
            return Split::One(only.upstream.index());
        }
        let weights: Vec<u32> = shares.iter().map(|share| share.weight.get().into()).collect();
        let upstreams = shares.iter().map(|share| share.upstream.index()).collect();
        Split::Several(Box::new(Shares { upstreams, rotation: Rotation::new(&weights) }))
    }

    /// The upstream whose turn it is, as its index in the configuration.
    pub(crate) fn pick(&self) -> usize {
        let Shares { upstreams, rotation } = match self {
            Split::One(upstream) => return *upstream,
            Split::Several(shares) => &**shares,
        };
        upstreams[rotation.take().expect("a route has an upstream: titan-config checks")]
    }
}

/// `host` in lower case and without a final dot, in `buffer`, which is at least as long.
fn fold<'b>(host: &[u8], buffer: &'b mut [u8]) -> &'b [u8] {
    let host = host.strip_suffix(b".").unwrap_or(host);
    let folded = &mut buffer[..host.len()];
    folded.copy_from_slice(host);
    folded.make_ascii_lowercase();
    folded
}

/// XXH3 for the host tables, whose keys come from the configuration: nobody can choose collisions.
#[derive(Default)]
struct HostHasher(u64);

impl Hasher for HostHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    fn write_usize(&mut self, length: usize) {
        self.0 ^= length as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
