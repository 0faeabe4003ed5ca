//! What the tests of both directions need, and those of heads.

use super::*;
use std::io::Read;
use std::rc::Rc;
use std::task::{Context, Poll};
use titan_io::body::BodySource;
use titan_io::body::{Gone, RequestBody};
use titan_io::error::Error;

/// Pieces of a body with a pause behind each.
pub(super) struct Pieces {
    pieces: Vec<Vec<u8>>,
    pub(super) next: usize,
    data: Vec<u8>,
    start: usize,
    pauses: bool,
    pub(super) trailers: Fields,
    pub(super) is_ahead: bool,
}

impl Pieces {
    pub(super) fn new(pieces: Vec<Vec<u8>>) -> Pieces {
        let (data, trailers) = (Vec::new(), Fields::default());
        Pieces { pieces, next: 0, data, start: 0, pauses: false, trailers, is_ahead: false }
    }
}

impl BodySource for Pieces {
    fn poll_data(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if std::mem::replace(&mut self.pauses, true) && self.next > 0 {
            self.pauses = false;
            return Poll::Pending;
        }
        if let Some(piece) = self.pieces.get(self.next) {
            self.data.clone_from(piece);
            self.start = 0;
        }
        self.next += 1;
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        &self.data[self.start..]
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
    }

    fn set_ahead(&mut self, is_ahead: bool) {
        self.is_ahead = is_ahead;
    }

    fn is_done(&self) -> bool {
        self.next > self.pieces.len()
    }

    fn is_last(&self) -> bool {
        self.is_done()
    }

    fn trailers(&self) -> &Fields {
        &self.trailers
    }
}

impl RequestBody for Pieces {
    fn poll_ahead(&mut self, _: &mut Context<'_>, _: usize) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn ahead(&self) -> usize {
        0
    }

    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<Gone> {
        Poll::Pending
    }

    fn poll_lost(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn is_broken(&self) -> bool {
        false
    }

    fn is_abandoned(&self) -> bool {
        false
    }

    fn set_limit(&mut self, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn received(&self) -> u64 {
        0
    }
}

#[test]
fn a_path_is_below_another_by_whole_segments() {
    for below in ["/a/b", "/a/b/", "/A/b/c"] {
        assert!(is_below(below.as_bytes(), b"/a/b"), "{below}");
    }
    for written in
        ["/a%2Fb", "/a/b%2fc", "/a/b;v=1", "/a;v=1/b/c", "/;/a/b", "/%2F/a/b", "/%61/B%3Bx"]
    {
        assert!(is_below(written.as_bytes(), b"/a/b"), "{written}");
    }
    assert!(is_below(b"/%40me/x", b"/@me") && is_below(b"/@me", b"/%40me"));
    for beside in ["/a/bc", "/a", "/", "*", "/a-b", "/a%252Fb", "/x;/a/b", "/b/a"] {
        assert!(!is_below(beside.as_bytes(), b"/a/b"), "{beside}");
    }
    assert!(is_below(b"/", b"") && is_below(b"/x", b"") && is_below(b"/a/b", b"/a/b/"));
}

#[test]
fn what_codes_at_once_is_bounded() {
    let text = "listeners: [':80']\nroutes: [{ prefix: /, respond: {}, apply: [p] }]\n\
                policies: { p: { compress: {} } }";
    let config = titan_config::Config::parse("titan.yaml", text).unwrap();
    let titan_config::Policy::Compress(config) = &config.policies[0].policy else { panic!() };
    let policy = Compress::new(config);
    for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
        let encoders = Rc::<Encoders>::default();
        let decide = || {
            let note = CompressState {
                choice: Choice { coding: Some(coding), insists: false },
                ..CompressState::default()
            };
            let mut head = ResponseHead::with_status(Status::OK);
            head.fields.append(FieldName::ContentType, b"text/html").unwrap();
            let mut content = Content { length: BodyLength::Unknown, declared: None };
            let encoding = policy.on_response(note, &mut head, &mut content, &encoders).unwrap();
            let is_told = head.fields.get(FieldName::ContentEncoding).is_some();
            assert_eq!(
                (encoding.is_some(), head.fields.get(FieldName::Vary)),
                (is_told, Some(b"Accept-Encoding".as_slice()))
            );
            encoding
        };
        let mut sources: Vec<_> = (0..2_000).map(|_| Pieces::new(vec![b"x".into()])).collect();
        let mut bodies = Vec::new();
        for source in &mut sources {
            let Some(encoding) = decide() else { break };
            bodies.push(CompressedBody::new(source, encoding, &encoders));
        }
        let memory =
            bodies.len() * Encoding { coding, level: 3, length: None, padding: 0 }.memory();
        assert!((509 << 20..=512 << 20).contains(&memory), "{coding:?}: {}", bodies.len());
        // There is room again once one is over, however it was.
        drop(bodies.pop());
        assert!(decide().is_some());
    }
}

/// What a decoder makes of what there is, and whether it found the end.
pub(super) fn decoded(coding: Coding, bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    let is_whole = match coding {
        Coding::Gzip => flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).is_ok(),
        Coding::Brotli => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut out).is_ok(),
        Coding::Zstd => zstd::Decoder::new(bytes).unwrap().read_to_end(&mut out).is_ok(),
    };
    (out, is_whole)
}
