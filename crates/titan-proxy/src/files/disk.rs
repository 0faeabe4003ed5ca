//! Opening files below a root, and nothing else.
//!
//! The kernel resolves names with openat2(2) and `RESOLVE_BENEATH`: neither `..` nor a symbolic link leads out of the
//! root, whatever is renamed meanwhile. On a kernel without it no files are served; no other way would be as safe.
//!
//! Files are opened and examined on the worker. That takes microseconds if the kernel has the data in memory, and as
//! long as the disk takes if not: docs/decisions/0016-files.md weighs that.

use rustix::fs::{Mode, OFlags, ResolveFlags, Stat, fstat, open, openat2};
use rustix::io::{Errno, retry_on_intr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use titan_http::coding::Coding;
use titan_io::error::{Error, Kind};
use xxhash_rust::xxh3::xxh3_64;

/// A root that is open for the time of a request.
pub(super) struct Root(OwnedFd);

/// What has a name.
pub(super) enum Lookup {
    /// A regular file.
    File(OpenFile),
    /// A directory.
    Directory,
    /// Nothing, or nothing that is served: a device, a pipe, what lies outside.
    Nothing,
}

/// A regular file.
pub(super) struct OpenFile {
    pub(super) fd: OwnedFd,
    pub(super) length: u64,
    pub(super) state: State,
}

/// What tells a file in one state from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    length: u64,
    inode: u64,
    seconds: i64,
    nanoseconds: u64,
}

/// How often a name is looked up anew when something was renamed meanwhile.
const ATTEMPTS: usize = 16;

impl Root {
    pub(super) fn open(path: &Path) -> Result<Root, Error> {
        let opened = open_root(path).map_err(|errno| match errno {
            Errno::NOENT | Errno::NOTDIR => Kind::NoFile,
            Errno::ACCESS => Kind::FileForbidden,
            _ => Kind::FileUnreadable,
        })?;
        Ok(Root(opened))
    }

    /// Looks for a name; an empty one is that of the root.
    pub(super) fn find(&self, name: &[u8]) -> Result<Lookup, Error> {
        let opened = match self.open_below(name) {
            Ok(opened) => opened,
            Err(Errno::ACCESS) => return Err(Kind::FileForbidden.into()),
            Err(
                // Nothing there.
                Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL
                // A link outwards, or in circles.
                | Errno::XDEV | Errno::LOOP
                // A socket, or a device without anything behind it.
                | Errno::NXIO | Errno::NODEV,
            ) => return Ok(Lookup::Nothing),
            Err(_) => return Err(Kind::FileUnreadable.into()),
        };
        let stat = fstat(&opened).map_err(|_| Kind::FileUnreadable)?;
        Ok(match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
            rustix::fs::FileType::RegularFile => {
                let state = State::of(&stat);
                Lookup::File(OpenFile { fd: opened, length: state.length, state })
            }
            rustix::fs::FileType::Directory => Lookup::Directory,
            _ => Lookup::Nothing,
        })
    }

    /// Never waits for the other end of a pipe, and makes no terminal the process's own.
    fn open_below(&self, name: &[u8]) -> Result<OwnedFd, Errno> {
        let name = if name.is_empty() { b"." } else { name };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut result = Err(Errno::AGAIN);
        for _ in 0..ATTEMPTS {
            result = retry_on_intr(|| openat2(self.0.as_fd(), name, flags, Mode::empty(), resolve));
            if !matches!(result, Err(Errno::AGAIN)) {
                break;
            }
        }
        result
    }
}

/// Why files below that root cannot be served.
pub(crate) fn check_root(path: &Path) -> Result<(), String> {
    let opened = open_root(path).map_err(|errno| match errno {
        Errno::NOTDIR => "it is not a directory".to_owned(),
        errno => format!("it cannot be opened: {}", std::io::Error::from(errno)),
    })?;
    match Root(opened).open_below(b"") {
        Err(errno @ (Errno::NOSYS | Errno::PERM)) => {
            let why = std::io::Error::from(errno);
            Err(format!(
                "the kernel does not have or does not allow openat2 (Linux 5.6 or newer is needed): {why}"
            ))
        }
        Err(errno) => Err(format!("it cannot be read: {}", std::io::Error::from(errno))),
        Ok(_) => Ok(()),
    }
}

fn open_root(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    retry_on_intr(|| open(path, flags, Mode::empty()))
}

impl State {
    #[expect(
        clippy::useless_conversion,
        reason = "the types of the fields are those of the platform"
    )]
    fn of(stat: &Stat) -> State {
        State {
            length: u64::try_from(stat.st_size).unwrap_or(0),
            inode: stat.st_ino.into(),
            seconds: stat.st_mtime.into(),
            nanoseconds: stat.st_mtime_nsec.into(),
        }
    }

    /// A strong entity tag: another file, another length, another time and another coding each make another one. A
    /// hash, so that inodes are not exposed.
    pub(super) fn tag(&self, coding: Option<Coding>) -> String {
        let State { length, inode, seconds, nanoseconds } = self;
        let mut bytes = [0; 32];
        let numbers = [*length, *inode, seconds.cast_unsigned(), *nanoseconds];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let coding = coding.map_or("", Coding::name);
        let dash = if coding.is_empty() { "" } else { "-" };
        format!("\"{:016x}{dash}{coding}\"", xxh3_64(&bytes))
    }

    /// When the file was changed, in whole seconds. Where that is still to come, now; nothing for times before
    /// those that there are dates for.
    pub(super) fn modified(&self, now: SystemTime) -> Option<SystemTime> {
        let seconds = u64::try_from(self.seconds).ok()?;
        let now = now.duration_since(UNIX_EPOCH).ok()?.as_secs();
        UNIX_EPOCH.checked_add(Duration::from_secs(seconds.min(now)))
    }
}
