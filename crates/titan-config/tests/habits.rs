//! What users of other proxies bring along: each is an error that says what it is here, and what is meant as it stands is none.

use insta::assert_snapshot;
use titan_config::Config;

/// The report on a file that cannot be served, or the warnings about one that can.
fn report(text: &str) -> String {
    match Config::parse("titan.yaml", text) {
        Ok(config) => config.warnings.to_string(),
        Err(report) => report.to_string(),
    }
}

/// A file that is right but for the parts given.
fn routes(routes: &str) -> String {
    report(&format!(
        "listeners: [\":8080\"]\nupstreams:\n  api: 10.0.0.1:80\n  web: 10.0.0.2:80\nroutes:\n{routes}"
    ))
}

/// A file that is right but for a section.
fn section(section: &str) -> String {
    report(&format!("{section}\nlisteners: [\":8080\"]\nroutes: [{{ respond: 204 }}]\n"))
}

/// Each would be taken for something else, and match nothing.
#[test]
fn what_other_proxies_write() {
    let of_route = [
        "prefix: /api/*",
        "prefix: /*",
        "prefix: /api/**",
        "prefix: /u/:id",
        "prefix: /img*",
        "prefix: ^~ /static/",
        "path: /u/:id",
        "path: /u/:id/x/<int:no>",
        "path: /files/*",
        "path: /files/*name",
        "path: /files/*name/x",
        "path: /img/*.png",
        "path: /u/:id.json*",
        "path: \"/u/{id:[0-9]+}/{rest...}\"",
        "path: \"/u/{rest=**}\"",
        "path: = /x",
        "path: ~* ^/api/(.*)$",
        "path: /api/(.*)",
        "path: ~ \\.php$",
        "host: _",
        "host: .example.com",
        "host: ~^www\\.",
        "host: Host(`a.example`)",
        "methods: \"*\"",
        "methods: GET|POST",
        "rule: Host(`a.example`)",
        "match: { prefix: /a }",
        "rewrite: { path: /u/:id }",
        "rewrite: { path: /u/$1 }",
        "rewrite: { path: /u/* }",
    ];
    let shown = of_route.map(|key| routes(&format!("  - {key}\n    upstream: api\n")));
    assert_snapshot!(shown.concat());
    let of_redirect = ["https://$host$request_uri", "$scheme://$host/x?$args", "https://a/${1}"];
    let shown = of_redirect.map(|to| routes(&format!("  - redirect: {to}\n  - upstream: api\n")));
    assert_snapshot!(shown.concat());
    let endpoints = [
        "https://a",
        "h2c://a:1",
        "dns:///a:1",
        "a:80/x",
        "a:80 weight=5",
        "a:80;",
        "8080",
        "*:80",
    ];
    let shown = endpoints.map(|endpoint| {
        let upstreams = format!("upstreams: {{ a: \"{endpoint}\" }}");
        report(&format!("listeners: [\":80\"]\nroutes: [{{ upstream: a }}]\n{upstreams}\n"))
    });
    assert_snapshot!(shown.concat());
    let shown = ["443 ssl", "0:80", "0.0.0.0:443 ssl http2", "https://:443"].map(|listener| {
        report(&format!("listeners: [\"{listener}\"]\nroutes: [{{ respond: 204 }}]\n"))
    });
    assert_snapshot!(shown.concat());
    assert_snapshot!(section(
        "limits: { body: 10m, head: 1k }\ntimeouts: { idle: 1m30s, tunnel: 1w, head: 2y, drain: 1h5x }"
    ));
    assert_snapshot!(section(
        "apply: [t]\npolicies: { t: { transform: { request: { headers: { set: { X-A: $remote_addr } } } } } }"
    ));
    assert_snapshot!(routes(
        "  - upstream: http://10.0.0.1:80\n  - upstream: { web: 1, \"a:80\": 1 }\n"
    ));
}

#[test]
fn what_is_meant_as_it_stands() {
    let paths = [
        "/v1/items:batch",
        "/$metadata",
        "/a+b",
        "/:8080",
        "/a:",
        "/x,y;z=1",
        "/(a)",
        "/c.+x",
        "/a=b",
        "/\\*",
        "/\\:id",
        "/img\\*.png",
        "/\\<id>",
        "/a^b",
    ];
    for path in paths {
        for key in ["path", "prefix"] {
            let text =
                routes(&format!("  - {key}: '{path}'\n    upstream: {{ api: 1, web: 1 }}\n"));
            assert_eq!(text, "", "{key}: {path}");
        }
    }
    for (written, matched) in [("/\\*/x", "*"), ("/\\:id/x", ":id"), ("/:8080/x", ":8080")] {
        let text =
            format!("{{ listeners: [':0'], routes: [{{ path: '{written}', respond: 204 }}] }}");
        let config = Config::parse("titan.yaml", &text).unwrap_or_else(|report| panic!("{report}"));
        let path = &config.routes[0].path;
        assert_eq!(path.segments[0], titan_config::Segment::Literal(matched.to_owned()));
        // As it is shown it can be written.
        let shown = text.replace(written, &path.to_string());
        assert_eq!(&Config::parse("titan.yaml", &shown).unwrap().routes[0].path, path);
    }
    for key in ["host: _dmarc.example.com", "methods: PURGE", "redirect: https://a/%24host"] {
        let action = if key.starts_with("redirect") { "" } else { "    respond: 204\n" };
        let rest = "  - path: /rest\n    upstream: { api: 1, web: 1 }\n";
        assert_eq!(routes(&format!("  - {key}\n{action}{rest}")), "", "{key}");
    }
}
