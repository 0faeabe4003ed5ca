//! The gateways: how each is found, configured and started.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;
use titan_bench::launch::{Running, free_address, run_directory};
use titan_bench::programs::{
    bench_directory, built, cargo_build, first_version, own_directory, repository,
};

use crate::case::Protocol;
use crate::endpoints;
use crate::names::NAME;
use crate::options::Options;

/// One of the gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    Titan,
    Haproxy,
    Envoy,
    Nginx,
}

/// The programs of a run, built and found.
pub struct Programs {
    pub endpoint: PathBuf,
    gateways: Vec<(Engine, PathBuf, String)>,
}

/// What a gateway is configured for.
pub struct Place<'a> {
    pub protocol: Protocol,
    /// The three that there are at the beginning.
    pub endpoints: &'a [SocketAddr],
    /// The name server to ask for them, where they are known by name.
    pub names: Option<SocketAddr>,
}

impl Programs {
    /// Builds ours as far as needed, and finds the others.
    pub fn prepare(options: &Options) -> io::Result<Self> {
        let endpoint = own_directory()?.join("endpoint");
        if !options.no_build {
            endpoints::build(&endpoint)?;
        }
        let found = options.gateways().into_iter().map(|engine| {
            let path = match engine {
                Engine::Titan => titan(options)?,
                other => peer(other)?,
            };
            let version = first_version(&path, engine.version_option())?;
            Ok((engine, path, version))
        });
        Ok(Self { endpoint, gateways: found.collect::<io::Result<_>>()? })
    }

    /// What the gateway's executable says of its version.
    pub fn version(&self, engine: Engine) -> &str {
        &self.entry(engine).2
    }

    pub fn engines(&self) -> impl Iterator<Item = Engine> {
        self.gateways.iter().map(|entry| entry.0)
    }

    fn entry(&self, engine: Engine) -> &(Engine, PathBuf, String) {
        let found = self.gateways.iter().find(|entry| entry.0 == engine);
        found.expect("only gateways of this run are asked for: prepare() was given all of them")
    }
}

impl Engine {
    /// In the order of the tables.
    pub const ALL: [Self; 4] = [Self::Titan, Self::Haproxy, Self::Envoy, Self::Nginx];

    /// As on the command line and in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Titan => "titan",
            Self::Haproxy => "haproxy",
            Self::Envoy => "envoy",
            Self::Nginx => "nginx",
        }
    }

    fn version_option(self) -> &'static str {
        match self {
            Self::Titan | Self::Envoy => "--version",
            Self::Haproxy | Self::Nginx => "-v",
        }
    }

    /// Starts it, and waits until it listens.
    pub fn start(self, programs: &Programs, place: &Place<'_>) -> io::Result<Running> {
        let listen = free_address()?;
        let directory = fs::canonicalize(run_directory(self.name())?)?;
        let definition = self.definition(place.protocol);
        let template = fs::read_to_string(bench_directory().join("definitions").join(definition))?;
        let file = directory.join(definition);
        fs::write(&file, self.fill_in(&template, place, listen)?)?;
        let mut command = Command::new(&programs.entry(self).1);
        match self {
            Self::Titan => command.arg("run").arg("--config").arg(file),
            Self::Haproxy => command.args(["-db", "-f"]).arg(file),
            Self::Envoy => {
                command.args(["--disable-hot-restart", "--concurrency", "2"]);
                command.args(["--log-level", "warn", "-c"]).arg(file)
            }
            Self::Nginx => command.arg("-p").arg(&directory).arg("-c").arg(file),
        };
        let listens = |address| TcpStream::connect(address).is_ok();
        Running::start(command, None, listen, directory.join("log"), listens)
    }

    fn definition(self, protocol: Protocol) -> &'static str {
        match self {
            Self::Titan => "chaos-titan.yaml",
            Self::Haproxy => "chaos-haproxy.cfg",
            Self::Envoy => "chaos-envoy.yaml",
            Self::Nginx if protocol == Protocol::Grpc => "chaos-nginx-grpc.conf",
            Self::Nginx => "chaos-nginx.conf",
        }
    }

    fn fill_in(self, template: &str, place: &Place<'_>, listen: SocketAddr) -> io::Result<String> {
        let (is_h2, is_grpc) =
            (place.protocol != Protocol::Http1, place.protocol == Protocol::Grpc);
        let names = place.names.map_or_else(|| "127.0.0.1:53".to_owned(), |it| it.to_string());
        let filled = template
            .replace("{{listen}}", &listen.to_string())
            .replace("{{listen_port}}", &listen.port().to_string())
            .replace("{{admin}}", &free_address()?.to_string())
            .replace("{{names}}", &names)
            .replace("{{names_port}}", names.rsplit(':').next().unwrap_or_default())
            .replace("{{endpoints}}", &self.endpoints(place))
            .replace("{{discovery}}", if place.names.is_some() { "STRICT_DNS" } else { "STATIC" })
            .replace("{{version}}", if is_h2 { "2" } else { "1.1" })
            .replace("{{protocol}}", if is_h2 { "h2" } else { "h1" })
            .replace("{{codec}}", if is_h2 { "HTTP2" } else { "HTTP1" })
            .replace("{{options}}", if is_h2 { "http2" } else { "http" })
            .replace("{{proto}}", if is_h2 { "proto h2" } else { "" })
            .replace("{{clients}}", if is_grpc { "proto h2" } else { "" });
        Ok(filled)
    }

    /// The endpoints as its configuration has them.
    fn endpoints(self, place: &Place<'_>) -> String {
        let port = place.endpoints.first().map_or(0, SocketAddr::port);
        let addresses: Vec<String> = match place.names {
            None => place.endpoints.iter().map(SocketAddr::to_string).collect(),
            Some(_) => vec![format!("{NAME}:{port}")],
        };
        let each = addresses.iter().enumerate();
        match self {
            Self::Titan => format!("{addresses:?}"),
            Self::Haproxy if place.names.is_some() => {
                format!("server-template s 4 {NAME}:{port} resolvers names init-addr none")
            }
            Self::Haproxy => {
                let servers = each.map(|(number, address)| format!("server s{number} {address}"));
                servers.collect::<Vec<_>>().join("\n    ")
            }
            Self::Envoy => {
                let hosts = addresses.iter().filter_map(|address| address.rsplit_once(':'));
                let endpoint = |(host, port): (&str, &str)| {
                    format!(
                        "{{endpoint: {{address: {{socket_address: \
                         {{address: {host}, port_value: {port}}}}}}}}}"
                    )
                };
                hosts.map(endpoint).collect::<Vec<_>>().join(", ")
            }
            Self::Nginx => {
                let resolve = if place.names.is_some() { " resolve" } else { "" };
                let server =
                    |address| format!("server {address} max_fails=3 fail_timeout=3s{resolve};");
                addresses.iter().map(server).collect::<Vec<_>>().join("\n        ")
            }
        }
    }
}

/// What is in the short form is not measured: the gateway of the tests will do.
fn titan(options: &Options) -> io::Result<PathBuf> {
    if let Some(path) = &options.titan {
        return fs::canonicalize(path)
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display())));
    }
    let (profile, arguments): (_, &[&str]) = match options.short {
        // The package alone would be built with other features than for the tests.
        true => ("debug", &["--quiet", "--workspace", "--bin", "titan"]),
        false => ("release", &["--release", "--package", "titan"]),
    };
    if !options.no_build {
        cargo_build(&repository(), arguments)?;
    }
    Ok(built(profile, "titan"))
}

fn peer(engine: Engine) -> io::Result<PathBuf> {
    let path = built("chaos-peers", engine.name());
    if Path::new(&path).is_file() {
        return Ok(path);
    }
    let name = engine.name();
    Err(io::Error::other(format!("{name} is not there: run scripts/install-chaos-peers.sh")))
}
