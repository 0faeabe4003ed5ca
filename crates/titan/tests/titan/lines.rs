//! The lines that a process writes.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// The lines of a pipe, up to its end. A test that waits for one that never comes fails; without this it would wait for ever.
pub(crate) struct Lines(Receiver<String>);

/// More than any test leaves unread. A process that writes on is held up then, as it is by any pipe.
const MOST: usize = 10_000;
/// Longer than a busy machine makes a process wait.
const LONG: Duration = Duration::from_secs(120);

impl Lines {
    pub(crate) fn of(pipe: impl Read + Send + 'static) -> Lines {
        let (lines, received) = sync_channel(MOST);
        std::thread::spawn(move || {
            let read = BufReader::new(pipe).lines().map_while(Result::ok);
            read.take_while(|line| lines.send(line.clone()).is_ok()).for_each(drop);
        });
        Lines(received)
    }
}

impl Iterator for Lines {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        match self.0.recv_timeout(LONG) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the process writes no further line"),
        }
    }
}
