//! The TLS routes of a listener: which connections go to an upstream without HTTP.

use crate::route::Split;
use std::collections::HashMap;
use std::sync::Arc;
use titan_config::{HostPattern, Listener, TlsMode};
use titan_io::counter::{Counted, Counter};
use titan_io::registry::Registry;

/// Those of one listener, by the names that clients ask for.
pub(crate) struct TlsRoutes {
    /// `None` for names that are HTTPS, which others of these routes would take.
    routes: Box<[Option<Arc<TlsRoute>>]>,
    /// The place of the route for that name alone.
    exact: HashMap<Box<str>, usize>,
    /// The place of the route for all names that end so; each begins with a dot.
    under: HashMap<Box<str>, usize>,
    /// The place of the route for whatever no other one takes.
    others: Option<usize>,
}

/// One of them.
pub(crate) struct TlsRoute {
    /// Who speaks TLS with its clients; not [`TlsMode::Https`].
    pub(crate) mode: TlsMode,
    pub(crate) split: Split,
    /// What is counted for it.
    pub(crate) counted: Arc<Counted<TlsRouteCells>>,
    /// Which one it is.
    pub(crate) id: TlsRouteName,
}

impl TlsRoute {
    /// Which one it is, and what is counted for it.
    pub(crate) fn status(&self) -> TlsRouteStatus {
        TlsRouteStatus { name: self.id.clone(), counted: Arc::clone(&self.counted) }
    }
}

/// What a TLS route is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsRouteName {
    /// The name of its listener.
    pub listener: String,
    /// Its first name there, or `*`.
    pub route: String,
}

/// A TLS route, and what is counted for it.
#[derive(Clone)]
pub struct TlsRouteStatus {
    /// Which one it is.
    pub name: TlsRouteName,
    /// What is counted.
    pub counted: Arc<Counted<TlsRouteCells>>,
}

/// What is counted for a TLS route.
#[derive(Default)]
pub struct TlsRouteCells {
    /// Connections that it has taken.
    pub opened: Counter,
    /// Those of them that are over.
    pub closed: Counter,
    /// Bytes from clients to endpoints: encrypted ones where they pass through, otherwise what was decrypted.
    pub received: Counter,
    /// The same from endpoints to clients.
    pub sent: Counter,
    /// Connections that did not end in good order.
    pub failures: [Counter; TlsFailure::ALL.len()],
}

/// Why a connection of a TLS route did not end in good order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFailure {
    /// No endpoint has accepted a connection.
    Connect,
    /// The endpoint has broken it off.
    Endpoint,
    /// The client has.
    Client,
    /// Nothing has moved for too long.
    Idle,
}

impl TlsFailure {
    /// All of them.
    pub const ALL: [TlsFailure; 4] =
        [TlsFailure::Connect, TlsFailure::Endpoint, TlsFailure::Client, TlsFailure::Idle];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            TlsFailure::Connect => "connect",
            TlsFailure::Endpoint => "endpoint",
            TlsFailure::Client => "client",
            TlsFailure::Idle => "idle",
        }
    }
}

impl TlsRouteCells {
    /// Counts a connection that did not end in good order.
    pub(crate) fn note_failure(&self, failure: TlsFailure) {
        self.failures[failure as usize].add(1);
    }

    /// Connections that are open.
    pub fn open(&self) -> u64 {
        // Closed first: one that comes and goes meanwhile must not make more closed than opened.
        let closed = self.closed.get();
        self.opened.get().saturating_sub(closed)
    }
}

impl TlsRoutes {
    /// Those of `listener`, if it has any. What they count goes on from what was counted for the same ones before.
    pub(crate) fn of(
        listener: &Listener,
        (registry, workers): (&Registry, usize),
    ) -> Option<Arc<TlsRoutes>> {
        let routes = &listener.tls_routes;
        if routes.is_empty() {
            return None;
        }
        let (mut exact, mut under) = (HashMap::new(), HashMap::new());
        for (place, name) in routes
            .iter()
            .enumerate()
            .flat_map(|(place, it)| it.names.iter().map(move |it| (place, it)))
        {
            match name {
                HostPattern::Exact(name) => exact.insert(name.as_str().into(), place),
                HostPattern::Under(suffix) => under.insert(suffix.as_str().into(), place),
            };
        }
        let others = routes.iter().position(|route| route.names.is_empty());
        let route = |route: &titan_config::TlsRoute| {
            let mode = route.mode;
            if mode == TlsMode::Https {
                return None;
            }
            let id = TlsRouteName { listener: listener.name.clone(), route: route.name() };
            let counted = Counted::of(registry, &format!("{} {}", id.route, id.listener), workers);
            let split = Split::new(&route.shares);
            Some(Arc::new(TlsRoute { mode, split, counted, id }))
        };
        Some(Arc::new(TlsRoutes {
            routes: routes.iter().map(route).collect(),
            exact,
            under,
            others,
        }))
    }

    /// The route for clients that ask for that name, in lower case and without a final dot: the one for that name alone, or else for
    /// the longest end of it. None where there is none, or what they speak is HTTPS.
    pub(crate) fn find(&self, name: Option<&str>) -> Option<&Arc<TlsRoute>> {
        let named = name.and_then(|name| self.exact.get(name).or_else(|| self.find_under(name)));
        named.copied().or(self.others).and_then(|place| self.routes[place].as_ref())
    }

    /// The route for all connections, where nothing of them is read.
    pub(crate) fn tcp(&self) -> Option<&Arc<TlsRoute>> {
        self.find(None).filter(|route| route.mode == TlsMode::Tcp)
    }

    /// What is counted for each, in the order of the file.
    pub(crate) fn status(&self) -> impl Iterator<Item = TlsRouteStatus> {
        self.routes.iter().flatten().map(|route| route.status())
    }

    fn find_under(&self, name: &str) -> Option<&usize> {
        let mut ends = name.match_indices('.').filter(|(at, _)| *at > 0);
        ends.find_map(|(at, _)| self.under.get(&name[at..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_name_decides() {
        let text = "listeners: [{ address: ':1', tls_routes: [\
            { names: '*.example.com', mode: passthrough, upstream: u },\
            { names: [a.example.com, '*.b.example.com'], mode: passthrough, upstream: u },\
            { names: w.example.com, mode: https },\
            { mode: passthrough, upstream: u }],\
            tls: { certificates: { cert: a, key: b } } }]\nroutes: [{ respond: 204 }]\nupstreams: { u: 'u:1' }";
        let config = titan_config::Config::parse("test", text).unwrap();
        let routes = TlsRoutes::of(&config.listeners[0], (&Registry::default(), 1)).unwrap();
        let found = |name| routes.find(name).unwrap().id.route.clone();
        for (name, expected) in [
            ("a.example.com", "a.example.com"),
            ("c.example.com", "*.example.com"),
            ("c.a.example.com", "*.example.com"),
            ("c.b.example.com", "a.example.com"),
            ("d.c.b.example.com", "a.example.com"),
            ("b.example.com", "*.example.com"),
            ("example.com", "*"),
            (".example.com", "*"),
            ("example.org", "*"),
            ("", "*"),
        ] {
            assert_eq!(found(Some(name)), expected, "{name}");
        }
        assert_eq!(found(None), "*");
        assert!(routes.find(Some("w.example.com")).is_none(), "it is HTTPS");
        assert_eq!(found(Some("x.w.example.com")), "*.example.com");
    }
}
