//! The plan as text.

use super::{Change, ChangeKind, Difference, Move, Part, Plan, Weaker};
use std::collections::HashMap;
use std::fmt;

/// Values that are longer are cut in lines for people.
const SHOWN: usize = 120;
/// Requests and names that are shown of many.
const MANY: usize = 20;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { changes, moves, unreached, weaker } = self;
        if self.is_empty() {
            return f.write_str("nothing changes\n");
        }
        changes.iter().try_for_each(|change| write!(f, "{change}"))?;
        if !moves.is_empty() {
            f.write_str("\nrequests that another route takes:\n")?;
        }
        moves.iter().take(MANY).try_for_each(|it| writeln!(f, "  {it}"))?;
        more(f, moves.len())?;
        for route in unreached {
            writeln!(f, "\nno request reaches the route {route}: others take them all")?;
        }
        if !weaker.is_empty() {
            f.write_str("\nweaker:\n")?;
        }
        grouped(weaker).iter().try_for_each(|group| writeln!(f, "  {group}"))?;
        let count = |kind| changes.iter().filter(|change| change.kind == kind).count();
        let [added, removed, changed] =
            [ChangeKind::Added, ChangeKind::Removed, ChangeKind::Changed].map(count);
        writeln!(
            f,
            "\n{added} added, {removed} removed, {changed} changed; {} weaker",
            weaker.len()
        )
    }
}

fn more(f: &mut fmt::Formatter<'_>, count: usize) -> fmt::Result {
    match count.saturating_sub(MANY) {
        0 => Ok(()),
        more => writeln!(f, "  and {more} more"),
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Change { part, kind, differences } = self;
        if let Part { name: None, .. } = part {
            return differences.iter().try_for_each(|it| writeln!(f, "~ {it}{}", mark(it)));
        }
        let sign = match kind {
            ChangeKind::Added => '+',
            ChangeKind::Removed => '-',
            ChangeKind::Changed => '~',
        };
        writeln!(f, "{sign} {part}")?;
        differences.iter().try_for_each(|it| writeln!(f, "    {it}{}", mark(it)))
    }
}

fn mark(difference: &Difference) -> &'static str {
    if difference.is_weaker { "    (weaker)" } else { "" }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Part { key, name: Some(name) } = self else { return f.write_str("the file") };
        let one = match *key {
            "policies" => "policy",
            key => key.trim_end_matches('s'),
        };
        write!(f, "{one} {name}")
    }
}

/// Such as `limits.body: 1MiB -> 64MiB`; what comes to a list or goes from it has a sign.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { field, old, new, is_weaker: _ } = self;
        match (old, new) {
            (Some(old), Some(new)) => write!(f, "{field}: {} -> {}", cut(old), cut(new)),
            (Some(old), None) => write!(f, "{field}: - {}", cut(old)),
            (None, Some(new)) => write!(f, "{field}: + {}", cut(new)),
            (None, None) => write!(f, "{field}"),
        }
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Move { requests, from, to } = self;
        write!(f, "{requests}: {from} -> {to}")
    }
}

/// A line for each thing that is weaker; one that is so for many routes has one line.
fn grouped(weaker: &[Weaker]) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<&Weaker>)> = Vec::new();
    let mut of_routes: HashMap<&str, usize> = HashMap::new();
    for it in weaker {
        let is_of_route = it.part.key == "routes" && it.part.name.is_some();
        match of_routes.get(it.what.as_str()).filter(|_| is_of_route) {
            Some(group) => groups[*group].1.push(it),
            None => {
                is_of_route.then(|| of_routes.insert(&it.what, groups.len()));
                groups.push((&it.what, vec![it]));
            }
        }
    }
    groups.into_iter().map(|(what, group)| line(what, &group)).collect()
}

fn line(what: &str, group: &[&Weaker]) -> String {
    let requests = group[0].requests.as_ref();
    let requests = requests.map_or(String::new(), |it| format!(" ({it})"));
    match group {
        [only] if only.part.name.is_none() => format!("{what}{requests}"),
        [only] => format!("{}: {what}{requests}", only.part),
        group => {
            let names = group.iter().filter_map(|it| it.part.name.as_deref());
            let shown: Vec<_> = names.take(MANY).collect();
            let more = match group.len().saturating_sub(MANY) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("routes {}{more}: {what}{requests}", shown.join(", "))
        }
    }
}
