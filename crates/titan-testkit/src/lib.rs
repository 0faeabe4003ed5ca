//! A real gateway on loopback between scripted peers: bytes in, bytes out.
//!
//! ```
//! use titan_testkit::{gateway, upstream};
//!
//! let upstream = upstream::listens();
//! let gateway = gateway("limits: { fields: 20 }", &[&upstream]);
//! let mut client = gateway.connects();
//! client.sends("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
//! let mut endpoint = upstream.accepts();
//! assert_eq!(endpoint.request().target, "/a");
//! endpoint.sends("HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n");
//! client.expects("HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n");
//! client.expects_nothing_more();
//! ```
//!
//! Nothing here sleeps: everything waits for an event, for [`DEADLINE`] at most, and a wait that ends in
//! vain fails the test with what had come. Every port is one that the kernel chose.

mod authority;
mod certificate;
mod gate;
mod gateway;
pub mod h2;
mod message;
mod peer;
mod stream;
pub mod upstream;

pub use authority::{Authority, Owner, authority};
pub use certificate::{Certificate, certificate, scheme, usual};
pub use gate::Gate;
pub use gateway::{Gateway, gateway, start, start_revocable, start_with};
pub use message::{Message, Request, Response};
pub use peer::{End, Peer};
pub use upstream::{Listening, Upstream};

use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits for anything.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// Waits until something has become so that no event tells of: a figure, say.
#[track_caller]
pub fn waits_until(what: &str, mut is_so: impl FnMut() -> bool) {
    const MOMENT: Duration = Duration::from_millis(1);
    let until = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        thread::park_timeout(MOMENT);
    }
}

/// Bytes as a message shows them: escaped, and cut where they are many.
fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 800;
    let cut = &bytes[..bytes.len().min(MOST)];
    let more = bytes.len() - cut.len();
    let tail = if more > 0 { format!("... and {more} bytes more") } else { String::new() };
    format!("\"{}\"{tail}", cut.escape_ascii())
}
