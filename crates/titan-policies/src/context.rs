//! What a policy sees of a request: facts, not where they come from.

use crate::buffered_response::BufferedResponse;
use crate::findings::Findings;
use crate::matched::Match;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use titan_config::{RouteTimeouts, SendHost, UpstreamId};
use titan_http::{Fields, RequestHead, Scheme};
use titan_io::clock::Clock;
use titan_io::error::Error;
use titan_io::tls::Identity;

/// A request as its policies see it, and may change it.
pub struct PolicyContext<'m> {
    /// Its head.
    pub request: &'m mut RequestHead,
    /// What policies have found out about it.
    pub findings: &'m mut Findings,
    /// Who it comes from.
    pub client: &'m dyn Client,
    /// The route, and what it captured of the path.
    pub found: &'m Match,
    /// Whether the client wants to open a WebSocket.
    pub is_websocket: bool,
    /// Whether the request is a gRPC call.
    pub is_grpc: bool,
    /// The worker's place among the others.
    pub worker: usize,
    /// The worker's clock.
    pub clock: &'m Clock,
    /// Makes requests of the gateway's own.
    pub subrequests: &'m dyn Subrequests,
    /// What counts it if the request turns out to bring invalid credentials.
    pub failures: Option<Failures<'m>>,
}

/// An invalid credential of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A token.
    Token,
    /// An API key.
    ApiKey,
    /// A password.
    Password,
    /// Something that the service refuses which decides about requests.
    Service,
}

/// What counts failures, and by which keys those of a request count.
pub struct Failures<'m> {
    pub(crate) counter: &'m dyn FailureCounter,
    pub(crate) charged: Charged,
}

/// What the failures of a request count by.
pub(crate) struct Charged {
    /// Its client; none once that is charged.
    pub(crate) client: Option<u64>,
    /// The user whose password it brings; none once that is charged.
    pub(crate) name: Option<u64>,
    /// Whether it brings anything in `Authorization`.
    pub(crate) has_authorization: bool,
}

/// Counts failures.
pub(crate) trait FailureCounter {
    /// Charges for one that has come about on that worker, what was charged already not again.
    fn count(&self, failure: Failure, charged: &mut Charged, worker: usize);
}

/// What is known of the client of a request.
pub trait Client {
    /// Its address behind all trusted proxies; none over a Unix socket, and where they do not say it.
    fn address(&self, fields: &Fields) -> Option<IpAddr>;
    /// How it is connected.
    fn scheme(&self) -> Scheme;
    /// Who it is by the certificate that it has presented.
    fn identity(&self) -> Option<&Rc<Identity>>;
    /// The id of its request; none where requests have none.
    fn request_id<'f>(&self, fields: &'f Fields) -> Option<&'f [u8]>;
    /// Whether it is a page of that origin, and asks what it comes from itself.
    fn is_same_origin(&self, page: &[u8], request: &RequestHead) -> bool;
}

/// Requests of the gateway's own, made for a client whose request waits.
pub trait Subrequests {
    /// Writes into `question` what upstreams get about the client. `text` is overwritten.
    fn describe(&self, question: &mut RequestHead, text: &mut Vec<u8>) -> Result<(), Error>;
    /// Sends the request that `write` makes, with the id of the client's request, unless its response is known.
    fn ask<'a>(
        &'a self,
        subrequest: Subrequest<'a>,
        write: Write<'_>,
    ) -> Result<SubrequestOutcome<'a>, Error>;
}

/// Makes the head of a request, with a text to put values together in; or knows the response already.
pub type Write<'w> =
    &'w mut dyn FnMut(&mut RequestHead, &mut Vec<u8>) -> Result<Option<BufferedResponse>, Error>;

/// The response to a request of the gateway's own.
pub enum SubrequestOutcome<'a> {
    /// It was known before, and nothing was sent.
    Known(BufferedResponse),
    /// It is waited for, and read as a whole.
    Sent(Pin<Box<dyn Future<Output = Result<BufferedResponse, Error>> + 'a>>),
}

/// How a subrequest is made.
#[derive(Clone, Copy)]
pub struct Subrequest<'a> {
    /// The request that waits for it.
    pub request: &'a RequestHead,
    /// Where it goes to.
    pub upstream: UpstreamId,
    /// The Host that it has there.
    pub send_host: &'a SendHost,
    /// How long each part of it may take.
    pub timeouts: &'a RouteTimeouts,
    /// How long all of it may take.
    pub timeout: Duration,
    /// How many further endpoints to try if one does not respond.
    pub retries: u8,
    /// The largest body that is kept.
    pub body_limit: usize,
}

/// What is to become of a request.
pub enum Step {
    /// It goes on.
    Go,
    /// Its client gets that response.
    Respond(Box<BufferedResponse>),
}

impl PolicyContext<'_> {
    /// Counts an invalid credential of the request, whatever is decided about it then: also a client that is allowed
    /// for another reason, or refused for one, has had a guess looked at.
    pub(crate) fn fail(&mut self, failure: Failure) {
        if let Some(Failures { counter, charged }) = &mut self.failures {
            counter.count(failure, charged, self.worker);
        }
    }

    /// The address of the client behind all trusted proxies; none over a Unix socket, and where they do not say it.
    pub fn client(&self) -> Option<IpAddr> {
        self.client.address(&self.request.fields)
    }

    /// Who the client is by the certificate that it has presented.
    pub fn identity(&self) -> Option<&Identity> {
        self.client.identity().map(Rc::as_ref)
    }
}
