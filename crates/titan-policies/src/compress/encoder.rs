//! Encoders of the codings behind one interface: bytes in, bytes out, and a flush on demand.

mod brotli;
mod gzip;
mod zstd;

use super::Settings;
use brotli::Brotli;
use gzip::Gzip;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use titan_http::coding::Coding;
use zstd::Zstd;

/// Compresses one body. Its memory goes to the next body when it is dropped.
pub(super) struct Encoder {
    /// There until it is dropped.
    kind: Option<Kind>,
    level: u8,
    home: Rc<Encoders>,
}

enum Kind {
    Gzip(Box<Gzip>),
    Brotli(Box<Brotli>),
    Zstd(Box<Zstd>),
}

/// The encoders of one worker: those that no body uses now, by their levels, and how much memory the others have.
///
/// Making one anew takes as long as coding some 10 KiB. Those of brotli cannot be used twice.
#[derive(Default)]
pub struct Encoders {
    gzip: RefCell<Vec<(u8, Box<Gzip>)>>,
    zstd: RefCell<Vec<(u8, Box<Zstd>)>>,
    at_work: Cell<usize>,
}

/// The memory of a body that is being compressed; released when dropped.
pub(super) struct EncoderMemory {
    bytes: usize,
    home: Rc<Encoders>,
}

/// How much memory the active encoders of a worker may use. Clients decide how many bodies they ask for, and how
/// slowly they take them.
const MOST_AT_WORK: usize = 512 << 20;

/// How many encoders of gzip a worker keeps, of 300 KiB each.
const KEPT_GZIP: usize = 16;
/// How many of zstd, of up to 4 MiB each.
const KEPT_ZSTD: usize = 4;
/// How much room an encoder is given at a time.
const PIECE: usize = 8 << 10;

impl Encoders {
    /// The bytes of those that a body uses now.
    pub(crate) fn at_work(&self) -> usize {
        self.at_work.get()
    }

    /// Whether another body can be compressed with these settings.
    pub(super) fn have_room_for(&self, settings: Settings) -> bool {
        self.at_work.get() + settings.memory() <= MOST_AT_WORK
    }
}

impl EncoderMemory {
    /// The room for a body with these settings. The code that wrote its head has checked that there is some.
    pub(super) fn new(settings: Settings, home: &Rc<Encoders>) -> EncoderMemory {
        let bytes = settings.memory();
        home.at_work.set(home.at_work.get() + bytes);
        EncoderMemory { bytes, home: Rc::clone(home) }
    }
}

impl Drop for EncoderMemory {
    fn drop(&mut self) {
        let at_work = &self.home.at_work;
        at_work.set(at_work.get() - self.bytes);
    }
}

impl Encoder {
    /// An encoder for a body with these settings.
    pub(super) fn new(settings: Settings, home: &Rc<Encoders>) -> Encoder {
        let Settings { coding, level, length, padding } = settings;
        let padding = random_up_to(padding);
        let kind = match coding {
            Coding::Gzip => {
                let kept = take(&home.gzip, level);
                let mut gzip = kept.unwrap_or_else(|| Box::new(Gzip::new(level)));
                gzip.begin(padding);
                Kind::Gzip(gzip)
            }
            Coding::Brotli => Kind::Brotli(Box::new(Brotli::new(level, length, padding))),
            Coding::Zstd => {
                let kept = take(&home.zstd, level);
                let mut zstd = kept.unwrap_or_else(|| Box::new(Zstd::new(level)));
                zstd.begin(length, padding);
                Kind::Zstd(zstd)
            }
        };
        Encoder { kind: Some(kind), level, home: Rc::clone(home) }
    }

    /// Takes bytes of the body.
    pub(super) fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        match self.kind() {
            Kind::Gzip(gzip) => gzip.write(bytes, out),
            Kind::Brotli(brotli) => brotli.write(bytes, out),
            Kind::Zstd(zstd) => zstd.write(bytes, out),
        }
    }

    /// Puts out everything that was taken.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        match self.kind() {
            Kind::Gzip(gzip) => gzip.flush(out),
            Kind::Brotli(brotli) => brotli.flush(out),
            Kind::Zstd(zstd) => zstd.flush(out),
        }
    }

    /// Ends the body.
    pub(super) fn finish(mut self, out: &mut Vec<u8>) -> io::Result<()> {
        match self.kind() {
            Kind::Gzip(gzip) => gzip.finish(out),
            Kind::Brotli(brotli) => brotli.finish(out),
            Kind::Zstd(zstd) => zstd.finish(out),
        }
    }

    fn kind(&mut self) -> &mut Kind {
        self.kind.as_mut().expect("only drop takes it")
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        match self.kind.take() {
            Some(Kind::Gzip(gzip)) => keep(&self.home.gzip, self.level, gzip, KEPT_GZIP),
            Some(Kind::Zstd(zstd)) => keep(&self.home.zstd, self.level, zstd, KEPT_ZSTD),
            Some(Kind::Brotli(_)) | None => {}
        }
    }
}

type SpareEncoders<E> = RefCell<Vec<(u8, Box<E>)>>;

/// The one of that level that was returned last.
fn take<E>(spares: &SpareEncoders<E>, level: u8) -> Option<Box<E>> {
    let mut spares = spares.borrow_mut();
    let place = spares.iter().rposition(|(of, _)| *of == level)?;
    Some(spares.remove(place).1)
}

/// If there are enough already, the one that was used longest ago is dropped: its level may be out of use.
fn keep<E>(spares: &SpareEncoders<E>, level: u8, encoder: Box<E>, most: usize) {
    let mut spares = spares.borrow_mut();
    if spares.len() == most {
        spares.remove(0);
    }
    spares.push((level, encoder));
}

/// An unpredictable number from 1 to `most`; 0 for 0.
fn random_up_to(most: u16) -> usize {
    if most == 0 {
        return 0;
    }
    let mut bytes = [0; 4];
    let filled = aws_lc_rs::rand::fill(&mut bytes);
    filled.expect("the library ends the process where there is no randomness");
    // So little of 32 bits that the numbers are even enough.
    1 + usize::try_from(u32::from_ne_bytes(bytes) % u32::from(most)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(coding: Coding, level: u8) -> Settings {
        Settings { coding, level, length: None, padding: 0 }
    }

    #[test]
    fn what_one_body_leaves_the_next_one_uses() {
        let home = Rc::new(Encoders::default());
        for coding in [Coding::Gzip, Coding::Zstd] {
            let mut unfinished = Encoder::new(settings(coding, 1), &home);
            unfinished.write(b"of the body before", &mut Vec::new()).unwrap();
            drop(unfinished);
            let mut out = Vec::new();
            let mut again = Encoder::new(settings(coding, 1), &home);
            again.write(b"abc", &mut out).unwrap();
            again.finish(&mut out).unwrap();
            assert_eq!(super::super::tests::decoded(coding, &out), (b"abc".to_vec(), true));
        }
        assert_eq!((home.gzip.borrow().len(), home.zstd.borrow().len()), (1, 1));
    }

    #[test]
    fn what_is_kept_is_bounded_and_has_its_level() {
        let home = Rc::new(Encoders::default());
        for coding in [Coding::Gzip, Coding::Zstd] {
            let many = (0..40).map(|at| Encoder::new(settings(coding, 1 + at % 2), &home));
            drop(many.collect::<Vec<_>>());
        }
        assert_eq!((home.gzip.borrow().len(), home.zstd.borrow().len()), (KEPT_GZIP, KEPT_ZSTD));
        assert!(take(&home.gzip, 3).is_none() && take(&home.gzip, 2).is_some());
    }

    #[test]
    fn what_is_padded_can_be_read() {
        let home = Rc::new(Encoders::default());
        for (coding, body) in [
            (Coding::Gzip, b"".as_slice()),
            (Coding::Brotli, b"".as_slice()),
            (Coding::Zstd, b"".as_slice()),
            (Coding::Gzip, b"abc"),
            (Coding::Brotli, b"abc"),
            (Coding::Zstd, b"abc"),
        ] {
            let mut seen = 0;
            for _ in 0..400 {
                let padded = Settings { padding: 600, ..settings(coding, 4) };
                let (mut out, mut encoder) = (Vec::new(), Encoder::new(padded, &home));
                encoder.write(body, &mut out).unwrap();
                encoder.finish(&mut out).unwrap();
                assert_eq!(super::super::tests::decoded(coding, &out), (body.to_vec(), true));
                seen = seen.max(out.len());
            }
            assert!((400..650).contains(&seen), "{coding:?}: {seen}");
        }
    }

    #[test]
    fn padding_has_any_length_up_to_its_bound() {
        let seen: std::collections::BTreeSet<_> = (0..500).map(|_| random_up_to(4)).collect();
        assert_eq!(seen, [1, 2, 3, 4].into());
        assert_eq!(random_up_to(0), 0);
    }
}
