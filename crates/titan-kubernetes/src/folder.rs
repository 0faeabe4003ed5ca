//! The folder with certificates and keys, which nobody else may look into.

use crate::credentials::Vault;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The folder. It stays when this is dropped: what is in force names files in it, and is served again after a restart.
pub(crate) struct Folder {
    path: PathBuf,
}

/// How long a file stays that nothing names any more: a process that takes over from this one may name it already.
const UNNAMED: Duration = Duration::from_secs(600);

impl Folder {
    /// Makes it, or takes the one that is there, if nobody else may look into it.
    pub(crate) fn open(path: &Path) -> io::Result<Folder> {
        DirBuilder::new().mode(0o700).recursive(true).create(path)?;
        let found = fs::symlink_metadata(path)?;
        let is_private = found.is_dir() && found.mode() & 0o077 == 0;
        match is_private {
            true => Ok(Folder { path: path.to_owned() }),
            false => Err(io::Error::other("others may look into it: it is for keys (chmod 700)")),
        }
    }

    /// Writes files that are not there yet. Their names say what is in them, so that those that are there are the same.
    pub(crate) fn write(&self, vault: &Vault) -> io::Result<()> {
        for (name, bytes) in vault.files() {
            let path = self.path.join(name);
            if path.exists() {
                continue;
            }
            let unfinished = self.path.join(format!("{name}.{}", std::process::id()));
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&unfinished)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)?;
        }
        Ok(())
    }

    /// Removes files that nothing has named for a while.
    pub(crate) fn keep(&self, vault: &Vault) -> io::Result<()> {
        let now = SystemTime::now();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let is_named =
                entry.file_name().to_str().is_some_and(|name| vault.files().contains_key(name));
            if is_named {
                // From now on its time counts, should nothing name it any more.
                File::open(entry.path())?.set_modified(now)?;
                continue;
            }
            let age = entry.metadata()?.modified().map(|then| now.duration_since(then));
            if age.is_ok_and(|age| age.is_ok_and(|age| age > UNNAMED)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn temporary(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("titan-folder-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_folder_into_which_others_look_is_refused() {
        let path = temporary("open");
        Folder::open(&path).unwrap();
        Folder::open(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o750)).unwrap();
        assert!(Folder::open(&path).is_err());
        fs::remove_dir(&path).unwrap();
    }

    #[test]
    fn files_that_were_named_a_moment_ago_stay() {
        let path = temporary("keep");
        let folder = Folder::open(&path).unwrap();
        let make = |name: &str, age: Duration| {
            let file = File::create(path.join(name)).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        };
        make("new.crt", Duration::ZERO);
        make("old.crt", UNNAMED + Duration::from_secs(1));
        folder.keep(&Vault::default()).unwrap();
        assert_eq!((path.join("new.crt").exists(), path.join("old.crt").exists()), (true, false));
        fs::remove_dir_all(&path).unwrap();
    }
}
