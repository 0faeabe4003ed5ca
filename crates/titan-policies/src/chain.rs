//! The policies that requests meet, and in what order.
//!
//! Each has two halves. The request half runs in the order below and may answer by itself; the response half
//! runs in the reverse order, over the responses of upstreams and those of the gateway alike.
//!
//! | type | module |
//! |---|---|
//! | `cors` | `cors` |
//! | `early_limit` | `rate_limit` |
//! | `failure_limit` | `rate_limit/failures` |
//! | `jwt` | `jwt` |
//! | `authorise` | `authorise` |
//! | `rate_limit` | `rate_limit`: keys and fields; `limiter`: what passes; `table`: who has which entry |
//! | `transform` | `transform` |
//! | `compress` | `compress` |

use crate::authorise::{self, Asked, Authorise, Verifiers};
use crate::buffered_response::BufferedResponse;
use crate::cells::PolicyCells;
use crate::compress::{Compress, Encoders, Encoding};
use crate::context::{Client, PolicyContext, Step};
use crate::cors::Cors;
use crate::credentials::{Credentials, Keys};
use crate::explained::{Asker, Explained};
use crate::findings::TokenClaims;
use crate::jwt::{self, Caches, Jwt, JwtCells, KeySetStatus, Revocations};
use crate::rate_limit::{FailureLimit, RateLimit, Waiting};
use crate::state::{Notes, PolicyState};
use crate::transform::{self, Seen, Transform};
use crate::worker::PerWorker;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use titan_config::{Config, NamedPolicy, Policy, PolicyId, PolicyKind, Route};
use titan_http::{BadField, Fields, RequestHead, ResponseHead, Status};
use titan_io::body::Content;
use titan_io::error::{Error, Kind};
use titan_io::io::Phase;
use titan_io::tls::{BadCredentials, Files};
use tokio::sync::watch;

/// The policies of a configuration, and those that the requests of each route meet.
pub struct Chains {
    by_route: Vec<Chain>,
    /// For requests that no route takes: a page is to see that, and nothing else is done with them.
    none: Chain,
    policies: Vec<Ready>,
    verifiers: Arc<Verifiers>,
}

/// The policies that a request meets: at most one of each type.
#[derive(Clone, Default)]
pub struct Chain {
    cors: Option<Arc<Cors>>,
    early_limit: Option<Arc<RateLimit>>,
    failure_limit: Option<Arc<FailureLimit>>,
    jwt: Option<Arc<Jwt>>,
    authorise: Option<Arc<Authorise>>,
    rate_limit: Option<Arc<RateLimit>>,
    transform: Option<Arc<Transform>>,
    compress: Option<Arc<Compress>>,
}

/// What policies have in common.
struct Shared {
    verifiers: Arc<Verifiers>,
    waiting: Arc<Waiting>,
}

/// What policies keep for a request, and for all of its worker.
pub struct Own<'m> {
    /// For the response.
    pub notes: &'m mut Notes,
    /// For other requests.
    pub kept: &'m PerWorker,
    /// What they count.
    pub cells: &'m PolicyCells,
}

/// A policy that is ready to be met. Routes that name the same one share it.
#[derive(Clone)]
enum Ready {
    Cors(Arc<Cors>),
    EarlyLimit(Arc<RateLimit>),
    FailureLimit(Arc<FailureLimit>),
    Jwt(Arc<Jwt>),
    Authorise(Arc<Authorise>),
    RateLimit(Arc<RateLimit>),
    Transform(transform::Ready),
    Compress(Arc<Compress>),
}

impl Chains {
    /// Makes the policies of a configuration ready.
    pub fn new(config: &Config, keys: Keys, revocations: Option<&Revocations>) -> Chains {
        let mut keys = keys.by_policy();
        let shared = Shared { verifiers: Arc::default(), waiting: Waiting::new() };
        let numbered = config.policies.iter().enumerate();
        let policies = numbered.map(|(place, it)| {
            Ready::new(it, config, place, keys.next().unwrap_or_default(), revocations, &shared)
        });
        let policies: Vec<_> = policies.collect();
        let by_route = config.routes.iter().map(|route| Chain::new(route, &policies));
        let by_route = by_route.collect();
        let cors = config.everywhere.cors.map(|id| &policies[id.index()]);
        let none = Chain { cors: cors.and_then(Ready::cors).cloned(), ..Chain::default() };
        Chains { by_route, none, policies, verifiers: shared.verifiers }
    }

    /// The keys of its policies, as the files have them by now.
    pub fn read_keys(&self, files: &Files) -> Result<Keys, BadCredentials> {
        let of_policy = |policy: &Ready| match policy {
            Ready::Jwt(jwt) => jwt.read_keys(files).map(Credentials::Tokens),
            Ready::Authorise(authorise) => authorise.read_known(files).map(Credentials::Known),
            _ => Ok(Credentials::None),
        };
        self.policies.iter().map(of_policy).collect()
    }

    /// Uses other keys from now on.
    pub fn replace_keys(&self, keys: Keys) {
        for (policy, keys) in self.policies.iter().zip(keys.by_policy()) {
            match (policy, keys) {
                (Ready::Jwt(jwt), Credentials::Tokens(keys)) => jwt.replace_keys(keys),
                (Ready::Authorise(it), Credentials::Known(known)) => it.replace_known(known),
                _ => {}
            }
        }
    }

    /// Fetches the keys that are elsewhere until the gateway drains.
    pub fn fetch_keys(&self, phase: watch::Receiver<Phase>) -> io::Result<()> {
        let policies = self.policies.iter().filter_map(Ready::jwt).cloned();
        jwt::keep_fresh(&policies.collect::<Vec<_>>(), phase)
    }

    /// Starts the threads that check passwords, where there are any.
    pub fn check_passwords(&self) -> io::Result<()> {
        let has_passwords =
            |policy: &Ready| matches!(policy, Ready::Authorise(it) if it.has_passwords());
        let is_needed = self.policies.iter().any(has_passwords);
        if is_needed { self.verifiers.start() } else { Ok(()) }
    }

    /// Whether some policy waits for keys.
    pub fn lacks_keys(&self) -> bool {
        self.policies.iter().filter_map(Ready::jwt).any(|jwt| jwt.lacks_keys())
    }

    /// What has gone wrong with keys that are fetched since this was asked last.
    pub fn take_key_troubles(&self) -> Vec<String> {
        self.policies.iter().filter_map(Ready::jwt).flat_map(|jwt| jwt.take_troubles()).collect()
    }

    /// How the key sets are doing that are fetched.
    pub fn key_sets(&self) -> Vec<KeySetStatus> {
        let policies = self.policies.iter().filter_map(Ready::jwt);
        policies.flat_map(|jwt| jwt.key_sets()).collect()
    }

    /// Notes what page a request comes from that no route has taken: it may be allowed to see the response.
    pub fn note_unrouted(&self, fields: &Fields, state: &mut PolicyState) {
        if let Some(cors) = &self.none.cors {
            cors.note_page(fields, &mut state.notes.cors);
        }
    }

    /// The response to a preflight request for what no route takes, whose page is to see that: without leave its browser
    /// would not ask. Only where no route of that host and path, which `any_under` knows, is under another policy than
    /// the file as a whole, for the conditions of a route may hold for the request that is to come.
    pub fn answer_unrouted_preflight(
        &self,
        request: &RequestHead,
        state: &mut PolicyState,
        any_under: impl FnOnce(&dyn Fn(usize) -> bool) -> bool,
    ) -> Option<BufferedResponse> {
        let Chains { none, by_route, .. } = self;
        let cors = none.cors.as_ref().filter(|cors| cors.grants(request) == Some(true))?;
        let departs =
            |route: usize| by_route[route].cors.as_ref().is_none_or(|it| !Arc::ptr_eq(it, cors));
        let response = || cors.accept_preflight(&request.fields, &mut state.notes.cors);
        (!any_under(&departs)).then(response)
    }

    /// What the requests of a route meet.
    pub fn of(&self, route: Option<usize>) -> &Chain {
        route.map_or(&self.none, |route| &self.by_route[route])
    }
}

impl Ready {
    fn new(
        named: &NamedPolicy,
        config: &Config,
        place: usize,
        keys: Credentials,
        revocations: Option<&Revocations>,
        shared: &Shared,
    ) -> Ready {
        let Shared { verifiers, waiting } = shared;
        let rate_limit = |limit| {
            Arc::new(RateLimit::new(named, limit, config, cells_of(named, config), waiting))
        };
        match &named.policy {
            Policy::Cors(cors) => Ready::Cors(Arc::new(Cors::new(cors))),
            Policy::EarlyLimit(limit) => Ready::EarlyLimit(rate_limit(limit)),
            Policy::FailureLimit(limit) => {
                let limit = FailureLimit::new(limit, cells_of(named, config));
                Ready::FailureLimit(Arc::new(limit))
            }
            Policy::Jwt(jwt) => {
                let keys = match keys {
                    Credentials::Tokens(keys) => keys,
                    _ => Vec::new(),
                };
                let name = named.name.as_str();
                Ready::Jwt(Arc::new(Jwt::new(name, jwt, place, keys, revocations.cloned())))
            }
            Policy::Authorise(authorise) => {
                let name = named.name.as_str();
                let keys = match keys {
                    Credentials::Known(known) => Some(known),
                    _ => None,
                };
                Ready::Authorise(Arc::new(Authorise::new(
                    name,
                    authorise,
                    keys,
                    (config, place),
                    verifiers,
                )))
            }
            Policy::RateLimit(limit) => Ready::RateLimit(rate_limit(limit)),
            Policy::Transform(config) => Ready::Transform(transform::Ready::new(config)),
            Policy::Compress(config) => Ready::Compress(Arc::new(Compress::new(config))),
        }
    }
}

impl Ready {
    fn cors(&self) -> Option<&Arc<Cors>> {
        match self {
            Ready::Cors(cors) => Some(cors),
            _ => None,
        }
    }

    fn jwt(&self) -> Option<&Arc<Jwt>> {
        match self {
            Ready::Jwt(jwt) => Some(jwt),
            Ready::Cors(_)
            | Ready::EarlyLimit(_)
            | Ready::FailureLimit(_)
            | Ready::Authorise(_)
            | Ready::RateLimit(_)
            | Ready::Transform(_)
            | Ready::Compress(_) => None,
        }
    }
}

impl Chain {
    fn new(route: &Route, ready: &[Ready]) -> Chain {
        let mut chain = Chain::default();
        let of = |id: PolicyId| ready[id.index()].clone();
        let ids = PolicyKind::ALL.iter().filter_map(|kind| route.policies.of(*kind));
        for policy in ids.map(of) {
            match policy {
                Ready::Cors(cors) => chain.cors = Some(cors),
                Ready::EarlyLimit(limit) => chain.early_limit = Some(limit),
                Ready::FailureLimit(limit) => chain.failure_limit = Some(limit),
                Ready::Jwt(jwt) => chain.jwt = Some(jwt),
                Ready::Authorise(authorise) => chain.authorise = Some(authorise),
                Ready::RateLimit(limit) => chain.rate_limit = Some(limit),
                Ready::Transform(ready) => chain.transform = Some(ready.for_route(route)),
                Ready::Compress(compress) => chain.compress = Some(compress),
            }
        }
        chain
    }

    /// The method that a page asks leave for, where this chain can give it.
    pub fn answers_preflight(&self) -> bool {
        self.cors.is_some()
    }

    /// The request half.
    pub async fn on_request(
        &self,
        mut context: PolicyContext<'_>,
        own: Own<'_>,
    ) -> Result<Step, Error> {
        let Chain { cors, early_limit, rate_limit, compress, .. } = self;
        let Own { notes, kept, cells } = own;
        if let Some(cors) = cors
            && let answer @ Step::Respond(_) = cors.on_request(&context, &mut notes.cors)?
        {
            return Ok(answer);
        }
        if let Some(limit) = early_limit {
            let (note, decided) = limit.on_request(&context, &cells.rate_limits);
            notes.early_limit = note;
            if let Some(turn) = decided? {
                Box::pin(turn.comes()).await;
            }
        }
        let judged = self.judge_within(&mut context, notes, (kept, cells)).await;
        if let answer @ Step::Respond(_) = judged? {
            return Ok(answer);
        }
        if let Some(limit) = rate_limit {
            let (note, decided) = limit.on_request(&context, &cells.rate_limits);
            notes.rate_limit = note;
            if let Some(turn) = decided? {
                Box::pin(turn.comes()).await;
            }
        }
        let PolicyContext { request, findings, client, found, .. } = context;
        // By the path that the client has asked for, which a transform may change.
        let stays = compress.as_ref().is_some_and(|compress| compress.excepts(request.path()));
        let seen = Seen { client, found, claims: findings.shared_claims() };
        notes.transform = self.transform(request, &seen)?;
        if let Some(compress) = compress {
            notes.compress = compress.on_request(request, stays);
        }
        Ok(Step::Go)
    }

    /// Has those policies look at a request that say who it comes from, and whether that may ask: within a limit on
    /// failures, if there is one, which counts what they find wrong.
    async fn judge_within(
        &self,
        context: &mut PolicyContext<'_>,
        notes: &mut Notes,
        (kept, cells): (&PerWorker, &PolicyCells),
    ) -> Result<Step, Error> {
        let own = authorise::Own {
            note: &mut notes.authorise,
            passwords: &kept.passwords,
            decisions: &kept.decisions,
            password_cells: &cells.passwords,
            forward_cells: &cells.forward_auth,
        };
        let Some(limit) = &self.failure_limit else {
            return self.judge(context, own, (&kept.tokens, &cells.jwt)).await;
        };
        let asking = limit.on_request(context, &mut notes.failure_limit, &cells.rate_limits)?;
        let judged = self.judge(context, own, (&kept.tokens, &cells.jwt)).await;
        limit.count(&asking, &judged, context);
        judged
    }

    async fn judge(
        &self,
        context: &mut PolicyContext<'_>,
        mut own: authorise::Own<'_>,
        (tokens, cells): (&Caches, &JwtCells),
    ) -> Result<Step, Error> {
        if let Some(jwt) = &self.jwt {
            let judged = jwt.on_request(context, tokens, cells);
            if let (Err(error), Some(authorise)) = (&judged, &self.authorise)
                && error.kind != Kind::TokenKeys
            {
                authorise.challenge_all(own.note, context.findings);
            }
            judged?;
        }
        match &self.authorise {
            Some(authorise) => authorise.on_request(context, &mut own).await,
            None => Ok(Step::Go),
        }
    }

    /// What the policy of that type decides of a request, in words, where it decides anything. Its client has
    /// asked for the path `asked`, whatever it is by now.
    pub fn explain(
        &self,
        kind: PolicyKind,
        request: &RequestHead,
        asked: &[u8],
        route: usize,
        asker: Asker<'_>,
    ) -> Option<String> {
        match kind {
            PolicyKind::Cors => self.cors.as_ref().map(|cors| cors.explain(request)),
            PolicyKind::EarlyLimit => {
                self.early_limit.as_ref().map(|limit| limit.explain(route, asker))
            }
            PolicyKind::FailureLimit => self.failure_limit.as_ref().map(|limit| limit.explain()),
            PolicyKind::RateLimit => {
                self.rate_limit.as_ref().map(|limit| limit.explain(route, asker))
            }
            PolicyKind::Jwt | PolicyKind::Authorise | PolicyKind::Transform => None,
            PolicyKind::Compress => {
                self.compress.as_ref().map(|compress| compress.explain(request, asked))
            }
        }
    }

    /// Whether a preflight request is granted here; nothing for other requests.
    pub fn grants_preflight(&self, request: &RequestHead) -> Option<bool> {
        self.cors.as_ref()?.grants(request)
    }

    /// Whether a WebSocket is refused to the page that wants it.
    pub fn refuses_handshake(&self, request: &RequestHead, client: &dyn Client) -> bool {
        self.cors.as_ref().is_some_and(|cors| cors.refuses_handshake(request, client))
    }

    /// What becomes of a request with its token, which is taken out, and what that says. What is `unread` of the
    /// keys is why they are not there.
    pub fn explain_token(
        &self,
        request: &mut RequestHead,
        unread: Option<&str>,
    ) -> Result<(Explained, Option<Rc<TokenClaims>>), Error> {
        let mut told = Explained::default();
        let said = match &self.jwt {
            Some(jwt) => jwt.explain(request, unread, &mut told)?,
            None => None,
        };
        Ok((told, said))
    }

    /// Whether those may ask who ask so, or anybody.
    pub fn explain_authorisation(
        &self,
        request: &mut RequestHead,
        asked: Asked<'_>,
        is_anybody: bool,
    ) -> Result<Explained, Error> {
        match &self.authorise {
            Some(authorise) => authorise.explain(request, asked, is_anybody),
            None => Ok(Explained::default()),
        }
    }

    /// Changes a request as the transform does.
    pub fn transform(
        &self,
        request: &mut RequestHead,
        seen: &Seen<'_>,
    ) -> Result<transform::TransformState, Error> {
        match &self.transform {
            Some(transform) => transform.on_request(request, seen),
            None => Ok(None),
        }
    }

    /// What the conditions of the transform make of a request, in words.
    pub fn explain_conditions(&self, request: &RequestHead, seen: &Seen<'_>) -> Vec<String> {
        self.transform.as_ref().map_or(Vec::new(), |transform| transform.explain(request, seen))
    }

    /// The status that a response goes out with.
    pub fn status_for(&self, note: &transform::TransformState, status: Status) -> Status {
        self.transform.as_ref().map_or(status, |transform| transform.status_for(note, status))
    }

    /// The response half, for a response that goes out with the status `sent`. Where there is an encoding, the body has to
    /// be made by it.
    pub fn on_response(
        &self,
        state: &PolicyState,
        sent: Status,
        head: &mut ResponseHead,
        content: &mut Content,
        encoders: &Encoders,
    ) -> Result<Option<Encoding>, BadField> {
        let Chain {
            cors,
            early_limit,
            failure_limit,
            jwt,
            authorise,
            rate_limit,
            transform,
            compress,
        } = self;
        let PolicyState { findings, notes } = state;
        let encoding = match compress {
            Some(compress) => compress.on_response(notes.compress, head, content, encoders)?,
            None => None,
        };
        let before = head.status;
        if let Some(transform) = transform {
            transform.on_response(&notes.transform, sent, head)?;
        }
        if let Some(limit) = rate_limit {
            limit.on_response(&notes.rate_limit, head)?;
        }
        if let Some(authorise) = authorise {
            authorise.on_response(&notes.authorise, head)?;
        }
        if let Some(jwt) = jwt {
            jwt.on_response(findings, head)?;
        }
        if let Some(limit) = failure_limit {
            limit.on_response(&notes.failure_limit, head)?;
        }
        if let Some(limit) = early_limit {
            limit.on_response(&notes.early_limit, head)?;
        }
        if let Some(cors) = cors {
            cors.on_response(&notes.cors, head)?;
        }
        if let Some(transform) = transform.as_ref().filter(|_| head.status != before) {
            transform.remove_misfits(head);
        }
        Ok(encoding)
    }
}

/// The rate limits among the policies, those on failures among them, in the order of their cells.
pub fn rate_limits(config: &Config) -> impl Iterator<Item = &NamedPolicy> {
    let is_one = |policy: &Policy| {
        policy.rate_limit().is_some() || matches!(policy, Policy::FailureLimit(_))
    };
    config.policies.iter().filter(move |it| is_one(&it.policy))
}

fn cells_of(named: &NamedPolicy, config: &Config) -> usize {
    let place = rate_limits(config).position(|it| it.name == named.name);
    place.expect("it is one of them")
}
