//! The certificates of a run: one for each kind of key, signed by itself, made anew and thrown away with it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RsaKeySize};
use titan_bench::tls;

use crate::launch;

/// What a proxy proves itself with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    EcdsaP256,
    Rsa2048,
}

/// The files of one certificate.
pub struct Files {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The two in one, as HAProxy wants them.
    pub both: PathBuf,
}

impl Key {
    const ALL: [Self; 2] = [Self::EcdsaP256, Self::Rsa2048];

    /// Where [`write_all`] puts its files.
    pub fn files(self) -> Files {
        let name = match self {
            Self::EcdsaP256 => "ecdsa",
            Self::Rsa2048 => "rsa",
        };
        let file = |ending: &str| folder().join(format!("{name}.{ending}"));
        Files { certificate: file("crt"), key: file("key"), both: file("pem") }
    }

    fn pair(self) -> Result<KeyPair, rcgen::Error> {
        match self {
            Self::EcdsaP256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
            Self::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
        }
    }
}

/// Makes a certificate for each kind of key.
pub fn write_all() -> io::Result<()> {
    launch::run_directory(FOLDER)?;
    Key::ALL.into_iter().try_for_each(write)
}

const FOLDER: &str = "keys";

/// Where the files of a run's secrets are.
pub fn folder() -> PathBuf {
    launch::scratch().join(Path::new(FOLDER))
}

fn write(kind: Key) -> io::Result<()> {
    let pair = kind.pair().map_err(io::Error::other)?;
    let params = CertificateParams::new([tls::NAME.to_owned()]).map_err(io::Error::other)?;
    let certificate = params.self_signed(&pair).map_err(io::Error::other)?.pem();
    let (key, files) = (pair.serialize_pem(), kind.files());
    fs::write(files.certificate, &certificate)?;
    fs::write(files.key, &key)?;
    fs::write(files.both, certificate + &key)
}
