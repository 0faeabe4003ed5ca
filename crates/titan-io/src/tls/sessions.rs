//! Sessions of clients that may send early data. Each is resumed once, so that early data is taken once (RFC 8446 section 8.1).

use rustls::server::StoresServerSessions;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The sessions of a listener, on all workers. The oldest are forgotten: their clients begin anew.
#[derive(Default)]
pub(super) struct Sessions(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    young: HashMap<Vec<u8>, Vec<u8>>,
    old: HashMap<Vec<u8>, Vec<u8>>,
}

/// Sessions in one generation: some 5 MiB in both.
const GENERATION: usize = 8192;

/// Those sessions that began with the same limits. A client sends early data within the limits that it remembers, so that they have to
/// hold still (RFC 9000 section 7.4.1, RFC 9114 section 7.2.4.2).
pub(super) struct SessionsWithin {
    pub(super) sessions: Arc<Sessions>,
    pub(super) limits: Vec<u8>,
}

impl Sessions {
    fn put(&self, id: Vec<u8>, session: Vec<u8>) {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if generations.young.len() >= GENERATION {
            generations.old = std::mem::take(&mut generations.young);
        }
        generations.young.insert(id, session);
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        generations.young.remove(id).or_else(|| generations.old.remove(id))
    }
}

impl SessionsWithin {
    fn id(&self, id: &[u8]) -> Vec<u8> {
        [&self.limits, id].concat()
    }
}

impl StoresServerSessions for SessionsWithin {
    fn put(&self, id: Vec<u8>, session: Vec<u8>) -> bool {
        self.sessions.put(self.id(&id), session);
        true
    }

    /// Only TLS 1.2 resumes a session more than once.
    fn get(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.sessions.take(&self.id(id))
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// Sessions are secrets.
impl fmt::Debug for SessionsWithin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionsWithin").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(sessions: &Arc<Sessions>, limits: &[u8]) -> SessionsWithin {
        SessionsWithin { sessions: Arc::clone(sessions), limits: limits.to_vec() }
    }

    #[test]
    fn a_session_is_resumed_once_and_within_its_limits() {
        let sessions = Arc::default();
        let (worker, other_worker) = (within(&sessions, b"128"), within(&sessions, b"128"));
        assert!(worker.put(b"id".to_vec(), b"session".to_vec()));
        assert_eq!(within(&sessions, b"64").take(b"id"), None, "limits have changed");
        assert_eq!(other_worker.take(b"id"), Some(b"session".to_vec()));
        assert_eq!(worker.take(b"id"), None);
    }

    #[test]
    fn the_oldest_sessions_are_forgotten() {
        let sessions = Arc::default();
        let all = within(&sessions, b"");
        let id = |number: usize| number.to_be_bytes().to_vec();
        (0..=2 * GENERATION).for_each(|number| assert!(all.put(id(number), Vec::new())));
        assert_eq!(all.take(&id(0)), None);
        assert_eq!(all.take(&id(GENERATION)), Some(Vec::new()), "as many are kept");
        assert_eq!(all.take(&id(2 * GENERATION)), Some(Vec::new()));
    }
}
