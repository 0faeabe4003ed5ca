//! The names that a file declares: known before anything else is read, so that whatever uses one can be checked.

use crate::node::{Entry, Kind, Node};
use std::collections::HashMap;

/// What a file declares by name.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) upstreams: Names,
    pub(crate) policies: Names,
    /// Each by its name, or else by its address as it is written.
    pub(crate) listeners: Names,
    /// Of OpenTelemetry.
    pub(crate) collectors: Names,
    /// Of Redis or Valkey.
    pub(crate) stores: Names,
    /// The key below each name of a policy: its type, if it is one.
    policy_types: HashMap<String, String>,
}

impl Declared {
    pub(crate) fn in_file(root: &Node) -> Declared {
        let policies = root.entry("policies").map_or(&[][..], |entry| entry.value.entries());
        let typed = policies.iter().filter_map(|policy| {
            let [section] = policy.value.entries() else { return None };
            Some((policy.key.clone(), section.key.clone()))
        });
        Declared {
            policy_types: typed.collect(),
            upstreams: Names::under("upstreams", root),
            policies: Names::under("policies", root),
            listeners: Names::new(listeners(root)),
            collectors: Names::under("otlp", root),
            stores: Names::under("stores", root),
        }
    }

    pub(crate) fn type_of_policy(&self, name: &str) -> Option<&str> {
        self.policy_types.get(name).map(String::as_str)
    }

    /// The names of the policies of a type, in the order of the file.
    pub(crate) fn policies_of(&self, kind: &str) -> impl Iterator<Item = &str> {
        self.policies.iter().filter(move |name| self.type_of_policy(name) == Some(kind))
    }
}

/// The names under one key of the file, and which of them something uses.
#[derive(Debug)]
pub(crate) struct Names {
    names: Vec<String>,
    places: HashMap<String, usize>,
    used: Vec<bool>,
}

impl Names {
    fn under(key: &str, root: &Node) -> Names {
        let entries = root.entry(key).map_or(&[][..], |entry| entry.value.entries());
        Names::new(entries.iter().map(|entry| entry.key.clone()).collect())
    }

    fn new(names: Vec<String>) -> Names {
        let places = names.iter().enumerate().map(|(place, name)| (name.clone(), place)).collect();
        Names { used: vec![false; names.len()], names, places }
    }

    /// In the order of the file.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// The place of that name in the file; it is used from now on.
    pub(crate) fn use_name(&mut self, name: &str) -> Option<usize> {
        let place = self.places.get(name).copied()?;
        self.used[place] = true;
        Some(place)
    }

    pub(crate) fn is_used(&self, name: &str) -> bool {
        self.places.get(name).is_some_and(|place| self.used[*place])
    }
}

/// What each listener is called.
fn listeners(root: &Node) -> Vec<String> {
    let Some(Entry { value, .. }) = root.entry("listeners") else { return Vec::new() };
    let called = |listener: &Node| {
        let own = ["name", "address"].iter().find_map(|key| listener.entry(key));
        own.map_or(listener, |entry| &entry.value).as_text().unwrap_or_default().to_owned()
    };
    match &value.kind {
        Kind::List(listeners) => listeners.iter().map(called).collect(),
        _ => vec![called(value)],
    }
}
