//! The Huffman code of RFC 7541 appendix B, which HPACK and QPACK write strings in.
//!
//! The code is canonical: short codes come before long ones, and codes of one length are in the order of their bytes.
//! So the lengths determine the code, and the tables are built from them.

/// What is wrong with a string in this code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadCode {
    /// There is EOS in it.
    EndOfString,
    /// It does not end as it has to.
    Padding,
}

/// The bits of each byte's code; the last one is EOS.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, // 0x00
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, // 0x10
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, // 0x20
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, // 0x30
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, // 0x40
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, // 0x50
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, // 0x60
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, // 0x70
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, // 0x80
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, // 0x90
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, // 0xa0
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, // 0xb0
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, // 0xc0
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, // 0xd0
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, // 0xe0
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, // 0xf0
    30,
];

/// The bits that a step looks at: enough for every byte that is frequent, and for many pairs of
/// them.
const WINDOW: u32 = 12;
const LONGEST: u32 = 30;
const SHORTEST: usize = 5;
const EOS: u16 = 256;

/// What the next bits hold.
#[derive(Clone, Copy)]
struct Step {
    bytes: [u8; 2],
    /// The bits of the first byte; 0 where the code is longer than the window.
    first: u8,
    /// The bits of both; those of the first where only that is complete.
    both: u8,
}

/// Decodes `input` into `out`, which grows to what is needed and keeps its length; returns how many
/// bytes of it are meant.
pub fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<usize, BadCode> {
    // A step writes two bytes, of which the second may not count.
    let most = input.len() * 8 / SHORTEST + 2;
    if out.len() < most {
        out.resize(most, 0);
    }
    let mut bits = Bits { window: 0, count: 0, rest: input };
    let mut at = 0;
    loop {
        bits.refill();
        while bits.count >= WINDOW {
            let step = bits.step();
            if step.first > 0 {
                out[at..at + 2].copy_from_slice(&step.bytes);
                at += 1 + usize::from(step.both != step.first);
                bits.take(step.both.into());
            } else if bits.count >= LONGEST {
                let (byte, length) = bits.long();
                out[at] = u8::try_from(byte).map_err(|_| BadCode::EndOfString)?;
                at += 1;
                bits.take(length);
            } else {
                break;
            }
        }
        if bits.rest.is_empty() {
            return finish(bits, out, at);
        }
    }
}

/// Appends `text` in this code, filled up to a whole byte.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the low byte of what was shifted down is meant"
)]
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut window, mut count) = (0_u64, 0_u32);
    for &byte in text {
        let (code, length) = CODES[usize::from(byte)];
        window = window << length | u64::from(code);
        count += u32::from(length);
        while count >= 8 {
            count -= 8;
            out.push((window >> count) as u8);
        }
    }
    if count > 0 {
        // The beginning of EOS, which is ones.
        out.push((window << (8 - count)) as u8 | 0xff >> count);
    }
}

/// The last bits: what is left behind the last code has to be the beginning of EOS, and shorter
/// than a byte.
fn finish(mut bits: Bits<'_>, out: &mut [u8], mut at: usize) -> Result<usize, BadCode> {
    bits.window |= u64::MAX >> bits.count;
    loop {
        let step = bits.step();
        let (byte, length) = match step.first {
            0 => bits.long(),
            first => (step.bytes[0].into(), first.into()),
        };
        if length > bits.count {
            break;
        }
        out[at] = u8::try_from(byte).map_err(|_| BadCode::EndOfString)?;
        at += 1;
        bits.take(length);
        bits.window |= u64::MAX >> bits.count;
    }
    match bits.count < 8 && bits.window.leading_ones() >= bits.count {
        true => Ok(at),
        false => Err(BadCode::Padding),
    }
}

/// The bits ahead.
struct Bits<'a> {
    /// The next `count` bits, from the highest one on; below them may be more that do not count
    /// yet.
    window: u64,
    count: u32,
    rest: &'a [u8],
}

impl Bits<'_> {
    /// Makes the window as full as whole bytes allow.
    #[inline]
    fn refill(&mut self) {
        if let Some(word) = self.rest.first_chunk() {
            self.window |= u64::from_be_bytes(*word) >> self.count;
            let bytes = (63 - self.count) / 8;
            self.rest = &self.rest[bytes as usize..];
            self.count += bytes * 8;
            return;
        }
        while self.count <= 56
            && let Some((&byte, rest)) = self.rest.split_first()
        {
            self.window |= u64::from(byte) << (56 - self.count);
            self.count += 8;
            self.rest = rest;
        }
    }

    #[inline]
    fn take(&mut self, count: u32) {
        self.window <<= count;
        self.count -= count;
    }

    #[inline]
    fn step(&self) -> Step {
        STEPS[(self.window >> (64 - WINDOW)) as usize]
    }

    /// The byte, or EOS, whose code comes next and is longer than the window of a step; and the
    /// code's length.
    #[cold]
    #[expect(clippy::cast_possible_truncation, reason = "there are 257 places")]
    fn long(&self) -> (u16, u32) {
        let next = self.window >> 32;
        let mut length = WINDOW + 1;
        while length < LONGEST && next >= LIMITS[length as usize] {
            length += 1;
        }
        let behind = (next - LIMITS[length as usize - 1]) >> (32 - length);
        let place = u64::from(SHORTER[length as usize]) + behind;
        (SORTED[place as usize], length)
    }
}

/// All bytes and EOS in the order of their codes.
static SORTED: [u16; 257] = sorted();

/// For each length, how many codes are shorter.
static SHORTER: [u16; 32] = shorter();

/// For each length, where the codes of that length and of shorter ones end, as the upper half of a
/// window.
static LIMITS: [u64; 32] = limits();

static STEPS: [Step; 1 << WINDOW] = steps();

/// The code of each byte and of EOS, and its length.
static CODES: [(u32, u8); 257] = codes();

#[expect(clippy::cast_possible_truncation, reason = "codes have 30 bits at most")]
const fn codes() -> [(u32, u8); 257] {
    let (mut codes, sorted, shorter, limits) = ([(0, 0); 257], sorted(), shorter(), limits());
    let mut at = 0;
    while at < sorted.len() {
        let byte = sorted[at] as usize;
        let length = LENGTHS[byte];
        let place = at - shorter[length as usize] as usize;
        let first = limits[length as usize - 1] >> (32 - length);
        codes[byte] = ((first + place as u64) as u32, length);
        at += 1;
    }
    codes
}

#[expect(clippy::cast_possible_truncation, reason = "the loop ends at EOS")]
const fn sorted() -> [u16; 257] {
    let mut sorted = [0; 257];
    let (mut at, mut length) = (0, 0);
    while length <= LONGEST as u8 {
        let mut byte = 0;
        while byte <= EOS as usize {
            if LENGTHS[byte] == length {
                sorted[at] = byte as u16;
                at += 1;
            }
            byte += 1;
        }
        length += 1;
    }
    sorted
}

const fn shorter() -> [u16; 32] {
    let mut shorter = [0; 32];
    let mut length = 1;
    while length < 32 {
        shorter[length] = shorter[length - 1];
        let mut byte = 0;
        while byte <= EOS as usize {
            shorter[length] += (LENGTHS[byte] as usize == length - 1) as u16;
            byte += 1;
        }
        length += 1;
    }
    shorter
}

const fn limits() -> [u64; 32] {
    let (mut limits, shorter) = ([0; 32], shorter());
    let mut length = 1;
    while length < 31 {
        let codes = (shorter[length + 1] - shorter[length]) as u64;
        limits[length] = limits[length - 1] + (codes << (32 - length));
        length += 1;
    }
    limits
}

#[expect(clippy::cast_possible_truncation, reason = "codes within the window are of bytes")]
const fn steps() -> [Step; 1 << WINDOW] {
    let mut steps = [Step { bytes: [0; 2], first: 0, both: 0 }; 1 << WINDOW];
    let sorted = sorted();
    let (mut at, mut code) = (0, 0);
    while code < sorted.len() {
        let byte = sorted[code] as usize;
        let length = LENGTHS[byte];
        if length as u32 > WINDOW {
            break;
        }
        let end = at + (1 << (WINDOW - length as u32));
        while at < end {
            steps[at] = Step { bytes: [byte as u8, 0], first: length, both: length };
            at += 1;
        }
        code += 1;
    }
    paired(steps)
}

/// The steps with a second byte where its code lies within the window too.
const fn paired(single: [Step; 1 << WINDOW]) -> [Step; 1 << WINDOW] {
    let mut steps = single;
    let mut at = 0;
    while at < 1 << WINDOW {
        let first = single[at].first;
        let second = single[(at << first) & ((1 << WINDOW) - 1)];
        if first > 0 && second.first > 0 && (first + second.first) as u32 <= WINDOW {
            steps[at].bytes[1] = second.bytes[0];
            steps[at].both = first + second.first;
        }
        at += 1;
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(text, &mut out);
        out
    }

    /// Digit by digit.
    fn encode_codes(codes: &[u16]) -> Vec<u8> {
        let mut bits = String::new();
        for &byte in codes {
            let (code, length) = CODES[usize::from(byte)];
            bits += &format!("{code:0width$b}", width = length as usize);
        }
        while !bits.len().is_multiple_of(8) {
            bits.push('1');
        }
        let byte = |bits: &[u8]| u8::from_str_radix(std::str::from_utf8(bits).unwrap(), 2).unwrap();
        bits.as_bytes().chunks(8).map(byte).collect()
    }

    fn decoded(input: &[u8]) -> Result<Vec<u8>, BadCode> {
        let mut out = Vec::new();
        let length = decode(input, &mut out)?;
        out.truncate(length);
        Ok(out)
    }

    /// Bit by bit.
    fn naive(input: &[u8]) -> Result<Vec<u8>, BadCode> {
        let mut out = Vec::new();
        let (mut bits, mut count) = (0_u32, 0_u8);
        for at in 0..input.len() * 8 {
            bits = bits << 1 | u32::from(input[at / 8] >> (7 - at % 8) & 1);
            count += 1;
            if let Some(found) = CODES.iter().position(|&code| code == (bits, count)) {
                out.push(u8::try_from(found).map_err(|_| BadCode::EndOfString)?);
                (bits, count) = (0, 0);
            }
        }
        match count < 8 && bits == (1 << count) - 1 {
            true => Ok(out),
            false => Err(BadCode::Padding),
        }
    }

    #[test]
    fn codes_are_those_of_the_appendix() {
        let rows = [
            (0, 0x1ff8, 13),
            (1, 0x7f_ffd8, 23),
            (10, 0x3fff_fffc, 30),
            (32, 0x14, 6),
            (48, 0x0, 5),
            (65, 0x21, 6),
            (92, 0x7_fff0, 19),
            (97, 0x3, 5),
            (122, 0x7b, 7),
            (127, 0xfff_fffc, 28),
            (128, 0xf_ffe6, 20),
            (199, 0x1ff_ffec, 25),
            (220, 0xfff_fffd, 28),
            (249, 0xfff_fffe, 28),
            (255, 0x3ff_ffee, 26),
            (256, 0x3fff_ffff, 30),
        ];
        for (byte, bits, length) in rows {
            assert_eq!(CODES[byte], (bits, length), "{byte}");
        }
        let sum: u64 = LENGTHS.iter().map(|&length| 1 << (30 - length)).sum();
        assert_eq!(sum, 1 << 30, "the code is complete");
    }

    #[test]
    fn every_byte_comes_back() {
        for byte in 0..=255 {
            for length in 0..20 {
                let text = vec![byte; length];
                assert_eq!(decoded(&encoded(&text)), Ok(text));
            }
        }
    }

    #[test]
    fn the_end_is_padded_with_up_to_seven_ones() {
        assert_eq!(decoded(&[]), Ok(vec![]));
        assert_eq!(decoded(&[0xff]), Err(BadCode::Padding));
        assert_eq!(decoded(&[0xff; 2]), Err(BadCode::Padding));
        assert_eq!(decoded(&[0b0000_0111]), Ok(vec![b'0']));
        assert_eq!(decoded(&[0b0000_0110]), Err(BadCode::Padding));
        assert_eq!(decoded(&[0b0000_0111, 0xff]), Err(BadCode::Padding));
        assert_eq!(decoded(&[0xff; 4]), Err(BadCode::EndOfString));
        assert_eq!(decoded(&[0xff; 400]), Err(BadCode::EndOfString));
        let within = encode_codes(&[97, EOS, 97]);
        assert_eq!(decoded(&within), Err(BadCode::EndOfString));
    }

    proptest! {
        #[test]
        fn codes_follow_one_another(text in prop::collection::vec(any::<u8>(), 0..60)) {
            let codes: Vec<u16> = text.iter().map(|&byte| byte.into()).collect();
            prop_assert_eq!(encoded(&text), encode_codes(&codes));
        }

        #[test]
        fn bytes_come_back(text in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(decoded(&encoded(&text)), Ok(text));
        }

        #[test]
        fn text_comes_back(text in "[ -~]{0,200}") {
            prop_assert_eq!(decoded(&encoded(text.as_bytes())), Ok(text.into_bytes()));
        }

        #[test]
        fn steps_agree_with_bits(input in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(decoded(&input), naive(&input));
        }
    }
}
