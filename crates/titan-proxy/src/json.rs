//! Which members of two JSON documents differ (RFC 8259). Pure; no I/O.
//!
//! Documents stay text: a [`Document`] is a list of the places of its values, so that what reading one takes is bounded by its
//! length, and numbers are compared digit by digit.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str;
use titan_config::MemberPattern;

/// A document whose values are known by their places.
pub(crate) struct Document<'t> {
    text: &'t str,
    /// Each value in front of those in it. In objects, the name of a member stands in front of its value.
    nodes: Vec<Node>,
}

/// Why a text is not compared as a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It is no JSON.
    Malformed,
    /// Values lie too deep in each other.
    TooDeep,
}

/// Where two documents differ.
pub(crate) struct Difference<'d, 't> {
    /// What leads there, from the outermost.
    pub(crate) place: &'d [Step<'t>],
    /// What each of them has there, if anything.
    pub(crate) values: [Option<Value<'t>>; 2],
}

/// A step towards a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step<'t> {
    /// To the member with that name.
    Member(Cow<'t, str>),
    /// To the item at that place.
    Item(usize),
}

/// A value of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value<'t> {
    pub(crate) kind: Kind,
    /// As the document has it.
    pub(crate) text: &'t str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    True,
    False,
    Number,
    Text,
    List,
    Object,
}

#[derive(Clone, Copy)]
struct Node {
    kind: Kind,
    /// Where its text is.
    start: u32,
    end: u32,
    /// The node behind it and all in it.
    next: u32,
}

/// How deep values may lie in each other.
pub(crate) const MAX_DEPTH: usize = 64;

/// Calls `found` with each place at which the documents differ, but for members that match one of those patterns.
pub(crate) fn compare<'t>(
    documents: [&Document<'t>; 2],
    ignore: &[MemberPattern],
    found: &mut impl FnMut(Difference<'_, 't>),
) {
    Walk { documents, ignore, place: Vec::new(), found }.compare([0, 0]);
}

/// Whether that member, or one that it is in, matches the pattern.
pub(crate) fn is_within(pattern: &MemberPattern, place: &[Step<'_>]) -> bool {
    let names = pattern.names();
    names.len() <= place.len() && names.iter().zip(place).all(|(name, step)| step.matches(name))
}

impl Step<'_> {
    fn matches(&self, name: &Option<String>) -> bool {
        match (name, self) {
            (None, _) => true,
            (Some(name), Step::Member(member)) => name == member,
            (Some(name), Step::Item(index)) => *name == index.to_string(),
        }
    }
}

impl Kind {
    /// What JSON calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::True | Kind::False => "boolean",
            Kind::Number => "number",
            Kind::Text => "string",
            Kind::List => "array",
            Kind::Object => "object",
        }
    }
}

impl<'t> Document<'t> {
    pub(crate) fn read(text: &'t [u8]) -> Result<Document<'t>, Unreadable> {
        let text = str::from_utf8(text).map_err(|_| Unreadable::Malformed)?;
        if u32::try_from(text.len()).is_err() {
            return Err(Unreadable::Malformed);
        }
        let mut reader = Reader { text, at: 0, nodes: Vec::new() };
        reader.value(0)?;
        reader.skip_space();
        let nodes = reader.nodes;
        if reader.at < text.len() {
            Err(Unreadable::Malformed)
        } else {
            Ok(Document { text, nodes })
        }
    }

    fn value(&self, index: usize) -> Value<'t> {
        let Node { kind, start, end, .. } = self.nodes[index];
        Value { kind, text: &self.text[start as usize..end as usize] }
    }

    /// The node behind that one and all in it.
    fn next(&self, index: usize) -> usize {
        self.nodes[index].next as usize
    }

    /// The values in a list.
    fn items(&self, list: usize) -> impl Iterator<Item = usize> {
        let end = self.next(list);
        let in_it = move |index: usize| Some(index).filter(|index| *index < end);
        std::iter::successors(in_it(list + 1), move |item| in_it(self.next(*item)))
    }

    /// The members of an object. Of several with the same name the last one counts, as most readers have it.
    fn members(&self, object: usize) -> BTreeMap<Cow<'t, str>, usize> {
        // Names have no nodes in them.
        let mut members = BTreeMap::new();
        let (mut name, end) = (object + 1, self.next(object));
        while name < end {
            members.insert(unescaped(self.value(name).text), name + 1);
            name = self.next(name + 1);
        }
        members
    }
}

/// What a string in quotes says.
fn unescaped(text: &str) -> Cow<'_, str> {
    match text.contains('\\') {
        false => Cow::Borrowed(text.trim_matches('"')),
        true => Cow::Owned(serde_json::from_str(text).unwrap_or_default()),
    }
}

/// Two documents on the way through both.
struct Walk<'w, 't, F> {
    documents: [&'w Document<'t>; 2],
    ignore: &'w [MemberPattern],
    place: Vec<Step<'t>>,
    found: &'w mut F,
}

impl<'t, F: FnMut(Difference<'_, 't>)> Walk<'_, 't, F> {
    /// Compares the values at these nodes.
    fn compare(&mut self, nodes: [usize; 2]) {
        let [one, other] = self.documents;
        let values = [one.value(nodes[0]), other.value(nodes[1])];
        let is_same = match values.map(|value| value.kind) {
            [Kind::Object, Kind::Object] => {
                return self.compare_members([one.members(nodes[0]), other.members(nodes[1])]);
            }
            [Kind::List, Kind::List] => return self.compare_items(nodes),
            [Kind::Text, Kind::Text] => unescaped(values[0].text) == unescaped(values[1].text),
            [Kind::Number, Kind::Number] => is_same_number(values[0].text, values[1].text),
            [one, other] => one == other,
        };
        if !is_same {
            self.tell(values.map(Some));
        }
    }

    fn compare_members(&mut self, [ours, theirs]: [BTreeMap<Cow<'t, str>, usize>; 2]) {
        for (name, node) in &ours {
            self.compare_at(Step::Member(name.clone()), [Some(*node), theirs.get(name).copied()]);
        }
        for (name, node) in theirs.iter().filter(|(name, _)| !ours.contains_key(*name)) {
            self.compare_at(Step::Member(name.clone()), [None, Some(*node)]);
        }
    }

    fn compare_items(&mut self, lists: [usize; 2]) {
        let [one, other] = self.documents;
        let (mut ours, mut theirs) = (one.items(lists[0]), other.items(lists[1]));
        for index in 0.. {
            match [ours.next(), theirs.next()] {
                [None, None] => return,
                nodes => self.compare_at(Step::Item(index), nodes),
            }
        }
    }

    fn compare_at(&mut self, step: Step<'t>, nodes: [Option<usize>; 2]) {
        self.place.push(step);
        let is_it = |it: &&MemberPattern| it.names().len() == self.place.len();
        let mut patterns = self.ignore.iter().filter(is_it);
        if !patterns.any(|pattern| is_within(pattern, &self.place)) {
            match nodes {
                [Some(one), Some(other)] => self.compare([one, other]),
                [one, other] => {
                    let [ours, theirs] = self.documents;
                    self.tell([one.map(|it| ours.value(it)), other.map(|it| theirs.value(it))]);
                }
            }
        }
        self.place.pop();
    }

    fn tell(&mut self, values: [Option<Value<'t>>; 2]) {
        (self.found)(Difference { place: &self.place, values });
    }
}

/// Whether two numbers have the same value, however they are written and however large they are.
fn is_same_number(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    let (Some(one), Some(other)) = (Decimal::of(one), Decimal::of(other)) else { return false };
    match (one.digits().next(), other.digits().next()) {
        (None, None) => true,
        _ => {
            (one.is_negative, one.magnitude) == (other.is_negative, other.magnitude)
                && one.digits().eq(other.digits())
        }
    }
}

/// A number: 0.`digits` times ten to the power of `magnitude`.
struct Decimal<'t> {
    is_negative: bool,
    /// Those in front of the point and behind it.
    parts: [&'t str; 2],
    /// How many zeros they begin with.
    zeros: usize,
    /// How many there are without those zeros and the ones that they end with.
    count: usize,
    magnitude: i64,
}

impl<'t> Decimal<'t> {
    /// The number that the text is; none if its exponent is beyond all use.
    fn of(text: &'t str) -> Option<Decimal<'t>> {
        let (is_negative, text) = match text.strip_prefix('-') {
            Some(text) => (true, text),
            None => (false, text),
        };
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let exponent: i32 = exponent.parse().ok()?;
        let digits = || whole.bytes().chain(part.bytes());
        let zeros = digits().take_while(|digit| *digit == b'0').count();
        let ends = digits().rev().take_while(|digit| *digit == b'0').count();
        let count = (whole.len() + part.len()).saturating_sub(zeros + ends);
        let magnitude = i64::from(exponent) + whole.len() as i64 - zeros as i64;
        Some(Decimal { is_negative, parts: [whole, part], zeros, count, magnitude })
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        let [whole, part] = self.parts;
        whole.bytes().chain(part.bytes()).skip(self.zeros).take(self.count)
    }
}

/// A text on its way into a document. `at <= text.len()`
struct Reader<'t> {
    text: &'t str,
    at: usize,
    nodes: Vec<Node>,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<(), Unreadable> {
        self.skip_space();
        let kind = match self.peek() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::List,
            Some(b'"') => Kind::Text,
            Some(b't') => Kind::True,
            Some(b'f') => Kind::False,
            Some(b'n') => Kind::Null,
            Some(b'-' | b'0'..=b'9') => Kind::Number,
            _ => return Err(Unreadable::Malformed),
        };
        let index = self.begin(kind);
        match kind {
            Kind::Object => self.members(depth + 1)?,
            Kind::List => self.items(depth + 1)?,
            Kind::Text => self.string()?,
            Kind::Number => self.number()?,
            Kind::True => self.word("true")?,
            Kind::False => self.word("false")?,
            Kind::Null => self.word("null")?,
        }
        self.end(index);
        Ok(())
    }

    /// Notes a value that begins here.
    fn begin(&mut self, kind: Kind) -> usize {
        self.nodes.push(Node { kind, start: place(self.at), end: 0, next: 0 });
        self.nodes.len() - 1
    }

    fn end(&mut self, index: usize) {
        let next = place(self.nodes.len());
        let node = &mut self.nodes[index];
        (node.end, node.next) = (place(self.at), next);
    }

    fn members(&mut self, depth: usize) -> Result<(), Unreadable> {
        self.all(depth, b'}', |reader| {
            reader.skip_space();
            let name = reader.begin(Kind::Text);
            reader.string()?;
            reader.end(name);
            reader.skip_space();
            reader.expect(b':')?;
            reader.value(depth)
        })
    }

    fn items(&mut self, depth: usize) -> Result<(), Unreadable> {
        self.all(depth, b']', |reader| reader.value(depth))
    }

    /// What is in a list or an object, up to the byte that closes it.
    fn all(
        &mut self,
        depth: usize,
        close: u8,
        mut one: impl FnMut(&mut Self) -> Result<(), Unreadable>,
    ) -> Result<(), Unreadable> {
        if depth > MAX_DEPTH {
            return Err(Unreadable::TooDeep);
        }
        self.at += 1;
        self.skip_space();
        if self.takes(close) {
            return Ok(());
        }
        loop {
            one(self)?;
            self.skip_space();
            if !self.takes(b',') {
                return self.expect(close);
            }
        }
    }

    fn string(&mut self) -> Result<(), Unreadable> {
        let start = self.at;
        self.expect(b'"')?;
        let mut has_escape = false;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    has_escape = true;
                    self.at += 2;
                }
                Some(0x20..) => self.at += 1,
                _ => return Err(Unreadable::Malformed),
            }
        }
        self.at += 1;
        let text = self.text.get(start..self.at).ok_or(Unreadable::Malformed)?;
        // Escapes have rules of their own, above all those of surrogates.
        match has_escape && serde_json::from_str::<String>(text).is_err() {
            true => Err(Unreadable::Malformed),
            false => Ok(()),
        }
    }

    fn number(&mut self) -> Result<(), Unreadable> {
        self.takes(b'-');
        if !self.takes(b'0') {
            self.digits()?;
        }
        if self.takes(b'.') {
            self.digits()?;
        }
        if self.takes(b'e') || self.takes(b'E') {
            let _is_signed = self.takes(b'+') || self.takes(b'-');
            self.digits()?;
        }
        Ok(())
    }

    /// At least one.
    fn digits(&mut self) -> Result<(), Unreadable> {
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count == 0 { Err(Unreadable::Malformed) } else { Ok(()) }
    }

    fn word(&mut self, word: &str) -> Result<(), Unreadable> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(Unreadable::Malformed);
        }
        self.at += word.len();
        Ok(())
    }

    fn skip_space(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| b" \t\r\n".contains(byte)).count();
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, byte: u8) -> Result<(), Unreadable> {
        if self.takes(byte) { Ok(()) } else { Err(Unreadable::Malformed) }
    }
}

/// A place in a text whose length fits.
fn place(at: usize) -> u32 {
    u32::try_from(at).expect("Document::read has checked the length of the text")
}

#[cfg(test)]
mod tests;
