//! The contents of the files that policies name.

use crate::list::Credentials;
use titan_config::{Config, Policy};
use titan_io::tls::{BadCredentials, Files};

/// The credentials of all policies of a configuration, in their order. Clones share them.
#[derive(Clone, Default)]
pub struct PolicyCredentials(Vec<Credentials>);

impl PolicyCredentials {
    /// Reads the credentials of a configuration from its files.
    pub fn read(config: &Config, files: &Files) -> Result<PolicyCredentials, BadCredentials> {
        PolicyCredentials::read_all(config.policies.iter().map(|named| &named.policy), files)
    }

    /// Those that can be read, and of each policy why the others cannot.
    pub fn read_some(
        config: &Config,
        files: &Files,
    ) -> (PolicyCredentials, Vec<Option<BadCredentials>>) {
        let read =
            config.policies.iter().map(|named| match Credentials::read(&named.policy, files) {
                Ok(credentials) => (credentials, None),
                Err(bad) => (Credentials::unread(named.policy.kind()), Some(bad)),
            });
        let (credentials, unread) = read.unzip();
        (PolicyCredentials(credentials), unread)
    }

    /// Those of policies whose files were not read.
    pub fn unread(config: &Config) -> PolicyCredentials {
        let unread = config.policies.iter().map(|named| Credentials::unread(named.policy.kind()));
        PolicyCredentials(unread.collect())
    }

    /// Reads those of each of these.
    pub(crate) fn read_all<'p>(
        policies: impl Iterator<Item = &'p Policy>,
        files: &Files,
    ) -> Result<PolicyCredentials, BadCredentials> {
        let read = policies.map(|policy| Credentials::read(policy, files));
        read.collect::<Result<_, _>>().map(PolicyCredentials)
    }

    /// Those of each policy.
    pub(crate) fn by_policy(self) -> impl Iterator<Item = Credentials> {
        self.0.into_iter()
    }
}

/// Everything that is wrong with the credentials of a policy.
pub fn faults(policy: &Policy, files: &Files) -> Vec<BadCredentials> {
    Credentials::faults(policy, files)
}
