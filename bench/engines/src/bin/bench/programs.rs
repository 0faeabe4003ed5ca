//! Builds what is ours and finds what is installed.

use std::io;
use std::path::{Path, PathBuf};

pub use titan_bench::programs::{bench_directory, installed};
use titan_bench::programs::{built, cargo_build, first_version, own_directory, repository};

use crate::engine::Engine;
use crate::options::BuildOptions;
use crate::origin::Origin;

/// The programs of a run, built and found.
pub struct Programs {
    /// Where floor, load and the origins are: beside this one.
    own: PathBuf,
    origin: Origin,
    /// The engines of this run, with the version each reports.
    engines: Vec<(Engine, PathBuf, String)>,
}

impl Programs {
    /// Builds this workspace's programs and Titan as far as needed, and finds the peers.
    pub fn prepare(options: &BuildOptions, engines: &[Engine]) -> io::Result<Self> {
        let own = own_directory()?;
        if !options.no_build {
            cargo_build(Path::new(env!("CARGO_MANIFEST_DIR")), &["--release", "--bins"])?;
            options.origin.build(&own)?;
        }
        let mut found = Vec::new();
        for &engine in engines {
            let path = match engine {
                Engine::Floor => own.join("floor"),
                Engine::Nginx | Engine::Haproxy => installed(engine.name())?,
                Engine::Bare | Engine::Titan => titan(options)?,
            };
            let version = version(engine, &path)?;
            found.push((engine, path, version));
        }
        Ok(Self { own, origin: options.origin, engines: found })
    }

    /// The executable of one of this run's engines.
    pub fn path(&self, engine: Engine) -> &Path {
        &self.entry(engine).1
    }

    /// What that executable says of its version.
    pub fn version(&self, engine: Engine) -> &str {
        &self.entry(engine).2
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

    fn entry(&self, engine: Engine) -> &(Engine, PathBuf, String) {
        let found = self.engines.iter().find(|entry| entry.0 == engine);
        found.expect("only engines of this run are asked for: prepare() was given all of them")
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
