//! Keys to verify signatures, each bound to its algorithms when it is read.

use super::json;
use super::token::decode;
use aws_lc_rs::hmac;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256K1_SHA256_FIXED, ECDSA_P384_SHA384_FIXED,
    ECDSA_P521_SHA512_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaPublicKeyComponents,
};
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use titan_config::{JwksUrl, JwtAlgorithm, JwtKeys, JwtProvider, Protocol, UpstreamTls};
use titan_io::tls::{self, BadCredentials, Files, bad, sha256};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

/// Where the keys of a provider come from.
#[derive(Clone)]
pub enum Source {
    /// They are here.
    Here(Arc<KeySet>),
    /// They are fetched, with that TLS; none if the URL is without TLS, or if the gateway makes no connections.
    Elsewhere(Option<Arc<ClientConfig>>),
}

/// The keys of a provider.
#[derive(Default)]
pub struct KeySet {
    keys: Vec<Key>,
    /// Of the files that they were read from.
    digest: Option<[u8; 32]>,
}

struct Key {
    /// Its name, where it has one.
    id: Option<String>,
    /// What it can check: never another algorithm, whatever a token says.
    verifiers: Vec<(JwtAlgorithm, Verifier)>,
}

/// A key for one algorithm.
enum Verifier {
    Secret(Box<hmac::Key>),
    Public(ParsedPublicKey),
}

/// A key by its type, without an algorithm.
enum Material {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    P521(Vec<u8>),
    P256K1(Vec<u8>),
    Ed25519(Vec<u8>),
    Secret(Vec<u8>),
}

/// Why a key does not check a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unverified {
    /// There is no key of that name for that algorithm.
    NoKey,
    /// None of them has signed that.
    Signature,
}

/// Keys in a set.
const MAX_KEYS: usize = 128;
/// Keys that a signature is checked with: a token without the name of a key, or with one that many have, must not
/// cost more than that.
const MAX_TRIES: usize = 4;
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

impl Source {
    /// What a provider and the files that it names come to.
    pub fn read(provider: &JwtProvider, files: &Files) -> Result<Source, BadCredentials> {
        let JwtProvider { algorithms, keys, .. } = provider;
        let keys = match keys {
            JwtKeys::Secret(secret) => {
                let key = Key::new(None, &Material::Secret(secret.bytes().to_vec()), algorithms);
                KeySet::new(key.into_iter().collect()).read_from(&[], files)?
            }
            JwtKeys::SecretFile(file) => {
                let secret = secret_in(files.get(file)?).map_err(|reason| bad(file, reason))?;
                let keys = KeySet::of(vec![(None, secret)], algorithms, file)?;
                keys.read_from(std::slice::from_ref(file), files)?
            }
            JwtKeys::Pem(paths) => {
                let mut keys = Vec::new();
                for file in paths {
                    let found = public_keys_in(files.get(file)?);
                    let found = found.map_err(|reason| bad(file, reason))?;
                    let found = found.into_iter().map(|material| (None, material)).collect();
                    keys.extend(KeySet::of(found, algorithms, file)?.keys);
                }
                KeySet::new(keys).read_from(paths, files)?
            }
            JwtKeys::Jwks(file) => {
                let keys = KeySet::of_file(files.get(file)?, algorithms);
                let keys = keys.map_err(|reason| bad(file, reason))?;
                keys.read_from(std::slice::from_ref(file), files)?
            }
            JwtKeys::Url(url) => {
                return Ok(Source::Elsewhere(tls_for(url, files)?.map(Arc::new)));
            }
        };
        Ok(Source::Here(Arc::new(keys)))
    }
}

/// What TLS is spoken with to the source of a set.
fn tls_for(config: &JwksUrl, files: &Files) -> Result<Option<ClientConfig>, BadCredentials> {
    if !config.url.is_https {
        return Ok(None);
    }
    let ca = config.ca.clone();
    let tls =
        UpstreamTls { ca, name: None, alt_names: Vec::new(), certificate: None, verify: true };
    tls::client_config(&tls, Protocol::H1, files).map(Some)
}

impl KeySet {
    fn new(keys: Vec<Key>) -> KeySet {
        KeySet { keys, digest: None }
    }

    /// Notes which files these keys come from, and what was in them.
    fn read_from(self, paths: &[PathBuf], files: &Files) -> Result<KeySet, BadCredentials> {
        let digests = paths.iter().map(|file| files.get(file).map(sha256));
        let digest = sha256(&digests.collect::<Result<Vec<_>, _>>()?.concat());
        Ok(KeySet { digest: Some(digest), ..self })
    }

    /// Whether these are the keys of the same files, in which nothing has changed.
    pub(super) fn is_same_as(&self, other: &KeySet) -> bool {
        self.digest.is_some() && self.digest == other.digest
    }

    fn of(
        found: Vec<(Option<String>, Material)>,
        algorithms: &[JwtAlgorithm],
        file: &Path,
    ) -> Result<KeySet, BadCredentials> {
        let key = |(id, material)| {
            Key::new(id, &material, algorithms).ok_or_else(|| {
                bad(file, "its key does not fit any of the `algorithms`, or is too short")
            })
        };
        found.into_iter().map(key).collect::<Result<_, _>>().map(KeySet::new)
    }

    /// Reads a key set (RFC 7517 section 5). Keys for other purposes or of other types are left out, and where none is
    /// left nothing is signed by any.
    pub fn parse(bytes: &[u8], algorithms: &[JwtAlgorithm]) -> Result<KeySet, String> {
        Ok(KeySet::fitting(&list_in(bytes)?, algorithms))
    }

    /// The same for a file of the operator's. An empty list means that all keys are withdrawn; a list of keys that
    /// are of no use is a mistake.
    fn of_file(bytes: &[u8], algorithms: &[JwtAlgorithm]) -> Result<KeySet, String> {
        let list = list_in(bytes)?;
        let keys = KeySet::fitting(&list, algorithms);
        match keys.is_empty() && !list.is_empty() {
            true => Err("none of its keys fits any of the `algorithms`".to_owned()),
            false => Ok(keys),
        }
    }

    fn fitting(list: &[Value], algorithms: &[JwtAlgorithm]) -> KeySet {
        KeySet::new(list.iter().filter_map(|jwk| key_of(jwk.as_object()?, algorithms)).collect())
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none: then no token is valid.
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether one of the keys has signed that, with that algorithm.
    pub(super) fn verify(
        &self,
        algorithm: JwtAlgorithm,
        id: Option<&str>,
        signed: &[u8],
        signature: &[u8],
    ) -> Result<(), Unverified> {
        let is_meant = |key: &&Key| id.is_none() || key.id.is_none() || key.id.as_deref() == id;
        let meant = self.keys.iter().filter(is_meant).filter_map(|key| {
            let found = key.verifiers.iter().find(|(known, _)| *known == algorithm);
            found.map(|(_, verifier)| verifier)
        });
        let mut failed = Unverified::NoKey;
        for verifier in meant.take(MAX_TRIES) {
            if verifier.verify(signed, signature) {
                return Ok(());
            }
            failed = Unverified::Signature;
        }
        Err(failed)
    }
}

/// The keys that a set lists.
fn list_in(bytes: &[u8]) -> Result<Vec<Value>, String> {
    let mut members =
        json::object(bytes).ok_or("it is not a JSON object, or a member appears twice")?;
    let Some(Value::Array(list)) = members.remove("keys") else {
        return Err("it has no `keys` array".to_owned());
    };
    if list.len() > MAX_KEYS {
        return Err(format!("it has {} keys; the maximum is {MAX_KEYS}", list.len()));
    }
    Ok(list)
}

impl Key {
    /// A key for those of the algorithms that fit it; none where none does.
    fn new(id: Option<String>, material: &Material, algorithms: &[JwtAlgorithm]) -> Option<Key> {
        let verifier =
            |algorithm: &JwtAlgorithm| Some((*algorithm, material.verifier(*algorithm)?));
        let verifiers: Vec<_> = algorithms.iter().filter_map(verifier).collect();
        (!verifiers.is_empty()).then_some(Key { id, verifiers })
    }
}

impl Verifier {
    fn verify(&self, signed: &[u8], signature: &[u8]) -> bool {
        match self {
            Verifier::Secret(key) => hmac::verify(key, signed, signature).is_ok(),
            Verifier::Public(key) => key.verify_sig(signed, signature).is_ok(),
        }
    }
}

impl Material {
    /// The key for that algorithm, where its type fits and it is long enough.
    fn verifier(&self, algorithm: JwtAlgorithm) -> Option<Verifier> {
        use JwtAlgorithm::{Ed25519, EdDsa, Es256, Es256K, Es384, Es512};
        let parsed = match (self, algorithm) {
            (Material::Secret(secret), _) => return secret_for(secret, algorithm),
            (Material::P256(point), Es256) => ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point),
            (Material::P384(point), Es384) => ParsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point),
            (Material::P521(point), Es512) => ParsedPublicKey::new(&ECDSA_P521_SHA512_FIXED, point),
            (Material::P256K1(point), Es256K) => {
                ParsedPublicKey::new(&ECDSA_P256K1_SHA256_FIXED, point)
            }
            (Material::Ed25519(point), EdDsa | Ed25519) => ParsedPublicKey::new(&ED25519, point),
            (Material::Rsa { modulus, exponent }, _) => {
                let scheme = match algorithm {
                    JwtAlgorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
                    JwtAlgorithm::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
                    JwtAlgorithm::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
                    JwtAlgorithm::Ps256 => &RSA_PSS_2048_8192_SHA256,
                    JwtAlgorithm::Ps384 => &RSA_PSS_2048_8192_SHA384,
                    JwtAlgorithm::Ps512 => &RSA_PSS_2048_8192_SHA512,
                    _ => return None,
                };
                if !RSA_BITS.contains(&bits(modulus)) {
                    return None;
                }
                let components = RsaPublicKeyComponents { n: modulus, e: exponent };
                components.to_parsed_public_key(scheme)
            }
            _ => return None,
        };
        parsed.ok().map(Verifier::Public)
    }
}

fn secret_for(secret: &[u8], algorithm: JwtAlgorithm) -> Option<Verifier> {
    let hash = match algorithm {
        JwtAlgorithm::Hs256 => hmac::HMAC_SHA256,
        JwtAlgorithm::Hs384 => hmac::HMAC_SHA384,
        JwtAlgorithm::Hs512 => hmac::HMAC_SHA512,
        _ => return None,
    };
    let is_enough = algorithm.min_secret().is_some_and(|min| secret.len() >= min);
    is_enough.then(|| Verifier::Secret(Box::new(hmac::Key::new(hash, secret))))
}

/// How long a number without leading zeros is.
fn bits(number: &[u8]) -> usize {
    let zeros = number.first().map_or(0, |first| first.leading_zeros() as usize);
    number.len() * 8 - zeros
}

/// The secret that a file is.
fn secret_in(bytes: &[u8]) -> Result<Material, String> {
    if bytes.starts_with(b"-----BEGIN") {
        return Err("it contains a key or certificate in PEM format, which is not a shared secret"
            .to_owned());
    }
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    Ok(Material::Secret(line.strip_suffix(b"\r").unwrap_or(line).to_vec()))
}

/// The public keys in a PEM file; where there are none, that of its first certificate.
fn public_keys_in(bytes: &[u8]) -> Result<Vec<Material>, String> {
    let no_pem = |error| format!("it is not a PEM file: {error}");
    let keys = SubjectPublicKeyInfoDer::pem_slice_iter(bytes);
    let keys = keys.collect::<Result<Vec<_>, _>>().map_err(no_pem)?;
    if !keys.is_empty() {
        return keys.iter().map(|key| material_of(key)).collect();
    }
    let certificate = CertificateDer::pem_slice_iter(bytes).next();
    let certificate = certificate.ok_or_else(|| no_public_key(bytes))?;
    let certificate = certificate.map_err(no_pem)?;
    let (_, parsed) = X509Certificate::from_der(&certificate)
        .map_err(|error| format!("its certificate cannot be read: {error}"))?;
    material_of(parsed.public_key().raw).map(|material| vec![material])
}

/// What a file is that holds no public key.
fn no_public_key(bytes: &[u8]) -> &'static str {
    const PRIVATE: &[u8] = b"PRIVATE KEY-----";
    match bytes.windows(PRIVATE.len()).any(|it| it == PRIVATE) {
        true => "it contains a private key: extract the public key with `openssl pkey -pubout`",
        false => "it contains no public key or certificate in PEM format",
    }
}

/// The key in a SubjectPublicKeyInfo (RFC 5280 section 4.1.2.7).
fn material_of(der: &[u8]) -> Result<Material, String> {
    const P256: &str = "1.2.840.10045.3.1.7";
    const P384: &str = "1.3.132.0.34";
    const P521: &str = "1.3.132.0.35";
    const P256K1: &str = "1.3.132.0.10";
    const ED25519: &str = "1.3.101.112";
    let (rest, info) = SubjectPublicKeyInfo::from_der(der)
        .map_err(|error| format!("its public key cannot be read: {error}"))?;
    if !rest.is_empty() {
        return Err("there is extra data after its public key".to_owned());
    }
    let bytes = info.subject_public_key.data.to_vec();
    if info.algorithm.algorithm.to_id_string() == ED25519 {
        return Ok(Material::Ed25519(bytes));
    }
    let curve = info.algorithm.parameters.as_ref().and_then(|it| it.as_oid().ok());
    let curve = curve.map(|oid| oid.to_id_string()).unwrap_or_default();
    match info.parsed() {
        Ok(PublicKey::RSA(key)) => Ok(Material::Rsa {
            modulus: without_zeros(key.modulus),
            exponent: without_zeros(key.exponent),
        }),
        Ok(PublicKey::EC(_)) if curve == P256 => Ok(Material::P256(bytes)),
        Ok(PublicKey::EC(_)) if curve == P384 => Ok(Material::P384(bytes)),
        Ok(PublicKey::EC(_)) if curve == P521 => Ok(Material::P521(bytes)),
        Ok(PublicKey::EC(_)) if curve == P256K1 => Ok(Material::P256K1(bytes)),
        _ => Err("its public key is not one of RSA, P-256, P-384, P-521, secp256k1 or Ed25519"
            .to_owned()),
    }
}

fn without_zeros(number: &[u8]) -> Vec<u8> {
    number.iter().copied().skip_while(|byte| *byte == 0).collect()
}

/// A key of a set (RFC 7517 section 4), where it is for signatures and fits one of the algorithms.
fn key_of(jwk: &Map<String, Value>, algorithms: &[JwtAlgorithm]) -> Option<Key> {
    let text = |name: &str| jwk.get(name).and_then(Value::as_str);
    if text("use").is_some_and(|it| it != "sig") {
        return None;
    }
    if let Some(operations) = jwk.get("key_ops") {
        let can_verify = |it: &Value| it.as_str() == Some("verify");
        operations.as_array()?.iter().find(|it| can_verify(it))?;
    }
    let id = match jwk.get("kid") {
        None => None,
        Some(id) => Some(id.as_str()?.to_owned()),
    };
    let material = material_of_jwk(jwk)?;
    let bound = match jwk.get("alg") {
        None => algorithms.to_vec(),
        Some(named) => {
            let bound = JwtAlgorithm::named(named.as_str()?)?;
            algorithms.iter().copied().filter(|it| it.signs_like(bound)).collect()
        }
    };
    Key::new(id, &material, &bound)
}

fn material_of_jwk(jwk: &Map<String, Value>) -> Option<Material> {
    let text = |name: &str| jwk.get(name).and_then(Value::as_str);
    let bytes = |name: &str| decode(text(name)?.as_bytes()).ok();
    let point = |length: usize| {
        let (x, y) = (bytes("x")?, bytes("y")?);
        (x.len() == length && y.len() == length).then(|| [&[4], x.as_slice(), &y].concat())
    };
    match (text("kty")?, text("crv")) {
        ("RSA", _) => Some(Material::Rsa { modulus: bytes("n")?, exponent: bytes("e")? }),
        ("EC", Some("P-256")) => point(32).map(Material::P256),
        ("EC", Some("P-384")) => point(48).map(Material::P384),
        ("EC", Some("P-521")) => point(66).map(Material::P521),
        ("EC", Some("secp256k1")) => point(32).map(Material::P256K1),
        ("OKP", Some("Ed25519")) => bytes("x").filter(|it| it.len() == 32).map(Material::Ed25519),
        ("oct", _) => bytes("k").map(Material::Secret),
        _ => None,
    }
}
