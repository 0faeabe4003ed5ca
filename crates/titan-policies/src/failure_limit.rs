//! Limits on failures: a client with too many failed attempts is refused for a while, unchecked.

use crate::authorise::user_shown;
use crate::context::{Charged, Failure, FailureCounter, Failures, PolicyContext, Step};
use crate::policy::{Metric, Own, Policy, Response, Setting};
use crate::rate_limit::cells::{self, RateLimitCells};
use crate::rate_limit::limiter::{Limiter, Pace};
use crate::rate_limit::table::Maker;
use crate::rate_limit::{mask_of, seconds, since, write_all, write_client, write_retry_after};
use crate::story::Story;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Instant;
use titan_config::Rate;
use titan_http::{BadField, FieldName};
use titan_io::error::{Error, Kind};
use titan_io::refusals;

refusals! {
    /// The client, or the user that it names, has shown too much that is wrong.
    TOO_MANY_FAILURES Gateway TOO_MANY_REQUESTS "too-many-failures" "Too many failed attempts to authenticate.";
}

/// A policy, with the numbers that all workers count in.
pub(crate) struct FailureLimit {
    by_client: Option<Limiter>,
    by_name: Option<Limiter>,
    mask: u128,
    is_shadow: bool,
    /// Keyed anew at each start: nobody can choose two keys that count as one.
    hasher: RandomState,
    started: Instant,
    /// What is allowed, in words.
    words: Box<str>,
}

/// The seconds after which to come again, where a request was not looked at.
#[derive(Default)]
pub(crate) struct FailureState(Option<u64>);

impl Policy for FailureLimit {
    type Config = titan_config::FailureLimit;
    type Credentials = ();
    type State = FailureState;
    type Shared = ();
    type PerWorker = ();
    type Cells = RateLimitCells;

    const REFUSALS: &'static [Kind] = REFUSALS;
    const METRICS: &'static [Metric<RateLimitCells>] = cells::METRICS;

    fn new(
        limit: &titan_config::FailureLimit,
        (): (),
        _setting: &Setting<'_, FailureLimit>,
    ) -> FailureLimit {
        let titan_config::FailureLimit { by_client, by_name, ipv6_prefix, shadow, capacity } =
            limit;
        let capacity = capacity.get().try_into().unwrap_or(usize::MAX);
        let limiter = |rate: &Rate| Limiter::new([[Pace::of(rate)].into()].into(), None, capacity);
        FailureLimit {
            by_client: by_client.as_ref().map(limiter),
            by_name: by_name.as_ref().map(limiter),
            mask: mask_of(*ipv6_prefix),
            is_shadow: *shadow,
            hasher: RandomState::new(),
            started: Instant::now(),
            words: words(limit).into(),
        }
    }

    /// Lets the policies behind it judge a request, unless its client or its user has failed too often.
    async fn on_request<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        own: Own<'_, FailureLimit>,
    ) -> Result<Step, Error> {
        let charged = self.charged(context);
        let now = since(self.started);
        let wait_of = |limiter: &Option<Limiter>, key: Option<u64>| {
            limiter.as_ref().zip(key).map_or(0, |(limiter, key)| limiter.wait(key, now))
        };
        let by_client = wait_of(&self.by_client, charged.client);
        let wait = by_client.max(wait_of(&self.by_name, charged.name));
        match wait {
            0 => own.cells.allowed.add(1),
            _ if self.is_shadow => own.cells.shadowed.add(1),
            wait => {
                own.cells.limited.add(1);
                *own.state = FailureState(Some(seconds(wait)));
                return Err(TOO_MANY_FAILURES.into());
            }
        }
        context.failures = Some(Failures { counter: self, charged });
        Ok(Step::Go)
    }

    fn on_response(
        &self,
        response: &mut Response<'_>,
        own: Own<'_, FailureLimit>,
    ) -> Result<(), BadField> {
        let FailureState(wait) = *own.state;
        wait.map_or(Ok(()), |wait| write_retry_after(&mut response.head.fields, wait))
    }

    fn explain<'m>(
        &'m self,
        _context: &mut PolicyContext<'m>,
        _own: Own<'_, FailureLimit>,
        story: &mut Story<'_>,
    ) -> Result<Step, Error> {
        story.tell(&self.words);
        Ok(Step::Go)
    }
}

impl FailureCounter for FailureLimit {
    fn count(&self, failure: Failure, charged: &mut Charged, worker: usize) {
        if failure == Failure::Service && !charged.has_authorization {
            return;
        }
        let maker = Maker::new(worker);
        let charge = |limiter: &Option<Limiter>, key: &mut Option<u64>| {
            if let Some((limiter, key)) = limiter.as_ref().zip(key.take()) {
                limiter.owe(key, maker, || since(self.started));
            }
        };
        charge(&self.by_client, &mut charged.client);
        if failure == Failure::Password {
            charge(&self.by_name, &mut charged.name);
        }
    }
}

impl FailureLimit {
    /// What the failures of a request count by.
    fn charged(&self, context: &PolicyContext<'_>) -> Charged {
        let fields = &context.request.fields;
        let client = self.by_client.as_ref().map(|_| {
            let mut hasher = self.hasher.build_hasher();
            write_client(&mut hasher, context.client(), self.mask);
            hasher.finish()
        });
        let name = self.by_name.as_ref().and_then(|_| {
            let mut hasher = self.hasher.build_hasher();
            write_all(&mut hasher, std::iter::once(user_shown(fields)?.as_slice()));
            Some(hasher.finish())
        });
        let has_authorization = fields.get(FieldName::Authorization).is_some();
        Charged { client, name, has_authorization }
    }
}

fn words(limit: &titan_config::FailureLimit) -> String {
    let of = |rate: Option<Rate>, whom: &str| {
        rate.map(|rate| format!("{rate} for each {whom} with bursts up to {}", rate.burst))
    };
    let both = [of(limit.by_client, "client"), of(limit.by_name, "user name")];
    let both = both.into_iter().flatten().collect::<Vec<_>>().join(", ");
    format!("failures at most {both}{}", if limit.shadow { " (shadow mode)" } else { "" })
}
