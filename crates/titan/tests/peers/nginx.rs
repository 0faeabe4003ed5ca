//! nginx as an upstream.

use crate::curl::{Curl, curl};
use crate::gateway::{Gateway, config_to};
use crate::place::{Folder, own_address};
use crate::program::{Program, peer};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An nginx with one server.
pub(crate) struct Nginx {
    _program: Program,
    pub(crate) address: SocketAddr,
    folder: Folder,
}

/// Around the `location` blocks of a test. One process: the workers of a killed master would live on.
const CONFIG: &str = "\
daemon off;
master_process off;
pid PATH/pid;
error_log stderr;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path PATH/body;
  proxy_temp_path PATH/proxy;
  fastcgi_temp_path PATH/fastcgi;
  uwsgi_temp_path PATH/uwsgi;
  scgi_temp_path PATH/scgi;
  default_type text/plain;
  server {
    listen ADDRESS;
    root PATH;
    LOCATIONS
  }
}
";

impl Nginx {
    pub(crate) fn start(locations: &str) -> Nginx {
        Nginx::at(own_address(), locations)
    }

    /// The same that speaks HTTP/2 alone.
    pub(crate) fn start_h2(locations: &str) -> Nginx {
        Nginx::with(own_address(), locations, " http2")
    }

    fn at(address: SocketAddr, locations: &str) -> Nginx {
        let tls = if locations.contains("ssl_certificate ") { " ssl" } else { "" };
        Nginx::with(address, locations, tls)
    }

    fn with(address: SocketAddr, locations: &str, how: &str) -> Nginx {
        let folder = Folder::new();
        fs::create_dir(folder.path().join("files")).unwrap();
        let config = CONFIG
            .replace("LOCATIONS", locations)
            .replace("PATH", folder.path().to_str().unwrap())
            .replace("ADDRESS", &format!("{address}{how}"));
        let file = folder.write("nginx.conf", config);
        let mut command = peer("nginx");
        command.arg("-e").arg("stderr").arg("-p").arg(folder.path()).arg("-c").arg(file);
        let program = Program::start(&mut command, &folder).listens_on(address);
        Nginx { _program: program, address, folder }
    }

    /// The folder of what is under `/files/`.
    pub(crate) fn files(&self) -> PathBuf {
        self.folder.path().join("files")
    }

    /// Puts a file under `/files/`.
    pub(crate) fn file(&self, name: &str, content: &[u8]) {
        self.folder.write(&format!("files/{name}"), content);
    }
}

/// `length` bytes that are wrong when they are moved.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    let byte = |i: usize| (i * 7 + (i >> 8) * 13 + (i >> 16) * 29).to_le_bytes()[0];
    (0..length).map(byte).collect()
}

/// Around everything that the gateway treats in its own way: small, one buffer, large, spliced.
pub(crate) const LENGTHS: [usize; 9] =
    [0, 1, 16 << 10, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, 1 << 20, 3_000_001, 20 << 20];

#[test]
fn files_of_every_length_arrive_as_they_are() {
    let nginx = Nginx::start("");
    let gateway = Gateway::to(nginx.address);
    for length in LENGTHS {
        nginx.file("file", &pattern(length));
        let response = curl(&gateway).get("/files/file");
        assert_eq!(response.status(), 200, "{length}");
        assert_eq!(response.field("Content-Length"), Some(length.to_string()));
        assert!(response.body == pattern(length), "{length} bytes came back changed");
        let head = curl(&gateway).arg("-I").get("/files/file");
        assert_eq!(head.field("Content-Length"), Some(length.to_string()));
        assert_eq!(head.body, b"");
    }
}

#[test]
fn chunked_responses_arrive_as_they_are() {
    let nginx = Nginx::start("ssi on; ssi_types *;");
    let gateway = Gateway::to(nginx.address);
    for length in LENGTHS {
        nginx.file("file", &pattern(length));
        let response = curl(&gateway).get("/files/file");
        // Of an empty file nginx knows the length after all.
        let coding = (length > 0).then(|| "chunked".to_owned());
        assert_eq!(response.field("Transfer-Encoding"), coding, "{length}");
        assert!(response.body == pattern(length), "{length} bytes came back changed");
        // A client that knows no chunks gets the same bytes until the end of the connection.
        let response = curl(&gateway).arg("--http1.0").get("/files/file");
        assert_eq!(response.field("Transfer-Encoding"), None);
        assert!(response.body == pattern(length), "{length} bytes came back changed to HTTP/1.0");
    }
}

#[test]
fn uploads_arrive_as_they_are() {
    let nginx = Nginx::start("dav_methods PUT DELETE; client_max_body_size 64m;");
    let gateway = Gateway::to(nginx.address);
    let folder = Folder::new();
    for length in LENGTHS {
        let source = folder.write("source", pattern(length));
        // This curl never ends a chunked upload of nothing.
        for chunked in if length == 0 { &[false][..] } else { &[false, true] } {
            let upload = curl(&gateway).arg("-T").arg(source.to_str().unwrap());
            let upload = match *chunked {
                true => upload.arg("-H").arg("Transfer-Encoding: chunked"),
                false => upload,
            };
            let status = upload.get("/files/file").status();
            assert!([201, 204].contains(&status), "{length}, chunked: {chunked}: {status}");
            let arrived = fs::read(nginx.folder.path().join("files/file")).unwrap();
            assert!(arrived == pattern(length), "{length} bytes arrived changed ({chunked})");
        }
    }
    assert_eq!(curl(&gateway).args(["-X", "DELETE"]).get("/files/file").status(), 204);
    assert_eq!(curl(&gateway).get("/files/file").status(), 404);
}

#[test]
fn ranges_and_conditions_are_the_upstreams_business() {
    let nginx = Nginx::start("");
    nginx.file("file", &pattern(300_000));
    let gateway = Gateway::to(nginx.address);
    let part = curl(&gateway).args(["-r", "100000-199999"]).get("/files/file");
    assert_eq!(part.status(), 206);
    assert_eq!(part.field("Content-Range"), Some("bytes 100000-199999/300000".to_owned()));
    assert!(part.body == pattern(300_000)[100_000..200_000]);
    let parts = curl(&gateway).args(["-r", "0-9,20-29"]).get("/files/file");
    assert_eq!(parts.status(), 206);
    assert!(parts.field("Content-Type").unwrap().starts_with("multipart/byteranges"));
    assert_eq!(curl(&gateway).args(["-r", "300000-"]).get("/files/file").status(), 416);
    let tag = part.field("ETag").unwrap();
    let known = format!("If-None-Match: {tag}");
    let unchanged = curl(&gateway).args(["-H", &known]).get("/files/file");
    assert_eq!((unchanged.status(), unchanged.body.as_slice()), (304, &b""[..]));
}

#[test]
fn a_refusal_in_the_middle_of_an_upload_reaches_the_client() {
    let nginx = Nginx::start("dav_methods PUT; client_max_body_size 1k;");
    let gateway = Gateway::to(nginx.address);
    let folder = Folder::new();
    let source = folder.write("source", pattern(20 << 20));
    for framing in ["X-Framing: length", "Transfer-Encoding: chunked"] {
        for expect in ["Expect:", "Expect: 100-continue"] {
            let upload = curl(&gateway).arg("-T").arg(source.to_str().unwrap());
            let response = upload.args(["-H", framing, "-H", expect]).get("/files/file");
            assert_eq!(response.status(), 413, "{framing}, {expect}");
            assert!(response.text().contains("nginx"), "{framing}, {expect}: {}", response.text());
        }
    }
}

#[test]
fn an_upstream_that_hangs_up_is_a_bad_gateway() {
    let nginx =
        Nginx::start("location = /silent { return 444; } location = /ok { return 200 ok; }");
    let gateway = Gateway::to(nginx.address);
    for method in ["GET", "POST"] {
        let response = curl(&gateway).args(["-X", method]).get("/silent");
        assert_eq!(response.status(), 502);
        assert!(
            response.text().contains("urn:titan:problem:upstream-closed"),
            "{}",
            response.text()
        );
        assert_eq!(curl(&gateway).get("/ok").text(), "ok");
    }
}

#[test]
fn nginx_sees_the_clients_address_and_the_hosts_name() {
    let nginx = Nginx::start("location / { return 200 '$host $http_x_forwarded_for $http_via'; }");
    let gateway = Gateway::to(nginx.address);
    let asked = curl(&gateway).args(["-H", "Host: shop.example", "--interface", "127.9.8.7"]);
    assert_eq!(asked.get("/").text(), "shop.example 127.9.8.7 1.1 titan");
}

#[test]
fn a_chain_of_gateways_and_nginx_changes_nothing() {
    let address = own_address();
    let config = config_to(address) + "forwarding: { trusted_proxies: [127.0.0.0/8] }\n";
    let gateway = Gateway::start(&config);
    let again = gateway.address();
    let nginx = Nginx::at(
        address,
        &format!(
            "client_max_body_size 64m; dav_methods PUT;
             location /again/ {{
               proxy_pass http://{again}/files/; proxy_http_version 1.1; proxy_buffering off;
               proxy_request_buffering off; proxy_set_header Connection '';
             }}
             location /round/ {{ proxy_pass http://{again}/round/; proxy_http_version 1.1; }}"
        ),
    );
    let folder = Folder::new();
    for length in LENGTHS {
        let source = folder.write("source", pattern(length));
        let upload = curl(&gateway).arg("-T").arg(source.to_str().unwrap());
        assert!([201, 204].contains(&upload.get("/again/file").status()), "{length}");
        let arrived = fs::read(nginx.folder.path().join("files/file")).unwrap();
        assert!(arrived == pattern(length), "{length} bytes arrived changed");
        let response: Curl = curl(&gateway).get("/again/file");
        assert!(response.body == pattern(length), "{length} bytes came back changed");
    }
    let endless = curl(&gateway).get("/round/file");
    assert_eq!(endless.status(), 502);
    assert!(endless.text().contains("urn:titan:problem:loop"), "{}", endless.text());
}
