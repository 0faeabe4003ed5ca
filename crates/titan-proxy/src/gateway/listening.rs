//! Where a gateway listens, and what a configuration changes of it.

use super::error::LoadError;
use crate::listener::{ListenSocket, Listener, ListenerId, ListenerState, bind};
use std::net::SocketAddr;
use std::sync::Arc;
use titan_config::{Config, ListenAddress};

/// A listener that is bound.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Its name in the configuration.
    pub name: String,
    /// Its address; with the port that the kernel chose where the configuration says 0.
    pub address: String,
    /// The same for TCP.
    pub socket_address: Option<SocketAddr>,
}

/// Everything that a gateway listens at, in the order of the file.
#[derive(Default)]
pub(super) struct Listening(Vec<Place>);

struct Place {
    bound: Bound,
    state: Arc<ListenerState>,
}

/// Where another configuration has it listen, and how it gets there.
pub(super) struct Rebound {
    pub(super) listening: Listening,
    /// What each worker accepts at from now on besides.
    pub(super) opened: Vec<Vec<Listener>>,
    /// What it accepts at no longer.
    pub(super) closed: Vec<ListenerId>,
}

impl Listening {
    /// Binds what is not bound yet, for so many workers. What stays keeps its sockets, with all that waits in them.
    pub(super) fn rebind<'s>(
        &self,
        config: &Config,
        states: impl Iterator<Item = &'s Arc<ListenerState>>,
        workers: usize,
    ) -> Result<Rebound, LoadError> {
        let mut opened: Vec<Vec<Listener>> =
            std::iter::repeat_with(Vec::new).take(workers).collect();
        let mut places = Vec::with_capacity(config.listeners.len());
        for (listener, state) in config.listeners.iter().zip(states) {
            let name = listener.name.clone();
            let bound = match self.find(&state.id) {
                Some(bound) => Bound { name, ..bound.clone() },
                None => {
                    let failed =
                        |error| LoadError::Bind { address: text_of(&listener.address), error };
                    let sockets = bind(&listener.address, workers).map_err(failed)?;
                    let bound = Bound::new(listener, &sockets[0]);
                    for (worker, socket) in opened.iter_mut().zip(sockets) {
                        worker.push(Listener { socket, state: Arc::clone(state) });
                    }
                    bound
                }
            };
            places.push(Place { bound, state: Arc::clone(state) });
        }
        let listening = Listening(places);
        let gone = self.0.iter().filter(|place| listening.find(&place.state.id).is_none());
        let closed = gone.map(|place| place.state.id.clone()).collect();
        Ok(Rebound { listening, opened, closed })
    }

    /// Where clients can connect.
    pub(super) fn bound(&self) -> Vec<Bound> {
        self.0.iter().map(|place| place.bound.clone()).collect()
    }

    /// Its listeners, each with its name.
    pub(super) fn states(&self) -> impl Iterator<Item = (&str, &Arc<ListenerState>)> {
        self.0.iter().map(|place| (place.bound.name.as_str(), &place.state))
    }

    fn find(&self, id: &ListenerId) -> Option<&Bound> {
        self.0.iter().find(|place| place.state.id == *id).map(|place| &place.bound)
    }
}

impl Bound {
    fn new(listener: &titan_config::Listener, socket: &ListenSocket) -> Bound {
        let socket_address = match socket {
            ListenSocket::Tcp(socket) => socket.local_addr().ok(),
            ListenSocket::Unix(_) => None,
        };
        let address = socket_address
            .map_or_else(|| text_of(&listener.address), |address| address.to_string());
        Bound { name: listener.name.clone(), address, socket_address }
    }
}

fn text_of(address: &ListenAddress) -> String {
    match address {
        ListenAddress::Tcp(address) => address.to_string(),
        ListenAddress::Any(port) => format!(":{port}"),
        ListenAddress::Unix(path) => format!("unix:{}", path.display()),
    }
}
