//! How much work is done for one body before the worker's other connections get their turn.

use std::pin::pin;
use std::task::{Context, Poll};

/// What is left of a turn.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    left: usize,
    whole: usize,
}

impl Turn {
    /// A turn of that many bytes.
    pub fn of(bytes: usize) -> Turn {
        Turn { left: bytes, whole: bytes }
    }

    /// Bytes that may still be worked on.
    pub fn left(self) -> usize {
        self.left
    }

    /// Whether the others have theirs now.
    pub fn is_over(self) -> bool {
        self.left == 0
    }

    /// Counts that many bytes of work.
    pub fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// Whatever follows is another turn: there was nothing to do.
    pub fn renew(&mut self) {
        self.left = self.whole;
    }

    /// Lets the others go first: those that can go on, and those whose sockets have become ready meanwhile. A
    /// task that wakes itself would keep the runtime from looking at the sockets for dozens of turns.
    pub fn pass<T>(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        self.renew();
        // Its first poll only asks to be woken after that.
        let _ = pin!(tokio::task::yield_now()).poll(cx);
        Poll::Pending
    }
}
