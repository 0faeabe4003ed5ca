//! The files of a configuration become one: those that `include` names are read, and what they say is joined.
//!
//! Lists go on in the order of the files, mappings take the names of all of them, and what can be there once only is in
//! one file. Which key is what follows from its form.

use crate::bounds::{MAX_DELIVERED, MAX_FILES_TOTAL, MAX_INCLUDE_DEPTH, MAX_INCLUDED};
use crate::declared::Declared;
use crate::delivered;
use crate::diagnostic::Diagnostic;
use crate::gateway::{ConfigFields, include};
use crate::language;
use crate::location::{FileId, Span};
use crate::node::{Entry, Kind, Node, quote};
use crate::read::{At, Read, Reading};
use crate::report::Findings;
use crate::section::Section;
use crate::shape::{Shape, one_or_list};
use crate::shown;
use crate::source::{Source, Sources};
use crate::surroundings::{Document, Surroundings};
use crate::variables::Variables;
use crate::yaml::{self, Used};
use std::collections::HashMap;
use std::mem;
use std::path::{Path, PathBuf};

/// The files of a configuration, and what they say together; that is `None` when one of them cannot be read to its end.
/// Then `findings` say why.
pub(crate) fn compose(
    main: Document,
    surroundings: &mut dyn Surroundings,
    findings: &mut Findings,
) -> (Sources, Option<Node>) {
    let Document { name, directory, identity, text } = main;
    let main = Source::new(FileId::MAIN, &name, directory, &text);
    let mut composer = Composer {
        total: text.len(),
        sources: Sources::of(main),
        variables: Variables::new(surroundings),
        findings,
        used: Used::default(),
        open: Vec::new(),
        seen: HashMap::from([(identity.clone(), Span::START)]),
        delivered: 0,
        root: None,
        joined: Joined::of_keys(),
        names: HashMap::new(),
        is_complete: true,
    };
    composer.take(FileId::MAIN, identity);
    composer.take_delivered();
    composer.variables.surroundings.complete();
    (composer.sources, composer.root.filter(|_| composer.is_complete))
}

struct Composer<'s, 'f> {
    sources: Sources,
    variables: Variables<'s>,
    findings: &'f mut Findings,
    used: Used,
    /// Bytes of all files so far.
    total: usize,
    /// The file that is being read, behind those that led to it.
    open: Vec<(FileId, PathBuf)>,
    /// Where each file was included first.
    seen: HashMap<PathBuf, Span>,
    /// Documents of sources so far.
    delivered: usize,
    /// What the files say so far.
    root: Option<Node>,
    /// How keys of several files become one.
    joined: HashMap<&'static str, Joined>,
    /// The places of the names in the mappings of `root`.
    names: HashMap<&'static str, HashMap<String, Span>>,
    is_complete: bool,
}

/// How the same key of several files becomes one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joined {
    List,
    Mapping,
    /// It cannot.
    Never,
}

impl Joined {
    /// How each key does.
    fn of_keys() -> HashMap<&'static str, Joined> {
        let fields = ConfigFields::info().fields.into_iter();
        fields.map(|field| (field.key, Joined::of(field.key, &field.shape))).collect()
    }

    fn of(key: &str, shape: &Shape) -> Joined {
        match shape {
            // One file has them all.
            _ if key == "sources" => Joined::Never,
            Shape::Map { .. } => Joined::Mapping,
            Shape::Either(shapes) if one_or_list(shapes).is_some() => Joined::List,
            _ => Joined::Never,
        }
    }
}

impl Composer<'_, '_> {
    /// Reads a file, and then those that it includes.
    fn take(&mut self, file: FileId, identity: PathBuf) {
        let source = self.sources.shared(file);
        let Some(root) = self.read(&source) else { return };
        let Some(root) = root else {
            if file == FileId::MAIN {
                let error = Diagnostic::error(Span::START, "the file is empty");
                self.refuse(error.label("expected `listeners`, `routes` and `upstreams`"));
            }
            return;
        };
        if file == FileId::MAIN && !root.is_map() {
            // What was expected instead is said by what reads it.
            self.root = Some(root);
            return;
        }
        let includes = self.includes(&root);
        self.join(root, file);
        self.open.push((file, identity));
        for pattern in &includes {
            self.include(&source, pattern);
        }
        self.open.pop();
    }

    /// What a file says; nothing where it is empty, and less where that cannot be read to its end.
    fn read(&mut self, source: &Source) -> Option<Option<Node>> {
        let read = yaml::read(source, &mut self.variables, &mut self.used, self.findings);
        let sections = language::sections();
        let again = mem::take(&mut self.findings.again);
        let visible = match &read {
            Some(Some(root)) => shown::visible(root, &again, &sections[0]),
            Some(None) | None => shown::visible_keys(sections),
        };
        self.findings.visible.insert(source.file, visible);
        self.is_complete &= read.is_some();
        read
    }

    /// Reads the documents of all sources.
    fn take_delivered(&mut self) {
        let Some(root) = &mut self.root else { return };
        let sources = root.entry("sources").map_or(&[][..], |entry| entry.value.entries());
        // Documents of a cluster are written by the gateway itself, and name the files of certificates.
        let is_set = |node: &Node| {
            node.entry("local_files").and_then(|it| it.value.as_text()) == Some("true")
                || node.entry("kubernetes").is_some()
        };
        let sources: Vec<_> =
            sources.iter().map(|it| (it.key.clone(), is_set(&it.value))).collect();
        if sources.is_empty() {
            return;
        }
        delivered::may_be_missing(root);
        for (name, local_files) in sources {
            for document in self.variables.surroundings.delivered(&name) {
                self.take_document(document, local_files);
            }
        }
    }

    fn take_document(&mut self, document: Document, local_files: bool) {
        let Document { name, directory, identity: _, text } = document;
        let made = |file| Source::new(file, &name, directory, &text).confined(!local_files);
        let file = self.sources.push(|file| made(file).delivered());
        self.total += text.len();
        self.delivered += 1;
        if self.delivered > MAX_DELIVERED || self.total > MAX_FILES_TOTAL {
            return self.refuse(delivered::too_much(file));
        }
        let source = self.sources.shared(file);
        let Some(Some(mut root)) = self.read(&source) else { return };
        delivered::check(&mut root, local_files, self.findings);
        self.join(root, file);
    }

    fn refuse(&mut self, error: Diagnostic) {
        self.findings.add(error);
        self.is_complete = false;
    }

    /// What a file wants to be included.
    fn includes(&mut self, root: &Node) -> Vec<At<String>> {
        let Some(entry) = root.entry("include") else { return Vec::new() };
        let declared = Declared::in_file(root);
        let mut to = Reading::new(&self.sources, self.findings, declared, language::sections);
        let read = to.inside("include", |to| include().read(&entry.value, to));
        read.unwrap_or_else(|| {
            self.is_complete = false;
            Vec::new()
        })
    }

    fn include(&mut self, from: &Source, At { value: pattern, span }: &At<String>) {
        let files = match self.variables.surroundings.matching(from.directory(), pattern) {
            Ok(files) => files,
            Err(reason) => return self.refuse(cannot_include(pattern, *span, reason)),
        };
        for file in files {
            if self.sources.len() > MAX_INCLUDED {
                let message = format!("more than {MAX_INCLUDED} files are included");
                let error = Diagnostic::error(*span, message);
                return self.refuse(
                    error
                        .label("this exceeds the limit")
                        .help("put several sections into one file"),
                );
            }
            self.include_file(&file, *span);
        }
    }

    fn include_file(&mut self, file: &Path, span: Span) {
        let called = file.display().to_string();
        let document = match self.variables.surroundings.document(file) {
            Ok(document) => document,
            Err(reason) => return self.refuse(cannot_include(&called, span, reason)),
        };
        let Document { name, directory, identity, text } = document;
        if let Some(error) = self.again(&name, &identity, span) {
            return self.refuse(error);
        }
        self.total += text.len();
        if self.total > MAX_FILES_TOTAL {
            let most = MAX_FILES_TOTAL >> 20;
            let reason = format!("all files together would be larger than {most} MiB");
            return self.refuse(cannot_include(&called, span, reason));
        }
        if self.open.len() > MAX_INCLUDE_DEPTH {
            let reason = format!("files include each other more than {MAX_INCLUDE_DEPTH} deep");
            return self.refuse(cannot_include(&called, span, reason));
        }
        self.seen.insert(identity.clone(), span);
        let file = self.sources.push(|file| Source::new(file, &name, directory, &text));
        self.take(file, identity);
    }

    /// What is wrong with including a file that was read before.
    fn again(&self, name: &str, identity: &Path, span: Span) -> Option<Diagnostic> {
        let first = *self.seen.get(identity)?;
        let Some(begin) = self.open.iter().position(|(_, open)| open == identity) else {
            let error = Diagnostic::error(span, format!("{} is included twice", quote(name)));
            return Some(error.label("included again here").also(first, "first here"));
        };
        let names =
            self.open[begin..].iter().map(|(file, _)| self.sources.get(*file).name.as_str());
        let circle: Vec<&str> = names.chain([name]).collect();
        let message = format!("files include each other in a circle: {}", circle.join(" -> "));
        let error = Diagnostic::error(span, message).label("this closes the circle");
        Some(
            error.help("a pattern must not match the file that it is in, nor one that includes it"),
        )
    }

    /// Adds what a file says to what the files before it say.
    fn join(&mut self, mut root: Node, file: FileId) {
        let Kind::Map(entries) = &mut root.kind else {
            if !matches!(root.kind, Kind::Null) {
                let error = Diagnostic::error(root.span, "expected a configuration");
                let error = error.label(format!("this is {}", root.kind()));
                self.refuse(error.help("write keys such as `routes` and `upstreams`"));
            }
            return;
        };
        entries.retain(|entry| entry.key != "include");
        if file == FileId::MAIN {
            entries.iter_mut().for_each(|entry| self.note_names(entry));
            self.root = Some(root);
            return;
        }
        mem::take(entries).into_iter().for_each(|entry| self.join_entry(entry));
    }

    fn join_entry(&mut self, mut entry: Entry) {
        if entry.key == "sources" {
            let error = Diagnostic::error(entry.key_span, "an included file cannot set `sources`");
            let error = error.label("it is for the file that the gateway is started with");
            return self.findings.add(error.help("move it there"));
        }
        let how = self.joined.get(&*entry.key).copied();
        self.note_names(&mut entry);
        let Some(Kind::Map(entries)) = self.root.as_mut().map(|root| &mut root.kind) else {
            return;
        };
        let first = entries.iter_mut().find(|it| it.key == entry.key);
        match (first, how) {
            (Some(first), Some(Joined::List)) => join_lists(&mut first.value, entry.value),
            (Some(first), Some(Joined::Mapping)) => join_mappings(&mut first.value, entry.value),
            (Some(first), Some(Joined::Never)) => {
                let message = format!("`{}` is in two files", entry.key);
                let error = Diagnostic::error(entry.key_span, message).label("here again");
                let error = error.also(first.key_span, "first here");
                self.findings.add(error.help(only_once()));
            }
            // What is no key is reported for each file.
            (Some(_), None) | (None, _) => entries.push(entry),
        }
    }

    /// Notes the names in a mapping. Those that another file has are reported, and stay those of the first.
    fn note_names(&mut self, entry: &mut Entry) {
        let Entry { key: of, value, .. } = entry;
        let Some((of, Joined::Mapping)) = self.joined.get_key_value(&**of) else { return };
        let Kind::Map(names) = &mut value.kind else { return };
        let known = self.names.entry(of).or_default();
        names.retain(|Entry { key, key_span, .. }| {
            let Some(first) = known.get(key) else {
                known.insert(key.clone(), *key_span);
                return true;
            };
            let message = format!("{} is in the `{of}` of two files", quote(key));
            let error = Diagnostic::error(*key_span, message).label("here again");
            self.findings.add(error.also(*first, "first here"));
            false
        });
    }
}

fn cannot_include(what: &str, span: Span, reason: String) -> Diagnostic {
    Diagnostic::error(span, format!("cannot include {}", quote(what))).label(reason)
}

fn join_lists(first: &mut Node, more: Node) {
    if !matches!(first.kind, Kind::List(_)) {
        let one = mem::replace(&mut first.kind, Kind::Null);
        first.kind = Kind::List(vec![Node { span: first.span, kind: one }]);
    }
    if let Kind::List(all) = &mut first.kind {
        all.extend(items(more));
    }
}

/// The items of a list, or one without the brackets.
fn items(node: Node) -> Vec<Node> {
    match node.kind {
        Kind::List(items) => items,
        _ => vec![node],
    }
}

/// What is no mapping takes the place of both, to be reported.
fn join_mappings(first: &mut Node, more: Node) {
    let Node { span, kind } = more;
    match (&mut first.kind, kind) {
        (Kind::Map(entries), Kind::Map(more)) => entries.extend(more),
        (Kind::Map(_), kind) => *first = Node { span, kind },
        _ => {}
    }
}

/// What can be in several files, and what cannot.
fn only_once() -> String {
    let fields = ConfigFields::info().fields;
    let can = fields.iter().filter(|field| {
        field.key != "include" && Joined::of(field.key, &field.shape) != Joined::Never
    });
    let keys: Vec<_> = can.map(|field| format!("`{}`", field.key)).collect();
    format!("keep it in one of them; what can be in several files is {}", keys.join(", "))
}
