//! The heads of the request and the response, in full as far as there is room.

use super::{ExchangeRecord, MAX_FOREIGN, Pair, Place, pair};
use titan_http::{Fields, Span};

/// The longest text of a head that is copied at once; of a longer one each field is kept for which there is room.
const MAX_HEAD: usize = 12 << 10;
/// The most bytes that both heads and what is before them take. What comes behind them has the rest: claims.
const MAX_HEADS: usize = MAX_FOREIGN - (8 << 10);
/// The most fields of a head that are kept.
const MAX_LINES: usize = 256;

impl ExchangeRecord {
    /// Notes the fields of the request as its client has sent them.
    pub fn set_request_head(&mut self, fields: &Fields) {
        self.lines.clear();
        self.push_head(fields);
        self.request_lines = u16::try_from(self.lines.len()).expect("bounded by `MAX_LINES`");
    }

    /// Notes the fields of the response, in place of what was to go out before.
    pub fn set_response_head(&mut self, fields: &Fields) {
        self.lines.truncate(self.request_lines.into());
        self.push_head(fields);
    }

    fn push_head(&mut self, fields: &Fields) {
        let (start, text) = (self.arena.len(), fields.text());
        if text.len() <= MAX_HEAD && start + text.len() <= MAX_HEADS {
            self.arena.extend_from_slice(text);
            let lines = fields.spans().take(MAX_LINES);
            self.lines.extend(lines.map(|spans| moved(spans, start)));
            return;
        }
        for field in fields.iter().take(MAX_LINES) {
            if self.arena.len() + field.name.len() >= MAX_HEADS {
                break;
            }
            let [name, value] =
                [field.name, field.value].map(|text| self.push_within(MAX_HEADS, [text]));
            let line = pair(name, value);
            self.lines.push(line);
        }
    }
}

/// The places of a name and a value, whose text begins at `start`.
fn moved((name, value): (Span, Span), start: usize) -> Pair {
    let place = |span: Span| {
        let range = span.range();
        let bounded = "bounded by `MAX_FOREIGN`";
        Place {
            start: u16::try_from(start + range.start).expect(bounded),
            length: u16::try_from(range.len()).expect(bounded),
        }
    };
    pair(place(name), place(value))
}
