//! One thing that is wrong with a configuration, with its places in the file.

use crate::location::Span;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the file can be served all the same.
    pub severity: Severity,
    /// What is wrong, in one line.
    pub message: String,
    /// Where, and what was expected there.
    pub at: Label,
    /// The other places that have to do with it.
    pub also: Vec<Label>,
    /// The value concerned, as in `routes[2].timeouts`; empty for the file as a whole.
    pub path: String,
    /// What can be done about it.
    pub help: Vec<String>,
}

/// Whether the file can be served all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It cannot.
    Error,
    /// It can, but is probably not what was meant.
    Warning,
}

/// A place with a remark; the remark may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// The remark.
    pub text: String,
}

impl Diagnostic {
    pub(crate) fn error(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            message: message.into(),
            at: Label { span, text: String::new() },
            also: Vec::new(),
            path: String::new(),
            help: Vec::new(),
        }
    }

    pub(crate) fn warning(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(span, message) }
    }

    /// The same without what may tell of a value that is not to be shown.
    pub(crate) fn without_words(self, value: &str) -> Diagnostic {
        Diagnostic {
            message: format!("{value} cannot be used here"),
            at: Label { text: "it is not shown".to_owned(), ..self.at },
            also: Vec::new(),
            help: Vec::new(),
            ..self
        }
    }

    /// The remark under the place.
    pub(crate) fn label(mut self, text: impl Into<String>) -> Diagnostic {
        self.at.text = text.into();
        self
    }

    /// A second place; one that only a default has is left out.
    pub(crate) fn also(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        if span != Span::NOWHERE {
            self.also.push(Label { span, text: text.into() });
        }
        self
    }

    pub(crate) fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.help.push(text.into());
        self
    }
}
