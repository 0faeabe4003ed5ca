//! A stream of entries that all gateways of a fleet write and read: what one says, each of the others hears, in the same order.
//!
//! Entries are sealed with a key of the fleet: whoever has the store can lose them, and say again what was said, but neither read
//! nor forge one. The stream begins with an entry of the smallest id there is, [`FIRST`], which names its life: one that was lost
//! and begun anew has another, whatever its other ids are.

use crate::bounded::Replies;
use crate::connect::{Driver, told};
use crate::script::{Call, Script, ask};
use crate::store::Store;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value, cmd};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::time::timeout;

/// A stream, by its name in a store.
pub struct Stream {
    store: Arc<Store>,
    key: String,
    seal: LessSafeKey,
}

/// A stream that is connected to. Replies are waited for a second; after an error it is of no use any more.
pub struct StreamLink<'s> {
    stream: &'s Stream,
    connection: MultiplexedConnection,
    _driver: Driver,
}

/// The id of an entry: later ones have greater ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(u64, u64);

/// What a text is that is not the id of an entry.
#[derive(Debug)]
pub struct BadEntryId;

/// What names a stream from when it was begun until it is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life(Vec<u8>);

/// An entry; nothing where no gateway of the fleet has written it.
pub type Read = (EntryId, Option<Vec<u8>>);

/// The entry that names the life of a stream. All others are behind it.
pub const FIRST: EntryId = EntryId(0, 1);
/// The most entries that are written at once.
pub const MAX_WRITTEN: usize = 32;
/// The most bytes of an entry. A page of such is as much as a connection may bring.
pub const MAX_ENTRY: usize = 14 << 10;
/// The most entries of a page.
const PAGE: usize = 64;
/// The most entries that are removed at once.
pub const MAX_REMOVED: usize = 256;
/// How long connecting may take, and each reply.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of the name of a life.
const LIFE: usize = 16;

/// Begins `KEYS[1]` with the life `ARGV[1]`, unless it has one.
static BEGIN: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('XRANGE', KEYS[1], '0-1', '0-1')[1] then return {0} end
redis.call('DEL', KEYS[1])
redis.call('XADD', KEYS[1], '0-1', 'life', ARGV[1])
return {1}",
    )
});

/// Adds the entries that follow in `ARGV` to `KEYS[1]`, if its life is `ARGV[1]`. Returns whether it is.
static WRITE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local first = redis.call('XRANGE', KEYS[1], '0-1', '0-1')[1]
if not first or first[2][2] ~= ARGV[1] then return {0} end
for place = 2, #ARGV do redis.call('XADD', KEYS[1], '*', 'sealed', ARGV[place]) end
return {1}",
    )
});

impl Stream {
    /// The one of that name.
    pub fn new(store: Arc<Store>, name: &str) -> Result<Stream, Unspecified> {
        let key = format!("{}{name}", store.prefix());
        let seal = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, store.key_for(name).as_ref())?);
        Ok(Stream { store, key, seal })
    }

    /// Connects to its store, wherever that is now. The connection's bytes are moved by a task of this runtime.
    pub async fn connect(&self) -> Result<StreamLink<'_>, String> {
        let opened = timeout(PATIENCE, self.store.connect_for(Replies::Pages)).await;
        let opened = opened.unwrap_or_else(|_| Err(silent()));
        let (connection, driver) = opened.inspect_err(|_| self.store.seek())?;
        Ok(StreamLink { stream: self, connection, _driver: Driver::spawn(driver) })
    }

    /// Whether it is in that store.
    pub fn is_in(&self, store: &Arc<Store>) -> bool {
        Arc::ptr_eq(&self.store, store)
    }

    fn sealed(&self, entry: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce)?;
        let mut sealed = entry.to_vec();
        let (aad, used) = (Aad::from(self.key.as_bytes()), Nonce::assume_unique_for_key(nonce));
        self.seal.seal_in_place_append_tag(used, aad, &mut sealed)?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    fn unsealed(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let (aad, nonce) = (Aad::from(self.key.as_bytes()), Nonce::assume_unique_for_key(*nonce));
        let mut entry = sealed.to_vec();
        let length = self.seal.open_in_place(nonce, aad, &mut entry).ok()?.len();
        entry.truncate(length);
        Some(entry)
    }
}

impl StreamLink<'_> {
    /// Its life; none if it has not begun, or has lost its beginning.
    pub async fn life(&mut self) -> Result<Option<Life>, String> {
        let mut question = cmd("XRANGE");
        question.arg(&self.stream.key).arg("0-1").arg("0-1");
        let reply = self.ask(&question).await?;
        let Value::Array(entries) = reply else { return Err(misread()) };
        let Some(entry) = entries.into_iter().next() else { return Ok(None) };
        let (id, fields) = entry_in(entry).ok_or_else(misread)?;
        let [_, Value::BulkString(life)] = fields.as_slice() else { return Err(misread()) };
        let is_one = id == FIRST && life.len() == 2 * LIFE;
        is_one.then(|| Some(Life(life.clone()))).ok_or_else(misread)
    }

    /// Begins it, unless it has a life. What is in it without one is lost.
    pub async fn begin(&mut self) -> Result<(), String> {
        let mut life = [0; LIFE];
        rand::fill(&mut life).map_err(|_| "there is no randomness".to_owned())?;
        let life = life.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        self.call(&BEGIN, &[life.as_bytes()]).await.map(drop)
    }

    /// The entries behind that one; none where there are no more.
    pub async fn read(&mut self, after: EntryId) -> Result<Vec<Read>, String> {
        let mut question = cmd("XREAD");
        question.arg("COUNT").arg(PAGE).arg("STREAMS").arg(&self.stream.key).arg(after.to_string());
        let entries = entries_in(self.ask(&question).await?).ok_or_else(misread)?;
        let mut read = Vec::with_capacity(entries.len());
        let mut last = after;
        for entry in entries {
            let (id, fields) = entry_in(entry).ok_or_else(misread)?;
            if id <= last || read.len() == PAGE {
                return Err(misread());
            }
            last = id;
            let entry = match fields.as_slice() {
                [Value::BulkString(_), Value::BulkString(sealed)] => self.stream.unsealed(sealed),
                _ => None,
            };
            read.push((id, entry));
        }
        Ok(read)
    }

    /// Adds entries, [`MAX_WRITTEN`] at most, if its life is that one. Tells whether it is.
    pub async fn write(&mut self, life: &Life, entries: &[Vec<u8>]) -> Result<bool, String> {
        let sealed = entries.iter().map(|entry| self.stream.sealed(entry));
        let sealed: Result<Vec<_>, _> = sealed.collect();
        let sealed = sealed.map_err(|_| "an entry cannot be encrypted".to_owned())?;
        let life = std::iter::once(life.0.as_slice());
        let arguments: Vec<&[u8]> = life.chain(sealed.iter().map(Vec::as_slice)).collect();
        Ok(self.call(&WRITE, &arguments).await? == 1)
    }

    /// Removes entries, [`MAX_REMOVED`] at most.
    pub async fn remove(&mut self, ids: &[EntryId]) -> Result<(), String> {
        let mut question = cmd("XDEL");
        question.arg(&self.stream.key).arg(ids.iter().map(EntryId::to_string).collect::<Vec<_>>());
        self.ask(&question).await.map(drop)
    }

    async fn call(&mut self, script: &Script, arguments: &[&[u8]]) -> Result<i64, String> {
        let call = Call { script, key: self.stream.key.as_bytes(), arguments };
        let reply = timeout(PATIENCE, call.make(&mut self.connection)).await;
        let reply = reply.map_err(|_| self.lost(silent()))?;
        let numbers = reply
            .map_err(|(_, error)| self.lost(error.map_or_else(misread, |error| told(&error))))?;
        numbers.first().copied().ok_or_else(misread)
    }

    async fn ask(&mut self, question: &Cmd) -> Result<Value, String> {
        let reply = timeout(PATIENCE, ask(&mut self.connection, question)).await;
        let reply = reply.map_err(|_| self.lost(silent()))?;
        reply.map_err(|error| self.lost(told(&error)))
    }

    /// The store may be somewhere else by now.
    fn lost(&self, why: String) -> String {
        self.stream.store.seek();
        why
    }
}

/// As the store writes it.
impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

impl FromStr for EntryId {
    type Err = BadEntryId;

    fn from_str(text: &str) -> Result<EntryId, BadEntryId> {
        let (time, number) = text.split_once('-').ok_or(BadEntryId)?;
        let whole = |text: &str| text.parse().map_err(|_| BadEntryId);
        Ok(EntryId(whole(time)?, whole(number)?))
    }
}

fn silent() -> String {
    "it does not respond in time".to_owned()
}

fn misread() -> String {
    "it sends what is no reply to its calls".to_owned()
}

/// The entries in what XREAD replies for one stream.
fn entries_in(reply: Value) -> Option<Vec<Value>> {
    let streams = match reply {
        Value::Nil => return Some(Vec::new()),
        Value::Array(streams) => streams,
        _ => return None,
    };
    let [Value::Array(stream)] = <[Value; 1]>::try_from(streams).ok()? else { return None };
    let [_, Value::Array(entries)] = <[Value; 2]>::try_from(stream).ok()? else { return None };
    Some(entries)
}

fn entry_in(entry: Value) -> Option<(EntryId, Vec<Value>)> {
    let Value::Array(parts) = entry else { return None };
    let [Value::BulkString(id), fields] = <[Value; 2]>::try_from(parts).ok()? else { return None };
    let id = str::from_utf8(&id).ok()?.parse().ok()?;
    match fields {
        Value::Array(fields) => Some((id, fields)),
        // One that was removed meanwhile.
        Value::Nil => Some((id, Vec::new())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_config::Config;
    use titan_io::registry::Registry;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    fn stream(key: &str, name: &str) -> Stream {
        stream_at("127.0.0.1:1", key, name)
    }

    fn stream_at(address: &str, key: &str, name: &str) -> Stream {
        let text = format!(
            "{{ listeners: [':1'], routes: [{{ respond: 200 }}], stores: {{ s: {{ address: 'redis://{address}', hash_key: {key} }} }} }}"
        );
        let config = Config::parse("test", &text).unwrap();
        let store = Store::new(&config.stores[0], None, (&Registry::default(), 1));
        Stream::new(Arc::new(store), name).unwrap()
    }

    #[test]
    fn only_the_fleet_can_read_and_write_an_entry() {
        let ours = stream("0123456789abcdef", "a");
        let sealed = ours.sealed(b"entry").unwrap();
        assert_eq!(ours.unsealed(&sealed).as_deref(), Some(b"entry".as_slice()));
        assert_ne!(ours.sealed(b"entry").unwrap(), sealed);
        for other in [stream("0123456789abcdeX", "a"), stream("0123456789abcdef", "b")] {
            assert_eq!(other.unsealed(&sealed), None);
        }
        for place in 0..sealed.len() {
            let mut forged = sealed.clone();
            forged[place] ^= 1;
            assert_eq!(ours.unsealed(&forged), None);
            assert_eq!(ours.unsealed(&sealed[..place]), None);
        }
    }

    #[tokio::test]
    async fn a_connection_that_is_given_up_is_closed_though_the_store_reads_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let stream = stream_at(&address, "0123456789abcdef", "a");
        let mut read = vec![0; 1 << 16];
        let (mut link, mut peer) = tokio::join!(async { stream.connect().await.unwrap() }, async {
            let (mut peer, _) = listener.accept().await.unwrap();
            assert!(peer.read(&mut read).await.unwrap() > 0);
            peer.write_all(b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n").await.unwrap();
            peer
        });
        // More than the kernel keeps.
        let long = vec![b'x'; 32 << 20];
        let question = [long.as_slice()];
        tokio::select! {
            _ = link.call(&WRITE, &question) => panic!("there was no reply"),
            begun = peer.peek(&mut read) => assert!(begun.unwrap() > 0),
        }
        drop(link);
        let mut sent = 0;
        while let Ok(more @ 1..) = peer.read(&mut read).await {
            sent += more;
        }
        assert!(sent < long.len(), "all of it was sent though nobody waits for a reply");
    }

    #[test]
    fn what_is_no_page_of_a_stream_is_none() {
        let text = |text: &str| Value::BulkString(text.into());
        let entry = |id: &str| Value::Array(vec![text(id), Value::Array(Vec::new())]);
        let page =
            |entries| Value::Array(vec![Value::Array(vec![text("s"), Value::Array(entries)])]);
        assert_eq!(entries_in(Value::Nil), Some(Vec::new()));
        assert_eq!(entries_in(page(vec![entry("1-2")])), Some(vec![entry("1-2")]));
        for other in [Value::Int(1), Value::Array(Vec::new()), Value::Array(vec![text("s")])] {
            assert_eq!(entries_in(other), None);
        }
        assert_eq!(entry_in(entry("1-2")), Some((EntryId(1, 2), Vec::new())));
        for id in ["1", "-", "1-x", "-1-2", "18446744073709551616-1"] {
            assert_eq!(entry_in(entry(id)), None, "{id}");
        }
    }
}
