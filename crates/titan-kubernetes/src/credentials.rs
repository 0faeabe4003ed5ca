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
use std::collections::BTreeMap;
use std::path::Path;

/// Files that documents name, by their names in the folder. Never printed: keys are among them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Vault {
    files: BTreeMap<String, Vec<u8>>,
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

impl Vault {
    /// The files by name.
    pub fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.files
    }

    /// Keeps a file, and says where it will be. It has a name of its own for each content, so that no reader sees half of a change.
    pub(crate) fn keep(&mut self, folder: &Path, kind: &str, bytes: Vec<u8>) -> String {
        let name = format!("{}.{kind}", hash(&bytes));
        let path = folder.join(&name).display().to_string();
        self.files.insert(name, bytes);
        path
    }
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
    let cert = vault.keep(folder, "crt", chain);
    Ok(json!({ "cert": cert, "key": vault.keep(folder, "key", private) }))
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
    let file = (!all.is_empty()).then(|| vault.keep(folder, "ca", all));
    (file, bad)
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
