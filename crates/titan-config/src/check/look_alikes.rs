//! Open routes that accept look-alikes of protected paths.

use crate::diagnostic::Diagnostic;
use crate::host::HostPattern;
use crate::look_alikes::Paths;
use crate::path::{PathEnd, PathPattern, Segment};
use crate::policy::Policies;
use crate::read::Reading;
use crate::route_fields::RouteDraft;
use std::collections::HashMap;

/// A route with the policies that its requests meet.
pub(super) struct RouteInForce<'r> {
    pub(super) route: &'r RouteDraft,
    pub(super) policies: Policies,
}

impl RouteInForce<'_> {
    /// Whether it refuses some requests.
    fn is_guarded(&self) -> bool {
        self.authenticates() || self.route.refuses_all()
    }

    /// Whether it serves every client from an upstream or a directory.
    fn is_open(&self) -> bool {
        !self.authenticates() && self.route.certificate.is_empty() && self.route.serves_content()
    }

    fn authenticates(&self) -> bool {
        self.policies.jwt.is_some() || self.policies.authorise.is_some()
    }
}

/// Pairs of routes that are looked at. Only routes of one host whose paths begin with parameters come near.
const MAX_PAIRS: usize = 20_000_000;

/// Warns about open routes that accept look-alikes of guarded paths, if `paths` does not say what happens to them.
pub(super) fn check_look_alikes(routes: &[RouteInForce<'_>], file: &Paths, to: &mut Reading<'_>) {
    let guarded = GuardedRoutes::new(routes);
    let mut left = MAX_PAIRS;
    for open in routes.iter().filter(|it| it.is_open()) {
        let paths = open.route.paths.over(file);
        let is_unstated = |it: &RouteInForce<'_>| !unstated(&it.route.path, &paths).is_empty();
        let first = guarded.first_under(open.route, is_unstated, &mut left);
        if left == 0 {
            return to.add(incomplete(open.route));
        }
        if let Some(guarded) = first {
            to.add(accepts_look_alikes(open.route, guarded.route, &paths));
        }
    }
}

fn accepts_look_alikes(open: &RouteDraft, guarded: &RouteDraft, paths: &Paths) -> Diagnostic {
    let path = literal_start(&guarded.path);
    let message = format!("an open route accepts look-alikes of the protected path `{path}`");
    let examples = unstated(&guarded.path, paths).join(", ");
    let warning = Diagnostic::warning(open.place, message);
    let warning =
        warning.label(format!("accepts {examples}, which some upstreams serve as `{path}`"));
    warning.also(guarded.place, "protected here").help(
        "set `encoded_slashes`, `parameters` and `case` under `paths`, for the file or for \
            this route: `refuse`, or `keep` if the upstream treats them as different paths",
    )
}

fn incomplete(open: &RouteDraft) -> Diagnostic {
    let message = "there are too many routes to look for all look-alikes of protected paths";
    let warning = Diagnostic::warning(open.place, message);
    let warning = warning.label("this route and those after it were not compared with all others");
    warning.help("set `encoded_slashes`, `parameters` and `case` under `paths` for the file")
}

/// Routes by their paths: these, and the places in the file.
type ByPath<'r> = Vec<(&'r [Segment], usize)>;

/// The routes that refuse some requests. Those under a path are found without a look at all others: there may be
/// thousands of them, and of open routes.
struct GuardedRoutes<'r> {
    routes: &'r [RouteInForce<'r>],
    all: ByPath<'r>,
    /// Those without hosts.
    anywhere: ByPath<'r>,
    /// Those for a name.
    named: HashMap<&'r str, ByPath<'r>>,
    /// Those for all names with that end.
    wildcards: HashMap<&'r str, ByPath<'r>>,
    /// Those for names that a wildcard of an open route covers too, by its end.
    below: HashMap<&'r str, ByPath<'r>>,
}

impl<'r> GuardedRoutes<'r> {
    fn new(routes: &'r [RouteInForce<'r>]) -> GuardedRoutes<'r> {
        let mut guarded = GuardedRoutes {
            routes,
            all: ByPath::new(),
            anywhere: ByPath::new(),
            named: HashMap::new(),
            wildcards: HashMap::new(),
            below: routes.iter().filter(|it| it.is_open()).flat_map(wildcards).collect(),
        };
        for (place, it) in routes.iter().enumerate().filter(|(_, it)| it.is_guarded()) {
            guarded.add(it.route, place);
        }
        guarded.sort();
        guarded
    }

    fn add(&mut self, route: &'r RouteDraft, place: usize) {
        let found = (&*route.path.segments, place);
        self.all.push(found);
        if route.hosts.is_empty() {
            self.anywhere.push(found);
        }
        for host in &*route.hosts {
            let (at, name) = match host {
                HostPattern::Exact(name) => (&mut self.named, name),
                HostPattern::Under(end) => (&mut self.wildcards, end),
            };
            at.entry(name).or_default().push(found);
            for end in ends(name) {
                if let Some(below) = self.below.get_mut(end) {
                    below.push(found);
                }
            }
        }
    }

    fn sort(&mut self) {
        let by_host = [&mut self.named, &mut self.wildcards, &mut self.below];
        let by_host = by_host.into_iter().flat_map(HashMap::values_mut);
        by_host.chain([&mut self.all, &mut self.anywhere]).for_each(|it| it.sort_unstable());
    }

    /// The first one in the file that lies under an open route and is like that. `left` is how many may be looked at.
    fn first_under(
        &self,
        open: &RouteDraft,
        is_so: impl Fn(&RouteInForce<'_>) -> bool,
        left: &mut usize,
    ) -> Option<&'r RouteInForce<'r>> {
        if open.path.end == PathEnd::Exact {
            return None;
        }
        let segments = &open.path.segments;
        let is_literal = |it: &&Segment| matches!(it, Segment::Literal(_));
        let literals = &segments[..segments.iter().take_while(is_literal).count()];
        let near = self.at_hosts(&open.hosts).into_iter();
        let places = near.flat_map(|it| beginning_with(it, literals)).take(*left);
        let mut looked_at = 0;
        let places = places.inspect(|_| looked_at += 1);
        let is_wanted = |place: &usize| {
            let it = &self.routes[*place];
            lies_under(it.route, open) && is_so(it)
        };
        let first = places.filter(is_wanted).min();
        *left -= looked_at;
        Some(&self.routes[first?])
    }

    /// Those that some of the hosts may be for.
    fn at_hosts(&self, hosts: &[HostPattern]) -> Vec<&ByPath<'r>> {
        if hosts.is_empty() {
            return vec![&self.all];
        }
        let mut near = vec![&self.anywhere];
        for host in hosts {
            let name = match host {
                HostPattern::Exact(name) => name,
                HostPattern::Under(end) => end,
            };
            near.extend(match host {
                HostPattern::Exact(name) => self.named.get(name.as_str()),
                HostPattern::Under(end) => self.below.get(end.as_str()),
            });
            near.extend(ends(name).filter_map(|end| self.wildcards.get(end)));
        }
        near
    }
}

/// The places of those whose paths begin so.
fn beginning_with(routes: &ByPath<'_>, segments: &[Segment]) -> impl Iterator<Item = usize> {
    let start = routes.partition_point(|(path, _)| *path < segments);
    routes[start..].iter().take_while(move |(path, _)| path.starts_with(segments)).map(|it| it.1)
}

/// The ends of the wildcards of a route, with nothing for them.
fn wildcards<'r>(it: &RouteInForce<'r>) -> impl Iterator<Item = (&'r str, ByPath<'r>)> {
    it.route.hosts.iter().filter_map(|host| match host {
        HostPattern::Under(end) => Some((end.as_str(), ByPath::new())),
        HostPattern::Exact(_) => None,
    })
}

/// The ends of the wildcards that cover a name, or such an end.
fn ends(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('.').map(|(at, _)| &name[at..])
}

/// Look-alikes of a path for which `paths` has no setting.
fn unstated(path: &PathPattern, paths: &Paths) -> Vec<String> {
    let start = literal_start(path);
    let has_letters = start.bytes().any(|byte| byte.is_ascii_alphabetic());
    let other_case = match start.bytes().any(|byte| byte.is_ascii_lowercase()) {
        true => start.to_ascii_uppercase(),
        false => start.to_ascii_lowercase(),
    };
    let examples = [
        (paths.case.is_none() && has_letters).then_some(other_case),
        paths.parameters.is_none().then(|| format!("{start};x")),
        paths.encoded_slashes.is_none().then(|| format!("/%2F{}", &start[1..])),
    ];
    examples.into_iter().flatten().map(|example| format!("`{example}`")).collect()
}

/// The path as far as it consists of literals.
fn literal_start(path: &PathPattern) -> String {
    let literals = path.segments.iter().map_while(|segment| match segment {
        Segment::Literal(text) => Some(format!("/{text}")),
        Segment::Param(_) => None,
    });
    literals.collect()
}

/// Whether what one route guards would be taken by the other if it were spelled otherwise.
fn lies_under(guarded: &RouteDraft, open: &RouteDraft) -> bool {
    let same = |(ours, theirs): (&Segment, &Segment)| match (ours, theirs) {
        (_, Segment::Param(_)) => true,
        (ours, theirs) => ours == theirs,
    };
    let (inner, outer) = (&guarded.path.segments, &open.path.segments);
    matches!(guarded.path.segments.get(outer.len()), Some(Segment::Literal(_)))
        && matches!(inner.first(), Some(Segment::Literal(_)))
        && inner.iter().zip(outer).all(same)
        && open.path.end != PathEnd::Exact
        && share_a_host(&guarded.hosts, &open.hosts)
}

fn share_a_host(ours: &[HostPattern], theirs: &[HostPattern]) -> bool {
    let meet = |one: &HostPattern, other: &HostPattern| match (one, other) {
        (HostPattern::Exact(one), HostPattern::Exact(other)) => one == other,
        (HostPattern::Exact(name), HostPattern::Under(end))
        | (HostPattern::Under(end), HostPattern::Exact(name)) => name.ends_with(end.as_str()),
        (HostPattern::Under(one), HostPattern::Under(other)) => {
            one.ends_with(other.as_str()) || other.ends_with(one.as_str())
        }
    };
    let is_any = ours.is_empty() || theirs.is_empty();
    is_any || ours.iter().any(|one| theirs.iter().any(|other| meet(one, other)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::compose;
    use crate::declared::Declared;
    use crate::gateway::ConfigFields;
    use crate::language;
    use crate::read::Read;
    use crate::report::Findings;
    use crate::section::section_of;
    use crate::surroundings::{Alone, Document};
    use proptest::prelude::*;

    /// A route that refuses everything, or one that serves everybody.
    fn route() -> impl Strategy<Value = String> {
        let segment = prop::sample::select(vec!["a", "b", "{x}"]);
        let path = prop::collection::vec(segment, 0..4);
        let hosts =
            prop::sample::subsequence(vec!["a.example", "b.a.example", "*.a.example"], 0..3);
        (path, hosts, any::<bool>(), any::<bool>()).prop_map(|(path, hosts, guarded, exact)| {
            let numbered = |(at, it): (usize, &&str)| it.replace('x', &format!("x{at}"));
            let mut path: Vec<_> = path.iter().enumerate().map(numbered).collect();
            if !exact {
                path.push("{*rest}".to_owned());
            }
            let action = if guarded { "respond: 403" } else { "files: { root: / }" };
            let hosts: Vec<_> = hosts.iter().map(|it| format!("'{it}'")).collect();
            format!("{{ path: '/{}', host: [{}], {action} }}", path.join("/"), hosts.join(", "))
        })
    }

    proptest! {
        #[test]
        fn the_first_guarded_route_is_found_as_if_all_were_looked_at(
            routes in prop::collection::vec(route(), 1..12)
        ) {
            let text = format!("{{ listeners: [':80'], routes: [{}] }}", routes.join(", "));
            let mut findings = Findings::default();
            let (sources, root) = compose(Document::alone("test", &text), &mut Alone, &mut findings);
            let root = root.unwrap();
            let declared = Declared::in_file(&root);
            let mut to = Reading::new(&sources, &mut findings, declared, language::sections);
            let fields = section_of::<ConfigFields>().read(&root, &mut to).unwrap();
            let routes: Vec<_> = fields.routes.iter().flatten()
                .map(|route| RouteInForce { route, policies: Policies::default() })
                .collect();
            let guarded = GuardedRoutes::new(&routes);
            for open in routes.iter().filter(|it| it.is_open()) {
                let naive = routes.iter().find(|it| it.is_guarded() && lies_under(it.route, open.route));
                let mut left = MAX_PAIRS;
                let found = guarded.first_under(open.route, |_| true, &mut left);
                prop_assert_eq!(found.map(|it| it.route.place), naive.map(|it| it.route.place));
                let pairs = MAX_PAIRS - left;
                if pairs > 0 {
                    // As many as there are is one too few: that there are no more is not known.
                    let mut left = pairs;
                    guarded.first_under(open.route, |_| true, &mut left);
                    prop_assert_eq!(left, 0);
                }
            }
        }
    }
}
