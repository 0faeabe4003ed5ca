//! HPACK (RFC 7541) as simple as it can be: what is sent is literal, and what comes may not use Huffman code
//! or a table of its own.

use super::Head;

/// The block of these lines: each in its own bytes.
pub fn block(head: &Head) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in &head.0 {
        block.push(0);
        for text in [name, value] {
            write_integer(&mut block, text.len());
            block.extend_from_slice(text);
        }
    }
    block
}

/// A length, in seven bits of its first byte.
fn write_integer(block: &mut Vec<u8>, value: usize) {
    const MOST: usize = 127;
    let Some(mut rest) = value.checked_sub(MOST) else { return block.push(low(value)) };
    block.push(0x7f);
    while rest > MOST {
        block.push(0x80 | low(rest & MOST));
        rest >>= 7;
    }
    block.push(low(rest));
}

fn low(value: usize) -> u8 {
    u8::try_from(value).expect("it is below 128")
}

/// The lines of a block; an error says what this reader does not know.
pub(super) fn read(mut block: &[u8]) -> Result<Vec<(String, String)>, &'static str> {
    let mut lines = Vec::new();
    while let Some(&first) = block.first() {
        let (index, has_value) = match first {
            0x80.. => (integer(&mut block, 7)?, false),
            0x20..0x40 => {
                integer(&mut block, 5)?;
                continue;
            }
            0x00..0x20 => (integer(&mut block, 4)?, true),
            0x40..0x80 => return Err("a line that is to be kept in a table"),
        };
        let (name, value) = match index.checked_sub(1) {
            None => (text(&mut block)?, String::new()),
            Some(at) => {
                let (name, value) = *STATIC.get(at).ok_or("an index beyond the static table")?;
                (name.to_owned(), value.to_owned())
            }
        };
        let value = if has_value { text(&mut block)? } else { value };
        lines.push((name, value));
    }
    Ok(lines)
}

fn integer(block: &mut &[u8], bits: u32) -> Result<usize, &'static str> {
    const CUT: &str = "a block that is cut";
    let most = (1 << bits) - 1;
    let mut next = || {
        let (&first, rest) = block.split_first().ok_or(CUT)?;
        *block = rest;
        Ok::<_, &str>(usize::from(first))
    };
    let mut value = next()? & most;
    if value < most {
        return Ok(value);
    }
    for shift in (0..28).step_by(7) {
        let byte = next()?;
        value += (byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err("a number that does not end")
}

fn text(block: &mut &[u8]) -> Result<String, &'static str> {
    if block.first().is_some_and(|first| first & 0x80 != 0) {
        return Err("a text in Huffman code");
    }
    let length = integer(block, 7)?;
    let (text, rest) = block.split_at_checked(length).ok_or("a text that is cut")?;
    *block = rest;
    Ok(text.iter().map(|&byte| char::from(byte)).collect())
}

/// Appendix A.
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let long = "x".repeat(5_000);
        let head = Head::get("/a").with("x", &long).with("empty", "");
        let lines = read(&block(&head)).unwrap();
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[4], ("x".into(), long));
    }

    /// RFC 7541 sections C.2.2 and C.2.4, and a change of the table's size.
    #[test]
    fn indices_are_those_of_the_appendix() {
        let bytes = b"\x20\x04\x0c/sample/path\x82";
        let wanted = [(":path", "/sample/path"), (":method", "GET")];
        let wanted = wanted.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read(bytes).unwrap(), wanted);
    }
}
