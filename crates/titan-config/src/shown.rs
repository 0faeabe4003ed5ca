//! Which parts of a file are no secrets: its keys, and the values of fields that take none. Follows the forms of the
//! sections, so that a value which no field takes is not among them: it may be a secret whose key is misspelled or lost.

use crate::bounds::MAX_DIAGNOSTICS;
use crate::credentials::{in_target, is_credential};
use crate::habits;
use crate::location::Span;
use crate::node::{Entry, Kind, Node, Text};
use crate::report::Again;
use crate::shape::{FieldInfo, SectionInfo, Shape};
use crate::suggest;
use crate::visible::Visible;
use std::collections::HashSet;

/// What reports may show of a file.
pub(crate) fn visible(root: &Node, again: &[Again], file: &SectionInfo) -> Visible {
    let mut parts = Parts::default();
    match &root.kind {
        Kind::Map(entries) => parts.section(entries, file),
        _ => parts.hide(root),
    }
    if !again.is_empty() {
        let shown: HashSet<Span> = parts.shown.iter().copied().collect();
        for Again { entry, first } in again {
            parts.key(entry, !shown.contains(first));
            parts.hide(&entry.value);
        }
    }
    let Parts { shown, hidden, unknown: _ } = parts;
    Visible::Parts { shown, hidden }
}

/// The same where only the text of the file is known.
pub(crate) fn visible_keys(sections: &[SectionInfo]) -> Visible {
    Visible::Keys(sections.iter().flat_map(|it| &it.fields).map(|field| field.key).collect())
}

#[derive(Default)]
struct Parts {
    shown: Vec<Span>,
    hidden: Vec<Span>,
    /// Keys that are not known: what may be meant is looked for as often as it is told.
    unknown: usize,
}

impl Parts {
    fn section(&mut self, entries: &[Entry], info: &SectionInfo) {
        for entry in entries {
            match self.field(&entry.key, info) {
                Some(field) => {
                    self.shown.push(entry.key_span);
                    self.value(&entry.value, &field.shape);
                }
                None => {
                    self.key(entry, info.may_be_secret(entry));
                    self.hide(&entry.value);
                }
            }
        }
    }

    /// The field of that name, or the one that is probably meant.
    fn field<'i>(&mut self, key: &str, info: &'i SectionInfo) -> Option<&'i FieldInfo> {
        let find = |key: &str| info.fields.iter().find(|field| field.key == key);
        if let Some(field) = find(key) {
            return Some(field);
        }
        self.unknown += 1;
        if self.unknown > MAX_DIAGNOSTICS || habits::explain_key(info.name, key).is_some() {
            return None;
        }
        suggest::nearest(key, info.fields.iter().map(|field| field.key)).and_then(find)
    }

    fn key(&mut self, entry: &Entry, is_secret: bool) {
        match is_secret {
            true => self.hidden.push(entry.key_span),
            false => self.shown.push(entry.key_span),
        }
    }

    fn value(&mut self, node: &Node, shape: &Shape) {
        match &node.kind {
            Kind::Null => {}
            Kind::Text(Text { made: Some(made), .. }) if made.is_elsewhere => {
                self.shown.push(node.span);
            }
            Kind::Text(Text { text, .. })
                if shape.may_hide_text() || !in_target(text).is_empty() =>
            {
                self.hidden.push(node.span);
            }
            Kind::Text(_) => self.shown.push(node.span),
            Kind::List(items) => match shape.item() {
                Some(item) => items.iter().for_each(|node| self.value(node, item)),
                None => self.hide(node),
            },
            Kind::Map(entries) => self.mapping(node, entries, shape),
        }
    }

    fn mapping(&mut self, node: &Node, entries: &[Entry], shape: &Shape) {
        match shape {
            Shape::Section(section) | Shape::Short { section, .. } => {
                self.section(entries, section);
            }
            Shape::Map { value, is_of_message, .. } => {
                for entry in entries {
                    if *is_of_message && is_credential(&entry.key) {
                        self.key(entry, false);
                        self.hide(&entry.value);
                        continue;
                    }
                    self.key(entry, value.is_secret() && matches!(entry.value.kind, Kind::Null));
                    self.value(&entry.value, value);
                }
            }
            Shape::List { item, .. } => self.mapping(node, entries, item),
            Shape::Either(shapes) => match shapes.iter().find(|shape| shape.takes_mapping()) {
                Some(shape) => self.mapping(node, entries, shape),
                None => self.hide(node),
            },
            _ => self.hide(node),
        }
    }

    fn hide(&mut self, node: &Node) {
        match &node.kind {
            Kind::Null => {}
            Kind::Text(_) => self.hidden.push(node.span),
            Kind::List(items) => items.iter().for_each(|item| self.hide(item)),
            Kind::Map(entries) => {
                for Entry { key: _, key_span, value } in entries {
                    self.hidden.push(*key_span);
                    self.hide(value);
                }
            }
        }
    }
}
