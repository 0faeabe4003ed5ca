//! Text for a terminal: names that come from elsewhere, as text and nothing else; figures in few characters.

use super::figures::Quantile;
use ratatui::text::Span;
use std::time::Duration;

/// What stands for a figure that is not known.
pub(super) const UNKNOWN: &str = "-";
/// What ends a text that was cut.
const ELLIPSIS: char = '…';
/// Characters of a name; more are not looked at.
const MAX_NAME: usize = 1000;

/// The columns that a text takes.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

fn width_of(c: char) -> usize {
    width(c.encode_utf8(&mut [0; 4]))
}

/// A text in which nothing is left that a terminal obeys or that hides or turns what stands beside it: control
/// characters, marks of direction, marks without a width of their own.
pub(super) fn shown(text: &str) -> String {
    plainly(text.chars().take(MAX_NAME))
}

/// The same of a text of any length.
pub(crate) fn plain(text: &str) -> String {
    plainly(text.chars())
}

fn plainly(text: impl Iterator<Item = char>) -> String {
    let mut shown = String::new();
    for c in text {
        let is_plain = [' ', ELLIPSIS].contains(&c)
            || c.is_ascii_graphic()
            || c.is_alphanumeric() && width_of(c) > 0;
        match is_plain {
            true => shown.push(c),
            false => shown.extend(c.escape_unicode()),
        }
    }
    shown
}

/// The beginning of a text, in at most so many columns.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let fits = |c: &char| {
        let has_room = width_of(*c) <= left;
        left = left.saturating_sub(width_of(*c));
        has_room
    };
    let mut cut: String = text.chars().take_while(fits).collect();
    if columns > 0 {
        cut.push(ELLIPSIS);
    }
    cut
}

/// A figure such as a rate or a number: `0`, `0.25`, `12.5`, `1.23k`, `4.5M`.
pub(super) fn figure(figure: Option<f64>) -> String {
    figure
        .map_or_else(|| UNKNOWN.to_owned(), |figure| with_unit(figure, 1000.0, ["", "k", "M", "G"]))
}

/// Bytes: `512B`, `1.5KiB`.
pub(super) fn bytes(figure: Option<f64>) -> String {
    let units = ["B", "KiB", "MiB", "GiB"];
    figure.map_or_else(|| UNKNOWN.to_owned(), |figure| with_unit(figure, 1024.0, units))
}

fn with_unit(figure: f64, step: f64, units: [&str; 4]) -> String {
    let mut rest = figure;
    let mut place = 0;
    // What would be written with four digits belongs to the next unit.
    while rest >= step - 0.5 && place < units.len() - 1 {
        rest /= step;
        place += 1;
    }
    format!("{}{}", digits(rest), units[place])
}

/// Three digits of a figure below a thousand, without zeros at the end.
fn digits(figure: f64) -> String {
    let text = match figure {
        _ if figure >= 99.95 => format!("{figure:.0}"),
        _ if figure >= 9.995 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A share of a whole: `0%`, `0.25%`, `100%`.
pub(super) fn share(share: Option<f64>) -> String {
    share.map_or_else(
        || UNKNOWN.to_owned(),
        |share| match share {
            // Not none, and not all.
            _ if share > 0.0 && share < 0.0001 => "<0.01%".to_owned(),
            _ if share > 0.999 && share < 1.0 => ">99.9%".to_owned(),
            _ => format!("{}%", digits(share * 100.0)),
        },
    )
}

/// Seconds: `350us`, `1.25ms`, `12.5s`.
pub(super) fn seconds(seconds: Option<f64>) -> String {
    let Some(seconds) = seconds else { return UNKNOWN.to_owned() };
    match seconds {
        _ if seconds <= 0.0 => "0".to_owned(),
        _ if seconds < 0.000_999_5 => format!("{}us", digits(seconds * 1e6)),
        _ if seconds < 0.999_5 => format!("{}ms", digits(seconds * 1e3)),
        _ => format!("{}s", digits(seconds)),
    }
}

/// A percentile.
pub(super) fn quantile(quantile: Option<Quantile>) -> String {
    match quantile {
        None => UNKNOWN.to_owned(),
        Some(Quantile::About(it)) => seconds(Some(it)),
        Some(Quantile::Over(it)) => format!(">{}", seconds(Some(it))),
    }
}

/// A time in two units: `45s`, `5m12s`, `3h05m`, `12d04h`.
pub(super) fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{:02}s", seconds % 60),
        (0, ..) => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_in_a_name_is_obeyed() {
        for (text, wanted) in [
            ("api-1 (eu)", "api-1 (eu)"),
            ("größe 東京", "größe 東京"),
            ("<b onclick=\"x\">&amp;", "<b onclick=\"x\">&amp;"),
            ("\u{1b}[2J\u{7}", "\\u{1b}[2J\\u{7}"),
            ("a\r\nb\tc", "a\\u{d}\\u{a}b\\u{9}c"),
            ("\u{202e}txt\u{2066}\u{200f}", "\\u{202e}txt\\u{2066}\\u{200f}"),
            ("a\u{200b}\u{301}\u{feff}\u{9b}31m", "a\\u{200b}\\u{301}\\u{feff}\\u{9b}31m"),
        ] {
            assert_eq!(shown(text), wanted);
        }
    }

    #[test]
    fn what_is_too_long_ends_in_an_ellipsis() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("東京都", 4), "東…");
        assert_eq!(cut("abc", 1), "…");
        assert_eq!(cut("abc", 0), "");
    }

    #[test]
    fn figures_have_three_digits() {
        let figures = [0.0, 0.254, 9.994, 9.996, 99.96, 999.4, 999.6, 1234.0, 45_600_000.0, 1e13];
        let texts = figures.map(|it| figure(Some(it)));
        assert_eq!(
            texts,
            ["0", "0.25", "9.99", "10", "100", "999", "1k", "1.23k", "45.6M", "10000G"]
        );
        assert_eq!([1023.0, 1536.0].map(|it| bytes(Some(it))), ["1023B", "1.5KiB"]);
        let shares = [0.0, 0.000_01, 0.0025, 0.5, 0.9999, 1.0].map(|it| share(Some(it)));
        assert_eq!(shares, ["0%", "<0.01%", "0.25%", "50%", ">99.9%", "100%"]);
        let times = [0.0, 0.000_35, 0.00125, 0.9996, 12.5].map(|it| seconds(Some(it)));
        assert_eq!(times, ["0", "350us", "1.25ms", "1s", "12.5s"]);
        assert_eq!(quantile(Some(Quantile::Over(10.0))), ">10s");
        let ages = [45, 312, 11_100, 1_051_200].map(|it| age(Duration::from_secs(it)));
        assert_eq!(ages, ["45s", "5m12s", "3h05m", "12d04h"]);
        assert_eq!([figure(None), bytes(None), share(None), seconds(None)], [UNKNOWN; 4]);
    }

    proptest! {
        #[test]
        fn no_name_moves_what_stands_beside_it(text in any::<String>(), columns in 0_usize..40) {
            let text = shown(&text);
            prop_assert!(!text.contains(char::is_control));
            prop_assert!(text.chars().all(|c| width_of(c) > 0));
            prop_assert!(width(&cut(&text, columns)) <= columns);
        }
    }
}
