//! The options of `titan explain`, and its help.

use super::recorder::request_id;
use super::{AddressOption, ConfigOption};
use clap::Args;
use std::net::IpAddr;
use std::path::PathBuf;

/// Which request to explain.
#[derive(Debug, Args)]
pub(crate) struct ExplainOptions {
    /// The method, such as GET
    #[arg(required_unless_present = "id")]
    pub(crate) method: Option<String>,
    /// `http://host/path?query`, or `/path` together with -H 'Host: ...'
    #[arg(required_unless_present = "id", value_name = "URL")]
    pub(crate) target: Option<String>,
    /// A header of the request; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) fields: Vec<String>,
    /// The certificate that the client presents, a PEM file; it is not verified
    #[arg(long, value_name = "FILE")]
    pub(crate) client_cert: Option<PathBuf>,
    /// The address that the client connects from; without it, nothing is decided by address
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) from: Option<IpAddr>,
    /// Print a case for `titan test` instead, with the request as given: tokens too
    #[arg(long, requires = "config")]
    pub(crate) as_test: bool,
    /// Print what would come of it as JSON
    #[arg(long, conflicts_with = "as_test")]
    pub(crate) json: bool,
    /// The id of a request that a running gateway has served, as its response has it (X-Request-Id)
    #[arg(long, value_parser = request_id)]
    #[arg(conflicts_with_all = ["method", "target", "fields", "client_cert", "from", "as_test"])]
    pub(crate) id: Option<String>,
    /// With --id: the Unix socket of its admin interface; without it the usual places
    #[arg(long, value_name = "PATH", requires = "id", conflicts_with = "config")]
    pub(crate) socket: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) address: AddressOption,
    #[command(flatten)]
    pub(crate) config: ConfigOption,
}

pub(super) const AFTER_HELP: &str = "\
Examples:
  titan explain GET http://a.example/items/42 -c titan.yaml
  titan explain POST /items -H 'Host: a.example' -H 'Content-Length: 5' -c titan.yaml
  titan explain GET http://a.example/ -H 'Authorization: Bearer eyJhb...' -c titan.yaml
  titan explain GET http://a.example/ --from 203.0.113.7 -c titan.yaml
  titan explain GET http://a.example/ -c titan.yaml --as-test > tests.yaml
  titan explain --id 0198f3c2d1e04b6f9a3c5d7e8f901234

The exit code is 0 whatever the response would be, and 2 if the request or the configuration is invalid. With
--id it is 1 if no gateway can be reached, or that request is not there or cannot be judged.";
