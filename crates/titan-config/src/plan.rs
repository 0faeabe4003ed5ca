//! What changes between two configurations, in meaning and not in text, and what of it is weaker.
//!
//! | what | module |
//! |---|---|
//! | in which direction each field is weaker | `marks` |
//! | which of two values is the weaker one | `strength` |
//! | what differs between two values | `compare` |
//! | which requests get to other routes | `requests` |
//! | what routes match, and in which order they are tried | `regions`, `table` |
//! | how much is compared | `effort` |
//! | what guards a route's requests | `guards` |
//! | which listener is which | `listeners` |
//! | the plan as text | `show` |

mod compare;
mod effort;
mod guards;
mod listeners;
mod marks;
mod regions;
mod requests;
mod show;
mod strength;
mod table;

use crate::gateway::Config;
use crate::resolved::{Field, Resolved, Section, Value};
use compare::{compare_sections, identity};
use effort::Effort;
use guards::{Guards, opened_fields};
use listeners::Listeners;
use requests::{Moved, Requests};
use std::collections::{HashMap, HashSet};

/// What changes between two configurations. `Display` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The parts that are not the same, in the order of the sections of a file.
    pub changes: Vec<Change>,
    /// Requests that another route takes than before.
    pub moves: Vec<Move>,
    /// Routes that get no requests any more, by name.
    pub unreached: Vec<String>,
    /// What guards less than before.
    pub weaker: Vec<Weaker>,
}

/// A part of the configuration that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which part.
    pub part: Part,
    /// What happens to it.
    pub kind: ChangeKind,
    /// What differs inside; nothing for parts that come or go.
    pub differences: Vec<Difference>,
}

/// A part of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The key of the file: `listeners`, `routes`, `upstreams`, `policies`, or of a section that there is once.
    pub key: &'static str,
    /// Its name; none for a section that there is once.
    pub name: Option<String>,
}

/// What happens to a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// Something in it differs.
    Changed,
}

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The keys that lead to it from the part.
    pub field: String,
    /// Its old value in one line, or what is gone from its list; none where there was none.
    pub old: Option<String>,
    /// Its new value, or what has come to its list; none where there is none any more.
    pub new: Option<String>,
    /// Whether the new value is, or may be, weaker.
    pub is_weaker: bool,
}

/// Requests that another route takes than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// What they look like.
    pub requests: String,
    /// The route that took them.
    pub from: String,
    /// The route that takes them now.
    pub to: String,
}

/// Something that guards less than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weaker {
    /// The part concerned.
    pub part: Part,
    /// What is weaker, in words.
    pub what: String,
    /// What the requests look like that this is about, for those of a route.
    pub requests: Option<String>,
}

impl Plan {
    /// What changes from `old` to `new`.
    pub fn new(old: &Resolved, new: &Resolved) -> Plan {
        Plan::while_wanted(old, new, &|| true).expect("it is wanted to the end")
    }

    /// The same, or nothing where that is not wanted any more before it is found.
    pub fn while_wanted(
        old: &Resolved,
        new: &Resolved,
        is_wanted: &dyn Fn() -> bool,
    ) -> Option<Plan> {
        let listeners = Listeners::pair(old.file.list("listeners"), new.file.list("listeners"));
        let changes = changes(old, new, &listeners);
        let effort = Effort::new(is_wanted);
        let Requests { moved, unreached, is_complete } =
            requests::compare(&old.config, &new.config, &effort)?;
        let mut weaker = weaker_fields(&changes, new);
        weaker.extend(listeners.new_ways_in());
        weaker.extend(opened_fields(&old.config, &new.config));
        weaker.extend((!is_complete).then(too_many));
        let mut guards = Guards::new(old, new);
        for moved in &moved {
            weaker.extend(guards.less(moved));
            is_wanted().then_some(())?;
        }
        let name = |config: &Config, route: usize| config.routes[route].name.to_string();
        let moves = moved.into_iter().filter_map(|Moved { requests, from, to }| {
            let (from, to) = (name(&old.config, from?), name(&new.config, to?));
            (from != to).then_some(Move { requests, from, to })
        });
        let mut plan = Plan { changes, moves: moves.collect(), unreached, weaker };
        plan.hide(|text| new.config.mask(old.config.mask(text)));
        Some(plan)
    }

    /// Hides what was taken from files for values.
    fn hide(&mut self, mask: impl Fn(String) -> String) {
        let Plan { changes, moves: _, unreached: _, weaker } = self;
        let hide = |text: &mut String| *text = mask(std::mem::take(text));
        for Difference { field: _, old, new, is_weaker: _ } in
            changes.iter_mut().flat_map(|change| &mut change.differences)
        {
            old.iter_mut().chain(new).for_each(hide);
        }
        weaker.iter_mut().for_each(|it| hide(&mut it.what));
    }

    /// Whether the two configurations mean the same.
    pub fn is_empty(&self) -> bool {
        let Plan { changes, moves, unreached, weaker } = self;
        changes.is_empty() && moves.is_empty() && unreached.is_empty() && weaker.is_empty()
    }
}

/// The parts that are not the same.
fn changes(old: &Resolved, new: &Resolved, listeners: &Listeners<'_>) -> Vec<Change> {
    let mut changes = Vec::new();
    for Field { key, value, .. } in &old.file.fields {
        let Some(other) = new.file.value(key) else { continue };
        match *key {
            "listeners" => compare_listeners(listeners, &mut changes),
            "routes" => {
                compare_parts(key, &named_items(value), &named_items(other), &mut changes);
            }
            "upstreams" | "policies" | "stores" | "otlp" | "sources" => {
                compare_parts(key, &named_entries(value), &named_entries(other), &mut changes);
            }
            key => changes.extend(compare_one(key, &old.file, &new.file)),
        }
    }
    changes
}

/// What was not compared.
fn too_many() -> Weaker {
    Weaker {
        part: Part { key: "routes", name: None },
        what: "too many routes match the same requests to compare them all: counted as weaker"
            .to_owned(),
        requests: None,
    }
}

/// Parts by their names, in the order of the file.
type Parts<'v> = Vec<(String, &'v Section)>;

fn named_items(value: &Value) -> Parts<'_> {
    let Value::List(items) = value else { return Vec::new() };
    let sections = items.iter().filter_map(Value::as_section);
    sections.map(|section| (identity(section).unwrap_or_default(), section)).collect()
}

fn named_entries(value: &Value) -> Parts<'_> {
    let Value::Map(entries) = value else { return Vec::new() };
    let entries = entries.iter();
    entries.filter_map(|(key, value)| Some((key.text.clone(), value.as_section()?))).collect()
}

fn compare_parts(key: &'static str, old: &Parts<'_>, new: &Parts<'_>, changes: &mut Vec<Change>) {
    let after: HashMap<&str, &Section> =
        new.iter().map(|(name, it)| (name.as_str(), *it)).collect();
    let before: HashSet<&str> = old.iter().map(|(name, _)| name.as_str()).collect();
    for (name, section) in old {
        match after.get(name.as_str()) {
            Some(other) => changes.extend(changed(part(key, name), section, other)),
            None => changes.push(whole(ChangeKind::Removed, part(key, name))),
        }
    }
    let added = new.iter().filter(|(name, _)| !before.contains(name.as_str()));
    changes.extend(added.map(|(name, _)| whole(ChangeKind::Added, part(key, name))));
}

fn compare_listeners(Listeners { before, added }: &Listeners<'_>, changes: &mut Vec<Change>) {
    let part = |section| part("listeners", &identity(section).unwrap_or_default());
    for (section, now) in before {
        match now {
            Some(other) => changes.extend(changed(part(other), section, other)),
            None => changes.push(whole(ChangeKind::Removed, part(section))),
        }
    }
    changes.extend(added.iter().map(|section| whole(ChangeKind::Added, part(section))));
}

fn part(key: &'static str, name: &str) -> Part {
    Part { key, name: Some(name.to_owned()) }
}

/// A part that comes or goes.
fn whole(kind: ChangeKind, part: Part) -> Change {
    Change { part, kind, differences: Vec::new() }
}

fn changed(part: Part, old: &Section, new: &Section) -> Option<Change> {
    let mut differences = Vec::new();
    compare_sections("", old, new, &mut differences);
    (!differences.is_empty()).then_some(Change { part, kind: ChangeKind::Changed, differences })
}

/// Compares a field of the file itself.
fn compare_one(key: &'static str, old: &Section, new: &Section) -> Option<Change> {
    let only = |file: &Section| Section {
        name: file.name,
        fields: file.field(key).cloned().into_iter().collect(),
    };
    changed(Part { key, name: None }, &only(old), &only(new))
}

/// The differences that make something weaker that is used.
fn weaker_fields(changes: &[Change], new: &Resolved) -> Vec<Weaker> {
    let config = &new.config;
    let used = config.routes.iter().flat_map(|route| config.policies_of(&route.policies));
    let used: HashSet<&str> = used.map(|policy| policy.name.as_str()).collect();
    let is_used = |part: &Part| {
        part.key != "policies" || part.name.as_deref().is_some_and(|name| used.contains(name))
    };
    let changes = changes.iter().filter(|change| is_used(&change.part));
    let weaker = changes.flat_map(|change| {
        let weaker = change.differences.iter().filter(|it| it.is_weaker);
        weaker.map(|it| Weaker { part: change.part.clone(), what: it.to_string(), requests: None })
    });
    weaker.collect()
}
