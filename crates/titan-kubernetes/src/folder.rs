//! The folder with certificates and keys, which nobody else may look into.

use crate::credentials::Vault;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The folder. It stays when this is dropped: what is in force names files in it, and is served again after a restart.
pub(crate) struct Folder {
    path: PathBuf,
    /// When this process wrote or took each file of it. One that has another time is of another process.
    own: BTreeMap<String, SystemTime>,
}

/// How long a file of another process stays that nothing names here: one that takes over from this one may name it already.
const UNNAMED: Duration = Duration::from_secs(600);

impl Folder {
    /// Makes it, or takes the one that is there, if nobody else may look into it.
    pub(crate) fn open(path: &Path) -> io::Result<Folder> {
        DirBuilder::new().mode(0o700).recursive(true).create(path)?;
        let found = fs::symlink_metadata(path)?;
        let is_private = found.is_dir() && found.mode() & 0o077 == 0;
        match is_private {
            true => Ok(Folder { path: path.to_owned(), own: BTreeMap::new() }),
            false => Err(io::Error::other("others may look into it: it is for keys (chmod 700)")),
        }
    }

    /// Writes files that are not there yet, and takes those that are. Their names say what is in them, so that those are the same.
    pub(crate) fn write(&mut self, vault: &Vault) -> io::Result<()> {
        for (name, bytes) in vault.files() {
            if self.take(name)? {
                continue;
            }
            let unfinished = self.path.join(format!("{name}.{}", std::process::id()));
            let written = write(&unfinished, bytes);
            let written = written.and_then(|()| fs::rename(&unfinished, self.path.join(name)));
            if let Err(error) = written {
                // Half a file on a full disk is in the way of others.
                let _ = fs::remove_file(&unfinished);
                return Err(error);
            }
            self.take(name)?;
        }
        Ok(())
    }

    /// Removes all files that are not among these. Those of other processes stay for a while.
    pub(crate) fn keep(&mut self, names: &BTreeSet<String>) -> io::Result<()> {
        let now = SystemTime::now();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if names.contains(&name) {
                self.take(&name)?;
                continue;
            }
            let Ok(written) = entry.metadata().and_then(|it| it.modified()) else { continue };
            let is_own = self.own.get(&name) == Some(&written);
            let is_old = now.duration_since(written).is_ok_and(|age| age > UNNAMED);
            if is_own || is_old {
                self.own.remove(&name);
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Has other processes know that this one names a file; whether it is there.
    fn take(&mut self, name: &str) -> io::Result<bool> {
        let path = self.path.join(name);
        let modified = || fs::metadata(&path).and_then(|it| it.modified());
        match modified() {
            Ok(written) if self.own.get(name) == Some(&written) => return Ok(true),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
        File::open(&path)?.set_modified(SystemTime::now())?;
        self.own.insert(name.to_owned(), modified()?);
        Ok(true)
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::Purpose;
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
    fn files_of_others_that_were_named_a_moment_ago_stay() {
        let path = temporary("keep");
        let mut folder = Folder::open(&path).unwrap();
        let make = |name: &str, age: Duration| {
            let file = File::create(path.join(name)).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        };
        make("new.crt", Duration::ZERO);
        make("old.crt", UNNAMED + Duration::from_secs(1));
        folder.keep(&BTreeSet::new()).unwrap();
        assert_eq!((path.join("new.crt").exists(), path.join("old.crt").exists()), (true, false));
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn own_files_go_at_once_unless_another_process_has_taken_them() {
        let path = temporary("own");
        let mut folder = Folder::open(&path).unwrap();
        let mut vault = Vault::default();
        for byte in 0..3 {
            vault.keep(&path, ("shop", Purpose::Policy), vec![byte]).unwrap();
        }
        let names: Vec<_> = vault.files().keys().cloned().collect();
        folder.write(&vault).unwrap();
        let mut other = Folder::open(&path).unwrap();
        other.take(&names[1]).unwrap();
        folder.keep(&BTreeSet::from([names[2].clone()])).unwrap();
        let there: Vec<_> = names.iter().map(|name| path.join(name).exists()).collect();
        assert_eq!(there, [false, true, true]);
        fs::remove_dir_all(&path).unwrap();
    }
}
