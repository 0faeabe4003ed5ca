//! The keys of a policy. They outlive a configuration, and with them what was found with them.

use super::generation::Generation;
use super::keys::{KeySet, Source};
use super::remote::{Fetched, How};
use super::revocations::Revocations;
use arc_swap::{ArcSwap, Guard};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use titan_config::{JwtKeys, JwtProvider};
use titan_io::registry::Registry;

/// The keys of all providers of a policy.
pub(super) struct KeyRing {
    /// By the place of the provider.
    providers: Vec<ProviderKeys>,
    generation: Arc<Generation>,
}

/// The keys of a provider.
enum ProviderKeys {
    /// Those of the configuration and its files.
    Here(ArcSwap<KeySet>),
    /// Those that are fetched.
    Elsewhere(Arc<Fetched>),
}

/// What keeps a cached token valid: everything that it was checked with, except the keys. Those have generations.
#[derive(PartialEq, Eq)]
struct RingKey {
    policy: String,
    config: titan_config::Jwt,
    /// Which table of revoked tokens it is not in.
    revocations: Option<usize>,
}

impl KeyRing {
    /// The keys that the policy has already where it is the one that it was, or else those that were read for it now.
    pub(super) fn of(
        (policy, config): (&str, &titan_config::Jwt),
        sources: Vec<Source>,
        revocations: Option<&Revocations>,
        registry: &Registry,
    ) -> Arc<KeyRing> {
        let key = RingKey {
            policy: policy.to_owned(),
            config: config.clone(),
            revocations: revocations.map(Revocations::id),
        };
        registry.shared(key, || {
            let generation = Generation::new();
            let mut sources = sources.into_iter();
            let keys_of = |provider: &JwtProvider| match (&provider.keys, sources.next()) {
                (JwtKeys::Url(url), source) => {
                    let fetched = Fetched::of((policy, provider), How::new(url, source), registry);
                    fetched.remote().tell(&generation);
                    ProviderKeys::Elsewhere(fetched)
                }
                (_, Some(Source::Here(keys))) => ProviderKeys::Here(ArcSwap::new(keys)),
                (_, _) => ProviderKeys::Here(ArcSwap::default()),
            };
            KeyRing { providers: config.providers.iter().map(keys_of).collect(), generation }
        })
    }

    /// Changes with the keys: what was found with others has to be found again.
    pub(super) fn generation(&self) -> &Arc<Generation> {
        &self.generation
    }

    /// The keys of a provider; none where they were not fetched yet, or too long ago.
    pub(super) fn current(&self, provider: usize) -> Option<Guard<Arc<KeySet>>> {
        match &self.providers[provider] {
            ProviderKeys::Here(keys) => Some(keys.load()),
            ProviderKeys::Elsewhere(fetched) => fetched.remote().current_keys(),
        }
    }

    /// A token has named a key of a provider that is not known.
    pub(super) fn want(&self, provider: usize) {
        if let ProviderKeys::Elsewhere(fetched) = &self.providers[provider] {
            fetched.remote().want();
        }
    }

    /// The key sets that are fetched, each with the place of its provider.
    pub(super) fn fetched(&self) -> impl Iterator<Item = (usize, &Arc<Fetched>)> {
        self.providers.iter().enumerate().filter_map(|(place, keys)| match keys {
            ProviderKeys::Here(_) => None,
            ProviderKeys::Elsewhere(fetched) => Some((place, fetched)),
        })
    }

    /// Takes other keys, unless they are the same. Those that are fetched stay, and are fetched as their section says.
    pub(super) fn replace(&self, config: &titan_config::Jwt, sources: Vec<Source>) {
        let providers = self.providers.iter().zip(&config.providers);
        for ((own, provider), source) in providers.zip(sources) {
            match (own, &provider.keys, source) {
                (ProviderKeys::Here(own), _, Source::Here(keys)) => self.set(own, keys),
                (ProviderKeys::Elsewhere(fetched), JwtKeys::Url(url), source) => {
                    fetched.set(How::new(url, Some(source)));
                }
                (_, _, _) => {}
            }
        }
    }

    /// What was found with the keys before counts no more, also where it is being looked for.
    fn set(&self, own: &ArcSwap<KeySet>, keys: Arc<KeySet>) {
        if !own.load().is_same_as(&keys) {
            own.store(keys);
            self.generation.change();
        }
    }
}

impl Hash for RingKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.policy.hash(state);
    }
}
