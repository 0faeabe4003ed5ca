//! Helpers for the tests of both directions, and tests of heads.

use super::*;
use std::cell::Cell;
use std::io::Read;
use std::rc::Rc;
use std::task::{Context, Poll};
use titan_io::body::BodySource;
use titan_io::error::Error;
use titan_io::transform::{BodyTransform, Transformed, Transforms};

/// Pieces of a body with a pause behind each.
pub(super) struct Pieces {
    pieces: Vec<Vec<u8>>,
    data: Vec<u8>,
    start: usize,
    pub(super) trailers: Fields,
    pub(super) seen: Rc<Seen>,
}

/// What can be seen of them from outside.
#[derive(Default)]
pub(super) struct Seen {
    /// How many pieces have come; one more at the end.
    pub(super) next: Cell<usize>,
    /// Whether there was nothing when they were last asked.
    pub(super) is_pausing: Cell<bool>,
    pub(super) is_ahead: Cell<bool>,
}

impl Pieces {
    pub(super) fn new(pieces: Vec<Vec<u8>>) -> Pieces {
        let (data, trailers) = (Vec::new(), Fields::default());
        Pieces { pieces, data, start: 0, trailers, seen: Rc::default() }
    }
}

/// A body behind one transform.
pub(super) fn behind<'t>(
    source: &'t mut Pieces,
    transform: impl BodyTransform + 't,
) -> Transformed<'t, Pieces> {
    let mut transforms = Transforms::default();
    transforms.push(transform);
    Transformed::new(source, transforms)
}

impl BodySource for Pieces {
    fn poll_data(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let Seen { next, is_pausing, .. } = &*self.seen;
        if next.get() > 0 && !is_pausing.replace(!is_pausing.get()) {
            return Poll::Pending;
        }
        if let Some(piece) = self.pieces.get(next.get()) {
            self.data.clone_from(piece);
            self.start = 0;
        }
        next.set(next.get() + 1);
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        &self.data[self.start..]
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
    }

    fn set_ahead(&mut self, is_ahead: bool) {
        self.seen.is_ahead.set(is_ahead);
    }

    fn is_done(&self) -> bool {
        self.seen.next.get() > self.pieces.len()
    }

    fn is_last(&self) -> bool {
        self.is_done()
    }

    fn trailers(&self) -> &Fields {
        &self.trailers
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
    let policy = Compress((**config).clone());
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
            let encoding = policy.encode(&note, &mut head, &mut content, &encoders).unwrap();
            let is_told = head.fields.get(FieldName::ContentEncoding).is_some();
            assert_eq!(
                (encoding.is_some(), head.fields.get(FieldName::Vary)),
                (is_told, Some(b"Accept-Encoding".as_slice()))
            );
            encoding
        };
        let mut bodies = Vec::new();
        while let Some(settings) = decide() {
            let encoding = Encoding { settings, compressed: Rc::default() };
            bodies.push(Compressor::new(encoding, &encoders));
        }
        let memory =
            bodies.len() * Settings { coding, level: 3, length: None, padding: 0 }.memory();
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

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(32))]
    /// Decoded from one coding and compressed in another, it is what it was.
    #[test]
    fn a_body_passes_through_one_after_the_other(
        body in proptest::collection::vec(0_u8..8, 0..30_000),
        size in 1_usize..3000,
        window in 1_usize..3000,
    ) {
        use std::io::Write;
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&body).unwrap();
        let coded = gzip.finish().unwrap();
        let memory = titan_io::memory::ClientMemory::new(64 << 20, std::sync::Arc::default());
        let limits = Decoding { coding: Coding::Gzip, most: u64::MAX, ratio: u64::MAX, window: 0 };
        let mut source = Pieces::new(coded.chunks(size).map(<[u8]>::to_vec).collect());
        let mut transforms = Transforms::default();
        transforms.push(Decompressor::new(limits, memory.of(None)));
        let settings = Settings { coding: Coding::Zstd, level: 3, length: None, padding: 0 };
        let encoding = Encoding { settings, compressed: Rc::default() };
        transforms.push(Compressor::new(encoding, &Rc::default()));
        let mut passed = Transformed::new(&mut source, transforms);
        let (mut out, mut cx) = (Vec::new(), Context::from_waker(std::task::Waker::noop()));
        while !passed.is_done() {
            let _ = passed.poll_data(&mut cx).map(Result::unwrap);
            let count = passed.data().len().min(window);
            out.extend_from_slice(&passed.data()[..count]);
            passed.consume(count);
        }
        proptest::prop_assert_eq!(decoded(Coding::Zstd, &out), (body, true));
    }
}
