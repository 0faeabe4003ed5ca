//! The route that a request matched, and what it captured.

use titan_http::{RequestHead, Span};

/// How many parts of a path a route can capture.
pub const MAX_PARAMS: usize = 16;

/// The route that takes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Its index in the configuration.
    pub route: usize,
    /// What its pattern captured.
    pub params: Params,
    /// The path that was matched, in the text of the request; policies may give the request another one. Empty
    /// where the target has none.
    pub path: Span,
}

/// The parts of a path that a pattern captured, in the order of the pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Params {
    len: u8,
    spans: [(u32, u32); MAX_PARAMS],
}

impl Match {
    /// The same, in that request.
    pub fn of(self, request: &RequestHead) -> Match {
        Match { path: request.target.path, ..self }
    }

    /// The path that was matched.
    pub fn path<'r>(&self, request: &'r RequestHead) -> &'r [u8] {
        match self.path.is_empty() {
            true => b"/",
            false => self.path.of(request.fields.text()),
        }
    }
}

impl Params {
    /// The part of `path` that the parameter with that index captured; empty if there is none.
    pub fn get<'p>(&self, index: usize, path: &'p [u8]) -> &'p [u8] {
        let captured = &self.spans[..self.len.into()];
        captured.get(index).map_or(&[], |&(start, end)| &path[start as usize..end as usize])
    }

    /// As if a pattern had captured these parts of a path.
    pub fn of_spans(spans: &[(usize, usize)]) -> Params {
        let mut params = Params::default();
        spans.iter().for_each(|&(start, end)| params.push(start..end));
        params
    }

    /// Forgets what was added last.
    pub fn pop(&mut self) {
        self.len -= 1;
    }

    /// How many parts were captured.
    pub fn count(&self) -> usize {
        self.len.into()
    }

    /// Adds the part that the next parameter captured.
    pub fn push(&mut self, part: std::ops::Range<usize>) {
        let offset = |at| u32::try_from(at).expect("a path is far shorter: Fields::MAX_TEXT");
        self.spans[usize::from(self.len)] = (offset(part.start), offset(part.end));
        self.len += 1;
    }
}
