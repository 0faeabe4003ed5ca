//! Request methods, and misspelt ones.

use crate::habits;
use crate::problem::Problem;
use crate::read::Read;
use crate::readers::text;
use crate::shape::TextShape;
use crate::suggest;
use titan_http::Method;

/// The methods that are probably meant by what is nearly one of them.
const USUAL_METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

const METHOD: TextShape = TextShape {
    what: "a method",
    examples: "`GET` or `POST`",
    pattern: Some("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"),
    max: Method::MAX_LEN,
};

pub(crate) fn method() -> impl Read<Value = Method> {
    text(METHOD, parse_method)
}

pub(crate) fn served_method() -> impl Read<Value = Method> {
    text(METHOD, |text| habits::check_method(text).and_then(|()| parse_method(text)))
}

fn parse_method(text: &str) -> Result<Method, Problem> {
    let method = Method::parse(text.as_bytes()).ok_or_else(|| Problem::new("it is not a token"))?;
    if USUAL_METHODS.contains(&text) {
        return Ok(method);
    }
    match suggest::nearest(text, USUAL_METHODS.into_iter()) {
        None => Ok(method),
        Some(meant) => {
            let reason = match meant.eq_ignore_ascii_case(text) {
                true => "methods are case-sensitive",
                false => "it looks like a misspelt standard method",
            };
            Err(Problem::new(reason).help(format!("did you mean `{meant}`?")))
        }
    }
}
