//! One record for each exchange: what it was, how long each of its phases took, and what came of it. Pure; no I/O.
//!
//! An exchange fills an [`ExchangeRecord`] on its way. At its end the record becomes bytes, which its worker hands on,
//! and whose readers see them as a [`Recorded`].

mod attempted;
mod body;
mod bytes;
mod fixed;
mod head;
mod lasting;
mod noted;
mod recorded;

pub use attempted::{AttemptKind, Attempted, Chosen, NotedAttempt};
pub use body::{Bodies, BodyOf, RecordedBody};
pub use head::HeadCut;
pub use noted::NotedFacts;
pub use recorded::{Masked, Recorded, Replayed};

use crate::trace::TraceContext;
use fixed::Fixed;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;
use titan_http::{Scheme, Status, Version};
use titan_io::error::{Error, Side};

/// What is told of an exchange, while it lasts. Its memory is used again.
#[derive(Clone, Debug, Default)]
pub struct ExchangeRecord {
    /// What it tells that is no text.
    pub facts: NotedFacts,
    /// The trace that it belongs to, where there are traces.
    pub trace: Option<TraceContext>,
    /// All texts, in the order in which they were noted.
    arena: Vec<u8>,
    /// Where in `arena` each text is.
    texts: [[u8; 4]; Text::COUNT],
    /// The fields of the request, then those of the response.
    lines: Vec<Pair>,
    /// How many of them the request has.
    request_lines: u16,
    /// Claims of the client's token.
    claims: Vec<Pair>,
    /// The policies that let the request pass, in their order.
    passed: Vec<Place>,
    /// In the order in which they began, but for the last one: what comes of the exchange is decided by that.
    attempts: Vec<NotedAttempt>,
    /// What is kept of both bodies, where anything is.
    pub bodies: Option<Rc<Bodies>>,
}

/// What a record tells that is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// What the record is about.
    pub event: Event,
    /// When the head of the request was complete, in microseconds since 1970.
    pub started: u64,
    /// From then to the end of the response; of a tunnel to its end.
    pub took: Duration,
    /// How long each phase took that there was.
    pub phases: Phases,
    /// Bytes of the request: its head and body.
    pub request_bytes: u64,
    /// Bytes of the response: its head and body.
    pub response_bytes: u64,
    /// The status that the client got.
    pub status: Option<Status>,
    /// How often the request was sent to an endpoint, or was to be.
    pub attempts: u16,
    /// Which side caused the failure that the record names.
    pub caused_by: Option<Side>,
    /// Whether the client's token was known already.
    pub token_cache: Option<CacheUse>,
    /// Whether the decision of the authorization service was.
    pub auth_cache: Option<CacheUse>,
    /// What is not there of the head of the request.
    pub request_cut: HeadCut,
    /// What is not there of that of the response.
    pub response_cut: HeadCut,
    /// Whether the client has all of the response.
    pub is_complete: bool,
    /// The version of HTTP that the client speaks.
    pub version: Version,
    /// The version of TLS that it speaks.
    pub tls: Option<TlsVersion>,
    /// Whether it speaks TLS, or the proxy before it says that it does.
    pub scheme: Scheme,
    /// Who sent the request, as far as trusted proxies tell.
    pub client: Option<IpAddr>,
    /// Whose connection it came over; none for a Unix socket.
    pub peer: Option<IpAddr>,
    /// The trace that it belongs to, where there are traces.
    pub trace: Option<TraceContext>,
}

/// What a record is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Event {
    /// A request with its response, which is over.
    #[default]
    Request,
    /// A tunnel that was opened. There is another record when it ends.
    TunnelOpened,
    /// A tunnel that has ended.
    TunnelClosed,
    /// A connection without HTTP, which is over. It has no request and no status; with TLS its scheme is HTTPS.
    Connection,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// Whether something was in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheUse {
    /// It was.
    Hit,
    /// It was not.
    Miss,
}

/// How long each phase of an exchange took that there was. Those of an attempt are in [`Attempted`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// From the connection's acceptance, or on one that was used before from the first byte, to the complete head.
    pub head: Option<Duration>,
    /// Policies, until the last one had decided.
    pub policies: Option<Duration>,
    /// Waiting for a place at the upstream, and for a connection that another request used.
    pub queue: Option<Duration>,
}

/// A text of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// The name of the listener.
    Listener,
    /// The server name that the client asked for in the handshake.
    Sni,
    /// The method.
    Method,
    /// The host that the request is for, with its port if it names one.
    Host,
    /// Path and query as the client sent them.
    Target,
    /// The name of the route.
    Route,
    /// The code of the failure.
    Error,
    /// The name of the policy that has refused the request.
    RefusedBy,
    /// The name of the policy that has responded to it, otherwise than by refusing it.
    RespondedBy,
    /// The id of the request.
    RequestId,
    /// The id of the trace that it belongs to.
    TraceId,
}

impl Text {
    /// How many there are.
    const COUNT: usize = 11;

    /// Whether the gateway says it, of things in its configuration. Ids of requests are of 128 bytes at most.
    fn is_own(self) -> bool {
        match self {
            Text::Listener
            | Text::Route
            | Text::Error
            | Text::RefusedBy
            | Text::RespondedBy
            | Text::RequestId => true,
            Text::Sni | Text::Method | Text::Host | Text::Target | Text::TraceId => false,
        }
    }
}

/// Where a value comes from that a record has under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureKind {
    /// A header field of the request, as the client sent it.
    RequestHeader,
    /// A header field of the response, as the client got it.
    ResponseHeader,
    /// A claim of the client's token.
    Claim,
}

/// Where a text of a record is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    start: u16,
    length: u16,
}

impl Place {
    /// What is there; nothing where the arena is too short.
    fn of(self, arena: &[u8]) -> &[u8] {
        let start = usize::from(self.start);
        arena.get(start..start + usize::from(self.length)).unwrap_or_default()
    }
}

/// A value and what it is called, as readers get them: the places of both.
type Pair = [u8; 8];

/// The longest text that is kept; of longer ones the beginning is.
pub const MAX_TEXT: usize = 8 << 10;
/// The most bytes that all texts of a record take.
pub const MAX_TEXTS: usize = 48 << 10;
/// The most that those take which come from the network. The rest is for what the gateway says itself: no client may hide the
/// route that it took.
const MAX_FOREIGN: usize = 40 << 10;
/// The most claims that are kept.
const MAX_CLAIMS: usize = 128;
/// The most policies that are told to have let the request pass.
const MAX_PASSED: usize = 64;
/// The most attempts that are told one by one.
const MAX_ATTEMPTS: usize = 16;

impl ExchangeRecord {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.facts = NotedFacts::default();
        self.trace = None;
        self.arena.clear();
        self.texts = Default::default();
        self.lines.clear();
        self.request_lines = 0;
        self.claims.clear();
        self.passed.clear();
        self.attempts.clear();
        self.bodies = None;
    }

    /// Notes a text, in place of the one before.
    pub fn set(&mut self, text: Text, value: &[u8]) {
        let most = if text.is_own() { MAX_TEXTS } else { MAX_FOREIGN };
        let place = self.push_within(most, value);
        self.set_place(text, place);
    }

    /// Notes what was requested.
    pub fn set_target(&mut self, path: &[u8], query: Option<&[u8]>) {
        let start = self.arena.len();
        let most = MAX_FOREIGN.min(start + MAX_TEXT);
        for part in [Some(path), query.map(|_| &b"?"[..]), query].into_iter().flatten() {
            self.push_within(most, part);
        }
        self.set_place(Text::Target, self.place_from(start));
    }

    /// A text that was noted; empty where none was.
    pub fn text(&self, text: Text) -> &[u8] {
        Place::of_bytes(self.texts[text as usize]).of(&self.arena)
    }

    /// Notes a claim of the client's token.
    pub fn add_claim(&mut self, name: &[u8], value: &[u8]) {
        if self.claims.len() < MAX_CLAIMS {
            let pair = pair(self.push(name), self.push(value));
            self.claims.push(pair);
        }
    }

    /// Notes that a policy has let the request pass.
    pub fn add_passed(&mut self, policy: &str) {
        if self.passed.len() < MAX_PASSED {
            let name = self.push_within(MAX_TEXTS, policy.as_bytes());
            self.passed.push(name);
        }
    }

    /// Whether its trace may be told of, as far as is seen without asking how slow it was: it was chosen, or it has failed, or the
    /// client names a trace and there are none here.
    pub fn may_be_traced(&self) -> bool {
        match self.trace {
            Some(trace) => {
                trace.is_sampled() || is_error(self.facts.caused_by(), self.facts.status())
            }
            None => !self.text(Text::TraceId).is_empty(),
        }
    }

    /// Notes how the exchange has failed.
    pub fn fail(&mut self, error: Error) {
        self.facts.set_caused_by(Some(error.side));
        self.set(Text::Error, error.kind.code().as_bytes());
    }

    /// The memory that it takes beside its own size.
    pub fn capacity(&self) -> usize {
        let pairs = self.lines.capacity() + self.claims.capacity();
        self.arena.capacity()
            + pairs * size_of::<Pair>()
            + self.passed.capacity() * size_of::<Place>()
            + self.attempts.capacity() * size_of::<NotedAttempt>()
            + self.bodies.as_ref().map_or(0, |bodies| bodies.capacity())
    }

    /// Appends it to `out`, as [`Recorded::first_of`] reads it.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        bytes::write(self, out);
    }

    fn push(&mut self, text: &[u8]) -> Place {
        self.push_within(MAX_FOREIGN, text)
    }

    /// Keeps as much of a text as there is room for.
    fn push_within(&mut self, most: usize, text: &[u8]) -> Place {
        let start = self.arena.len();
        let room = most.saturating_sub(start).min(MAX_TEXT);
        self.arena.extend_from_slice(&text[..text.len().min(room)]);
        self.place_from(start)
    }

    /// The place of everything from there on.
    fn place_from(&self, start: usize) -> Place {
        Place { start: short(start), length: short(self.arena.len() - start) }
    }

    fn set_place(&mut self, text: Text, place: Place) {
        self.texts[text as usize] = place.to_bytes();
    }
}

#[expect(clippy::cast_possible_truncation, reason = "bounded by `MAX_TEXTS`")]
fn short(offset: usize) -> u16 {
    debug_assert!(offset <= MAX_TEXTS);
    offset as u16
}

fn pair(name: Place, value: Place) -> Pair {
    let ([a, b, c, d], [e, f, g, h]) = (name.to_bytes(), value.to_bytes());
    [a, b, c, d, e, f, g, h]
}

fn places(pair: &Pair) -> (Place, Place) {
    let [a, b, c, d, e, f, g, h] = *pair;
    (Place::of_bytes([a, b, c, d]), Place::of_bytes([e, f, g, h]))
}

impl Facts {
    /// What the client speaks, as logs call it, with its version; of a connection without HTTP what is below that.
    pub fn protocol(&self) -> &'static str {
        match (self.event, self.scheme, self.version) {
            (Event::Connection, Scheme::Https, _) => "TLS",
            (Event::Connection, Scheme::Http, _) => "TCP",
            (_, _, Version::Http10) => "HTTP/1.0",
            (_, _, Version::Http11) => "HTTP/1.1",
            (_, _, Version::Http2) => "HTTP/2",
            (_, _, Version::Http3) => "HTTP/3",
        }
    }

    /// The scheme of the request; of a connection without HTTP what it is instead.
    pub fn scheme_name(&self) -> &'static str {
        match (self.event, self.scheme) {
            (Event::Connection, Scheme::Https) => "tls",
            (Event::Connection, Scheme::Http) => "tcp",
            (_, scheme) => scheme.as_str(),
        }
    }

    /// Whether it counts as an error: it names a failure, or its status is a 5xx.
    pub fn is_error(&self) -> bool {
        is_error(self.caused_by, self.status)
    }
}

fn is_error(caused_by: Option<Side>, status: Option<Status>) -> bool {
    caused_by.is_some() || status.is_some_and(|status| status.class() == 5)
}

impl Event {
    /// Its name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Event::Request => "request",
            Event::TunnelOpened => "tunnel_opened",
            Event::TunnelClosed => "tunnel_closed",
            Event::Connection => "connection",
        }
    }
}

impl CacheUse {
    /// Its name in logs.
    pub fn name(self) -> &'static str {
        match self {
            CacheUse::Hit => "hit",
            CacheUse::Miss => "miss",
        }
    }
}

impl From<bool> for CacheUse {
    fn from(is_hit: bool) -> CacheUse {
        if is_hit { CacheUse::Hit } else { CacheUse::Miss }
    }
}

impl TlsVersion {
    /// Its name in logs.
    pub fn name(self) -> &'static str {
        match self {
            TlsVersion::Tls12 => "TLSv1.2",
            TlsVersion::Tls13 => "TLSv1.3",
        }
    }
}

#[cfg(test)]
mod tests;
