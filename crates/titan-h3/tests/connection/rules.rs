//! What a client can do wrong, and the code that it gets for it (RFC 9114, RFC 9204).

use crate::peer::*;
use titan_h3::{Code, Event, Fault, Limits};
use titan_http::{FieldName, Method, RequestHead};

/// A connection is closed with that code.
fn closes(name: &str, code: Code, streams: &[(u64, Vec<u8>, bool)]) {
    let mut tested = Tested::new(Limits::default());
    let mut last = Ok(Vec::new());
    for (stream, input, end) in streams {
        assert!(last.is_ok(), "{name}: {last:?} too early");
        last = match stream % 4 {
            0 => tested.hears(*stream, input, *end),
            _ => tested.hears_uni(*stream, input, *end),
        };
    }
    assert_eq!(last.map_err(|fatal| fatal.code), Err(code), "{name}");
    let after = tested.hears(400, &headers(GET), true);
    assert_eq!(after.map_err(|fatal| fatal.code), Err(code), "{name}: nothing is read any more");
}

#[test]
fn each_rule_of_a_connection_has_its_code() {
    let begun = || (CONTROL, control(), false);
    let with = |frames: &[u8]| (CONTROL, [control(), frames.to_vec()].concat(), false);
    for (name, code, streams) in [
        (
            "no SETTINGS",
            Code::MissingSettings,
            vec![(CONTROL, [vec![0], frame(7, &[0])].concat(), false)],
        ),
        ("SETTINGS twice", Code::FrameUnexpected, vec![with(&frame(4, &[]))]),
        (
            "a setting twice",
            Code::Settings,
            vec![(CONTROL, [vec![0], frame(4, &[6, 1, 6, 1])].concat(), false)],
        ),
        (
            "a setting of HTTP/2",
            Code::Settings,
            vec![(CONTROL, [vec![0], frame(4, &[2, 1])].concat(), false)],
        ),
        ("DATA on the control stream", Code::FrameUnexpected, vec![with(&frame(0, b"d"))]),
        ("a second control stream", Code::StreamCreation, vec![begun(), (14, control(), false)]),
        (
            "a second encoder stream",
            Code::StreamCreation,
            vec![(6, vec![2], false), (10, vec![2], false)],
        ),
        (
            "a second decoder stream",
            Code::StreamCreation,
            vec![(6, vec![3], false), (10, vec![3], false)],
        ),
        ("a push of the client", Code::StreamCreation, vec![(6, vec![1, 0], false)]),
        ("an end of the control stream", Code::ClosedCriticalStream, vec![(CONTROL, vec![], true)]),
        (
            "an end of the encoder stream",
            Code::ClosedCriticalStream,
            vec![(6, vec![2], false), (6, vec![], true)],
        ),
        ("a greater GOAWAY", Code::Id, vec![with(&[frame(7, &[4]), frame(7, &[8])].concat())]),
        ("a lower MAX_PUSH_ID", Code::Id, vec![with(&[frame(13, &[4]), frame(13, &[2])].concat())]),
        ("a priority of no request", Code::Id, vec![with(&frame(0xf_0700, b"\x02u=1"))]),
        ("DATA before the head", Code::FrameUnexpected, vec![(0, frame(0, b"d"), false)]),
        (
            "a frame that is cut",
            Code::Frame,
            vec![(0, [headers(POST), vec![0, 5, b'd']].concat(), true)],
        ),
        ("a head that is cut", Code::Frame, vec![(0, headers(POST)[..9].to_vec(), true)]),
        (
            "a section that cannot be decoded",
            Code::Decompression,
            vec![(0, frame(1, &[0, 0, 0xff]), false)],
        ),
        (
            "an entry that cannot exist",
            Code::Decompression,
            vec![(0, frame(1, &[0, 0, 0x80]), false)],
        ),
        (
            "an instruction without meaning",
            Code::EncoderStream,
            vec![(6, vec![2, 0x3f, 0xff, 0xff, 0x7f], false)],
        ),
        (
            "entries that a section waits for, and that are gone once they come",
            Code::Decompression,
            vec![
                (0, frame(1, &[0x02, 0x00, 0x80]), false),
                (6, [&[2, 0x3f, 0xe1, 0x1f, 0x41, b'a', 0][..], &[0; 200]].concat(), false),
            ],
        ),
        ("an acknowledgement of nothing", Code::DecoderStream, vec![(6, vec![3, 0x81], false)]),
    ] {
        // An end is only one of a stream that has begun.
        let streams = match name {
            "an end of the control stream" => [vec![begun()], streams].concat(),
            _ => streams,
        };
        closes(name, code, &streams);
    }
}

/// A stream is reset with that code, and another one is served.
#[test]
fn each_rule_of_a_message_ends_its_stream_alone() {
    let line = |name: &str, value: &str| headers(&[GET, &[(name, value)]].concat());
    let message = |fault| (Some(fault), Code::Message);
    for (name, input, end, (fault, code)) in [
        ("no method", headers(&GET[1..]), true, message(Fault::NoMethod)),
        ("no path", headers(&GET[..3]), true, message(Fault::NoPath)),
        ("a name in upper case", line("Name", "v"), true, message(Fault::NameUpperCase)),
        (
            "a field of the connection",
            line("connection", "x"),
            true,
            message(Fault::ConnectionField),
        ),
        ("te", line("te", "gzip"), true, message(Fault::Te)),
        ("a pseudo-header twice", line(":path", "/"), true, message(Fault::PseudoTwice)),
        (
            "a pseudo-header of responses",
            line(":status", "200"),
            true,
            message(Fault::PseudoUnknown),
        ),
        (
            "a body that is too short",
            [post("3"), frame(0, b"ab")].concat(),
            true,
            message(Fault::BodyTooShort),
        ),
        (
            "a body that is too long",
            [post("1"), frame(0, b"ab")].concat(),
            false,
            message(Fault::BodyTooLong),
        ),
        ("no body where one is declared", post("1"), true, message(Fault::BodyTooShort)),
        (
            "a pseudo-header in trailers",
            [headers(POST), headers(&[(":path", "/")])].concat(),
            true,
            message(Fault::PseudoInTrailers),
        ),
        (
            "a field that is no trailer",
            [headers(POST), headers(&[("host", "a")])].concat(),
            true,
            message(Fault::TrailerForbidden),
        ),
        ("no head at all", vec![], true, (None, Code::RequestIncomplete)),
        (
            "a frame without a meaning alone",
            frame(0x21, b"x"),
            true,
            (None, Code::RequestIncomplete),
        ),
    ] {
        let mut tested = Tested::begun();
        let events = tested.hears(0, &input, end).unwrap();
        let last = events.last().cloned();
        let expected = fault.map(|fault| Event::Reset { stream: id(0), code, fault: Some(fault) });
        assert_eq!(last, expected, "{name}");
        assert_eq!(tested.sent.reset, [(id(0), code)], "{name}");
        assert!(!tested.connection.is_open(id(0)));
        let next = tested.hears(4, &headers(GET), true).unwrap();
        assert!(matches!(next[..], [Event::Request { .. }]), "{name}: {next:?}");
        tested.responds(4, b"body");
        assert_eq!(tested.sent.finished, [id(4)], "{name}");
    }
}

#[test]
fn a_head_that_is_too_much_gets_a_response() {
    let mut tested = Tested::begun();
    let long = headers(&[GET, &[("a", &"b".repeat(20_000))]].concat());
    let events = tested.hears(0, &[long, frame(0, b"dropped")].concat(), true).unwrap();
    assert_eq!(events, [Event::Refused { stream: id(0), fault: Fault::HeadTooLarge }]);
    tested.responds(0, b"no");
    assert_eq!((&tested.sent.finished[..], tested.connection.open_streams()), (&[id(0)][..], 0));
    let endless = tested.hears(8, &[1, 0x80, 0x10, 0, 0], false).unwrap();
    assert_eq!(endless, [Event::Refused { stream: id(8), fault: Fault::HeadTooLarge }]);
    tested.responds(8, b"no");
    assert_eq!(tested.sent.stopped, [(id(8), Code::NoError)], "the rest is not waited for");
    tested.sent.stopped.clear();
    let trailers = [headers(POST), vec![1, 0x80, 0x10, 0, 0]].concat();
    tested.hears(12, &trailers, false).unwrap();
    assert_eq!(tested.sent.reset, [(id(12), Code::Message)]);
    tested.sent.stopped.clear();
    let target = [("/".to_owned() + &"a".repeat(9000)).as_str()].concat();
    let lines = [&GET[..3], &[(":path", target.as_str())]].concat();
    let events = tested.hears(16, &headers(&lines), false).unwrap();
    assert_eq!(events, [Event::Refused { stream: id(16), fault: Fault::TargetTooLong }]);
    tested.responds(16, b"no");
    tested.connection.reset(id(16), Code::NoError);
    tested.flush();
    assert_eq!(tested.sent.stopped, [(id(16), Code::NoError)], "what is left of it is not wanted");
    assert_eq!(tested.connection.open_streams(), 0);
}

#[test]
fn a_request_is_told_as_it_was_sent() {
    let mut tested = Tested::begun();
    let input = [
        headers(&[POST, &[("cookie", "a=1"), ("cookie", "b=2")]].concat()),
        frame(0, b"one"),
        frame(0x21 + 0x1f * 7, b"grease"),
        frame(0, b"two"),
        headers(&[("checksum", "x")]),
    ];
    let input = input.concat();
    let events = tested.hears(0, &input, false).unwrap();
    let bodies: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Data { data, end: false, .. } => Some(data.len()),
            _ => None,
        })
        .collect();
    assert_eq!(bodies, [3, 3]);
    let mut head = RequestHead::default();
    tested.connection.take_request(&mut head);
    assert_eq!(
        (head.method, head.fields.get(FieldName::Cookie)),
        (Method::POST, Some(&b"a=1; b=2"[..]))
    );
    assert_eq!(tested.hears(0, &[], true).unwrap(), [Event::Trailers { stream: id(0) }]);
    assert_eq!(tested.trailers().named(b"checksum").next(), Some(&b"x"[..]));
    tested.connection.release(id(0), 6);
}

#[test]
fn a_section_waits_for_its_entries() {
    let mut tested = Tested::begun();
    // `:path /` of the static table, and an entry that has not come: Required Insert Count 1, Base 1.
    let mut section = vec![0x02, 0x00, 0xd1, 0xd7, 0xc1];
    integer(&mut section, 0x50, 4, 0);
    integer(&mut section, 0, 7, 6);
    section.extend_from_slice(b"a.test\x80");
    let input = [frame(1, &section), frame(0, b"later")].concat();
    assert_eq!(tested.hears(0, &input, true).unwrap(), []);
    assert!(tested.connection.is_blocked(id(0)));
    let mut instructions = vec![0x02, 0x3f, 0xe1, 0x1f];
    integer(&mut instructions, 0x40, 5, 6);
    instructions.extend_from_slice(b"x-name");
    integer(&mut instructions, 0, 7, 1);
    assert_eq!(tested.hears_uni(ENCODER, &instructions, false).unwrap(), []);
    assert!(tested.connection.is_blocked(id(0)), "the entry has not come whole");
    let rest = [&instructions[4..], b"v"].concat();
    let events = tested.hears_uni(ENCODER, &rest, false).unwrap();
    assert!(matches!(events[..], [Event::Request { .. }]), "{events:?}");
    let mut head = RequestHead::default();
    assert_eq!(tested.connection.take_request(&mut head), section.len());
    assert_eq!(head.fields.named(b"x-name").next(), Some(&b"v"[..]));
    let (count, event) = tested.connection.read(id(0), &input[2 + section.len()..], true).unwrap();
    assert_eq!((count, event), (7, Some(Event::Data { stream: id(0), data: 2..7, end: true })));
    let feedback = &tested.sent.written[&id(7)];
    assert_eq!(feedback[..2], [0x03, 0x80], "the section is acknowledged");
}

#[test]
fn no_more_sections_wait_than_may() {
    let mut tested = Tested::begun();
    let blocked = frame(1, &[0x02, 0x00, 0x80]);
    for number in 0..16 {
        assert_eq!(tested.hears(number * 4, &blocked, true), Ok(vec![]));
    }
    // Given up, it makes room for another, and the encoder learns of it.
    assert!(tested.connection.peer_reset(id(0), Code::RequestCancelled).unwrap().is_some());
    tested.flush();
    assert_eq!(tested.sent.written[&id(7)], [0x03, 0x40]);
    assert_eq!(tested.hears(64, &blocked, true), Ok(vec![]));
    let one_more = tested.hears(68, &blocked, true);
    assert_eq!(one_more.map_err(|fatal| fatal.code), Err(Code::Decompression));
}

#[test]
fn priorities_decide_the_order() {
    let mut tested = Tested::begun();
    let update = |stream: u8, field: &str| frame(0xf_0700, &[&[stream], field.as_bytes()].concat());
    tested.hears_uni(CONTROL, &update(4, "u=0"), false).unwrap();
    tested.hears(0, &headers(GET), true).unwrap();
    tested.hears(4, &headers(&[GET, &[("priority", "u=7")]].concat()), true).unwrap();
    tested.hears(8, &headers(&[GET, &[("priority", "u=3")]].concat()), true).unwrap();
    tested.hears(12, &headers(&[GET, &[("priority", "u=3, i")]].concat()), true).unwrap();
    tested.hears(16, &headers(&[GET, &[("priority", "u=3")]].concat()), true).unwrap();
    tested.hears_uni(CONTROL, &update(12, "u=4, i"), false).unwrap();
    let level = |stream| {
        let levels = tested.sent.levels.iter().rev();
        levels.clone().find(|(known, _)| *known == id(stream)).map_or(0, |(_, level)| *level)
    };
    let mut order = [0, 4, 8, 12, 16];
    order.sort_by_key(|stream| std::cmp::Reverse(level(*stream)));
    assert_eq!(
        order,
        [4, 8, 16, 0, 12],
        "the update that came first counts, and one that says nothing takes turns"
    );
}
