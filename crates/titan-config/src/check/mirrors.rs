//! What mirrors require of the other parts of the file.

use crate::diagnostic::Diagnostic;
use crate::gateway::ConfigFields;
use crate::location::Span;
use crate::read::Reading;
use crate::readers::Named;
use crate::upstream::EndpointDraft;
use crate::upstream_id::UpstreamId;
use std::collections::HashSet;
use std::iter;

/// Whether there is memory for the copies that routes have made.
pub(super) fn check_mirrored_bodies(fields: &ConfigFields, to: &mut Reading<'_>) {
    let Some(limits) = &fields.limits else { return };
    let memory = limits.mirror_memory;
    for route in fields.routes.iter().flatten() {
        let most = route.mirrors().map(|(mirror, _)| mirror.memory()).max();
        let Some(most) = most.filter(|most| *most > memory) else { continue };
        let message = "the bodies that this route mirrors do not fit into `limits.mirror_memory`";
        let warning = Diagnostic::warning(route.place, message);
        let both = "with `mirror.body` and twice `mirror.compare.body`";
        let warning = warning
            .label(format!("each copy takes up to {most} and its head {both}; there is {memory}"));
        to.add(warning.help("lower these, or raise `limits.mirror_memory`"));
    }
}

/// Whether copies go to an upstream that gets the requests themselves while the circuit breaker of the route's own is open.
pub(super) fn check_mirrored_fallbacks(fields: &ConfigFields, to: &mut Reading<'_>) {
    let routes = fields.routes.iter().flatten();
    for (route, (mirror, span)) in
        routes.flat_map(|it| it.mirrors().map(move |mirror| (it, mirror)))
    {
        let mut fallbacks = route.upstreams().flat_map(|own| fallbacks(fields, own));
        let Some((_, named)) = fallbacks.find(|(id, _)| *id == mirror.upstream) else { continue };
        let message = "this route mirrors requests to an upstream that stands in for its own";
        let error = Diagnostic::error(span, message);
        let error = error.label("while it does, it would get each of them twice");
        let error = error.also(named, "here it takes requests over");
        to.add(error.help("name an upstream that stands in for none of the route's"));
    }
}

/// The upstreams that stand in for that one while its circuit breaker is open, one after the other, and where each is named.
fn fallbacks(fields: &ConfigFields, own: UpstreamId) -> impl Iterator<Item = (UpstreamId, Span)> {
    let after = |id: UpstreamId| {
        let Named { value, .. } = fields.upstreams.get(id.index())?;
        value.as_ref()?.circuit_breaker.as_ref()?.successor()
    };
    // Those that lead in a circle, which is an error of its own, are no more than all.
    iter::successors(after(own), move |(id, _)| after(*id)).take(fields.upstreams.len())
}

/// Whether copies go to the endpoints that have the requests anyway, under another name of theirs.
pub(super) fn check_mirrored_endpoints(fields: &ConfigFields, to: &mut Reading<'_>) {
    let mut looked_at = HashSet::new();
    let routes = fields.routes.iter().flatten();
    for (route, (mirror, _)) in routes.flat_map(|it| it.mirrors().map(move |mirror| (it, mirror))) {
        for own in route.upstreams().filter(|own| looked_at.insert((*own, mirror.upstream))) {
            let Some(both) = common_endpoint(fields, own, mirror.upstream) else { continue };
            let message = format!(
                "the endpoint `{}` gets copies of the requests that it serves",
                both.endpoint.address
            );
            let [own, copies] = [own, mirror.upstream].map(|id| &fields.upstreams[id.index()]);
            let warning = Diagnostic::warning(both.span, message);
            let warning =
                warning.label(format!("the upstream `{}` gets copies of requests", copies.key));
            let place = format!("this route sends the requests to `{}`, which has it too", own.key);
            let warning = warning.also(route.place, place);
            to.add(warning.help("mirror to endpoints that the route does not use"));
        }
    }
}

/// The first endpoint of `mirror` that is one of `own` as well.
fn common_endpoint(
    fields: &ConfigFields,
    own: UpstreamId,
    mirror: UpstreamId,
) -> Option<&EndpointDraft> {
    let endpoints = |id: UpstreamId| {
        let Named { value, .. } = &fields.upstreams[id.index()];
        value.iter().flat_map(|upstream| &upstream.endpoints)
    };
    let known: HashSet<_> = endpoints(own).map(|draft| &draft.endpoint.address).collect();
    endpoints(mirror).find(|draft| known.contains(&draft.endpoint.address))
}
