//! Tokens of clients that have validated their addresses (RFC 9000 section 8.1): sealed with a key that only this process has. Those of
//! Retry packets are marked as well, so that the process after it sees whose they are, and that they are not of another server, which a
//! client may have visited under the same name. Those of clients that come back are not: these begin anew, with whichever process.

use aws_lc_rs::hkdf;
use quinn_proto::crypto::{AeadKey, CryptoError, HandshakeTokenKey};

/// What tokens are sealed with.
pub(super) struct TokenKey(hkdf::Prk);

/// The key of one token.
struct MarkingKey(Box<dyn AeadKey>);

/// What a token begins with, before it is sealed, that is not of a Retry packet.
const RETURNING: u8 = 1;
/// What stands behind what is sealed, with the nonce behind it. Random once, and the same for all processes of all versions.
const MARK: [u8; 8] = [0x9b, 0x4e, 0xd1, 0x27, 0x60, 0xf3, 0x8a, 0x15];
const NONCE: usize = 16;

impl TokenKey {
    pub(super) fn new(secret: &[u8]) -> TokenKey {
        TokenKey(hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(secret))
    }
}

/// Whether a process of this program has made a token for a Retry packet.
pub(super) fn is_marked(token: &[u8]) -> bool {
    token.len().checked_sub(NONCE).is_some_and(|end| token[..end].ends_with(&MARK))
}

impl HandshakeTokenKey for TokenKey {
    fn aead_from_hkdf(&self, random_bytes: &[u8]) -> Box<dyn AeadKey> {
        Box::new(MarkingKey(self.0.aead_from_hkdf(random_bytes)))
    }
}

impl AeadKey for MarkingKey {
    fn seal(&self, data: &mut Vec<u8>, additional_data: &[u8]) -> Result<(), CryptoError> {
        let is_marked = data.first() != Some(&RETURNING);
        self.0.seal(data, additional_data)?;
        if is_marked {
            data.extend_from_slice(&MARK);
        }
        Ok(())
    }

    fn open<'a>(
        &self,
        data: &'a mut [u8],
        additional_data: &[u8],
    ) -> Result<&'a mut [u8], CryptoError> {
        let end = data.strip_suffix(&MARK).map_or(data.len(), <[u8]>::len);
        self.0.open(&mut data[..end], additional_data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_is_marked_and_opened_by_the_same_key_alone() {
        let (own, other) = (TokenKey::new(&[1; 64]), TokenKey::new(&[2; 64]));
        let nonce = [7; NONCE];
        let mut sealed = b"token".to_vec();
        own.aead_from_hkdf(&nonce).seal(&mut sealed, &[]).unwrap();
        assert!(is_marked(&[&sealed[..], &nonce].concat()));
        assert!(!is_marked(&sealed) && !is_marked(&[3; 100]) && !is_marked(b""));
        let open = |key: &TokenKey, sealed: &[u8]| {
            let mut sealed = sealed.to_vec();
            key.aead_from_hkdf(&nonce).open(&mut sealed, &[]).ok().map(|opened| opened.to_vec())
        };
        assert_eq!(open(&own, &sealed).as_deref(), Some(&b"token"[..]));
        assert_eq!(open(&other, &sealed), None);
        let whole = sealed.len() - MARK.len();
        assert!((0..whole).all(|end| open(&own, &sealed[..end]).is_none()));
    }

    #[test]
    fn one_of_a_client_that_comes_back_has_no_mark() {
        let (key, nonce) = (TokenKey::new(&[1; 64]), [7; NONCE]);
        let mut sealed = vec![RETURNING, 2, 3];
        key.aead_from_hkdf(&nonce).seal(&mut sealed, &[]).unwrap();
        assert!(!is_marked(&[&sealed[..], &nonce].concat()));
        assert_eq!(key.aead_from_hkdf(&nonce).open(&mut sealed, &[]).unwrap(), [RETURNING, 2, 3]);
    }
}
