//! Metrics as a gateway writes them: the Prometheus text format, version 0.0.4. Pure.

use std::fmt;

/// One sample, as a line has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample<'t> {
    /// With the ending of a histogram's part: `_bucket`, `_sum`, `_count`.
    pub(super) name: &'t str,
    /// Names and values in the order of the line.
    pub(super) labels: Vec<(&'t str, String)>,
    pub(super) value: f64,
}

/// A line that is none of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadLine {
    /// Counted from 1.
    pub(super) line: usize,
}

/// Labels of one sample.
const MAX_LABELS: usize = 32;

impl Sample<'_> {
    /// The value of a label.
    pub(super) fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| *label == name).map(|(_, value)| value.as_str())
    }
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of its metrics is none of the text format", self.line)
    }
}

/// The samples of a text, in its order. Comments say nothing that is needed: names tell what a sample is.
pub(super) fn parse(text: &str) -> impl Iterator<Item = Result<Sample<'_>, BadLine>> {
    let lines = text.split('\n').enumerate();
    let lines = lines.map(|(index, line)| (index, line.trim_matches(is_blank)));
    let samples = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    samples.map(|(index, line)| sample(line).ok_or(BadLine { line: index + 1 }))
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(|c| c == '{' || is_blank(c))?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.trim_start_matches(is_blank).strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let mut words = rest.split(is_blank).filter(|word| !word.is_empty());
    let value = number(words.next()?)?;
    // When it was taken: milliseconds, which nobody needs here.
    let is_at_end = words.next().is_none_or(|word| word.parse::<i64>().is_ok());
    (is_name(name) && is_at_end && words.next().is_none()).then_some(Sample { name, labels, value })
}

/// The labels behind a brace, and what follows the other one.
fn labels(mut rest: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches(is_blank);
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, behind) = rest.split_once('=')?;
        let name = name.trim_end_matches(is_blank);
        let (value, behind) = quoted(behind.trim_start_matches(is_blank).strip_prefix('"')?)?;
        if !is_name(name) || labels.len() == MAX_LABELS {
            return None;
        }
        labels.push((name, value));
        rest = behind.trim_start_matches(is_blank);
        rest = match rest.strip_prefix(',') {
            Some(next) => next,
            None if rest.starts_with('}') => rest,
            None => return None,
        };
    }
}

/// The text up to a quotation mark, and what follows that.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    loop {
        match chars.next()? {
            (at, '"') => return Some((value, &text[at + 1..])),
            (_, '\\') => match chars.next()?.1 {
                'n' => value.push('\n'),
                c @ ('\\' | '"') => value.push(c),
                _ => return None,
            },
            (_, c) => value.push(c),
        }
    }
}

fn number(word: &str) -> Option<f64> {
    match word {
        "+Inf" | "Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        "NaN" => Some(f64::NAN),
        // What Rust knows besides, the format does not: `infinity`, `nan`.
        _ if word.contains(['i', 'n', 'I', 'N']) => None,
        _ => word.parse().ok(),
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r')
}

fn is_name(text: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    text.starts_with(is_start) && text.chars().all(|c| is_start(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(line: &str) -> Option<Sample<'_>> {
        parse(line).next().and_then(Result::ok)
    }

    #[test]
    fn a_line_is_a_sample() {
        for (line, name, labels, value) in [
            ("a 1", "a", &[][..], 1.0),
            ("a{} 1.5e3", "a", &[], 1500.0),
            ("a:b_c\t+Inf 1395066363000", "a:b_c", &[], f64::INFINITY),
            ("a { b = \"c\" , } -1", "a", &[("b", "c")], -1.0),
            (r#"a{b="c\\d\"e\nf}",g=""} 0"#, "a", &[("b", "c\\d\"e\nf}"), ("g", "")], 0.0),
            ("a{b=\"\u{1b}[2J \u{202e}\"} 2\r", "a", &[("b", "\u{1b}[2J \u{202e}")], 2.0),
        ] {
            let sample = one(line).unwrap_or_else(|| panic!("{line}"));
            let found: Vec<_> = sample.labels.iter().map(|(a, b)| (*a, b.as_str())).collect();
            assert_eq!((sample.name, &found[..], sample.value), (name, labels, value), "{line}");
        }
        assert!(one("a NaN").unwrap().value.is_nan());
        assert_eq!(one("a{b=\"c\"} 1").unwrap().label("b"), Some("c"));
    }

    #[test]
    fn what_is_no_sample_is_told_with_its_line() {
        for line in [
            "a",
            "1a 1",
            "a nan",
            "a infinity",
            "a x",
            "a 1 x",
            "a 1 2 3",
            "a{b} 1",
            "a{b=c} 1",
            "a{b=\"c} 1",
            "a{b=\"c\" d=\"e\"} 1",
            "a{b=\"\\x\"} 1",
            "a{1=\"b\"} 1",
            "a{b=\"c\"",
            "<html>",
        ] {
            let text = format!("# HELP a b\n\nok 1\n{line}\n");
            let found: Vec<_> = parse(&text).collect();
            assert!(found[0].is_ok());
            assert_eq!(found[1], Err(BadLine { line: 4 }), "{line}");
        }
        let many = |count: usize| format!("a{{{}}} 1", "b=\"\",".repeat(count));
        assert!(one(&many(MAX_LABELS)).is_some() && one(&many(MAX_LABELS + 1)).is_none());
    }

    /// As a gateway writes it.
    fn written(name: &str, labels: &[(String, String)], value: f64) -> String {
        let escaped =
            |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        format!("{name}{{{}}} {value}\n", labels.join(","))
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            name in "[a-zA-Z_:][a-zA-Z0-9_:]{0,20}",
            labels in prop::collection::vec(("[a-z_][a-z0-9_]{0,8}", any::<String>()), 0..5),
            value in -1e300..1e300,
        ) {
            // The reader splits at line feeds alone, and a value keeps every other character.
            let text = written(&name, &labels, value);
            let found: Vec<_> = parse(&text).collect();
            prop_assert_eq!(found.len(), 1);
            let sample = found[0].clone().unwrap();
            let read: Vec<_> =
                sample.labels.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            prop_assert_eq!((sample.name, read, sample.value), (name.as_str(), labels, value));
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>(), line in "[a-z{}=\",\\\\ #0-9\n]{0,60}") {
            prop_assert!(parse(&text).count() <= text.len());
            prop_assert!(parse(&line).count() <= line.len());
        }
    }
}
