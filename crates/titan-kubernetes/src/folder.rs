//! The folder with certificates and keys, which nobody else may look into.

use crate::credentials::Vault;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The folder. It is gone when this is dropped.
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes it; whatever is at that place is an error: somebody else could read what is written there.
    pub(crate) fn make(path: &Path) -> io::Result<Folder> {
        DirBuilder::new().mode(0o700).create(path)?;
        Ok(Folder { path: path.to_owned() })
    }

    /// Writes files that are not there yet. Their names say what is in them, so that those that are there are the same.
    pub(crate) fn write(&self, vault: &Vault) -> io::Result<()> {
        for (name, bytes) in vault.files() {
            let path = self.path.join(name);
            if path.exists() {
                continue;
            }
            let unfinished = self.path.join(format!("{name}.new"));
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&unfinished)?;
            file.write_all(bytes)?;
            fs::rename(&unfinished, &path)?;
        }
        Ok(())
    }

    /// Removes files that nothing names any more.
    pub(crate) fn keep(&self, vault: &Vault) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let is_named =
                entry.file_name().to_str().is_some_and(|name| vault.files().contains_key(name));
            if !is_named {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
