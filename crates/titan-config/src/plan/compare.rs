//! What differs between two values, field by field, and whether what is new is weaker.

use super::marks::{Mark, is_ordered, mark};
use super::{Difference, strength};
use crate::resolved::{Field, Key, Origin, Section, Value};
use std::collections::HashMap;

/// What differs between two sections of the same name. `path` leads to them.
pub(super) fn compare_sections(
    path: &str,
    old: &Section,
    new: &Section,
    found: &mut Vec<Difference>,
) {
    for field in &old.fields {
        match new.field(field.key) {
            Some(_) if (old.name, field.key) == ("rate_limit", "plans") => {
                compare_plans(&join(path, field.key), old, new, found);
            }
            Some(other) => compare_fields(path, old.name, (field, other), found),
            None => one_sided(path, old.name, (Some(field), None), found),
        }
    }
    for field in new.fields.iter().filter(|field| old.field(field.key).is_none()) {
        one_sided(path, new.name, (None, Some(field)), found);
    }
}

/// What of it is weaker.
pub(super) fn weaker_between(path: &str, old: &Section, new: &Section) -> Vec<Difference> {
    let mut found = Vec::new();
    compare_sections(path, old, new, &mut found);
    found.retain(|difference| difference.is_weaker);
    found
}

/// The plans of two rate limits: one that only one side has has the limit's own rates on the other.
fn compare_plans(path: &str, old: &Section, new: &Section, found: &mut Vec<Difference>) {
    let none = Value::Absent("");
    let sides = [old, new].map(|limit| {
        let plans = limit.value("plans").and_then(Value::as_section);
        let rates = plans.and_then(|plans| plans.value("rates"));
        let named = if let Some(Value::Map(named)) = rates { named.as_slice() } else { &[] };
        (plans.and_then(|plans| plans.value("claim")), named, limit.value("rates").unwrap_or(&none))
    });
    let [(old_claim, old_plans, old_rates), (new_claim, new_plans, new_rates)] = sides;
    if old_claim != new_claim {
        let at = Place { path: join(path, "claim"), mark: mark("rate_plans", "claim") };
        let has_both = old_claim.is_some() && new_claim.is_some();
        let differs = at.differs(old_claim.unwrap_or(&none), new_claim.unwrap_or(&none));
        found.push(Difference { is_weaker: has_both && differs.is_weaker, ..differs });
    }
    let plan = |plans: &'_ [(Key, Value)], name: &Key| {
        plans.iter().find(|(other, _)| other == name).map(|(_, rates)| rates.clone())
    };
    let added = new_plans.iter().filter(|(name, _)| plan(old_plans, name).is_none());
    for (name, _) in old_plans.iter().chain(added) {
        let (was, is) = (plan(old_plans, name), plan(new_plans, name));
        if was == is {
            continue;
        }
        let path = join(&join(path, "rates"), &name.text);
        let at = Place { path, mark: mark("rate_plans", "rates") };
        let shown = at.differs(was.as_ref().unwrap_or(&none), is.as_ref().unwrap_or(&none));
        let (was, is) = (was.as_ref().unwrap_or(old_rates), is.as_ref().unwrap_or(new_rates));
        found.push(Difference { is_weaker: strength::is_weaker(at.mark, was, is), ..shown });
    }
}

fn compare_fields(
    path: &str,
    section: &'static str,
    (old, new): (&Field, &Field),
    found: &mut Vec<Difference>,
) {
    // What both take from elsewhere differs there.
    let is_told_elsewhere = [old, new].iter().all(|field| field.origin == Origin::Elsewhere);
    let mark = mark(section, old.key);
    if is_told_elsewhere || mark == Mark::Joined || (section, old.key) == ("route", "without") {
        return;
    }
    let at = Place { path: join(path, old.key), mark };
    at.compare(&old.value, &new.value, is_ordered(section, old.key), found);
}

/// A field that only one side has, as the keys of another action of a route.
fn one_sided(
    path: &str,
    section: &'static str,
    (old, new): (Option<&Field>, Option<&Field>),
    found: &mut Vec<Difference>,
) {
    let is_given = |field: &&Field| field.origin == Origin::Given;
    if old.into_iter().chain(new).any(|field| is_given(&field))
        && let Some(field) = old.or(new)
    {
        let none = Value::Absent("");
        let at = Place { path: join(path, field.key), mark: mark(section, field.key) };
        let value = |field: Option<&Field>| field.map_or(none.clone(), |field| field.value.clone());
        found.push(at.differs(&value(old), &value(new)));
    }
}

/// Where a value stands, and what its changes mean.
struct Place {
    path: String,
    mark: Mark,
}

impl Place {
    fn compare(&self, old: &Value, new: &Value, is_ordered: bool, found: &mut Vec<Difference>) {
        if old == new {
            return;
        }
        match (old, new) {
            (Value::Section(old), Value::Section(new))
                if self.mark != Mark::Rates && is_same_kind(old, new) =>
            {
                compare_sections(&self.path, old, new, found);
            }
            (Value::Map(old), Value::Map(new)) => self.compare_maps(old, new, found),
            (Value::List(old), Value::List(new)) if self.mark != Mark::Rates => {
                self.compare_lists(old, new, is_ordered, found);
            }
            (old, new) => found.push(self.differs(old, new)),
        }
    }

    fn compare_maps(
        &self,
        old: &[(Key, Value)],
        new: &[(Key, Value)],
        found: &mut Vec<Difference>,
    ) {
        let none = Value::Absent("");
        let by_key = |map: &'_ [(Key, Value)]| -> HashMap<String, usize> {
            map.iter().enumerate().map(|(at, (key, _))| (key.folded(), at)).collect()
        };
        let (before, after) = (by_key(old), by_key(new));
        let added = new.iter().filter(|(key, _)| !before.contains_key(&key.folded()));
        for (key, _) in old.iter().chain(added) {
            let find = |map: &[(Key, Value)], places: &HashMap<String, usize>| {
                places.get(&key.folded()).map_or(none.clone(), |at| map[*at].1.clone())
            };
            let mark = self.mark.of_entry(&key.text);
            let at = Place { path: join(&self.path, &key.text), mark };
            at.compare(&find(old, &before), &find(new, &after), false, found);
        }
    }

    fn compare_lists(
        &self,
        old: &[Value],
        new: &[Value],
        is_ordered: bool,
        found: &mut Vec<Difference>,
    ) {
        let mut removed: Vec<&Value> = old.iter().filter(|item| !new.contains(item)).collect();
        let mut added: Vec<&Value> = new.iter().filter(|item| !old.contains(item)).collect();
        if is_ordered && removed.is_empty() && added.is_empty() {
            let whole = |items: &[Value]| Some(Value::List(items.to_vec()).inline());
            found.push(Difference {
                field: self.path.clone(),
                old: whole(old),
                new: whole(new),
                is_weaker: matches!(self.mark, Mark::Other | Mark::Rules),
            });
            return;
        }
        for (before, after) in pairs(&mut removed, &mut added) {
            let name = identity(before).or_else(|| identity(after)).unwrap_or_default();
            compare_sections(&format!("{}[{name}]", self.path), before, after, found);
        }
        let item = |old: Option<&Value>, new: Option<&Value>, is_weaker| Difference {
            field: self.path.clone(),
            old: old.map(Value::inline),
            new: new.map(Value::inline),
            is_weaker,
        };
        let removed = removed.into_iter().map(|value| {
            item(Some(value), None, strength::is_weaker_without(self.mark, value, new))
        });
        let added = added
            .into_iter()
            .map(|value| item(None, Some(value), self.is_weaker_with(value, old, new)));
        found.extend(removed.chain(added));
    }

    fn is_weaker_with(&self, item: &Value, old: &[Value], new: &[Value]) -> bool {
        match self.mark {
            Mark::Rules => {
                !new.starts_with(old) || item.as_section().is_none_or(is_weaker_than_none)
            }
            mark => strength::is_weaker_with(mark, item, old),
        }
    }

    fn differs(&self, old: &Value, new: &Value) -> Difference {
        let shown = |value: &Value| (!matches!(value, Value::Absent(_))).then(|| value.inline());
        let new_one = |_: String| "(another one)".to_owned();
        let is_secret = matches!((old, new), (Value::Secret(_), Value::Secret(_)));
        Difference {
            field: self.path.clone(),
            old: shown(old),
            new: if is_secret { shown(new).map(new_one) } else { shown(new) },
            is_weaker: strength::is_weaker(self.mark, old, new) || self.begins_weaker(old, new),
        }
    }

    /// Whether a section that there was none of is weaker than one that leaves everything to defaults.
    fn begins_weaker(&self, old: &Value, new: &Value) -> bool {
        let (Mark::Inside, true, Value::Section(new)) = (self.mark, old.is_absent(), new) else {
            return false;
        };
        is_weaker_than_none(new)
    }
}

/// Whether a section is weaker than one that gives nothing.
fn is_weaker_than_none(section: &Section) -> bool {
    let Some(defaults) = Section::of_defaults(section.name) else { return true };
    // Without it there is nothing that it could be about.
    let is_scope = |it: &Difference| mark(section.name, &it.field) == Mark::AllOf;
    weaker_between("", &defaults, section).iter().any(|it| !is_scope(it))
}

/// Whether the fields inside can be compared: of those of which one is taken, both have the same.
fn is_same_kind(old: &Section, new: &Section) -> bool {
    let is_choice = |section: &Section| section.fields.len() == 1;
    let key = |section: &Section| section.fields.first().map(|field| field.key);
    old.name == new.name && (!is_choice(old) || !is_choice(new) || key(old) == key(new))
}

/// Takes out the sections that are the same thing before and after: by what names them, or because there is no other.
fn pairs<'v>(
    removed: &mut Vec<&'v Value>,
    added: &mut Vec<&'v Value>,
) -> Vec<(&'v Section, &'v Section)> {
    let mut pairs = Vec::new();
    removed.retain(|value| {
        let Some(before) = value.as_section() else { return true };
        let is_same =
            |other: &Section| identity(before).is_some() && identity(before) == identity(other);
        let found = added.iter().position(|it| it.as_section().is_some_and(is_same));
        let Some(after) = found.and_then(|at| added.remove(at).as_section()) else { return true };
        pairs.push((before, after));
        false
    });
    if let ([before], [after]) = (removed.as_slice(), added.as_slice())
        && let (Some(before), Some(after)) = (before.as_section(), after.as_section())
        && is_same_kind(before, after)
        && before.name != "endpoint"
    {
        pairs.push((before, after));
        removed.clear();
        added.clear();
    }
    pairs
}

/// What names a section of a list.
pub(super) fn identity(section: &Section) -> Option<String> {
    let key = match section.name {
        "listener" if section.value("name").is_some_and(|it| !it.is_absent()) => "name",
        "listener" | "endpoint" => "address",
        "route" => "name",
        "certificate" => "cert",
        "access_log" => return log_target(section),
        "jwt_provider" => "issuer",
        _ => return None,
    };
    match section.value(key) {
        None | Some(Value::Absent(_)) => None,
        Some(value) => Some(value.label()),
    }
}

/// Where an access log goes.
fn log_target(section: &Section) -> Option<String> {
    let key_of = |key| match key {
        "file" => Some("path"),
        "syslog" => Some("address"),
        _ => None,
    };
    let given = section.fields.iter().find(|field| {
        matches!(field.key, "stdout" | "file" | "syslog" | "otlp") && !field.value.is_absent()
    })?;
    let inner = given.value.as_section().and_then(|inner| inner.value(key_of(given.key)?));
    Some(inner.map_or_else(|| given.key.to_owned(), Value::label))
}

fn join(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    }
}
