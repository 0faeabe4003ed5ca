//! JSON pointers (RFC 6901): where in a document a value is.

use crate::bounds::MAX_POINTER;
use crate::problem::Problem;
use crate::read::Read;
use crate::readers::text;
use crate::shape::TextShape;
use std::fmt;

/// Members of JSON documents: a JSON pointer in which `*` stands for any name or index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MemberPattern(Vec<Option<String>>);

impl MemberPattern {
    /// The names that lead to them, from the outermost; `None` for any.
    pub fn names(&self) -> &[Option<String>] {
        &self.0
    }
}

impl fmt::Display for MemberPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|name| match name {
            None => f.write_str("/*"),
            Some(name) => write!(f, "/{}", escaped(name)),
        })
    }
}

/// A name as a part of a pointer.
pub(crate) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

const MEMBER_PATTERN: TextShape = TextShape {
    what: "a JSON pointer",
    examples: "`/meta/time`, or with `*` for any name or index `/items/*/id`",
    pattern: Some("^/"),
    max: MAX_POINTER,
};

pub(crate) fn member_pattern() -> impl Read<Value = MemberPattern> {
    text(MEMBER_PATTERN, parse_member_pattern)
}

fn parse_member_pattern(text: &str) -> Result<MemberPattern, Problem> {
    let Some(pointer) = text.strip_prefix('/') else {
        let path = text.strip_prefix("$.").unwrap_or(text).replace('.', "/");
        let problem = Problem::new("a JSON pointer begins with `/`");
        return Err(problem.help(format!("did you mean `/{path}`?")));
    };
    let any = |name: String| if name == "*" { None } else { Some(name) };
    Ok(MemberPattern(parse_pointer(pointer)?.into_iter().map(any).collect()))
}

/// The names in a JSON pointer without its first slash.
pub(crate) fn parse_pointer(pointer: &str) -> Result<Vec<String>, Problem> {
    pointer.split('/').map(unescape).collect()
}

/// A part of a JSON pointer (RFC 6901 section 4).
fn unescape(part: &str) -> Result<String, Problem> {
    let mut rest = part.split('~');
    let mut out = rest.next().unwrap_or_default().to_owned();
    for piece in rest {
        let (byte, behind) = match piece.as_bytes().first() {
            Some(b'0') => ('~', &piece[1..]),
            Some(b'1') => ('/', &piece[1..]),
            _ => return Err(Problem::new("in a JSON pointer, `~` must be followed by `0` or `1`")),
        };
        out.push(byte);
        out.push_str(behind);
    }
    Ok(out)
}
