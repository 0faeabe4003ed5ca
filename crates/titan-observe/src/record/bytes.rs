//! The form that a record has between the worker that makes it and those that read it: its lengths and facts, which are of fixed
//! size, lists of the places of texts, and the arena in which all of these are. It is a handful of copies: a record has dozens of
//! texts.

use super::fixed::Fixed;
use super::noted::{Lengths, NotedTrace};
use super::{ExchangeRecord, Facts, NotedAttempt, NotedFacts, Pair, Place, Text};

const PLACE: usize = 4;
const PAIR: usize = size_of::<Pair>();

/// Reads what [`write`] has written. Without lengths and facts there is no record, and half an attempt is none; what else is missing
/// reads as zeros: there is nothing that a reader could do about it.
#[derive(Clone, Copy)]
pub(super) struct Reader<'r>(pub(super) &'r [u8]);

/// What a record has beside its facts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lists<'r> {
    pub(super) texts: [Place; Text::COUNT],
    pub(super) request_lines: &'r [u8],
    pub(super) response_lines: &'r [u8],
    pub(super) claims: &'r [u8],
    pub(super) passed: &'r [u8],
    pub(super) attempts: &'r [u8],
    pub(super) bodies: &'r [u8],
    pub(super) arena: &'r [u8],
}

/// Appends a record.
pub(super) fn write(record: &ExchangeRecord, out: &mut Vec<u8>) {
    let ExchangeRecord { facts, trace, arena, texts, lines, request_lines, .. } = record;
    let ExchangeRecord { claims, passed, attempts, bodies, .. } = record;
    let traced = trace.as_ref().map_or(0, |_| NotedTrace::SIZE);
    let pairs = (lines.len() + claims.len()) * PAIR;
    let lists = pairs + passed.len() * PLACE + attempts.len() * NotedAttempt::SIZE;
    let bodies_size = bodies.as_ref().map_or(0, |bodies| bodies.size());
    let whole = FIXED + traced + lists + bodies_size + arena.len();
    let mut lengths = Lengths::EMPTY;
    lengths.set_whole(u32::try_from(whole).expect("bounded by `MAX_TEXTS`"));
    lengths.set_traces(u16::from(trace.is_some()));
    lengths.set_request_lines(*request_lines);
    lengths.set_lines(count(lines.len()));
    lengths.set_claims(count(claims.len()));
    lengths.set_passed(count(passed.len()));
    lengths.set_attempts(count(attempts.len()));
    lengths.set_bodies(count(bodies_size));
    out.reserve(whole);
    out.extend_from_slice(lengths.bytes());
    out.extend_from_slice(facts.bytes());
    out.extend_from_slice(texts.as_flattened());
    trace.iter().for_each(|trace| out.extend_from_slice(NotedTrace::new(trace).bytes()));
    out.extend_from_slice(lines.as_flattened());
    claims.iter().for_each(|claim| out.extend_from_slice(claim));
    passed.iter().for_each(|place| out.extend_from_slice(&place.to_bytes()));
    attempts.iter().for_each(|attempt| out.extend_from_slice(attempt.bytes()));
    bodies.iter().for_each(|bodies| bodies.write(out));
    out.extend_from_slice(arena);
}

/// What each record has.
const FIXED: usize = Lengths::SIZE + NotedFacts::SIZE + PLACE * Text::COUNT;

#[expect(clippy::cast_possible_truncation, reason = "each list is bounded, and each body")]
fn count(count: usize) -> u16 {
    debug_assert!(u16::try_from(count).is_ok());
    count as u16
}

impl<'r> Reader<'r> {
    /// The first record: its facts, what it has beside them, all of it, and the rest.
    pub(super) fn record(self) -> Option<(Facts, Lists<'r>, &'r [u8], &'r [u8])> {
        let (lengths, _) = Lengths::first_of(self.0)?;
        let (record, rest) = self.0.split_at_checked(lengths.whole() as usize)?;
        let (_, parts) = Lengths::first_of(record)?;
        let (facts, parts) = NotedFacts::first_of(parts)?;
        let mut reader = Reader(parts);
        let texts = std::array::from_fn(|_| reader.place());
        let trace = reader.bytes(usize::from(lengths.traces()) * NotedTrace::SIZE);
        let trace = NotedTrace::first_of(trace).map(|(trace, _)| trace.read());
        let (requested, lines) = (lengths.request_lines(), lengths.lines());
        let mut list = |count: u16, size: usize| reader.bytes(usize::from(count) * size);
        let lists = Lists {
            texts,
            request_lines: list(requested, PAIR),
            response_lines: list(lines.saturating_sub(requested), PAIR),
            claims: list(lengths.claims(), PAIR),
            passed: list(lengths.passed(), PLACE),
            attempts: list(lengths.attempts(), NotedAttempt::SIZE),
            bodies: list(lengths.bodies(), 1),
            arena: reader.0,
        };
        Some((facts.read(trace), lists, record, rest))
    }

    /// The next name and its value.
    pub(super) fn pair(&mut self) -> Option<(Place, Place)> {
        self.0.first()?;
        Some((self.place(), self.place()))
    }

    /// The next place of a list of them.
    pub(super) fn listed_place(&mut self) -> Option<Place> {
        self.0.first()?;
        Some(self.place())
    }

    /// The next attempt.
    pub(super) fn attempt(&mut self) -> Option<NotedAttempt> {
        let (attempt, rest) = NotedAttempt::first_of(self.0)?;
        self.0 = rest;
        Some(attempt)
    }

    /// The last attempt of a list of them.
    pub(super) fn last_attempt(self) -> Option<NotedAttempt> {
        let last = self.0.len().checked_sub(NotedAttempt::SIZE)?;
        Reader(&self.0[last..]).attempt()
    }

    pub(super) fn bytes(&mut self, length: usize) -> &'r [u8] {
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    fn place(&mut self) -> Place {
        Place::of_bytes(self.array())
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk() {
            Some((array, rest)) => {
                self.0 = rest;
                *array
            }
            None => [0; N],
        }
    }
}
