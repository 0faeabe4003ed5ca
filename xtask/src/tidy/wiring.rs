//! Every field of the checked configuration is read by some other crate: an option that changes nothing
//! does not exist.
//!
//! A look at the text, without types: it finds a field that no code reads, and may overlook one that has the name of
//! another. The test that each field has is the proof; this is the reminder.

use super::Finding;
use crate::tree::{File, Tree};

const CONFIG: &str = "crates/titan-config/src/";

/// Files whose structs are not what a configuration holds.
const NOT_CONFIGURATION: &[&str] =
    &["report.rs", "location.rs", "surroundings.rs", "plan.rs", "cases.rs"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let readers: Vec<String> = tree
        .texts(&[".rs"])
        .filter(|(file, _)| file.path.starts_with("crates/") && file.path.contains("/src/"))
        .filter(|(file, _)| !file.path.starts_with(CONFIG) && !is_test(file))
        .map(|(_, text)| code(text))
        .collect();
    let mut findings = Vec::new();
    for (file, text) in tree.texts(&[".rs"]) {
        let Some(name) = file.path.strip_prefix(CONFIG) else { continue };
        if NOT_CONFIGURATION.contains(&name) {
            continue;
        }
        for Field { index, owner, name } in fields(text) {
            if !readers.iter().any(|reader| reads(reader, owner, name)) {
                let message = format!("nothing outside titan-config reads `{owner}::{name}`");
                findings.push(Finding::line(file, index, message));
            }
        }
    }
    findings
}

fn is_test(file: &File) -> bool {
    file.path.ends_with("/tests.rs")
}

/// The code of a file without its comments and unit tests.
fn code(text: &str) -> String {
    let (code, _tests) = text.split_once("#[cfg(test)]\nmod tests {").unwrap_or((text, ""));
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.map(|line| format!("{line}\n")).collect()
}

/// A public field of a public struct.
struct Field<'t> {
    index: usize,
    owner: &'t str,
    name: &'t str,
}

fn fields(text: &str) -> Vec<Field<'_>> {
    let mut owner = None;
    let mut fields = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("pub struct ") {
            owner = rest.strip_suffix(" {");
        } else if line == "}" {
            owner = None;
        } else if let (Some(owner), Some(rest)) = (owner, line.strip_prefix("pub ")) {
            let (name, kind) = rest.split_once(": ").unwrap_or((rest, ""));
            // Where the file says something changes nothing of what it says.
            if !kind.contains("Location") {
                fields.push(Field { index, owner, name });
            }
        }
    }
    fields
}

/// Whether `code` has `.name`, or takes `name` out of an `owner { .. }`.
fn reads(code: &str, owner: &str, name: &str) -> bool {
    let accessed = code.match_indices(&format!(".{name}")).any(|(at, found)| {
        let next = code[at + found.len()..].chars().next();
        !next.is_some_and(|next| next.is_alphanumeric() || next == '_' || next == '(')
    });
    accessed
        || code.split(&format!("{owner} {{")).skip(1).any(|rest| {
            let inside = rest.split('}').next().unwrap_or_default();
            inside.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: &str = "\
//! Limits.
section! {
    pub struct Limits {
        /// Doc.
        pub head: ByteSize = size(),
        pub place: Location,
    }
}
pub(crate) struct Draft {
    pub(crate) other: u8,
}
";
    const CONFIG: (&str, &str) = ("crates/titan-config/src/limits.rs", LIMITS);

    fn messages(reader: &str) -> Vec<String> {
        let tree = Tree::of(&[CONFIG, ("crates/titan-proxy/src/worker.rs", reader)]);
        check(&tree).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn an_unread_field_is_named_with_its_place() {
        let expected = [
            "crates/titan-config/src/limits.rs:5: nothing outside titan-config reads `Limits::head`",
        ];
        for reader in [
            "",
            "let x = limits.header;",
            "limits.head()",
            "// limits.head;",
            "let Other { head } = x;",
            "let Limits { body } = x; head(1);",
            "#[cfg(test)]\nmod tests { fn f() { limits.head; } }",
        ] {
            assert_eq!(messages(reader), expected, "{reader}");
        }
    }

    #[test]
    fn a_field_is_read_by_access_or_taken_out() {
        for reader in
            ["limits.head.bytes()", "let Limits { body,\n head: most } = limits;", "f(limits.head)"]
        {
            assert_eq!(messages(reader), [""; 0], "{reader}");
        }
    }

    #[test]
    fn only_other_crates_count() {
        let tree = Tree::of(&[CONFIG, ("crates/titan-config/src/read.rs", "limits.head;")]);
        assert_eq!(check(&tree).len(), 1);
    }
}
