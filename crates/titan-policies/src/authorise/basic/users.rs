//! Users and their password hashes.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use titan_config::{Basic, PasswordHash, User, users_in};
use titan_io::tls::{BadCredentials, Files, bad};

/// The users of a policy.
pub(crate) struct Users {
    by_name: HashMap<Box<[u8]>, Arc<PasswordHash>>,
    /// What the passwords of unknown names are compared with.
    decoys: Vec<Arc<PasswordHash>>,
    /// Clients cannot tell which name has which of them.
    seed: RandomState,
    /// Unique in the process: what was found right with others has to be found again.
    generation: u64,
}

impl Users {
    /// Those of the configuration and those of its file.
    pub(crate) fn read(basic: &Basic, files: &Files) -> Result<Users, BadCredentials> {
        let mut users = Users::new(&basic.users);
        let Some(file) = &basic.file else { return Ok(users) };
        let more = users_in(files.get(file)?).map_err(|reason| bad(file, reason))?;
        let both = more.iter().find(|user| users.by_name.contains_key(user.name.as_bytes()));
        if let Some(User { name, .. }) = both {
            return Err(bad(file, format!("`{name}` is also in the configuration")));
        }
        users.add(&more);
        Ok(users)
    }

    fn new(users: &[User]) -> Users {
        let mut new = Users::default();
        new.add(users);
        new
    }

    fn add(&mut self, users: &[User]) {
        for User { name, hash } in users {
            let hash = Arc::new(hash.clone());
            self.decoys.push(Arc::clone(&hash));
            self.by_name.insert(name.as_bytes().into(), hash);
        }
    }

    /// The hash of that user's password; for an unknown name, one that costs as much to compare with, always the same
    /// for a name. Nothing where there are no users.
    pub(super) fn find(&self, name: &[u8]) -> Option<(Arc<PasswordHash>, bool)> {
        let count = u64::try_from(self.decoys.len()).ok().filter(|count| *count > 0)?;
        let decoy = usize::try_from(self.seed.hash_one(name) % count).ok()?;
        let known = self.by_name.get(name);
        let hash = known.unwrap_or(&self.decoys[decoy]);
        Some((Arc::clone(hash), known.is_some()))
    }

    /// Which edition they are.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether all have the passwords that they have there.
    pub(super) fn is_same_as(&self, other: &Users) -> bool {
        self.by_name == other.by_name
    }
}

/// Nobody.
impl Default for Users {
    fn default() -> Users {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Users {
            by_name: HashMap::new(),
            decoys: Vec::new(),
            seed: RandomState::new(),
            generation: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

    fn user(name: &str, kind: &str) -> User {
        let hash = PasswordHash::parse(&HASH.replace("$04$", kind)).unwrap();
        User { name: name.to_owned(), hash }
    }

    #[test]
    fn an_unknown_name_costs_as_much_as_a_known_one() {
        let users = Users::new(&[user("eve", "$04$"), user("bob", "$05$")]);
        let (hash, is_known) = users.find(b"eve").unwrap();
        assert!(is_known && *hash == user("", "$04$").hash);
        let costs = (0..64).map(|number| users.find(format!("x{number}").as_bytes()).unwrap());
        let costs: Vec<_> =
            costs.inspect(|it| assert!(!it.1)).map(|it| format!("{:?}", it.0)).collect();
        assert!(["Bcrypt(4)", "Bcrypt(5)"].iter().all(|cost| costs.iter().any(|it| it == cost)));
        let again = |name: &[u8]| users.find(name).unwrap().0;
        assert!(Arc::ptr_eq(&again(b"nobody"), &again(b"nobody")));
        assert!(Users::default().find(b"eve").is_none());
    }

    #[test]
    fn users_are_others_when_a_hash_or_a_name_is() {
        let users = || Users::new(&[user("eve", "$04$")]);
        assert!(users().is_same_as(&users()));
        assert_ne!(users().generation(), users().generation());
        assert_ne!(Users::default().generation(), Users::default().generation());
        assert!(!users().is_same_as(&Users::new(&[user("eve", "$05$")])));
        assert!(!users().is_same_as(&Users::new(&[user("bob", "$04$")])));
    }
}
