//! Limits on requests before authentication: rate limits that apply earlier.

use crate::context::{PolicyContext, Step};
use crate::policy::{Metric, OwnState, Policy, Response, Setting};
use crate::rate_limit::cells::{self, RateLimitCells};
use crate::rate_limit::{RateLimit, RateLimitState, SharedByLimits};
use crate::story::Story;
use std::sync::Arc;
use titan_config::PolicyKind;
use titan_http::BadField;
use titan_io::error::Error;

/// A policy.
pub(crate) struct EarlyLimit(RateLimit);

impl Policy for EarlyLimit {
    type Config = titan_config::EarlyLimit;
    type Credentials = ();
    type State = RateLimitState;
    type Shared = Arc<SharedByLimits>;
    type PerWorker = ();
    type Cells = RateLimitCells;

    const METRICS: &'static [Metric<RateLimitCells>] = cells::METRICS;

    fn new(
        limit: &titan_config::EarlyLimit,
        (): (),
        setting: &Setting<'_, EarlyLimit>,
    ) -> EarlyLimit {
        EarlyLimit(RateLimit::of(limit, (PolicyKind::EarlyLimit, setting.name), setting))
    }

    fn replace(&self, (): ()) {
        self.0.replace(());
    }

    async fn on_request<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        own: OwnState<'_, EarlyLimit>,
    ) -> Result<Step, Error> {
        self.0.let_pass(context, own.state, own.cells).await
    }

    fn on_response(
        &self,
        response: &mut Response<'_>,
        own: OwnState<'_, EarlyLimit>,
    ) -> Result<(), BadField> {
        self.0.add_limit_fields(own.state, response.head)
    }

    fn explain<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        _own: OwnState<'_, EarlyLimit>,
        story: &mut Story<'_>,
    ) -> Result<Step, Error> {
        story.tell(self.0.decision(context, story));
        Ok(Step::Go)
    }
}

#[cfg(test)]
mod tests {
    use crate::rate_limit::RATE_LIMITED;
    use crate::trial::Trial;

    #[tokio::test]
    async fn a_client_over_its_rate_gets_retry_after() {
        let trial = Trial::of("early_limit: { rates: 1/h, key: client_address }");
        let first = trial.asks("192.0.2.1").await;
        assert_eq!((first.refused, first.field("retry-after")), (None, None));
        let second = trial.asks("192.0.2.1").await;
        assert_eq!((second.refused, second.findings.detail.as_deref()), (Some(RATE_LIMITED), None));
        assert_eq!(second.field("retry-after").as_deref(), Some("3600"));
        assert_eq!(trial.asks("192.0.2.2").await.refused, None);
    }

    #[test]
    fn explain_says_what_it_counts_by() {
        let (lines, refused) = Trial::of("early_limit: { rates: 1/h }").explains("192.0.2.1");
        assert_eq!((lines[0].as_str(), refused), ("early_limit: p", None));
        assert!(lines[1].contains("1/h"), "{lines:?}");
    }
}
