//! The readers that sections are built from: texts, words, numbers, lists, mappings and their unions.

mod quantity;

pub(crate) use quantity::{cap, duration, percent, size};

use crate::credentials::is_credential;
use crate::diagnostic::Diagnostic;
use crate::location::Span;
use crate::node::{Entry, Kind, Node, Text, is_unquoted, quote};
use crate::problem::Problem;
use crate::read::{Read, Reading};
use crate::secrets::MASK;
use crate::shape::{Shape, TextShape};
use crate::suggest;
use std::num::{NonZeroU16, NonZeroU32};
use std::ops::{Range, RangeInclusive};

/// A text of one kind. Whatever is written without quotes is that text, also `1.10`, `yes` and `true`.
pub(crate) fn text<T>(
    shape: TextShape,
    parse: impl Fn(&str) -> Result<T, Problem>,
) -> impl Read<Value = T> {
    TextReader { shape, parse, is_secret: false }
}

/// A secret text: reports do not show it, valid or not.
pub(crate) fn secret<T>(
    shape: TextShape,
    parse: impl Fn(&str) -> Result<T, Problem>,
) -> impl Read<Value = T> {
    TextReader { shape, parse, is_secret: true }
}

struct TextReader<F> {
    shape: TextShape,
    parse: F,
    is_secret: bool,
}

impl<T, F: Fn(&str) -> Result<T, Problem>> Read for TextReader<F> {
    type Value = T;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<T> {
        if self.is_secret {
            to.hide(node);
        }
        let Some(text) = node.as_text() else { return to.mismatch(node, self) };
        let shown = if self.is_secret { None } else { to.hide_credentials(node) };
        let called = || match self.is_secret {
            true => "this".to_owned(),
            false => quote(shown.as_deref().unwrap_or(text)),
        };
        // The help may repeat the text.
        let without_help = |problem: Problem| Problem { help: None, ..problem };
        let parse = |text: &str| match shown {
            None => (self.parse)(text),
            Some(_) => (self.parse)(text).map_err(without_help),
        };
        parse_text(text, called, node.span, &self.shape, parse, to)
    }

    fn shape(&self) -> Shape {
        match self.is_secret {
            true => Shape::Secret(self.shape),
            false => Shape::Text(self.shape),
        }
    }
}

/// Parses a text that stands at `span`, a value or a key; `called` says what messages call it.
fn parse_text<T>(
    text: &str,
    called: impl Fn() -> String,
    span: Span,
    shape: &TextShape,
    parse: impl Fn(&str) -> Result<T, Problem>,
    to: &mut Reading<'_>,
) -> Option<T> {
    let TextShape { what, max, .. } = shape;
    let parsed = match text.len() > *max {
        true => Err(Problem::new(format!("it has {} bytes; the maximum is {max}", text.len()))),
        false => parse(text),
    };
    let Problem { reason, help, part } = match parsed {
        Ok(value) => return Some(value),
        Err(problem) => problem,
    };
    if to.is_full() {
        return to.fail(Diagnostic::error(span, ""));
    }
    if let Some(value) = to.concealed(span) {
        let error = Diagnostic::error(span, format!("{value} is not {what}"));
        let help = format!("expected {}", Shape::Text(*shape).describe());
        to.add_without_value(error.label("it is not shown").help(help));
        return None;
    }
    let span = part.and_then(|part| part_of(text, span, part, to)).unwrap_or(span);
    let error = Diagnostic::error(span, format!("{} is not {what}", called())).label(reason);
    let help = help.unwrap_or_else(|| format!("expected {}", Shape::Text(*shape).describe()));
    to.fail(error.help(help))
}

/// The place of a part of a text; nothing when escapes or line breaks stand between it and the source.
pub(crate) fn part_of(
    text: &str,
    span: Span,
    part: Range<usize>,
    to: &Reading<'_>,
) -> Option<Span> {
    to.sources().with(span).part(text, span, part)
}

/// Reads what is no credential itself, though its name tells of one.
pub(crate) fn revealed<R: Read>(reader: R) -> impl Read<Value = R::Value> {
    Revealed(reader)
}

struct Revealed<R>(R);

impl<R: Read> Read for Revealed<R> {
    type Value = R::Value;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<R::Value> {
        to.revealing(|to| self.0.read(node, to))
    }

    fn shape(&self) -> Shape {
        self.0.shape()
    }

    fn takes(&self, kind: &Kind) -> bool {
        self.0.takes(kind)
    }
}

/// One of several words, each standing for a value.
pub(crate) fn words<T: Clone>(words: &[(&'static str, T)]) -> impl Read<Value = T> + use<T> {
    WordReader(words.to_vec())
}

struct WordReader<T>(Vec<(&'static str, T)>);

impl<T: Clone> Read for WordReader<T> {
    type Value = T;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<T> {
        let named = |text: &str| self.0.iter().find(|(word, _)| *word == text);
        match node.as_text().and_then(named) {
            Some((_, value)) => Some(value.clone()),
            None => to.mismatch(node, self),
        }
    }

    fn shape(&self) -> Shape {
        Shape::Words(self.0.iter().map(|(word, _)| *word).collect())
    }
}

/// A word that stands for a value, or what another reader reads.
pub(crate) fn word_or<R: Read>(word: &'static str, value: R::Value, other: R) -> WordOr<R>
where
    R::Value: Clone,
{
    words_or(&[(word, value)], other)
}

/// Words that stand for values, or what another reader reads.
pub(crate) fn words_or<R: Read>(words: &[(&'static str, R::Value)], other: R) -> WordOr<R>
where
    R::Value: Clone,
{
    WordOr { words: words.to_vec(), other }
}

pub(crate) struct WordOr<R: Read> {
    words: Vec<(&'static str, R::Value)>,
    other: R,
}

impl<R: Read> Read for WordOr<R>
where
    R::Value: Clone,
{
    type Value = R::Value;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<R::Value> {
        let named = |text: &str| self.words.iter().find(|(word, _)| *word == text);
        if let Some((_, value)) = node.as_text().and_then(named) {
            return Some(value.clone());
        }
        let is_slip = |text: &str| {
            let words = self.words.iter().map(|(word, _)| *word);
            !text.contains(['.', ':', '/']) && suggest::nearest(text, words).is_some()
        };
        // `endpont` is no host and `remove_` no Server, though as texts they could be.
        if node.as_text().is_some_and(is_slip) {
            return to.mismatch(node, self);
        }
        match self.other.takes(&node.kind) {
            true if node.as_text().is_some() => {
                let words = self.words.iter().map(|(word, _)| *word).collect();
                to.or_words(words, node.span, |to| self.other.read(node, to))
            }
            true => self.other.read(node, to),
            false => to.mismatch(node, self),
        }
    }

    fn shape(&self) -> Shape {
        let words = Shape::Words(self.words.iter().map(|(word, _)| *word).collect());
        Shape::Either(vec![words, self.other.shape()])
    }
}

/// What one reader makes of a text, or another of a mapping.
pub(crate) fn text_or<R: Read, S: Read<Value = R::Value>>(
    plain: R,
    mapped: S,
) -> impl Read<Value = R::Value> {
    TextOr { plain, mapped }
}

struct TextOr<R, S> {
    plain: R,
    mapped: S,
}

impl<R: Read, S: Read<Value = R::Value>> Read for TextOr<R, S> {
    type Value = R::Value;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<R::Value> {
        match node.kind {
            Kind::Text(_) => self.plain.read(node, to),
            Kind::Map(_) => self.mapped.read(node, to),
            Kind::Null | Kind::List(_) => to.mismatch(node, self),
        }
    }

    fn shape(&self) -> Shape {
        Shape::Either(vec![self.plain.shape(), self.mapped.shape()])
    }
}

/// A section, or the value of its most important field alone.
pub(crate) fn short_for<R: Read>(key: &'static str, section: R) -> impl Read<Value = R::Value> {
    Shorthand { key, section }
}

struct Shorthand<R> {
    key: &'static str,
    section: R,
}

impl<R: Read> Read for Shorthand<R> {
    type Value = R::Value;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<R::Value> {
        match node.kind {
            Kind::Map(ref entries) if is_unquoted(entries) && self.shape().takes_text() => {
                to.mismatch(node, self)
            }
            Kind::Map(_) => self.section.read(node, to),
            Kind::Null => to.mismatch(node, self),
            Kind::Text(_) | Kind::List(_) => {
                let (key, key_span) = (self.key.to_owned(), node.span);
                let entry = Entry { key, key_span, value: node.clone() };
                let full = Node { span: node.span, kind: Kind::Map(vec![entry]) };
                let (before, _) = to.last_error();
                let value = self.section.read(&full, to);
                if value.is_none() && !self.shape().short().takes_text() {
                    self.tell_keys(before, to);
                }
                value
            }
        }
    }

    fn shape(&self) -> Shape {
        match self.section.shape() {
            Shape::Section(section) => Shape::Short { key: self.key, section },
            _ => unreachable!("only sections have short forms"),
        }
    }
}

impl<R: Read> Shorthand<R> {
    /// Adds further help to the error about the only field that is given, if it has none.
    fn tell_keys(&self, before: usize, to: &mut Reading<'_>) {
        let (count, Some(error)) = to.last_error() else { return };
        if count > before && error.help.is_empty() {
            error.help.extend(self.section.shape().keys());
        }
    }
}

/// `true` or `false`.
pub(crate) fn boolean() -> impl Read<Value = bool> {
    BooleanReader
}

struct BooleanReader;

impl Read for BooleanReader {
    type Value = bool;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<bool> {
        let Kind::Text(Text { text, quoted, .. }) = &node.kind else {
            return to.mismatch(node, self);
        };
        let meant = match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" => true,
            "false" | "no" | "off" => false,
            _ => return to.mismatch(node, self),
        };
        if matches!(text.as_str(), "true" | "false") && !quoted {
            return Some(meant);
        }
        let error = Diagnostic::error(node.span, "expected `true` or `false`");
        let error = error.label(format!("this is {}", node.describe()));
        to.fail(error.help(format!("write `{meant}`, without quotes")))
    }

    fn shape(&self) -> Shape {
        Shape::Boolean
    }
}

/// `true` for a value, `false` for none, or what another reader reads.
pub(crate) fn switch_or<R: Read>(on: R::Value, other: R) -> impl Read<Value = Option<R::Value>>
where
    R::Value: Clone,
{
    SwitchOr { on, other }
}

struct SwitchOr<R: Read> {
    on: R::Value,
    other: R,
}

impl<R: Read> Read for SwitchOr<R>
where
    R::Value: Clone,
{
    type Value = Option<R::Value>;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<Option<R::Value>> {
        const WORDS: [&str; 6] = ["true", "false", "yes", "no", "on", "off"];
        let is_word = |text: &str| WORDS.contains(&text.to_ascii_lowercase().as_str());
        match &node.kind {
            Kind::Text(Text { text, .. }) if is_word(text) => {
                let is_on = boolean().read(node, to)?;
                Some(is_on.then(|| self.on.clone()))
            }
            kind if self.other.takes(kind) => self.other.read(node, to).map(Some),
            _ => to.mismatch(node, self),
        }
    }

    fn shape(&self) -> Shape {
        Shape::Either(vec![Shape::Boolean, self.other.shape()])
    }
}

/// A mapping without keys: the key that it stands under says it all.
pub(crate) fn empty() -> impl Read<Value = ()> {
    EmptyReader
}

struct EmptyReader;

impl Read for EmptyReader {
    type Value = ();

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<()> {
        match &node.kind {
            Kind::Map(entries) if entries.is_empty() => Some(()),
            _ => to.mismatch(node, self),
        }
    }

    fn shape(&self) -> Shape {
        Shape::Empty
    }
}

/// A whole number within a range.
pub(crate) fn whole<T: FromInteger>(range: RangeInclusive<i64>) -> impl Read<Value = T> {
    WholeReader { range, number: std::marker::PhantomData }
}

/// A type that holds whole numbers; a range within it is the caller's promise.
pub(crate) trait FromInteger: Sized {
    fn from_whole(number: i64) -> Option<Self>;
}

macro_rules! from_whole {
    ($($Type:ty => $convert:expr,)+) => {
        $(impl FromInteger for $Type {
            fn from_whole(number: i64) -> Option<$Type> {
                $convert(number)
            }
        })+
    };
}

from_whole! {
    u8 => |number| u8::try_from(number).ok(),
    u16 => |number| u16::try_from(number).ok(),
    u32 => |number| u32::try_from(number).ok(),
    i32 => |number| i32::try_from(number).ok(),
    NonZeroU16 => |number| u16::try_from(number).ok().and_then(NonZeroU16::new),
    NonZeroU32 => |number| u32::try_from(number).ok().and_then(NonZeroU32::new),
}

struct WholeReader<T> {
    range: RangeInclusive<i64>,
    number: std::marker::PhantomData<T>,
}

impl<T: FromInteger> Read for WholeReader<T> {
    type Value = T;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<T> {
        let Kind::Text(Text { text, quoted: false, .. }) = &node.kind else {
            return to.mismatch(node, self);
        };
        let in_range = |number: &i64| self.range.contains(number);
        match text.parse().ok().filter(in_range).and_then(T::from_whole) {
            Some(number) if !text.starts_with('+') => Some(number),
            _ => to.mismatch(node, self),
        }
    }

    fn shape(&self) -> Shape {
        Shape::Whole { min: *self.range.start(), max: *self.range.end() }
    }
}

/// A list, or one item without the brackets: there is no other kind of list.
pub(crate) fn one_or_list<R: Read>(
    item: R,
    length: RangeInclusive<usize>,
) -> impl Read<Value = Vec<R::Value>> {
    ListReader { item, length }
}

struct ListReader<R> {
    item: R,
    length: RangeInclusive<usize>,
}

impl<R: Read> Read for ListReader<R> {
    type Value = Vec<R::Value>;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<Vec<R::Value>> {
        let items = match &node.kind {
            Kind::List(items) => items,
            _ => return self.item.read(node, to).map(|item| vec![item]),
        };
        let fits = check_length(items.len(), &self.length, ("the list", "items"), node, to);
        let items = items.iter().take(*self.length.end()).enumerate();
        let read = |(index, item)| to.inside_item(index, |to| self.item.read(item, to));
        // All are read before one that could not be decides, for all errors are wanted.
        let values: Vec<Option<R::Value>> = items.map(read).collect();
        values.into_iter().collect::<Option<_>>().filter(|_| fits)
    }

    fn shape(&self) -> Shape {
        let (min, max) = (*self.length.start(), *self.length.end());
        let list = Shape::List { item: Box::new(self.item.shape()), min, max };
        Shape::Either(vec![self.item.shape(), list])
    }
}

/// A mapping whose keys are names.
pub(crate) fn mapping<K, V: Read>(
    key: TextShape,
    parse: impl Fn(&str) -> Result<K, Problem>,
    value: V,
    length: RangeInclusive<usize>,
) -> impl Read<Value = Vec<Named<K, V::Value>>> {
    MappingReader { key, parse, value, length, is_of_message: false }
}

/// The same where the keys name fields of messages, or parameters of queries, and the values are theirs.
pub(crate) fn message_mapping<K, V: Read>(
    key: TextShape,
    parse: impl Fn(&str) -> Result<K, Problem>,
    value: V,
    length: RangeInclusive<usize>,
) -> impl Read<Value = Vec<Named<K, V::Value>>> {
    MappingReader { key, parse, value, length, is_of_message: true }
}

/// A key of a mapping with its place, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named<K, V> {
    pub(crate) key: K,
    pub(crate) key_span: Span,
    pub(crate) value: V,
}

struct MappingReader<F, V> {
    key: TextShape,
    parse: F,
    value: V,
    length: RangeInclusive<usize>,
    /// Whether a value may be a credential, by the name that is its key.
    is_of_message: bool,
}

impl<K, F: Fn(&str) -> Result<K, Problem>, V: Read> Read for MappingReader<F, V> {
    type Value = Vec<Named<K, V::Value>>;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<Self::Value> {
        let Kind::Map(entries) = &node.kind else { return to.mismatch(node, self) };
        let fits = check_length(entries.len(), &self.length, ("the mapping", "entries"), node, to);
        let takes_secrets = self.value.shape().is_secret();
        let read = |Entry { key, key_span, value }: &Entry| {
            // Without a value, the key may be what should be the value.
            let is_secret = takes_secrets && matches!(value.kind, Kind::Null);
            let (called, step) = match is_secret {
                true => ("this".to_owned(), MASK),
                false => (quote(key), key.as_str()),
            };
            let parsed = parse_text(key, || called.clone(), *key_span, &self.key, &self.parse, to);
            let value = to.inside(step, |to| {
                let is_credential = self.is_of_message && is_credential(key);
                to.concealing(is_credential, |to| self.value.read(value, to))
            });
            Some(Named { key: parsed?, key_span: *key_span, value: value? })
        };
        let values: Vec<_> = entries.iter().take(*self.length.end()).map(read).collect();
        values.into_iter().collect::<Option<_>>().filter(|_| fits)
    }

    fn shape(&self) -> Shape {
        let value = Box::new(self.value.shape());
        let (max, is_of_message) = (*self.length.end(), self.is_of_message);
        Shape::Map { key: self.key, value, max, is_of_message }
    }
}

/// Whether the length is allowed; reports it otherwise.
fn check_length(
    length: usize,
    allowed: &RangeInclusive<usize>,
    (what, parts): (&str, &str),
    node: &Node,
    to: &mut Reading<'_>,
) -> bool {
    if allowed.contains(&length) {
        return true;
    }
    let (message, label) = match length < *allowed.start() {
        true => (format!("{what} is empty"), "expected at least one".to_owned()),
        false => (
            format!("{what} has too many {parts}"),
            format!("it has {length} {parts}; the maximum is {}", allowed.end()),
        ),
    };
    to.add(Diagnostic::error(node.span, message).label(label));
    false
}
