//! The configuration language: text becomes a checked, immutable [`Config`], or a [`Report`] of everything wrong in it.
//!
//! | step | file |
//! |---|---|
//! | text to a tree with places, within bounds | `yaml.rs`, `syntax_error.rs`, `node.rs`, `bounds.rs` |
//! | how a field is declared, once, and what follows from it | `shape.rs`, `read.rs`, `readers.rs`, `section.rs` |
//! | the sections of the file | `gateway.rs`, `listener.rs`, `route_fields.rs`, `upstream.rs` ... |
//! | what needs several places of the file | `check.rs`, `clash.rs` |
//! | what is wrong, and how it is shown | `location.rs`, `source.rs`, `diagnostic.rs`, `render.rs`, `report.rs`, `suggest.rs` |
//! | what is generated from the sections | `schema.rs`, `reference.rs` |

mod address;
mod answer;
mod balance;
mod body_template;
pub mod bounds;
mod check;
mod cidr;
mod clash;
mod condition;
mod declared;
mod diagnostic;
mod error_pages;
mod files;
mod forwarding;
mod gateway;
mod habits;
mod host;
mod json;
mod language;
mod limits;
mod listener;
mod listing;
mod location;
mod look_alikes;
mod method;
mod node;
mod path;
mod policy;
mod problem;
mod quantity;
mod read;
mod readers;
mod reference;
mod render;
mod report;
mod request_fields;
mod resolver;
mod route;
mod route_fields;
mod route_name;
mod schema;
mod section;
mod shape;
mod source;
mod status;
mod suggest;
mod summary;
mod syntax_error;
mod template;
mod timeouts;
mod tls;
mod token;
mod upstream;
mod yaml;

pub use address::{EndpointAddress, ListenAddress};
pub use answer::{Redirect, Respond};
pub use balance::{Balance, HashKey, SameSite, StickyCookie};
pub use body_template::{BodyTemplate, Escaping};
pub use cidr::Cidr;
pub use condition::{CertificateMatch, CertificatePart, HeaderMatch, QueryMatch, ValueMatch};
pub use diagnostic::{Diagnostic, Label, Severity};
pub use error_pages::{ErrorPage, ErrorPages, Failures};
pub use files::{CacheRule, StaticFiles};
pub use forwarding::{ClientCert, Forwarding, ServerField, TrustedField};
pub use gateway::{Admin, Config, Threads, Workers};
pub use host::HostPattern;
pub use limits::{FieldNames, Limits};
pub use listener::{Listener, Protocols, ProxyProtocol};
pub use listing::{ListedPath, ListedRoute, RouteTable};
pub use location::{Location, Span};
pub use look_alikes::{LookAlike, Paths};
pub use path::{PathEnd, PathPattern, Segment};
pub use policy::*;
pub use quantity::{ByteSize, Cap};
pub use reference::reference;
pub use report::Report;
pub use resolver::Resolver;
pub use route::{Action, Proxy, Rewrite, Route, SendHost, Share};
pub use schema::schema;
pub use template::{Piece, Template};
pub use timeouts::{RouteTimeouts, Timeouts};
pub use tls::{
    Certificate, CertificateMode, Cipher, ClientCertificates, Hsts, ServerName, Tls, TlsVersion,
    UnknownName, UpstreamTls,
};
pub use token::{HeaderName, HeaderValue, Name, Pattern, Token};
pub use upstream::{Endpoint, Protocol, Queue, Upstream, UpstreamId};
