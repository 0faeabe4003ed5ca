//! Reading the configuration file.

use crate::delivered::{DocumentName, Texts};
use crate::documents::{Disk, Origins, Parsed};
use crate::failure::Failure;
use crate::regular_file::{self, FileState, state_of};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use titan_admin::orders::Document;
use titan_admin::{RevocationStore, RevocationStoreError};
use titan_config::bounds::MAX_FILE;
use titan_config::{Config, JwtRevocations, Resolved};
use titan_proxy::{BadCredentials, Files};

/// What stands for standard input in place of a file.
const STANDARD_INPUT: &str = "-";

/// What messages call the file.
pub(crate) fn name_of(file: &Path) -> String {
    match is_standard_input(file) {
        true => "standard input".to_owned(),
        false => file.display().to_string(),
    }
}

/// Reads and checks a file, or standard input. What that names starts at the working directory.
pub(crate) fn read(file: &Path) -> Result<Config, Failure> {
    read_whole(file).1.map(|parsed| parsed.config)
}

/// The same, with what it was made of; and what was looked at, also where something is wrong with it.
pub(crate) fn read_whole(file: &Path) -> (Origins, Result<Parsed, Failure>) {
    read_with(file, &Texts::new())
}

/// The same, where sources have delivered that.
pub(crate) fn read_with(file: &Path, delivered: &Texts) -> (Origins, Result<Parsed, Failure>) {
    read_as((file, delivered), Disk::parse)
}

/// The same, with all that it says or leaves to defaults.
pub(crate) fn resolve(file: &Path) -> Result<Resolved, Failure> {
    read_as((file, &Texts::new()), Disk::resolve).1
}

fn read_as<T>(
    (file, delivered): (&Path, &Texts),
    make: impl Fn(&mut Disk, titan_config::Document) -> Result<T, Failure>,
) -> (Origins, Result<T, Failure>) {
    if is_standard_input(file) {
        return (Origins::default(), read_standard_input(file, make));
    }
    settled(|| {
        let mut disk = Disk::around(folder_of(file)).delivered(delivered);
        let made = match disk.main(file) {
            Ok(main) => make(&mut disk, main),
            Err(error) => Err(cannot_read(file, &error)),
        };
        (disk.into_origins(), made)
    })
    .unwrap_or_else(|origins| {
        let error = "it, or a file that it names, changes while it is read; try again when it has \
            been written";
        (origins, Err(cannot_read(file, &io::Error::other(error))))
    })
}

fn read_standard_input<T>(
    file: &Path,
    make: impl Fn(&mut Disk, titan_config::Document) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let text = regular_file::read_to_bound(io::stdin().lock(), MAX_FILE);
    let text = text.and_then(regular_file::text).map_err(|error| cannot_read(file, &error))?;
    let main = titan_config::Document::alone(&name_of(file), &text);
    make(&mut Disk::around(folder_of(file)), main)
}

/// Reads until nothing has changed meanwhile: what was read is of one time then.
fn settled<T>(
    mut read: impl FnMut() -> (Result<Origins, Origins>, T),
) -> Result<(Origins, T), Origins> {
    let mut again = 0..ATTEMPTS;
    loop {
        let unsettled = match read() {
            (Ok(origins), outcome) => return Ok((origins, outcome)),
            (Err(unsettled), _) => unsettled,
        };
        if again.next().is_none() {
            return Err(unsettled);
        }
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "this thread has nothing else to do")]
fn pause() {
    thread::sleep(PAUSE);
}

/// How often a configuration is read again that has changed while it was read.
const ATTEMPTS: usize = 5;
/// How long what changes it has to end.
const PAUSE: Duration = Duration::from_millis(20);

/// That a file cannot be read, and why.
pub(crate) fn cannot_read(file: &Path, error: &io::Error) -> Failure {
    Failure::BadInput(format!("cannot read {}: {error}", name_of(file)))
}

/// Checks documents, which messages call by their names: the first one as if it stood in place of `file`. Where there are
/// others, it includes them, else what is on the disk. What sources have delivered is `delivered`: documents of theirs among
/// these have to be the same.
pub(crate) fn parse(
    documents: &[Document],
    file: &Path,
    delivered: &Texts,
) -> Result<Parsed, Failure> {
    read_new(documents, (file, delivered), Disk::parse)
}

/// The same, with all that they say or leave to defaults.
pub(crate) fn resolve_new(
    documents: &[Document],
    file: &Path,
    delivered: &Texts,
) -> Result<Resolved, Failure> {
    read_new(documents, (file, delivered), Disk::resolve)
}

/// Checks documents that were in force in place of `file`: the first one includes all of the others and nothing else,
/// whatever is on the disk by now.
pub(crate) fn parse_past(documents: &[Document], file: &Path) -> Result<Parsed, Failure> {
    read_past(documents, file, Disk::parse)
}

/// The same, with all that they say or leave to defaults.
pub(crate) fn resolve_past(documents: &[Document], file: &Path) -> Result<Resolved, Failure> {
    read_past(documents, file, Disk::resolve)
}

fn read_new<T>(
    documents: &[Document],
    (file, delivered): (&Path, &Texts),
    make: impl Fn(&mut Disk, titan_config::Document) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (files, others) = apart(documents);
    if let Some(name) = others.iter().find(|(name, text)| delivered.get(name) != Some(text)) {
        let name = &name.0;
        let what = format!("{name}: it comes from a source, and can be changed only there");
        return Err(Failure::BadInput(what));
    }
    let [Document { name, text }, included @ ..] = &files[..] else { return Err(nothing()) };
    let folder = folder_of(file);
    let disk = match included {
        [] => Disk::around(folder),
        included => Disk::holding(folder, included),
    };
    make(&mut disk.delivered(delivered), titan_config::Document::alone(name, text))
}

fn read_past<T>(
    documents: &[Document],
    file: &Path,
    make: impl Fn(&mut Disk, titan_config::Document) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (files, others) = apart(documents);
    let [Document { name, text }, included @ ..] = &files[..] else { return Err(nothing()) };
    let document = titan_config::Document::alone(name, text);
    let delivered = others.into_iter().collect();
    make(&mut Disk::holding(folder_of(file), included).delivered(&delivered), document)
}

/// Documents that are files, or stand for them, and those of sources.
fn apart(documents: &[Document]) -> (Vec<Document>, Vec<(DocumentName, Arc<str>)>) {
    let (mut files, mut others) = (Vec::new(), Vec::new());
    for document in documents {
        match DocumentName::parse(&document.name) {
            Some(name) => others.push((name, Arc::from(document.text.as_str()))),
            None => files.push(document.clone()),
        }
    }
    (files, others)
}

fn nothing() -> Failure {
    Failure::BadInput("there is no configuration".to_owned())
}

/// Reads a file with a certificate.
pub(crate) fn read_certificate(file: &Path) -> Result<Vec<u8>, Failure> {
    let name = file.display();
    regular_file::read(file, MAX_FILE)
        .map_err(|error| Failure::BadInput(format!("cannot read {name}: {error}")))
}

/// Reads the files that a configuration names. A relative path starts at the folder of `file`. One that cannot be
/// read is noted there.
pub(crate) fn read_named(config: &Config, file: &Path) -> Files {
    let mut files = Files::default();
    files.set_folder(folder_of(file).to_owned());
    // Thousands of upstreams may name the same one.
    let all: HashSet<_> = config.files().into_iter().collect();
    for named in all {
        let path = folder_of(file).join(named);
        match regular_file::read(&path, MAX_FILE) {
            Ok(bytes) => files.insert(named.to_owned(), bytes),
            Err(error) => {
                let reason = format!(
                    "it cannot be read: {error} (relative paths start at the directory of the file \
                        that names them)"
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
    let faults: Vec<_> = titan_proxy::check_credentials(config, &files)
        .into_iter()
        .map(|(place, bad)| (place, masked(bad, config)))
        .collect();
    match faults.is_empty() {
        true => Ok(files),
        false => Err(Failure::Credentials { files: config.file_names.clone(), faults }),
    }
}

/// The same without what was taken from files for values: a path can be one.
fn masked(bad: BadCredentials, config: &Config) -> BadCredentials {
    let BadCredentials { file, reason } = bad;
    let file = config.mask(file.display().to_string()).into();
    BadCredentials { file, reason: config.mask(reason) }
}

/// The file of the revoked tokens, where there is to be one. It is not opened yet.
pub(crate) fn revocations(config: &Config, file: &Path) -> Option<RevocationStore> {
    let JwtRevocations { file: named, capacity, .. } = config.jwt_revocations.as_ref()?;
    let capacity = capacity.get().try_into().unwrap_or(usize::MAX);
    Some(RevocationStore::new(&folder_of(file).join(named), capacity, config))
}

/// Looks whether it could be opened, and changes nothing.
pub(crate) fn check_revocations(config: &Config, file: &Path) -> Result<(), RevocationStoreError> {
    let named = config.jwt_revocations.as_ref().map(|it| folder_of(file).join(&it.file));
    named.map_or(Ok(()), |named| RevocationStore::check(&named))
}

/// Where something is that a configuration names: a relative path starts at the folder of `file`.
pub(crate) fn beside(file: &Path, named: &Path) -> PathBuf {
    folder_of(file).join(named)
}

/// What tells one state of the named files from the next, without reading them.
pub(crate) fn state_of_named(config: &Config, file: &Path) -> Vec<Option<FileState>> {
    config.files().iter().map(|named| state_of(&folder_of(file).join(named))).collect()
}

/// Whether it can be read once only.
pub(crate) fn is_standard_input(file: &Path) -> bool {
    [STANDARD_INPUT, "/dev/stdin"].iter().any(|it| file == Path::new(it))
}

/// Where relative paths in the file start.
pub(crate) fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_config::Surroundings;

    #[test]
    fn documents_include_each_other_without_the_disk() {
        let document = |name: &str, text: &str| Document { name: name.into(), text: text.into() };
        let main = "include: [conf.d/*.yaml, one.yaml]\nlisteners: [':80']\n";
        let documents = [
            document("/nowhere/[x]/titan.yaml", main),
            document("/nowhere/[x]/conf.d/a.yaml", "routes: { prefix: /a, respond: 204 }\n"),
            document("/nowhere/[x]/one.yaml", "routes: { prefix: /b, respond: 204 }\n"),
        ];
        let file = Path::new("/nowhere/[x]/titan.yaml");
        let Ok(parsed) = parse(&documents, file, &Texts::new()) else { panic!() };
        let file_of = |location| parsed.config.file_names.of(location);
        let files: Vec<_> = parsed.config.routes.iter().map(|it| file_of(it.location)).collect();
        assert_eq!(files, ["/nowhere/[x]/conf.d/a.yaml", "/nowhere/[x]/one.yaml"]);
        let names: Vec<_> = parsed.documents.texts.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, [documents[0].name.as_str(), "conf.d/a.yaml", "one.yaml"]);
        let Err(missing) = parse(&documents[..2], file, &Texts::new()) else { panic!() };
        assert!(missing.text(false).contains("it is not among the documents"));
    }

    #[test]
    fn what_was_in_force_under_another_name_is_whole_or_refused() {
        let folder = std::env::temp_dir().join(format!("titan-past-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("conf.d")).unwrap();
        let part = |name: &str| {
            let text = format!("routes: {{ prefix: /{name}, respond: 204 }}\n");
            std::fs::write(folder.join(format!("conf.d/{name}.yaml")), text).unwrap();
        };
        let file = folder.join("titan.yaml");
        let main = "include: [./conf.d/*.yaml]\nlisteners: [':80']\nroutes: { respond: 204 }\n";
        let name = folder.join("conf.d/new.yaml").display().to_string();
        let read = |documents: &[Document]| match parse_past(documents, &file) {
            Ok(parsed) => parsed.documents.texts,
            Err(failure) => panic!("{}", failure.text(false)),
        };
        part("b");
        part("a");
        let Ok(applied) = parse(&[Document { name, text: main.into() }], &file, &Texts::new())
        else {
            panic!()
        };
        let applied = applied.documents.texts;
        assert_eq!(applied.len(), 3);
        part("c");
        assert_eq!(read(&applied), applied, "what came meanwhile is no part of it");
        let mut lost = applied.to_vec();
        lost[0].text = main.replace("conf.d", "conf");
        for lost in [parse_past(&lost, &file).err(), resolve_past(&lost, &file).err()] {
            let lost = lost.expect("a part of it is not found").text(false);
            assert!(lost.contains("conf.d/a.yaml: no `include` finds it from /"), "{lost}");
        }

        let alone = Document { name: "new.yaml".into(), text: main.into() };
        assert_eq!(read(std::slice::from_ref(&alone))[..], [alone]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_public_of_a_configuration_has_no_secrets() {
        let folder = std::env::temp_dir().join(format!("titan-digests-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("titan.yaml");
        let read = |text: &str, brought: &str| {
            std::fs::write(&file, text).unwrap();
            std::fs::write(folder.join("brought"), brought).unwrap();
            read_whole(&file).1.map(|parsed| parsed.documents).ok().unwrap()
        };
        let plain = "{ listeners: [':80'], routes: { respond: { body: '${file:brought}' } } }\n";
        let [one, other] = ["1", "2"].map(|brought| read(plain, brought));
        assert_eq!(
            one.public_digest,
            titan_proxy::sha256(plain.as_bytes()),
            "`sha256sum` prints it"
        );
        assert_eq!(one.public_digest, other.public_digest);
        assert_ne!(one.digest, other.digest);
        let [one, other] = ["a", "b"].map(|letter| {
            let key = letter.repeat(64);
            read(&format!("{{ listeners: [':80'], routes: {{ respond: 204 }}, admin: {{ tokens: {{ ci: '{key}' }} }} }}\n"), "")
        });
        assert_eq!(one.public_digest, other.public_digest);
        assert_eq!(one.public_digest, titan_proxy::sha256(one.masked[0].text.as_bytes()));
        assert_ne!(one.digest, other.digest);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_was_in_force_is_the_same_by_whatever_path_and_from_wherever() {
        let folder = std::env::temp_dir().join(format!("titan-paths-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("conf.d")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        let here = folder.display();
        let main = format!(
            "include: [conf.d/*.yaml, ./one.yaml]\nlisteners: [':80']\n\
             routes: {{ respond: {{ status: 200, body: '${{file:{here}/a}}${{file:b}}' }} }}\n"
        );
        write("titan.yaml", &main);
        for (name, prefix) in [("conf.d/a.yaml", "a"), ("one.yaml", "b")] {
            write(name, &format!("routes: {{ prefix: /{prefix}, respond: 204 }}\n"));
        }
        write("a", "1");
        write("b", "2");
        let file = folder.join("titan.yaml");
        let up: PathBuf =
            std::env::current_dir().unwrap().components().skip(1).map(|_| "..").collect();
        let near = up.join(file.strip_prefix("/").unwrap());
        let [from_root, from_here] = [&file, &near].map(|file| {
            let Ok(parsed) = read_whole(file).1 else { panic!("{}", file.display()) };
            parsed.documents
        });
        assert_eq!(from_root.digest, from_here.digest);
        for (documents, file) in [(&from_root, &near), (&from_here, &file)] {
            match parse_past(&documents.texts, file) {
                Ok(past) => assert_eq!(past.documents.digest, documents.digest),
                Err(failure) => panic!("{}", failure.text(false)),
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_changes_while_it_is_read_is_read_again() {
        let folder = std::env::temp_dir().join(format!("titan-settled-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (file, included) = (folder.join("titan.yaml"), folder.join("more.yaml"));
        let write = |length: usize| std::fs::write(&file, "x".repeat(length)).unwrap();
        std::fs::write(&included, "").unwrap();
        write(1);
        // The file changes after it has been read, so that it may not fit what it includes.
        let read = |lengths: &mut dyn Iterator<Item = usize>, includes: bool| {
            let mut disk = Disk::around(&folder);
            let length = disk.main(&file).unwrap().text.len();
            lengths.next().into_iter().for_each(write);
            includes.then(|| disk.document(&included).unwrap());
            disk.complete();
            (disk.into_origins(), length)
        };
        let (mut twice, mut forever) = (2..4, 4..);
        assert_eq!(settled(|| read(&mut twice, true)).unwrap().1, 3);
        assert!(settled(|| read(&mut forever, true)).is_err());
        let before = forever.start - 1;
        assert_eq!(settled(|| read(&mut forever, false)).unwrap().1, before, "of one time");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
