//! Stores: Redis or Valkey, in which the gateways of a fleet count together.

use crate::address::{EndpointAddress, parse_endpoint, parse_socket_path};
use crate::bounds::{MAX_NAME, MAX_SECRET, MAX_STORE_ADDRESSES};
use crate::diagnostic::Diagnostic;
use crate::location::{Location, Span};
use crate::node::{Node, quote};
use crate::problem::Problem;
use crate::read::{At, Read, Reading, at, default, optional, required};
use crate::readers::{boolean, duration, one_or_list, secret, text, whole};
use crate::secret::{Secret, parse_secret};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::tls::{UpstreamTls, tls_settings};
use crate::token::{NAME, Name, parse_name};
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

/// A store of Redis or Valkey, and how it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Its name, by which rate limits and revoked tokens refer to it.
    pub name: Name,
    /// Where it is, or where its sentinels are, or nodes of its cluster; at least one, and more only of those.
    pub addresses: Vec<StoreAddress>,
    /// Whether it is a cluster, whose nodes have a part of the keys each.
    pub is_cluster: bool,
    /// What the sentinels call the store; `None` where the address is its own.
    pub sentinel: Option<SentinelName>,
    /// What keys in the store are hashed with.
    pub hash_key: Secret,
    /// Whom the gateway logs in as; `None` for the default user.
    pub username: Option<String>,
    /// The password of that user.
    pub password: Option<Secret>,
    /// The number of the database.
    pub database: u16,
    /// How TLS is spoken with it; `None` for not at all.
    pub tls: Option<UpstreamTls>,
    /// How long a request waits for it.
    pub timeout: Duration,
    /// Where the file declares it.
    pub location: Location,
}

impl Store {
    /// The same store wherever the file has it.
    pub fn without_location(&self) -> Store {
        Store { location: Span::NOWHERE.start, ..self.clone() }
    }
}

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAddress {
    /// At an address.
    Ip(SocketAddr),
    /// At the first address of a name that can be connected to.
    Dns {
        /// The name, in lower case.
        host: String,
        /// The port.
        port: NonZeroU16,
    },
    /// A socket in the file system.
    Unix(PathBuf),
}

/// What sentinels call a store: 1 to 64 printable characters of ASCII without spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentinelName(String);

impl SentinelName {
    /// The name as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// As connections and messages name it.
impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreAddress::Ip(address) => write!(f, "{address}"),
            StoreAddress::Dns { host, port } => write!(f, "{host}:{port}"),
            StoreAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

section! {
    "store", "a store", Any;
    /// A store of Redis (from 5 on) or Valkey, in which the gateways of a fleet count together and tell each other what is revoked.
    /// What they keep there has names that begin with `titan:` and expires by itself. No gateway depends on it: when it does not
    /// respond, policies go on as their `without_store` says.
    pub(crate) struct StoreFields {
        /// Its URL: `redis://10.0.0.1:6379`, `rediss://redis.example.com:6379` for TLS, or `unix:/run/redis.sock`. The port is 6379
        /// unless the URL says another. Several addresses are those of sentinels, or of nodes of a cluster.
        pub(crate) address: Vec<At<ParsedAddress>> =
            required(one_or_list(at(text(ADDRESS, parse_address)), 1..=MAX_STORE_ADDRESSES)),
        /// Whether it is a cluster (Redis Cluster, Valkey Cluster), of which `address` has some nodes: they tell which primary has which
        /// keys. Each worker of a gateway has a connection to each primary, 256 at most, and follows keys and failovers.
        pub(crate) cluster: bool = default("false", boolean()),
        /// What the sentinels at `address` call the store (Redis Sentinel): they tell which server is the primary now. Their port is
        /// usually 26379. Sentinels are logged in to with the same `username` and `password`, if they ask for any.
        pub(crate) sentinel: Option<SentinelName> =
            optional("the address is that of the store", text(SENTINEL, parse_sentinel)),
        /// A secret of at least 16 bytes, the same on all gateways of the fleet: `${file:fleet.key}`. Clients' addresses, tokens and
        /// whatever else requests are counted by are stored as keyed hashes, so that whoever reads the store cannot find out what they
        /// were.
        pub(crate) hash_key: Secret = required(secret(HASH_KEY, parse_hash_key)),
        /// The user of the store's access control lists; it needs the commands `eval`, `evalsha`, `get`, `set`, `time`, `zadd`, `zcard`,
        /// `zrem`, `zremrangebyscore`, `pexpire`, `ping` and `role` on keys `titan:*`, and for revoked tokens `xadd`, `xread`, `xrange`,
        /// `xdel` and `del`; at the nodes of a cluster `cluster|slots`, `cluster|info` and `asking` as well.
        pub(crate) username: Option<String> = optional("the default user", text(USERNAME, parse_username)),
        /// The password: `${file:redis.password}`.
        pub(crate) password: Option<Secret> = optional("none", secret(PASSWORD, parse_secret)),
        /// The number of the database.
        pub(crate) database: u16 = default("0", whole(0..=65_535)),
        /// How TLS is spoken with it; its address begins with `rediss`.
        pub(crate) tls: Option<UpstreamTls> =
            optional("all defaults where the address begins with `rediss`", tls_settings()),
        /// How long a request waits for the store at most. Then `without_store` of its policy decides about it. A store that fails several
        /// times in a row is not asked again before it has responded to the gateway itself.
        pub(crate) timeout: Duration = default("5ms", duration(MIN_TIMEOUT..=MAX_TIMEOUT)),
    }
}

/// An address, and whether TLS is spoken there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParsedAddress {
    address: StoreAddress,
    is_tls: bool,
}

/// A store that has no name yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreDraft(StoreFields);

const ADDRESS: TextShape = TextShape {
    what: "the address of a store",
    examples: "`redis://10.0.0.1:6379`, `rediss://redis.example.com:6379` or `unix:/run/redis.sock`",
    pattern: Some("^(redis|rediss)://.+|^unix:/.+"),
    max: 512,
};

const SENTINEL: TextShape = TextShape {
    what: "what sentinels call a store",
    examples: "`mymaster`",
    pattern: Some("^[!-~]{1,64}$"),
    max: MAX_NAME,
};

const HASH_KEY: TextShape = TextShape {
    what: "a secret to hash keys with",
    examples: "32 random bytes in hexadecimal",
    pattern: None,
    max: MAX_SECRET,
};

const USERNAME: TextShape = TextShape {
    what: "the user of a store",
    examples: "`titan`",
    pattern: Some("^[!-~]{1,255}$"),
    max: 255,
};

const PASSWORD: TextShape = TextShape {
    what: "the password of a store",
    examples: "`${file:redis.password}`",
    pattern: None,
    max: MAX_SECRET,
};

/// The shortest time in which a store can be expected to respond.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);
/// The longest that requests may be made to wait for it.
const MAX_TIMEOUT: Duration = Duration::from_millis(100);
/// The port of a store, unless its URL says another one.
const PORT: u16 = 6379;
/// The fewest bytes of a secret that cannot be guessed.
const MIN_HASH_KEY: usize = 16;

impl StoreDraft {
    /// The store of that name.
    pub(crate) fn finish(self, name: Name, location: Location) -> Store {
        let StoreDraft(fields) = self;
        let StoreFields {
            address,
            cluster,
            sentinel,
            hash_key,
            username,
            password,
            database,
            tls,
            timeout,
        } = fields;
        let is_tls = address.iter().any(|it| it.value.is_tls);
        Store {
            name,
            addresses: address.into_iter().map(|it| it.value.address).collect(),
            is_cluster: cluster,
            sentinel,
            hash_key,
            username,
            password,
            database,
            tls: is_tls.then(|| tls.unwrap_or(UpstreamTls::ON)),
            timeout,
            location,
        }
    }
}

pub(crate) fn store() -> impl Read<Value = StoreDraft> {
    section_of::<StoreFields>().then(check)
}

/// The name of a store of the file.
pub(crate) fn store_name() -> impl Read<Value = Name> {
    let shape = TextShape { what: "the name of a store", examples: "`fleet`", ..NAME };
    at(text(shape, parse_name)).then(|At { value: name, span }, _, to: &mut Reading<'_>| {
        if to.declared.stores.use_name(name.as_str()).is_some() {
            return Some(name);
        }
        let message = format!("there is no store {}", quote(name.as_str()));
        let near = to.did_you_mean(name.as_str(), to.declared.stores.iter());
        let help = near.unwrap_or_else(|| {
            format!(
                "declare it at the top level: `stores: {{ {name}: {{ address: \"redis://127.0.0.1:6379\", hash_key: ... }} }}`"
            )
        });
        to.fail(Diagnostic::error(span, message).label("not found in `stores`").help(help))
    })
}

fn check(fields: StoreFields, node: &Node, to: &mut Reading<'_>) -> Option<StoreDraft> {
    let is_fine = check_number(&fields, node, to)
        & check_cluster(&fields, node, to)
        & check_tls(&fields, node, to);
    warn_of_exposed_password(&fields, node, to);
    is_fine.then_some(StoreDraft(fields))
}

fn check_number(fields: &StoreFields, node: &Node, to: &mut Reading<'_>) -> bool {
    let (Some(second), None, false) = (fields.address.get(1), &fields.sentinel, fields.cluster)
    else {
        return true;
    };
    let error = Diagnostic::error(second.span, "a store has one address");
    let error = error
        .also(node.key_span("address"), "only sentinels, or nodes of a cluster, may be several");
    to.add(error.help(
        "keep one address, set `sentinel` to what the sentinels at these addresses call it, or set `cluster: true`",
    ));
    false
}

/// A cluster has no sentinels, no numbered databases, and nodes that others reach.
fn check_cluster(fields: &StoreFields, node: &Node, to: &mut Reading<'_>) -> bool {
    if !fields.cluster {
        return true;
    }
    let is_socket = |it: &&At<ParsedAddress>| matches!(it.value.address, StoreAddress::Unix(_));
    let error = if fields.sentinel.is_some() {
        let error = Diagnostic::error(node.key_span("sentinel"), "a cluster has no sentinels");
        error.help("its nodes watch over each other: remove `sentinel`, or `cluster`")
    } else if fields.database > 0 {
        let error = Diagnostic::error(node.key_span("database"), "a cluster has only database 0");
        error.help("remove `database`")
    } else if let Some(socket) = fields.address.iter().find(is_socket) {
        let error = Diagnostic::error(socket.span, "a node of a cluster has a host and a port");
        error.help("write `redis://HOST:PORT`")
    } else {
        return true;
    };
    to.add(error.also(node.key_span("cluster"), "it is a cluster"));
    false
}

/// Whether there is TLS where the file says how it is spoken, and at all addresses or none.
fn check_tls(fields: &StoreFields, node: &Node, to: &mut Reading<'_>) -> bool {
    let first = fields.address.first().is_some_and(|it| it.value.is_tls);
    if let Some(other) = fields.address.iter().find(|it| it.value.is_tls != first) {
        let error = Diagnostic::error(other.span, "some addresses are with TLS and some without");
        to.add(
            error.label("unlike the first one").help("write `rediss` in all of them, or `redis`"),
        );
        return false;
    }
    let Some(tls) = &fields.tls else { return true };
    let place = node.key_span("tls");
    if !first {
        let error = Diagnostic::error(place, "`tls` has no effect");
        let error = error.also(node.key_span("address"), "there is no TLS at this address");
        to.add(error.help("begin the address with `rediss`, or remove `tls`"));
        return false;
    }
    if !tls.verify {
        let warning = Diagnostic::warning(place, "any certificate of this store is accepted");
        let warning =
            warning.label("anyone on the network path can read and change what is counted");
        to.add(
            warning.help("for certificates that you issued yourself, set `ca` to their authority"),
        );
    }
    true
}

/// A password that goes over a network in the clear is one that others can read.
fn warn_of_exposed_password(fields: &StoreFields, node: &Node, to: &mut Reading<'_>) {
    let is_exposed = |it: &At<ParsedAddress>| !it.value.is_tls && !is_local(&it.value.address);
    let Some(address) = fields.address.iter().find(|it| is_exposed(it)) else { return };
    if fields.password.is_none() {
        return;
    }
    let warning =
        Diagnostic::warning(node.key_span("password"), "the password is sent unencrypted");
    let warning = warning.also(address.span, "there is no TLS at this address");
    to.add(warning.help("begin the address with `rediss`, unless the network is your own"));
}

fn is_local(address: &StoreAddress) -> bool {
    match address {
        StoreAddress::Ip(address) => address.ip().is_loopback(),
        StoreAddress::Dns { host, .. } => host == "localhost",
        StoreAddress::Unix(_) => true,
    }
}

fn parse_address(text: &str) -> Result<ParsedAddress, Problem> {
    if let Some(path) = text.strip_prefix("unix:") {
        let address = StoreAddress::Unix(parse_socket_path(path)?);
        return Ok(ParsedAddress { address, is_tls: false });
    }
    let (is_tls, rest) = match text.split_once("://") {
        Some(("redis" | "valkey", rest)) => (false, rest),
        Some(("rediss" | "valkeys", rest)) => (true, rest),
        Some(_) => return Err(Problem::new("its scheme is neither `redis` nor `rediss`")),
        None => {
            let problem = Problem::new("it has no scheme");
            return Err(problem.help(format!("did you mean `redis://{text}`?")));
        }
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains('@') {
        let problem = Problem::new("it contains a user or a password");
        return Err(problem.help("set `username` and `password` instead"));
    }
    if rest.contains(['/', '?', '#']) {
        let problem = Problem::new("it has more than a host and a port");
        return Err(problem.help("the number of the database goes into `database`"));
    }
    let has_port =
        rest.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
    let with_port = if has_port { rest.to_owned() } else { format!("{rest}:{PORT}") };
    let address = match parse_endpoint(&with_port)? {
        EndpointAddress::Ip(address) => StoreAddress::Ip(address),
        EndpointAddress::Dns { host, port } => StoreAddress::Dns { host, port },
        EndpointAddress::Srv(_) | EndpointAddress::Unix(_) | EndpointAddress::Feed(_) => {
            return Err(Problem::new("its host is malformed"));
        }
    };
    Ok(ParsedAddress { address, is_tls })
}

fn parse_sentinel(text: &str) -> Result<SentinelName, Problem> {
    printable(text).map(|text| SentinelName(text.to_owned()))
}

fn parse_username(text: &str) -> Result<String, Problem> {
    printable(text).map(str::to_owned)
}

fn printable(text: &str) -> Result<&str, Problem> {
    match text {
        "" => Err(Problem::new("it is empty")),
        text if text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(text),
        _ => Err(Problem::new("expected printable ASCII without spaces")),
    }
}

fn parse_hash_key(text: &str) -> Result<Secret, Problem> {
    match text.len() {
        0..MIN_HASH_KEY => Err(Problem::new(format!("it has fewer than {MIN_HASH_KEY} bytes"))),
        _ => parse_secret(text),
    }
}
