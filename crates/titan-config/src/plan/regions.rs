//! Sets of requests: what a route matches, and what two routes match both.

use crate::clash::{exclude, implies};
use crate::condition::{CertificatePart, ValueMatch};
use crate::host::HostPattern;
use crate::path::{PathEnd, PathPattern, Segment};
use crate::route::Route;
use crate::token::HeaderName;
use std::fmt;
use titan_http::Method;

/// A route under one of its hosts, and with one end of its path.
pub(super) struct Entry<'c> {
    pub(super) route: usize,
    pub(super) host: Option<&'c HostPattern>,
    pub(super) path: Path<'c>,
    pub(super) pattern: &'c PathPattern,
    methods: &'c [Method],
    head: bool,
    conditions: Vec<Condition<'c>>,
    pub(super) of: &'c Route,
}

/// Paths of some segments, or of these and more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path<'c> {
    pub(super) segments: Vec<&'c Segment>,
    pub(super) has_rest: bool,
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
    pub(super) fn all(route: usize, of: &'c Route) -> Vec<Entry<'c>> {
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
            head: of.head,
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
pub(super) struct Region<'c> {
    pub(super) host: Option<&'c HostPattern>,
    pub(super) path: Path<'c>,
    /// None stands for all methods that no route names.
    method: Option<&'c Method>,
    conditions: Vec<Condition<'c>>,
}

impl<'c> Region<'c> {
    pub(super) fn all_of(entry: &Entry<'c>) -> Vec<Region<'c>> {
        Region::of_both(entry, entry)
    }

    pub(super) fn shape(&self) -> Shape<'c> {
        let Region { host, path: Path { segments, has_rest }, method, conditions } = self;
        let literal = |segment: &&'c Segment| match segment {
            Segment::Literal(text) => Some(text.as_str()),
            Segment::Param(_) => None,
        };
        Shape {
            host: *host,
            segments: segments.iter().map(literal).collect(),
            has_rest: *has_rest,
            method: method.copied(),
            conditions: conditions.iter().map(|it| std::ptr::from_ref(it.value)).collect(),
        }
    }

    pub(super) fn of_both(one: &Entry<'c>, other: &Entry<'c>) -> Vec<Region<'c>> {
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
                let takes = |method: &&Method| other.takes_method(method);
                let more = theirs.iter().filter(|it| !ours.contains(it) && one.takes_method(it));
                ours.iter().filter(takes).chain(more).map(Some).collect()
            }
        };
        let region =
            |method| Region { host, path: path.clone(), method, conditions: conditions.clone() };
        methods.into_iter().map(region).collect()
    }
}

/// Each is compared with each.
fn cost(ours: &[Condition<'_>], theirs: &[Condition<'_>]) -> u64 {
    1 + (ours.len() * theirs.len()) as u64 / COMPARISONS
}

/// Comparisons of conditions in a step.
const COMPARISONS: u64 = 8;

/// A region without the names of its parameters: equal for regions that the same routes match.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Shape<'c> {
    host: Option<&'c HostPattern>,
    segments: Vec<Option<&'c str>>,
    has_rest: bool,
    method: Option<Method>,
    /// Where they stand in the files.
    conditions: Vec<*const ValueMatch>,
}

/// The hosts that both match; `None` in it is any.
pub(super) fn both_hosts<'c>(
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

impl Entry<'_> {
    /// Whether its list of methods takes this one: GET in it takes HEAD too, unless it says otherwise.
    fn takes_method(&self, method: &Method) -> bool {
        let with_get =
            || self.head && *method == Method::HEAD && self.methods.contains(&Method::GET);
        self.methods.contains(method) || with_get()
    }

    /// Whether HEAD is one of its methods, and does not only come with GET: then it goes first among its equals.
    pub(super) fn lists_head(&self) -> bool {
        self.methods.contains(&Method::HEAD)
    }

    /// The steps that a comparison of its conditions with those of another takes.
    pub(super) fn cost_beside(&self, other: &Entry<'_>) -> u64 {
        cost(&self.conditions, &other.conditions)
    }

    /// The same for the conditions of a region.
    pub(super) fn cost_of(&self, region: &Region<'_>) -> u64 {
        cost(&self.conditions, &region.conditions)
    }

    /// Whether it matches all of the region.
    pub(super) fn covers(&self, region: &Region<'_>) -> bool {
        let takes = match region.method {
            None => self.methods.is_empty(),
            Some(method) => self.methods.is_empty() || self.takes_method(method),
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
