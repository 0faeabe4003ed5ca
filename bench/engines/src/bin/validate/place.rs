//! Where everything lies: the repository, and in the target folder what a run writes.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};

use crate::commit::{self, Commit};
use crate::table::Table;

/// What is read of a section's output: its end, so long at most.
const MAX_PRINTED: u64 = 16 << 20;

/// The folders.
pub struct Place {
    pub root: PathBuf,
    /// What cargo builds into.
    pub target: PathBuf,
    /// For what this program writes.
    pub folder: PathBuf,
}

impl Place {
    /// Those of the repository that this program was started in.
    pub fn here() -> io::Result<Self> {
        let root = commit::root()?;
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(target) => std::path::absolute(target)?,
            None => root.join("target"),
        };
        let folder = target.join("validation");
        for name in ["raw", "state"] {
            fs::create_dir_all(folder.join(name))?;
        }
        Ok(Self { root, target, folder })
    }

    /// Two runs at once would measure each other.
    pub fn lock(&self) -> io::Result<File> {
        let file = File::create(self.folder.join("lock"))?;
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        locked.map_err(|_| io::Error::other("another run is under way"))?;
        Ok(file)
    }

    /// The folder with what sections print and measure.
    fn raw(&self) -> PathBuf {
        self.folder.join("raw")
    }

    /// The file with the outcomes of a commit.
    pub fn state(&self, commit: &Commit) -> PathBuf {
        self.folder.join("state").join(format!("{}.json", commit.id))
    }

    /// An empty file for what a section prints, and an empty folder for its results.
    pub fn prepare(&self, id: &str) -> io::Result<File> {
        let results = self.raw().join(id);
        if results.exists() {
            fs::remove_dir_all(&results)?;
        }
        fs::create_dir_all(&results)?;
        File::create(self.log(id))
    }

    /// What a section has printed, without letters that move a terminal's cursor.
    pub fn printed(&self, id: &str) -> io::Result<String> {
        let mut log = File::open(self.log(id))?;
        let length = log.metadata()?.len();
        log.seek(SeekFrom::Start(length.saturating_sub(MAX_PRINTED)))?;
        let mut bytes = Vec::new();
        log.take(MAX_PRINTED).read_to_end(&mut bytes)?;
        let is_text = |letter: &char| !letter.is_control() || matches!(letter, '\n' | '\t');
        Ok(String::from_utf8_lossy(&bytes).chars().filter(is_text).collect())
    }

    /// The results of a section that are CSV, with the names of their files.
    pub fn tables(&self, id: &str) -> io::Result<Vec<(String, Table)>> {
        let mut tables = Vec::new();
        for entry in fs::read_dir(self.raw().join(id))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "csv") {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                tables.push((name, Table::parse(&fs::read_to_string(&path)?)));
            }
        }
        tables.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(tables)
    }

    fn log(&self, id: &str) -> PathBuf {
        self.raw().join(format!("{id}.log"))
    }
}
