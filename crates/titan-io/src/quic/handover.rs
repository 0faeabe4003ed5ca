//! From one endpoint of a listener to another: datagrams that have come to the wrong one.

use bytes::BytesMut;
use quinn_proto::EcnCodepoint;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// The endpoints at one address, each at its place: datagrams that come to the wrong one are handed over.
#[derive(Default)]
pub struct Handover(Mutex<HashMap<usize, mpsc::Sender<Foreign>>>);

/// What is told of a datagram beside its bytes: where it comes from, where it was sent to, and whether there is congestion on the way.
pub(super) type Way = (SocketAddr, Option<IpAddr>, Option<EcnCodepoint>);

/// A datagram that has come to another endpoint than the one that it is for.
pub(super) struct Foreign {
    pub(super) way: Way,
    pub(super) bytes: BytesMut,
}

/// Datagrams that may wait for an endpoint: beyond that they are lost, as any may be.
const WAITING: usize = 1024;
/// How many of them an endpoint takes, before those of its own socket have their turn.
pub(super) const AT_ONCE: usize = 64;
/// The last place: a connection id has one byte for it.
const LAST: usize = 255;

impl Handover {
    /// Takes a place, which nobody else has until what comes with it is dropped: there the endpoint finds what has come to others. Those
    /// beyond all places share the last one, where the newest gets everything.
    pub(super) fn join(&self) -> (usize, mpsc::Receiver<Foreign>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let mut endpoints = self.endpoints();
        let is_free = |place: &usize| endpoints.get(place).is_none_or(mpsc::Sender::is_closed);
        let place = (0..LAST).find(is_free).unwrap_or(LAST);
        endpoints.insert(place, sender);
        (place, receiver)
    }

    /// A datagram for the endpoint at that place, where it is lost if that one has too many. Given back where there is none.
    pub(super) fn pass(&self, place: usize, datagram: Foreign) -> Option<Foreign> {
        let endpoints = self.endpoints();
        let Some(endpoint) = endpoints.get(&place) else { return Some(datagram) };
        match endpoint.try_send(datagram) {
            Err(TrySendError::Closed(datagram)) => Some(datagram),
            Ok(()) | Err(TrySendError::Full(_)) => None,
        }
    }

    fn endpoints(&self) -> MutexGuard<'_, HashMap<usize, mpsc::Sender<Foreign>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn what_looks_like_an_endpoints_is_given_back_where_there_is_none() {
        let handover = Handover::default();
        let datagram = || {
            let way = ((Ipv4Addr::LOCALHOST, 1).into(), None, None);
            Foreign { way, bytes: BytesMut::from(&b"any"[..]) }
        };
        let (place, mut received) = handover.join();
        assert!(handover.pass(place, datagram()).is_none());
        assert_eq!(received.try_recv().unwrap().bytes, b"any"[..]);
        assert!(handover.pass(7, datagram()).is_some(), "there was never one");
        drop(received);
        assert!(handover.pass(place, datagram()).is_some(), "it is no more");
    }

    #[test]
    fn no_two_have_the_same_place_at_the_same_time() {
        let handover = Handover::default();
        let [first, second, third] = [(); 3].map(|()| handover.join());
        assert_eq!([first.0, second.0, third.0], [0, 1, 2]);
        drop(second);
        assert_eq!(handover.join().0, 1, "its endpoint is gone");
        let mut all: Vec<_> = (0..300).map(|_| handover.join()).collect();
        assert_eq!(all.pop().map(|it| it.0), Some(LAST));
    }
}
