//! What a policy is: the parts that each has, in a folder of its own.

use crate::context::{PolicyContext, Step};
use crate::findings::Findings;
use crate::story::Story;
use std::sync::Arc;
use std::time::Duration;
use titan_config::{Config, Route};
use titan_http::{BadField, ResponseHead, Status};
use titan_io::body::Content;
use titan_io::error::{Error, Kind};
use titan_io::registry::Registry;
use titan_io::tls::{BadCredentials, Files};

/// A policy of one type. The list in titan-config names them all; what is left out here is as if it did nothing.
pub(crate) trait Policy: Sized {
    /// Its section of the configuration.
    type Config;
    /// What the files come to that it names.
    type Credentials: Clone + Default;
    /// What a request leaves behind for its response and its end.
    type State: Default;
    /// What the policies of this type have in common.
    type Shared: Default;
    /// What they keep for the requests of one worker.
    type PerWorker: Default;
    /// What each of them counts on one worker.
    type Cells: Default + Send + Sync + 'static;

    /// Why it refuses requests, as [`titan_io::refusals`] declares it.
    const REFUSALS: &'static [Kind] = &[];
    /// The metrics that report what it counts.
    const METRICS: &'static [Metric<Self::Cells>] = &[];

    /// Makes it ready. Nothing can fail: the configuration was checked, and the credentials are read. What it has to
    /// have in common with a policy that serves comes out of the registry, and stays as it is: only [`Policy::replace`]
    /// changes it.
    fn new(
        config: &Self::Config,
        credentials: Self::Credentials,
        setting: &Setting<'_, Self>,
    ) -> Self;

    /// The same for the requests of a route, where that makes a difference.
    fn for_route(self: &Arc<Self>, _route: &Route) -> Arc<Self> {
        Arc::clone(self)
    }

    /// Reads its files.
    fn read(_config: &Self::Config, _files: &Files) -> Result<Self::Credentials, BadCredentials> {
        Ok(Self::Credentials::default())
    }

    /// Everything that is wrong with its files.
    fn faults(config: &Self::Config, files: &Files) -> Vec<BadCredentials> {
        Self::read(config, files).err().into_iter().collect()
    }

    /// Uses these credentials from now on, and what it has in common with others as its section says.
    fn replace(&self, _credentials: Self::Credentials) {}

    /// Forgets what a worker has kept for policies that are gone.
    fn sweep(_kept: &Self::PerWorker) {}

    /// The request half: runs in the order of the list, and may respond by itself.
    fn on_request<'m>(
        &'m self,
        _context: &mut PolicyContext<'m>,
        _own: OwnState<'_, Self>,
    ) -> impl Future<Output = Result<Step, Error>> {
        std::future::ready(Ok(Step::Go))
    }

    /// How many bytes of a body it can check, if it must check all of it before an upstream gets any. The body is held
    /// then; a larger one is refused.
    fn needs_body(&self) -> Option<usize> {
        None
    }

    /// The body of the request, where it needs one: runs behind the request halves of all, and may refuse it. It is as an
    /// upstream gets it; on a route that responds by itself as the client has sent it, and so perhaps compressed.
    fn on_body(&self, _body: &[u8], _own: OwnState<'_, Self>) -> Result<(), Error> {
        Ok(())
    }

    /// The response half: runs in the reverse order, over the responses of upstreams and those of the gateway alike, also
    /// where the request half was not reached. Requests that no route takes meet no policy but `cors`.
    fn on_response(
        &self,
        _response: &mut Response<'_>,
        _own: OwnState<'_, Self>,
    ) -> Result<(), BadField> {
        Ok(())
    }

    /// The end: runs once the exchange is over, also where the request half was not reached. It does not run for an exchange that
    /// is cut off, as those are that still run when the drain ends.
    fn on_end(&self, _end: &ExchangeEnd, _own: OwnState<'_, Self>) {}

    /// Explains what it would decide about a request, by the code that decides. It makes no calls and counts nothing.
    fn explain<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        own: OwnState<'_, Self>,
        story: &mut Story<'_>,
    ) -> Result<Step, Error>;
}

/// What a policy is built with.
pub(crate) struct Setting<'c, P: Policy> {
    /// The name that it has in the file.
    pub(crate) name: &'c str,
    /// All of the configuration.
    pub(crate) config: &'c Config,
    /// What the policies of its type have in common.
    pub(crate) shared: &'c P::Shared,
    /// What outlives the configuration.
    pub(crate) registry: &'c Registry,
}

/// The state that belongs to one policy: for a request, for a worker, and its counters.
pub(crate) struct OwnState<'m, P: Policy> {
    /// For this request.
    pub(crate) state: &'m mut P::State,
    /// For all requests of the worker.
    pub(crate) kept: &'m P::PerWorker,
    /// What it counts there.
    pub(crate) cells: &'m P::Cells,
}

/// A response on its way to the client.
pub(crate) struct Response<'r> {
    /// Its head.
    pub(crate) head: &'r mut ResponseHead,
    /// What its body is.
    pub(crate) content: &'r mut Content,
    /// The status that it goes out with.
    pub(crate) sent: Status,
    /// What policies have found out about the request.
    pub(crate) findings: &'r Findings,
}

/// How an exchange went.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeEnd {
    /// The status of the complete response; none where the client has not got one.
    pub status: Option<Status>,
    /// Since the head of the request was complete.
    pub took: Duration,
    /// Bytes of the request, its head among them.
    pub received: u64,
    /// Bytes of the response, its head among them.
    pub sent: u64,
}

/// A metric of the policies of one type: a counter for each policy and each of its figures.
pub(crate) struct Metric<C: 'static> {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    /// The label that tells the figures apart; empty where there is one figure.
    pub(crate) label: &'static str,
    pub(crate) figures: fn(&C) -> Vec<(&'static str, u64)>,
    /// The line for the operator once a figure of a policy has grown, before the number; none if it is not worth one.
    pub(crate) event: fn(policy: &str, figure: &str) -> Option<String>,
}

/// It is not worth a line.
pub(crate) fn no_event(_policy: &str, _figure: &str) -> Option<String> {
    None
}
