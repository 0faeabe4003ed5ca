//! Times as texts. The records of a log come nearly in order, so that most of a text is that of the one before.

use time::OffsetDateTime;

/// Writes times, all in UTC.
#[derive(Clone, Debug, Default)]
pub struct Stamps {
    second: u64,
    /// `2026-11-27T16:20:00`.
    iso: [u8; 19],
    /// `27/Nov/2026:16:20:00`.
    common: [u8; 20],
}

const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
/// The end of the year 9999, which the texts have room for.
const LAST: u64 = 253_402_300_799;

impl Stamps {
    /// Appends a time in microseconds since 1970 as RFC 3339 has it.
    pub fn rfc3339(&mut self, micros: u64, out: &mut Vec<u8>) {
        self.enter(micros);
        out.extend_from_slice(&self.iso);
        out.push(b'.');
        out.extend_from_slice(&digits::<6>(micros % 1_000_000));
        out.push(b'Z');
    }

    /// Appends it as the logs of web servers have it: `27/Nov/2026:16:20:00 +0000`.
    pub fn common(&mut self, micros: u64, out: &mut Vec<u8>) {
        self.enter(micros);
        out.extend_from_slice(&self.common);
        out.extend_from_slice(b" +0000");
    }

    /// Puts the texts together for the second of that time, unless they are there.
    fn enter(&mut self, micros: u64) {
        let second = (micros / 1_000_000).min(LAST);
        if self.second == second && self.iso[0] != 0 {
            return;
        }
        let unix = i64::try_from(second).expect("at most `LAST`");
        let time = OffsetDateTime::from_unix_timestamp(unix).expect("at most `LAST`");
        let year = digits::<4>(u64::from(time.year().unsigned_abs()));
        let month = u8::from(time.month());
        let two = |number: u8| digits::<2>(number.into());
        let [day, hour, minute, second_of_minute] =
            [time.day(), time.hour(), time.minute(), time.second()].map(two);
        let clock = [&hour[..], b":", &minute, b":", &second_of_minute].concat();
        let iso = [&year[..], b"-", &two(month), b"-", &day, b"T", &clock].concat();
        let name = MONTHS[usize::from(month) - 1];
        let common = [&day[..], b"/", name, b"/", &year, b":", &clock].concat();
        self.second = second;
        self.iso.copy_from_slice(&iso);
        self.common.copy_from_slice(&common);
    }
}

/// The last `N` digits of a number.
fn digits<const N: usize>(mut number: u64) -> [u8; N] {
    let mut digits = [b'0'; N];
    for digit in digits.iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(stamps: &mut Stamps, micros: u64) -> [String; 2] {
        let (mut iso, mut common) = (Vec::new(), Vec::new());
        stamps.rfc3339(micros, &mut iso);
        stamps.common(micros, &mut common);
        [iso, common].map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn times_are_those_of_utc() {
        let mut stamps = Stamps::default();
        let mut times = |micros| texts(&mut stamps, micros);
        assert_eq!(times(0), ["1970-01-01T00:00:00.000000Z", "01/Jan/1970:00:00:00 +0000"]);
        let second = 1_795_796_400_000_000;
        assert_eq!(times(second + 7)[0], "2026-11-27T16:20:00.000007Z");
        assert_eq!(
            times(second + 999_999),
            ["2026-11-27T16:20:00.999999Z", "27/Nov/2026:16:20:00 +0000"]
        );
        assert_eq!(times(1_709_164_799_000_000)[0], "2024-02-28T23:59:59.000000Z");
        assert_eq!(times(1_709_164_800_000_000)[0], "2024-02-29T00:00:00.000000Z");
        assert!(times(u64::MAX)[0].starts_with("9999-12-31T23:59:59."));
    }
}
