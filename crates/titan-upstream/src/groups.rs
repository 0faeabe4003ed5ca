//! The endpoints of an upstream in groups, of which the first that can take requests does.
//!
//! A group is what has the same priority and is equally near. While enough of its weight can take requests it takes all that
//! comes to it; with less it takes in proportion less, and the next group takes the rest.

use crate::balance::{Balancer, EndpointState, KeySource, PickContext, Standing, Turn, mix};
use std::num::NonZeroU16;
use std::sync::Arc;
use titan_config::{Balance, Percent};

/// Which place an endpoint has among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Its share of the requests, beside those of the others of its group.
    pub weight: NonZeroU16,
    /// Its group.
    pub rank: Rank,
    /// What has it get no more requests than those that are tied to it, if anything does.
    pub drained_by: Option<DrainedBy>,
}

/// Where it says that an endpoint drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainedBy {
    /// In the configuration.
    File,
    /// In its SRV record.
    Record,
    /// In what tells of it.
    Feed,
}

/// What an SRV record says of the place of its server (RFC 2782).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The smaller, the earlier.
    pub priority: u16,
    /// Its share beside the others with that priority.
    pub weight: NonZeroU16,
    /// Whether it has none, while others with that priority have.
    pub is_draining: bool,
}

/// Which group comes before which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank {
    /// The smaller, the earlier.
    pub priority: u8,
    /// Whether it is in another zone than the gateway: later than those that are not.
    pub is_remote: bool,
    /// The priority of its SRV record, where it has one.
    pub record: u16,
}

/// All groups of an upstream, in their order.
pub struct Groups {
    groups: Box<[Group]>,
    spill_below: Percent,
}

/// Endpoints of the same rank.
struct Group {
    /// Their places among the members, with their weights.
    members: Vec<(usize, u64)>,
    balancer: Balancer,
}

/// Which endpoints may be chosen at the moment, and which share of the requests each group gets.
pub struct Selection {
    /// By the place among the members; `None` where all are open.
    standings: Option<Box<[Standing]>>,
    /// Up to which of [`WHOLE`] parts each group takes requests; nothing where the first one takes all.
    ends: Box<[u64]>,
    /// The same for the first group and the keys whose own endpoint there takes nothing; the others stay. `None` where some of those that
    /// are open only have to try it.
    homeless_end: Option<u64>,
}

/// The parts that requests are divided into.
const WHOLE: u64 = 1 << 32;

impl Placement {
    /// That of an endpoint of a configuration.
    pub fn of(endpoint: &titan_config::Endpoint) -> Placement {
        let titan_config::Endpoint { weight, priority, is_remote, is_draining, .. } = *endpoint;
        let drained_by = is_draining.then_some(DrainedBy::File);
        Placement { weight, rank: Rank { priority, is_remote, record: 0 }, drained_by }
    }

    /// The same for a server that this record stands for.
    pub fn of_record(self, Record { priority, weight, is_draining }: Record) -> Placement {
        let rank = Rank { record: priority, ..self.rank };
        let drained_by = self.drained_by.or(is_draining.then_some(DrainedBy::Record));
        Placement { weight, rank, drained_by }
    }

    /// Whether it drains, as far as the configuration and discovery say.
    pub fn drains(&self) -> bool {
        self.drained_by.is_some()
    }
}

impl Groups {
    /// The groups of endpoints, which are named by their places. The turns of each group go on at that of its rank.
    pub fn new<'e>(
        (balance, spill_below): (&Balance, Percent),
        endpoints: impl Iterator<Item = (&'e Arc<EndpointState>, Placement)>,
        turn: impl Fn(Rank) -> Turn,
    ) -> Groups {
        let mut all: Vec<_> = endpoints.enumerate().collect();
        all.sort_by_key(|(place, (_, placement))| (placement.rank, *place));
        let groups = all.chunk_by(|(_, one), (_, other)| one.1.rank == other.1.rank);
        let groups = groups.map(|group| {
            let weight = |placement: &Placement| placement.weight;
            let members = group.iter().map(|(place, (_, it))| (*place, weight(it).get().into()));
            let rank = group.first().map(|(_, (_, placement))| placement.rank).unwrap_or_default();
            let balanced = group
                .iter()
                .map(|(place, (state, placement))| (*place, Arc::clone(state), weight(placement)));
            let balancer = Balancer::new(balance, turn(rank), balanced);
            Group { members: members.collect(), balancer }
        });
        Groups { groups: groups.collect(), spill_below }
    }

    /// What of a request the choice depends on, for the policies that want the same endpoint again.
    pub fn key(&self, source: &KeySource<'_>) -> Option<u64> {
        self.groups.first()?.balancer.key(source)
    }

    /// Writes the value of the `Set-Cookie` field that is due after the endpoint at `chosen` was taken for a request with
    /// that key.
    pub fn set_cookie(&self, key: Option<u64>, chosen: usize, out: &mut Vec<u8>) -> bool {
        self.groups.iter().any(|group| group.balancer.set_cookie(key, chosen, out))
    }

    /// Which of the endpoints may be chosen, if `standings` tells what each may be sent. What a group takes depends on how many
    /// of those that are there for requests can take them, as with [`Groups::usable_share`]. Those that have to try it are open
    /// as well, but no more is sent to their group for that; and what drains moves nothing to a backup while the others of its
    /// group are well.
    pub fn select(
        &self,
        standings: Vec<Standing>,
        is_usable: impl Fn(usize) -> Option<bool>,
    ) -> Selection {
        let is_open = |place: usize| standings[place] == Standing::Open;
        let ends = self.ends(&is_usable);
        let has_to_try = |place: usize| is_open(place) && is_usable(place) != Some(true);
        let all_usable = !(0..standings.len()).any(has_to_try);
        let homeless_end = || {
            let (first, end) = (self.groups.first()?, *ends.first()?);
            // What stays at home is no more than the group takes. Keys have their home at what drains as well.
            let (open, all) = first.weights(|place| Some(is_open(place)));
            let parts = |count: u64, weight: u64| u128::from(count) * u128::from(weight);
            let left = parts(WHOLE, all).saturating_sub(parts(WHOLE, open));
            let more = parts(end, all).saturating_sub(parts(WHOLE, open));
            u64::try_from((more * u128::from(WHOLE)).checked_div(left)?).ok()
        };
        let homeless_end = all_usable.then(homeless_end).flatten();
        let all_open = standings.iter().all(|standing| *standing == Standing::Open);
        Selection { standings: (!all_open).then(|| standings.into()), ends, homeless_end }
    }

    /// The place of the endpoint to take; `None` when each is excluded, or none may be taken.
    pub fn choose(&self, selection: &Selection, draw: &PickContext<'_>) -> Option<usize> {
        let draw = &PickContext { standings: selection.standings.as_deref(), ..*draw };
        if let [only] = &self.groups[..] {
            return only.balancer.choose(draw);
        }
        let tied = self.tied(draw);
        let first = || self.groups.get(self.group(selection, draw))?.balancer.choose(draw);
        let any = || self.groups.iter().find_map(|group| group.balancer.choose(draw));
        tied.or_else(first).or_else(any)
    }

    /// The group that takes a request. One with a key goes to the same each time; what the first group cannot take are, as far as they
    /// are enough, the keys that have lost their endpoint anyway.
    fn group(&self, selection: &Selection, draw: &PickContext<'_>) -> usize {
        if selection.ends.is_empty() {
            return 0;
        }
        let at_home = self.groups.first().and_then(|first| first.balancer.takes_at_home(draw));
        match (at_home, selection.homeless_end, draw.key) {
            (Some(true), Some(_), _) => 0,
            (Some(false), Some(end), Some(key)) => selection.group_of_homeless(end, key),
            (Some(_), None, Some(key)) => selection.group(key),
            _ => selection.group(draw.random),
        }
    }

    /// The endpoint that a request is tied to, if it may be taken.
    pub fn tied(&self, draw: &PickContext<'_>) -> Option<usize> {
        self.groups.iter().find_map(|group| group.balancer.tied(draw))
    }

    /// The shares of the groups that can take requests, added up, in hundredths of a percent: a backup all of which can makes up for
    /// a group none of which can. `None` of what `is_usable` says is no part of its group at the moment.
    pub fn usable_share(&self, is_usable: impl Fn(usize) -> Option<bool>) -> u64 {
        let share = |group: &Group| {
            let members = group.members.iter().filter_map(|(place, _)| is_usable(*place));
            let (usable, all) = members
                .fold((0, 0), |(usable, all), is_usable| (usable + u64::from(is_usable), all + 1));
            (usable * 10_000).checked_div(all).unwrap_or_default()
        };
        self.groups.iter().map(share).sum()
    }

    /// Up to which part each group takes requests.
    fn ends(&self, is_usable: impl Fn(usize) -> Option<bool>) -> Box<[u64]> {
        let capacity = |group: &Group| {
            let (usable, all) = group.weights(&is_usable);
            // The share that is usable, of the one that would be enough. Where nothing counts, nothing is.
            let enough = u64::from(self.spill_below.as_hundredths()) * all;
            let parts = u128::from(usable) * u128::from(WHOLE) * 10_000;
            let parts = parts.checked_div(enough.into()).unwrap_or_default();
            u64::try_from(parts).unwrap_or(WHOLE).min(WHOLE)
        };
        let capacities: Vec<u64> = self.groups.iter().map(capacity).collect();
        if capacities.first().is_none_or(|first| *first == WHOLE) {
            return Box::default();
        }
        let mut end = 0;
        let ends: Vec<u64> = capacities
            .into_iter()
            .map(|capacity| {
                end = WHOLE.min(end + capacity);
                end
            })
            .collect();
        // Where all of them together are not enough, each takes its part of what there is.
        let whole = u128::from(end.max(1));
        let stretched = |end: u64| u128::from(end) * u128::from(WHOLE) / whole;
        ends.into_iter().map(|end| u64::try_from(stretched(end)).unwrap_or(WHOLE)).collect()
    }
}

impl Group {
    /// The weights of its members in sum: of those that are usable, and of those that count.
    fn weights(&self, is_usable: impl Fn(usize) -> Option<bool>) -> (u64, u64) {
        let counted = self.members.iter().filter_map(|(place, weight)| {
            is_usable(*place).map(|is_usable| (if is_usable { *weight } else { 0 }, *weight))
        });
        counted.fold((0, 0), |sum, (usable, all)| (sum.0 + usable, sum.1 + all))
    }
}

impl Selection {
    /// Whether any request may go to the endpoint at that place.
    pub fn is_open(&self, place: usize) -> bool {
        self.standings.as_ref().is_none_or(|standings| standings[place] == Standing::Open)
    }

    /// The group that takes a request, by chance or by its key.
    fn group(&self, number: u64) -> usize {
        self.group_at(part(number))
    }

    /// The group that takes a key whose own endpoint, in the first group, takes nothing; the first one takes so many of them.
    fn group_of_homeless(&self, end: u64, key: u64) -> usize {
        let Some(first) = self.ends.first().filter(|_| part(key) >= end) else { return 0 };
        // What is left of them, spread over what the others take.
        let rest = u128::from(part(key) - end) * u128::from(WHOLE - first);
        let rest = rest.checked_div((WHOLE - end).into()).and_then(|it| u64::try_from(it).ok());
        self.group_at(first + rest.unwrap_or_default())
    }

    fn group_at(&self, part: u64) -> usize {
        self.ends.partition_point(|end| *end <= part)
    }
}

/// One of [`WHOLE`] parts. The same number chooses within the group.
fn part(number: u64) -> u64 {
    mix(!number) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;
    use titan_config::Config;

    const MANY: u64 = 20_000;

    /// Endpoints by priority and weight, under a balance policy.
    fn groups(balance: &str, endpoints: &[(u8, u16)]) -> Groups {
        let text = format!(
            "listeners: [':0']\nroutes: [{{upstream: a}}]\n\
             upstreams: {{a: {{endpoints: ['127.0.0.1:1'], balance: {balance}}}}}"
        );
        let config = Config::parse("test", &text).unwrap_or_else(|report| panic!("{report}"));
        let upstream = &config.upstreams[0];
        let states: Vec<_> =
            (0..endpoints.len()).map(|at| EndpointState::new(&format!("10.0.0.{at}:80"))).collect();
        let placements = endpoints.iter().map(|&(priority, weight)| {
            let (weight, rank) =
                (NonZeroU16::new(weight).unwrap(), Rank { priority, is_remote: false, record: 0 });
            Placement { weight, rank, drained_by: None }
        });
        let settings = (&upstream.balance, upstream.spill_below);
        Groups::new(settings, states.iter().zip(placements), |_| Turn::default())
    }

    fn draw(number: u64) -> PickContext<'static> {
        let (key, random) = (Some(mix(number)), mix(mix(number)));
        PickContext { key, random, now: Duration::from_secs(1), excluded: &[], standings: None }
    }

    /// What may be chosen while those at the places given fail.
    fn without(groups: &Groups, count: usize, failing: &[usize]) -> Selection {
        let fails = |place| failing.contains(&place);
        let standing = |place| if fails(place) { Standing::Closed } else { Standing::Open };
        groups.select((0..count).map(standing).collect(), |place| Some(!fails(place)))
    }

    /// The share of the requests that each endpoint gets while those at the places given fail.
    fn shares(groups: &Groups, count: usize, failing: &[usize]) -> Vec<f64> {
        shares_of(groups, &without(groups, count, failing), count)
    }

    fn shares_of(groups: &Groups, selection: &Selection, count: usize) -> Vec<f64> {
        let mut counts = vec![0.0; count];
        for number in 0..MANY {
            if let Some(chosen) = groups.choose(selection, &draw(number)) {
                counts[chosen] += 1.0 / MANY as f64;
            }
        }
        counts
    }

    fn assert_shares(got: &[f64], ideal: &[f64], what: &str) {
        let near = got.iter().zip(ideal).all(|(got, ideal)| (got - ideal).abs() < 0.02);
        assert!(near && got.len() == ideal.len(), "{what}: {got:?} for {ideal:?}");
    }

    const EVERY_POLICY: &[&str] = &[
        "round_robin",
        "least_requests",
        "p2c_ewma",
        "random",
        "{consistent_hash: {header: x-user}}",
        "{sticky_cookie: {}}",
    ];

    #[test]
    fn the_first_group_takes_all_and_then_what_it_can() {
        for policy in EVERY_POLICY {
            let groups = groups(policy, &[(0, 1), (0, 1), (0, 1), (0, 1), (3, 1)]);
            let share = |failing: &[usize]| shares(&groups, 5, failing);
            assert_shares(&share(&[]), &[0.25, 0.25, 0.25, 0.25, 0.0], policy);
            // Three quarters are more than enough.
            assert_shares(&share(&[1]), &[1.0 / 3.0, 0.0, 1.0 / 3.0, 1.0 / 3.0, 0.0], policy);
            // Half of it, of 0.7 that would be enough.
            let half = 0.5 / 0.7 / 2.0;
            assert_shares(&share(&[1, 2]), &[half, 0.0, 0.0, half, 1.0 - 2.0 * half], policy);
            assert_shares(&share(&[0, 1, 2, 3]), &[0.0, 0.0, 0.0, 0.0, 1.0], policy);
            assert_shares(&share(&[0, 1, 2, 3, 4]), &[0.0; 5], policy);
        }
    }

    #[test]
    fn groups_that_are_not_enough_share_what_there_is() {
        let groups = groups("random", &[(0, 1), (0, 9), (1, 1), (1, 9)]);
        assert_shares(&shares(&groups, 4, &[1, 3]), &[0.5, 0.0, 0.5, 0.0], "a tenth of each");
        let all = shares(&groups, 4, &[1]);
        assert_shares(&all, &[1.0 / 7.0, 0.0, 0.6 / 7.0, 5.4 / 7.0], "a tenth of the first");
    }

    #[test]
    fn a_retry_goes_to_another_group_where_the_first_has_been_tried() {
        for policy in EVERY_POLICY {
            let groups = groups(policy, &[(0, 1), (1, 1), (2, 1)]);
            let selection = without(&groups, 3, &[]);
            for (excluded, next) in [(&[0][..], Some(1)), (&[0, 1], Some(2)), (&[0, 1, 2], None)] {
                let draw = PickContext { excluded, ..draw(7) };
                assert_eq!(groups.choose(&selection, &draw), next, "{policy}");
            }
        }
    }

    #[test]
    fn what_is_tied_to_an_endpoint_stays_with_it_while_it_drains() {
        let groups = groups("{sticky_cookie: {}}", &[(0, 1), (0, 1), (1, 1)]);
        let (mut cookie, mut keys) = (Vec::new(), Vec::new());
        for place in 0..3 {
            assert!(groups.set_cookie(None, place, &mut cookie));
            let id = std::str::from_utf8(&cookie).unwrap().split(['=', ';']).nth(1).unwrap();
            keys.push(u64::from_str_radix(id, 16).unwrap());
        }
        let standings = vec![Standing::Open, Standing::Draining, Standing::Open];
        let selection = groups.select(standings, |place| (place != 1).then_some(true));
        for (place, key) in keys.into_iter().enumerate() {
            let key = Some(key);
            assert_eq!(groups.choose(&selection, &PickContext { key, ..draw(1) }), Some(place));
            assert!(!groups.set_cookie(key, place, &mut cookie));
        }
        let untied = PickContext { key: None, ..draw(1) };
        assert_eq!(groups.choose(&selection, &untied), Some(0));
    }

    /// Its own keys spread over the group; a backup gets what those that fail leave, and not more.
    #[test]
    fn what_drains_is_no_part_of_what_a_group_can_take() {
        for policy in EVERY_POLICY {
            let groups = groups(policy, &[(0, 1), (0, 1), (0, 1), (0, 1), (3, 1)]);
            let share = |standings: [Standing; 5]| {
                let is_usable = |place: usize| match standings[place] {
                    Standing::Draining => None,
                    standing => Some(standing == Standing::Open),
                };
                shares_of(&groups, &groups.select(standings.into(), is_usable), 5)
            };
            let [open, drains, fails] = [Standing::Open, Standing::Draining, Standing::Closed];
            let alone = share([open, drains, drains, drains, open]);
            assert_shares(&alone, &[1.0, 0.0, 0.0, 0.0, 0.0], policy);
            let half = 0.5 / 0.7;
            let beside = share([open, fails, drains, drains, open]);
            assert_shares(&beside, &[half, 0.0, 0.0, 0.0, 1.0 - half], policy);
            let nothing = share([drains, drains, drains, drains, open]);
            assert_shares(&nothing, &[0.0, 0.0, 0.0, 0.0, 1.0], policy);
        }
    }

    /// Where each of many keys goes while those at the places given fail; the same for any chance.
    fn homes(groups: &Groups, count: usize, failing: &[usize]) -> Vec<Option<usize>> {
        let selection = without(groups, count, failing);
        let home = |number: u64| {
            let chosen =
                |random| groups.choose(&selection, &PickContext { random, ..draw(number) });
            let home = chosen(mix(number));
            assert!((0..5).all(|random| chosen(mix(random)) == home), "{number}");
            home
        };
        (0..MANY).map(home).collect()
    }

    #[test]
    fn a_key_spills_over_or_stays_and_only_as_many_move_as_must() {
        let endpoints = [(0, 1), (0, 1), (0, 1), (0, 1), (3, 1), (3, 1), (4, 1)];
        for spill_below in [70, 100] {
            let policy =
                format!("{{consistent_hash: {{header: x-user}}}}, spill_below: {spill_below}%");
            let groups = groups(&policy, &endpoints);
            let before = homes(&groups, 7, &[]);
            let mut last = before.clone();
            for failing in [&[1][..], &[1, 2], &[1, 2, 3], &[1, 2, 3, 0]] {
                let now = homes(&groups, 7, failing);
                for (home, (last, now)) in before.iter().zip(last.iter().zip(&now)) {
                    let has_lost = home.is_some_and(|home| failing.contains(&home));
                    assert!(has_lost || now == home, "one of {home:?} goes to {now:?}");
                    let is_out = last.is_some_and(|last| last >= 4);
                    assert!(!is_out || last == now, "one that was out leaves {last:?} for {now:?}");
                }
                let out = now.iter().filter(|now| now.is_some_and(|now| now >= 4)).count() as f64;
                let open = (4 - failing.len()) as f64 / 4.0;
                let wanted = 1.0 - (open * 100.0 / f64::from(spill_below)).min(1.0);
                assert!((out / MANY as f64 - wanted).abs() < 0.03, "{out} of {MANY}: {wanted}");
                last = now;
            }
        }
    }

    #[test]
    fn keys_go_where_a_group_is_left_in_a_panic() {
        let groups = groups("{consistent_hash: {header: x-user}}", &[(0, 1), (1, 1), (1, 1)]);
        let selection = groups.select(vec![Standing::Open; 3], |place| Some(place == 2));
        for number in 0..100 {
            let chosen = groups.choose(&selection, &draw(number));
            assert!(matches!(chosen, Some(1 | 2)), "{chosen:?}");
        }
    }

    proptest! {
        /// Those of an endpoint that leaves go elsewhere, and none of the others moves.
        #[test]
        fn consistent_hashing_moves_the_keys_of_what_left(count in 2_usize..9, gone in 0_usize..9) {
            let gone = gone % count;
            let groups = groups("{consistent_hash: {header: x-user}}", &vec![(0, 1); count]);
            let before = without(&groups, count, &[]);
            let after = without(&groups, count, &[gone]);
            for number in 0..500 {
                let draw = draw(number);
                let (was, is) = (groups.choose(&before, &draw), groups.choose(&after, &draw));
                // With a fraction that spills over nobody is left to take it.
                prop_assert!(was == is || was == Some(gone), "{was:?} {is:?}");
                prop_assert!(is != Some(gone));
            }
        }
    }
}
