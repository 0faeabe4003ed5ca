//! Builds what is ours and finds what is installed.

use std::io;
use std::path::{Path, PathBuf};

pub use titan_bench::programs::{bench_directory, installed};
use titan_bench::programs::{
    built, cargo_build, first_version, installed_for_http3, own_directory, repository,
};

use crate::engine::Engine;
use crate::options::BuildOptions;
use crate::origin::Origin;
use crate::setup::Setup;

/// The programs of a run, built and found.
pub struct Programs {
    /// Where floor, load and the origins are: beside this one.
    own: PathBuf,
    origin: Origin,
    engines: Vec<Found>,
}

/// An engine of this run.
struct Found {
    engine: Engine,
    /// It is the one for scenarios of HTTP/3.
    http3: bool,
    path: PathBuf,
    /// As it reports it.
    version: String,
}

impl Programs {
    /// Builds this workspace's programs and Titan as far as needed, and finds the peers.
    pub fn prepare(
        options: &BuildOptions,
        engines: &[Engine],
        setups: &[Setup],
    ) -> io::Result<Self> {
        let own = own_directory()?;
        if !options.no_build {
            cargo_build(Path::new(env!("CARGO_MANIFEST_DIR")), &["--release", "--bins"])?;
            options.origin.build(&own)?;
        }
        let mut found: Vec<Found> = Vec::new();
        for (&setup, &engine) in setups.iter().flat_map(|it| engines.iter().map(move |e| (it, e))) {
            if setup.suits(engine) && !found.iter().any(|it| it.serves(engine, setup)) {
                found.push(Found::look_for(engine, setup, &own, options)?);
            }
        }
        Ok(Self { own, origin: options.origin, engines: found })
    }

    /// The executable of one of this run's engines.
    pub fn path(&self, engine: Engine, setup: Setup) -> &Path {
        &self.entry(engine, setup).path
    }

    /// What that executable says of its version.
    pub fn version(&self, engine: Engine, setup: Setup) -> &str {
        &self.entry(engine, setup).version
    }

    /// The service that this run's engines forward to, unless a scenario needs another one.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    pub fn origin_path(&self, origin: Origin) -> PathBuf {
        origin.program(&self.own)
    }

    pub fn load(&self) -> PathBuf {
        self.own.join("load")
    }

    fn entry(&self, engine: Engine, setup: Setup) -> &Found {
        let found = self.engines.iter().find(|found| found.serves(engine, setup));
        found.expect("only what this run has is asked for: prepare() was given all of it")
    }
}

impl Found {
    fn look_for(
        engine: Engine,
        setup: Setup,
        own: &Path,
        options: &BuildOptions,
    ) -> io::Result<Self> {
        let http3 = setup == Setup::Http3;
        let path = match engine {
            Engine::Floor => own.join("floor"),
            Engine::Nginx | Engine::Haproxy if http3 => installed_for_http3(engine.name())?,
            Engine::Nginx | Engine::Haproxy => installed(engine.name())?,
            Engine::Bare | Engine::Titan => titan(options)?,
        };
        let version = version(engine, &path)?;
        Ok(Self { engine, http3, path, version })
    }

    fn serves(&self, engine: Engine, setup: Setup) -> bool {
        self.engine == engine && self.http3 == (setup == Setup::Http3)
    }
}

fn titan(options: &BuildOptions) -> io::Result<PathBuf> {
    if let Some(path) = &options.titan {
        return std::fs::canonicalize(path)
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display())));
    }
    if !options.no_build {
        cargo_build(&repository(), &["--release", "--package", "titan"])?;
    }
    Ok(built("release", "titan"))
}

fn version(engine: Engine, path: &Path) -> io::Result<String> {
    match engine {
        Engine::Floor => Ok(env!("CARGO_PKG_VERSION").to_owned()),
        Engine::Nginx | Engine::Haproxy => first_version(path, "-v"),
        Engine::Bare | Engine::Titan => first_version(path, "--version"),
    }
}
