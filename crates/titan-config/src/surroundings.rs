//! What a configuration takes from its surroundings: files to include, variables, secrets. This crate reads none of it
//! itself.

use std::path::{Path, PathBuf};

/// A file of a configuration, as it was found.
#[derive(Clone, Debug)]
pub struct Document {
    /// What messages call it.
    pub name: String,
    /// Its directory, from that of the first file: what it names starts there.
    pub directory: PathBuf,
    /// What tells it from every other file, however it is named.
    pub identity: PathBuf,
    /// What it says.
    pub text: String,
}

impl Document {
    /// A text that no file has.
    pub fn alone(name: &str, text: &str) -> Document {
        Document {
            name: name.to_owned(),
            directory: PathBuf::new(),
            identity: PathBuf::new(),
            text: text.to_owned(),
        }
    }
}

/// Where a configuration is read. Paths start at the directory of its first file; errors say in words what is wrong.
pub trait Surroundings {
    /// The files that fit a pattern that starts at `directory`, sorted; a pattern without wildcards fits the file of that
    /// name, whether it is there or not.
    fn matching(&mut self, directory: &Path, pattern: &str) -> Result<Vec<PathBuf>, String>;

    /// A file to include.
    fn document(&mut self, file: &Path) -> Result<Document, String>;

    /// A variable of the environment; `None` if it is not set.
    fn variable(&mut self, name: &str) -> Result<Option<String>, String>;

    /// The content of a file that is a value.
    fn secret(&mut self, file: &Path) -> Result<String, String>;

    /// The documents of a source, in their order, which is always the same. They are in no directory.
    fn delivered(&mut self, source: &str) -> Vec<Document>;

    /// Nothing more will be asked for.
    fn complete(&mut self) {}
}

/// Nothing around: a text on its own.
pub(crate) struct Alone;

const ALONE: &str = "this configuration is read on its own, without files and variables around it";

impl Surroundings for Alone {
    fn matching(&mut self, _: &Path, _: &str) -> Result<Vec<PathBuf>, String> {
        Err(ALONE.to_owned())
    }

    fn document(&mut self, _: &Path) -> Result<Document, String> {
        Err(ALONE.to_owned())
    }

    fn variable(&mut self, _: &str) -> Result<Option<String>, String> {
        Err(ALONE.to_owned())
    }

    fn secret(&mut self, _: &Path) -> Result<String, String> {
        Err(ALONE.to_owned())
    }

    fn delivered(&mut self, _: &str) -> Vec<Document> {
        Vec::new()
    }
}
