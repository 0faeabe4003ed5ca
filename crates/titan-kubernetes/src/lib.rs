//! Gateway API of Kubernetes: gateways and routes become Titan's configuration, and Titan's word on them becomes their status.
//!
//! | what | module |
//! |---|---|
//! | objects of the API, as far as they are read | [`objects`] |
//! | all that is known of a cluster | [`cluster`] |
//! | conditions of statuses | [`condition`] |
//! | names and texts in Titan's configuration | `names` |
//! | hosts that two are for | `hostname` |
//! | durations | `duration` |
//! | what the command line says | [`settings`] |
//! | who may name objects of other namespaces | `grants` |
//! | certificates, keys, authorities | [`credentials`] |
//! | what Ingresses become | `ingress` |
//! | which gateways are ours, and where they listen | `gateways` |
//! | which routes attach to which listeners | `attach` |
//! | what routes match | `matches` |
//! | what the program says of documents | [`standing`] |
//! | Titan's own policies | `policies` |
//! | TLS to pods | `backend_tls` |
//! | from services to upstreams, and who serves there | [`backends`] |
//! | what happens on the way | `filters` |
//! | what rules do | `rules` |
//! | which policies a route applies | `policed` |
//! | connections without HTTP | `tls_routes` |
//! | what is said of objects | [`statuses`] |
//! | what a gateway has room for | `room` |
//! | all of it together | [`translate`] |
//! | the objects of a cluster as they change | `watch` |
//! | which of several gateways writes statuses | `election` |
//! | statuses on their way back | `writer` |
//! | the folder with certificates | `folder` |
//! | what was delivered, and what came of it | `deliveries` |
//! | from news to documents and statuses | [`controller`] |

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

pub mod objects;

pub mod cluster;

pub mod condition;

mod names;

mod hostname;

mod duration;

pub mod settings;

mod grants;

pub mod credentials;

mod ingress;

mod gateways;

mod attach;

mod matches;

pub mod standing;

mod policies;

mod backend_tls;

pub mod backends;

mod filters;

mod rules;

mod policed;

pub mod statuses;

mod tls_routes;

mod room;

pub mod translate;

mod watch;

mod election;

mod writer;

mod folder;

mod deliveries;

pub mod controller;
