//! Requests that fail on purpose, so that one sees what their clients make of it.

use crate::context::{PolicyContext, Step};
use crate::policy::{Metric, OwnState, Policy, Setting};
use crate::rate_limit::Waiting;
use crate::story::Story;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use titan_config::{Cidr, FaultEffect, HeaderName, Name, Percent};
use titan_http::{Fields, Status};
use titan_io::counter::Counter;
use titan_io::error::{Error, Kind};
use titan_io::network::ClientNetwork;
use titan_io::random::Random;
use titan_io::refusals;
use titan_io::relay::Turn;
use titan_io::transform::{BodyTransform, StepResult};

refusals! {
    /// A response with that status.
    INJECTED_429 Gateway TOO_MANY_REQUESTS "injected-429" "This failure is made on purpose.";
    /// A response with that status.
    INJECTED_500 Gateway INTERNAL_SERVER_ERROR "injected-500" "This failure is made on purpose.";
    /// A response with that status.
    INJECTED_502 Gateway BAD_GATEWAY "injected-502" "This failure is made on purpose.";
    /// A response with that status.
    INJECTED_503 Gateway SERVICE_UNAVAILABLE "injected-503" "This failure is made on purpose.";
    /// A response with that status.
    INJECTED_504 Gateway GATEWAY_TIMEOUT "injected-504" "This failure is made on purpose.";
    /// No response at all.
    INJECTED_ABORT Gateway BAD_GATEWAY "injected-abort" "This failure is made on purpose.";
    /// The response ends before its end.
    INJECTED_TRUNCATION Gateway BAD_GATEWAY "injected-truncation" "This failure is made on purpose.";
}

/// A policy.
pub(crate) struct Fault {
    share: Percent,
    header: Option<HeaderName>,
    addresses: Vec<Cidr>,
    api_keys: Vec<Name>,
    delay: Option<Duration>,
    effect: Option<FaultEffect>,
    waiting: Arc<Waiting>,
}

/// After how many bytes of its body the response ends, if it does.
#[derive(Default)]
pub(crate) struct TruncateAfter(pub(crate) Option<u64>);

/// Counts what was done to requests.
#[derive(Default)]
pub(crate) struct FaultCells {
    delayed: Counter,
    responded: Counter,
    aborted: Counter,
    truncated: Counter,
}

impl Policy for Fault {
    type Config = titan_config::Fault;
    type Credentials = ();
    type State = TruncateAfter;
    type Shared = Arc<Waiting>;
    type PerWorker = Random;
    type Cells = FaultCells;

    const REFUSALS: &'static [Kind] = REFUSALS;
    const METRICS: &'static [Metric<FaultCells>] = &[Metric {
        name: "titan_injected_faults_total",
        help: "Requests that were made to fail on purpose, by what was done to them.",
        label: "fault",
        figures: |cells| {
            let FaultCells { delayed, responded, aborted, truncated } = cells;
            vec![
                ("delay", delayed.get()),
                ("status", responded.get()),
                ("abort", aborted.get()),
                ("truncation", truncated.get()),
            ]
        },
        event: |policy, fault| {
            Some(format!("policy `{policy}` makes requests fail on purpose ({fault}):"))
        },
    }];

    fn new(config: &titan_config::Fault, (): (), setting: &Setting<'_, Fault>) -> Fault {
        let titan_config::Fault { share, header, addresses, api_keys, delay, effect } = config;
        Fault {
            share: *share,
            header: header.clone(),
            addresses: addresses.clone(),
            api_keys: api_keys.clone(),
            delay: *delay,
            effect: *effect,
            waiting: Arc::clone(setting.shared),
        }
    }

    async fn on_request<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        own: OwnState<'_, Fault>,
    ) -> Result<Step, Error> {
        let is_asked_for = self.take_header(&mut context.request.fields);
        if !is_asked_for || !self.may_fail(context, context.client()) || !self.draws(own.kept) {
            return Ok(Step::Go);
        }
        let client = context.client().map(ClientNetwork::of);
        if let Some(delay) = self.delay
            && let Some(place) = self.waiting.enter(client)
        {
            own.cells.delayed.add(1);
            place.turn_after(delay).comes().await;
        }
        match self.effect {
            None => Ok(Step::Go),
            Some(FaultEffect::Truncate(bytes)) => {
                own.cells.truncated.add(1);
                *own.state = TruncateAfter(Some(bytes.bytes()));
                Ok(Step::Go)
            }
            Some(FaultEffect::Status(status)) => {
                own.cells.responded.add(1);
                Err(injected(status).into())
            }
            Some(FaultEffect::Abort) => {
                own.cells.aborted.add(1);
                Err(INJECTED_ABORT.into())
            }
        }
    }

    fn explain<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        _own: OwnState<'_, Fault>,
        story: &mut Story<'_>,
    ) -> Result<Step, Error> {
        if !self.take_header(&mut context.request.fields) {
            story.tell("nothing: the request does not ask for it");
            return Ok(Step::Go);
        }
        let client = story.client(context);
        if !self.may_fail(context, client) {
            story.tell("nothing: its client is not among those that may");
            return Ok(Step::Go);
        }
        let what = self.describe();
        match self.effect {
            Some(FaultEffect::Status(status)) if self.share == Percent::ALL => {
                story.refuse(injected(status), what);
            }
            Some(FaultEffect::Abort) if self.share == Percent::ALL => {
                story.refuse(INJECTED_ABORT, what);
            }
            _ => story.tell(what),
        }
        Ok(Step::Go)
    }
}

impl Fault {
    /// Whether the request brings the header, where it needs one. No upstream gets it.
    fn take_header(&self, fields: &mut Fields) -> bool {
        let Some(header) = &self.header else { return true };
        let name = header.as_str().as_bytes();
        let is_there = fields.named(name).next().is_some();
        if is_there {
            fields.remove_named(name);
        }
        is_there
    }

    /// Whether the client is one whose requests may fail.
    fn may_fail(&self, context: &PolicyContext<'_>, client: Option<IpAddr>) -> bool {
        let Fault { addresses, api_keys, .. } = self;
        let key = context.findings.api_key.as_ref().map(|(_, name)| &**name);
        addresses.is_empty() && api_keys.is_empty()
            || client.is_some_and(|client| addresses.iter().any(|it| it.contains(client)))
            || key.is_some_and(|key| api_keys.iter().any(|name| name.as_str() == key))
    }

    /// Whether the request belongs to the share that fails.
    fn draws(&self, random: &Random) -> bool {
        self.share.takes(random.next())
    }

    fn describe(&self) -> String {
        let delay = self.delay.map(|delay| format!("a delay of {delay:?}"));
        let effect = self.effect.map(|effect| match effect {
            FaultEffect::Status(status) => format!("status {}", status.code()),
            FaultEffect::Abort => "no response".to_owned(),
            FaultEffect::Truncate(bytes) => format!("a response that ends after {bytes}"),
        });
        let parts: Vec<String> = delay.into_iter().chain(effect).collect();
        format!("{} of these requests fail on purpose: {}", self.share, parts.join(", then "))
    }
}

/// Why a request with that status is refused. The configuration has no other.
fn injected(status: Status) -> Kind {
    match status {
        Status::TOO_MANY_REQUESTS => INJECTED_429,
        Status::INTERNAL_SERVER_ERROR => INJECTED_500,
        Status::BAD_GATEWAY => INJECTED_502,
        Status::GATEWAY_TIMEOUT => INJECTED_504,
        _ => INJECTED_503,
    }
}

/// Ends a body before its end.
pub struct Truncation {
    /// Bytes that still pass.
    left: u64,
}

impl Truncation {
    /// Lets so many bytes pass.
    pub fn after(bytes: u64) -> Truncation {
        Truncation { left: bytes }
    }
}

impl BodyTransform for Truncation {
    fn take(
        &mut self,
        input: &[u8],
        turn: &mut Turn,
        out: &mut Vec<u8>,
    ) -> Result<StepResult, Error> {
        // What passed before is on its way: only then does the failure come.
        if self.left == 0 && !input.is_empty() {
            return Err(INJECTED_TRUNCATION.into());
        }
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let bytes = input.len().min(left).min(turn.left().max(1));
        out.extend_from_slice(&input[..bytes]);
        turn.spend(bytes);
        self.left -= bytes as u64;
        Ok(StepResult { bytes, has_more: false })
    }

    fn end(&mut self, _: &Fields, _: &mut Vec<u8>) -> Result<Option<Fields>, Error> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Trial;
    use tokio::time::Instant;

    // field: policy.fault, fault.status
    #[tokio::test]
    async fn a_status_is_in_place_of_the_response() {
        for (status, kind) in [
            (429, INJECTED_429),
            (500, INJECTED_500),
            (502, INJECTED_502),
            (503, INJECTED_503),
            (504, INJECTED_504),
        ] {
            let trial = Trial::of(&format!("fault: {{ status: {status} }}"));
            let tried = trial.asks("192.0.2.1").await;
            assert_eq!((tried.refused, tried.response.status.code()), (Some(kind), status));
            assert_eq!(trial.explains("192.0.2.1").1, Some(kind));
        }
    }

    // field: fault.abort
    #[tokio::test]
    async fn an_abort_leaves_no_response() {
        let trial = Trial::of("fault: { abort: true }");
        assert_eq!(trial.asks("192.0.2.1").await.refused, Some(INJECTED_ABORT));
        assert_eq!(trial.explains("192.0.2.1").1, Some(INJECTED_ABORT));
    }

    // field: fault.share
    #[tokio::test]
    async fn a_share_of_the_requests_fails() {
        let trial = Trial::of("fault: { abort: true, share: 30% }");
        let mut failed = 0;
        for _ in 0..2000 {
            failed += usize::from(trial.asks("192.0.2.1").await.refused.is_some());
        }
        assert!((450..750).contains(&failed), "{failed}");
        let lines = ["fault: p", "  30% of these requests fail on purpose: no response"];
        assert_eq!(trial.explains("192.0.2.1"), (lines.map(str::to_owned).into(), None));
    }

    // field: fault.addresses
    #[tokio::test]
    async fn requests_of_other_networks_do_not_fail() {
        let trial = Trial::of("fault: { abort: true, addresses: [192.0.2.0/24] }");
        for (address, refused) in
            [("192.0.2.1", Some(INJECTED_ABORT)), ("192.0.3.1", None), ("", None)]
        {
            assert_eq!(trial.asks(address).await.refused, refused, "{address}");
            assert_eq!(trial.explains(address).1, refused, "{address}");
        }
    }

    // field: fault.header
    #[tokio::test]
    async fn a_header_asks_for_it_and_only_named_clients_may() {
        let trial = Trial::of("fault: { abort: true, header: X-Fault, addresses: 192.0.2.1 }");
        let asks = async |address, fields: &[(&str, &str)]| {
            trial.asks_with(address, fields, &[]).await.refused
        };
        assert_eq!(asks("192.0.2.1", &[("x-fault", "")]).await, Some(INJECTED_ABORT));
        assert_eq!(asks("192.0.2.1", &[]).await, None);
        assert_eq!(asks("192.0.2.2", &[("X-Fault", "1")]).await, None);
        let lines = ["fault: p", "  nothing: the request does not ask for it"];
        assert_eq!(trial.explains("192.0.2.1"), (lines.map(str::to_owned).into(), None));
    }

    // field: fault.delay
    #[tokio::test(start_paused = true)]
    async fn a_request_waits_first() {
        let trial = Trial::of("fault: { delay: 300ms }");
        let begin = Instant::now();
        assert_eq!(trial.asks("192.0.2.1").await.refused, None);
        assert_eq!(begin.elapsed().as_millis(), 300);
        let lines = ["fault: p", "  100% of these requests fail on purpose: a delay of 300ms"];
        assert_eq!(trial.explains("192.0.2.1"), (lines.map(str::to_owned).into(), None));
    }

    #[test]
    fn so_many_bytes_pass_however_they_come() {
        let body = b"0123456789";
        for split in 0..=body.len() {
            let (mut truncation, mut out) = (Truncation::after(6), Vec::new());
            let mut turn = Turn::of(1000);
            let mut failed = None;
            for mut piece in [&body[..split], &body[split..]] {
                while !piece.is_empty() && failed.is_none() {
                    match truncation.take(piece, &mut turn, &mut out) {
                        Ok(step) => piece = &piece[step.bytes..],
                        Err(error) => failed = Some(error.kind),
                    }
                }
            }
            assert_eq!((out.as_slice(), failed), (&b"012345"[..], Some(INJECTED_TRUNCATION)));
        }
    }
}
