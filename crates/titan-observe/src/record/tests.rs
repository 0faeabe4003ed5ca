//! What is noted is what is read, except for secrets.

use super::*;
use crate::secret::SecretNames;
use proptest::prelude::*;
use titan_io::error::Kind;

/// What readers see of a record.
fn read(record: &ExchangeRecord, look: impl FnOnce(Recorded<'_>)) {
    let mut bytes = b"before".to_vec();
    record.write_to(&mut bytes);
    record.write_to(&mut bytes);
    let (first, rest) = Recorded::first_of(&bytes[6..]).unwrap();
    let (second, end) = Recorded::first_of(rest).unwrap();
    assert!(end.is_empty() && Recorded::first_of(end).is_none());
    assert_eq!(first.facts, second.facts);
    look(second);
}

fn query(target: &str) -> String {
    let mut record = ExchangeRecord::default();
    record.set(Text::Target, target.as_bytes());
    let mut query = Vec::new();
    read(&record, |read| {
        read.write_query(&mut SecretNames::default(), &mut query);
    });
    String::from_utf8(query).unwrap()
}

fn duration() -> impl Strategy<Value = Option<Duration>> {
    prop::option::of((0..u32::MAX - 1).prop_map(|micros| Duration::from_micros(micros.into())))
}

fn facts() -> impl Strategy<Value = Facts> {
    let status = || (0u16..700).prop_map(Status::from_code);
    let address = || prop::option::of(any::<IpAddr>());
    let caches = || prop::option::of(any::<bool>().prop_map(CacheUse::from));
    let words = (
        0usize..3,
        0usize..4,
        0usize..3,
        any::<bool>(),
        0usize..4,
        any::<bool>(),
        caches(),
        caches(),
    );
    let numbers = (any::<u64>(), 0..u64::MAX, any::<u64>(), any::<u64>(), any::<u16>());
    let phases = [duration(), duration(), duration(), duration(), duration(), duration()];
    (words, numbers, phases, status(), status(), address(), address()).prop_map(
        |(words, numbers, phases, status, upstream_status, client, peer)| {
            let (event, version, tls, is_https, side, is_complete, token_cache, auth_cache) = words;
            let (started, took, request_bytes, response_bytes, attempts) = numbers;
            let [head, policies, queue, connect, tls_phase, upstream_head] = phases;
            Facts {
                event: [Event::Request, Event::TunnelOpened, Event::TunnelClosed][event],
                started,
                took: Duration::from_micros(took),
                phases: Phases { head, policies, queue, connect, tls: tls_phase, upstream_head },
                request_bytes,
                response_bytes,
                status,
                upstream_status,
                attempts,
                caused_by: [
                    None,
                    Some(Side::Downstream),
                    Some(Side::Upstream),
                    Some(Side::Gateway),
                ][side],
                token_cache,
                auth_cache,
                is_complete,
                version: [Version::Http10, Version::Http11, Version::Http2, Version::Http3]
                    [version],
                tls: [None, Some(TlsVersion::Tls12), Some(TlsVersion::Tls13)][tls],
                scheme: if is_https { Scheme::Https } else { Scheme::Http },
                client,
                peer,
            }
        },
    )
}

proptest! {
    #[test]
    fn what_is_noted_is_what_is_read(
        facts in facts(),
        texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 4),
    ) {
        let mut record = ExchangeRecord { facts, ..ExchangeRecord::default() };
        record.set(Text::Route, b"another one before");
        record.set(Text::Route, &texts[0]);
        record.set(Text::Upstream, &texts[1]);
        record.capture(CaptureKind::RequestHeader, b"X-Tenant", [&texts[2][..]]);
        record.capture(CaptureKind::Claim, b"sub", [&texts[3][..]]);
        read(&record, |read| {
            assert_eq!(read.facts, facts);
            assert_eq!((read.text(Text::Route), read.text(Text::Upstream)), (&texts[0][..], &texts[1][..]));
            assert_eq!(read.text(Text::Method), b"");
            let captured: Vec<_> = read.captured(&mut SecretNames::default()).collect();
            assert_eq!(captured[0], CapturedValue { kind: CaptureKind::RequestHeader, name: b"X-Tenant", value: &texts[2] });
            assert_eq!(captured[1], CapturedValue { kind: CaptureKind::Claim, name: b"sub", value: &texts[3] });
            assert_eq!(captured.len(), 2);
        });
    }

    #[test]
    fn bytes_that_are_no_record_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut rest = &bytes[..];
        while let Some((record, after)) = Recorded::first_of(rest) {
            record.captured(&mut SecretNames::default()).for_each(drop);
            prop_assert!(after.len() < rest.len());
            rest = after;
        }
    }

    /// Wherever it is put, and however it is escaped.
    #[test]
    fn no_secret_gets_out(
        name in prop::sample::select(vec![
            "token", "access_token", "api_key", "apiKey", "password", "X-Signature", "sid", "client_secret", "jwt",
        ]),
        before in "[a-z=&%]{0,12}",
        escaped in prop::collection::vec(any::<bool>(), 24),
        nested in any::<bool>(),
    ) {
        const SECRET: &str = "s3cr3tV4lu3";
        let escape = |text: &str| -> String {
            let escaped = text.bytes().zip(escaped.iter().cycle());
            escaped.map(|(byte, is_escaped)| if *is_escaped { format!("%{byte:02X}") } else { char::from(byte).to_string() }).collect()
        };
        let pair = format!("{name}={SECRET}");
        let target = match nested {
            // The ampersand keeps the pair apart from what is before it.
            false => format!("/a?{before}&{}={SECRET}", escape(name)),
            true => format!("/a?{before}&next=https:%2F%2Fx%2F%3Fa%3Db%26{}", escape(&pair)),
        };
        prop_assert!(!query(&target).contains(SECRET), "{target} {}", query(&target));
        let mut record = ExchangeRecord::default();
        record.set(Text::Referer, format!("https://user:{SECRET}@a/b?{pair}").as_bytes());
        record.capture(CaptureKind::RequestHeader, name.as_bytes(), [SECRET.as_bytes()]);
        record.capture(CaptureKind::ResponseHeader, b"Set-Cookie", [SECRET.as_bytes()]);
        record.capture(CaptureKind::RequestHeader, b"Authorization", [SECRET.as_bytes()]);
        record.capture(CaptureKind::RequestHeader, b"cookie", [SECRET.as_bytes()]);
        record.capture(CaptureKind::RequestHeader, b"Referer", [target.as_bytes()]);
        record.capture(CaptureKind::ResponseHeader, b"Location", [format!("//a/b#{pair}").as_bytes()]);
        read(&record, |read| {
            assert_eq!(read.text(Text::Referer), b"a/b");
            assert!(read.captured(&mut SecretNames::default()).all(|it| it.value == b"***"));
        });
    }
}

#[test]
fn only_what_is_secret_is_masked_in_a_query() {
    assert_eq!(query("/a?page=2&token=abc&q=x"), "page=2&token=***&q=x");
    assert_eq!(query("/a?q=1%2B1%3D2&%74oken=abc"), "q=1%2B1%3D2&%74oken=***");
    assert_eq!(query("/a?token&token=&=x"), "token&token=&=x");
    assert_eq!(query("/a?token%3Dabc&a"), "***&a");
    assert_eq!(query("/a?q=100%&r=5%25"), "q=100%&r=5%25");
    assert_eq!(query("/a?eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"), "***");
    assert_eq!(
        query("/a?code=abc&SAMLResponse=abc&zip_code=1"),
        "code=***&SAMLResponse=***&zip_code=1"
    );
    assert_eq!(query("/a?next=/b%3Ftoken%3Dabc"), "next=***");
    assert_eq!(query("/a?q=a%25252525252525253Db"), "q=***", "deeper than anybody means well");
    assert_eq!(query("/a?"), "");
    assert_eq!(query("/a"), "");
}

#[test]
fn of_the_page_of_a_request_only_host_and_path_are_told() {
    let told = |url: &str| {
        let mut record = ExchangeRecord::default();
        record.set(Text::Referer, url.as_bytes());
        let mut told = Vec::new();
        read(&record, |read| told = read.text(Text::Referer).to_vec());
        String::from_utf8(told).unwrap()
    };
    assert_eq!(told("https://a.example/b?sid=1#x"), "https://a.example/b");
    assert_eq!(told("https://user:secret@a.example/b"), "a.example/b");
    assert_eq!(told("//user:secret@a.example/b#access_token=abc"), "a.example/b");
    assert_eq!(told("https://a.example/b@c"), "https://a.example/b@c");
}

#[test]
fn hostile_lengths_are_bounded_and_take_no_time() {
    let mut record = ExchangeRecord::default();
    for _ in 0..300 {
        record.set(Text::Target, format!("/?q={}", "%25".repeat(60_000)).as_bytes());
        record.capture(CaptureKind::RequestHeader, &[b'x'; 70_000], [&[b'y'; 70_000][..]]);
    }
    record.set(Text::Route, b"the route");
    read(&record, |read| assert_eq!(read.text(Text::Route), b"the route"));
    let mut bytes = Vec::new();
    record.write_to(&mut bytes);
    assert!(bytes.len() < MAX_TEXTS + 2048, "{}", bytes.len());
    assert!(record.capacity() < 4 * MAX_TEXTS, "{}", record.capacity());
    read(&record, |read| {
        read.write_query(&mut SecretNames::default(), &mut Vec::new());
    });
}

#[test]
fn a_failure_has_its_code_and_side() {
    let mut record = ExchangeRecord::default();
    record.fail(Kind::Connect.into());
    read(&record, |read| {
        assert_eq!(read.text(Text::Error), b"connect");
        assert_eq!(read.facts.caused_by, Some(Side::Upstream));
    });
    record.clear();
    read(&record, |read| assert_eq!(read.text(Text::Error), b""));
}

#[test]
fn several_values_are_one_list_and_a_target_is_one_text() {
    let mut record = ExchangeRecord::default();
    record.capture(CaptureKind::RequestHeader, b"A", [&b"1"[..], b"2", b""]);
    record.capture(CaptureKind::RequestHeader, b"B", []);
    record.set_target(b"/a", Some(b""));
    assert_eq!(record.text(Text::Target), b"/a?");
    record.set_target(b"/a", None);
    assert_eq!(record.text(Text::Target), b"/a");
    read(&record, |read| {
        let captured: Vec<_> = read.captured(&mut SecretNames::default()).collect();
        assert_eq!((captured.len(), captured[0].value), (1, &b"1, 2, "[..]));
    });
}
