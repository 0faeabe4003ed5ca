//! Writing JSON: as much of it as the schema needs.

/// A value of JSON.
#[derive(Clone, Debug)]
pub(crate) enum Json {
    Bool(bool),
    Number(i64),
    Text(String),
    List(Vec<Json>),
    /// In the order in which the members are written.
    Object(Vec<(String, Json)>),
}

impl Json {
    pub(crate) fn text(text: impl Into<String>) -> Json {
        Json::Text(text.into())
    }

    pub(crate) fn size(number: usize) -> Json {
        Json::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }

    pub(crate) fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
        Json::Object(members.map(|(name, value)| (name.to_owned(), value)).into())
    }

    /// The value over several lines, indented.
    pub(crate) fn pretty(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, 0);
        out.push('\n');
        out
    }

    fn write(&self, out: &mut String, depth: usize) {
        match self {
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(number) => out.push_str(&number.to_string()),
            Json::Text(text) => write_text(out, text),
            Json::List(items) => write_block(out, ('[', ']'), depth, items, |out, item| {
                item.write(out, depth + 1);
            }),
            Json::Object(members) => {
                write_block(out, ('{', '}'), depth, members, |out, (name, value)| {
                    write_text(out, name);
                    out.push_str(": ");
                    value.write(out, depth + 1);
                });
            }
        }
    }
}

fn write_block<T>(
    out: &mut String,
    (open, close): (char, char),
    depth: usize,
    parts: &[T],
    write: impl Fn(&mut String, &T),
) {
    out.push(open);
    for (index, part) in parts.iter().enumerate() {
        out.push_str(if index == 0 { "\n" } else { ",\n" });
        out.extend(std::iter::repeat_n("  ", depth + 1));
        write(out, part);
    }
    if !parts.is_empty() {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    }
    out.push(close);
}

fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}
