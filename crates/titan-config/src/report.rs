//! What is wrong with a configuration, all of it, each with its place in the file.

use crate::bounds::MAX_DIAGNOSTICS;
use crate::diagnostic::{Diagnostic, Severity};
use crate::location::Span;
use crate::render;
use crate::source::Source;
use std::fmt;
use std::sync::Arc;

/// Everything found in one file, in the order of the file. `Display` shows it as plain text.
#[derive(Clone, Debug)]
pub struct Report {
    source: Arc<Source>,
    diagnostics: Vec<Diagnostic>,
    omitted: usize,
}

impl Report {
    pub(crate) fn new(source: Arc<Source>, findings: Findings) -> Report {
        let Findings { errors: mut diagnostics, warnings, omitted, hidden } = findings;
        diagnostics.extend(warnings);
        for diagnostic in &mut diagnostics {
            let labels = std::iter::once(&mut diagnostic.at).chain(&mut diagnostic.also);
            labels.for_each(|label| label.span = source.settled(label.span));
        }
        diagnostics.sort_by_key(|diagnostic| (diagnostic.severity, diagnostic.at.span));
        let hidden: Vec<Span> = hidden.iter().map(|it| it.span).collect();
        let is_shown = !diagnostics.is_empty() && !hidden.is_empty();
        let source = if is_shown { Arc::new(source.without(&hidden)) } else { source };
        Report { source, diagnostics, omitted }
    }

    /// The report on a file in which nothing was found; it does not keep the file.
    pub(crate) fn nothing(name: &str) -> Report {
        Report::new(Arc::new(Source::new(name, "")), Findings::default())
    }

    /// The same text with the colours of a terminal.
    pub fn colored(&self) -> impl fmt::Display + use<'_> {
        Colored(self)
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.diagnostics.is_empty()
    }

    /// What was found: errors first, then warnings, each in the order of the file.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }
}

struct Colored<'a>(&'a Report);

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        render::report(f, render::PLAIN, &self.source, &self.diagnostics, self.omitted)
    }
}

impl fmt::Display for Colored<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { source, diagnostics, omitted } = self.0;
        render::report(f, render::ANSI, source, diagnostics, *omitted)
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
}

/// A secret, which nothing shows.
#[derive(Debug)]
pub(crate) struct Hidden {
    pub(crate) span: Span,
    /// The keys that lead to it.
    pub(crate) path: String,
}

impl Findings {
    /// Hides this part of the file.
    pub(crate) fn hide(&mut self, span: Span, path: String) {
        self.hidden.push(Hidden { span, path });
    }

    /// Where secrets stand.
    pub(crate) fn hidden(&self) -> &[Hidden] {
        &self.hidden
    }

    pub(crate) fn add(&mut self, diagnostic: Diagnostic) {
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
