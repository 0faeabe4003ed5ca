//! Why a configuration could not be put in force.

use std::{fmt, io};
use titan_io::tls::BadCredentials;

/// Why a configuration could not be put in force. What was in force before still is.
#[derive(Debug)]
pub enum LoadError {
    /// A listener could not be bound.
    Bind {
        /// What it was to be bound to.
        address: String,
        /// Whether it was to be bound to that over UDP, for HTTP/3.
        is_udp: bool,
        /// The file that declares it, or the document, as the configuration calls it.
        file: String,
        /// What the system says.
        error: io::Error,
    },
    /// The system's resolver configuration could not be read.
    Resolver(String),
    /// A certificate or a key cannot be used.
    Credentials(BadCredentials),
    /// An access log cannot be written.
    AccessLog(String),
    /// The revoked tokens were not read.
    Revocations,
    /// Keys of tokens could not be fetched, for these reasons: valid tokens would be refused.
    Keys(Vec<String>),
    /// Only a restart can change `workers`.
    Workers,
    /// Another process has taken over, and serves.
    HandedOver,
    /// A thread could not be started.
    Thread(io::Error),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Bind { address, is_udp, file: _, error } => {
                let over = if *is_udp { " over UDP" } else { "" };
                write!(f, "cannot listen on {address}{over}: {error}")
            }
            LoadError::Resolver(error) => write!(f, "cannot set up name resolution: {error}"),
            LoadError::Credentials(error) => error.fmt(f),
            LoadError::AccessLog(error) => f.write_str(error),
            LoadError::Revocations => f.write_str("the revoked tokens were not read"),
            LoadError::Keys(reasons) => match reasons.as_slice() {
                [] => f.write_str("keys of tokens have not come in time"),
                reasons => f.write_str(&reasons.join("; ")),
            },
            LoadError::Workers => {
                f.write_str("`workers` cannot change while the gateway runs: restart it")
            }
            LoadError::HandedOver => {
                f.write_str("another process has taken over: it read the file when it started")
            }
            LoadError::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for LoadError {}
