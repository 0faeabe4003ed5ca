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
    for open in routes.iter().filter(|it| it.is_open()) {
        let paths = open.route.paths.over(file);
        let guarded =
            routes.iter().filter(|it| it.is_guarded() && lies_under(it.route, open.route));
        let mut unstated = guarded.map(|it| (it, unstated(&it.route.path, &paths)));
        let Some((guarded, examples)) = unstated.find(|(_, examples)| !examples.is_empty()) else {
            continue;
        };
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
