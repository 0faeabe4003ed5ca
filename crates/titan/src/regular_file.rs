//! Reading files whose paths a person wrote: they may lead to anything, and may be written meanwhile.

use rustix::fs::OFlags;
use std::fs::{FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::SystemTime;

/// What a file was like. Rights that are set right show in `changed` alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    modified: SystemTime,
    changed: (i64, i64),
    inode: u64,
    size: u64,
}

/// What tells one state of a file from the next. Behind a link it is that of the file that the link leads to.
pub(crate) fn state_of(file: &Path) -> Option<FileState> {
    let meta = std::fs::metadata(file).ok()?;
    let changed = (meta.ctime(), meta.ctime_nsec());
    let (inode, size) = (meta.ino(), meta.size());
    Some(FileState { modified: meta.modified().ok()?, changed, inode, size })
}

/// The content of a regular file of at most so many bytes. Anything else could make its reader wait, or never end.
pub(crate) fn read(file: &Path, most: usize) -> io::Result<Vec<u8>> {
    // Opening some devices has an effect already.
    require_regular(std::fs::metadata(file)?.file_type())?;
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(file)?;
    require_regular(file.metadata()?.file_type())?;
    read_to_bound(file, most)
}

/// The same where the file is open.
pub(crate) fn read_to_bound(file: impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    match bytes.len() > most {
        true => Err(io::Error::other(format!("it is larger than {most} bytes"))),
        false => Ok(bytes),
    }
}

/// The text of a file, which has to be UTF-8 to its end.
pub(crate) fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
        let what = match error.utf8_error().error_len() {
            None => "it ends within a character: it may be half-written",
            Some(_) => "it is not UTF-8",
        };
        io::Error::other(format!("{what} (line {line}, byte {at})"))
    })
}

fn require_regular(kind: FileType) -> io::Result<()> {
    let what = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(io::Error::other(format!("it is {what}, not a regular file")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType as Kind, Mode, mknodat};

    #[test]
    fn only_regular_files_are_read() {
        let folder = std::env::temp_dir().join(format!("titan-regular-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let pipe = folder.join("pipe");
        let _ = std::fs::remove_file(&pipe);
        mknodat(CWD, &pipe, Kind::Fifo, Mode::RUSR, 0).unwrap();
        for (file, wanted) in [
            (folder.as_path(), "it is a directory, not a regular file"),
            (&pipe, "it is a named pipe, not a regular file"),
            (Path::new("/dev/zero"), "it is a device, not a regular file"),
        ] {
            assert_eq!(read(file, 10).unwrap_err().to_string(), wanted);
        }
        let file = folder.join("file");
        std::fs::write(&file, "12345").unwrap();
        assert_eq!(read(&file, 5).unwrap(), b"12345");
        let error = read(&file, 4).unwrap_err().to_string();
        assert_eq!(error, "it is larger than 4 bytes");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn half_a_character_is_told_from_a_wrong_one() {
        let message = |bytes: &[u8]| text(bytes.to_vec()).unwrap_err().to_string();
        let half = "it ends within a character: it may be half-written (line 2, byte 3)";
        assert_eq!(message(b"a:\n\xc3"), half);
        assert_eq!(message(b"a\xffb"), "it is not UTF-8 (line 1, byte 1)");
    }
}
