//! Routes that serve files from a directory.

use crate::bounds::{
    MAX_CACHE_RULES, MAX_INDEX, MAX_MEDIA_TYPES, MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_TOKEN,
};
use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::path::{PathEnd, PathPattern};
use crate::policy::{MediaRange, codings, media_range};
use crate::problem::Problem;
use crate::read::{Read, Reading, default, optional, required};
use crate::readers::{Named, boolean, mapping, one_or_list, short_for, text};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::token::{HeaderValue, Pattern, header_value, pattern};
use std::path::PathBuf;
use titan_http::Status;
use titan_http::coding::Coding;

section! {
    "files", "a files action", Any;
    /// Serves GET and HEAD with the regular files below a directory, with entity tags, conditional and range requests
    /// (RFC 9110); other methods get 405. A request for a directory without a trailing slash is redirected to the one
    /// with it; directories are never listed. No path and no symbolic link leads out of `root`; relative links that
    /// stay inside are followed, absolute ones are not. Needs Linux 5.6. A plain string sets `root` alone.
    pub struct StaticFiles {
        /// The directory. A relative path starts at the directory of the file that says it. It must exist at the
        /// start, and is looked up for each request: if it is a symbolic link, pointing it elsewhere takes effect at
        /// once.
        pub root: PathBuf = required(directory()),
        /// The index files of a directory, in order of preference; `[]` for none.
        pub index: Vec<String> = default("[index.html]", one_or_list(text(FILE_NAME, parse_file_name), 0..=MAX_INDEX)),
        /// Whether to remove the route's `prefix` from the name: with `prefix: /static` the path `/static/a.css` is
        /// `a.css` in `root`, otherwise `static/a.css`. Of a `path` nothing is removed.
        pub strip_prefix: bool = default("true", boolean()),
        /// The encodings of precompressed files next to the originals, named with `.zst`, `.br` or `.gz` appended, in
        /// order of preference: clients that accept one (Accept-Encoding) get that file instead. Titan does not compare
        /// the two: update them together.
        pub precompressed: Vec<Coding> = default("[]", codings(0)),
        /// Whether to serve names that begin with a dot. Otherwise they are not found, except below `.well-known` (RFC
        /// 8615) in `root`.
        pub dotfiles: bool = default("false", boolean()),
        /// The Cache-Control of responses with a file, and of 304.
        pub cache_control: Option<HeaderValue> = optional("none", header_value()),
        /// The Cache-Control of some files in place of `cache_control`: the first rule that matches a file counts.
        pub cache_rules: Vec<CacheRule> =
            default("[]", one_or_list(cache_rule(), 0..=MAX_CACHE_RULES)),
        /// The file that GET and HEAD get with 200 if there is none for the path, for single-page applications: a name
        /// below `root`, such as `index.html`. It does not replace names with a known extension (from `types` or built
        /// in), nor names that are never served: a missing script or image stays 404, because a page in its place would
        /// break its caller in a way that is hard to see.
        pub fallback: Option<String> =
            optional("none: such requests get 404", text(BELOW, parse_below)),
        /// Files to send in place of problem documents, with the same status: names below `root` by status, as in
        /// `{ 404: 404.html }`. The statuses of this action are 403, 404, 405, 412, 416 and 500. If the file is
        /// missing, the client gets the document.
        pub error_pages: Vec<(Status, String)> = default("{}", error_pages()),
        /// Media types by file extension; they come before the built-in ones. `""` is for names without an extension.
        /// An unknown extension gets `application/octet-stream`. Of the types that browsers execute, only the usual
        /// extensions are built in: `html`, `htm`, `xhtml`, `xml`, `svg`, `js`, `mjs`, `atom`, `rss` and `mpd`.
        pub types: Vec<(String, HeaderValue)> = default("{}", types()),
    }
}

section! {
    "cache_rule", "a cache rule", Any;
    /// The Cache-Control of some files: at least one of `name` and `types`. If both are given, both must match.
    pub(crate) struct CacheRuleFields {
        /// Must match the name of the file below `root`, anywhere unless anchored: `^assets/`, or `\.[0-9a-f]{8}\.` for
        /// names with a hash (syntax of the Rust `regex` crate, in linear time).
        pub(crate) name: Option<Pattern> = optional("any name", pattern()),
        /// The media types of the files, without parameters; `text/*` for all of a kind.
        pub(crate) types: Option<Vec<MediaRange>> =
            optional("any type", one_or_list(media_range(), 1..=MAX_MEDIA_TYPES)),
        /// The value, such as `public, max-age=31536000, immutable`.
        pub(crate) cache_control: HeaderValue = required(header_value()),
    }
}

/// The Cache-Control of some files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheRule {
    /// What their names look like; `None` for any.
    pub name: Option<Pattern>,
    /// Their media types; `None` for any. One of the two is given.
    pub types: Option<Vec<MediaRange>>,
    /// The `Cache-Control` of its files.
    pub value: HeaderValue,
}

impl CacheRule {
    /// Whether it is for a file with that name below the root, and that media type.
    pub fn fits(&self, name: &[u8], media_type: &str) -> bool {
        let media_type = media_type.split(';').next().unwrap_or_default().trim_end().as_bytes();
        self.name.as_ref().is_none_or(|pattern| pattern.is_match(name))
            && self.types.as_ref().is_none_or(|types| types.iter().any(|it| it.has(media_type)))
    }
}

const BELOW: TextShape = TextShape {
    what: "the name of a file below `root`",
    examples: "`index.html`",
    pattern: None,
    max: MAX_PATH_BYTES,
};

/// The failures that an action with files has of its own.
const STATUSES: [Status; 6] = [
    Status::FORBIDDEN,
    Status::NOT_FOUND,
    Status::METHOD_NOT_ALLOWED,
    Status::PRECONDITION_FAILED,
    Status::RANGE_NOT_SATISFIABLE,
    Status::INTERNAL_SERVER_ERROR,
];

const STATUS: TextShape = TextShape {
    what: "a failure status",
    examples: "`404`",
    pattern: Some("^[45][0-9][0-9]$"),
    max: 3,
};

const FILE_NAME: TextShape = TextShape {
    what: "a file name",
    examples: "`index.html`",
    pattern: Some("^[^/\\u0000]+$"),
    max: MAX_NAME_BYTES,
};

const ENDING: TextShape = TextShape {
    what: "a file extension",
    examples: "`css`, without the dot",
    pattern: Some("^[^./A-Z]*$"),
    max: MAX_TOKEN,
};

pub(crate) fn files() -> impl Read<Value = StaticFiles> {
    short_for("root", section_of::<StaticFiles>())
}

fn error_pages() -> impl Read<Value = Vec<(Status, String)>> {
    let pages = mapping(STATUS, parse_status, text(BELOW, parse_below), 0..=STATUSES.len());
    pages.map(|named| named.into_iter().map(|Named { key, value, .. }| (key, value)).collect())
}

fn parse_status(text: &str) -> Result<Status, Problem> {
    let status = STATUSES.into_iter().find(|status| status.code().to_string() == text);
    status.ok_or_else(|| {
        let problem = Problem::new("a files route never responds with this status");
        problem.help("it uses 403, 404, 405, 412, 416 and 500")
    })
}

fn cache_rule() -> impl Read<Value = CacheRule> {
    section_of::<CacheRuleFields>().then(|fields, node, to| {
        let CacheRuleFields { name, types, cache_control: value } = fields;
        if name.is_none() && types.is_none() {
            let error = Diagnostic::error(node.span, "this rule matches every file");
            let error = error.label("set `name` or `types`");
            return to.fail(error.help("for all files, set `cache_control` next to `cache_rules`"));
        }
        Some(CacheRule { name, types, value })
    })
}

/// Refuses what has no effect on a route with that path.
pub(crate) fn check_files(
    files: StaticFiles,
    path: &PathPattern,
    route: &Node,
    to: &mut Reading<'_>,
) -> Option<StaticFiles> {
    let given = route.entry("files").and_then(|entry| entry.value.entry("strip_prefix"));
    let Some(entry) = given.filter(|_| path.end != PathEnd::Prefix) else { return Some(files) };
    let error = Diagnostic::error(entry.key_span, "there is no prefix to strip");
    let error = error.label("this strips the route's `prefix`");
    let error = error.also(route.key_span("path"), "this route has a `path`");
    to.fail(error.help("remove it, or give the route a `prefix`"))
}

fn directory() -> impl Read<Value = PathBuf> {
    let shape = TextShape {
        what: "a path to a directory",
        examples: "`/srv/www` or `public`",
        pattern: None,
        max: MAX_PATH_BYTES,
    };
    let directory = text(shape, |text| match text {
        "" => Err(Problem::new("it is empty").help("write `.` for the directory of this file")),
        text if text.contains('\0') => Err(Problem::new("it contains a NUL byte")),
        text => Ok(PathBuf::from(text)),
    });
    directory.then(|directory, node, to| to.locate(directory, node))
}

fn parse_file_name(text: &str) -> Result<String, Problem> {
    match text {
        "" => Err(Problem::new("it is empty")),
        "." | ".." => Err(Problem::new("it names a directory")),
        text if text.contains('/') => Err(Problem::new("it is in another directory")),
        text if text.contains('\0') => Err(Problem::new("it contains a NUL byte")),
        text => Ok(text.to_owned()),
    }
}

/// A name that leads downwards from the root, segment by segment.
fn parse_below(text: &str) -> Result<String, Problem> {
    if let Some(name) = text.strip_prefix('/') {
        let problem = Problem::new("it starts with a slash");
        return Err(problem.help(format!("the path is relative to `root`: write `{name}`")));
    }
    if text.split('/').any(|segment| segment == "..") {
        let problem = Problem::new("it leads outside `root`, or contains `.` or `..`");
        return Err(problem.help("write a path below `root`, such as `index.html`"));
    }
    for segment in text.split('/') {
        parse_file_name(segment)?;
    }
    Ok(text.to_owned())
}

fn types() -> impl Read<Value = Vec<(String, HeaderValue)>> {
    let types = mapping(ENDING, parse_ending, header_value(), 0..=MAX_MEDIA_TYPES);
    types.map(|named| named.into_iter().map(|Named { key, value, .. }| (key, value)).collect())
}

fn parse_ending(text: &str) -> Result<String, Problem> {
    if let Some(ending) = text.strip_prefix('.') {
        let problem = Problem::new("leave out the dot");
        return Err(problem.help(format!("write `{ending}`")));
    }
    if text.contains(['.', '/']) {
        return Err(Problem::new("an extension is the part after the last dot"));
    }
    let lower = text.to_ascii_lowercase();
    match lower == text {
        true => Ok(lower),
        false => {
            let problem = Problem::new("extensions are compared in lower case");
            Err(problem.help(format!("write `{lower}`")))
        }
    }
}
