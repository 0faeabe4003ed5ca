//! Durations of Gateway API (GEP-2257): `1h30m`, `500ms`.

use std::time::Duration;

/// Reads one: up to four whole numbers, each with `h`, `m`, `s` or `ms`.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let (mut rest, mut millis) = (text, 0u64);
    while !rest.is_empty() {
        let digits = rest.find(|char: char| !char.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let end = rest[digits..].find(|char: char| char.is_ascii_digit());
        let end = end.map_or(rest.len(), |at| digits + at);
        let unit = match &rest[digits..end] {
            "h" => 3_600_000,
            "m" => 60_000,
            "s" => 1_000,
            "ms" => 1,
            _ => return None,
        };
        millis = millis.checked_add(number.checked_mul(unit)?)?;
        rest = &rest[end..];
    }
    (!text.is_empty()).then(|| Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, millis) in [
            ("0s", Some(0)),
            ("1h30m", Some(5_400_000)),
            ("1s500ms", Some(1_500)),
            ("500ms", Some(500)),
            ("", None),
            ("5", None),
            ("1d", None),
            ("s", None),
            ("1.5s", None),
            ("99999999999999999999h", None),
        ] {
            assert_eq!(parse(text), millis.map(Duration::from_millis), "{text}");
        }
    }
}
