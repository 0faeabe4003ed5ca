//! JSON Web Tokens before anything in them is trusted. What takes them apart is pure and is compiled in here.

#[path = "../../crates/titan-policies/src/jwt/json.rs"]
mod json;
#[expect(clippy::module_inception, reason = "it is the file's own name")]
#[path = "../../crates/titan-policies/src/jwt/token.rs"]
mod token;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;
use titan_config::JwtAlgorithm;
use token::{MAX_TOKEN, ParsedToken, decode, is_type};

/// What stands between the parts of a token that is put together here.
pub const NEXT_PART: u8 = b'\n';

/// How deep claims may be, and the object that they are members of.
const MAX_DEPTH: usize = 16;

/// What `jwt` calls these faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    Malformed,
    Header,
    Algorithm,
}

/// What is accepted can be written in no other way, and means to every reader of JSON what it means here. The first
/// byte says whether the rest is a token, or what one is made of.
pub fn token(data: &[u8]) {
    let Some((choice, input)) = data.split_first() else { return };
    match choice % 2 {
        0 => take_apart(input),
        _ => {
            let parts = input.split(|byte| *byte == NEXT_PART);
            let parts: Vec<_> = parts.map(|part| URL_SAFE_NO_PAD.encode(part)).collect();
            take_apart(parts.join(".").as_bytes());
        }
    }
}

fn take_apart(text: &[u8]) {
    let parsed = match ParsedToken::parse(text) {
        Ok(parsed) => parsed,
        Err(refusal) => {
            assert!(text.len() <= MAX_TOKEN || refusal == Refusal::Malformed);
            return;
        }
    };
    assert!(text.len() <= MAX_TOKEN);
    let ParsedToken { signed, algorithm, key_id, kind, claims, signature } = parsed;
    let parts: Vec<&[u8]> = text.split(|byte| *byte == b'.').collect();
    let [header, payload, last] = parts[..] else { panic!("it has {} parts", parts.len()) };
    assert_eq!(signed, [header, payload].join(&b'.'));
    assert_eq!(decode(last), Ok(signature));
    for part in parts {
        let bytes = decode(part).expect("it was decoded before");
        assert_eq!(URL_SAFE_NO_PAD.encode(bytes).as_bytes(), part);
    }

    let header = members(header);
    assert!(
        ["jku", "jwk", "x5u", "x5c", "crit", "b64", "zip", "enc"]
            .iter()
            .all(|it| !header.contains_key(*it))
    );
    let text_of =
        |name: &str| header.get(name).map(|it| it.as_str().expect("it is a text").to_owned());
    assert_eq!(text_of("alg").and_then(|name| JwtAlgorithm::named(&name)), Some(algorithm));
    assert_eq!((text_of("kid"), text_of("typ")), (key_id, kind.clone()));
    assert!(kind.is_none_or(|it| is_type(&it, &it.to_ascii_uppercase())));
    assert_eq!(members(payload), claims);
    assert!(depth(&Value::Object(claims)) <= MAX_DEPTH);
}

/// What another reader makes of a part. It takes the last of several members of one name, so that they are counted.
fn members(part: &[u8]) -> Map<String, Value> {
    let bytes = decode(part).expect("it was decoded before");
    let members: Map<String, Value> = serde_json::from_slice(&bytes).expect("it is an object");
    let again = json::object(&bytes).expect("it was read before");
    assert_eq!(members, again);
    let Count(count) = serde_json::from_slice(&bytes).expect("it is an object");
    assert_eq!(count, members.len(), "a member appears twice");
    members
}

/// How many members an object has, whatever their names.
struct Count(usize);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Count, D::Error> {
        deserializer.deserialize_map(Count(0))
    }
}

impl<'de> Visitor<'de> for Count {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Count, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            self.0 += 1;
        }
        Ok(self)
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
