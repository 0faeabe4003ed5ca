//! The whole configuration, and the section of the workers.

use crate::access_log::{AccessLog, AccessLogDraft, access_log};
use crate::admin::{Admin, AdminDraft, admin};
use crate::bounds::{
    MAX_ACCESS_LOGS, MAX_COLLECTORS, MAX_INCLUDES, MAX_LISTENERS, MAX_PATH_BYTES, MAX_POLICIES,
    MAX_ROUTES, MAX_SOURCES, MAX_STORES, MAX_UPSTREAMS,
};
use crate::diagnostic::Diagnostic;
use crate::error_pages::{ErrorPages, error_pages};
use crate::forwarding::{Forwarding, forwarding};
use crate::limits::{Limits, limits};
use crate::listener::{Listener, ListenerDraft, listener};
use crate::location::Span;
use crate::log::{Log, log};
use crate::look_alikes::Paths;
use crate::node::{Kind, Node};
use crate::otlp::{Collector, CollectorDraft, collector};
use crate::policy::{
    JwtRevocations, NamedPolicy, Policies, Policy, PolicyId, PolicyKind, jwt_revocations, policy,
    uses,
};
use crate::pressure::{Pressure, pressure};
use crate::problem::Problem;
use crate::read::{At, Read, Reading, at, default, lenient, optional, required};
use crate::readers::{Named, boolean, mapping, one_or_list, short_for, text, whole, word_or};
use crate::recorder::{Recorder, recorder};
use crate::remote::{RemoteSource, SourceDraft, source};
use crate::report::Report;
use crate::resolver::{Resolver, resolver};
use crate::route::Route;
use crate::route_fields::{RouteDraft, route};
use crate::secrets::Secrets;
use crate::section::{section, section_of};
use crate::shape::{Shape, TextShape};
use crate::source::FileNames;
use crate::state::{State, state};
use crate::store::{Store, StoreDraft, store};
use crate::timeouts::Timeouts;
use crate::tls::{Tls, UpstreamTls};
use crate::token::{HeaderName, NAME, Name, name, parse_name};
use crate::tracing::{Tracing, tracing};
use crate::upstream::{Upstream, UpstreamFields, upstream};
use crate::upstream_id::UpstreamId;
use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU16;
use std::path::Path;

/// A configuration that has been checked: whatever it holds can be served as it is.
#[derive(Clone)]
pub struct Config {
    /// The threads that carry traffic.
    pub workers: Workers,
    /// Where more documents come from, in file order.
    pub sources: Vec<RemoteSource>,
    /// Where clients connect; at least one, unless there are sources.
    pub listeners: Vec<Listener>,
    /// What responds to requests, in file order. No two are equal in precedence and match the same request.
    pub routes: Vec<Route>,
    /// The upstreams in file order; an [`UpstreamId`] points here.
    pub upstreams: Vec<Upstream>,
    /// The policies in file order; a [`crate::PolicyId`] points here.
    pub policies: Vec<NamedPolicy>,
    /// Those that `apply` names for the file as a whole, which every route meets unless it says otherwise.
    pub everywhere: Policies,
    /// The revoked tokens; `None` where none can be.
    pub jwt_revocations: Option<JwtRevocations>,
    /// Pages in place of problem documents, where the route has none.
    pub error_pages: ErrorPages,
    /// How much of everything.
    pub limits: Limits,
    /// How long for everything.
    pub timeouts: Timeouts,
    /// What the gateway tells upstreams and clients about each other.
    pub forwarding: Forwarding,
    /// How names are resolved.
    pub resolver: Resolver,
    /// The admin interface; `None` when it is off.
    pub admin: Option<Admin>,
    /// What is kept between two starts.
    pub state: State,
    /// What is done when limits of the gateway itself come near; `None` for nothing.
    pub pressure: Option<Pressure>,
    /// The stores that gateways count together in, in file order.
    pub stores: Vec<Store>,
    /// The collectors of OpenTelemetry, in file order.
    pub otlp: Vec<Collector>,
    /// What traces are made of; `None` where there are none.
    pub tracing: Option<Tracing>,
    /// Where exchanges are logged, in file order; empty for nowhere.
    pub access_log: Vec<AccessLog>,
    /// What is kept of the last exchanges; `None` for nothing.
    pub recorder: Option<Recorder>,
    /// What the gateway tells of itself.
    pub log: Log,
    /// What is allowed but probably not meant; empty for a clean file.
    pub warnings: Report,
    /// What messages call its files.
    pub file_names: FileNames,
    /// What was taken from files for values.
    pub(crate) secrets: Secrets,
}

/// Without what was taken from files for values.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = match f.alternate() {
            true => format!("{:#?}", Unmasked(self)),
            false => format!("{:?}", Unmasked(self)),
        };
        self.secrets.mask(&mut shown);
        f.write_str(&shown)
    }
}

/// All of a configuration.
struct Unmasked<'c>(&'c Config);

impl fmt::Debug for Unmasked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Config {
            workers,
            sources,
            listeners,
            routes,
            upstreams,
            policies,
            everywhere,
            jwt_revocations,
            error_pages,
            limits,
            timeouts,
            forwarding,
            resolver,
            admin,
            state,
            pressure,
            stores,
            otlp,
            tracing,
            access_log,
            recorder,
            log,
            warnings,
            file_names,
            secrets: _,
        } = self.0;
        f.debug_struct("Config")
            .field("workers", workers)
            .field("sources", sources)
            .field("listeners", listeners)
            .field("routes", routes)
            .field("upstreams", upstreams)
            .field("policies", policies)
            .field("everywhere", everywhere)
            .field("jwt_revocations", jwt_revocations)
            .field("error_pages", error_pages)
            .field("limits", limits)
            .field("timeouts", timeouts)
            .field("forwarding", forwarding)
            .field("resolver", resolver)
            .field("admin", admin)
            .field("state", state)
            .field("pressure", pressure)
            .field("stores", stores)
            .field("otlp", otlp)
            .field("tracing", tracing)
            .field("access_log", access_log)
            .field("recorder", recorder)
            .field("log", log)
            .field("warnings", warnings)
            .field("file_names", file_names)
            .finish()
    }
}

impl Config {
    /// A text about it, with `***` in place of what was taken from files for values.
    pub fn mask(&self, mut text: String) -> String {
        self.secrets.mask(&mut text);
        text
    }

    /// The files that it names, as it names them.
    pub fn files(&self) -> Vec<&Path> {
        let fallbacks = self.upstreams.iter().filter_map(Upstream::fallback_file);
        let fallbacks = fallbacks.map(|file| file.path.as_path());
        let policies = self.policies.iter().flat_map(|it| it.policy.files());
        self.tls_files().into_iter().chain(fallbacks).chain(policies).collect()
    }

    /// Those of them that TLS is spoken with: certificates, keys, authorities, revocation lists.
    pub fn tls_files(&self) -> Vec<&Path> {
        let listeners = self.listeners.iter().filter_map(|listener| listener.tls.as_ref());
        let upstreams = self.connected().filter_map(|upstream| upstream.tls.as_ref());
        let theirs = upstreams.flat_map(UpstreamTls::files);
        let admin = self.admin.iter().flat_map(Admin::files);
        let stores = self.stores.iter().filter_map(|store| store.tls.as_ref());
        let stores = stores.flat_map(UpstreamTls::files);
        listeners.flat_map(Tls::files).chain(theirs).chain(admin).chain(stores).collect()
    }

    /// Whether some upstream, or the source of a key set, is verified with the system's authorities.
    pub fn needs_system_authorities(&self) -> bool {
        let stores = self.stores.iter().filter_map(|store| store.tls.as_ref());
        let upstreams = self.connected().filter_map(|upstream| upstream.tls.as_ref());
        upstreams.chain(stores).any(|tls| tls.verify && tls.ca.is_none())
            || self.policies.iter().any(|it| it.policy.needs_system_authorities())
    }

    /// Whatever the gateway opens connections to: upstreams, collectors of OpenTelemetry, and sources.
    pub fn connected(&self) -> impl Iterator<Item = &Upstream> {
        let collectors = self.otlp.iter().map(|collector| &collector.upstream);
        self.upstreams
            .iter()
            .chain(collectors)
            .chain(self.sources.iter().filter_map(RemoteSource::upstream))
    }

    /// The fields of requests that identify clients to upstreams: clients may not write them, on any route. Those of a policy that a source
    /// has delivered count once some route meets it: whoever writes it decides about no more than these.
    pub fn identity_fields(&self) -> impl Iterator<Item = &HeaderName> {
        let met = self
            .routes
            .iter()
            .flat_map(|route| PolicyKind::ALL.iter().filter_map(|kind| route.policies.of(*kind)));
        let met: BTreeSet<_> = met.map(PolicyId::index).collect();
        let counts =
            |(place, named): &(usize, &NamedPolicy)| !named.is_delivered || met.contains(place);
        let all: Vec<_> = self.policies.iter().enumerate().filter(counts).collect();
        all.into_iter().flat_map(|(_, named)| named.policy.identity_fields())
    }

    /// The policies that those of a route are, in the order in which requests meet them.
    pub fn policies_of(&self, policies: &Policies) -> impl Iterator<Item = &NamedPolicy> {
        let ids = PolicyKind::ALL.iter().filter_map(|kind| policies.of(*kind));
        ids.map(|id| &self.policies[id.index()])
    }

    /// The upstream that `id` points to.
    pub fn upstream(&self, id: UpstreamId) -> &Upstream {
        &self.upstreams[id.index()]
    }
}

section! {
    "workers", "the workers", Any;
    /// The threads that handle traffic. A plain `auto` or number sets `threads` alone.
    pub struct Workers {
        /// How many threads; `auto` is one for each core that the process may use.
        pub threads: Threads = default("auto", threads()),
        /// Whether each thread stays on one core. Steadier where nothing else needs the cores.
        pub pin: bool = default("false", boolean()),
    }
}

/// How many workers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One for each core that the process may use.
    Auto,
    /// That many.
    Exactly(NonZeroU16),
}

section! {
    "file", "a configuration", Any;
    /// The top-level keys of the file.
    pub(crate) struct ConfigFields {
        /// More files of the configuration: paths, or patterns such as `conf.d/*.yaml`, whose files are read in the order of their
        /// names. A relative path starts at the directory of the file that says it, here and everywhere in it. Included files have the
        /// same keys, `include` too. What they say is joined: `listeners`, `routes`, `apply` and `access_log` go on in the order of the
        /// files, `upstreams`, `policies`, `stores`, `otlp` and `error_pages` take the names of all of them, and every other key is in
        /// one file only. A name without `*`, `?` and `[` must be there; a pattern may match nothing. `**` is not supported, and `*`
        /// does not match names that begin with a dot.
        pub(crate) include: Vec<At<String>> = default("[]", include()),
        /// The threads that handle traffic.
        pub(crate) workers: Option<Workers> = default("{}", lenient(workers())),
        /// Where clients connect.
        pub(crate) listeners: Vec<Option<ListenerDraft>> = required(unless_delivered(one_or_list(lenient(listener()), 1..=MAX_LISTENERS))),
        /// Which requests get which response. Their order has no meaning.
        pub(crate) routes: Vec<Option<RouteDraft>> =
            required(unless_delivered(one_or_list(lenient(route()), 1..=MAX_ROUTES))),
        /// The groups of endpoints, by name.
        pub(crate) upstreams: Vec<Named<Name, Option<UpstreamFields>>> =
            default("{}", mapping(NAME, parse_name, lenient(upstream()), 0..=MAX_UPSTREAMS)),
        /// What is done to requests and responses on the way, by name.
        pub(crate) policies: Vec<Named<Name, Option<Policy>>> =
            default("{}", mapping(NAME, parse_name, lenient(policy()), 0..=MAX_POLICIES)),
        /// The policies that apply to every route, unless the route applies one of the same type or opts out
        /// (`without`); at most one of each type. They always run in the same order: `cors` first, then the others in
        /// the order of the types under `policy`. A `cors` among them also covers responses that no route gives, such
        /// as 404 and 405.
        pub(crate) apply: Vec<At<String>> = default("[]", uses()),
        /// Tokens that are refused although they are otherwise valid.
        pub(crate) jwt_revocations: Option<At<JwtRevocations>> =
            optional("none: tokens are valid until they expire", at(jwt_revocations())),
        /// How much a client or an upstream may send.
        pub(crate) limits: Option<Limits> = default("{}", lenient(limits())),
        /// Pages in place of problem documents where the gateway itself fails or refuses a request, by status (`404`)
        /// or class (`4xx`, `5xx`): `{ 404: "<h1>Not here</h1>", 5xx: { body: ... } }`. Responses of upstreams are not
        /// replaced. A client whose `Accept` prefers JSON to the type of the page still gets the document, and gRPC
        /// calls get their own status. The field `Titan-Problem` carries the code of the problem, and the field of
        /// `forwarding.request_id` the request's id.
        pub(crate) error_pages: ErrorPages = default("{}", error_pages()),
        /// What happens to paths that some upstreams treat as equal to others.
        pub(crate) paths: Option<Paths> = default("{}", lenient(section_of::<Paths>())),
        /// How long everything may take.
        pub(crate) timeouts: Option<Timeouts> = default("{}", lenient(section_of::<Timeouts>())),
        /// What the gateway tells upstreams and clients about each other.
        pub(crate) forwarding: Option<Forwarding> =
            default("{}", lenient(forwarding())),
        /// How names of endpoints are resolved to addresses.
        pub(crate) resolver: Option<Resolver> = default("{}", lenient(resolver())),
        /// Health, readiness, metrics, and calls that change the configuration; `off` for none of it.
        pub(crate) admin: Option<AdminDraft> = default("{}", lenient(admin())),
        /// What is kept between two starts, and where.
        pub(crate) state: Option<State> = default("{}", lenient(state())),
        /// What the gateway does when its own limits come near: descriptors, memory, and the lag of its workers. `off`: nothing.
        pub(crate) pressure: Option<Option<Pressure>> = default("{}", lenient(pressure())),
        /// The stores of Redis or Valkey in which the gateways of a fleet count together, by name. Rate limits (`rate_limit.shared`) say
        /// which they use.
        pub(crate) stores: Vec<Named<Name, Option<StoreDraft>>> =
            default("{}", mapping(NAME, parse_name, lenient(store()), 0..=MAX_STORES)),
        /// The collectors of OpenTelemetry, by name. Access logs (`access_log.otlp`) and `tracing` say what they get.
        pub(crate) otlp: Vec<Named<Name, Option<CollectorDraft>>> =
            default("{}", mapping(NAME, parse_name, lenient(collector()), 0..=MAX_COLLECTORS)),
        /// Where more documents of the configuration come from, by name; in the file that the gateway is started with alone.
        /// That file has to be valid without them, but needs no `listeners` and `routes` of its own. What they deliver is joined
        /// to it as included files are.
        pub(crate) sources: Vec<Named<Name, Option<SourceDraft>>> = default("{}", sources()),
        /// Which requests are traced, and the collector that gets their spans.
        pub(crate) tracing: Option<Option<Tracing>> = default("off", lenient(word_or("off", None, tracing().map(Some)))),
        /// Where exchanges are logged: one destination or several, each with a format and conditions of its own.
        pub(crate) access_log: Vec<Option<AccessLogDraft>> =
            default("[]", one_or_list(lenient(access_log()), 0..=MAX_ACCESS_LOGS)),
        /// What is kept of the last exchanges, in memory; `off` for nothing.
        pub(crate) recorder: Option<Option<Recorder>> = default("{}", lenient(recorder())),
        /// What the gateway tells of itself on standard error. There is no line for each request.
        pub(crate) log: Option<Log> = default("{}", lenient(log())),
        /// Where this gateway runs: endpoints of upstreams that are in another `zone` get requests only as far as too few others
        /// can take them. Often a variable, such as `${ZONE}`.
        pub(crate) zone: Option<Name> = optional("none: all zones are alike", name()),
    }
}

/// The files that a file includes.
pub(crate) fn include() -> impl Read<Value = Vec<At<String>>> {
    let shape = TextShape {
        what: "the path of files to include",
        examples: "`conf.d/*.yaml`",
        pattern: None,
        max: MAX_PATH_BYTES,
    };
    let pattern = text(shape, |text| match text {
        "" => Err(Problem::new("it is empty")),
        text if text.contains('\0') => Err(Problem::new("it contains a NUL byte")),
        text if text.contains("**") => {
            let problem = Problem::new("`**` is not supported");
            Err(problem.help("write `*` for each directory: `conf.d/*/*.yaml`"))
        }
        text => Ok(text.to_owned()),
    });
    one_or_list(at(pattern), 0..=MAX_INCLUDES)
}

/// The sources by name.
pub(crate) fn sources() -> impl Read<Value = Vec<Named<Name, Option<SourceDraft>>>> {
    mapping(NAME, parse_name, lenient(source()), 0..=MAX_SOURCES).then(|sources, node, to| {
        let is_cluster = |it: &&Named<Name, Option<SourceDraft>>| {
            it.value.as_ref().is_some_and(SourceDraft::is_cluster)
        };
        let clusters: Vec<_> = sources.iter().filter(is_cluster).collect();
        if let [first, second, ..] = clusters[..] {
            // Services of both would have the same names.
            let [first, second] = [first, second].map(|it| node.key_span(it.key.as_str()));
            let error = Diagnostic::error(second, "a second cluster");
            let error = error.label("a gateway serves one").also(first, "the first one");
            return to.fail(error.help("run another gateway for it"));
        }
        Some(sources)
    })
}

/// A list that may be missing where there are sources: then nothing stands in its place, which no file can say.
fn unless_delivered<T>(list: impl Read<Value = Vec<T>>) -> impl Read<Value = Vec<T>> {
    UnlessDelivered(list)
}

struct UnlessDelivered<R>(R);

impl<T, R: Read<Value = Vec<T>>> Read for UnlessDelivered<R> {
    type Value = Vec<T>;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<Vec<T>> {
        match &node.kind {
            Kind::List(items) if items.is_empty() && node.span == Span::NOWHERE => Some(Vec::new()),
            _ => self.0.read(node, to),
        }
    }

    fn shape(&self) -> Shape {
        self.0.shape()
    }
}

fn workers() -> impl Read<Value = Workers> {
    short_for("threads", section_of::<Workers>())
}

fn threads() -> impl Read<Value = Threads> {
    word_or("auto", Threads::Auto, whole(1..=256).map(Threads::Exactly))
}
