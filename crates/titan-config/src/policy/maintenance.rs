//! Routes that are closed for maintenance.

use super::section::PolicySection;
use crate::bounds::MAX_NETWORKS;
use crate::cidr::{Cidr, cidr};
use crate::problem::Problem;
use crate::read::{Read, default, optional};
use crate::readers::{boolean, duration, one_or_list, text};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use std::time::Duration;

section! {
    "maintenance", "a maintenance policy", Any;
    /// Closes routes for a while: their requests get 503 with the code `maintenance`, gRPC calls UNAVAILABLE. Rate limits
    /// and credentials are not checked, and no upstream is called. Clients that do not prefer JSON get the page of
    /// `error_pages` for 503 in place of the message, if there is one.
    pub struct Maintenance {
        /// Whether the routes are closed. With `false` the policy does nothing, so it can stay in the file until it is needed.
        pub enabled: bool = default("true", boolean()),
        /// The message for clients, in one line of up to 1024 bytes: the `detail` of the problem document (RFC 9457), or
        /// the message of the gRPC status.
        pub message: Option<Box<str>> =
            optional("\"This service is down for maintenance.\"", message()),
        /// The networks of clients that are served as usual, by the address behind all trusted proxies: for operators who
        /// test before the routes open again. Behind a proxy that is not in `forwarding.trusted_proxies` every client has
        /// the proxy's address. Clients without an address, those of Unix sockets, are never among them.
        pub allow: Vec<Cidr> = default("[]", one_or_list(cidr(), 0..=MAX_NETWORKS)),
        /// How long clients should wait before they try again: `Retry-After` (RFC 9110 section 10.2.3), rounded up to
        /// seconds.
        pub retry_after: Option<Duration> = optional("no `Retry-After`", duration(SECOND..=MAX_WAIT)),
    }
}

impl PolicySection for Maintenance {}

const MAX_MESSAGE: usize = 1024;
const SECOND: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_secs(30 * 86_400);

pub(super) fn policy() -> impl Read<Value = Maintenance> {
    section_of::<Maintenance>()
}

fn message() -> impl Read<Value = Box<str>> {
    let shape = TextShape {
        what: "a line of text",
        examples: "`Back at 06:00 UTC.`",
        pattern: None,
        max: MAX_MESSAGE,
    };
    text(shape, |text| match text {
        "" => Err(Problem::new("it is empty")),
        text if text.contains(char::is_control) => {
            Err(Problem::new("it has a line break or another control character"))
        }
        text => Ok(text.into()),
    })
}
