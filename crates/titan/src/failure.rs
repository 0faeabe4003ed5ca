//! Why the program fails, and with which exit code.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use titan_admin::RevocationStoreError;
use titan_config::{Config, FileNames, Location, Report};
use titan_proxy::{BadCredentials, BadQuestion, LoadError};

/// Why the program fails.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The configuration is wrong.
    Config(Report),
    /// Certificates, keys or lists cannot be used; each with its position.
    Credentials {
        /// The files that name them.
        files: FileNames,
        faults: Vec<(Location, BadCredentials)>,
    },
    /// A file cannot be read, or an argument makes no sense.
    BadInput(String),
    /// An address cannot be listened on.
    Bind {
        /// As the configuration writes it.
        address: String,
        /// What for, where it is no listener of the gateway: words that follow the address.
        what: &'static str,
        /// The file that declares the listener, or the document; empty where it is none.
        file: String,
        error: io::Error,
    },
    /// Something else went wrong at the start or later.
    Runtime(String),
}

/// The exit code for a wrong configuration or command line; clap uses the same.
pub(crate) const BAD_INPUT: u8 = 2;
const RUNTIME: u8 = 1;
/// What [`Failure::Bind`] calls the socket of the probes.
pub(crate) const FOR_PROBES: &str = " for probes";
/// The same of the UDP socket of a listener.
const FOR_HTTP3: &str = " over UDP for HTTP/3";

impl Failure {
    /// The code that the program exits with.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(if self.is_bad_input() { BAD_INPUT } else { RUNTIME })
    }

    /// Whether the configuration or the command line has to change.
    pub(crate) fn is_bad_input(&self) -> bool {
        match self {
            Failure::Config(_) | Failure::Credentials { .. } | Failure::BadInput(_) => true,
            Failure::Bind { .. } | Failure::Runtime(_) => false,
        }
    }

    /// The same without what `config` takes from files for values.
    pub(crate) fn masked(self, config: &Config) -> Failure {
        match self {
            Failure::BadInput(text) => Failure::BadInput(config.mask(text)),
            Failure::Runtime(text) => Failure::Runtime(config.mask(text)),
            other => other,
        }
    }

    /// The text that is printed.
    pub(crate) fn text(&self, color: bool) -> String {
        let word = if color { "\x1b[1;31merror\x1b[0m" } else { "error" };
        match self {
            Failure::Config(report) if color => report.colored().to_string(),
            Failure::Config(report) => report.to_string(),
            Failure::Credentials { files, faults } => {
                let fault = |(place, bad): &(Location, _)| {
                    format!("{word}: {}:{place}: {bad}\n", files.of(*place))
                };
                faults.iter().map(fault).collect()
            }
            Failure::BadInput(text) | Failure::Runtime(text) => format!("{word}: {text}\n"),
            Failure::Bind { address, what, file: _, error } => {
                let help = help_with(error.kind(), address, what);
                format!("{word}: cannot listen on {address}{what}: {error}\n{help}")
            }
        }
    }
}

/// What can be done about an address that cannot be bound.
fn help_with(kind: io::ErrorKind, address: &str, what: &str) -> String {
    let text = match kind {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => return help_without(address),
        io::ErrorKind::AddrInUse if what == FOR_PROBES => {
            "help: another process uses this address; `ss -ltnp` shows which. A draining gateway \
                keeps its\n\x20     probes address until the drain has ended: wait for that, or set \
                another `admin.probes`\n"
        }
        io::ErrorKind::AddrInUse if what == FOR_HTTP3 => {
            "help: another process uses this address; `ss -lunp` shows which. Stop it, use another \
                address, or\n\x20     leave out `h3` of the listener's `protocols`\n"
        }
        io::ErrorKind::AddrInUse => {
            "help: another process uses this address; `ss -ltnp` shows which. Stop it, or use a \
                configuration\n\x20     with another address: titan FILE\n"
        }
        io::ErrorKind::PermissionDenied => {
            "help: ports below 1024 need the capability CAP_NET_BIND_SERVICE; Unix sockets need \
                a\n\x20     directory that this user may write to\n"
        }
        io::ErrorKind::AddrNotAvailable => "help: this machine does not have that address\n",
        _ => "",
    };
    text.to_owned()
}

/// What can be done about a Unix socket whose directory does not exist.
fn help_without(address: &str) -> String {
    let path = address.strip_prefix("unix:").map(Path::new);
    let Some(directory) = path.and_then(Path::parent) else { return String::new() };
    let directory = directory.display();
    format!(
        "help: there is no directory {directory}: create it (`mkdir -p {directory}`) so that the user of the gateway may\n\
         \x20     write to it, or name another path\n"
    )
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Runtime(format!("cannot start: {error}"))
    }
}

impl From<Report> for Failure {
    fn from(report: Report) -> Failure {
        Failure::Config(report)
    }
}

impl From<BadQuestion> for Failure {
    fn from(bad: BadQuestion) -> Failure {
        Failure::BadInput(bad.to_string())
    }
}

impl From<BadCredentials> for Failure {
    fn from(bad: BadCredentials) -> Failure {
        Failure::BadInput(bad.to_string())
    }
}

impl From<RevocationStoreError> for Failure {
    fn from(bad: RevocationStoreError) -> Failure {
        match bad {
            RevocationStoreError::Corrupt { .. } | RevocationStoreError::BadPlace { .. } => {
                Failure::BadInput(bad.to_string())
            }
            RevocationStoreError::InUse(_) | RevocationStoreError::Io(..) => {
                Failure::Runtime(bad.to_string())
            }
        }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Failure {
        match error {
            LoadError::Bind { address, is_udp, file, error } => {
                let what = if is_udp { FOR_HTTP3 } else { "" };
                Failure::Bind { address, what, file, error }
            }
            LoadError::Credentials(bad) => bad.into(),
            error @ (LoadError::Keys(_) | LoadError::Workers) => {
                Failure::BadInput(error.to_string())
            }
            other => Failure::Runtime(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_use_is_reported_with_what_may_use_it() {
        let text = |what: &'static str| {
            let error = io::Error::from(io::ErrorKind::AddrInUse);
            let (address, file) = ("127.0.0.1:1".to_owned(), String::new());
            Failure::Bind { address, what, file, error }.text(false)
        };
        assert!(text("").contains("with another address"));
        assert!(text("").contains("`ss -ltnp`") && text(FOR_HTTP3).contains("`ss -lunp`"));
        let of_probes = text(FOR_PROBES);
        assert!(of_probes.contains("A draining gateway keeps its\n"), "{of_probes}");
    }
}
