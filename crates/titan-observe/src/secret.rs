//! Names that tell that a value is secret. Pure; no I/O.

use std::collections::HashMap;
use titan_config::is_credential;
use titan_http::query;

/// What was found out about names lately: the same ones come again and again, and clients may send any.
#[derive(Debug, Default)]
pub struct SecretNames(HashMap<Box<[u8]>, bool>);

/// The name of something that records may have, and whether what has it is secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedName {
    name: Box<str>,
    is_secret: bool,
}

impl JudgedName {
    /// That name.
    pub fn new(name: impl Into<Box<str>>) -> JudgedName {
        let name = name.into();
        let is_secret = is_secret(&name);
        JudgedName { name, is_secret }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Whether what has that name is secret.
    pub fn is_secret(&self) -> bool {
        self.is_secret
    }
}

/// Whether there is an escape in it: a percent sign alone is none.
fn is_escaped(value: &[u8]) -> bool {
    value.contains(&b'%') && query::decode(value).len() < value.len()
}

/// Whether it is a token that says itself what it is (RFC 7519): three parts, of which the first is a JSON object in base64url.
fn looks_like_token(value: &[u8]) -> bool {
    value.starts_with(b"eyJ") && value.iter().filter(|byte| **byte == b'.').count() >= 2
}

/// How many names are remembered.
const REMEMBERED: usize = 1024;
/// What are secrets only as parameters of a query: as the name of a member or a field each of them is ordinary.
const OF_QUERIES: [&[u8]; 3] = [b"code", b"code_verifier", b"ticket"];
/// How deep escapes are looked into.
const MAX_DEPTH: usize = 3;
/// Longer names are not looked at: they are taken for secrets.
const MAX_NAME: usize = 256;

impl SecretNames {
    /// Whether what has that name is secret. The name may be escaped as in a URL.
    pub fn is_secret(&mut self, name: &[u8]) -> bool {
        if name.len() > MAX_NAME {
            return true;
        }
        if let Some(known) = self.0.get(name) {
            return *known;
        }
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        let text = query::decode(name);
        let is_secret = is_secret(&String::from_utf8_lossy(&text)) || OF_QUERIES.contains(&&*text);
        self.0.insert(name.into(), is_secret);
        is_secret
    }

    /// Whether a value of a query has a secret in it: it may be a URL with a query of its own, or a list of pairs.
    pub fn holds_secret(&mut self, value: &[u8]) -> bool {
        self.holds_secret_within(value, MAX_DEPTH)
    }

    fn holds_secret_within(&mut self, value: &[u8], depth: usize) -> bool {
        let value = query::decode(value);
        if looks_like_token(&value) {
            return true;
        }
        value.split(|byte| b"?&;#/,".contains(byte)).any(|pair| {
            let end = pair.iter().position(|byte| *byte == b'=');
            let has_name = end.is_some_and(|end| self.is_secret(&pair[..end]));
            let inner = end.map_or(pair, |end| &pair[end + 1..]);
            // What is escaped deeper than that is meant to hide something.
            has_name
                || is_escaped(inner) && (depth == 0 || self.holds_secret_within(inner, depth - 1))
        })
    }
}

/// Whether a member of a document or a field of a message carries what proves who somebody is, or what only they know, by its name.
/// What is no secret after all is hidden for nothing; a secret that is shown cannot be hidden again.
pub fn is_secret(name: &str) -> bool {
    /// Enough as a word among others.
    const WORDS: [&str; 16] = [
        "assertion",
        "auth",
        "csrf",
        "cvc",
        "cvv",
        "jwt",
        "key",
        "mfa",
        "otp",
        "pin",
        "pwd",
        "saml",
        "sid",
        "sig",
        "totp",
        "xsrf",
    ];
    /// Enough anywhere.
    const PARTS: [&str; 10] = [
        "authentication",
        "csrf",
        "cvv",
        "jwt",
        "oauth",
        "passcode",
        "passphrase",
        "session",
        "signature",
        "xsrf",
    ];
    let joined: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    is_credential(name)
        || PARTS.iter().any(|part| joined.contains(part))
        || words(name).iter().any(|word| WORDS.contains(&word.as_str()))
}

/// The words of a name in any of the usual notations, in lower case: `user-PIN`, `user_pin`, `userPin` and `PINCode` have `pin`. Digits
/// belong to none.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let chars: Vec<char> = name.chars().collect();
    for (index, char) in chars.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| chars[before]);
        let after = chars.get(index + 1);
        let is_first = char.is_ascii_uppercase()
            && (before.is_some_and(|before| before.is_ascii_lowercase())
                || after.is_some_and(char::is_ascii_lowercase));
        if is_first || !char.is_ascii_alphabetic() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| char.is_ascii_alphabetic()) {
            word.push(char.to_ascii_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known_in_all_notations() {
        for name in [
            "session",
            "sessionID",
            "PHPSESSIONID",
            "sid",
            "connect.sid",
            "jwt",
            "userJWT",
            "idJwt2",
            "otp",
            "otp_code",
            "PIN",
            "userPin",
            "PINCode",
            "card-pin",
            "cvv",
            "CVV2",
            "cvc",
            "csrf",
            "csrfmiddleware",
            "X-XSRF",
            "signature",
            "X-Hub-Signature-256",
            "sig",
            "auth",
            "X-Auth",
            "authData",
            "Authorization",
            "oauth",
            "apiKey",
            "privateKey",
            "publicKey",
            "key",
            "password",
            "access_token",
            "passphrase",
            "pwd",
        ] {
            assert!(is_secret(name), "{name}");
        }
    }

    #[test]
    fn other_names_are_not_taken_for_them() {
        for name in [
            "author",
            "authors",
            "pinned",
            "shipping",
            "opinion",
            "side",
            "inside",
            "residence",
            "design",
            "assigned",
            "significant",
            "keyboard",
            "monkey",
            "price",
            "id",
            "Content-Type",
            "ETag",
            "",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
