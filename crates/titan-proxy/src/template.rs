//! Text built from parts of a request: the Location of a redirect, the path for an upstream.
//!
//! Parts of a request are only ever written as bytes of a URI: all other bytes are escaped, so that no request can
//! put a line end into a field or a request line. What a part may mean depends on where in the URI it stands:
//!
//! | place | a captured part of the path |
//! |---|---|
//! | host | letters, digits, `-` and `.`; otherwise the request is refused: it must not choose another host |
//! | path | unchanged: it is already part of a path |
//! | query, fragment | with `&`, `=`, `+`, `;`, `?` and `#` escaped: it is one value |

use super::route::{Match, Params};
use std::fmt;
use std::num::NonZeroU16;
use titan_config::{PathPattern, Piece, Rewrite, Template};
use titan_http::path::{BadPath, escape, is_path_byte, settle};
use titan_http::{Authority, RequestHead, host_of, is_target_byte};

/// The parts of a request that a template can name.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    /// The host with its port, if it has one.
    pub(crate) authority: Option<&'a [u8]>,
    /// The path in its normal form, or `*`.
    pub(crate) path: &'a [u8],
    /// What follows the `?`.
    pub(crate) query: Option<&'a [u8]>,
    /// The path that the route took.
    pub(crate) matched: &'a [u8],
    /// What the route captured of `matched`.
    pub(crate) params: &'a Params,
}

impl<'a> Parts<'a> {
    /// Those of a request that was matched so.
    pub(crate) fn of(request: &'a RequestHead, found: &'a Match) -> Parts<'a> {
        let (authority, path, query) = (request.authority(), request.path(), request.query());
        Parts { authority, path, query, matched: found.path(request), params: &found.params }
    }
}

/// What happens to the path on its way to an upstream.
#[derive(Debug)]
pub(crate) enum PathRewrite {
    /// The first segments give way to that text.
    Prefix {
        /// How many segments the route's prefix has.
        segments: usize,
        /// What takes their place.
        replacement: Box<str>,
    },
    /// The whole path gives way.
    Path(Template),
}

/// Why a template has no result for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadResult {
    /// It needs the host, and the request has none.
    NoHost,
    /// A part of the path would become part of a host, or the other way round.
    WrongPlace,
    /// The result is no path.
    Path(BadPath),
}

/// Writes the value of a `Location` field.
pub(crate) fn write_location(
    template: &Template,
    parts: &Parts<'_>,
    out: &mut Vec<u8>,
) -> Result<(), BadResult> {
    out.clear();
    let mut writer = Writer { out, place: Position::Start };
    for piece in &template.pieces {
        writer.write(piece, parts)?;
    }
    if !starts_with_authority(&template.pieces) {
        merge_first_slashes(out);
    }
    Ok(())
}

impl PathRewrite {
    /// The rewrite for a route with that path.
    pub(crate) fn new(rewrite: &Rewrite, pattern: &PathPattern) -> PathRewrite {
        match rewrite {
            Rewrite::Prefix(to) => PathRewrite::Prefix {
                segments: pattern.segments.len(),
                replacement: to.trim_end_matches('/').into(),
            },
            Rewrite::Path(template) => PathRewrite::Path(template.clone()),
        }
    }

    /// Writes the path for the upstream, in its normal form. The `*` of OPTIONS stays: it names the
    /// server and no place on it.
    pub(crate) fn apply(&self, parts: &Parts<'_>, out: &mut Vec<u8>) -> Result<(), BadResult> {
        out.clear();
        if parts.path == b"*" {
            out.push(b'*');
            return Ok(());
        }
        match self {
            PathRewrite::Prefix { segments, replacement } => {
                out.extend_from_slice(replacement.as_bytes());
                out.extend_from_slice(after_segments(parts.path, *segments));
            }
            PathRewrite::Path(template) => {
                let mut writer = Writer { out, place: Position::Path };
                template.pieces.iter().try_for_each(|piece| writer.write_in_path(piece, parts))?;
            }
        }
        if out.is_empty() {
            out.push(b'/');
        }
        settle(out).map_err(BadResult::Path)
    }
}

/// Writes the place of a request under `https`, at that port.
pub(crate) fn write_https(
    request: &RequestHead,
    port: NonZeroU16,
    out: &mut Vec<u8>,
) -> Result<(), BadResult> {
    let authority = request.authority().ok_or(BadResult::NoHost)?;
    Authority::parse(authority).map_err(|_| BadResult::NoHost)?;
    out.clear();
    out.extend_from_slice(b"https://");
    out.extend_from_slice(host_of(authority));
    if port.get() != 443 {
        out.extend_from_slice(format!(":{port}").as_bytes());
    }
    let mut writer = Writer { out, place: Position::Authority };
    writer.path(request.path())?;
    writer.query(request.query());
    Ok(())
}

/// What follows the first `count` segments: nothing, or from their slash on.
pub(crate) fn after_segments(path: &[u8], count: usize) -> &[u8] {
    let mut slashes = (0..path.len()).filter(|&at| path[at] == b'/');
    slashes.nth(count).map_or(&[], |at| &path[at..])
}

/// Two slashes at the start would make a host of what follows them.
fn merge_first_slashes(location: &mut Vec<u8>) {
    let slashes = location.iter().take_while(|&&byte| byte == b'/').count();
    location.drain(..slashes.saturating_sub(1));
}

fn starts_with_authority(pieces: &[Piece]) -> bool {
    matches!(pieces.first(), Some(Piece::Text(text)) if authority_start(text).is_some())
}

/// Where the authority starts in the text that a URI reference starts with.
fn authority_start(text: &str) -> Option<usize> {
    match text.starts_with("//") {
        true => Some(2),
        false => text.find("://").filter(|&at| !text[..at].contains('/')).map(|at| at + 3),
    }
}

/// Where in a URI reference the writer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Start,
    Authority,
    Path,
    Query,
    Fragment,
}

struct Writer<'o> {
    out: &'o mut Vec<u8>,
    place: Position,
}

impl Writer<'_> {
    fn write(&mut self, piece: &Piece, parts: &Parts<'_>) -> Result<(), BadResult> {
        match piece {
            Piece::Text(text) => self.text(text),
            Piece::Host => self.host(parts.authority.ok_or(BadResult::NoHost)?)?,
            Piece::Hostname => self.host(host_of(parts.authority.ok_or(BadResult::NoHost)?))?,
            Piece::Path => self.path(parts.path)?,
            // Where the path is the prefix itself there is none, and what comes before it stays as it is.
            Piece::Rest(segments) => match after_segments(parts.path, *segments) {
                b"" => {}
                rest => self.path(rest)?,
            },
            Piece::Query => self.query(parts.query),
            Piece::Param(index) => self.param(parts.params.get(*index, parts.matched))?,
        }
        Ok(())
    }

    /// In a path alone: nothing ends it, what would is escaped.
    fn write_in_path(&mut self, piece: &Piece, parts: &Parts<'_>) -> Result<(), BadResult> {
        let bytes = match piece {
            Piece::Text(text) => text.as_bytes(),
            Piece::Host => parts.authority.ok_or(BadResult::NoHost)?,
            Piece::Hostname => host_of(parts.authority.ok_or(BadResult::NoHost)?),
            Piece::Path => parts.path,
            Piece::Rest(segments) => after_segments(parts.path, *segments),
            Piece::Query => parts.query.unwrap_or_default(),
            Piece::Param(index) => parts.params.get(*index, parts.matched),
        };
        self.escape(bytes, is_path_byte);
        Ok(())
    }

    fn text(&mut self, text: &str) {
        let start = match self.place {
            Position::Start => authority_start(text),
            _ => None,
        };
        self.place = match (self.place, start) {
            (Position::Start, Some(_)) => Position::Authority,
            (Position::Start, None) => Position::Path,
            (place, _) => place,
        };
        for &byte in &text.as_bytes()[start.unwrap_or(0)..] {
            self.place = self.place.after(byte);
        }
        self.escape(text.as_bytes(), |byte| is_target_byte(byte) || byte == b'#');
    }

    fn host(&mut self, authority: &[u8]) -> Result<(), BadResult> {
        match self.place {
            Position::Start => return Err(BadResult::WrongPlace),
            Position::Authority => {
                Authority::parse(authority).map_err(|_| BadResult::NoHost)?;
                self.out.extend_from_slice(authority);
            }
            Position::Path | Position::Query | Position::Fragment => self.value(authority),
        }
        Ok(())
    }

    /// A whole path: it ends an authority by its first slash.
    fn path(&mut self, path: &[u8]) -> Result<(), BadResult> {
        match self.place {
            _ if path.first() != Some(&b'/') => return Err(BadResult::Path(BadPath::Relative)),
            Position::Start | Position::Authority | Position::Path => {
                self.place = Position::Path;
                self.escape(path, is_path_byte);
            }
            Position::Query | Position::Fragment => self.value(path),
        }
        Ok(())
    }

    /// The query with its `?`, or with `&` where a query has begun already.
    fn query(&mut self, query: Option<&[u8]>) {
        let Some(query) = query else { return };
        match self.place {
            Position::Start | Position::Authority | Position::Path => {
                self.place = Position::Query;
                self.out.push(b'?');
            }
            Position::Query if !matches!(self.out.last(), Some(b'?' | b'&')) => self.out.push(b'&'),
            Position::Query | Position::Fragment => {}
        }
        self.escape(query, is_target_byte);
    }

    fn param(&mut self, value: &[u8]) -> Result<(), BadResult> {
        match self.place {
            Position::Start | Position::Authority
                if value.iter().all(|&byte| is_label_byte(byte)) =>
            {
                self.out.extend_from_slice(value);
            }
            Position::Start | Position::Authority => return Err(BadResult::WrongPlace),
            Position::Path => self.escape(value, is_path_byte),
            Position::Query | Position::Fragment => self.value(value),
        }
        Ok(())
    }

    /// One value in a query or fragment, or a host in a path.
    fn value(&mut self, value: &[u8]) {
        self.escape(value, |byte| is_path_byte(byte) && !b"&=+;".contains(&byte));
    }

    fn escape(&mut self, bytes: &[u8], is_plain: impl Fn(u8) -> bool) {
        escape(bytes, is_plain, self.out);
    }
}

impl Position {
    fn after(self, byte: u8) -> Position {
        match (self, byte) {
            (_, b'#') => Position::Fragment,
            (Position::Authority | Position::Path, b'?') => Position::Query,
            (Position::Authority, b'/') => Position::Path,
            (place, _) => place,
        }
    }
}

fn is_label_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.')
}

impl fmt::Display for BadResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadResult::NoHost => f.write_str("the request names no host"),
            BadResult::WrongPlace => f.write_str("part of the path would become part of the host"),
            BadResult::Path(bad) => bad.fmt(f),
        }
    }
}

impl std::error::Error for BadResult {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use titan_config::{PathEnd, Segment};

    /// `{host}`, `{path}`, `{query}`, and `{0}` to `{9}` for captured parts.
    fn template(text: &str) -> Template {
        let piece = |name: &str| match name {
            "host" => Piece::Host,
            "path" => Piece::Path,
            "query" => Piece::Query,
            index => Piece::Param(index.parse().unwrap()),
        };
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').unwrap();
            pieces.extend((!before.is_empty()).then(|| Piece::Text(before.into())));
            pieces.push(piece(name));
            rest = after;
        }
        pieces.extend((!rest.is_empty()).then(|| Piece::Text(rest.into())));
        Template { pieces }
    }

    /// A path of these segments, and each of them captured.
    fn capture(segments: &[&str]) -> (String, Params) {
        let path = format!("/{}", segments.join("/"));
        let mut start = 1;
        let span = |segment: &&str| {
            let span = (start, start + segment.len());
            start = span.1 + 1;
            span
        };
        let spans: Vec<_> = segments.iter().map(span).collect();
        (path, Params::of_spans(&spans))
    }

    fn location(text: &str, captured: &[&str]) -> Result<String, BadResult> {
        let (path, params) = capture(captured);
        let parts = Parts {
            authority: Some(b"a.example:8080"),
            path: path.as_bytes(),
            matched: path.as_bytes(),
            query: Some(b"x=1&y"),
            params: &params,
        };
        let mut out = b"stale".to_vec();
        write_location(&template(text), &parts, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn apply(rewrite: &PathRewrite, path: &str, params: &Params) -> String {
        let parts = Parts {
            authority: None,
            path: path.as_bytes(),
            matched: path.as_bytes(),
            query: None,
            params,
        };
        let mut out = b"stale".to_vec();
        match rewrite.apply(&parts, &mut out) {
            Ok(()) => String::from_utf8(out).unwrap(),
            Err(bad) => bad.to_string(),
        }
    }

    fn with_path(text: &str, captured: &[&str]) -> String {
        let (path, params) = capture(captured);
        apply(&PathRewrite::Path(template(text)), &path, &params)
    }

    #[test]
    fn a_redirect_is_filled_in() {
        let filled = |text| location(text, &["a", "b%20c"]).unwrap();
        assert_eq!(filled("https://{host}{path}{query}"), "https://a.example:8080/a/b%20c?x=1&y");
        assert_eq!(filled("/new/{1}?from={0}"), "/new/b%20c?from=a");
        assert_eq!(filled("{path}?z=2{query}"), "/a/b%20c?z=2&x=1&y");
        assert_eq!(filled("https://b.example?{query}#top"), "https://b.example?x=1&y#top");
        assert_eq!(filled("https://{0}.example/"), "https://a.example/");
    }

    #[test]
    fn a_redirect_can_leave_out_the_port_and_the_prefix() {
        let params = Params::default();
        let to = |pieces: Vec<Piece>, path: &str| {
            let (path, authority) = (path.as_bytes(), Some(b"a.example:8080".as_slice()));
            let parts = Parts { authority, path, matched: path, query: None, params: &params };
            let mut out = Vec::new();
            write_location(&Template { pieces }, &parts, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = |text: &str| Piece::Text(text.to_owned());
        let whole = || vec![text("https://"), Piece::Hostname, text("/new"), Piece::Rest(1)];
        assert_eq!(to(whole(), "/old/x"), "https://a.example/new/x");
        assert_eq!(to(whole(), "/old"), "https://a.example/new");
        let only = || vec![text("https://"), Piece::Hostname, Piece::Rest(1)];
        assert_eq!(to(only(), "/old/x"), "https://a.example/x");
        assert_eq!(to(only(), "/old"), "https://a.example");
    }

    #[test]
    fn without_a_query_there_is_no_question_mark() {
        let params = Params::default();
        let parts =
            Parts { authority: None, path: b"/a", matched: b"/a", query: None, params: &params };
        let mut out = Vec::new();
        write_location(&template("{path}{query}"), &parts, &mut out).unwrap();
        assert_eq!(out, b"/a");
        let failed = write_location(&template("http://{host}"), &parts, &mut out);
        assert_eq!(failed, Err(BadResult::NoHost));
    }

    #[test]
    fn a_captured_part_cannot_choose_the_host() {
        let to = |text, captured| location(text, &[captured]);
        for part in ["evil.example:80", "a@b", "x%2F", "go/x", "a?b"] {
            assert_eq!(to("https://{0}", part), Err(BadResult::WrongPlace), "{part}");
            assert_eq!(to("https://good.example{0}", part), Err(BadResult::WrongPlace), "{part}");
            assert_eq!(to("{0}", part), Err(BadResult::WrongPlace), "{part}");
        }
        assert_eq!(to("/{0}/evil.example", "").unwrap(), "/evil.example");
        assert_eq!(to("/{0}", "/evil.example").unwrap(), "/evil.example");
    }

    #[test]
    fn a_captured_part_stays_one_value_of_a_query() {
        let filled = location("/?a={0}&b=1", &["1&b=2+3=4;c"]).unwrap();
        assert_eq!(filled, "/?a=1%26b%3D2%2B3%3D4%3Bc&b=1");
    }

    #[test]
    fn the_asterisk_is_no_path_to_redirect_to() {
        let params = Params::default();
        let parts = Parts {
            authority: Some(b"a"),
            path: b"*",
            matched: b"*",
            query: None,
            params: &params,
        };
        let failed = write_location(&template("https://{host}{path}"), &parts, &mut Vec::new());
        assert_eq!(failed, Err(BadResult::Path(BadPath::Relative)));
    }

    #[test]
    fn a_prefix_is_replaced_at_a_segment_boundary() {
        let to = |replacement: &str, prefix: &str, path| {
            let segments = prefix.split('/').filter(|it| !it.is_empty());
            let segments = segments.map(|it| Segment::Literal(it.into())).collect();
            let pattern = PathPattern { segments, end: PathEnd::Prefix };
            let rewrite = PathRewrite::new(&Rewrite::Prefix(replacement.into()), &pattern);
            apply(&rewrite, path, &Params::default())
        };
        assert_eq!(to("/v2", "/api", "/api/x"), "/v2/x");
        assert_eq!(to("/v2", "/api", "/api"), "/v2");
        assert_eq!(to("/v2", "/api", "/api/"), "/v2/");
        assert_eq!(to("/", "/api", "/api/x/y"), "/x/y");
        assert_eq!(to("", "/api", "/api"), "/");
        assert_eq!(to("/v2/", "/", "/x"), "/v2/x");
        assert_eq!(to("/v2", "/", "/"), "/v2/");
        assert_eq!(to("/v2", "/a/b", "/a/b/c"), "/v2/c");
        assert_eq!(to("/v2", "/", "*"), "*");
    }

    #[test]
    fn a_path_is_made_of_captured_parts() {
        assert_eq!(with_path("/x/{0}/{1}", &["a", "b/c"]), "/x/a/b/c");
        assert_eq!(with_path("/x/{0}", &[""]), "/x/");
        assert_eq!(with_path("/x{path}", &["whatever"]), "/x/whatever");
        assert_eq!(with_path("/{0}/y", &[""]), "/y");
    }

    #[test]
    fn a_rewritten_path_is_normal_or_refused() {
        assert_eq!(with_path("/a/.{0}", &["."]), "/");
        assert_eq!(with_path("/.{0}", &["."]), BadPath::AboveRoot.to_string());
        assert_eq!(with_path("/a?b", &[]), "/a%3Fb");
    }

    proptest! {
        #[test]
        fn nothing_but_bytes_of_a_uri_comes_out(
            part in proptest::collection::vec(any::<u8>(), 0..20),
            query in proptest::collection::vec(any::<u8>(), 0..20),
            place in 0_usize..5,
        ) {
            let path = [b"/".as_slice(), &part].concat();
            let params = Params::of_spans(&[(1, path.len())]);
            let parts = Parts {
                authority: Some(&part),
                path: &path,
                matched: &path,
                query: Some(&query),
                params: &params,
            };
            let texts = ["https://{0}", "https://a{path}{query}", "/{0}", "/?a={0}{query}", "{path}#{host}"];
            let mut out = Vec::new();
            if write_location(&template(texts[place]), &parts, &mut out).is_ok() {
                prop_assert!(out.iter().all(u8::is_ascii_graphic));
                let authority = out.strip_prefix(b"https://").unwrap_or(b"");
                let host = authority.split(|byte| b"/?#".contains(byte)).next().unwrap();
                prop_assert!(!host.contains(&b'@'));
                prop_assert!(!out.starts_with(b"//"));
            }
        }
    }
}
