//! Certificates, keys and authorities: from objects to files.

use crate::cluster::Cluster;
use crate::grants;
use crate::names::hash;
use crate::objects::{Key, ReferenceTo};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Files that documents name, by their names in the folder. Never printed: keys are among them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Vault {
    files: BTreeMap<String, Vec<u8>>,
    /// Bytes of all of them.
    total: usize,
    /// Bytes of those of a namespace, by their purpose, and which they are.
    shares: BTreeMap<(String, Purpose), (usize, BTreeSet<String>)>,
}

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Certificates that are shown.
    Certificate,
    /// Their keys.
    Key,
    /// Authorities that are trusted.
    Authorities,
    /// What a TitanPolicy names.
    Policy,
}

/// Why a reference leads to nothing of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unusable {
    /// In a word that programs know.
    pub(crate) reason: &'static str,
    /// For people.
    pub(crate) message: String,
}

/// The secret's certificate.
const CERTIFICATE: &str = "tls.crt";
/// The secret's key.
const KEY: &str = "tls.key";
/// Authorities in a ConfigMap or a secret.
const AUTHORITIES: &str = "ca.crt";

/// Bytes of all files of a cluster. Those in force and those of one more delivery are on the disk at a time: with as much for what is
/// kept of documents, the volume of the Helm chart has room for all of it.
pub const MAX_FILES: usize = 16 << 20;
/// Digits of a name.
const DIGITS: usize = 64;

impl Purpose {
    /// All of them.
    const ALL: [Purpose; 4] =
        [Purpose::Certificate, Purpose::Key, Purpose::Authorities, Purpose::Policy];

    /// What the names of such files end with.
    fn ending(self) -> &'static str {
        match self {
            Purpose::Certificate => "crt",
            Purpose::Key => "key",
            Purpose::Authorities => "ca",
            Purpose::Policy => "policy",
        }
    }

    /// Bytes of one file.
    const fn of_file(self) -> usize {
        match self {
            Purpose::Certificate | Purpose::Key | Purpose::Policy => 64 << 10,
            // All that browsers trust is a quarter of a mebibyte.
            Purpose::Authorities => 512 << 10,
        }
    }

    /// Bytes of all such files of one namespace.
    const fn of_namespace(self) -> usize {
        match self {
            Purpose::Certificate => 8 << 20,
            Purpose::Key => 4 << 20,
            Purpose::Authorities => 2 << 20,
            Purpose::Policy => 1 << 20,
        }
    }
}

impl Vault {
    /// The files by name.
    pub fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.files
    }

    /// Keeps a file for an object of a namespace, and says where it will be, or which bound it is beyond. It has a name of its own for
    /// each content, so that no reader sees half of a change.
    pub(crate) fn keep(
        &mut self,
        folder: &Path,
        (namespace, purpose): (&str, Purpose),
        bytes: Vec<u8>,
    ) -> Result<String, String> {
        let size = bytes.len();
        if size > purpose.of_file() {
            return Err(format!("it has {size} bytes, more than {}", told(purpose.of_file())));
        }
        let name = format!("{}.{}", hash(&bytes), purpose.ending());
        let (sum, names) = self.shares.entry((namespace.to_owned(), purpose)).or_default();
        if !names.contains(&name) && *sum + size > purpose.of_namespace() {
            let most = told(purpose.of_namespace());
            return Err(format!(
                "with it the namespace {namespace} has more than the {most} that one may have of such files"
            ));
        }
        if !self.files.contains_key(&name) && self.total + size > MAX_FILES {
            let most = told(MAX_FILES);
            return Err(format!(
                "with it the cluster has more than the {most} that it may have of files"
            ));
        }
        if names.insert(name.clone()) {
            *sum += size;
        }
        let path = folder.join(&name).display().to_string();
        if self.files.insert(name, bytes).is_none() {
            self.total += size;
        }
        Ok(path)
    }

    /// Forgets all files but these.
    pub(crate) fn retain(&mut self, names: &BTreeSet<String>) {
        self.files.retain(|name, _| names.contains(name));
    }
}

/// A size, for people.
fn told(bytes: usize) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mebibytes => format!("{mebibytes} MiB"),
    }
}

/// The files that a document names.
pub(crate) fn named_in(document: &str) -> BTreeSet<String> {
    let is_digit = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let name = |(dot, _): (usize, &str)| {
        let digits = document.as_bytes()[..dot].iter().rev().take(DIGITS).take_while(is_digit);
        let ending = |it: &Purpose| document[dot + 1..].starts_with(it.ending());
        let purpose =
            (digits.count() == DIGITS).then(|| Purpose::ALL.into_iter().find(ending))??;
        Some(document[dot - DIGITS..dot + 1 + purpose.ending().len()].to_owned())
    };
    document.match_indices('.').filter_map(name).collect()
}

/// Who names secrets and authorities: a kind of Gateway API, and the namespace of the object.
pub(crate) type Who<'w> = (&'w str, &'w str);

/// A certificate with its key, as Titan's configuration names it.
pub(crate) fn certificate(
    (cluster, vault, folder): (&Cluster, &mut Vault, &Path),
    who: Who<'_>,
    to: &ReferenceTo,
) -> Result<Value, Unusable> {
    let key = key_of(to, who);
    let unusable = |message: String| Unusable { reason: "InvalidCertificateRef", message };
    if !matches!(to.group.as_deref(), None | Some(""))
        || !matches!(to.kind.as_deref(), None | Some("Secret"))
    {
        let kind = to.kind.as_deref().unwrap_or_default();
        return Err(unusable(format!("{kind} {key}: certificates are taken from secrets alone")));
    }
    check_grant(cluster, who, ("Secret", &key))?;
    let Some(secret) = cluster.secrets.get(&key) else {
        return Err(unusable(format!("there is no secret {key} of the type kubernetes.io/tls")));
    };
    let part = |name: &str| {
        let text = secret.data.get(name).map(|text| STANDARD.decode(text));
        match text {
            Some(Ok(bytes)) if !bytes.is_empty() => Ok(bytes),
            _ => Err(unusable(format!("secret {key}: `{name}` is missing"))),
        }
    };
    let (chain, private) = (part(CERTIFICATE)?, part(KEY)?);
    check_pair(&chain, &private).map_err(|why| unusable(format!("secret {key}: {why}")))?;
    let mut keep = |purpose, name: &str, bytes| {
        let kept = vault.keep(folder, (&key.namespace, purpose), bytes);
        kept.map_err(|why| unusable(format!("secret {key}: `{name}`: {why}")))
    };
    let cert = keep(Purpose::Certificate, CERTIFICATE, chain)?;
    Ok(json!({ "cert": cert, "key": keep(Purpose::Key, KEY, private)? }))
}

/// Authorities to trust, in one file.
pub(crate) fn authorities(
    (cluster, vault, folder): (&Cluster, &mut Vault, &Path),
    who: Who<'_>,
    refs: &[ReferenceTo],
) -> (Option<String>, Vec<Unusable>) {
    let (mut all, mut bad) = (Vec::new(), Vec::new());
    for to in refs {
        match authority(cluster, who, to) {
            Ok(text) => {
                all.extend_from_slice(text.trim_end().as_bytes());
                all.push(b'\n');
            }
            Err(why) => bad.push(why),
        }
    }
    if all.is_empty() {
        return (None, bad);
    }
    match vault.keep(folder, (who.1, Purpose::Authorities), all) {
        Ok(file) => (Some(file), bad),
        Err(why) => {
            let message = format!("`{AUTHORITIES}`: {why}");
            bad.push(Unusable { reason: "InvalidCACertificateRef", message });
            (None, bad)
        }
    }
}

fn authority<'c>(
    cluster: &'c Cluster,
    who: Who<'_>,
    to: &ReferenceTo,
) -> Result<&'c str, Unusable> {
    let key = key_of(to, who);
    let kind = to.kind.as_deref().unwrap_or("ConfigMap");
    if kind != "ConfigMap" || !matches!(to.group.as_deref(), None | Some("")) {
        let message = format!("{kind} {key}: authorities are taken from ConfigMaps alone");
        return Err(Unusable { reason: "InvalidKind", message });
    }
    check_grant(cluster, who, ("ConfigMap", &key))?;
    let unusable = |message: String| Unusable { reason: "InvalidCACertificateRef", message };
    let Some(map) = cluster.config_maps.get(&key) else {
        return Err(unusable(format!("there is no ConfigMap {key}")));
    };
    let Some(text) = map.data.get(AUTHORITIES) else {
        return Err(unusable(format!("ConfigMap {key}: `{AUTHORITIES}` is missing")));
    };
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    match read {
        Ok(read) if !read.is_empty() => Ok(text),
        _ => Err(unusable(format!("ConfigMap {key}: `{AUTHORITIES}` has no certificates in PEM"))),
    }
}

fn check_grant(cluster: &Cluster, who: Who<'_>, (kind, key): (&str, &Key)) -> Result<(), Unusable> {
    if grants::allows(cluster, who, (kind, key)) {
        return Ok(());
    }
    let message =
        format!("{kind} {key} is in another namespace, and no ReferenceGrant there allows it");
    Err(Unusable { reason: "RefNotPermitted", message })
}

/// The object that is named.
pub(crate) fn key_of(to: &ReferenceTo, (_, namespace): Who<'_>) -> Key {
    Key::new(to.namespace.as_deref().unwrap_or(namespace), &to.name)
}

/// Checks that the key is that of the certificate.
fn check_pair(chain: &[u8], private: &[u8]) -> Result<(), String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let chain = read.ok().filter(|chain| !chain.is_empty());
    let chain = chain.ok_or_else(|| format!("`{CERTIFICATE}` has no certificate in PEM"))?;
    let private = PrivateKeyDer::from_pem_slice(private);
    let private = private.map_err(|_| format!("`{KEY}` has no private key in PEM"))?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    match CertifiedKey::from_der(chain, private, &provider) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("`{CERTIFICATE}` and `{KEY}` are no pair: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDER: &str = "/run/titan";

    fn keep(vault: &mut Vault, namespace: &str, bytes: Vec<u8>) -> Result<String, String> {
        vault.keep(Path::new(FOLDER), (namespace, Purpose::Policy), bytes)
    }

    /// A file that no other number has.
    fn file(number: usize) -> Vec<u8> {
        let mut bytes = vec![0; Purpose::Policy.of_file()];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    #[test]
    fn files_are_bounded_by_themselves_by_namespace_and_in_all() {
        let mut vault = Vault::default();
        let why = keep(&mut vault, "a", vec![0; Purpose::Policy.of_file() + 1]).unwrap_err();
        assert_eq!(why, "it has 65537 bytes, more than 64 KiB");
        let of_namespace = Purpose::Policy.of_namespace() / Purpose::Policy.of_file();
        for number in 0..of_namespace {
            keep(&mut vault, "a", file(number)).unwrap();
        }
        let why = keep(&mut vault, "a", file(of_namespace)).unwrap_err();
        assert_eq!(
            why,
            "with it the namespace a has more than the 1 MiB that one may have of such files"
        );
        // What is there already takes no room.
        keep(&mut vault, "a", file(0)).unwrap();
        for number in of_namespace..MAX_FILES / Purpose::Policy.of_file() {
            keep(&mut vault, &format!("n{}", number / of_namespace), file(number)).unwrap();
        }
        let why = keep(&mut vault, "z", file(usize::MAX)).unwrap_err();
        assert_eq!(why, "with it the cluster has more than the 16 MiB that it may have of files");
        assert_eq!(vault.files().values().map(Vec::len).sum::<usize>(), MAX_FILES);
    }

    #[test]
    fn the_files_of_a_document_are_found_in_it() {
        let mut vault = Vault::default();
        let (one, other) = (keep(&mut vault, "a", vec![1]), keep(&mut vault, "a", vec![2]));
        let document = json!({ "a.b": [one, { "jwks": other }], "c": "0.policy", "d": "x.crt" });
        let named = named_in(&document.to_string());
        assert_eq!(named, vault.files().keys().cloned().collect());
    }
}
