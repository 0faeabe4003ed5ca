//! The readers of quantities: sizes, durations and percentages within a range, limits that may be switched off.

use super::{WordOr, word_or};
use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::problem::Problem;
use crate::quantity::{ByteSize, Cap, Percent, parse_duration, parse_percent, parse_size};
use crate::read::{Read, Reading};
use crate::shape::Shape;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A size within a range of bytes.
pub(crate) fn size(range: RangeInclusive<u64>) -> impl Read<Value = ByteSize> {
    SizeReader { min: ByteSize::new(*range.start()), max: ByteSize::new(*range.end()) }
}

/// A duration within a range.
pub(crate) fn duration(range: RangeInclusive<Duration>) -> impl Read<Value = Duration> {
    DurationReader { min: *range.start(), max: *range.end() }
}

/// A percentage within a range of whole percents.
pub(crate) fn percent(range: RangeInclusive<u16>) -> impl Read<Value = Percent> {
    let of = |whole: &u16| Percent::hundredths(whole.saturating_mul(100));
    PercentReader { min: of(range.start()), max: of(range.end()) }
}

/// `unlimited`, or what another reader reads.
pub(crate) fn cap<T: Copy>(most: impl Read<Value = T>) -> WordOr<impl Read<Value = Cap<T>>> {
    word_or("unlimited", Cap::Unlimited, most.map(Cap::AtMost))
}

struct SizeReader {
    min: ByteSize,
    max: ByteSize,
}

impl Read for SizeReader {
    type Value = ByteSize;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<ByteSize> {
        let Some(text) = node.as_text() else { return to.mismatch(node, self) };
        let is_one = |size: &ByteSize| (self.min..=self.max).contains(size);
        within(parse_size(text), is_one, node, &self.shape(), to)
    }

    fn shape(&self) -> Shape {
        Shape::Size { min: self.min, max: self.max }
    }
}

struct DurationReader {
    min: Duration,
    max: Duration,
}

impl Read for DurationReader {
    type Value = Duration;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<Duration> {
        let Some(text) = node.as_text() else { return to.mismatch(node, self) };
        let is_one = |duration: &Duration| (self.min..=self.max).contains(duration);
        within(parse_duration(text), is_one, node, &self.shape(), to)
    }

    fn shape(&self) -> Shape {
        Shape::Duration { min: self.min, max: self.max }
    }
}

struct PercentReader {
    min: Percent,
    max: Percent,
}

impl Read for PercentReader {
    type Value = Percent;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<Percent> {
        let Some(text) = node.as_text() else { return to.mismatch(node, self) };
        let is_one = |percent: &Percent| (self.min..=self.max).contains(percent);
        within(parse_percent(text), is_one, node, &self.shape(), to)
    }

    fn shape(&self) -> Shape {
        Shape::Percent { min: self.min, max: self.max }
    }
}

/// The quantity, if it is one and in its range.
fn within<T>(
    parsed: Result<T, Problem>,
    is_one: impl Fn(&T) -> bool,
    node: &Node,
    shape: &Shape,
    to: &mut Reading<'_>,
) -> Option<T> {
    let (label, help) = match parsed {
        Ok(value) if is_one(&value) => return Some(value),
        Ok(_) => (format!("{} is outside this range", node.describe()), None),
        Err(Problem { reason, help, part: _ }) => (reason, help),
    };
    let error =
        Diagnostic::error(node.span, format!("expected {}", to.expected(node, shape))).label(label);
    to.fail(help.into_iter().fold(error, Diagnostic::help))
}
