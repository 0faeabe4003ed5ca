//! Rates that depend on claims of tokens.

use super::rate::{Rate, rate};
use super::repeated;
use crate::bounds::{MAX_PLANS, MAX_RATES};
use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::policy::claim::{Claim, claim};
use crate::read::{Read, Reading, required};
use crate::readers::{Named, mapping, one_or_list};
use crate::section::{section, section_of};
use crate::token::{NAME, Name, parse_name};

section! {
    "rate_plans", "the plans of a rate limit", Any;
    /// Other rates for requests whose token names a plan: `{ claim: plan, rates: { gold: 1000/s, free: 10/s } }`.
    /// Requests with any other token, or without one, have the `rates` of the limit. `RateLimit` and `RateLimit-Policy`
    /// report the rates of the plan, under the names of policy and plan: `fair:gold`. Each plan is counted separately.
    pub(crate) struct RatePlanFields {
        /// The claim that names the plan, by name or JSON pointer: a string, or a list of strings, of which the first
        /// that is a plan here counts. Some route with this limit needs a policy `jwt`.
        pub(crate) claim: Claim = required(claim()),
        /// By the name of a plan, the rates that replace the limit's own.
        pub(crate) rates: Vec<Named<Name, Vec<Rate>>> =
            required(mapping(NAME, parse_name, one_or_list(rate(), 1..=MAX_RATES), 1..=MAX_PLANS)),
    }
}

/// Rates for requests whose token names a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RatePlans {
    /// The claim that names it.
    pub claim: Claim,
    /// In the order of the file.
    pub plans: Vec<RatePlan>,
}

/// The rates of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RatePlan {
    /// How the claim calls it.
    pub name: Name,
    /// A request has to fit each of these; at least one.
    pub rates: Vec<Rate>,
}

pub(super) fn plans() -> impl Read<Value = RatePlans> {
    section_of::<RatePlanFields>().then(check)
}

fn check(fields: RatePlanFields, _: &Node, to: &mut Reading<'_>) -> Option<RatePlans> {
    let RatePlanFields { claim, rates } = fields;
    for Named { key, key_span, value } in &rates {
        if let Some(again) = repeated(value, |ours, theirs| ours.window == theirs.window) {
            let message = format!("two rates of `{key}` for the same period, `{}`", value[again]);
            let error = Diagnostic::error(*key_span, message);
            return to.fail(error.label("keep one of them"));
        }
    }
    let plan = |Named { key: name, value: rates, .. }| RatePlan { name, rates };
    Some(RatePlans { claim, plans: rates.into_iter().map(plan).collect() })
}
