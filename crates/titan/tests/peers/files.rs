//! Files: what curl makes of them, and what nginx does with the same.

use crate::curl::{Curl, curl, to};
use crate::gateway::Gateway;
use crate::nginx::{LENGTHS, Nginx, pattern};
use crate::place::Folder;
use crate::program::{output_of, peer};
use std::fs::{self, File, FileTimes};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A gateway that serves those files below `/files`.
fn serving(root: &Path) -> Gateway {
    let root = root.display();
    Gateway::start(&format!(
        "workers: 2\nlisteners: [127.0.0.1:0]\nadmin: off\n\
         routes: [{{ prefix: /files, files: {{ root: {root}, precompressed: [br, gzip] }} }}]\n"
    ))
}

#[test]
fn files_of_every_length_arrive_in_every_version() {
    let folder = Folder::new();
    let gateway = serving(folder.path());
    for length in LENGTHS {
        folder.write("file", pattern(length));
        for version in ["--http1.0", "--http1.1", "--http2-prior-knowledge"] {
            let response = curl(&gateway).arg(version).get("/files/file");
            assert_eq!((response.status(), response.code), (200, Some(0)), "{length} {version}");
            assert_eq!(response.field("Content-Length"), Some(length.to_string()));
            assert!(response.body == pattern(length), "{length} bytes came changed, {version}");
        }
    }
}

#[test]
fn a_download_goes_on_where_it_was_left() {
    let folder = Folder::new();
    folder.write("file", pattern(3_000_001));
    let gateway = serving(folder.path());
    let partial = folder.write("partial", &pattern(3_000_001)[..1_234_567]);
    let output = ["-C", "-", "-o", partial.to_str().unwrap()];
    let rest = curl(&gateway).args(output).get("/files/file");
    assert_eq!((rest.status(), rest.code), (206, Some(0)));
    let range = "bytes 1234567-3000000/3000001".to_owned();
    assert_eq!(rest.field("Content-Range"), Some(range));
    assert!(fs::read(&partial).unwrap() == pattern(3_000_001));
}

#[test]
fn curl_requests_only_newer_files() {
    let folder = Folder::new();
    let file = folder.write("file", "text");
    let gateway = serving(folder.path());
    let same = curl(&gateway).args(["-z", file.to_str().unwrap()]).get("/files/file");
    assert_eq!((same.status(), same.code), (304, Some(0)));
    let tags = folder.path().join("tags");
    let tags = tags.to_str().unwrap();
    assert_eq!(curl(&gateway).args(["--etag-save", tags]).get("/files/file").text(), "text");
    let known = || curl(&gateway).args(["--etag-compare", tags]).get("/files/file");
    assert_eq!(known().status(), 304);
    folder.write("file", "other text");
    assert_eq!((known().status(), known().text()), (200, "other text"));
}

#[test]
fn a_coding_that_lies_ready_can_be_read() {
    let folder = Folder::new();
    let file = folder.write("page.html", pattern(300_000));
    let gzipped = output_of(peer("gzip").arg("-c").arg(&file));
    folder.write("page.html.gz", &gzipped);
    let gateway = serving(folder.path());
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let response = curl(&gateway).args(["--compressed", version]).get("/files/page.html");
        assert_eq!(response.field("Content-Encoding").as_deref(), Some("gzip"));
        assert_eq!(response.field("Content-Length"), Some(gzipped.len().to_string()));
        assert_eq!(response.field("Content-Type").as_deref(), Some("text/html; charset=utf-8"));
        assert!(response.body == pattern(300_000), "{version}");
    }
}

/// What is asked of both, below `/files`. Where they differ on purpose is not among it: several ranges and those that are
/// none, ranges of HEAD and of codings, directories without an index, a tag of one asked of the other.
const ASKED: &[(&str, &[&str])] = &[
    ("/a.txt", &[]),
    ("/a.txt", &["-I"]),
    ("/a.txt?x=1", &[]),
    ("/%61.txt", &[]),
    ("/./b/../a.txt", &["--path-as-is"]),
    ("//a.txt", &["--path-as-is"]),
    ("/a.txt", &["-r", "0-0"]),
    ("/a.txt", &["-r", "10-99"]),
    ("/a.txt", &["-r", "999-"]),
    ("/a.txt", &["-r", "-1"]),
    ("/a.txt", &["-r", "-5000"]),
    ("/a.txt", &["-r", "990-5000"]),
    ("/a.txt", &["-r", "1000-"]),
    ("/a.txt", &["-r", "5000-6000"]),
    ("/a.txt", &["-H", "Range: lines=1-2"]),
    ("/a.txt", &["-H", "Range: bytes=0-0", "-H", "If-Range: \"x\""]),
    ("/a.txt", &["-H", "Range: bytes=0-0", "-H", "If-Range: THEN"]),
    ("/a.txt", &["-H", "If-Modified-Since: THEN"]),
    ("/a.txt", &["-H", "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"]),
    ("/a.txt", &["-H", "If-Modified-Since: never"]),
    ("/a.txt", &["-H", "If-Unmodified-Since: THEN"]),
    ("/a.txt", &["-H", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT"]),
    ("/a.txt", &["-H", "If-None-Match: *"]),
    ("/a.txt", &["-H", "If-None-Match: \"x\", W/\"y\""]),
    ("/a.txt", &["-H", "If-None-Match: \"x\"", "-H", "If-Modified-Since: THEN"]),
    ("/a.txt", &["-H", "If-Match: *"]),
    ("/a.txt", &["-H", "If-Match: \"x\""]),
    ("/a.txt", &["-H", "Accept-Encoding: gzip"]),
    ("/a.txt", &["-H", "Accept-Encoding: gzip;q=0"]),
    ("/a.txt", &["-X", "POST"]),
    ("/a.txt", &["-X", "DELETE"]),
    ("/a.txt/", &[]),
    ("/empty", &[]),
    ("/empty", &["-r", "0-"]),
    ("/none", &[]),
    ("/none/none", &[]),
    ("/b", &[]),
    ("/b/", &[]),
    ("/", &[]),
    ("", &[]),
    ("/%00", &[]),
    ("/with%20space%3F", &[]),
    ("/large", &[]),
    ("/large", &["-r", "100000-2500000"]),
];

#[test]
fn nginx_and_the_gateway_say_the_same_of_the_same_files() {
    let nginx = Nginx::start(
        "location /files { gzip_static on; charset utf-8; types { text/plain txt; text/html html; }
           default_type application/octet-stream; }",
    );
    nginx.file("a.txt", &pattern(1000));
    nginx.file("a.txt.gz", &pattern(77));
    nginx.file("empty", b"");
    nginx.file("with space?", b"?");
    nginx.file("large", &pattern(3_000_001));
    fs::create_dir(nginx.files().join("b")).unwrap();
    nginx.file("b/index.html", b"index");
    nginx.file("index.html", b"above");
    for name in ["a.txt", "a.txt.gz"] {
        // A time of this second says too little for a part.
        let file = File::options().write(true).open(nginx.files().join(name)).unwrap();
        let time = SystemTime::now() - Duration::from_secs(3600);
        file.set_times(FileTimes::new().set_modified(time)).unwrap();
    }
    let gateway = serving(&nginx.files());
    let then = to(&format!("http://{}", nginx.address)).arg("-I").get("/files/a.txt");
    let then = then.field("Last-Modified").unwrap();
    for (path, arguments) in ASKED {
        let arguments: Vec<_> = arguments.iter().map(|it| it.replace("THEN", &then)).collect();
        let ask = |base: &str| {
            let request = to(base).args(arguments.iter().map(String::as_str));
            request.get(&format!("/files{path}"))
        };
        let (theirs, ours) = (ask(&format!("http://{}", nginx.address)), ask(&gateway.url("")));
        assert_eq!(said(&ours), said(&theirs), "{path} {arguments:?}");
        assert!(ours.status() >= 300 || ours.body == theirs.body, "{path} {arguments:?}");
    }
}

/// What the two have to agree on. Their errors have pages of their own.
fn said(response: &Curl) -> (u16, Vec<Option<String>>) {
    let names: &[&str] = match response.status() {
        200..300 => &[
            "Content-Length",
            "Content-Range",
            "Content-Type",
            "Content-Encoding",
            "Last-Modified",
        ],
        304 => &["Content-Length", "Content-Range", "Content-Type", "Last-Modified"],
        _ => &["Content-Range", "Last-Modified"],
    };
    (response.status(), names.iter().map(|name| response.field(name)).collect())
}
