//! Reading the configuration file.

use crate::failure::Failure;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use titan_admin::orders::Document;
use titan_admin::{RevocationStore, RevocationStoreError};
use titan_config::bounds::MAX_FILE;
use titan_config::{Config, JwtRevocations};
use titan_proxy::{BadCredentials, Files, sha256};

/// What stands for standard input in place of a file.
const STANDARD_INPUT: &str = "-";

/// What messages call the file.
pub(crate) fn name_of(file: &Path) -> String {
    match is_standard_input(file) {
        true => "standard input".to_owned(),
        false => file.display().to_string(),
    }
}

/// A configuration, and what it was made of.
pub(crate) struct Parsed {
    pub(crate) config: Config,
    pub(crate) documents: Arc<[Document]>,
    /// The SHA-256 of the documents.
    pub(crate) digest: [u8; 32],
}

/// Reads and checks a file, or standard input. What that names starts at the working directory.
pub(crate) fn read(file: &Path) -> Result<Config, Failure> {
    read_whole(file).map(|parsed| parsed.config)
}

/// The same, with what it was made of.
pub(crate) fn read_whole(file: &Path) -> Result<Parsed, Failure> {
    let name = name_of(file);
    let text = read_text(file)
        .map_err(|error| Failure::BadInput(format!("cannot read {name}: {error}")))?;
    parse([Document { name, text }].into())
}

/// Checks documents, which messages call by their names.
pub(crate) fn parse(documents: Arc<[Document]>) -> Result<Parsed, Failure> {
    let [Document { name, text }] = &documents[..] else {
        return Err(Failure::BadInput("a configuration is one document".to_owned()));
    };
    let (config, digest) = (Config::parse(name, text)?, sha256(text.as_bytes()));
    Ok(Parsed { config, documents, digest })
}

/// Reads a file with a certificate.
pub(crate) fn read_certificate(file: &Path) -> Result<Vec<u8>, Failure> {
    let name = file.display();
    read_bounded(file).map_err(|error| Failure::BadInput(format!("cannot read {name}: {error}")))
}

/// Reads the files that a configuration names. A relative path starts at the folder of `file`. One that cannot be
/// read is noted there.
pub(crate) fn read_named(config: &Config, file: &Path) -> Files {
    let mut files = Files::default();
    files.set_folder(folder_of(file).to_owned());
    for named in config.files() {
        let path = folder_of(file).join(named);
        match read_bounded(&path) {
            Ok(bytes) => files.insert(named.to_owned(), bytes),
            Err(error) => {
                let reason = format!(
                    "it cannot be read: {error} (relative paths start at the directory of {})",
                    file.display()
                );
                files.insert_unreadable(named.to_owned(), BadCredentials { file: path, reason });
            }
        }
    }
    if config.needs_system_authorities() {
        // What of it can be read is what the system trusts; that it is nothing is found later.
        let found = rustls_native_certs::load_native_certs().certs;
        files.set_system_authorities(found.iter().map(|it| it.to_vec()).collect());
    }
    files
}

/// The same, where all of them have to be of use.
pub(crate) fn read_checked(config: &Config, file: &Path) -> Result<Files, Failure> {
    let files = read_named(config, file);
    let faults = titan_proxy::check_credentials(config, &files);
    match faults.is_empty() {
        true => Ok(files),
        false => Err(Failure::Credentials { file: name_of(file), faults }),
    }
}

/// Opens the file of the revoked tokens, where there is to be one.
pub(crate) fn open_revocations(
    config: &Config,
    file: &Path,
) -> Result<Option<RevocationStore>, RevocationStoreError> {
    let Some(JwtRevocations { file: named, capacity }) = &config.jwt_revocations else {
        return Ok(None);
    };
    let capacity = capacity.get().try_into().unwrap_or(usize::MAX);
    Ok(Some(RevocationStore::open(&folder_of(file).join(named), capacity, config)?))
}

/// Looks whether that could be done, and changes nothing.
pub(crate) fn check_revocations(config: &Config, file: &Path) -> Result<(), RevocationStoreError> {
    let named = config.jwt_revocations.as_ref().map(|it| folder_of(file).join(&it.file));
    named.map_or(Ok(()), |named| RevocationStore::check(&named))
}

/// What tells one state of the named files from the next, without reading them.
pub(crate) fn state_of_named(config: &Config, file: &Path) -> Vec<Option<FileState>> {
    config.files().iter().map(|named| state_of(&folder_of(file).join(named))).collect()
}

/// What tells one state of a file from the next. Behind a link it is that of the file that the link leads to.
pub(crate) fn state_of(file: &Path) -> Option<FileState> {
    let meta = std::fs::metadata(file).ok()?;
    let changed = (meta.ctime(), meta.ctime_nsec());
    Some(FileState { modified: meta.modified().ok()?, changed, inode: meta.ino() })
}

/// Whether it can be read once only.
pub(crate) fn is_standard_input(file: &Path) -> bool {
    file == Path::new(STANDARD_INPUT)
}

/// What a file was like. Rights that are set right show in `changed` alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    modified: SystemTime,
    changed: (i64, i64),
    inode: u64,
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

/// Never more than the configuration language takes: the path may lead to a device without end.
fn read_bounded(file: &Path) -> io::Result<Vec<u8>> {
    read_to_bound(File::open(file)?)
}

fn read_to_bound(file: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_FILE {
        return Err(io::Error::other(format!("it is larger than {MAX_FILE} bytes")));
    }
    Ok(bytes)
}

fn read_text(file: &Path) -> io::Result<String> {
    let bytes = match is_standard_input(file) {
        true => read_to_bound(io::stdin().lock())?,
        false => read_bounded(file)?,
    };
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::other(format!("it is not UTF-8 at byte {at}"))
    })
}
