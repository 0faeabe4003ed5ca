//! Who calls the admin interface, and whether they may.

mod sessions;
#[cfg(test)]
mod tests;

pub(crate) use sessions::{COOKIE, LIFE, Session, Use};

use crate::calls::Entry;
use crate::history::Author;
use crate::http::{Peer, Response, Tls, media_type};
use arc_swap::ArcSwap;
use sessions::Sessions;
use std::fmt;
use std::hint::black_box;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use titan_config::{Admin, AdminRights, AdminToken, Config, ListenAddress};
use titan_http::{FieldName, RequestHead, Status};
use titan_io::tls::ServerTls;
use titan_proxy::{BadCredentials, Files, sha256};

/// What of the admin interface may change while it runs: tokens, TLS, and how much it shows. Clones are the same one.
#[derive(Clone)]
pub struct Access(Arc<Shared>);

struct Shared {
    settings: ArcSwap<Settings>,
    tls: Tls,
    sessions: Sessions,
    /// Wrong tokens that were presented.
    refused: AtomicU64,
}

/// What a configuration says.
#[derive(Default)]
struct Settings {
    tokens: Vec<AdminToken>,
    /// How many series the page of metrics may have.
    most_series: usize,
    /// Whether there is a page for browsers, which may sign in then.
    has_dashboard: bool,
    /// Where that page finds traces.
    trace_url: Option<String>,
}

/// Tokens, TLS and the rest, to be put in force without fail.
pub struct PreparedAccess {
    settings: Settings,
    tls: Option<Arc<rustls::ServerConfig>>,
}

/// How a socket of the interface can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A Unix socket: the kernel says who calls.
    Unix,
    /// A loopback address.
    ThisMachine,
    /// Any other address.
    Network,
}

/// Who makes a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A process of root, or of the user that the gateway runs as.
    Process { uid: u32, pid: Option<i32> },
    /// Somebody with a token.
    Token { name: String, address: SocketAddr },
    /// Somebody who has signed in with a token, in a browser.
    Session { name: String, address: SocketAddr },
    /// Somebody over TCP, who needs none for this call.
    Anybody(SocketAddr),
}

/// A call that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denial {
    pub(crate) who: Caller,
    pub(crate) why: Why,
}

/// What shows that somebody may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    Token(AdminToken),
    Session(Session),
}

/// Why a call is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// A process of another user.
    User,
    /// `Host` is a name that was looked up.
    Host,
    /// A browser sends it, for a page.
    Browser,
    /// Its body has the type of a form.
    Form,
    /// No token allows it.
    OverTcp,
    /// No tokens are configured, or none can be presented safely.
    NoTokens,
    /// None is presented.
    NoToken,
    /// What is presented is none of them.
    WrongToken,
    /// The cookie is that of no session, or of one that has ended.
    NoSession,
    /// It has the cookie of a session, and does not come from its page.
    Forged,
    /// The token allows to read.
    ReadOnly,
}

impl Access {
    /// What a configuration and the files that it names say.
    pub fn new(config: &Config, files: &Files) -> Result<Access, BadCredentials> {
        let access = Access(Arc::new(Shared {
            settings: ArcSwap::default(),
            tls: Tls::default(),
            sessions: Sessions::default(),
            refused: AtomicU64::new(0),
        }));
        access.replace(Access::prepare(config, files)?);
        Ok(access)
    }

    /// Reads what another configuration says.
    pub fn prepare(config: &Config, files: &Files) -> Result<PreparedAccess, BadCredentials> {
        let Some(admin) = &config.admin else {
            return Ok(PreparedAccess { settings: Settings::default(), tls: None });
        };
        let Admin { tokens, tls, metrics_series, dashboard, trace_url, .. } = admin;
        let tls = tls.as_ref().map(|tls| ServerTls::without_resumption(tls, files)).transpose()?;
        let settings = Settings {
            tokens: tokens.clone(),
            most_series: usize::try_from(*metrics_series).unwrap_or(usize::MAX),
            has_dashboard: *dashboard,
            trace_url: trace_url.clone(),
        };
        Ok(PreparedAccess { settings, tls })
    }

    /// Puts that in force, from the next request and the next connection on.
    pub fn replace(&self, prepared: PreparedAccess) {
        let PreparedAccess { settings, tls } = prepared;
        self.0.settings.store(Arc::new(settings));
        self.0.tls.set(tls);
    }

    /// What connections over TCP begin with.
    pub(crate) fn tls(&self) -> &Tls {
        &self.0.tls
    }

    /// How many series the page of metrics may have.
    pub(crate) fn most_series(&self) -> usize {
        self.0.settings.load().most_series
    }

    /// Whether there is a page for browsers, which may sign in then.
    pub(crate) fn has_dashboard(&self) -> bool {
        self.0.settings.load().has_dashboard
    }

    /// Where the page for browsers finds traces.
    pub(crate) fn trace_url(&self) -> Option<String> {
        self.0.settings.load().trace_url.clone()
    }

    /// How many wrong tokens were presented.
    pub(crate) fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Counts a wrong token.
    pub(crate) fn count_refused(&self) {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Who makes a call, or why it is not allowed.
    pub(crate) fn caller(
        &self,
        (entry, counts): (&Entry, Use),
        head: &RequestHead,
        (place, peer): (Place, &Peer),
    ) -> Result<Caller, Denial> {
        let (address, is_secure) = match *peer {
            Peer::Process { uid, pid } => {
                let who = Caller::Process { uid, pid };
                return match check_process(uid).and_then(|()| check_form(entry, head)) {
                    Ok(()) => Ok(who),
                    Err(why) => Err(Denial { who, why }),
                };
            }
            Peer::Client { address, is_secure } => (address, is_secure),
        };
        let anybody = Caller::Anybody(address);
        let host = check_host(head, place);
        let page = check_own_page(entry, head, is_secure).and_then(|()| check_form(entry, head));
        let Some(needed) = entry.right else {
            let sent = if entry.writes() { host.and(page) } else { host };
            return sent.map(|()| anybody.clone()).map_err(|why| Denial { who: anybody, why });
        };
        let presented = self.presented(head, (place, is_secure), counts);
        // Whatever else is wrong: the log is to name the token that somebody has.
        let who = match &presented {
            Ok(Credential::Token(token)) => Caller::Token { name: token.name.to_string(), address },
            Ok(Credential::Session(session)) => {
                Caller::Session { name: session.token.name.to_string(), address }
            }
            Err(_) => anybody,
        };
        let is_bearer = head.fields.get(FieldName::Authorization).is_some();
        let page = if is_bearer { check_page(entry, head).and(page) } else { page };
        let local = if entry.is_local() { Err(Why::OverTcp) } else { Ok(()) };
        let rights = host.and(page).and(local).and(presented).and_then(|credential| {
            credential.check_forged(entry, head)?;
            Ok(credential.rights())
        });
        match rights {
            Ok(rights) if rights >= needed => Ok(who),
            Ok(_) => Err(Denial { who, why: Why::ReadOnly }),
            Err(why) => Err(Denial { who, why }),
        }
    }

    /// What a request over TCP presents.
    fn presented(
        &self,
        head: &RequestHead,
        (place, is_secure): (Place, bool),
        counts: Use,
    ) -> Result<Credential, Why> {
        let settings = self.0.settings.load();
        let Settings { tokens, has_dashboard, .. } = &**settings;
        if tokens.is_empty() || place == Place::Network && !is_secure {
            return Err(Why::NoTokens);
        }
        if head.fields.get(FieldName::Authorization).is_some() {
            let text = bearer(head).ok_or(Why::NoToken)?;
            let token = find(tokens, text).ok_or(Why::WrongToken)?;
            return Ok(Credential::Token(token.clone()));
        }
        if !has_dashboard || !sessions::has_cookie(&head.fields) {
            return Err(Why::NoToken);
        }
        let session = self.0.sessions.find(&head.fields, tokens, (Instant::now(), counts));
        session.map(Credential::Session).ok_or(Why::NoSession)
    }

    /// Begins a session for whoever knows that token. Returns it with what the cookie is to say.
    pub(crate) fn sign_in(
        &self,
        token: &[u8],
        (place, peer): (Place, &Peer),
    ) -> Result<(Session, String), Why> {
        let settings = self.0.settings.load();
        let tokens = &settings.tokens;
        if tokens.is_empty() || place == Place::Network && !peer.is_secure() {
            return Err(Why::NoTokens);
        }
        let token = find(tokens, token).ok_or(Why::WrongToken)?;
        self.0.sessions.begin(token, Instant::now()).ok_or(Why::NoSession)
    }

    /// The name of that token, if it is one.
    pub(crate) fn name_of(&self, token: &[u8]) -> Option<String> {
        find(&self.0.settings.load().tokens, token).map(|token| token.name.to_string())
    }

    /// Ends the session of a request.
    pub(crate) fn sign_out(&self, head: &RequestHead) {
        self.0.sessions.end(&head.fields);
    }

    /// What shows that the caller may read; nothing for a process, which needs nothing.
    pub(crate) fn credential(
        &self,
        head: &RequestHead,
        (place, peer): (Place, &Peer),
    ) -> Option<Credential> {
        match peer {
            Peer::Process { .. } => None,
            Peer::Client { is_secure, .. } => {
                self.presented(head, (place, *is_secure), Use::Counts).ok()
            }
        }
    }
}

impl Credential {
    pub(crate) fn rights(&self) -> AdminRights {
        match self {
            Credential::Token(token) => token.rights,
            Credential::Session(session) => session.token.rights,
        }
    }

    /// Refuses what a browser may send with the cookie without the page of this interface having asked for it.
    fn check_forged(&self, entry: &Entry, head: &RequestHead) -> Result<(), Why> {
        let Credential::Session(session) = self else { return Ok(()) };
        let mut said = head.fields.named(b"X-CSRF-Token");
        let is_said =
            said.next().is_some_and(|said| sha256(said) == sha256(session.csrf.as_bytes()));
        // Every browser says one of these, and `check_own_page` has looked at what it says.
        let is_placed = head.fields.get(FieldName::Origin).is_some()
            || head.fields.named(b"Sec-Fetch-Site").next().is_some();
        match !entry.writes() || is_said && said.next().is_none() && is_placed {
            true => Ok(()),
            false => Err(Why::Forged),
        }
    }
}

/// Refuses names that were looked up where only this machine gets: a page may have its own name lead here. It reads then what it
/// likes, and says no `Origin`.
pub(crate) fn check_host(head: &RequestHead, place: Place) -> Result<(), Why> {
    match place == Place::ThisMachine && !head.authority().is_none_or(is_this_machine) {
        true => Err(Why::Host),
        false => Ok(()),
    }
}

/// Root may do everything anyway, and so may the user of the process.
fn check_process(uid: u32) -> Result<(), Why> {
    match uid == 0 || uid == rustix::process::geteuid().as_raw() {
        true => Ok(()),
        false => Err(Why::User),
    }
}

/// Refuses what a browser sends for any page: those of this interface have a session, and know no token.
fn check_page(entry: &Entry, head: &RequestHead) -> Result<(), Why> {
    let mut sites = head.fields.named(b"Sec-Fetch-Site");
    // The user has typed the address, or chosen a bookmark: nothing else may lead here, and that only reads.
    let is_typed = |site: &[u8]| site == b"none" && !entry.writes();
    match head.fields.get(FieldName::Origin).is_none() && sites.all(is_typed) {
        true => Ok(()),
        false => Err(Why::Browser),
    }
}

/// Refuses what a browser sends for a page of another origin.
fn check_own_page(entry: &Entry, head: &RequestHead, is_secure: bool) -> Result<(), Why> {
    let mut sites = head.fields.named(b"Sec-Fetch-Site");
    let is_own = |site: &[u8]| site == b"same-origin" || site == b"none" && !entry.writes();
    let mut origins = head.fields.all(FieldName::Origin);
    match sites.all(is_own) && origins.all(|origin| is_own_origin(origin, head, is_secure)) {
        true => Ok(()),
        false => Err(Why::Browser),
    }
}

/// Whether that is the origin which the request is for. Without TLS, something in front may have it.
fn is_own_origin(origin: &[u8], head: &RequestHead, is_secure: bool) -> bool {
    let insecure = || origin.strip_prefix(b"http://").filter(|_| !is_secure);
    let authority = origin.strip_prefix(b"https://").or_else(insecure);
    authority.is_some_and(|authority| {
        head.authority().is_some_and(|own| own.eq_ignore_ascii_case(authority))
    })
}

/// Refuses bodies that a page can send to another origin without asking: those of forms.
fn check_form(entry: &Entry, head: &RequestHead) -> Result<(), Why> {
    const FORMS: [&[u8]; 3] =
        [b"application/x-www-form-urlencoded", b"multipart/form-data", b"text/plain"];
    let media_type = media_type(head);
    match entry.writes() && FORMS.iter().any(|form| media_type.eq_ignore_ascii_case(form)) {
        true => Err(Why::Form),
        false => Ok(()),
    }
}

/// The token that a request presents (RFC 6750 section 2.1): one that presents two presents none.
fn bearer(head: &RequestHead) -> Option<&[u8]> {
    let mut values = head.fields.all(FieldName::Authorization);
    let value = values.next().filter(|_| values.next().is_none())?;
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

/// The token with that text. The time that this takes tells nothing of any.
fn find<'t>(tokens: &'t [AdminToken], text: &[u8]) -> Option<&'t AdminToken> {
    let digest = sha256(text);
    let mut found = None;
    for token in tokens {
        let differences = digest.iter().zip(token.sha256.bytes());
        let differences = differences.fold(0, |all, (ours, theirs)| all | (ours ^ theirs));
        if black_box(differences) == 0 {
            found = Some(token);
        }
    }
    found
}

/// Whether it names this machine or an address, and so was not looked up.
fn is_this_machine(authority: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(authority) else { return false };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.rsplit_once(':').filter(|(_, port)| is_port(port));
    let host = port.map_or(text, |(host, _)| host);
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    bare.unwrap_or(host).parse::<IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost")
}

impl Place {
    /// How that address can be reached.
    pub(crate) fn of(address: &ListenAddress) -> Place {
        match address {
            ListenAddress::Unix(_) => Place::Unix,
            ListenAddress::Tcp(it) if it.ip().to_canonical().is_loopback() => Place::ThisMachine,
            ListenAddress::Tcp(_) | ListenAddress::Any(_) => Place::Network,
        }
    }
}

impl Caller {
    /// The same as the history calls them; nobody where no token was presented.
    pub(crate) fn author(&self) -> Option<Author> {
        match self {
            Caller::Process { uid, pid } => Some(Author::Peer { uid: *uid, pid: *pid }),
            Caller::Token { name, .. } | Caller::Session { name, .. } => {
                Some(Author::Token(name.clone()))
            }
            Caller::Anybody(_) => None,
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Caller::Process { uid, pid: Some(pid) } => write!(f, "uid {uid} (pid {pid})"),
            Caller::Process { uid, pid: None } => write!(f, "uid {uid}"),
            Caller::Token { name, address } => write!(f, "token {name} from {address}"),
            Caller::Session { name, address } => write!(f, "session {name} from {address}"),
            Caller::Anybody(address) => address.fmt(f),
        }
    }
}

impl Why {
    /// The response to the call.
    pub(crate) fn response(self) -> Response {
        let response = Response::problem(self.status(), self.detail());
        match self {
            Why::NoToken | Why::NoSession => response.with(FieldName::WwwAuthenticate, "Bearer"),
            Why::WrongToken => {
                response.with(FieldName::WwwAuthenticate, "Bearer error=\"invalid_token\"")
            }
            Why::ReadOnly => {
                response.with(FieldName::WwwAuthenticate, "Bearer error=\"insufficient_scope\"")
            }
            _ => response,
        }
    }

    fn status(self) -> Status {
        match self {
            Why::NoToken | Why::WrongToken | Why::NoSession => Status::UNAUTHORIZED,
            Why::Form => Status::UNSUPPORTED_MEDIA_TYPE,
            Why::User
            | Why::Host
            | Why::Browser
            | Why::Forged
            | Why::OverTcp
            | Why::NoTokens
            | Why::ReadOnly => Status::FORBIDDEN,
        }
    }

    /// What the caller is told.
    pub(crate) fn detail(self) -> &'static str {
        match self {
            Why::User => "only root and the user that the gateway runs as may call it here",
            Why::Host => {
                "use `localhost` or an IP address as the host: this address accepts no other names"
            }
            Why::Browser => {
                "requests from other web pages are not allowed here, nor tokens from any"
            }
            Why::Form => {
                "the content type is one of forms: send `application/yaml` or `application/json` (curl: `-T FILE`, or `-H`)"
            }
            Why::OverTcp => {
                "this executes a program, which no token allows: call it over the Unix socket (`admin.socket`)"
            }
            Why::NoTokens => {
                "over TCP this needs a token, and `admin.tokens` has none: use the Unix socket (`admin.socket`)"
            }
            Why::NoToken => {
                "this needs a token of `admin.tokens`: send `Authorization: Bearer TOKEN`, or use the Unix socket (`admin.socket`)"
            }
            Why::WrongToken => "this is none of the tokens in `admin.tokens`",
            Why::NoSession => "the session has ended: sign in again",
            Why::Forged => {
                "a session takes its `X-CSRF-Token` (GET /session has it) from the page of this interface for what changes something"
            }
            Why::ReadOnly => "this token has `rights: read`, and this call changes something",
        }
    }
}
