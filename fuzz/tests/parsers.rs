//! The targets of parsers and of what stands next to another implementation, on fixed pseudo-random walks.

mod near;
mod random;
mod seeds;

use flate2::Compression;
use flate2::write::GzEncoder;
use near::near;
use random::Random;
use std::io::Write;
use titan_fuzz::admin::admin;
use titan_fuzz::compressed::compressed;
use titan_fuzz::h2_exchanges::h2_exchanges;
use titan_fuzz::hpack::hpack;
use titan_fuzz::path::path;
use titan_fuzz::proxy_protocol::proxy_protocol;
use titan_fuzz::range::range;
use titan_fuzz::rule::rule;
use titan_fuzz::template::template;
use titan_fuzz::token::token;
use titan_fuzz::values::values;
use titan_fuzz::web_text::web_text;

/// A walk of a target.
struct Walk {
    target: &'static str,
    run: fn(&[u8]),
    /// What it wanders from.
    pool: Vec<Vec<u8>>,
    /// Bytes in front that choose.
    choices: usize,
    runs: usize,
}

impl Walk {
    fn run(&self) {
        let mut random = Random(0x7469_7461_6e00_0006);
        (0..self.runs).for_each(|_| (self.run)(&near(&self.pool, self.choices, &mut random)));
    }
}

fn texts<T: AsRef<[u8]>>(choices: &[u8], texts: impl IntoIterator<Item = T>) -> Vec<Vec<u8>> {
    texts.into_iter().map(|text| [choices, text.as_ref()].concat()).collect()
}

fn proxy_protocols() -> Walk {
    let second = |command: u8, family: u8, block: &[u8]| {
        let length = u16::try_from(block.len()).expect("it is short").to_be_bytes();
        [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[0x20 | command, family], &length, block].concat()
    };
    let lines = [
        "PROXY TCP4 192.0.2.1 192.0.2.2 256 80\r\nGET / HTTP/1.1\r\n",
        "PROXY TCP6 2001:db8::1 ::1 1 65535\r\n",
        "PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n",
        "PROXY UNKNOWN\r\n",
    ];
    let mut pool = texts(b"", lines);
    pool.extend([
        second(1, 0x11, &[192, 0, 2, 1, 192, 0, 2, 2, 1, 0, 0, 80]),
        second(1, 0x21, &[7; 36 + 11]),
        second(0, 0, b""),
        second(1, 0x31, &[0; 216]),
    ]);
    Walk { target: "proxy_protocol", run: proxy_protocol, pool, choices: 0, runs: 50_000 }
}

fn tokens() -> Walk {
    let parts = [
        "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"k\"}\n{\"sub\":\"ann\",\"aud\":[\"a\",\"b\"],\"exp\":1e9}\nsignature",
        "{\"alg\":\"RS256\",\"typ\":\"application/at+jwt\"}\n{\"a\":{\"b\":[[[[{}]]]]},\"n\":-0.5,\"t\":true,\"z\":null}\n\0\x01",
        "{\"alg\":\"ES256\",\"cty\":\"JWT\",\"jku\":\"https://a\"}\n{\"a\":1,\"a\":2}\n",
        "{\"alg\":\"none\"}\n{\"\\u0061\":\"\\ud83d\\ude00\"}\n",
        "{\"alg\":\"EdDSA\"}\n{\"a\":[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]}\n",
    ];
    let whole = ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln", "e30.e30.", "..", "a.b.c.d"];
    let pool = [texts(b"\x01", parts), texts(b"\0", whole)].concat();
    Walk { target: "token", run: token, pool, choices: 1, runs: 100_000 }
}

fn paths() -> Walk {
    let pool = texts(
        b"",
        [
            "/a/b/../c/./d//e",
            "/%61/%2e%2E/%c3%a9/%2F/a%2fb",
            "/..;x/a/.;/b;v=1",
            "/a/..%3bx/.%3B/b%3bv=1",
            "/a%2F..%2Fb/%252e%5c/%00",
            "/.../..a/.b/a../a.",
            "/a/..",
            "/",
            "a=1&b=%32&a=%&%61=3&&=",
        ],
    );
    Walk { target: "path", run: path, pool, choices: 0, runs: 200_000 }
}

fn web_texts() -> Walk {
    let pool = texts(
        b"\x02",
        ["AA==AAECAwQFBgc=BAUG/w==", "AAAAAAUxMjM0NQ==gAAAAA9ncnBjLXN0YXR1czowDQo=", "====", ""],
    );
    Walk { target: "web_text", run: web_text, pool, choices: 1, runs: 200_000 }
}

fn ranges() -> Walk {
    let pool = texts(
        &[0, 50, 0, 0],
        [
            "\0bytes=0-99",
            "\0bytes=10-\n\x01\"a,b\"",
            "\0Bytes= -5 ",
            "\0bytes=18446744073709551615-99999999999999999999999",
            "\0bytes=0-1,3-4\n\0bytes=5-4",
            "\x02\"x\", W/\"a,b\"\n\x03W/\"a,b\", *",
            "\x04Sun, 06 Nov 1994 08:49:37 GMT\n\x05Sun, 06 Nov 1994 08:49:36 GMT",
            "\x01Sun, 06 Nov 1994 08:49:37 GMT\n\x04Sunday, 06-Nov-94 08:49:37 GMT",
        ],
    );
    Walk { target: "range", run: range, pool, choices: 4, runs: 200_000 }
}

fn rules() -> Walk {
    let pool = texts(
        &[0, 0, 0, 0],
        [
            "request.method == 'GET' || 'admin' in claims.groups",
            "claims.level > 2 && claims.groups.exists(g, g == 'a')",
            "request.headers['x-a'].startsWith('1') && size(request.query.x) == 2",
            "has(claims.sub) ? claims.sub.matches('^[a-z]+$') : client.address == '127.0.0.1'",
            "certificate.dns.all(name, name.endsWith('.example')) && !(request.path.contains('/b'))",
            "[1, 2.5, 'a', b'\\xff', null][0] + -9223372036854775808 == 1 / 0",
            "int(claims.sub) + size('a') == 'a'.size() || string(1).contains('1')",
            "claims.deep.er[0].x == true && request.host != \"\\u00e9\"",
        ],
    );
    Walk { target: "rule", run: rule, pool, choices: 4, runs: 1_500 }
}

fn templates() -> Walk {
    let pool = texts(
        b"",
        [
            "https://{host}{path}{query}\n/a/b%20c\nx=1&y\na.example:8080",
            "https://{hostname}/new?z=2{query}#{a}\n/x/%2F\nq=#\nb.example",
            "https://{a}.good.example/{rest}?p={rest}\n/evil.example%3A80/@b\n\na",
            "https://{a}.good@.example/{rest}\n/ann/b\n\na",
            "{path}?{query}\n//a\n?\nuser@a",
            "/x/{a}/../{rest}/.\n/a/b;c=1/d\n\n[::1]:443",
            "//{a}/b\n/..;/..\nx\na",
            "/{a}/evil.example\n/\n\na",
        ],
    );
    Walk { target: "template", run: template, pool, choices: 0, runs: 5_000 }
}

fn compressed_bodies() -> Walk {
    let body = b"a body that repeats, repeats, repeats and repeats itself. ".repeat(20);
    let gzip = |body: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(body).and_then(|()| encoder.finish()).expect("it is memory")
    };
    let brotli = |window: u32| {
        let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 5, window);
        encoder.write_all(&body).expect("it is memory");
        encoder.into_inner()
    };
    let zstd = |body: &[u8]| zstd::encode_all(body, 3).expect("it is memory");
    let mut pool =
        texts(&[0, 1, 5, 9], [gzip(&body), [gzip(b"a"), gzip(b"")].concat(), gzip(&[0; 5000])]);
    pool.extend(texts(&[1, 2, 5, 9], [brotli(10), brotli(18), brotli(22)]));
    pool.extend(texts(
        &[2, 3, 5, 9],
        [zstd(&body), [zstd(b"a"), zstd(b"b")].concat(), zstd(&[7; 9000])],
    ));
    Walk { target: "compressed", run: compressed, pool, choices: 4, runs: 3_000 }
}

fn blocks() -> Walk {
    let block = |bytes: &[u8]| [&[u8::try_from(bytes.len()).expect("it is short")], bytes].concat();
    let conversation =
        |blocks: &[&[u8]]| blocks.iter().flat_map(|it| block(it)).collect::<Vec<u8>>();
    let pool = vec![
        // RFC 7541 sections C.3 to C.5.
        conversation(&[
            b"\x82\x86\x84\x41\x0fwww.example.com",
            b"\x82\x86\x84\xbe\x58\x08no-cache",
            b"\x82\x87\x85\xbf\x40\x0acustom-key\x0ccustom-value",
        ]),
        conversation(&[
            b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff",
            b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf",
            b"\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf",
        ]),
        conversation(&[b"\x3f\x21\x48\x03302\x58\x07private", b"\x20\x48\x03307\xc1", b"\x3f\xe1\x1f\xc1\xc0"]),
        conversation(&[b"\x10\x08password\x06secret", b"\x04\x0c/sample/path", b"\x40\x01x\x7f\x64aaaa", b""]),
        conversation(&[b"\xff\x80\x80\x80\x80\x01", b"\x7f\xff\xff\xff\xff\x0f\x01a", b"\x0f\x2f\0"]),
    ];
    Walk { target: "hpack", run: hpack, pool, choices: 0, runs: 100_000 }
}

fn exchanges() -> Walk {
    let mut random = Random(0x7469_7461_6e00_0007);
    let mut bytes = || {
        let length = random.next() % 200;
        // Small numbers are more often a choice.
        let byte =
            |number: u32| if number & 0x100 == 0 { (number % 8) as u8 } else { number as u8 };
        (0..length).map(|_| byte(random.next())).collect::<Vec<u8>>()
    };
    let pool = (0..64).map(|_| bytes()).collect();
    Walk { target: "h2_exchanges", run: h2_exchanges, pool, choices: 5, runs: 800 }
}

fn admin_connections() -> Walk {
    let pool = texts(
        &[0, 4, 0, 0],
        [
            "GET /a HTTP/1.1\r\nHost: a\r\n\r\nHEAD /stream HTTP/1.1\r\nHost: a\r\n\r\nGET /stream HTTP/1.0\r\n\r\n",
            "PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhelloGET /last HTTP/1.1\r\nHost: a\r\n\r\nGET",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nx: y\r\n\r\nDELETE / HTTP/1.1\r\n\
             Host: a\r\n\r\n",
            "DELETE /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /stream HTTP/1.1\r\nHost: a\r\n\r\nmore",
            // More than a connection may bring.
            &"GET /a HTTP/1.1\r\nHost: a\r\n\r\n".repeat(7),
            "PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 70000\r\n\r\nabc",
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\n",
        ],
    );
    Walk { target: "admin", run: admin, pool, choices: 4, runs: 1_500 }
}

fn field_values() -> Walk {
    let pool = texts(
        b"",
        [
            "gzip;q=0.5, br;q=1.0, *;q=0\nzstd, identity;q=0",
            "text/*;q=0.3, text/html;version=\"1\";q=0.7, */*;q=0.5\ntext/html;q=0",
            "a=1; session=x; a=\"2\"; =;a\nsession",
            "a.example:8080\n[::1]:443\n%41:\n[::1\na@b\n:1",
            "9223372036854775807\n0000000000000000000\n12a",
            "u=1, i\nx=\"a,b\\\"\", u=9;a, i=?0\nu=7;x",
        ],
    );
    Walk { target: "values", run: values, pool, choices: 0, runs: 200_000 }
}

const WALKS: [fn() -> Walk; 12] = [
    field_values,
    admin_connections,
    proxy_protocols,
    tokens,
    paths,
    web_texts,
    ranges,
    rules,
    templates,
    compressed_bodies,
    blocks,
    exchanges,
];

#[test]
#[ignore = "it is for libFuzzer"]
fn write_seeds() {
    for walk in WALKS.map(|walk| walk()) {
        seeds::write(walk.target, |random| near(&walk.pool, walk.choices, random));
    }
}

macro_rules! walks {
    ($($name:ident $walk:ident;)*) => {
        $(
            #[test]
            fn $name() {
                $walk().run();
            }
        )*
    };
}

walks! {
    values_of_fields field_values;
    connections_of_the_admin_interface admin_connections;
    headers_of_the_proxy_protocol proxy_protocols;
    json_web_tokens tokens;
    paths_and_queries paths;
    grpc_web_as_text web_texts;
    ranges_and_conditions ranges;
    cel_rules rules;
    redirects_and_rewrites templates;
    bodies_in_each_coding compressed_bodies;
    hpack_next_to_another_one blocks;
    exchanges_with_the_h2_crate exchanges;
}
