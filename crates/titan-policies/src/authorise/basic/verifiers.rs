//! The threads that check passwords: hashes are slow on purpose, and must not block the other requests of a worker.

use super::queue::FairQueue;
use crate::authorise::PASSWORD_QUEUE;
use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread;
use titan_config::PasswordHash;
use titan_io::error::Kind;
use titan_io::network::ClientNetwork;
use tokio::sync::oneshot;

/// The threads of a gateway, and the queue in front of them; all policies with passwords share them.
#[derive(Default)]
pub(crate) struct Verifiers {
    /// None before they are started: then no password is valid.
    queue: OnceLock<Arc<FairQueue<Check>>>,
}

/// A password that is to be checked.
struct Check {
    hash: Arc<PasswordHash>,
    password: Vec<u8>,
    verdict: oneshot::Sender<bool>,
}

/// How many there are: what they use is not there for traffic.
const THREADS: usize = 2;
/// Bytes that bcrypt uses.
const BCRYPT: usize = 72;

impl Verifiers {
    /// Starts the threads, unless they are there already. They end when no policy can reach them any more.
    pub(crate) fn start(&self) -> io::Result<()> {
        if self.queue.get().is_some() {
            return Ok(());
        }
        let queue = Arc::new(FairQueue::new());
        for number in 0..THREADS {
            let served = Arc::clone(&queue);
            let run = move || while serve(&served).is_some() {};
            let started = thread::Builder::new().name(format!("passwords-{number}")).spawn(run);
            started.inspect_err(|_| queue.close())?;
        }
        // Another thread may have been faster.
        if let Err(queue) = self.queue.set(queue) {
            queue.close();
        }
        Ok(())
    }

    /// Whether that is the password, which that client has shown. Fails at once where too many wait already, and
    /// later where those who have fewer waiting need the place.
    pub(super) async fn check(
        &self,
        client: Option<ClientNetwork>,
        hash: Arc<PasswordHash>,
        password: &[u8],
    ) -> Result<bool, Kind> {
        let (verdict, told) = oneshot::channel();
        let check = Check { hash, password: password.to_vec(), verdict };
        let queue = self.queue.get().ok_or(PASSWORD_QUEUE)?;
        queue.push(client, check, |check| check.verdict.is_closed())?;
        told.await.map_err(|_| PASSWORD_QUEUE)
    }
}

impl Drop for Verifiers {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.get() {
            queue.close();
        }
    }
}

/// Checks one password, unless its request has ended; `None` when no more will come.
fn serve(queue: &FairQueue<Check>) -> Option<()> {
    let Check { hash, password, verdict } = queue.pop()?;
    if !verdict.is_closed() {
        let _ = verdict.send(is_password_of(&hash, &password));
    }
    Some(())
}

/// Whether the hash is that of the password.
fn is_password_of(hash: &PasswordHash, password: &[u8]) -> bool {
    match hash {
        PasswordHash::Argon2id { memory, passes, lanes, salt, output } => {
            let mut found = vec![0; output.len()];
            let params = Params::new(*memory, *passes, *lanes, Some(output.len()));
            let hashed = params.and_then(|params| {
                let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
                argon2.hash_password_into(password, salt, &mut found)
            });
            hashed.is_ok() && verify_slices_are_equal(&found, output).is_ok()
        }
        PasswordHash::Bcrypt { cost, salt, output } => {
            // It ends with a zero, where that has room. What it would leave out may be the difference.
            let mut text = password[..password.len().min(BCRYPT)].to_vec();
            if text.len() < BCRYPT {
                text.push(0);
            }
            let found = bcrypt::bcrypt(*cost, *salt, &text);
            let is_same = verify_slices_are_equal(&found[..output.len()], output).is_ok();
            is_same && password.len() <= BCRYPT
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn hash(text: &str) -> PasswordHash {
        PasswordHash::parse(text).unwrap()
    }

    /// Hashes that other programs have made: the reference implementation of Argon2, and libxcrypt.
    #[test]
    fn a_password_is_the_one_that_was_hashed() {
        let argon2 = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ\
             $nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
        let long = "x".repeat(BCRYPT);
        for (text, password) in [
            (argon2, "password"),
            ("$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW", "secret"),
            ("$2y$05$......................35w9tBXOiWEqF4YNx8Fn9rPUbxS7RTu", "secret"),
            ("$2b$04$abcdefghijklmnopqrstuuqdGTHGDXr8u1hfJiwF5vCDdegTn.A9O", "geheimnis \u{e4}"),
            ("$2b$04$abcdefghijklmnopqrstuubzadhGtS2zEF.gu0yd0opP6cVzb.e0i", &long),
        ] {
            let hash = hash(text);
            assert!(is_password_of(&hash, password.as_bytes()), "{text}");
            for wrong in ["", &password[1..], &format!("{password}x"), &password.to_uppercase()] {
                assert!(!is_password_of(&hash, wrong.as_bytes()), "{text} {wrong}");
            }
        }
    }

    #[test]
    fn passwords_of_clients_that_left_are_not_checked() {
        let hash = Arc::new(hash("$2b$14$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"));
        let queue = Arc::new(FairQueue::new());
        let verifiers = Verifiers { queue: OnceLock::from(Arc::clone(&queue)) };
        let mut context = Context::from_waker(Waker::noop());
        {
            let mut first = pin!(verifiers.check(None, Arc::clone(&hash), b"a"));
            assert_eq!(first.as_mut().poll(&mut context), Poll::Pending);
        }
        assert_eq!(serve(&queue), Some(()));
        assert_eq!(Arc::strong_count(&hash), 1, "it was not kept");
        drop(verifiers);
        assert_eq!(serve(&queue), None);
        let unstarted = Verifiers::default();
        let mut check = pin!(unstarted.check(None, hash, b"secret"));
        let refused = Poll::Ready(Err(PASSWORD_QUEUE));
        assert_eq!(check.as_mut().poll(&mut context), refused);
    }
}
