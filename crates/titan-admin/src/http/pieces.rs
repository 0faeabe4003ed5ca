//! The body of a response that comes piece by piece, from a source that may be on any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::mpsc;

/// What a client is still to get. The source notices when this is dropped.
#[derive(Debug)]
pub struct Pieces {
    queue: mpsc::Receiver<Arc<[u8]>>,
    shared: Arc<Shared>,
}

/// Where pieces come from. Dropping it ends the body as it should end.
#[derive(Debug)]
pub struct PieceSender {
    queue: mpsc::Sender<Arc<[u8]>>,
    shared: Arc<Shared>,
}

/// Why a piece was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// The client has not taken what was sent before. The piece may be left out, or the client cut off.
    Full,
    /// The client has gone.
    Gone,
}

#[derive(Debug, Default)]
struct Shared {
    /// Bytes that wait.
    queued: AtomicUsize,
    /// Whether the body is incomplete, and must not look as if it were not.
    is_cut_off: AtomicBool,
}

/// How many pieces wait for one client at most.
const MOST_PIECES: usize = 256;
/// How many bytes of them. A larger piece waits alone.
const MOST_BYTES: usize = 1 << 20;

/// A source, and where its pieces come out.
pub fn pieces() -> (PieceSender, Pieces) {
    let (sender, receiver) = mpsc::channel(MOST_PIECES);
    let shared = Arc::new(Shared::default());
    let pieces = Pieces { queue: receiver, shared: Arc::clone(&shared) };
    (PieceSender { queue: sender, shared }, pieces)
}

impl PieceSender {
    /// Sends a piece, which many clients may share. Never waits.
    pub fn send(&self, piece: impl Into<Arc<[u8]>>) -> Result<(), NotSent> {
        let piece = piece.into();
        let length = piece.len();
        // One task or thread sends: what is added meanwhile is nothing.
        let queued = self.shared.queued.load(Ordering::Relaxed);
        if queued > 0 && queued + length > MOST_BYTES {
            return Err(if self.queue.is_closed() { NotSent::Gone } else { NotSent::Full });
        }
        self.shared.queued.fetch_add(length, Ordering::Relaxed);
        self.queue.try_send(piece).map_err(|error| {
            self.shared.queued.fetch_sub(length, Ordering::Relaxed);
            match error {
                mpsc::error::TrySendError::Full(_) => NotSent::Full,
                mpsc::error::TrySendError::Closed(_) => NotSent::Gone,
            }
        })
    }

    /// Ends the body in a way that shows that it is incomplete: for a client that is too slow.
    pub fn cut_off(self) {
        self.shared.is_cut_off.store(true, Ordering::Release);
    }

    /// Waits until the client has gone.
    pub async fn gone(&self) {
        self.queue.closed().await;
    }

    /// Whether the client has gone.
    pub fn is_gone(&self) -> bool {
        self.queue.is_closed()
    }
}

impl Pieces {
    /// The next piece; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Arc<[u8]>> {
        if self.is_cut_off() {
            return None;
        }
        let piece = self.queue.recv().await?;
        self.shared.queued.fetch_sub(piece.len(), Ordering::Relaxed);
        Some(piece)
    }

    /// Whether the end that was seen is not that of a complete body.
    pub(super) fn is_cut_off(&self) -> bool {
        self.shared.is_cut_off.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_in_number_and_in_bytes() {
        let (source, _pieces) = pieces();
        for _ in 0..MOST_PIECES {
            source.send(*b"x").unwrap();
        }
        assert_eq!(source.send(*b"x"), Err(NotSent::Full));
        let (source, pieces) = pieces();
        source.send(vec![b'x'; 2 * MOST_BYTES]).unwrap();
        assert_eq!(source.send(*b"x"), Err(NotSent::Full), "the large one was alone");
        drop(pieces);
        assert_eq!(source.send(*b"x"), Err(NotSent::Gone));
    }

    #[tokio::test]
    async fn what_was_taken_makes_room() {
        let (source, mut pieces) = pieces();
        for _ in 0..3 {
            source.send(vec![b'x'; MOST_BYTES]).unwrap();
            assert_eq!(pieces.next().await.unwrap().len(), MOST_BYTES);
        }
        drop(source);
        assert!(pieces.next().await.is_none() && !pieces.is_cut_off());
    }

    #[tokio::test]
    async fn who_is_cut_off_gets_nothing_more_that_waits() {
        let (source, mut pieces) = pieces();
        source.send(*b"x").unwrap();
        source.cut_off();
        assert!(pieces.next().await.is_none() && pieces.is_cut_off());
    }

    #[tokio::test]
    async fn the_source_notices_that_its_client_has_gone() {
        let (source, pieces) = pieces();
        assert!(!source.is_gone());
        drop(pieces);
        source.gone().await;
        assert!(source.is_gone());
    }
}
