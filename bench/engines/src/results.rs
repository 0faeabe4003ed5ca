//! Where the results of a run go.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::Args;

use crate::programs::bench_directory;

/// The option that says so.
#[derive(Args)]
pub struct Results {
    /// Write the results into this folder, not into `results/` or, where a run leaves something out, `.run/`.
    #[arg(long = "results", value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl Results {
    /// The folder, which is there then. Only a run of everything, at full length, is a result to keep.
    pub fn folder(&self, is_complete: bool) -> io::Result<PathBuf> {
        let usual = || bench_directory().join(if is_complete { "results" } else { ".run" });
        let folder = self.folder.clone().unwrap_or_else(usual);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }
}
