//! Paths of Ingresses, and what they are rewritten to. Regular expressions are read as far as they are prefixes.

use crate::objects::{PathMatch, PathModifier};

/// A path, and which of its groups has the rest behind it.
#[derive(Debug, PartialEq, Eq)]
struct Plain {
    path: String,
    rest: Option<u8>,
    /// Whether nothing may be behind it.
    is_whole: bool,
}

/// What a path of this type matches, and what its requests are rewritten to. Nothing where that cannot be said.
pub(super) fn matched(
    (path, of_type): (&str, &str),
    is_regex: bool,
    target: Option<&str>,
) -> Option<(PathMatch, Option<PathModifier>)> {
    let path = if path.is_empty() { "/" } else { path };
    let has_groups = target.is_some_and(|target| target.contains('$'));
    let is_exact = of_type == "Exact" && !is_regex;
    let plain = match is_regex || has_groups {
        true => plain(path)?,
        false => Plain { path: path.to_owned(), rest: None, is_whole: false },
    };
    let plain = Plain { is_whole: plain.is_whole || is_exact, ..plain };
    let matched = PathMatch {
        of_type: Some(if plain.is_whole { "Exact" } else { "PathPrefix" }.to_owned()),
        value: Some(plain.path.clone()),
    };
    let Some(target) = target else { return Some((matched, None)) };
    let modifier = match (target.split_once('$'), plain.rest) {
        (None, _) => PathModifier {
            of_type: "ReplaceFullPath".to_owned(),
            replace_full_path: Some(target.to_owned()),
            replace_prefix_match: None,
        },
        (Some((prefix, group)), Some(rest)) if group == rest.to_string() && !plain.is_whole => {
            PathModifier {
                of_type: "ReplacePrefixMatch".to_owned(),
                replace_full_path: None,
                replace_prefix_match: Some(prefix.to_owned()),
            }
        }
        _ => return None,
    };
    Some((matched, Some(modifier)))
}

/// The usual ways to say a prefix by a regular expression, with the number of the group that has the rest.
const ENDS: [(&str, Option<u8>); 7] = [
    ("(/|$)(.*)", Some(2)),
    ("/?(.*)", Some(1)),
    ("/(.*)", Some(1)),
    ("(/.*)?", None),
    ("(/|$)", None),
    ("/.*", None),
    (".*", None),
];

fn plain(path: &str) -> Option<Plain> {
    let path = path.strip_prefix('^').unwrap_or(path);
    let until_end = path.strip_suffix('$').filter(|it| !it.ends_with('|'));
    let path = until_end.unwrap_or(path);
    let end = ENDS.iter().find_map(|(end, rest)| Some((path.strip_suffix(end)?, *rest)));
    let is_whole = until_end.is_some() && end.is_none();
    let (prefix, rest) = end.unwrap_or((path, None));
    let is_literal =
        !prefix.contains(['\\', '^', '$', '|', '?', '*', '+', '(', ')', '[', ']', '{', '}']);
    let path = if prefix.is_empty() { "/".to_owned() } else { prefix.to_owned() };
    is_literal.then_some(Plain { path, rest, is_whole })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_that_are_prefixes_are_read() {
        for (text, expected) in [
            ("/api(/|$)(.*)", Some(("/api", Some(2)))),
            ("/api/?(.*)", Some(("/api", Some(1)))),
            ("/api/(.*)", Some(("/api", Some(1)))),
            ("^/api/.*$", Some(("/api", None))),
            ("/(.*)", Some(("/", Some(1)))),
            ("/status$", Some(("/status", None))),
            ("^/status$", Some(("/status", None))),
            ("/status(/|$)", Some(("/status", None))),
            ("/v1.0", Some(("/v1.0", None))),
            ("/.*", Some(("/", None))),
            ("/a|/b", None),
            ("/[0-9]+", None),
            (r"/a\.php", None),
        ] {
            let is_whole = text.ends_with("status$");
            let expected =
                expected.map(|(path, rest)| Plain { path: path.to_owned(), rest, is_whole });
            assert_eq!(plain(text), expected, "{text}");
        }
    }

    #[test]
    fn targets_replace_prefixes_or_paths() {
        let to = |path: &str, target: &str| {
            let (_, modifier) = matched((path, "ImplementationSpecific"), true, Some(target))?;
            let PathModifier { replace_full_path, replace_prefix_match, .. } = modifier?;
            Some((replace_full_path, replace_prefix_match))
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(to("/api(/|$)(.*)", "/v2/$2"), Some((None, text("/v2/"))));
        assert_eq!(to("/api/(.*)", "/$1"), Some((None, text("/"))));
        assert_eq!(to("/api", "/all"), Some((text("/all"), None)));
        assert_eq!(to("/api(/|$)(.*)", "/$1"), None, "the group with the slash alone");
        assert_eq!(to("/api(/|$)(.*)", "/$2/x"), None);
        assert_eq!(matched(("/api(/|$)(.*)", "Exact"), false, Some("/$2")), None);
    }
}
