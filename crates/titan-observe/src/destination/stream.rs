//! The standard output, and files that are FIFOs or devices: whoever reads them may be slow, or gone.

use super::figures::DestinationFigures;
use super::file::{Opened, open};
use super::lines::Lines;
use super::pace::Pace;
use super::queue::{End, Sink};
use super::whole::Rest;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A stream of bytes to somebody who reads it.
pub(super) struct Stream {
    /// What has to be opened anew when its reader is gone; `None` for the standard output.
    path: Option<PathBuf>,
    /// `None` if it could not be opened anew.
    file: Option<File>,
    rest: Rest,
    /// When it failed.
    failed: Pace,
    figures: Arc<DestinationFigures>,
}

/// What is written at once: POSIX lets no other writer's bytes get between so many to a pipe, and one that can be written to
/// has room for them. So nothing blocks, although the descriptor of the standard output, which others share, may.
const PIECE: usize = 4096;
/// Before another attempt at a descriptor that claimed to have room.
const PAUSE: Duration = Duration::from_millis(10);

impl Stream {
    /// To that file, which was opened without blocking, or is the standard output.
    pub(super) fn new(
        path: Option<PathBuf>,
        file: File,
        figures: Arc<DestinationFigures>,
    ) -> Stream {
        // Another one may have had to leave a line in the middle of it, and had no room to end it.
        let is_full = !End::default().is_writable(&file, Duration::ZERO).unwrap_or(true);
        let rest = if is_full { Rest::line_feed() } else { Rest::default() };
        let failed = Pace::default();
        Stream { path, file: Some(file), rest, failed, figures }
    }

    fn write_at(&mut self, lines: &Lines, now: SystemTime, end: &End) {
        let mut done = 0;
        if self.failed.is_due(now) {
            match self.try_to_write(lines, &mut done, end) {
                Ok(()) => self.figures.recover(),
                // That it was not taken in time is no fault of its own.
                Err(_) if end.is_over() => {}
                Err(error) => self.fail(now, &error),
            }
        }
        self.figures.add_dropped(lines.len() - done);
    }

    /// Writes until something fails, and counts the lines that are done with.
    fn try_to_write(&mut self, lines: &Lines, done: &mut usize, end: &End) -> io::Result<()> {
        let Stream { path, file, rest, figures, .. } = self;
        let file = match (&mut *file, path) {
            (Some(file), _) => file,
            (none, Some(path)) => none.insert(match open(path)? {
                Opened::Regular(file) | Opened::Stream(file) => file,
            }),
            (None, None) => return Err(ErrorKind::BrokenPipe.into()),
        };
        let mut write = |bytes: &[u8]| write_piece(file, bytes, end);
        rest.write(&mut write, figures)?;
        while *done < lines.len() {
            let to = *done + lines.fitting(*done, PIECE as u64).max(1);
            let (count, result) = rest.append(lines, *done..to, &mut write, figures);
            *done += count;
            result?;
        }
        Ok(())
    }

    /// Nothing follows: ends the line that was begun, if there is room, so that whoever writes there next is not glued to it.
    fn give_up(&mut self) {
        if let Some(mut file) = self.file.as_ref().filter(|_| self.rest.is_within_line())
            && End::default().is_writable(file, Duration::ZERO).unwrap_or(false)
        {
            // If that fails, there is no reader.
            let _ = file.write(b"\n");
        }
        self.rest.abandon(&self.figures);
    }

    fn fail(&mut self, now: SystemTime, error: &io::Error) {
        self.failed.note(now);
        let (verb, name) = match (&self.path, &self.file) {
            (None, _) => ("write to", "the standard output".to_owned()),
            (Some(path), Some(_)) => ("write to", path.display().to_string()),
            (Some(path), None) => ("open", path.display().to_string()),
        };
        self.figures.fail(format!("cannot {verb} {name}: {error}"));
        if error.kind() == ErrorKind::BrokenPipe {
            self.reopen();
        }
    }
}

/// Writes once, when there is room.
fn write_piece(mut file: &File, bytes: &[u8], end: &End) -> io::Result<usize> {
    while end.is_writable(file, Duration::MAX)? {
        match file.write(&bytes[..bytes.len().min(PIECE)]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => end.pause(PAUSE),
            result => return result,
        }
    }
    Err(ErrorKind::TimedOut.into())
}

impl Sink for Stream {
    fn write(&mut self, lines: &Lines, end: &End) {
        self.write_at(lines, SystemTime::now(), end);
    }

    fn reopen(&mut self) {
        // Another reader must not begin with half a line.
        self.give_up();
        if self.path.is_some() {
            self.file = None;
        }
    }

    fn close(&mut self, _: &End) {
        self.give_up();
    }
}

#[cfg(test)]
mod tests;
