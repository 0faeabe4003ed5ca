//! Readers: from a node to a value of one kind, with an error that says what was expected.

use crate::bounds::MAX_REGEXES;
use crate::credentials::{self, in_target, is_literal};
use crate::declared::Declared;
use crate::diagnostic::Diagnostic;
use crate::location::Span;
use crate::node::{Kind, Node, Text, is_unquoted};
use crate::report::Findings;
use crate::secrets::MASK;
use crate::shape::{Presence, SectionInfo, Shape, TextShape};
use crate::source::Sources;
use crate::suggest;
use crate::variables;
use std::fmt::Write;
use std::mem;
use std::ops::Range;
use std::path::PathBuf;

/// Reads one kind of value, and says what that looks like.
pub(crate) trait Read {
    type Value;

    /// The value, or nothing when an error has been reported.
    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<Self::Value>;

    fn shape(&self) -> Shape;

    /// Whether a node of that kind is its business at all.
    fn takes(&self, _kind: &Kind) -> bool {
        true
    }

    /// Reads, and goes on with the value.
    fn then<T, F>(self, check: F) -> Then<Self, F>
    where
        Self: Sized,
        F: Fn(Self::Value, &Node, &mut Reading<'_>) -> Option<T>,
    {
        Then { first: self, check }
    }

    /// Reads the same; `shape` says more of what that looks like.
    fn shaped(self, shape: fn(TextShape) -> Shape) -> Shaped<Self>
    where
        Self: Sized,
    {
        Shaped { reader: self, shape }
    }

    /// Reads, and makes something else of the value.
    fn map<T, F: Fn(Self::Value) -> T>(self, convert: F) -> Map<Self, F>
    where
        Self: Sized,
    {
        Map { first: self, convert }
    }
}

pub(crate) struct Then<R, F> {
    first: R,
    check: F,
}

impl<T, R: Read, F: Fn(R::Value, &Node, &mut Reading<'_>) -> Option<T>> Read for Then<R, F> {
    type Value = T;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<T> {
        let value = self.first.read(node, to)?;
        (self.check)(value, node, to)
    }

    fn shape(&self) -> Shape {
        self.first.shape()
    }

    fn takes(&self, kind: &Kind) -> bool {
        self.first.takes(kind)
    }
}

pub(crate) struct Map<R, F> {
    first: R,
    convert: F,
}

impl<T, R: Read, F: Fn(R::Value) -> T> Read for Map<R, F> {
    type Value = T;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<T> {
        self.first.read(node, to).map(&self.convert)
    }

    fn shape(&self) -> Shape {
        self.first.shape()
    }

    fn takes(&self, kind: &Kind) -> bool {
        self.first.takes(kind)
    }
}

pub(crate) struct Shaped<R> {
    reader: R,
    shape: fn(TextShape) -> Shape,
}

impl<R: Read> Read for Shaped<R> {
    type Value = R::Value;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<R::Value> {
        self.reader.read(node, to)
    }

    fn shape(&self) -> Shape {
        match self.reader.shape() {
            Shape::Text(text) => (self.shape)(text),
            other => other,
        }
    }

    fn takes(&self, kind: &Kind) -> bool {
        self.reader.takes(kind)
    }
}

/// A value with its place, for what is checked after the reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) span: Span,
}

/// Reads with the place.
pub(crate) fn at<R: Read>(reader: R) -> impl Read<Value = At<R::Value>> {
    reader.then(|value, node, _| Some(At { value, span: node.span }))
}

/// A field of a section: a reader, and what holds when the key is not there.
pub(crate) trait Field {
    type Value;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<Self::Value>;
    fn absent(&self, key: &str, section: &Node, to: &mut Reading<'_>) -> Option<Self::Value>;
    fn shape(&self) -> Shape;
    fn presence(&self) -> Presence;
}

/// A field that must be there.
pub(crate) fn required<R: Read>(reader: R) -> Required<R> {
    Required(reader)
}

/// A field with a default, which is written as in a file (a text, `{}`, `[]` or a list of texts) and read by the same reader.
pub(crate) fn default<R: Read>(text: &'static str, reader: R) -> Defaulted<R> {
    Defaulted { text, reader }
}

/// A field that may be left out; `otherwise` says what that means.
pub(crate) fn optional<R: Read>(otherwise: &'static str, reader: R) -> Optional<R> {
    Optional { otherwise, reader }
}

pub(crate) struct Required<R>(R);

impl<R: Read> Field for Required<R> {
    type Value = R::Value;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<R::Value> {
        self.0.read(node, to)
    }

    fn absent(&self, key: &str, section: &Node, to: &mut Reading<'_>) -> Option<R::Value> {
        let error = Diagnostic::error(section.span, format!("`{key}` is missing"));
        if to.is_full() {
            return to.fail(error);
        }
        to.fail(error.label(format!("expected `{key}`: {}", self.shape().describe())))
    }

    fn shape(&self) -> Shape {
        self.0.shape()
    }

    fn presence(&self) -> Presence {
        Presence::Required
    }
}

pub(crate) struct Defaulted<R> {
    text: &'static str,
    reader: R,
}

impl<R: Read> Field for Defaulted<R> {
    type Value = R::Value;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<R::Value> {
        self.reader.read(node, to)
    }

    fn absent(&self, _: &str, _: &Node, to: &mut Reading<'_>) -> Option<R::Value> {
        self.reader.read(&Node::of_default(self.text), to)
    }

    fn shape(&self) -> Shape {
        self.reader.shape()
    }

    fn presence(&self) -> Presence {
        Presence::Default(self.text)
    }
}

pub(crate) struct Optional<R> {
    otherwise: &'static str,
    reader: R,
}

impl<R: Read> Field for Optional<R> {
    type Value = Option<R::Value>;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<Option<R::Value>> {
        self.reader.read(node, to).map(Some)
    }

    fn absent(&self, _: &str, _: &Node, _: &mut Reading<'_>) -> Option<Option<R::Value>> {
        Some(None)
    }

    fn shape(&self) -> Shape {
        self.reader.shape()
    }

    fn presence(&self) -> Presence {
        Presence::Optional(self.otherwise)
    }
}

/// Reads as much as can be read: `None` inside stands for an error that has been reported.
pub(crate) fn lenient<R: Read>(reader: R) -> impl Read<Value = Option<R::Value>> {
    Lenient(reader)
}

struct Lenient<R>(R);

impl<R: Read> Read for Lenient<R> {
    type Value = Option<R::Value>;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<Option<R::Value>> {
        Some(self.0.read(node, to))
    }

    fn shape(&self) -> Shape {
        self.0.shape()
    }
}

/// The reading of a configuration: where it is, and what it has found.
pub(crate) struct Reading<'a> {
    sources: &'a Sources,
    findings: &'a mut Findings,
    path: Vec<Step>,
    pub(crate) declared: Declared,
    /// All sections of the language, which are only collected for messages.
    sections: fn() -> &'static [SectionInfo],
    /// What may stand in place of what is being read, and where that is.
    instead: Option<(Span, Vec<&'static str>)>,
    regexes: usize,
    /// Whether messages do not repeat what is being read.
    conceals: bool,
}

enum Step {
    Key(String),
    Item(usize),
}

impl<'a> Reading<'a> {
    pub(crate) fn new(
        sources: &'a Sources,
        findings: &'a mut Findings,
        declared: Declared,
        sections: fn() -> &'static [SectionInfo],
    ) -> Reading<'a> {
        Reading {
            sources,
            findings,
            path: Vec::new(),
            declared,
            sections,
            instead: None,
            regexes: 0,
            conceals: false,
        }
    }

    /// Reads what may also be one of these words: if it is neither, the error names both.
    pub(crate) fn or_words<T>(
        &mut self,
        words: Vec<&'static str>,
        span: Span,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let outer = self.instead.replace((span, words));
        let value = read(self);
        self.instead = outer;
        value
    }

    /// What a message says was expected at that place.
    pub(crate) fn expected(&self, node: &Node, shape: &Shape) -> String {
        match &self.instead {
            Some((span, words)) if *span == node.span => {
                let words = Shape::Words(words.clone());
                Shape::Either(vec![words, shape.clone()]).describe()
            }
            _ => shape.describe(),
        }
    }

    /// Counts a regular expression: each costs time to compile and memory to keep.
    pub(crate) fn take_regex(&mut self) -> bool {
        self.regexes += 1;
        self.regexes <= MAX_REGEXES
    }

    pub(crate) fn sources(&self) -> &'a Sources {
        self.sources
    }

    /// A path as it leads there from the directory of the first file: it is written for that of its own file. Nothing for a
    /// document that may name no files, which is reported.
    pub(crate) fn locate(&mut self, path: PathBuf, node: &Node) -> Option<PathBuf> {
        let source = self.sources.with(node.span);
        if source.is_confined() {
            return self.fail(variables::confined(node.span, "a file of this machine"));
        }
        let directory = source.directory();
        if path.is_absolute() || directory.as_os_str().is_empty() {
            return Some(path);
        }
        let path = directory.join(path);
        if let Some(path) = path.to_str() {
            self.findings.moved.insert(node.span, path.to_owned());
        }
        Some(path)
    }

    /// Hides a secret, which is this value.
    pub(crate) fn hide(&mut self, secret: &Node) {
        self.findings.hide(secret, self.path());
    }

    /// Hides what of a text is a credential: all that it says where its name tells so, and else parts of a URL. Returns
    /// what may be shown of it where there are any.
    pub(crate) fn hide_credentials(&mut self, node: &Node) -> Option<String> {
        let Kind::Text(Text { text, quoted: _, made }) = &node.kind else { return None };
        let find = |text: &str| match self.conceals {
            true => Vec::from_iter(is_literal(text).then_some(0..text.len())),
            false => in_target(text),
        };
        let (found, source) = (find(text), self.sources.with(node.span));
        let part = |part: &Range<usize>| source.part(text, node.span, part.clone());
        let written = match made {
            None => found.iter().map(|it| part(it).unwrap_or(node.span)).collect(),
            Some(made) if find(&made.written).is_empty() => Vec::new(),
            Some(_) => vec![node.span],
        };
        if !written.is_empty() {
            self.findings.hide_at(written, &self.path());
        }
        if found.is_empty() {
            return None;
        }
        let shown = credentials::without(text, &found, MASK);
        self.findings.concealed.insert(node.span, shown.clone());
        Some(shown)
    }

    /// Reads what proves who somebody is, if `is_credential`: no message repeats it.
    pub(crate) fn concealing<T>(
        &mut self,
        is_credential: bool,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let outer = self.conceals;
        self.conceals |= is_credential;
        let value = read(self);
        self.conceals = outer;
        value
    }

    /// Reads what is shown even where a name tells of credentials.
    pub(crate) fn revealing<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let outer = mem::replace(&mut self.conceals, false);
        let value = read(self);
        self.conceals = outer;
        value
    }

    /// How many errors there are, and the last of them, to say more of it.
    pub(crate) fn last_error(&mut self) -> (usize, Option<&mut Diagnostic>) {
        self.findings.last_error()
    }

    pub(crate) fn add(&mut self, mut diagnostic: Diagnostic) {
        if self.findings.is_from_file(diagnostic.at.span) {
            diagnostic = diagnostic.without_words("what the file contains");
        } else if self.conceals {
            diagnostic = diagnostic.without_words("this value");
        }
        self.add_without_value(diagnostic);
    }

    /// The same where the words say nothing of the value that is wrong.
    pub(crate) fn add_without_value(&mut self, mut diagnostic: Diagnostic) {
        if diagnostic.path.is_empty() && !self.is_full() {
            diagnostic.path = self.path();
        }
        self.findings.add(diagnostic);
    }

    /// What messages call that value, if it is not shown.
    pub(crate) fn concealed(&self, span: Span) -> Option<&'static str> {
        match (self.findings.is_from_file(span), self.conceals) {
            (true, _) => Some("what the file contains"),
            (false, true) => Some("this"),
            (false, false) => None,
        }
    }

    /// Whether a further finding would only be counted: describing it is wasted then.
    pub(crate) fn is_full(&self) -> bool {
        self.findings.is_full()
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.findings.has_errors()
    }

    /// Reports, and is the nothing that the caller returns.
    pub(crate) fn fail<T>(&mut self, diagnostic: Diagnostic) -> Option<T> {
        self.add(diagnostic);
        None
    }

    /// Reports that something else was expected.
    pub(crate) fn mismatch<T>(&mut self, node: &Node, reader: &impl Read) -> Option<T> {
        if self.is_full() {
            return self.fail(Diagnostic::error(node.span, ""));
        }
        let shape = reader.shape();
        let expected = self.expected(node, &shape);
        let error = Diagnostic::error(node.span, format!("expected {expected}"));
        if (shape.may_hide_text() || self.conceals) && node.as_text().is_some() {
            let error = error.label("this is a string");
            self.add_without_value(shape.keys().into_iter().fold(error, Diagnostic::help));
            return None;
        }
        let error = error.label(format!("this is {}", node.describe()));
        if self.concealed(node.span).is_some() {
            self.add_without_value(error);
            return None;
        }
        let help = match &node.kind {
            Kind::Map(entries) if shape.takes_text() && is_unquoted(entries) => {
                Some("quote a string that starts with `{`".to_owned())
            }
            Kind::Text(Text { text, .. }) => {
                let meant = self.did_you_mean(text, shape.words().into_iter());
                meant.or_else(|| shape.keys())
            }
            Kind::List(items) => shape.names_of(items).or_else(|| shape.keys()),
            _ => None,
        };
        self.fail(help.into_iter().fold(error, Diagnostic::help))
    }

    /// Goes into the value of `key`.
    pub(crate) fn inside<T>(&mut self, key: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.within(Step::Key(key.to_owned()), read)
    }

    /// Goes into an item of a list.
    pub(crate) fn inside_item<T>(&mut self, index: usize, read: impl FnOnce(&mut Self) -> T) -> T {
        self.within(Step::Item(index), read)
    }

    fn within<T>(&mut self, step: Step, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step);
        let value = read(self);
        self.path.pop();
        value
    }

    pub(crate) fn path(&self) -> String {
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Key(key) if path.is_empty() => path.push_str(key),
                Step::Key(key) => path.extend([".", key]),
                Step::Item(index) => write!(path, "[{index}]").expect("a String takes everything"),
            }
        }
        path
    }

    /// A suggestion, if one is wanted and there is one.
    pub(crate) fn did_you_mean<'c>(
        &self,
        written: &str,
        candidates: impl Iterator<Item = &'c str>,
    ) -> Option<String> {
        (!self.is_full()).then(|| suggest::did_you_mean(written, candidates)).flatten()
    }

    /// The sections that have that key, as a message calls them.
    pub(crate) fn sections_with(&self, key: &str) -> Vec<String> {
        if self.is_full() {
            return Vec::new();
        }
        let has_key = |section: &&SectionInfo| section.fields.iter().any(|field| field.key == key);
        let sections = (self.sections)().iter().filter(has_key);
        sections.map(|section| section.what.to_owned()).collect()
    }
}
