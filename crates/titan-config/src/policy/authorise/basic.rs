//! Names and passwords (RFC 7617).

use super::password::{MAX_USER, MAX_USERS, PasswordHash, User, parse_user};
use crate::diagnostic::Diagnostic;
use crate::header::identity_header;
use crate::node::Node;
use crate::policy::jwt::realm;
use crate::problem::Problem;
use crate::read::{Read, Reading, default, optional};
use crate::readers::{Named, boolean, mapping, secret};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::tls::file;
use crate::token::{HeaderName, HeaderValue};
use std::path::PathBuf;

section! {
    "basic", "Basic authentication settings", Any;
    /// A request must present a user name and its password, which browsers ask for (HTTP Basic, RFC 7617, in UTF-8).
    /// Hashes are slow on purpose: they are checked outside the workers, two at a time, while 256 more may wait, 32 of
    /// one client; further requests get 503. Each worker caches valid passwords for a minute, unless the hash changes.
    /// Without TLS, passwords can be read in transit.
    pub(crate) struct BasicFields {
        /// The password hash of each user by name: Argon2id (`$argon2id$v=19$m=19456,t=2,p=1$...`), or bcrypt
        /// (`$2b$10$...`), with which passwords have at most 72 bytes. Argon2id may use 64 MiB, and bcrypt a cost of
        /// 14.
        pub(crate) users: Vec<Named<String, PasswordHash>> =
            default("{}", mapping(USER, user, secret(HASH, hash), 0..=MAX_USERS)),
        /// A file with more users: lines of a name, a colon and a hash, as `htpasswd -B` writes them. It is read again
        /// when it changes; once it is empty, none of its users is allowed.
        pub(crate) file: Option<PathBuf> = optional("none", file()),
        /// The realm in responses with 401 (RFC 9110 section 11.5).
        pub(crate) realm: HeaderValue = default("gateway", realm()),
        /// A header field that tells the upstream the user name. What clients send in it is removed on all routes.
        pub(crate) identity_header: Option<HeaderName> = optional("none", identity_header()),
        /// Whether the upstream, and the service of `forward_auth`, get the password too. Otherwise `Authorization` is
        /// removed.
        pub(crate) forward: bool = default("false", boolean()),
    }
}

/// Names and passwords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basic {
    /// Those of the configuration itself.
    pub users: Vec<User>,
    /// A file with more. There are some here or there.
    pub file: Option<PathBuf>,
    /// What they are for.
    pub realm: HeaderValue,
    /// The field that tells the upstream the name.
    pub identity_header: Option<HeaderName>,
    /// Whether the upstream gets the password.
    pub forward: bool,
}

pub(super) fn basic() -> impl Read<Value = Box<Basic>> {
    section_of::<BasicFields>().then(check).map(Box::new)
}

fn check(fields: BasicFields, node: &Node, to: &mut Reading<'_>) -> Option<Basic> {
    let BasicFields { users, file, realm, identity_header, forward } = fields;
    if users.is_empty() && file.is_none() {
        let error = Diagnostic::error(node.span, "there are no users");
        return to.fail(error.label("expected `users` or `file`"));
    }
    let users = users.into_iter().map(|Named { key: name, value: hash, .. }| User { name, hash });
    Some(Basic { users: users.collect(), file, realm, identity_header, forward })
}

const USER: TextShape =
    TextShape { what: "a user name", examples: "`eve`", pattern: Some("^[^:]+$"), max: MAX_USER };
const HASH: TextShape = TextShape {
    what: "a password hash",
    examples: "the output of `htpasswd -nB NAME` after the colon",
    pattern: Some("^\\$(argon2id|2[aby])\\$"),
    max: 256,
};

fn user(text: &str) -> Result<String, Problem> {
    parse_user(text).map_err(Problem::new)
}

fn hash(text: &str) -> Result<PasswordHash, Problem> {
    PasswordHash::parse(text).map_err(Problem::new)
}
