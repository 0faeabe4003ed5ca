//! Which requests get to which route, before and after, for sets of requests and not for single ones.
//!
//! What two routes both match is again a host, a path, a method and conditions: a [`Region`]. The route that takes a
//! region is the first, in the order in which routes are tried, that matches all of it. So if any request went from one
//! route to another, the region of the two is found here. The reverse does not hold everywhere: several routes together
//! may take all of a region before it gets to one that matches it whole.

use crate::clash::{exclude, implies};
use crate::condition::{CertificatePart, ValueMatch};
use crate::gateway::Config;
use crate::host::HostPattern;
use crate::listing::{by_host, rank};
use crate::path::{PathEnd, PathPattern, Segment};
use crate::route::Route;
use crate::token::HeaderName;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use titan_http::Method;

/// Requests, the route that took them, and the one that does now, by their places in the files.
pub(super) struct Moved {
    pub(super) requests: String,
    pub(super) from: Option<usize>,
    pub(super) to: Option<usize>,
}

/// What each route took, and which takes it now: a region for each pair of routes, those that stay where they are
/// among them.
pub(super) fn moved(old: &Config, new: &Config) -> Vec<Moved> {
    let (before, after) = (Table::new(&old.routes), Table::new(&new.routes));
    let mut found: BTreeMap<(Option<usize>, Option<usize>), String> = BTreeMap::new();
    let mut note = |region: &Region<'_>| {
        let pair = (before.taker(region), after.taker(region));
        found.entry(pair).or_insert_with(|| region.to_string());
    };
    for entry in before.entries.iter().chain(&after.entries) {
        Region::all_of(entry).iter().for_each(&mut note);
    }
    for ours in &before.entries {
        for theirs in after.near(ours) {
            let theirs = &after.entries[theirs];
            Region::of_both(ours, theirs).iter().for_each(&mut note);
        }
    }
    let moved = found.into_iter().map(|((from, to), requests)| Moved { requests, from, to });
    moved.collect()
}

/// The names of new routes that get no requests, though they did before or are new.
pub(super) fn unreached(old: &Config, new: &Config) -> Vec<String> {
    let was: HashSet<_> = silent(old).into_iter().collect();
    silent(new).into_iter().filter(|name| !was.contains(name)).collect()
}

fn silent(config: &Config) -> Vec<String> {
    let table = Table::new(&config.routes);
    let takes = |entry: &&Entry<'_>| {
        Region::all_of(entry).iter().any(|region| table.taker(region) == Some(entry.route))
    };
    let heard: HashSet<usize> = table.entries.iter().filter(takes).map(|it| it.route).collect();
    let silent = config.routes.iter().enumerate().filter(|(index, _)| !heard.contains(index));
    silent.map(|(_, route)| route.name.to_string()).collect()
}

/// A route under one of its hosts, and with one end of its path.
#[derive(Clone)]
struct Entry<'c> {
    route: usize,
    host: Option<&'c HostPattern>,
    path: Path<'c>,
    pattern: &'c PathPattern,
    methods: &'c [Method],
    conditions: Vec<Condition<'c>>,
    of: &'c Route,
}

/// Paths of some segments, or of these and more.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Path<'c> {
    segments: Vec<&'c Segment>,
    has_rest: bool,
}

/// What a header field, a parameter or a certificate has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Condition<'c> {
    on: Subject<'c>,
    value: &'c ValueMatch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject<'c> {
    Header(&'c HeaderName),
    Query(&'c str),
    Certificate(CertificatePart),
}

impl<'c> Entry<'c> {
    fn all(route: usize, of: &'c Route) -> Vec<Entry<'c>> {
        let headers = of.headers.iter();
        let headers =
            headers.map(|it| Condition { on: Subject::Header(&it.name), value: &it.value });
        let query = of.query.iter();
        let query = query.map(|it| Condition { on: Subject::Query(&it.name), value: &it.value });
        let certificate = of.certificate.iter();
        let certificate =
            certificate.map(|it| Condition { on: Subject::Certificate(it.part), value: &it.value });
        let conditions: Vec<_> = headers.chain(query).chain(certificate).collect();
        let hosts: Vec<_> = match of.hosts.as_slice() {
            [] => vec![None],
            hosts => hosts.iter().map(Some).collect(),
        };
        let with = |host, path| Entry {
            route,
            host,
            path,
            pattern: &of.path,
            methods: &of.methods,
            conditions: conditions.clone(),
            of,
        };
        let paths = Path::all(&of.path);
        hosts
            .into_iter()
            .flat_map(|host| paths.iter().map(move |path| (host, path.clone())))
            .map(|(host, path)| with(host, path))
            .collect()
    }
}

impl<'c> Path<'c> {
    /// A prefix is the path itself, and everything below it.
    fn all(pattern: &'c PathPattern) -> Vec<Path<'c>> {
        let path = |has_rest| Path { segments: pattern.segments.iter().collect(), has_rest };
        match pattern.end {
            PathEnd::Exact => vec![path(false)],
            PathEnd::Rest(_) => vec![path(true)],
            PathEnd::Prefix if pattern.segments.is_empty() => vec![path(true)],
            PathEnd::Prefix => vec![path(true), path(false)],
        }
    }

    fn both(&self, other: &Path<'c>) -> Option<Path<'c>> {
        let (short, long) = match self.segments.len() <= other.segments.len() {
            true => (self, other),
            false => (other, self),
        };
        let is_long_enough = match (short.has_rest, long.has_rest) {
            (true, true) => true,
            (true, false) => long.segments.len() > short.segments.len(),
            (false, false) => long.segments.len() == short.segments.len(),
            (false, true) => false,
        };
        if !is_long_enough {
            return None;
        }
        let shared =
            short.segments.iter().zip(&long.segments).map(|(one, other)| narrower(one, other));
        let mut segments = shared.collect::<Option<Vec<_>>>()?;
        segments.extend(&long.segments[short.segments.len()..]);
        Some(Path { segments, has_rest: short.has_rest && long.has_rest })
    }

    fn covers(&self, other: &Path<'_>) -> bool {
        let fits = match (self.has_rest, other.has_rest) {
            (true, true) => other.segments.len() >= self.segments.len(),
            (true, false) => other.segments.len() > self.segments.len(),
            (false, true) => false,
            (false, false) => other.segments.len() == self.segments.len(),
        };
        let takes = |(ours, theirs): (&&Segment, &&Segment)| match (ours, theirs) {
            (Segment::Literal(ours), Segment::Literal(theirs)) => ours == theirs,
            (Segment::Param(_), Segment::Literal(text)) => !text.is_empty(),
            (Segment::Param(_), Segment::Param(_)) => true,
            (Segment::Literal(_), Segment::Param(_)) => false,
        };
        fits && self.segments.iter().zip(&other.segments).all(takes)
    }
}

/// What both match.
fn narrower<'c>(one: &'c Segment, other: &'c Segment) -> Option<&'c Segment> {
    match (one, other) {
        (Segment::Param(_), Segment::Literal(text)) if !text.is_empty() => Some(other),
        (Segment::Literal(text), Segment::Param(_)) if !text.is_empty() => Some(one),
        (Segment::Param(_), Segment::Param(_)) => Some(one),
        (Segment::Literal(ours), Segment::Literal(theirs)) if ours == theirs => Some(one),
        _ => None,
    }
}

/// The requests that two routes match both, or one route.
struct Region<'c> {
    host: Option<&'c HostPattern>,
    path: Path<'c>,
    /// None stands for all methods that no route names.
    method: Option<&'c Method>,
    conditions: Vec<Condition<'c>>,
}

impl<'c> Region<'c> {
    fn all_of(entry: &Entry<'c>) -> Vec<Region<'c>> {
        Region::of_both(entry, entry)
    }

    fn of_both(one: &Entry<'c>, other: &Entry<'c>) -> Vec<Region<'c>> {
        let Some(host) = both_hosts(one.host, other.host) else { return Vec::new() };
        let Some(path) = one.path.both(&other.path) else { return Vec::new() };
        let is_met = |ours: &Condition<'_>| {
            !other.conditions.iter().any(|it| it.on == ours.on && exclude(ours.value, it.value))
        };
        if !one.conditions.iter().all(is_met) {
            return Vec::new();
        }
        let more = other.conditions.iter().filter(|it| !one.conditions.contains(it));
        let conditions: Vec<_> = one.conditions.iter().chain(more).copied().collect();
        let methods: Vec<Option<&Method>> = match (one.methods, other.methods) {
            ([], []) => vec![None],
            ([], methods) | (methods, []) => methods.iter().map(Some).collect(),
            (ours, theirs) => {
                let takes = |method: &&Method| takes_method(theirs, method);
                let more = theirs.iter().filter(|it| !ours.contains(it) && takes_method(ours, it));
                ours.iter().filter(takes).chain(more).map(Some).collect()
            }
        };
        let region =
            |method| Region { host, path: path.clone(), method, conditions: conditions.clone() };
        methods.into_iter().map(region).collect()
    }
}

/// GET in a list takes HEAD too.
fn takes_method(methods: &[Method], method: &Method) -> bool {
    methods.contains(method) || *method == Method::HEAD && methods.contains(&Method::GET)
}

/// The hosts that both match; `None` in it is any.
fn both_hosts<'c>(
    one: Option<&'c HostPattern>,
    other: Option<&'c HostPattern>,
) -> Option<Option<&'c HostPattern>> {
    if covers_host(one, other) {
        return Some(other);
    }
    covers_host(other, one).then_some(one)
}

fn covers_host(outer: Option<&HostPattern>, inner: Option<&HostPattern>) -> bool {
    match (outer, inner) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(HostPattern::Exact(outer)), Some(HostPattern::Exact(inner))) => outer == inner,
        (Some(HostPattern::Exact(_)), Some(HostPattern::Under(_))) => false,
        (Some(HostPattern::Under(suffix)), Some(HostPattern::Exact(host))) => {
            host.len() > suffix.len() && host.ends_with(suffix.as_str())
        }
        (Some(HostPattern::Under(outer)), Some(HostPattern::Under(inner))) => {
            inner.ends_with(outer.as_str())
        }
    }
}

/// The routes of a configuration, in the order in which they are tried.
struct Table<'c> {
    entries: Vec<Entry<'c>>,
    /// The entries by exact host and first literal segment, where they have these.
    places: HashMap<(Option<&'c str>, Option<&'c str>), Vec<usize>>,
}

impl<'c> Table<'c> {
    fn new(routes: &'c [Route]) -> Table<'c> {
        let all = routes.iter().enumerate();
        let mut entries: Vec<_> = all.flat_map(|(index, route)| Entry::all(index, route)).collect();
        entries.sort_by(|one, other| {
            by_host(one.host, other.host)
                .then_with(|| one.pattern.search_order().cmp(other.pattern.search_order()))
                .then_with(|| rank(one.of).cmp(&rank(other.of)))
                .then_with(|| other.lists_head().cmp(&one.lists_head()))
        });
        let mut places: HashMap<_, Vec<usize>> = HashMap::new();
        for (index, entry) in entries.iter().enumerate() {
            places.entry((exact(entry.host), first(&entry.path))).or_default().push(index);
        }
        Table { entries, places }
    }

    /// Where the entries are that may match something that `other` matches.
    fn near(&self, other: &Entry<'_>) -> Vec<usize> {
        let (host, literal) = (exact(other.host), first(&other.path));
        let fits = |ours: Option<&str>, theirs: Option<&str>| {
            ours.is_none() || theirs.is_none() || ours == theirs
        };
        let places = match (host, literal) {
            // Most routes have both, and then four places are enough.
            (Some(_), Some(_)) => [(host, literal), (host, None), (None, literal), (None, None)]
                .iter()
                .filter_map(|place| self.places.get(place))
                .collect(),
            _ => {
                let places = self.places.iter();
                let places =
                    places.filter(|((ours, first), _)| fits(*ours, host) && fits(*first, literal));
                places.map(|(_, indices)| indices).collect::<Vec<_>>()
            }
        };
        places.into_iter().flatten().copied().collect()
    }

    /// The route that all requests of the region get to; none where some have none.
    fn taker(&self, region: &Region<'_>) -> Option<usize> {
        let (host, literal) = (exact(region.host), first(&region.path));
        let hosts = [host, None].into_iter().take(1 + usize::from(host.is_some()));
        let places = hosts.flat_map(|host| {
            let literals = [literal, None].into_iter().take(1 + usize::from(literal.is_some()));
            literals.filter_map(move |literal| self.places.get(&(host, literal)))
        });
        let covering = places.filter_map(|indices| {
            indices.iter().copied().find(|index| self.entries[*index].covers(region))
        });
        covering.min().map(|index| self.entries[index].route)
    }
}

impl Entry<'_> {
    /// Whether HEAD is one of its methods, and does not only come with GET: then it goes first among its equals.
    fn lists_head(&self) -> bool {
        self.methods.contains(&Method::HEAD)
    }

    fn covers(&self, region: &Region<'_>) -> bool {
        let takes = match region.method {
            None => self.methods.is_empty(),
            Some(method) => self.methods.is_empty() || takes_method(self.methods, method),
        };
        let is_met = |ours: &Condition<'_>| {
            region.conditions.iter().any(|it| it.on == ours.on && implies(it.value, ours.value))
        };
        takes
            && covers_host(self.host, region.host)
            && self.path.covers(&region.path)
            && self.conditions.iter().all(is_met)
    }
}

fn exact(host: Option<&HostPattern>) -> Option<&str> {
    match host {
        Some(HostPattern::Exact(host)) => Some(host),
        Some(HostPattern::Under(_)) | None => None,
    }
}

fn first<'c>(path: &Path<'c>) -> Option<&'c str> {
    match path.segments.first() {
        Some(Segment::Literal(text)) => Some(text),
        Some(Segment::Param(_)) | None => None,
    }
}

/// Such as `GET api.example/users/{id} with the header X-Beta`.
impl fmt::Display for Region<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(method) = self.method {
            write!(f, "{} ", method.as_str())?;
        }
        if let Some(host) = self.host {
            write!(f, "{host}")?;
        }
        let Path { segments, has_rest } = &self.path;
        let segments = segments.iter().copied().cloned().collect();
        write!(f, "{}", PathPattern { segments, end: PathEnd::Exact })?;
        f.write_str(if *has_rest { "/…" } else { "" })?;
        for (index, Condition { on, value }) in self.conditions.iter().enumerate() {
            let joint = if index == 0 { "with" } else { "and" };
            let lacks = if **value == ValueMatch::Absent { "no" } else { "the" };
            match on {
                Subject::Header(name) => write!(f, " {joint} {lacks} header {}", name.as_str())?,
                Subject::Query(name) => write!(f, " {joint} {lacks} parameter {name}")?,
                Subject::Certificate(part) => write!(f, " {joint} {}", part.words())?,
            }
        }
        Ok(())
    }
}
