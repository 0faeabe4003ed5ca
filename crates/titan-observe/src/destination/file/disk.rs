//! What is asked of the file system, so that tests can let it fail.

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, open as open_at, renameat_with};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

/// What is asked of the file system.
pub(in crate::destination) trait Disk {
    /// Opens a regular file to append to it; makes it if there is none.
    fn open(&mut self, path: &Path) -> io::Result<File>;
    /// Writes once. How many bytes were written.
    fn write(&mut self, file: &File, bytes: &[u8]) -> io::Result<usize>;
    /// Gives a file another name, which must be free.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
}

/// The one that there is.
#[derive(Clone, Copy, Debug)]
pub(in crate::destination) struct RealDisk;

/// What a path led to.
#[derive(Debug)]
pub(in crate::destination) enum Opened {
    /// A regular file.
    Regular(File),
    /// A FIFO, a terminal, or a device such as /dev/null: writing may take for ever, and does not block.
    Stream(File),
}

/// What files get that are made here; the mask of the process is taken off.
const MODE: Mode = Mode::from_raw_mode(0o640);

/// How often there is a look at the end of a file.
const LOOKS: usize = 4;

/// Opens a path to append to it; makes a file if there is nothing. Waits for nobody: a FIFO that no process reads is an error.
pub(in crate::destination) fn open(path: &Path) -> io::Result<Opened> {
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let file = File::from(open_at(path, flags, MODE).map_err(|error| explain(path, error.into()))?);
    let kind = file.metadata()?.file_type();
    match () {
        () if kind.is_file() => Ok(Opened::Regular(file)),
        () if kind.is_fifo() || kind.is_char_device() => Ok(Opened::Stream(file)),
        () => Err(io::Error::other("it is neither a file nor a FIFO nor a character device")),
    }
}

/// What an error says of a path that is no regular file.
fn explain(path: &Path, error: io::Error) -> io::Error {
    let Ok(kind) = fs::metadata(path).map(|metadata| metadata.file_type()) else { return error };
    match () {
        () if kind.is_socket() => io::Error::other("it is a socket"),
        () if kind.is_fifo()
            && error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) =>
        {
            io::Error::other("it is a FIFO that no process reads")
        }
        () => error,
    }
}

/// Whether a file ends within a line, as far as can be seen. Another process may be writing to it, and see to the end of its line
/// itself: only a file that stays as it is for a `pause` ends there, or one that never does in a few of them.
pub(super) fn ends_within_line(path: &Path, mut pause: impl FnMut()) -> bool {
    let mut last = None;
    for _ in 0..LOOKS {
        match end_of(path) {
            None | Some((_, b'\n')) => return false,
            end if end == last => return true,
            end => last = end,
        }
        pause();
    }
    true
}

/// The size of a file and its last byte, if it has one that can be read.
fn end_of(path: &Path) -> Option<(u64, u8)> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open_at(path, flags, Mode::empty()).ok()?);
    let size = file.metadata().ok()?.len();
    let mut byte = [0];
    file.read_exact_at(&mut byte, size.checked_sub(1)?).ok()?;
    Some((size, byte[0]))
}

impl Disk for RealDisk {
    fn open(&mut self, path: &Path) -> io::Result<File> {
        match open(path)? {
            Opened::Regular(file) => Ok(file),
            Opened::Stream(_) => Err(io::Error::other("it is no regular file any more")),
        }
    }

    fn write(&mut self, mut file: &File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE).map_err(io::Error::from) {
            // Not every file system can rename so; all of them can link so.
            Err(error)
                if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) =>
            {
                fs::hard_link(from, to)?;
                fs::remove_file(from)
            }
            result => result,
        }
    }
}
