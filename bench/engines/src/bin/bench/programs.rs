//! Builds what is ours and finds what is installed.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

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
            cargo_build(Path::new(env!("CARGO_MANIFEST_DIR")), &["--bins"])?;
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

/// The folder that holds definitions and results.
pub fn bench_directory() -> PathBuf {
    let engines = Path::new(env!("CARGO_MANIFEST_DIR"));
    engines.parent().unwrap_or(engines).to_path_buf()
}

/// The path of an installed program; daemons live in sbin, which may not be on PATH.
pub fn installed(name: &str) -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| {
            io::Error::other(format!("{name} is not installed: run scripts/install-peers.sh"))
        })
}

fn own_directory() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    own.parent()
        .map(Path::to_path_buf)
        .ok_or_else(|| io::Error::other("this program has no folder"))
}

fn titan(options: &BuildOptions) -> io::Result<PathBuf> {
    if let Some(path) = &options.titan {
        return std::fs::canonicalize(path)
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display())));
    }
    let root = bench_directory().join("..");
    if !options.no_build {
        cargo_build(&root, &["--package", "titan"])?;
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release/titan"))
}

fn cargo_build(workspace: &Path, arguments: &[&str]) -> io::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "--locked"]).args(arguments).current_dir(workspace);
    if command.status()?.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("cargo build failed in {}", workspace.display())))
}

fn version(engine: Engine, path: &Path) -> io::Result<String> {
    match engine {
        Engine::Floor => Ok(env!("CARGO_PKG_VERSION").to_owned()),
        Engine::Nginx | Engine::Haproxy => first_version(path, "-v"),
        Engine::Bare | Engine::Titan => first_version(path, "--version"),
    }
}

/// The first word with a digit in front or after a slash: `nginx/1.22.1`, `HAProxy version 2.6.12`.
fn first_version(path: &Path, flag: impl AsRef<OsStr>) -> io::Result<String> {
    let output = Command::new(path)
        .arg(flag)
        .output()
        .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
    // nginx answers on its standard error.
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let mut numbers = text.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
    let version = numbers.find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    Ok(version.unwrap_or("unknown").to_owned())
}
