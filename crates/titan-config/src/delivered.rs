//! What a document of a source may say: parts of what the gateway serves, and nothing of the gateway itself.

use crate::bounds::{MAX_DELIVERED, MAX_FILES_TOTAL};
use crate::diagnostic::Diagnostic;
use crate::gateway::ConfigFields;
use crate::location::{FileId, Span};
use crate::node::{Entry, Kind, Node};
use crate::report::Findings;
use crate::section::Section;
use crate::variables;

/// The keys that a document of a source can set.
const KEYS: [&str; 6] = ["listeners", "routes", "upstreams", "policies", "apply", "error_pages"];

/// What a Unix socket begins with, wherever it is an address.
const SOCKET: &str = "unix:";

/// Where documents are delivered the file itself needs nothing to serve.
pub(crate) fn may_be_missing(root: &mut Node) {
    let Kind::Map(entries) = &mut root.kind else { return };
    for key in ["listeners", "routes"] {
        let nothing = Node { span: Span::NOWHERE, kind: Kind::List(Vec::new()) };
        match entries.iter_mut().find(|entry| entry.key == key) {
            Some(Entry { value, .. }) => {
                if matches!(&value.kind, Kind::List(items) if items.is_empty()) {
                    *value = nothing;
                }
            }
            None => {
                let key_span = Span::NOWHERE;
                entries.push(Entry { key: key.to_owned(), key_span, value: nothing });
            }
        }
    }
}

/// Reports what a document must not say, and removes the keys that are not its own.
pub(crate) fn check(root: &mut Node, local_files: bool, findings: &mut Findings) {
    if !local_files {
        refuse_sockets(root, findings);
    }
    let Kind::Map(entries) = &mut root.kind else { return };
    for entry in entries.extract_if(.., |entry| is_of_gateway(&entry.key)) {
        let message = format!("a document of a source cannot set `{}`", entry.key);
        let error = Diagnostic::error(entry.key_span, message).label("this belongs to the gateway");
        let keys: Vec<_> = KEYS.iter().map(|key| format!("`{key}`")).collect();
        let help = format!(
            "set it in the file that the gateway is started with; a document can set {}",
            keys.join(", ")
        );
        findings.add(error.help(help));
    }
}

/// That a document is one too many, or that all of them are too large with it.
pub(crate) fn too_much(file: FileId) -> Diagnostic {
    let message = format!(
        "the sources deliver more than {MAX_DELIVERED} documents, or all files are larger than {} MiB",
        MAX_FILES_TOTAL >> 20
    );
    Diagnostic::error(Span::start_of(file), message).label("this document exceeds the limit")
}

/// Whether that is a key of the file which no document can set. What is no key at all is reported as elsewhere.
fn is_of_gateway(key: &str) -> bool {
    ConfigFields::KEYS.contains(&key) && !KEYS.contains(&key)
}

/// Any text that begins so: what is no address and does would be one by mistake only.
fn refuse_sockets(node: &Node, findings: &mut Findings) {
    match &node.kind {
        Kind::Null => {}
        Kind::Text(text) => {
            if text.text.starts_with(SOCKET) {
                findings.add(variables::confined(node.span, "a Unix socket of this machine"));
            }
        }
        Kind::List(items) => items.iter().for_each(|item| refuse_sockets(item, findings)),
        Kind::Map(entries) => {
            entries.iter().for_each(|entry| refuse_sockets(&entry.value, findings));
        }
    }
}
