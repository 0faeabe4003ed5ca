//! What a request would get, and why: told by the code that serves requests.
//!
//! From the head to the route it takes the steps of the exchange (`Steps`) and tells what it hears of them; policies tell for
//! themselves, in the chain that serves; what a route does is made by the same functions and shown instead of done.

mod health;
mod outcome;
mod policies;
mod question;
#[cfg(test)]
mod tests;
mod tls_route;
mod words;

pub use outcome::{Forwarded, Outcome};
pub use question::BadQuestion;

use crate::files::Site;
use crate::forwarding::{Reach, count_hop};
use crate::grpc::{self, Code, Dialect};
use crate::guard::Guard;
use crate::listener_id::ListenerId;
use crate::listener_policy::ListenerPolicy;
use crate::origin::{Origin, PresentedCertificate};
use crate::route::{self, Allow, Folded, Match, plain_reading};
use crate::snapshot::{self, Action, Snapshot};
use crate::steps::{Destination, Observer, Steps, Unsendable};
use crate::template::{self, BadResult, Parts};
use crate::upgrade::Upgrade;
use question::Question;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;
use std::ops::ControlFlow;
use std::sync::Arc;
use titan_config::{ClientCert, Config, Redirect, Respond, Share};
use titan_h1::{BodyReader, Framing, RequestReader};
use titan_http::path::Normal;
use titan_http::{Fields, Method, RequestHead, Scheme, Status, TargetForm};
use titan_io::error::{Error, Kind};
use titan_io::tls::{Files, Identity};
use titan_policies::credentials::PolicyCredentials;
use titan_policies::state::PolicyState;
use words::{code, text};

/// What a request would get, and why. `Display` shows it in lines with a title each.
#[derive(Debug, Default)]
pub struct Explanation {
    lines: Vec<(&'static str, String)>,
    /// The same for programs.
    pub outcome: Outcome,
}

/// A request that a client would send.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asking<'a> {
    /// The method.
    pub method: &'a str,
    /// An absolute URL, or a path with a `Host` among the fields.
    pub url: &'a str,
    /// The header fields, each as in `Name: value`.
    pub fields: &'a [String],
    /// The certificate that the client presents, as PEM.
    pub certificate: Option<&'a [u8]>,
    /// The address that it connects from; without it nothing is decided by the address.
    pub from: Option<IpAddr>,
}

/// Explains a request. `files` are those that the configuration names; without those of keys, the signatures of tokens
/// are not checked.
///
/// What no client could send is a [`BadQuestion`]; a request that breaks the rules of HTTP is explained, with the
/// response it would get.
pub fn explain(
    config: &Config,
    files: &Files,
    asking: &Asking<'_>,
) -> Result<Explanation, BadQuestion> {
    let Asking { method, url, fields, certificate, from } = *asking;
    let question = Question::parse(method, url, fields)?;
    let identity = certificate.map(Identity::of_pem).transpose();
    let identity = identity.map_err(BadQuestion::Certificate)?;
    let (credentials, unread) = PolicyCredentials::read_some(config, files);
    let unread = unread.iter().map(|why| Some(why.as_ref()?.to_string())).collect();
    let snapshot = &Snapshot::unconnected(config, &credentials);
    let scheme = if question.is_https() { Scheme::Https } else { Scheme::Http };
    let peer = from.unwrap_or(IpAddr::V4(ASSUMED_CLIENT));
    let policy = reached(config, &question);
    let mut origin = snapshot.forwarding.origin(Some(peer), scheme, &Arc::new(policy));
    origin.shown = identity.map(|identity| PresentedCertificate::new((identity, 0)));
    let mut explainer = Explainer {
        config,
        snapshot,
        unread,
        origin,
        is_anybody: from.is_none(),
        dialect: None,
        route: None,
        state: PolicyState::default(),
        why: String::new(),
        page: Explanation::default(),
    };
    if let Err(error) = explainer.serve(&question) {
        explainer.refused(error);
    }
    Ok(explainer.page)
}

/// The client's address if none is given: one that no client has (RFC 5737).
const ASSUMED_CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// The rules of the listener that the URL leads to: the one at its port. None of them has rules otherwise.
fn reached(config: &Config, question: &Question) -> ListenerPolicy {
    let ids = ListenerId::all(&config.listeners);
    let mut listeners = config.listeners.iter().zip(ids);
    let Some((listener, id)) = listeners.find(|(it, _)| words::is_at(it, question.port())) else {
        return ListenerPolicy::default();
    };
    let policy = ListenerPolicy::of(id);
    policy.redirect_to(listener.redirect_to_https.filter(|_| !question.is_https()));
    policy
}

/// Builds an explanation, step by step.
struct Explainer<'c> {
    config: &'c Config,
    snapshot: &'c Snapshot,
    /// Why the keys of each policy cannot be read, if they cannot.
    unread: Vec<Option<String>>,
    /// Where the connection comes from, and the client's certificate.
    origin: Origin,
    /// Whether no client address was given.
    is_anybody: bool,
    /// The dialect of a gRPC call.
    dialect: Option<Dialect>,
    /// The route that matches the request, once it is found.
    route: Option<usize>,
    /// The state of its policies.
    state: PolicyState,
    /// Why the request would be refused here, in more detail than the response gives.
    why: String,
    page: Explanation,
}

impl Explainer<'_> {
    fn serve(&mut self, question: &Question) -> Result<(), Error> {
        self.page.tell("request", question.first_line());
        let mut head = RequestHead::default();
        let framing = self.read_head(question, &mut head)?;
        self.listeners(question.port());
        if self.tls_route(question, &head) {
            return Ok(());
        }
        self.certificate();
        self.client(&head);
        let upgrade = Upgrade::of_request(&head, framing.into());
        let found = match self.take_steps(&mut head)? {
            Destination::Route(found) => found,
            Destination::Https(port) => return self.redirect_to_https(port, &head),
            Destination::Response(response) => {
                self.tell_status(response.head.status, "");
                return Ok(());
            }
        };
        let look_alike = std::mem::take(&mut self.why);
        if !look_alike.is_empty() {
            self.page.tell("look-alike", look_alike);
        }
        if let ControlFlow::Break(status) = self.policies(&found, &mut head, upgrade.as_ref())? {
            self.tell_status(status, "");
            return Ok(());
        }
        match &self.snapshot.actions[found.route] {
            Action::Proxy(proxy) => self.proxy(proxy, &found, head, framing),
            Action::Redirect(redirect) => self.redirect(redirect, &found, &head),
            Action::Respond(respond, _) => {
                self.respond(respond);
                Ok(())
            }
            Action::Files(files) => self.files(files, &head),
        }
    }

    /// Takes the steps that every request takes.
    fn take_steps(&mut self, request: &mut RequestHead) -> Result<Destination, Error> {
        let (snapshot, origin) = (self.snapshot, &self.origin.clone());
        Steps { snapshot, origin, request, text: &mut Vec::new() }.route(0, self)
    }

    fn read_head(&mut self, question: &Question, head: &mut RequestHead) -> Result<Framing, Error> {
        let mut reader = RequestReader::new(self.snapshot.request_limits);
        let read = reader.read(question.bytes(), head).map_err(Error::bad_request)?;
        let start = read.expect("a question ends with an empty line");
        self.dialect = Dialect::of_call(head);
        self.page.outcome.received = outcome::fields(&head.fields);
        self.page.tell("host", head.authority().map_or("none".to_owned(), text));
        match start.framing {
            Framing::Length(length) => self.page.tell("body", format!("{length} bytes")),
            Framing::Chunked => self.page.tell("body", "chunked"),
            Framing::None | Framing::UntilClose => {}
        }
        Ok(start.framing)
    }

    /// Which one the client reaches is a matter of the port alone.
    fn listeners(&mut self, port: Option<u16>) {
        for listener in &self.config.listeners {
            self.page.tell("listener", words::listener(listener, port));
        }
    }

    fn redirect_to_https(&mut self, port: NonZeroU16, head: &RequestHead) -> Result<(), Error> {
        let mut location = Vec::new();
        template::write_https(head, port, &mut location).map_err(|bad| self.bad_result(bad))?;
        self.page.tell("response", words::status(Status::PERMANENT_REDIRECT));
        self.page.outcome.status = Some(Status::PERMANENT_REDIRECT);
        self.tell_location(&location);
        Ok(())
    }

    /// What routes can see of the certificate. Whether it would be accepted is not checked.
    fn certificate(&mut self) {
        let Explainer { origin: Origin { shown: Some(shown), .. }, page, .. } = self else {
            return;
        };
        for part in words::PARTS {
            for value in shown.identity.values(part) {
                page.tell("shown", format!("{}: {value}", words::part(part)));
            }
        }
    }

    /// Whose request it is, where that is known.
    fn client(&mut self, head: &RequestHead) {
        let Some(peer) = self.origin.address.filter(|_| !self.is_anybody) else { return };
        let line = match self.known_client(head) {
            None => format!("unknown: the trusted proxy {peer} sent no client address"),
            Some(client) if client == peer => client.to_string(),
            Some(client) => format!("{client}, behind the trusted proxy {peer}"),
        };
        self.page.tell("client", line);
    }

    fn known_client(&self, head: &RequestHead) -> Option<IpAddr> {
        let client = self.snapshot.forwarding.client(&self.origin, &head.fields);
        client.filter(|_| !self.is_anybody)
    }

    /// Every route that is tried, in order, and why those before the last one do not take the request.
    fn candidates(&mut self, head: &RequestHead) {
        let Explainer { config, snapshot, origin, page, .. } = self;
        let identity = origin.shown.as_ref().map(|shown| &*shown.identity);
        let mut number = 0;
        snapshot.routes.explain(&route::Request::new(head, origin), |index, mismatch| {
            let route = &config.routes[index];
            let verdict = mismatch.map_or_else(
                || "matches".to_owned(),
                |mismatch| {
                    let why = words::mismatch((route, config), mismatch, head, identity);
                    format!("no match: {why}")
                },
            );
            number += 1;
            page.tell("tried", format!("{number}. {}: {verdict}", route.name));
        });
        match config.routes.len() - number {
            0 => {}
            1 => page.tell("", "1 more route follows"),
            more => page.tell("", format!("{more} more routes follow")),
        }
    }

    fn route(&mut self, found: &Match, head: &RequestHead) {
        let route = &self.config.routes[found.route];
        self.page.tell("route", words::route(route, self.config));
        for (index, name) in route.path.params().enumerate() {
            let value = text(found.params.get(index, head.path()));
            self.page.tell("captured", format!("{name} = {}", code(&value)));
        }
        if let Some(importance) = words::importance(route, self.config) {
            self.page.tell("importance", importance);
        }
    }

    /// The route for whose path upstreams may take that of the request, if there is one.
    fn look_alike(&self, found: &Match, head: &RequestHead) -> Option<String> {
        let routes = &self.config.routes;
        let view = route::Request::new(head, &self.origin);
        let plain = plain_reading(view.path);
        let plain = route::Request { path: &plain, ..view };
        let other = Folded::new(routes).other_route(found.route, &plain, &mut Vec::new())?;
        let other = &routes[other].name;
        Some(format!("upstreams may take the path for one of the route {other}: see `paths`"))
    }

    fn redirect(
        &mut self,
        redirect: &Redirect,
        found: &Match,
        head: &RequestHead,
    ) -> Result<(), Error> {
        let Redirect { to, status } = redirect;
        let mut location = Vec::new();
        let written = template::write_location(to, &Parts::of(head, found), &mut location);
        written.map_err(|bad| self.bad_result(bad))?;
        self.tell_status(*status, "");
        self.tell_location(&location);
        Ok(())
    }

    fn tell_location(&mut self, location: &[u8]) {
        self.page.tell("", format!("Location: {}", text(location)));
        self.page.outcome.location = Some(text(location));
    }

    fn respond(&mut self, respond: &Respond) {
        let Respond { status, body, template, content_type, headers } = respond;
        self.tell_status(*status, "");
        if let Some(media_type) = content_type {
            let media_type = media_type.as_str();
            let body = match template {
                Some(_) => format!("{media_type}, made for each request"),
                None => format!("{} bytes of {media_type}", body.len()),
            };
            self.page.tell("", body);
        }
        for (name, value) in headers {
            self.page.tell("", format!("{}: {}", name.as_str(), value.as_str()));
        }
    }

    /// Which files would be looked up. Nothing is read.
    fn files(&mut self, files: &Site, head: &RequestHead) -> Result<(), Error> {
        if ![Method::GET, Method::HEAD].contains(&head.method) {
            return Err(self.because(Kind::MethodNotAllowed, "Allow: GET, HEAD"));
        }
        let plan = files.plan(head.path());
        let plan =
            plan.ok_or_else(|| self.because(Kind::NoFile, "No file here can have that name."))?;
        for (title, line) in words::files(files, &plan) {
            self.page.tell(title, line);
        }
        Ok(())
    }

    fn proxy(
        &mut self,
        proxy: &snapshot::Proxy,
        found: &Match,
        mut head: RequestHead,
        framing: Framing,
    ) -> Result<(), Error> {
        let config = &proxy.config;
        self.state.decoding(framing.into())?;
        if self.dialect.is_some() {
            grpc::timeout(&head.fields)?;
        }
        if let Reach::Here(status) = count_hop(&mut head).map_err(|_| Kind::Internal)? {
            self.tell_status(status, ", because Max-Forwards is 0");
            return Ok(());
        }
        if let Some(most) = config.body_limit.at_most() {
            let mut body = BodyReader::new(framing, &self.snapshot.request_limits);
            let why = || format!("The limit of this route is {most}.");
            let limited = body.set_limit(most.bytes());
            limited.map_err(|_| self.because(Kind::BodyTooLarge, why()))?;
        }
        self.prepare(proxy, found, &mut head)?;
        let query = head.query().map_or(String::new(), |query| format!("?{}", text(query)));
        self.page.tell("forwards", format!("{:?} {}{query}", head.method, text(head.path())));
        let host = words::host_sent(&config.send_host, &head);
        self.page.tell("", format!("Host: {host}"));
        self.page.outcome.forwarded = Some(Forwarded::new(&head, host));
        if self.origin.shown.is_some() && self.config.forwarding.client_cert != ClientCert::Off {
            self.page.tell("", "Client-Cert: the client's certificate");
        }
        self.upstreams(config);
        if config.grpc_web && self.dialect.is_some_and(|it| it != Dialect::Native) {
            self.page.tell("grpc-web", "translated to gRPC, and the response back");
        }
        let takes_tunnels =
            |share: &Share| !self.config.upstream(share.upstream).protocol.is_always_shared();
        let takes_tunnels = config.shares.iter().any(takes_tunnels);
        if let Some(deadline) = words::deadline(&config.timeouts, self.dialect.is_some()) {
            self.page.tell("deadline", deadline);
        }
        words::terms(config, &self.config.limits, takes_tunnels)
            .into_iter()
            .for_each(|(title, terms)| self.page.tell(title, terms));
        Ok(())
    }

    /// Turns the request into what the upstream gets, as the exchange does.
    fn prepare(
        &mut self,
        proxy: &snapshot::Proxy,
        found: &Match,
        request: &mut RequestHead,
    ) -> Result<(), Error> {
        let (snapshot, origin) = (self.snapshot, &self.origin);
        let mut steps = Steps { snapshot, origin, request, text: &mut Vec::new() };
        steps.prepare(proxy, found).map_err(|unsendable| match unsendable {
            Unsendable::Rewrite(bad) => self.bad_result(bad),
            other => other.into(),
        })
    }

    fn upstreams(&mut self, config: &titan_config::Proxy) {
        let titan_config::Proxy { shares, retries, mirrors, .. } = config;
        let sum: u32 = shares.iter().map(|share| u32::from(share.weight.get())).sum();
        for Share { upstream, weight } in shares {
            let upstream = self.config.upstream(*upstream);
            self.page.outcome.upstreams.push(upstream.name.to_string());
            let share = match shares.len() {
                1 => String::new(),
                _ => format!(", {weight} of {sum} requests"),
            };
            let balance = words::balance(&upstream.balance);
            self.page.tell(
                "upstream",
                format!("{}{share}, {balance}{}", upstream.name, words::spoken(upstream)),
            );
            for endpoint in &upstream.endpoints {
                self.page.tell("endpoint", words::endpoint(endpoint));
            }
            self.page.tell("health", health::health(upstream));
            self.page.tell("ejection", health::ejection(upstream));
            if retries.attempts > 0 {
                self.page.tell("budget", words::retry_budget(&upstream.retry_budget));
            }
            if let Some(hedge) = upstream.hedge.as_ref().filter(|_| retries.attempts > 0) {
                self.page.tell("hedge", words::hedge(hedge));
            }
            if let Some(concurrency) = &upstream.concurrency {
                self.page.tell("running", words::concurrency(concurrency));
            }
            if let Some(breaker) = &upstream.circuit_breaker {
                let next = |id| self.config.upstream(id).name.as_str();
                self.page.tell("breaker", words::circuit_breaker(breaker));
                self.page.tell("", words::open_breaker(breaker, next));
            }
        }
        for mirror in mirrors {
            let name = &self.config.upstream(mirror.upstream).name;
            self.page.tell("mirror", words::mirror(mirror, name.as_str()));
            if let Some(comparison) = &mirror.compare {
                self.page.tell("", words::comparison(comparison));
            }
        }
    }

    /// A status of the gateway's own, and what a transform makes of it.
    fn tell_status(&mut self, status: Status, why: &str) {
        let sent = self.snapshot.chains.of(self.route).status_for(&self.state, status);
        self.page.outcome.status = Some(sent);
        self.page.tell("response", format!("{}{why}", words::status(sent)));
        if sent != status {
            self.page.tell("", format!("instead of {}, by the transform", words::status(status)));
        }
    }

    /// An error, with what the response does not say to the client.
    fn because(&mut self, kind: Kind, why: impl Into<String>) -> Error {
        self.why = why.into();
        kind.into()
    }

    fn bad_result(&mut self, bad: BadResult) -> Error {
        let why = format!("Here {bad}.");
        self.because(bad.into(), why)
    }

    fn refused(&mut self, error: Error) {
        let code = error.kind.code();
        self.page.outcome.code = Some(code);
        match self.dialect {
            None => self.tell_status(error.status(), &format!(" ({code})")),
            Some(_) => {
                let status = Code::of(error);
                let why = format!(", grpc-status {} {status:?} ({code})", status as u8);
                self.tell_status(Status::OK, &why);
            }
        }
        let detail = self.state.findings.detail.as_deref().map(str::to_owned);
        self.page.tell("", detail.unwrap_or_else(|| error.to_string()));
        let sent = self.snapshot.chains.of(self.route).status_for(&self.state, error.status());
        if let Some(page) = self.snapshot.error_pages.find(self.route, sent)
            && self.dialect.is_none()
        {
            let media_type = page.content_type.as_str();
            self.page.tell("", format!("with a {media_type} page, unless `Accept` prefers JSON"));
        }
        if !self.why.is_empty() {
            self.page.tell("", &self.why);
        }
    }
}

impl Observer for Explainer<'_> {
    fn policies(&mut self) -> &mut PolicyState {
        &mut self.state
    }

    fn takes(&mut self, found: &Match, request: &RequestHead) {
        self.route = Some(found.route);
        self.page.outcome.takes(&self.config.routes[found.route]);
        self.route(found, request);
        self.why = self.look_alike(found, request).unwrap_or_default();
    }

    fn allows(&mut self, allow: Allow) {
        self.why = format!("Allow: {allow}");
    }

    fn bad_name(&mut self, name: &[u8]) {
        let name = code(&text(name));
        self.why = format!("Its name is {name}; `limits.field_names` is `strict`.");
    }

    fn strips(&mut self, guard: &Guard, fields: &Fields) {
        let removed = guard.explain(self.origin.is_trusted(), fields);
        removed.into_iter().for_each(|field| self.page.tell("removed", field));
    }

    fn normalised(&mut self, received: &[u8], path: Normal<'_>) {
        let received = text(received);
        self.page.tell(
            "path",
            match path {
                Normal::Same => received,
                Normal::Changed(path) => {
                    format!("{}, the normal form of {received}", text(path))
                }
            },
        );
    }

    fn seeks_route(&mut self, request: &RequestHead) {
        if request.target.form == TargetForm::Asterisk {
            self.page.tell("path", "* (the server as a whole)");
        }
        self.candidates(request);
    }

    fn is_preflight(&mut self, for_route: bool) {
        let what = match for_route {
            true => "for the route of the request that the page wants to send",
            false => "for requests that match no route: the page may see that",
        };
        self.page.tell("preflight", what);
    }
}

impl Explanation {
    /// Adds a line; one without a title goes with the line before it.
    fn tell(&mut self, title: &'static str, line: impl Into<String>) {
        self.lines.push((title, line.into()));
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "";
        for (title, line) in &self.lines {
            let shown = if *title == before { "" } else { title };
            writeln!(f, "{shown:<9} {line}")?;
            before = if title.is_empty() { before } else { title };
        }
        Ok(())
    }
}
