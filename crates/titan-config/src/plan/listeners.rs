//! Listeners before and after: which of them is which, and what is weaker on one that is new.

use super::compare::{identity, weaker_between};
use super::{Part, Weaker};
use crate::resolved::{Section, Value};

/// The listeners of two configurations.
pub(super) struct Listeners<'r> {
    /// Each listener before, and what it is now; none where it is gone.
    pub(super) before: Vec<(&'r Section, Option<&'r Section>)>,
    /// Those that are new.
    pub(super) added: Vec<&'r Section>,
}

impl<'r> Listeners<'r> {
    /// Pairs them by name, then by address, then those left by what is most alike: a new name hides nothing.
    pub(super) fn pair(old: &'r [Value], new: &'r [Value]) -> Listeners<'r> {
        let sections = |values: &'r [Value]| values.iter().filter_map(Value::as_section);
        let mut before: Vec<_> = sections(old).map(|section| (section, None)).collect();
        let mut added: Vec<_> = sections(new).collect();
        let address = |section: &Section| section.value("address").map(Value::label);
        let signs: [fn(&Section) -> Option<String>; 2] = [identity, address];
        for sign in signs {
            for (section, now) in before.iter_mut().filter(|(_, now)| now.is_none()) {
                let same = added.iter().position(|other| sign(other) == sign(section));
                *now = same.map(|at| added.remove(at));
            }
        }
        pair_most_alike(&mut before, &mut added);
        Listeners { before, added }
    }

    /// What lets more pass on a new listener than on any before.
    pub(super) fn new_ways_in(&self) -> Vec<Weaker> {
        let serves = |section: &&&Section| !redirects(section);
        self.added
            .iter()
            .filter(serves)
            .flat_map(|listener| self.weaker_than_all(listener))
            .collect()
    }

    fn weaker_than_all(&self, listener: &Section) -> Vec<Weaker> {
        let weaker =
            |(before, _): &(&'r Section, _)| (*before, weaker_between("", before, listener));
        let closest = self.before.iter().map(weaker).min_by_key(|(_, weaker)| weaker.len());
        let Some((before, differences)) = closest else { return Vec::new() };
        let name = identity(before).unwrap_or_default();
        let part = Part { key: "listeners", name: identity(listener) };
        let weaker = differences.into_iter().map(|difference| Weaker {
            part: part.clone(),
            what: format!("new, and weaker than all before, even `{name}`: {difference}"),
            requests: None,
        });
        weaker.collect()
    }
}

/// Those with the fewest differences belong together.
fn pair_most_alike<'r>(
    before: &mut [(&'r Section, Option<&'r Section>)],
    added: &mut Vec<&'r Section>,
) {
    let left = before.iter_mut().filter(|(_, now)| now.is_none());
    let mut left: Vec<_> = left.map(Some).collect();
    let mut rest: Vec<_> = added.drain(..).map(Some).collect();
    let mut pairs = Vec::new();
    for (old, section) in left.iter().enumerate() {
        for (new, other) in rest.iter().enumerate() {
            if let (Some((section, _)), Some(other)) = (section, other) {
                pairs.push((count_differences(section, other), old, new));
            }
        }
    }
    pairs.sort_unstable();
    for (_, old, new) in pairs {
        if left[old].is_some()
            && let Some(other) = rest[new].take()
            && let Some((_, now)) = left[old].take()
        {
            *now = Some(other);
        }
    }
    added.extend(rest.into_iter().flatten());
}

fn count_differences(old: &Section, new: &Section) -> usize {
    let differs = |key: &&str| old.value(key) != new.value(key);
    let keys = old.fields.iter().map(|field| field.key).filter(|key| *key != "name");
    keys.filter(|key| differs(key)).count()
}

/// Whether it serves nothing, and sends every request to HTTPS.
fn redirects(listener: &Section) -> bool {
    listener.value("redirect_to_https").is_some_and(|it| !it.is_absent())
}
