//! `titan kubernetes`: the gateway with one source, a cluster, and a configuration that says no more than that.

use crate::cli::{KubernetesOptions, RunOptions};
use crate::failure::Failure;
use crate::run;
use serde_json::{Value, json};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use titan_kubernetes::controller::Connection;
use tokio::runtime::Builder;

/// Runs the gateway with what a cluster says.
pub(crate) fn run(options: &KubernetesOptions) -> Result<ExitCode, Failure> {
    check_connection(options)?;
    let directory = Directory::of(options)?;
    let main = directory.write(&main_document(options, &directory.path)?)?;
    run::run(&RunOptions::of(&main))
}

/// Whether it is known how to reach the API server: otherwise there is nothing to wait for.
fn check_connection(options: &KubernetesOptions) -> Result<(), Failure> {
    let connection = Connection { kubeconfig: options.kubeconfig.clone(), namespaces: Vec::new() };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let client = runtime.block_on(connection.client());
    client.map(drop).map_err(|unable| Failure::BadInput(unable.to_string()))
}

/// The state directory: what was in force last is in it, with its certificates and keys.
struct Directory {
    path: PathBuf,
    /// Whether it is gone with the process.
    is_temporary: bool,
}

impl Directory {
    /// The one that was asked for, or one for this process alone.
    fn of(options: &KubernetesOptions) -> Result<Directory, Failure> {
        let name = || std::env::temp_dir().join(format!("titan-kubernetes-{}", std::process::id()));
        let is_temporary = options.directory.is_none();
        let path = std::path::absolute(options.directory.clone().unwrap_or_else(name))?;
        let failed = |why: String| {
            let text = format!("cannot use the directory {}: {why}", path.display());
            Failure::Runtime(text)
        };
        let mut builder = DirBuilder::new();
        let made = builder.mode(0o700).recursive(!is_temporary).create(&path);
        made.map_err(|error| failed(error.to_string()))?;
        let found = fs::symlink_metadata(&path).map_err(|error| failed(error.to_string()))?;
        if found.mode() & 0o022 != 0 {
            return Err(failed("others may write into it: it is for keys (chmod 700)".to_owned()));
        }
        Ok(Directory { path, is_temporary })
    }

    /// Writes the file that the gateway starts with. A process that is to take over may read it at any time.
    fn write(&self, document: &str) -> Result<PathBuf, Failure> {
        let main = self.path.join("titan.json");
        let unfinished = self.path.join(format!("titan.json.{}", std::process::id()));
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            let mut file =
                options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
            file.write_all(document.as_bytes())?;
            fs::rename(&unfinished, &main)
        };
        write().map_err(|error| {
            Failure::Runtime(format!("cannot write {}: {error}", main.display()))
        })?;
        Ok(main)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.is_temporary {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A gateway has a listener and a route, be there no Gateway yet.
fn main_document(options: &KubernetesOptions, directory: &Path) -> Result<String, Failure> {
    let mut include = Vec::new();
    if let Some(config) = &options.config {
        include.push(std::path::absolute(config)?.display().to_string());
    }
    let socket = format!("unix:{}", directory.join("none.sock").display());
    let main = json!({
        "include": include,
        "state": { "directory": directory.display().to_string() },
        "sources": { "kubernetes": { "kubernetes": source(options)? } },
        "listeners": [{ "name": "kubernetes", "address": socket }],
        "routes": [{ "name": "kubernetes", "listeners": ["kubernetes"], "respond": 404 }],
    });
    Ok(main.to_string())
}

/// The source that the command line describes.
fn source(options: &KubernetesOptions) -> Result<Value, Failure> {
    let mut source = json!({
        "controller_name": options.controller_name,
        "namespaces": options.namespace,
    });
    match &options.address[..] {
        [network] if network.contains('/') => source["network"] = json!(network),
        addresses => source["addresses"] = json!(addresses),
    }
    if let Some(kubeconfig) = &options.kubeconfig {
        source["kubeconfig"] = json!(std::path::absolute(kubeconfig)?.display().to_string());
    }
    Ok(source)
}
