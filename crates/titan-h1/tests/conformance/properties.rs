//! Properties of near-valid messages: the vectors, damaged in small ways.

use crate::drive::{Setting, Verdict, verdict};
use crate::mutation::{Mutation, apply};
use crate::naive::{self, Stop};
use crate::vectors::{self, Vector};
use proptest::prelude::*;
use proptest::sample::Index;
use std::sync::LazyLock;

/// Longer inputs only cost time: what they are long for is a limit, and those can be set low.
static SEEDS: LazyLock<Vec<Vector>> = LazyLock::new(|| {
    vectors::all().into_iter().filter(|vector| vector.input.len() < 2000).collect()
});

#[derive(Debug)]
struct Case {
    setting: Setting,
    input: Vec<u8>,
    close: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    let mutations = prop::collection::vec(any::<Mutation>(), 0..5);
    (any::<Index>(), mutations, any::<bool>(), small_limits()).prop_map(
        |(index, mutations, close, tighten)| {
            let seed = index.get(&SEEDS);
            let mut setting = seed.setting;
            tighten.iter().for_each(|&(which, to)| match which % 6 {
                0 => setting.limits.head = to,
                1 => setting.limits.target = to,
                2 => setting.limits.fields = to % 8,
                3 => setting.limits.chunk_line = to % 16,
                4 => setting.limits.trailers = to,
                _ => setting.limits.body = to as u64,
            });
            Case { setting, input: apply(&seed.input, &mutations), close }
        },
    )
}

fn small_limits() -> impl Strategy<Value = Vec<(u8, usize)>> {
    prop::collection::vec((any::<u8>(), 0_usize..120), 0..2)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn splits_change_nothing(case in cases(), ends in prop::collection::vec(any::<Index>(), 1..6)) {
        let Case { setting, input, close } = case;
        let mut ends: Vec<usize> = ends.iter().map(|end| end.index(input.len() + 1)).collect();
        ends.sort_unstable();
        let byte_by_byte: Vec<usize> = (0..input.len()).collect();
        let whole = verdict(setting, &input, &[], close);
        prop_assert_eq!(&whole, &verdict(setting, &input, &ends, close));
        prop_assert_eq!(&whole, &verdict(setting, &input, &byte_by_byte, close));
    }

    #[test]
    fn the_engine_agrees_with_the_naive_parser(case in cases()) {
        let Case { setting, input, close } = case;
        let is_server = setting.response_to.is_none();
        match (verdict(setting, &input, &[], close), naive::parse(setting, &input, close)) {
            (Verdict::Accept(engine), Ok(naive)) => prop_assert_eq!(*engine, naive),
            (Verdict::Incomplete, Err(Stop::Incomplete)) => {}
            (Verdict::Reject(error), Err(Stop::Reject(status))) => {
                prop_assert!(!is_server || error.status().code() == status, "{error}: {status}");
            }
            (engine, naive) => prop_assert!(false, "{engine:?} against {naive:?}"),
        }
    }
}
