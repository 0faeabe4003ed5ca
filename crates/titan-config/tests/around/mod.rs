//! Surroundings of a configuration that a test writes down: files and variables.

use std::path::{Component, Path, PathBuf};
use titan_config::{Composed, Document, Report, Surroundings};

/// Files by their paths, and variables by their names.
#[derive(Clone, Default)]
pub(crate) struct Around {
    pub(crate) files: Vec<(String, String)>,
    pub(crate) variables: Vec<(String, String)>,
    /// Documents of sources: that of a source, the name and the text.
    pub(crate) delivered: Vec<(String, String, String)>,
}

impl Around {
    /// These files.
    pub(crate) fn files(files: &[(&str, &str)]) -> Around {
        Around { files: owned(files), ..Around::default() }
    }

    /// What that text comes to here, as `titan.yaml`.
    pub(crate) fn read(&self, text: &str) -> Result<Composed, Report> {
        let main = Document {
            identity: PathBuf::from("titan.yaml"),
            ..Document::alone("titan.yaml", text)
        };
        Composed::read(main, &mut self.clone())
    }

    fn file(&self, file: &Path) -> Result<String, String> {
        let name = simple(file).display().to_string();
        let file = self.files.iter().find(|(path, _)| *path == name);
        file.map(|(_, text)| text.clone()).ok_or_else(|| "it does not exist".to_owned())
    }
}

pub(crate) fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

/// Without `..`, as a link-free file system reads it.
fn simple(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            part => path.push(part),
        }
        path
    })
}

impl Surroundings for Around {
    fn matching(&mut self, directory: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
        let pattern = directory.join(pattern);
        let name = pattern.display().to_string();
        let Some((before, after)) = name.split_once('*') else { return Ok(vec![pattern]) };
        let paths = self.files.iter().map(|(path, _)| path);
        let fits = |path: &&String| {
            let inside = path.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            inside.is_some_and(|inside| !inside.contains('/'))
        };
        let mut found: Vec<_> = paths.filter(fits).map(PathBuf::from).collect();
        found.sort();
        Ok(found)
    }

    fn document(&mut self, file: &Path) -> Result<Document, String> {
        let (text, identity) = (self.file(file)?, simple(file));
        let name = file.display().to_string();
        let directory = file.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Document { name, directory, identity, text })
    }

    fn variable(&mut self, name: &str) -> Result<Option<String>, String> {
        let value = self.variables.iter().find(|(known, _)| known == name);
        Ok(value.map(|(_, value)| value.clone()))
    }

    fn secret(&mut self, file: &Path) -> Result<String, String> {
        self.file(file)
    }

    fn delivered(&mut self, source: &str) -> Vec<Document> {
        let of_source = self.delivered.iter().filter(|(from, ..)| from == source);
        of_source.map(|(_, name, text)| Document::alone(name, text)).collect()
    }
}
