//! Policies as a configuration has them, tried without a gateway: what their tests need.

use crate::chain::Chains;
use crate::context::{
    Client, PolicyContext, Step, Subrequest, SubrequestOutcome, Subrequests, Write,
};
use crate::credentials::PolicyCredentials;
use crate::findings::Findings;
use crate::list::{PerWorker, Shared};
use crate::matched::{Match, Params};
use crate::state::PolicyState;
use crate::story::Story;
use std::net::IpAddr;
use std::rc::Rc;
use titan_config::Config;
use titan_http::{BodyLength, Fields, RequestHead, ResponseHead, Scheme, Span};
use titan_io::body::Content;
use titan_io::clock::Clock;
use titan_io::error::{Error, Kind};
use titan_io::registry::Registry;
use titan_io::tls::Identity;
use titan_store::stores::Stores;

/// The policies of one route.
pub(crate) struct Trial {
    chains: Chains,
    kept: PerWorker,
}

/// What happens to a request, and to its response.
pub(crate) struct Tried {
    /// Why it is refused; nothing where it reaches its endpoint.
    pub(crate) refused: Option<Kind>,
    /// What has been found out about it.
    pub(crate) findings: Findings,
    /// The response, as clients get it.
    pub(crate) response: ResponseHead,
}

impl Tried {
    /// A field of the response.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let value = self.response.fields.named(name.as_bytes()).next()?;
        Some(String::from_utf8_lossy(value).into_owned())
    }
}

impl Trial {
    /// One of a policy, as a file declares it: `early_limit: { rates: 2/h }`.
    pub(crate) fn of(policy: &str) -> Trial {
        let text = format!(
            "listeners: [\":1\"]\nroutes: [{{ respond: 200, apply: p }}]\npolicies: {{ p: {{ {policy} }} }}"
        );
        let config = Config::parse("test", &text).unwrap_or_else(|report| panic!("{report}"));
        let (registry, workers) = (Registry::default(), 1);
        let (credentials, shared) =
            (PolicyCredentials::unread(&config), Shared::new(None, &Stores::default(), &registry));
        let chains = Chains::new(&config, &credentials, &shared, (&registry, workers));
        Trial { chains, kept: PerWorker::default() }
    }

    /// A request from that address, and a response of status 200 unless it is refused.
    pub(crate) async fn asks(&self, address: &str) -> Tried {
        self.asks_with(address, &[], &[]).await
    }

    /// The same with fields of the request, and of the response unless it is refused.
    pub(crate) async fn asks_with(
        &self,
        address: &str,
        fields: &[(&str, &str)],
        response: &[(&str, &str)],
    ) -> Tried {
        let (mut request, mut state) = (RequestHead::default(), PolicyState::default());
        append(&mut request.fields, fields);
        let chain = self.chains.of(Some(0));
        let asker = TestClient::at(address);
        let mut context = asker.context(&mut request, &mut state.findings);
        let met = chain.on_request(&mut context, &mut state.states, &self.kept).await;
        let (mut response, refused) = match met {
            Ok(Step::Go) => {
                let mut head = ResponseHead::default();
                append(&mut head.fields, response);
                (head, None)
            }
            Ok(Step::Respond(response)) => (response.head, None),
            Err(error) => (ResponseHead::with_status(error.status()), Some(error.kind)),
        };
        let mut content = Content { length: BodyLength::Known(0), declared: None };
        let sent = response.status;
        chain
            .apply_to_response((&mut state, sent), &mut response, &mut content, (&self.kept, 0))
            .unwrap();
        Tried { refused, findings: state.findings, response }
    }

    /// The story of a request from that address, and why it would be refused.
    pub(crate) fn explains(&self, address: &str) -> (Vec<String>, Option<Kind>) {
        let (mut request, mut state) = (RequestHead::default(), PolicyState::default());
        let (asker, mut story) = (TestClient::at(address), Story::new(address.is_empty(), &[]));
        let mut context = asker.context(&mut request, &mut state.findings);
        let chain = self.chains.of(Some(0));
        let met = chain.explain(&mut context, &mut state.states, &mut story);
        (story.lines, met.err().map(|error| error.kind))
    }
}

fn append(to: &mut Fields, fields: &[(&str, &str)]) {
    for (name, value) in fields {
        to.append_named(name.as_bytes(), value.as_bytes()).unwrap();
    }
}

/// A client of which only the address may be known, and the context of its request.
pub(crate) struct TestClient {
    address: Option<IpAddr>,
    found: Match,
    clock: Rc<Clock>,
}

impl TestClient {
    /// One with that address, on the first route; with none where it is no address.
    pub(crate) fn at(address: &str) -> TestClient {
        let found = Match { route: 0, params: Params::default(), path: Span::default() };
        TestClient { address: address.parse().ok(), found, clock: Clock::new() }
    }

    /// The same on another route.
    pub(crate) fn on_route(mut self, route: usize) -> TestClient {
        self.found.route = route;
        self
    }

    /// What the policies of its route see of its request.
    pub(crate) fn context<'m>(
        &'m self,
        request: &'m mut RequestHead,
        findings: &'m mut Findings,
    ) -> PolicyContext<'m> {
        PolicyContext {
            request,
            findings,
            client: self,
            found: &self.found,
            is_websocket: false,
            is_grpc: false,
            worker: 0,
            clock: &self.clock,
            subrequests: &Nobody,
            failures: None,
        }
    }
}

impl Client for TestClient {
    fn address(&self, _: &Fields) -> Option<IpAddr> {
        self.address
    }

    fn scheme(&self) -> Scheme {
        Scheme::Http
    }

    fn identity(&self) -> Option<&Rc<Identity>> {
        None
    }

    fn request_id<'f>(&self, _: &'f Fields) -> Option<&'f [u8]> {
        None
    }

    fn is_same_origin(&self, _: &[u8], _: &RequestHead) -> bool {
        false
    }
}

/// There is no service to call.
struct Nobody;

impl Subrequests for Nobody {
    fn describe(&self, _: &mut RequestHead, _: &mut Vec<u8>) -> Result<(), Error> {
        Ok(())
    }

    fn ask<'a>(&'a self, _: Subrequest<'a>, _: Write<'_>) -> Result<SubrequestOutcome<'a>, Error> {
        Err(Kind::NoEndpoint.into())
    }
}

#[tokio::test]
async fn what_a_request_and_its_response_have_is_seen() {
    let when = "request: { when: \"request.headers['x-a'] == '1'\", headers: { set: { X-B: b } } }";
    let response = "response: { headers: { set_if_absent: { X-C: ours, X-D: ours } } }";
    let trial = Trial::of(&format!("transform: {{ {when}, {response} }}"));
    let tried = trial.asks_with("", &[("X-A", "1")], &[("X-C", "theirs")]).await;
    let fields = ["x-c", "x-d"].map(|name| tried.field(name).unwrap());
    assert_eq!(fields, ["theirs", "ours"]);
}
