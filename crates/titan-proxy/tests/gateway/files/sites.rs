//! What sites are made of beside their files: pages in place of what is not there, and words for caches.

use super::{site, site_under};
use std::fs;
use std::os::unix::fs::symlink;
use titan_testkit::h2::Head;

// field: files.cache_rules, cache_rule.name, cache_rule.types, cache_rule.cache_control
#[test]
fn cache_control_follows_names_and_types_of_files() {
    let rules = "cache_control: no-store, cache_rules: [
      { name: '^assets/.*[.][0-9a-f]{4,}[.]', types: [text/*, image/png], cache_control: immutable },
      { types: text/html, cache_control: no-cache }]";
    let site = site("cache-rules", &format!("{rules}, precompressed: gzip"));
    fs::create_dir_all(site.file("assets")).unwrap();
    let site = site
        .has("assets/app.3f2a91bc.js", "")
        .has("assets/app.3f2a91bc.js.gz", "")
        .has("assets/app.3f2a91bc.json", "")
        .has("app.3f2a91bc.js", "")
        .has("index.html", "");
    let gzip = [("Accept-Encoding", "gzip")];
    let is = |path: &str, value: &str| {
        site.asks("GET", path, &gzip).has_status(200).has_field("cache-control", value)
    };
    is("/s/assets/app.3f2a91bc.js", "immutable").has_field("content-encoding", "gzip");
    is("/s/assets/app.3f2a91bc.json", "no-store");
    is("/s/app.3f2a91bc.js", "no-store");
    let tag = is("/s/", "no-cache").field("etag").unwrap().to_owned();
    let same = site.asks("GET", "/s/", &[("If-None-Match", &tag)]).has_status(304);
    same.has_field("cache-control", "no-cache");
}

// field: files.fallback
#[test]
fn a_file_stands_for_those_that_are_not_there() {
    let more = "fallback: app/start.html, cache_control: no-cache, types: { glyph: font/x }";
    let site = site("fallback", more).has("a.css", "style");
    fs::create_dir_all(site.file("app")).unwrap();
    let site = site.has("app/start.html", "start");
    for path in ["/s/", "/s/users/7", "/s/users/", "/s/v1.2", "/s/sub/", "/s/john.doe?x=1.js"] {
        site.get(path)
            .has_status(200)
            .has_body("start")
            .has_field("content-type", "text/html; charset=utf-8")
            .has_field("cache-control", "no-cache");
    }
    let response = site.asks("HEAD", "/s/users/7", &[]).has_status(200).has_body("");
    let tag = response.field("etag").unwrap().to_owned();
    site.asks("GET", "/s/other", &[("If-None-Match", &tag)]).has_status(304);
    site.get("/s/a.css").has_body("style");
    site.get("/s/sub").has_status(301);
    // What a page would break, what is hidden, and what can be no name.
    for path in ["/s/b.css", "/s/assets/app.js", "/s/no.html", "/s/a.glyph", "/s/.env", "/s/a%2Fb"]
    {
        site.get(path).has_problem(404, "no-file");
    }
    site.asks("POST", "/s/users/7", &[]).has_problem(405, "method-not-allowed");
    fs::remove_file(site.file("app/start.html")).unwrap();
    site.get("/s/users/7").has_problem(404, "no-file");
}

// field: files.error_pages
#[test]
fn failures_have_pages_of_their_own() {
    let pages = "{ 404: errors/404.html, 405: 405.txt, 416: none.html, 403: secret.html }";
    let site = site_under(
        "errors",
        &format!("cache_control: max-age=60, error_pages: {pages}"),
        "policies: { p: { transform: { response: { headers: { set: { X-A: b } } } } } }\napply: [p]",
    );
    fs::create_dir_all(site.file("errors")).unwrap();
    fs::write(site.folder.join("secret"), "secret").unwrap();
    symlink("../secret", site.file("secret.html")).unwrap();
    let site = site.has("a", "0123").has("errors/404.html", "lost").has("405.txt", "no");
    site.get("/s/none")
        .has_status(404)
        .has_body("lost")
        .has_field("content-type", "text/html; charset=utf-8")
        .has_field("x-a", "b")
        .lacks("cache-control")
        .lacks("etag");
    let ranged = [("Range", "bytes=0-1"), ("If-None-Match", "*")];
    site.asks("GET", "/s/none", &ranged).has_status(404).has_body("lost").lacks("content-range");
    let head = site.asks("HEAD", "/s/none", &[]).has_status(404).has_body("");
    head.has_field("content-length", "4");
    let put = site.asks("PUT", "/s/a", &[]).has_status(405).has_body("no");
    put.has_field("allow", "GET, HEAD").has_field("content-type", "text/plain; charset=utf-8");
    let beyond = site.asks("GET", "/s/a", &[("Range", "bytes=9-")]);
    beyond.has_field("content-range", "bytes */4").has_problem(416, "range-not-satisfiable");
    site.get("/s/a").has_status(200).has_field("cache-control", "max-age=60").has_body("0123");
    let mut client = site.gateway.connects_h2();
    let stream = client.asks(&Head::get("/s/none"));
    client.response(stream).has_status(404).has_body("lost");
}

#[test]
fn no_fallback_leads_out() {
    let site = site("fallback-out", "fallback: out.html");
    fs::write(site.folder.join("secret"), "secret").unwrap();
    symlink("../secret", site.file("out.html")).unwrap();
    site.get("/s/users/7").has_problem(404, "no-file");
}
