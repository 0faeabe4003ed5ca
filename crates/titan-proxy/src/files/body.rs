//! The bytes of a file on their way to a client.
//!
//! If nothing changes them, they go directly from the file to the socket (sendfile(2), see `Pump`). With TLS, HTTP/2
//! or a coding in between, or if the file is small, they are read in pieces. Either way the body has the length that
//! was announced: a file that has grown is cut off there, and one that has shrunk breaks the response.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll};
use titan_http::Fields;
use titan_io::body::BodySource;
use titan_io::buffer::{Buffer, Buffers, LARGE, SMALL};
use titan_io::error::{Error, Kind};
use titan_io::relay::Turn;
use titan_io::splice::WORTH_IT;
use titan_io::stream::FilePart;

/// A part of a file as a body.
pub(crate) struct FileBody<'b> {
    file: OwnedFd,
    /// What was not read yet.
    rest: Range<u64>,
    buffers: &'b Rc<Buffers>,
    buffer: Option<Buffer>,
    /// The bytes of the buffer that were not consumed.
    held: Range<usize>,
    is_begun: bool,
    turn: Turn,
    no_fields: Fields,
}

/// How much is moved before the other connections of the worker have their turn.
const TURN: usize = 512 << 10;

impl<'b> FileBody<'b> {
    pub(crate) fn new(file: OwnedFd, part: Range<u64>, buffers: &'b Rc<Buffers>) -> FileBody<'b> {
        FileBody {
            file,
            rest: part,
            buffers,
            buffer: None,
            held: 0..0,
            is_begun: false,
            turn: Turn::of(TURN),
            no_fields: Fields::default(),
        }
    }

    fn left(&self) -> u64 {
        self.rest.end - self.rest.start
    }

    /// Reads the next piece. The first of a large file is small: it goes out with the head.
    fn read(&mut self) -> Result<(), Error> {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        let size = if is_first || self.left() <= SMALL as u64 { SMALL } else { LARGE };
        let count = usize::try_from(self.left()).unwrap_or(size).min(size);
        let mut buffer = self.buffers.take(size);
        let read = rustix::io::retry_on_intr(|| {
            rustix::io::pread(&self.file, &mut buffer.bytes_mut()[..count], self.rest.start)
        });
        let count = read.map_err(|_| Kind::FileUnreadable)?;
        self.skip(count)?;
        (self.buffer, self.held) = (Some(buffer), 0..count);
        Ok(())
    }
}

impl BodySource for FileBody<'_> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if !self.held.is_empty() || self.rest.is_empty() {
            return Poll::Ready(Ok(()));
        }
        if self.turn.is_over() {
            return self.turn.pass(cx);
        }
        Poll::Ready(self.read())
    }

    fn data(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| &buffer.bytes()[self.held.clone()])
    }

    fn consume(&mut self, count: usize) {
        self.held.start += count;
        if self.held.is_empty() {
            (self.buffer, self.held) = (None, 0..0);
        }
    }

    fn is_done(&self) -> bool {
        self.held.is_empty() && self.rest.is_empty()
    }

    fn is_last(&self) -> bool {
        self.rest.is_empty()
    }

    fn trailers(&self) -> &Fields {
        &self.no_fields
    }

    fn file(&self) -> Option<FilePart<'_>> {
        let has_begun = self.is_begun && self.held.is_empty();
        let turn = self.turn.left();
        let is_worth_it = self.left() >= WORTH_IT && turn > 0;
        let count = usize::try_from(self.left()).unwrap_or(turn).min(turn);
        let part = || FilePart { file: self.file.as_fd(), offset: self.rest.start, count };
        (has_begun && is_worth_it).then(part)
    }

    /// Nothing where there should be something: the file has become shorter.
    fn skip(&mut self, count: usize) -> Result<(), Error> {
        if count == 0 {
            return Err(Kind::FileShrunk.into());
        }
        self.rest.start += count as u64;
        self.turn.spend(count);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::io::{self, Read};
    use std::os::unix::net::UnixStream;
    use std::task::Waker;
    use std::thread;
    use std::time::Duration;
    use titan_io::body::BodySink;
    use titan_io::clock::Clock;
    use titan_io::relay::{Pump, StallLimits, Stop};
    use titan_io::stream::{Stream, WriteHalf};

    /// A socket with nothing in between, which is told beside it what has to be read.
    struct Plain<'s> {
        writer: WriteHalf<'s>,
        copied: u64,
        written: u64,
    }

    impl BodySink for Plain<'_> {
        fn poll_send(
            &mut self,
            _: &mut Context<'_>,
            data: &[u8],
            _: bool,
        ) -> Poll<Result<usize, Error>> {
            self.copied += data.len() as u64;
            Poll::Ready(Ok(data.len()))
        }

        fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
            Poll::Ready(Ok(()))
        }

        fn poll_end(&mut self, _: &mut Context<'_>, _: &Fields) -> Poll<Result<(), Error>> {
            self.writer.shut_down();
            Poll::Ready(Ok(()))
        }

        fn written(&self) -> u64 {
            self.written
        }

        fn insist(&mut self) {
            self.writer.insist();
        }

        fn socket(&self) -> Option<&WriteHalf<'_>> {
            Some(&self.writer)
        }

        fn wrote(&mut self, result: io::Result<usize>) -> Result<(), Error> {
            self.written += result.map_err(|_| Kind::ClientGone)? as u64;
            Ok(())
        }
    }

    /// What a peer gets of a body past the part that was read, and how much that part was.
    async fn sent(body: &mut FileBody<'_>) -> (Result<(), Stop>, Vec<u8>, u64) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let peer = thread::spawn(move || {
            let mut bytes = Vec::new();
            theirs.read_to_end(&mut bytes).map(|_| bytes)
        });
        let mut stream = Stream::from(tokio::net::UnixStream::from_std(ours).unwrap());
        let (_, writer) = stream.split();
        let mut sink = Plain { writer, copied: 0, written: 0 };
        let (clock, timeout) = (Clock::new(), Duration::from_secs(60));
        let mut pump =
            Pump::new(StallLimits { source: timeout, sink: timeout, source_rate: 0, sink_rate: 0 });
        let result = poll_fn(|cx| pump.poll(cx, &clock, body, &mut sink)).await;
        let copied = sink.copied;
        drop(stream);
        (result, peer.join().unwrap().unwrap(), copied)
    }

    #[tokio::test]
    async fn a_large_file_goes_to_a_plain_socket_unread() {
        let content: Vec<u8> = (0..3_000_001_usize).map(|at| (at % 251).to_le_bytes()[0]).collect();
        let file = file(0);
        assert_eq!(rustix::io::pwrite(&file, &content, 0), Ok(content.len()));
        let buffers = Rc::default();
        let mut body = FileBody::new(file, 5..content.len() as u64, &buffers);
        let (result, arrived, copied) = sent(&mut body).await;
        assert!(result.is_ok() && body.is_done());
        let read = SMALL + 5;
        assert!(copied < SMALL as u64 + WORTH_IT, "{copied} bytes were read");
        assert!(arrived == content[read..read + arrived.len()], "bytes were lost or changed");
        assert_eq!(arrived.len() as u64 + copied, content.len() as u64 - 5);
    }

    #[tokio::test]
    async fn what_cannot_go_to_a_socket_is_read() {
        // A directory goes nowhere, and cannot be read either.
        let folder = std::env::temp_dir();
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        let file = rustix::fs::open(&folder, flags, rustix::fs::Mode::empty()).unwrap();
        let buffers = Rc::default();
        let mut body = FileBody::new(file, 0..1 << 20, &buffers);
        body.is_begun = true;
        let (Err(Stop::Source(error)), ..) = sent(&mut body).await else { panic!("it was sent") };
        assert_eq!(error.kind, Kind::FileUnreadable);
    }

    /// A file without a name.
    fn file(length: u64) -> OwnedFd {
        let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR;
        let folder = std::env::temp_dir();
        let file =
            rustix::fs::open(&folder, flags, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR);
        let file = file.unwrap();
        rustix::fs::ftruncate(&file, length).unwrap();
        file
    }

    #[test]
    fn others_have_their_turn() {
        let length = 3 * TURN as u64;
        let buffers = Rc::default();
        let mut body = FileBody::new(file(length), 0..length, &buffers);
        let cx = &mut Context::from_waker(Waker::noop());
        let (mut turn, mut turns, mut all) = (0, 0, 0);
        while !body.is_done() {
            match body.poll_data(cx) {
                Poll::Ready(result) => result.unwrap(),
                Poll::Pending => {
                    assert!((TURN..TURN + LARGE).contains(&turn), "{turn}");
                    assert!(body.file().is_some_and(|part| part.count <= TURN));
                    (turn, turns) = (0, turns + 1);
                    continue;
                }
            }
            let count = body.data().len();
            body.consume(count);
            (turn, all) = (turn + count, all + count as u64);
            assert_eq!(body.file().is_some(), turn < TURN && length - all >= WORTH_IT, "{all}");
        }
        assert!(all == length && turns >= 2, "{all} bytes in {turns} turns");
    }

    #[test]
    fn a_wait_for_a_socket_lasts_a_turn_at_most() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build_local(tokio::runtime::LocalOptions::default());
        runtime.unwrap().block_on(async {
            let length = 40 * TURN as u64;
            let turns = Rc::new(std::cell::Cell::new(0_usize));
            let counted = Rc::clone(&turns);
            let sent = tokio::task::spawn_local(async move {
                let buffers = Rc::default();
                let mut body = FileBody::new(file(length), 0..length, &buffers);
                poll_fn(|cx| {
                    counted.set(counted.get() + 1);
                    while !body.is_done() {
                        match body.poll_data(cx) {
                            Poll::Ready(result) => result.unwrap(),
                            Poll::Pending => return Poll::Pending,
                        }
                        body.consume(body.data().len());
                    }
                    Poll::Ready(())
                })
                .await;
            });
            let (one, other) = tokio::net::UnixStream::pair().unwrap();
            let mut rounds = 0;
            while !sent.is_finished() {
                let before = turns.get();
                other.try_write(b"x").unwrap();
                one.readable().await.unwrap();
                one.try_read(&mut [0]).unwrap();
                // Now it has to be asked again.
                one.try_read(&mut [0]).unwrap_err();
                assert!(turns.get() - before <= 2, "{before} to {}", turns.get());
                rounds += 1;
            }
            assert!(rounds > 5, "{rounds}");
        });
    }

    #[test]
    fn a_buffer_is_kept_only_while_it_holds_something() {
        let buffers = Rc::default();
        let mut body = FileBody::new(file(10), 2..9, &buffers);
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(body.poll_data(cx).is_ready() && body.data().len() == 7 && body.is_last());
        body.consume(3);
        assert!(body.poll_data(cx).is_ready() && body.data().len() == 4 && !body.is_done());
        body.consume(4);
        assert!(body.is_done() && body.buffer.is_none());
    }

    #[test]
    fn a_file_that_is_too_short_is_a_failure() {
        let buffers = Rc::default();
        let mut body = FileBody::new(file(10), 0..11, &buffers);
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(body.poll_data(cx).is_ready());
        body.consume(10);
        let Poll::Ready(Err(error)) = body.poll_data(cx) else { panic!("it has one byte more") };
        assert_eq!(error.kind, Kind::FileShrunk);
        assert_eq!(body.skip(0).unwrap_err().kind, Kind::FileShrunk);
    }
}
