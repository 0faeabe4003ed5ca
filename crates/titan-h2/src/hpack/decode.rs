//! Blocks to lines (RFC 7541 sections 3 and 6).

use super::corrupt::{BadBlock, Corrupt};
use super::static_table;
use titan_http::huffman;
use titan_http::section::{Key, Line, Name, Table, check_name, check_value};

/// The decoder of one connection. Every block has to go through it, in the order of arrival.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: Table,
    /// Where strings in Huffman code are decoded.
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    /// A decoder with an empty table.
    pub(crate) fn new() -> Decoder {
        Decoder { table: Table::new(), name: Vec::new(), value: Vec::new() }
    }

    /// Decodes a block and tells its lines one by one, until `tell` has had enough.
    #[inline]
    pub(crate) fn decode(
        &mut self,
        block: &[u8],
        mut tell: impl FnMut(Line<'_>) -> Result<(), BadBlock>,
    ) -> Result<(), BadBlock> {
        let mut input = self.resize(block)?;
        while let Some(&first) = input.first() {
            if first >= INDEXED {
                tell(self.entry(integer(&mut input, 7)?)?)?;
            } else if first >= INCREMENTAL {
                self.literal(&mut input, 6, true, &mut tell)?;
            } else if first < SIZE_UPDATE {
                self.literal(&mut input, 4, false, &mut tell)?;
            } else {
                return Err(Corrupt::LateSizeUpdate.into());
            }
        }
        self.forget_excess();
        Ok(())
    }

    /// Follows the changes of the table's size, which stand in front (section 4.2); returns what is
    /// behind them.
    fn resize<'b>(&mut self, block: &'b [u8]) -> Result<&'b [u8], Corrupt> {
        let mut input = block;
        while let Some(&first) = input.first()
            && (SIZE_UPDATE..INCREMENTAL).contains(&first)
        {
            let size = integer(&mut input, 5)?;
            if !self.table.resize(size) {
                return Err(Corrupt::SizeUpdate);
            }
        }
        Ok(input)
    }

    #[inline]
    fn entry(&self, index: usize) -> Result<Line<'_>, Corrupt> {
        match index.checked_sub(FIRST_DYNAMIC) {
            None => static_table::get(index),
            Some(place) => self.table.get(place),
        }
        .ok_or(Corrupt::Index)
    }

    /// A line in full, or in all but its name (section 6.2).
    fn literal(
        &mut self,
        input: &mut &[u8],
        prefix: u32,
        is_kept: bool,
        tell: &mut impl FnMut(Line<'_>) -> Result<(), BadBlock>,
    ) -> Result<(), BadBlock> {
        let index = integer(input, prefix)?;
        let (name, key, name_fault) = match index.checked_sub(FIRST_DYNAMIC) {
            Some(place) => {
                let (key, fault) = self.table.name(place).ok_or(Corrupt::Index)?;
                (Name::OfEntry(place), key, fault)
            }
            None if index == 0 => {
                let name = string(input, &mut self.name)?;
                let key = Key::of(name);
                (Name::Bytes(name), key, check_name(key, name))
            }
            None => {
                let line = static_table::get(index).ok_or(Corrupt::Index)?;
                (Name::Bytes(line.name), line.key, None)
            }
        };
        let value = string(input, &mut self.value)?;
        let fault = name_fault.or_else(|| check_value(value));
        tell(Line { key, name: self.table.bytes_of(name), value, fault })?;
        if is_kept {
            self.table.insert(name, value, key, fault);
        }
        Ok(())
    }

    /// Gives back what an unusually long string has taken.
    fn forget_excess(&mut self) {
        for buffer in [&mut self.name, &mut self.value] {
            if buffer.len() > KEPT {
                *buffer = Vec::new();
            }
        }
    }
}

const INDEXED: u8 = 0x80;
const INCREMENTAL: u8 = 0x40;
const SIZE_UPDATE: u8 = 0x20;

const FIRST_DYNAMIC: usize = static_table::COUNT + 1;

/// What a buffer for strings may keep between blocks.
const KEPT: usize = 8 << 10;

/// An integer whose first byte has `prefix` bits of it (section 5.1).
#[inline]
fn integer(input: &mut &[u8], prefix: u32) -> Result<usize, Corrupt> {
    let (&first, rest) = input.split_first().ok_or(Corrupt::Truncated)?;
    *input = rest;
    let most = (1 << prefix) - 1;
    let value = usize::from(first) & most;
    match value < most {
        true => Ok(value),
        false => long_integer(input, most),
    }
}

/// The rest of an integer: seven bits in each byte, of which as many are read as 32 bits need at
/// most.
fn long_integer(input: &mut &[u8], most: usize) -> Result<usize, Corrupt> {
    let mut value = most as u64;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = input.split_first().ok_or(Corrupt::Truncated)?;
        *input = rest;
        value += u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return u32::try_from(value)
                .ok()
                .and_then(|value| usize::try_from(value).ok())
                .ok_or(Corrupt::Integer);
        }
    }
    Err(Corrupt::Integer)
}

/// A string (section 5.2); `buffer` is for one in Huffman code.
#[inline]
fn string<'a, 'i: 'a>(input: &mut &'i [u8], buffer: &'a mut Vec<u8>) -> Result<&'a [u8], Corrupt> {
    let is_huffman = input.first().is_some_and(|&first| first >= HUFFMAN);
    let length = integer(input, 7)?;
    let (bytes, rest) = input.split_at_checked(length).ok_or(Corrupt::Truncated)?;
    *input = rest;
    if !is_huffman {
        return Ok(bytes);
    }
    let length = huffman::decode(bytes, buffer)?;
    Ok(&buffer[..length])
}

const HUFFMAN: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use titan_http::huffman::encode;

    fn decoded(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(String, String)>, BadBlock> {
        let mut lines = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decoder.decode(block, |line| {
            lines.push((text(line.name), text(line.value)));
            Ok(())
        })?;
        Ok(lines)
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(|digit| !digit.is_ascii_whitespace()).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        digits.chunks(2).map(|pair| byte(pair).unwrap()).collect()
    }

    /// A conversation: blocks in hex, the lines that each decodes to, and the table afterwards.
    type Examples<'a> = &'a [(&'a str, &'a [(&'a str, &'a str)], &'a [(&'a str, &'a str)])];

    fn run(examples: Examples<'_>, max: usize) {
        let owned = |lines: &[(&str, &str)]| -> Vec<(String, String)> {
            lines.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        let mut decoder = Decoder::new();
        assert!(decoder.table.resize(max));
        for (hex, lines, table) in examples {
            assert_eq!(decoded(&mut decoder, &bytes(hex)), Ok(owned(lines)), "{hex}");
            let indexed: Vec<u8> = (0xbe..).take(table.len()).collect();
            assert_eq!(decoded(&mut decoder, &indexed), Ok(owned(table)), "after {hex}");
            assert!(decoder.table.get(table.len()).is_none(), "after {hex}");
        }
    }

    #[test]
    fn representations_are_those_of_appendix_c2() {
        let custom = ("custom-key", "custom-header");
        run(
            &[(
                "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
                &[custom],
                &[custom],
            )],
            4096,
        );
        let path = (":path", "/sample/path");
        run(&[("040c 2f73 616d 706c 652f 7061 7468", &[path], &[])], 4096);
        let password = ("password", "secret");
        run(&[("1008 7061 7373 776f 7264 0673 6563 7265 74", &[password], &[])], 4096);
        run(&[("82", &[(":method", "GET")], &[])], 4096);
    }

    const HOST: (&str, &str) = (":authority", "www.example.com");
    const NO_CACHE: (&str, &str) = ("cache-control", "no-cache");
    const CUSTOM: (&str, &str) = ("custom-key", "custom-value");
    const GET: (&str, &str) = (":method", "GET");
    const HTTP: (&str, &str) = (":scheme", "http");

    fn run_requests(blocks: [&str; 3]) {
        let first = [GET, HTTP, (":path", "/"), HOST];
        let second = [GET, HTTP, (":path", "/"), HOST, NO_CACHE];
        let third = [GET, (":scheme", "https"), (":path", "/index.html"), HOST, CUSTOM];
        run(
            &[
                (blocks[0], &first, &[HOST]),
                (blocks[1], &second, &[NO_CACHE, HOST]),
                (blocks[2], &third, &[CUSTOM, NO_CACHE, HOST]),
            ],
            4096,
        );
    }

    #[test]
    fn requests_are_those_of_appendices_c3_and_c4() {
        run_requests([
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ]);
        run_requests([
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ]);
    }

    fn run_responses(blocks: [&str; 3]) {
        let date = ("date", "Mon, 21 Oct 2013 20:13:21 GMT");
        let later = ("date", "Mon, 21 Oct 2013 20:13:22 GMT");
        let found = (":status", "302");
        let moved = (":status", "307");
        let private = ("cache-control", "private");
        let location = ("location", "https://www.example.com");
        let cookie = ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1");
        let gzip = ("content-encoding", "gzip");
        let third = [(":status", "200"), private, later, location, gzip, cookie];
        run(
            &[
                (blocks[0], &[found, private, date, location], &[location, date, private, found]),
                (blocks[1], &[moved, private, date, location], &[moved, location, date, private]),
                (blocks[2], &third, &[cookie, gzip, later]),
            ],
            256,
        );
    }

    #[test]
    fn responses_are_those_of_appendices_c5_and_c6() {
        run_responses([
            "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032
             303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63
             6f6d",
            "4803 3330 37c1 c0bf",
            "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0
             5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851
             5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
        ]);
        run_responses([
            "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b
             ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
            "4883 640e ffc1 c0bf",
            "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad
             94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160
             65c0 03ed 4ee5 b106 3d50 07",
        ]);
    }

    #[test]
    fn what_cannot_be_decoded_is_named() {
        let cases: &[(&str, &[u8], Corrupt)] = &[
            ("index 0", b"\x80", Corrupt::Index),
            ("index behind both tables", b"\xbe", Corrupt::Index),
            ("index far behind", b"\xff\xff\x7f", Corrupt::Index),
            ("name of no entry", b"\x7e\x01a", Corrupt::Index),
            ("integer without an end", b"\xff\xff", Corrupt::Truncated),
            ("integer of six bytes", b"\xff\x80\x80\x80\x80\x80\x00", Corrupt::Integer),
            ("integer of 33 bits", b"\xff\xff\xff\xff\xff\x1f", Corrupt::Integer),
            ("no name", b"\x40", Corrupt::Truncated),
            ("no value", b"\x40\x01a", Corrupt::Truncated),
            ("name behind the end", b"\x40\x02a", Corrupt::Truncated),
            ("value behind the end", b"\x41\x7f\x80\x7fa", Corrupt::Truncated),
            ("table too large", b"\x3f\xe2\x1f", Corrupt::SizeUpdate),
            ("table changes late", b"\x82\x20", Corrupt::LateSizeUpdate),
            ("EOS", b"\x41\x84\xff\xff\xff\xff", Corrupt::EndOfString),
            ("padding of a byte", b"\x41\x81\xff", Corrupt::Padding),
        ];
        for (name, block, corrupt) in cases {
            let outcome = decoded(&mut Decoder::new(), block);
            assert_eq!(outcome, Err((*corrupt).into()), "{name}");
        }
        assert_eq!(decoded(&mut Decoder::new(), b"\x20\x3f\xe1\x1f\x82").unwrap().len(), 1);
    }

    #[test]
    fn what_was_evicted_is_gone() {
        let mut decoder = Decoder::new();
        assert_eq!(decoded(&mut decoder, b"\x40\x01a\x01b\xbe").unwrap().len(), 2);
        assert_eq!(decoded(&mut decoder, b"\x20"), Ok(vec![]));
        assert_eq!(decoded(&mut decoder, b"\xbe"), Err(Corrupt::Index.into()));
    }

    #[test]
    fn long_strings_do_not_keep_their_memory() {
        let mut coded = Vec::new();
        encode(&[b'a'; 20_000], &mut coded);
        assert_eq!(coded.len(), 127 + 0x55 + (0x60 << 7));
        let block = [b"\x00\x01a\xff\xd5\x60", coded.as_slice()].concat();
        let mut decoder = Decoder::new();
        assert_eq!(decoded(&mut decoder, &block).unwrap()[0].1.len(), 20_000);
        assert!(decoder.value.capacity() <= KEPT);
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(
            blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..8),
        ) {
            let mut decoder = Decoder::new();
            for block in blocks {
                if decoded(&mut decoder, &block).is_err() {
                    break;
                }
            }
        }
    }
}
