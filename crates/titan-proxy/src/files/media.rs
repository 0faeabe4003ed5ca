//! Media types by the ending of a file's name.

/// What is said of content that nothing is known of. Browsers show it to nobody and run it nowhere.
pub(super) const UNKNOWN: &str = "application/octet-stream";

/// Sorted by the ending. Text is said to be in UTF-8, which nearly all of it is.
const TYPES: [(&str, &str); 72] = [
    ("7z", "application/x-7z-compressed"),
    ("aac", "audio/aac"),
    ("apng", "image/apng"),
    ("atom", "application/atom+xml"),
    ("avi", "video/x-msvideo"),
    ("avif", "image/avif"),
    ("bmp", "image/bmp"),
    ("bz2", "application/x-bzip2"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("eot", "application/vnd.ms-fontobject"),
    ("epub", "application/epub+zip"),
    ("flac", "audio/flac"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/vnd.microsoft.icon"),
    ("ics", "text/calendar; charset=utf-8"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("jsonld", "application/ld+json"),
    ("jxl", "image/jxl"),
    ("log", "text/plain; charset=utf-8"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("map", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpd", "application/dash+xml"),
    ("mpeg", "video/mpeg"),
    ("odp", "application/vnd.oasis.opendocument.presentation"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("ogv", "video/ogg"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("ppt", "application/vnd.ms-powerpoint"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("rss", "application/rss+xml"),
    ("rtf", "application/rtf"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("ts", "video/mp2t"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xhtml", "application/xhtml+xml"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("xml", "application/xml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

/// What follows the last dot of a file's name, in lower case; empty where there is none, and where it stands in
/// front.
pub(super) fn ending(name: &[u8]) -> String {
    let last = name.rsplit(|&octet| octet == b'/').next().unwrap_or_default();
    let dot = last.iter().rposition(|&octet| octet == b'.').filter(|&dot| dot > 0);
    let ending = dot.map_or(&[][..], |dot| &last[dot + 1..]);
    String::from_utf8_lossy(ending).to_ascii_lowercase()
}

/// The media type that usually goes with an ending.
pub(super) fn of_ending(ending: &str) -> &'static str {
    let place = TYPES.binary_search_by(|(known, _)| (*known).cmp(ending));
    place.map_or(UNKNOWN, |place| TYPES[place].1)
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
    fn every_ending_is_found() {
        for (ending, media_type) in TYPES {
            assert_eq!(of_ending(ending), media_type, "{ending}");
            assert!(!media_type.starts_with("text/") || media_type.ends_with("; charset=utf-8"));
        }
    }
}
