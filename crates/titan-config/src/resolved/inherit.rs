//! What a part of the file takes from another: routes from the file, and a field from one beside it.

use super::fill::{fill_section, quoted};
use super::{Field, Origin, Resolved, Section, Value};
use crate::gateway::Config;
use crate::language::sections;
use crate::node::Node;
use crate::policy::PolicyKind;
use crate::route::{Action, Route};
use crate::route_fields::FOR_PROXY;

impl Resolved {
    /// `root` is the file that `config` was read from.
    pub(crate) fn new(config: Config, root: &Node) -> Resolved {
        let mut file = fill_section(root, &sections()[0]);
        let whole = file.clone();
        if let Some(Field { value: Value::List(routes), .. }) = file.field_mut("routes") {
            for (route, value) in config.routes.iter().zip(routes) {
                let Value::Section(section) = value else { continue };
                name(section, config.mask(route.name.to_string()));
                if !matches!(route.action, Action::Proxy(_)) {
                    section.fields.retain(|field| !FOR_PROXY.contains(&field.key));
                }
                inherit(section, &whole);
                in_force(section, route, &config);
            }
        }
        if let Some(Field { value: Value::Map(policies), .. }) = file.field_mut("policies") {
            policies.iter_mut().for_each(|(_, policy)| beside(policy));
        }
        Resolved { config, file }
    }
}

/// Gives the name that it has by default.
fn name(section: &mut Section, name: String) {
    if let Some(field) = section.field_mut("name").filter(|it| it.origin == Origin::Default) {
        field.value = Value::Text(name);
    }
}

/// Fields that are not given, and that the file says for all routes.
fn inherit(route: &mut Section, file: &Section) {
    for Field { key, value, .. } in &mut route.fields {
        let Value::Section(section) = value else { continue };
        let same = file.value(key).and_then(Value::as_section);
        let same = same.filter(|it| it.name == section.name);
        for field in section.fields.iter_mut().filter(|it| it.origin == Origin::Default) {
            let elsewhere = match field.value {
                Value::Absent(words) => quoted(words).and_then(|path| at(file, path)),
                _ => same.and_then(|it| it.field(field.key)),
            };
            if let Some(Field { value, .. }) = elsewhere {
                field.value = value.clone();
                field.origin = Origin::Elsewhere;
            }
        }
    }
}

/// The field at `section.key` of the file.
fn at<'f>(file: &'f Section, path: &str) -> Option<&'f Field> {
    let (section, key) = path.split_once('.')?;
    file.value(section)?.as_section()?.field(key)
}

/// The policies that the route meets, and those of the file that it does not.
fn in_force(section: &mut Section, route: &Route, config: &Config) {
    let is_given = |key| section.field(key).is_some_and(|field| field.origin == Origin::Given);
    let origin = match is_given("apply") || is_given("without") {
        true => Origin::Given,
        false => Origin::Elsewhere,
    };
    let names = config.policies_of(&route.policies).map(|it| Value::Text(it.name.to_string()));
    let names = Value::List(names.collect());
    let (ours, everywhere) = (&route.policies, &config.everywhere);
    let left = PolicyKind::ALL
        .iter()
        .filter(|it| everywhere.of(**it).is_some() && ours.of(**it).is_none());
    let left = Value::List(left.map(|kind| Value::Word(kind.as_str().to_owned())).collect());
    for (key, value) in [("apply", names), ("without", left)] {
        if let Some(field) = section.field_mut(key) {
            *field = Field { key: field.key, value, origin };
        }
    }
}

/// Fields that have the value of another one beside them.
fn beside(value: &mut Value) {
    let Value::Section(section) = value else { return };
    for index in 0..section.fields.len() {
        if let Value::Absent(words) = section.fields[index].value
            && let Some(key) =
                words.strip_prefix("the value of `").and_then(|it| it.strip_suffix('`'))
            && let Some(other) = section.value(key).cloned()
        {
            section.fields[index].value = other;
        }
        beside(&mut section.fields[index].value);
    }
}
