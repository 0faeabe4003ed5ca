//! What requests carry for the policies: tokens, signed anew for each run, and other field lines.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};

use crate::keys;

/// As many as a gateway's cache has to hold.
const MANY: usize = 10_000;
/// What CORS is measured with, as the definitions let it in.
const ORIGIN: &str = "Origin: https://app.bench.example\r\n";

/// The places of definitions that stand for files of keys.
pub fn key_files() -> [(&'static str, PathBuf); 2] {
    [("{{secret}}", file("secret")), ("{{public}}", file("public.pem"))]
}

/// The file with the field lines of that name.
pub fn field_file(name: &str) -> PathBuf {
    file(name)
}

/// Makes the keys and everything that is signed with them.
pub fn write_all() -> io::Result<()> {
    let secret = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
    fs::write(file("secret"), SECRET)?;
    let pair =
        EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(io::Error::other)?;
    fs::write(file("public.pem"), public_pem(&pair)?)?;
    let hs256 = |text: &str| Ok(hmac::sign(&secret, text.as_bytes()).as_ref().to_vec());
    let es256 = |text: &str| {
        let signature = pair.sign(&SystemRandom::new(), text.as_bytes());
        Ok(signature.map_err(io::Error::other)?.as_ref().to_vec())
    };
    for (count, name) in [(1, "1"), (MANY, "10000")] {
        write(&format!("hs256-{name}"), &tokens("HS256", count, hs256)?)?;
        write(&format!("es256-{name}"), &tokens("ES256", count, es256)?)?;
    }
    write("origin", &[ORIGIN.to_owned()])?;
    write("all", &[tokens("HS256", 1, hs256)?.concat() + ORIGIN])
}

/// It protects nothing: what it signs is for the gateway of this run.
const SECRET: &[u8] = b"the secret of a run of the benchmark, which signs tokens for nobody else";

fn file(name: &str) -> PathBuf {
    keys::folder().join(name)
}

fn write(name: &str, fields: &[String]) -> io::Result<()> {
    fs::write(file(name), serde_json::to_vec(fields)?)
}

/// So many lines of `Authorization`, each with a token of its own as identity providers make them.
fn tokens(
    algorithm: &str,
    count: usize,
    sign: impl Fn(&str) -> io::Result<Vec<u8>>,
) -> io::Result<Vec<String>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?.as_secs();
    let header = BASE64_URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"{algorithm}","typ":"JWT"}}"#));
    let line = |number| {
        let claims = serde_json::json!({
            "iss": "https://id.bench.example",
            "aud": "bench",
            "sub": format!("user-{number:05}"),
            "iat": now,
            "exp": now + 24 * 3600,
            "scope": "read write",
            "jti": format!("{number:032x}"),
        });
        let signed = format!("{header}.{}", BASE64_URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = BASE64_URL_SAFE_NO_PAD.encode(sign(&signed)?);
        Ok(format!("Authorization: Bearer {signed}.{signature}\r\n"))
    };
    (0..count).map(line).collect()
}

fn public_pem(pair: &EcdsaKeyPair) -> io::Result<String> {
    let der: PublicKeyX509Der<'_> = pair.public_key().as_der().map_err(io::Error::other)?;
    let text = BASE64_STANDARD.encode(der.as_ref());
    Ok(format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n"))
}
