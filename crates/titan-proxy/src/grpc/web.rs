//! gRPC-Web: what browsers speak, which see no trailers, made into gRPC and back (`PROTOCOL-WEB.md`).
//!
//! Both sides of the translation stand between the exchange and its client: behind them the call is one of
//! gRPC like any other.

use super::text::{Decoder, encode};
use super::{Dialect, MEDIA_TYPE, suffix};
use std::task::{Context, Poll, ready};
use titan_http::{BadField, BodyLength, FieldName, Fields, RequestHead, ResponseHead};
use titan_io::body::{BodySink, BodySource, Content, Gone, RequestBody, ResponseSink};
use titan_io::error::{Error, Kind};

/// The flag of the frame that holds trailers.
const TRAILERS: u8 = 0x80;
/// How many bytes are translated at once. Of text whole groups, so that padding stands only where it must.
const STEP: usize = 12 << 10;

/// Makes of the head of a request of gRPC-Web one of gRPC.
pub(crate) fn to_native(head: &mut RequestHead) -> Result<(), BadField> {
    let value = head.fields.get(FieldName::ContentType).unwrap_or_default();
    let native = [MEDIA_TYPE, suffix(value)].concat();
    head.fields.set(FieldName::ContentType, &native)
}

/// The body of a request of gRPC-Web as one of gRPC.
pub(crate) struct Request<'b, B> {
    body: &'b mut B,
    /// Where the body is text: what has been made of it and was not consumed.
    text: Option<Text>,
}

#[derive(Default)]
struct Text {
    decoder: Decoder,
    bytes: Vec<u8>,
    /// How many of the bytes were consumed.
    start: usize,
}

impl<'b, B: RequestBody> Request<'b, B> {
    /// The body of a request in that dialect.
    pub(crate) fn new(body: &'b mut B, dialect: Dialect) -> Request<'b, B> {
        let is_text = dialect == Dialect::WebText;
        Request { body, text: is_text.then(Text::default) }
    }
}

impl Text {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }
}

impl<B: RequestBody> BodySource for Request<'_, B> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let Some(text) = &mut self.text else { return self.body.poll_data(cx) };
        while text.rest().is_empty() {
            if self.body.is_done() {
                let is_whole = text.decoder.is_complete();
                return Poll::Ready(if is_whole { Ok(()) } else { Err(Kind::BadWebText.into()) });
            }
            ready!(self.body.poll_data(cx))?;
            let data = self.body.data();
            let count = data.len().min(STEP);
            let read = text.decoder.read(&data[..count], &mut text.bytes);
            read.map_err(|_| Kind::BadWebText)?;
            self.body.consume(count);
        }
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        self.text.as_ref().map_or_else(|| self.body.data(), Text::rest)
    }

    fn consume(&mut self, count: usize) {
        match &mut self.text {
            Some(text) => text.consume(count),
            None => self.body.consume(count),
        }
    }

    fn is_done(&self) -> bool {
        let is_over = |text: &Text| text.rest().is_empty() && text.decoder.is_complete();
        self.body.is_done() && self.text.as_ref().is_none_or(is_over)
    }

    fn is_last(&self) -> bool {
        match &self.text {
            Some(text) => {
                let is_whole = self.body.is_done() && text.decoder.is_complete();
                is_whole && self.body.trailers().is_empty()
            }
            None => self.body.is_last(),
        }
    }

    fn trailers(&self) -> &Fields {
        self.body.trailers()
    }
}

impl<B: RequestBody> RequestBody for Request<'_, B> {
    fn poll_ahead(&mut self, cx: &mut Context<'_>, wanted: usize) -> Poll<Result<(), Error>> {
        self.body.poll_ahead(cx, wanted)
    }

    fn ahead(&self) -> usize {
        self.body.ahead()
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Gone> {
        self.body.poll_gone(cx)
    }

    fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.body.poll_lost(cx)
    }

    fn is_broken(&self) -> bool {
        self.body.is_broken()
    }

    fn is_abandoned(&self) -> bool {
        self.body.is_abandoned()
    }

    fn set_limit(&mut self, bytes: u64) -> Result<(), Error> {
        self.body.set_limit(bytes)
    }

    fn received(&self) -> u64 {
        self.body.received()
    }
}

/// The response to a call, as gRPC-Web. What is no response of gRPC goes through as it is.
pub(crate) struct Response<'a, A> {
    answer: &'a mut A,
    dialect: Dialect,
    is_translated: bool,
    /// What has been translated, and how many bytes of that the response has taken.
    ready: Vec<u8>,
    taken: usize,
    /// Whether the trailers are among that.
    has_trailers: bool,
}

impl<'a, A: ResponseSink> Response<'a, A> {
    /// The response to a client that wants that dialect.
    pub(crate) fn new(answer: &'a mut A, dialect: Dialect) -> Response<'a, A> {
        let (is_translated, has_trailers) = (false, false);
        Response { answer, dialect, is_translated, ready: Vec::new(), taken: 0, has_trailers }
    }

    /// Hands on what is ready.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while self.taken < self.ready.len() {
            self.taken += ready!(self.answer.poll_send(cx, &self.ready[self.taken..], false))?;
        }
        self.ready.clear();
        self.taken = 0;
        Poll::Ready(Ok(()))
    }

    fn poll_send_text(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, Error>> {
        ready!(self.poll_ready(cx))?;
        let count = data.len().min(STEP);
        encode(&data[..count], &mut self.ready);
        match self.poll_ready(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            // What waits goes out before the next piece is taken.
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(count)),
        }
    }
}

impl<A: ResponseSink> BodySink for Response<'_, A> {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
        is_last: bool,
    ) -> Poll<Result<usize, Error>> {
        match self.dialect {
            Dialect::WebText if self.is_translated => self.poll_send_text(cx, data),
            _ => self.answer.poll_send(cx, data, is_last),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        ready!(self.poll_ready(cx))?;
        self.answer.poll_flush(cx)
    }

    fn poll_end(&mut self, cx: &mut Context<'_>, trailers: &Fields) -> Poll<Result<(), Error>> {
        if !self.is_translated {
            return self.answer.poll_end(cx, trailers);
        }
        if !self.has_trailers && !trailers.is_empty() {
            let frame = trailer_frame(trailers);
            match self.dialect {
                Dialect::WebText => encode(&frame, &mut self.ready),
                Dialect::Web | Dialect::Native => self.ready.extend_from_slice(&frame),
            }
        }
        self.has_trailers = true;
        ready!(self.poll_ready(cx))?;
        self.answer.poll_end(cx, &Fields::default())
    }

    fn written(&self) -> u64 {
        self.answer.written()
    }

    fn insist(&mut self) {
        self.answer.insist();
    }
}

impl<A: ResponseSink> ResponseSink for Response<'_, A> {
    fn interim(&mut self, head: &ResponseHead) {
        self.answer.interim(head);
    }

    fn start(&mut self, head: &ResponseHead, content: Content) {
        let media_type = head.fields.get(FieldName::ContentType).unwrap_or_default();
        if Dialect::of(&head.fields) != Some(Dialect::Native) {
            return self.answer.start(head, content);
        }
        let translated = [self.dialect.media_type(), suffix(media_type)].concat();
        let mut head = head.clone();
        if head.fields.set(FieldName::ContentType, &translated).is_err() {
            return self.answer.start(&head, content);
        }
        self.is_translated = true;
        let length = match content.length {
            // All there is to say stands in the head.
            BodyLength::None | BodyLength::Known(0) => content.length,
            _ => BodyLength::Unknown,
        };
        self.answer.start(&head, Content { length, ..content });
    }

    fn start_tunnel(&mut self, head: &ResponseHead) {
        self.answer.start_tunnel(head);
    }

    fn is_started(&self) -> bool {
        self.answer.is_started()
    }

    fn close_after(&mut self) {
        self.answer.close_after();
    }

    fn sent(&self) -> u64 {
        self.answer.sent()
    }
}

/// Trailers as the last frame of a body: lines like those of HTTP/1.1, their names in small letters.
fn trailer_frame(trailers: &Fields) -> Vec<u8> {
    let mut frame = vec![TRAILERS, 0, 0, 0, 0];
    for field in trailers.iter() {
        frame.extend(field.name.iter().map(u8::to_ascii_lowercase));
        frame.extend_from_slice(b": ");
        frame.extend_from_slice(field.value);
        frame.extend_from_slice(b"\r\n");
    }
    let length = u32::try_from(frame.len() - 5).expect("trailers have a limit");
    frame[1..5].copy_from_slice(&length.to_be_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_are_a_frame() {
        let mut trailers = Fields::default();
        trailers.append_named(b"Grpc-Status", b"0").unwrap();
        trailers.append_named(b"x-sum-bin", b"AA").unwrap();
        let lines = b"grpc-status: 0\r\nx-sum-bin: AA\r\n";
        let length = u8::try_from(lines.len()).unwrap();
        let wanted = [&[0x80, 0, 0, 0, length][..], lines].concat();
        assert_eq!(trailer_frame(&trailers), wanted);
    }
}
