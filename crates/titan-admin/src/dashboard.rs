//! The page for people in front of a browser: built files, which are part of the program. `dashboard/` has its sources.

use crate::http::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::sync::LazyLock;
use titan_http::coding::{Accepted, Coding};
use titan_http::{FieldName, Fields, RequestHead, Status};
use titan_proxy::sha256;

/// A file of the page.
struct File {
    name: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
}

/// The same, ready to be sent.
struct Prepared {
    file: &'static File,
    gzip: Vec<u8>,
    /// In their quotes, as it is and compressed.
    tags: [String; 2],
}

/// Where the page is, from above. It is relative: something in front may have added to the path.
const PLACE: &str = "dashboard/";

/// What is served for the folder itself.
const INDEX: &str = "index.html";

const FILES: &[File] = &[
    File {
        name: INDEX,
        media_type: "text/html; charset=utf-8",
        bytes: include_bytes!("../../../dashboard/dist/index.html"),
    },
    File {
        name: "app.js",
        media_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../../../dashboard/dist/app.js"),
    },
    File {
        name: "app.css",
        media_type: "text/css; charset=utf-8",
        bytes: include_bytes!("../../../dashboard/dist/app.css"),
    },
    File {
        name: "icon.svg",
        media_type: "image/svg+xml",
        bytes: include_bytes!("../../../dashboard/dist/icon.svg"),
    },
];

/// Compressed when the first one is asked for: on a thread of the admin interface, where that takes some milliseconds.
static PREPARED: LazyLock<Vec<Prepared>> =
    LazyLock::new(|| FILES.iter().map(Prepared::of).collect());

/// What the page may do: load its own files and call its own interface. Nothing of it is in a frame, and nothing inline is run.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// What every file says of itself, besides its type.
const SAID: [(&str, &str); 6] = [
    // Files keep their names, and are asked for again each time: with their tags, that is a 304.
    ("Cache-Control", "no-cache"),
    ("Content-Security-Policy", POLICY),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("Vary", "Accept-Encoding"),
];

/// Responds with the file of that name; with the page itself for none.
pub(crate) fn file(name: &[u8], head: &RequestHead) -> Response {
    let name = if name.is_empty() { INDEX.as_bytes() } else { name };
    let Some(prepared) = PREPARED.iter().find(|it| it.file.name.as_bytes() == name) else {
        return Response::problem(Status::NOT_FOUND, "the dashboard has no such file");
    };
    prepared.response(head)
}

/// Sends a browser from the list of calls to the page.
pub(crate) fn redirect() -> Response {
    let response = Response::empty(Status::SEE_OTHER).with(FieldName::Location, PLACE);
    response.with(FieldName::Vary, "Accept")
}

/// Adds the slash without which the page does not find its files.
pub(crate) fn folder() -> Response {
    Response::empty(Status::PERMANENT_REDIRECT).with(FieldName::Location, PLACE)
}

/// Whether whoever asks would rather have a page than a list.
pub(crate) fn prefers_page(fields: &Fields) -> bool {
    fields.members(FieldName::Accept).any(|member| {
        let range = member.split(|byte| *byte == b';').next().unwrap_or_default();
        range.trim_ascii().eq_ignore_ascii_case(b"text/html")
    })
}

impl Prepared {
    fn of(file: &'static File) -> Prepared {
        let hash = crate::hex::hex(sha256(file.bytes));
        let hash = &hash[..32];
        Prepared {
            file,
            gzip: compressed(file.bytes),
            tags: [format!("\"{hash}\""), format!("\"{hash}-gzip\"")],
        }
    }

    fn response(&self, head: &RequestHead) -> Response {
        let choice = Accepted::of(&head.fields).choose(&[Coding::Gzip]);
        let is_gzip = choice.coding.is_some();
        let tag = &self.tags[usize::from(is_gzip)];
        let is_known = head.fields.named(b"If-None-Match").any(|listed| lists(listed, tag));
        let response = match (is_known, is_gzip) {
            (true, _) => Response::empty(Status::NOT_MODIFIED),
            (false, true) => {
                let response =
                    Response::new(Status::OK, self.file.media_type, self.gzip.as_slice());
                response.with(FieldName::ContentEncoding, Coding::Gzip.name())
            }
            (false, false) => Response::new(Status::OK, self.file.media_type, self.file.bytes),
        };
        let said = SAID.into_iter().chain([("ETag", tag.as_str())]);
        said.fold(response, |response, (name, value)| response.with_named(name, value))
    }
}

/// Whether a list of tags has this one; none of ours has a comma in it.
fn lists(listed: &[u8], tag: &str) -> bool {
    let strong = |member: &'_ [u8]| {
        let member = member.trim_ascii();
        member.strip_prefix(b"W/").unwrap_or(member) == tag.as_bytes() || member == b"*"
    };
    listed.split(|byte| *byte == b',').any(strong)
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.expect("nothing fails that is written to memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    fn asked(name: &str, fields: &[(&str, &str)]) -> Response {
        let mut head = RequestHead::default();
        for (name, value) in fields {
            head.fields.append_named(name.as_bytes(), value.as_bytes()).unwrap();
        }
        file(name.as_bytes(), &head)
    }

    fn field(response: &Response, name: &str) -> String {
        let mut values = response.head.fields.named(name.as_bytes());
        let value = values.next().map(|value| String::from_utf8(value.to_vec()).unwrap());
        assert_eq!(values.next(), None, "{name}");
        value.unwrap_or_default()
    }

    #[test]
    fn files_are_compressed_for_those_who_accept_that() {
        for File { name, media_type, bytes } in FILES {
            let plain = asked(name, &[]);
            assert_eq!(
                (plain.body.as_slice(), field(&plain, "Content-Encoding").as_str()),
                (*bytes, "")
            );
            let gzip = asked(name, &[("Accept-Encoding", "gzip, deflate, br")]);
            assert_eq!(field(&gzip, "Content-Encoding"), "gzip");
            let mut read = Vec::new();
            GzDecoder::new(gzip.body.as_slice()).read_to_end(&mut read).unwrap();
            assert_eq!(read, *bytes);
            assert_ne!(field(&plain, "ETag"), field(&gzip, "ETag"));
            for response in [plain, gzip] {
                assert_eq!(field(&response, "Content-Type"), *media_type);
                assert_eq!(field(&response, "Vary"), "Accept-Encoding");
                let policy = field(&response, "Content-Security-Policy");
                assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"));
            }
        }
        let refused = asked(INDEX, &[("Accept-Encoding", "gzip;q=0")]);
        assert_eq!(field(&refused, "Content-Encoding"), "");
        assert_eq!(asked("", &[]).body, FILES[0].bytes);
        for name in ["none", "..", "index.html/", "INDEX.HTML", "%2e"] {
            assert_eq!(asked(name, &[]).head.status, Status::NOT_FOUND, "{name}");
        }
    }

    #[test]
    fn what_a_browser_has_is_not_sent_again() {
        let gzip = ("Accept-Encoding", "gzip");
        let tag = field(&asked("app.js", &[gzip]), "ETag");
        let status = |fields: &[(&str, &str)]| asked("app.js", fields).head.status.code();
        for (listed, wanted) in [
            (tag.as_str(), 304),
            (&format!("\"x\", W/{tag}"), 304),
            ("*", 304),
            ("\"x\"", 200),
            (tag.trim_matches('"'), 200),
            ("", 200),
        ] {
            assert_eq!(status(&[gzip, ("If-None-Match", listed)]), wanted, "{listed}");
        }
        assert_eq!(status(&[("If-None-Match", &tag)]), 200, "that is another representation");
        let same = asked("app.js", &[gzip, ("If-None-Match", &tag)]);
        assert!(same.body.is_empty());
        assert_eq!(field(&same, "ETag"), tag);
    }

    #[test]
    fn the_page_with_its_charts_is_small() {
        let all: usize = PREPARED.iter().map(|it| it.gzip.len()).sum();
        assert!(all < 250 << 10, "{all}");
    }

    #[test]
    fn browsers_would_rather_have_a_page() {
        let prefers = |accept: &str| {
            let mut fields = Fields::default();
            fields.append(FieldName::Accept, accept.as_bytes()).unwrap();
            prefers_page(&fields)
        };
        assert!(prefers("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"));
        assert!(!prefers("*/*") && !prefers("application/json") && !prefers(""));
    }
}
