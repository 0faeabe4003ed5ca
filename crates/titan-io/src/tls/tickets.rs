//! Session tickets, sealed with keys that change and that a successor of the process can go on with (RFC 8446 section
//! 4.6.1, RFC 5077).
//!
//! A ticket is the name of its key, a random nonce, and the session sealed with AES-256-GCM-SIV: a nonce that comes
//! twice, which chance allows, would not reveal the key as it would with GCM.

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand;
use rustls::pki_types::UnixTime;
use rustls::server::ProducesTickets;
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Makes tickets with the current key, and opens those of the current and the previous one. All workers share it.
pub(super) struct Tickets(ArcSwap<Keys>);

/// The keys of a listener's tickets, for a successor of the process. Whoever has them can decrypt what was sent in sessions of
/// TLS 1.2: they go to the successor alone, and are wiped from memory when dropped.
pub struct TicketSecrets(Zeroizing<Vec<u8>>);

struct Keys {
    current: Arc<Key>,
    previous: Option<Arc<Key>>,
    /// When another key becomes the current one, in seconds since 1970.
    changes: u64,
}

/// What one key seals and opens with.
struct Key {
    name: [u8; NAME],
    /// Kept for a successor.
    secret: Zeroizing<[u8; SECRET]>,
    cipher: RandomizedNonceKey,
}

/// Seconds for which a key seals tickets. It opens them for as long again.
const PERIOD: u32 = 6 * 60 * 60;
const NAME: usize = 16;
const SECRET: usize = 32;
/// Of the files that say which clients are accepted; zeros where no certificates are requested.
pub(super) const DIGEST: usize = 32;

impl Tickets {
    /// With a random key.
    pub(super) fn new() -> Result<Tickets, Unspecified> {
        let keys = Keys { current: Key::random()?, previous: None, changes: next_change(now()) };
        Ok(Tickets(ArcSwap::from_pointee(keys)))
    }

    /// With the keys that the process before had where it accepted the same clients. `None` if it did not, or if they are
    /// not what it writes.
    pub(super) fn with(secrets: &TicketSecrets, clients: &[u8; DIGEST]) -> Option<Tickets> {
        let keys = secrets.0.strip_prefix(clients)?;
        Some(Tickets(ArcSwap::from_pointee(Keys::read(keys, now())?)))
    }

    /// The keys, for a successor that accepts the same clients.
    pub(super) fn secrets(&self, clients: &[u8; DIGEST]) -> TicketSecrets {
        // With room for all: a copy that growing leaves behind would not be wiped.
        let mut bytes = Zeroizing::new(Vec::with_capacity(TicketSecrets::MAX));
        bytes.extend(clients);
        if let Some(keys) = self.keys(now()) {
            keys.write(&mut bytes);
        }
        TicketSecrets(bytes)
    }

    /// The keys for that time. `None` if the system has no randomness for a key that is due.
    fn keys(&self, now: u64) -> Option<Arc<Keys>> {
        let keys = self.0.load_full();
        if now <= keys.changes {
            return Some(keys);
        }
        // No key opens anything a period after it should have been replaced, however long nobody came.
        let is_recent = now <= keys.changes.saturating_add(u64::from(PERIOD));
        let previous = is_recent.then(|| Arc::clone(&keys.current));
        let current = Key::random().ok()?;
        let next = Arc::new(Keys { current, previous, changes: next_change(now) });
        // Where another thread was faster, its key is the one.
        self.0.compare_and_swap(&keys, next);
        Some(self.0.load_full())
    }

    fn seal(&self, session: &[u8], now: u64) -> Option<Vec<u8>> {
        self.keys(now)?.current.seal(session)
    }

    fn open(&self, ticket: &[u8], now: u64) -> Option<Vec<u8>> {
        let (name, sealed) = ticket.split_first_chunk()?;
        let keys = self.keys(now)?;
        let mut all = std::iter::once(&keys.current).chain(&keys.previous);
        all.find(|key| key.name == *name)?.open(sealed)
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        2 * PERIOD
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.seal(plain, now())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.open(cipher, now())
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").finish_non_exhaustive()
    }
}

impl TicketSecrets {
    /// More bytes than this are no keys.
    pub const MAX: usize = DIGEST + size_of::<u64>() + 2 * (NAME + SECRET);

    /// What a process before this one has written.
    pub fn new(bytes: Zeroizing<Vec<u8>>) -> TicketSecrets {
        TicketSecrets(bytes)
    }

    /// What a successor reads.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for TicketSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketSecrets").finish_non_exhaustive()
    }
}

impl Keys {
    fn write(&self, bytes: &mut Vec<u8>) {
        let Keys { current, previous, changes } = self;
        bytes.extend(changes.to_be_bytes());
        for key in std::iter::once(current).chain(previous) {
            bytes.extend(key.name);
            bytes.extend(key.secret.iter());
        }
    }

    fn read(bytes: &[u8], now: u64) -> Option<Keys> {
        let (changes, bytes) = bytes.split_first_chunk()?;
        let (current, bytes) = Key::read(bytes)?;
        let (previous, rest) = match bytes {
            [] => (None, bytes),
            _ => Key::read(bytes).map(|(key, rest)| (Some(key), rest))?,
        };
        // A clock that was set back since must not keep a key for longer.
        let changes = u64::from_be_bytes(*changes).min(next_change(now));
        rest.is_empty().then_some(Keys { current, previous, changes })
    }
}

impl Key {
    fn random() -> Result<Arc<Key>, Unspecified> {
        let (mut name, mut secret) = ([0; NAME], Zeroizing::new([0; SECRET]));
        rand::fill(&mut name)?;
        rand::fill(&mut *secret)?;
        Key::new(name, secret)
    }

    fn new(name: [u8; NAME], secret: Zeroizing<[u8; SECRET]>) -> Result<Arc<Key>, Unspecified> {
        let cipher = RandomizedNonceKey::new(&AES_256_GCM_SIV, &*secret)?;
        Ok(Arc::new(Key { name, secret, cipher }))
    }

    fn read(bytes: &[u8]) -> Option<(Arc<Key>, &[u8])> {
        let (name, bytes) = bytes.split_first_chunk()?;
        let (secret, bytes) = bytes.split_first_chunk()?;
        Some((Key::new(*name, Zeroizing::new(*secret)).ok()?, bytes))
    }

    fn seal(&self, session: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = session.to_vec();
        let nonce = self.cipher.seal_in_place_append_tag(Aad::from(self.name), &mut sealed).ok()?;
        Some([&self.name[..], nonce.as_ref(), &sealed].concat())
    }

    fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let (nonce, mut opened) = (Nonce::assume_unique_for_key(*nonce), sealed.to_vec());
        let length =
            self.cipher.open_in_place(nonce, Aad::from(self.name), &mut opened).ok()?.len();
        opened.truncate(length);
        Some(opened)
    }
}

fn now() -> u64 {
    UnixTime::now().as_secs()
}

fn next_change(now: u64) -> u64 {
    now.saturating_add(u64::from(PERIOD))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENTS: &[u8; DIGEST] = &[7; DIGEST];

    #[test]
    fn a_ticket_opens_until_its_key_was_replaced_twice() {
        let (tickets, start) = (Tickets::new().unwrap(), now());
        let sealed = tickets.seal(b"session", start).unwrap();
        let period = u64::from(PERIOD) + 2;
        for (later, opens) in [(0, true), (period, true), (2 * period, false)] {
            assert_eq!(tickets.open(&sealed, start + later).is_some(), opens, "{later}");
        }
        let again = tickets.seal(b"session", start + 2 * period).unwrap();
        assert_eq!(tickets.open(&again, start + 2 * period).unwrap(), b"session");
    }

    #[test]
    fn a_ticket_does_not_open_later_where_nobody_came_meanwhile() {
        let (tickets, start) = (Tickets::new().unwrap(), now());
        let sealed = tickets.seal(b"session", start).unwrap();
        assert_eq!(tickets.open(&sealed, start + 2 * u64::from(PERIOD) + 2), None);
    }

    #[test]
    fn a_ticket_that_was_cut_or_changed_does_not_open() {
        let tickets = Tickets::new().unwrap();
        let sealed = tickets.encrypt(b"session").unwrap();
        for length in 0..sealed.len() {
            assert_eq!(tickets.decrypt(&sealed[..length]), None, "{length}");
        }
        for index in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[index] ^= 1;
            assert_eq!(tickets.decrypt(&changed), None, "{index}");
        }
        assert_ne!(tickets.encrypt(b"session").unwrap(), sealed, "the nonce is random");
        assert_eq!(Tickets::new().unwrap().decrypt(&sealed), None, "other keys");
    }

    #[test]
    fn a_successor_opens_all_that_would_have_been_opened() {
        let (tickets, start) = (Tickets::new().unwrap(), now());
        let old = tickets.seal(b"old", start - u64::from(PERIOD)).unwrap();
        let secrets = tickets.secrets(CLIENTS);
        let younger = Tickets::with(&secrets, CLIENTS).unwrap();
        assert_eq!(younger.open(&old, start).unwrap(), b"old");
        assert!(Tickets::with(&secrets, &[0; DIGEST]).is_none(), "it accepts other clients");
        // One change later it has two keys.
        let later = start + u64::from(PERIOD) + 2;
        let new = tickets.seal(b"new", later).unwrap();
        let mut written = Vec::new();
        tickets.0.load().write(&mut written);
        let keys = Keys::read(&written, later).unwrap();
        let successor = Tickets(ArcSwap::from_pointee(keys));
        assert_eq!(successor.open(&old, later).unwrap(), b"old");
        assert_eq!(successor.open(&new, later).unwrap(), b"new");
        assert_eq!(
            successor.0.load().changes,
            tickets.0.load().changes,
            "it changes when they would"
        );
    }

    #[test]
    fn what_are_no_keys_is_refused() {
        let mut written = Vec::new();
        Tickets::new().unwrap().0.load().write(&mut written);
        for length in 0..written.len() {
            assert!(Keys::read(&written[..length], 0).is_none(), "{length}");
        }
        assert!(Keys::read(&[&written[..], b"x"].concat(), 0).is_none());
        let far = [&u64::MAX.to_be_bytes(), &written[8..]].concat();
        assert_eq!(Keys::read(&far, 7).unwrap().changes, 7 + u64::from(PERIOD));
    }

    #[test]
    fn keys_are_never_shown() {
        let tickets = Tickets::new().unwrap();
        assert_eq!(format!("{tickets:?}"), "Tickets { .. }");
        assert_eq!(format!("{:?}", tickets.secrets(CLIENTS)), "TicketSecrets { .. }");
    }
}
