//! Error pages instead of problem documents: which page a failure has, and whether its client prefers it.

use crate::problem::CONTENT_TYPE;
use std::collections::HashMap;
use titan_config::{Config, ErrorPage, ErrorPages};
use titan_http::media_range::Welcome;
use titan_http::{FieldName, Fields, Status};

/// The pages of a configuration.
pub(crate) struct Pages {
    of_file: ErrorPages,
    /// Those of routes that have their own, by the index of the route.
    by_route: HashMap<usize, ErrorPages>,
}

/// The field that says the code of the problem where a page does not.
pub(crate) const PROBLEM: &[u8] = b"Titan-Problem";

impl Pages {
    pub(crate) fn new(config: &Config) -> Pages {
        let by_route = config.routes.iter().map(|route| route.error_pages.clone()).enumerate();
        let by_route = by_route.filter(|(_, pages)| !pages.is_empty());
        Pages { of_file: config.error_pages.clone(), by_route: by_route.collect() }
    }

    /// The page for a failure with that status on that route.
    pub(crate) fn find(&self, route: Option<usize>, status: Status) -> Option<&ErrorPage> {
        let own = route.and_then(|route| self.by_route.get(&route)?.find(status));
        own.or_else(|| self.of_file.find(status))
    }
}

/// Whether a client with these fields wants something of that media type rather than a problem document. One that does
/// not say what it wants does; documents are for programs that say so.
pub(crate) fn prefers(fields: &Fields, media_type: &str) -> bool {
    let media_type = media_type.split(';').next().unwrap_or_default().trim_ascii();
    if fields.get(FieldName::Accept).is_none() {
        return true;
    }
    let welcome = |media_type| Welcome::of(fields, media_type, &[]);
    let document = welcome("application/problem+json").max(welcome("application/json"));
    let page = welcome(media_type);
    page.weight > 0 && page >= document
}

/// Requests the document for a client whose head is refused, unless its `Accept` could be read.
pub(crate) fn ask_for_document(fields: &mut Fields) {
    if fields.get(FieldName::Accept).is_none() {
        // If there is no room for it, the client gets the page.
        let _ = fields.append(FieldName::Accept, CONTENT_TYPE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_get_documents_and_people_pages() {
        let cases = [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("*/*", true),
            ("text/*, application/json;q=0.9", true),
            ("text/html, application/json", true),
            ("application/json", false),
            ("application/problem+json", false),
            ("Application/JSON, */*;q=0.5", false),
            ("application/json, text/plain, */*", false),
            ("text/html;q=0.5, application/*", false),
            ("text/html;q=0, */*", false),
            ("text/plain", false),
            ("image/png", false),
            ("", false),
            ("TEXT/HTML;level=1;q=0.1", true),
            ("text/html;q=2", false),
        ];
        for (accept, is_page) in cases {
            let mut fields = Fields::default();
            fields.append(FieldName::Accept, accept.as_bytes()).unwrap();
            assert_eq!(prefers(&fields, "text/html; charset=utf-8"), is_page, "{accept}");
        }
        assert!(prefers(&Fields::default(), "text/html"));
    }
}
