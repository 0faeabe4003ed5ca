//! The heads of the request and the response, in full as far as there is room.

use super::{ExchangeRecord, MAX_FOREIGN, MAX_TEXT, Pair, Place, Text, pair, short};
use titan_http::{Fields, RequestHead, Span};

/// How much of a head a record does not have, for want of room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadCut {
    /// Fields that are not there.
    pub missing: u16,
    /// Fields of which only the beginning is there.
    pub shortened: u16,
}

/// The longest text of a head that is copied at once; of a longer one its fields are kept as far as there is room.
const MAX_HEAD: usize = 12 << 10;
/// The most bytes that both heads and what is before them take. What comes behind them has the rest: claims.
pub(super) const MAX_HEADS: usize = MAX_FOREIGN - (8 << 10);
/// The most fields of a head that are kept.
const MAX_LINES: usize = 256;

impl ExchangeRecord {
    /// Notes the request as its client has sent it. Most of what it asks for stands in its head, and is not copied twice.
    pub fn set_request(&mut self, request: &RequestHead) {
        let fields = &request.fields;
        let method = request.method.as_str().as_bytes();
        let host = request.authority().unwrap_or_default();
        let (path, query) = (request.path(), request.query());
        if !self.has_room_for(fields) {
            // Before what is long, for there may be no room for all of it.
            self.set(Text::Method, method);
            self.set(Text::Host, host);
            self.set_target(path, query);
            return self.set_request_head(fields);
        }
        let (start, text) = (self.arena.len(), fields.text());
        self.set_request_head(fields);
        match text.starts_with(method) {
            true => self.set_place(
                Text::Method,
                Place { start: short(start), length: short(method.len()) },
            ),
            false => self.set(Text::Method, method),
        }
        match place_in(text, start, host) {
            Some(place) => self.set_place(Text::Host, place),
            None => self.set(Text::Host, host),
        }
        match target_of(text, path, query).and_then(|target| place_in(text, start, target)) {
            Some(place) => self.set_place(Text::Target, place),
            None => self.set_target(path, query),
        }
    }

    /// Notes the fields of the request as its client has sent them.
    pub fn set_request_head(&mut self, fields: &Fields) {
        self.lines.clear();
        let cut = self.push_head(fields);
        self.facts.set_request_cut(cut);
        self.request_lines = u16::try_from(self.lines.len()).expect("bounded by `MAX_LINES`");
    }

    /// Notes the fields of the response, in place of what was to go out before.
    pub fn set_response_head(&mut self, fields: &Fields) {
        self.lines.truncate(self.request_lines.into());
        let cut = self.push_head(fields);
        self.facts.set_response_cut(cut);
    }

    /// Whether the text of these fields is copied as it is.
    fn has_room_for(&self, fields: &Fields) -> bool {
        let length = fields.text().len();
        length <= MAX_HEAD && self.arena.len() + length <= MAX_HEADS
    }

    fn push_head(&mut self, fields: &Fields) -> HeadCut {
        if self.has_room_for(fields) {
            let start = self.arena.len();
            self.arena.extend_from_slice(fields.text());
            let lines = fields.spans().take(MAX_LINES);
            self.lines.extend(lines.map(|spans| moved(spans, start as u64)));
            return HeadCut {
                missing: count(fields.len().saturating_sub(MAX_LINES)),
                shortened: 0,
            };
        }
        let (mut kept, mut shortened) = (0, 0);
        for field in fields.iter().take(MAX_LINES) {
            if self.arena.len() + field.name.len() >= MAX_HEADS {
                break;
            }
            let [name, value] =
                [field.name, field.value].map(|text| self.push_within(MAX_HEADS, text));
            kept += 1;
            let length = usize::from(name.length) + usize::from(value.length);
            shortened += usize::from(length < field.name.len() + field.value.len());
            self.lines.push(pair(name, value));
        }
        HeadCut { missing: count(fields.len() - kept), shortened: count(shortened) }
    }
}

fn count(fields: usize) -> u16 {
    u16::try_from(fields).unwrap_or(u16::MAX)
}

/// Where `part` is, if it is a part of `text`, whose copy begins at `start`.
fn place_in(text: &[u8], start: usize, part: &[u8]) -> Option<Place> {
    let at = offset_in(text, part)?;
    let length = part.len().min(MAX_TEXT);
    Some(Place { start: u16::try_from(start + at).ok()?, length: u16::try_from(length).ok()? })
}

/// Path and query as one part of `text`, where they stand in it one behind the other.
fn target_of<'t>(text: &'t [u8], path: &[u8], query: Option<&[u8]>) -> Option<&'t [u8]> {
    let start = offset_in(text, path)?;
    let end = start + path.len();
    let Some(query) = query else { return Some(&text[start..end]) };
    let at = offset_in(text, query)?;
    (at == end + 1 && text[end] == b'?').then(|| &text[start..at + query.len()])
}

/// How far behind the beginning of `text` that part of it is.
fn offset_in(text: &[u8], part: &[u8]) -> Option<usize> {
    let at = part.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    (at <= text.len() && part.len() <= text.len() - at).then_some(at)
}

/// The places of a name and a value, whose text begins at `start`: there are dozens of them in a record, all below [`MAX_HEADS`].
fn moved((name, value): (Span, Span), start: u64) -> Pair {
    let place = |span: Span| {
        let (begin, end) = span.ends();
        (start + u64::from(begin)) | (u64::from(end - begin) << 16)
    };
    (place(name) | place(value) << 32).to_le_bytes()
}
