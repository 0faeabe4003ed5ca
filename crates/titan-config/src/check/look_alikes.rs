//! Open routes that accept look-alikes of protected paths.

use crate::diagnostic::Diagnostic;
use crate::host::HostPattern;
use crate::look_alikes::Paths;
use crate::path::{PathEnd, PathPattern, Segment};
use crate::policy::Policies;
use crate::read::Reading;
use crate::route_fields::RouteDraft;

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

/// Warns about open routes that accept look-alikes of guarded paths, if `paths` does not say what happens to them.
pub(super) fn check_look_alikes(routes: &[RouteInForce<'_>], file: &Paths, to: &mut Reading<'_>) {
    let guarded = GuardedRoutes::new(routes);
    for open in routes.iter().filter(|it| it.is_open()) {
        let paths = open.route.paths.over(file);
        let is_unstated = |it: &RouteInForce<'_>| !unstated(&it.route.path, &paths).is_empty();
        let Some(guarded) = guarded.first_under(open.route, is_unstated) else { continue };
        let examples = unstated(&guarded.route.path, &paths);
        let path = literal_start(&guarded.route.path);
        let message = format!("an open route accepts look-alikes of the protected path `{path}`");
        let warning = Diagnostic::warning(open.route.place, message);
        let examples = examples.join(", ");
        let warning =
            warning.label(format!("accepts {examples}, which some upstreams serve as `{path}`"));
        let warning = warning.also(guarded.route.place, "protected here");
        to.add(warning.help(
            "set `encoded_slashes`, `parameters` and `case` under `paths`, for the file or for \
                this route: `refuse`, or `keep` if the upstream treats them as different paths",
        ));
    }
}

/// The routes that refuse some requests. Those under a path are found without a look at all others: there may be
/// thousands of them, and of open routes.
struct GuardedRoutes<'r> {
    routes: &'r [RouteInForce<'r>],
    /// Their places by host (`None`: any, or a wildcard) and path, in order.
    by_path: Vec<(Option<&'r str>, &'r [Segment], usize)>,
    /// Every host there.
    hosts: Vec<Option<&'r str>>,
}

impl<'r> GuardedRoutes<'r> {
    fn new(routes: &'r [RouteInForce<'r>]) -> GuardedRoutes<'r> {
        let mut by_path = Vec::new();
        for (place, it) in routes.iter().enumerate().filter(|(_, it)| it.is_guarded()) {
            let hosts = it.route.hosts.iter().map(exact_name);
            let any = it.route.hosts.is_empty().then_some(None);
            by_path.extend(hosts.chain(any).map(|host| (host, &*it.route.path.segments, place)));
        }
        by_path.sort_unstable();
        let mut hosts: Vec<_> = by_path.iter().map(|(host, _, _)| *host).collect();
        hosts.dedup();
        GuardedRoutes { routes, by_path, hosts }
    }

    /// The first one in the file that lies under an open route and is like that.
    fn first_under(
        &self,
        open: &RouteDraft,
        is_so: impl Fn(&RouteInForce<'_>) -> bool,
    ) -> Option<&'r RouteInForce<'r>> {
        if open.path.end == PathEnd::Exact {
            return None;
        }
        let named: Option<Vec<_>> =
            open.hosts.iter().map(exact_name).map(|it| it.map(Some)).collect();
        let hosts = match named {
            Some(named) if !named.is_empty() => [named, vec![None]].concat(),
            _ => self.hosts.clone(),
        };
        let segments = &open.path.segments;
        let is_literal = |it: &&Segment| matches!(it, Segment::Literal(_));
        let literals = &segments[..segments.iter().take_while(is_literal).count()];
        let places = hosts.into_iter().flat_map(|host| self.beginning_with(host, literals));
        let is_wanted = |place: &usize| {
            let it = &self.routes[*place];
            lies_under(it.route, open) && is_so(it)
        };
        Some(&self.routes[places.filter(is_wanted).min()?])
    }

    /// The places of those at that host whose paths begin so.
    fn beginning_with(
        &self,
        host: Option<&str>,
        segments: &[Segment],
    ) -> impl Iterator<Item = usize> {
        let start = self.by_path.partition_point(|it| (it.0, it.1) < (host, segments));
        let is_one = move |it: &&(Option<&str>, &[Segment], usize)| {
            it.0 == host && it.1.starts_with(segments)
        };
        self.by_path[start..].iter().take_while(is_one).map(|(_, _, place)| *place)
    }
}

/// The name of a host that is no wildcard.
fn exact_name(host: &HostPattern) -> Option<&str> {
    match host {
        HostPattern::Exact(name) => Some(name),
        HostPattern::Under(_) => None,
    }
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
                let found = guarded.first_under(open.route, |_| true);
                prop_assert_eq!(found.map(|it| it.route.place), naive.map(|it| it.route.place));
            }
        }
    }
}
