//! Bodies in memory that are decoded as a whole.

use super::decoder::{Decoder, Progress};
use titan_http::coding::Coding;

/// Why a body is not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDecoded {
    /// It is not in that coding, or cut short, or it needs a window of more than 8 MiB (RFC 8878 section 3.1.1.1.2).
    Malformed,
    /// More than may become of it would.
    TooLarge,
}

/// How much comes out at a time.
const ROOM: usize = 64 << 10;
const WINDOW: usize = 8 << 20;

/// Decodes a body, of which that many bytes may become.
pub fn decode_whole(coding: Coding, body: &[u8], most: usize) -> Result<Vec<u8>, NotDecoded> {
    let mut decoder = Decoder::new(coding, WINDOW);
    let (mut rest, mut out, mut may_end) = (body, Vec::new(), false);
    while !(may_end && rest.is_empty()) {
        if may_end && !decoder.may_go_on() {
            return Err(NotDecoded::Malformed);
        }
        let start = out.len();
        // One more than may come tells that it does.
        out.resize(most.saturating_add(1).min(start + ROOM), 0);
        let decoded = decoder.decode(rest, &mut out[start..]);
        let Progress { taken, made, is_end } = decoded.map_err(|_| NotDecoded::Malformed)?;
        out.truncate(start + made);
        if out.len() > most {
            return Err(NotDecoded::TooLarge);
        }
        if taken == 0 && made == 0 {
            return Err(NotDecoded::Malformed);
        }
        (rest, may_end) = (&rest[taken..], is_end);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn encoded(coding: Coding, content: &[u8]) -> Vec<u8> {
        match coding {
            Coding::Gzip => {
                let level = flate2::Compression::default();
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
                encoder.write_all(content).unwrap();
                encoder.finish().unwrap()
            }
            Coding::Brotli => {
                let mut out = Vec::new();
                let mut encoder = brotli::CompressorWriter::new(&mut out, 4096, 5, 20);
                encoder.write_all(content).unwrap();
                drop(encoder);
                out
            }
            Coding::Zstd => zstd::encode_all(content, 3).unwrap(),
        }
    }

    #[test]
    fn a_body_is_decoded_up_to_its_bound() {
        for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
            for length in [0, 1, ROOM - 1, ROOM, ROOM + 1, 200_000] {
                let content: Vec<u8> = (0..=250).cycle().take(length).collect();
                let body = encoded(coding, &content);
                let decoded = decode_whole(coding, &body, length);
                assert!(decoded.as_ref() == Ok(&content), "{coding:?} {length}");
                let too_little =
                    length.checked_sub(1).map(|most| decode_whole(coding, &body, most));
                assert!(too_little.is_none_or(|it| it == Err(NotDecoded::TooLarge)));
                for end in [0, body.len() / 2, body.len() - 1] {
                    let cut = decode_whole(coding, &body[..end], length);
                    assert_eq!(cut, Err(NotDecoded::Malformed), "{coding:?} {length} {end}");
                }
            }
            let body = encoded(coding, b"abc");
            let twice = decode_whole(coding, &[&body[..], &body].concat(), 6);
            match coding {
                Coding::Brotli => assert_eq!(twice, Err(NotDecoded::Malformed)),
                Coding::Gzip | Coding::Zstd => assert_eq!(twice.unwrap(), b"abcabc"),
            }
            let other = decode_whole(coding, b"{\"a\":\"no coding at all\"}", 1000);
            assert_eq!(other, Err(NotDecoded::Malformed), "{coding:?}");
        }
    }
}
