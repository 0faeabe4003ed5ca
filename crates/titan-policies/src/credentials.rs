//! What the files come to that policies name.

use super::authorise::Known;
use super::jwt::Source;
use titan_config::{Config, Policy};
use titan_io::tls::{BadCredentials, Files};

/// The credentials of all policies of a configuration, in their order.
#[derive(Default)]
pub struct Keys(Vec<Credentials>);

/// The credentials of a policy.
#[derive(Default)]
pub enum Credentials {
    /// It has none, or nobody has read them.
    #[default]
    None,
    /// Keys of tokens, by the provider.
    Tokens(Vec<Source>),
    /// What keys and passwords are compared with.
    Known(Known),
}

impl Keys {
    /// Reads the credentials of a configuration from its files.
    pub fn read(config: &Config, files: &Files) -> Result<Keys, BadCredentials> {
        config.policies.iter().map(|named| Credentials::read(&named.policy, files)).collect()
    }

    /// Those that can be read, and of each policy why the others cannot.
    pub fn read_some(config: &Config, files: &Files) -> (Keys, Vec<Option<BadCredentials>>) {
        let read = config.policies.iter().map(|named| Credentials::read(&named.policy, files));
        let read = read.map(|read| match read {
            Ok(credentials) => (credentials, None),
            Err(bad) => (Credentials::None, Some(bad)),
        });
        let (credentials, unread) = read.unzip();
        (Keys(credentials), unread)
    }

    /// Those of each policy.
    pub fn by_policy(self) -> impl Iterator<Item = Credentials> {
        self.0.into_iter()
    }
}

impl FromIterator<Credentials> for Keys {
    fn from_iter<T: IntoIterator<Item = Credentials>>(by_policy: T) -> Keys {
        Keys(by_policy.into_iter().collect())
    }
}

impl Credentials {
    fn read(policy: &Policy, files: &Files) -> Result<Credentials, BadCredentials> {
        match policy {
            Policy::Jwt(jwt) => {
                let keys = jwt.providers.iter().map(|provider| Source::read(provider, files));
                keys.collect::<Result<_, _>>().map(Credentials::Tokens)
            }
            Policy::Authorise(authorise) => Known::read(authorise, files).map(Credentials::Known),
            _ => Ok(Credentials::None),
        }
    }

    /// Everything that is wrong with those of a policy.
    pub fn faults(policy: &Policy, files: &Files) -> Vec<BadCredentials> {
        match policy {
            Policy::Jwt(jwt) => {
                let keys = jwt.providers.iter().map(|provider| Source::read(provider, files));
                keys.filter_map(Result::err).collect()
            }
            other => Credentials::read(other, files).err().into_iter().collect(),
        }
    }
}
