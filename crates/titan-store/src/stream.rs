//! A stream of entries that all gateways of a fleet write and read: what one says, each of the others hears, in the same order.
//!
//! Entries are sealed with a key of the fleet: whoever has the store can lose them, and say again what was said, but neither read
//! nor forge one. The stream begins with an entry of the smallest id there is, [`FIRST`], which names its life: one that was lost
//! and begun anew has another, whatever its other ids are.

use crate::bounded::Replies;
use crate::connect::{Driver, Place, told};
use crate::script::{Call, Script, Unavailable, ask_as, kind_of, numbers};
use crate::shard::Shard;
use crate::slots::{Node, Redirect};
use crate::store::Store;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, MAX_TAG_LEN, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, Value, cmd};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::time::error::Elapsed;
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
    /// The server that had the stream, and where that was.
    origin: (Arc<Shard>, Vec<Place>),
    /// Whether it was sent on from there, while its slot moves to another node of the cluster.
    is_asking: bool,
}

/// The id of an entry: later ones have greater ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(u64, u64);

/// What a text is that is not the id of an entry.
#[derive(Debug)]
pub struct BadEntryId;

/// What names a stream from when it was begun until it is lost: in hexadecimal digits when that was, in milliseconds by the clock
/// of its store, and something random.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life(Vec<u8>);

/// What a stream is at a moment.
#[derive(Debug)]
pub struct Look {
    /// Its life; none if it has not begun, or has lost its beginning.
    pub life: Option<Life>,
    /// The time by the clock of its store, since 1970.
    pub now: Duration,
}

/// An entry; nothing where no gateway of the fleet has written it.
pub type Read = (EntryId, Option<Vec<u8>>);

/// What became of entries that were to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The stream has them.
    Added,
    /// The stream has another life, or none.
    OtherLife,
    /// An entry has the greatest id there is, so that none can be behind it: the stream has to begin anew.
    Exhausted,
}

/// Why a call has come to nothing.
#[derive(Debug)]
pub enum CallError {
    /// The store says no, as one does without memory, or where its user may not: it will say so again, and the connection stays good.
    Refused(String),
    /// There is no reply, or none that can be one: the connection is of no use any more.
    Lost(String),
}

/// The entry that names the life of a stream. All others are behind it.
pub const FIRST: EntryId = EntryId(0, 1);
/// The most entries that are written at once.
pub const MAX_WRITTEN: usize = 32;
/// The most bytes of an entry. A page of such is as much as a connection may bring.
pub const MAX_ENTRY: usize = 14 << 10;
/// The most bytes of one as it is stored: with what it was encrypted with, and what proves who has written it.
const MAX_SEALED: usize = NONCE_LEN + MAX_ENTRY + MAX_TAG_LEN;
/// The most entries of a page.
const PAGE: usize = 64;
/// The most entries that are removed at once.
pub const MAX_REMOVED: usize = 256;
/// How long connecting may take, and each reply.
const PATIENCE: Duration = Duration::from_secs(1);
/// Digits of the name of a life, and how many of them say when it began.
const LIFE: usize = 32;
const BEGAN: usize = 12;

/// The life of `KEYS[1]`: an empty text where it has none, or something in its place that no gateway has written.
const LIFE_OF: &str = "local function life()
  local first = redis.call('XRANGE', KEYS[1], '0-1', '0-1')[1]
  local fields = first and first[2] or {}
  return #fields == 2 and #fields[2] == 32 and fields[2] or ''
end
";

/// Returns the life of `KEYS[1]`, and the time in seconds and microseconds.
static LOOK: LazyLock<Script> = LazyLock::new(|| {
    let look = "local now = redis.call('TIME')
return {life(), tonumber(now[1]), tonumber(now[2])}";
    Script::new(format!("{LIFE_OF}{look}"))
});

/// Begins `KEYS[1]` with the life `ARGV[1]`, if the one that it has is `ARGV[2]`.
static BEGIN: LazyLock<Script> = LazyLock::new(|| {
    let begin = "if life() ~= ARGV[2] then return {0} end
redis.call('DEL', KEYS[1])
redis.call('XADD', KEYS[1], '0-1', 'life', ARGV[1])
return {1}";
    Script::new(format!("{LIFE_OF}{begin}"))
});

/// Adds the entries that follow in `ARGV` to `KEYS[1]`, if its life is `ARGV[1]`. Returns 1, 0 where it is another one, and 2 where
/// its ids are used up. Releases before 7 say that as if the id had been given to them.
static WRITE: LazyLock<Script> = LazyLock::new(|| {
    let write = "if life() ~= ARGV[1] then return {0} end
for place = 2, #ARGV do
  local added = redis.pcall('XADD', KEYS[1], '*', 'sealed', ARGV[place])
  if type(added) == 'table' and added.err then
    local is_full = added.err:find('exhausted') or added.err:find('equal or smaller')
    return is_full and {2} or added
  end
end
return {1}";
    Script::new(format!("{LIFE_OF}{write}"))
});

/// Returns the entries of `KEYS[1]` behind `ARGV[1]`, `ARGV[2]` at most: of each the id, and what it has, unless that has another
/// form than gateways give it, or more bytes than `ARGV[3]`. So nothing that others write there can make a page too long.
static READ: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local page = redis.call('XREAD', 'COUNT', ARGV[2], 'STREAMS', KEYS[1], ARGV[1])
local found = {}
for place, entry in ipairs(page and page[1][2] or {}) do
  local fields = entry[2]
  local is_one = #fields == 2 and #fields[2] <= tonumber(ARGV[3])
  found[place] = is_one and {entry[1], fields[2]} or {entry[1]}
end
return found",
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
        let shard = self.store.shard_of(self.key.as_bytes()).map(|shard| Arc::clone(&shard));
        let Some(shard) = shard else {
            self.store.seek();
            return Err("no node of its cluster is known to have the key".to_owned());
        };
        let opened = self.open(&shard).await;
        let (connection, driver) = opened.inspect_err(|_| self.store.seek())?;
        let places = shard.places.borrow().clone();
        let origin = (shard, places);
        Ok(StreamLink { stream: self, connection, _driver: driver, origin, is_asking: false })
    }

    async fn open(&self, shard: &Shard) -> Result<(MultiplexedConnection, Driver), String> {
        let opened = timeout(PATIENCE, self.store.connect(shard, Replies::Pages)).await;
        let (connection, driver) = opened.unwrap_or_else(|_| Err(silent()))?;
        Ok((connection, Driver::spawn(driver)))
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
    /// What it is now.
    pub async fn look(&mut self) -> Result<Look, CallError> {
        let reply = self.call(&LOOK, &[]).await?;
        let Value::Array(parts) = reply else { return Err(misread()) };
        let [Value::BulkString(life), Value::Int(seconds), Value::Int(micros)] = parts.as_slice()
        else {
            return Err(misread());
        };
        let number = |number: i64| u64::try_from(number).map_err(|_| misread());
        let now = Duration::from_secs(number(*seconds)?) + Duration::from_micros(number(*micros)?);
        match life.len() {
            0 => Ok(Look { life: None, now }),
            LIFE => Ok(Look { life: Some(Life(life.clone())), now }),
            _ => Err(misread()),
        }
    }

    /// Begins it, instead of that life, unless it has another one. What is in it is lost. `now` is the store's.
    pub async fn begin(
        &mut self,
        instead_of: Option<&Life>,
        now: Duration,
    ) -> Result<(), CallError> {
        let life = Life::beginning(now)?;
        let before = instead_of.map_or(&[][..], |life| life.0.as_slice());
        self.call(&BEGIN, &[&life.0, before]).await.map(drop)
    }

    /// The entries behind that one; none where there are no more.
    pub async fn read(&mut self, after: EntryId) -> Result<Vec<Read>, CallError> {
        let arguments = [after.to_string(), PAGE.to_string(), MAX_SEALED.to_string()];
        let reply = self.call(&READ, &arguments.each_ref().map(String::as_bytes)).await?;
        let Value::Array(entries) = reply else { return Err(misread()) };
        let mut read = Vec::with_capacity(entries.len().min(PAGE));
        let mut last = after;
        for entry in entries {
            let (id, sealed) = entry_in(entry).ok_or_else(misread)?;
            if id <= last || read.len() == PAGE {
                return Err(misread());
            }
            last = id;
            read.push((id, sealed.and_then(|sealed| self.stream.unsealed(&sealed))));
        }
        Ok(read)
    }

    /// Adds entries, [`MAX_WRITTEN`] at most, if its life is that one.
    pub async fn write(&mut self, life: &Life, entries: &[&[u8]]) -> Result<Written, CallError> {
        let sealed = entries.iter().map(|entry| self.stream.sealed(entry));
        let sealed: Result<Vec<_>, _> = sealed.collect();
        let sealed =
            sealed.map_err(|_| CallError::Lost("an entry cannot be encrypted".to_owned()))?;
        let life = std::iter::once(life.0.as_slice());
        let arguments: Vec<&[u8]> = life.chain(sealed.iter().map(Vec::as_slice)).collect();
        let reply = self.call(&WRITE, &arguments).await?;
        match numbers(reply).as_deref() {
            Some([0]) => Ok(Written::OtherLife),
            Some([1]) => Ok(Written::Added),
            Some([2]) => Ok(Written::Exhausted),
            _ => Err(misread()),
        }
    }

    /// Removes entries, [`MAX_REMOVED`] at most.
    pub async fn remove(&mut self, ids: &[EntryId]) -> Result<(), CallError> {
        let mut question = cmd("XDEL");
        question.arg(&self.stream.key).arg(ids.iter().map(EntryId::to_string).collect::<Vec<_>>());
        self.ask(&question).await.map(drop)
    }

    /// Whether the stream may be elsewhere by now than where this connection has found it.
    pub fn has_moved(&self) -> bool {
        let (origin, places) = &self.origin;
        let now = self.stream.store.shard_of(self.stream.key.as_bytes());
        !now.is_some_and(|now| Arc::ptr_eq(&now, origin) && *now.places.borrow() == *places)
    }

    async fn call(&mut self, script: &Script, arguments: &[&[u8]]) -> Result<Value, CallError> {
        let call = Call { script, key: self.stream.key.as_bytes(), arguments };
        let reply = timeout(PATIENCE, call.reply(&mut self.connection, self.is_asking)).await;
        let Some(to) = self.sent_on(&reply) else { return self.replied(reply) };
        self.go_on_at(&to).await?;
        let reply = timeout(PATIENCE, call.reply(&mut self.connection, true)).await;
        self.replied(reply)
    }

    async fn ask(&mut self, question: &Cmd) -> Result<Value, CallError> {
        let reply = timeout(PATIENCE, ask_as(&mut self.connection, question, self.is_asking)).await;
        let Some(to) = self.sent_on(&reply) else { return self.replied(reply) };
        self.go_on_at(&to).await?;
        let reply = timeout(PATIENCE, ask_as(&mut self.connection, question, true)).await;
        self.replied(reply)
    }

    /// Where a call has to be made instead, because its key is on its way there.
    fn sent_on(&self, reply: &Result<Result<Value, RedisError>, Elapsed>) -> Option<Node> {
        let (Ok(Err(error)), Some(from)) = (reply, &self.origin.0.node) else { return None };
        let redirect = Redirect::told(error, from).filter(|it| it.is_asking && !self.is_asking);
        redirect.map(|it| it.to)
    }

    /// Goes on at another node, until the slot is there for good.
    async fn go_on_at(&mut self, to: &Node) -> Result<(), CallError> {
        let opened = match self.stream.store.shard_named(to) {
            Some(shard) => self.stream.open(&shard).await,
            None => Err("it is on its way to a node that is not known yet".to_owned()),
        };
        let (connection, driver) = opened.map_err(|why| {
            self.stream.store.seek();
            CallError::Lost(why)
        })?;
        (self.connection, self._driver, self.is_asking) = (connection, driver, true);
        Ok(())
    }

    fn replied(
        &self,
        reply: Result<Result<Value, RedisError>, Elapsed>,
    ) -> Result<Value, CallError> {
        if !matches!(reply, Ok(Ok(_))) {
            // It may be somewhere else by now.
            self.stream.store.seek();
        }
        let error = match reply {
            Ok(Ok(value)) => return Ok(value),
            // A node of a cluster that sends elsewhere is the wrong one.
            Ok(Err(error))
                if kind_of(&error) == Unavailable::Refused && error.redirect_node().is_none() =>
            {
                return Err(CallError::Refused(told(&error)));
            }
            Ok(Err(error)) => told(&error),
            Err(_) => silent(),
        };
        Err(CallError::Lost(error))
    }
}

impl Life {
    fn beginning(now: Duration) -> Result<Life, CallError> {
        let mut random = [0; (LIFE - BEGAN) / 2];
        let without = |_| CallError::Lost("there is no randomness".to_owned());
        rand::fill(&mut random).map_err(without)?;
        let began = format!("{:0BEGAN$x}", now.as_millis());
        let random = random.iter().map(|byte| format!("{byte:02x}"));
        // Of a time that takes more digits, in the year 10889, the last ones.
        let began = &began[began.len() - BEGAN..];
        Ok(Life(std::iter::once(began.to_owned()).chain(random).collect::<String>().into_bytes()))
    }

    /// How old it is. One that begins later, or says no time, is young.
    pub fn age(&self, now: Duration) -> Duration {
        let began = self.0.get(..BEGAN).and_then(|digits| str::from_utf8(digits).ok());
        let began = began.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        began.map_or(Duration::ZERO, |began| now.saturating_sub(Duration::from_millis(began)))
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (CallError::Refused(why) | CallError::Lost(why)) = self;
        f.write_str(why)
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

fn misread() -> CallError {
    CallError::Lost("it sends what is no reply to its calls".to_owned())
}

/// The id and what it has of an entry in a page.
fn entry_in(entry: Value) -> Option<(EntryId, Option<Vec<u8>>)> {
    let Value::Array(parts) = entry else { return None };
    let mut parts = parts.into_iter();
    let Some(Value::BulkString(id)) = parts.next() else { return None };
    let id = str::from_utf8(&id).ok()?.parse().ok()?;
    match (parts.next(), parts.next()) {
        (None, None) => Some((id, None)),
        (Some(Value::BulkString(sealed)), None) => Some((id, Some(sealed))),
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
    fn a_life_says_when_it_began() {
        let at = Duration::from_millis(1_790_000_000_123);
        let life = Life::beginning(at).unwrap();
        assert_eq!(life.0.len(), LIFE);
        let later = Duration::from_secs(7);
        assert_eq!(life.age(at + later), later);
        assert_eq!(life.age(at - later), Duration::ZERO);
        assert_eq!(Life(vec![b'x'; LIFE]).age(at), Duration::ZERO);
        let late = Life::beginning(Duration::from_secs(u64::MAX / 2)).unwrap();
        assert_eq!((late.0.len(), late.age(at)), (LIFE, Duration::ZERO));
    }

    #[test]
    fn what_is_no_entry_of_a_page_is_none() {
        let text = |text: &str| Value::BulkString(text.into());
        let entry = |id: &str| Value::Array(vec![text(id)]);
        assert_eq!(entry_in(entry("1-2")), Some((EntryId(1, 2), None)));
        let full = vec![text("1-2"), text("x")];
        let both = Some((EntryId(1, 2), Some(b"x".to_vec())));
        assert_eq!(entry_in(Value::Array(full.clone())), both);
        for id in ["1", "-", "1-x", "-1-2", "18446744073709551616-1"] {
            assert_eq!(entry_in(entry(id)), None, "{id}");
        }
        let longer = Value::Array([full, vec![text("y")]].concat());
        for other in [longer, Value::Array(vec![]), text("1-2"), Value::Array(vec![Value::Nil])] {
            assert_eq!(entry_in(other), None);
        }
    }
}
