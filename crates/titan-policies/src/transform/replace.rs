//! Header values rewritten by regular expressions.

use super::value::MAX_MADE;
use titan_config::{HeaderName, PathPiece, ValueRule};
use titan_http::{BadField, Fields};

/// Gives the fields that rules name the values that these make.
pub(super) fn change(
    rules: &[(HeaderName, ValueRule)],
    fields: &mut Fields,
) -> Result<(), BadField> {
    for (name, rule) in rules {
        let name = name.as_str().as_bytes();
        let is_meant = |value: &[u8]| rule.regex.is_match(value);
        if !fields.named(name).any(is_meant) {
            continue;
        }
        let values: Vec<_> = fields.named(name).filter_map(|value| made(rule, value)).collect();
        fields.remove_named(name);
        values.iter().try_for_each(|value| fields.append_named(name, value))?;
    }
    Ok(())
}

/// What a rule makes of a value; none if the result is empty, or longer than recipients accept.
fn made(rule: &ValueRule, value: &[u8]) -> Option<Vec<u8>> {
    let Some(groups) = rule.regex.captures(value) else { return Some(value.to_vec()) };
    let whole = groups[0].clone();
    let mut made = value[..whole.start].to_vec();
    for piece in &rule.replace {
        made.extend_from_slice(match piece {
            PathPiece::Text(text) => text.as_bytes(),
            PathPiece::Group(group) => &value[groups[*group].clone()],
        });
        if made.len() > MAX_MADE {
            return None;
        }
    }
    made.extend_from_slice(&value[whole.end..]);
    (1..=MAX_MADE).contains(&made.len()).then_some(made)
}
