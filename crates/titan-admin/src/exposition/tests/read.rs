//! Reads a page as whoever scrapes it does, and panics at whatever the formats do not allow.

use std::collections::{BTreeMap, HashSet};

/// A family as it was read.
pub(super) struct Given {
    pub(super) kind: String,
    /// By name and labels as written.
    pub(super) samples: BTreeMap<String, f64>,
}

/// Reads an exposition. Panics at whatever the format does not allow, and at what it allows and nobody
/// wants: families without help, series that stand twice.
pub(super) fn parse(text: &str) -> BTreeMap<String, Given> {
    assert!(text.ends_with('\n'));
    let mut families: BTreeMap<String, Given> = BTreeMap::new();
    let mut helped = HashSet::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(is_name(name) && !help.is_empty() && helped.insert(name.to_owned()), "{line}");
            assert_eq!(name, current, "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(name.starts_with("titan_"), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            let family = Given { kind: kind.to_owned(), samples: BTreeMap::new() };
            assert!(families.insert(name.to_owned(), family).is_none(), "twice: {line}");
            current = name.to_owned();
        } else {
            assert!(helped.contains(&current), "no help before {line}");
            let family = families.get_mut(&current).unwrap();
            let (series, value) = line.rsplit_once(' ').unwrap();
            check_series(series, &current, &family.kind);
            let value: f64 = value.parse().unwrap();
            assert!(value >= 0.0, "{line}");
            assert!(family.samples.insert(series.to_owned(), value).is_none(), "twice: {line}");
        }
    }
    for (name, family) in families.iter().filter(|(_, family)| family.kind == "histogram") {
        check_histogram(name, family, text);
    }
    families
}

/// Reads a page of OpenMetrics: checks what differs there, and reads the rest as the other format.
pub(super) fn parse_open(page: &str) -> BTreeMap<String, Given> {
    let body = page.strip_suffix("# EOF\n").unwrap();
    assert!(!body.contains("# EOF"));
    let mut text = String::new();
    let mut end = "";
    for line in body.lines() {
        let mut words = line.split(' ');
        let (start, name) = (words.next().unwrap(), words.nth(1).unwrap_or_default());
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            end = match rest.rsplit_once(' ').unwrap().1 {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            let (name, unit) = rest.split_once(' ').unwrap();
            assert!(name.ends_with(&format!("_{unit}")), "{line}");
            continue;
        }
        let line = match start {
            "#" => line.replacen(name, &format!("{name}{end}"), 1).replace(" info", " gauge"),
            _ => line.to_owned(),
        };
        text.extend([line.as_str(), "\n"]);
    }
    parse(&text)
}

fn check_series(series: &str, family: &str, kind: &str) {
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let suffixes: &[&str] =
        if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
    let suffix = name.strip_prefix(family).unwrap();
    assert!(is_name(name) && suffixes.contains(&suffix), "{series}");
    let mut labels = labels.strip_suffix('}').unwrap();
    let mut names = HashSet::new();
    while !labels.is_empty() {
        let (label, rest) = labels.split_once("=\"").unwrap();
        assert!(is_name(label) && !label.contains(':') && names.insert(label), "{series}");
        labels = after_value(rest).unwrap_or_else(|| panic!("{series}"));
        labels = labels.strip_prefix(',').unwrap_or(labels);
    }
}

/// What follows a label value and its closing quote.
fn after_value(text: &str) -> Option<&str> {
    let mut chars = text.char_indices();
    loop {
        match chars.next()? {
            (at, '"') => return Some(&text[at + 1..]),
            (_, '\\') => {
                chars.next().filter(|(_, c)| matches!(c, '\\' | '"' | 'n'))?;
            }
            _ => {}
        }
    }
}

fn is_name(text: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    text.starts_with(is_start) && text.chars().all(|c| is_start(c) || c.is_ascii_digit())
}

/// Buckets grow with their bounds, the last one is `+Inf`, and it is the count.
fn check_histogram(name: &str, family: &Given, text: &str) {
    let mut last: Option<(f64, f64)> = None;
    for line in text.lines().filter(|line| line.starts_with(&format!("{name}_bucket{{"))) {
        let (series, count) = line.rsplit_once(' ').unwrap();
        let (start, bound) = series.split_once("le=\"").unwrap();
        let bound: f64 = bound.strip_suffix("\"}").unwrap().parse().unwrap();
        let count: f64 = count.parse().unwrap();
        assert!(last.is_none_or(|(before, less)| bound > before && count >= less), "{line}");
        last = (bound != f64::INFINITY).then_some((bound, count));
        if bound == f64::INFINITY {
            let labels = start.split_once('{').unwrap().1.trim_end_matches(',');
            let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
            assert_eq!(family.samples[&format!("{name}_count{labels}")], count, "{line}");
            assert!(family.samples.contains_key(&format!("{name}_sum{labels}")), "{line}");
        }
    }
    assert!(last.is_none(), "the last bucket is not +Inf");
}
