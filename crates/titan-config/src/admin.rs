//! The admin interface: where it listens, and who may do what there.

use crate::address::{ListenAddress, admin_address, listen_address, parse_socket_path};
use crate::bounds::{MAX_ADMIN_TOKENS, MAX_SOCKET_PATH, MAX_TRACE_URL};
use crate::diagnostic::Diagnostic;
use crate::location::{Location, Span};
use crate::node::Node;
use crate::policy::{KeyHash, key_hash};
use crate::problem::Problem;
use crate::read::{At, Read, Reading, at, default, optional, required};
use crate::readers::{Named, boolean, mapping, short_for, text, whole, word_or, words, words_or};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::tls::{CertificateMode, Tls, tls};
use crate::token::{NAME, Name, parse_name};
use std::path::{Path, PathBuf};

/// The admin interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Where it listens.
    pub address: ListenAddress,
    /// Where it listens for calls that change something, beside [`Admin::address`].
    pub socket: AdminSocket,
    /// Where health, readiness and metrics are served as well, and nothing else.
    pub probes: Option<ListenAddress>,
    /// Who may do more than look at health and metrics over TCP.
    pub tokens: Vec<AdminToken>,
    /// How TLS is spoken at [`Admin::address`]; `None` without TLS.
    pub tls: Option<Tls>,
    /// How many series `/metrics` may have.
    pub metrics_series: u32,
    /// Whether there is a page for browsers, which may sign in then.
    pub dashboard: bool,
    /// Where traces are shown, with `{trace_id}` in place of one's id.
    pub trace_url: Option<String>,
    /// Where the file says so; `None` for the default.
    pub location: Option<Location>,
}

/// A Unix socket for calls that change something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminSocket {
    /// One in the directory that the system has for such, if there is one.
    Auto,
    /// None.
    Off,
    /// One with that absolute path.
    At(PathBuf),
}

/// A token that callers present, by its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminToken {
    /// Unique.
    pub name: Name,
    /// What is left of it here.
    pub sha256: KeyHash,
    /// What it allows.
    pub rights: AdminRights,
}

/// What a caller of the admin interface may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdminRights {
    /// Read what there is.
    Read,
    /// Change it, too.
    Full,
}

section! {
    "admin", "the admin interface", Any;
    /// Health, readiness, metrics, the configuration in force and calls that change it, on threads of their own. Over
    /// `socket`, and over `address` if that is a Unix socket, root and the user of the process may call everything. Over
    /// TCP, health and metrics need no authentication; everything else needs a token (`tokens`), and calls that change
    /// something a token with full rights. A plain string sets `address` alone.
    pub(crate) struct AdminFields {
        /// Where it listens, written like the address of a listener. It closes when a drain begins, so that a successor
        /// can start. A Unix socket has mode 0600.
        pub(crate) address: At<ListenAddress> = default("127.0.0.1:8484", at(admin_address())),
        /// A Unix socket for calls that change something, with mode 0600: `titan reload` and the like use it, and need
        /// no token there. `auto` is `admin.sock` in the directory that systemd has made (`$RUNTIME_DIRECTORY`), else
        /// in `/run/titan` for root, else in `$XDG_RUNTIME_DIR/titan`; there is none if another process uses that, or
        /// if `address` is a Unix socket itself. A path that is written here has to be free.
        pub(crate) socket: At<AdminSocket> = default("auto", at(admin_socket())),
        /// Another address that serves `/healthz`, `/readyz` and `/metrics` only: for clients on other machines, such
        /// as kubelet and Prometheus. It stays open until the drain has ended. Anyone who can reach it learns the names
        /// of routes and upstreams and the addresses of endpoints.
        pub(crate) probes: Option<At<ListenAddress>> =
            optional("`address` serves them", at(listen_address())),
        /// Who may call what over TCP, by name: callers send `Authorization: Bearer TOKEN`. Only hashes are written
        /// here. If other machines can reach `address`, tokens need `tls`.
        pub(crate) tokens: Vec<Named<Name, AdminTokenFields>> = default(
            "{}",
            mapping(NAME, parse_name, token(), 0..=MAX_ADMIN_TOKENS),
        ),
        /// Serves TLS (HTTPS) at `address`, as a listener does, but without resumption and `hsts`.
        pub(crate) tls: At<Option<Tls>> = default("off", at(tls())),
        /// How many series `/metrics` may have: some 57 for each route, 70 for each upstream and 8 for each endpoint. Beyond that,
        /// those that come last in the file are added up under the name `(other)`, as many of each kind as necessary, and
        /// `titan_metrics_folded` says how many. What belongs to the gateway as a whole, some 30 for each worker and 200
        /// more, is always there. A series costs some 100 bytes of each scrape, and more in Prometheus.
        pub(crate) metrics_series: u32 = default("50000", whole(1_000..=5_000_000)),
        /// Serves a page for browsers at `/dashboard/`: figures, upstreams, requests and the configuration. Anybody may load it, and
        /// sees nothing before signing in with a token of `tokens`, whose rights hold there too. `false` also ends the sessions that
        /// were begun.
        pub(crate) dashboard: bool = default("true", boolean()),
        /// Where traces are shown: an `http` or `https` URL with `{trace_id}` in it, such as
        /// `https://jaeger.example/trace/{trace_id}`. The dashboard makes a link of it where a request has a trace.
        pub(crate) trace_url: Option<String> = optional("no links", trace_url()),
    }
}

section! {
    "admin_token", "an admin token", Any;
    /// A token for the admin interface. Make a long and random one, such as that of
    /// `openssl rand -hex 32 | tee token | tr -d '\n' | sha256sum`. A plain string sets `sha256` alone.
    pub(crate) struct AdminTokenFields {
        /// The SHA-256 of the token, in hexadecimal. To replace a token, list the old and the new one under different
        /// names for a while.
        pub(crate) sha256: KeyHash = required(key_hash()),
        /// What it allows: `read` is the configuration in force, its history and revoked tokens; `full` is everything.
        pub(crate) rights: AdminRights = default("read", words(&[
            ("read", AdminRights::Read),
            ("full", AdminRights::Full),
        ])),
    }
}

/// The admin interface as the file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdminDraft {
    Off,
    On(Box<AdminFields>),
}

impl Admin {
    /// The files that it names.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.tls.iter().flat_map(Tls::files)
    }
}

impl AdminFields {
    /// What it comes to.
    pub(crate) fn finish(self) -> Admin {
        let AdminFields {
            address: At { value: address, span },
            socket,
            probes,
            tokens,
            tls,
            metrics_series,
            dashboard,
            trace_url,
        } = self;
        let token = |Named { key: name, key_span: _, value }: Named<Name, AdminTokenFields>| {
            let AdminTokenFields { sha256, rights } = value;
            AdminToken { name, sha256, rights }
        };
        Admin {
            address,
            socket: socket.value,
            probes: probes.map(|probes| probes.value),
            tokens: tokens.into_iter().map(token).collect(),
            location: span.location().or(tls.span.location()),
            tls: tls.value,
            metrics_series,
            dashboard,
            trace_url,
        }
    }

    /// Its sockets, with their places.
    pub(crate) fn sockets(&self) -> Vec<(ListenAddress, Span)> {
        let given = [Some(&self.address), self.probes.as_ref()].into_iter().flatten();
        let given = given.map(|At { value, span }| (value.clone(), *span));
        let socket = match &self.socket {
            At { value: AdminSocket::At(path), span } => {
                Some((ListenAddress::Unix(path.clone()), *span))
            }
            At { value: AdminSocket::Auto | AdminSocket::Off, .. } => None,
        };
        given.chain(socket).collect()
    }
}

pub(crate) fn admin() -> impl Read<Value = AdminDraft> {
    let on = short_for("address", section_of::<AdminFields>().then(check_tokens));
    word_or("off", AdminDraft::Off, on.map(|fields| AdminDraft::On(Box::new(fields))))
}

fn token() -> impl Read<Value = AdminTokenFields> {
    short_for("sha256", section_of::<AdminTokenFields>())
}

/// A URL of a site, with the place for the id of a trace.
fn trace_url() -> impl Read<Value = String> {
    const PLACE: &str = "{trace_id}";
    const URL: TextShape = TextShape {
        what: "a URL with `{trace_id}`",
        examples: "`https://jaeger.example/trace/{trace_id}`",
        pattern: Some("^https?://"),
        max: MAX_TRACE_URL,
    };
    text(URL, |text| {
        let is_of_site = ["https://", "http://"].iter().any(|scheme| text.starts_with(scheme));
        if !is_of_site || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(Problem::new("this is no `http` or `https` URL"));
        }
        match text.matches(PLACE).count() {
            1 => Ok(text.to_owned()),
            _ => Err(Problem::new("`{trace_id}` has to be in it, once")),
        }
    })
}

fn admin_socket() -> impl Read<Value = AdminSocket> {
    const SOCKET: TextShape = TextShape {
        what: "the path of a Unix socket",
        examples: "`/run/titan/shop.sock`",
        pattern: Some("^/"),
        max: MAX_SOCKET_PATH,
    };
    let path = text(SOCKET, |text| match text.strip_prefix("unix:") {
        Some(path) => {
            let problem = Problem::new("this is always a Unix socket");
            Err(problem.help(format!("write the path alone: `{path}`")))
        }
        None if !text.starts_with('/') => Err(Problem::new("the path must start with `/`")),
        None => parse_socket_path(text).map(AdminSocket::At),
    });
    words_or(&[("auto", AdminSocket::Auto), ("off", AdminSocket::Off)], path)
}

/// Refuses tokens that are none, and those that would be of no use or cross a network where others can read them.
fn check_tokens(fields: AdminFields, node: &Node, to: &mut Reading<'_>) -> Option<AdminFields> {
    let AdminFields { address, tokens, tls, .. } = &fields;
    let is_unix = matches!(address.value, ListenAddress::Unix(_));
    if let (true, Some(tls)) = (is_unix, tls.value.as_ref().map(|_| tls)) {
        let error = Diagnostic::error(tls.span, "`tls` has no effect at a Unix socket");
        return to.fail(error.help("remove it, or let `address` be a TCP address"));
    }
    if tls.value.as_ref().is_some_and(|tls| tls.hsts.is_some()) {
        let error = Diagnostic::error(tls.span, "`hsts` has no effect at the admin interface");
        return to
            .fail(error.help("remove it: browsers would ask every port of this host for TLS"));
    }
    let clients = tls.value.as_ref().and_then(|tls| tls.client_certificates.as_ref());
    if clients.is_some_and(|it| it.mode == CertificateMode::IgnoreInvalid) {
        let error =
            Diagnostic::error(tls.span, "`ignore_invalid` protects nothing at the admin interface");
        let error = error.label("nothing there judges certificates but the handshake");
        return to
            .fail(error.help("set `mode` of `client_certificates` to `required` or `optional`"));
    }
    for (place, Named { key, key_span, value }) in tokens.iter().enumerate() {
        let first = tokens[..place].iter().find(|it| it.value.sha256 == value.sha256);
        let message = match first {
            _ if value.sha256.is_of_nothing() => format!("`{key}` is the hash of an empty token"),
            Some(_) => format!("`{key}` has the hash of another token"),
            None => continue,
        };
        let error = Diagnostic::error(*key_span, message);
        let error = error.label("expected a different hash for each token");
        let also = |error: Diagnostic, it: &Named<_, _>| {
            error.also(it.key_span, "the other token is here")
        };
        return to.fail(first.into_iter().fold(error, also));
    }
    if tokens.is_empty() {
        return Some(fields);
    }
    let span = node.key_span("tokens");
    if is_unix {
        let error = Diagnostic::error(span, "`tokens` have no effect at a Unix socket");
        return to.fail(
            error.help("remove them: root and the user of the process may call everything there"),
        );
    }
    if address.value.is_public() && tls.value.is_none() {
        let error = Diagnostic::error(span, "these tokens could be read on the network");
        let error = error.label("callers would send them without encryption");
        let error = error.also(address.span, "other machines can reach this address");
        return to.fail(error.help("set `tls`, or let `address` be a loopback address"));
    }
    Some(fields)
}

/// Warns of an interface that anybody can reach.
pub(crate) fn check_admin(admin: Option<&AdminDraft>, to: &mut Reading<'_>) {
    let Some(AdminDraft::On(fields)) = admin else { return };
    let AdminFields { address, tokens, tls, .. } = &**fields;
    let is_meant = tls.value.is_some() && !tokens.is_empty();
    if address.value.is_public() && !is_meant {
        let message = "the admin interface can be reached from other machines";
        let warning = Diagnostic::warning(address.span, message);
        let warning = warning.label("anyone there can read health and metrics");
        to.add(warning.help(
            "use a loopback address such as `127.0.0.1:8484`, or a Unix socket; `probes` serves \
                health checks from other machines; for calls from them, set `tls` and `tokens`",
        ));
    }
}
