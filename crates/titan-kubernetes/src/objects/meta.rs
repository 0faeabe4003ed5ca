//! What all objects have.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// What tells an object from the others of its kind. Those of the whole cluster are in the namespace without a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace that it is in.
    pub namespace: String,
    /// Its name there.
    pub name: String,
}

impl Key {
    /// The object of this name in this namespace.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Key {
        Key { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// What the API server knows of every object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Meta {
    /// Empty for objects of the whole cluster.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Counts the changes of what is wanted.
    pub generation: i64,
    /// Changes with every change.
    pub resource_version: String,
    /// RFC 3339 in UTC, so that the order of texts is that of times.
    pub creation_timestamp: String,
    /// What selectors go by.
    pub labels: BTreeMap<String, String>,
}

impl Meta {
    /// What tells it from others of its kind.
    pub fn key(&self) -> Key {
        Key::new(&self.namespace, &self.name)
    }

    /// What decides between objects that want the same: the older one, then by name.
    pub fn precedence(&self) -> (&str, &str, &str) {
        (&self.creation_timestamp, &self.namespace, &self.name)
    }
}

/// An object with what is wanted of it, and what controllers say of it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(bound = "S: Deserialize<'de> + Default")]
pub struct Object<S> {
    /// What the API server knows of it.
    pub metadata: Meta,
    /// What is wanted.
    #[serde(default)]
    pub spec: S,
    /// What controllers say, as it is there now.
    #[serde(default)]
    pub status: Value,
}

/// Selects objects by their labels. Empty, it selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels with these values.
    pub match_labels: BTreeMap<String, String>,
    /// Conditions on labels.
    pub match_expressions: Vec<Requirement>,
}

/// A condition on one label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Requirement {
    /// Its name.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// The values for the first two.
    pub values: Vec<String>,
}

impl LabelSelector {
    /// Whether it selects an object with these labels. An operator that is not known selects nothing.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        let has_labels =
            self.match_labels.iter().all(|(name, value)| labels.get(name) == Some(value));
        has_labels && self.match_expressions.iter().all(|it| it.holds(labels))
    }
}

impl Requirement {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let is_listed = value.is_some_and(|value| self.values.contains(value));
        match self.operator.as_str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_select_by_all_that_they_say() {
        let labels = BTreeMap::from([("team".to_owned(), "shop".to_owned())]);
        let selects =
            |text: &str| serde_json::from_str::<LabelSelector>(text).unwrap().selects(&labels);
        assert!(selects("{}"));
        assert!(selects(r#"{"matchLabels": {"team": "shop"}}"#));
        assert!(!selects(r#"{"matchLabels": {"team": "shop", "zone": "a"}}"#));
        for (requirement, expected) in [
            (r#"{"key": "team", "operator": "In", "values": ["shop", "pay"]}"#, true),
            (r#"{"key": "team", "operator": "In", "values": ["pay"]}"#, false),
            (r#"{"key": "team", "operator": "NotIn", "values": ["pay"]}"#, true),
            (r#"{"key": "zone", "operator": "NotIn", "values": ["a"]}"#, true),
            (r#"{"key": "team", "operator": "Exists"}"#, true),
            (r#"{"key": "zone", "operator": "DoesNotExist"}"#, true),
            (r#"{"key": "team", "operator": "Greater", "values": ["shop"]}"#, false),
        ] {
            let text = format!(r#"{{"matchExpressions": [{requirement}]}}"#);
            assert_eq!(selects(&text), expected, "{text}");
        }
    }
}
