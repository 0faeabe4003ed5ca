//! Which of two values is the weaker one.

use super::marks::Mark;
use crate::policy::parse_rate;
use crate::resolved::{Section, Value};

/// Whether the value is weaker than it was.
pub(super) fn is_weaker(mark: Mark, old: &Value, new: &Value) -> bool {
    let (was, is) = (!old.is_absent(), !new.is_absent());
    match mark {
        Mark::Neutral | Mark::Inside | Mark::Joined | Mark::Request | Mark::Chain => false,
        Mark::Larger => most(new) > most(old),
        Mark::Smaller => least(new) < least(old),
        Mark::Scale(words) => rank(words, new) > rank(words, old),
        Mark::Need => was && !is,
        Mark::Grant => is && !was,
        Mark::OneOf => was && (!is || is_any(new) && !is_any(old)),
        Mark::AllOf => is && !was,
        Mark::Unknown => was,
        Mark::Rates => !rates(old).iter().all(|old| rates(new).iter().any(|new| new.keeps(old))),
        Mark::Exposure => is_exposed(new) && !is_exposed(old),
    }
}

/// Whether a list is weaker without this item.
pub(super) fn is_weaker_without(mark: Mark, item: &Value, rest: &[Value]) -> bool {
    match mark {
        Mark::Need | Mark::AllOf => !rest.iter().any(|other| covers(other, item)),
        Mark::Unknown => true,
        _ => false,
    }
}

/// Whether a list is weaker with this item.
pub(super) fn is_weaker_with(mark: Mark, item: &Value, before: &[Value]) -> bool {
    match mark {
        Mark::Grant | Mark::OneOf => !before.iter().any(|other| covers(other, item)),
        Mark::Unknown => true,
        _ => false,
    }
}

/// Whether whatever the inner item stands for, the outer one does too.
fn covers(outer: &Value, inner: &Value) -> bool {
    match (outer, inner) {
        (Value::Network(outer), Value::Network(inner)) => outer.holds(inner),
        (outer, _) if is_any(outer) => true,
        (Value::Text(outer), Value::Text(inner)) => match outer.split_once("*.") {
            Some((scheme, domain)) if scheme.ends_with("://") => inner
                .strip_prefix(scheme)
                .and_then(|host| host.strip_suffix(domain))
                .is_some_and(|labels| labels.ends_with('.')),
            _ => outer == inner,
        },
        (outer, inner) => outer == inner,
    }
}

fn is_any(value: &Value) -> bool {
    matches!(value, Value::Word(text) | Value::Text(text) if text == "*")
}

/// None is more than any number.
fn most(value: &Value) -> u128 {
    number(value).unwrap_or(u128::MAX)
}

/// None is less than any number.
fn least(value: &Value) -> u128 {
    number(value).unwrap_or(0)
}

fn number(value: &Value) -> Option<u128> {
    match value {
        Value::Whole(number) => u128::try_from(*number).ok(),
        Value::Duration(duration) => Some(duration.as_nanos()),
        Value::Size(size) => Some(size.bytes().into()),
        _ => None,
    }
}

fn rank(words: &[&str], value: &Value) -> Option<usize> {
    let text = match value {
        Value::Word(word) => word.as_str(),
        Value::Boolean(true) => "true",
        Value::Boolean(false) => "false",
        _ => "",
    };
    words.iter().position(|word| *word == text)
}

/// Whether other machines can reach the address.
fn is_exposed(value: &Value) -> bool {
    let Value::Text(address) = value else { return false };
    let is_local = ["unix:", "127.", "[::1]"].iter().any(|start| address.starts_with(start));
    !is_local
}

/// A rate in numbers.
struct Limit {
    count: u64,
    seconds: u64,
    burst: u64,
}

impl Limit {
    fn of(section: &Section) -> Option<Limit> {
        let Some(Value::Text(rate)) = section.value("rate") else { return None };
        let (count, window) = parse_rate(rate).ok()?;
        let count = count.get().into();
        let burst = match section.value("burst") {
            Some(Value::Whole(burst)) => u64::try_from(*burst).unwrap_or(u64::MAX),
            _ => count,
        };
        Some(Limit { count, seconds: window.as_secs(), burst })
    }

    /// Whether whoever keeps to this one keeps to the other.
    fn keeps(&self, other: &Limit) -> bool {
        let rate = |limit: &Limit, seconds: u64| u128::from(limit.count) * u128::from(seconds);
        rate(self, other.seconds) <= rate(other, self.seconds) && self.burst <= other.burst
    }
}

fn rates(value: &Value) -> Vec<Limit> {
    match value {
        Value::Section(section) => Limit::of(section).into_iter().collect(),
        Value::List(items) => {
            items.iter().filter_map(Value::as_section).filter_map(Limit::of).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn network(text: &str) -> Value {
        Value::Network(crate::cidr::parse_cidr(text).unwrap())
    }

    #[test]
    fn what_covers_what() {
        for (outer, inner, is_covered) in [
            (network("10.0.0.0/8"), network("10.1.0.0/16"), true),
            (network("10.1.0.0/16"), network("10.0.0.0/8"), false),
            (network("0.0.0.0/0"), network("::1"), false),
            (text("*"), text("https://a.example"), true),
            (text("https://*.a.example"), text("https://b.a.example"), true),
            (text("https://*.a.example"), text("https://*.b.a.example"), true),
            (text("https://*.a.example"), text("https://a.example"), false),
            (text("https://*.a.example"), text("https://xa.example"), false),
            (text("https://*.a.example"), text("http://b.a.example"), false),
            (text("a"), text("a"), true),
            (text("a"), text("b"), false),
        ] {
            assert_eq!(covers(&outer, &inner), is_covered, "{outer:?} {inner:?}");
        }
    }
}
