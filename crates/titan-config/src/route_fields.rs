//! The keys of a route, and how they become a [`Route`].

mod name;

pub(crate) use name::tell_apart;

use crate::bounds::{MAX_HOSTS, MAX_METHODS, MAX_RECORDED_BODY, MAX_UPGRADES};
use crate::concurrency::{Importance, importance};
use crate::condition::{
    CertificateMatch, HeaderMatch, QueryMatch, certificate_matches, header_matches, query_matches,
};
use crate::diagnostic::Diagnostic;
use crate::error_pages::{ErrorPages, error_pages};
use crate::files::{StaticFiles, check_files, files};
use crate::host::{HostPattern, authority, host_pattern};
use crate::limits::{Limits, RouteLimitFields};
use crate::listener_set::{ListenerSet, listener_set};
use crate::location::Span;
use crate::look_alikes::Paths;
use crate::method::served_method;
use crate::mirror::{Mirror, mirrors};
use crate::node::Node;
use crate::path::{
    PATH, PREFIX, PathEnd, PathPattern, parse_path, parse_prefix, parse_replacement,
};
use crate::policy::{Policies, PolicyKind, Uses, kinds, uses};
use crate::quantity::{ByteSize, Cap, Percent};
use crate::read::{At, Read, Reading, at, default, optional};
use crate::readers::{boolean, one_or_list, percent, size, text, whole, words_or};
use crate::respond::{Redirect, RedirectFields, Respond, redirect, respond};
use crate::retries::{Retries, retries};
use crate::route::{Action, Proxy, Rewrite, Route, SendHost};
use crate::section::{exclude, has_unknown_keys, section, section_of};
use crate::share::{Share, shares};
use crate::template::{TemplateText, Variables, path_template};
use crate::timeouts::{RouteTimeoutFields, RouteTimeouts, Timeouts};
use crate::token::{Name, Token, name, token};
use crate::upstream_id::UpstreamId;
use std::sync::Arc;
use std::time::Duration;
use titan_http::Method;

section! {
    "route", "a route", Any;
    /// Which requests it matches (`host`, `path` or `prefix`, `methods`, `headers`, `query`, `client_certificate`,
    /// `listeners`: all that are given must match), and how it responds (exactly one of `upstream`, `redirect`, `respond` and `files`).
    pub(crate) struct RouteFields {
        /// Its name in metrics and `titan explain`; unique. Digits follow a default name that would not be.
        pub(crate) name: Option<At<Name>> = optional("what it matches, such as `api.v1` for `prefix: /api/v1`", at(name())),
        /// The hosts it matches: exact ones, or `*.` and a suffix, for one or more labels: `*.example.com` matches
        /// `a.b.example.com` but not `example.com`. Case and port do not matter.
        pub(crate) host: Option<Vec<HostPattern>> =
            optional("any host", one_or_list(host_pattern(), 1..=MAX_HOSTS)),
        /// The exact paths it matches; `{name}` stands for one segment, `{*name}` at the end for the rest, which may be
        /// empty. Paths are compared in normal form: dot segments resolved, `//` merged. `\*` is a literal `*`, and
        /// `\:` a literal `:` at the start of a segment; unescaped they are errors, because they are patterns in other
        /// proxies.
        pub(crate) path: Option<PathPattern> = optional("any path", text(PATH, parse_path)),
        /// The path prefix it matches: this path and everything below it, `/api` and `/api/users` but not `/apis`. Not
        /// together with `path`.
        pub(crate) prefix: Option<PathPattern> = optional("any path", text(PREFIX, parse_prefix)),
        /// The methods it matches. GET includes HEAD, unless a route with the same host and path lists HEAD, or `head` is
        /// `false`.
        pub(crate) methods: Option<Vec<Method>> =
            optional("any method", one_or_list(served_method(), 1..=MAX_METHODS)),
        /// Whether GET in `methods` includes HEAD.
        pub(crate) head: bool = default("true", boolean()),
        /// Conditions on header fields; all must hold.
        pub(crate) headers: Vec<HeaderMatch> = default("{}", header_matches()),
        /// Conditions on query parameters; all must hold.
        pub(crate) query: Vec<QueryMatch> = default("{}", query_matches()),
        /// Conditions on the certificate that the client presented at a listener with `tls.client_certificates`;
        /// `present` matches any certificate, `absent` clients without one.
        pub(crate) client_certificate: Option<Vec<CertificateMatch>> =
            optional("any client", certificate_matches()),
        /// The listeners whose requests it matches, by their names, or by an address as `listeners` has it. A listener for the
        /// machine's own network and one for the internet can have different routes. Counts as one condition.
        pub(crate) listeners: Option<ListenerSet> = optional("any listener", listener_set()),
        /// Decides between routes with the same host and path; the higher is tried first.
        pub(crate) priority: i32 = default("0", whole(-1_000_000..=1_000_000)),
        /// How much its requests matter when not all can be served: `critical` ones come before all others, and `sheddable`
        /// ones are refused first (503, `overloaded`), by the limits of upstreams (`upstreams.*.concurrency`) and under
        /// pressure on the gateway itself.
        pub(crate) importance: Importance = default("default", importance()),
        /// The share of its requests that is traced, in place of `tracing.share`: `0%` for health checks, `100%` for what matters.
        pub(crate) trace_share: Option<Percent> = optional("`tracing.share`", percent(0..=100)),
        /// How many bytes of the request body and of the response body the recorder keeps, from the beginning; `0B`: none.
        /// **Secrets in them are not masked**: whoever may read the recorder (`rights: read`) sees passwords in forms and tokens
        /// in responses. They are shown for one request alone, by its id, and are never in access logs, traces or taps.
        /// A request body is kept as its client sends it, a response body before the gateway compresses it; of tunnels nothing
        /// is kept. Each request costs that much memory twice until its end, and each record of `recorder.memory`. Responses
        /// go through the gateway's memory, although the kernel could move large ones.
        pub(crate) record_bodies: ByteSize = default("0B", size(0..=MAX_RECORDED_BODY)),
        /// The upstream that serves it, or several with their shares of the requests: `{ stable: 9, canary: 1 }`.
        pub(crate) upstream: Option<Vec<Share>> = optional("", shares()),
        /// Redirects the client.
        pub(crate) redirect: Option<RedirectFields> = optional("", redirect()),
        /// Responds from the configuration.
        pub(crate) respond: Option<Respond> = optional("", respond()),
        /// Serves files from a directory.
        pub(crate) files: Option<StaticFiles> = optional("", files()),
        /// How the path changes on its way to the upstream. The query stays.
        pub(crate) rewrite: Option<RewriteFields> =
            optional("the path stays unchanged", section_of::<RewriteFields>()),
        /// The Host that the upstream gets: `preserve` the client's, `endpoint` the endpoint's name or address, or the
        /// one given.
        pub(crate) send_host: SendHost = default("preserve", send_host()),
        /// What happens after an attempt that has failed; a plain number is that of further attempts.
        pub(crate) retries: Box<Retries> = default("1", retries().map(Box::new)),
        /// The protocols that a client may switch to with `Upgrade`, or with extended CONNECT in HTTP/2; a request for
        /// any other is treated as if it did not ask to switch. `[]`: none.
        pub(crate) upgrades: Option<Vec<Token>> =
            optional("`[websocket]`", one_or_list(token(), 0..=MAX_UPGRADES)),
        /// The policies that apply to its requests, by name. Each replaces the one of the same type that the file
        /// applies.
        pub(crate) apply: Vec<At<String>> = default("[]", uses()),
        /// The types of policies that the file applies and this route does not.
        pub(crate) without: Vec<PolicyKind> = default("[]", kinds()),
        /// Whether gRPC-Web calls, binary or text, are translated to gRPC for the upstream, and its responses back.
        pub(crate) grpc_web: bool = default("false", boolean()),
        /// Sends copies of its requests to another upstream, or to several: each of these draws its share by itself. One of them
        /// may `compare`.
        pub(crate) mirror: Option<Vec<Mirror>> = optional("nothing is copied", mirrors()),
        /// Pages in place of problem documents; they come before those of the file. `files.error_pages` come before
        /// both.
        pub(crate) error_pages: ErrorPages = default("{}", error_pages()),
        /// What happens to paths that some upstreams treat as equal to others, in place of the file's settings.
        pub(crate) paths: Paths = default("{}", section_of::<Paths>()),
        /// Timeouts in place of the global ones.
        pub(crate) timeouts: RouteTimeoutFields = default("{}", section_of::<RouteTimeoutFields>()),
        /// Limits in place of the global ones.
        pub(crate) limits: RouteLimitFields = default("{}", section_of::<RouteLimitFields>()),
    }
}

section! {
    "rewrite", "a rewrite", One;
    /// How the path changes on its way to the upstream.
    pub(crate) struct RewriteFields {
        /// Replaces the route's `prefix`; `/` only removes it.
        pub(crate) prefix: Option<String> = optional("", text(PREFIX, parse_replacement)),
        /// Replaces the whole path; `{name}` is what the route's `path` captured.
        pub(crate) path: Option<TemplateText> = optional("", path_template()),
    }
}

/// A route that has been read by itself, with the places that are compared with those of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteDraft {
    pub(crate) name: Option<At<Name>>,
    /// Whether its default name says all that it matches, since another route would have the short one as well.
    pub(crate) has_namesake: bool,
    pub(crate) hosts: Vec<HostPattern>,
    pub(crate) path: PathPattern,
    pub(crate) methods: Vec<Method>,
    pub(crate) head: bool,
    pub(crate) headers: Vec<HeaderMatch>,
    pub(crate) query: Vec<QueryMatch>,
    pub(crate) certificate: Vec<CertificateMatch>,
    pub(crate) listeners: ListenerSet,
    pub(crate) priority: i32,
    pub(crate) importance: Importance,
    pub(crate) trace_share: Option<Percent>,
    pub(crate) record_bodies: ByteSize,
    pub(crate) uses: Uses,
    pub(crate) error_pages: ErrorPages,
    pub(crate) paths: Paths,
    pub(crate) action: ActionDraft,
    /// Where the route starts.
    pub(crate) span: Span,
    /// What shows the route best: its path, or else where it starts.
    pub(crate) place: Span,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ActionDraft {
    Proxy(ProxyDraft),
    Redirect(Redirect),
    Respond(Respond),
    Files(StaticFiles),
}

/// A proxy action whose timeouts and limits are not merged with the global ones yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyDraft {
    shares: Vec<Share>,
    rewrite: Option<Rewrite>,
    send_host: SendHost,
    retries: Box<Retries>,
    upgrades: Option<Vec<Token>>,
    grpc_web: bool,
    mirrors: Box<[At<Mirror>]>,
    timeouts: RouteTimeoutFields,
    limits: RouteLimitFields,
}

pub(crate) fn route() -> impl Read<Value = RouteDraft> {
    section_of::<RouteFields>().then(draft)
}

fn draft(fields: RouteFields, node: &Node, to: &mut Reading<'_>) -> Option<RouteDraft> {
    let RouteFields {
        name,
        host,
        path,
        prefix,
        methods,
        head,
        headers,
        query,
        client_certificate,
        listeners,
        priority,
        importance,
        trace_share,
        record_bodies,
        upstream,
        redirect,
        respond,
        files,
        rewrite,
        send_host,
        retries,
        upgrades,
        apply: names,
        without,
        grpc_web,
        mirror,
        error_pages,
        paths,
        timeouts,
        limits,
    } = fields;
    check_keys(node, to)?;
    let path = path.or(prefix).unwrap_or(PathPattern::EVERY);
    let params: Vec<&str> = path.params().collect();
    let action = if let Some(shares) = upstream {
        let rewrite = match rewrite {
            Some(fields) => Some(resolve_rewrite(fields, &path, &params, node, to)?),
            None => None,
        };
        let mirrors = check_mirrors(mirror.unwrap_or_default(), &shares, node, to)?;
        ActionDraft::Proxy(ProxyDraft {
            shares,
            rewrite,
            send_host,
            retries,
            upgrades,
            grpc_web,
            mirrors,
            timeouts,
            limits,
        })
    } else if let Some(RedirectFields { to: location, status }) = redirect {
        let prefix = (path.end == PathEnd::Prefix).then_some(path.segments.len());
        let location = location.resolve(&params, Variables::OfRequest(prefix), to)?;
        ActionDraft::Redirect(Redirect { to: location, status })
    } else if let Some(files) = files {
        ActionDraft::Files(check_files(files, &path, node, to)?)
    } else {
        let respond = respond?;
        check_template(&respond, &params, node, to)?;
        ActionDraft::Respond(respond)
    };
    let place = ["path", "prefix"].into_iter().find_map(|key| node.entry(key));
    Some(RouteDraft {
        name,
        has_namesake: false,
        hosts: host.unwrap_or_default(),
        methods: methods.unwrap_or_default(),
        head,
        headers,
        query,
        certificate: client_certificate.unwrap_or_default(),
        listeners: listeners.unwrap_or(ListenerSet::ALL),
        priority,
        importance,
        trace_share,
        record_bodies,
        uses: Uses { names, without },
        error_pages,
        paths,
        action,
        span: node.span,
        place: place
            .map_or(node.span, |entry| Span { end: entry.value.span.end, ..entry.key_span }),
        path,
    })
}

const ACTIONS: [&str; 4] = ["upstream", "redirect", "respond", "files"];
/// The keys that only routes with an upstream have.
pub(crate) const FOR_PROXY: [&str; 8] =
    ["rewrite", "send_host", "retries", "upgrades", "grpc_web", "mirror", "timeouts", "limits"];

/// Checks which keys stand together. What a slip in a key has caused is not reported again.
fn check_keys(node: &Node, to: &mut Reading<'_>) -> Option<()> {
    let given = |keys: &[&str]| -> Vec<_> {
        node.entries().iter().filter(|entry| keys.contains(&entry.key.as_str())).collect()
    };
    if let [first, second, ..] = given(&["path", "prefix"]).as_slice() {
        exclude(first, second, to);
        return None;
    }
    let action = match given(&ACTIONS).as_slice() {
        [] if has_unknown_keys::<RouteFields>(node) => return Some(()),
        [] => {
            let error = Diagnostic::error(node.span, "this route has no action");
            return to
                .fail(error.label("expected one of `upstream`, `redirect`, `respond` or `files`"));
        }
        [action] => *action,
        [first, second, ..] => {
            exclude(first, second, to);
            return None;
        }
    };
    if action.key == "upstream" {
        return Some(());
    }
    for entry in given(&FOR_PROXY) {
        let message = format!("`{}` has no effect on a route with `{}`", entry.key, action.key);
        let error = Diagnostic::error(entry.key_span, message)
            .label("this key is only for routes with `upstream`");
        to.add(error.also(action.key_span, "this route does not have one"));
    }
    Some(())
}

/// Whether the path has what the template of a body names of it.
fn check_template(
    respond: &Respond,
    params: &[&str],
    node: &Node,
    to: &mut Reading<'_>,
) -> Option<()> {
    let mut named = respond.template.iter().flat_map(|template| template.text.params());
    let Some(unknown) = named.find(|name| !params.contains(name)) else { return Some(()) };
    let span = node.entry("respond").map_or(node.span, |entry| entry.value.key_span("template"));
    let error = Diagnostic::error(span, format!("there is no variable `{{{unknown}}}`"));
    to.fail(error.label("the path of this route has no such parameter"))
}

/// Whether all copies go to upstreams that do not have the requests anyway, and no response is to be compared twice.
fn check_mirrors(
    mirrors: Vec<Mirror>,
    shares: &[Share],
    node: &Node,
    to: &mut Reading<'_>,
) -> Option<Box<[At<Mirror>]>> {
    let mut checked: Vec<At<Mirror>> = Vec::new();
    for (at, mirror) in mirrors.into_iter().enumerate() {
        let span = mirror_span(node, at);
        let twice = "it would get each of them twice";
        if shares.iter().any(|share| share.upstream == mirror.upstream) {
            let error = Diagnostic::error(span, "this route mirrors requests to its own upstream");
            let error =
                error.label(twice).also(node.key_span("upstream"), "the requests go there already");
            return to
                .fail(error.help("name another upstream, or define one with other endpoints"));
        }
        if let Some(same) = checked.iter().find(|it| it.value.upstream == mirror.upstream) {
            let error = Diagnostic::error(span, "two mirrors of this route have the same upstream");
            let error = error.label(twice).also(same.span, "copies go there already");
            return to.fail(error.help("remove one of them"));
        }
        let compares = |it: &&At<Mirror>| it.value.compare.is_some() && mirror.compare.is_some();
        if let Some(other) = checked.iter().find(compares) {
            let error = Diagnostic::error(span, "two mirrors of this route compare responses");
            let error = error.also(other.span, "this one does already");
            return to.fail(error.help("remove `compare` from one of them"));
        }
        checked.push(At { value: mirror, span });
    }
    Some(checked.into())
}

/// Where the upstream of the mirror at that place is named.
fn mirror_span(node: &Node, at: usize) -> Span {
    let Some(entry) = node.entry("mirror") else { return node.span };
    entry.value.items().get(at).unwrap_or(&entry.value).key_span("upstream")
}

fn resolve_rewrite(
    fields: RewriteFields,
    path: &PathPattern,
    params: &[&str],
    node: &Node,
    to: &mut Reading<'_>,
) -> Option<Rewrite> {
    let RewriteFields { prefix, path: template } = fields;
    if let Some(template) = template {
        return template.resolve(params, Variables::None, to).map(Rewrite::Path);
    }
    let prefix = prefix?;
    if path.end == PathEnd::Prefix {
        return Some(Rewrite::Prefix(prefix));
    }
    let span = node.entry("rewrite").map_or(node.span, |entry| entry.value.key_span("prefix"));
    let error = Diagnostic::error(span, "there is no prefix to rewrite");
    let error = error.label("this replaces the route's `prefix`");
    let error = error.also(node.key_span("path"), "this route has a `path`");
    to.fail(error.help("use `rewrite: { path: ... }`, or give the route a `prefix`"))
}

impl RouteDraft {
    /// Whether it gives requests to an upstream, or serves files.
    pub(crate) fn serves_content(&self) -> bool {
        matches!(self.action, ActionDraft::Proxy(_) | ActionDraft::Files(_))
    }

    /// Whether its response always says that the request is wrong.
    pub(crate) fn refuses_all(&self) -> bool {
        matches!(&self.action, ActionDraft::Respond(respond) if respond.status.code() / 100 == 4)
    }

    /// Whether its own response uses claims of tokens.
    pub(crate) fn needs_token(&self) -> bool {
        let ActionDraft::Respond(respond) = &self.action else { return false };
        respond.template.as_ref().is_some_and(|template| template.text.needs_token())
    }

    /// Whether the route itself makes another path for its upstream.
    pub(crate) fn rewrites(&self) -> bool {
        matches!(&self.action, ActionDraft::Proxy(ProxyDraft { rewrite: Some(_), .. }))
    }

    pub(crate) fn finish(
        self,
        policies: Policies,
        (paths, timeouts, limits): (&Paths, &Timeouts, &Limits),
        common: &mut Common,
    ) -> Route {
        let name = self.name();
        let RouteDraft {
            hosts,
            path,
            methods,
            head,
            headers,
            query,
            certificate,
            listeners,
            priority,
            importance,
            trace_share,
            record_bodies,
            error_pages,
            paths: own_paths,
            action,
            span,
            ..
        } = self;
        let action = match action {
            ActionDraft::Proxy(proxy) => {
                Action::Proxy(Arc::new(proxy.finish(timeouts, limits, common)))
            }
            ActionDraft::Redirect(redirect) => Action::Redirect(redirect),
            ActionDraft::Respond(respond) => Action::Respond(Arc::new(respond)),
            ActionDraft::Files(files) => Action::Files(Box::new(files)),
        };
        let location = span.start;
        Route {
            name,
            hosts,
            path,
            methods,
            head,
            headers,
            query,
            certificate,
            listeners,
            priority,
            importance,
            trace_share,
            record_bodies,
            policies,
            error_pages,
            paths: own_paths.over(paths),
            action,
            location,
        }
    }
}

/// What routes ask of their upstreams.
impl RouteDraft {
    fn proxy(&self) -> Option<&ProxyDraft> {
        match &self.action {
            ActionDraft::Proxy(proxy) => Some(proxy),
            ActionDraft::Redirect(_) | ActionDraft::Respond(_) | ActionDraft::Files(_) => None,
        }
    }

    pub(crate) fn upstreams(&self) -> impl Iterator<Item = UpstreamId> {
        self.proxy().into_iter().flat_map(|proxy| &proxy.shares).map(|share| share.upstream)
    }

    /// Where copies of its requests go, and where that is said.
    pub(crate) fn mirrors(&self) -> impl Iterator<Item = (&Mirror, Span)> {
        let mirrors = self.proxy().into_iter().flat_map(|proxy| &proxy.mirrors);
        mirrors.map(|mirror| (&mirror.value, mirror.span))
    }

    /// The largest body that it has held, if it says so itself.
    pub(crate) fn retry_body(&self) -> Option<&At<Option<ByteSize>>> {
        self.proxy()?.limits.retry_body.as_ref()
    }

    /// Whether an upstream gets any of its requests more than once.
    pub(crate) fn retries(&self) -> bool {
        self.proxy().is_some_and(|proxy| proxy.retries.attempts > 0)
    }

    /// How long one attempt may take, and all of them, if both are limited.
    pub(crate) fn per_try_and_total(&self, global: Cap<Duration>) -> Option<(Duration, Duration)> {
        let ProxyDraft { retries, timeouts, .. } = self.proxy()?;
        let total = timeouts.total.unwrap_or(global).at_most();
        retries.per_try_timeout.zip(total)
    }

    pub(crate) fn translates_grpc_web(&self) -> bool {
        self.proxy().is_some_and(|proxy| proxy.grpc_web)
    }

    /// Whether the file says itself that there are tunnels.
    pub(crate) fn names_upgrades(&self) -> bool {
        let named = self.proxy().and_then(|proxy| proxy.upgrades.as_ref());
        named.is_some_and(|upgrades| !upgrades.is_empty())
    }
}

impl ProxyDraft {
    fn finish(self, global: &Timeouts, limits: &Limits, common: &mut Common) -> Proxy {
        let ProxyDraft {
            shares,
            rewrite,
            send_host,
            retries,
            upgrades,
            grpc_web,
            mirrors,
            timeouts,
            limits: RouteLimitFields { body, retry_body },
        } = self;
        let upgrades = upgrades.unwrap_or_else(|| vec![Token::websocket()]);
        let upgrades = shared(upgrades.into(), &mut common.upgrades);
        let timeouts = shared(timeouts.over(global).into(), &mut common.timeouts);
        let retries = shared(Arc::from(retries), &mut common.retries);
        let body_limit = body.unwrap_or(limits.body);
        let retry_body = retry_body.map_or(limits.retry_body, |it| it.value);
        Proxy {
            shares,
            rewrite,
            send_host,
            retries,
            timeouts,
            body_limit,
            retry_body,
            upgrades,
            grpc_web,
            mirrors: mirrors.into_iter().map(|mirror| mirror.value).collect(),
        }
    }
}

/// What is read once and in memory for most routes: those that follow each other seldom differ in it.
#[derive(Default)]
pub(crate) struct Common {
    retries: Option<Arc<Retries>>,
    timeouts: Option<Arc<RouteTimeouts>>,
    upgrades: Option<Arc<[Token]>>,
}

/// The last one, if it is the same.
fn shared<T: PartialEq + ?Sized>(own: Arc<T>, last: &mut Option<Arc<T>>) -> Arc<T> {
    match last {
        Some(last) if *last == own => Arc::clone(last),
        _ => Arc::clone(last.insert(own)),
    }
}

fn send_host() -> impl Read<Value = SendHost> {
    let words = [("preserve", SendHost::Preserve), ("endpoint", SendHost::Endpoint)];
    words_or(&words, authority().map(SendHost::Fixed))
}
