//! Paths that the gateway requests itself.

use crate::bounds::MAX_PATH;
use crate::problem::Problem;
use crate::read::Read;
use crate::readers::text;
use crate::shape::TextShape;
use titan_http::is_target_byte;

/// The path of a request, possibly with a query.
pub(crate) fn target() -> impl Read<Value = String> {
    text(TARGET, parse_target)
}

const TARGET: TextShape = TextShape {
    what: "a request path",
    examples: "`/verify` or `/verify?realm=a`",
    pattern: Some("^/"),
    max: MAX_PATH,
};

fn parse_target(text: &str) -> Result<String, Problem> {
    match text {
        text if !text.starts_with('/') => Err(Problem::new("it does not start with `/`")),
        text if !text.bytes().all(is_target_byte) => {
            Err(Problem::new("it contains characters that a path cannot have")
                .help("write a space as `%20`"))
        }
        text => Ok(text.to_owned()),
    }
}
