//! Who is ejected, and who is not, whatever happens.

use super::*;
use proptest::prelude::*;
use titan_config::Config;

/// A second, in which the window moves by one part.
const PART: Duration = Duration::from_secs(1);

fn settings(text: &str) -> Ejection {
    let text = format!(
        "listeners: [':0']\nroutes: [{{upstream: a}}]\n\
         upstreams: {{a: {{endpoints: ['127.0.0.1:1'], ejection: {{{text}}}}}}}"
    );
    let config = Config::parse("test", &text).unwrap_or_else(|report| panic!("{report}"));
    config.upstreams[0].ejection.clone().unwrap()
}

/// Endpoints, what was counted of each, and what was decided.
struct Group {
    settings: Ejection,
    records: Vec<Record>,
    counts: Vec<Counts>,
    in_a_row: Vec<(u32, u32)>,
    usable: Vec<bool>,
    rests: Vec<bool>,
    now: Duration,
}

impl Group {
    fn new(settings: Ejection, count: usize) -> Group {
        let records = (0..count).map(|_| Record::default()).collect();
        let (counts, in_a_row) = (vec![Counts::default(); count], vec![(0, 0); count]);
        let now = Duration::from_secs(1000);
        let (usable, rests) = (vec![true; count], vec![false; count]);
        Group { settings, records, counts, in_a_row, usable, rests, now }
    }

    /// So much happens to each, in one part of the window.
    fn passes(&mut self, each: &[(u64, u64, u64)]) -> Vec<(usize, Change)> {
        for (counts, (requests, failures, micros)) in self.counts.iter_mut().zip(each) {
            let (requests, failures, timed) = (*requests, *failures, requests - failures);
            *counts = *counts + Counts { requests, failures, timed, micros: timed * micros };
        }
        self.now += PART;
        self.judged()
    }

    fn judged(&mut self) -> Vec<(usize, Change)> {
        let Group { settings, records, counts, in_a_row, usable, rests, now } = self;
        let observed = records.iter_mut().enumerate().map(|(place, record)| Observed {
            record,
            counts: counts[place],
            in_a_row: in_a_row[place],
            is_usable: usable[place],
            rests: rests[place],
        });
        judge(Some(settings), &mut observed.collect::<Vec<_>>(), *now)
    }

    fn ejected(&self) -> Vec<usize> {
        (0..self.records.len()).filter(|place| self.records[*place].ejected().is_some()).collect()
    }
}

/// Nobody looks at endpoints that get no requests. What comes after that counts from the first request on.
#[test]
fn the_first_requests_after_a_rest_count() {
    for looks in [1, 20] {
        let mut group = Group::new(settings("failure_share: 20%, min_requests: 10"), 2);
        (0..looks).for_each(|_| assert_eq!(group.passes(&[(9, 0, 1), (9, 0, 1)]), []));
        (0..20).for_each(|_| assert_eq!(group.passes(&[(0, 0, 0); 2]), []));
        let still = |(record, counts): (&Record, &Counts)| record.is_still(*counts);
        assert!(group.records.iter().zip(&group.counts).all(still));
        group.now += PART * 1_000;
        let now = group.now;
        group.records.iter_mut().for_each(|record| record.resume(now));
        group.passes(&[(10, 10, 1), (10, 0, 1)]);
        assert_eq!(group.ejected(), [0]);
        assert!(!group.records[0].is_still(group.counts[0]), "its ejection ends");
        assert!(!group.records[1].is_still(group.counts[1]), "its window moves");
    }
}

#[test]
fn a_share_counts_only_where_the_others_fare_better() {
    let mut group = Group::new(settings("failure_share: 20%, min_requests: 10"), 3);
    group.passes(&[(0, 0, 0); 3]);
    assert_eq!(group.passes(&[(10, 3, 1), (10, 3, 1), (10, 3, 1)]), [], "it fails everywhere");
    group.passes(&[(90, 30, 1), (90, 3, 1), (90, 3, 1)]);
    assert_eq!(group.ejected(), [0]);
    let why = group.records[0].ejected().unwrap().why;
    assert_eq!(why.to_string(), "33 of 100 requests failed");
}

#[test]
fn what_came_before_the_first_look_counts_of_a_new_endpoint_only() {
    for (is_new, expected) in [(true, vec![0]), (false, vec![])] {
        let mut group = Group::new(settings("failure_share: 50%, min_requests: 8"), 2);
        group.records.iter_mut().filter(|_| is_new).for_each(|it| it.begin(group.now));
        group.passes(&[(8, 4, 1), (8, 0, 1)]);
        assert_eq!(group.ejected(), expected, "{is_new}");
    }
}

#[test]
fn the_window_forgets() {
    let mut group = Group::new(settings("failure_share: 50%, min_requests: 10, window: 10s"), 2);
    group.passes(&[(0, 0, 0); 2]);
    // Nine bad ones, which are too few, and then none for the length of the window.
    assert_eq!(group.passes(&[(9, 9, 1), (9, 0, 1)]), []);
    (0..10).for_each(|_| assert_eq!(group.passes(&[(0, 0, 0); 2]), []));
    assert_eq!(group.passes(&[(9, 9, 1), (9, 0, 1)]), []);
}

#[test]
fn a_window_is_as_long_as_it_says_however_seldom_it_is_looked_at() {
    let mut group = Group::new(settings("failure_share: 50%, min_requests: 10, window: 4s"), 2);
    group.passes(&[(0, 0, 0); 2]);
    // A part of the window is 400 ms, and a judgement comes each second.
    (0..10).for_each(|_| assert_eq!(group.passes(&[(100, 0, 1); 2]), []));
    (0..3).for_each(|_| drop(group.passes(&[(100, 60, 1), (100, 0, 1)])));
    assert_eq!(group.ejected(), [0]);
}

// field: ejection.slower_than_others
#[test]
fn what_is_slow_for_its_kind_is_ejected() {
    let mut group = Group::new(settings("slower_than_others: 3, min_requests: 10"), 3);
    group.passes(&[(0, 0, 0); 3]);
    assert_eq!(group.passes(&[(10, 0, 299), (10, 0, 100), (10, 0, 100)]), []);
    group.passes(&[(10, 0, 310), (10, 0, 100), (10, 0, 100)]);
    let why = group.records[0].ejected().unwrap().why;
    assert_eq!(why.to_string(), "its responses take 304.0µs, those of the others 100.0µs");
}

// field: ejection.max_time
#[test]
fn each_time_takes_longer_until_it_has_fared_well_for_long() {
    let text = "consecutive_failures: 2, failure_share: off, time: 10s, max_time: 25s";
    let mut group = Group::new(settings(text), 2);
    for seconds in [10, 20, 25, 25] {
        group.in_a_row[0] = (2, 0);
        let start = group.now;
        let until = start + PART * seconds;
        let ejected = Ejected { why: Why::Failures(2), since: start, until };
        assert_eq!(group.judged(), [(0, Change::Ejects(ejected))]);
        group.in_a_row[0] = (0, 0);
        group.now = start + PART * seconds - Duration::from_millis(1);
        assert_eq!(group.judged(), []);
        group.now += Duration::from_millis(1);
        assert_eq!(group.judged(), [(0, Change::Returns)]);
    }
    group.now += PART * 25;
    assert_eq!(group.judged(), []);
    group.in_a_row[0] = (2, 0);
    let (since, until) = (group.now, group.now + PART * 10);
    let ejected = Ejected { why: Why::Failures(2), since, until };
    assert_eq!(group.judged(), [(0, Change::Ejects(ejected))]);
}

/// Its failures come at once, which is no measure of speed.
#[test]
fn what_fails_makes_nobody_look_slow() {
    for text in
        ["slower_than_others: 3, min_requests: 10, failure_share: off", "slower_than_others: 3"]
    {
        let mut group = Group::new(settings(text), 2);
        group.passes(&[(0, 0, 0); 2]);
        // The first one responds after 30 ms, the other refuses.
        group.in_a_row[1] = (5, 0);
        group.passes(&[(200, 0, 30_000), (200, 200, 0)]);
        assert_eq!(group.ejected(), [1], "{text}");
        // Some of its responses were fast, but too few to compare with.
        let mut group = Group::new(settings(text), 2);
        group.passes(&[(0, 0, 0); 2]);
        assert_eq!(group.passes(&[(200, 0, 30_000), (5, 0, 10)]), [], "{text}");
    }
}

/// Else the one that only fares badly of late would go, and the one that always fails would be the last, which stays.
#[test]
fn what_fails_in_a_row_is_ejected_before_what_fails_now_and_then() {
    let mut group = Group::new(settings("slower_than_others: 3, min_requests: 10"), 2);
    group.passes(&[(0, 0, 0); 2]);
    group.passes(&[(10, 0, 100), (10, 0, 1)]);
    assert_eq!(group.ejected(), [0]);
    let mut group = Group::new(settings("slower_than_others: 3, min_requests: 10"), 2);
    group.passes(&[(0, 0, 0); 2]);
    group.in_a_row[1] = (5, 0);
    group.passes(&[(10, 0, 100), (10, 0, 1)]);
    assert_eq!(group.ejected(), [1]);
}

#[test]
fn what_its_breaker_keeps_from_requests_is_not_what_is_left() {
    let mut group = Group::new(settings("consecutive_failures: 2"), 2);
    (group.in_a_row[1], group.rests[0]) = ((2, 0), true);
    assert_eq!(group.judged(), []);
    group.rests[0] = false;
    group.judged();
    assert_eq!(group.ejected(), [1]);
}

#[test]
fn the_first_that_was_ejected_returns_when_the_last_one_fails() {
    let mut group = Group::new(settings("consecutive_failures: 2, failure_share: off"), 3);
    (group.usable[2], group.in_a_row[0]) = (false, (2, 0));
    group.judged();
    assert_eq!(group.ejected(), [0]);
    group.in_a_row = vec![(0, 0), (2, 0), (2, 0)];
    group.now += PART - Duration::from_millis(1);
    assert_eq!(group.judged(), [], "not so soon");
    group.now += Duration::from_millis(1);
    assert_eq!(group.judged(), [(0, Change::ReturnsEarly)]);
    assert_eq!(group.ejected(), [0; 0], "each has another try");
    let ejected = |place| (place, Why::Failures(2));
    let why = |changes: Vec<(usize, Change)>| match changes[..] {
        [(place, Change::Ejects(Ejected { why, .. }))] => (place, why),
        _ => panic!("{changes:?}"),
    };
    assert_eq!(why(group.judged()), ejected(1));
    // Where both are down they take turns.
    group.in_a_row[0] = (2, 0);
    group.now += PART;
    assert_eq!(group.judged(), [(1, Change::ReturnsEarly)]);
    group.in_a_row[1] = (0, 0);
    assert_eq!(why(group.judged()), ejected(0));
}

/// It fails in a row and by its share: that is one reason to bring the other one back, and none to be ejected at the same moment.
#[test]
fn what_is_suspected_for_two_reasons_is_judged_once() {
    let text = "consecutive_failures: 2, failure_share: 50%, min_requests: 4";
    let mut group = Group::new(settings(text), 2);
    group.passes(&[(0, 0, 0); 2]);
    group.in_a_row[0] = (2, 0);
    group.passes(&[(40, 2, 1), (40, 0, 1)]);
    assert_eq!(group.ejected(), [0]);
    group.in_a_row = vec![(0, 0), (2, 0)];
    group.now += PART;
    assert_eq!(group.passes(&[(0, 0, 0), (40, 40, 1)]), [(0, Change::ReturnsEarly)]);
}

// field: ejection.time
#[test]
fn an_outage_of_all_lasts_no_longer_by_their_ejections() {
    let text = "consecutive_failures: 2, failure_share: off, time: 10s, max_time: 300s";
    for of_their_own in [0, 1] {
        let mut group = Group::new(settings(text), 3);
        // One has failed alone before.
        group.in_a_row[0] = (2 * of_their_own, 0);
        group.judged();
        group.in_a_row = vec![(2, 0); 3];
        for _ in 0..300 {
            group.now += PART;
            group.judged();
        }
        group.in_a_row = vec![(0, 0); 3];
        group.now += Duration::from_secs(10) * (1 + of_their_own);
        group.judged();
        assert_eq!(group.ejected(), [0; 0], "with {of_their_own} before");
    }
}

// field: ejection.max_share
#[test]
fn no_more_than_a_share_is_ejected() {
    for (share, most) in [("1%", 1), ("50%", 2), ("75%", 3), ("100%", 4)] {
        let text = format!("consecutive_failures: 1, max_share: {share}");
        let mut group = Group::new(settings(&text), 5);
        group.in_a_row = vec![(1, 0); 5];
        group.judged();
        assert_eq!(group.ejected().len(), most, "{share}");
    }
}

proptest! {
    /// Whatever happens: one that can take requests is left, no more than the share are ejected, and each change is one.
    #[test]
    fn an_outage_is_never_made_worse(
        count in 1_usize..7,
        share in 1_u64..=100,
        steps in prop::collection::vec(prop::collection::vec((0_u64..40, 0_u64..40, 0_u32..9, any::<bool>(), any::<bool>()), 7), 1..40),
    ) {
        let text = format!("consecutive_failures: 5, min_requests: 10, max_share: {share}%, time: 2s, max_time: 5s");
        let mut group = Group::new(settings(&text), count);
        for step in steps {
            for (place, (_, _, row, usable, rests)) in step.iter().take(count).enumerate() {
                (group.in_a_row[place], group.usable[place]) = ((*row, *row), *usable);
                group.rests[place] = *rests;
            }
            let each: Vec<_> = step.iter().map(|(all, bad, ..)| (*all, *bad.min(all), 1)).collect();
            let before = group.ejected();
            let changes = group.passes(&each);
            let after = group.ejected();
            let ejects = |change: &(usize, Change)| matches!(change.1, Change::Ejects(_));
            for change in &changes {
                let had = before.contains(&change.0);
                prop_assert!(ejects(change) != had, "{change:?} of {before:?}");
            }
            if changes.iter().any(ejects) {
                let most = (share * count as u64 / 100).max(1);
                prop_assert!(after.len() as u64 <= most, "{after:?} of {count} at {share}%");
                let left = |place: &usize| {
                    group.usable[*place] && !group.rests[*place] && !after.contains(place)
                };
                prop_assert!((0..count).any(|place| left(&place)), "{after:?}");
            }
        }
    }
}
