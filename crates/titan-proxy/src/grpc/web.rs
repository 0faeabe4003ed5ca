//! gRPC-Web, the form for browsers, which cannot read trailers: translated to gRPC and back (`PROTOCOL-WEB.md`).
//!
//! Body transforms translate the messages; in between, the call is a gRPC call like any other.

use super::text::{Decoder, encode};
use super::{Dialect, MEDIA_TYPE, suffix};
use titan_http::{BadField, BodyLength, FieldName, Fields, RequestHead, ResponseHead};
use titan_io::body::Content;
use titan_io::error::{Error, Kind};
use titan_io::relay::Turn;
use titan_io::transform::{BodyTransform, StepResult, Transforms};

/// The flag of the frame that holds trailers.
const TRAILERS: u8 = 0x80;
/// How many bytes are translated at once. Of text whole groups, so that padding stands only where it must.
const STEP: usize = 12 << 10;

/// Turns the head of a gRPC-Web request into one of gRPC. A body of text has to pass through a [`TextDecoder`].
pub(crate) fn to_native(head: &mut RequestHead) -> Result<(), BadField> {
    let value = head.fields.get(FieldName::ContentType).unwrap_or_default();
    let native = [MEDIA_TYPE, suffix(value)].concat();
    head.fields.set(FieldName::ContentType, &native)
}

/// Turns a gRPC response into one of gRPC-Web, for a client that uses that format: its head here, its body by a
/// transform. What is no response of gRPC stays as it is.
pub(crate) fn from_native(
    dialect: Dialect,
    head: &mut ResponseHead,
    content: &mut Content,
    transforms: &mut Transforms<'_>,
) -> Result<(), BadField> {
    if dialect == Dialect::Native || Dialect::of(&head.fields) != Some(Dialect::Native) {
        return Ok(());
    }
    let media_type = head.fields.get(FieldName::ContentType).unwrap_or_default();
    let translated = [dialect.media_type(), suffix(media_type)].concat();
    head.fields.set(FieldName::ContentType, &translated)?;
    match content.length {
        // All there is to say stands in the head.
        BodyLength::None | BodyLength::Known(0) => {}
        _ => content.length = BodyLength::Unknown,
    }
    transforms.push(Framer { is_text: dialect == Dialect::WebText });
    Ok(())
}

/// Decodes the text of a request to bytes.
#[derive(Default)]
pub(crate) struct TextDecoder(Decoder);

impl BodyTransform for TextDecoder {
    fn take(
        &mut self,
        input: &[u8],
        turn: &mut Turn,
        out: &mut Vec<u8>,
    ) -> Result<StepResult, Error> {
        let bytes = input.len().min(STEP);
        turn.spend(bytes);
        self.0.read(&input[..bytes], out).map_err(|_| Kind::BadWebText)?;
        Ok(StepResult { bytes, has_more: false })
    }

    fn end(&mut self, _: &Fields, _: &mut Vec<u8>) -> Result<Option<Fields>, Error> {
        if self.0.is_complete() { Ok(None) } else { Err(Kind::BadWebText.into()) }
    }
}

/// Puts the trailers of a response at the end of its body, where browsers can see them; makes text of it all where they
/// want that.
struct Framer {
    is_text: bool,
}

impl Framer {
    fn write(&self, bytes: &[u8], out: &mut Vec<u8>) {
        match self.is_text {
            true => encode(bytes, out),
            false => out.extend_from_slice(bytes),
        }
    }
}

impl BodyTransform for Framer {
    fn take(
        &mut self,
        input: &[u8],
        turn: &mut Turn,
        out: &mut Vec<u8>,
    ) -> Result<StepResult, Error> {
        let bytes = input.len().min(STEP);
        turn.spend(bytes);
        self.write(&input[..bytes], out);
        Ok(StepResult { bytes, has_more: false })
    }

    fn end(&mut self, trailers: &Fields, out: &mut Vec<u8>) -> Result<Option<Fields>, Error> {
        if !trailers.is_empty() {
            self.write(&trailer_frame(trailers), out);
        }
        Ok(Some(Fields::default()))
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
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;
    use std::task::{Context, Poll, Waker};
    use titan_io::body::{BodySource, Text};
    use titan_io::transform::Transformed;

    /// What a body becomes that is taken in windows of that size.
    fn through(body: &mut dyn BodySource, window: usize) -> Result<Vec<u8>, Kind> {
        let (mut out, mut cx) = (Vec::new(), Context::from_waker(Waker::noop()));
        while !body.is_done() {
            match body.poll_data(&mut cx) {
                Poll::Ready(Err(error)) => return Err(error.kind),
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
            let count = body.data().len().min(window);
            out.extend_from_slice(&body.data()[..count]);
            body.consume(count);
        }
        Ok(out)
    }

    fn by(transform: impl BodyTransform + 'static) -> Transforms<'static> {
        let mut transforms = Transforms::default();
        transforms.push(transform);
        transforms
    }

    /// Every group of text by itself, as a naive reader takes it.
    fn read(text: &[u8]) -> Vec<u8> {
        text.chunks(4).flat_map(|group| STANDARD.decode(group).unwrap()).collect()
    }

    fn trailers() -> Fields {
        let mut trailers = Fields::default();
        trailers.append_named(b"Grpc-Status", b"0").unwrap();
        trailers.append_named(b"x-sum-bin", b"AA").unwrap();
        trailers
    }

    /// A body of bytes with trailers behind it.
    struct Native<'t>(Text<'t>, Fields);

    impl BodySource for Native<'_> {
        fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
            self.0.poll_data(cx)
        }

        fn data(&self) -> &[u8] {
            self.0.data()
        }

        fn consume(&mut self, count: usize) {
            self.0.consume(count);
        }

        fn is_done(&self) -> bool {
            self.0.is_done()
        }

        fn is_last(&self) -> bool {
            false
        }

        fn trailers(&self) -> &Fields {
            &self.1
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_request_of_text_is_what_its_groups_stand_for(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9000), 0..5),
            window in 1_usize..20_000,
            cut in 1_usize..4,
        ) {
            let text: String = pieces.iter().map(|piece| STANDARD.encode(piece)).collect();
            let run = |text: &[u8]| {
                let mut source = Text::new(text);
                through(&mut Transformed::new(&mut source, by(TextDecoder::default())), window)
            };
            prop_assert_eq!(run(text.as_bytes()), Ok(read(text.as_bytes())));
            if let Some(cut) = text.len().checked_sub(cut) {
                prop_assert_eq!(run(&text.as_bytes()[..cut]), Err(Kind::BadWebText));
            }
        }

        #[test]
        fn a_response_has_its_trailers_as_the_last_frame(
            body in proptest::collection::vec(any::<u8>(), 0..40_000),
            window in 1_usize..20_000,
            is_text: bool,
        ) {
            let mut source = Native(Text::new(&body), trailers());
            let mut framed = Transformed::new(&mut source, by(Framer { is_text }));
            let out = through(&mut framed, window).unwrap();
            prop_assert!(framed.trailers().is_empty() && framed.is_last());
            let out = if is_text { read(&out) } else { out };
            prop_assert_eq!(out, [&body[..], &trailer_frame(&trailers())].concat());
        }
    }

    #[test]
    fn trailers_are_a_frame() {
        let lines = b"grpc-status: 0\r\nx-sum-bin: AA\r\n";
        let length = u8::try_from(lines.len()).unwrap();
        let wanted = [&[0x80, 0, 0, 0, length][..], lines].concat();
        assert_eq!(trailer_frame(&trailers()), wanted);
    }
}
