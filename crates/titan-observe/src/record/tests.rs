//! What is noted is what is read, except for secrets.

mod challenges;
mod facts;

use super::lasting::{self, LASTING_HEADS};
use super::*;
use crate::secret::{JudgedName, SecretNames};
use facts::{duration, facts, noted};
use proptest::prelude::*;
use titan_http::{FieldName, Fields, Method, RequestHead, Target, TargetForm};
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

fn chosen(endpoint: &str) -> Chosen<'_> {
    Chosen { upstream: "api", endpoint, balance: "random", choices: 3 }
}

fn fields(lines: &[(&[u8], &[u8])]) -> Fields {
    let mut fields = Fields::default();
    for (name, value) in lines {
        fields.push_checked(FieldName::of(name), name, value).expect("it is short");
    }
    fields
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

/// What no value becomes a secret by: a URL with a user is one.
fn harmless() -> impl Strategy<Value = u8> {
    any::<u8>().prop_map(|byte| if b"@=%".contains(&byte) { b'a' } else { byte })
}

/// A head as a parser leaves it, with a path and a query that stand in it one behind the other, and fields with much text.
fn request(path: &str, query: Option<&str>, host: &str, more: usize) -> RequestHead {
    let mut head = RequestHead::default();
    let mut push = |text: &str| head.fields.push_text(text.as_bytes()).expect("it is short");
    push("BREW ");
    head.target.path = push(path);
    head.target.query = query.map(|query| {
        push("?");
        push(query)
    });
    push(" HTTP/1.1\r\n");
    head.method = Method::parse(b"BREW").expect("it is a token");
    for (name, value) in [("Host", host), ("X-Long", &"x".repeat(more)), ("X-Last", "1")] {
        head.fields.append_named(name.as_bytes(), value.as_bytes()).expect("it is short");
    }
    head
}

/// Method, host, path and query of the request that a record tells of, and its first and last field.
fn told(record: &ExchangeRecord) -> String {
    let (mut told, mut query) = (String::new(), Vec::new());
    read(record, |read| {
        let mut secrets = SecretNames::default();
        let has_query = read.write_query(&mut secrets, &mut query);
        let mut texts = vec![read.text(Text::Method), read.text(Text::Host), read.path()];
        texts.extend(has_query.then_some(&query[..]));
        let values = read.values(CaptureKind::RequestHeader, &mut secrets).map(|it| it.value);
        let values: Vec<_> = values.filter(|value| value.len() < 100).collect();
        texts.extend(values);
        told = texts.iter().map(|text| String::from_utf8_lossy(text)).collect::<Vec<_>>().join(" ");
    });
    told
}

#[test]
fn what_stands_in_the_head_of_a_request_is_told_and_not_copied_twice() {
    for (query, shown) in [(None, "/a"), (Some("b=c"), "/a b=c"), (Some(""), "/a ")] {
        for more in [0, 11 << 10, 13 << 10, 30 << 10] {
            let (head, mut record) =
                (request("/a", query, "host:1", more), ExchangeRecord::default());
            record.set(Text::Listener, b"before");
            record.set_request(&head);
            let empty = if more == 0 { " " } else { "" };
            assert_eq!(told(&record), format!("BREW host:1 {shown} host:1{empty} 1"), "{more}");
        }
    }
    let (head, mut record) = (request("/a", Some("b=c"), "host:1", 100), ExchangeRecord::default());
    record.set_request(&head);
    assert_eq!(record.arena.len(), head.fields.text().len());
}

#[test]
fn what_a_request_asks_for_need_not_stand_in_its_head_in_one_piece() {
    let mut head = request("/a", Some("b=c"), "host:1", 100);
    head.set_path(b"/new").unwrap();
    let mut record = ExchangeRecord::default();
    record.set_request(&head);
    assert_eq!(told(&record), "BREW host:1 /new b=c host:1 1");
    head.set_query(Some(b"d=e")).unwrap();
    record.set_request(&head);
    assert_eq!(told(&record), "BREW host:1 /new d=e host:1 1");
    head.target = Target { form: TargetForm::Asterisk, ..Target::default() };
    head.target.authority = head.fields.push_text(b"other").unwrap();
    record.set_request(&head);
    assert_eq!(told(&record), "BREW other * host:1 1");
}

proptest! {
    #[test]
    fn what_is_noted_is_what_is_read(
        facts in facts(),
        texts in prop::collection::vec(prop::collection::vec(harmless(), 0..40), 4),
    ) {
        let mut record = ExchangeRecord::default();
        record.set(Text::Route, b"another one before");
        record.set(Text::Route, &texts[0]);
        record.set(Text::Host, &texts[1]);
        record.set_request_head(&fields(&[(b"X-Tenant", &texts[2])]));
        record.set_response_head(&fields(&[(b"X-Before", b"gone")]));
        record.set_response_head(&fields(&[(b"X-Way", &texts[1]), (b"x-way", b"2")]));
        record.add_claim(b"sub", &texts[3]);
        record.add_passed("limit");
        record.facts = noted(&facts);
        record.trace = facts.trace;
        read(&record, |read| {
            assert_eq!(read.facts, facts);
            assert_eq!((read.text(Text::Route), read.text(Text::Host)), (&texts[0][..], &texts[1][..]));
            assert_eq!(read.text(Text::Method), b"");
            let values = |kind| read.values(kind, &mut SecretNames::default()).map(|it| (it.name, it.value)).collect::<Vec<_>>();
            assert_eq!(values(CaptureKind::RequestHeader), [(&b"X-Tenant"[..], &texts[2][..])]);
            assert_eq!(values(CaptureKind::ResponseHeader), [(&b"X-Way"[..], &texts[1][..]), (b"x-way", b"2")]);
            assert_eq!(values(CaptureKind::Claim), [(&b"sub"[..], &texts[3][..])]);
            assert_eq!(read.passed().collect::<Vec<_>>(), [b"limit"]);
            assert!(read.attempts().next().is_none() && read.last_attempt().is_none());
        });
    }

    #[test]
    fn attempts_are_read_as_they_were_noted(
        statuses in prop::collection::vec((0u16..700).prop_map(Status::from_code), 1..16),
        times in prop::collection::vec(duration(), 5),
    ) {
        let mut record = ExchangeRecord::default();
        for (place, status) in statuses.iter().enumerate() {
            let endpoint = format!("10.0.0.{place}:80");
            record.begin_attempt(place == 1, times[0].unwrap_or_default(), chosen(&endpoint));
            let attempt = record.attempt_at(&endpoint).unwrap();
            attempt.set_status(*status);
            attempt.set_reused(place == 2);
            attempt.set_connect(times[1]);
            attempt.set_tls(times[2]);
            attempt.set_head(times[3]);
            attempt.set_caused_by(Some(Side::Upstream));
        }
        for place in 0..statuses.len() {
            record.attempt_at(&format!("10.0.0.{place}:80")).unwrap().set_took(times[4]);
        }
        read(&record, |read| {
            let attempts: Vec<_> = read.attempts().collect();
            assert_eq!(read.facts.attempts as usize, statuses.len());
            for (place, (attempt, status)) in attempts.iter().zip(&statuses).enumerate() {
                let kind = [AttemptKind::First, AttemptKind::Hedge, AttemptKind::Retry][place.min(2)];
                let endpoint = format!("10.0.0.{place}:80");
                assert_eq!(*attempt, Attempted {
                    kind,
                    number: u16::try_from(place).unwrap(),
                    is_reused: place == 2,
                    began: times[0].unwrap_or_default(),
                    took: times[4],
                    connect: times[1],
                    tls: times[2],
                    head: times[3],
                    status: *status,
                    caused_by: Some(Side::Upstream),
                    error: &b""[..],
                    upstream: b"api",
                    endpoint: endpoint.as_bytes(),
                    balance: b"random",
                    choices: 3,
                });
            }
            assert_eq!(read.last_attempt(), attempts.last().copied());
        });
    }

    #[test]
    fn bytes_that_are_no_record_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut rest = &bytes[..];
        while let Some((record, after)) = Recorded::first_of(rest) {
            for kind in [CaptureKind::RequestHeader, CaptureKind::ResponseHeader, CaptureKind::Claim] {
                record.values(kind, &mut SecretNames::default()).for_each(drop);
            }
            let lists = (record.attempts().count(), record.passed().count());
            prop_assert!(lists.0 < 600 && lists.1 < 600 && record.last_attempt().is_some() == (lists.0 > 0));
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
        record.set_request_head(&fields(&[
            (name.as_bytes(), SECRET.as_bytes()),
            (b"Authorization", SECRET.as_bytes()),
            (b"cookie", SECRET.as_bytes()),
            (b"Referer", format!("https://user:{SECRET}@a/b?{pair}").as_bytes()),
            (b"X-Original-URL", target.as_bytes()),
            (b"Origin", format!("https://user:{SECRET}@a").as_bytes()),
        ]));
        record.set_response_head(&fields(&[
            (b"Set-Cookie", SECRET.as_bytes()),
            (b"Authentication-Info", SECRET.as_bytes()),
            (b"WWW-Authenticate", format!("Bearer uri=\"https://a{target}\"").as_bytes()),
            (b"Location", format!("//a/b#{pair}").as_bytes()),
        ]));
        record.add_claim(name.as_bytes(), SECRET.as_bytes());
        read(&record, |read| {
            assert_eq!(read.referer(), b"a/b");
            let mut secrets = SecretNames::default();
            for kind in [CaptureKind::RequestHeader, CaptureKind::ResponseHeader, CaptureKind::Claim] {
                for Masked { name, value } in read.values(kind, &mut SecretNames::default()) {
                    assert_eq!(value, b"***");
                    let name = JudgedName::new(std::str::from_utf8(name).unwrap());
                    let mut out = b"x".to_vec();
                    assert!(read.write_value(kind, &name, &mut secrets, &mut out));
                    assert_eq!(out, b"x***");
                }
            }
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
        record.set_request_head(&fields(&[(b"referer", url.as_bytes())]));
        let mut told = Vec::new();
        read(&record, |read| told = read.referer().to_vec());
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
        record.set_response_head(&fields(&[(&[b'x'; 70_000], &[b'y'; 70_000])]));
        record.add_claim(&[b'x'; 70_000], &[b'y'; 70_000]);
        record.add_passed(&"z".repeat(70));
    }
    record.set_response_head(&fields(&[(&b"x"[..], &b"y"[..]); 3_000]));
    record.set(Text::Route, b"the route");
    read(&record, |read| assert_eq!(read.text(Text::Route), b"the route"));
    let mut bytes = Vec::new();
    record.write_to(&mut bytes);
    assert!(bytes.len() < MAX_TEXTS + 8192, "{}", bytes.len());
    assert!(record.capacity() < 4 * MAX_TEXTS, "{}", record.capacity());
    read(&record, |read| {
        read.write_query(&mut SecretNames::default(), &mut Vec::new());
    });
}

#[test]
fn a_phase_beyond_an_hour_is_told_as_the_longest_there_is() {
    let mut record = ExchangeRecord::default();
    record.facts.set_queue(Some(Duration::MAX));
    record.begin_attempt(false, Duration::from_secs(7_200), chosen("a:80"));
    let attempt = record.attempt_at("a:80").unwrap();
    attempt.note_head(Duration::from_secs(7_201), Status::OK);
    read(&record, |read| {
        let longest = Duration::from_micros(u64::from(u32::MAX) - 1);
        assert_eq!(read.facts.phases.queue, Some(longest));
        let attempt = read.last_attempt().unwrap();
        assert_eq!(attempt.began, Duration::from_secs(7_200));
        assert_eq!(attempt.head, Some(Duration::from_secs(1)));
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
    record.set_request_head(&fields(&[(b"A", b"1"), (b"B", b"0"), (b"a", b"2"), (b"A", b"")]));
    record.set_target(b"/a", Some(b""));
    assert_eq!(record.text(Text::Target), b"/a?");
    record.set_target(b"/a", None);
    assert_eq!(record.text(Text::Target), b"/a");
    read(&record, |read| {
        let (mut out, mut secrets) = (Vec::new(), SecretNames::default());
        let mut write = |name: &str| {
            let name = JudgedName::new(name);
            read.write_value(CaptureKind::RequestHeader, &name, &mut secrets, &mut out)
        };
        assert!(write("a") && !write("c"));
        assert_eq!(out, b"1, 2, ");
    });
}

#[test]
fn of_two_attempts_beside_each_other_the_one_that_decides_is_the_last() {
    let mut record = ExchangeRecord::default();
    record.begin_attempt(false, Duration::ZERO, chosen("10.0.0.1:80"));
    record.begin_attempt(true, Duration::from_micros(5), chosen("10.0.0.2:80"));
    record.decide_by("10.0.0.1:80");
    record.end_attempt("10.0.0.2:80", Duration::from_micros(9), Some(Kind::Connect.into()));
    read(&record, |read| {
        assert_eq!(read.last_attempt().unwrap().endpoint, b"10.0.0.1:80");
        let other = read.attempts().next().unwrap();
        assert_eq!((other.kind, other.error), (AttemptKind::Hedge, &b"connect"[..]));
        assert_eq!(other.took, Some(Duration::from_micros(4)));
        assert_eq!(other.caused_by, Some(Side::Upstream));
    });
}

#[test]
fn a_long_head_is_kept_as_far_as_there_is_room() {
    let mut record = ExchangeRecord::default();
    let long = [b'y'; 20_000];
    record.set_request_head(&fields(&[(b"A", b"1"), (b"B", &long), (b"C", &long)]));
    record.set_response_head(&fields(&[
        (b"D", &long),
        (b"E", &long),
        (b"F", &long),
        (b"G", &long),
    ]));
    read(&record, |read| {
        let lengths = |kind| {
            let mut secrets = SecretNames::default();
            let values = read.values(kind, &mut secrets);
            values.map(|it| (it.name[0], it.value.len())).collect::<Vec<_>>()
        };
        assert_eq!(
            lengths(CaptureKind::RequestHeader),
            [(b'A', 1), (b'B', MAX_TEXT), (b'C', MAX_TEXT)]
        );
        let response = lengths(CaptureKind::ResponseHeader);
        assert_eq!(response[0], (b'D', MAX_TEXT));
        assert!(response[1].1 < MAX_TEXT && response.len() == 2, "{response:?}");
        let Facts { request_cut, response_cut, .. } = read.facts;
        assert_eq!(request_cut, HeadCut { missing: 0, shortened: 2 });
        assert_eq!(response_cut, HeadCut { missing: 2, shortened: 2 });
    });
    record.add_claim(b"sub", b"alice");
    read(&record, |read| {
        let mut secrets = SecretNames::default();
        assert_eq!(read.values(CaptureKind::Claim, &mut secrets).next().unwrap().value, b"alice");
    });
}

#[test]
fn it_is_known_how_many_fields_are_not_kept() {
    let mut record = ExchangeRecord::default();
    let mut cut = |fields: Fields| {
        record.set_response_head(&fields);
        record.facts.response_cut()
    };
    let lines = |count: usize, value: &[u8]| fields(&vec![(&b"A"[..], value); count]);
    assert_eq!(cut(lines(256, b"1")), HeadCut::default());
    assert_eq!(cut(lines(300, b"1")), HeadCut { missing: 44, shortened: 0 });
    assert_eq!(
        cut(lines(300, &[b'x'; 50])),
        HeadCut { missing: 44, shortened: 0 },
        "field by field"
    );
    assert_eq!(cut(lines(70_000, b"1")), HeadCut { missing: u16::MAX, shortened: 0 });
    assert_eq!(cut(lines(1, b"1")), HeadCut::default(), "of the one that went out");
}

#[test]
fn a_record_that_lasts_keeps_what_is_short() {
    let mut record = ExchangeRecord::default();
    let long = [b'y'; 5_000];
    record.set(Text::Host, b"before.example");
    record.set(Text::Host, b"shop.example");
    record.set(Text::Route, b"chat");
    record.set_request_head(&fields(&[(b"A", b"1"), (b"Cookie", &long), (b"user-agent", b"me")]));
    record.begin_attempt(false, Duration::ZERO, chosen("10.0.0.1:80"));
    record.set_response_head(&fields(&[(b"Before", &long), (b"D", &long)]));
    record.set_response_head(&fields(&[
        (b"E", b"2"),
        (b"F", &[b'z'; 3_000]),
        (b"G", &[b'z'; 3_000]),
        (b"H", &[b'z'; 9_000]),
    ]));
    record.add_claim(b"sub", b"alice");
    record.add_passed("limit");
    record.settle();
    assert!(record.capacity() < 4_096, "{}", record.capacity());
    record.fail(Kind::Connect.into());
    read(&record, |read| {
        let mut secrets = SecretNames::default();
        let mut names = |kind| {
            read.values(kind, &mut secrets).map(|it| (it.name, it.value.len())).collect::<Vec<_>>()
        };
        assert_eq!(names(CaptureKind::RequestHeader), [(&b"A"[..], 1), (b"user-agent", 2)]);
        assert_eq!(names(CaptureKind::ResponseHeader), [(&b"E"[..], 1), (b"F", 3_000)]);
        assert_eq!(names(CaptureKind::Claim), [(&b"sub"[..], 5)]);
        let Facts { request_cut, response_cut, .. } = read.facts;
        assert_eq!(request_cut, HeadCut { missing: 1, shortened: 0 });
        assert_eq!(response_cut, HeadCut { missing: 2, shortened: 0 }, "none that is left is cut");
        assert_eq!(read.user_agent(), b"me");
        assert_eq!(
            (read.text(Text::Host), read.text(Text::Route)),
            (&b"shop.example"[..], &b"chat"[..])
        );
        assert_eq!(read.last_attempt().unwrap().endpoint, b"10.0.0.1:80");
        assert_eq!(
            (read.passed().next(), read.text(Text::Error)),
            (Some(&b"limit"[..]), &b"connect"[..])
        );
    });
}

#[test]
fn of_fields_of_one_length_as_many_last_as_leave_room_for_shorter_ones() {
    let (mut record, long) = (ExchangeRecord::default(), [b'y'; 1_000]);
    let [a, b, c, d] = [b"A", b"B", b"C", b"D"].map(|name| (&name[..], &long[..]));
    record.set_request_head(&fields(&[a, b, c, d, (b"User-Agent", &[b'u'; 50]), (b"E", b"1")]));
    record.settle();
    read(&record, |read| {
        let mut secrets = SecretNames::default();
        let names: Vec<_> = read.values(CaptureKind::RequestHeader, &mut secrets).collect();
        let names: Vec<_> = names.iter().map(|field| field.name).collect();
        assert_eq!(names, [&b"A"[..], b"B", b"C", b"User-Agent", b"E"]);
    });
}

proptest! {
    /// However long the heads are, and in whatever order.
    #[test]
    fn a_record_that_lasts_is_small(
        lengths in prop::collection::vec(prop_oneof![0..200usize, 0..9_000usize], 0..300),
        at in 0..300usize,
    ) {
        let values: Vec<_> = lengths.iter().map(|length| vec![b'v'; *length]).collect();
        let lines: Vec<_> = values.iter().map(|value| (&b"A"[..], &value[..])).collect();
        let (request, response) = lines.split_at(at.min(lines.len()));
        let mut record = ExchangeRecord::default();
        record.set_request_head(&fields(request));
        record.set_response_head(&fields(response));
        let counts = |record: &ExchangeRecord| {
            let (requested, all) = (usize::from(record.request_lines), record.lines.len());
            let (request_cut, response_cut) = (record.facts.request_cut(), record.facts.response_cut());
            let missing = [request_cut, response_cut].map(|it| usize::from(it.missing));
            [requested + missing[0], all - requested + missing[1]]
        };
        let sizes = |record: &ExchangeRecord| {
            let mut sizes: Vec<_> = record.lines.iter().map(lasting::size).collect();
            sizes.sort_unstable();
            sizes
        };
        let (known, all) = (counts(&record), sizes(&record));
        record.settle();
        prop_assert!(record.capacity() <= LASTING_HEADS);
        prop_assert_eq!(counts(&record), known);
        // The shortest are kept, and as many of them as there is room for.
        let kept = sizes(&record);
        prop_assert_eq!(&kept, &all[..kept.len()]);
        let next = all.get(kept.len());
        prop_assert!(next.is_none_or(|next| kept.iter().sum::<usize>() + next > LASTING_HEADS));
    }
}
