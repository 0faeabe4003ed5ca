//! The UDP side of a listener, where the system does not do what it is asked for.

use super::drain_tests::runs;
use super::*;
use socket2::{Domain, Socket, Type};
use std::net::UdpSocket;
use std::pin::pin;
use titan_testkit::{Certificate, certificate};
use tokio::time::sleep;

const H3: &str = "protocols: [h3, h1], tls: { certificates: { cert: site.pem, key: site.key } }";

/// Time passes when nobody can go on: so a worker that does nothing else than to fail would not come to the end of this.
#[test]
fn a_socket_that_cannot_be_received_from_is_tried_again() {
    let files = certificate(&["localhost"]);
    runs((H3, H3), &Certificate::files(&[("site", &files)]), async |worker, state| {
        // One of TCP that is not connected.
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        let socket = UdpSocket::from(OwnedFd::from(socket));
        let (orders, ordered) = mpsc::channel(1);
        let serving = (state.id.clone(), Arc::clone(state));
        let mut serving = pin!(quic::serve(serving, socket, Rc::clone(worker), ordered));
        tokio::select! {
            ended = &mut serving => panic!("{ended:?}"),
            () = sleep(10 * TICK) => {}
        }
        let errors = worker.cells().quic_receive_errors.get();
        assert!((5..=11).contains(&errors), "{errors}");
        orders.send(ListenerOrder::Close(std_mpsc::sync_channel(1).0)).await.unwrap();
        assert!(serving.await.is_ok());
    });
}
