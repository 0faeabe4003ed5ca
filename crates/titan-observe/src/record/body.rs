//! The first bytes of both bodies, where the route of an exchange has them kept.
//!
//! They are noted while the bodies pass, and shared with what these pass through. In a record they stand beside its texts, not
//! among them: no body takes the room of what the gateway says itself.

use super::bytes::Reader;
use std::cell::RefCell;
use std::rc::Rc;
use titan_config::bounds::MAX_RECORDED_BODY;

/// Whose body it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyOf {
    /// The request's.
    Request,
    /// The response's.
    Response,
}

/// What is noted of both bodies of an exchange.
#[derive(Debug)]
pub struct Bodies {
    /// How many bytes of each are kept.
    most: usize,
    request: RefCell<Noted>,
    response: RefCell<Noted>,
}

/// What has passed of a body.
#[derive(Debug, Default)]
struct Noted {
    /// The first bytes of it, `Bodies::most` at most.
    beginning: Vec<u8>,
    /// How many bytes have passed.
    length: u64,
}

/// What a record has of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedBody<'r> {
    /// Its first bytes.
    pub beginning: &'r [u8],
    /// How many bytes of it have passed.
    pub length: u64,
}

/// The most bytes that are kept of a body, whatever a route says.
#[expect(clippy::cast_possible_truncation, reason = "it is a few thousand")]
const MAX_BODY: usize = MAX_RECORDED_BODY as usize;
/// What a body takes in a record beside its bytes: the length of these, and its own.
const FIXED: usize = 2 + 8;

impl Bodies {
    /// Keeps that many bytes of each body.
    pub fn new(most: usize) -> Rc<Bodies> {
        let most = most.min(MAX_BODY);
        Rc::new(Bodies { most, request: RefCell::default(), response: RefCell::default() })
    }

    /// Notes that these bytes of the body have passed.
    pub fn note(&self, of: BodyOf, data: &[u8]) {
        let mut noted = self.of(of).borrow_mut();
        let room = self.most - noted.beginning.len();
        if noted.beginning.capacity() == 0 {
            noted.beginning.reserve_exact(self.most);
        }
        noted.beginning.extend_from_slice(&data[..data.len().min(room)]);
        noted.length += data.len() as u64;
    }

    /// Notes that so many more bytes have passed, unseen: to be called once no more are wanted.
    pub fn skip(&self, of: BodyOf, count: usize) {
        self.of(of).borrow_mut().length += count as u64;
    }

    /// Whether more bytes are wanted.
    pub fn wants_more(&self, of: BodyOf) -> bool {
        self.of(of).borrow().beginning.len() < self.most
    }

    /// Notes that another body passes in place of what was noted.
    pub fn start_over(&self, of: BodyOf) {
        *self.of(of).borrow_mut() = Noted::default();
    }

    /// The memory that they take.
    pub(super) fn capacity(&self) -> usize {
        let beginnings = [&self.request, &self.response].map(|it| it.borrow().beginning.capacity());
        size_of::<Bodies>() + beginnings.iter().sum::<usize>()
    }

    /// The bytes that [`Bodies::write`] appends.
    pub(super) fn size(&self) -> usize {
        [&self.request, &self.response].map(|it| FIXED + it.borrow().beginning.len()).iter().sum()
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for noted in [&self.request, &self.response] {
            let Noted { beginning, length } = &*noted.borrow();
            let kept = u16::try_from(beginning.len()).expect("bounded by `MAX_BODY`");
            out.extend_from_slice(&kept.to_le_bytes());
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(beginning);
        }
    }

    fn of(&self, of: BodyOf) -> &RefCell<Noted> {
        match of {
            BodyOf::Request => &self.request,
            BodyOf::Response => &self.response,
        }
    }
}

impl<'r> RecordedBody<'r> {
    /// What [`Bodies::write`] has written of a body; nothing where it has written nothing, or where nothing of it has passed: that
    /// nobody has read a body does not tell that it was empty.
    pub(super) fn find(of: BodyOf, bodies: &'r [u8]) -> Option<RecordedBody<'r>> {
        bodies.first()?;
        let mut reader = Reader(bodies);
        let request = RecordedBody::read(&mut reader);
        let found = match of {
            BodyOf::Request => request,
            BodyOf::Response => RecordedBody::read(&mut reader),
        };
        Some(found).filter(|body| body.length > 0)
    }

    fn read(reader: &mut Reader<'r>) -> RecordedBody<'r> {
        let kept = usize::from(reader.u16());
        let length = reader.u64();
        RecordedBody { beginning: reader.bytes(kept), length }
    }

    /// Its beginning as text, if it is text: UTF-8 without controls but for ends of lines, tabs, and the escapes of terminals. A
    /// character that was cut off at the end is left out.
    pub fn text(&self) -> Option<&'r str> {
        let is_cut = self.length > self.beginning.len() as u64;
        let text = match str::from_utf8(self.beginning) {
            Ok(text) => text,
            Err(fault) if is_cut && fault.error_len().is_none() => {
                str::from_utf8(&self.beginning[..fault.valid_up_to()]).ok()?
            }
            Err(_) => return None,
        };
        let is_printed = |it: char| !it.is_control() || "\n\r\t\u{1b}".contains(it);
        (!text.is_empty() && text.chars().all(is_printed)).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{ExchangeRecord, MAX_TEXT, Recorded, Text};
    use proptest::prelude::*;

    /// What a record of those bodies has of one.
    fn read(bodies: &Rc<Bodies>, of: BodyOf) -> Option<(Vec<u8>, u64)> {
        let mut record = ExchangeRecord::default();
        record.set(Text::Route, b"api");
        record.bodies = Some(Rc::clone(bodies));
        let mut bytes = Vec::new();
        record.write_to(&mut bytes);
        let (read, rest) = Recorded::first_of(&bytes).expect("it is whole");
        assert_eq!((read.text(Text::Route), rest), (&b"api"[..], &b""[..]));
        read.body(of).map(|it| (it.beginning.to_vec(), it.length))
    }

    proptest! {
        #[test]
        fn never_more_is_kept_than_allowed(
            most in 0usize..6_000,
            pieces in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..3_000)), 0..8),
        ) {
            let bodies = Bodies::new(most);
            let (mut whole, most) = ([Vec::new(), Vec::new()], most.min(MAX_BODY));
            for (is_response, piece) in pieces {
                let of = if is_response { BodyOf::Response } else { BodyOf::Request };
                bodies.note(of, &piece);
                whole[usize::from(is_response)].extend_from_slice(&piece);
            }
            for (of, whole) in [BodyOf::Request, BodyOf::Response].into_iter().zip(whole) {
                let beginning = whole[..whole.len().min(most)].to_vec();
                prop_assert_eq!(bodies.wants_more(of), beginning.len() < most);
                let expected = (!whole.is_empty()).then_some((beginning, whole.len() as u64));
                prop_assert_eq!(read(&bodies, of), expected);
                prop_assert!(bodies.capacity() <= size_of::<Bodies>() + 2 * most);
            }
        }

        #[test]
        fn a_cut_text_ends_before_the_character_that_was_cut(text in "[a-zäöü€😀]{1,8}", most in 4usize..40) {
            let bodies = Bodies::new(most);
            bodies.note(BodyOf::Request, text.as_bytes());
            let (beginning, length) = read(&bodies, BodyOf::Request).unwrap();
            let shown = RecordedBody { beginning: &beginning, length }.text().unwrap();
            prop_assert!(text.starts_with(shown) && beginning.len() - shown.len() < 4);
            prop_assert!(length > beginning.len() as u64 || shown == text);
        }
    }

    #[test]
    fn what_is_no_text_is_none() {
        let text = |beginning| RecordedBody { beginning, length: 9 }.text();
        assert_eq!(text(b"{\"a\":\t1}\r\n"), Some("{\"a\":\t1}\r\n"));
        assert_eq!(text(b"\x1b[31mred"), Some("\u{1b}[31mred"));
        for other in
            [&b"\0\0\0\0\x02hi"[..], b"\x1f\x8b\x08", b"\xc3(", b"a\x7f", "\u{9b}1m".as_bytes()]
        {
            assert_eq!(text(other), None, "{other:?}");
        }
        assert_eq!(RecordedBody { beginning: b"a\xc3", length: 2 }.text(), None, "nothing was cut");
    }

    #[test]
    fn what_passes_in_place_of_another_body_is_alone() {
        let bodies = Bodies::new(4);
        bodies.note(BodyOf::Response, b"page");
        bodies.skip(BodyOf::Response, 7);
        assert_eq!(read(&bodies, BodyOf::Response), Some((b"page".to_vec(), 11)));
        bodies.start_over(BodyOf::Response);
        bodies.note(BodyOf::Response, b"no");
        assert_eq!(read(&bodies, BodyOf::Response), Some((b"no".to_vec(), 2)));
    }

    #[test]
    fn a_body_takes_no_room_of_texts_and_outlives_no_exchange() {
        let bodies = Bodies::new(MAX_BODY);
        for of in [BodyOf::Request, BodyOf::Response] {
            bodies.note(of, &[b'b'; 2 * MAX_BODY]);
        }
        let mut record = ExchangeRecord { bodies: Some(bodies), ..ExchangeRecord::default() };
        for text in [Text::Host, Text::Sni, Text::Target, Text::Method, Text::TraceId] {
            record.set(text, &[b'x'; MAX_TEXT]);
        }
        record.set(Text::Route, b"api");
        let mut bytes = Vec::new();
        record.write_to(&mut bytes);
        let (read, _) = Recorded::first_of(&bytes).unwrap();
        assert_eq!((read.text(Text::Host).len(), read.text(Text::Route)), (MAX_TEXT, &b"api"[..]));
        assert_eq!(read.body(BodyOf::Response).unwrap().beginning, [b'b'; MAX_BODY]);
        record.clear();
        bytes.clear();
        record.write_to(&mut bytes);
        assert_eq!(Recorded::first_of(&bytes).unwrap().0.body(BodyOf::Request), None);
    }
}
