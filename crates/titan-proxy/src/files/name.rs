//! Which file a path stands for, before it is looked up.
//!
//! | path below the route's prefix | file |
//! |---|---|
//! | `/a/b.css`, `/%C3%A9` | `a/b.css`, `é`: decoded once |
//! | `/`, nothing | the root itself |
//! | `/a%2Fb` | none: a name cannot contain a slash |
//! | `/%00`, `/a\b` | none: not usual in names, and separators on some systems |
//! | `/..`, `/%252e` | none; `%2e`: what is decoded is not decoded again |
//! | `/.env`, `/a/.git/config` | none, unless the route has `dotfiles` |
//! | `/.well-known/x` | `.well-known/x` (RFC 8615), and none below `/a/.well-known` |
//!
//! Paths come in their normal form (`path.rs`), which has no dot segments; this code does not rely on that, and the
//! kernel does not rely on this code: it opens nothing outside the root.

use titan_http::path::decode_hex;

/// The one directory whose name begins with a dot and that is public.
const WELL_KNOWN: &[u8] = b".well-known";

/// The name of a file below the root, without slashes around it; empty for the root. None where no file can
/// have that name.
pub(super) fn of_path(below: &[u8], dotfiles: bool) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(below.len());
    let below = below.strip_prefix(b"/").unwrap_or(below);
    let below = below.strip_suffix(b"/").unwrap_or(below);
    if below.is_empty() {
        return Some(name);
    }
    for segment in below.split(|&byte| byte == b'/') {
        if !name.is_empty() {
            name.push(b'/');
        }
        let start = name.len();
        decode(segment, &mut name)?;
        let decoded = &name[start..];
        let is_usable = !matches!(decoded, b"" | b"." | b"..");
        let is_shown =
            dotfiles || !decoded.starts_with(b".") || start == 0 && decoded == WELL_KNOWN;
        if !is_usable || !is_shown {
            return None;
        }
    }
    Some(name)
}

/// Writes a segment with its escapes decoded. None where a byte cannot be part of a name.
fn decode(segment: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut rest = segment;
    while let Some((&byte, after)) = rest.split_first() {
        let (byte, after) = match (byte, after) {
            (b'%', &[high, low, ref after @ ..]) => (decode_hex(high, low)?, after),
            (b'%', _) => return None,
            plain => plain,
        };
        if matches!(byte, b'/' | b'\\' | 0) {
            return None;
        }
        out.push(byte);
        rest = after;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Component, Path};
    use titan_http::path::{Normal, normalise};

    #[track_caller]
    fn is(path: &str, name: Option<&str>) {
        let found = of_path(path.as_bytes(), false);
        assert_eq!(found.as_deref(), name.map(str::as_bytes), "{path}");
    }

    #[test]
    fn names_are_decoded_once() {
        is("/a/b.css", Some("a/b.css"));
        is("/a/b/", Some("a/b"));
        is("/%C3%A9%20x", Some("é x"));
        is("/%252e%252e/a", Some("%2e%2e/a"));
        is("/..a/b..", None);
        is("/a../...b", None);
        is("/a../b...", Some("a../b..."));
        is("/", Some(""));
        is("", Some(""));
    }

    #[test]
    fn what_separates_or_leads_elsewhere_is_no_name() {
        for path in [
            "/a%2Fb",
            "/%2F",
            "/a%2f..%2fb",
            "/a\\b",
            "/%5C",
            "/%00",
            "/a%00.css",
            "/%",
            "/%4",
            "/%zz",
        ] {
            is(path, None);
        }
        for path in ["/..", "/.", "/a/../b", "/a/./b", "/%2e%2e/b", "/.%2E", "//a", "/a//b"] {
            assert_eq!(of_path(path.as_bytes(), true), None, "{path}");
        }
    }

    #[test]
    fn names_with_a_dot_in_front_are_hidden() {
        for path in
            ["/.env", "/a/.git/config", "/a/.b", "/%2eenv", "/a/.well-known/b", "/.well-known/.a"]
        {
            is(path, None);
        }
        is("/.well-known/security.txt", Some(".well-known/security.txt"));
        assert_eq!(of_path(b"/a/.git/config", true).as_deref(), Some(b"a/.git/config".as_slice()));
    }

    /// The same by way of the standard library's paths.
    fn naive(below: &str, dotfiles: bool) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        let mut pieces = below.split('%');
        text.extend_from_slice(pieces.next().unwrap().as_bytes());
        for piece in pieces {
            let digits = piece.get(..2).filter(|it| it.bytes().all(|b| b.is_ascii_hexdigit()))?;
            match u8::from_str_radix(digits, 16).ok()? {
                b'/' => return None,
                byte => text.push(byte),
            }
            text.extend_from_slice(&piece.as_bytes()[2..]);
        }
        if text.iter().any(|byte| matches!(byte, 0 | b'\\')) {
            return None;
        }
        let inner = text.strip_prefix(b"/").unwrap_or(&text);
        let inner = inner.strip_suffix(b"/").unwrap_or(inner);
        let is_dots = |part: &[u8]| matches!(part, b"." | b"..");
        let mut parts = inner.split(|byte| *byte == b'/');
        if parts.any(|part| is_dots(part) || part.is_empty() && !inner.is_empty()) {
            return None;
        }
        for (index, part) in Path::new(OsStr::from_bytes(inner)).components().enumerate() {
            let Component::Normal(part) = part else { return None };
            let is_hidden = part.as_bytes().first() == Some(&b'.');
            if is_hidden && !dotfiles && !(index == 0 && part == ".well-known") {
                return None;
            }
        }
        Some(inner.to_vec())
    }

    const PIECES: &[&str] = &[
        "/",
        "/",
        "/",
        ".",
        "..",
        "a",
        "b",
        "%2e",
        "%2F",
        "%2f",
        "%25",
        "%5c",
        "%41",
        "%00",
        "%",
        "\\",
        ".well-known",
        "/../",
        "%20",
        "%2e%2e",
        "é",
    ];

    fn near_paths() -> impl Strategy<Value = String> {
        let pieces = proptest::collection::vec(proptest::sample::select(PIECES), 0..10);
        pieces.prop_map(|pieces| format!("/{}", pieces.concat()))
    }

    proptest! {
        #[test]
        fn agrees_with_the_naive_twin(path in near_paths(), dotfiles: bool) {
            prop_assert_eq!(of_path(path.as_bytes(), dotfiles), naive(&path, dotfiles));
        }

        #[test]
        fn no_name_leads_out_of_the_root(path in near_paths()) {
            let mut scratch = Vec::new();
            let normal = match normalise(path.as_bytes(), &mut scratch) {
                Ok(Normal::Same) => path.as_bytes(),
                Ok(Normal::Changed(to)) => to,
                Err(_) => return Ok(()),
            };
            for path in [normal, path.as_bytes()] {
                let Some(name) = of_path(path, true) else { continue };
                prop_assert!(!name.starts_with(b"/") && !name.contains(&0));
                let mut segments = name.split(|&byte| byte == b'/');
                prop_assert!(segments.all(|it| it != b".." && it != b"."));
            }
        }
    }
}
