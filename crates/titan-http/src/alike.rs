//! Field names that some upstreams cannot tell apart.
//!
//! CGI and its descendants make `HTTP_X_ROLE` of `X-Role`, and of `X_Role`, `X.Role` and `X~Role` as well: every
//! character that is not a letter or digit becomes `_` (RFC 3875 section 4.1.18). What protects a name must protect
//! all of these.

/// Whether two names are one to such servers.
pub fn is_alike(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && starts_alike(one, other)
}

/// Whether a name begins with `start` to such servers.
pub fn starts_alike(name: &[u8], start: &[u8]) -> bool {
    let same = |(one, other): (&u8, &u8)| fold_byte(*one) == fold_byte(*other);
    name.len() >= start.len() && name.iter().zip(start).all(same)
}

/// A name as such servers read it, with `-` in place of their `_`, in lower case.
pub fn fold_name(name: &str) -> String {
    name.chars().map(|c| u8::try_from(c).map_or('-', |byte| fold_byte(byte).into())).collect()
}

/// Whether a name consists of letters, digits and `-` alone: no two of those are alike but by case.
pub fn is_plain_name(name: &[u8]) -> bool {
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

/// What stands for a byte of a name: letters lose their case, and all that is no letter and no digit is one.
pub const fn fold_byte(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' | b'a'..=b'z' => byte,
        b'A'..=b'Z' => byte | 0x20,
        _ => b'-',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::is_token_byte;

    /// The variable that a server of CGI makes of a name (lighttpd's `http_cgi_encode_varname`).
    fn variable(name: &[u8]) -> Vec<u8> {
        let letter = |byte: &u8| match byte.is_ascii_alphanumeric() {
            true => byte.to_ascii_uppercase(),
            false => b'_',
        };
        name.iter().map(letter).collect()
    }

    #[test]
    fn names_are_alike_that_become_one_variable() {
        let bytes = || (0..=255).filter(|byte| is_token_byte(*byte));
        for (one, other) in bytes().flat_map(|one| bytes().map(move |other| (one, other))) {
            let [one, other] = [[b'X', one, b'a'], [b'x', other, b'A']];
            assert_eq!(is_alike(&one, &other), variable(&one) == variable(&other));
        }
        assert!(!is_alike(b"X-Role", b"X-Roles") && !is_alike(b"X-Role", b"XRole"));
    }

    #[test]
    fn a_start_is_alike_in_any_spelling() {
        for name in ["X-Forwarded-For", "x_forwarded.for", "X~FORWARDED|", "x-forwarded-"] {
            assert!(starts_alike(name.as_bytes(), b"X-Forwarded-"), "{name}");
        }
        for name in ["X-Forwarded", "XX-Forwarded-For", "X-ForwardedFor-"] {
            assert!(!starts_alike(name.as_bytes(), b"X-Forwarded-"), "{name}");
        }
    }

    #[test]
    fn plain_names_are_alike_only_if_they_are_equal() {
        assert!(is_plain_name(b"X-Role-2"));
        for name in ["X_Role", "X.Role", "X~Role", "X Role", "X\u{e9}"] {
            assert!(!is_plain_name(name.as_bytes()), "{name}");
            assert!(is_plain_name(fold_name(name).as_bytes()), "{name}");
        }
        assert_eq!(fold_name("X_Role.2"), "x-role-2");
    }
}
