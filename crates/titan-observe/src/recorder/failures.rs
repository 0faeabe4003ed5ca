//! Which failures are kept for longer: of each kind a few in a second, lest a flood of one pushes out all others.

use super::filter::{ended, has_failed};
use crate::record::{Recorded, Text};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use titan_http::Status;

/// What of each kind was kept in the second that runs.
#[derive(Default)]
pub(super) struct Failures {
    /// Seconds since 1970.
    second: u64,
    kept: HashMap<u64, u32>,
    hasher: RandomState,
}

/// How many of one kind are kept in a second.
const OF_ONE_KIND: u32 = 10;
/// How many kinds are told apart; any further ones are one.
const KINDS: usize = 256;
/// How many seconds before the second that runs a failure may have ended whose batch is late. What is further back tells of a clock
/// that was ahead.
const LATE: u64 = 10;

impl Failures {
    /// Whether a record is of a failure that is to be kept.
    pub(super) fn wants(&mut self, record: &Recorded<'_>) -> bool {
        if !has_failed(record.facts.caused_by, record.facts.status) {
            return false;
        }
        // By their ends, in whose order they come: timeouts have started long before what fails at once.
        let second = ended(&record.facts) / 1_000_000;
        if second > self.second || second + LATE < self.second {
            self.second = second;
            self.kept.clear();
        }
        let [route, error] = [Text::Route, Text::Error].map(|text| record.text(text));
        let status = record.facts.status.map(Status::code);
        let kind = self.hasher.hash_one((route, error, status));
        let is_known = self.kept.len() < KINDS || self.kept.contains_key(&kind);
        let count = self.kept.entry(if is_known { kind } else { 0 }).or_default();
        *count += 1;
        *count <= OF_ONE_KIND
    }
}
