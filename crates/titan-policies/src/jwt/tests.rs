//! What makes a token valid, and everything that must not: the classes of RFC 8725 and of the lists of attacks.

mod claims;
mod later;
mod requests;

use super::*;
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING,
    ECDSA_P256K1_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING,
    ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair,
    RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
    RSA_PSS_SHA512, RsaKeyPair, RsaSignatureEncoding,
};
use aws_lc_rs::{hmac, rsa::KeySize};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use std::sync::LazyLock;
use titan_io::registry::Registry;

const NOW: u64 = 1_700_000_000;
const SECRET: &[u8] = b"a secret of sixty-four bytes, which is as many as HS512 asks for";
const HS256: &str = "{\"alg\":\"HS256\"}";
const GOOD: &str = "{\"exp\":1700000060}";

struct Signers {
    rsa: RsaKeyPair,
    p256: EcdsaKeyPair,
    p384: EcdsaKeyPair,
    p521: EcdsaKeyPair,
    p256k1: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
}

static SIGNERS: LazyLock<Signers> = LazyLock::new(|| {
    let ec = |algorithm| EcdsaKeyPair::generate(algorithm).unwrap();
    Signers {
        rsa: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
        p256: ec(&ECDSA_P256_SHA256_FIXED_SIGNING),
        p384: ec(&ECDSA_P384_SHA384_FIXED_SIGNING),
        p521: ec(&ECDSA_P521_SHA512_FIXED_SIGNING),
        p256k1: ec(&ECDSA_P256K1_SHA256_FIXED_SIGNING),
        ed25519: Ed25519KeyPair::generate().unwrap(),
    }
});

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A signature of that algorithm, by the keys above.
fn sign(algorithm: &str, signed: &[u8]) -> Vec<u8> {
    let rsa = |scheme: &'static RsaSignatureEncoding| {
        let rsa = &SIGNERS.rsa;
        let mut signature = vec![0; rsa.public_modulus_len()];
        rsa.sign(scheme, &SystemRandom::new(), signed, &mut signature).unwrap();
        signature
    };
    let ec = |key: &EcdsaKeyPair| key.sign(&SystemRandom::new(), signed).unwrap().as_ref().to_vec();
    let secret = |hash| hmac::sign(&hmac::Key::new(hash, SECRET), signed).as_ref().to_vec();
    match algorithm {
        "RS256" => rsa(&RSA_PKCS1_SHA256),
        "RS384" => rsa(&RSA_PKCS1_SHA384),
        "RS512" => rsa(&RSA_PKCS1_SHA512),
        "PS256" => rsa(&RSA_PSS_SHA256),
        "PS384" => rsa(&RSA_PSS_SHA384),
        "PS512" => rsa(&RSA_PSS_SHA512),
        "ES256" => ec(&SIGNERS.p256),
        "ES384" => ec(&SIGNERS.p384),
        "ES512" => ec(&SIGNERS.p521),
        "ES256K" => ec(&SIGNERS.p256k1),
        "EdDSA" | "Ed25519" => SIGNERS.ed25519.sign(signed).as_ref().to_vec(),
        "HS384" => secret(hmac::HMAC_SHA384),
        "HS512" => secret(hmac::HMAC_SHA512),
        _ => secret(hmac::HMAC_SHA256),
    }
}

/// A token with that header, signed as `algorithm`.
fn token_as(algorithm: &str, header: &str, claims: &str) -> String {
    let signed = format!("{}.{}", encoded(header), encoded(claims));
    let signature = encoded(sign(algorithm, signed.as_bytes()));
    format!("{signed}.{signature}")
}

fn token(claims: &str) -> String {
    token_as("HS256", HS256, claims)
}

/// The public key for an algorithm, as PEM.
fn pem(algorithm: &str) -> String {
    format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        STANDARD.encode(public(algorithm))
    )
}

fn public(algorithm: &str) -> Vec<u8> {
    let der: Result<PublicKeyX509Der<'_>, _> = match algorithm {
        "ES256" => SIGNERS.p256.public_key().as_der(),
        "ES384" => SIGNERS.p384.public_key().as_der(),
        "ES512" => SIGNERS.p521.public_key().as_der(),
        "ES256K" => SIGNERS.p256k1.public_key().as_der(),
        "EdDSA" | "Ed25519" => SIGNERS.ed25519.public_key().as_der(),
        _ => SIGNERS.rsa.public_key().as_der(),
    };
    der.unwrap().as_ref().to_vec()
}

/// The public key for an algorithm as a member of a key set, with these members too.
fn jwk(algorithm: &str, more: &str) -> String {
    use x509_parser::prelude::FromDer;
    let ec = |key: &EcdsaKeyPair, curve: &str| {
        let point = key.public_key().as_ref();
        let (x, y) = point[1..].split_at(point.len() / 2);
        format!(
            "\"kty\":\"EC\",\"crv\":\"{curve}\",\"x\":\"{}\",\"y\":\"{}\"",
            encoded(x),
            encoded(y)
        )
    };
    let members = match algorithm {
        "ES256" => ec(&SIGNERS.p256, "P-256"),
        "ES384" => ec(&SIGNERS.p384, "P-384"),
        "ES512" => ec(&SIGNERS.p521, "P-521"),
        "ES256K" => ec(&SIGNERS.p256k1, "secp256k1"),
        "EdDSA" | "Ed25519" => {
            let x = encoded(SIGNERS.ed25519.public_key().as_ref());
            format!("\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"{x}\"")
        }
        "HS256" | "HS384" | "HS512" => format!("\"kty\":\"oct\",\"k\":\"{}\"", encoded(SECRET)),
        _ => {
            let der = public("RS256");
            let (_, info) = x509_parser::x509::SubjectPublicKeyInfo::from_der(&der).unwrap();
            let Ok(x509_parser::public_key::PublicKey::RSA(key)) = info.parsed() else {
                panic!("it is a key of RSA")
            };
            let plain = |it: &[u8]| encoded(it.strip_prefix(&[0]).unwrap_or(it));
            let (n, e) = (plain(key.modulus), plain(key.exponent));
            format!("\"kty\":\"RSA\",\"n\":\"{n}\",\"e\":\"{e}\"")
        }
    };
    format!("{{{members}{more}}}")
}

fn set(keys: &[String]) -> String {
    format!("{{\"keys\":[{}]}}", keys.join(","))
}

/// A policy with these fields, and a file `k` that holds that.
fn try_policy(fields: &str, file: &str) -> Result<Jwt, BadCredentials> {
    let registry = Registry::default();
    later::try_later(&registry, ("p", fields), file.as_bytes(), &None).map(|(policy, _)| policy)
}

fn policy(fields: &str, file: &str) -> Jwt {
    try_policy(fields, file).unwrap_or_else(|bad| panic!("{bad}"))
}

/// One with a provider that lists these algorithms, and keys of that kind in a file.
fn with(algorithms: &str, kind: &str, file: &str) -> Jwt {
    policy(&format!("providers: {{ algorithms: [{algorithms}], keys: {{ {kind}: k }} }}"), file)
}

/// One with the secret, and more fields.
fn secret(more: &str) -> Jwt {
    let secret = std::str::from_utf8(SECRET).unwrap();
    policy(
        &format!("providers: {{ algorithms: HS256, keys: {{ secret_file: k }} }}, {more}"),
        secret,
    )
}

fn judge(policy: &Jwt, token: &str) -> Result<(), Refusal> {
    policy.verify(token.as_bytes(), Duration::from_secs(NOW)).map(drop)
}

const ALL: [&str; 15] = [
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256",
    "ES384", "ES512", "ES256K", "EdDSA", "Ed25519",
];

fn header_of(algorithm: &str) -> String {
    format!("{{\"alg\":\"{algorithm}\",\"typ\":\"JWT\"}}")
}

#[test]
fn every_algorithm_verifies_with_its_key_and_with_no_other() {
    for algorithm in ALL {
        let good = token_as(algorithm, &header_of(algorithm), GOOD);
        for listed in ALL {
            let policy = with(listed, "jwks", &set(&[jwk(listed, "")]));
            let wanted = if listed == algorithm { Ok(()) } else { Err(Refusal::Key) };
            assert_eq!(judge(&policy, &good), wanted, "{algorithm} with a key for {listed}");
        }
    }
}

/// RFC 9864 has another name for what RFC 8037 calls `EdDSA`: a provider may change one before the other.
#[test]
fn a_key_under_either_name_of_ed25519_verifies_tokens_under_both() {
    for named in ["EdDSA", "Ed25519"] {
        let bound = set(&[jwk(named, &format!(",\"alg\":\"{named}\""))]);
        for algorithm in ["EdDSA", "Ed25519"] {
            let good = token_as(algorithm, &header_of(algorithm), GOOD);
            assert_eq!(judge(&with("EdDSA, Ed25519", "jwks", &bound), &good), Ok(()));
            let listed = judge(&with(named, "jwks", &bound), &good);
            let wanted = if named == algorithm { Ok(()) } else { Err(Refusal::Key) };
            assert_eq!(listed, wanted, "the policy lists {named} alone");
        }
    }
}

#[test]
fn keys_come_from_pem_files_too() {
    for algorithm in &ALL[3..] {
        let good = token_as(algorithm, &header_of(algorithm), GOOD);
        assert_eq!(judge(&with(algorithm, "pem", &pem(algorithm)), &good), Ok(()), "{algorithm}");
    }
}

/// Examples of RFC 7515, appendices A.1 to A.3.
#[test]
fn the_examples_of_the_standard_verify() {
    let claims = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    let cases = [
        (
            "HS256",
            "{\"kty\":\"oct\",\"k\":\"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow\"}",
            "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9",
            "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
        ),
        (
            "ES256",
            "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\",\
             \"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}",
            "eyJhbGciOiJFUzI1NiJ9",
            "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
        ),
    ];
    for (algorithm, key, header, signature) in cases {
        let policy = with(algorithm, "jwks", &set(&[key.to_owned()]));
        let token = format!("{header}.{claims}.{signature}");
        let at = |seconds| policy.verify(token.as_bytes(), Duration::from_secs(seconds)).map(drop);
        assert_eq!(at(1_300_819_380), Ok(()), "{algorithm}");
        assert_eq!(at(1_300_819_380 + 30), Err(Refusal::Expired), "{algorithm}");
    }
}

#[test]
fn no_token_says_that_it_needs_no_signature() {
    let policies = [secret(""), with("ES256", "pem", &pem("ES256"))];
    for name in
        ["none", "None", "NONE", "nOnE", "", "HS256 ", " HS256", "hs256", "HS1", "RS256\\u0000"]
    {
        let signed = format!("{}.{}", encoded(format!("{{\"alg\":\"{name}\"}}")), encoded(GOOD));
        let hmac = encoded(sign("HS256", signed.as_bytes()));
        for policy in &policies {
            for token in [format!("{signed}."), format!("{signed}.{hmac}"), format!("{signed}.AA")]
            {
                assert_eq!(judge(policy, &token), Err(Refusal::Algorithm), "{name}");
            }
        }
    }
    for header in
        ["{}", "{\"alg\":null}", "{\"alg\":[\"HS256\"]}", "{\"alg\":256}", "{\"ALG\":\"HS256\"}"]
    {
        let token = token_as("HS256", header, GOOD);
        assert_eq!(judge(&policies[0], &token), Err(Refusal::Algorithm), "{header}");
    }
    let unsigned = format!("{}.{}.", encoded(HS256), encoded(GOOD));
    assert_eq!(judge(&policies[0], &unsigned), Err(Refusal::Signature));
}

#[test]
fn a_public_key_is_no_shared_secret() {
    let pem = pem("RS256");
    let signed = format!("{}.{}", encoded(HS256), encoded(GOOD));
    let der = public("RS256");
    let keys = [pem.as_bytes(), pem.trim_end().as_bytes(), &der];
    let policies = [
        with("RS256", "pem", &pem),
        with("RS256", "jwks", &set(&[jwk("RS256", "")])),
        with("RS256, HS256", "jwks", &set(&[jwk("RS256", ""), jwk("ES256", "")])),
    ];
    for key in keys {
        let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), signed.as_bytes());
        let token = format!("{signed}.{}", encoded(signature));
        for policy in &policies {
            assert_eq!(judge(policy, &token), Err(Refusal::Key));
        }
    }
    let fields = "providers: { algorithms: HS256, keys: { secret_file: k } }";
    let bad = try_policy(fields, &pem).err().unwrap().to_string();
    assert!(bad.contains("not a shared secret"), "{bad}");
}

#[test]
fn a_token_brings_no_keys_and_changes_no_rules() {
    let own = jwk("ES256", "");
    let members = [
        ("jku", "\"https://evil.example/keys\""),
        ("x5u", "\"https://evil.example/chain\""),
        ("jwk", own.as_str()),
        ("x5c", "[\"AAAA\"]"),
        ("crit", "[\"exp\"]"),
        ("crit", "[]"),
        ("crit", "[\"b64\"]"),
        ("b64", "false"),
        ("b64", "true"),
        ("zip", "\"DEF\""),
        ("enc", "\"A256GCM\""),
        ("cty", "\"JWT\""),
        ("cty", "\"application/jwt\""),
        ("kid", "7"),
        ("kid", "null"),
        ("kid", "[\"a\"]"),
        ("typ", "{}"),
    ];
    for (name, value) in members {
        let header = format!("{{\"alg\":\"HS256\",\"{name}\":{value}}}");
        let found = judge(&secret(""), &token_as("HS256", &header, GOOD));
        assert_eq!(found, Err(Refusal::Header), "{header}");
    }
    // A key of its own signs, and the header shows that key.
    let header = format!("{{\"alg\":\"ES256\",\"jwk\":{own}}}");
    let policy = with("RS256, ES256", "jwks", &set(&[jwk("RS256", "")]));
    assert_eq!(judge(&policy, &token_as("ES256", &header, GOOD)), Err(Refusal::Header));
    let harmless = "{\"alg\":\"HS256\",\"x5t\":\"AAAA\",\"custom\":{\"a\":[1]}}";
    assert_eq!(judge(&secret(""), &token_as("HS256", harmless, GOOD)), Ok(()));
}

#[test]
fn the_name_of_a_key_is_compared_and_nothing_else() {
    let keys = set(&[jwk("HS256", ",\"kid\":\"one\""), jwk("RS256", ",\"kid\":\"two\"")]);
    let policy = with("HS256, RS256", "jwks", &keys);
    let under = |id: &str| {
        let header = format!("{{\"alg\":\"HS256\",\"kid\":\"{id}\"}}");
        judge(&policy, &token_as("HS256", &header, GOOD))
    };
    assert_eq!(under("one"), Ok(()));
    for id in [
        "two",
        "",
        "ONE",
        "one ",
        "../../../../dev/null",
        "/proc/sys/kernel/randomize_va_space",
        "' OR '1'='1",
        "one'; DROP TABLE keys; --",
        "one|sleep 10",
        "one\\u0000",
        "http://evil.example/key",
    ] {
        assert_eq!(under(id), Err(Refusal::Key), "{id}");
    }
    assert_eq!(under(&"a".repeat(257)), Err(Refusal::Header));
    assert_eq!(judge(&policy, &token(GOOD)), Ok(()), "a token may leave the name out");
}

#[test]
fn members_that_appear_twice_make_a_token_invalid() {
    for header in [
        "{\"alg\":\"HS256\",\"alg\":\"HS256\"}",
        "{\"alg\":\"none\",\"alg\":\"HS256\"}",
        "{\"alg\":\"HS256\",\"\\u0061lg\":\"HS256\"}",
        "{\"alg\":\"HS256\",}",
        "{\"alg\":\"HS256\"} x",
        "[\"HS256\"]",
    ] {
        let found = judge(&secret(""), &token_as("HS256", header, GOOD));
        assert_eq!(found, Err(Refusal::Malformed), "{header}");
    }
    for claims in [
        "{\"exp\":1,\"exp\":1700000060}",
        "{\"exp\":1700000060,\"a\":{\"b\":1,\"b\":2}}",
        "{\"exp\":1700000060,}",
        "{\"exp\":1700000060,\"a\":[1,]}",
        "{\"exp\":1e999}",
        "\"exp\"",
        "",
    ] {
        assert_eq!(judge(&secret(""), &token(claims)), Err(Refusal::Malformed), "{claims}");
    }
}

#[test]
fn there_is_one_way_to_write_a_token() {
    let good = token(GOOD);
    let policy = secret("");
    assert_eq!(judge(&policy, &good), Ok(()));
    let [header, claims, signature]: [&str; 3] =
        good.split('.').collect::<Vec<_>>().try_into().unwrap();
    let padded = format!("{header}.{claims}.{signature}=");
    // The last character of 32 bytes has two bits that do not count.
    let last = URL_SAFE_NO_PAD.decode(signature).unwrap();
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let at = alphabet.iter().position(|it| *it == *signature.as_bytes().last().unwrap()).unwrap();
    let other = char::from(alphabet[at ^ 1]);
    let loose = format!("{header}.{claims}.{}{other}", &signature[..signature.len() - 1]);
    let standard =
        format!("{header}.{claims}.{}", STANDARD.encode([&last[..], &[255; 3]].concat()));
    for text in [
        padded.as_str(),
        &loose,
        &standard,
        &format!("{header}.{claims}.{signature}\n"),
        &format!(" {good}"),
        &format!("{header}=.{claims}.{signature}"),
        &format!("{header}.{claims}."),
        &format!("{header}.{claims}"),
        &format!(".{claims}.{signature}"),
        &format!("{header}..{signature}"),
        &format!("{good}."),
        &format!("{good}.{signature}"),
        &format!("{header}.{claims}.{claims}.{signature}.{signature}"),
        "",
        ".",
        "..",
        "....",
        "a",
        "é.é.é",
    ] {
        let found = judge(&policy, text);
        let wanted = [Err(Refusal::Malformed), Err(Refusal::Signature)];
        assert!(wanted.contains(&found), "{text}: {found:?}");
    }
    assert_eq!(judge(&policy, &loose), Err(Refusal::Malformed));
    assert_eq!(judge(&policy, &padded), Err(Refusal::Malformed));
}

#[test]
fn any_change_to_a_token_makes_it_invalid() {
    for (policy, good) in [
        (secret(""), token(GOOD)),
        (with("ES256", "pem", &pem("ES256")), token_as("ES256", &header_of("ES256"), GOOD)),
        (with("EdDSA", "pem", &pem("EdDSA")), token_as("EdDSA", &header_of("EdDSA"), GOOD)),
    ] {
        assert_eq!(judge(&policy, &good), Ok(()));
        for place in 0..good.len() {
            for other in [b'A', b'b', b'.', b'='] {
                let mut changed = good.clone().into_bytes();
                if changed[place] == other {
                    continue;
                }
                changed[place] = other;
                let changed = String::from_utf8(changed).unwrap();
                assert!(judge(&policy, &changed).is_err(), "{good}\n{changed}");
            }
        }
    }
}

#[test]
fn signatures_have_one_form() {
    let signed = format!("{}.{}", encoded(header_of("ES256")), encoded(GOOD));
    let policy = with("ES256", "pem", &pem("ES256"));
    let good = sign("ES256", signed.as_bytes());
    let (r, s) = good.split_at(32);
    // The order of P-256.
    let order = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
    let order: Vec<u8> =
        (0..32).map(|at| u8::from_str_radix(&order[2 * at..2 * at + 2], 16).unwrap()).collect();
    let asn1 = |algorithm: &'static EcdsaSigningAlgorithm| {
        let key = EcdsaKeyPair::generate(algorithm).unwrap();
        key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap().as_ref().to_vec()
    };
    let cases = [
        ("psychic", vec![0; 64]),
        ("r is zero", [&[0; 32][..], s].concat()),
        ("s is zero", [r, &[0; 32]].concat()),
        ("both are the order", [&order[..], &order].concat()),
        ("r is the order", [&order[..], s].concat()),
        ("a byte too many", [&good[..], &[0]].concat()),
        ("a byte too many in front", [&[0][..], &good[..]].concat()),
        ("a byte too few", good[..63].to_vec()),
        ("ASN.1", asn1(&ECDSA_P256_SHA256_ASN1_SIGNING)),
        ("nothing", Vec::new()),
        ("another key", asn1(&ECDSA_P256_SHA256_FIXED_SIGNING)),
    ];
    for (what, signature) in cases {
        let token = format!("{signed}.{}", encoded(signature));
        assert_eq!(judge(&policy, &token), Err(Refusal::Signature), "{what}");
    }
    for algorithm in ["HS256", "RS256", "PS256", "EdDSA"] {
        let signed = format!("{}.{}", encoded(header_of(algorithm)), encoded(GOOD));
        let good = sign(algorithm, signed.as_bytes());
        let policy = with(algorithm, "jwks", &set(&[jwk(algorithm, "")]));
        let zeros = vec![0; good.len()];
        for signature in [[&good[..], &[0]].concat(), good[1..].to_vec(), zeros, Vec::new()] {
            let token = format!("{signed}.{}", encoded(signature));
            assert_eq!(judge(&policy, &token), Err(Refusal::Signature), "{algorithm}");
        }
    }
}

#[test]
fn size_and_depth_are_bounded() {
    let large = format!("{{\"exp\":1700000060,\"a\":\"{}\"}}", "x".repeat(16 << 10));
    assert_eq!(judge(&secret(""), &token(&large)), Err(Refusal::Malformed));
    let deep = format!("{{\"exp\":1700000060,\"a\":{}{}}}", "[".repeat(2_000), "]".repeat(2_000));
    assert_eq!(judge(&secret(""), &token(&deep)), Err(Refusal::Malformed));
    let wide = format!("{{\"exp\":1700000060,\"a\":[{}1]}}", "1,".repeat(5_000));
    assert_eq!(judge(&secret(""), &token(&wide)), Ok(()));
}

#[test]
fn a_key_set_has_keys_for_other_purposes_too() {
    let reads = |keys: &[String], algorithms: &str| {
        let fields = format!("providers: {{ algorithms: [{algorithms}], keys: {{ jwks: k }} }}");
        try_policy(&fields, &set(keys)).map_err(|bad| bad.to_string())
    };
    let good = token_as("RS256", &header_of("RS256"), GOOD);
    let others = [
        "{\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":\"AAAA\"}".to_owned(),
        "{\"kty\":\"new\"}".to_owned(),
        "7".to_owned(),
        jwk("ES256", ",\"use\":\"enc\""),
        jwk("RS256", ",\"use\":\"sig\",\"key_ops\":[\"verify\"]"),
    ];
    assert_eq!(judge(&reads(&others, "RS256").unwrap(), &good), Ok(()));
    // Bound by the set to an algorithm that the provider does not list.
    for only in [
        jwk("RS256", ",\"alg\":\"RS512\""),
        jwk("RS256", ",\"alg\":\"RSA-OAEP\""),
        jwk("RS256", ",\"use\":\"enc\""),
        jwk("RS256", ",\"key_ops\":[\"encrypt\"]"),
        jwk("RS256", ",\"kid\":7"),
        "{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}".to_owned(),
        "{\"kty\":\"oct\",\"k\":\"AAAA\"}".to_owned(),
        "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AAAA\",\"y\":\"AAAA\"}".to_owned(),
    ] {
        let told = reads(std::slice::from_ref(&only), "RS256, ES256, HS256").err();
        assert!(told.is_some_and(|it| it.contains("none of its keys fits")), "{only}");
    }
    let bound = reads(&[jwk("RS256", ",\"alg\":\"RS512\"")], "RS256, RS512").unwrap();
    assert_eq!(judge(&bound, &good), Err(Refusal::Key));
}

#[test]
fn a_token_is_tried_with_few_keys() {
    let keys: Vec<_> = (0..8)
        .map(|_| {
            let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
            let point = key.public_key().as_ref().to_vec();
            let (x, y) = point[1..].split_at(32);
            format!(
                "{{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"{}\",\"y\":\"{}\"}}",
                encoded(x),
                encoded(y)
            )
        })
        .collect();
    let own = jwk("ES256", "");
    let good = token_as("ES256", &header_of("ES256"), GOOD);
    let at = |place: usize| {
        let mut keys = keys.clone();
        keys.insert(place, own.clone());
        judge(&with("ES256", "jwks", &set(&keys)), &good)
    };
    assert_eq!(at(3), Ok(()));
    assert_eq!(at(4), Err(Refusal::Signature));
}

#[test]
fn files_that_are_of_no_use_say_why() {
    let says = |algorithms: &str, kind: &str, file: &str| {
        let fields = format!("providers: {{ algorithms: {algorithms}, keys: {{ {kind}: k }} }}");
        try_policy(&fields, file).err().map(|bad| bad.to_string()).unwrap_or_default()
    };
    let cases = [
        ("RS256", "pem", "nothing", "no public key or certificate"),
        ("ES256", "pem", &pem("RS256"), "does not fit any of the `algorithms`"),
        ("HS256", "secret_file", "short", "too short"),
        ("RS256", "jwks", "{", "not a JSON object"),
        ("RS256", "jwks", "{\"keys\":{}}", "no `keys` array"),
        ("RS256", "jwks", "{\"keys\":[1]}", "none of its keys"),
    ];
    for (algorithms, kind, file, wanted) in cases {
        let told = says(algorithms, kind, file);
        assert!(told.starts_with("k cannot be used: ") && told.contains(wanted), "{told}");
    }
}

#[test]
fn without_keys_no_token_is_valid() {
    let jwt = secret("");
    jwt.replace(vec![Source::Here(Arc::default())]);
    assert_eq!(judge(&jwt, &token(GOOD)), Err(Refusal::Key));
}
