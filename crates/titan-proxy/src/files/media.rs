//! Media types by file extension.
//!
//! Most come from a table that others maintain. Types that a browser executes come only from the table here: a site
//! that strangers may upload to checks their names for `.html` and `.svg`, and does not think of `.hxt`.

use std::borrow::Cow;

/// The media type of unknown content. Browsers neither show nor execute it.
pub(super) const UNKNOWN: &str = "application/octet-stream";

/// What browsers run, and what the other table has an older name for. Sorted by the ending.
const TYPES: [(&str, &str); 15] = [
    ("atom", "application/atom+xml"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mpd", "application/dash+xml"),
    ("rss", "application/rss+xml"),
    ("rtf", "application/rtf"),
    ("svg", "image/svg+xml"),
    ("xhtml", "application/xhtml+xml"),
    ("xml", "application/xml"),
    // RFC 9512.
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zst", "application/zstd"),
];

/// What follows the last dot of a file's name, in lower case; empty where there is none, and where it stands in
/// front.
pub(super) fn ending(name: &[u8]) -> String {
    let last = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let dot = last.iter().rposition(|&byte| byte == b'.').filter(|&dot| dot > 0);
    let ending = dot.map_or(&[][..], |dot| &last[dot + 1..]);
    String::from_utf8_lossy(ending).to_ascii_lowercase()
}

/// The media type that usually goes with an ending. Text is said to be in UTF-8, which nearly all of it is.
pub(super) fn of_ending(ending: &str) -> Cow<'static, str> {
    let own = TYPES.binary_search_by(|(known, _)| (*known).cmp(ending));
    if let Ok(place) = own {
        return TYPES[place].1.into();
    }
    match new_mime_guess::from_ext(ending).first_raw() {
        Some(known) if is_run(known) => UNKNOWN.into(),
        Some(text) if text.starts_with("text/") => format!("{text}; charset=utf-8").into(),
        Some(known) => known.into(),
        None => UNKNOWN.into(),
    }
}

/// Whether there are browsers that run scripts in content of that type, or content of that type as one.
fn is_run(media_type: &str) -> bool {
    const PARTS: [&str; 7] =
        ["html", "javascript", "ecmascript", "scriptlet", "x-component", "rfc822", "/hta"];
    media_type.ends_with("xml") || PARTS.iter().any(|part| media_type.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_decides() {
        let cases = [
            ("a.html", "text/html; charset=utf-8"),
            ("x/y.Z.CSS", "text/css; charset=utf-8"),
            ("a.tar.gz", "application/gzip"),
            ("a.b/c", UNKNOWN),
            (".html", UNKNOWN),
            ("a.", UNKNOWN),
            ("a.\u{e9}", UNKNOWN),
            ("", UNKNOWN),
        ];
        for (name, media_type) in cases {
            assert_eq!(of_ending(&ending(name.as_bytes())), media_type, "{name}");
        }
    }

    #[test]
    fn every_ending_of_ours_is_found() {
        assert!(TYPES.is_sorted());
        for (ending, media_type) in TYPES {
            assert_eq!(of_ending(ending), media_type, "{ending}");
            assert!(!media_type.starts_with("text/") || media_type.ends_with("; charset=utf-8"));
        }
    }

    #[test]
    fn what_sites_are_made_of_is_known() {
        let cases = [
            ("avif", "image/avif"),
            ("css", "text/css; charset=utf-8"),
            ("csv", "text/csv; charset=utf-8"),
            ("geojson", "application/geo+json"),
            ("gz", "application/gzip"),
            ("heic", "image/heic"),
            ("ico", "image/vnd.microsoft.icon"),
            ("ics", "text/calendar; charset=utf-8"),
            ("jpg", "image/jpeg"),
            ("json", "application/json"),
            ("map", "application/json"),
            ("md", "text/markdown; charset=utf-8"),
            ("mp4", "video/mp4"),
            ("pdf", "application/pdf"),
            ("toml", "application/toml"),
            ("ts", "video/mp2t"),
            ("txt", "text/plain; charset=utf-8"),
            ("vtt", "text/vtt; charset=utf-8"),
            ("wasm", "application/wasm"),
            ("webmanifest", "application/manifest+json"),
            ("woff2", "font/woff2"),
            ("yaml", "application/yaml"),
        ];
        for (ending, media_type) in cases {
            assert_eq!(of_ending(ending), media_type, "{ending}");
        }
    }

    #[test]
    fn browsers_execute_nothing_with_an_unusual_extension() {
        for ending in [
            "shtml", "hxt", "htt", "hta", "xht", "xsl", "xslt", "svgz", "ecma", "jsm", "jsx",
            "htc", "sct", "mht", "mhtml", "eml", "aspx", "config", "kml", "rdf", "wsdl",
        ] {
            assert_eq!(of_ending(ending), UNKNOWN, "{ending}");
        }
    }
}
