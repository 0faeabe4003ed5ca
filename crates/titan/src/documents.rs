//! The files of a configuration: reading them from the disk with what they name, and telling when they change.

use crate::delivered::{self, DocumentName, Texts};
use crate::failure::Failure;
use crate::regular_file::{self, FileState};
use glob::{MatchOptions, Pattern};
use std::collections::BTreeMap;
use std::env::{self, VarError};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use titan_admin::orders::Document;
use titan_config::bounds::{MAX_FILE, MAX_INCLUDED, MAX_SECRET_FILE};
use titan_config::{Composed, Config, Document as Found, Masked, Resolved, Surroundings};
use titan_proxy::sha256;

/// A configuration, and what it was made of.
pub(crate) struct Parsed {
    pub(crate) config: Config,
    pub(crate) documents: Documents,
}

/// The files of a configuration, the one that was asked for first, then those that are included, in their order.
#[derive(Clone)]
pub(crate) struct Documents {
    /// What they say. What `${NAME}` and `${file:PATH}` bring is not in it.
    pub(crate) texts: Arc<[Document]>,
    /// The same with stars in place of secrets.
    pub(crate) masked: Arc<[Masked]>,
    /// Differs if anything does that they say, or that variables and files bring. It is told to nobody: from it and the rest,
    /// a secret that is easy to guess could be guessed.
    pub(crate) digest: [u8; 32],
    /// The SHA-256 of the file, with stars if it has secrets; of several, that of all of them.
    pub(crate) public_digest: [u8; 32],
    /// What the configuration comes to, as `titan check` prints it.
    pub(crate) summary: Arc<str>,
    /// What was looked at for them.
    pub(crate) origins: Origins,
}

impl Documents {
    /// Those of sources.
    pub(crate) fn delivered(&self) -> Texts {
        let named = self.texts.iter().filter_map(|Document { name, text }| {
            Some((DocumentName::parse(name)?, Arc::from(text.as_str())))
        });
        named.collect()
    }

    /// The same with others of sources in place of those.
    pub(crate) fn with_delivered(&self, delivered: &Texts) -> Vec<Document> {
        let is_file = |it: &&Document| DocumentName::parse(&it.name).is_none();
        let documents = delivered
            .iter()
            .map(|(name, text)| Document { name: name.to_string(), text: text.to_string() });
        self.texts.iter().filter(is_file).cloned().chain(documents).collect()
    }

    /// The documents of what no file says, the demo.
    pub(crate) fn of_demo(text: &str) -> Documents {
        Documents {
            texts: Arc::new([]),
            masked: Arc::new([]),
            digest: sha256(text.as_bytes()),
            public_digest: sha256(text.as_bytes()),
            summary: Arc::default(),
            origins: Origins::default(),
        }
    }
}

/// The files and patterns of which a configuration was read, and what they were like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origins {
    /// The one that was asked for first.
    files: Vec<(PathBuf, Option<FileState>)>,
    patterns: Vec<(String, Vec<PathBuf>)>,
}

impl Origins {
    /// The same files and patterns, and what they are like now.
    pub(crate) fn now(&self) -> Origins {
        let files = self.files.iter().map(|(file, _)| with_state(file.clone()));
        let patterns = self.patterns.iter().map(|(pattern, _)| {
            let found = found(pattern).unwrap_or_default();
            (pattern.clone(), found)
        });
        Origins { files: files.collect(), patterns: patterns.collect() }
    }

    /// Whether the file is there that was asked for.
    pub(crate) fn has_main(&self) -> bool {
        self.files.first().is_some_and(|(_, state)| state.is_some())
    }
}

fn with_state(file: PathBuf) -> (PathBuf, Option<FileState>) {
    let state = regular_file::state_of(&file);
    (file, state)
}

/// The disk and the environment as the surroundings of a configuration, with notes of what was asked for.
pub(crate) struct Disk {
    /// The directory of the file that was asked for, as whoever asked has written it.
    folder: PathBuf,
    /// The same from the root on.
    place: PathBuf,
    /// The files to include, where they are not those on the disk: in the order in which they were read from it. Their names are
    /// those of [`Disk::name_of`].
    held: Option<Vec<Document>>,
    /// What sources have delivered.
    delivered: Texts,
    origins: Origins,
    /// Whether something has changed while it was read, or while the rest was.
    has_changed: bool,
    texts: Vec<Document>,
    variables: BTreeMap<String, Option<String>>,
    secrets: BTreeMap<PathBuf, String>,
}

impl Disk {
    /// The surroundings of a file in that directory.
    pub(crate) fn around(folder: &Path) -> Disk {
        Disk {
            folder: folder.to_owned(),
            place: absolute(&folder.join(".")),
            held: None,
            delivered: Texts::new(),
            origins: Origins::default(),
            has_changed: false,
            texts: Vec::new(),
            variables: BTreeMap::new(),
            secrets: BTreeMap::new(),
        }
    }

    /// The same, where sources have delivered that.
    pub(crate) fn delivered(self, delivered: &Texts) -> Disk {
        Disk { delivered: delivered.clone(), ..self }
    }

    /// The same, where these documents are all that can be included.
    pub(crate) fn holding(folder: &Path, included: &[Document]) -> Disk {
        let disk = Disk::around(folder);
        let named = |Document { name, text }: &Document| {
            let name = disk.name_of(Path::new(name));
            Document { name, text: text.clone() }
        };
        let held = included.iter().map(named).collect();
        Disk { held: Some(held), ..disk }
    }

    /// Reads the file that is asked for.
    pub(crate) fn main(&mut self, file: &Path) -> io::Result<Found> {
        let text = self.read(file, MAX_FILE)?;
        let (name, directory) = (file.display().to_string(), PathBuf::new());
        Ok(Found { name, directory, identity: identity_of(file), text })
    }

    /// Makes a configuration of a text in these surroundings.
    pub(crate) fn parse(&mut self, main: Found) -> Result<Parsed, Failure> {
        let composed = self.compose(main)?;
        let masked = composed.masked();
        let documents = Documents {
            texts: self.texts.as_slice().into(),
            digest: self.digest(),
            public_digest: public_digest(&self.texts, &masked),
            masked: masked.into(),
            summary: composed.config.mask(composed.config.summary()).into(),
            origins: self.origins.clone(),
        };
        Ok(Parsed { config: composed.config, documents })
    }

    /// The same, with all that the files say or leave to defaults.
    pub(crate) fn resolve(&mut self, main: Found) -> Result<Resolved, Failure> {
        Ok(self.compose(main)?.into())
    }

    fn compose(&mut self, main: Found) -> Result<Composed, Failure> {
        self.texts.push(Document { name: main.name.clone(), text: main.text.clone() });
        let composed = Composed::read(main, self)?;
        match self.unused() {
            None => Ok(composed),
            Some(unused) => Err(Failure::BadInput(format!(
                "{}: no `include` finds it from {}, though it was a part of this configuration",
                unused.name,
                self.folder.display()
            ))),
        }
    }

    /// What was looked at; an error where not all of that was of one time.
    pub(crate) fn into_origins(self) -> Result<Origins, Origins> {
        if self.has_changed { Err(self.origins) } else { Ok(self.origins) }
    }

    fn digest(&self) -> [u8; 32] {
        let Disk { texts, variables, secrets, .. } = self;
        let mut all = Framed::default();
        texts.iter().for_each(|file| all.add(&file.text));
        for (name, value) in variables {
            all.add(name);
            all.add(if value.is_some() { "set" } else { "not set" });
            all.add(value.as_deref().unwrap_or_default());
        }
        secrets.values().for_each(|text| all.add(text));
        sha256(&all.0)
    }

    /// Reads a file whose changes count as changes of the configuration.
    fn read(&mut self, file: &Path, most: usize) -> io::Result<String> {
        let before = with_state(file.to_owned());
        let bytes = regular_file::read(file, most);
        self.has_changed |= regular_file::state_of(file) != before.1;
        self.origins.files.push(before);
        bytes.and_then(regular_file::text)
    }

    /// A document that is held, and which nothing has included.
    fn unused(&self) -> Option<&Document> {
        let is_used = |held: &&Document| self.texts.iter().any(|used| used.name == held.name);
        self.held.iter().flatten().find(|held| !is_used(held))
    }

    /// What an included file is called in a list of documents, which another process may read: its path from the directory of
    /// the main file on. So it is the same however that file was written when a process was started, and wherever.
    fn name_of(&self, file: &Path) -> String {
        let file = absolute(&self.place.join(file));
        file.strip_prefix(&self.place).unwrap_or(&file).display().to_string()
    }

    /// The documents that fit a pattern.
    fn fitting(&self, held: &[Document], pattern: &str) -> Result<Vec<PathBuf>, String> {
        let pattern = Pattern::new(&without_dots(pattern)).map_err(|error| error.to_string())?;
        let names = held.iter().map(|it| Path::new(&it.name));
        let fits = |name: &&Path| pattern.matches_path_with(&self.place.join(name), OPTIONS);
        Ok(names.filter(fits).map(Path::to_owned).collect())
    }

    /// The files that fit a pattern.
    fn find(&mut self, pattern: &str) -> Result<Vec<PathBuf>, String> {
        let found = found(pattern)?;
        self.origins.patterns.push((pattern.to_owned(), found.clone()));
        let from_folder = |file: PathBuf| match file.strip_prefix(&self.folder) {
            Ok(file) => file.to_owned(),
            Err(_) => file,
        };
        Ok(found.into_iter().map(from_folder).collect())
    }
}

/// What `sha256sum` prints for a file without secrets. One with secrets counts as it is shown.
fn public_digest(texts: &[Document], masked: &[Masked]) -> [u8; 32] {
    let public = |(file, masked): (&Document, &Masked)| match masked.secrets.is_empty() {
        true => file.text.clone(),
        false => masked.text.clone(),
    };
    let public: Vec<_> = texts.iter().zip(masked).map(public).collect();
    if let [file] = &public[..] {
        return sha256(file.as_bytes());
    }
    let mut all = Framed::default();
    public.iter().for_each(|file| all.add(file));
    sha256(&all.0)
}

/// Texts, each with its length in front of it, which keeps two lists of texts from being one text.
#[derive(Default)]
struct Framed(Vec<u8>);

impl Framed {
    fn add(&mut self, text: &str) {
        self.0.extend_from_slice(&(text.len() as u64).to_be_bytes());
        self.0.extend_from_slice(text.as_bytes());
    }
}

impl Surroundings for Disk {
    fn matching(&mut self, directory: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
        if !pattern.contains(['*', '?', '[']) {
            return Ok(vec![directory.join(pattern)]);
        }
        // An absolute pattern takes the place of the directory.
        let folder = if self.held.is_some() { &self.place } else { &self.folder };
        let directory = folder.join(directory);
        let directory = directory.to_str().ok_or("the name of its directory is not UTF-8")?;
        let pattern = Path::new(&Pattern::escape(directory)).join(pattern);
        let pattern = pattern.to_str().unwrap_or_default();
        match &self.held {
            Some(held) => self.fitting(held, pattern),
            None => self.find(pattern),
        }
    }

    fn document(&mut self, file: &Path) -> Result<Found, String> {
        let path = self.folder.join(file);
        let (name, kept_as) = (path.display().to_string(), self.name_of(file));
        let (identity, text) = match &self.held {
            None => (identity_of(&path), self.read(&path, MAX_FILE).map_err(|it| it.to_string())?),
            Some(held) => {
                let held = held.iter().find(|it| it.name == kept_as);
                let held = held.ok_or("it is not among the documents that were given")?;
                (path, held.text.clone())
            }
        };
        self.texts.push(Document { name: kept_as, text: text.clone() });
        let directory = file.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Found { name, directory, identity, text })
    }

    fn variable(&mut self, name: &str) -> Result<Option<String>, String> {
        let value = match env::var(name) {
            Ok(value) => Some(value),
            Err(VarError::NotPresent) => None,
            Err(VarError::NotUnicode(_)) => return Err("its value is not UTF-8".to_owned()),
        };
        self.variables.insert(name.to_owned(), value.clone());
        Ok(value)
    }

    fn secret(&mut self, file: &Path) -> Result<String, String> {
        let path = self.folder.join(file);
        let text = self.read(&path, MAX_SECRET_FILE).map_err(|error| error.to_string())?;
        // The digest goes by the order of these, which the directory of the main file is not to change.
        self.secrets.insert(file.to_owned(), text.clone());
        Ok(text)
    }

    fn delivered(&mut self, source: &str) -> Vec<Found> {
        let of_source = delivered::of_source(&self.delivered, source);
        let named: Vec<_> =
            of_source.map(|(name, text)| (name.to_string(), text.to_string())).collect();
        let texts = named.iter().cloned().map(|(name, text)| Document { name, text });
        self.texts.extend(texts);
        named.iter().map(|(name, text)| Found::alone(name, text)).collect()
    }

    /// One file is of one time. Several are if none has changed when the last one has been read.
    fn complete(&mut self) {
        let is_one = self.origins.files.len() < 2 && self.origins.patterns.is_empty();
        self.has_changed |= !is_one && self.origins.now() != self.origins;
    }
}

/// What tells a file from every other one, by whatever links it was found.
pub(crate) fn identity_of(file: &Path) -> PathBuf {
    std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned())
}

/// A path from the root on.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// A path without the `.` in it, which patterns and names have in different places.
fn without_dots(path: &str) -> String {
    let parts = Path::new(path).components().filter(|part| *part != Component::CurDir);
    parts.collect::<PathBuf>().display().to_string()
}

/// The files on the disk that fit a pattern, by name.
fn found(pattern: &str) -> Result<Vec<PathBuf>, String> {
    let found = glob::glob_with(pattern, OPTIONS).map_err(|error| error.to_string())?;
    // One more than may be included is enough to be told so.
    let found = found.take(MAX_INCLUDED + 1);
    found.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};
