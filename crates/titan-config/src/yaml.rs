//! YAML (and JSON, which is YAML) to a tree of nodes, within bounds.

use crate::bounds::{MAX_DEPTH, MAX_FILE, MAX_NODES, MAX_TEXT_TOTAL};
use crate::diagnostic::Diagnostic;
use crate::location::{FileId, Location, Span};
use crate::node::{Entry, Kind, Node, Text, quote};
use crate::report::{Again, Findings};
use crate::source::Source;
use crate::surroundings::Alone;
use crate::syntax_error::explain;
use crate::variables::{self, Variables};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, StrInput};
use std::collections::HashMap;

/// What the files of a configuration have come to so far, with what aliases repeat.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    nodes: usize,
    bytes: usize,
}

/// Reads the one document of a file; `None` inside where it says nothing. `None` when it cannot be read to its end; then
/// `findings` say why.
pub(crate) fn read(
    source: &Source,
    variables: &mut Variables<'_>,
    used: &mut Used,
    findings: &mut Findings,
) -> Option<Option<Node>> {
    if source.text().len() > MAX_FILE {
        let message = format!("the file is larger than {} MiB", MAX_FILE >> 20);
        findings.add(Diagnostic::error(Span::start_of(source.file), message));
        return None;
    }
    let mut builder = Builder {
        source,
        variables,
        findings,
        open: Vec::new(),
        anchors: HashMap::new(),
        used: *used,
        document: None,
    };
    let result = builder.run(Parser::new_from_str(source.text()));
    *used = builder.used;
    match result {
        Ok(()) => Some(builder.document),
        Err(Stop(diagnostic)) => {
            findings.add(*diagnostic);
            None
        }
    }
}

/// Reads a text of the language itself.
pub(crate) fn read_alone(text: &str) -> Option<Node> {
    let (source, mut findings) = (Source::main("default", text), Findings::default());
    let mut alone = Alone;
    read(&source, &mut Variables::new(&mut alone), &mut Used::default(), &mut findings)?
}

/// Reading cannot go on.
struct Stop(Box<Diagnostic>);

impl From<Diagnostic> for Stop {
    fn from(diagnostic: Diagnostic) -> Stop {
        Stop(Box::new(diagnostic))
    }
}

/// Builds the tree without recursion, so that no nesting can overflow the stack.
struct Builder<'a, 's> {
    source: &'a Source,
    variables: &'a mut Variables<'s>,
    findings: &'a mut Findings,
    /// The mappings and lists that are not closed yet, the innermost last.
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    used: Used,
    document: Option<Node>,
}

/// A mapping or list that is not closed yet.
struct Open {
    anchor: usize,
    start: Span,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map {
        entries: Vec<Entry>,
        /// The key whose value comes next.
        key: Option<(String, Span)>,
        /// Where each key stands in `entries`.
        seen: HashMap<String, usize>,
    },
}

impl Builder<'_, '_> {
    fn run<'input>(&mut self, mut parser: Parser<'input, StrInput<'input>>) -> Result<(), Stop> {
        while let Some(next) = parser.next_event() {
            let place = |marker| location(self.source.file, marker);
            let (event, span) =
                next.map_err(|error| explain(self.source, place(*error.marker()), error.info()))?;
            let span = Span { start: place(span.start), end: place(span.end) };
            self.event(event, span)?;
        }
        Ok(())
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Stop> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) if self.document.is_none() => Ok(()),
            Event::DocumentStart(_) => {
                let error = Diagnostic::error(span, "a second document starts here");
                Err(error
                    .help("a configuration must be a single document: remove the `---`")
                    .into())
            }
            Event::Scalar(text, style, anchor, tag) => {
                refuse_tag(tag.is_some(), span)?;
                self.scalar(text.into_owned(), style, anchor, span)
            }
            Event::Alias(anchor) => self.alias(anchor, span),
            Event::SequenceStart(anchor, tag) => {
                refuse_tag(tag.is_some(), span)?;
                self.open(Content::List(Vec::new()), anchor, span)
            }
            Event::MappingStart(anchor, tag) => {
                refuse_tag(tag.is_some(), span)?;
                let content = Content::Map { entries: Vec::new(), key: None, seen: HashMap::new() };
                self.open(content, anchor, span)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
        }
    }

    fn scalar(
        &mut self,
        text: String,
        style: ScalarStyle,
        anchor: usize,
        span: Span,
    ) -> Result<(), Stop> {
        let is_plain = style == ScalarStyle::Plain;
        let is_null = is_plain && matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL");
        if let Some(Open { content: Content::Map { key: key @ None, seen, entries }, .. }) =
            self.open.last_mut()
        {
            self.used.bytes += text.len();
            refuse_key(is_null, is_plain, &text, span)?;
            let text = variables::key(text, span, self.findings);
            if let Some(&first) = seen.get(&text) {
                let error =
                    Diagnostic::error(span, format!("the key {} appears twice", quote(&text)));
                let error = error.label("here again").also(entries[first].key_span, "first here");
                self.findings.add(error);
            }
            *key = Some((text, span));
            return self.check_bounds(span);
        }
        let span = self.place_of(&text, span);
        let kind = match is_null {
            true => Kind::Null,
            false => {
                let place = (self.source, span);
                Kind::Text(self.variables.value(text, !is_plain, place, self.findings))
            }
        };
        self.node(Node { span, kind }, anchor)
    }

    /// A value that is left out is shown at its key.
    fn place_of(&self, text: &str, span: Span) -> Span {
        match self.open.last() {
            Some(Open { content: Content::Map { key: Some((_, key)), .. }, .. })
                if text.is_empty() && span.start == span.end =>
            {
                *key
            }
            _ => span,
        }
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<(), Stop> {
        if self.expects_key() {
            return Err(Diagnostic::error(span, "a key cannot be an alias").into());
        }
        let Some(node) = self.anchors.get(&anchor) else {
            let error =
                Diagnostic::error(span, "an alias cannot refer to a value that contains it");
            return Err(error.into());
        };
        let node = node.clone();
        count(&node, &mut self.used);
        self.check_bounds(span)?;
        self.attach(node);
        Ok(())
    }

    fn open(&mut self, content: Content, anchor: usize, span: Span) -> Result<(), Stop> {
        if self.expects_key() {
            let error = Diagnostic::error(span, "a key must be a string");
            return Err(error.help("quote a string that starts with `{` or `[`").into());
        }
        if self.open.len() == MAX_DEPTH {
            let message =
                format!("mappings and lists are nested more than {MAX_DEPTH} levels deep");
            return Err(Diagnostic::error(span, message).into());
        }
        self.open.push(Open { anchor, start: span, content });
        Ok(())
    }

    fn close(&mut self, end: Span) -> Result<(), Stop> {
        let Open { anchor, start, content } =
            self.open.pop().expect("the parser closes only what it opened");
        // In block style nothing is written where a mapping or list starts.
        let is_flow = start.start != start.end;
        let end = if is_flow { end.end } else { start.end };
        let span = Span { start: start.start, end };
        let (span, kind) = match content {
            Content::List(items) => (span, Kind::List(items)),
            Content::Map { entries, .. } => {
                let first = entries.first().map_or(span, |entry| entry.key_span);
                (if is_flow { span } else { first }, Kind::Map(entries))
            }
        };
        self.node(Node { span, kind }, anchor)
    }

    /// Takes a finished node, whose parts have been counted before.
    fn node(&mut self, node: Node, anchor: usize) -> Result<(), Stop> {
        self.used.nodes += 1;
        self.used.bytes += node.as_text().map_or(0, str::len);
        self.check_bounds(node.span)?;
        if anchor != 0 {
            // What an anchor keeps is a copy in memory like any alias.
            count(&node, &mut self.used);
            self.check_bounds(node.span)?;
            self.anchors.insert(anchor, node.clone());
        }
        self.attach(node);
        Ok(())
    }

    fn attach(&mut self, node: Node) {
        let Some(open) = self.open.last_mut() else {
            self.document = Some(node);
            return;
        };
        match &mut open.content {
            Content::List(items) => items.push(node),
            Content::Map { entries, key, seen } => {
                let (key, key_span) = key.take().expect("a value follows its key");
                // The first of equal keys stays; the second has been reported.
                match seen.get(&key) {
                    Some(&first) => {
                        let first = entries[first].key_span;
                        let entry = Entry { key, key_span, value: node };
                        self.findings.again.push(Again { entry, first });
                    }
                    None => {
                        seen.insert(key.clone(), entries.len());
                        entries.push(Entry { key, key_span, value: node });
                    }
                }
            }
        }
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { content: Content::Map { key: None, .. }, .. }))
    }

    fn check_bounds(&self, span: Span) -> Result<(), Stop> {
        if self.used.nodes > MAX_NODES {
            let message =
                format!("the configuration has more than {MAX_NODES} values, aliases expanded");
            return Err(Diagnostic::error(span, message)
                .label("this one exceeds the limit")
                .into());
        }
        if self.used.bytes > MAX_TEXT_TOTAL {
            let most = MAX_TEXT_TOTAL >> 20;
            let message = format!(
                "the configuration has more than {most} MiB of text, aliases and variables expanded"
            );
            return Err(Diagnostic::error(span, message).label("this exceeds the limit").into());
        }
        Ok(())
    }
}

fn refuse_tag(is_tagged: bool, span: Span) -> Result<(), Stop> {
    if !is_tagged {
        return Ok(());
    }
    let error = Diagnostic::error(span, "tags are not supported").label("this value has a tag");
    Err(error.help("remove the `!...`; quote a string that starts with `!`").into())
}

fn refuse_key(is_null: bool, is_plain: bool, text: &str, span: Span) -> Result<(), Stop> {
    if is_plain && text == "<<" {
        let error = Diagnostic::error(span, "merge keys are not supported");
        let help = "write the keys out, or give the whole value an anchor (`&name`) and repeat it with `*name`";
        return Err(error
            .label("`<<` merges another mapping in other YAML readers")
            .help(help)
            .into());
    }
    if is_null {
        return Err(Diagnostic::error(span, "a key is missing").label("expected a key").into());
    }
    Ok(())
}

/// Counts a node with everything in it. The tree is at most [`MAX_DEPTH`] deep.
fn count(node: &Node, used: &mut Used) {
    used.nodes += 1;
    match &node.kind {
        Kind::Null => {}
        Kind::Text(Text { text, .. }) => used.bytes += text.len(),
        Kind::List(items) => items.iter().for_each(|item| count(item, used)),
        Kind::Map(entries) => {
            for Entry { key, value, .. } in entries {
                used.bytes += key.len();
                count(value, used);
            }
        }
    }
}

/// The parser counts lines from 1 and columns from 0.
fn location(file: FileId, marker: Marker) -> Location {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Location { file, line: number(marker.line()), column: number(marker.col()).saturating_add(1) }
}
