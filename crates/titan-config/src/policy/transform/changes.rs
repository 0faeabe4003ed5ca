//! Changes of named values: header fields, and parameters of a query.

use super::value::{ValueTemplate, value};
use crate::bounds::{MAX_HEADERS, MAX_TOKEN};
use crate::diagnostic::Diagnostic;
use crate::header::{
    REQUEST_HEADER, RESPONSE_HEADER, parse_appended_header, parse_request_header,
    parse_response_header,
};
use crate::node::Node;
use crate::problem::Problem;
use crate::read::{Read, Reading, default};
use crate::readers::{Named, mapping, message_mapping, one_or_list, text};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::token::HeaderName;

/// Changes of named values, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes<N> {
    /// These go.
    pub remove: Vec<N>,
    /// These get another name.
    pub rename: Vec<(N, N)>,
    /// These have that value alone.
    pub set: Vec<(N, ValueTemplate)>,
    /// These have that value too.
    pub append: Vec<(N, ValueTemplate)>,
    /// These have that value where they have none.
    pub set_if_absent: Vec<(N, ValueTemplate)>,
}

impl<N> Changes<N> {
    /// What is given a value, and which.
    pub fn given(&self) -> impl Iterator<Item = &(N, ValueTemplate)> {
        self.set.iter().chain(&self.append).chain(&self.set_if_absent)
    }

    /// The values that are put together.
    pub fn values(&self) -> impl Iterator<Item = &ValueTemplate> {
        self.given().map(|(_, value)| value)
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        let Changes { remove, rename, set: _, append: _, set_if_absent: _ } = self;
        remove.is_empty() && rename.is_empty() && self.given().next().is_none()
    }
}

macro_rules! changes {
    (
        $Section:ident, $name:literal, $what:literal, $doc:literal;
        $Name:ty, $shape:expr, $parse:expr, $parse_appended:expr
    ) => {
        section! {
            $name, $what, Any;
            #[doc = $doc]
            pub(crate) struct $Section {
                /// Removes all fields or parameters of these names.
                pub(crate) remove: Vec<$Name> =
                    default("[]", one_or_list(text($shape, $parse), 0..=MAX_HEADERS)),
                /// Renames these. If there is one, it replaces whatever had the new name before.
                pub(crate) rename: Vec<($Name, $Name)> =
                    default("{}", renames($shape, $parse)),
                /// Sets these to one value each, replacing any others. An empty value removes them.
                pub(crate) set: Vec<($Name, ValueTemplate)> =
                    default("{}", values($shape, $parse, value())),
                /// Adds one with this value.
                pub(crate) append: Vec<($Name, ValueTemplate)> =
                    default("{}", values($shape, $parse_appended, value())),
                /// Sets these to a value if there is none of that name, after all other changes.
                pub(crate) set_if_absent: Vec<($Name, ValueTemplate)> =
                    default("{}", values($shape, $parse, value())),
            }
        }

        impl From<$Section> for Changes<$Name> {
            fn from(fields: $Section) -> Changes<$Name> {
                let $Section { remove, rename, set, append, set_if_absent } = fields;
                Changes { remove, rename, set, append, set_if_absent }
            }
        }
    };
}

changes! {
    RequestHeaders, "request_headers", "request header changes",
    "Changes to the header fields of requests, in this order. Fields that frame a message, and fields that the gateway \
     writes itself, such as `Host` and `X-Forwarded-For`, cannot be changed.";
    HeaderName, REQUEST_HEADER, parse_request_header, parse_request_header
}

changes! {
    ResponseHeaders, "response_headers", "response header changes",
    "Changes to the header fields of responses, in this order. Fields that frame a message or say how its content is \
     encoded, and fields with a key of their own in this file, such as `Server`, cannot be changed; `Vary` can be \
     appended to.";
    HeaderName, RESPONSE_HEADER, parse_response_header, parse_appended_header
}

changes! {
    QueryFields, "query_changes", "query changes",
    "Changes to query parameters, in this order. Parameters that are set or appended come after the others.";
    String, PARAMETER, parse_parameter, parse_parameter
}

pub(super) fn request_headers() -> impl Read<Value = Changes<HeaderName>> {
    section_of::<RequestHeaders>().map(Changes::from).then(check)
}

pub(super) fn response_headers() -> impl Read<Value = Changes<HeaderName>> {
    section_of::<ResponseHeaders>().map(Changes::from).then(check)
}

pub(super) fn query_changes() -> impl Read<Value = Changes<String>> {
    section_of::<QueryFields>().map(Changes::from).then(check)
}

/// New names by the old ones; no name twice.
fn renames<N: PartialEq>(
    shape: TextShape,
    parse: impl Fn(&str) -> Result<N, Problem> + Copy,
) -> impl Read<Value = Vec<(N, N)>> {
    mapping(shape, parse, text(shape, parse), 0..=MAX_HEADERS).then(|named, _, to| pairs(named, to))
}

/// What fields or parameters are given, or what changes their values; no name twice.
pub(super) fn values<N: PartialEq, V: Read>(
    shape: TextShape,
    parse: impl Fn(&str) -> Result<N, Problem>,
    value: V,
) -> impl Read<Value = Vec<(N, V::Value)>> {
    message_mapping(shape, parse, value, 0..=MAX_HEADERS).then(|named, _, to| pairs(named, to))
}

fn pairs<N: PartialEq, T>(named: Vec<Named<N, T>>, to: &mut Reading<'_>) -> Option<Vec<(N, T)>> {
    for (index, Named { key, key_span, .. }) in named.iter().enumerate() {
        if let Some(first) = named[..index].iter().find(|it| it.key == *key) {
            let error = Diagnostic::error(*key_span, "this name appears twice");
            let error = error.label("header names are not case-sensitive");
            to.add(error.also(first.key_span, "first here"));
        }
    }
    Some(named.into_iter().map(|Named { key, value, .. }| (key, value)).collect())
}

/// No two names may become one: which value stays would be a matter of chance.
fn check<N: PartialEq>(
    changes: Changes<N>,
    node: &Node,
    to: &mut Reading<'_>,
) -> Option<Changes<N>> {
    let renames = &changes.rename;
    let is_taken = |(index, (from, name)): (usize, &(N, N))| {
        from == name || renames[..index].iter().any(|(_, other)| other == name)
    };
    if renames.iter().enumerate().any(is_taken) {
        let place = node.entry("rename").map_or(node.span, |entry| entry.value.span);
        let error = Diagnostic::error(place, "the new name is already in use");
        return to.fail(error.label("give each a different name"));
    }
    Some(changes)
}

const PARAMETER: TextShape =
    TextShape { what: "the name of a parameter", examples: "`v`", pattern: None, max: MAX_TOKEN };

fn parse_parameter(text: &str) -> Result<String, Problem> {
    match text.is_empty() {
        true => Err(Problem::new("the name is empty")),
        false => Ok(text.to_owned()),
    }
}
