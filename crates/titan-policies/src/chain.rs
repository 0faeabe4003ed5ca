//! The policies of a configuration, and those that apply to each route.
//!
//! The request half runs in the order of the list and may respond by itself; the response half runs in reverse order,
//! over the responses of upstreams and of the gateway alike.

use crate::authorise::Verifiers;
use crate::buffered_response::BufferedResponse;
use crate::compress::{Encoders, Encoding};
use crate::credentials::PolicyCredentials;
use crate::jwt::{self, KeySetStatus, Revocations};
use crate::list::{
    BuildContext, Chain, Counters, PerWorker, PolicyMetric, Ready, Shared, Verdicts,
};
use crate::policy::Response;
use crate::rate_limit::{SharedByLimits, Waiting};
use crate::state::PolicyState;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use titan_config::{Config, Policy};
use titan_http::{BadField, Fields, RequestHead, ResponseHead, Status};
use titan_io::body::Content;
use titan_io::counter::Counted;
use titan_io::io::Phase;
use titan_io::registry::Registry;
use titan_io::tls::{BadCredentials, Files};
use titan_store::stores::Stores;
use tokio::sync::watch;

/// The policies of a configuration, and those that apply to each route.
pub struct Chains {
    by_route: Vec<Chain>,
    /// For requests that match no route: a page should see that, and nothing else applies to them.
    none: Chain,
    policies: Box<[Ready]>,
    /// The section of each.
    sections: Vec<Policy>,
    /// Whether a source has delivered each.
    are_delivered: Vec<bool>,
}

/// What policies have counted, also after a reload. It keeps none of them.
#[derive(Clone, Default)]
pub struct PolicyCounters {
    counters: Arc<[Counters]>,
    verdicts: Arc<[Arc<Counted<Verdicts>>]>,
}

impl PolicyCounters {
    /// Every metric of every type of policy.
    pub fn metrics(&self) -> Vec<PolicyMetric> {
        let mut metrics = Counters::metrics(&self.counters);
        if !self.verdicts.is_empty() {
            metrics.push(Verdicts::metric(&self.verdicts));
        }
        metrics
    }
}

impl Shared {
    /// What exists already, or an unused one.
    pub fn new(revocations: Option<&Revocations>, stores: &Stores, registry: &Registry) -> Shared {
        // Requests that wait are bounded over all policies that delay some.
        let waiting = registry.shared((), Waiting::default);
        let limits = SharedByLimits { waiting: Arc::clone(&waiting), stores: stores.clone() };
        let limits = Arc::new(limits);
        Shared {
            jwt: revocations.cloned(),
            early_limit: Arc::clone(&limits),
            rate_limit: limits,
            fault: waiting,
            authorise: registry.shared((), Verifiers::default),
            ..Shared::default()
        }
    }
}

impl PerWorker {
    /// The bytes that responses use which are being compressed.
    pub fn compression_memory(&self) -> usize {
        self.compress.at_work()
    }
}

impl Chains {
    /// Makes the policies of a configuration ready. The credentials go to policies that no earlier configuration
    /// has had; those it shares with one that serves get theirs from [`Chains::replace_credentials`].
    pub fn new(
        config: &Config,
        credentials: &PolicyCredentials,
        shared: &Shared,
        build: BuildContext<'_>,
    ) -> Chains {
        let credentials = credentials.clone().by_policy();
        let numbered = config.policies.iter().enumerate().zip(credentials);
        let policies = numbered.map(|(numbered, credentials)| {
            Ready::new(numbered, credentials, config, shared, build)
        });
        let policies: Box<[Ready]> = policies.collect();
        let by_route = config.routes.iter().map(|route| Chain::new(route, &policies)).collect();
        let cors = config.everywhere.cors.map(|id| &policies[id.index()]);
        let cors = cors.and_then(|ready| match ready {
            Ready::Cors(cors) => Some(cors.clone()),
            _ => None,
        });
        let none = Chain { cors, ..Chain::default() };
        let sections = config.policies.iter().map(|named| named.policy.clone()).collect();
        let are_delivered = config.policies.iter().map(|named| named.is_delivered).collect();
        Chains { by_route, none, policies, sections, are_delivered }
    }

    /// The credentials of its policies, as the files have them now.
    pub fn read_credentials(&self, files: &Files) -> Result<PolicyCredentials, BadCredentials> {
        PolicyCredentials::read_all(self.sections.iter(), files)
    }

    /// Uses other credentials from now on.
    pub fn replace_credentials(&self, credentials: PolicyCredentials) {
        let policies = self.policies.iter().zip(credentials.by_policy());
        policies.for_each(|(policy, credentials)| policy.replace(credentials));
    }

    /// What its policies count.
    pub fn counters(&self) -> PolicyCounters {
        PolicyCounters {
            counters: self.policies.iter().map(Ready::counters).collect(),
            verdicts: self.policies.iter().map(Ready::verdicts).collect(),
        }
    }

    /// Fetches the keys that are elsewhere until the gateway drains.
    pub fn fetch_keys(&self, phase: watch::Receiver<Phase>) -> io::Result<()> {
        jwt::keep_fresh(self.token_policies(), phase)
    }

    /// Starts the threads that check passwords, where there are any.
    pub fn check_passwords(&self) -> io::Result<()> {
        self.policies.iter().try_for_each(|ready| match ready {
            Ready::Authorise(authorise) => authorise.policy.check_passwords(),
            _ => Ok(()),
        })
    }

    /// Whether some policy of the gateway's own files waits for keys. Whoever writes one that a source delivers may name a server which
    /// never responds: its own tokens get 503 then, and nothing else waits.
    pub fn lacks_keys(&self) -> bool {
        self.own_token_policies().any(|jwt| jwt.lacks_keys())
    }

    /// What has gone wrong with their keys since this was asked last.
    pub fn take_key_failures(&self) -> Vec<String> {
        self.own_token_policies().flat_map(|jwt| jwt.take_failures()).collect()
    }

    /// How the key sets are doing that are fetched.
    pub fn key_sets(&self) -> Vec<KeySetStatus> {
        self.token_policies().flat_map(|jwt| jwt.key_sets()).collect()
    }

    fn own_token_policies(&self) -> impl Iterator<Item = &Arc<jwt::Jwt>> {
        let own =
            self.policies.iter().zip(&self.are_delivered).filter(|(_, delivered)| !**delivered);
        own.filter_map(|(ready, _)| match ready {
            Ready::Jwt(jwt) => Some(&jwt.policy),
            _ => None,
        })
    }

    fn token_policies(&self) -> impl Iterator<Item = &Arc<jwt::Jwt>> {
        self.policies.iter().filter_map(|ready| match ready {
            Ready::Jwt(jwt) => Some(&jwt.policy),
            _ => None,
        })
    }

    /// Notes what page a request comes from that no route has taken: it may be allowed to see the response.
    pub fn note_unrouted(&self, fields: &Fields, state: &mut PolicyState) {
        if let Some(cors) = &self.none.cors {
            cors.policy.note_page(fields, &mut state.states.cors);
        }
    }

    /// The response to a preflight request for what no route takes, whose page is to see that: without leave its browser
    /// would not ask. Only where no route of that host and path, which `any_under` knows, is under another policy than
    /// the file as a whole, for the conditions of a route may hold for the request that is to come.
    pub fn respond_unrouted_preflight(
        &self,
        request: &RequestHead,
        state: &mut PolicyState,
        any_under: impl FnOnce(&dyn Fn(usize) -> bool) -> bool,
    ) -> Option<BufferedResponse> {
        let Chains { none, by_route, .. } = self;
        let cors = none.cors.as_ref().map(|cors| &cors.policy);
        let cors = cors.filter(|cors| cors.grants(request) == Some(true))?;
        let departs = |route: usize| {
            let own = by_route[route].cors.as_ref();
            own.is_none_or(|own| !Arc::ptr_eq(&own.policy, cors))
        };
        let response = || cors.accept_preflight(&request.fields, &mut state.states.cors);
        (!any_under(&departs)).then(response)
    }

    /// The name of the policy at that place.
    pub fn name_of(&self, place: usize) -> &str {
        self.policies[place].name()
    }

    /// What the requests of a route meet.
    pub fn of(&self, route: Option<usize>) -> &Chain {
        route.map_or(&self.none, |route| &self.by_route[route])
    }
}

impl Chain {
    /// The method that a page asks leave for, where this chain can give it.
    pub fn responds_to_preflight(&self) -> bool {
        self.cors.is_some()
    }

    /// The status that a response goes out with.
    pub fn status_for(&self, state: &PolicyState, status: Status) -> Status {
        let transform = self.transform.as_ref();
        transform.map_or(status, |it| it.policy.status_for(&state.states.transform, status))
    }

    /// The response halves, for a response that goes out with the status `sent`, on that worker. Where there is an encoding,
    /// the body has to be made by it.
    pub fn apply_to_response(
        &self,
        (state, sent): (&mut PolicyState, Status),
        head: &mut ResponseHead,
        content: &mut Content,
        (kept, worker): (&PerWorker, usize),
    ) -> Result<Option<Encoding>, BadField> {
        let before = head.status;
        let PolicyState { findings, states } = state;
        let mut response = Response { head, content, sent, findings };
        self.on_response(&mut response, states, kept, worker)?;
        if let Some(transform) = self.transform.as_ref().filter(|_| head.status != before) {
            transform.policy.remove_misfits(head);
        }
        Ok(states.compress.encoding.take())
    }
}

impl PerWorker {
    /// Memory for compression.
    pub fn encoders(&self) -> &Rc<Encoders> {
        &self.compress
    }
}
