//! The keys below a prefix as they are at one revision, kept up to date by events.

use super::api::{Bytes, Event, EventKind, Header, KeyValue, Number, RangeRequest, RangeResponse};
use crate::delivery::{
    BadDelivery, Delivery, Document, MAX_DOCUMENTS, MAX_NAME, MAX_TEXTS, is_name,
};
use std::collections::BTreeMap;

/// The keys below a prefix at one revision.
#[derive(Debug)]
pub struct Keys {
    /// Bytes of the prefix, which their names do not have.
    prefix: usize,
    /// Who has told of them, and as of which revision.
    header: Header,
    stored: BTreeMap<Vec<u8>, Stored>,
    /// Bytes of all values.
    size: usize,
}

/// What is stored under a key.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) value: Vec<u8>,
    /// When it was changed last.
    pub(crate) changed: Number,
}

/// The keys below a prefix, while they are read.
pub(crate) struct Pages {
    prefix: Bytes,
    next: RangeRequest,
    read: Option<Keys>,
}

/// Keys that are read at once.
const PAGE: u64 = 500;

impl Keys {
    /// None yet, of that cluster at that revision.
    pub(crate) fn new(prefix: &Bytes, header: Header) -> Keys {
        Keys { prefix: prefix.0.len(), header, stored: BTreeMap::new(), size: 0 }
    }

    /// Who has told of them, and as of which revision.
    pub(crate) fn header(&self) -> Header {
        self.header
    }

    /// How many there are.
    pub(crate) fn count(&self) -> Number {
        Number(self.stored.len() as u64)
    }

    /// What is stored under that key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Stored> {
        self.stored.get(key)
    }

    /// What the keys are called below the prefix.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.stored.keys().map(|key| self.name(key))
    }

    fn name<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        &key[self.prefix.min(key.len())..]
    }

    /// Adds one, or gives it another value.
    pub(crate) fn put(&mut self, key: KeyValue) -> Result<(), BadDelivery> {
        let KeyValue { key: Bytes(key), value: Bytes(value), mod_revision: changed } = key;
        self.size += value.len();
        let before = self.stored.insert(key, Stored { value, changed });
        self.size -= before.map_or(0, |before| before.value.len());
        if self.stored.len() > MAX_DOCUMENTS {
            return Err(BadDelivery::TooMany(self.stored.len()));
        }
        if self.size > MAX_TEXTS {
            return Err(BadDelivery::TooLarge);
        }
        Ok(())
    }

    /// Takes what has happened to them up to that revision.
    pub(crate) fn follow(
        &mut self,
        events: impl IntoIterator<Item = Event>,
        revision: Number,
    ) -> Result<(), BadDelivery> {
        for Event { kind, kv } in events {
            match kind {
                EventKind::Put => self.put(kv)?,
                EventKind::Delete => {
                    let gone = self.stored.remove(&kv.key.0);
                    self.size -= gone.map_or(0, |gone| gone.value.len());
                }
            }
        }
        self.reach(revision);
        Ok(())
    }

    /// Notes that they are the same at that revision. A member may be behind the one that was asked before.
    pub(crate) fn reach(&mut self, revision: Number) {
        self.header.revision = self.header.revision.max(revision);
    }

    /// All that can be documents, and what cannot.
    pub(crate) fn delivery(&self) -> Result<Delivery, BadDelivery> {
        let (mut documents, mut skipped) = (Vec::new(), Vec::new());
        for (key, Stored { value, .. }) in &self.stored {
            match document(self.name(key), value) {
                Ok(document) => documents.push(document),
                Err((name, why)) => skipped.push((name, why)),
            }
        }
        let delivery = Delivery::new(self.header.revision.to_string(), documents)?;
        Ok(delivery.without(skipped))
    }
}

impl Pages {
    /// The first page is read next, at whatever revision is now.
    pub(crate) fn new(prefix: &Bytes) -> Pages {
        let (key, range_end) = range_of(prefix);
        let next = RangeRequest { key, range_end, limit: Number(PAGE), ..RangeRequest::default() };
        Pages { prefix: prefix.clone(), next, read: None }
    }

    /// What to ask for the next page.
    pub(crate) fn next(&self) -> &RangeRequest {
        &self.next
    }

    /// Takes a page; all of them where it was the last.
    pub(crate) fn take(mut self, response: RangeResponse) -> Result<Result<Keys, Pages>, String> {
        let mut keys = self.read.unwrap_or_else(|| Keys::new(&self.prefix, response.header));
        let last = response.kvs.last().map(|it| it.key.clone());
        for key in response.kvs {
            keys.put(key).map_err(|bad| bad.to_string())?;
        }
        self.next.revision = keys.header.revision;
        match last.filter(|_| response.more) {
            Some(last) if last >= self.next.key => self.next.key = last.next(),
            Some(_) => return Err("its keys come in no order".to_owned()),
            None => return Ok(Ok(keys)),
        }
        Ok(Err(Pages { read: Some(keys), ..self }))
    }
}

/// The keys that begin with a prefix: the first, and the first that does not.
pub(crate) fn range_of(prefix: &Bytes) -> (Bytes, Bytes) {
    (prefix.clone(), prefix.end_of_prefix())
}

/// The document that a key is; what it is called and why it is none otherwise.
fn document(name: &[u8], value: &[u8]) -> Result<Document, (Vec<u8>, String)> {
    let is_no = |why: String| (name.to_vec(), why);
    let named = std::str::from_utf8(name).ok().filter(|name| is_name(name));
    let named = named.ok_or_else(|| {
        is_no(format!(
            "what follows the prefix is no name of a document: these have 1 to {MAX_NAME} letters, digits, `.`, `_`, `-`, `:` and \
             `/`, and no part that is empty, `.` or `..`"
        ))
    })?;
    let text =
        std::str::from_utf8(value).map_err(|_| is_no("its value is not UTF-8".to_owned()))?;
    Ok(Document { name: named.to_owned(), text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(revision: u64) -> Header {
        Header { cluster_id: Number(1), revision: Number(revision) }
    }

    fn key(name: &str, value: &[u8]) -> KeyValue {
        let key = Bytes(format!("/titan/{name}").into_bytes());
        KeyValue { key, value: Bytes(value.to_vec()), mod_revision: Number(1) }
    }

    fn event(kind: EventKind, name: &str, value: &str) -> Event {
        Event { kind, kv: key(name, value.as_bytes()) }
    }

    fn told(keys: &Keys) -> (String, Vec<String>, Vec<String>) {
        let delivery = keys.delivery().unwrap();
        let documents = delivery.documents().iter().map(|it| format!("{}={}", it.name, it.text));
        let skipped = delivery.skipped().keys().cloned();
        (delivery.revision().to_owned(), documents.collect(), skipped.collect())
    }

    #[test]
    fn events_change_what_was_read() {
        let mut keys = Keys::new(&Bytes::of("/titan/"), header(5));
        keys.put(key("a", b"1")).unwrap();
        keys.put(key("b/c", b"2")).unwrap();
        let events = [
            event(EventKind::Put, "a", "one"),
            event(EventKind::Delete, "b/c", ""),
            event(EventKind::Delete, "never", ""),
            event(EventKind::Put, "d", "4"),
        ];
        keys.follow(events, Number(9)).unwrap();
        assert_eq!(
            told(&keys),
            ("9".to_owned(), vec!["a=one".to_owned(), "d=4".to_owned()], vec![])
        );
        assert_eq!((keys.size, keys.count()), (4, Number(2)));
        keys.reach(Number(7));
        assert_eq!(keys.header(), header(9), "a member that is behind takes nothing back");
    }

    #[test]
    fn what_cannot_be_a_document_is_left_out_alone() {
        let mut keys = Keys::new(&Bytes::of("/titan/"), header(1));
        for name in ["", "../x", "a b", "a//b"] {
            keys.put(key(name, b"x")).unwrap();
        }
        keys.put(key("binary", b"\xff")).unwrap();
        keys.put(key("fine", b"x")).unwrap();
        let (_, documents, skipped) = told(&keys);
        assert_eq!(documents, ["fine=x"]);
        assert_eq!(skipped, ["", "../x", "a b", "a//b", "binary"]);
    }

    #[test]
    fn they_are_bounded() {
        let mut keys = Keys::new(&Bytes::of("/titan/"), header(1));
        for number in 0..MAX_DOCUMENTS {
            keys.put(key(&number.to_string(), b"x")).unwrap();
        }
        keys.put(key("0", b"y")).unwrap();
        assert_eq!(keys.put(key("more", b"x")), Err(BadDelivery::TooMany(MAX_DOCUMENTS + 1)));
        let mut keys = Keys::new(&Bytes::of("/titan/"), header(1));
        let half = vec![b'#'; MAX_TEXTS / 2 + 1];
        keys.put(key("a", &half)).unwrap();
        keys.put(key("a", &half)).unwrap();
        assert_eq!(keys.put(key("b", &half)), Err(BadDelivery::TooLarge));
    }
}
