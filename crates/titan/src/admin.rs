//! The sockets of the admin interface, and the servers at them.

use crate::failure::{FOR_PROBES, Failure};
use crate::greeting::{AdminAddresses, CommandSocket};
use crate::socket_path::Surroundings;
use crate::upgrade::Inherited;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;
use titan_admin::Interface;
use titan_admin::http::{LentSocket, Server, Socket};
use titan_config::{Admin, AdminSocket, Config, ListenAddress, LogArea, LogLevel};
use titan_observe::events::{Event, Log};

/// All of them, bound before the gateway starts, so that nothing runs when that fails.
pub(crate) struct AdminSockets {
    address: Option<Socket>,
    /// For commands on this machine, beside the address.
    commands: Commands,
    probes: Option<Socket>,
}

enum Commands {
    At(Socket),
    /// There is no directory for it.
    NoDirectory,
    Without,
}

/// What serves the interface.
pub(crate) struct AdminServers {
    address: Option<Server>,
    commands: Option<Server>,
    probes: Option<Server>,
}

/// How long the process stays for the last responses of the interface.
const LAST_RESPONSES: Duration = Duration::from_secs(2);

/// What a successor finds the sockets by, and threads are called.
const ADMIN: &str = "admin";
const COMMANDS: &str = "admin-unix";
const PROBES: &str = "probes";

/// The addresses that a configuration names for it, each with what finds its socket.
pub(crate) fn addresses_of(config: &Config) -> Vec<(&'static str, ListenAddress)> {
    let Some(Admin { address, socket, probes, .. }) = &config.admin else { return Vec::new() };
    let commands = match socket {
        AdminSocket::At(path) => Some((COMMANDS, ListenAddress::Unix(path.clone()))),
        AdminSocket::Auto | AdminSocket::Off => None,
    };
    let probes = probes.clone().map(|probes| (PROBES, probes));
    [Some((ADMIN, address.clone())), commands, probes].into_iter().flatten().collect()
}

impl AdminSockets {
    /// Takes those that another process has left, and binds the others.
    pub(crate) fn bind(
        config: &Config,
        inherited: &mut Inherited,
        log: &Log,
    ) -> Result<AdminSockets, Failure> {
        let Some(Admin { address, socket, probes, .. }) = &config.admin else {
            return Ok(AdminSockets { address: None, commands: Commands::Without, probes: None });
        };
        let mut bind = |role: &'static str, address: &ListenAddress| {
            let (bind, what): (fn(&_) -> _, _) = match role {
                PROBES => (Socket::bind, FOR_PROBES),
                _ => (Socket::bind_private, " for the admin interface"),
            };
            let failed = |error| {
                let (address, file) = (address.to_string(), String::new());
                Failure::Bind { address, what, file, error }
            };
            inherited.socket(role, address, bind).map_err(failed)
        };
        let bound = bind(ADMIN, address)?;
        let probes = probes.as_ref().map(|address| bind(PROBES, address)).transpose()?;
        let commands = match socket {
            AdminSocket::At(path) => {
                Commands::At(bind(COMMANDS, &ListenAddress::Unix(path.clone()))?)
            }
            AdminSocket::Auto if !matches!(address, ListenAddress::Unix(_)) => {
                bind_standard(inherited, log)
            }
            AdminSocket::Auto | AdminSocket::Off => Commands::Without,
        };
        Ok(AdminSockets { address: Some(bound), commands, probes })
    }

    pub(crate) fn addresses(&self) -> AdminAddresses {
        let of = |socket: &Option<Socket>| socket.as_ref().map(|it| it.address().clone());
        let AdminSockets { address, commands, probes } = self;
        let commands = match commands {
            Commands::At(socket) => CommandSocket::At(socket.address().clone()),
            Commands::NoDirectory => CommandSocket::NoDirectory,
            Commands::Without => CommandSocket::Without,
        };
        AdminAddresses { address: of(address), commands, probes: of(probes) }
    }

    /// Serves at all of them.
    pub(crate) fn serve(self, interface: &Interface) -> io::Result<AdminServers> {
        let AdminSockets { address, commands, probes } = self;
        let serve = |name, socket: Option<Socket>| {
            socket.map(|socket| interface.serve(name, socket)).transpose()
        };
        let commands = match commands {
            Commands::At(socket) => Some(socket),
            Commands::NoDirectory | Commands::Without => None,
        };
        Ok(AdminServers {
            address: serve(ADMIN, address)?,
            commands: serve(COMMANDS, commands)?,
            probes: probes.map(|socket| interface.serve_probes(socket)).transpose()?,
        })
    }
}

impl AdminServers {
    /// Ends those that a successor needs the addresses of. Probes are served until the drain has ended.
    pub(crate) fn release(&mut self) {
        let AdminServers { address, commands, probes: _ } = self;
        [address.take(), commands.take()].into_iter().flatten().for_each(Server::end);
    }

    /// Their sockets, for a successor.
    pub(crate) fn lend(&self) -> io::Result<Vec<(&'static str, LentSocket)>> {
        let AdminServers { address, commands, probes } = self;
        let all = [(ADMIN, address), (COMMANDS, commands), (PROBES, probes)];
        let there = all.into_iter().filter_map(|(role, server)| Some((role, server.as_ref()?)));
        let lent = there.filter_map(|(role, server)| Some((role, server.lend()?)));
        lent.map(|(role, lent)| Ok((role, lent?))).collect()
    }

    /// Leaves their sockets to a successor that serves.
    pub(crate) fn leave(&mut self) {
        let AdminServers { address, commands, probes } = self;
        [address, commands, probes].into_iter().flatten().for_each(Server::leave);
    }

    /// Waits for a moment until the responses are sent that were being made when they have left their sockets: that to whoever
    /// has asked for the upgrade is one of them.
    pub(crate) async fn finished(&self) {
        let AdminServers { address, commands, probes } = self;
        let all = async {
            for server in [address, commands, probes].into_iter().flatten() {
                server.finished().await;
            }
        };
        // Whoever does not read its response in that time goes without.
        let _ = tokio::time::timeout(LAST_RESPONSES, all).await;
    }
}

/// The socket at the usual place. A gateway serves without it: another one may be there already.
fn bind_standard(inherited: &mut Inherited, log: &Log) -> Commands {
    let Some(path) = Surroundings::of_process().for_gateway() else { return Commands::NoDirectory };
    let address = ListenAddress::Unix(path.clone());
    let bound = inherited.socket(COMMANDS, &address, |address| {
        prepare(&path)?;
        Socket::bind_private(address)
    });
    let error = match bound {
        Ok(socket) => return Commands::At(socket),
        Err(error) => error,
    };
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => "another process uses it".to_owned(),
        _ => error.to_string(),
    };
    let path = path.display();
    let what = format!(
        "no Unix socket for commands such as `titan reload`: {path}: {why}; set `admin.socket` to another path, or to `off`"
    );
    log.tell(Event::new((LogArea::Start, LogLevel::Warn), "no_command_socket", what));
    Commands::Without
}

/// Makes the directory, where that is missing: other sockets may be put there, too.
fn prepare(path: &Path) -> io::Result<()> {
    let Some(directory) = path.parent() else { return Ok(()) };
    match DirBuilder::new().mode(0o755).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
