//! Upstreams that follow feeds.

use crate::endpoint::ResolvedEndpoint;
use crate::feeds::{Feed, Feeds, Follower};
use crate::members::Upstream;
use crate::places::{tell_change, within_bound};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use titan_config::EndpointAddress;

/// Has `upstream` follow the feeds that its endpoints name, if any do. From then on it has what they have told.
pub fn follow(upstream: &Arc<Upstream>, feeds: &Feeds) {
    let named = upstream.config().endpoints.iter().filter_map(|it| match &it.address {
        EndpointAddress::Feed(name) => Some(feeds.feed(name)),
        _ => None,
    });
    let named: Vec<Arc<Feed>> = named.collect();
    if named.is_empty() {
        return;
    }
    let follower: Weak<Upstream> = Arc::downgrade(upstream);
    named.iter().for_each(|feed| feed.follow(follower.clone()));
    *lock(&upstream.feeds) = named;
    upstream.take_fed();
}

fn lock(feeds: &Mutex<Vec<Arc<Feed>>>) -> MutexGuard<'_, Vec<Arc<Feed>>> {
    feeds.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Follower for Upstream {
    fn take_fed(&self) {
        // Until the end: of several that tell at the same moment, each finds what the others have told.
        let feeds = lock(&self.feeds);
        let before = self.members();
        let mut told = feeds.iter().map(|feed| feed.endpoints());
        let places = self.config().endpoints.iter().map(|endpoint| match endpoint.address {
            EndpointAddress::Feed(_) => match told.next().flatten() {
                Some(told) => told.iter().map(|it| it.place(endpoint)).collect(),
                // Nobody has told anything yet: what it had under the last configuration stays.
                None => before.found_for(&endpoint.address.to_string()),
            },
            _ => ResolvedEndpoint::fixed(endpoint).into_iter().collect(),
        });
        let places = places.collect();
        self.set_places(within_bound(self, places));
        tell_change(self, &before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Address;
    use crate::feeds::{FedEndpoint, MAX_FED};
    use crate::groups::DrainedBy;
    use std::net::SocketAddr;
    use std::num::NonZeroU16;
    use titan_config::Config;
    use titan_io::registry::Registry;

    fn fed(address: &str) -> FedEndpoint {
        FedEndpoint {
            address: address.parse().unwrap(),
            weight: NonZeroU16::MIN,
            is_remote: false,
            is_draining: false,
        }
    }

    /// The upstream with these endpoints, as a configuration would have it.
    fn upstream(endpoints: &str, registry: &Registry) -> Arc<Upstream> {
        let text = format!(
            "{{ listeners: [':0'], routes: [{{ upstream: u }}], upstreams: {{ u: {endpoints} }} }}"
        );
        let config = Config::parse("test", &text).unwrap_or_else(|report| panic!("{report}"));
        let upstream = Upstream::of(&config.upstreams[0], &config.resolver, None, (registry, 1));
        follow(&upstream, &Feeds::of(registry));
        upstream.take_effect();
        upstream
    }

    fn addresses(upstream: &Upstream) -> Vec<String> {
        upstream.members().endpoints.iter().map(|it| it.text.to_string()).collect()
    }

    #[test]
    fn members_are_what_was_told_last() {
        let registry = Registry::default();
        let feed = Feeds::of(&registry).feed("a/b");
        let upstream = upstream("['feed:a/b', '192.0.2.9:80']", &registry);
        assert_eq!(addresses(&upstream), ["192.0.2.9:80"]);
        feed.publish(vec![fed("192.0.2.2:80"), fed("192.0.2.1:80"), fed("192.0.2.2:80")]);
        assert_eq!(addresses(&upstream), ["192.0.2.1:80", "192.0.2.2:80", "192.0.2.9:80"]);
        let kept = upstream.members().endpoints[1].id;
        feed.publish(vec![fed("192.0.2.2:80")]);
        assert_eq!(addresses(&upstream), ["192.0.2.2:80", "192.0.2.9:80"]);
        assert_eq!(upstream.members().endpoints[0].id, kept, "it stays the endpoint that it is");
        feed.publish(Vec::new());
        assert_eq!(addresses(&upstream), ["192.0.2.9:80"]);
    }

    #[test]
    fn each_feed_is_its_own_and_is_followed_from_its_last_word_on() {
        let registry = Registry::default();
        let feeds = Feeds::of(&registry);
        let [one, other] = ["one", "other"].map(|name| feeds.feed(name));
        one.publish(vec![fed("192.0.2.1:80")]);
        other.publish(vec![fed("192.0.2.2:80")]);
        let before = upstream("['feed:one']", &registry);
        assert_eq!(addresses(&before), ["192.0.2.1:80"]);
        // Another configuration of the same upstream.
        let after = upstream("{ endpoints: ['feed:other', 'feed:one'], max_idle: 1 }", &registry);
        assert_eq!(addresses(&after), ["192.0.2.2:80", "192.0.2.1:80"]);
        one.publish(Vec::new());
        assert_eq!(addresses(&after), ["192.0.2.2:80"]);
        assert_eq!(addresses(&before), [""; 0]);
    }

    #[test]
    fn what_nobody_tells_of_any_more_is_kept() {
        let registry = Registry::default();
        let feed = Feeds::of(&registry).feed("one");
        feed.publish(vec![fed("192.0.2.1:80")]);
        let upstream = upstream("['feed:one']", &registry);
        drop(feed);
        assert_eq!(addresses(&upstream), ["192.0.2.1:80"]);
        let again = Feeds::of(&registry).feed("one");
        again.publish(vec![fed("192.0.2.2:80")]);
        assert_eq!(addresses(&upstream), ["192.0.2.2:80"]);
    }

    #[test]
    fn an_endpoint_has_the_place_that_is_told() {
        let registry = Registry::default();
        let upstream = upstream("[{ address: 'feed:one', priority: 3, weight: 7 }]", &registry);
        let weight = NonZeroU16::new(5).unwrap();
        let ending = FedEndpoint { weight, is_remote: true, is_draining: true, ..fed("[::1]:80") };
        Feeds::of(&registry).feed("one").publish(vec![ending, fed("192.0.2.1:80")]);
        let members = upstream.members();
        let [near, far] = &members.places[..] else { panic!("{:?}", members.places) };
        assert_eq!(near.placement.drained_by, None);
        assert_eq!((near.placement.rank.priority, near.placement.rank.is_remote), (3, false));
        assert_eq!(far.placement.drained_by, Some(DrainedBy::Feed));
        assert_eq!((far.placement.weight, far.placement.rank.is_remote), (weight, true));
        assert_eq!((&*far.host, &*far.source), ("[::1]:80", "feed:one"));
    }

    #[test]
    fn there_are_at_most_so_many() {
        let registry = Registry::default();
        let upstream = upstream("['feed:one']", &registry);
        let count = u32::try_from(MAX_FED).unwrap() + 2;
        let all = (0..count).map(|number| FedEndpoint {
            address: SocketAddr::new(std::net::Ipv4Addr::from(number + (10 << 24)).into(), 80),
            ..fed("192.0.2.1:80")
        });
        assert_eq!(Feeds::of(&registry).feed("one").publish(all.collect()), 2);
        assert_eq!(upstream.members().endpoints.len(), MAX_FED);
        let first = Address::Ip("10.0.0.0:80".parse().unwrap());
        assert_eq!(upstream.members().endpoints[0].address, first);
    }
}
