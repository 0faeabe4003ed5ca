//! Listeners: where clients connect.

use crate::address::{ListenAddress, listen_address};
use crate::bounds::MAX_NETWORKS;
use crate::cidr::{Cidr, cidr};
use crate::diagnostic::Diagnostic;
use crate::location::{Location, Span};
use crate::node::Node;
use crate::quantity::Cap;
use crate::read::{At, Read, Reading, at, default, optional, required};
use crate::readers::{boolean, cap, duration, one_or_list, short_for, switch_or, whole, words};
use crate::section::{section, section_of};
use crate::share::{Share, shares};
use crate::tls::{Tls, tls};
use crate::tls_route::{TlsMode, TlsRoute, TlsRouteDraft, tls_routes};
use crate::token::{Name, name};
use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

/// A socket that clients connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// What start and `titan check` print; the address where the file gives no name.
    pub name: String,
    /// What it is bound to.
    pub address: ListenAddress,
    /// Whose connections start with a PROXY protocol header.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// How TLS is spoken; `None` without TLS.
    pub tls: Option<Tls>,
    /// Connections that go to upstreams without HTTP; no two take the same name. With `tcp` that is one alone, which takes all.
    pub tls_routes: Vec<TlsRoute>,
    /// What is spoken.
    pub protocols: Protocols,
    /// How responses tell clients of HTTP/3; `None` where they do not, or where it is not spoken.
    pub alt_svc: Option<AltSvc>,
    /// Handshakes of QUIC under way, over all workers, above which clients have to validate their addresses.
    pub retry_above: u32,
    /// Whether requests of HTTP/3 may come before the handshake is complete.
    pub early_data: bool,
    /// The port of HTTPS that every request is sent to instead of being served.
    pub redirect_to_https: Option<NonZeroU16>,
    /// Connections open at the same moment, over all workers.
    pub max_connections: NonZeroU32,
    /// Connections open at the same moment from one client (an IPv4 address, a /64 of IPv6), over all workers.
    pub max_connections_per_client: Cap<NonZeroU32>,
    /// Where the file says so.
    pub location: Location,
}

impl Listener {
    /// Whether connections of TCP, or of a Unix socket, come in: HTTP/3 alone has none.
    pub fn has_streams(&self) -> bool {
        self.protocols.h1 || self.protocols.h2 || !self.tls_routes.is_empty()
    }

    /// Whether it speaks HTTP/3, behind what else is said of it: `, HTTP/3`.
    pub fn over_udp(&self) -> &'static str {
        match (self.protocols.h3, self.has_streams()) {
            (false, _) => "",
            (true, true) => ", HTTP/3",
            (true, false) => ", HTTP/3 alone",
        }
    }
}

/// The versions of HTTP that a listener speaks; one at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocols {
    /// HTTP/1.1, and 1.0.
    pub h1: bool,
    /// HTTP/2.
    pub h2: bool,
    /// HTTP/3, on the UDP port of the same number.
    pub h3: bool,
}

section! {
    "proxy_protocol", "PROXY protocol settings", Any;
    /// The PROXY protocol (versions 1 and 2), and the peers that must send it; no other peer may.
    pub struct ProxyProtocol {
        /// The load balancers in front. A connection from one of them is closed unless it starts with a PROXY header;
        /// from any other peer such a header is a bad request.
        pub from: Vec<Cidr> = required(one_or_list(cidr(), 1..=MAX_NETWORKS)),
    }
}

section! {
    "alt_svc", "Alt-Svc settings", Any;
    /// What responses of a listener with `h3` tell clients of HTTP/3 (RFC 7838), as `Alt-Svc: h3=":443"; ma=86400`: clients use it for
    /// requests to the same host as long as they remember that, and need no DNS record for it.
    pub struct AltSvc {
        /// How long clients remember it; `0s` has them forget it.
        pub max_age: Duration = default("24h", duration(Duration::ZERO..=MOST_ALT_SVC)),
        /// The UDP port that clients reach, where something in front of the gateway maps ports.
        pub port: Option<NonZeroU16> = optional("that of `address`", whole(1..=65_535)),
    }
}

section! {
    "listener", "a listener", Any;
    /// A socket that clients connect to. A plain string sets `address` alone.
    pub(crate) struct ListenerFields {
        /// Its name in output that lists listeners; unique.
        pub(crate) name: Option<At<Name>> = optional("the address", at(name())),
        /// Where it listens: an IP address with a port, a port on all IPv4 and IPv6 addresses (`:8080`), or a Unix
        /// socket. `[::]` is IPv6 only. Port 0 picks a free port.
        pub(crate) address: At<ListenAddress> = required(at(listen_address())),
        /// Reads the client's address from a PROXY protocol header.
        pub(crate) proxy_protocol: Option<ProxyProtocol> =
            optional("no PROXY protocol", section_of::<ProxyProtocol>()),
        /// Serves TLS (HTTPS).
        pub(crate) tls: Option<Tls> = default("off", tls()),
        /// Sends TLS connections to upstreams as they are, by the name that the client asks for (SNI). The others are HTTPS if there is
        /// `tls`, and are closed otherwise: a listener with TLS routes serves nothing without TLS.
        pub(crate) tls_routes: Vec<TlsRouteDraft> = default("[]", tls_routes()),
        /// Sends all connections to this upstream, or to several with weights, as they come, whatever is spoken in them: nothing of TLS or
        /// HTTP is read, and a server may speak first. Only without `tls`, `tls_routes` and `redirect_to_https`; no route of the file
        /// takes anything here. What a [TLS route](#tls_route) says of upstreams holds here too, and figures and records have it as the
        /// TLS route `*` of the listener. With `tls` of the upstream the gateway encrypts.
        pub(crate) tcp: Option<At<Vec<Share>>> = optional("HTTP, or what `tls_routes` says", at(shares())),
        /// Redirects every request with 308 to the same URL under `https://`: `true` on port 443, a number on that
        /// port. Only without `tls`. A request without a host gets 400; routes are not consulted.
        pub(crate) redirect_to_https: Option<NonZeroU16> =
            default("false", switch_or(HTTPS, whole(1..=65_535))),
        /// The versions of HTTP: `h1` (HTTP/1.1), `h2` (HTTP/2) and `h3` (HTTP/3). With TLS the handshake chooses (ALPN) and prefers
        /// `h2`; without TLS, clients with prior knowledge may start with HTTP/2. An `Upgrade` to HTTP/2 is ignored. `h3` needs `tls`, and
        /// is served on the UDP port of the same number: firewalls and balancers in front have to let UDP through. With `h3` alone, and
        /// without `tls_routes`, there is no TCP port.
        pub(crate) protocols: Option<Protocols> = optional("`[h2, h1]`", protocols()),
        /// Whether responses tell clients of HTTP/3, and how: `false`, `true`, or settings. Without `h3` it means nothing.
        pub(crate) alt_svc: Option<AltSvc> =
            default("true", switch_or(ALT_SVC, section_of::<AltSvc>())),
        /// How many handshakes of HTTP/3 may be under way, over all workers, before clients have to show first that they receive what is
        /// sent to their address, which takes them a round trip (RFC 9000 section 8.1.2): packets with made-up addresses cost next to
        /// nothing then. `0` has all clients do that. Without `h3` it means nothing.
        pub(crate) retry_above: u32 = default("1024", whole(0..=MAX_CONNECTIONS)),
        /// Serves requests of HTTP/3 that clients who were here before send with their first packets (0-RTT, RFC 9001 section 4.6): they
        /// wait a round trip less. Until the handshake is complete, others can replay such a request. So only requests with a safe
        /// method, such as GET, and without a body go upstream at once, with `Early-Data: 1` (RFC 8470): an upstream that does not want
        /// to serve one twice responds with 425, and the client repeats it. All others wait for the handshake, and so do those from an
        /// address for which the client has no token of an earlier connection: it may be made up. The gateway keeps the sessions of
        /// clients of HTTP/3 itself then, up to 16,384 in some 5 MiB, and resumes each once; a restart forgets them. Only with `h3`, and
        /// without `client_certificates`.
        pub(crate) early_data: bool = default("false", boolean()),
        /// Open connections, over all workers; beyond this, new ones are closed. The last eighth is reserved for
        /// clients with few connections, so that no single client takes them all; addresses in
        /// `forwarding.trusted_proxies` are exempt from that. An idle connection costs about 1 KiB, with HTTP/2 about 5
        /// KiB, and TLS adds about 10 KiB.
        pub(crate) max_connections: NonZeroU32 = default("65536", whole(1..=MAX_CONNECTIONS)),
        /// Open connections from one client, over all workers; beyond this, new ones are closed. A client is an IPv4
        /// address, or the /64 network of an IPv6 address. With `proxy_protocol`, the address in its header counts.
        pub(crate) max_connections_per_client: Cap<NonZeroU32> =
            default("unlimited", cap(whole(1..=MAX_CONNECTIONS))),
    }
}

/// What `alt_svc: true` is.
const ALT_SVC: AltSvc = AltSvc { max_age: Duration::from_secs(24 * 3600), port: None };
const MOST_ALT_SVC: Duration = Duration::from_secs(365 * 24 * 3600);
const HTTPS: NonZeroU16 = NonZeroU16::new(443).expect("it is not 0");

const MAX_CONNECTIONS: i64 = 16 << 20;

/// A listener with the places that are compared with those of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenerDraft {
    pub(crate) listener: Listener,
    pub(crate) name_span: Span,
    pub(crate) address_span: Span,
    /// Those of [`Listener::tls_routes`].
    pub(crate) tls_routes: Vec<TlsRouteDraft>,
}

fn protocols() -> impl Read<Value = Protocols> {
    const NONE: Protocols = Protocols { h1: false, h2: false, h3: false };
    const WORDS: &[(&str, Protocols)] = &[
        ("h1", Protocols { h1: true, ..NONE }),
        ("h2", Protocols { h2: true, ..NONE }),
        ("h3", Protocols { h3: true, ..NONE }),
    ];
    let with = |a: Protocols, b: &Protocols| Protocols {
        h1: a.h1 | b.h1,
        h2: a.h2 | b.h2,
        h3: a.h3 | b.h3,
    };
    one_or_list(words(WORDS), 1..=3).map(move |protocols| protocols.iter().fold(NONE, with))
}

pub(crate) fn listener() -> impl Read<Value = ListenerDraft> {
    short_for("address", section_of::<ListenerFields>()).then(draft)
}

fn draft(fields: ListenerFields, node: &Node, to: &mut Reading<'_>) -> Option<ListenerDraft> {
    let ListenerFields {
        name,
        address: At { value: address, span: address_span },
        proxy_protocol,
        tls,
        tls_routes,
        tcp,
        protocols,
        alt_svc,
        retry_above,
        early_data,
        redirect_to_https,
        max_connections,
        max_connections_per_client,
    } = fields;
    if tls.is_some() && redirect_to_https.is_some() {
        let message = "clients of this listener already use HTTPS";
        let error = Diagnostic::error(node.key_span("redirect_to_https"), message);
        let error = error.label("remove it").also(node.key_span("tls"), "this listener speaks TLS");
        return to.fail(error.help("put it on a separate listener for HTTP"));
    }
    if !tls_routes.is_empty() && redirect_to_https.is_some() {
        let message = "this listener serves nothing without TLS";
        let error = Diagnostic::error(node.key_span("redirect_to_https"), message);
        let error = error.label("remove it").also(node.key_span("tls_routes"), "for these");
        return to.fail(error.help("put it on a separate listener for HTTP"));
    }
    check_decrypted(&tls_routes, tls.is_some(), to);
    if protocols.is_some_and(|protocols| protocols.h3)
        && let Some((why, key, help)) = no_http3(&address, tls.is_some(), proxy_protocol.is_some())
    {
        let error = Diagnostic::error(node.key_span("protocols"), why);
        let error = error.label("`h3` is HTTP/3").also(node.key_span(key), "of this listener");
        return to.fail(error.help(help));
    }
    if early_data {
        check_early_data(protocols, tls.as_ref(), node, to);
    }
    let above = [
        ("tls", tls.is_some()),
        ("tls_routes", !tls_routes.is_empty()),
        ("redirect_to_https", redirect_to_https.is_some()),
    ];
    if tcp.is_some()
        && let Some((key, _)) = above.into_iter().find(|(_, is_set)| *is_set)
    {
        let error = Diagnostic::error(node.key_span(key), "nothing of these connections is read");
        let error = error.label("remove it").also(node.key_span("tcp"), "because of this");
        return to.fail(error.help("put it on a separate listener"));
    }
    let tls_routes: Vec<_> = tls_routes.into_iter().chain(tcp.map(TlsRouteDraft::tcp)).collect();
    let name_span = name.as_ref().map_or(address_span, |name| name.span);
    let protocols = protocols.unwrap_or(Protocols { h1: true, h2: true, h3: false });
    let listener = Listener {
        name: name.map_or_else(|| address.to_string(), |name| name.value.as_str().to_owned()),
        address,
        proxy_protocol,
        tls,
        tls_routes: tls_routes.iter().map(|draft| draft.route.clone()).collect(),
        protocols,
        alt_svc: alt_svc.filter(|_| protocols.h3),
        retry_above,
        early_data,
        redirect_to_https,
        max_connections,
        max_connections_per_client,
        location: node.span.start,
    };
    Some(ListenerDraft { listener, name_span, address_span, tls_routes })
}

/// Why a listener cannot speak HTTP/3, the key that is in its way, and what to do.
fn no_http3(
    address: &ListenAddress,
    has_tls: bool,
    has_header: bool,
) -> Option<(&'static str, &'static str, &'static str)> {
    match address {
        ListenAddress::Unix(_) => Some((
            "HTTP/3 needs a UDP port",
            "address",
            "listen at an IP address, or leave `h3` out",
        )),
        _ if !has_tls => Some((
            "HTTP/3 is always encrypted (RFC 9114 section 3.1)",
            "address",
            "set `tls: { certificates: ... }` on the listener, or leave `h3` out",
        )),
        _ if has_header => Some((
            "connections of HTTP/3 carry no PROXY protocol header",
            "proxy_protocol",
            "put `h3` on a separate listener without `proxy_protocol`",
        )),
        _ => None,
    }
}

/// Early data needs QUIC, and clients that nothing is asked of.
fn check_early_data(
    protocols: Option<Protocols>,
    tls: Option<&Tls>,
    node: &Node,
    to: &mut Reading<'_>,
) {
    let span = node.key_span("early_data");
    if !protocols.is_some_and(|protocols| protocols.h3) {
        let error = Diagnostic::error(span, "early data is taken in HTTP/3 alone");
        let error = error.label("this listener does not speak HTTP/3");
        to.add(error.help("add `h3` to `protocols`, or leave `early_data` out"));
    } else if tls.is_some_and(|tls| tls.client_certificates.is_some()) {
        let error = Diagnostic::error(span, "a replay would pass for the client of a certificate");
        let error = error.label("early data can be replayed");
        let error = error.also(node.key_span("tls"), "`client_certificates` are asked for here");
        to.add(error.help(
            "put clients with certificates on a separate listener, or leave `early_data` out",
        ));
    }
}

/// What the gateway decrypts needs its certificates.
fn check_decrypted(routes: &[TlsRouteDraft], has_tls: bool, to: &mut Reading<'_>) {
    let decrypted = |draft: &&TlsRouteDraft| draft.route.mode != TlsMode::Passthrough;
    for draft in routes.iter().filter(decrypted).filter(|_| !has_tls) {
        let error = Diagnostic::error(draft.mode_span, "this listener has no certificates");
        let error = error.label("the gateway speaks TLS with these clients");
        to.add(error.help("set `tls: { certificates: ... }` on the listener"));
    }
}
