//! Brotli (RFC 7932) with its memory counted.

use super::{Bad, Progress};
use brotli::{
    Allocator, BrotliDecompressStream, BrotliResult, BrotliState, SliceWrapper, SliceWrapperMut,
};
use std::cell::Cell;
use std::rc::Rc;

/// A decoder of one body.
pub(crate) struct Brotli {
    state: BrotliState<Memory, Memory, Memory>,
    memory: Memory,
    has_begun: bool,
}

/// Where a decoder has its memory from.
#[derive(Clone, Default)]
struct Memory(Rc<Cell<usize>>);

/// A piece of it, which counts until it is dropped.
#[derive(Default)]
struct Piece<T> {
    cells: Box<[T]>,
    home: Memory,
}

/// What a decoder has besides its window at most: three groups of 256 trees of 1080 entries of 4 bytes each.
const TREES: usize = 3584 << 10;

impl Brotli {
    pub(super) fn new() -> Brotli {
        let memory = Memory::default();
        let of = || memory.clone();
        // Strict: no window beyond the 16 MiB of RFC 7932.
        let state = BrotliState::new_strict(of(), of(), of());
        Brotli { state, memory, has_begun: false }
    }

    /// Bytes that a decoder with that window has at most.
    pub(super) fn most(window: usize) -> usize {
        window + TREES
    }

    /// Bytes that it has now.
    pub(super) fn memory(&self) -> usize {
        size_of::<Brotli>() + self.memory.0.get()
    }

    pub(super) fn decode(
        &mut self,
        input: &[u8],
        room: &mut [u8],
        most_window: usize,
    ) -> Result<Progress, Bad> {
        if !self.has_begun && !input.is_empty() {
            if window_of(input[0]).is_some_and(|window| window > most_window) {
                return Err(Bad::Window);
            }
            self.has_begun = true;
        }
        let (mut left, mut taken) = (input.len(), 0);
        let (mut free, mut made) = (room.len(), 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut taken,
            input,
            &mut free,
            &mut made,
            room,
            &mut 0,
            &mut self.state,
        );
        let is_end = match result {
            BrotliResult::ResultSuccess => true,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => false,
            BrotliResult::ResultFailure => return Err(Bad::Malformed),
        };
        Ok(Progress { taken, made, is_end })
    }
}

/// The window that a body says it needs in its first byte (RFC 7932 section 9.1); none where that is not valid.
fn window_of(first: u8) -> Option<usize> {
    let bits = match (first & 1, first >> 1 & 7, first >> 4 & 7) {
        (0, ..) => 16,
        (_, 0, 0) => 17,
        (_, 0, 1) => return None,
        (_, 0, more) => 8 + more,
        (_, more, _) => 17 + more,
    };
    Some(1 << bits)
}

impl<T: Clone + Default> Allocator<T> for Memory {
    type AllocatedMemory = Piece<T>;

    fn alloc_cell(&mut self, len: usize) -> Piece<T> {
        let cells = vec![T::default(); len].into_boxed_slice();
        self.0.set(self.0.get() + size_of_val(&*cells));
        Piece { cells, home: self.clone() }
    }

    fn free_cell(&mut self, piece: Piece<T>) {
        drop(piece);
    }
}

impl<T> Drop for Piece<T> {
    fn drop(&mut self) {
        // A piece that was never allocated has no bytes.
        let count = &self.home.0;
        count.set(count.get() - size_of_val(&*self.cells));
    }
}

impl<T> SliceWrapper<T> for Piece<T> {
    fn slice(&self) -> &[T] {
        &self.cells
    }
}

impl<T> SliceWrapperMut<T> for Piece<T> {
    fn slice_mut(&mut self) -> &mut [T] {
        &mut self.cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn coded(window_bits: u32) -> Vec<u8> {
        let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 4, window_bits);
        encoder.write_all(&[7; 3000]).unwrap();
        encoder.flush().unwrap();
        encoder.write_all(b"more").unwrap();
        encoder.into_inner()
    }

    #[test]
    fn a_body_says_its_window_and_has_no_more_memory() {
        for bits in 10..=24 {
            let body = coded(bits);
            let window = 1 << bits;
            assert_eq!(window_of(body[0]), Some(window), "{bits}");
            let mut room = vec![0; 16 << 10];
            let mut decoder = Brotli::new();
            assert!(decoder.decode(&body, &mut room, window).unwrap().is_end);
            let memory = decoder.memory();
            assert!((window..=Brotli::most(window)).contains(&memory), "{bits}: {memory}");
            let smaller = Brotli::new().decode(&body, &mut room, window - 1);
            assert_eq!(smaller, Err(Bad::Window), "{bits}");
        }
    }

    #[test]
    fn what_is_freed_counts_no_more() {
        let memory = Memory::default();
        let of = || memory.clone();
        let piece: Piece<u32> = of().alloc_cell(10);
        drop(BrotliState::new_strict(of(), of(), of()));
        assert_eq!(memory.0.get(), 40);
        drop(piece);
        assert_eq!(memory.0.get(), 0);
    }
}
