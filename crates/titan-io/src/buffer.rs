//! Receive buffers: taken when bytes have arrived, given back when they are used up.
//!
//! A connection that waits holds no buffer, so that idle connections cost next to nothing. The pool
//! hands out the buffer given back last: it is the one that is still in the cache.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A buffer that holds a head, or a piece of a small body.
pub const SMALL: usize = 16 << 10;
/// A buffer for the pieces of a large body.
pub const LARGE: usize = 128 << 10;
/// How many unused bytes a worker keeps in buffers of each size.
const KEPT: usize = 16 << 20;

/// The buffers of one worker.
#[derive(Default)]
pub struct Buffers {
    small: RefCell<Vec<Box<[u8]>>>,
    large: RefCell<Vec<Box<[u8]>>>,
    /// The bytes of all there are, on loan or not.
    bytes: Cell<usize>,
}

/// A buffer on loan; goes back when dropped.
pub struct Buffer {
    bytes: Box<[u8]>,
    home: Rc<Buffers>,
}

impl Buffers {
    /// A buffer of at least `size` bytes.
    pub fn take(self: &Rc<Self>, size: usize) -> Buffer {
        let kept = match size {
            0..=SMALL => self.small.borrow_mut().pop(),
            LARGE => self.large.borrow_mut().pop(),
            _ => None,
        };
        let bytes = kept.unwrap_or_else(|| {
            let size = size.max(SMALL);
            self.bytes.set(self.bytes.get() + size);
            vec![0; size].into_boxed_slice()
        });
        Buffer { bytes, home: Rc::clone(self) }
    }

    /// The bytes of all buffers that there are, on loan or not.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    fn put_back(&self, bytes: Box<[u8]>) {
        let shelf = match bytes.len() {
            SMALL => &self.small,
            LARGE => &self.large,
            size => return self.bytes.set(self.bytes.get() - size),
        };
        let mut shelf = shelf.borrow_mut();
        match shelf.len() * bytes.len() < KEPT {
            true => shelf.push(bytes),
            false => self.bytes.set(self.bytes.get() - bytes.len()),
        }
    }
}

impl Buffer {
    /// All bytes of the buffer, used or not.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All bytes of the buffer, to be written to.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.home.put_back(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_there_are_count_until_they_are_freed() {
        let buffers = Rc::new(Buffers::default());
        let taken = [1, LARGE, LARGE + 1].map(|size| buffers.take(size));
        assert_eq!(buffers.bytes(), SMALL + LARGE + LARGE + 1);
        drop(taken);
        assert_eq!(buffers.bytes(), SMALL + LARGE, "what is kept for later counts");
        drop(buffers.take(SMALL));
        assert_eq!(buffers.bytes(), SMALL + LARGE);
        let many: Vec<_> = (0..=KEPT / LARGE).map(|_| buffers.take(LARGE)).collect();
        drop(many);
        assert_eq!(buffers.bytes(), SMALL + KEPT);
    }

    #[test]
    fn the_buffer_given_back_last_is_taken_first() {
        let buffers = Rc::new(Buffers::default());
        let (mut first, second) = (buffers.take(1), buffers.take(1));
        first.bytes_mut()[0] = 7;
        drop(second);
        drop(first);
        assert_eq!(buffers.take(SMALL).bytes()[0], 7);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let buffers = Rc::new(Buffers::default());
        let many: Vec<_> = (0..KEPT / LARGE + 3).map(|_| buffers.take(LARGE)).collect();
        drop(many);
        assert_eq!(buffers.large.borrow().len(), KEPT / LARGE);
        drop(buffers.take(LARGE + 1));
        assert_eq!(buffers.large.borrow().len(), KEPT / LARGE);
    }
}
