//! Decoders of others read what the gateway makes smaller.

use crate::curl::{Curl, curl};
use crate::gateway::{Gateway, config_to};
use crate::nginx::Nginx;
use crate::place::Folder;
use crate::program::{output_of, peer};

const POLICY: &str = "policies: { small: { compress: {} } }\napply: [small]\n";

/// Some 2 MiB, with long repetitions and short ones.
fn pages() -> Vec<u8> {
    let line = |number: u32| {
        format!("<li id=\"{}\">{}</li>\n", number, number.wrapping_mul(number) % 1009)
    };
    (0..100_000).flat_map(|number| line(number).into_bytes()).collect()
}

/// An nginx with those pages, and a gateway before it that makes them smaller.
fn compressing() -> (Nginx, Gateway) {
    let nginx = Nginx::start("location /files/ { types { text/html html; } }");
    nginx.file("pages.html", &pages());
    let gateway = Gateway::start(&(config_to(nginx.address) + POLICY));
    (nginx, gateway)
}

fn accepting(gateway: &Gateway, coding: &str, arguments: &[&str]) -> Curl {
    let field = format!("Accept-Encoding: {coding}");
    let request = curl(gateway).args(["-H", &field]).args(arguments.iter().copied());
    let response = request.get("/files/pages.html");
    assert_eq!((response.status(), response.code), (200, Some(0)));
    assert_eq!(response.field("content-encoding").as_deref(), Some(coding));
    response
}

#[test]
fn curl_reads_every_coding() {
    let (_nginx, gateway) = compressing();
    for coding in ["gzip", "br", "zstd"] {
        for version in ["--http1.0", "--http1.1", "--http2-prior-knowledge"] {
            let response = accepting(&gateway, coding, &["--compressed", version]);
            assert!(response.body == pages(), "{coding} {version}");
        }
    }
    let response = curl(&gateway).arg("--compressed").get("/files/pages.html");
    assert_eq!(
        response.field("content-encoding").as_deref(),
        Some("zstd"),
        "the gateway's own order"
    );
    assert!(response.body == pages());
}

#[test]
fn the_tools_of_each_format_take_what_comes_and_it_is_small() {
    let (_nginx, gateway) = compressing();
    let folder = Folder::new();
    for (coding, tool, ending) in [("gzip", "gzip", "gz"), ("zstd", "zstd", "zst")] {
        let response = accepting(&gateway, coding, &[]);
        assert!(response.body.len() * 10 < pages().len() * 4, "{coding}: {}", response.body.len());
        let file = folder.write(&format!("pages.{ending}"), &response.body);
        let plain = output_of(peer(tool).arg("-dc").arg(&file));
        assert!(plain == pages(), "{coding}");
    }
}

#[test]
fn what_nginx_has_compressed_stays_as_it_is() {
    let nginx =
        Nginx::start("location /files/ { types { text/html html; } gzip on; gzip_proxied any; }");
    nginx.file("pages.html", &pages());
    let gateway = Gateway::start(&(config_to(nginx.address) + POLICY));
    let request = curl(&gateway).args(["-H", "Accept-Encoding: gzip, br;q=0.5", "--compressed"]);
    let response = request.get("/files/pages.html");
    assert_eq!(response.field("content-encoding").as_deref(), Some("gzip"));
    assert!(response.body == pages());
}

#[test]
fn parts_are_not_coded() {
    let (_nginx, gateway) = compressing();
    let response = curl(&gateway).args(["--compressed", "-r", "0-9"]).get("/files/pages.html");
    assert_eq!((response.status(), response.field("content-encoding")), (206, None));
    assert_eq!(response.body, pages()[..10]);
}
