//! A response that comes piece by piece: chunks over HTTP/1.1, until the connection closes over HTTP/1.0.
//!
//! ```text
//!            the source ends, the server closes, the right is lost
//! Pieces ─────────────────────────────────────────────────────────▶ Complete: the last chunk
//!    │  the source cuts off, the client is too slow or has gone
//!    └────────────────────────────────────────────────────────────▶ CutOff: the connection is closed without it
//! ```

use super::super::slots::{NoRoom, What};
use super::super::{Handler, Pieces, Response};
use super::{Connection, ResponseOptions};
use std::io;
use std::time::Duration;
use titan_h1::Body;
use titan_http::{FieldName, Fields, Method, RequestHead, Status, Version};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

/// What became of a response.
pub(super) enum Streamed {
    /// It was sent, and the connection is closed.
    To(End),
    /// It is not one that comes piece by piece, or there is no room for another.
    Not(Response),
}

/// How a response has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Complete,
    CutOff,
}

/// How long a client may take to take a piece.
const PIECE: Duration = Duration::from_secs(10);
/// How often it is asked whether the client may go on.
const RECHECK: Duration = Duration::from_secs(5);
/// How much a client may send meanwhile, which is ignored: the connection closes behind the response.
const IGNORED: usize = 64 << 10;

impl Connection<'_> {
    /// Sends a response that comes piece by piece. Others are returned.
    pub(super) async fn stream(
        &mut self,
        mut response: Response,
        options: ResponseOptions,
        request: (&RequestHead, &impl Handler),
    ) -> io::Result<Streamed> {
        let rest = response.rest.take_if(|_| options.method != Method::HEAD);
        let Some(mut pieces) = rest else { return Ok(Streamed::Not(response)) };
        let (slot, is_chunked) = (self.slot, options.version != Version::Http10);
        let work = async {
            self.begin(response, options, is_chunked).await?;
            self.relay(&mut pieces, is_chunked, request).await
        };
        let end = match slot.streaming(work).await {
            Err(NoRoom) => return Ok(Streamed::Not(no_room())),
            // Within a piece that a slow client has not taken, the last chunk is part of that piece: the body stays incomplete.
            Ok(None) => End::Complete,
            Ok(Some(end)) => end?,
        };
        // Before the last chunk: the client may take its time.
        drop(pieces);
        if end == End::Complete {
            let closing = timeout(PIECE, self.complete(is_chunked));
            let _ = slot.waiting(What::GoOn, closing).await;
        }
        Ok(Streamed::To(end))
    }

    async fn begin(
        &mut self,
        response: Response,
        options: ResponseOptions,
        is_chunked: bool,
    ) -> io::Result<()> {
        let framing = if is_chunked { Body::Chunked } else { Body::UntilClose };
        let options = ResponseOptions { keep_alive: false, ..options };
        let mut out = options.written_head(response.head, framing)?;
        write_piece(&mut out, &response.body, is_chunked);
        timeout(PIECE, self.write(&out)).await?
    }

    async fn relay(
        &mut self,
        pieces: &mut Pieces,
        is_chunked: bool,
        (head, handler): (&RequestHead, &impl Handler),
    ) -> io::Result<End> {
        let mut rechecks = interval_at(Instant::now() + RECHECK, RECHECK);
        rechecks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut ignored = 0;
        self.unread.clear();
        let mut out = Vec::new();
        loop {
            tokio::select! {
                biased;
                _ = rechecks.tick() => {
                    if !handler.may_go_on(head, &self.peer) {
                        return Ok(End::Complete);
                    }
                }
                read = self.stream.read_buf(&mut self.unread) => {
                    ignored += read?;
                    if self.unread.is_empty() || ignored > IGNORED {
                        return Ok(End::CutOff);
                    }
                    self.unread.clear();
                }
                piece = pieces.next() => {
                    let Some(piece) = piece else {
                        return Ok(if pieces.is_cut_off() { End::CutOff } else { End::Complete });
                    };
                    out.clear();
                    write_piece(&mut out, &piece, is_chunked);
                    timeout(PIECE, self.write(&out)).await??;
                }
            }
        }
    }

    async fn complete(&mut self, is_chunked: bool) -> io::Result<()> {
        if is_chunked {
            let mut out = Vec::new();
            titan_h1::write_last_chunk(&mut out, &Fields::default());
            self.write(&out).await?;
        }
        self.linger().await
    }
}

/// An empty one is none: an empty chunk would be the last.
fn write_piece(out: &mut Vec<u8>, piece: &[u8], is_chunked: bool) {
    match is_chunked {
        _ if piece.is_empty() => {}
        false => out.extend_from_slice(piece),
        true => {
            titan_h1::write_chunk_head(out, piece.len());
            out.extend_from_slice(piece);
            out.extend_from_slice(titan_h1::CHUNK_END);
        }
    }
}

fn no_room() -> Response {
    let detail = "too many streams are open: close some, or ask for whole responses";
    let refusal = Response::problem(Status::SERVICE_UNAVAILABLE, detail);
    refusal.with(FieldName::RetryAfter, "10")
}
