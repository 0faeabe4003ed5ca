//! Where a gateway listens, and what a configuration changes of it.

use super::error::LoadError;
use super::inherited::Inherited;
use crate::listener::{Listener, ListenerId, ListenerState};
use crate::socket::{ListenSocket, bind, share_out};
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
    /// How many sockets all workers have there.
    sockets: usize,
    state: Arc<ListenerState>,
}

/// Where another configuration has it listen, and how it gets there.
pub(super) struct Rebound {
    pub(super) listening: Listening,
    /// What each worker accepts at from now on besides.
    pub(super) opened: Vec<Vec<Listener>>,
    /// Which listeners of the configuration that is, and where they are bound.
    pub(super) added: Vec<(usize, Bound)>,
    /// What it accepts at no longer.
    pub(super) closed: Vec<ListenerId>,
}

impl Listening {
    /// Binds what is neither bound nor inherited yet, for so many workers. What stays keeps its sockets, with all that waits in them.
    pub(super) fn rebind<'s>(
        &self,
        config: &Config,
        states: impl Iterator<Item = &'s Arc<ListenerState>>,
        workers: usize,
        inherited: &mut Inherited,
    ) -> Result<Rebound, LoadError> {
        let mut opened: Vec<Vec<Listener>> =
            std::iter::repeat_with(Vec::new).take(workers).collect();
        let mut places = Vec::with_capacity(config.listeners.len());
        let mut added = Vec::new();
        for (index, (listener, state)) in config.listeners.iter().zip(states).enumerate() {
            let name = listener.name.clone();
            let (bound, sockets) = match self.find(&state.id) {
                Some(place) => (Bound { name, ..place.bound.clone() }, place.sockets),
                None => {
                    let failed =
                        |error| LoadError::Bind { address: text_of(&listener.address), error };
                    let shares = match inherited.take_sockets(&state.id).map_err(failed)? {
                        Some(sockets) => share_out(sockets, workers),
                        None => bind(&listener.address, workers).map(alone),
                    };
                    let shares = shares.map_err(failed)?;
                    let bound = Bound::new(listener, &shares[0][0]);
                    added.push((index, bound.clone()));
                    let count = shares.iter().map(Vec::len).sum();
                    for (worker, sockets) in opened.iter_mut().zip(shares) {
                        let listeners = sockets
                            .into_iter()
                            .map(|socket| Listener { socket, state: Arc::clone(state) });
                        worker.extend(listeners);
                    }
                    (bound, count)
                }
            };
            places.push(Place { bound, sockets, state: Arc::clone(state) });
        }
        let listening = Listening(places);
        let gone = self.0.iter().filter(|place| listening.find(&place.state.id).is_none());
        let closed = gone.map(|place| place.state.id.clone()).collect();
        Ok(Rebound { listening, opened, added, closed })
    }

    /// Where clients can connect.
    pub(super) fn bound(&self) -> Vec<Bound> {
        self.0.iter().map(|place| place.bound.clone()).collect()
    }

    /// Its listeners, each with its name.
    pub(super) fn states(&self) -> impl Iterator<Item = (&str, &Arc<ListenerState>)> {
        self.0.iter().map(|place| (place.bound.name.as_str(), &place.state))
    }

    /// How many sockets all workers have.
    pub(super) fn sockets(&self) -> usize {
        self.0.iter().map(|place| place.sockets).sum()
    }

    fn find(&self, id: &ListenerId) -> Option<&Place> {
        self.0.iter().find(|place| place.state.id == *id)
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

fn alone(sockets: Vec<ListenSocket>) -> Vec<Vec<ListenSocket>> {
    sockets.into_iter().map(|socket| vec![socket]).collect()
}

fn text_of(address: &ListenAddress) -> String {
    match address {
        ListenAddress::Tcp(address) => address.to_string(),
        ListenAddress::Any(port) => format!(":{port}"),
        ListenAddress::Unix(path) => format!("unix:{}", path.display()),
    }
}
