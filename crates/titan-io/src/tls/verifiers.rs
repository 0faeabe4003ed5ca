//! What checks the certificates of servers, made once for all that trust the same authorities.

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The authorities that are trusted, and what checks certificates by them and by one name.
#[derive(Clone)]
pub(super) struct Trust {
    pub(super) roots: Arc<RootCertStore>,
    pub(super) verifier: Arc<WebPkiServerVerifier>,
}

/// Those that were made, by the file of the authorities: the system's list alone takes 100 KB, and thousands of upstreams may trust it.
#[derive(Default)]
pub(super) struct Verifiers(Mutex<HashMap<Option<PathBuf>, Trust>>);

/// A copy of what files hold may come to hold something else.
impl Clone for Verifiers {
    fn clone(&self) -> Verifiers {
        Verifiers::default()
    }
}

impl Verifiers {
    /// The one for the authorities in `ca`, or for those that the system trusts.
    pub(super) fn of<E>(
        &self,
        ca: Option<&Path>,
        make: impl FnOnce() -> Result<Trust, E>,
    ) -> Result<Trust, E> {
        // Only whole entries are added, so there is nothing that a panic could leave half done.
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ca = ca.map(Path::to_owned);
        if let Some(trust) = made.get(&ca) {
            return Ok(trust.clone());
        }
        let trust = make()?;
        made.insert(ca, trust.clone());
        Ok(trust)
    }
}
