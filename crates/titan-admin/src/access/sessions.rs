//! Sessions of people in front of a browser, who have signed in with a token. They are in memory alone: another process knows none.

use crate::hex::hex;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use titan_config::AdminToken;
use titan_http::{Fields, cookie};
use titan_proxy::sha256;

/// All of them.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<Vec<Session>>);

/// What is known of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// The hash of what the cookie says.
    key: [u8; 32],
    /// As it was when the session began: one that has changed since is another one.
    pub(crate) token: AdminToken,
    /// What calls that change something have to say, besides the cookie.
    pub(crate) csrf: String,
    /// When it ends at the latest.
    pub(crate) expires: SystemTime,
    began: Instant,
    used: Instant,
}

/// Whether a look at a session is a use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Somebody asks for something.
    Counts,
    /// Something that was asked for goes on by itself.
    IsNone,
}

/// What the browser is given.
pub(crate) const COOKIE: &str = "titan_session";
/// How long a session lasts.
pub(crate) const LIFE: Duration = Duration::from_secs(12 * 3600);
/// How long one lasts that is not used.
const IDLE: Duration = Duration::from_secs(3600);
/// How many there are at most. For one more, the oldest ends of the token that has the most.
const MOST: usize = 256;
/// Random bytes of a key, as those of a session's two secrets.
const SECRET: usize = 32;

impl Sessions {
    /// Begins one for whoever has presented that token. Returns it with what the cookie is to say; nothing if the system has no random
    /// bytes.
    pub(crate) fn begin(&self, token: &AdminToken, now: Instant) -> Option<(Session, String)> {
        let (key, csrf) = (random()?, random()?);
        let session = Session {
            key: sha256(key.as_bytes()),
            token: token.clone(),
            csrf,
            expires: SystemTime::now() + LIFE,
            began: now,
            used: now,
        };
        let mut sessions = self.lock();
        sessions.retain(|session| session.is_alive(now));
        if sessions.len() >= MOST
            && let Some(place) = to_end(&sessions)
        {
            sessions.remove(place);
        }
        sessions.push(session.clone());
        Some((session, key))
    }

    /// The session of a request. One whose token is none of `tokens` any more has ended.
    pub(crate) fn find(
        &self,
        fields: &Fields,
        tokens: &[AdminToken],
        (now, counts): (Instant, Use),
    ) -> Option<Session> {
        let key = key(fields)?;
        let mut sessions = self.lock();
        sessions.retain(|session| session.is_alive(now) && tokens.contains(&session.token));
        let session = sessions.iter_mut().find(|session| session.key == key)?;
        if counts == Use::Counts {
            session.used = now;
        }
        Some(session.clone())
    }

    /// Ends the session of a request.
    pub(crate) fn end(&self, fields: &Fields) {
        if let Some(key) = key(fields) {
            self.lock().retain(|session| session.key != key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    fn is_alive(&self, now: Instant) -> bool {
        now.duration_since(self.began) < LIFE && now.duration_since(self.used) < IDLE
    }
}

/// Whether a request has the cookie of a session, of one that has ended, say.
pub(crate) fn has_cookie(fields: &Fields) -> bool {
    cookie::values(fields, COOKIE).next().is_some()
}

/// The hash of what the cookie of a request says. One that has two has none. The hash is compared as it comes: whoever measures how
/// long that takes learns about hashes of their own guesses.
fn key(fields: &Fields) -> Option<[u8; 32]> {
    let mut values = cookie::values(fields, COOKIE);
    let value = values.next().filter(|_| values.next().is_none())?;
    Some(sha256(value))
}

/// The place of the session that ends for another one: the oldest of the token that has the most. The oldest come first.
fn to_end(sessions: &[Session]) -> Option<usize> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let name = |session: &'_ Session| session.token.name.to_string();
    let names: Vec<_> = sessions.iter().map(name).collect();
    names.iter().for_each(|name| *counts.entry(name).or_default() += 1);
    let most = counts.values().max()?;
    names.iter().position(|name| counts[name.as_str()] == *most)
}

/// A secret in hexadecimal digits.
fn random() -> Option<String> {
    let mut bytes = [0; SECRET];
    aws_lc_rs::rand::fill(&mut bytes).ok()?;
    Some(hex(bytes))
}
