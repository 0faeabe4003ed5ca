//! A record between the opening of a tunnel and its end, which may be days later.

use super::fixed::Fixed;
use super::head::MAX_HEADS;
use super::{ExchangeRecord, HeadCut, Pair, Place, pair, places};

/// How many bytes of both heads are kept for the record of the end. That of the opening has had them in full.
pub(super) const LASTING_HEADS: usize = 4 << 10;

impl ExchangeRecord {
    /// Gives back the memory that it does not need until the exchange is over: that of texts in whose place others were noted, and
    /// of the longest fields of both heads, if they are long. What logs want to know at the end is short.
    pub fn settle(&mut self) {
        let old = std::mem::take(&mut self.arena);
        let mut arena = Vec::new();
        let mut moved = |place: Place| {
            let text = place.of(&old);
            let start = u16::try_from(arena.len()).expect("bounded by `MAX_TEXTS` and a head");
            arena.extend_from_slice(text);
            Place { start, length: place.length }
        };
        self.texts = self.texts.map(|text| moved(Place::of_bytes(text)).to_bytes());
        self.claims.iter_mut().for_each(|claim| *claim = moved_pair(*claim, &mut moved));
        self.passed.iter_mut().for_each(|name| *name = moved(*name));
        self.attempts.iter_mut().for_each(|attempt| *attempt = attempt.moved(&mut moved));
        let (longest, mut of_longest) = longest_kept(&self.lines);
        let requested = usize::from(self.request_lines);
        let (mut dropped, mut shortened) = ([0; 2], [0; 2]);
        for (index, line) in std::mem::take(&mut self.lines).into_iter().enumerate() {
            let size = size(&line);
            let is_response = usize::from(index >= requested);
            if size > longest || (size == longest && of_longest == 0) {
                dropped[is_response] += 1;
                continue;
            }
            of_longest -= usize::from(size == longest);
            shortened[is_response] += u16::from(is_cut(&line));
            self.lines.push(moved_pair(line, &mut moved));
        }
        self.request_lines -= dropped[0];
        let (requested, responded) = (self.facts.request_cut(), self.facts.response_cut());
        self.facts.set_request_cut(requested.without(dropped[0], shortened[0]));
        self.facts.set_response_cut(responded.without(dropped[1], shortened[1]));
        self.arena = arena;
        self.shrink();
    }

    fn shrink(&mut self) {
        self.arena.shrink_to_fit();
        self.lines.shrink_to_fit();
        self.claims.shrink_to_fit();
        self.passed.shrink_to_fit();
        self.attempts.shrink_to_fit();
    }
}

impl HeadCut {
    /// So many more are missing; of those that are left no more than `shortened` were cut.
    fn without(self, count: u16, shortened: u16) -> HeadCut {
        HeadCut {
            missing: self.missing.saturating_add(count),
            shortened: self.shortened.min(shortened),
        }
    }
}

/// The length of the longest field for which there is room beside all that are shorter, and how many of that length have room.
fn longest_kept(lines: &[Pair]) -> (usize, usize) {
    let mut sizes: Vec<usize> = lines.iter().map(size).collect();
    sizes.sort_unstable();
    let mut sum = 0;
    let fits = |size: &usize| {
        sum += size;
        sum <= LASTING_HEADS
    };
    let kept: Vec<usize> = sizes.into_iter().take_while(fits).collect();
    let longest = kept.last().copied().unwrap_or(0);
    (longest, kept.iter().filter(|size| **size == longest).count())
}

/// Whether a field was cut at the end of the room for heads. One that was cut at the length of the longest text is too long to last.
fn is_cut(line: &Pair) -> bool {
    let (_, value) = places(line);
    usize::from(value.start) + usize::from(value.length) == MAX_HEADS
}

/// The memory that a field takes.
pub(super) fn size(line: &Pair) -> usize {
    let (name, value) = places(line);
    size_of::<Pair>() + usize::from(name.length) + usize::from(value.length)
}

fn moved_pair(line: Pair, mut moved: impl FnMut(Place) -> Place) -> Pair {
    let (name, value) = places(&line);
    pair(moved(name), moved(value))
}
