//! What a TitanPolicy says: from its words, and the secrets and ConfigMaps that it names, to those of the configuration language.

use super::judge::Judgements;
use crate::cluster::{Cluster, FOR_POLICIES, Kind};
use crate::credentials::{Purpose, Vault};
use crate::objects::{Key, ReferenceTo};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use titan_config::PolicyKind;

/// What a policy says once its references are files.
#[derive(Default)]
pub(super) struct Spec {
    /// Policies, by their types.
    pub(super) policies: BTreeMap<String, Value>,
    /// Fields of routes with an upstream.
    pub(super) fields: BTreeMap<String, Value>,
    /// Fields of upstreams.
    pub(super) upstream: BTreeMap<String, Value>,
    /// The service that decides about requests, where one does.
    pub(super) auth: Option<ReferenceTo>,
    /// What each file is called in messages: its own name says too much of what is in it.
    pub(super) files: BTreeMap<PathBuf, String>,
}

/// What of a route may be said.
const OF_ROUTES: [&str; 3] = ["limits", "retries", "timeouts"];
/// What of an upstream may be said: nothing that names files, or leads elsewhere.
const OF_SERVICES: [&str; 13] = [
    "balance",
    "circuit_breaker",
    "concurrency",
    "ejection",
    "health",
    "hedge",
    "idle_timeout",
    "max_connections",
    "max_idle",
    "panic_below",
    "queue",
    "retry_budget",
    "slow_start",
];
/// What is a convenience: without it, nobody gets what others must not.
const HARMLESS: [&str; 5] = ["compress", "fault", "retries", "timeouts", "cors"];
/// An upstream that stands for whichever the service has.
const SOME: &str = "u";

/// Bytes of what one policy says, without the files that it names.
const MAX_SAID: usize = 64 << 10;
/// Bytes of all files of one policy.
const MAX_FILES: usize = 256 << 10;

/// What policies are read with.
pub(super) struct Around<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) vault: &'a mut Vault,
    pub(super) folder: &'a Path,
    pub(super) judgements: &'a mut Judgements,
}

/// A key of a secret or a ConfigMap.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyRef {
    name: String,
    key: String,
}

/// Whether a word of a policy is for upstreams, and so for services.
pub(super) fn is_of_services(word: &str) -> bool {
    OF_SERVICES.contains(&word)
}

/// Whether requests must not be served without what this word says. A word that is not known may say anything.
pub(crate) fn protects(word: &str) -> bool {
    !HARMLESS.contains(&word) && !is_of_services(word)
}

impl Spec {
    /// Reads what a policy of a namespace says, or why it cannot be used.
    pub(super) fn read(
        around: &mut Around<'_>,
        namespace: &str,
        said: &Map<String, Value>,
    ) -> Result<Spec, String> {
        check_size(said)?;
        let mut spec = Spec::default();
        let Around { cluster, vault, folder, .. } = around;
        let mut references =
            References { cluster, namespace, vault, folder, files: BTreeMap::new(), bytes: 0 };
        for (word, value) in said {
            let mut value = value.clone();
            if word == "authorise" {
                spec.auth = take_service(&mut value)?;
            }
            references.resolve(&mut value)?;
            if word == "authorise" && spec.auth.is_some() && !value["forward_auth"].is_object() {
                let place = "`authorise.forward_auth`";
                return Err(format!("{place}: expected a mapping with `backendRef`, not a file"));
            }
            let of = match word.as_str() {
                word if PolicyKind::ALL.iter().any(|it| it.as_str() == word) => &mut spec.policies,
                word if OF_ROUTES.contains(&word) => &mut spec.fields,
                word if is_of_services(word) => &mut spec.upstream,
                _ => return Err(unknown(word)),
            };
            of.insert(word.clone(), value);
        }
        spec.files = references.files;
        if spec.policies.is_empty() && spec.fields.is_empty() && spec.upstream.is_empty() {
            return Err(
                "it says nothing: write `jwt`, `rate_limit` or another policy beside `targetRefs`"
                    .to_owned(),
            );
        }
        spec.check(around.judgements)?;
        Ok(spec)
    }

    /// The words that it says.
    pub(super) fn words(&self) -> impl Iterator<Item = &String> {
        self.policies.keys().chain(self.fields.keys()).chain(self.upstream.keys())
    }

    /// The service that decides about requests is this upstream.
    pub(super) fn set_service(&mut self, upstream: &str) {
        if let Some(authorise) = self.policies.get_mut("authorise") {
            authorise["forward_auth"]["upstream"] = upstream.into();
        }
    }

    fn check(&self, judgements: &mut Judgements) -> Result<(), String> {
        let named = |(word, value): (&String, &Value)| (word.clone(), json!({ word: value }));
        let mut policies: Map<String, Value> = self.policies.iter().map(named).collect();
        if self.auth.is_some() {
            policies["authorise"]["authorise"]["forward_auth"]["upstream"] = SOME.into();
        }
        let mut upstream = json!({ "endpoints": ["feed:f"] });
        let mut route = json!({ "name": "r", "prefix": "/", "upstream": SOME });
        for (to, said) in [(&mut upstream, &self.upstream), (&mut route, &self.fields)] {
            said.iter().for_each(|(word, value)| to[word] = value.clone());
        }
        let sections =
            json!({ "policies": policies, "routes": [route], "upstreams": { SOME: upstream } });
        let files: BTreeSet<_> = self.files.keys().cloned().collect();
        let named = judgements.check(&sections, &files).map_err(|why| self.told(&why))?;
        match named == files {
            true => Ok(()),
            false => {
                let where_files_are = "such as `secret_file`, `jwks` or `file`";
                Err(format!(
                    "`secretRef` and `configMapRef` stand for files: write them where the language names one, {where_files_are}"
                ))
            }
        }
    }

    /// A message without the names of files.
    pub(super) fn told(&self, why: &str) -> String {
        self.files.iter().fold(why.to_owned(), |why, (file, called)| {
            why.replace(&file.display().to_string(), called)
        })
    }
}

/// Whether the gateway takes so much text of one policy.
fn check_size(said: &Map<String, Value>) -> Result<(), String> {
    let size: usize = said.iter().map(|(word, value)| word.len() + value.to_string().len()).sum();
    match size <= MAX_SAID {
        true => Ok(()),
        false => Err(format!(
            "it says {size} bytes, more than the {} KiB that one policy may say: write long lists in a ConfigMap, or share them out \
             among several policies",
            MAX_SAID >> 10
        )),
    }
}

fn unknown(word: &str) -> String {
    let policies = PolicyKind::ALL.iter().map(|it| it.as_str());
    let known: Vec<_> = policies.chain(OF_ROUTES).chain(OF_SERVICES).collect();
    format!("`{word}` is not known; there are {}", known.join(", "))
}

/// Takes the service of `authorise.forward_auth`: policies name no upstreams, which others have too.
fn take_service(authorise: &mut Value) -> Result<Option<ReferenceTo>, String> {
    let Some(asked) = authorise.get_mut("forward_auth").and_then(Value::as_object_mut) else {
        return Ok(None);
    };
    let place = "`authorise.forward_auth.backendRef`";
    if asked.contains_key("upstream") {
        return Err(format!(
            "`authorise.forward_auth.upstream`: a policy names a service: write {place} with `name` and `port`"
        ));
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Service {
        name: String,
        port: u16,
    }
    let named = asked.remove("backendRef").unwrap_or_default();
    let Service { name, port } = serde_json::from_value(named).map_err(|why| {
        format!("{place}: expected `name` and `port` of a service of the same namespace: {why}")
    })?;
    Ok(Some(ReferenceTo { name, port: Some(port), ..ReferenceTo::default() }))
}

/// What resolves references to secrets and ConfigMaps of a namespace.
struct References<'r> {
    cluster: &'r Cluster,
    namespace: &'r str,
    vault: &'r mut Vault,
    folder: &'r Path,
    files: BTreeMap<PathBuf, String>,
    /// Bytes of the files.
    bytes: usize,
}

impl References<'_> {
    /// Puts files in the places of references.
    fn resolve(&mut self, value: &mut Value) -> Result<(), String> {
        match value {
            Value::Array(items) => items.iter_mut().try_for_each(|it| self.resolve(it)),
            Value::Object(members) => {
                for (word, kind) in
                    [("secretRef", Kind::PolicySecret), ("configMapRef", Kind::ConfigMap)]
                {
                    let Some(named) = members.get(word).filter(|_| members.len() == 1) else {
                        continue;
                    };
                    let named = KeyRef::deserialize(named)
                        .map_err(|why| format!("`{word}`: expected `name` and `key`: {why}"))?;
                    *value = self.file(kind, named)?.into();
                    return Ok(());
                }
                members.values_mut().try_for_each(|it| self.resolve(it))
            }
            _ => Ok(()),
        }
    }

    fn file(&mut self, kind: Kind, KeyRef { name, key }: KeyRef) -> Result<String, String> {
        let object = Key::new(self.namespace, name);
        let called = format!("{} {object}", kind.name());
        let (data, advice) = match kind {
            Kind::PolicySecret => {
                let found = self.cluster.policy_secrets.get(&object).map(|it| &it.data);
                (found, format!("with the label `{FOR_POLICIES}: \"true\"`"))
            }
            _ => (
                self.cluster.config_maps.get(&object).map(|it| &it.data),
                "in this namespace".to_owned(),
            ),
        };
        let data = data.ok_or_else(|| format!("there is no {called} {advice}: create it"))?;
        let text = data.get(&key).ok_or_else(|| format!("{called} has no key `{key}`: add it"))?;
        let bytes = match kind {
            Kind::PolicySecret => {
                STANDARD.decode(text).map_err(|_| format!("{called}: `{key}` is not in base64"))?
            }
            _ => text.clone().into_bytes(),
        };
        self.bytes += bytes.len();
        if self.bytes > MAX_FILES {
            return Err(format!(
                "{called}: `{key}`: with it the policy names more than the {} KiB that it may have of files",
                MAX_FILES >> 10
            ));
        }
        let kept = self.vault.keep(self.folder, (self.namespace, Purpose::Policy), bytes);
        let path = kept.map_err(|why| format!("{called}: `{key}`: {why}"))?;
        self.files.insert(PathBuf::from(&path), format!("{called}, `{key}`"));
        Ok(path)
    }
}
