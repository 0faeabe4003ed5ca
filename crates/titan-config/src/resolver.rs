//! The resolver: how endpoints' names are resolved.

use crate::address::server_address;
use crate::bounds::MAX_NAMESERVERS;
use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::quantity::display_duration;
use crate::read::{Read, Reading, default, optional};
use crate::readers::{duration, one_or_list};
use crate::section::{section, section_of};
use crate::timeouts::{DAY, timeout};
use std::net::SocketAddr;
use std::time::Duration;

section! {
    "resolver", "the resolver", Any;
    /// How names of endpoints are resolved to addresses. A name is resolved again when its TTL has passed; until a
    /// name server answers, its last addresses stay in use.
    pub struct Resolver {
        /// The name servers to ask.
        pub nameservers: Option<Vec<SocketAddr>> =
            optional("the system's name servers", one_or_list(server_address(), 1..=MAX_NAMESERVERS)),
        /// An answer is kept at least this long, even if its TTL is shorter.
        pub min_ttl: Duration = default("1s", duration(Duration::from_millis(100)..=DAY)),
        /// An answer is kept at most this long. Not below `min_ttl`.
        pub max_ttl: Duration = default("5m", duration(Duration::from_millis(100)..=DAY)),
        /// How long a name server may take to answer. The start waits this long for the addresses of all names
        /// together.
        pub timeout: Duration = default("5s", timeout()),
    }
}

pub(crate) fn resolver() -> impl Read<Value = Resolver> {
    section_of::<Resolver>().then(check)
}

fn check(resolver: Resolver, node: &Node, to: &mut Reading<'_>) -> Option<Resolver> {
    if resolver.min_ttl <= resolver.max_ttl {
        return Some(resolver);
    }
    let at = if node.entry("min_ttl").is_some() { "min_ttl" } else { "max_ttl" };
    let error = Diagnostic::error(node.key_span(at), "`min_ttl` is longer than `max_ttl`");
    let [min, max] = [resolver.min_ttl, resolver.max_ttl].map(display_duration);
    let error = error.label(format!("`min_ttl` is {min}, `max_ttl` is {max}"));
    to.fail(match node.entry("max_ttl") {
        Some(entry) if at == "min_ttl" => error.also(entry.key_span, "`max_ttl` is set here"),
        _ => error,
    })
}
