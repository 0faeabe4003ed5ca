//! The spine: one request and its response, from the complete head to the record of how it went.

mod attempt;
mod capture;
mod copy;
mod deadline;
mod deliver;
mod enter;
mod files;
mod forward;
mod hedge;
mod hold;
mod idle;
mod noted;
mod own;
mod pending;
mod presence;
mod retry;
mod start;
mod subrequest;
mod telling;
mod tunnel;

use copy::Mirroring;
use noted::NotedRequest;
use subrequest::SubrequestClient;
pub(crate) use tunnel::Tunnel;

use crate::forwarding::KnownClient;
use crate::grpc::{self, Dialect, web};
use crate::guard::Guard;
use crate::observed::Telling;
use crate::origin::Origin;
use crate::route::{Allow, Match};
use crate::snapshot::{Action, Proxy, Snapshot};
use crate::steps::{Destination, Observer, Steps};
use crate::upgrade::{TunnelPermit, Upgrade};
use crate::worker::Worker;
use std::future::{Future, poll_fn};
use std::num::NonZeroU32;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use titan_http::BodyLength;
use titan_http::{Fields, RequestHead, ResponseHead, Status};
use titan_io::body::{Content, RequestBody, ResponseSink};
use titan_io::clock::Timer;
use titan_io::error::{Error, Kind};
use titan_io::network::ClientNetwork;
use titan_io::transform::{Transformed, Transforms};
use titan_policies::buffered_response::BufferedResponse;
use titan_policies::compress::{Decoding, Decompressor, Encoding, describe_decoded};
use titan_policies::context::{PolicyContext, Step};
use titan_policies::fault::INJECTED_ABORT;
use titan_policies::policy::ExchangeEnd;
use titan_policies::state::PolicyState;
use titan_upstream::concurrency::Permit;

/// One request with its response.
pub(crate) struct Exchange<'x, B: ?Sized, S: ?Sized> {
    pub(crate) worker: &'x Rc<Worker>,
    pub(crate) snapshot: &'x Arc<Snapshot>,
    pub(crate) timer: &'x Timer,
    pub(crate) origin: &'x Origin,
    pub(crate) request: &'x mut RequestHead,
    /// How long the request body is.
    pub(crate) length: BodyLength,
    /// How long it is as its client sends it, which may be coded.
    pub(crate) sent_as: BodyLength,
    /// Whether the client waits for 100 (Continue).
    pub(crate) expects_continue: bool,
    pub(crate) body: &'x mut B,
    pub(crate) sink: &'x mut S,
    /// A text that is being put together.
    pub(crate) text: &'x mut Vec<u8>,
    /// The protocol that the client wants to go on in.
    pub(crate) upgrade: Option<Upgrade>,
    pub(crate) record: Record,
}

/// What is noted on the way, for the decisions at its end and for the metrics.
pub(crate) struct Record {
    /// When the head of the request was complete.
    started: Instant,
    /// The microseconds that it took to come, where that is known.
    head_micros: Option<NonZeroU32>,
    /// Whether the head of the request could be read. Of one that could not nothing is told that its client has not sent.
    has_head: bool,
    /// The route that took the request. Of a subrequest it is that of the request which waits for it.
    route: Option<usize>,
    /// Whether a policy asks, not a client: the response is for that policy, and no other one sees it.
    is_subrequest: bool,
    /// Whether it is the copy of a request, which waits for nothing that requests wait for.
    is_copy: bool,
    /// Whether it said so of itself when it came: of such a one no copy is made, lest one that leads back here leads on for ever.
    is_marked: bool,
    /// The methods that would have been taken.
    allow: Option<Allow>,
    /// The length of the file of which another part was requested. Boxed: few requests need the room.
    length: Option<Box<u64>>,
    /// The status of the final response, once it is started.
    status: Option<Status>,
    /// What the client gets its response in, where the request is a gRPC call.
    dialect: Option<Dialect>,
    /// How long the request may take in all, where its client says so.
    timeout: Option<Duration>,
    /// After how long a rejected request may be sent again.
    retry_after: Option<Duration>,
    /// The same, where its client or its route say so.
    deadline: Option<Duration>,
    /// The attempt that the exchange ends with, where that is all there is to wait for.
    last_attempt: Option<LastAttempt>,
    /// Whether the attempt that runs has sent any of the request.
    is_sent: bool,
    /// The status that its endpoint has responded with, of a call what its own status means, and how long the head took where
    /// that is measured.
    responded: Option<(Status, Option<Duration>)>,
    /// Whether any of the request body has gone out. Unless it is held, it cannot be sent again.
    is_body_used: bool,
    /// What the policies have noted.
    policies: PolicyState,
    /// The place among open tunnels that the request has, where it asks for one.
    permit: Option<TunnelPermit>,
    /// Counts it as running at its upstream, where that is limited.
    running: Option<Permit>,
    /// The tunnel that the connection goes on as.
    tunnel: Option<Box<Tunnel>>,
    /// What is done for a mirror.
    mirroring: Option<Box<Mirroring>>,
    /// What is told of the exchange at its end, where anybody is to hear of it.
    telling: Option<Telling>,
}

/// An attempt of an exchange. Small, because every request under way has room for one.
#[derive(Clone, Copy)]
struct LastAttempt {
    /// The place of its upstream, from 1.
    upstream: NonZeroU32,
    /// The microseconds from the start of the exchange to its own.
    began: u32,
}

impl LastAttempt {
    fn new(upstream: usize, began: Duration) -> LastAttempt {
        let upstream = u32::try_from(upstream).unwrap_or(u32::MAX);
        LastAttempt {
            upstream: NonZeroU32::MIN.saturating_add(upstream),
            began: u32::try_from(began.as_micros()).unwrap_or(u32::MAX),
        }
    }

    fn upstream(self) -> usize {
        self.upstream.get() as usize - 1
    }

    /// How long after the start of the exchange it began.
    fn began(self) -> Duration {
        Duration::from_micros(self.began.into())
    }
}

impl Record {
    /// That of a request whose head began to come then; whether it could be read.
    pub(crate) fn since(began: Option<Instant>, has_head: bool) -> Record {
        let record = Record::default();
        let took = began.map(|began| record.started.saturating_duration_since(began).as_micros());
        let head_micros = took.and_then(|took| NonZeroU32::new(u32::try_from(took).ok()?));
        Record { head_micros, has_head, ..record }
    }

    /// The response halves of the route's policies. Where there is an encoding, the body has to be made by it.
    pub(super) fn apply_to_response(
        &mut self,
        snapshot: &Snapshot,
        upgrade: Option<&Upgrade>,
        head: &mut ResponseHead,
        content: &mut Content,
        worker: &Worker,
    ) -> Result<Option<Encoding>, Error> {
        if self.is_subrequest {
            return Ok(None);
        }
        let sent = self.status_for(snapshot, upgrade, head.status);
        let chain = snapshot.chains.of(self.route);
        let state = (&mut self.policies, sent);
        let encoding = chain.apply_to_response(state, head, content, worker.of_policies());
        encoding.map_err(|_| Kind::Internal.into())
    }

    /// Notes how the call has fared, where the request is one and these fields of its response say so.
    pub(super) fn note_status_of_call(&mut self, fields: &Fields) {
        if let (Some(_), Some((status, _))) = (self.dialect, &mut self.responded) {
            *status = grpc::http_status(*status, fields);
        }
    }

    /// The status that a response with that one goes out with.
    pub(super) fn status_for(
        &self,
        snapshot: &Snapshot,
        upgrade: Option<&Upgrade>,
        status: Status,
    ) -> Status {
        let sent = snapshot.chains.of(self.route).status_for(&self.policies, status);
        // The client would take it for the consent to a tunnel, whatever a policy makes of a refusal.
        let is_consent = sent.is_success() && upgrade.is_some_and(Upgrade::is_binding);
        if is_consent { status } else { sent }
    }
}

impl Observer for Record {
    fn policies(&mut self) -> &mut PolicyState {
        &mut self.policies
    }

    fn strips(&mut self, guard: &Guard, fields: &Fields) {
        self.is_marked = guard.is_marked(fields);
    }

    fn takes(&mut self, found: &Match, _: &RequestHead) {
        self.route = Some(found.route);
    }

    fn allows(&mut self, allow: Allow) {
        self.allow = Some(allow);
    }
}

impl Default for Record {
    fn default() -> Record {
        Record {
            started: Instant::now(),
            head_micros: None,
            has_head: true,
            route: None,
            is_subrequest: false,
            is_copy: false,
            is_marked: false,
            allow: None,
            length: None,
            status: None,
            dialect: None,
            timeout: None,
            retry_after: None,
            deadline: None,
            last_attempt: None,
            is_sent: false,
            responded: None,
            is_body_used: false,
            policies: PolicyState::default(),
            permit: None,
            running: None,
            tunnel: None,
            mirroring: None,
            telling: None,
        }
    }
}

/// How an exchange ends.
pub(crate) enum Outcome {
    /// With a response, or what there is of one.
    Response(Verdict),
    /// With a tunnel, which is to be run without the configuration.
    Tunnel(Box<Tunnel>),
}

/// How an exchange leaves its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The client has a complete response.
    Responded,
    /// The response is incomplete, and the client must see that.
    Broken,
    /// The client has gone, or reads nothing: it would not see any signal.
    Left {
        /// Whether it had a good reason to: the time that it gives its call is over, or will be in a moment.
        is_overdue: bool,
    },
}

impl<'x, B: RequestBody, S: ResponseSink> Exchange<'x, B, S> {
    /// Responds to the request; to one whose head could not be read with what was wrong with it.
    pub(crate) async fn run(&mut self, refused: Option<Error>) -> Outcome {
        self.worker.cells().begun.add(1);
        self.snapshot.forwarding.judge(self.origin);
        self.begin_telling();
        let dialect = Dialect::of_call(self.request);
        self.record.dialect = dialect.map(|dialect| dialect.of_response(&self.request.fields));
        let result = match refused {
            None => self.serve().await,
            Some(error) => {
                let fresh = self.worker.io.random_id();
                self.steps().0.identify(fresh).and(Err(error))
            }
        };
        let verdict = self.conclude(result).await;
        match self.record.tunnel.take() {
            Some(mut tunnel) => {
                tunnel.keep(std::mem::take(&mut self.record.policies));
                Outcome::Tunnel(tunnel)
            }
            None => Outcome::Response(verdict),
        }
    }

    async fn serve(&mut self) -> Result<(), Error> {
        if self.upgrade.is_none() {
            self.upgrade = Upgrade::of_request(self.request, self.length);
        }
        let fresh = self.worker.io.random_id();
        let (mut steps, record) = self.steps();
        let found = match steps.route(fresh, record)? {
            Destination::Route(found) => found,
            Destination::Https(port) => return self.redirect_to_https(port).await,
            Destination::Response(response) => {
                let BufferedResponse { head, body } = *response;
                return self.send(head, &body).await;
            }
        };
        self.snapshot.counted(Some(found.route)).cells(self.worker.index()).begun.add(1);
        self.tell_route(found.route);
        self.shed(found.route)?;
        let action = &self.snapshot.actions[found.route];
        if let Action::Proxy(proxy) = action {
            // Who may see that it is malformed is for the policies to say.
            let _ = self.note_deadline(&proxy.config.timeouts);
        }
        let met = self.apply_policies(&found).await;
        self.record.tell_policies(self.snapshot, &met);
        if let Step::Respond(response) = met? {
            let BufferedResponse { head, body } = *response;
            return self.send(head, &body).await;
        }
        if !matches!(action, Action::Proxy(_)) {
            self.show_body().await?;
        }
        match action {
            Action::Proxy(proxy) => {
                let transforms = self.request_transforms(proxy)?;
                match transforms.is_empty() && !self.has_noted_body() {
                    true => self.proxy_in_time(proxy, &found).await,
                    false => Box::pin(self.proxy_through(transforms, proxy, &found)).await,
                }
            }
            Action::Redirect(redirect) => self.redirect(redirect, &found).await,
            Action::Respond(..) if self.wants_tunnel() => Err(Kind::UpgradeRefused.into()),
            Action::Respond(respond, body) => self.respond(respond, body.as_ref(), &found).await,
            Action::Files(files) => Box::pin(self.send_file(files, &found)).await,
        }
    }

    /// The request halves of the route's policies, unless the client cancels the request while one of them waits for
    /// something, or the time of the request is over then.
    async fn apply_policies(&mut self, found: &Match) -> Result<Step, Error> {
        let until = self.deadline()?;
        let Exchange { snapshot, origin, worker, .. } = self;
        let client = KnownClient { forwarding: &snapshot.forwarding, origin };
        let state = &mut self.record.policies;
        let (kept, worker_index) = worker.of_policies();
        let mut context = PolicyContext {
            request: self.request,
            findings: &mut state.findings,
            client: &client,
            found,
            is_websocket: self.upgrade.as_ref().is_some_and(Upgrade::is_websocket),
            is_grpc: self.record.dialect.is_some(),
            worker: worker_index,
            clock: &worker.io.clock,
            subrequests: &SubrequestClient { worker, snapshot, origin, route: self.record.route },
            failures: None,
        };
        let chain = self.snapshot.chains.of(Some(found.route));
        let mut met = pin!(chain.on_request(&mut context, &mut state.states, kept));
        poll_fn(|cx| match met.as_mut().poll(cx) {
            Poll::Pending if self.body.poll_lost(cx).is_ready() || self.body.is_broken() => {
                Poll::Ready(Err(Kind::ClientGone.into()))
            }
            Poll::Pending if self.timer.clock().is_past(until) => {
                Poll::Ready(Err(Kind::Deadline.into()))
            }
            Poll::Pending => {
                // That a connection is broken may show in nothing but a look.
                self.timer.wake_at(cx, self.timer.clock().deadline(Duration::ZERO));
                Poll::Pending
            }
            met => met,
        })
        .await
    }

    /// What the body of the request passes through on its way to an upstream. The head says what it is then.
    fn request_transforms(&mut self, proxy: &Proxy) -> Result<Transforms<'x>, Error> {
        let mut transforms = Transforms::default();
        if let Some(dialect) = self.web_dialect(proxy) {
            web::to_native(self.request).map_err(|_| Kind::Internal)?;
            if dialect == Dialect::WebText && !self.length.is_empty() {
                transforms.push(web::TextDecoder::default());
            }
        } else if let Some(decoding) = self.decoding()? {
            describe_decoded(&mut self.request.fields);
            let snapshot: &'x Snapshot = self.snapshot;
            let client = snapshot.forwarding.client(self.origin, &self.request.fields);
            let memory = snapshot.decoding_memory.of(client.map(ClientNetwork::of));
            transforms.push(Decompressor::new(decoding, memory));
        }
        Ok(transforms)
    }

    /// The dialect of a request that is to be translated.
    fn web_dialect(&self, proxy: &Proxy) -> Option<Dialect> {
        let dialect = proxy.config.grpc_web.then(|| Dialect::of_call(self.request)).flatten();
        dialect.filter(|dialect| *dialect != Dialect::Native)
    }

    /// How the body of the request is decoded, if it is: what a client wants to say over a tunnel is no body.
    fn decoding(&self) -> Result<Option<Decoding>, Error> {
        let length = if self.upgrade.is_some() { BodyLength::None } else { self.length };
        self.record.policies.decoding(length)
    }

    /// Lets an upstream respond to a request whose body is transformed, or noted. Only this way has calls that are found at
    /// run time, and is compiled once for all protocols.
    async fn proxy_through(
        &mut self,
        transforms: Transforms<'_>,
        proxy: &Proxy,
        found: &Match,
    ) -> Result<(), Error> {
        let mut source: &mut dyn RequestBody = &mut *self.body;
        let mut noted = None;
        if let Some(bodies) = self.record.bodies() {
            source = noted.insert(NotedRequest::new(source, bodies));
        }
        let mut transformed = None;
        // The length of what transforms put out is not known.
        let (body, length): (&mut dyn RequestBody, _) = match transforms.is_empty() {
            true => (source, self.length),
            false => {
                (transformed.insert(Transformed::new(source, transforms)), BodyLength::Unknown)
            }
        };
        let sink: &mut dyn ResponseSink = &mut *self.sink;
        let mut inner = Exchange {
            worker: self.worker,
            snapshot: self.snapshot,
            timer: self.timer,
            origin: self.origin,
            request: &mut *self.request,
            length,
            sent_as: self.sent_as,
            expects_continue: self.expects_continue,
            body,
            sink,
            text: &mut *self.text,
            // What passes through something is no tunnel.
            upgrade: None,
            record: std::mem::take(&mut self.record),
        };
        let result = inner.proxy_in_time(proxy, found).await;
        self.record = inner.record;
        result
    }
}

impl<'x, B: RequestBody + ?Sized, S: ResponseSink + ?Sized> Exchange<'x, B, S> {
    /// Whether the client would take any successful response for the consent to a tunnel.
    fn wants_tunnel(&self) -> bool {
        self.upgrade.as_ref().is_some_and(Upgrade::is_binding)
    }

    /// The request for the steps that explain takes as well, and what notes how they go.
    fn steps(&mut self) -> (Steps<'_>, &mut Record) {
        let Exchange { snapshot, origin, request, text, record, .. } = self;
        (Steps { snapshot, origin, request, text }, record)
    }

    /// Reports a failure to the client if that is still possible, and records how the exchange went.
    async fn conclude(&mut self, result: Result<(), Error>) -> Verdict {
        let mut verdict = Verdict::Responded;
        if let Err(error) = result {
            // The client may take its time over the problem document.
            self.record.running = None;
            self.worker.cells().count_failure(error);
            self.record.tell_failure(error);
            verdict = match self.report_failure(error).await {
                Ok(()) => Verdict::Responded,
                Err(error) if error.has_no_client() => {
                    let Record { started, timeout, .. } = self.record;
                    Verdict::Left { is_overdue: grpc::is_overdue(started.elapsed(), timeout) }
                }
                Err(_) => Verdict::Broken,
            };
        }
        self.count(verdict == Verdict::Responded);
        verdict
    }

    /// Counts the exchange, and runs the end halves of its policies.
    fn count(&mut self, is_complete: bool) {
        let (kept, worker) = self.worker.of_policies();
        let Record { route, status, started, last_attempt, .. } = &self.record;
        let end = ExchangeEnd {
            status: status.filter(|_| is_complete),
            took: started.elapsed(),
            received: self.body.received(),
            sent: self.sink.sent(),
        };
        let (route, last_attempt) = (*route, *last_attempt);
        self.snapshot.counted(route).cells(worker).count_response(&end);
        if let Some(attempt) = last_attempt {
            let cells = self.snapshot.upstreams[attempt.upstream()].counted.cells(worker);
            cells.attempt.record(end.took.saturating_sub(attempt.began()));
        }
        let cells = self.worker.cells();
        cells.received.add(end.received);
        cells.sent.add(end.sent);
        self.tell(&end);
        let policies = &mut self.record.policies;
        self.snapshot.chains.of(route).on_end(&end, &mut policies.states, kept, worker);
    }

    /// Sends the failure to the client; fails with it if the response has begun or the client has gone, or is to get none.
    async fn report_failure(&mut self, error: Error) -> Result<(), Error> {
        let is_unseen = error.has_no_client() || error.kind == INJECTED_ABORT;
        match self.sink.is_started() || is_unseen {
            true => Err(error),
            false => self.send_problem(error).await,
        }
    }
}
