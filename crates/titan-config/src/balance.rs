//! Balancing: how an endpoint is chosen for a request.

use crate::bounds::MAX_TOKEN;
use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::problem::Problem;
use crate::read::{Read, Reading, default, optional};
use crate::readers::{boolean, duration, text, word_or, words, words_or};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::token::{HeaderName, Token, cookie_name, header_name};
use std::time::Duration;

/// How an endpoint is chosen for a request. Weights count in all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Balance {
    /// Each in turn.
    RoundRobin,
    /// The one with the fewest requests running.
    LeastRequests,
    /// The better of two drawn at random, by its latency (EWMA) times its running requests.
    P2cEwma,
    /// Drawn at random.
    Random,
    /// The same key goes to the same endpoint as long as it is there.
    ConsistentHash(HashKey),
    /// The endpoint that a cookie names; the first response sets the cookie.
    StickyCookie(StickyCookie),
}

impl Balance {
    /// Its name, as a file has it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Balance::RoundRobin => "round_robin",
            Balance::LeastRequests => "least_requests",
            Balance::P2cEwma => "p2c_ewma",
            Balance::Random => "random",
            Balance::ConsistentHash(_) => "consistent_hash",
            Balance::StickyCookie(_) => "sticky_cookie",
        }
    }
}

/// What is hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashKey {
    /// A header field of the request.
    Header(HeaderName),
    /// A cookie of the request.
    Cookie(Token),
    /// A query parameter of the request, by its decoded name.
    Query(String),
    /// The client's address.
    ClientAddress,
}

section! {
    "sticky_cookie", "a sticky cookie", Any;
    /// The cookie that ties a client to an endpoint. It names the endpoint by a hash of its address, which is not
    /// secret: anyone who tries all likely addresses and ports finds the right one.
    pub struct StickyCookie {
        /// The name of the cookie.
        pub name: Token = default("titan_sticky", cookie_name()),
        /// How long the client keeps it.
        pub max_age: Option<Duration> =
            optional("until the browser is closed", duration(SECOND..=YEAR)),
        /// Whether browsers send it over TLS only.
        pub secure: bool = default("false", boolean()),
        /// Whether to hide it from scripts in the browser.
        pub http_only: bool = default("true", boolean()),
        /// Whether requests caused by another site carry it: `strict` never, `lax` with navigation, `none` always,
        /// which browsers accept only with `secure: true`.
        pub same_site: SameSite = default("lax", same_site()),
    }
}

/// Whether a cookie goes with requests that another site caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameSite {
    /// Never.
    Strict,
    /// With navigation alone.
    Lax,
    /// Always; only together with `secure`.
    None,
}

section! {
    "balance", "a balance policy with settings", One;
    /// The balance policies that have settings.
    pub(crate) struct BalanceFields {
        /// The same key goes to the same endpoint as long as it exists; when an endpoint is added or removed, only its
        /// share of the keys moves. A request without the key goes to a random endpoint.
        pub(crate) consistent_hash: Option<HashKey> = optional("", hash_key()),
        /// The endpoint that a cookie names; the first response sets the cookie. `{}` takes the defaults.
        pub(crate) sticky_cookie: Option<StickyCookie> = optional("", sticky_cookie()),
    }
}

section! {
    "hash_key", "a hash key", One;
    /// The part of a request to hash.
    pub(crate) struct HashKeyFields {
        /// The value of this header field.
        pub(crate) header: Option<HeaderName> = optional("", header_name()),
        /// The value of this cookie.
        pub(crate) cookie: Option<Token> = optional("", cookie_name()),
        /// The value of this query parameter, decoded.
        pub(crate) query: Option<String> = optional("", query_name()),
    }
}

const SECOND: Duration = Duration::from_secs(1);
const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);

pub(crate) fn balance() -> impl Read<Value = Balance> {
    let policies = [
        ("round_robin", Balance::RoundRobin),
        ("least_requests", Balance::LeastRequests),
        ("p2c_ewma", Balance::P2cEwma),
        ("random", Balance::Random),
    ];
    let with_settings = section_of::<BalanceFields>().then(|fields, _, _| match fields {
        BalanceFields { consistent_hash: Some(key), sticky_cookie: None } => {
            Some(Balance::ConsistentHash(key))
        }
        BalanceFields { consistent_hash: None, sticky_cookie } => {
            sticky_cookie.map(Balance::StickyCookie)
        }
        BalanceFields { consistent_hash: Some(_), sticky_cookie: Some(_) } => None,
    });
    words_or(&policies, with_settings)
}

fn hash_key() -> impl Read<Value = HashKey> {
    let of_request = section_of::<HashKeyFields>().then(|fields, _, _| {
        let HashKeyFields { header, cookie, query } = fields;
        let cookie = || cookie.map(HashKey::Cookie);
        header.map(HashKey::Header).or_else(cookie).or_else(|| query.map(HashKey::Query))
    });
    word_or("client_address", HashKey::ClientAddress, of_request)
}

pub(crate) fn same_site() -> impl Read<Value = SameSite> {
    words(&[("strict", SameSite::Strict), ("lax", SameSite::Lax), ("none", SameSite::None)])
}

fn sticky_cookie() -> impl Read<Value = StickyCookie> {
    section_of::<StickyCookie>().then(check)
}

fn check(cookie: StickyCookie, node: &Node, to: &mut Reading<'_>) -> Option<StickyCookie> {
    if cookie.same_site != SameSite::None || cookie.secure {
        return Some(cookie);
    }
    let message = "browsers drop a cookie with `same_site: none` that is not `secure`";
    let error =
        Diagnostic::error(node.key_span("same_site"), message).label("needs `secure: true`");
    to.fail(match node.entry("secure") {
        Some(entry) => error.also(entry.key_span, "`secure` is set here"),
        None => error.help("add `secure: true`"),
    })
}

pub(crate) fn query_name() -> impl Read<Value = String> {
    let shape = TextShape {
        what: "the name of a query parameter",
        examples: "`user`",
        pattern: Some("^.+$"),
        max: MAX_TOKEN,
    };
    text(shape, |text| match text.is_empty() {
        true => Err(Problem::new("the name is empty")),
        false => Ok(text.to_owned()),
    })
}
