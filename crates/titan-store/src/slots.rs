//! Which node of a cluster has a key (Redis Cluster specification), as one of its nodes tells it.

use redis::Value;
use std::collections::HashMap;

/// The slots that the keys of a cluster are in.
pub(crate) const SLOTS: u16 = 16_384;
/// The primaries that a cluster may have.
pub(crate) const MAX_NODES: usize = 256;
/// The bytes of the name of a node.
const MAX_HOST: usize = 255;
/// The slot of what no node has.
const NOBODY: u16 = u16::MAX;

/// A node of a cluster, as the cluster names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Which primary has which slots.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slots {
    /// Those that have any, each once.
    pub(crate) nodes: Vec<Node>,
    /// By slot its place among them.
    places: Box<[u16]>,
}

/// Where a node has sent the sender of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) to: Node,
    /// Whether the slot is on its way there, so that only who says so is served.
    pub(crate) is_asking: bool,
}

/// The slot of a key: of what is between its first braces, if there is anything, so that keys can be kept together.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    let tag = memchr(b'{', key).and_then(|open| {
        let rest = &key[open + 1..];
        memchr(b'}', rest).filter(|end| *end > 0).map(|end| &rest[..end])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

fn memchr(byte: u8, bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|it| *it == byte)
}

/// CRC-16 with the polynomial 0x1021, beginning with 0 (XMODEM), as the specification has it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| crc << 8 ^ CRC[usize::from((crc >> 8) as u8 ^ byte)])
}

const CRC: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0_u16;
    while byte < 256 {
        let (mut crc, mut bit) = (byte << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
};

impl Slots {
    /// What a reply to CLUSTER SLOTS says; nothing if it is none. A node that does not know its own name has that by which it was
    /// asked; what one has that says none is nobody's.
    pub(crate) fn told(reply: &Value, asked: &str) -> Option<Slots> {
        let Value::Array(ranges) = reply else { return None };
        let mut slots =
            Slots { nodes: Vec::new(), places: vec![NOBODY; usize::from(SLOTS)].into() };
        let mut known = HashMap::new();
        for range in ranges.iter().take(usize::from(SLOTS)) {
            let Value::Array(parts) = range else { return None };
            let [first, last, primary, ..] = parts.as_slice() else { return None };
            let (first, last) = (slot_in(first)?, slot_in(last)?);
            let Some(node) = Node::told(primary, asked)? else { continue };
            let place = match known.get(&node) {
                Some(place) => *place,
                None if slots.nodes.len() == MAX_NODES => return None,
                None => {
                    let place = u16::try_from(slots.nodes.len()).ok()?;
                    slots.nodes.push(node.clone());
                    known.insert(node, place);
                    place
                }
            };
            slots.places.get_mut(usize::from(first)..=usize::from(last))?.fill(place);
        }
        Some(slots)
    }

    /// The place of the node that has the slot.
    pub(crate) fn place_of(&self, slot: u16) -> Option<usize> {
        let place = *self.places.get(usize::from(slot))?;
        (place != NOBODY).then_some(usize::from(place))
    }

    /// Whether each slot has a node.
    pub(crate) fn are_whole(&self) -> bool {
        !self.places.is_empty() && !self.places.contains(&NOBODY)
    }

    /// No node has anything.
    pub(crate) fn none() -> Slots {
        Slots { nodes: Vec::new(), places: Box::default() }
    }
}

fn slot_in(value: &Value) -> Option<u16> {
    let Value::Int(slot) = value else { return None };
    u16::try_from(*slot).ok().filter(|slot| *slot < SLOTS)
}

impl Node {
    /// What a node is called, if it is called anything; nothing where that is no node.
    fn told(value: &Value, asked: &str) -> Option<Option<Node>> {
        let Value::Array(parts) = value else { return None };
        let [host, Value::Int(port), ..] = parts.as_slice() else { return None };
        let host = match host {
            Value::Nil => asked,
            Value::BulkString(host) if host.is_empty() => asked,
            Value::BulkString(host) => str::from_utf8(host).ok()?,
            _ => return None,
        };
        Some(Node::of(host, u16::try_from(*port).ok()?))
    }

    fn of(host: &str, port: u16) -> Option<Node> {
        // `?` is what a node says that is told to announce a name and has none.
        let is_name = host.len() <= MAX_HOST && host.bytes().all(|it| it.is_ascii_graphic());
        (is_name && host != "?" && port > 0).then(|| Node { host: host.to_owned(), port })
    }
}

impl Redirect {
    /// What a node has said that does not have the slot; nothing if it was something else. `from` is that node.
    pub(crate) fn told(error: &redis::RedisError, from: &Node) -> Option<Redirect> {
        let (to, _) = error.redirect_node()?;
        let is_asking = error.code() == Some("ASK");
        let (host, port) = to.rsplit_once(':')?;
        let host = if host.is_empty() { from.host.as_str() } else { host };
        Some(Redirect { to: Node::of(host, port.parse().ok()?)?, is_asking })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::ServerErrorKind;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn range(first: i64, last: i64, host: Value, port: i64) -> Value {
        let node = |host, port| Value::Array(vec![host, Value::Int(port), text("id")]);
        let replica = node(text("10.0.0.9"), 1);
        Value::Array(vec![Value::Int(first), Value::Int(last), node(host, port), replica])
    }

    fn told(ranges: Vec<Value>) -> Option<Slots> {
        Slots::told(&Value::Array(ranges), "asked")
    }

    #[test]
    fn slots_of_keys_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        // By `CLUSTER KEYSLOT` of Redis 7.0.
        for (key, slot) in [
            ("foo", 12182),
            ("", 0),
            ("{user1000}.following", 3443),
            ("user1000", 3443),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015),
            ("{bar", 4015),
            ("foo{bar}{zap}", 5061),
            ("bar", 5061),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn each_slot_has_the_node_that_is_told() {
        let slots = told(vec![
            range(0, 99, text("10.0.0.1"), 7000),
            range(200, 200, Value::Nil, 7001),
            range(100, 150, text("10.0.0.1"), 7000),
            range(16_383, 16_383, text("a.example"), 7002),
        ]);
        let slots = slots.unwrap();
        let node = |host: &str, port| Node { host: host.to_owned(), port };
        let nodes = [node("10.0.0.1", 7000), node("asked", 7001), node("a.example", 7002)];
        assert_eq!(slots.nodes, nodes);
        for (slot, place) in [(0, 0), (99, 0), (150, 0), (200, 1), (16_383, 2)] {
            assert_eq!(slots.place_of(slot), Some(place), "{slot}");
        }
        assert_eq!([151, 199, 201, 16_382, 16_384].map(|slot| slots.place_of(slot)), [None; 5]);
    }

    #[test]
    fn what_is_no_reply_is_none() {
        let good = || text("10.0.0.1");
        assert!(told(vec![range(0, 16_383, good(), 7000)]).is_some());
        for bad in [
            range(0, 16_384, good(), 7000),
            range(-1, 5, good(), 7000),
            range(9, 5, good(), 7000),
            range(0, 5, good(), 65_536),
            range(0, 5, Value::Int(1), 7000),
            Value::Array(vec![Value::Int(0), Value::Int(5)]),
            Value::Nil,
        ] {
            assert_eq!(told(vec![bad.clone()]), None, "{bad:?}");
        }
        // One node without a name takes the others with it no more than one that is not there.
        for (host, port) in
            [("?", 7000), ("a b", 7000), (&*"a".repeat(MAX_HOST + 1), 7000), ("a", 0)]
        {
            let slots =
                told(vec![range(0, 5, text(host), port), range(6, 9, good(), 7000)]).unwrap();
            assert_eq!(
                (slots.nodes.len(), slots.place_of(5), slots.place_of(6)),
                (1, None, Some(0))
            );
            assert!(!slots.are_whole());
        }
        assert!(told(vec![range(0, 16_383, good(), 7000)]).unwrap().are_whole());
        let many =
            |count: i64| (0..count).map(|port| range(port, port, good(), port + 1)).collect();
        assert!(told(many(256)).is_some());
        assert_eq!(told(many(257)), None);
    }

    #[test]
    fn a_redirect_names_a_node() {
        let from = Node { host: "asked".to_owned(), port: 1 };
        let told = |kind: ServerErrorKind, text: &str| {
            let error = redis::RedisError::from((kind.into(), "", text.to_owned()));
            Redirect::told(&error, &from)
        };
        let to = |host: &str, port, is_asking| {
            Some(Redirect { to: Node { host: host.to_owned(), port }, is_asking })
        };
        let moved = ServerErrorKind::Moved;
        assert_eq!(told(moved, "3999 10.0.0.1:6381"), to("10.0.0.1", 6381, false));
        assert_eq!(told(moved, "3999 fd00::1:6381"), to("fd00::1", 6381, false));
        assert_eq!(told(ServerErrorKind::Ask, "3999 :6381"), to("asked", 6381, true));
        for bad in ["", "3999", "3999 10.0.0.1", "3999 a:0", "3999 a:65536", "x a:1"] {
            assert_eq!(told(moved, bad), None, "{bad}");
        }
        assert_eq!(told(ServerErrorKind::TryAgain, "3999 10.0.0.1:6381"), None);
    }
}
