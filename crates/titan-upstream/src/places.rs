//! What the addresses of an upstream stand for, as a whole: how many endpoints they may be, and what is said of a change.

use crate::endpoint::ResolvedEndpoint;
use crate::failure_log::{Cause, FailureDetail};
use crate::members::{Members, Upstream};
use titan_config::{LogArea, LogLevel};
use titan_observe::events::{Event, Field, Repeat};

/// The most endpoints of an upstream, over all its names and feeds.
const MAX_PLACES: usize = 4096;
/// Says that names and feeds stand for other endpoints than before, where they do.
pub(crate) fn tell_change(upstream: &Upstream, before: &Members) {
    let (was, is) = (before.endpoints.len(), upstream.members().endpoints.len());
    if upstream.members().places == before.places {
        return;
    }
    let what = format!("it has other endpoints: {is}, before {was}");
    let event = Event::new((LogArea::Upstream, LogLevel::Info), "endpoints_changed", what);
    let event = event.with(Field::Upstream, upstream.config().name.as_str());
    upstream.log.tell(event.once(Repeat::ByMinute));
}

/// At most [`MAX_PLACES`] of what the endpoints of an upstream stand for. Those that stand for most lose some, and a line says so.
pub(crate) fn within_bound(
    upstream: &Upstream,
    mut all: Vec<Vec<ResolvedEndpoint>>,
) -> Vec<ResolvedEndpoint> {
    let room = room(all.iter().map(Vec::len).collect());
    for (endpoint, places) in upstream.config().endpoints.iter().zip(&mut all) {
        let count = places.len();
        if count > room {
            let describe =
                || FailureDetail::of_surplus(endpoint.address.name(), (count, room), MAX_PLACES);
            upstream.failure_log.note(Cause::Name, describe);
        }
        places.truncate(room);
    }
    all.concat()
}

/// How many places each endpoint may have, if they stand for so many: as many as there are, or equally many of those that have more.
fn room(mut counts: Vec<usize>) -> usize {
    counts.sort_unstable();
    let mut left = MAX_PLACES;
    for (at, count) in counts.iter().enumerate() {
        let share = left / (counts.len() - at);
        if *count > share {
            return share;
        }
        left -= count;
    }
    MAX_PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_has_a_bounded_number_of_endpoints_whatever_its_names_stand_for() {
        let text = "{ listeners: [':0'], routes: [{ upstream: u }], \
                    upstreams: { u: ['10.0.0.1:80', 'a.test:80', 'srv:b.test', 'srv:c.test'] } }";
        let config = titan_config::Config::parse("test", text).unwrap();
        let registry = titan_io::registry::Registry::default();
        let upstream = Upstream::of(&config.upstreams[0], &config.resolver, None, (&registry, 1));
        let place = ResolvedEndpoint::fixed(&config.upstreams[0].endpoints[0]).unwrap();
        let all = |counts: [usize; 4]| counts.map(|count| vec![place.clone(); count]).to_vec();
        let told = || upstream.failure_log.take().map(|it| it.1.1.what.clone()).collect::<Vec<_>>();
        assert_eq!(within_bound(&upstream, all([1, 256, 3000, 839])).len(), MAX_PLACES);
        assert_eq!(told(), [""; 0]);
        assert_eq!(within_bound(&upstream, all([1, 256, 16_384, 3000])).len(), MAX_PLACES - 1);
        let of_b = "b.test stands for 16384 addresses, of which 1919 are used: an upstream has at most 4096 endpoints";
        assert_eq!(told(), [of_b]);
    }
}
