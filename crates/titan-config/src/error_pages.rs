//! Error pages instead of problem documents, for the gateway's own failures.

use crate::bounds::MAX_STATUSES;
use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::problem::Problem;
use crate::read::{Read, Reading, default, required};
use crate::readers::{Named, mapping, short_for};
use crate::respond::body;
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::token::{HeaderValue, header_value};
use titan_http::Status;

section! {
    "error_page", "an error page", Any;
    /// A page that browsers get in place of a problem document. A plain string sets `body` alone.
    pub struct ErrorPage {
        /// The page, up to 64 KiB. It is the same for every request.
        pub body: String = required(body()),
        /// Its media type.
        pub content_type: HeaderValue =
            default("text/html; charset=utf-8", header_value()),
    }
}

/// Which failures a page is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failures {
    /// Those with that status.
    Status(Status),
    /// Those whose status has that first digit.
    Class(u8),
}

/// Pages by the failures that they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorPages(Vec<(Failures, ErrorPage)>);

impl ErrorPages {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The page for a failure with that status: one for the status comes before one for its class.
    pub fn find(&self, status: Status) -> Option<&ErrorPage> {
        let find = |wanted: Failures| self.0.iter().find(|(failures, _)| *failures == wanted);
        let found =
            find(Failures::Status(status)).or_else(|| find(Failures::Class(status.class())));
        found.map(|(_, page)| page)
    }
}

pub(crate) fn error_pages() -> impl Read<Value = ErrorPages> {
    let page = short_for("body", section_of::<ErrorPage>()).then(|page, node, to| {
        warn_of_places(&page, node, to);
        Some(page)
    });
    let pages = mapping(FAILURES, parse_failures, page, 0..=MAX_STATUSES);
    pages.map(|pages| {
        ErrorPages(pages.into_iter().map(|Named { key, value, .. }| (key, value)).collect())
    })
}

/// Warns where a page is what other gateways take for the place of one.
fn warn_of_places(page: &ErrorPage, node: &Node, to: &mut Reading<'_>) {
    const PLACES: [&str; 4] = ["/", "@", "http://", "https://"];
    let body = page.body.trim_end();
    if body.contains('\n') || !PLACES.iter().any(|place| body.starts_with(place)) {
        return;
    }
    let span = node.entry("body").map_or(node.span, |entry| entry.value.span);
    let warning = Diagnostic::warning(span, "this text is itself the page");
    let warning = warning.label("clients would see just this text");
    to.add(warning.help(
        "write the page's content here; to serve a file as an error page, use `error_pages` \
            under `files` of a route",
    ));
}

const FAILURES: TextShape = TextShape {
    what: "a failure status",
    examples: "`404`, or `5xx` for all from 500",
    pattern: Some("^([45][0-9][0-9]|[45]xx)$"),
    max: 3,
};

fn parse_failures(text: &str) -> Result<Failures, Problem> {
    match text {
        "4xx" => Ok(Failures::Class(4)),
        "5xx" => Ok(Failures::Class(5)),
        _ => {
            let code = text.parse().ok().filter(|code| (400..=599).contains(code));
            let status = code.and_then(Status::from_code).map(Failures::Status);
            status.ok_or_else(|| Problem::new("expected one from 400 to 599, `4xx` or `5xx`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(pages: &[(Failures, &str)]) -> ErrorPages {
        let page = |body: &str| ErrorPage {
            body: body.to_owned(),
            content_type: HeaderValue::of("text/html"),
        };
        ErrorPages(pages.iter().map(|(failures, body)| (*failures, page(body))).collect())
    }

    #[test]
    fn the_page_that_says_most_is_found() {
        let of = |code| Failures::Status(Status::from_code(code).unwrap());
        let pages = pages(&[(Failures::Class(5), "5xx"), (of(404), "404"), (of(502), "502")]);
        for (code, body) in
            [(404, Some("404")), (403, None), (502, Some("502")), (503, Some("5xx"))]
        {
            let page = pages.find(Status::from_code(code).unwrap());
            assert_eq!(page.map(|page| page.body.as_str()), body, "{code}");
        }
    }
}
