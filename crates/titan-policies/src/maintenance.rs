//! Routes that are closed for maintenance, except to some clients.

use crate::context::{PolicyContext, Step};
use crate::policy::{OwnState, Policy, Response, Setting};
use crate::rate_limit::write_retry_after;
use crate::story::Story;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use titan_config::Cidr;
use titan_http::BadField;
use titan_io::error::{Error, Kind};
use titan_io::refusals;

refusals! {
    /// The route is closed.
    MAINTENANCE Gateway SERVICE_UNAVAILABLE "maintenance" "This service is down for maintenance.";
}

/// A policy.
pub(crate) struct Maintenance {
    is_enabled: bool,
    message: Option<Arc<str>>,
    allow: Vec<Cidr>,
    /// In seconds.
    retry_after: Option<u64>,
}

/// Whether the request was turned away.
#[derive(Default)]
pub(crate) struct IsClosed(bool);

impl Policy for Maintenance {
    type Config = titan_config::Maintenance;
    type Credentials = ();
    type State = IsClosed;
    type Shared = ();
    type PerWorker = ();
    type Cells = ();

    const REFUSALS: &'static [Kind] = REFUSALS;

    fn new(
        config: &titan_config::Maintenance,
        (): (),
        _setting: &Setting<'_, Maintenance>,
    ) -> Maintenance {
        let titan_config::Maintenance { enabled, message, allow, retry_after } = config;
        let seconds = |wait: Duration| wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Maintenance {
            is_enabled: *enabled,
            message: message.as_deref().map(Arc::from),
            allow: allow.clone(),
            retry_after: retry_after.map(seconds),
        }
    }

    async fn on_request<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        own: OwnState<'_, Maintenance>,
    ) -> Result<Step, Error> {
        if !self.is_closed_to(context.client()) {
            return Ok(Step::Go);
        }
        *own.state = IsClosed(true);
        self.tell_why(context);
        Err(MAINTENANCE.into())
    }

    fn on_response(
        &self,
        response: &mut Response<'_>,
        own: OwnState<'_, Maintenance>,
    ) -> Result<(), BadField> {
        match (&own.state, self.retry_after) {
            (IsClosed(true), Some(seconds)) => {
                write_retry_after(&mut response.head.fields, seconds)
            }
            _ => Ok(()),
        }
    }

    fn explain<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        _own: OwnState<'_, Maintenance>,
        story: &mut Story<'_>,
    ) -> Result<Step, Error> {
        match (self.is_enabled, self.is_closed_to(story.client(context))) {
            (false, _) => story.tell("not enabled"),
            (true, false) => story.tell("closed, but this client is allowed"),
            (true, true) => {
                self.tell_why(context);
                match story.client(context) {
                    Some(client) => {
                        story.refuse(MAINTENANCE, format!("closed; {client} is not in `allow`"));
                    }
                    None => story.refuse(MAINTENANCE, "closed to every client outside `allow`"),
                }
            }
        }
        Ok(Step::Go)
    }
}

impl Maintenance {
    /// Sends the message to the client.
    fn tell_why(&self, context: &mut PolicyContext<'_>) {
        context.findings.detail.clone_from(&self.message);
    }

    fn is_closed_to(&self, client: Option<IpAddr>) -> bool {
        let is_allowed =
            client.is_some_and(|client| self.allow.iter().any(|it| it.contains(client)));
        self.is_enabled && !is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Trial;

    // field: policy.maintenance, maintenance.allow
    #[tokio::test]
    async fn a_closed_route_serves_allowed_clients() {
        let trial = Trial::of("maintenance: { allow: [192.0.2.0/24, 2001:db8::/32] }");
        for (address, refused) in [
            ("192.0.2.1", None),
            ("2001:db8::1", None),
            ("192.0.3.1", Some(MAINTENANCE)),
            ("", Some(MAINTENANCE)),
        ] {
            assert_eq!(trial.asks(address).await.refused, refused, "{address}");
            assert_eq!(trial.explains(address).1, refused, "{address}");
        }
    }

    // field: maintenance.enabled
    #[tokio::test]
    async fn a_policy_that_is_switched_off_does_nothing() {
        let trial = Trial::of("maintenance: { enabled: false, retry_after: 1m }");
        let tried = trial.asks("192.0.2.1").await;
        assert_eq!((tried.refused, tried.field("retry-after")), (None, None));
        assert_eq!(
            trial.explains("192.0.2.1"),
            (vec!["maintenance: p".into(), "  not enabled".into()], None)
        );
    }

    // field: maintenance.message, maintenance.retry_after
    #[tokio::test]
    async fn refusals_say_why_and_until_when() {
        let trial = Trial::of(
            "maintenance: { allow: 192.0.2.1, message: Back soon., retry_after: 1500ms }",
        );
        let refused = trial.asks("192.0.2.2").await;
        assert_eq!(refused.findings.detail.as_deref(), Some("Back soon."));
        assert_eq!(refused.field("retry-after").as_deref(), Some("2"));
        let allowed = trial.asks("192.0.2.1").await;
        assert_eq!((allowed.field("retry-after"), allowed.findings.detail), (None, None));
    }
}
