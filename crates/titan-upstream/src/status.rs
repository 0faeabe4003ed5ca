//! How an upstream and its members are doing, for those who look at it.

use crate::breaking::BreakerNow;
use crate::budget::RetryBudgetStatus;
use crate::concurrency::ConcurrencyStatus;
use crate::endpoint::{Endpoint, EndpointStatus, ResolvedEndpoint};
use crate::groups::Placement;
use crate::health::since_start;
use crate::hedging::Hedging;
use crate::members::Upstream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How an upstream is doing.
#[derive(Clone, Debug)]
pub struct UpstreamStatus {
    /// Its name.
    pub name: String,
    /// Whether too few endpoints can take requests, so that they go to all.
    pub panics: bool,
    /// What it may be retried.
    pub retry_budget: RetryBudgetStatus,
    /// How its requests are hedged, if they are.
    pub hedging: Option<HedgingStatus>,
    /// Its breaker, where it has one as a whole.
    pub breaker: Option<BreakerNow>,
    /// How its requests stand, where their number is limited.
    pub concurrency: Option<ConcurrencyStatus>,
    /// How many it could not take, and were refused.
    pub shed: u64,
    /// Its endpoints, in the order of the file.
    pub endpoints: Vec<MemberStatus>,
}

/// How the requests of an upstream are hedged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HedgingStatus {
    /// After how long; `None` while too few responses have come to know.
    pub delay: Option<Duration>,
    /// The second tries so far.
    pub sent: u64,
    /// Those of them whose response the client got.
    pub won: u64,
    /// Those that there would have been, had the budget allowed them.
    pub refused: u64,
}

/// How a member of an upstream is doing.
#[derive(Clone, Debug)]
pub struct MemberStatus {
    /// The name and port from the configuration.
    pub host: String,
    /// Its weight and group.
    pub placement: Placement,
    /// What its responses take of late, where that is measured.
    pub latency: Option<Duration>,
    /// Its own breaker, where it has one.
    pub breaker: Option<BreakerNow>,
    /// The rest.
    pub endpoint: EndpointStatus,
}

impl UpstreamStatus {
    /// How that upstream is doing now.
    pub fn of(upstream: &Upstream) -> UpstreamStatus {
        let (config, members) = (upstream.config(), upstream.members());
        let name = config.name.to_string();
        let of_member = |(place, endpoint): (&ResolvedEndpoint, &Arc<Endpoint>)| MemberStatus {
            host: place.host.to_string(),
            placement: place.placement,
            latency: endpoint.load.latency(),
            breaker: upstream.breaking().and_then(|by| by.status(Some(endpoint))),
            endpoint: endpoint.status(&name),
        };
        UpstreamStatus {
            panics: upstream.supply(since_start(Instant::now())).panics,
            retry_budget: upstream.retry_budget_status(),
            hedging: upstream.hedging.as_ref().map(|hedging| HedgingStatus::of(upstream, hedging)),
            breaker: upstream.breaking().and_then(|by| by.status(None)),
            concurrency: upstream.concurrency.as_ref().map(|it| it.status()),
            shed: upstream.counted.sum(|cells| cells.shed.get()),
            endpoints: members.places.iter().zip(&members.endpoints).map(of_member).collect(),
            name,
        }
    }
}

impl HedgingStatus {
    fn of(upstream: &Upstream, hedging: &Hedging) -> HedgingStatus {
        HedgingStatus {
            delay: hedging.delay(),
            sent: upstream.counted.sum(|cells| cells.hedges.get()),
            won: upstream.counted.sum(|cells| cells.hedges_won.get()),
            refused: upstream.counted.sum(|cells| cells.hedges_refused.get()),
        }
    }
}
