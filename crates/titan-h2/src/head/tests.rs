//! What heads, trailers and their faults are, over blocks of plain literals.

use super::*;
use crate::Destination;
use allocation_counter::measure;
use proptest::prelude::*;
use titan_http::section::{Encoding, Secrecy};
use titan_http::{FieldName, Method, Status, TargetForm, Version};

type Lines<'a> = &'a [(&'a str, &'a str)];

/// Names of cases, their lines, and what is wrong with them.
type Cases<'a> = &'a [(&'a str, Vec<(&'a str, &'a str)>, Fault)];

/// A block of those lines; names as they stand.
fn block(lines: Lines<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in lines {
        let start = out.len() + 2;
        Hpack::write_literal(&mut out, None, name.as_bytes(), value.len(), Secrecy::Public);
        out[start..start + name.len()].copy_from_slice(name.as_bytes());
        out.extend_from_slice(value.as_bytes());
    }
    out
}

fn limits() -> Limits {
    Limits { head: 1000, fields: 8, target: 100, trailers: 200, ..Limits::default() }
}

fn request(lines: Lines<'_>) -> (Result<RequestFacts, Fault>, RequestHead) {
    let mut head = RequestHead::default();
    let facts = HeadReader::new(&limits()).read_request(&block(lines), &mut head);
    (facts.unwrap(), head)
}

fn response(lines: Lines<'_>) -> (Result<ResponseFacts, Fault>, ResponseHead) {
    let mut head = ResponseHead::default();
    let facts = HeadReader::new(&limits()).read_response(
        &block(lines),
        false,
        Extent::Beginning,
        &mut head,
    );
    (facts.unwrap(), head)
}

fn trailers(lines: Lines<'_>) -> (Result<(), Fault>, Fields) {
    let mut fields = Fields::default();
    let outcome =
        HeadReader::new(&limits()).read_trailers(&block(lines), Excess::Refused, &mut fields);
    (outcome.unwrap(), fields)
}

const METHOD: (&str, &str) = (":method", "GET");
const SCHEME: (&str, &str) = (":scheme", "https");
const AUTHORITY: (&str, &str) = (":authority", "a.example");
const PATH: (&str, &str) = (":path", "/");

/// The pseudo fields of a request, then those lines.
fn get_with<'a>(lines: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [METHOD, SCHEME, AUTHORITY, PATH].iter().chain(lines).copied().collect()
}

#[test]
fn a_request_is_taken_apart() {
    let (facts, head) = request(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/a/b?c=d?e"),
        (":authority", "a.example:81"),
        ("content-length", "12"),
        ("expect", "100-Continue"),
        ("te", "trailers"),
        ("x-any", ""),
    ]);
    let facts = facts.unwrap();
    assert_eq!((facts.length, facts.expect_continue), (Some(12), true));
    assert_eq!((facts.protocol, facts.is_https), (None, false));
    assert_eq!((head.method, head.version), (Method::POST, Version::Http2));
    assert_eq!(head.target.form, TargetForm::Origin);
    assert_eq!((head.path(), head.query()), (b"/a/b".as_slice(), Some(b"c=d?e".as_slice())));
    assert_eq!(head.authority(), Some(b"a.example:81".as_slice()));
    let names: Vec<_> = head.fields.iter().map(|field| field.name).collect();
    assert_eq!(names, [b"content-length".as_slice(), b"expect", b"te", b"x-any"]);
    assert_eq!(head.fields.get(FieldName::ContentLength), Some(b"12".as_slice()));
}

#[test]
fn an_asterisk_is_for_options_alone() {
    let (facts, head) = request(&[(":method", "OPTIONS"), SCHEME, AUTHORITY, (":path", "*")]);
    assert!(facts.is_ok());
    assert_eq!((head.target.form, head.path()), (TargetForm::Asterisk, b"*".as_slice()));
    assert_eq!(request(&[METHOD, SCHEME, AUTHORITY, (":path", "*")]).0, Err(Fault::Path));
}

#[test]
fn connect_has_an_authority_alone() {
    let connect = (":method", "CONNECT");
    let tunnel = (":authority", "a.example:443");
    let (facts, head) = request(&[connect, tunnel, ("content-length", "0")]);
    assert_eq!(facts.unwrap().length, None);
    assert_eq!(head.target.form, TargetForm::Authority);
    assert_eq!(head.authority(), Some(b"a.example:443".as_slice()));
    assert!(head.fields.is_empty());
    let protocol = (":protocol", "websocket");
    let (facts, head) = request(&[connect, protocol, SCHEME, PATH, AUTHORITY]);
    let protocol = facts.unwrap().protocol.unwrap();
    assert_eq!(protocol.of(head.fields.text()), b"websocket");
    assert_eq!((head.target.form, head.path()), (TargetForm::Origin, b"/".as_slice()));
}

#[test]
fn host_stands_in_for_the_authority_or_repeats_it() {
    let (facts, head) = request(&get_with(&[("host", "A.Example")]));
    assert!(facts.is_ok());
    assert!(head.fields.is_empty());
    assert_eq!(head.authority(), Some(b"a.example".as_slice()));
    let (facts, head) = request(&[METHOD, SCHEME, PATH, ("host", "b")]);
    assert!(facts.is_ok());
    assert_eq!((head.fields.len(), head.authority()), (1, Some(b"b".as_slice())));
}

#[test]
fn cookies_become_one_line_at_the_place_of_the_first() {
    let (facts, head) = request(&get_with(&[
        ("x-one", "1"),
        ("cookie", "a=1"),
        ("x-two", "2"),
        ("cookie", "b=2"),
        ("cookie", ""),
        ("cookie", "c=3"),
    ]));
    assert!(facts.is_ok());
    let lines: Vec<_> = head.fields.iter().map(|field| (field.name, field.value)).collect();
    let expected: [(&[u8], &[u8]); 3] =
        [(b"x-one", b"1"), (b"cookie", b"a=1; b=2; ; c=3"), (b"x-two", b"2")];
    assert_eq!(lines, expected);
}

#[test]
fn cookies_of_one_request_do_not_reach_the_next() {
    let mut reader = HeadReader::new(&limits());
    let mut head = RequestHead::default();
    let mut cookies = |values: &[&'static str]| {
        let lines: Vec<_> = values.iter().map(|&value| ("cookie", value)).collect();
        reader.read_request(&block(&get_with(&lines)), &mut head).unwrap().unwrap();
        head.fields.get(FieldName::Cookie).map(<[u8]>::to_vec)
    };
    assert_eq!(cookies(&["a=1", "b=2"]), Some(b"a=1; b=2".to_vec()));
    assert_eq!(cookies(&["c=3"]), Some(b"c=3".to_vec()));
    assert_eq!(cookies(&["", "d=4"]), Some(b"; d=4".to_vec()));
    assert_eq!(cookies(&[]), None);
}

#[test]
fn faulty_requests_are_named() {
    let long = "a".repeat(980);
    let path = format!("/{}", "a".repeat(100));
    let whole = [METHOD, SCHEME, AUTHORITY, PATH];
    let without = |name: &str| -> Vec<(&str, &str)> {
        whole.into_iter().filter(|line| line.0 != name).collect()
    };
    let instead = |line: (&'static str, &'static str)| -> Vec<(&str, &str)> {
        whole.into_iter().map(|other| if other.0 == line.0 { line } else { other }).collect()
    };
    let connect = (":method", "CONNECT");
    let tunnel = (":authority", "a:1");
    let cases: Cases<'_> = &[
        ("upper case", get_with(&[("Accept", "a")]), Fault::NameUpperCase),
        ("space in a name", get_with(&[("a b", "a")]), Fault::NameByte),
        ("colon in a name", get_with(&[("a:", "a")]), Fault::NameByte),
        ("no name", get_with(&[("", "a")]), Fault::NameByte),
        ("CR LF", get_with(&[("a", "a\r\nb: c")]), Fault::ValueByte),
        ("NUL", get_with(&[("a", "\0")]), Fault::ValueByte),
        ("LF in a path", instead((":path", "/\n")), Fault::ValueByte),
        ("space in front", get_with(&[("a", " b")]), Fault::ValueSpace),
        ("tab behind", get_with(&[("a", "b\t")]), Fault::ValueSpace),
        ("connection", get_with(&[("connection", "close")]), Fault::ConnectionField),
        ("keep-alive", get_with(&[("keep-alive", "5")]), Fault::ConnectionField),
        ("proxy-connection", get_with(&[("proxy-connection", "a")]), Fault::ConnectionField),
        ("transfer-encoding", get_with(&[("transfer-encoding", "a")]), Fault::ConnectionField),
        ("upgrade", get_with(&[("upgrade", "h2c")]), Fault::ConnectionField),
        ("te: gzip", get_with(&[("te", "gzip")]), Fault::Te),
        ("te: trailers, gzip", get_with(&[("te", "trailers, gzip")]), Fault::Te),
        ("late", vec![METHOD, SCHEME, AUTHORITY, ("a", "b"), PATH], Fault::PseudoLate),
        ("unknown", get_with(&[(":test", "a")]), Fault::PseudoUnknown),
        ("upper-case pseudo", get_with(&[(":Path", "/")]), Fault::PseudoUnknown),
        ("a response's", get_with(&[(":status", "200")]), Fault::PseudoUnknown),
        ("twice", get_with(&[PATH]), Fault::PseudoTwice),
        ("no method", without(":method"), Fault::NoMethod),
        ("no scheme", without(":scheme"), Fault::NoScheme),
        ("no path", without(":path"), Fault::NoPath),
        ("no authority", without(":authority"), Fault::NoAuthority),
        ("nothing", vec![], Fault::NoMethod),
        ("no token", instead((":method", "GE T")), Fault::Method),
        ("empty method", instead((":method", "")), Fault::Method),
        ("other scheme", instead((":scheme", "ftp")), Fault::Scheme),
        ("empty path", instead((":path", "")), Fault::Path),
        ("relative path", instead((":path", "a")), Fault::Path),
        ("absolute form", instead((":path", "http://a/")), Fault::Path),
        ("space in a path", instead((":path", "/a b")), Fault::PathByte),
        ("fragment", instead((":path", "/#a")), Fault::PathByte),
        ("path not ASCII", instead((":path", "/\u{e9}")), Fault::PathByte),
        ("query not ASCII", instead((":path", "/?\u{e9}")), Fault::PathByte),
        ("empty authority", instead((":authority", "")), Fault::Authority),
        ("user", instead((":authority", "u@a")), Fault::Authority),
        (
            "bad host",
            without(":authority").into_iter().chain([("host", "a b")]).collect(),
            Fault::HostMalformed,
        ),
        ("two hosts", get_with(&[("host", "a.example"), ("host", "a.example")]), Fault::SecondHost),
        ("other host", get_with(&[("host", "b.example")]), Fault::HostDiffers),
        ("other port", get_with(&[("host", "a.example:80")]), Fault::HostDiffers),
        ("CONNECT with all", instead(connect), Fault::ConnectTarget),
        ("CONNECT with path", vec![connect, tunnel, PATH], Fault::ConnectTarget),
        ("CONNECT to nothing", vec![connect], Fault::NoAuthority),
        ("CONNECT to Host", vec![connect, ("host", "a:1")], Fault::NoAuthority),
        ("CONNECT without port", vec![connect, AUTHORITY], Fault::Authority),
        ("CONNECT and Host", vec![connect, tunnel, ("host", "b:1")], Fault::HostDiffers),
        (
            "CONNECT with length",
            vec![connect, tunnel, ("content-length", "1")],
            Fault::ConnectLength,
        ),
        (
            "protocol, not CONNECT",
            vec![METHOD, SCHEME, AUTHORITY, PATH, (":protocol", "a")],
            Fault::ProtocolWithoutConnect,
        ),
        ("protocol, no path", vec![connect, SCHEME, AUTHORITY, (":protocol", "a")], Fault::NoPath),
        ("no protocol", vec![connect, SCHEME, AUTHORITY, PATH, (":protocol", "")], Fault::Protocol),
        (
            "two lengths",
            get_with(&[("content-length", "1"), ("content-length", "1")]),
            Fault::SecondContentLength,
        ),
        ("list of lengths", get_with(&[("content-length", "1, 1")]), Fault::ContentLength),
        ("signed length", get_with(&[("content-length", "+1")]), Fault::ContentLength),
        ("other expectation", get_with(&[("expect", "a")]), Fault::Expectation),
        ("long path", vec![METHOD, SCHEME, AUTHORITY, (":path", &path)], Fault::TargetTooLong),
        ("too many fields", get_with(&[("a", ""); 9]), Fault::TooManyFields),
        ("too large", get_with(&[("a", &long)]), Fault::HeadTooLarge),
        ("too large, then malformed", get_with(&[("a", &long), ("B", "")]), Fault::NameUpperCase),
        (
            "unknown expectation, then malformed",
            get_with(&[("expect", "a"), ("te", "a")]),
            Fault::Te,
        ),
    ];
    for (name, lines, fault) in cases {
        assert_eq!(request(lines).0, Err(*fault), "{name}");
    }
}

#[test]
fn what_fits_of_a_refused_head_is_kept() {
    let long = "a".repeat(980);
    let (facts, head) = request(&get_with(&[("a", "1"), ("b", &long), ("c", "2")]));
    assert_eq!(facts, Err(Fault::HeadTooLarge));
    assert!(Fault::HeadTooLarge.gets_response());
    assert_eq!((head.method, head.authority()), (Method::GET, Some(b"a.example".as_slice())));
    assert_eq!(head.fields.len(), 1);
}

#[test]
fn a_bomb_is_no_request() {
    let mut reader = HeadReader::new(&limits());
    let mut head = RequestHead::default();
    let value = "a".repeat(800);
    let mut bytes = block(&[("a", &value)]);
    bytes[0] = 0x40;
    bytes.extend([0xbe; 3]);
    assert_eq!(reader.read_request(&bytes, &mut head), Ok(Err(Fault::HeadTooLarge)));
    assert!(head.fields.text().len() <= limits().head);
    assert_eq!(reader.skip(&[0xbe; 4]), Ok(()));
    assert_eq!(reader.skip(&[0xbe; 5]), Err(BadBlock::TooMuch));
    assert_eq!(reader.read_request(&[0xbe; 5], &mut head), Err(BadBlock::TooMuch));
    assert_eq!(
        reader.read_trailers(&[0xbe; 5], Excess::Refused, &mut head.fields),
        Err(BadBlock::TooMuch)
    );
    let mut head = ResponseHead::default();
    assert_eq!(
        reader.read_response(&[0xbe; 5], false, Extent::Beginning, &mut head),
        Err(BadBlock::TooMuch)
    );
}

#[test]
fn a_skipped_block_keeps_the_table_in_step() {
    let mut reader = HeadReader::new(&limits());
    reader.skip(b"\x40\x01a\x01b").unwrap();
    let mut fields = Fields::default();
    reader.read_trailers(b"\xbe", Excess::Refused, &mut fields).unwrap().unwrap();
    assert_eq!(fields.named(b"a").next(), Some(b"b".as_slice()));
}

#[test]
fn a_faulty_line_stays_faulty_in_the_table() {
    let mut reader = HeadReader::new(&limits());
    let mut fields = Fields::default();
    let mut read =
        |block: &[u8]| reader.read_trailers(block, Excess::Refused, &mut fields).unwrap();
    assert_eq!(read(b"\x40\x01A\x01b"), Err(Fault::NameUpperCase));
    assert_eq!(read(b"\xbe"), Err(Fault::NameUpperCase));
    assert_eq!(read(b"\x0f\x2f\x01c"), Err(Fault::NameUpperCase));
    assert_eq!(read(b"\x40\x01a\x01\0"), Err(Fault::ValueByte));
    assert_eq!(read(b"\xbe"), Err(Fault::ValueByte));
    assert_eq!(read(b"\x0f\x2f\x01c"), Ok(()));
}

#[test]
fn a_response_is_taken_apart() {
    let read = |lines: Lines<'_>, is_head| {
        let mut head = ResponseHead::default();
        let facts = HeadReader::new(&limits()).read_response(
            &block(lines),
            is_head,
            Extent::Beginning,
            &mut head,
        );
        let ResponseFacts { interim, length, has_no_body } = facts.unwrap().unwrap();
        (head, interim, length, has_no_body)
    };
    let length = ("content-length", "5");
    let (head, interim, declared, bodiless) = read(&[(":status", "200"), length], false);
    assert_eq!((head.status, head.version), (Status::OK, Version::Http2));
    assert_eq!((interim, declared, bodiless), (false, Some(5), false));
    assert_eq!(head.fields.len(), 1);
    let (_, interim, declared, bodiless) = read(&[(":status", "200"), length], true);
    assert_eq!((interim, declared, bodiless), (false, Some(5), true));
    let (_, interim, declared, bodiless) = read(&[(":status", "304"), length], false);
    assert_eq!((interim, declared, bodiless), (false, Some(5), true));
    let (head, interim, declared, bodiless) = read(&[(":status", "204"), length], false);
    assert_eq!((interim, declared, bodiless), (false, None, true));
    assert!(head.fields.is_empty());
    let (_, interim, declared, bodiless) = read(&[(":status", "103"), length], true);
    assert_eq!((interim, declared, bodiless), (true, None, false));
}

#[test]
fn faulty_responses_are_named() {
    let status = (":status", "200");
    let long = "a".repeat(980);
    let cases: Cases<'_> = &[
        ("no status", vec![("a", "b")], Fault::NoStatus),
        ("nothing", vec![], Fault::NoStatus),
        ("a request's", vec![status, (":path", "/")], Fault::PseudoUnknown),
        ("twice", vec![status, status], Fault::PseudoTwice),
        ("late", vec![("a", "b"), status], Fault::PseudoLate),
        ("two digits", vec![(":status", "20")], Fault::Status),
        ("four digits", vec![(":status", "2000")], Fault::Status),
        ("sign", vec![(":status", "+20")], Fault::Status),
        ("99", vec![(":status", "099")], Fault::Status),
        ("600", vec![(":status", "600")], Fault::Status),
        ("101", vec![(":status", "101")], Fault::SwitchingProtocols),
        ("upper case", vec![status, ("Age", "1")], Fault::NameUpperCase),
        ("LF", vec![status, ("a", "\n")], Fault::ValueByte),
        ("upgrade", vec![status, ("upgrade", "a")], Fault::ConnectionField),
        ("length", vec![status, ("content-length", "a")], Fault::ContentLength),
        (
            "lengths",
            vec![status, ("content-length", "1"), ("content-length", "1")],
            Fault::SecondContentLength,
        ),
        ("too many", [vec![status], vec![("a", ""); 9]].concat(), Fault::TooManyFields),
        ("too large", vec![status, ("a", &long)], Fault::HeadTooLarge),
    ];
    for (name, lines, fault) in cases {
        assert_eq!(response(lines).0, Err(*fault), "{name}");
    }
}

#[test]
fn faulty_trailers_are_named() {
    let long = "a".repeat(200);
    let cases: Cases<'_> = &[
        ("pseudo", vec![(":status", "200")], Fault::PseudoInTrailers),
        ("unknown pseudo", vec![(":a", "200")], Fault::PseudoInTrailers),
        ("connection", vec![("connection", "a")], Fault::ConnectionField),
        ("length", vec![("content-length", "1")], Fault::TrailerForbidden),
        ("condition", vec![("if-match", "a")], Fault::TrailerForbidden),
        ("upper case", vec![("A", "a")], Fault::NameUpperCase),
        ("NUL", vec![("a", "\0")], Fault::ValueByte),
        ("too large", vec![("a", &long)], Fault::TrailersTooLarge),
    ];
    for (name, lines, fault) in cases {
        assert_eq!(trailers(lines).0, Err(*fault), "{name}");
    }
    let (outcome, fields) = trailers(&[("grpc-status", "0"), ("x-sum", "")]);
    assert_eq!((outcome, fields.len()), (Ok(()), 2));
}

#[test]
fn every_fault_says_where_it_is_forbidden() {
    for fault in Fault::ALL {
        assert!(fault.as_str().contains("(RFC ") && fault.as_str().contains(" section "));
        assert!(fault.status().class() >= 4, "{fault}");
    }
}

const TO: Destination<'static> = Destination { authority: b"b:81", is_https: true, protocol: None };

fn written_request(head: &RequestHead, to: &Destination<'_>, length: Option<u64>) -> RequestHead {
    let (mut out, mut read) = (Vec::new(), RequestHead::default());
    HeadWriter::default().write_request(&mut out, head, to, length);
    assert_eq!(out[0], 0x20, "the first block says that there is no table");
    let mut reader = HeadReader::new(&Limits::default());
    let facts = reader.read_request(&out, &mut read).unwrap().unwrap();
    assert_eq!(facts.is_https, to.is_https);
    read
}

fn lines_of(fields: &Fields) -> Vec<(Vec<u8>, Vec<u8>)> {
    fields.iter().map(|field| (field.name.to_vec(), field.value.to_vec())).collect()
}

#[test]
fn what_is_of_one_hop_is_not_written() {
    let mut head = RequestHead { method: Method::POST, ..RequestHead::default() };
    head.set_path(b"/a").unwrap();
    head.set_query(Some(b"b")).unwrap();
    for (name, value) in [
        ("Host", "a"),
        ("Connection", "x"),
        ("Keep-Alive", "1"),
        ("Proxy-Connection", "x"),
        ("Transfer-Encoding", "chunked"),
        ("Upgrade", "x"),
        ("TE", "gzip"),
        ("TE", "trailers"),
        ("Content-Length", "77"),
        ("ETag", " \"1\" "),
        ("X-Any", "A"),
    ] {
        head.fields.append_named(name.as_bytes(), value.as_bytes()).unwrap();
    }
    let read = written_request(&head, &TO, Some(1234));
    assert_eq!((read.method, read.authority()), (Method::POST, Some(b"b:81".as_slice())));
    assert_eq!((read.path(), read.query()), (b"/a".as_slice(), Some(b"b".as_slice())));
    let lines = lines_of(&read.fields);
    let lines: Vec<(&[u8], &[u8])> = lines.iter().map(|(a, b)| (&a[..], &b[..])).collect();
    let expected: [(&[u8], &[u8]); 4] =
        [(b"te", b"trailers"), (b"etag", b"\"1\""), (b"x-any", b"A"), (b"content-length", b"1234")];
    assert_eq!(lines, expected);
}

#[test]
fn extended_connect_requests_a_tunnel() {
    let head = RequestHead { method: Method::CONNECT, ..RequestHead::default() };
    let mut out = Vec::new();
    HeadWriter::default().write_request(&mut out, &head, &TO, None);
    let mut read = RequestHead::default();
    let mut reader = HeadReader::new(&limits());
    assert!(reader.read_request(&out, &mut read).unwrap().is_ok());
    assert_eq!(read.target.form, TargetForm::Authority);
    let to = Destination { protocol: Some(b"websocket"), ..TO };
    let read = written_request(&head, &to, None);
    assert_eq!((read.method, read.path()), (Method::CONNECT, b"/".as_slice()));
}

#[test]
fn secrets_are_marked_and_the_known_is_short() {
    let mut head = ResponseHead::default();
    head.fields.append(FieldName::SetCookie, b"a").unwrap();
    let mut writer = HeadWriter::default();
    let mut out = Vec::new();
    writer.write_response(&mut out, &head, Some(0));
    assert_eq!(out, b"\x20\x88\x1f\x28\x01a\x0f\x0d\x010");
    out.clear();
    head.status = Status::NO_CONTENT;
    head.fields.clear();
    writer.write_response(&mut out, &head, Some(0));
    assert_eq!(out, b"\x89");
    out.clear();
    head.status = Status::FORBIDDEN;
    writer.write_response(&mut out, &head, None);
    assert_eq!(out, b"\x08\x03403");
}

proptest! {
    #[test]
    fn requests_come_back_as_written(
        path in "/[!-\"$-~]{0,300}",
        lines in prop::collection::vec(("[a-z0-9-]{1,20}", "([!-~]([ -~]{0,150}[!-~])?)?"), 0..40),
        length in prop::option::of(0..=i64::MAX as u64),
    ) {
        let mut head = RequestHead::default();
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query.as_bytes())),
            None => (path.as_str(), None),
        };
        head.set_path(path.as_bytes()).unwrap();
        head.set_query(query).unwrap();
        for (name, value) in &lines {
            head.fields.append_named(format!("x-{name}").as_bytes(), value.as_bytes()).unwrap();
        }
        let read = written_request(&head, &TO, length);
        prop_assert_eq!((read.path(), read.query()), (path.as_bytes(), query));
        if let Some(length) = length {
            head.fields.append(FieldName::ContentLength, length.to_string().as_bytes()).unwrap();
        }
        let expected: Vec<_> = lines_of(&head.fields)
            .into_iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .collect();
        prop_assert_eq!(lines_of(&read.fields), expected);
    }

    #[test]
    fn responses_come_back_as_written(
        code in (200_u16..600).prop_filter("204 has no length", |&code| code != 204),
        lines in prop::collection::vec(("[A-Za-z0-9-]{1,20}", "([!-~]([ -~]{0,50}[!-~])?)?"), 0..9),
    ) {
        let mut head = ResponseHead::with_status(Status::from_code(code).unwrap());
        for (name, value) in &lines {
            head.fields.append_named(format!("x-{name}").as_bytes(), value.as_bytes()).unwrap();
        }
        let (mut out, mut read) = (Vec::new(), ResponseHead::default());
        HeadWriter::default().write_response(&mut out, &head, None);
        let mut reader = HeadReader::new(&Limits::default());
        prop_assert!(reader.read_response(&out, false, Extent::Beginning, &mut read).unwrap().is_ok());
        prop_assert_eq!((read.status, read.fields.len()), (head.status, lines.len()));
    }

    #[test]
    fn any_bytes_leave_heads_within_their_bounds(
        blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..8),
    ) {
        let limits = limits();
        let mut reader = HeadReader::new(&limits);
        let (mut head, mut response) = (RequestHead::default(), ResponseHead::default());
        for block in blocks {
            let outcomes = [
                reader.read_request(&block, &mut head).is_ok(),
                reader.read_response(&block, false, Extent::Beginning, &mut response).is_ok(),
            ];
            for fields in [&head.fields, &response.fields] {
                prop_assert!(fields.text().len() <= 2 * limits.head);
                prop_assert!(fields.len() <= limits.fields);
            }
            if outcomes != [true; 2] {
                break;
            }
        }
    }
}

#[test]
fn heads_on_a_warm_connection_allocate_nothing() {
    let mut reader = HeadReader::new(&Limits::default());
    let mut writer = HeadWriter::default();
    let (mut head, mut response) = (RequestHead::default(), ResponseHead::default());
    let (mut out, mut count) = (Vec::new(), 0_u32);
    // `custom-value` in Huffman code, added to the table each time.
    let added = b"\x40\x01a\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf";
    let mut exchange = || {
        count += 1;
        let mut block = [0; 64];
        let pseudo = b"\x82\x87\x84\x41\x01a";
        let crumbs = b"\x00\x06cookie\x03a=1\x00\x06cookie\x03b=2";
        let end = pseudo.len() + added.len() + crumbs.len();
        block[..pseudo.len()].copy_from_slice(pseudo);
        block[pseudo.len()..][..added.len()].copy_from_slice(added);
        block[end - crumbs.len()..end].copy_from_slice(crumbs);
        reader.read_request(&block[..end], &mut head).unwrap().unwrap();
        out.clear();
        writer.write_request(&mut out, &head, &TO, None);
        response.clear();
        response.fields.append(FieldName::Server, b"x").unwrap();
        writer.write_response(&mut out, &response, Some(5));
        writer.write_trailers(&mut out, &response.fields);
    };
    (0..1000).for_each(|_| exchange());
    assert_eq!(measure(|| (0..1000).for_each(|_| exchange())).count_total, 0);
    assert_eq!(count, 2000);
}
