//! Values of fields that are read wherever they are needed: codings, media ranges, cookies, authorities, lengths, priorities.

use titan_h3::{MAX_PRIORITY, Priority};
use titan_http::coding::{Accepted, Choice, Coding};
use titan_http::media_range::Welcome;
use titan_http::{Authority, FieldName, Fields, MAX_LENGTH, cookie, host_of, parse_length};

/// What stands between lines.
pub const NEXT_LINE: u8 = b'\n';
const CODINGS: [Coding; 3] = [Coding::Gzip, Coding::Brotli, Coding::Zstd];

/// Each value says what it says by itself: what is added counts as it must, and what is written anew is the same.
pub fn values(input: &[u8]) {
    let lines: Vec<&[u8]> = input.split(|byte| *byte == NEXT_LINE).collect();
    codings(&lines);
    media_ranges(&lines);
    cookies(&lines);
    lines.iter().for_each(|line| of_one_line(line));
}

/// The lines as fields of one name, but for what no field may hold.
fn fields<'l>(name: FieldName, lines: impl IntoIterator<Item = &'l &'l [u8]>) -> Fields {
    let mut fields = Fields::default();
    for line in lines {
        let _ = fields.append(name, line);
    }
    fields
}

fn codings(lines: &[&[u8]]) {
    let choose = |fields: &Fields, order: &[Coding]| Accepted::of(fields).choose(order);
    let asked = fields(FieldName::AcceptEncoding, lines);
    let Choice { coding, insists } = choose(&asked, &CODINGS);
    assert!(coding.is_some() || !insists);
    if let Some(coding) = coding {
        assert_eq!(choose(&asked, &[coding]), Choice { coding: Some(coding), insists });
    }
    for refused in CODINGS {
        let mut asked = asked.clone();
        let line = format!("{};q=0", refused.name());
        asked.append(FieldName::AcceptEncoding, line.as_bytes()).expect("there is room");
        assert_ne!(choose(&asked, &CODINGS).coding, Some(refused));
        assert_eq!(choose(&asked, &[refused]), Choice::default());
    }
}

fn media_ranges(lines: &[&[u8]]) {
    let welcome = |fields: &Fields| Welcome::of(fields, "text/html", &[("version", "1")]);
    let asked = welcome(&fields(FieldName::Accept, lines));
    assert!(asked.weight <= 1000);
    assert_eq!(welcome(&fields(FieldName::Accept, lines.iter().rev())), asked);
    assert_eq!(welcome(&fields(FieldName::Accept, lines.iter().chain(lines))), asked);
}

fn cookies(lines: &[&[u8]]) {
    let fields = fields(FieldName::Cookie, lines);
    for name in ["a", "session", ""] {
        let values: Vec<_> = cookie::values(&fields, name).collect();
        assert_eq!(cookie::first(&fields, name), values.first().copied());
        assert!(values.iter().all(|value| !value.contains(&b';')));
        let pairs: usize =
            fields.all(FieldName::Cookie).map(|line| line.split(|it| *it == b';').count()).sum();
        assert!(values.len() <= pairs);
    }
}

fn of_one_line(line: &[u8]) {
    if let Ok(Authority { host, port }) = Authority::parse(line) {
        assert_eq!(host_of(line), host);
        let written = port.map(|port| format!(":{port}")).unwrap_or_default();
        let written = [host, written.as_bytes()].concat();
        assert_eq!(Authority::parse(&written), Ok(Authority { host, port }));
        assert!(!host.is_empty() && host.iter().all(|byte| !b"@/?#,\\ ".contains(byte)));
    }
    let digits =
        std::str::from_utf8(line).ok().filter(|it| it.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.filter(|it| it.len() <= 19).and_then(|it| it.parse::<u64>().ok());
    assert_eq!(parse_length(line), number.filter(|number| *number <= MAX_LENGTH));

    let told = Priority::told(line);
    assert!(told.urgency <= 7);
    let more = [line, b", u=5, i"].concat();
    if more.len() > MAX_PRIORITY {
        assert_eq!(Priority::told(&more), Priority::default());
    } else if !line.contains(&b'"') {
        assert_eq!(Priority::told(&more), Priority { urgency: 5, incremental: true });
    }
}
