//! Paths: the patterns by which routes choose them, and the templates filled from what they captured.

use crate::bounds::{MAX_PARAMS, MAX_PATH, MAX_SEGMENTS, MAX_TOKEN};
use crate::habits;
use crate::problem::Problem;
use crate::read::Read;
use crate::readers::text;
use crate::shape::TextShape;
use crate::token::unexpected;
use std::cmp::Ordering;
use std::fmt;
use titan_http::is_target_byte;

/// The paths that a route serves.
///
/// A path is split at each slash after the first: `/` is one empty segment, `/a/` is `a` and an empty one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathPattern {
    /// What the first segments must be.
    pub segments: Vec<Segment>,
    /// What may follow them.
    pub end: PathEnd,
}

/// What one segment of a path must be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// Exactly that, in the normal form of a path.
    Literal(String),
    /// Anything but nothing; captured under that name.
    Param(String),
}

/// What may follow the segments of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathEnd {
    /// Nothing.
    Exact,
    /// A slash and anything, also nothing; what follows the slash is captured under that name.
    Rest(String),
    /// Nothing, or a slash and anything.
    Prefix,
}

impl PathPattern {
    /// Every path there is.
    pub const EVERY: PathPattern = PathPattern { segments: Vec::new(), end: PathEnd::Prefix };

    /// Orders by precedence: what is `Less` is tried first. `Equal` are patterns that differ in nothing but
    /// names of parameters, or that have different literals and so never match the same path.
    ///
    /// Segment by segment from the left a literal comes before a parameter, and a parameter before an end
    /// that takes the rest; `{*rest}` comes before a prefix.
    pub fn precedence(&self, other: &PathPattern) -> Ordering {
        let ours = self.segments.iter().map(rank).chain([end_rank(&self.end)]);
        let theirs = other.segments.iter().map(rank).chain([end_rank(&other.end)]);
        ours.cmp(theirs)
    }

    /// What orders patterns as a search meets them: [`PathPattern::precedence`] where both can match the same path, and by
    /// their texts where they cannot.
    pub(crate) fn search_order(&self) -> impl Iterator<Item = (u8, &str)> {
        let segments = self.segments.iter().map(|segment| match segment {
            Segment::Literal(text) => (0, text.as_str()),
            Segment::Param(_) => (1, ""),
        });
        segments.chain([match self.end {
            PathEnd::Exact => (2, ""),
            PathEnd::Rest(_) => (3, ""),
            PathEnd::Prefix => (4, ""),
        }])
    }

    /// The names of what the pattern captures, in order: [`crate::Piece::Param`] counts them.
    pub fn params(&self) -> impl Iterator<Item = &str> {
        let segments = self.segments.iter().filter_map(|segment| match segment {
            Segment::Literal(_) => None,
            Segment::Param(name) => Some(name.as_str()),
        });
        segments.chain(match &self.end {
            PathEnd::Rest(name) => Some(name.as_str()),
            PathEnd::Exact | PathEnd::Prefix => None,
        })
    }

    /// The pattern as templates of paths are written elsewhere: `/users/{id}`, and `/files/*` for a prefix.
    pub fn template(&self) -> String {
        self.to_string().replace(MORE, "*")
    }

    /// The pattern without the names of its parameters: equal for patterns that match the same paths.
    pub(crate) fn shape(&self) -> String {
        let mut shape = String::new();
        for segment in &self.segments {
            shape.push('/');
            shape.push_str(match segment {
                Segment::Literal(text) => text,
                Segment::Param(_) => "{}",
            });
        }
        shape.push_str(match self.end {
            PathEnd::Exact => "",
            PathEnd::Rest(_) => "/{*}",
            PathEnd::Prefix => "/**",
        });
        shape
    }
}

/// What shows that a prefix may be followed by more. It is no part of any path.
const MORE: &str = "…";

/// As in a file, but a prefix shows that more may follow.
impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            match segment {
                Segment::Literal(text) => write!(f, "/{}", escaped(text))?,
                Segment::Param(name) => write!(f, "/{{{name}}}")?,
            }
        }
        match &self.end {
            PathEnd::Exact => Ok(()),
            PathEnd::Rest(name) => write!(f, "/{{*{name}}}"),
            PathEnd::Prefix => write!(f, "/{MORE}"),
        }
    }
}

/// A literal segment as it is written: with a backslash before what would be taken for something else.
fn escaped(text: &str) -> String {
    let text = text.replace('*', "\\*");
    match text.starts_with([':', '<']) {
        true => format!("\\{text}"),
        false => text,
    }
}

fn rank(segment: &Segment) -> u8 {
    match segment {
        Segment::Literal(_) => 1,
        Segment::Param(_) => 2,
    }
}

fn end_rank(end: &PathEnd) -> u8 {
    match end {
        PathEnd::Exact => 0,
        PathEnd::Rest(_) => 3,
        PathEnd::Prefix => 4,
    }
}

pub(crate) const PATH: TextShape = TextShape {
    what: "a path",
    examples: "`/users/{id}` or `/static/{*file}`",
    pattern: Some("^/"),
    max: MAX_PATH,
};

pub(crate) const PREFIX: TextShape =
    TextShape { what: "a prefix", examples: "`/api` or `/`", pattern: Some("^/"), max: MAX_PATH };

pub(crate) fn parse_path(text: &str) -> Result<PathPattern, Problem> {
    habits::check_path(text)?;
    let parts = split(text)?;
    let mut segments = Vec::new();
    let mut end = PathEnd::Exact;
    for (index, &(start, part)) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        match part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            None => segments.push(Segment::Literal(parse_literal(part, start, is_last)?)),
            Some(name) => match name.strip_prefix('*') {
                None => segments.push(Segment::Param(parse_param(name, start + 1)?)),
                Some(name) if is_last => end = PathEnd::Rest(parse_param(name, start + 2)?),
                Some(_) => {
                    let problem = Problem::new(
                        "`{*name}` matches the rest of the path, so nothing can follow it",
                    );
                    return Err(problem.part(start..start + part.len()));
                }
            },
        }
    }
    segments.shrink_to_fit();
    let pattern = PathPattern { segments, end };
    check_params(&pattern, text)?;
    Ok(pattern)
}

pub(crate) fn parse_prefix(text: &str) -> Result<PathPattern, Problem> {
    if text == "/" {
        return Ok(PathPattern::EVERY);
    }
    habits::check_prefix(text)?;
    if let Some(shorter) = text.strip_suffix('/') {
        let problem =
            Problem::new("a prefix must not end with a slash").part(shorter.len()..text.len());
        return Err(problem.help(format!(
            "did you mean `{shorter}`, which serves `{shorter}` and everything below, or `path: {shorter}/{{*rest}}`?"
        )));
    }
    if let Some(at) = text.find(['{', '}']) {
        let problem = Problem::new("a prefix cannot have parameters").part(at..at + 1);
        return Err(problem.help("use `path`: `path: /users/{id}/{*rest}`"));
    }
    let parts = split(text)?.into_iter();
    let segments = parts.map(|(start, part)| parse_literal(part, start, false));
    let segments = segments.map(|literal| literal.map(Segment::Literal));
    let mut segments: Vec<_> = segments.collect::<Result<_, _>>()?;
    segments.shrink_to_fit();
    Ok(PathPattern { segments, end: PathEnd::Prefix })
}

/// The segments, each with where it starts.
fn split(text: &str) -> Result<Vec<(usize, &str)>, Problem> {
    let Some(rest) = text.strip_prefix('/') else {
        let problem = Problem::new("a path must start with `/`");
        return Err(match text.is_empty() || text.contains("://") {
            true => problem,
            false => problem.help(format!("did you mean `/{text}`?")),
        });
    };
    let mut start = 1;
    let mut parts = Vec::new();
    for part in rest.split('/') {
        parts.push((start, part));
        start += part.len() + 1;
    }
    match parts.len() > MAX_SEGMENTS {
        true => Err(Problem::new(format!("a path may have at most {MAX_SEGMENTS} segments"))),
        false => Ok(parts),
    }
}

/// A segment in the normal form of paths: whatever is not, no request would ever match.
fn parse_literal(part: &str, start: usize, may_be_empty: bool) -> Result<String, Problem> {
    let whole = start..start + part.len();
    match part {
        "" if may_be_empty => return Ok(String::new()),
        "" => {
            let at = start - 1..start + 1;
            return Err(
                Problem::new("no request matches: the gateway merges `//` into `/`").part(at)
            );
        }
        "." | ".." => {
            return Err(
                Problem::new("no request matches: the gateway resolves dot segments").part(whole)
            );
        }
        _ => {}
    }
    if let Some(at) = part.find(['{', '}']) {
        let problem =
            Problem::new("braces must enclose a whole segment").part(start + at..start + at + 1);
        return Err(problem.help("a parameter is everything between two slashes: `/files/{name}`"));
    }
    check_bytes(part, start)?;
    // A backslash stands nowhere but before what it makes literal.
    Ok(part.replace('\\', ""))
}

/// Checks bytes and escapes of a path.
fn check_bytes(part: &str, start: usize) -> Result<(), Problem> {
    for (at, c) in part.char_indices() {
        let place = start + at..start + at + c.len_utf8();
        match c {
            '%' => check_escape(&part[at..], start + at)?,
            '?' => {
                let problem = Problem::new("a path does not include a query").part(place);
                return Err(problem.help("to match the query, use `query`"));
            }
            c if !c.is_ascii() || c == ' ' => {
                let mut bytes = [0; 4];
                let bytes = c.encode_utf8(&mut bytes).bytes();
                let escaped: String = bytes.map(|byte| format!("%{byte:02X}")).collect();
                let problem = unexpected(start + at, c);
                return Err(problem.help(format!("write it percent-encoded: `{escaped}`")));
            }
            '\\' if part[at + 1..].starts_with(habits::ESCAPED) => {}
            c if c == '\\' || !u8::try_from(c).is_ok_and(is_target_byte) => {
                return Err(unexpected(start + at, c));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that an escape is one that normal paths have.
fn check_escape(text: &str, at: usize) -> Result<(), Problem> {
    let digits = text.get(1..3).filter(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
    let (Some(digits), Some(byte)) = (digits, byte) else {
        let problem =
            Problem::new("`%` must be followed by two hexadecimal digits").part(at..at + 1);
        return Err(problem.help("write a literal percent sign as `%25`"));
    };
    let c = char::from(byte);
    let problem =
        Problem::new("no request matches: the gateway normalizes this escape").part(at..at + 3);
    match c {
        'A'..='Z' | 'a'..='z' | '0'..='9' | '-' | '.' | '_' | '~' => {
            Err(problem.help(format!("write `{c}`")))
        }
        '\\' | '\0'..='\x1f' | '\x7f' => Err(problem.help("the gateway refuses such requests")),
        _ if digits != digits.to_ascii_uppercase() => {
            Err(problem.help(format!("write `%{}`", digits.to_ascii_uppercase())))
        }
        _ => Ok(()),
    }
}

/// The name of what a path captures.
pub(crate) fn param_name() -> impl Read<Value = String> {
    text(PARAM, |name| parse_param(name, 0))
}

const PARAM: TextShape = TextShape {
    what: "the name of a path parameter",
    examples: "`id`, which `/users/{id}` captures",
    pattern: Some("^[A-Za-z0-9_]+$"),
    max: MAX_TOKEN,
};

fn parse_param(name: &str, start: usize) -> Result<String, Problem> {
    if name.is_empty() {
        let problem = Problem::new("the parameter has no name").part(start..start);
        return Err(problem.help("write it as `{id}` or `{*rest}`"));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match name.char_indices().find(|(_, c)| !allowed(*c)) {
        Some((at, c)) => Err(unexpected(start + at, c)
            .help("a parameter's name may contain letters, digits and `_`")),
        None => Ok(name.to_owned()),
    }
}

fn check_params(pattern: &PathPattern, text: &str) -> Result<(), Problem> {
    let names: Vec<_> = pattern.params().collect();
    if names.len() > MAX_PARAMS {
        return Err(Problem::new(format!("a path may have at most {MAX_PARAMS} parameters")));
    }
    let again = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name));
    let Some((_, name)) = again else { return Ok(()) };
    let written = [format!("/{{{name}}}"), format!("/{{*{name}}}")];
    let at = written.iter().filter_map(|it| text.rfind(it)).max().unwrap_or(0);
    let problem = Problem::new(format!("the parameter `{name}` appears twice"));
    let end = text[at + 1..].find('/').map_or(text.len(), |length| at + 1 + length);
    Err(problem.part(at + 1..end).help("give each a different name"))
}

/// Checks the replacement for a prefix, and takes the slash from its end.
pub(crate) fn parse_replacement(text: &str) -> Result<String, Problem> {
    if let Some(shorter) = text.strip_suffix('/').filter(|shorter| parse_prefix(shorter).is_ok()) {
        let part = shorter.len()..text.len();
        let problem = Problem::new("the rest of the path already starts with a slash").part(part);
        return Err(problem.help(format!("did you mean `{shorter}`?")));
    }
    let PathPattern { segments, end: _ } = parse_prefix(text)?;
    let literals = segments.iter().map(|segment| match segment {
        Segment::Literal(text) | Segment::Param(text) => format!("/{text}"),
    });
    Ok(literals.collect())
}

/// A prefix in which every segment stands for itself.
pub(crate) fn parse_literal_prefix(text: &str) -> Result<String, Problem> {
    if let Some(at) = text.find('{') {
        return Err(Problem::new("it has a parameter").part(at..at + 1));
    }
    parse_replacement(text)
}

/// Checks a path that is made, not matched: what is sent must be in the normal form.
pub(crate) fn check_made_path(path: &str) -> Result<(), Problem> {
    if let Some(at) = path.find('\\') {
        return Err(unexpected(at, '\\'));
    }
    let parts = split(path)?;
    let last = parts.len() - 1;
    for (index, (start, part)) in parts.into_iter().enumerate() {
        parse_literal(part, start, index == last)?;
    }
    Ok(())
}
