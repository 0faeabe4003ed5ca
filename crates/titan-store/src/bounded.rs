//! How much a store may say: no more than its replies can have. A client of Redis keeps what it has received of a reply
//! until that is complete, whatever length it was announced with.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection that fails once the other side has said more than its replies can have.
pub(crate) struct Bounded<S> {
    stream: S,
    replies: Replies,
    /// The bytes that it may still send.
    credit: usize,
}

/// How long replies may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replies {
    /// As long as those of scripts, which are shorter than what they are asked with.
    Short,
    /// As long as a page of a stream, however short the question: the most that is kept of replies.
    Pages,
}

/// What may come without a question, and what the reply to a short one may have.
const BEGIN: usize = 16 << 10;
/// The bytes that a short reply may have for each byte of its question.
const BYTES_PER_BYTE: usize = 4;
/// What may come at once, however much was asked: the most that is kept of replies.
pub(crate) const MOST: usize = 1 << 20;

impl<S> Bounded<S> {
    pub(crate) fn new(stream: S, replies: Replies) -> Bounded<S> {
        Bounded { stream, replies, credit: BEGIN }
    }

    fn asked(&mut self, bytes: usize) {
        self.credit = match self.replies {
            Replies::Short => (self.credit + BYTES_PER_BYTE * bytes).min(MOST),
            Replies::Pages => MOST,
        };
    }

    fn received(&mut self, bytes: usize) -> io::Result<()> {
        let left = self.credit.checked_sub(bytes);
        self.credit =
            left.ok_or_else(|| io::Error::other("it sends more than it was asked for"))?;
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.received(buffer.filled().len() - before))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.asked(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test]
    async fn what_was_not_asked_for_ends_the_connection() {
        let (ours, mut theirs) = duplex(MOST);
        let mut ours = Bounded::new(ours, Replies::Short);
        theirs.write_all(&vec![b'x'; BEGIN]).await.unwrap();
        ours.read_exact(&mut vec![0; BEGIN]).await.unwrap();
        theirs.write_all(b"x").await.unwrap();
        let error = ours.read_u8().await.unwrap_err();
        assert_eq!(error.to_string(), "it sends more than it was asked for");
    }

    #[tokio::test]
    async fn each_question_gives_room_for_its_reply() {
        let (ours, mut theirs) = duplex(MOST);
        let mut ours = Bounded::new(ours, Replies::Short);
        for _ in 0..2 * BEGIN / 400 {
            ours.write_all(&[b'?'; 100]).await.unwrap();
            theirs.read_exact(&mut [0; 100]).await.unwrap();
            theirs.write_all(&[b'!'; 400]).await.unwrap();
            ours.read_exact(&mut [0; 400]).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_page_may_be_long_and_no_longer() {
        let (ours, mut theirs) = duplex(2 * MOST);
        let mut ours = Bounded::new(ours, Replies::Pages);
        for _ in 0..3 {
            ours.write_all(b"?").await.unwrap();
            theirs.read_exact(&mut [0; 1]).await.unwrap();
            theirs.write_all(&vec![b'!'; MOST]).await.unwrap();
            ours.read_exact(&mut vec![0; MOST]).await.unwrap();
        }
        theirs.write_all(b"!").await.unwrap();
        ours.read_u8().await.unwrap_err();
    }
}
