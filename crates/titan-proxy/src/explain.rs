//! What a request would get, and why: told by the code that serves requests.
//!
//! The steps are those of `Exchange::serve`, in its order and on the same tables; where the exchange
//! would do something, this says it.

mod policies;
mod question;
#[cfg(test)]
mod tests;
mod words;

pub use question::BadQuestion;

use crate::exchange::{answer_unrouted_preflight, preflight_route};
use crate::files::Site;
use crate::forwarding::{Reach, Refused, count_hop};
use crate::grpc::{Code, Dialect};
use crate::origin::Origin;
use crate::route::{self, Folded, Match, NoMatch, plain_reading};
use crate::snapshot::{self, Action, Snapshot};
use crate::template::{self, BadResult, Parts};
use crate::upgrade::Upgrade;
use question::Question;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use titan_config::{ClientCert, Config, Redirect, Respond, Share};
use titan_h1::{BodyReader, Framing, RequestReader};
use titan_http::path::{Normal, normalise};
use titan_http::{Method, RequestHead, Scheme, Status, TargetForm, remove_hop_by_hop};
use titan_io::error::{Error, Kind};
use titan_io::tls::{Files, Identity};
use titan_policies::credentials::Keys;
use titan_policies::state::PolicyState;
use words::{code, text};

/// What a request would get, and why. `Display` shows it in lines with a title each.
#[derive(Debug, Default)]
pub struct Explanation {
    lines: Vec<(&'static str, String)>,
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
    /// The certificate that the client has shown, as PEM.
    pub certificate: Option<&'a [u8]>,
    /// The address that it connects from; without it nothing is decided by the address.
    pub from: Option<IpAddr>,
}

/// Explains a request. `files` are those that the configuration names; without those of keys, the signatures of tokens
/// are not checked.
///
/// What no client could send is a [`BadQuestion`]; a request that breaks the rules of HTTP is explained, with the
/// answer it would get.
pub fn explain(
    config: &Config,
    files: &Files,
    asking: &Asking<'_>,
) -> Result<Explanation, BadQuestion> {
    let Asking { method, url, fields, certificate, from } = *asking;
    let question = Question::parse(method, url, fields)?;
    let identity = certificate.map(Identity::of_pem).transpose();
    let identity = identity.map_err(BadQuestion::Certificate)?.map(Rc::new);
    let (keys, unread) = Keys::read_some(config, files);
    let unread = unread.iter().map(|why| Some(why.as_ref()?.to_string())).collect();
    let snapshot = &Snapshot::unconnected(config, keys);
    let scheme = if question.is_https() { Scheme::Https } else { Scheme::Http };
    let peer = from.unwrap_or(IpAddr::V4(SOMEBODY));
    let mut tale = Tale {
        config,
        snapshot,
        unread,
        identity,
        origin: snapshot.forwarding.origin(Some(peer), scheme, &Arc::default()),
        is_anybody: from.is_none(),
        dialect: None,
        route: None,
        state: PolicyState::default(),
        page: Explanation::default(),
    };
    if let Err(Stop { error, why }) = tale.serve(&question) {
        tale.refused(error, &why);
    }
    Ok(tale.page)
}

/// Who asks where nobody says it: nobody has such an address (RFC 5737).
const SOMEBODY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// An explanation as far as it has come.
struct Tale<'c> {
    config: &'c Config,
    snapshot: &'c Snapshot,
    /// Why the keys of each policy cannot be read, of those whose cannot.
    unread: Vec<Option<String>>,
    identity: Option<Rc<Identity>>,
    /// Where the connection comes from.
    origin: Origin,
    /// Whether nobody has said where.
    is_anybody: bool,
    /// What a gRPC call is made in.
    dialect: Option<Dialect>,
    /// The route that takes the request, once it is found.
    route: Option<usize>,
    /// What its policies have noted.
    state: PolicyState,
    page: Explanation,
}

/// Why the request goes no further.
struct Stop {
    error: Error,
    /// What the response does not say to the client; often nothing.
    why: String,
}

impl Tale<'_> {
    fn serve(&mut self, question: &Question) -> Result<(), Stop> {
        self.page.tell("request", question.first_line());
        let mut head = RequestHead::default();
        let framing = self.read_head(question, &mut head)?;
        self.listeners(question.port());
        self.certificate();
        self.client(&head);
        let upgrade = Upgrade::of_request(&head, framing.into());
        if let Some(name) = self.snapshot.guard.refused_name(&head.fields) {
            let why =
                format!("Its name is {}; `limits.field_names` is `strict`.", code(&text(name)));
            return Err(Stop { error: Kind::FieldName.into(), why });
        }
        if !remove_hop_by_hop(&mut head.fields) {
            return Err(Kind::ConnectionList.into());
        }
        self.strip(&mut head);
        self.normalise_path(&mut head)?;
        if let Some(port) = self.https(question) {
            return self.redirect_to_https(port, &head);
        }
        self.candidates(&head);
        let Some(found) = self.find_route(&head)? else { return Ok(()) };
        let found = found.of(&head);
        self.route = Some(found.route);
        self.route(&found, &head);
        self.judge_path(&found, &head)?;
        if let ControlFlow::Break(status) = self.policies(&found, &mut head, upgrade.as_ref())? {
            self.answer(status, "");
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

    fn read_head(&mut self, question: &Question, head: &mut RequestHead) -> Result<Framing, Stop> {
        let mut reader = RequestReader::new(self.snapshot.request_limits);
        let read = reader.read(question.bytes(), head).map_err(Error::bad_request)?;
        let start = read.expect("a question ends with an empty line");
        self.dialect = Dialect::of_call(head);
        self.page.tell("host", head.authority().map_or("none".to_owned(), text));
        match start.framing {
            Framing::Length(length) => self.page.tell("body", format!("{length} bytes")),
            Framing::Chunked => self.page.tell("body", "chunked"),
            Framing::None | Framing::UntilClose => {}
        }
        Ok(start.framing)
    }

    /// Removes what the peer may not write.
    fn strip(&mut self, head: &mut RequestHead) {
        let guard = &self.snapshot.guard;
        let removed = guard.explain(self.origin.is_trusted, &head.fields);
        removed.into_iter().for_each(|field| self.page.tell("removed", field));
        guard.strip_head(self.origin.is_trusted, &mut head.fields);
    }

    /// Routes belong to no listener; which one the client reaches is a matter of the port alone.
    fn listeners(&mut self, port: Option<u16>) {
        for listener in &self.config.listeners {
            self.page.tell("listener", words::listener(listener, port));
        }
    }

    /// Where to the listener that the URL leads to sends every request, if it does.
    fn https(&self, question: &Question) -> Option<NonZeroU16> {
        let port = question.port().filter(|_| !question.is_https());
        let reached = self.config.listeners.iter().find(|it| words::is_at(it, port));
        reached.and_then(|listener| listener.redirect_to_https)
    }

    fn redirect_to_https(&mut self, port: NonZeroU16, head: &RequestHead) -> Result<(), Stop> {
        let mut location = Vec::new();
        template::write_https(head, port, &mut location)?;
        self.page.tell("response", words::status(Status::PERMANENT_REDIRECT));
        self.page.tell("", format!("Location: {}", text(&location)));
        Ok(())
    }

    /// What routes can see of the certificate that is shown. Whether it would be taken is not looked at.
    fn certificate(&mut self) {
        let Tale { identity: Some(identity), page, .. } = self else { return };
        for part in words::PARTS {
            for value in identity.values(part) {
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

    fn normalise_path(&mut self, head: &mut RequestHead) -> Result<(), Stop> {
        if head.method == Method::CONNECT {
            return Err(Kind::ConnectMethod.into());
        }
        if head.target.form == TargetForm::Asterisk {
            self.page.tell("path", "* (the server as a whole)");
            return Ok(());
        }
        let received = text(head.path());
        match normalise(head.path(), &mut Vec::new()).map_err(Kind::Path)? {
            Normal::Same => self.page.tell("path", received),
            Normal::Changed(path) => {
                self.page.tell("path", format!("{}, the normal form of {received}", text(path)));
                head.set_path(path).map_err(|_| Kind::Internal)?;
            }
        }
        Ok(())
    }

    /// Every route that is tried, in order, and why those before the last one do not take the request.
    fn candidates(&mut self, head: &RequestHead) {
        let Tale { config, snapshot, identity, page, .. } = self;
        let identity = identity.as_deref();
        let mut number = 0;
        snapshot.routes.explain(&route::Request::new(head, identity), |index, mismatch| {
            let route = &config.routes[index];
            let verdict = mismatch.map_or_else(
                || "matches".to_owned(),
                |mismatch| {
                    format!("no match: {}", words::mismatch(route, mismatch, head, identity))
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

    /// The route; none where the response needs none.
    fn find_route(&mut self, head: &RequestHead) -> Result<Option<Match>, Stop> {
        let request = route::Request::new(head, self.identity.as_deref());
        if let Some(found) = preflight_route(self.snapshot, head, request) {
            self.page.tell("preflight", "for the route of the request that the page wants to send");
            return Ok(Some(found));
        }
        let no_match = match self.snapshot.routes.find(&request) {
            Ok(found) => return Ok(Some(found)),
            Err(no_match) => no_match,
        };
        let state = &mut PolicyState::default();
        let response = answer_unrouted_preflight(self.snapshot, head, &request, state);
        if let Some(response) = response {
            self.page.tell("preflight", "for requests that match no route: the page may see that");
            self.answer(response.head.status, "");
            return Ok(None);
        }
        Err(match no_match {
            NoMatch::NotFound => Kind::NoRoute.into(),
            NoMatch::MethodNotAllowed(allow) => {
                Stop { error: Kind::MethodNotAllowed.into(), why: format!("Allow: {allow}") }
            }
        })
    }

    fn route(&mut self, found: &Match, head: &RequestHead) {
        let route = &self.config.routes[found.route];
        self.page.tell("route", words::route(route));
        for (index, name) in route.path.params().enumerate() {
            let value = text(found.params.get(index, head.path()));
            self.page.tell("captured", format!("{name} = {}", code(&value)));
        }
    }

    /// Whether the path is refused because upstreams may take it for that of another route, and whether they may.
    fn judge_path(&mut self, found: &Match, head: &RequestHead) -> Result<(), Stop> {
        let Tale { config, snapshot, identity, page, .. } = self;
        let view = route::Request::new(head, identity.as_deref());
        let plain = plain_reading(view.path);
        let plain = route::Request { path: &plain, ..view };
        let other = Folded::new(&config.routes).other_route(found.route, &plain, &mut Vec::new());
        let why = other.map_or(String::new(), |other| {
            let other = &config.routes[other].name;
            format!("upstreams may take the path for one of the route {other}: see `paths`")
        });
        snapshot
            .look_alikes
            .judge(found, &view, &mut Vec::new())
            .map_err(|kind| Stop { error: kind.into(), why: why.clone() })?;
        if !why.is_empty() {
            page.tell("look-alike", why);
        }
        Ok(())
    }

    fn redirect(
        &mut self,
        redirect: &Redirect,
        found: &Match,
        head: &RequestHead,
    ) -> Result<(), Stop> {
        let Redirect { to, status } = redirect;
        let mut location = Vec::new();
        template::write_location(to, &Parts::of(head, found), &mut location)?;
        self.answer(*status, "");
        self.page.tell("", format!("Location: {}", text(&location)));
        Ok(())
    }

    fn respond(&mut self, respond: &Respond) {
        let Respond { status, body, template, content_type, headers } = respond;
        self.answer(*status, "");
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

    /// Which files would be looked for. Nobody looks.
    fn files(&mut self, files: &Site, head: &RequestHead) -> Result<(), Stop> {
        if ![Method::GET, Method::HEAD].contains(&head.method) {
            let why = "Allow: GET, HEAD".to_owned();
            return Err(Stop { error: Kind::MethodNotAllowed.into(), why });
        }
        let why = "No file here can have that name.".to_owned();
        let plan = files.plan(head.path());
        let plan = plan.ok_or(Stop { error: Kind::NoFile.into(), why })?;
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
    ) -> Result<(), Stop> {
        let snapshot::Proxy { config, split: _, rewrite } = proxy;
        if let Reach::Here(status) = count_hop(&mut head).map_err(|_| Kind::Internal)? {
            self.answer(status, ", because Max-Forwards is 0");
            return Ok(());
        }
        if let Some(most) = config.body_limit.at_most() {
            let mut body = BodyReader::new(framing, &self.snapshot.request_limits);
            let why = || format!("The limit of this route is {most}.");
            let limited = body.set_limit(most.bytes());
            limited.map_err(|_| Stop { error: Kind::BodyTooLarge.into(), why: why() })?;
        }
        let mut path = head.path().to_vec();
        if let Some(rewrite) = rewrite {
            rewrite.apply(&Parts::of(&head, found), &mut path)?;
        }
        self.prepare(&mut head)?;
        let query = head.query().map_or(String::new(), |query| format!("?{}", text(query)));
        self.page.tell("forwards", format!("{:?} {}{query}", head.method, text(&path)));
        self.page.tell("", format!("Host: {}", words::host_sent(&config.send_host, &head)));
        if self.identity.is_some() && self.config.forwarding.client_cert != ClientCert::Off {
            self.page.tell("", "Client-Cert: the client's certificate");
        }
        self.upstreams(&config.shares);
        if config.grpc_web && self.dialect.is_some_and(|it| it != Dialect::Native) {
            self.page.tell("grpc-web", "translated to gRPC, and the response back");
        }
        let takes_tunnels = |share: &Share| {
            self.config.upstream(share.upstream).protocol != titan_config::Protocol::H2
        };
        let takes_tunnels = config.shares.iter().any(takes_tunnels);
        words::terms(config, &self.config.limits, takes_tunnels)
            .into_iter()
            .for_each(|(title, terms)| self.page.tell(title, terms));
        Ok(())
    }

    /// Refuses what the exchange refuses when it makes of the request what the upstream is to see.
    fn prepare(&mut self, head: &mut RequestHead) -> Result<(), Stop> {
        let forwarding = &self.snapshot.forwarding;
        let told = forwarding.tell_upstream(&self.origin, head, &mut Vec::new());
        told.map_err(|refused| match refused {
            Refused::Loop => Kind::Loop.into(),
            Refused::Field(_) => Kind::Internal.into(),
        })
    }

    fn upstreams(&mut self, shares: &[Share]) {
        let sum: u32 = shares.iter().map(|share| u32::from(share.weight.get())).sum();
        for Share { upstream, weight } in shares {
            let upstream = self.config.upstream(*upstream);
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
        }
    }

    /// A status of the gateway's own, and what a transform makes of it.
    fn answer(&mut self, status: Status, why: &str) {
        let sent = self.snapshot.chains.of(self.route).status_for(&self.state, status);
        self.page.tell("response", format!("{}{why}", words::status(sent)));
        if sent != status {
            self.page.tell("", format!("instead of {}, by the transform", words::status(status)));
        }
    }

    fn refused(&mut self, error: Error, why: &str) {
        let code = error.kind.code();
        match self.dialect {
            None => self.answer(error.status(), &format!(" ({code})")),
            Some(_) => {
                let status = Code::of(error);
                let why = format!(", grpc-status {} {status:?} ({code})", status as u8);
                self.answer(Status::OK, &why);
            }
        }
        self.page.tell("", error.to_string());
        let sent = self.snapshot.chains.of(self.route).status_for(&self.state, error.status());
        if let Some(page) = self.snapshot.error_pages.find(self.route, sent)
            && self.dialect.is_none()
        {
            let media_type = page.content_type.as_str();
            self.page.tell("", format!("with a {media_type} page, unless `Accept` prefers JSON"));
        }
        if !why.is_empty() {
            self.page.tell("", why);
        }
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

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop { error, why: String::new() }
    }
}

impl From<Kind> for Stop {
    fn from(kind: Kind) -> Stop {
        Error::from(kind).into()
    }
}

impl From<BadResult> for Stop {
    fn from(bad: BadResult) -> Stop {
        let why = format!("Here {bad}.");
        Stop { error: Kind::from(bad).into(), why }
    }
}
