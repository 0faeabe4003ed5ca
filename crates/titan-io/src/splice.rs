//! Moves large bodies from socket to socket through a pipe, without copying them into this process (splice(2)).

use crate::stream::{ReadHalf, WriteHalf};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// A body with at least that many bytes to come is worth a pipe.
pub const WORTH_IT: u64 = 64 << 10;
/// What a pipe is to hold. The kernel may grant less.
const PIPE: usize = 256 << 10;
/// How many pipes a worker uses at a time: each takes two descriptors.
const MOST: usize = 128;
/// How many unused pipes a worker keeps.
const KEPT: usize = 32;

/// The pipes of one worker.
#[derive(Default)]
pub struct Pipes {
    unused: RefCell<Vec<Pipe>>,
    lent: Cell<usize>,
}

/// A pipe on loan. Goes back when dropped empty; one with bytes in it is closed.
pub struct Splice {
    pipe: Option<Pipe>,
    /// Bytes in the pipe.
    held: usize,
    /// Whether more was there when they were taken: then the kernel need not send a short segment.
    more: bool,
    home: Rc<Pipes>,
}

struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
}

impl Pipes {
    /// A pipe, if there is one left; without one a body is copied.
    pub fn take(self: &Rc<Self>) -> Option<Splice> {
        if self.lent.get() == MOST {
            return None;
        }
        let unused = self.unused.borrow_mut().pop();
        let pipe = unused.or_else(|| Pipe::new().ok())?;
        self.lent.set(self.lent.get() + 1);
        Some(Splice { pipe: Some(pipe), held: 0, more: false, home: Rc::clone(self) })
    }
}

impl Splice {
    /// Whether bytes are on their way.
    pub fn is_holding(&self) -> bool {
        self.held > 0
    }

    /// Takes up to `most` bytes out of a socket; 0 is its end.
    pub fn poll_in(
        &mut self,
        cx: &mut Context<'_>,
        from: &ReadHalf<'_>,
        most: u64,
    ) -> Poll<io::Result<usize>> {
        let room = usize::try_from(most).unwrap_or(PIPE).min(PIPE);
        let into = &self.pipe().into;
        loop {
            ready!(from.poll_ready(cx))?;
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
            match from.try_io(|| Ok(splice(from.fd(), None, into, None, room, flags)?)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(count) => {
                    self.held = count;
                    self.more = count == room && most > room as u64;
                    return Poll::Ready(Ok(count));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Puts what it holds into a socket; tells how many bytes.
    pub fn poll_out(
        &mut self,
        cx: &mut Context<'_>,
        to: &WriteHalf<'_>,
    ) -> Poll<io::Result<usize>> {
        let out = &self.pipe().out;
        let more = if self.more { SpliceFlags::MORE } else { SpliceFlags::empty() };
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK | more;
        loop {
            ready!(to.poll_ready(cx))?;
            match to.try_io(|| Ok(splice(out, None, to.fd(), None, self.held, flags)?)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(count) => {
                    self.held -= count;
                    return Poll::Ready(Ok(count));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn pipe(&self) -> &Pipe {
        self.pipe.as_ref().expect("only drop takes it")
    }
}

impl Drop for Splice {
    fn drop(&mut self) {
        self.home.lent.set(self.home.lent.get() - 1);
        let mut unused = self.home.unused.borrow_mut();
        if self.held == 0 && unused.len() < KEPT {
            unused.extend(self.pipe.take());
        }
    }
}

impl Pipe {
    fn new() -> io::Result<Pipe> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A smaller pipe works as well, only with more calls.
        let _ = fcntl_setpipe_size(&into, PIPE);
        Ok(Pipe { out, into })
    }
}
