//! What is wrong with a configuration, all of it, each with its place in the file.

use crate::bounds::MAX_DIAGNOSTICS;
use crate::diagnostic::{Diagnostic, Label, Severity};
use crate::location::{FileId, Location, Span};
use crate::node::{Entry, Kind, Node};
use crate::render;
use crate::secrets::Secrets;
use crate::source::{Source, Sources};
use crate::visible::Visible;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Everything found in a configuration, in the order of its files. `Display` shows it as plain text.
#[derive(Clone, Debug)]
pub struct Report {
    sources: Sources,
    diagnostics: Vec<Diagnostic>,
    omitted: usize,
}

impl Report {
    pub(crate) fn new(sources: &Sources, findings: Findings) -> Report {
        let Findings {
            errors: mut diagnostics, warnings, omitted, hidden, visible, secrets, ..
        } = findings;
        diagnostics.extend(warnings);
        for diagnostic in &mut diagnostics {
            let Diagnostic { severity: _, message, at, also, path, help } = diagnostic;
            for Label { span, text } in std::iter::once(at).chain(also) {
                *span = sources.with(*span).settled(*span);
                secrets.mask(text);
            }
            [message, path].into_iter().chain(help).for_each(|text| secrets.mask(text));
        }
        diagnostics.sort_by_key(|diagnostic| (diagnostic.severity, diagnostic.at.span));
        let sources = match diagnostics.is_empty() {
            // The report on files in which nothing was found does not keep them.
            true => Sources::of(Source::main(&sources.main().name, "")),
            false => {
                let hidden: Vec<Span> = hidden.iter().map(|it| it.span).collect();
                sources.without(&hidden).showing(&visible, &lines_of(&diagnostics))
            }
        };
        Report { sources, diagnostics, omitted }
    }

    /// The report on files in which nothing was found.
    pub(crate) fn nothing(sources: &Sources) -> Report {
        Report::new(sources, Findings::default())
    }

    /// The same text with the colours of a terminal.
    pub fn colored(&self) -> impl fmt::Display + use<'_> {
        Colored(self)
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.diagnostics.is_empty()
    }

    /// What was found: errors first, then warnings, each in the order of the files.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// What messages call the file with a place of what was found.
    pub fn file(&self, place: Location) -> &str {
        &self.sources.get(place.file).name
    }
}

/// The lines that are shown, by file.
fn lines_of(diagnostics: &[Diagnostic]) -> HashMap<FileId, HashSet<u32>> {
    let mut lines: HashMap<FileId, HashSet<u32>> = HashMap::new();
    for Diagnostic { at, also, .. } in diagnostics {
        for Label { span, text: _ } in std::iter::once(at).chain(also) {
            lines.entry(span.start.file).or_default().insert(span.start.line);
        }
    }
    lines
}

struct Colored<'a>(&'a Report);

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        render::report(f, render::PLAIN, &self.sources, &self.diagnostics, self.omitted)
    }
}

impl fmt::Display for Colored<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { sources, diagnostics, omitted } = self.0;
        render::report(f, render::ANSI, sources, diagnostics, *omitted)
    }
}

impl std::error::Error for Report {}

/// What has been found so far. Beyond [`MAX_DIAGNOSTICS`] of a kind it only counts.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
    omitted: usize,
    /// Where secrets stand.
    hidden: Vec<Hidden>,
    /// What is shown of values with credentials, also of those that stand elsewhere.
    pub(crate) concealed: HashMap<Span, String>,
    /// The values with something that was taken from a file, in the order of the files.
    from_files: Vec<Span>,
    /// The values that are not known, which has been reported, in the order of the files.
    unknown: Vec<Span>,
    pub(crate) secrets: Secrets,
    /// The entries that are left out because their mapping has the key already.
    pub(crate) again: Vec<Again>,
    /// What may be shown of the files; nothing of those that are not among them.
    pub(crate) visible: HashMap<FileId, Visible>,
    /// The paths that are not written as they lead there from the directory of the first file.
    pub(crate) moved: HashMap<Span, String>,
}

/// An entry whose key is in its mapping already.
#[derive(Debug)]
pub(crate) struct Again {
    pub(crate) entry: Entry,
    /// The place of the first of the two keys.
    pub(crate) first: Span,
}

/// A secret, which nothing shows.
#[derive(Clone, Debug)]
pub(crate) struct Hidden {
    pub(crate) span: Span,
    /// The keys that lead to it.
    pub(crate) path: String,
}

impl Findings {
    /// Hides a secret, unless the file says only where it comes from.
    pub(crate) fn hide(&mut self, secret: &Node, path: String) {
        let made = match &secret.kind {
            Kind::Text(text) => text.made.as_ref(),
            Kind::Null | Kind::List(_) | Kind::Map(_) => None,
        };
        if !made.is_some_and(|made| made.is_elsewhere) {
            self.hidden.push(Hidden { span: secret.span, path });
        }
    }

    /// Hides credentials, which stand there.
    pub(crate) fn hide_at(&mut self, places: Vec<Span>, path: &str) {
        let hidden = places.into_iter().map(|span| Hidden { span, path: path.to_owned() });
        self.hidden.extend(hidden);
    }

    /// Where secrets stand.
    pub(crate) fn hidden(&self) -> &[Hidden] {
        &self.hidden
    }

    /// Hides what was taken from a file for this value.
    pub(crate) fn hide_file(&mut self, span: Span, content: &str) {
        self.from_files.push(span);
        self.secrets.add(content);
    }

    /// Whether that is a value, or a part of one, with something that was taken from a file.
    pub(crate) fn is_from_file(&self, span: Span) -> bool {
        is_within(&self.from_files, span)
    }

    /// Notes that this value is not known, as has been reported: what else is wrong with it follows from that.
    pub(crate) fn note_unknown(&mut self, span: Span) {
        self.unknown.push(span);
    }

    pub(crate) fn add(&mut self, diagnostic: Diagnostic) {
        if is_within(&self.unknown, diagnostic.at.span) {
            return;
        }
        let found = match diagnostic.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        if found.len() < MAX_DIAGNOSTICS {
            found.push(diagnostic);
        } else {
            self.omitted += 1;
        }
    }

    /// Whether a further error would only be counted, so that its help need not be computed.
    pub(crate) fn is_full(&self) -> bool {
        self.errors.len() >= MAX_DIAGNOSTICS
    }

    /// How many errors there are, and the last of them.
    pub(crate) fn last_error(&mut self) -> (usize, Option<&mut Diagnostic>) {
        (self.errors.len(), self.errors.last_mut())
    }

    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }
}

/// Whether one of the values, which are in order, contains that place.
fn is_within(values: &[Span], span: Span) -> bool {
    let behind = values.partition_point(|value| value.start <= span.start);
    values[..behind].last().is_some_and(|value| value.contains(span))
}
