//! Who has signed a document, and when: signatures of minisign.

use minisign_verify::{PublicKey, Signature};

/// Bytes of a signature with its comments.
pub(crate) const MAX_SIGNATURE: usize = 4 << 10;

/// What the trusted comment says before the time: minisign writes it so (`timestamp:1633700835`).
const TIME: &str = "timestamp:";

/// When that document was signed with the key, in seconds since 1970; why it was not otherwise. A signature that covers the
/// document itself and not its hash, which minisign once made, is refused.
pub(crate) fn verify(
    key: &titan_config::PublicKey,
    document: &[u8],
    signature: &[u8],
) -> Result<u64, String> {
    let no_key = |_| "its public key cannot be read".to_owned();
    let key = PublicKey::from_base64(key.as_str()).map_err(no_key)?;
    let signature = std::str::from_utf8(signature).map_err(|_| "its signature is no text")?;
    let signature = Signature::decode(signature)
        .map_err(|error| format!("its signature cannot be read: {error}"))?;
    let verified = key.verify(document, &signature, false);
    verified.map_err(|error| format!("its signature is not that of `public_key`: {error}"))?;
    time_of(signature.trusted_comment()).ok_or_else(|| {
        "its trusted comment says no time (`timestamp:SECONDS`), so that an older document could take its place".to_owned()
    })
}

/// The time in a trusted comment.
fn time_of(comment: &str) -> Option<u64> {
    let mut parts = comment.split_ascii_whitespace();
    parts.find_map(|part| part.strip_prefix(TIME))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_found_in_the_comment() {
        assert_eq!(time_of("timestamp:1633700835\tfile:test\thashed"), Some(1_633_700_835));
        for none in ["", "file:test", "timestamp:", "timestamp:-1", "timestamp:soon"] {
            assert_eq!(time_of(none), None, "{none}");
        }
    }
}
