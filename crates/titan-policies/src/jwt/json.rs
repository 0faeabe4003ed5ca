//! JSON as tokens may hold it (RFC 7159, RFC 8725 section 2.4): no duplicate members, bounded depth.
//!
//! If two parsers disagree about which of two members counts, a token says one thing to the gateway and another to
//! the upstream.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// How many objects and lists may be inside each other.
const MAX_DEPTH: usize = 16;

/// The members of an object that is all of `bytes`.
pub(super) fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { depth: 0 }.deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    match value {
        Value::Object(members) => Some(members),
        _ => None,
    }
}

/// Reads a value that is `depth` objects and lists deep.
struct Strict {
    depth: usize,
}

impl Strict {
    fn inner<E: Error>(&self) -> Result<usize, E> {
        match self.depth < MAX_DEPTH {
            true => Ok(self.depth + 1),
            false => Err(E::custom("it is nested too deeply")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value);
        number.map(Value::Number).ok_or_else(|| E::custom("it is not a number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let depth = self.inner()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Strict { depth })? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let depth = self.inner()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(Strict { depth })?;
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a member appears twice"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_parsers_may_disagree_about_is_refused() {
        let refused = [
            "",
            "1",
            "[]",
            "null",
            "{\"a\":1,\"a\":1}",
            "{\"a\":1,\"\\u0061\":2}",
            "{\"b\":{\"a\":1,\"a\":2}}",
            "{\"b\":[{\"a\":1,\"a\":2}]}",
            "{\"a\":1,}",
            "{\"a\":[1,]}",
            "{a:1}",
            "{'a':1}",
            "{\"a\":01}",
            "{\"a\":NaN}",
            "{\"a\":1e999}",
            "{\"a\":\"\n\"}",
            "{\"a\":\"\\ud800\"}",
            "{\"a\":1}x",
            "{\"a\":1}{\"a\":1}",
            "{\"a\":1}\0",
            "\u{feff}{\"a\":1}",
            "{\"a\":1 /* b */}",
        ];
        for text in refused {
            assert_eq!(object(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(object(b"{\"a\":\"\xff\"}"), None);
        assert!(object(b" {\"a\" : [1, -2, 0.5, \"x\", true, null, {}]} \n").is_some());
    }

    #[test]
    fn depth_is_bounded() {
        let nested =
            |depth: usize| format!("{{\"a\":{}1{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        assert!(object(nested(MAX_DEPTH).as_bytes()).is_some());
        assert_eq!(object(nested(MAX_DEPTH + 1).as_bytes()), None);
        assert_eq!(object("{\"a\":".repeat(10_000).as_bytes()), None);
    }

    proptest! {
        /// What is taken means what it means to serde_json, which is less strict.
        #[test]
        fn what_is_taken_is_json(text in "\\{(\"[ab]\":([0-9]|\"x\"|\\[\\]|\\{\\}),?){0,3}\\}") {
            if let Some(members) = object(text.as_bytes()) {
                let plain: Value = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(Value::Object(members), plain);
            }
        }
    }
}
