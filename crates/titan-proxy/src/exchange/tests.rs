//! What an exchange sees of a request's parts.

use super::*;

#[test]
fn the_host_of_an_authority_has_no_port() {
    let cases: [(&str, &str); 6] = [
        ("a", "a"),
        ("a:80", "a"),
        ("a:", "a"),
        ("[::1]:8", "[::1]"),
        ("[::1]", "[::1]"),
        ("a1", "a1"),
    ];
    for (authority, host) in cases {
        assert_eq!(host_of(authority.as_bytes()), host.as_bytes(), "{authority}");
    }
}
