//! Routes that serve files.

use super::{shows, told_under};

const FILES: &str = r#"
listeners: [":8080"]
routes:
  - { name: assets, prefix: /assets, files: { root: www, index: [index.html, index.txt], precompressed: [br, gzip] } }
  - { name: logo, path: /logo, files: { root: /srv/logo, index: [] } }
"#;

#[test]
fn files_are_named() {
    let told = |method: &str, path: &str| {
        let text = told_under(FILES, method, &format!("http://a{path}"), &[]);
        let (_, end) = text.split_once("\nroute     ").unwrap();
        end.split_once('\n').unwrap().1.to_owned()
    };
    shows(
        &told("GET", "/assets/x/a%20b.css?v=1"),
        r"
    file      www/x/a b.css, text/css; charset=utf-8
              or, if that is a directory, 301 to the path with a slash
              or a precompressed file next to it: .br, .gz
    ",
    );
    shows(
        &told("HEAD", "/assets/"),
        r"
    file      www/index.html, text/html; charset=utf-8
              www/index.txt, text/plain; charset=utf-8
              or a precompressed file next to it: .br, .gz
    ",
    );
    shows(
        &told("GET", "/logo"),
        r"
    file      /srv/logo/logo, application/octet-stream
              or, if that is a directory, 301 to the path with a slash
    ",
    );
    shows(
        &told("GET", "/assets/.env"),
        r"
    response  404 Not Found (no-file)
              There is no file for this path.
              No file here can have that name.
    ",
    );
    shows(
        &told("PUT", "/assets/a"),
        r"
    response  405 Method Not Allowed (method-not-allowed)
              This method is not allowed for this path.
              Allow: GET, HEAD
    ",
    );
}
