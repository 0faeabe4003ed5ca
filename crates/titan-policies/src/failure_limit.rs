//! Limits on failures: a client with too many failed attempts is refused for a while, unchecked.

use crate::authorise::presented_user;
use crate::context::{Charged, Failure, FailureCounter, Failures, PolicyContext, Step};
use crate::policy::{Metric, OwnState, Policy, Response, Setting};
use crate::rate_limit::cells::{self, RateLimitCells};
use crate::rate_limit::keyed::{Allowance, KeyedLimiter};
use crate::rate_limit::limiter::CellRate;
use crate::rate_limit::table::WriterId;
use crate::rate_limit::{mask_of, seconds, write_all, write_client, write_retry_after};
use crate::story::Story;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
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
    by_client: Option<Arc<KeyedLimiter>>,
    by_name: Option<Arc<KeyedLimiter>>,
    mask: u128,
    is_shadow: bool,
    /// What is allowed, in words.
    words: Box<str>,
}

/// What makes a limit count on: that it has the same name, and counts the same failures. Its rate may change.
#[derive(PartialEq, Eq)]
struct FailureKey {
    name: String,
    of: Whose,
}

/// Whose failures are counted together.
#[derive(PartialEq, Eq)]
enum Whose {
    Client { ipv6_prefix: u8 },
    Name,
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
        setting: &Setting<'_, FailureLimit>,
    ) -> FailureLimit {
        let titan_config::FailureLimit { by_client, by_name, ipv6_prefix, shadow, capacity } =
            limit;
        let limiter = |rate: Rate, of: Whose| {
            let name = setting.name.to_owned();
            let allowance = Allowance {
                plans: [[CellRate::of(&rate)].into()].into(),
                concurrency: None,
                capacity: capacity.get().try_into().unwrap_or(usize::MAX),
                most_owed: CellRate::most_owed,
            };
            KeyedLimiter::shared(setting.registry, FailureKey { name, of }, allowance)
        };
        let client = Whose::Client { ipv6_prefix: *ipv6_prefix };
        FailureLimit {
            by_client: by_client.map(|rate| limiter(rate, client)),
            by_name: by_name.map(|rate| limiter(rate, Whose::Name)),
            mask: mask_of(*ipv6_prefix),
            is_shadow: *shadow,
            words: words(limit).into(),
        }
    }

    fn replace(&self, (): ()) {
        [&self.by_client, &self.by_name].into_iter().flatten().for_each(|it| it.take_effect());
    }

    /// Lets the policies behind it judge a request, unless its client or its user has failed too often.
    async fn on_request<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        own: OwnState<'_, FailureLimit>,
    ) -> Result<Step, Error> {
        let charged = self.charged(context);
        let wait_of = |limiter: &Option<Arc<KeyedLimiter>>, key: Option<u64>| {
            limiter.as_ref().zip(key).map_or(0, |(limiter, key)| limiter.wait(key))
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
        own: OwnState<'_, FailureLimit>,
    ) -> Result<(), BadField> {
        let FailureState(wait) = *own.state;
        wait.map_or(Ok(()), |wait| write_retry_after(&mut response.head.fields, wait))
    }

    fn explain<'m>(
        &'m self,
        _context: &mut PolicyContext<'m>,
        _own: OwnState<'_, FailureLimit>,
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
        let writer = WriterId::new(worker);
        let charge = |limiter: &Option<Arc<KeyedLimiter>>, key: &mut Option<u64>| {
            if let Some((limiter, key)) = limiter.as_ref().zip(key.take()) {
                limiter.owe(key, writer);
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
        let client = self.by_client.as_ref().map(|limiter| {
            let mut hasher = limiter.hasher();
            write_client(&mut hasher, context.client(), self.mask);
            hasher.finish()
        });
        let name = self.by_name.as_ref().and_then(|limiter| {
            let mut hasher = limiter.hasher();
            write_all(&mut hasher, std::iter::once(presented_user(fields)?.as_slice()));
            Some(hasher.finish())
        });
        let has_authorization = fields.get(FieldName::Authorization).is_some();
        Charged { client, name, has_authorization }
    }
}

impl Hash for FailureKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Findings;
    use crate::trial::TestClient;
    use titan_config::{Config, Policy as Section};
    use titan_http::RequestHead;
    use titan_io::registry::Registry;

    /// The limit `p` with those settings, and what `registry` has of it.
    fn later(registry: &Registry, settings: &str) -> FailureLimit {
        let text = format!(
            "{{ listeners: [':0'], apply: [p], routes: [{{ respond: 204 }}], policies: {{ p: {{ failure_limit: {{ {settings} }} }} }} }}"
        );
        let config = Config::parse("test", &text).unwrap_or_else(|report| panic!("{report}"));
        let Section::FailureLimit(limit) = &config.policies[0].policy else { panic!("it is one") };
        let setting = Setting { name: "p", config: &config, shared: &(), registry };
        FailureLimit::new(limit, (), &setting)
    }

    /// The keys by which the failures of any request count.
    fn charged(limit: &FailureLimit) -> Charged {
        let (mut request, mut findings) = (RequestHead::default(), Findings::default());
        limit.charged(&TestClient::at("").context(&mut request, &mut findings))
    }

    /// Whether such a request would be looked at.
    fn looks(limit: &FailureLimit) -> bool {
        let charged = charged(limit);
        limit.by_client.as_ref().zip(charged.client).is_none_or(|(of, key)| of.wait(key) == 0)
    }

    #[tokio::test(start_paused = true)]
    async fn failures_count_on_while_the_limit_is_the_same() {
        let registry = Registry::default();
        let before = later(&registry, "by_client: 1/h");
        before.count(Failure::Token, &mut charged(&before), 0);
        for same in ["by_client: 1/h", "by_client: 1/h, by_name: 9/h"] {
            assert!(!looks(&later(&registry, same)), "{same}");
        }
        for other in
            ["by_client: 1/h, capacity: 64", "by_client: 1/h, ipv6_prefix: 48", "by_name: 1/h"]
        {
            assert!(looks(&later(&registry, other)), "{other}");
        }
        let slower = later(&registry, "by_client: 2/h");
        slower.replace(());
        assert!(looks(&slower), "one of two");
        slower.count(Failure::Token, &mut charged(&slower), 0);
        assert!(!looks(&slower), "two of two");
        let back = later(&registry, "by_client: 1/h");
        back.replace(());
        assert!(!looks(&back), "more than one");
        drop((before, slower, back));
        assert!(looks(&later(&registry, "by_client: 1/h")), "nobody had it meanwhile");
    }
}
