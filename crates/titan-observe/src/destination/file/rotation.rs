//! The names of old files: `access.log.20261127T161500Z`, and `access.log.20261127T161500Z-1` for another of the same second.

use super::disk::Disk;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use time::OffsetDateTime;

/// How many files one second may end.
const MOST_IN_A_SECOND: u32 = 10_000;

/// When a file ended, and which of that second it is. Later ones are greater.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ended {
    /// `20261127T161500Z`.
    second: String,
    number: u32,
}

/// Gives a file the name of an old one. No other file is ever replaced.
pub(super) fn set_aside(disk: &mut impl Disk, path: &Path, now: SystemTime) -> io::Result<()> {
    let second = stamp(now);
    for number in 0..MOST_IN_A_SECOND {
        let ended = Ended { second: second.clone(), number };
        match disk.rename(path, &ended.of(path)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            result => return result,
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Deletes all old files of that one but the last ones. Other files are left alone, whatever they are.
pub(super) fn remove_old(path: &Path, keep: u16) -> Result<(), (PathBuf, io::Error)> {
    let folder = folder(path);
    let mut all = old_files(path).map_err(|error| (folder.to_owned(), error))?;
    all.sort_unstable_by(|one, other| other.cmp(one));
    for ended in all.iter().skip(keep.into()) {
        let old = ended.of(path);
        match fs::remove_file(&old) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err((old, error)),
            _ => {}
        }
    }
    Ok(())
}

/// The old files of that one.
fn old_files(path: &Path) -> io::Result<Vec<Ended>> {
    let Some(name) = path.file_name() else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for entry in fs::read_dir(folder(path))? {
        let entry = entry?;
        let ended = Ended::parse(&entry.file_name(), name);
        all.extend(ended.filter(|_| entry.file_type().is_ok_and(|kind| kind.is_file())));
    }
    Ok(all)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

impl Ended {
    /// The name of the old file.
    fn of(&self, path: &Path) -> PathBuf {
        let Ended { second, number } = self;
        let mut name = OsString::from(path);
        name.push(format!(".{second}"));
        if *number > 0 {
            name.push(format!("-{number}"));
        }
        name.into()
    }

    /// Of a name that is exactly one that [`Ended::of`] gives to a file of the other name.
    fn parse(name: &OsStr, of: &OsStr) -> Option<Ended> {
        let rest = name.as_bytes().strip_prefix(of.as_bytes())?.strip_prefix(b".")?;
        let rest = str::from_utf8(rest).ok()?;
        let (second, number) = match rest.split_once('-') {
            Some((second, number)) => (second, number.parse().ok().filter(|it| *it > 0)?),
            None => (rest, 0),
        };
        let ended = Ended { second: second.to_owned(), number };
        let is_same = ended.of(Path::new(of)).as_os_str() == name;
        (is_same && number < MOST_IN_A_SECOND && is_stamp(second)).then_some(ended)
    }
}

fn stamp(now: SystemTime) -> String {
    let now = OffsetDateTime::from(now);
    format!(
        "{:04}{:02}{:02}T{:02}{:02}{:02}Z",
        now.year(),
        u8::from(now.month()),
        now.day(),
        now.hour(),
        now.minute(),
        now.second()
    )
}

fn is_stamp(text: &str) -> bool {
    let form = b"00000000T000000Z";
    let is_alike = |(byte, form): (u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        _ => byte == *form,
    };
    text.len() == form.len() && text.bytes().zip(form).all(is_alike)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn names_tell_when_the_file_ended() {
        let at = UNIX_EPOCH + Duration::from_secs(1_795_796_100);
        assert_eq!(stamp(at), "20261127T161500Z");
        let ended = |number| Ended { second: stamp(at), number }.of(Path::new("/a/access.log"));
        assert_eq!(ended(0), Path::new("/a/access.log.20261127T161500Z"));
        assert_eq!(ended(12), Path::new("/a/access.log.20261127T161500Z-12"));
    }

    #[test]
    fn only_exact_names_are_those_of_old_files() {
        let parse = |name: &str| Ended::parse(OsStr::new(name), OsStr::new("a.log"));
        for (name, number) in [("a.log.20261127T161500Z", 0), ("a.log.20261127T161500Z-12", 12)] {
            assert_eq!(parse(name).unwrap().number, number);
        }
        for name in [
            "a.log",
            "a.log.",
            "a.log.1",
            "b.log.20261127T161500Z",
            "a.log20261127T161500Z",
            "a.log.20261127T161500",
            "a.log.20261127T161500Z.gz",
            "a.log.20261127T161500Z-",
            "a.log.20261127T161500Z-0",
            "a.log.20261127T161500Z-01",
            "a.log.20261127T161500Z-+1",
            "a.log.20261127T161500Z-10000",
            "a.log.20261127t161500Z",
            "a.log.2026112７T161500Z",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
    }

    #[test]
    fn later_files_are_greater() {
        let ended = |second: &str, number| Ended { second: second.to_owned(), number };
        assert!(ended("20261127T161500Z", 10) > ended("20261127T161500Z", 9));
        assert!(ended("20261127T161501Z", 0) > ended("20261127T161500Z", 9));
    }
}
