//! The bounds of a configuration file: what a hostile or mistaken file can cost is decided here.

use std::time::Duration;

/// Bytes of a file.
pub const MAX_FILE: usize = 16 << 20;
/// Files that are included.
pub const MAX_INCLUDED: usize = 1_024;
/// Bytes of all files of a configuration together.
pub const MAX_FILES_TOTAL: usize = 32 << 20;
/// Files that include each other, one in the other.
pub const MAX_INCLUDE_DEPTH: usize = 8;
/// Patterns of files to include, of one file.
pub const MAX_INCLUDES: usize = 64;
/// Sources of more documents.
pub const MAX_SOURCES: usize = 16;
/// Servers of one source.
pub const MAX_SERVERS: usize = 16;
/// Services that one source follows.
pub const MAX_SERVICES: usize = 256;
/// Documents of all sources together.
pub const MAX_DELIVERED: usize = 50_000;
/// Namespaces that a source reads.
pub const MAX_NAMESPACES: usize = 256;
/// Addresses that a source tells a cluster of.
pub const MAX_CLUSTER_ADDRESSES: usize = 16;
/// Files that are values.
pub const MAX_SECRET_FILES: usize = 1_024;
/// Bytes of a file that is a value.
pub const MAX_SECRET_FILE: usize = 64 << 10;
/// Mappings and lists inside each other.
pub const MAX_DEPTH: usize = 32;
/// Values in all files, those that aliases repeat included.
pub const MAX_NODES: usize = 2_000_000;
/// Bytes of all keys and texts, with what variables bring, those that aliases repeat included.
pub const MAX_TEXT_TOTAL: usize = 32 << 20;
/// Errors that are shown, and warnings that are; of more only the number is.
pub const MAX_DIAGNOSTICS: usize = 200;

/// Listeners.
pub const MAX_LISTENERS: usize = 64;
/// TLS routes of one listener.
pub const MAX_TLS_ROUTES: usize = 1_024;
/// Routes.
pub const MAX_ROUTES: usize = 100_000;
/// Routes with the same host and path: a request is compared with each of them.
pub const MAX_ROUTES_PER_PATH: usize = 256;
/// Upstreams.
pub const MAX_UPSTREAMS: usize = 20_000;
/// Endpoints of one upstream.
pub const MAX_ENDPOINTS: usize = 1_024;
/// Upstreams between which one route splits its requests.
pub const MAX_SHARES: usize = 64;
/// Hosts of one route.
pub const MAX_HOSTS: usize = 64;
/// Methods of one route.
pub const MAX_METHODS: usize = 32;
/// Policies of a file.
pub const MAX_POLICIES: usize = 1_024;
/// Providers of tokens of a JWT policy.
pub const MAX_PROVIDERS: usize = 32;
/// Files with keys of a provider.
pub const MAX_KEY_FILES: usize = 32;
/// Claims, audiences or types of tokens that a policy names.
pub const MAX_CLAIMS: usize = 64;
/// Bytes of the place of a claim.
pub const MAX_CLAIM: usize = 512;
/// JSON pointers or names of fields in one list.
pub const MAX_POINTERS: usize = 64;
/// Bytes of a JSON pointer.
pub const MAX_POINTER: usize = 512;
/// Bytes of a shared secret.
pub const MAX_SECRET: usize = 1_024;
/// Tokens that a worker remembers for a policy.
pub const MAX_CACHED_TOKENS: i64 = 1 << 20;
/// How far the clocks of providers of tokens may be off.
pub const MAX_LEEWAY: Duration = Duration::from_secs(300);
/// Entries of the list of revoked tokens.
pub const MAX_REVOCATIONS: i64 = 1_000_000;
/// Configurations that the history keeps.
pub const MAX_HISTORY: i64 = 100;
/// Origins of a CORS policy.
pub const MAX_ORIGINS: usize = 256;
/// Tokens of the admin interface.
pub const MAX_ADMIN_TOKENS: usize = 64;
/// Bytes of the URL where traces are shown.
pub const MAX_TRACE_URL: usize = 2048;
/// Keys of an API.
pub const MAX_API_KEYS: usize = 10_000;
/// Rates of a rate limit.
pub const MAX_RATES: usize = 4;
/// Plans of a rate limit.
pub const MAX_PLANS: usize = 64;
/// Parts of the key of a rate limit.
pub const MAX_KEY_PARTS: usize = 4;
/// Keys that a rate limit remembers.
pub const MAX_LIMITED_KEYS: i64 = 1 << 22;
/// Rules of a transform for paths.
pub const MAX_PATH_RULES: usize = 64;
/// Rules of a transform for cookies.
pub const MAX_COOKIE_RULES: usize = 64;
/// Media types that a policy compresses.
pub const MAX_MEDIA_TYPES: usize = 128;
/// Paths that a policy does not compress.
pub const MAX_EXCEPTIONS: usize = 128;
/// Statuses that a transform gives others for.
pub const MAX_STATUSES: usize = 64;
/// Protocols that a route lets clients switch to.
pub const MAX_UPGRADES: usize = 8;
/// Header conditions of one route, and as many query conditions.
pub const MAX_CONDITIONS: usize = 32;
/// Cases of a test file.
pub const MAX_TEST_CASES: usize = 10_000;
/// Header fields of a fixed response.
pub const MAX_HEADERS: usize = 64;
/// Bytes of a text that the response to a probe has to contain.
pub const MAX_PROBE_TEXT: usize = 1 << 10;
/// Blocks in a list of networks.
pub const MAX_NETWORKS: usize = 1_024;
/// Certificates of one listener.
pub const MAX_CERTIFICATES: usize = 1_024;
/// Hosts that a certificate of a listener is for.
pub const MAX_CERTIFIED: usize = 1_024;
/// Files with lists of revoked certificates of one listener.
pub const MAX_CRLS: usize = 256;
/// Bytes of the path to a file.
pub const MAX_PATH_BYTES: usize = 4_096;
/// Name servers.
pub const MAX_NAMESERVERS: usize = 8;
/// Cache rules of a directory.
pub const MAX_CACHE_RULES: usize = 64;
/// Files that may stand for a directory.
pub const MAX_INDEX: usize = 8;
/// Bytes of the name of a file; file systems take 255.
pub const MAX_NAME_BYTES: usize = 255;
/// Segments of a path.
pub const MAX_SEGMENTS: usize = 64;
/// Parameters of a path.
pub const MAX_PARAMS: usize = 16;

/// Bytes of a name of a listener, route or upstream.
pub const MAX_NAME: usize = 64;
/// Bytes of a host name (RFC 1035 section 2.3.4).
pub const MAX_HOST: usize = 253;
/// Bytes of an address of a listener or an endpoint.
pub const MAX_ADDRESS: usize = 280;
/// Bytes of the path of a Unix socket; the kernel takes 107.
pub const MAX_SOCKET_PATH: usize = 107;
/// Bytes of a path or a template.
pub const MAX_PATH: usize = 2_048;
/// Bytes of a field name or another token.
pub const MAX_TOKEN: usize = 128;
/// Bytes of a field value or a value to compare with.
pub const MAX_VALUE: usize = 4_096;
/// Stores that gateways count together in.
pub const MAX_STORES: usize = 16;
/// Addresses of the sentinels of a store.
pub const MAX_STORE_ADDRESSES: usize = 16;
/// Collectors of OpenTelemetry.
pub const MAX_COLLECTORS: usize = 16;
/// Attributes of the gateway itself that a collector is told.
pub const MAX_RESOURCE: usize = 64;
/// Destinations of the access log.
pub const MAX_ACCESS_LOGS: usize = 16;
/// Header fields of requests that all access logs name together; as many of responses, and as many claims.
pub const MAX_CAPTURES: usize = 32;
/// Bytes of a body that the recorder keeps.
pub const MAX_RECORDED_BODY: u64 = 4 << 10;
/// Bytes of the format of an access log.
pub const MAX_LOG_FORMAT: usize = 4_096;
/// Old files that an access log keeps.
pub const MAX_OLD_LOGS: i64 = 10_000;
/// Rules of an authorisation.
pub const MAX_RULES: usize = 16;
/// Bytes of a rule.
pub const MAX_RULE: usize = 1_024;
/// Regular expressions of a file.
pub const MAX_REGEXES: usize = 1_024;
/// Bytes of a regular expression.
pub const MAX_REGEX: usize = 1_024;
/// Bytes that a compiled regular expression may take.
pub const MAX_REGEX_PROGRAM: usize = 256 << 10;
/// Bytes of the body of a fixed response.
pub const MAX_RESPONSE_BODY: usize = 64 << 10;
