//! The configuration language: text becomes a checked, immutable [`Config`], or a [`Report`] of everything wrong in it.
//!
//! | step | module |
//! |---|---|
//! | what a file may cost | [`bounds`] |
//! | what is wrong, where, and how it is shown | `location`, `source`, `diagnostic`, `render`, `report`, `suggest`, `visible` |
//! | text to a tree with places, variables replaced | `node`, `syntax_error`, `surroundings`, `variables`, `yaml` |
//! | what a value may look like, and what reads it | `problem`, `quantity`, `shape`, `declared`, `read`, `readers` |
//! | syntax of other proxies | `habits` |
//! | what of a file is secret, and what is not | `secrets`, `credentials`, `shown` |
//! | how a field is declared, once, and what follows from it | `section` |
//! | texts with a grammar | `token`, `host_name`, `host`, `path`, `address`, `cidr`, `method`, `template` ... |
//! | the sections of the file | `timeouts`, `tls`, `listener`, `upstream`, `policy`, `files`, `route_fields`, `gateway` ... |
//! | several files, and documents of sources, to one tree | `delivered`, `compose` |
//! | what needs several places of the file | `clash`, `check` |
//! | what a configuration comes to | `listing`, `summary`, `request_fields`, `masked`, `resolved` |
//! | what changes between two of them | `plan` |
//! | requests, and what is expected of them | `cases` |
//! | what is generated from the sections | `language`, `reference`, `schema` |

pub mod bounds;

mod suggest;

mod problem;

mod location;

mod visible;

mod source;

mod diagnostic;

mod render;

mod node;

mod secrets;

mod credentials;

mod report;

mod syntax_error;

mod surroundings;

mod variables;

mod yaml;

mod quantity;

mod shape;

mod declared;

mod read;

mod readers;

mod secret;

mod token;

mod host_name;

mod habits;

mod shown;

mod section;

mod host;

mod path;

mod address;

mod cidr;

mod method;

mod status;

mod statuses;

mod template;

mod condition;

mod forwarding;

mod header;

mod timeouts;

mod tls;

mod balance;

mod retries;

mod hedge;

mod limits;

mod look_alikes;

mod resolver;

mod state;

mod log;

mod upstream_id;

mod share;

mod tls_route;

mod listener;

mod listener_set;

mod concurrency;

mod pressure;

mod recorder;

mod target;

mod health;

mod pointer;

mod mirror;

mod store;

mod policy;

mod body_template;

mod respond;

mod fallback;

mod circuit_breaker;

mod upstream;

mod error_pages;

mod files;

mod route;

mod route_fields;

mod admin;

mod servers;

mod otlp;

mod cluster;

mod remote;

mod tracing;

mod access_log;

mod gateway;

mod language;

mod delivered;

mod compose;

mod clash;

mod check;

mod masked;

mod listing;

mod summary;

mod request_fields;

mod reference;

mod json;

mod resolved;

mod plan;

mod cases;

mod schema;

mod record_schema;

pub use access_log::{
    AccessLog, Captures, Facility, LogAlways, LogDestination, LogField, LogFormat, LogOnly,
    LogPart, LogTarget, LogTemplate, Rotation, SyslogAddress, SyslogServer,
};
pub use address::{EndpointAddress, ListenAddress};
pub use admin::{Admin, AdminRights, AdminSocket, AdminToken};
pub use balance::{Balance, HashKey, SameSite, StickyCookie};
pub use body_template::{BodyTemplate, Escaping};
pub use cases::{Case, Cases, Expectation, TestRequest, Verdict};
pub use check::Composed;
pub use cidr::Cidr;
pub use circuit_breaker::{BreakerFailures, BreakerScope, CircuitBreaker};
pub use cluster::KubernetesSource;
pub use concurrency::{Concurrency, Importance};
pub use condition::{CertificateMatch, CertificatePart, HeaderMatch, QueryMatch, ValueMatch};
pub use credentials::is_credential;
pub use diagnostic::{Diagnostic, Label, Severity};
pub use error_pages::{ErrorPage, ErrorPages, Failures};
pub use fallback::{Fallback, FallbackFile};
pub use files::{CacheRule, StaticFiles};
pub use forwarding::{ClientCert, Forwarding, ServerField, TrustedField};
pub use gateway::{Config, Threads, Workers};
pub use health::{Ejection, GrpcProbe, HealthCheck, HttpProbe, InitialHealth, Probe};
pub use hedge::{Hedge, HedgeDelay};
pub use host::HostPattern;
pub use limits::{FieldNames, Limits};
pub use listener::{AltSvc, Listener, Protocols, ProxyProtocol};
pub use listener_set::ListenerSet;
pub use listing::{ListedPath, ListedRoute, RouteTable};
pub use location::{FileId, Location, Span};
pub use log::{AreaLevels, EventFormat, Log, LogArea, LogLevel};
pub use look_alikes::{LookAlike, Paths};
pub use masked::{Masked, SecretPlace};
pub use mirror::{Comparison, Mirror};
pub use otlp::{AttributeName, Collector, OtlpCompression, OtlpProtocol};
pub use path::{PathEnd, PathPattern, Segment};
pub use plan::{Change, ChangeKind, Difference, Move, Part, Plan, Weaker};
pub use pointer::MemberPattern;
pub use policy::*;
pub use pressure::Pressure;
pub use quantity::{ByteSize, Cap, Percent, duration};
pub use record_schema::access_log_schema;
pub use recorder::Recorder;
pub use reference::reference;
pub use remote::{
    ConsulService, ConsulSource, DockerSource, EtcdSource, HttpSource, PublicKey, RemoteKind,
    RemoteSource, ServiceName,
};
pub use report::Report;
pub use resolved::Resolved;
pub use resolver::Resolver;
pub use respond::{Redirect, Respond};
pub use retries::{Backoff, GrpcStatus, Retries, RetryBudget, RetryConditions};
pub use route::{Action, Proxy, Rewrite, Route, SendHost};
pub use schema::schema;
pub use secret::Secret;
pub use share::Share;
pub use source::FileNames;
pub use state::State;
pub use statuses::Statuses;
pub use store::{SentinelName, Store, StoreAddress};
pub use surroundings::{Document, Surroundings};
pub use template::{Piece, Template};
pub use timeouts::{RouteTimeouts, Timeouts};
pub use tls::{
    AltName, Certificate, CertificateMode, Cipher, ClientCertificates, Hsts, ServerName, Tls,
    TlsVersion, UnknownName, UpstreamTls,
};
pub use tls_route::{TlsMode, TlsRoute};
pub use token::{HeaderName, HeaderValue, Name, Pattern, Token};
pub use tracing::{Propagation, TraceAlways, TraceParents, Tracing};
pub use upstream::{Endpoint, Protocol, Queue, Upstream};
pub use upstream_id::UpstreamId;
