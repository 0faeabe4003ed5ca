//! What is asked of an endpoint to see whether it can take requests.
//!
//! A probe goes the way of a request: the same connecting, handshake and protocol. But it has a connection of its own, which
//! counts against no limit: that an endpoint is busy does not make it unhealthy.

use crate::client::{Answer, Client, MOST_BODY, Question, Reuse};
use crate::connection::{connect, reach};
use crate::endpoint::{Endpoint, ResolvedEndpoint};
use crate::failure_log::FailureLog;
use crate::members::Upstream;
use crate::signals::Signals;
use memchr::memmem;
use std::sync::Arc;
use std::time::Duration;
use titan_config::{GrpcProbe, HealthCheck, HttpProbe, Probe};
use titan_http::{BadField, Method, RequestHead, Status};
use titan_io::error::{Error, Kind, is_shortage};
use titan_io::tls::Alpn;

/// What probes are made with.
#[derive(Default)]
pub struct Prober {
    client: Client,
}

/// Why a probe has not succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeFailure {
    /// In words.
    pub why: String,
    /// Whether this machine has no descriptor or memory left for a connection: that says nothing of the endpoint.
    pub is_shortage: bool,
}

impl From<String> for ProbeFailure {
    fn from(why: String) -> ProbeFailure {
        ProbeFailure { why, is_shortage: false }
    }
}

/// An endpoint as probes see it.
pub struct Probed {
    endpoint: Arc<Endpoint>,
}

/// A request of a probe.
struct ProbeRequest<'q> {
    head: RequestHead,
    host: &'q [u8],
    body: Vec<u8>,
}

impl Probed {
    /// The settings that probes of an upstream's endpoints have; `None` if they are not probed.
    pub(crate) fn settings(upstream: &Upstream) -> Option<titan_config::Upstream> {
        upstream.config().health.as_ref()?;
        Some(titan_config::Upstream {
            endpoints: Vec::new(),
            max_connections: titan_config::Cap::Unlimited,
            max_idle: 0,
            ..upstream.config().clone()
        })
    }

    /// The endpoint at that place of an upstream.
    pub(crate) fn new(
        place: &ResolvedEndpoint,
        upstream: &Upstream,
        settings: &titan_config::Upstream,
    ) -> Probed {
        let log = Arc::new(FailureLog::default());
        let port = settings.health.as_ref().and_then(|check| check.port);
        let place = &port.map_or_else(|| place.clone(), |port| place.at_port(port));
        let endpoint =
            Endpoint::new(place, settings, upstream.shared_tls(), &log, Signals::default());
        Probed { endpoint: Arc::new(endpoint) }
    }
}

impl Prober {
    /// A random number.
    pub(crate) fn random(&self) -> u64 {
        self.client.random()
    }

    /// Closes what earlier probes have left open.
    pub fn sweep(&self) {
        self.client.sweep();
    }

    /// Probes an endpoint.
    pub async fn probe(&self, probed: &Probed, check: &HealthCheck) -> Result<(), ProbeFailure> {
        let Probed { endpoint } = probed;
        let explain = |error: Error| {
            let why = endpoint.take_reason(error.kind).unwrap_or_else(|| error.to_string());
            ProbeFailure { why, is_shortage: error.kind == Kind::NoSocket }
        };
        let asked = async {
            match &check.probe {
                Probe::Tcp => reach(&endpoint.address).await.map(drop).map_err(|error| {
                    ProbeFailure { why: error.to_string(), is_shortage: is_shortage(&error) }
                }),
                Probe::Tls => {
                    let connected = connect(endpoint, Alpn::Configured).await;
                    connected.map(drop).map_err(|kind| explain(kind.into()))
                }
                Probe::Http(http) => {
                    let request =
                        ProbeRequest::of_http(http, endpoint).map_err(|_| unsendable())?;
                    let answer = self.ask(endpoint, request, check.timeout).await;
                    Ok(judge_http(http, &answer.map_err(explain)?)?)
                }
                Probe::Grpc(grpc) => {
                    let request =
                        ProbeRequest::of_grpc(grpc, endpoint).map_err(|_| unsendable())?;
                    let answer = self.ask(endpoint, request, check.timeout).await;
                    Ok(judge_grpc(&answer.map_err(explain)?)?)
                }
            }
        };
        let late = || Err(format!("no response within {:?}", check.timeout).into());
        tokio::time::timeout(check.timeout, asked).await.unwrap_or_else(|_| late())
    }

    async fn ask(
        &self,
        endpoint: &Arc<Endpoint>,
        request: ProbeRequest<'_>,
        timeout: Duration,
    ) -> Result<Answer, Error> {
        let ProbeRequest { head, host, body } = request;
        let question = Question { head, host, body: &body, most: MOST_BODY };
        self.client.ask(endpoint, &question, (Reuse::Never, timeout)).await
    }
}

/// A path or a field that no request can have; the configuration has none.
fn unsendable() -> ProbeFailure {
    "its request cannot be written".to_owned().into()
}

impl<'q> ProbeRequest<'q> {
    fn of_http(probe: &'q HttpProbe, endpoint: &'q Endpoint) -> Result<ProbeRequest<'q>, BadField> {
        let mut head = RequestHead { method: probe.method, ..RequestHead::default() };
        let (path, query) = match probe.path.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (probe.path.as_str(), None),
        };
        head.set_path(path.as_bytes())?;
        head.set_query(query.map(str::as_bytes))?;
        let host = probe.host.as_ref().map_or(&*endpoint.host, |host| host.as_str());
        for (name, value) in &probe.headers {
            head.fields.append_named(name.as_str().as_bytes(), value.as_str().as_bytes())?;
        }
        Ok(ProbeRequest { head, host: host.as_bytes(), body: Vec::new() })
    }

    /// A call of `grpc.health.v1.Health/Check`, with `message HealthCheckRequest { string service = 1; }`.
    fn of_grpc(probe: &GrpcProbe, endpoint: &'q Endpoint) -> Result<ProbeRequest<'q>, BadField> {
        let mut head = RequestHead { method: Method::POST, ..RequestHead::default() };
        head.set_path(b"/grpc.health.v1.Health/Check")?;
        head.fields.append_named(b"content-type", b"application/grpc")?;
        head.fields.append_named(b"te", b"trailers")?;
        let mut message = Vec::new();
        if !probe.service.is_empty() {
            message.push(0x0a);
            write_varint(&mut message, probe.service.len());
            message.extend_from_slice(probe.service.as_bytes());
        }
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        let body = [&[0][..], &length.to_be_bytes(), &message].concat();
        Ok(ProbeRequest { head, host: endpoint.host.as_bytes(), body })
    }
}

/// A number as Protocol Buffers write it.
fn write_varint(out: &mut Vec<u8>, number: usize) {
    let low = u8::try_from(number & 0x7f).unwrap_or_default();
    match number >> 7 {
        0 => out.push(low),
        rest => {
            out.push(low | 0x80);
            write_varint(out, rest);
        }
    }
}

fn judge_http(probe: &HttpProbe, answer: &Answer) -> Result<(), String> {
    let status = answer.head.status;
    if !probe.statuses.contains(status) {
        return Err(format!("status {status}, not {}", probe.statuses));
    }
    let is_contained = |text: &String| memmem::find(&answer.body, text.as_bytes()).is_some();
    match probe.contains.as_ref().is_none_or(is_contained) {
        true => Ok(()),
        false => Err("the body does not contain the expected text".to_owned()),
    }
}

fn judge_grpc(answer: &Answer) -> Result<(), String> {
    if answer.head.status != Status::OK {
        return Err(format!("status {}, not 200", answer.head.status));
    }
    match answer.grpc_status() {
        Some(b"0") => {}
        Some(other) => return Err(format!("grpc-status {}", String::from_utf8_lossy(other))),
        None => return Err("the response has no grpc-status".to_owned()),
    }
    // A message with `ServingStatus status = 1`.
    match answer.body.get(5..) {
        Some([0x08, 1]) => Ok(()),
        Some([0x08, 2]) => Err("it says NOT_SERVING".to_owned()),
        Some([0x08, 3]) => Err("it does not know the service".to_owned()),
        _ => Err("it does not say that it serves".to_owned()),
    }
}
