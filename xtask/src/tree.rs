//! The files of the repository, as the checks see them.

use std::fs;
use std::io;
use std::path::Path;

/// Every file that is part of the repository, sorted by path.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

/// One file.
#[derive(Debug)]
pub(crate) struct File {
    /// From the root, with slashes.
    pub(crate) path: String,
    /// `None` where it is not UTF-8.
    pub(crate) text: Option<String>,
    pub(crate) bytes: u64,
}

impl Tree {
    /// Reads everything below `root` that its `.gitignore` does not name.
    ///
    /// Not only what git has: a stray report shows before it is committed.
    pub(crate) fn read(root: &Path) -> io::Result<Tree> {
        let ignored = ignored(root)?;
        let mut tree = Tree::default();
        tree.read_folder(root, "", &ignored)?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str, ignored: &[String]) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if ignored.contains(&path) {
                continue;
            }
            match entry.file_type()? {
                kind if kind.is_dir() => {
                    self.read_folder(&entry.path(), &format!("{path}/"), ignored)?;
                }
                kind if kind.is_file() => self.files.push(File::new(path, fs::read(entry.path())?)),
                // A link leads to what is looked at in its own place, or out of the repository.
                _ => {}
            }
        }
        Ok(())
    }

    /// The file at `path`.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The file at `path`; where that ends with a slash, every file below it.
    pub(crate) fn under<'t>(&'t self, path: &'t str) -> impl Iterator<Item = &'t File> {
        let is_in = move |file: &&File| match path.ends_with('/') {
            true => file.path.starts_with(path),
            false => file.path == path,
        };
        self.files.iter().filter(is_in)
    }

    /// Files whose path ends like that, with their text.
    pub(crate) fn texts<'t>(
        &'t self,
        endings: &'t [&'t str],
    ) -> impl Iterator<Item = (&'t File, &'t str)> {
        let named =
            self.files.iter().filter(|file| endings.iter().any(|end| file.path.ends_with(end)));
        named.filter_map(|file| Some((file, file.text.as_deref()?)))
    }

    /// Whether `path` is a file, or a folder with files.
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    }
}

impl File {
    fn new(path: String, bytes: Vec<u8>) -> File {
        let length = bytes.len() as u64;
        File { path, text: String::from_utf8(bytes).ok(), bytes: length }
    }
}

/// The paths that `.gitignore` names. Each line is one path from the root; patterns are not needed here.
fn ignored(root: &Path) -> io::Result<Vec<String>> {
    let text = match fs::read_to_string(root.join(".gitignore")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        result => result?,
    };
    let paths = text.lines().map(|line| line.trim_matches('/').to_owned());
    Ok(paths.chain([".git".to_owned()]).filter(|path| !path.is_empty()).collect())
}

#[cfg(test)]
impl Tree {
    /// A tree of those files.
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let file =
            |(path, text): &(&str, &str)| File::new((*path).to_owned(), text.as_bytes().to_vec());
        Tree { files: files.iter().map(file).collect() }
    }
}
