//! Short texts with a grammar: names, field names and values, tokens, regular expressions.

use crate::bounds::{MAX_NAME, MAX_REGEX, MAX_REGEX_PROGRAM, MAX_REGEXES, MAX_TOKEN, MAX_VALUE};
use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::problem::Problem;
use crate::read::{Read, Reading};
use crate::readers::text;
use crate::shape::{Shape, TextShape};
use std::fmt;
use std::ops::Range;
use titan_http::is_token_byte;

/// The name of a route or an upstream: 1 to 64 of `A-Z a-z 0-9 _ . -`, so that it can label a metric.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// The name of a route that has none in the file; made of characters that names have.
    pub(crate) fn of_route(name: String) -> Name {
        Name(name)
    }

    /// The name as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a header field as written: a token (RFC 9110 section 5.1), compared without regard to case.
#[derive(Clone, Debug)]
pub struct HeaderName(String);

impl HeaderName {
    /// The name as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl HeaderName {
    /// Whether upstreams may take one for the other.
    pub(crate) fn is_alike(&self, other: &HeaderName) -> bool {
        titan_http::is_alike(self.0.as_bytes(), other.0.as_bytes())
    }
}

impl PartialEq for HeaderName {
    fn eq(&self, other: &HeaderName) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for HeaderName {}

/// The name of a cookie, or another word by which one side calls something: a token; case counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The protocol that clients may switch to unless a route says otherwise.
    pub(crate) fn websocket() -> Token {
        Token("websocket".to_owned())
    }

    /// The scheme of tokens unless a policy says otherwise.
    pub(crate) fn bearer() -> Token {
        Token("Bearer".to_owned())
    }

    /// The token as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The value of a header field: no control bytes, no white space around it (RFC 9110 section 5.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderValue(String);

impl HeaderValue {
    /// A value that the gateway itself writes.
    pub(crate) fn of(text: &'static str) -> HeaderValue {
        HeaderValue(text.to_owned())
    }

    /// The value as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A regular expression that has been compiled; it matches in linear time.
#[derive(Clone, Debug)]
pub struct Pattern(regex::bytes::Regex);

impl Pattern {
    /// Whether the expression matches anywhere in `text`, unless it is anchored with `^` and `$`.
    pub fn is_match(&self, text: &[u8]) -> bool {
        self.0.is_match(text)
    }

    /// Where the whole expression and each of its groups match `text` first; a group that does not take part
    /// is empty. Copies no text.
    pub fn captures(&self, text: &[u8]) -> Option<Vec<Range<usize>>> {
        let captures = self.0.captures(text)?;
        Some(captures.iter().map(|group| group.map_or(0..0, |group| group.range())).collect())
    }

    /// The place of the group with that number or name.
    pub(crate) fn group(&self, name: &str) -> Option<usize> {
        // A sign would be no number as people write it.
        let is_plain = name.bytes().all(|byte| byte.is_ascii_digit());
        let number = name.parse().ok().filter(|number| is_plain && *number < self.0.captures_len());
        let named = || self.0.capture_names().position(|it| it == Some(name));
        number.or_else(named)
    }

    /// The same expression, which now has to match the whole text.
    pub(crate) fn whole(&self) -> Option<Pattern> {
        let new = |text: String| regex::bytes::Regex::new(&text).ok();
        let whole = new(format!("^(?:{})$", self.as_str()));
        // With `(?x)` a comment may stand at the end, which a line end ends and nothing else.
        whole.or_else(|| new(format!("^(?:{}\n)$", self.as_str()))).map(Pattern)
    }

    /// The expression as written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Pattern {}

pub(crate) const NAME: TextShape = TextShape {
    what: "a name",
    examples: "`api` or `shop.v2-blue`: 1 to 64 letters, digits, `_`, `.` or `-`",
    pattern: Some("^[A-Za-z0-9_.-]{1,64}$"),
    max: MAX_NAME,
};

pub(crate) const HEADER_NAME: TextShape = TextShape {
    what: "a header name",
    examples: "`X-Tenant`",
    pattern: Some("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"),
    max: MAX_TOKEN,
};

const TOKEN: TextShape = TextShape {
    what: "a token",
    examples: "`titan`: letters, digits and any of ``!#$%&'*+-.^_`|~``",
    pattern: Some("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"),
    max: MAX_TOKEN,
};

const COOKIE_NAME: TextShape = TextShape { what: "a cookie name", examples: "`session`", ..TOKEN };

pub(crate) const HEADER_VALUE: TextShape = TextShape {
    what: "a header value",
    examples: "`text/plain`",
    pattern: Some("^[^\\u0000-\\u0008\\u000A-\\u001F\\u007F]*$"),
    max: MAX_VALUE,
};

const REGEX: TextShape = TextShape {
    what: "a regular expression",
    examples: "`^v[0-9]+$`",
    pattern: None,
    max: MAX_REGEX,
};

pub(crate) fn name() -> impl Read<Value = Name> {
    text(NAME, parse_name)
}

pub(crate) fn header_name() -> impl Read<Value = HeaderName> {
    text(HEADER_NAME, parse_header_name).shaped(Shape::Caseless)
}

pub(crate) fn token() -> impl Read<Value = Token> {
    text(TOKEN, |text| parse_token(text).map(Token))
}

pub(crate) fn cookie_name() -> impl Read<Value = Token> {
    text(COOKIE_NAME, |text| parse_token(text).map(Token))
}

pub(crate) fn header_value() -> impl Read<Value = HeaderValue> {
    text(HEADER_VALUE, parse_header_value)
}

pub(crate) fn pattern() -> impl Read<Value = Pattern> {
    PatternReader
}

pub(crate) fn parse_name(text: &str) -> Result<Name, Problem> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    check(text, allowed)?;
    Ok(Name(text.to_owned()))
}

pub(crate) fn parse_header_name(text: &str) -> Result<HeaderName, Problem> {
    parse_token(text).map(HeaderName)
}

fn parse_token(text: &str) -> Result<String, Problem> {
    check(text, is_token_byte)?;
    Ok(text.to_owned())
}

/// Whether there is something, and only of the allowed bytes.
fn check(text: &str, allowed: impl Fn(u8) -> bool) -> Result<(), Problem> {
    if text.is_empty() {
        return Err(Problem::new("it is empty"));
    }
    match text
        .char_indices()
        .find(|(_, c)| !u8::try_from(*c).is_ok_and(|it| it < 0x80 && allowed(it)))
    {
        None => Ok(()),
        Some((at, c)) => Err(unexpected(at, c)),
    }
}

/// A character that does not belong there.
pub(crate) fn unexpected(at: usize, c: char) -> Problem {
    let shown = match c {
        ' ' => "a space".to_owned(),
        c => format!("`{}`", c.escape_debug()),
    };
    Problem::new(format!("{shown} is not allowed here")).part(at..at + c.len_utf8())
}

pub(crate) fn parse_header_value(text: &str) -> Result<HeaderValue, Problem> {
    let is_control = |c: char| c.is_ascii_control() && c != '\t';
    if let Some((at, c)) = text.char_indices().find(|(_, c)| is_control(*c)) {
        return Err(unexpected(at, c).help("a header value must be one line of text"));
    }
    if text.trim_matches([' ', '\t']) != text {
        return Err(Problem::new("a header value cannot begin or end with white space"));
    }
    Ok(HeaderValue(text.to_owned()))
}

struct PatternReader;

impl Read for PatternReader {
    type Value = Pattern;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<Pattern> {
        if !to.take_regex() {
            let message = format!("the file has more than {MAX_REGEXES} regular expressions");
            return to
                .fail(Diagnostic::error(node.span, message).label("this one exceeds the limit"));
        }
        text(REGEX, parse_pattern).read(node, to)
    }

    fn shape(&self) -> Shape {
        Shape::Text(REGEX)
    }
}

pub(crate) fn parse_pattern(text: &str) -> Result<Pattern, Problem> {
    let compiled = regex::bytes::RegexBuilder::new(text)
        .size_limit(MAX_REGEX_PROGRAM)
        .dfa_size_limit(MAX_REGEX_PROGRAM)
        .build();
    compiled.map(Pattern).map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => Problem::new("it is too large when compiled")
            .help("use smaller repetitions, and `(?-u)` or `[0-9]` instead of Unicode classes"),
        error => Problem::new(last_line(&error.to_string())),
    })
}

/// The parser of expressions draws the place over several lines; the reason is the last.
fn last_line(text: &str) -> String {
    let line = text.lines().last().unwrap_or(text);
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_can_be_asked_to_match_the_whole() {
        for (text, other) in
            [("a", "ab"), ("a|ab", "abc"), ("(?x) a # it ends (", "ab"), ("(?m)a$", "a\nb")]
        {
            let whole = parse_pattern(text).unwrap().whole().expect(text);
            assert!(whole.is_match(b"a") && !whole.is_match(other.as_bytes()), "{text}");
        }
    }
}
