//! Paths and queries: one normal form, and nothing hidden in it.

use titan_http::path::{Normal, escape, is_path_byte, is_unreserved, normalise};
use titan_http::query;

/// A path becomes what a plain reading of the rules says, and no further reading of that finds a dot segment. Queries
/// say the same to all who look at them, and what is escaped comes back.
pub fn path(input: &[u8]) {
    let mut scratch = b"stale".to_vec();
    let normal = match normalise(input, &mut scratch) {
        Ok(Normal::Same) => Some(input.to_vec()),
        Ok(Normal::Changed(changed)) => {
            assert_ne!(changed, input);
            Some(changed.to_vec())
        }
        Err(_) => None,
    };
    assert_eq!(normal, plainly(input));
    if let Some(normal) = normal {
        is_settled(&normal, input.len());
    }
    queries(input);
    let mut escaped = Vec::new();
    escape(input, is_unreserved, &mut escaped);
    assert_eq!(query::decode(&escaped).as_ref(), input);
}

fn is_settled(normal: &[u8], received: usize) {
    assert!(normal.len() <= received && normal.first() == Some(&b'/'));
    assert_eq!(normalise(normal, &mut Vec::new()), Ok(Normal::Same));
    let decoded = query::decode(normal);
    assert!(decoded.iter().all(|byte| !byte.is_ascii_control() && *byte != b'\\'));
    for text in [normal, &decoded[..]] {
        for segment in text.split(|byte| *byte == b'/') {
            let name = segment.split(|byte| *byte == b';').next().expect("there is one");
            assert!(!matches!(name, b"." | b".."));
        }
    }
    assert!(!normal.windows(2).any(|pair| pair == b"//"));
}

fn queries(input: &[u8]) {
    let pairs: Vec<_> = query::pairs(Some(input)).collect();
    assert!(pairs.len() <= 1 + input.iter().filter(|byte| **byte == b'&').count());
    for (name, _) in &pairs {
        let Ok(name) = std::str::from_utf8(name) else { continue };
        let all = pairs.iter().filter(|(it, _)| **it == *name.as_bytes());
        let values: Vec<_> = all.map(|(_, value)| value.clone()).collect();
        assert_eq!(query::values(Some(input), name).collect::<Vec<_>>(), values);
    }
}

/// A byte of a path, written plainly or as an escape that has to stay one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Byte {
    Plain(u8),
    Escaped(u8),
}

/// The normal form, put together the slow way: first what each byte is, then what each segment is.
fn plainly(path: &[u8]) -> Option<Vec<u8>> {
    let bytes = bytes_of(path)?;
    let (first, bytes) = bytes.split_first()?;
    if *first != Byte::Plain(b'/') {
        return None;
    }
    let (mut kept, mut is_open) = (Vec::new(), false);
    for segment in bytes.split(|byte| *byte == Byte::Plain(b'/')) {
        let text: Vec<u8> = segment.iter().flat_map(Byte::written).collect();
        is_open = true;
        match &text[..] {
            b"" | b"." => {}
            b".." => drop(kept.pop()?),
            _ if hides_dots(segment) => return None,
            _ => {
                kept.push(text);
                is_open = false;
            }
        }
    }
    let end: &[u8] = if is_open { b"/" } else { b"" };
    let mut normal: Vec<u8> = kept.iter().flat_map(|it| [&b"/"[..], it].concat()).collect();
    normal.extend_from_slice(end);
    Some(normal)
}

fn bytes_of(mut path: &[u8]) -> Option<Vec<Byte>> {
    let mut bytes = Vec::new();
    while let Some((first, rest)) = path.split_first() {
        path = rest;
        if *first != b'%' {
            bytes.push(is_path_byte(*first).then_some(Byte::Plain(*first))?);
            continue;
        }
        let (digits, rest) = path.split_at_checked(2)?;
        path = rest;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        bytes.push(match byte {
            b'\\' => return None,
            _ if byte.is_ascii_control() => return None,
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'.' | b'_' | b'~' => {
                Byte::Plain(byte)
            }
            _ => Byte::Escaped(byte),
        });
    }
    Some(bytes)
}

/// Whether a part of a segment is a dot segment to who takes `%2F` for a slash, and what follows `;` for parameters,
/// which may have come as `%3B`.
fn hides_dots(segment: &[Byte]) -> bool {
    let dot = Byte::Plain(b'.');
    let ends_name = |byte: &Byte| matches!(byte, Byte::Plain(b';') | Byte::Escaped(b';'));
    let mut parts = segment.split(|byte| *byte == Byte::Escaped(b'/'));
    parts.any(|part| {
        let name = part.split(ends_name).next().expect("there is one");
        name == [dot] || name == [dot, dot]
    })
}

impl Byte {
    fn written(&self) -> Vec<u8> {
        match self {
            Byte::Plain(byte) => vec![*byte],
            Byte::Escaped(byte) => format!("%{byte:02X}").into_bytes(),
        }
    }
}
