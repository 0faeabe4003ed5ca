//! The reference of the file as Markdown, generated from the sections.

use crate::access_log::LogField;
use crate::bounds::{
    MAX_DEPTH, MAX_FILE, MAX_FILES_TOTAL, MAX_INCLUDED, MAX_NODES, MAX_ROUTES_PER_PATH,
};
use crate::language::sections;
use crate::shape::{FieldInfo, Pick, Presence, SectionInfo, Shape, alternatives, one_or_list};
use std::fmt::Write;

/// The configuration reference: `docs/configuration.md`.
pub fn reference() -> String {
    let mut out = format!("{INTRODUCTION}{}", rules());
    for (index, section) in sections().iter().enumerate() {
        let title = if index == 0 { "The file" } else { section.what };
        write_section(&mut out, title, section).expect("a String takes everything");
    }
    out
}

const INTRODUCTION: &str = r#"# Configuration

<!-- Generated from the fields in crates/titan-config: change their docs, then run
     `UPDATE=1 cargo test -p titan-config reference`. -->

One file in YAML, or in JSON, which is YAML, and those that it includes. The commonest gateway:

```yaml
listeners: [":8080"]
routes:
  - prefix: /api
    upstream: api
upstreams:
  api: ["10.0.0.1:8080", "10.0.0.2:8080"]
```

`titan check FILE` shows all errors of a file at once, unless one hides another. `titan schema` prints its JSON Schema,
for completion in editors. `titan explain METHOD URL` shows which route a request takes, and why.

## How the file is read

- Unknown keys and duplicate keys are errors.
- The field decides the type of a value, not its looks: in a string field, `yes`, `1.10` and `0x10` are strings, with
  or without quotes. Only an empty value, `~` and `null` are not strings unless they are quoted.
- Numbers and `true` or `false` have no quotes.
- A list of one item needs no brackets: `methods: GET` is `methods: [GET]`.
- A duration is a whole number with a unit: `ms`, `s`, `m`, `h`, `d`. `10` alone is an error.
- A size is a whole number of bytes, or with a unit: `B`, `KiB`, `MiB`, `GiB`, `TiB`, or decimal `KB`, `MB`, `GB`, `TB`.
- Strings that start with `*`, `{`, `[`, `&`, `!`, `@`, `%` or a backtick need quotes, because these have a meaning in
  YAML: `"*.example.com"`, `"{path}"`. So do strings with braces or brackets inside `{ }` and `[ ]`.
- One feature of JSON is missing: surrogate pairs (`\ud83d\ude00`). Write the characters themselves.
- Anchors (`&name`) and aliases (`*name`) work; merge keys (`<<`), tags (`!name`) and multiple documents do not.
- In values, `${NAME}` is a variable of the environment, `${NAME:-default}` the same with a default if it is not set or
  empty, and `${file:PATH}` the content of a file without the line break at its end; `$${` is `${` itself. See
  [composing a configuration](operations.md#composing-a-configuration).
"#;

/// The part of the introduction that quotes bounds.
fn rules() -> String {
    format!(
        r#"- A file has at most {} MiB and {MAX_DEPTH} levels; with the files that it includes, {MAX_INCLUDED} at most, it has {}
  MiB and {MAX_NODES} values, aliases expanded.

## Which route a request takes

The order of routes in the file does not matter. A request takes the most specific route that matches it:

1. by host: an exact host, then the longest matching wildcard, then routes without `host`;
2. then by path, segment by segment from the left: a literal, then `{{name}}`, then `{{*name}}`, then a `prefix`. So an
   exact path comes before a prefix, and a longer prefix before a shorter one;
3. then by `priority`, higher first;
4. then by the number of conditions in `headers`, `query`, `client_certificate` and `listeners`, more first;
5. then routes with `methods` before routes without.

If the methods or conditions of a route do not match, the request goes to the next one in this order.

Two routes that match the same request and that these rules do not order are an error, and so is a route that can never
be reached because of another one. Routes with the same host and path need no order if they exclude each other, by their
methods, their listeners, or different values of the same header or parameter. At most {MAX_ROUTES_PER_PATH} routes may
have the same host and path.
"#,
        MAX_FILE >> 20,
        MAX_FILES_TOTAL >> 20
    )
}

fn write_section(out: &mut String, title: &str, section: &SectionInfo) -> std::fmt::Result {
    let SectionInfo { name, what: _, doc, pick, fields } = section;
    writeln!(out, "\n<a id=\"{name}\"></a>\n## {}\n\n{}", heading(title), lines(doc))?;
    if *pick == Pick::One {
        writeln!(out, "\nExactly one of these keys.")?;
    }
    for FieldInfo { key, doc, presence, shape } in fields {
        let presence = match presence {
            Presence::Required => "; required".to_owned(),
            Presence::Default("{}") | Presence::Optional("") => String::new(),
            Presence::Default("[]") => "; default: none".to_owned(),
            Presence::Default(text) => format!("; default `{text}`"),
            Presence::Optional(otherwise) => format!("; default: {otherwise}"),
        };
        writeln!(out, "\n### `{key}`\n\n*{}{presence}*\n\n{}", kind(shape), lines(doc))?;
    }
    if *name == "access_log" { write_log_fields(out) } else { Ok(()) }
}

/// The fields that formats of access logs can name.
fn write_log_fields(out: &mut String) -> std::fmt::Result {
    writeln!(out, "\nThe fields, in JSON and in braces in a text:\n\n| field | |\n|---|---|")?;
    for field in LogField::ALL {
        writeln!(out, "| `{}` | {} |", field.name(), field.doc())?;
    }
    Ok(())
}

/// "an upstream" as a heading.
fn heading(what: &str) -> String {
    let words = ["a ", "an ", "the "].into_iter().find_map(|article| what.strip_prefix(article));
    let mut characters = words.unwrap_or(what).chars();
    characters.next().map_or_else(String::new, |c| c.to_uppercase().chain(characters).collect())
}

/// What stands there, with links to sections.
fn kind(shape: &Shape) -> String {
    match shape {
        Shape::List { item, max, .. } => format!("a list of at most {max}, each {}", kind(item)),
        Shape::Map { key, value, max, is_of_message: _ } => {
            format!("a mapping of at most {max} from {} to {}", key.what, kind(value))
        }
        Shape::Section(SectionInfo { name, what, .. }) => format!("[{what}](#{name})"),
        Shape::Short { key, section: SectionInfo { name, what, .. } } => {
            format!("[{what}](#{name}), or its `{key}` alone")
        }
        Shape::Either(shapes) => match one_or_list(shapes) {
            Some((item, max)) => format!("{}, or a list of at most {max}", kind(item)),
            None => alternatives(shapes.iter().map(kind).collect()),
        },
        other => other.describe(),
    }
}

/// Doc lines as they were wrapped, without the space that `///` leaves.
fn lines(doc: &[&str]) -> String {
    doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n")
}
