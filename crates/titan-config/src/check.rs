//! The checks that need several parts of the file, and the construction of the [`Config`].

mod access_logs;
mod limits;
mod look_alikes;
mod mirrors;
mod recorded_bodies;
mod tls_routes;

use crate::address::ListenAddress;
use crate::admin::{AdminDraft, check_admin};
use crate::circuit_breaker::check_circles;
use crate::clash::check_routes;
use crate::compose::compose;
use crate::declared::Declared;
use crate::diagnostic::Diagnostic;
use crate::forwarding::ClientCert;
use crate::gateway::{Config, ConfigFields};
use crate::language;
use crate::listener::{Listener, ListenerDraft};
use crate::location::{FileId, Span};
use crate::look_alikes::Paths;
use crate::node::Node;
use crate::policy::{
    NamedPolicy, Policies, Policy, PolicyKind, PolicyNames, Uses, check_certificates,
    check_credentials, check_key_fields, check_optional_tokens, check_tokens, check_use,
};
use crate::quantity::Cap;
use crate::read::{At, Read, Reading};
use crate::readers::Named;
use crate::report::{Findings, Hidden, Report};
use crate::route_fields::{Common, RouteDraft, tell_apart};
use crate::secrets::Secrets;
use crate::section::section_of;
use crate::source::Sources;
use crate::surroundings::{Alone, Document, Surroundings};
use crate::token::Name;
use crate::upstream::{EndpointDraft, Protocol, UpstreamFields};
use crate::visible::Visible;
use access_logs::{check_access_logs, check_collectors};
use limits::{
    check_costs, check_counted, check_faults, check_params, check_plans_and_exemptions,
    check_retry_bodies,
};
use look_alikes::{RouteInForce, check_look_alikes};
use mirrors::{check_mirrored_bodies, check_mirrored_endpoints, check_mirrored_fallbacks};
use recorded_bodies::check_recorded_bodies;
use std::collections::HashMap;
use std::mem;
use tls_routes::check_tls_routes;

impl Config {
    /// Reads a text on its own: YAML, or JSON, which is YAML. `name` is what messages call it.
    ///
    /// All that is wrong is in the report, not only the first thing, unless it is no YAML.
    pub fn parse(name: &str, text: &str) -> Result<Config, Report> {
        let main = Document::alone(name, text);
        Composed::read(main, &mut Alone).map(|composed| composed.config)
    }
}

/// A configuration with what its files say.
pub struct Composed {
    /// What they come to.
    pub config: Config,
    pub(crate) sources: Sources,
    pub(crate) hidden: Vec<Hidden>,
    /// Where their keys and values stand.
    pub(crate) visible: HashMap<FileId, Visible>,
    /// All of it, with paths as they lead there from the directory of the first file.
    pub(crate) root: Node,
}

impl Composed {
    /// Reads a file with all that it names in its surroundings. The report is as that of [`Config::parse`].
    pub fn read(main: Document, surroundings: &mut dyn Surroundings) -> Result<Composed, Report> {
        let mut findings = Findings::default();
        let (sources, root) = compose(main, surroundings, &mut findings);
        let read = root.and_then(|root| Some((read(&sources, &root, &mut findings)?, root)));
        let (failed, secrets) = (findings.has_errors(), findings.secrets.clone());
        let (hidden, moved) = (findings.hidden().to_vec(), mem::take(&mut findings.moved));
        let (concealed, visible) = (mem::take(&mut findings.concealed), findings.visible.clone());
        let warnings = Report::new(&sources, findings);
        match read {
            Some((config, mut root)) if !failed => {
                root.replace_texts(&moved);
                root.show_texts(&concealed);
                let config = Config { warnings, secrets, ..config };
                Ok(Composed { config, sources, hidden, visible, root })
            }
            _ => Err(warnings),
        }
    }
}

fn read(sources: &Sources, root: &Node, findings: &mut Findings) -> Option<Config> {
    let mut to = Reading::new(sources, findings, Declared::in_file(root), language::sections);
    let mut fields = section_of::<ConfigFields>().read(root, &mut to)?;
    tell_apart(&mut fields.routes);
    check(&fields, root, &mut to);
    let policies = check_policies(&fields, &mut to)?;
    finish(fields, policies, sources)
}

fn check(fields: &ConfigFields, root: &Node, to: &mut Reading<'_>) {
    let listeners: Vec<&ListenerDraft> = fields.listeners.iter().flatten().collect();
    check_names(&listeners, to);
    check_addresses(&listeners, fields.admin.as_ref(), to);
    check_route_names(&fields.routes, to);
    check_routes(&fields.routes, to);
    check_upstreams(&fields.upstreams, (&listeners, !fields.sources.is_empty()), to);
    check_protocols(&fields.routes, &fields.upstreams, to);
    check_tls_routes(&listeners, &fields.upstreams, to);
    check_retry_bodies(fields, to);
    check_hedges(fields, to);
    check_deadlines(fields, to);
    check_mirrored_bodies(fields, to);
    check_mirrored_fallbacks(fields, to);
    check_mirrored_endpoints(fields, to);
    check_client_certificates(fields, root, to);
    check_revocations(fields, to);
    check_admin(fields.admin.as_ref(), to);
    check_access_logs(fields, to);
    check_collectors(fields, to);
    check_stores(fields, to);
    check_recorded_bodies(fields, to);
}

/// Whether something uses each store.
fn check_stores(fields: &ConfigFields, to: &mut Reading<'_>) {
    for store in &fields.stores {
        // What should have used it may be what an error is about.
        if !to.has_errors() && !to.declared.stores.is_used(store.key.as_str()) {
            let message = format!("nothing is kept in the store `{}`", store.key);
            let warning = Diagnostic::warning(store.key_span, message);
            let help = format!(
                "add `shared: {0}` to a rate limit or `store: {0}` to `jwt_revocations`, or remove the store",
                store.key
            );
            to.add(warning.label("nothing names it").help(help));
        }
    }
}

/// Whether the attempts of a route have time at all.
fn check_deadlines(fields: &ConfigFields, to: &mut Reading<'_>) {
    let global = fields.timeouts.as_ref().map_or(Cap::Unlimited, |timeouts| timeouts.total);
    for route in fields.routes.iter().flatten() {
        let Some((per_try, total)) = route.per_try_and_total(global) else { continue };
        if per_try > total {
            let message = format!(
                "an attempt of this route may take {per_try:?}, and all of them together {total:?}"
            );
            let error =
                Diagnostic::error(route.place, message).label("`timeouts.total` comes first");
            to.add(error.help("make `retries.per_try_timeout` shorter than `timeouts.total`"));
        }
    }
}

/// Whether any request can be hedged where requests are to be.
fn check_hedges(fields: &ConfigFields, to: &mut Reading<'_>) {
    // Whether the routes of each upstream retry, if it has any.
    let mut retries = vec![None; fields.upstreams.len()];
    for route in fields.routes.iter().flatten() {
        for id in route.upstreams() {
            if let Some(retries) = retries.get_mut(id.index()) {
                *retries = Some(*retries == Some(true) || route.retries());
            }
        }
    }
    for (Named { key, value, .. }, retries) in fields.upstreams.iter().zip(retries) {
        let Some(hedge) = value.as_ref().and_then(|it| it.hedge.as_ref()) else { continue };
        if retries == Some(false) {
            let message = format!("no request for the upstream `{key}` is hedged");
            let warning = Diagnostic::warning(hedge.span, message);
            let warning = warning.label("a hedge is a retry, and its routes have `retries: 0`");
            to.add(warning.help("allow these routes a retry, or remove `hedge`"));
        }
    }
}

/// Whether there is anything to take back, and anywhere to say so.
fn check_revocations(fields: &ConfigFields, to: &mut Reading<'_>) {
    let Some(At { span, .. }) = fields.jwt_revocations else { return };
    // A policy that could not be read may have been one.
    let may_ask =
        |it: &Named<Name, Option<Policy>>| matches!(it.value, Some(Policy::Jwt(_)) | None);
    if !fields.policies.iter().any(may_ask) {
        let error =
            Diagnostic::error(span, "`jwt_revocations` is set, but no policy checks tokens");
        to.add(error.label("no effect").help("add a `jwt` policy, or remove this"));
    }
    if fields.admin == Some(AdminDraft::Off) {
        let warning = Diagnostic::warning(span, "tokens cannot be revoked while `admin` is off");
        to.add(warning.label("tokens that the file lists stay revoked"));
    }
}

/// The policies in force everywhere, and those in force for each route.
fn check_policies(
    fields: &ConfigFields,
    to: &mut Reading<'_>,
) -> Option<(Policies, Vec<Policies>)> {
    let mut names = PolicyNames::of(&fields.policies)?;
    let all = Uses { names: fields.apply.clone(), without: Vec::new() };
    let everywhere = names.resolve(&all, Policies::default(), to);
    let of_routes: Vec<_> = fields
        .routes
        .iter()
        .map(|route| match route {
            Some(route) => names.resolve(&route.uses, everywhere?, to),
            None => Some(Policies::default()),
        })
        .collect();
    for (route, policies) in fields.routes.iter().zip(&of_routes) {
        if let (Some(route), Some(policies)) = (route, policies) {
            check_policies_of(route, policies, &fields.policies, to);
            if !may_request_certificates(fields) {
                check_certificates(route.place, policies, &fields.policies, to);
            }
        }
    }
    check_request_id(fields, to);
    check_key_fields(&fields.policies, &of_routes, to);
    // What no route uses now, a document that comes later may.
    if !to.has_errors() && fields.sources.is_empty() {
        names.check_used(&fields.policies, to);
    }
    let of_routes: Vec<Policies> = of_routes.into_iter().collect::<Option<_>>()?;
    check_costs(fields, &of_routes, to);
    check_counted(fields, &of_routes, to);
    check_params(fields, &of_routes, to);
    check_plans_and_exemptions(fields, &of_routes, to);
    check_faults(fields, &of_routes, to);
    if !to.has_errors() {
        check_paths(fields, &of_routes, to);
    }
    Some((everywhere?, of_routes))
}

fn check_paths(fields: &ConfigFields, in_force: &[Policies], to: &mut Reading<'_>) {
    let routes = fields.routes.iter().zip(in_force);
    let routes = routes.filter_map(|(route, policies)| {
        Some(RouteInForce { route: route.as_ref()?, policies: *policies })
    });
    let unstated = Paths::UNSTATED;
    let paths = fields.paths.as_ref().unwrap_or(&unstated);
    check_look_alikes(&routes.collect::<Vec<_>>(), paths, to);
}

/// Whether the route can use the policies that it meets.
fn check_policies_of(
    route: &RouteDraft,
    policies: &Policies,
    all: &[Named<Name, Option<Policy>>],
    to: &mut Reading<'_>,
) {
    check_tokens(route.place, policies, all, to);
    check_optional_tokens(route.place, policies, all, to);
    check_credentials(route.place, policies, all, to);
    if route.needs_token() && policies.jwt.is_none() {
        let message = "the template of this route uses token claims, but no policy checks tokens";
        let error = Diagnostic::error(route.place, message);
        to.add(error.label("no `jwt` policy applies here").help("apply one to this route"));
    }
    let in_force = PolicyKind::ALL.iter().filter_map(|kind| policies.of(*kind));
    for Named { key, value, .. } in in_force.map(|id| &all[id.index()]) {
        let Some(policy) = value else { continue };
        let facts = (route.rewrites(), policies.jwt.is_some());
        check_use((key.as_str(), policy), &route.path, facts, route.place, to);
    }
}

/// The id of a request is the gateway's to write, whatever its field is called.
fn check_request_id(fields: &ConfigFields, to: &mut Reading<'_>) {
    let id = fields.forwarding.as_ref().and_then(|forwarding| forwarding.request_id.as_ref());
    for Named { key_span, value, .. } in &fields.policies {
        if let (Some(policy), Some(id)) = (value, id)
            && policy.changed_fields().iter().any(|name| name.is_alike(id))
        {
            let message = format!("the policy changes `{}`", id.as_str());
            let error = Diagnostic::error(*key_span, message);
            to.add(error.label("`forwarding.request_id` names this header"));
        }
    }
}

fn check_names(listeners: &[&ListenerDraft], to: &mut Reading<'_>) {
    let mut seen: HashMap<&str, Span> = HashMap::new();
    for ListenerDraft { listener, name_span, .. } in listeners {
        // Without a name the name is the address, and equal addresses are reported as such.
        if listener.name != listener.address.to_string()
            && let Some(first) = seen.insert(&listener.name, *name_span)
        {
            to.add(twice("listener", &listener.name, *name_span, first));
        }
    }
}

fn twice(what: &str, name: &str, span: Span, first: Span) -> Diagnostic {
    let error = Diagnostic::error(span, format!("two {what}s have the name `{name}`"));
    error.label("here again").also(first, "first here")
}

fn check_addresses(listeners: &[&ListenerDraft], admin: Option<&AdminDraft>, to: &mut Reading<'_>) {
    let mut bound: Vec<(&ListenAddress, Span)> = Vec::new();
    let drafts = listeners.iter().map(|draft| (&draft.listener.address, draft.address_span));
    let admin = match admin {
        Some(AdminDraft::On(admin)) => admin.sockets(),
        Some(AdminDraft::Off) | None => Vec::new(),
    };
    let admin = admin.iter().map(|(address, span)| (address, *span));
    for (address, span) in drafts.chain(admin) {
        if let Some((other, first)) = bound.iter().find(|(other, _)| other.clashes(address)) {
            to.add(clash(address, span, other, *first));
        }
        bound.push((address, span));
    }
}

/// Two sockets on one address. One of them may be the default of `admin`, which no line shows.
fn clash(address: &ListenAddress, span: Span, other: &ListenAddress, first: Span) -> Diagnostic {
    let by_default = "the admin interface listens here by default";
    if span == Span::NOWHERE {
        let error =
            Diagnostic::error(first, format!("`{address}` is used twice")).label(by_default);
        return error.help("choose another port, or set `admin`");
    }
    let message = match address == other {
        true => format!("`{address}` is used twice"),
        false => format!("`{address}` and `{other}` overlap"),
    };
    Diagnostic::error(span, message).label("cannot listen here too").also(first, "first here")
}

fn check_upstreams(
    upstreams: &[Named<Name, Option<UpstreamFields>>],
    (listeners, may_come): (&[&ListenerDraft], bool),
    to: &mut Reading<'_>,
) {
    let successor =
        |it: &Option<UpstreamFields>| it.as_ref()?.circuit_breaker.as_ref()?.successor();
    let successors: Vec<_> =
        upstreams.iter().map(|it| (it.key.as_str(), successor(&it.value))).collect();
    check_circles(&successors, to);
    for Named { key, key_span, value } in upstreams {
        // A route that should have used it may be what an error is about, or be delivered later.
        if !to.has_errors() && !may_come && !to.declared.upstreams.is_used(key.as_str()) {
            let warning =
                Diagnostic::warning(*key_span, format!("no route uses the upstream `{key}`"));
            to.add(warning.label("it never receives a request"));
        }
        if value.iter().filter_map(|it| it.tls.as_ref()).any(|tls| !tls.verify) {
            let message = format!("the upstream `{key}` accepts any certificate");
            let warning = Diagnostic::warning(*key_span, message);
            let warning =
                warning.label("anyone on the network path can read and change the traffic");
            to.add(
                warning
                    .help("for certificates that you issued yourself, set `ca` to their authority"),
            );
        }
        if value.iter().any(|it| it.protocol == Protocol::Auto && it.tls.is_none()) {
            let message = format!("the gateway always uses HTTP/1.1 with the upstream `{key}`");
            let warning = Diagnostic::warning(*key_span, message);
            let warning = warning.label(
                "`protocol: auto` decides in the TLS handshake, and \
                there is no TLS here",
            );
            to.add(
                warning.help("set `protocol: h2` if its endpoints support HTTP/2, or add `tls`"),
            );
        }
        for EndpointDraft { endpoint, span, .. } in value.iter().flat_map(|it| &it.endpoints) {
            let address = &endpoint.address;
            let own = listeners.iter().find(|it| address.is_served_by(&it.listener.address));
            if let Some(ListenerDraft { address_span, .. }) = own {
                let message = format!("the endpoint `{address}` is this gateway itself");
                let warning = Diagnostic::warning(*span, message).label("requests could loop");
                to.add(warning.also(*address_span, "the gateway listens here"));
            }
        }
    }
}

/// Whether the upstreams of a route can speak what it is about.
fn check_protocols(
    routes: &[Option<RouteDraft>],
    upstreams: &[Named<Name, Option<UpstreamFields>>],
    to: &mut Reading<'_>,
) {
    for route in routes.iter().flatten() {
        for Named { key, value, .. } in route.upstreams().map(|id| &upstreams[id.index()]) {
            let Some(UpstreamFields { protocol, tls, .. }) = value else { continue };
            let is_h1 = *protocol == Protocol::H1 || *protocol == Protocol::Auto && tls.is_none();
            if route.translates_grpc_web() && is_h1 {
                let message = format!("the upstream `{key}` cannot receive gRPC calls");
                let warning = Diagnostic::warning(route.place, message);
                let warning = warning.label("this route translates gRPC-Web to gRPC");
                to.add(warning.help("gRPC needs HTTP/2: set `protocol: h2` in the upstream"));
            }
            if route.names_upgrades() && protocol.is_always_shared() {
                let message = format!("the upstream `{key}` cannot carry tunnels");
                let warning = Diagnostic::warning(route.place, message);
                let warning = warning.label("this route has `upgrades`");
                to.add(
                    warning.help(
                        "tunnels to endpoints need HTTP/1.1: set `protocol` to `h1` or `auto`",
                    ),
                );
            }
        }
    }
}

/// Whether clients are asked for certificates where something is made of them. Where none can come, a route
/// that wants one would never be reached, and the requests that it is to guard would go elsewhere.
fn check_client_certificates(fields: &ConfigFields, root: &Node, to: &mut Reading<'_>) {
    if may_request_certificates(fields) {
        return;
    }
    const HELP: &str = "set `tls: { client_certificates: { ca: ... } }` on a listener";
    let message = "no listener requests client certificates";
    for route in fields.routes.iter().flatten().filter(|route| !route.certificate.is_empty()) {
        let error = Diagnostic::error(route.place, message);
        to.add(error.label("this route has a condition on them").help(HELP));
    }
    if fields.forwarding.as_ref().is_some_and(|it| it.client_cert != ClientCert::Off) {
        let forwarding = root.entry("forwarding");
        let span = forwarding.map_or(root.span, |entry| entry.value.key_span("client_cert"));
        let error = Diagnostic::error(span, message);
        to.add(error.label("there is no certificate to tell upstreams about").help(HELP));
    }
}

/// Whether some listener asks clients for certificates, or is wrong: that has been reported, and may be what is
/// missing.
fn may_request_certificates(fields: &ConfigFields) -> bool {
    fields.listeners.iter().any(|draft| {
        let tls = draft.as_ref().map(|draft| draft.listener.tls.as_ref());
        tls.is_none_or(|tls| tls.is_some_and(|tls| tls.client_certificates.is_some()))
    })
}

fn check_route_names(routes: &[Option<RouteDraft>], to: &mut Reading<'_>) {
    let mut seen: HashMap<String, Span> = HashMap::new();
    for name in routes.iter().flatten().filter_map(|route| route.name.as_ref()) {
        if let Some(first) = seen.insert(name.value.as_str().to_owned(), name.span) {
            to.add(twice("route", name.value.as_str(), name.span, first));
        }
    }
    // Only the digits of two names without one can be the same by chance. Where two match the same, that is another error.
    let mut matched: HashMap<String, (String, Span)> = HashMap::new();
    for route in routes.iter().flatten().filter(|route| route.name.is_none()) {
        let name = route.name().as_str().to_owned();
        let first = seen.get(&name).copied().or_else(|| {
            let (other, span) = matched.get(&name)?;
            (*other != route.matched()).then_some(*span)
        });
        if let Some(first) = first {
            let error = twice("route", &name, route.span, first);
            to.add(error.help("one of them has it by default: give it another one with `name`"));
        }
        matched.insert(name, (route.matched(), route.span));
    }
}

/// Nothing when something could not be read: then it has been reported.
fn finish(
    fields: ConfigFields,
    (everywhere, in_force): (Policies, Vec<Policies>),
    sources: &Sources,
) -> Option<Config> {
    let ConfigFields {
        include: _,
        sources: delivering,
        workers,
        listeners,
        routes,
        upstreams,
        policies,
        apply: _,
        jwt_revocations,
        limits,
        error_pages,
        paths,
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
        zone,
    } = fields;
    let (limits, timeouts, paths) = (limits?, timeouts?, paths?);
    let routes = routes.into_iter().zip(in_force);
    let (around, mut common) = ((&paths, &timeouts, &limits), Common::default());
    let routes = routes.map(|(route, policies)| Some(route?.finish(policies, around, &mut common)));
    let mut routes = routes.collect::<Option<Vec<_>>>()?;
    routes.shrink_to_fit();
    let policies = policies.into_iter().map(|Named { key: name, key_span, value }| {
        let location = key_span.start;
        let is_delivered = sources.with(key_span).is_delivered();
        Some(NamedPolicy { name, policy: value?, location, is_delivered })
    });
    let listeners = listeners.into_iter().map(|draft| Some(draft?.listener));
    let listeners = listeners.collect::<Option<Vec<Listener>>>()?;
    let admin = match admin? {
        AdminDraft::Off => None,
        AdminDraft::On(admin) => Some(admin.finish()),
    };
    let stores = stores
        .into_iter()
        .map(|Named { key: name, key_span, value }| Some(value?.finish(name, key_span.start)));
    let otlp = otlp
        .into_iter()
        .map(|Named { key: name, key_span, value }| Some(value?.finish(name, key_span.start)));
    let access_log = access_log.into_iter().map(|draft| Some(draft?.log));
    let delivering = delivering
        .into_iter()
        .map(|Named { key: name, key_span, value }| Some(value?.finish(name, key_span.start)));
    Some(Config {
        workers: workers?,
        sources: delivering.collect::<Option<_>>()?,
        listeners,
        routes,
        policies: policies.collect::<Option<_>>()?,
        everywhere,
        upstreams: upstreams
            .into_iter()
            .map(|Named { key, key_span, value }| {
                Some(value?.finish(key, key_span.start, zone.as_ref()))
            })
            .collect::<Option<_>>()?,
        jwt_revocations: jwt_revocations.map(|it| it.value),
        error_pages,
        limits,
        timeouts,
        forwarding: forwarding?,
        resolver: resolver?,
        admin,
        warnings: Report::nothing(sources),
        file_names: sources.names(),
        secrets: Secrets::default(),
        state: state?,
        pressure: pressure?,
        stores: stores.collect::<Option<_>>()?,
        otlp: otlp.collect::<Option<_>>()?,
        tracing: tracing?,
        access_log: access_log.collect::<Option<_>>()?,
        recorder: recorder?,
        log: log?,
    })
}
