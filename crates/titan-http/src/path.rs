//! The one form of a path that routes, rewrites and upstreams see (RFC 3986 section 6.2.2).
//!
//! Decided here, once, because two readings of one path let attackers bypass access rules:
//!
//! | received | becomes |
//! |---|---|
//! | `%61`, `%2e` (an unreserved byte) | the byte itself |
//! | `%c3` (any other byte) | `%C3` |
//! | `/a//b` | `/a/b` |
//! | `/a/./b`, `/a/b/../c`, encoded or not | `/a/b`, `/a/c` |
//! | `/a/.`, `/a/b/..` | `/a/`, `/a/` |
//! | `/a%2Fb` | unchanged: an encoded slash separates nothing |
//! | `/%252e` | unchanged: an encoded percent sign is a percent sign |
//! | `/..`, `/a/../..` | refused: above the root |
//! | `/..%2Fa`, `/a%2F..%2Fb` | refused: a dot segment to a server that decodes once more |
//! | `/..;x/a`, `/..%3Bx/a` | refused: a dot segment to a server that drops parameters, also decoded ones |
//! | `\`, `%5C` | refused: a slash to some, a byte to others |
//! | `%00`, `%0a`, any encoded control byte | refused |
//! | `%`, `%4`, `%zz` | refused |
//!
//! Slashes are merged before `..` takes a segment away: `/a//../b` is `/b`. Doing it twice changes
//! nothing more, and a path never gets longer.

use crate::text::is_target_byte;
use std::fmt;

/// What became of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normal<'a> {
    /// It was in its normal form already.
    Same,
    /// Its normal form is another.
    Changed(&'a [u8]),
}

/// Why a path has no normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPath {
    /// It does not start with a slash.
    Relative,
    /// A byte that no path may have: white space, controls, 8-bit bytes, `?`, `#`, a backslash.
    Byte,
    /// A percent sign without two hexadecimal digits behind it.
    Escape,
    /// An encoded control byte or backslash.
    EscapedByte,
    /// More `..` than there are segments to leave.
    AboveRoot,
    /// A dot segment hidden behind an encoded slash or a segment parameter.
    HiddenDots,
}

/// Brings `path` into its normal form. `scratch` is overwritten where more than a look is needed;
/// kept from request to request it makes the call free of allocation.
///
/// The `*` of OPTIONS is no path; the caller keeps it away.
pub fn normalise<'a>(path: &[u8], scratch: &'a mut Vec<u8>) -> Result<Normal<'a>, BadPath> {
    if is_plainly_normal(path) {
        return Ok(Normal::Same);
    }
    rebuild(path, scratch)?;
    match scratch == path {
        true => Ok(Normal::Same),
        false => Ok(Normal::Changed(scratch)),
    }
}

/// Whether one look suffices. May say no to a normal path that is unusual, never yes to another.
fn is_plainly_normal(path: &[u8]) -> bool {
    if path.first() != Some(&b'/') {
        return false;
    }
    let mut at = 0;
    while at < path.len() {
        at += match CLASSES[usize::from(path[at])] {
            Class::Plain => 1,
            Class::Slash if starts_plain_segment(&path[at + 1..]) => 1,
            Class::Percent if starts_normal_escape(&path[at..]) => 3,
            Class::Slash | Class::Percent | Class::Other => return false,
        };
    }
    true
}

fn starts_plain_segment(rest: &[u8]) -> bool {
    !matches!(rest, [b'/', ..] | [b'.'] | [b'.', b'.' | b'/' | b';' | b'%', ..])
}

fn starts_normal_escape(rest: &[u8]) -> bool {
    let is_upper = |digit: u8| matches!(digit, b'0'..=b'9' | b'A'..=b'F');
    match rest {
        [_, b'2', b'F', ..] => false,
        &[_, high, low, ..] => {
            is_upper(high)
                && is_upper(low)
                && matches!(escaped_byte(rest), Ok(byte) if !is_unreserved(byte))
        }
        _ => false,
    }
}

/// Writes the normal form of `path` into `out`, segment by segment.
fn rebuild(path: &[u8], out: &mut Vec<u8>) -> Result<(), BadPath> {
    out.clear();
    let mut rest = path.strip_prefix(b"/").ok_or(BadPath::Relative)?;
    loop {
        let end = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
        let is_last = end == rest.len();
        push_segment(&rest[..end], is_last, out)?;
        if is_last {
            return Ok(());
        }
        rest = &rest[end + 1..];
    }
}

/// Adds a slash and a segment to `out`, which ends with a whole segment, or takes the last one away.
fn push_segment(segment: &[u8], is_last: bool, out: &mut Vec<u8>) -> Result<(), BadPath> {
    let before = out.len();
    out.push(b'/');
    push_bytes(segment, out)?;
    let keep = match &out[before + 1..] {
        b"" | b"." => before,
        b".." => out[..before].iter().rposition(|&o| o == b'/').ok_or(BadPath::AboveRoot)?,
        whole if hides_dots(whole) => return Err(BadPath::HiddenDots),
        _ => return Ok(()),
    };
    out.truncate(keep);
    if is_last {
        out.push(b'/');
    }
    Ok(())
}

fn push_bytes(mut segment: &[u8], out: &mut Vec<u8>) -> Result<(), BadPath> {
    while let Some((&byte, after)) = segment.split_first() {
        if byte != b'%' {
            out.push(Some(byte).filter(|&o| is_path_byte(o)).ok_or(BadPath::Byte)?);
            segment = after;
            continue;
        }
        match escaped_byte(segment)? {
            plain if is_unreserved(plain) => out.push(plain),
            _ => out.extend([b'%', after[0].to_ascii_uppercase(), after[1].to_ascii_uppercase()]),
        }
        segment = &after[2..];
    }
    Ok(())
}

/// The byte that the escape at the start of `text` stands for.
fn escaped_byte(text: &[u8]) -> Result<u8, BadPath> {
    let &[_, high, low, ..] = text else { return Err(BadPath::Escape) };
    let byte = decode_hex(high, low).ok_or(BadPath::Escape)?;
    match byte {
        0..0x20 | 0x7f | b'\\' => Err(BadPath::EscapedByte),
        _ => Ok(byte),
    }
}

/// The byte that two hexadecimal digits write.
pub fn decode_hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// Whether a server that decodes `%2F`, or drops segment parameters, would see a dot segment here.
/// It may drop them before it decodes, or after.
fn hides_dots(segment: &[u8]) -> bool {
    let mut parts = EncodedSlashes(Some(segment));
    parts.any(|part| {
        let dots = part.iter().take_while(|&&byte| byte == b'.').count();
        let is_end = matches!(&part[dots..], [] | [b';', ..] | [b'%', b'3', b'B', ..]);
        is_end && matches!(dots, 1 | 2)
    })
}

/// The parts of a segment between its `%2F`.
struct EncodedSlashes<'a>(Option<&'a [u8]>);

impl<'a> Iterator for EncodedSlashes<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.0?;
        let slash = rest.windows(3).position(|window| window == b"%2F");
        self.0 = slash.map(|at| &rest[at + 3..]);
        Some(&rest[..slash.unwrap_or(rest.len())])
    }
}

/// Whether a byte means the same with and without escape (RFC 3986 section 2.3).
pub fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Whether `byte` may stand in a path as it is.
pub const fn is_path_byte(byte: u8) -> bool {
    is_target_byte(byte) && !matches!(byte, b'?' | b'\\')
}

#[derive(Clone, Copy)]
enum Class {
    Plain,
    Slash,
    Percent,
    Other,
}

#[expect(clippy::cast_possible_truncation, reason = "the loop ends at 256")]
const CLASSES: [Class; 256] = {
    let mut table = [Class::Other; 256];
    let mut byte = 0;
    while byte < 256 {
        if is_path_byte(byte as u8) {
            table[byte] = Class::Plain;
        }
        byte += 1;
    }
    table[b'/' as usize] = Class::Slash;
    table[b'%' as usize] = Class::Percent;
    table
};

impl fmt::Display for BadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadPath::Relative => "the path does not start with a slash",
            BadPath::Byte => "the path contains a byte that is not allowed",
            BadPath::Escape => "the path has a percent sign without two hexadecimal digits",
            BadPath::EscapedByte => "the path contains an encoded control byte or backslash",
            BadPath::AboveRoot => "the path leads above the root",
            BadPath::HiddenDots => "the path hides a dot segment",
        })
    }
}

impl std::error::Error for BadPath {}

/// Writes bytes of a URI: those that are not plain are escaped.
pub fn escape(bytes: &[u8], is_plain: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in bytes {
        match is_plain(byte) {
            true => out.push(byte),
            false => {
                let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
                out.extend([b'%', DIGITS[high], DIGITS[low]]);
            }
        }
    }
}

/// Brings a path into its normal form.
pub fn settle(path: &mut Vec<u8>) -> Result<(), BadPath> {
    let mut scratch = Vec::new();
    if let Normal::Changed(_) = normalise(path, &mut scratch)? {
        *path = scratch;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn normal(path: &[u8]) -> Result<Vec<u8>, BadPath> {
        let mut scratch = Vec::new();
        Ok(match normalise(path, &mut scratch)? {
            Normal::Same => path.to_vec(),
            Normal::Changed(to) => to.to_vec(),
        })
    }

    #[track_caller]
    fn becomes(from: &str, to: &str) {
        assert_eq!(normal(from.as_bytes()).as_deref(), Ok(to.as_bytes()), "{from}");
    }

    #[track_caller]
    fn refused(path: &str, why: BadPath) {
        assert_eq!(normal(path.as_bytes()), Err(why), "{path}");
    }

    #[test]
    fn escapes_get_one_spelling() {
        becomes("/%7euser/%61%2D%5f", "/~user/a-_");
        becomes("/caf%c3%a9", "/caf%C3%A9");
        becomes("/a%3fb%23c%20d", "/a%3Fb%23c%20d");
        becomes("/%252e%252E", "/%252e%252E");
        becomes("/%25%32%65", "/%252e");
    }

    #[test]
    fn slashes_are_merged_before_dots_are_resolved() {
        becomes("//", "/");
        becomes("//a///b//", "/a/b/");
        becomes("/a//../b", "/b");
    }

    #[test]
    fn dot_segments_vanish_in_any_spelling() {
        becomes("/./a/./b", "/a/b");
        becomes("/a/%2e%2E/b", "/b");
        becomes("/a/.%2e/", "/");
        becomes("/a/b/..", "/a/");
        becomes("/a/.", "/a/");
        becomes("/a/..", "/");
        becomes("/.well-known/..a/.../a..", "/.well-known/..a/.../a..");
    }

    #[test]
    fn nothing_leads_above_the_root() {
        for path in ["/..", "/../", "/a/../..", "/./..", "//..", "/%2e%2e/a"] {
            refused(path, BadPath::AboveRoot);
        }
    }

    #[test]
    fn encoded_slashes_stay_and_separate_nothing() {
        becomes("/a%2fb/..", "/");
        becomes("/a%2fb%2F", "/a%2Fb%2F");
    }

    #[test]
    fn dots_behind_encoded_slashes_or_parameters_are_refused() {
        for path in ["/..%2fadmin", "/a%2f..%2fb", "/a/%2e%2e%2f", "/%2f.", "/a/..;/b", "/.;x=y"] {
            refused(path, BadPath::HiddenDots);
        }
        for path in ["/b/..%3b/x", "/b/..%3Bv=1/x", "/b/.%2e%3b/x", "/%2E%3b", "/a%2f..%3b/x"] {
            refused(path, BadPath::HiddenDots);
        }
        becomes("/a;..;b/..a%2f", "/a;..;b/..a%2F");
        becomes("/a%3b..%3bb/...%3b/..%253b", "/a%3B..%3Bb/...%3B/..%253b");
    }

    #[test]
    fn what_no_path_may_hold_is_refused() {
        for path in ["/a\\b", "/a b", "/a\r\n", "/\u{e9}", "/a?b", "/a#b", "/\u{7f}"] {
            refused(path, BadPath::Byte);
        }
        for path in ["/%00", "/%0a", "/%7F", "/%1f", "/%5c", "/%5C.."] {
            refused(path, BadPath::EscapedByte);
        }
        for path in ["/%", "/%4", "/%zz", "/%%41", "/a%2/b"] {
            refused(path, BadPath::Escape);
        }
        for path in ["", "*", "a/b", "http://a/"] {
            refused(path, BadPath::Relative);
        }
    }

    #[test]
    fn a_normal_path_costs_no_allocation() {
        for path in ["/", "/a/b/", "/caf%C3%A9/%20", "/.a/b.c/d..", "/a;b=c,d:@!$&'()*+"] {
            let mut scratch = Vec::new();
            assert_eq!(normalise(path.as_bytes(), &mut scratch), Ok(Normal::Same), "{path}");
            assert_eq!(scratch.capacity(), 0, "{path}");
        }
    }

    /// The same rules in whole passes over the path.
    fn naive(path: &[u8]) -> Result<Vec<u8>, ()> {
        let text = std::str::from_utf8(path).map_err(|_| ())?;
        if !text.starts_with('/') || text.contains(|c: char| !c.is_ascii_graphic()) {
            return Err(());
        }
        if text.contains(['?', '#', '\\']) {
            return Err(());
        }
        let mut decoded = String::new();
        let mut pieces = text.split('%');
        decoded.push_str(pieces.next().unwrap());
        for piece in pieces {
            let digits = piece.get(..2).filter(|it| it.bytes().all(|b| b.is_ascii_hexdigit()));
            let byte = u8::from_str_radix(digits.ok_or(())?, 16).map_err(|_| ())?;
            match byte {
                0..=31 | 127 | b'\\' => return Err(()),
                _ if is_unreserved(byte) => decoded.push(char::from(byte)),
                _ => decoded.push_str(&format!("%{byte:02X}")),
            }
            decoded.push_str(&piece[2..]);
        }
        let mut stack: Vec<&str> = Vec::new();
        for segment in decoded.split('/').filter(|it| !it.is_empty()) {
            let plain = segment.replace("%3B", ";");
            let parts = plain.split("%2F").map(|part| part.split(';').next().unwrap());
            match segment {
                "." => {}
                ".." => drop(stack.pop().ok_or(())?),
                _ if parts.clone().any(|part| part == "." || part == "..") => return Err(()),
                _ => stack.push(segment),
            }
        }
        let is_directory = ["/", "/.", "/.."].iter().any(|end| decoded.ends_with(end));
        let end = if is_directory && !stack.is_empty() { "/" } else { "" };
        Ok(format!("/{}{end}", stack.join("/")).into_bytes())
    }

    const PIECES: &[&str] = &[
        "/", "/", "/", ".", "..", "a", "b%", "%2e", "%2F", "%2f", "%25", "%5c", "%41", "%c3",
        "%0d", "%", ";", "%3b", "\\", "?", " ", "%zz", "/../", "%20",
    ];

    fn near_paths() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            20 => proptest::sample::select(PIECES).prop_map(|it| it.as_bytes().to_vec()),
            1 => any::<u8>().prop_map(|it| vec![it]),
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| {
            let mut path = b"/".to_vec();
            path.extend(pieces.concat());
            path
        })
    }

    proptest! {
        #[test]
        fn agrees_with_the_naive_twin(path in near_paths()) {
            prop_assert_eq!(normal(&path).map_err(drop), naive(&path));
        }

        #[test]
        fn doing_it_twice_changes_nothing_more(path in near_paths()) {
            if let Ok(once) = normal(&path) {
                prop_assert!(once.len() <= path.len());
                let mut scratch = Vec::new();
                prop_assert_eq!(normalise(&once, &mut scratch), Ok(Normal::Same));
            }
        }

        #[test]
        fn the_quick_look_is_never_wrong(path in near_paths()) {
            let mut scratch = Vec::new();
            if is_plainly_normal(&path) {
                prop_assert_eq!(rebuild(&path, &mut scratch), Ok(()));
                prop_assert_eq!(scratch, path);
            }
        }
    }
}
