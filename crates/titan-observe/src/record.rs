//! One record for each exchange: what it was, how long each of its phases took, and what came of it. Pure; no I/O.
//!
//! An exchange fills an [`ExchangeRecord`] on its way. At its end the record becomes bytes, which its worker hands on,
//! and whose readers see them as a [`Recorded`].

mod bytes;
mod recorded;

pub use recorded::{CapturedValue, Recorded};

use std::net::IpAddr;
use std::time::Duration;
use titan_http::{Scheme, Status, Version};
use titan_io::error::{Error, Side};

/// What is told of an exchange, while it lasts. Its memory is used again.
#[derive(Clone, Debug, Default)]
pub struct ExchangeRecord {
    /// What it tells that is no text.
    pub facts: Facts,
    /// All texts, in the order in which they were noted.
    arena: Vec<u8>,
    /// Where in `arena` each text is.
    texts: [Place; Text::COUNT],
    captured: Vec<Captured>,
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
    /// The status that the endpoint gave last.
    pub upstream_status: Option<Status>,
    /// How often the request was sent to an endpoint, or was to be.
    pub attempts: u16,
    /// Which side caused the failure that the record names.
    pub caused_by: Option<Side>,
    /// Whether the client's token was known already.
    pub token_cache: Option<CacheUse>,
    /// Whether the decision of the authorization service was.
    pub auth_cache: Option<CacheUse>,
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

/// How long each phase of an exchange took that there was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// From the connection's acceptance, or on one that was used before from the first byte, to the complete head.
    pub head: Option<Duration>,
    /// Policies, until the last one had decided.
    pub policies: Option<Duration>,
    /// Waiting for a place at the upstream, and for a connection that another request used.
    pub queue: Option<Duration>,
    /// Opening the connection to the endpoint.
    pub connect: Option<Duration>,
    /// The TLS handshake with the endpoint.
    pub tls: Option<Duration>,
    /// From the beginning of the last attempt to the head of its response.
    pub upstream_head: Option<Duration>,
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
    /// The name of the upstream.
    Upstream,
    /// The address of the endpoint that was tried last.
    Endpoint,
    /// The code of the failure.
    Error,
    /// The name of the policy that has answered.
    RefusedBy,
    /// The id of the request.
    RequestId,
    /// The id of the trace that it belongs to.
    TraceId,
    /// What the client says that it is.
    UserAgent,
    /// The page that it comes from, as its client says.
    Referer,
}

impl Text {
    /// How many there are.
    const COUNT: usize = 14;

    /// Whether the gateway says it, of things in its configuration. Ids of requests are of 128 bytes at most.
    fn is_own(self) -> bool {
        match self {
            Text::Listener
            | Text::Route
            | Text::Upstream
            | Text::Endpoint
            | Text::Error
            | Text::RefusedBy
            | Text::RequestId => true,
            Text::Sni
            | Text::Method
            | Text::Host
            | Text::Target
            | Text::TraceId
            | Text::UserAgent
            | Text::Referer => false,
        }
    }
}

/// What else a configuration wants to know of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureKind {
    /// A header field of the request, as the client sent it.
    RequestHeader,
    /// A header field of the response.
    ResponseHeader,
    /// A claim of the client's token.
    Claim,
}

/// A part of an arena.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
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

/// A captured value, and what it is called.
#[derive(Clone, Copy, Debug)]
struct Captured {
    kind: CaptureKind,
    name: Place,
    value: Place,
}

/// The longest text that is kept; of longer ones the beginning is.
pub const MAX_TEXT: usize = 8 << 10;
/// The most bytes that all texts of a record take.
pub const MAX_TEXTS: usize = 48 << 10;
/// The most that those take which come from the network. The rest is for what the gateway says itself: no client may hide the
/// route that it took.
const MAX_FOREIGN: usize = 40 << 10;
/// The most values that are captured of an exchange.
pub const MAX_CAPTURED: usize = 128;

impl ExchangeRecord {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.facts = Facts::default();
        self.arena.clear();
        self.texts = Default::default();
        self.captured.clear();
    }

    /// Notes a text, in place of the one before.
    pub fn set(&mut self, text: Text, value: &[u8]) {
        let most = if text.is_own() { MAX_TEXTS } else { MAX_FOREIGN };
        self.texts[text as usize] = self.push_within(most, [value]);
    }

    /// Notes what was requested.
    pub fn set_target(&mut self, path: &[u8], query: Option<&[u8]>) {
        let parts = [path, b"?", query.unwrap_or_default()];
        let parts = &parts[..if query.is_some() { 3 } else { 1 }];
        self.texts[Text::Target as usize] = self.push_all(parts.iter().copied());
    }

    /// A text that was noted; empty where none was.
    pub fn text(&self, text: Text) -> &[u8] {
        self.at(self.texts[text as usize])
    }

    /// Notes what the configuration wants to know, if there is any: of several values of a field their list.
    pub fn capture<'v>(
        &mut self,
        kind: CaptureKind,
        name: &[u8],
        values: impl IntoIterator<Item = &'v [u8]>,
    ) {
        let mut values = values.into_iter();
        let Some(first) = values.next().filter(|_| self.captured.len() < MAX_CAPTURED) else {
            return;
        };
        let name = self.push(name);
        let rest = values.flat_map(|value| [&b", "[..], value]);
        let value = self.push_all([first].into_iter().chain(rest));
        self.captured.push(Captured { kind, name, value });
    }

    /// Notes how the exchange has failed.
    pub fn fail(&mut self, error: Error) {
        self.facts.caused_by = Some(error.side);
        self.set(Text::Error, error.kind.code().as_bytes());
    }

    /// Gives back memory that it does not need now.
    pub fn shrink(&mut self) {
        self.arena.shrink_to_fit();
        self.captured.shrink_to_fit();
    }

    /// Forgets the captured values of that kind.
    pub fn forget(&mut self, kind: CaptureKind) {
        self.captured.retain(|captured| captured.kind != kind);
    }

    /// The memory that it takes beside its own size.
    pub fn capacity(&self) -> usize {
        self.arena.capacity() + self.captured.capacity() * size_of::<Captured>()
    }

    /// Appends it to `out`, as [`Recorded::first_of`] reads it.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        bytes::write(self, out);
    }

    fn push(&mut self, text: &[u8]) -> Place {
        self.push_all([text])
    }

    fn push_all<'t>(&mut self, parts: impl IntoIterator<Item = &'t [u8]>) -> Place {
        self.push_within(MAX_FOREIGN, parts)
    }

    /// Keeps as much of these parts as there is room for, as one text.
    fn push_within<'t>(&mut self, most: usize, parts: impl IntoIterator<Item = &'t [u8]>) -> Place {
        let start = self.arena.len();
        let end = (start + MAX_TEXT).min(most);
        for part in parts {
            let room = end.saturating_sub(self.arena.len());
            self.arena.extend_from_slice(&part[..part.len().min(room)]);
        }
        let length = u16::try_from(self.arena.len() - start).expect("bounded by `MAX_TEXT`");
        Place { start: u16::try_from(start).expect("bounded by `MAX_TEXTS`"), length }
    }

    fn at(&self, place: Place) -> &[u8] {
        place.of(&self.arena)
    }
}

impl Default for Facts {
    fn default() -> Facts {
        Facts {
            event: Event::default(),
            started: 0,
            took: Duration::ZERO,
            phases: Phases::default(),
            request_bytes: 0,
            response_bytes: 0,
            status: None,
            upstream_status: None,
            attempts: 0,
            caused_by: None,
            token_cache: None,
            auth_cache: None,
            is_complete: false,
            version: Version::Http11,
            tls: None,
            scheme: Scheme::Http,
            client: None,
            peer: None,
        }
    }
}

impl Event {
    /// Its name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Event::Request => "request",
            Event::TunnelOpened => "tunnel_opened",
            Event::TunnelClosed => "tunnel_closed",
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
