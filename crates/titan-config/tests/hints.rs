//! What a report says besides what is wrong: what to write instead, and what was probably meant.

use titan_config::Config;

/// The report on a file that cannot be served, or the warnings about one that can.
fn report(text: &str) -> String {
    match Config::parse("titan.yaml", text) {
        Ok(config) => config.warnings.to_string(),
        Err(report) => report.to_string(),
    }
}

/// A file that is right but for a section.
fn section(section: &str) -> String {
    report(&format!("{section}\nlisteners: [\":8080\"]\nroutes: [{{ respond: 204 }}]\n"))
}

/// A file that is right but for a route.
fn route(route: &str) -> String {
    report(&format!(
        "listeners: [\":8080\"]\nupstreams: {{ api: a:1 }}\nroutes:\n  - {{ {route} }}\n"
    ))
}

#[test]
fn a_page_that_is_a_place_is_told() {
    for page in ["/404.html", "'@sorry'", "https://a.example/x", "{ body: /404.html }"] {
        for says in [
            section(&format!("error_pages: {{ 404: {page} }}")),
            route(&format!("upstream: api, error_pages: {{ 5xx: {page} }}")),
        ] {
            assert!(says.contains("warning: this text is the page itself"), "{page}: {says}");
            assert!(says.contains("`error_pages` under `files`"), "{page}: {says}");
        }
    }
    for page in ["<h1>Not here</h1>", "\"/ is\\nall there is\"", "Sorry", "''"] {
        assert_eq!(section(&format!("error_pages: {{ 404: {page} }}")), "", "{page}");
    }
}

#[test]
fn the_default_of_the_target_follows_the_head() {
    let text = "limits: { head: 4KiB }\nlisteners: [':1']\nroutes: [{ respond: 204 }]";
    let limits = Config::parse("titan.yaml", text).unwrap().limits;
    assert_eq!(limits.target, limits.head);
    let says = section("limits: { target: 32KiB }");
    assert!(says.contains("`target` is 32KiB, `head` is 16KiB by default"), "{says}");
}
