//! The responses of the admin interface: who may make a call, what it does, and a note of it.

use crate::access::{self, Access, Caller, Denial, Place, Use, Why};
use crate::audit::{Audit, Outcome};
use crate::calls::{self, Call, Entry, Found};
use crate::certificates;
use crate::configuration;
use crate::dashboard;
use crate::exposition::{self, Format, Others, Sources};
use crate::figures::{Figures, View};
use crate::history::Author;
use crate::http::{Handler, Peer, Request, Response, Tls};
use crate::identity::Identity;
use crate::log;
use crate::mirrors;
use crate::orders::Orders;
use crate::recorder::{self, Searches};
use crate::reloads::Reloads;
use crate::revocations::{self, RevocationStore};
use crate::session;
use crate::sources;
use crate::upgrades;
use crate::upstreams;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime};
use titan_http::{FieldName, Method, RequestHead, Status};
use titan_observe::events::Log;
use titan_proxy::{Gateway, Metrics, Monitored};
use tokio::sync::Semaphore;

/// Everything that calls show and change.
pub(crate) struct Pages {
    metrics: Arc<Metrics>,
    status: titan_proxy::Status,
    monitored: Monitored,
    log: Log,
    reloads: Arc<Reloads>,
    figures: Arc<Figures>,
    others: Mutex<Others>,
    searches: Searches,
    /// The program's: a drain releases its file while probes are still served.
    store: Weak<RevocationStore>,
    access: Access,
    orders: Orders,
    audit: Audit,
    /// What calls name that are meant for it.
    identity: Option<Identity>,
    /// For connections that wait for the response to a wrong token.
    penalties: Semaphore,
    started: SystemTime,
}

/// All pages, at one of the sockets of the interface.
pub(crate) struct Site {
    pub(crate) pages: Arc<Pages>,
    pub(crate) place: Place,
}

/// Health, readiness and metrics, for anybody, at the other socket.
pub(crate) struct Probes {
    pub(crate) pages: Arc<Pages>,
    pub(crate) place: Place,
}

/// Why there is no call to make.
enum Refusal {
    Nothing,
    OtherMethods(String),
    Denied(&'static Entry, Denial),
}

const TEXT: &str = "text/plain; charset=utf-8";

/// How long the response to a wrong token takes: so that guessing takes long, and keeps nobody else out.
const PENALTY: Duration = Duration::from_secs(1);
/// How many connections wait for that at most. Others with a wrong token are closed at once: they are not to take the places of
/// those who have a right one.
const PENALTIES: usize = 8;

const INDEX: &str = "\
Titan admin interface

/healthz           200 while the process runs
/readyz            200 while connections are accepted, 503 while draining, or before keys, revoked tokens and sources have come
/metrics           counters and histograms, Prometheus text format or OpenMetrics
/openapi.json      a description of all calls, OpenAPI 3.1

/dashboard/        a page for browsers
/session           signing in with a token, for a browser: POST; who calls: GET; signing out: DELETE
/config            the configuration in force: GET; another one: PUT
/plan              what a configuration would change, without changing anything: POST
/reload            the configuration file, read again: POST
/confirm           the configuration that is on trial is to stay: POST
/rollback          an earlier configuration: POST
/history           what was in force: GET
/history/{id}/plan what one of these changed: GET
/sources           where more of the configuration comes from, and what of it is held back: GET
/explain           what a request would get, and why: POST
/certificates      the certificates of listeners, and when they expire: GET
/upgrade           another process takes over, over the Unix socket alone: POST
/upstreams         how upstreams and their endpoints are doing: GET
/upstreams/{name}  how one is doing: GET; drain, eject or restore an endpoint, open or close a breaker: POST
/figures           figures over time, of all routes or of one: GET
/figures/now       figures of this moment, and what is wrong: GET
/figures/routes    figures of the last seconds by route: GET
/figures/upstreams figures of the last seconds by upstream: GET
/figures/live      the last three as they come, as server-sent events: GET
/recorder          the last exchanges that are asked for, by id, route, status, client and time: GET
/recorder/{id}     one of them, with its decisions: GET
/tap               exchanges as they end, as lines of JSON or server-sent events: GET
/mirrors           copies of requests, and where the responses to them differ: GET
/log               which events are written: GET; other levels for a while: PUT
/jwt/revocations   revoked tokens: GET, POST, DELETE with the id

These need a token over TCP, and none over the Unix socket.
";

const PROBES: &str = "\
Titan

/healthz   200 while the process runs
/readyz    200 while connections are accepted, 503 while draining, or before keys, revoked tokens and sources have come
/metrics   counters and histograms, Prometheus text format or OpenMetrics
";

const DESCRIPTION: &str = include_str!("../openapi.json");

impl Pages {
    /// The pages of a gateway that has just started.
    pub(crate) fn new(
        gateway: &Gateway,
        reloads: &Arc<Reloads>,
        store: Option<&Arc<RevocationStore>>,
        access: &Access,
        (orders, identity): (Orders, Option<Identity>),
    ) -> Pages {
        let started = SystemTime::now();
        Pages {
            figures: Arc::new(Figures::new(gateway, reloads, started)),
            others: Mutex::default(),
            searches: Searches::default(),
            metrics: gateway.metrics(),
            status: gateway.status(),
            monitored: gateway.monitored(),
            log: gateway.log().clone(),
            reloads: Arc::clone(reloads),
            store: store.map(Arc::downgrade).unwrap_or_default(),
            access: access.clone(),
            orders,
            audit: Audit::new(gateway.log().clone()),
            identity,
            penalties: Semaphore::new(PENALTIES),
            started,
        }
    }

    /// What people see of the gateway.
    pub(crate) fn figures(&self) -> &Arc<Figures> {
        &self.figures
    }

    /// What connections over TCP begin with.
    pub(crate) fn tls(&self) -> &Tls {
        self.access.tls()
    }

    async fn respond(
        &self,
        call: Call,
        (request, place): (Request, Place),
        author: Option<Author>,
    ) -> Response {
        let named = request.head.fields.named(Identity::FIELD.as_bytes()).next();
        let refusal = named.and_then(|named| Identity::refusal(self.identity.as_ref(), named));
        if let Some(why) = refusal.filter(|_| author.is_some()) {
            return Response::problem(Status::CONFLICT, &why);
        }
        match (call, author) {
            (Call::Index, _) => self.index(&request.head),
            (Call::DashboardFolder | Call::Dashboard | Call::DashboardFile | Call::SignIn, _)
                if !self.access.has_dashboard() =>
            {
                Response::problem(Status::NOT_FOUND, "`admin.dashboard` is off")
            }
            (Call::DashboardFolder, _) => dashboard::folder(),
            (Call::Dashboard | Call::DashboardFile, _) => {
                dashboard::file(calls::last_segment(request.head.path()), &request.head)
            }
            (Call::Health, _) => Response::new(Status::OK, TEXT, "ok\n"),
            (Call::Readiness, _) => self.readiness(),
            (Call::Metrics, _) => self.metrics(&request.head),
            (Call::Description, _) => Response::new(Status::OK, "application/json", DESCRIPTION),
            (Call::SignIn, _) => self.sign_in(&request, place).await,
            // What follows is never open to anybody.
            (_, None) => Why::NoToken.response(),
            (Call::ReadSession, _) => session::read(&self.access, &request, place),
            (Call::SignOut, _) => session::sign_out(&self.access, &request),
            (Call::ReadConfig, _) => configuration::read(&self.orders).await,
            (Call::History, _) => configuration::history(&self.orders).await,
            (Call::CompareHistory, _) => configuration::compare(&self.orders, &request).await,
            (Call::ListSources, _) => sources::list(&self.reloads.attempts().sources),
            (Call::Explain, _) => configuration::explain(&self.orders, &request).await,
            (Call::ListCertificates, _) => certificates::list(&self.status.certificates()),
            (Call::PutConfig, Some(author)) => {
                configuration::put(&self.orders, request, author).await
            }
            (Call::Plan, Some(_)) => configuration::plan(&self.orders, request).await,
            (Call::Reload, Some(author)) => {
                configuration::reload(&self.orders, &request, author).await
            }
            (Call::Confirm, Some(author)) => {
                configuration::confirm(&self.orders, &request, author).await
            }
            (Call::Rollback, Some(author)) => {
                configuration::roll_back(&self.orders, &request, author).await
            }
            (Call::Upgrade, Some(_)) => upgrades::upgrade(&self.orders, &request).await,
            (Call::ListUpstreams, Some(_)) => upstreams::list(self.status.upstreams_now()),
            (Call::ReadUpstream | Call::OrderUpstream, Some(_)) => self.upstream(call, &request),
            (Call::ListMirrors, Some(_)) => mirrors::list(&self.status.mirrors()),
            (Call::ReadLog, Some(_)) => log::read(&self.log),
            (Call::PutLog, Some(_)) => log::put(&self.log, &request),
            (Call::Figures, Some(_)) => self.figures.window(request.head.query()),
            (Call::FiguresNow, Some(_)) => self.figures.view(View::Now),
            (Call::FiguresOfRoutes, Some(_)) => self.figures.view(View::Routes),
            (Call::FiguresOfUpstreams, Some(_)) => self.figures.view(View::Upstreams),
            (Call::LiveFigures, Some(_)) => self.figures.live(),
            (Call::ListExchanges, Some(_)) => {
                self.searches.list(&self.status.recorder(), &request).await
            }
            (Call::ReadExchange, Some(_)) => {
                let around = (&self.orders, &*self.reloads);
                self.searches.read(&self.status.recorder(), &request, around).await
            }
            (Call::Tap, Some(_)) => recorder::tap(&self.status.recorder(), &request),
            (Call::ListRevocations | Call::Revoke | Call::Restore, Some(_)) => {
                self.revocations(call, &request).await
            }
        }
    }

    fn index(&self, head: &RequestHead) -> Response {
        match self.access.has_dashboard() && dashboard::prefers_page(&head.fields) {
            true => dashboard::redirect(),
            false => Response::new(Status::OK, TEXT, INDEX).with(FieldName::Vary, "Accept"),
        }
    }

    async fn sign_in(&self, request: &Request, place: Place) -> Response {
        match session::sign_in(&self.access, request, place) {
            Ok(response) => response,
            Err(refusal) => self.penalised(refusal).await,
        }
    }

    /// The response to a wrong token, which takes its time.
    async fn penalised(&self, refusal: Response) -> Response {
        self.access.count_refused();
        let Ok(_penalty) = self.penalties.try_acquire() else {
            return Response { is_last: true, ..refusal };
        };
        tokio::time::sleep(PENALTY).await;
        refusal
    }

    fn upstream(&self, call: Call, request: &Request) -> Response {
        let name = calls::last_segment(request.head.path());
        let all = || self.status.upstreams_now();
        match call {
            Call::OrderUpstream => upstreams::order(&self.monitored, all, name, request),
            _ => upstreams::read(all(), name),
        }
    }

    async fn revocations(&self, call: Call, request: &Request) -> Response {
        let Some(store) = self.store.upgrade() else { return revocations::no_store() };
        match call {
            Call::Revoke => revocations::revoke(&store, request).await,
            Call::Restore => {
                revocations::restore(&store, calls::last_segment(request.head.path())).await
            }
            _ => revocations::list(&store, request.head.query()),
        }
    }

    fn readiness(&self) -> Response {
        let is_fed = self.reloads.has_all_sources();
        let awaits_fleet = self.store.upgrade().is_some_and(|store| store.awaits_fleet());
        let not_yet = match self.status.is_ready() {
            true if awaits_fleet => "revoked tokens of other gateways have not been heard yet\n",
            true if is_fed => return Response::new(Status::OK, TEXT, "ready\n"),
            true => "a source has not delivered yet\n",
            false if self.status.awaits_keys() => "token keys have not been fetched yet\n",
            false => "draining\n",
        };
        Response::new(Status::SERVICE_UNAVAILABLE, TEXT, not_yet)
    }

    fn metrics(&self, head: &RequestHead) -> Response {
        let store = self.store.upgrade();
        let revoked = store.as_ref().map(|store| store.count(revocations::now()));
        let fleet = store.and_then(|store| store.fleet_status());
        let calls: Vec<_> = self.audit.counts().collect();
        let sources = Sources {
            metrics: &self.metrics,
            status: &self.status,
            attempts: &self.reloads.attempts(),
            revoked: revoked.map(|counts| (counts, fleet)),
            calls: &calls,
            wrong_tokens: self.access.refused(),
            started: self.started,
            dropped: self.log.dropped(),
            most: self.access.most_series(),
            others: &self.others,
        };
        let format = Format::of(&head.fields);
        let page = exposition::write(&sources, format);
        Response::new(Status::OK, format.content_type(), page).with(FieldName::Vary, "Accept")
    }
}

impl Site {
    /// The call that a request is for, and who makes it.
    fn judge(&self, head: &RequestHead, peer: &Peer) -> Result<(&'static Entry, Caller), Refusal> {
        self.judge_as((head, peer), Use::Counts)
    }

    fn judge_as(
        &self,
        (head, peer): (&RequestHead, &Peer),
        counts: Use,
    ) -> Result<(&'static Entry, Caller), Refusal> {
        let entry = match calls::find(head.method, head.path()) {
            Found::Call(entry) => entry,
            Found::OtherMethods(methods) => return Err(Refusal::OtherMethods(methods)),
            Found::Nothing => return Err(Refusal::Nothing),
        };
        let caller = self.pages.access.caller((entry, counts), head, (self.place, peer));
        caller.map(|caller| (entry, caller)).map_err(|denial| Refusal::Denied(entry, denial))
    }

    fn refuse(&self, refusal: Refusal, head: &RequestHead) -> Response {
        match refusal {
            Refusal::Nothing => {
                Response::problem(Status::NOT_FOUND, "there is no such page; / lists the pages")
            }
            Refusal::OtherMethods(methods) => {
                let detail = format!("this page allows only {methods}");
                let refusal = Response::problem(Status::METHOD_NOT_ALLOWED, &detail);
                refusal.with(FieldName::Allow, &methods)
            }
            // It is what the caller wants.
            Refusal::Denied(
                Entry { call: Call::SignOut, .. },
                Denial { why: Why::NoSession, .. },
            ) => session::signed_out(),
            Refusal::Denied(entry, Denial { who, why }) => {
                let response = why.response();
                if entry.writes() {
                    let outcome = (Outcome::Denied, response.head.status);
                    self.pages.audit.note((entry, head), &who, outcome, why.detail());
                }
                response
            }
        }
    }

    async fn made(&self, request: Request) -> Response {
        // Tokens may have changed since it was admitted.
        let (entry, caller) = match self.judge(&request.head, &request.peer) {
            Ok(judged) => judged,
            Err(refusal) => return self.refuse(refusal, &request.head),
        };
        if !entry.writes() {
            return self.pages.respond(entry.call, (request, self.place), caller.author()).await;
        }
        let head = request.head.clone();
        let more = match entry.call {
            // A digest would let whoever reads the log guess a weak secret that is in it.
            Call::PutConfig | Call::Plan => format!("{} bytes", request.body.len()),
            Call::Upgrade => upgrades::named(&request),
            Call::OrderUpstream => upstreams::named(&request),
            Call::PutLog => log::named(&request),
            Call::SignIn => session::named(&self.pages.access, &request),
            _ => String::new(),
        };
        let asked = (request, self.place);
        let response = self.pages.respond(entry.call, asked, caller.author()).await;
        let status = response.head.status;
        self.pages.audit.note((entry, &head), &caller, (Outcome::of(status), status), &more);
        response
    }
}

/// The same, which no browser takes for another type of content, nor keeps unless it says so.
fn guarded(response: Response) -> Response {
    let response = response.with_named("X-Content-Type-Options", "nosniff");
    match response.head.fields.get(FieldName::CacheControl) {
        Some(_) => response,
        None => response.with(FieldName::CacheControl, "no-store"),
    }
}

impl Handler for Site {
    async fn admit(&self, head: &RequestHead, peer: &Peer) -> Result<usize, Response> {
        let refusal = match self.judge(head, peer) {
            Ok((entry, _)) => return Ok(entry.max_body()),
            Err(refusal) => refusal,
        };
        let is_wrong = matches!(&refusal, Refusal::Denied(_, Denial { why: Why::WrongToken, .. }));
        let response = self.refuse(refusal, head);
        let response = if is_wrong { self.pages.penalised(response).await } else { response };
        Err(guarded(response))
    }

    async fn respond(&self, request: Request) -> Response {
        guarded(self.made(request).await)
    }

    fn may_go_on(&self, head: &RequestHead, peer: &Peer) -> bool {
        // A stream that nobody looks at is not to keep its session.
        self.judge_as((head, peer), Use::IsNone).is_ok()
    }

    fn give_up(&self, head: &RequestHead, peer: &Peer, status: Status, why: &str) {
        match self.judge(head, peer) {
            Ok((entry, who)) if entry.writes() => {
                self.pages.audit.note((entry, head), &who, (Outcome::of(status), status), why);
            }
            Ok(_) => {}
            // Tokens may have changed since it was admitted.
            Err(refusal) => drop(self.refuse(refusal, head)),
        }
    }
}

impl Handler for Probes {
    async fn admit(&self, head: &RequestHead, _peer: &Peer) -> Result<usize, Response> {
        access::check_host(head, self.place).map(|()| 0).map_err(Why::response)
    }

    async fn respond(&self, request: Request) -> Response {
        let call = match request.head.path() {
            b"/" => Call::Index,
            b"/healthz" => Call::Health,
            b"/readyz" => Call::Readiness,
            b"/metrics" => Call::Metrics,
            _ => {
                let detail = "there is no such page; / lists the pages";
                return Response::problem(Status::NOT_FOUND, detail);
            }
        };
        match (request.head.method, call) {
            (Method::GET | Method::HEAD, Call::Index) => Response::new(Status::OK, TEXT, PROBES),
            (Method::GET | Method::HEAD, call) => {
                self.pages.respond(call, (request, self.place), None).await
            }
            _ => {
                let detail = "this page allows only GET, HEAD";
                let refusal = Response::problem(Status::METHOD_NOT_ALLOWED, detail);
                refusal.with(FieldName::Allow, "GET, HEAD")
            }
        }
    }
}
#[cfg(test)]
mod tests;
