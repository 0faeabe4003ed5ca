//! A real gateway on loopback between scripted peers: bytes in, bytes out.
//!
//! ```
//! use titan_testkit::{gateway, upstream};
//!
//! let upstream = upstream::listens();
//! let gateway = gateway("forwarding: { respond_with_id: false }", &[&upstream]);
//! let mut client = gateway.connects();
//! client.sends("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
//! let mut endpoint = upstream.accepts();
//! assert_eq!(endpoint.request().target, "/a");
//! endpoint.sends("HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n");
//! client.expects("HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n");
//! client.expects_nothing_more();
//! ```
//!
//! Nothing here sleeps: everything waits for an event, for [`DEADLINE`] at most, and a wait that times out fails the
//! test and shows what had arrived. Every port is one that the kernel chose.

mod certificate;

mod authority;

mod deadline;

mod message;

mod gate;

mod stream;

mod peer;

pub mod h2;

mod gateway;

pub mod upstream;

pub mod bad_network;

pub use authority::{Authority, Owner, authority};
pub use certificate::{Certificate, certificate, scheme, usual, usual_client};
pub use deadline::{DEADLINE, waits_until};
pub use gate::Gate;
pub use gateway::{Gateway, gateway, start, start_revocable, start_with};
pub use message::{Message, Request, Response};
pub use peer::{End, Peer};
pub use upstream::{Listening, Upstream};
