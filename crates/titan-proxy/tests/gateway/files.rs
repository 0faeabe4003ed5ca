//! Responses with files.

mod sites;

use crate::listeners::Folder;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use titan_testkit::h2::Head;
use titan_testkit::{Gateway, Response, gateway, start};

/// A directory that a gateway serves below `/s`.
struct Site {
    gateway: Gateway,
    folder: Folder,
}

/// `more` goes into the action, and `conf` behind the routes.
#[track_caller]
fn site_under(name: &str, more: &str, conf: &str) -> Site {
    let folder = Folder::new(&format!("files-{name}"));
    fs::create_dir_all(folder.join("www/sub")).expect("it is a file of this test");
    let root = folder.join("www").display().to_string();
    let text = format!("routes: [{{ prefix: /s, files: {{ root: {root}, {more} }} }}]\n{conf}");
    Site { gateway: gateway(&text, &[]), folder }
}

#[track_caller]
fn site(name: &str, more: &str) -> Site {
    site_under(name, more, "")
}

impl Site {
    fn has(self, name: &str, content: impl AsRef<[u8]>) -> Site {
        fs::write(self.file(name), content).expect("it is a file of this test");
        self
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.join("www").join(name)
    }

    #[track_caller]
    fn get(&self, path: &str) -> Response {
        self.gateway.get(path)
    }

    #[track_caller]
    fn asks(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Response {
        let fields: String =
            fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        self.gateway.asks(&format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
    }
}

/// Gives a file a time of its last change, in seconds since 1970.
fn changed_at(file: &Path, seconds: u64) {
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    File::options()
        .write(true)
        .open(file)
        .expect("it is a file of this test")
        .set_times(FileTimes::new().set_modified(time))
        .expect("it is a file of this test");
}

const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const SECONDS_THEN: u64 = 784_111_777;

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at % 251).to_le_bytes()[0]).collect()
}

// field: route.files, files.root
#[test]
fn a_file_is_sent_with_validators() {
    let site = site("states", "").has("a.txt", "hello");
    changed_at(&site.file("a.txt"), SECONDS_THEN);
    let response = site.get("/s/a.txt").has_status(200).has_body("hello");
    let response = response
        .has_field("content-type", "text/plain; charset=utf-8")
        .has_field("content-length", "5")
        .has_field("last-modified", THEN)
        .has_field("accept-ranges", "bytes")
        .lacks("cache-control")
        .lacks("vary");
    let tag = response.field("etag").unwrap().to_owned();
    assert!(tag.starts_with('"') && tag.len() == 18, "{tag}");
    let head =
        site.asks("HEAD", "/s/a.txt", &[("Range", "bytes=0-1")]).has_status(200).has_body("");
    head.has_field("content-length", "5").has_field("etag", &tag);
    assert_eq!(site.get("/s/a.txt").field("etag"), Some(tag.as_str()));
    // The same length and time, and another file.
    fs::write(site.file("b.txt"), "HELLO").unwrap();
    changed_at(&site.file("b.txt"), SECONDS_THEN);
    fs::rename(site.file("b.txt"), site.file("a.txt")).unwrap();
    let response = site.get("/s/a.txt").has_body("HELLO");
    assert_ne!(response.field("etag"), Some(tag.as_str()));
    site.get("/s/none.txt").has_problem(404, "no-file");
    site.get("/s/a.txt/").has_problem(404, "no-file");
    site.get("/s/a.txt/b").has_problem(404, "no-file");
}

#[test]
fn an_empty_file_is_a_file() {
    let site = site("empty", "").has("a", "");
    site.get("/s/a").has_status(200).has_field("content-length", "0").has_body("");
    site.asks("GET", "/s/a", &[("Range", "bytes=0-")]).has_status(200).lacks("content-range");
}

// field: files.index
#[test]
fn some_files_stand_for_their_directory() {
    let site = site("index", "index: [a.html, b.html]").has("b.html", "b").has("sub/x", "x");
    site.get("/s/")
        .has_status(200)
        .has_body("b")
        .has_field("content-type", "text/html; charset=utf-8");
    let site = site.has("a.html", "a");
    site.get("/s/").has_body("a");
    site.get("/s").has_status(301).has_field("location", "/s/").lacks("etag");
    site.get("/s/sub?q=1&r").has_status(301).has_field("location", "/s/sub/?q=1&r");
    site.get("/s/sub/").has_problem(404, "no-file");
    fs::create_dir(site.file("sub/a.html")).unwrap();
    site.has("sub/b.html", "c").get("/s/sub/").has_body("c");
}

#[test]
fn where_nothing_stands_for_a_directory_there_is_nothing() {
    let site = site("no-index", "index: []").has("index.html", "a");
    site.get("/s/").has_problem(404, "no-file");
    site.get("/s/index.html").has_body("a");
}

// field: files.strip_prefix
#[test]
fn the_prefix_is_part_of_the_name_or_not() {
    let folder = Folder::new("files-prefix");
    fs::create_dir_all(folder.join("s/t")).unwrap();
    fs::write(folder.join("s/t/a"), "below").unwrap();
    fs::write(folder.join("a"), "above").unwrap();
    let root = folder.join("").display().to_string();
    let gateway = gateway(
        &format!(
            "routes:
  - {{ prefix: /s/t, host: out, files: {root} }}
  - {{ prefix: /s/t, host: in, files: {{ root: {root}, strip_prefix: false }} }}
  - {{ path: \"/s/{{*rest}}\", host: path, files: {root} }}"
        ),
        &[],
    );
    let get = |host: &str| gateway.asks(&format!("GET /s/t/a HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    get("out").has_body("above");
    get("in").has_body("below");
    get("path").has_body("below");
}

// field: files.precompressed
#[test]
fn a_client_gets_the_coding_that_lies_ready() {
    let site = site("codings", "precompressed: [br, zstd, gzip]")
        .has("a.css", "plain")
        .has("a.css.gz", "gzipped")
        .has("a.css.br", "brotli")
        .has("b", "plain")
        .has("c.gz", "alone");
    fs::create_dir(site.file("b.br")).unwrap();
    let get = |path: &str, codings: &str| site.asks("GET", path, &[("Accept-Encoding", codings)]);
    let br =
        get("/s/a.css", "gzip, br, zstd").has_body("brotli").has_field("content-encoding", "br");
    let gz =
        get("/s/a.css", "gzip, br;q=0.5").has_body("gzipped").has_field("content-encoding", "gzip");
    let zst = get("/s/a.css", "zstd, gzip;q=0.1").has_body("gzipped");
    let plain = get("/s/a.css", "identity").has_body("plain").lacks("content-encoding");
    for response in [&br, &gz, &zst, &plain] {
        assert_eq!(response.field("content-type"), Some("text/css; charset=utf-8"));
        assert_eq!(response.field("vary"), Some("Accept-Encoding"));
    }
    let tags = [&br, &gz, &plain].map(|response| response.field("etag").unwrap().to_owned());
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2], "{tags:?}");
    get("/s/b", "br, gzip").has_body("plain").has_field("vary", "Accept-Encoding");
    get("/s/c", "gzip").has_problem(404, "no-file");
    let part = [("Accept-Encoding", "br"), ("Range", "bytes=1-2")];
    let part = site.asks("GET", "/s/a.css", &part).has_status(206).has_body("ro");
    part.has_field("content-encoding", "br").has_field("content-range", "bytes 1-2/6");
    let known = [("Accept-Encoding", "br"), ("If-None-Match", tags[2].as_str())];
    site.asks("GET", "/s/a.css", &known).has_status(200);
}

// field: files.dotfiles
#[test]
fn names_with_a_dot_in_front_are_hidden() {
    for (more, is_shown) in [("", false), ("dotfiles: true", true)] {
        let site = site(&format!("dots-{is_shown}"), more).has(".env", "secret");
        fs::create_dir_all(site.file(".git")).unwrap();
        fs::create_dir_all(site.file(".well-known")).unwrap();
        let site = site.has(".git/config", "secret").has(".well-known/security.txt", "us");
        for path in ["/s/.env", "/s/%2eenv", "/s/.git/config"] {
            match is_shown {
                true => site.get(path).has_body("secret"),
                false => site.get(path).has_problem(404, "no-file"),
            };
        }
        site.get("/s/.well-known/security.txt").has_body("us");
    }
}

// field: files.cache_control
#[test]
fn cache_control_is_what_the_configuration_says() {
    let site = site("cache", "cache_control: \"public, max-age=60\"").has("a", "a");
    let response = site.get("/s/a").has_field("cache-control", "public, max-age=60");
    let tag = response.field("etag").unwrap().to_owned();
    let same = site.asks("GET", "/s/a", &[("If-None-Match", &tag)]).has_status(304);
    same.has_field("cache-control", "public, max-age=60");
    site.get("/s/b").has_status(404).lacks("cache-control");
}

// field: files.types
#[test]
fn the_ending_says_what_a_file_is() {
    let site = site("types", "types: { css: text/x, \"\": text/y, z: text/z }")
        .has("a.CSS", "")
        .has("a", "")
        .has("a.z", "")
        .has("a.html", "")
        .has("a.what", "");
    let is = |name: &str, media_type: &str| {
        site.get(&format!("/s/{name}")).has_field("content-type", media_type);
    };
    is("a.CSS", "text/x");
    is("a", "text/y");
    is("a.z", "text/z");
    is("a.html", "text/html; charset=utf-8");
    is("a.what", "application/octet-stream");
}

#[test]
fn a_range_is_sent_or_refused_as_unsatisfiable() {
    let site = site("ranges", "").has("a", "0123456789");
    let get = |range: &str| site.asks("GET", "/s/a", &[("Range", range)]);
    for (range, part, place) in [
        ("bytes=2-4", "234", "2-4"),
        ("bytes=7-", "789", "7-9"),
        ("bytes=-3", "789", "7-9"),
        ("bytes=0-99", "0123456789", "0-9"),
    ] {
        let response = get(range).has_status(206).has_body(part);
        response
            .has_field("content-range", &format!("bytes {place}/10"))
            .has_field("content-length", &part.len().to_string());
    }
    for range in ["bytes=0-1,3-4", "bytes=4-2", "pages=1-2", "bytes=x"] {
        get(range).has_status(200).lacks("content-range").has_body("0123456789");
    }
    let beyond = get("bytes=10-").has_problem(416, "range-not-satisfiable");
    beyond.has_field("content-range", "bytes */10").lacks("etag");
}

#[test]
fn conditions_are_met_in_their_order() {
    let site = site("conditions", "").has("a", "0123456789");
    changed_at(&site.file("a"), SECONDS_THEN);
    let tag = site.get("/s/a").field("etag").unwrap().to_owned();
    let weak = format!("W/{tag}");
    for (name, value) in [
        ("If-None-Match", tag.as_str()),
        ("If-None-Match", &weak),
        ("If-None-Match", "*"),
        ("If-Modified-Since", THEN),
    ] {
        for method in ["GET", "HEAD"] {
            let same = site.asks(method, "/s/a", &[(name, value), ("Range", "bytes=0-1")]);
            same.has_status(304)
                .has_body("")
                .has_field("etag", &tag)
                .lacks("content-length")
                .lacks("content-type")
                .lacks("content-range");
        }
    }
    site.asks("GET", "/s/a", &[("If-Match", "\"x\"")]).has_problem(412, "precondition-failed");
    site.asks("GET", "/s/a", &[("If-Match", &tag)]).has_status(200);
    let earlier = "Sun, 06 Nov 1994 08:49:36 GMT";
    site.asks("GET", "/s/a", &[("If-Unmodified-Since", earlier)])
        .has_problem(412, "precondition-failed");
    for (if_range, status) in
        [(tag.as_str(), 206), (THEN, 206), (&weak, 200), ("\"x\"", 200), (earlier, 200)]
    {
        site.asks("GET", "/s/a", &[("If-Range", if_range), ("Range", "bytes=0-1")])
            .has_status(status);
    }
}

#[test]
fn a_file_of_the_future_was_changed_now() {
    let site = site("future", "").has("a", "a");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    changed_at(&site.file("a"), now + 1_000_000);
    let response = site.get("/s/a").has_status(200);
    let time = |name: &str| httpdate::parse_http_date(response.field(name).unwrap()).unwrap();
    let age = time("date").duration_since(time("last-modified"));
    assert!(age.is_ok_and(|age| age < Duration::from_secs(3600)), "{response:?}");
}

#[test]
fn there_are_two_methods() {
    let site = site("methods", "").has("a", "a");
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"] {
        let response = site.asks(method, "/s/a", &[]).has_problem(405, "method-not-allowed");
        response.has_field("allow", "GET, HEAD");
    }
}

#[test]
fn no_path_and_no_link_leads_out() {
    let site = site("links", "dotfiles: true").has("a", "inside").has("sub/b", "below");
    fs::write(site.folder.join("secret"), "secret").unwrap();
    symlink("../secret", site.file("out")).unwrap();
    symlink(site.folder.join("secret"), site.file("out-from-the-root")).unwrap();
    symlink("..", site.file("up")).unwrap();
    symlink("/proc/self/environ", site.file("sub/environ")).unwrap();
    symlink("loop", site.file("loop")).unwrap();
    symlink("../a", site.file("sub/in")).unwrap();
    symlink("sub", site.file("under")).unwrap();
    for path in ["out", "out-from-the-root", "up/secret", "up/www/a", "sub/environ", "loop"] {
        site.get(&format!("/s/{path}")).has_problem(404, "no-file");
    }
    site.get("/s/sub/in").has_body("inside");
    site.get("/s/under/b").has_body("below");
    for path in [
        "/s/..%2fsecret",
        "/s/%2e%2e%2fsecret",
        "/s/sub/..%5c..%5csecret",
        "/s/a%00",
        "/s/..;/secret",
    ] {
        site.get(path).has_status(400);
    }
    for path in [
        "/s/sub%2Fb",
        "/s/%252e%252e/secret",
        "/s/sub/../../secret",
        "/s/./../secret",
        &format!("/s/{}", "a".repeat(300)),
    ] {
        site.get(path).has_status(404);
    }
    site.get("/s/../s/a").has_body("inside");
    site.get("/s/sub/..//a").has_body("inside");
}

#[test]
fn what_is_no_regular_file_is_not_served() {
    let site = site("kinds", "index: [pipe]");
    let pipe = site.file("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(site.file("socket")).unwrap();
    site.get("/s/pipe").has_problem(404, "no-file");
    site.get("/s/socket").has_problem(404, "no-file");
    site.get("/s/").has_problem(404, "no-file");
}

#[test]
fn files_of_every_length_arrive_as_they_are() {
    let site = site("lengths", "");
    let (mut client, mut streams) = (site.gateway.connects(), site.gateway.connects_h2());
    for length in
        [1, 4_096, 16_384, 16_385, 65_535, 65_536, 81_920, 81_921, 147_456, 1 << 20, 3_000_001]
    {
        let content = bytes(length);
        fs::write(site.file("a"), &content).unwrap();
        client.sends("GET /s/a HTTP/1.1\r\nHost: a\r\n\r\n");
        client
            .response()
            .has_status(200)
            .has_field("content-length", &length.to_string())
            .has_body(&content);
        let (from, to) = (length / 3, length - 1 - length / 7);
        client.sends(format!("GET /s/a HTTP/1.1\r\nHost: a\r\nRange: bytes={from}-{to}\r\n\r\n"));
        client.response().has_status(206).has_body(&content[from..=to]);
        let stream = streams.asks(&Head::get("/s/a"));
        streams.response(stream).has_status(200).has_body(&content);
    }
}

/// A file that takes no room on the disk, and has more than fits in between.
const MUCH: u64 = 256 << 20;

fn hollow(site: &Site, name: &str) -> File {
    let file = File::create(site.file(name)).expect("it is a file of this test");
    file.set_len(MUCH).expect("it is a file of this test");
    file
}

#[test]
fn a_response_breaks_off_where_its_file_does() {
    let site = site("shrunk", "");
    let file = hollow(&site, "a");
    let mut client = site.gateway.connects();
    client.sends("GET /s/a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.head().contains(&format!("\r\nContent-Length: {MUCH}\r\n")));
    file.set_len(1 << 20).unwrap();
    let came = client.rest().len();
    assert!((1 << 20..MUCH).contains(&(came as u64)), "{came}");
    file.set_len(MUCH).unwrap();
    let mut client = site.gateway.connects_h2();
    let stream = client.asks(&Head::get("/s/a"));
    client.response_head(stream).has_status(200);
    file.set_len(1 << 20).unwrap();
    client.reset_of(stream);
}

#[test]
fn a_file_that_grows_has_the_length_that_was_announced() {
    let site = site("grown", "").has("b", "next");
    let file = hollow(&site, "a");
    let mut client = site.gateway.connects();
    client.sends("GET /s/a HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head();
    file.set_len(2 * MUCH).unwrap();
    for _ in 0..MUCH >> 20 {
        client.takes(1 << 20);
    }
    client
        .sends("GET /s/b HTTP/1.1\r\nHost: a\r\n\r\n")
        .response()
        .has_status(200)
        .has_body("next");
}

#[test]
fn a_client_that_leaves_a_file_leaves_the_gateway_as_it_was() {
    let site = site("left", "").has("b", "next");
    hollow(&site, "a");
    let mut client = site.gateway.connects();
    client.sends("GET /s/a HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head();
    client.resets();
    site.get("/s/b").has_body("next");
}

#[test]
fn policies_see_files_as_they_see_any_response() {
    let text = "policies:
  small: { compress: { min_size: 10 } }
  careful:
    transform:
      request: { path: [{ regex: \"flat/$\", replace: \"sub\" }, { regex: \"/v[0-9]+/\", replace: \"/\" }] }
      response: { headers: { set: { X-A: b } } }
  pages: { cors: { origins: \"https://a\" } }
apply: [small, careful, pages]";
    let site = site_under("policies", "", text)
        .has("a.txt", "hello hello hello hello hello")
        .has("sub/index.html", "x");
    let gzip = ("Accept-Encoding", "gzip");
    let response =
        site.asks("GET", "/s/v7/a.txt", &[gzip, ("Origin", "https://a")]).has_status(200);
    let tag = response.field("etag").unwrap().to_owned();
    assert!(tag.starts_with("W/") && response.is_chunked(), "{tag}");
    response
        .has_field("content-encoding", "gzip")
        .has_field("x-a", "b")
        .has_field("access-control-allow-origin", "https://a")
        .lacks("accept-ranges");
    site.asks("GET", "/s/a.txt", &[gzip, ("If-None-Match", &tag)]).has_status(304);
    let part = site.asks("GET", "/s/a.txt", &[gzip, ("Range", "bytes=0-4"), ("If-Range", &tag)]);
    part.has_status(200).has_field("content-encoding", "gzip");
    let part = site.asks("GET", "/s/a.txt", &[gzip, ("Range", "bytes=0-4")]).has_status(206);
    part.has_body("hello").lacks("content-encoding");
    // No slash more: the client would come back with one too many for ever.
    site.get("/s/flat/").has_status(200).has_body("x");
    // To the path that the client knows.
    site.get("/s/v7/sub").has_status(301).has_field("location", "/s/v7/sub/");
    site.asks("PUT", "/s/a.txt", &[]).has_status(405).has_field("x-a", "b");
}

#[test]
fn an_upgrade_to_another_protocol_is_not_granted() {
    let site = site("tunnel", "").has("a", "a");
    let fields = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    // A server may ignore the wish.
    site.asks("GET", "/s/a", &fields).has_status(200).has_body("a");
    // This one cannot be ignored: any successful response would be a consent.
    let mut client = site.gateway.connects_h2();
    let stream = client.starts(&Head::request("CONNECT", "/s/a").with(":protocol", "websocket"));
    client.response(stream).has_problem(501, "upgrade-refused");
}

#[test]
fn a_root_has_to_be_there_at_the_start() {
    let folder = Folder::new("files-root");
    fs::write(folder.join("file"), "").unwrap();
    for (name, why) in
        [("none", "cannot be opened: No such file or directory"), ("file", "it is not a directory")]
    {
        let root = folder.join(name).display().to_string();
        let Err(error) = start(&format!("routes: [{{ files: {root} }}]"), &[]) else {
            panic!("{name} is no root")
        };
        let text = error.to_string();
        assert!(text.contains(&root) && text.contains(why), "{text}");
    }
}

#[test]
fn a_root_may_go_and_come_back_as_another() {
    let folder = Folder::new("files-switch");
    for release in ["one", "two"] {
        fs::create_dir_all(folder.join(release)).unwrap();
        fs::write(folder.join(release).join("a"), release).unwrap();
    }
    let root = folder.join("current");
    symlink("one", &root).unwrap();
    let gateway = gateway(&format!("routes: [{{ files: {} }}]", root.display()), &[]);
    gateway.get("/a").has_body("one");
    fs::remove_file(&root).unwrap();
    gateway.get("/a").has_problem(404, "no-file");
    symlink("two", &root).unwrap();
    gateway.get("/a").has_body("two");
}
