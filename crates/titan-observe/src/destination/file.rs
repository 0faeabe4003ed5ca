//! Regular files: lines are appended; another file is begun by size, by age, and when somebody has moved this one.

mod disk;
mod rotation;
#[cfg(test)]
mod tests;

pub(super) use disk::{Opened, open};

use super::figures::DestinationFigures;
use super::lines::Lines;
use super::pace::Pace;
use super::whole::Rest;
use disk::{Disk, RealDisk};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};
use titan_config::Rotation;

/// A regular file to which lines are appended. Nothing waits here but for the disk.
#[derive(Debug)]
pub(super) struct LogFile<D: Disk = RealDisk> {
    path: PathBuf,
    rotation: Option<Rotation>,
    figures: Arc<DestinationFigures>,
    disk: D,
    /// `None` if the last one is gone, and there is no other one yet.
    current: Option<Current>,
    /// When writing or opening failed.
    failed: Pace,
    /// When a rotation failed.
    not_rotated: Pace,
    /// What fails that does not keep lines from being written.
    stuck: Option<Stuck>,
    /// When it was looked whether the file is where it was.
    looked: Pace,
}

/// The file that is open.
#[derive(Debug)]
struct Current {
    file: File,
    identity: Identity,
    /// In bytes; what others append is noticed after a second.
    size: u64,
    /// When it was begun: when its first line came, or for one that had lines already, when the file system says that it was
    /// made. One that does not know that says when the file was last modified.
    begun: SystemTime,
    rest: Rest,
}

/// What fails while lines are written all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stuck {
    /// Renaming the file, or deleting an old one, until that is done.
    Rotation,
    /// Opening the path, which leads elsewhere: until that is done, or the file is back.
    Opening,
}

/// Where the open file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The path leads to it.
    Kept,
    /// The path leads elsewhere, or nowhere.
    Left,
    /// Where the path leads cannot be seen.
    Unseen,
}

/// How long another process may take to write what it has begun to.
const WRITE: Duration = Duration::from_millis(5);

/// What tells a file from all others: its device and inode.
type Identity = (u64, u64);

fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

impl LogFile {
    /// Appends to that file, which is open.
    pub(super) fn new(
        path: PathBuf,
        rotation: Option<Rotation>,
        file: File,
        figures: Arc<DestinationFigures>,
    ) -> io::Result<LogFile> {
        LogFile::on(RealDisk, path, rotation, file, figures)
    }
}

impl<D: Disk> LogFile<D> {
    fn on(
        disk: D,
        path: PathBuf,
        rotation: Option<Rotation>,
        file: File,
        figures: Arc<DestinationFigures>,
    ) -> io::Result<LogFile<D>> {
        let current = Some(Current::of(file, &path)?);
        let [failed, not_rotated, looked] = [(); 3].map(|()| Pace::default());
        let stuck = None;
        Ok(LogFile { path, rotation, figures, disk, current, failed, not_rotated, stuck, looked })
    }

    /// Writes them, at once if no rotation lies between them. What cannot be written is dropped; the next attempt comes a second
    /// later at the earliest.
    pub(super) fn write(&mut self, lines: &Lines, now: SystemTime) {
        let mut from = 0;
        if self.failed.is_due(now) && self.prepare(now) {
            while from < lines.len() && self.make_room(lines, from, now) {
                from += self.append(lines, from, now);
                if !self.failed.is_due(now) {
                    break;
                }
            }
        }
        self.figures.add_dropped(lines.len() - from);
    }

    /// Opens the path anew: what was there may have been moved.
    pub(super) fn reopen(&mut self) {
        self.open_anew(SystemTime::now());
        self.failed.reset();
    }

    /// Whether the next line can follow: the file is open, where it was, and at the end of a line.
    fn prepare(&mut self, now: SystemTime) -> bool {
        self.look(now);
        let Some(current) = &mut self.current else { return false };
        let Current { file, rest, .. } = current;
        let result = rest.write(&mut |bytes| self.disk.write(file, bytes), &self.figures);
        if let Err(error) = &result {
            self.fail_to_write(now, error);
        }
        result.is_ok()
    }

    /// Opens the path anew if another file or none is there.
    fn look(&mut self, now: SystemTime) {
        if self.current.is_some() && !self.looked.is_due(now) {
            return;
        }
        self.looked.note(now);
        let place = self.place();
        if place == Place::Left {
            self.open_anew(now);
            return;
        }
        if place == Place::Kept && self.stuck == Some(Stuck::Opening) {
            // Whoever moved it, or its directory, has moved it back.
            self.stuck = None;
        }
        if let Some(current) = &mut self.current
            && let Ok(metadata) = current.file.metadata()
        {
            current.size = metadata.len();
        }
    }

    /// Whether what is open is what the path leads to.
    fn place(&self) -> Place {
        let Some(current) = &self.current else { return Place::Left };
        match fs::metadata(&self.path) {
            Ok(metadata) if identity(&metadata) == current.identity => Place::Kept,
            Ok(_) => Place::Left,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Place::Left,
            Err(_) => Place::Unseen,
        }
    }

    /// Takes what the path leads to. If that fails, what is open is written to as long as it has a name.
    fn open_anew(&mut self, now: SystemTime) {
        let opened = self.disk.open(&self.path).and_then(|file| Current::of(file, &self.path));
        match opened {
            Ok(next) => {
                self.take(next);
                self.stuck = None;
                self.figures.recover();
            }
            Err(error) => {
                self.current = self.current.take().and_then(|current| {
                    let is_named = current.file.metadata().is_ok_and(|it| it.nlink() > 0);
                    if is_named { Some(current) } else { current.end(&self.figures) }
                });
                self.figures.fail(format!("cannot open {}: {error}", self.path.display()));
                match self.current {
                    Some(_) => {
                        self.stuck = Some(Stuck::Opening);
                        self.not_rotated.note(now);
                    }
                    None => self.failed.note(now),
                }
            }
        }
    }

    fn take(&mut self, mut next: Current) {
        if let Some(current) = self.current.take() {
            if current.identity == next.identity {
                next.rest = current.rest;
                next.begun = current.begun;
            } else {
                current.end(&self.figures);
            }
        }
        self.current = Some(next);
    }

    /// Begins another file if the next line is not to be in this one. Whether there is one that takes it.
    fn make_room(&mut self, lines: &Lines, from: usize, now: SystemTime) -> bool {
        let is_done = self.current.as_ref().is_some_and(|current| {
            let length = lines.start(from + 1) - lines.start(from);
            current.size > 0
                && self.rotation.as_ref().is_some_and(|it| current.is_over(it, length as u64, now))
        });
        if is_done && self.not_rotated.is_due(now) {
            self.rotate(now);
        }
        self.current.is_some()
    }

    /// Gives the file the name of an old one, and begins another.
    fn rotate(&mut self, now: SystemTime) {
        let Some(keep) = self.rotation.as_ref().map(|rotation| rotation.keep) else { return };
        // A link stays where it is: what it leads to is renamed.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        // One that somebody has moved has its name already.
        let is_in_place = self.place() != Place::Left;
        let renamed = match is_in_place {
            true => rotation::set_aside(&mut self.disk, &path, now),
            false => Ok(()),
        };
        match renamed {
            Ok(()) => self.open_anew(now),
            Err(error) => {
                self.stuck = Some(Stuck::Rotation);
                self.figures.fail(format!("cannot rename {}: {error}", path.display()));
            }
        }
        if self.stuck.is_some() {
            self.not_rotated.note(now);
        } else if is_in_place {
            self.remove_old(&path, keep);
        }
    }

    fn remove_old(&mut self, path: &Path, keep: u16) {
        if let Err((old, error)) = rotation::remove_old(path, keep) {
            self.stuck = Some(Stuck::Rotation);
            self.figures.fail(format!("cannot delete {}: {error}", old.display()));
        }
    }

    /// Writes as many lines as fit into this file, at least one. How many are done with.
    fn append(&mut self, lines: &Lines, from: usize, now: SystemTime) -> usize {
        let Some(current) = &mut self.current else { return 0 };
        let size = self.rotation.as_ref().and_then(|rotation| rotation.size);
        // A rotation that has just failed is tried again after a second; until then the file grows.
        let size = size.filter(|_| self.not_rotated.is_due(now));
        let room = size.map_or(u64::MAX, |size| size.bytes().saturating_sub(current.size));
        let to = from + lines.fitting(from, room).max(1);
        if current.size == 0 {
            current.begun = now;
        }
        let Current { file, rest, .. } = current;
        let mut bytes = 0;
        let mut write = |part: &[u8]| {
            let count = self.disk.write(file, part)?;
            bytes += count as u64;
            Ok(count)
        };
        let (done, result) = rest.append(lines, from..to, &mut write, &self.figures);
        current.size += bytes;
        match result {
            Ok(()) if self.stuck.is_some() => {}
            Ok(()) => self.figures.recover(),
            Err(error) => self.fail_to_write(now, &error),
        }
        done
    }

    fn fail_to_write(&mut self, now: SystemTime, error: &io::Error) {
        self.failed.note(now);
        self.figures.fail(format!("cannot write to {}: {error}", self.path.display()));
    }
}

impl Current {
    fn of(file: File, path: &Path) -> io::Result<Current> {
        let metadata = file.metadata()?;
        let begun = metadata.created().or_else(|_| metadata.modified())?;
        let size = metadata.len();
        let is_torn = size > 0 && disk::ends_within_line(path, || thread::park_timeout(WRITE));
        let rest = if is_torn { Rest::line_feed() } else { Rest::default() };
        Ok(Current { file, identity: identity(&metadata), size, begun, rest })
    }

    /// Nothing follows.
    fn end(mut self, figures: &DestinationFigures) -> Option<Current> {
        self.rest.abandon(figures);
        None
    }

    /// Whether another file is due before a line of that length.
    fn is_over(&self, rotation: &Rotation, length: u64, now: SystemTime) -> bool {
        let age = now.duration_since(self.begun).unwrap_or(Duration::ZERO);
        rotation.size.is_some_and(|size| self.size.saturating_add(length) > size.bytes())
            || rotation.age.is_some_and(|most| age >= most)
    }
}

impl<D: Disk> Drop for LogFile<D> {
    fn drop(&mut self) {
        let _ = self.current.take().and_then(|current| current.end(&self.figures));
    }
}
