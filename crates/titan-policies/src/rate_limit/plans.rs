//! The rates of a limit for requests with and without a plan, and how responses report them.

use super::RATE_LIMIT_POLICY;
use super::limiter::{CellRate, Count, MAX_RATES};
use super::{RATE_LIMIT, seconds, written};
use crate::jwt::find;
use serde_json::{Map, Value};
use std::io::Write;
use titan_config::{Claim, Rate, RateLimit, RatePlan};
use titan_http::{BadField, Fields};

/// The plans of a limit. The first one is that of requests without any.
pub(super) struct Plans {
    claim: Option<Claim>,
    plans: Box<[Plan]>,
}

struct Plan {
    /// How the claim calls it; nothing for the first one.
    name: Box<str>,
    rates: Box<[Rate]>,
    /// The value of `RateLimit-Policy`.
    told: Box<[u8]>,
    /// The name of each rate, as both fields write it.
    names: Box<[Box<str>]>,
}

/// The rates of a plan, as the algorithm counts them.
pub(super) type Scaled = Box<[CellRate]>;

/// Longer than any value of `RateLimit`: of each rate its name, which has those of policy and plan, and two numbers.
const MAX_VALUE: usize = MAX_RATES * 256;

impl Plans {
    pub(super) fn new(policy: &str, limit: &RateLimit) -> Plans {
        let others = Plan::new("", policy, &limit.rates);
        let own = limit.plans.iter().flat_map(|plans| &plans.plans);
        let own = own.map(|RatePlan { name, rates }| {
            Plan::new(name.as_str(), &format!("{policy}:{name}"), rates)
        });
        Plans {
            claim: limit.plans.as_ref().map(|plans| plans.claim.clone()),
            plans: std::iter::once(others).chain(own).collect(),
        }
    }

    /// The rates of each plan.
    pub(super) fn rates(&self) -> Box<[Scaled]> {
        self.plans.iter().map(|plan| plan.rates.iter().map(CellRate::of).collect()).collect()
    }

    /// The name of each plan, in the same order; that of the first one is empty.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.plans.iter().map(|plan| &*plan.name)
    }

    /// The place of the plan that a token names.
    pub(super) fn of(&self, claims: Option<&Map<String, Value>>) -> usize {
        let value = self.claim.as_ref().and_then(|claim| find(claims?, claim));
        let has = |name: &str| match value {
            Some(Value::String(text)) => text == name,
            Some(Value::Array(items)) => items.iter().any(|item| item.as_str() == Some(name)),
            _ => false,
        };
        let own = value.and_then(|_| self.plans.iter().skip(1).position(|plan| has(&plan.name)));
        own.map_or(0, |place| place + 1)
    }

    /// The rates of the plan at that place, in words, and its name if it has one.
    pub(super) fn words(&self, place: usize) -> (impl Iterator<Item = String>, Option<&str>) {
        let Plan { name, rates, .. } = &self.plans[place];
        let rates = rates.iter().map(|rate| format!("{rate} with bursts up to {}", rate.burst));
        (rates, Some(&**name).filter(|name| !name.is_empty()))
    }

    /// Writes what is left of the rates of its plan.
    pub(super) fn write_fields(
        &self,
        place: usize,
        counts: &[Count; MAX_RATES],
        fields: &mut Fields,
    ) -> Result<(), BadField> {
        let Plan { told, names, .. } = &self.plans[place];
        if names.is_empty() {
            return Ok(());
        }
        fields.append_named(RATE_LIMIT_POLICY, told)?;
        let mut text = [0; MAX_VALUE];
        fields.append_named(RATE_LIMIT, written(&mut text, |out| write_counts(names, counts, out)))
    }
}

impl Plan {
    fn new(name: &str, policy: &str, rates: &[Rate]) -> Plan {
        let name_of = |rate: &Rate| match rates.len() {
            1 => format!("\"{policy}\"").into(),
            _ => format!("\"{policy}:{rate}\"").into(),
        };
        let names: Box<[Box<str>]> = rates.iter().map(name_of).collect();
        let told = rates.iter().zip(&names);
        let told =
            told.map(|(rate, name)| format!("{name};q={};w={}", rate.count, rate.window.as_secs()));
        Plan {
            name: name.into(),
            rates: rates.into(),
            told: told.collect::<Vec<_>>().join(", ").into_bytes().into(),
            names,
        }
    }
}

fn write_counts(
    names: &[Box<str>],
    counts: &[Count; MAX_RATES],
    out: &mut &mut [u8],
) -> std::io::Result<()> {
    for (place, (name, Count { left, reset, wait })) in names.iter().zip(counts).enumerate() {
        let comma = if place == 0 { "" } else { ", " };
        // Where it has kept the request from passing it is the time to come back that counts.
        let time = seconds(if *wait > 0 { *wait } else { *reset });
        write!(out, "{comma}{name};r={left};t={time}")?;
    }
    Ok(())
}
