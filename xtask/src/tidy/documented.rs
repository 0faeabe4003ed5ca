//! Every problem code and every metric has its line in docs/operations.md.

use super::Finding;
use crate::tree::Tree;

const PAGE: &str = "docs/operations.md";
pub(super) const CODES: &str = "crates/titan-io/src/error.rs";
/// The reference of all fields, made of what declares them.
pub(super) const CONFIGURATION: &str = "docs/configuration.md";
pub(super) const METRICS: &str = "crates/titan-admin/src/exposition.rs";
/// The modules in that one.
pub(super) const MORE_METRICS: &str = "crates/titan-admin/src/exposition/";
/// Policies declare codes and metrics of their own.
pub(super) const POLICIES: &str = "crates/titan-policies/src/";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let page = tree.file(PAGE).and_then(|file| file.text.as_deref()).unwrap_or_default();
    let places = [
        (CODES, codes as Names),
        (METRICS, metrics),
        (MORE_METRICS, metrics),
        (POLICIES, codes),
        (POLICIES, metrics),
    ];
    places.iter().flat_map(|(path, names)| missing(tree, path, *names, page)).collect()
}

/// The names in a line.
type Names = fn(&str) -> Vec<&str>;

fn missing(tree: &Tree, path: &str, names: Names, page: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.under(path) {
        for (index, line) in file.text.as_deref().unwrap_or_default().lines().enumerate() {
            let is_missing = |name: &&str| !page.contains(&format!("`{name}`"));
            for name in names(line).into_iter().filter(is_missing) {
                let message = format!("{PAGE} does not mention `{name}`");
                findings.push(Finding::line(file, index, message));
            }
        }
    }
    findings
}

/// The code in a line of the table of kinds: `Name Side STATUS "code" "detail";`.
pub(super) fn codes(line: &str) -> Vec<&str> {
    let parts: Vec<_> = line.split('"').collect();
    let is_kind =
        matches!(parts.as_slice(), [head, _, " ", _, ";"] if head.split_whitespace().count() == 3);
    if is_kind { vec![parts[1]] } else { Vec::new() }
}

/// The names in quotes. What a histogram adds to its name goes without saying.
pub(super) fn metrics(line: &str) -> Vec<&str> {
    let quoted = line.split('"').skip(1).step_by(2);
    let names = quoted.filter(|text| {
        let rest = text.strip_prefix("titan_").filter(|rest| !rest.is_empty());
        rest.is_some_and(|rest| rest.bytes().all(|o| o.is_ascii_lowercase() || o == b'_'))
    });
    names.map(without_series).collect()
}

fn without_series(name: &str) -> &str {
    let ends = ["_bucket", "_sum", "_count"];
    ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

/// The fields in the reference, each with its line, section and key.
pub(super) fn fields(page: &str) -> Vec<(usize, &str, &str)> {
    let mut section = "";
    let mut fields = Vec::new();
    for (index, line) in page.lines().enumerate() {
        if let Some(id) = line.strip_prefix("<a id=\"") {
            section = id.split('"').next().unwrap_or_default();
        } else if let Some(key) = line.strip_prefix("### `") {
            fields.push((index, section, key.trim_end_matches('`')));
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(page: &str) -> Vec<String> {
        let files = [
            (PAGE, page),
            (
                CODES,
                "    ConnectTimeout Upstream GATEWAY_TIMEOUT \"connect-timeout\" \"Too late.\";\n",
            ),
            (
                METRICS,
                "self.sample(\"titan_a_seconds_sum\", &labels);\nlet x = \"titan version\";\n",
            ),
            ("crates/titan-policies/src/a.rs", "name: \"titan_b_total\",\n"),
            (
                "crates/titan-admin/src/exposition/c.rs",
                "name.starts_with(\"titan_\"); \"titan_c\"\n",
            ),
        ];
        check(&Tree::of(&files)).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn codes_and_metrics_stand_on_the_page() {
        assert_eq!(
            messages("`connect-timeout` `titan_a_seconds` `titan_b_total` `titan_c`"),
            [""; 0]
        );
        assert_eq!(
            messages("`connect-timeout` `titan_b_total` `titan_c`"),
            ["docs/operations.md does not mention `titan_a_seconds`"]
        );
        assert_eq!(
            messages("`titan_a_seconds` `connect-timeout` `titan_c`"),
            ["docs/operations.md does not mention `titan_b_total`"]
        );
        assert_eq!(
            messages("`connect-timeout` `titan_a_seconds` `titan_b_total`"),
            ["docs/operations.md does not mention `titan_c`"]
        );
    }
}
