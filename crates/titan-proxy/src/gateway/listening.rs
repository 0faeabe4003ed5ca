//! Where a gateway listens, and what a configuration changes of it.

use super::error::LoadError;
use super::inherited::Inherited;
use super::status::CertificateStatus;
use crate::listener::{Listener, ListenerState};
use crate::listener_id::ListenerId;
use crate::socket::{
    BoundSocket, SmallBuffer, SocketFile, UDP_BUFFER, bind, bind_udp, share_again, share_out,
};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use titan_config::{Config, ListenAddress};
use titan_io::tls::Validity;

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

/// Everything that a gateway listens at, in the order of the file; the sides of a listener one after the other.
#[derive(Default)]
pub(super) struct Listening(Vec<Place>);

struct Place {
    /// Which side of which listener it is.
    id: ListenerId,
    bound: Bound,
    /// How many sockets all workers have there.
    sockets: usize,
    /// Of a Unix socket that is the gateway's own.
    file: Option<SocketFile>,
    /// Of UDP sockets, where the kernel grants less than was asked for.
    small: Vec<SmallBuffer>,
    state: Arc<ListenerState>,
}

/// UDP sockets of a listener with smaller buffers than were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmallBuffers {
    /// The name of the listener.
    pub listener: String,
    /// What is wrong, and what to do about it.
    pub what: String,
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
    /// The files of those.
    pub(super) unused: Vec<SocketFile>,
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
        let opened = std::iter::repeat_with(Vec::new).take(workers).collect();
        let mut opening = Opening { before: self, inherited, opened };
        let mut places = Vec::with_capacity(config.listeners.len());
        let mut added = Vec::new();
        for (index, (listener, state)) in config.listeners.iter().zip(states).enumerate() {
            let failed = move |is_udp| {
                move |error| LoadError::Bind {
                    address: text_of(&listener.address),
                    is_udp,
                    file: config.file_names.of(listener.location).to_owned(),
                    error,
                }
            };
            let mut port = opening.port(&state.id);
            let stream = listener.has_streams().then(|| opening.stream(listener, state, port));
            let stream = stream.transpose().map_err(failed(false))?;
            if let Some(place) = &stream {
                port = place.bound.socket_address;
            }
            let udp = listener.protocols.h3.then(|| opening.udp(listener, state, port));
            let udp = udp.transpose().map_err(failed(true))?;
            let is_new = self.find_side(&state.id).is_none();
            let first = stream.as_ref().or(udp.as_ref()).filter(|_| is_new);
            added.extend(first.map(|place| (index, place.bound.clone())));
            places.extend(stream.into_iter().chain(udp));
        }
        let opened = opening.opened;
        let listening = Listening(places);
        let gone = self.0.iter().filter(|place| listening.find(&place.id).is_none());
        let unused = gone.clone().filter_map(|place| place.file.clone()).collect();
        let closed = gone.map(|place| place.id.clone()).collect();
        Ok(Rebound { listening, opened, added, closed, unused })
    }

    /// The certificates that clients may see.
    pub(super) fn certificates(&self) -> Vec<CertificateStatus> {
        let tls =
            self.states().filter_map(|(name, state)| Some((name, state.listener_policy.tls()?)));
        let all = tls.flat_map(|(name, tls)| {
            let of = |validity: &Validity| CertificateStatus {
                listener: name.to_owned(),
                validity: validity.clone(),
            };
            tls.validity().iter().map(of).collect::<Vec<_>>()
        });
        all.collect()
    }

    /// Where clients can connect.
    pub(super) fn bound(&self) -> Vec<Bound> {
        self.firsts().map(|place| place.bound.clone()).collect()
    }

    /// Its listeners, each with its name.
    pub(super) fn states(&self) -> impl Iterator<Item = (&str, &Arc<ListenerState>)> {
        self.firsts().map(|place| (place.bound.name.as_str(), &place.state))
    }

    /// What it is bound to, with one side of each listener.
    fn firsts(&self) -> impl Iterator<Item = &Place> {
        self.0.chunk_by(|one, next| Arc::ptr_eq(&one.state, &next.state)).map(|sides| &sides[0])
    }

    /// The sides of its listeners, each with the file that is its own.
    pub(super) fn files(
        &self,
    ) -> impl Iterator<Item = (&ListenerId, &Arc<ListenerState>, Option<&SocketFile>)> {
        self.0.iter().map(|place| (&place.id, &place.state, place.file.as_ref()))
    }

    /// Leaves those that are taken to another process, with their files. Which ones that are.
    pub(super) fn leave(&mut self, is_taken: impl Fn(&ListenerId) -> bool) -> Vec<ListenerId> {
        let taken = self.0.iter_mut().filter(|place| is_taken(&place.id));
        let left = taken.map(|place| {
            place.file = None;
            place.id.clone()
        });
        left.collect()
    }

    /// Removes the files of its Unix sockets: nobody is to connect any more.
    pub(super) fn remove_files(&mut self) {
        let files = self.0.iter_mut().filter_map(|place| place.file.take());
        files.for_each(|file| file.remove());
    }

    /// Those of its UDP sockets that have small buffers.
    pub(super) fn small_buffers(&self) -> Vec<SmallBuffers> {
        self.0.iter().filter_map(Place::small_buffers).collect()
    }

    /// How many sockets all workers have.
    pub(super) fn sockets(&self) -> usize {
        self.0.iter().map(|place| place.sockets).sum()
    }

    fn find(&self, id: &ListenerId) -> Option<&Place> {
        self.0.iter().find(|place| place.id == *id)
    }

    /// A side of a listener.
    fn find_side(&self, id: &ListenerId) -> Option<&Place> {
        id.sides().iter().find_map(|id| self.find(id))
    }
}

impl Place {
    fn new(
        id: ListenerId,
        bound: Bound,
        sockets: usize,
        (file, small): (Option<SocketFile>, Vec<SmallBuffer>),
        state: &Arc<ListenerState>,
    ) -> Place {
        Place { id, bound, sockets, file, small, state: Arc::clone(state) }
    }

    /// The same under what may be another name.
    fn renamed(&self, name: &str, state: &Arc<ListenerState>) -> Place {
        let bound = Bound { name: name.to_owned(), ..self.bound.clone() };
        let kept = (self.file.clone(), self.small.clone());
        Place::new(self.id.clone(), bound, self.sockets, kept, state)
    }

    fn small_buffers(&self) -> Option<SmallBuffers> {
        let granted = |it: &SmallBuffer| format!("{} bytes ({})", it.granted, it.setting);
        let granted: Vec<_> = self.small.iter().map(granted).collect();
        let what = format!(
            "the kernel grants buffers of UDP sockets {} where {UDP_BUFFER} were asked for, and more datagrams are lost: \
             raise that with sysctl, and restart the gateway",
            granted.join(" and ")
        );
        let listener = self.bound.name.clone();
        (!granted.is_empty()).then_some(SmallBuffers { listener, what })
    }
}

/// Opens the sides of listeners that are not open yet.
struct Opening<'o> {
    before: &'o Listening,
    inherited: &'o mut Inherited,
    /// What each worker accepts at from now on besides.
    opened: Vec<Vec<Listener>>,
}

impl Opening<'_> {
    /// Where a side of a listener is bound already.
    fn port(&self, id: &ListenerId) -> Option<SocketAddr> {
        let inherited = || id.sides().iter().find_map(|id| self.inherited.address(id));
        let before = self.before.find_side(id).and_then(|place| place.bound.socket_address);
        before.or_else(inherited)
    }

    /// Where connections of TCP or of a Unix socket come in: at that port, where the listener has one already.
    fn stream(
        &mut self,
        listener: &titan_config::Listener,
        state: &Arc<ListenerState>,
        port: Option<SocketAddr>,
    ) -> io::Result<Place> {
        if let Some(place) = self.before.find(&state.id) {
            return Ok(place.renamed(&listener.name, state));
        }
        let workers = self.opened.len();
        let address = at_port(&listener.address, port);
        let (shares, file) = listen(&address, &state.id, workers, self.inherited)?;
        Ok(self.open(state.id.clone(), shares, (file, Vec::new()), (listener, state)))
    }

    /// Where QUIC comes in, in the same way.
    fn udp(
        &mut self,
        listener: &titan_config::Listener,
        state: &Arc<ListenerState>,
        port: Option<SocketAddr>,
    ) -> io::Result<Place> {
        let id = state.id.udp();
        if let Some(place) = self.before.find(&id) {
            return Ok(place.renamed(&listener.name, state));
        }
        let workers = self.opened.len();
        let shares = match self.inherited.take_sockets(&id)? {
            Some(sockets) => {
                state.udp.succeed(self.inherited.take_ways(&id));
                share_out(sockets, workers)?
            }
            None => bind_quic(&at_port(&listener.address, port), state, workers)?,
        };
        let small = shares[0][0].small_buffers();
        Ok(self.open(id, shares, (None, small), (listener, state)))
    }

    /// Gives the sockets to the workers.
    fn open(
        &mut self,
        id: ListenerId,
        shares: Vec<Vec<BoundSocket>>,
        rest: (Option<SocketFile>, Vec<SmallBuffer>),
        (listener, state): (&titan_config::Listener, &Arc<ListenerState>),
    ) -> Place {
        let bound = Bound::new(listener, &shares[0][0]);
        let count = shares.iter().map(Vec::len).sum();
        for (worker, sockets) in self.opened.iter_mut().zip(shares) {
            let listeners = sockets.into_iter().map(|socket| Listener {
                id: id.clone(),
                socket,
                state: Arc::clone(state),
            });
            worker.extend(listeners);
        }
        Place::new(id, bound, count, rest, state)
    }
}

/// Binds the sockets of a listener, unless they are inherited. With them, by worker, the file of a Unix socket.
fn listen(
    address: &ListenAddress,
    id: &ListenerId,
    workers: usize,
    inherited: &mut Inherited,
) -> io::Result<(Vec<Vec<BoundSocket>>, Option<SocketFile>)> {
    let path = match address {
        ListenAddress::Unix(path) => Some(path),
        ListenAddress::Tcp(_) | ListenAddress::Any(_) => None,
    };
    if let Some(sockets) = inherited.take_sockets(id)? {
        let known = path.zip(inherited.file(id));
        let file = known.map(|(path, file)| SocketFile::known(path, file));
        return Ok((share_out(sockets, workers)?, file));
    }
    let sockets = bind(address, workers)?;
    Ok((alone(sockets), path.and_then(|path| SocketFile::at(path).ok())))
}

impl Bound {
    fn new(listener: &titan_config::Listener, socket: &BoundSocket) -> Bound {
        let socket_address = socket.address();
        let address = socket_address
            .map_or_else(|| text_of(&listener.address), |address| address.to_string());
        Bound { name: listener.name.clone(), address, socket_address }
    }
}

/// The UDP sockets of a listener. Those that it had before are used again while they have connections.
fn bind_quic(
    address: &ListenAddress,
    state: &ListenerState,
    workers: usize,
) -> io::Result<Vec<Vec<BoundSocket>>> {
    let left = state.udp.sockets()?;
    if !left.is_empty() {
        return share_again(left, workers);
    }
    Ok(alone(bind_udp(address, workers)?))
}

/// The address with the port of `bound`, which the kernel has chosen where the configuration says 0.
fn at_port(address: &ListenAddress, bound: Option<SocketAddr>) -> ListenAddress {
    match (address, bound) {
        (ListenAddress::Tcp(address), Some(bound)) => {
            let mut address = *address;
            address.set_port(bound.port());
            ListenAddress::Tcp(address)
        }
        (ListenAddress::Any(_), Some(bound)) => ListenAddress::Any(bound.port()),
        _ => address.clone(),
    }
}

fn alone(sockets: Vec<BoundSocket>) -> Vec<Vec<BoundSocket>> {
    sockets.into_iter().map(|socket| vec![socket]).collect()
}

fn text_of(address: &ListenAddress) -> String {
    match address {
        ListenAddress::Tcp(address) => address.to_string(),
        ListenAddress::Any(port) => format!(":{port}"),
        ListenAddress::Unix(path) => format!("unix:{}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::PreparedListener;
    use titan_io::registry::Registry;

    #[test]
    fn small_buffers_are_told_of_with_what_to_set() {
        let text =
            "{ listeners: [{ name: web, address: '127.0.0.1:1' }], routes: [{ respond: 204 }] }";
        let config = Config::parse("test", text).unwrap();
        let (listener, id) = (&config.listeners[0], ListenerId::all(&config.listeners).remove(0));
        let (files, registry) = (crate::Files::default(), Registry::default());
        let prepared = PreparedListener::new(listener, id.clone(), &files, &registry).unwrap();
        let told = |small: Vec<SmallBuffer>| {
            let bound =
                Bound { name: "web".to_owned(), address: String::new(), socket_address: None };
            let place = Place::new(id.udp(), bound, 1, (None, small), prepared.state());
            Listening(vec![place]).small_buffers()
        };
        assert_eq!(told(Vec::new()), []);
        let small = SmallBuffer { setting: "net.core.rmem_max", granted: 212_992 };
        let told = told(vec![small]).remove(0);
        assert_eq!(told.listener, "web");
        let what = "the kernel grants buffers of UDP sockets 212992 bytes (net.core.rmem_max) where 4194304 were asked for";
        assert!(told.what.starts_with(what), "{}", told.what);
    }
}
