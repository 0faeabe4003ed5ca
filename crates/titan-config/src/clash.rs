//! Routes that match the same requests: duplicates, routes without an order, and routes never reached.
//!
//! Precedence goes from the specific to the general: host (exact, then the longest wildcard, then any), then the
//! path segment by segment (literal, `{name}`, `{*rest}`, prefix). A route that comes earlier by host or path
//! never covers a later one, so only routes with the same host and path are compared. Among those the higher
//! `priority` comes first, then more conditions on headers, query, certificate and listeners, then methods before any method.

use crate::bounds::MAX_ROUTES_PER_PATH;
use crate::condition::ValueMatch;
use crate::diagnostic::Diagnostic;
use crate::host::HostPattern;
use crate::read::Reading;
use crate::route_fields::RouteDraft;
use crate::token::Name;
use std::cmp::{Ordering, Reverse};
use std::collections::{HashMap, HashSet};
use titan_http::Method;

/// Reports routes that clash with another, and those that another one shadows.
pub(crate) fn check_routes(routes: &[Option<RouteDraft>], to: &mut Reading<'_>) {
    let numbered = (1..).zip(routes).filter_map(|(number, route)| Some((number, route.as_ref()?)));
    let routes: Vec<Numbered<'_>> = numbered.collect();
    // Routes with several hosts meet in several groups, and one message is enough.
    let mut reported = HashSet::new();
    for group in groups(&routes) {
        if group.len() > MAX_ROUTES_PER_PATH {
            // All of them: whoever leaves out what errors point to gets there at once.
            let surplus = group[MAX_ROUTES_PER_PATH..].iter();
            let surplus = surplus.filter(|(number, _)| reported.insert(*number));
            surplus.for_each(|(_, route)| to.add(too_many(route)));
            continue;
        }
        for (nth, later) in group.iter().enumerate() {
            for earlier in &group[..nth] {
                if let Some(clash) = compare(earlier.1, later.1)
                    && reported.insert(later.0)
                {
                    to.add(describe(clash, *earlier, *later));
                }
            }
        }
    }
}

/// A route with its number in the file, from 1.
type Numbered<'a> = (usize, &'a RouteDraft);

fn too_many(route: &RouteDraft) -> Diagnostic {
    let message = format!("more than {MAX_ROUTES_PER_PATH} routes have the same host and path");
    let error = Diagnostic::error(route.place, message);
    let error = error.label("each request would be compared with all of them");
    error.help("give them different paths")
}

/// The routes by host and path, in the order of the file.
fn groups<'a>(routes: &[Numbered<'a>]) -> Vec<Vec<Numbered<'a>>> {
    let mut shapes: HashMap<String, usize> = HashMap::new();
    let mut places: HashMap<(Option<&HostPattern>, usize), usize> = HashMap::new();
    let mut groups: Vec<Vec<Numbered<'a>>> = Vec::new();
    for &(number, route) in routes {
        // A number for each shape: a route may have many hosts, and each would keep a copy of the text.
        let count = shapes.len();
        let shape = *shapes.entry(route.path.shape()).or_insert(count);
        let any = route.hosts.is_empty().then_some(None);
        for host in route.hosts.iter().map(Some).chain(any) {
            let place = *places.entry((host, shape)).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Vec::new());
            }
            // A host may stand twice in the list of a route.
            if groups[place].last().is_none_or(|(last, _)| *last != number) {
                groups[place].push((number, route));
            }
        }
    }
    groups
}

/// How two routes with the same host and path stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clash {
    /// They ask for the same.
    Duplicate,
    /// Some requests match both, and nothing says which comes first.
    Unordered,
    /// The first takes all that the second could match.
    FirstShadows,
    /// The other way round.
    SecondShadows,
}

fn compare(first: &RouteDraft, second: &RouteDraft) -> Option<Clash> {
    if are_disjoint(first, second) {
        return None;
    }
    let [first_covers, second_covers] = [covers(first, second), covers(second, first)];
    match rank(first).cmp(&rank(second)) {
        Ordering::Equal if !methods_overlap(first, second) => None,
        Ordering::Equal if first_covers && second_covers => Some(Clash::Duplicate),
        Ordering::Equal => Some(Clash::Unordered),
        Ordering::Less => first_covers.then_some(Clash::FirstShadows),
        Ordering::Greater => second_covers.then_some(Clash::SecondShadows),
    }
}

/// The order among routes with the same host and path; the least is tried first.
fn rank(route: &RouteDraft) -> impl Ord + use<> {
    let listeners = usize::from(!route.listeners.is_all());
    let conditions = route.headers.len() + route.query.len() + route.certificate.len() + listeners;
    (Reverse(route.priority), Reverse(conditions), route.methods.is_empty())
}

/// Whether both list a method. HEAD that comes with GET is no overlap: a route that lists it comes first.
fn methods_overlap(first: &RouteDraft, second: &RouteDraft) -> bool {
    let shared = || first.methods.iter().any(|method| second.methods.contains(method));
    first.methods.is_empty() || second.methods.is_empty() || shared()
}

/// Whether no request meets the conditions of both, as far as is plain to see.
fn are_disjoint(first: &RouteDraft, second: &RouteDraft) -> bool {
    let headers = first.headers.iter().any(|ours| {
        let mut same = second.headers.iter().filter(|theirs| theirs.name == ours.name);
        same.any(|theirs| exclude(&ours.value, &theirs.value))
    });
    let query = first.query.iter().any(|ours| {
        let mut same = second.query.iter().filter(|theirs| theirs.name == ours.name);
        same.any(|theirs| exclude(&ours.value, &theirs.value))
    });
    let certificate = first.certificate.iter().any(|ours| {
        let mut same = second.certificate.iter().filter(|theirs| theirs.part == ours.part);
        same.any(|theirs| exclude(&ours.value, &theirs.value))
    });
    headers || query || certificate || !first.listeners.overlaps(second.listeners)
}

/// Whether no value meets both.
pub(crate) fn exclude(ours: &ValueMatch, theirs: &ValueMatch) -> bool {
    match (ours, theirs) {
        (ValueMatch::Absent, other) | (other, ValueMatch::Absent) => *other != ValueMatch::Absent,
        (ValueMatch::Exact(ours), ValueMatch::Exact(theirs)) => ours != theirs,
        (ValueMatch::Exact(text), ValueMatch::Prefix(prefix))
        | (ValueMatch::Prefix(prefix), ValueMatch::Exact(text)) => !text.starts_with(prefix),
        (ValueMatch::Prefix(ours), ValueMatch::Prefix(theirs)) => {
            !ours.starts_with(theirs.as_str()) && !theirs.starts_with(ours.as_str())
        }
        _ => false,
    }
}

/// Whether every request that `inner` matches `outer` matches too, as far as is plain to see.
fn covers(outer: &RouteDraft, inner: &RouteDraft) -> bool {
    // A route for any host shares its group with other such routes alone.
    let hosts = inner.hosts.iter().all(|host| outer.hosts.contains(host));
    let takes = |method: &Method| {
        let with_get =
            outer.head && *method == Method::HEAD && outer.methods.contains(&Method::GET);
        outer.methods.contains(method) || with_get
    };
    let methods =
        outer.methods.is_empty() || !inner.methods.is_empty() && inner.methods.iter().all(takes);
    let inner_takes_head = inner.head && inner.methods.contains(&Method::GET);
    let head = outer.methods.is_empty()
        || outer.head
        || !inner_takes_head
        || outer.methods.contains(&Method::HEAD);
    let headers = outer.headers.iter().all(|theirs| {
        let same = inner.headers.iter().find(|ours| ours.name == theirs.name);
        same.is_some_and(|ours| implies(&ours.value, &theirs.value))
    });
    let query = outer.query.iter().all(|theirs| {
        let same = inner.query.iter().find(|ours| ours.name == theirs.name);
        same.is_some_and(|ours| implies(&ours.value, &theirs.value))
    });
    let certificate = outer.certificate.iter().all(|theirs| {
        let same = inner.certificate.iter().find(|ours| ours.part == theirs.part);
        same.is_some_and(|ours| implies(&ours.value, &theirs.value))
    });
    let listeners = outer.listeners.covers(inner.listeners);
    hosts && methods && head && headers && query && certificate && listeners
}

/// Whether a value that meets `ours` meets `theirs` too.
pub(crate) fn implies(ours: &ValueMatch, theirs: &ValueMatch) -> bool {
    match (ours, theirs) {
        (ValueMatch::Absent, _) => *theirs == ValueMatch::Absent,
        (_, ValueMatch::Present) => true,
        (ValueMatch::Exact(text), ValueMatch::Prefix(prefix))
        | (ValueMatch::Prefix(text), ValueMatch::Prefix(prefix)) => text.starts_with(prefix),
        (ValueMatch::Exact(text), ValueMatch::Regex(pattern)) => pattern.is_match(text.as_bytes()),
        _ => ours == theirs,
    }
}

fn describe(clash: Clash, (_, first): Numbered<'_>, (_, second): Numbered<'_>) -> Diagnostic {
    let first_name = first.name();
    let second_name = second.name();
    let clashing = |message: String, label: &str| {
        let error = Diagnostic::error(second.place, message).label(label);
        error.also(first.place, format!("`{first_name}` is here"))
    };
    match clash {
        Clash::Duplicate if first_name == second_name => {
            clashing("two routes match the same requests".to_owned(), "matches the same requests")
        }
        Clash::Duplicate => clashing(
            format!("the route `{second_name}` is the same as `{first_name}`"),
            "matches the same requests",
        ),
        Clash::Unordered => clashing(
            format!("the routes `{first_name}` and `{second_name}` can match the same request"),
            "their order is undefined",
        )
        .help("give one of them a higher `priority`, or conditions that exclude the other"),
        Clash::FirstShadows => shadowed((second, &second_name), (first, &first_name)),
        Clash::SecondShadows => shadowed((first, &first_name), (second, &second_name)),
    }
}

fn shadowed(
    (hidden, name): (&RouteDraft, &Name),
    (by, by_name): (&RouteDraft, &Name),
) -> Diagnostic {
    let (hidden_name, by_name) = match name == by_name {
        true => ("this route".to_owned(), "another".to_owned()),
        false => (format!("the route `{name}`"), format!("`{by_name}`")),
    };
    let message = format!("{hidden_name} is never reached: {by_name} matches all its requests");
    let error = Diagnostic::error(hidden.place, message).label("no request gets here");
    let error = error.also(by.place, "comes first because of its priority");
    error.help(format!("give it a priority above {}, or remove it", by.priority))
}
