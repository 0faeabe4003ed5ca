//! The proxies that are measured: how each is configured and started.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use crate::keys::Files;
use crate::programs::{Programs, bench_directory};
use crate::reloads;
use crate::setup::Setup;
use crate::tokens;

/// One of the proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// The copying loop that ratios refer to.
    Floor,
    Nginx,
    Haproxy,
    /// Titan without the policy that a scenario is about: what costs of policies are over.
    Bare,
    Titan,
}

/// What an engine speaks, where it listens and what it forwards to.
pub struct Place {
    pub setup: Setup,
    /// What the names of its definitions end with.
    pub suffix: &'static str,
    pub listen: SocketAddr,
    pub origin: SocketAddr,
    pub store: Option<SocketAddr>,
    pub admin: SocketAddr,
    /// An empty directory of its own.
    pub directory: PathBuf,
}

impl Engine {
    /// In the order of the tables.
    pub const ALL: [Self; 5] = [Self::Floor, Self::Nginx, Self::Haproxy, Self::Bare, Self::Titan];

    /// As on the command line and in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Bare => "bare",
            Self::Titan => "titan",
        }
    }

    /// The command that runs it in the foreground at `place`, its configuration written.
    pub fn command(self, programs: &Programs, place: &Place) -> io::Result<Command> {
        let mut command = Command::new(programs.path(self, place.setup));
        match self {
            Self::Floor => {
                command.args([place.listen.to_string(), place.origin.to_string()]);
            }
            Self::Nginx => {
                let file = fill_in("nginx", "conf", place)?;
                command.arg("-p").arg(&place.directory).arg("-c").arg(file);
            }
            Self::Haproxy => {
                command.args(["-db", "-f"]).arg(definitions().join("haproxy-common.cfg"));
                command.arg("-f").arg(fill_in("haproxy", "cfg", place)?);
            }
            Self::Bare | Self::Titan => {
                command.arg("run").arg("--config").arg(fill_in("titan", "yaml", place)?);
            }
        }
        Ok(command)
    }

    /// How many descriptors of its own a client connection costs it, where each is answered in turn.
    pub fn sockets_per_client(self) -> usize {
        if self == Self::Floor { 2 } else { 1 }
    }
}

/// Writes the definition for the setup with its places filled in; the path of the copy.
fn fill_in(engine: &str, ending: &str, place: &Place) -> io::Result<PathBuf> {
    let definition = format!("{engine}{}.{ending}", place.suffix);
    let template = fs::read_to_string(definitions().join(&definition))?;
    let mut filled = template
        .replace("{{listen}}", &place.listen.to_string())
        .replace("{{origin}}", &place.origin.to_string())
        .replace("{{admin}}", &place.admin.to_string())
        .replace("{{definitions}}", &definitions().to_string_lossy());
    if let Some(store) = place.store {
        filled = filled.replace("{{store}}", &store.to_string());
    }
    let (name, routes) = reloads::routes();
    if filled.contains(name) {
        filled = filled.replace(name, &routes);
    }
    for (name, file) in tokens::key_files() {
        filled = filled.replace(name, &absolute(&file)?.to_string_lossy());
    }
    if let Some(key) = place.setup.key() {
        let Files { certificate, key, both } = key.files();
        let files = [("{{certificate}}", certificate), ("{{key}}", key), ("{{both}}", both)];
        for (name, file) in files {
            filled = filled.replace(name, &absolute(&file)?.to_string_lossy());
        }
    }
    let path = absolute(&place.directory)?.join(definition);
    fs::write(&path, filled)?;
    Ok(path)
}

fn definitions() -> PathBuf {
    bench_directory().join("definitions")
}

fn absolute(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}
