//! What the engine is asked: its version, its containers, and what happens to them.

use super::container::Container;
use super::crowd::{Crowd, MAX_CONTAINER};
use super::items::{Item, Items, NoList};
use crate::message::shown;
use crate::percent::encoded;
use serde::Deserialize;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use titan_config::{DockerSource, Resolver};
use titan_http::RequestHead;
use titan_upstream::client::{Answer, MOST_BODY, Question, Reuse};
use titan_upstream::members::Upstream;
use titan_upstream::server::Server;
use tokio::net::UnixStream;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

/// The way to an engine.
pub(crate) struct Engine {
    server: Server,
    socket: Option<PathBuf>,
    timeout: Duration,
    /// What it speaks, once that is known.
    version: Cell<Option<Version>>,
}

/// The containers that want to be served, at one moment.
pub(crate) struct Listing {
    /// The oldest ones, as many as are taken.
    pub(crate) containers: Vec<Container>,
    /// Those that are too many or too large, and why they are refused.
    pub(crate) surplus: Vec<(String, String)>,
    /// Those of the ones that are taken that are running, and not unhealthy or about to become healthy: their ids.
    pub(crate) ready: HashSet<String>,
    /// A time before that moment, by the clock of the engine, in seconds since 1970.
    pub(crate) since: Option<u64>,
}

/// A version of the engine's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u16, u16);

/// What is known of a container that is ready.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Ready {
    id: String,
}

/// What the engine says in place of a response.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Complaint {
    message: String,
}

/// Why a list is not that of Docker.
struct Fault(String);

/// That of Docker 20.10: what it has is what is used here.
const OLDEST: Version = Version(1, 41);
/// Bytes of a list, of which as little is kept as is bounded.
const MAX_LIST: usize = 256 << 20;
/// By how much the engine may have looked at its containers before it has dated its response.
const LEEWAY: u64 = 1;
const USER_AGENT: &str = concat!("titan/", env!("CARGO_PKG_VERSION"));

const LABELLED: &str = r#"{"label":["titan.enable"]}"#;
const READY: &str =
    r#"{"label":["titan.enable"],"status":["running"],"health":["healthy","none"]}"#;
/// Probes of containers cause events too, which say nothing.
const EVENTS: &str = concat!(
    r#"{"type":["container","network"],"event":["start","restart","die","pause","unpause","#,
    r#""health_status","rename","destroy","connect","disconnect"]}"#
);

impl Engine {
    pub(crate) fn new(
        config: &DockerSource,
        upstream: Arc<Upstream>,
        resolver: Resolver,
    ) -> Engine {
        let DockerSource { upstream: _, socket, network: _, interval: _, timeout } = config;
        Engine {
            server: Server::new(upstream, resolver),
            socket: socket.clone(),
            timeout: *timeout,
            version: Cell::new(None),
        }
    }

    /// A number that differs from time to time.
    pub(crate) fn random(&self) -> u64 {
        self.server.random()
    }

    /// What messages call it.
    pub(crate) fn address(&self) -> String {
        match &self.socket {
            Some(path) => path.display().to_string(),
            None => self.server.address().map_or_else(|| "docker".to_owned(), String::from),
        }
    }

    /// Whether it is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.socket.is_some()
    }

    /// Asks what it speaks with the next request: it may be another one then.
    pub(crate) fn forget(&self) {
        self.version.set(None);
    }

    /// Its containers.
    pub(crate) async fn containers(&self) -> Result<Listing, String> {
        let mut crowd = Crowd::default();
        let answer = self.list(LABELLED, |item| Ok(crowd.take(item)?)).await?;
        let since = answer.date().and_then(seconds).map(|it| it.saturating_sub(LEEWAY));
        let known: HashSet<&str> = crowd.ids().collect();
        let mut ready = HashSet::new();
        self.list(READY, |item| {
            if let Item::Whole(text) = item {
                // One that cannot be read is refused by what was listed before.
                let found = serde_json::from_slice(text).ok().map(|Ready { id }| id);
                ready.extend(found.filter(|id| known.contains(id.as_str())));
            }
            Ok(())
        })
        .await?;
        let (containers, surplus) = crowd
            .into_parts()
            .map_err(|error| format!("its list of containers cannot be read: {error}"))?;
        Ok(Listing { containers, surplus, ready, since })
    }

    /// Shows `take` each container that the engine lists under that filter.
    async fn list(
        &self,
        filter: &str,
        mut take: impl FnMut(Item<'_>) -> Result<(), Fault>,
    ) -> Result<Answer, String> {
        let question = question(&self.path("/containers/json").await?, &[("filters", filter)])?;
        let (mut items, mut size, mut fault) = (Items::new(MAX_CONTAINER), 0, None);
        let heard = self.server.listen(&question, self.timeout, |piece| {
            size += piece.len();
            let taken = match size > MAX_LIST {
                true => Err(Fault(format!("it is larger than {MAX_LIST} bytes"))),
                false => items.take(piece, &mut take),
            };
            fault = taken.err();
            if fault.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        let answer = self.successful(timeout(self.timeout, heard).await).await?;
        let cut = || (!items.has_ended()).then(|| Fault("it ends too early".to_owned()));
        match fault.or_else(cut) {
            Some(Fault(why)) => Err(format!("its response is not that of Docker: {why}")),
            None => Ok(answer),
        }
    }

    /// Shows `take` what happens to containers from that time on, as it comes, until that breaks off or the engine ends it. Nothing
    /// bounds the time but the caller.
    pub(crate) async fn hear(
        &self,
        since: Option<u64>,
        take: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), String> {
        let since = since.map(|it| it.to_string());
        let mut query = vec![("filters", EVENTS)];
        query.extend(since.as_deref().map(|it| ("since", it)));
        let question = question(&self.path("/events").await?, &query)?;
        let heard = self.server.listen(&question, self.timeout, take).await;
        match heard {
            Err(why) => Err(self.explained(why).await),
            Ok(answer) if answer.head.status.code() == 200 => Ok(()),
            Ok(answer) => Err(format!("events: {}", refusal(&answer))),
        }
    }

    /// The path with the version that it speaks: without one, engines respond with an error some day.
    async fn path(&self, path: &str) -> Result<String, String> {
        if let Some(version) = self.version.get() {
            return Ok(format!("/v{version}{path}"));
        }
        let question = question("/_ping", &[])?;
        let asked = self.server.ask(&question, (Reuse::Kept, self.timeout));
        let answer = self.successful(timeout(self.timeout, asked).await).await?;
        let version = Version::told(&answer)?;
        self.version.set(Some(version));
        Ok(format!("/v{version}{path}"))
    }

    /// The response, if it is a successful one that came in time.
    async fn successful(
        &self,
        asked: Result<Result<Answer, String>, Elapsed>,
    ) -> Result<Answer, String> {
        match asked {
            Err(_) => Err(format!("no response within {:?}", self.timeout)),
            Ok(Err(why)) => Err(self.explained(why).await),
            Ok(Ok(answer)) if answer.head.status.code() == 200 => Ok(answer),
            Ok(Ok(answer)) => Err(refusal(&answer)),
        }
    }

    /// Why it cannot be asked, and what to do, where that is about its socket.
    async fn explained(&self, why: String) -> String {
        let Some(path) = &self.socket else { return why };
        let found = timeout(self.timeout, UnixStream::connect(path)).await;
        let kind = found.ok().and_then(Result::err).map(|error| error.kind());
        kind.and_then(advice).map_or(why, str::to_owned)
    }
}

impl From<NoList> for Fault {
    fn from(_: NoList) -> Fault {
        Fault("it is no list of objects".to_owned())
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Fault {
        Fault(shown(&error.to_string()))
    }
}

impl Version {
    fn told(answer: &Answer) -> Result<Version, String> {
        let text = answer.head.fields.named(b"api-version").next().unwrap_or_default();
        let version = std::str::from_utf8(text).ok().and_then(Version::parse);
        match version {
            None => Err("its response has no `Api-Version`: is this Docker?".to_owned()),
            Some(version) if version < OLDEST => {
                Err(format!("it speaks version {version}; {OLDEST} is needed, of Docker 20.10"))
            }
            Some(version) => Ok(version),
        }
    }

    fn parse(text: &str) -> Option<Version> {
        let (major, minor) = text.split_once('.')?;
        let number = |text: &str| {
            text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
        };
        Some(Version(number(major)?, number(minor)?))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// What to do where a socket cannot be connected to for that reason.
fn advice(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::NotFound => Some(
            "there is no such socket: start Docker, mount its socket into the container of the gateway, or set `endpoint`",
        ),
        ErrorKind::PermissionDenied => Some(
            "the gateway may not use the socket: put its user into the group of the socket, which is `docker` as a rule and as good as \
             root, or set `endpoint` to a proxy that only reads",
        ),
        ErrorKind::ConnectionRefused => Some("nobody listens on the socket: is Docker running?"),
        _ => None,
    }
}

/// A request without a body.
fn question(path: &str, query: &[(&str, &str)]) -> Result<Question<'static>, String> {
    let query: Vec<_> =
        query.iter().map(|(key, value)| format!("{key}={}", encoded(value))).collect();
    let written = || {
        let mut head = RequestHead::default();
        head.set_path(path.as_bytes())?;
        head.set_query((!query.is_empty()).then(|| query.join("&")).as_deref().map(str::as_bytes))?;
        head.fields.append_named(b"user-agent", USER_AGENT.as_bytes())?;
        Ok(head)
    };
    let head = written().map_err(|_: titan_http::BadField| "its request cannot be written")?;
    // The path of a socket is no host.
    Ok(Question { head, host: b"docker", body: &[], most: MOST_BODY })
}

/// What a response with another status than 200 says.
fn refusal(answer: &Answer) -> String {
    let status = answer.head.status;
    let Complaint { message } = serde_json::from_slice(&answer.body).unwrap_or_default();
    let proxy = match status.code() {
        403 => " (a proxy has to let GET `/_ping`, `/containers/json` and `/events` through)",
        _ => "",
    };
    match shown(&message) {
        text if text.is_empty() => {
            format!("it responds with {} {}{proxy}", status.code(), status.reason())
        }
        text => format!("it responds with {}: {text}{proxy}", status.code()),
    }
}

fn seconds(time: SystemTime) -> Option<u64> {
    time.duration_since(SystemTime::UNIX_EPOCH).ok().map(|it| it.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_says_what_it_speaks() {
        let told = |text: &[u8]| {
            let mut answer = Answer::default();
            answer.head.fields.append_named(b"api-version", text).unwrap();
            Version::told(&answer).map(|it| it.to_string())
        };
        assert_eq!(told(b"1.41"), Ok("1.41".to_owned()));
        assert_eq!(told(b"1.100"), Ok("1.100".to_owned()));
        assert!(told(b"1.40").unwrap_err().contains("1.41 is needed"));
        for text in ["", "1", "1.+5", "1.41/../..", "x.y"] {
            assert!(told(text.as_bytes()).unwrap_err().contains("is this Docker?"), "{text}");
        }
        assert!(Version::told(&Answer::default()).is_err());
    }

    #[test]
    fn what_to_do_about_a_socket_is_said() {
        let wanted = [
            (ErrorKind::NotFound, "start Docker"),
            (ErrorKind::PermissionDenied, "put its user into the group of the socket"),
            (ErrorKind::ConnectionRefused, "is Docker running?"),
        ];
        for (kind, wanted) in wanted {
            assert!(advice(kind).unwrap().contains(wanted));
        }
        assert_eq!(advice(ErrorKind::WouldBlock), None);
    }
}
