//! The documents that are named on the command line: files, and directories of them.

use crate::config_file::cannot_read;
use crate::failure::Failure;
use crate::regular_file;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use titan_config::bounds::MAX_FILE;
use titan_sources::delivery::MAX_DOCUMENTS;

/// Directories inside each other.
const MAX_DEPTH: usize = 16;
/// How the files of documents end that are found in directories.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// What they say, by their names.
pub(super) fn read(paths: &[PathBuf]) -> Result<BTreeMap<String, String>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        match fs::metadata(path).map_err(|error| cannot_read(path, &error))?.is_dir() {
            true => find(path, &mut PathBuf::new(), (0, &mut found))?,
            false => {
                let name = PathBuf::from(path.file_name().unwrap_or_default());
                found.push((path.clone(), name));
            }
        }
    }
    let mut texts = BTreeMap::new();
    for (path, name) in found {
        let text = regular_file::read(&path, MAX_FILE).and_then(regular_file::text);
        let text = text.map_err(|error| cannot_read(&path, &error))?;
        let name = name.to_str().unwrap_or_default().to_owned();
        if texts.insert(name.clone(), text).is_some() {
            let what = format!("{}: another document is called {name:?} already", path.display());
            return Err(Failure::BadInput(what));
        }
    }
    Ok(texts)
}

/// Finds the documents in a directory, each with what it is called. Names that begin with a dot are those of editors and other programs.
fn find(
    directory: &Path,
    name: &mut PathBuf,
    (depth, found): (usize, &mut Vec<(PathBuf, PathBuf)>),
) -> Result<(), Failure> {
    let failed = |error| cannot_read(directory, &error);
    if depth > MAX_DEPTH || found.len() > MAX_DOCUMENTS {
        let what = format!("{}: there is too much below it", directory.display());
        return Err(Failure::BadInput(what));
    }
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let own = path.file_name().unwrap_or_default();
        if own.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        name.push(own);
        let is_document = path.extension().is_some_and(|it| ENDINGS.iter().any(|end| it == *end));
        if path.is_dir() {
            find(&path, name, (depth + 1, found))?;
        } else if is_document {
            found.push((path.clone(), name.clone()));
        }
        name.pop();
    }
    Ok(())
}
