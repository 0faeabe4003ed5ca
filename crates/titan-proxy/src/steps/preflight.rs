//! Preflight requests (the Fetch standard, section 3.2.2): for which route they are.

use crate::route::{self, Match};
use crate::snapshot::Snapshot;
use titan_http::RequestHead;
use titan_policies::buffered_response::BufferedResponse;
use titan_policies::cors::preflight;
use titan_policies::state::PolicyState;

/// The route of the request that a preflight request asks leave for, where its chain can give that.
pub(super) fn route_of(
    snapshot: &Snapshot,
    request: &RequestHead,
    view: route::Request<'_>,
) -> Option<Match> {
    let method = preflight(request)?;
    let found = snapshot.routes.find(&route::Request { method, ..view }).ok()?;
    snapshot.chains.of(Some(found.route)).responds_to_preflight().then_some(found)
}

/// The response to a preflight request for what no route takes.
pub(super) fn for_no_route(
    snapshot: &Snapshot,
    request: &RequestHead,
    view: &route::Request<'_>,
    state: &mut PolicyState,
) -> Option<BufferedResponse> {
    let any_under = |departs: &dyn Fn(usize) -> bool| snapshot.routes.any_under(view, departs);
    snapshot.chains.respond_unrouted_preflight(request, state, any_under)
}
