//! Which of two values is the weaker one.

use super::marks::{Mark, protects};
use crate::address::{ListenAddress, parse_listen};
use crate::policy::parse_rate;
use crate::resolved::{Section, Value};
use std::net::IpAddr;
use std::path::Path;

/// Whether the value is weaker than it was.
pub(super) fn is_weaker(mark: Mark, old: &Value, new: &Value) -> bool {
    let (was, is) = (!old.is_absent(), !new.is_absent());
    match mark {
        Mark::Neutral | Mark::Inside | Mark::Joined | Mark::Request | Mark::Chain => false,
        // Fields of responses are compared by name, and lists item by item.
        Mark::Protections | Mark::AddedProtections | Mark::Hidden | Mark::Rules => false,
        Mark::Other | Mark::Among => true,
        Mark::Certificate => asked(new) < asked(old),
        // Values from files are compared and never read: which of two is larger is not known.
        Mark::Larger | Mark::Smaller | Mark::Scale(_) | Mark::Rates | Mark::Exposure
            if is_hidden(old) || is_hidden(new) =>
        {
            true
        }
        Mark::Larger => most(new) > most(old),
        Mark::Smaller => least(new) < least(old),
        Mark::Scale(words) => rank(words, new) > rank(words, old),
        Mark::Need => was && !is,
        Mark::Grant => is && !was,
        Mark::OneOf => was && (!is || is_any(new) && !is_any(old)),
        Mark::AllOf => is && !was,
        Mark::Unknown => was,
        Mark::Rates => !rates(old).iter().all(|old| rates(new).iter().any(|new| new.keeps(old))),
        Mark::Exposure => is_more_exposed(old, new),
    }
}

/// Whether a list is weaker without this item.
pub(super) fn is_weaker_without(mark: Mark, item: &Value, rest: &[Value]) -> bool {
    match mark {
        Mark::Need | Mark::AllOf | Mark::Hidden => !rest.iter().any(|other| covers(other, item)),
        Mark::Unknown | Mark::Other | Mark::Rules => true,
        _ => false,
    }
}

/// Whether a list is weaker with this item.
pub(super) fn is_weaker_with(mark: Mark, item: &Value, before: &[Value]) -> bool {
    match mark {
        Mark::Grant | Mark::OneOf | Mark::Among => !before.iter().any(|other| covers(other, item)),
        Mark::Unknown | Mark::Other => true,
        Mark::Hidden => protects(&item.label()),
        _ => false,
    }
}

/// Whether whatever the inner item stands for, the outer one does too.
fn covers(outer: &Value, inner: &Value) -> bool {
    match (outer, inner) {
        (Value::Network(outer), Value::Network(inner)) => outer.holds(inner),
        (outer, _) if is_any(outer) => true,
        (Value::Word(word), Value::Section(inner)) => {
            word == "present" && inner.name == "certificate_condition"
        }
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

/// Whether the value, or some of it, comes from a file.
fn is_hidden(value: &Value) -> bool {
    match value {
        Value::Secret(_) => true,
        Value::List(items) => items.iter().any(is_hidden),
        Value::Section(section) => section.fields.iter().any(|field| is_hidden(&field.value)),
        _ => false,
    }
}

/// How much is asked of a client's certificate; what the fields of a condition ask is compared one by one.
fn asked(value: &Value) -> u8 {
    match value {
        Value::Section(_) => 2,
        Value::Word(word) if word == "present" => 1,
        _ => 0,
    }
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
        Value::Percent(percent) => Some(percent.as_hundredths().into()),
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

/// Who can connect to an address: the later, the more of them.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Exposure {
    /// Whoever may open the file of a socket.
    File,
    /// This machine.
    Machine,
    /// Whoever reaches one address of it.
    Address,
    /// Whoever reaches any address of one family.
    Family,
    /// Whoever reaches any address, or that is not known.
    All,
}

impl Exposure {
    fn of(address: &ListenAddress) -> Exposure {
        match address {
            ListenAddress::Unix(_) => Exposure::File,
            ListenAddress::Tcp(_) if !address.is_public() => Exposure::Machine,
            ListenAddress::Tcp(address) if address.ip().is_unspecified() => Exposure::Family,
            ListenAddress::Tcp(_) => Exposure::Address,
            ListenAddress::Any(_) => Exposure::All,
        }
    }
}

/// Whether more clients reach the new address, or others. Where there was none, this machine reached another.
fn is_more_exposed(old: &Value, new: &Value) -> bool {
    let address = |value: &Value| match value {
        Value::Text(text) => parse_listen(text).ok(),
        _ => None,
    };
    let Some(is) = address(new) else { return !new.is_absent() };
    let Some(was) = address(old) else { return is.is_public() };
    match (Exposure::of(&was), Exposure::of(&is)) {
        (was, is) if was != is => is > was,
        (Exposure::Machine, _) => false,
        _ => host(&was) != host(&is),
    }
}

/// Where the address is, without its port.
fn host(address: &ListenAddress) -> (Option<IpAddr>, Option<&Path>) {
    match address {
        ListenAddress::Tcp(address) => (Some(address.ip()), None),
        ListenAddress::Any(_) => (None, None),
        ListenAddress::Unix(path) => (None, Some(path)),
    }
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
    fn who_reaches_what() {
        let none = Value::Absent("");
        for (old, new, is_more) in [
            (text("unix:/run/a"), text("127.0.0.1:80"), true),
            (text("127.0.0.1:80"), text("[::1]:81"), false),
            (text("127.0.0.1:80"), text("10.0.0.1:80"), true),
            (text("10.0.0.1:80"), text("10.0.0.1:81"), false),
            (text("10.0.0.1:80"), text("203.0.113.1:80"), true),
            (text("10.0.0.1:80"), text("0.0.0.0:80"), true),
            (text("0.0.0.0:80"), text("[::]:80"), true),
            (text("[::]:80"), text(":80"), true),
            (text(":80"), text(":81"), false),
            (text("unix:/run/a"), text("unix:/tmp/a"), true),
            (none.clone(), text(":80"), true),
            (none.clone(), text("127.0.0.1:80"), false),
            (text(":80"), none, false),
        ] {
            assert_eq!(is_more_exposed(&old, &new), is_more, "{old:?} {new:?}");
        }
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
