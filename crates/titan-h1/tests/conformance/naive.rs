//! The oracle: a parser that takes one byte after the other by the letter of the rules, slow and
//! obvious. It shares no code with the engine, not even the byte classes.

use crate::drive::{Lines, Message, Setting};
use std::net::Ipv6Addr;
use titan_http::Method;

/// Why there is no message: a status (of no meaning for responses), or that bytes are missing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Reject(u16),
    Incomplete,
}

type Parsed<T> = Result<T, Stop>;

/// The first message of `input`.
pub(crate) fn parse(setting: Setting, input: &[u8], close: bool) -> Parsed<Message> {
    let mut bytes = Bytes { rest: input, left: usize::MAX, overrun: 0 };
    let mut message = Message::default();
    match setting.response_to {
        None => request(&mut bytes, setting, &mut message)?,
        Some(method) => response(&mut bytes, setting, method, close, &mut message)?,
    }
    message.rest = bytes.rest.to_vec();
    Ok(message)
}

/// What is left of the input, and how much of it the section being read may take.
struct Bytes<'a> {
    rest: &'a [u8],
    left: usize,
    overrun: u16,
}

impl Bytes<'_> {
    fn next(&mut self) -> Parsed<u8> {
        let Some((&first, rest)) = self.rest.split_first() else { return Err(Stop::Incomplete) };
        if self.left == 0 {
            return Err(Stop::Reject(self.overrun));
        }
        self.left -= 1;
        self.rest = rest;
        Ok(first)
    }

    fn limit(&mut self, left: usize, overrun: u16) {
        (self.left, self.overrun) = (left, overrun);
    }

    fn exactly(&mut self, wanted: &[u8]) -> Parsed<()> {
        wanted.iter().try_for_each(|&byte| require(self.next()? == byte))
    }
}

fn require(condition: bool) -> Parsed<()> {
    if condition { Ok(()) } else { Err(Stop::Reject(400)) }
}

fn is_token(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z')
        || "!#$%&'*+-.^_`|~".contains(char::from(byte))
}

fn is_text(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn request(bytes: &mut Bytes<'_>, setting: Setting, message: &mut Message) -> Parsed<()> {
    if bytes.rest.starts_with(b"\r") {
        bytes.exactly(b"\r\n")?;
    }
    bytes.limit(setting.limits.head, 431);
    let method = until_space(bytes, is_token, 23, 501)?;
    let is_target = |byte| matches!(byte, b'!'..=b'~') && byte != b'#';
    let target = until_space(bytes, is_target, setting.limits.target, 414)?;
    let (major, minor) = version(bytes)?;
    bytes.exactly(b"\r\n")?;
    if major != b'1' {
        return Err(Stop::Reject(505));
    }
    require(is_good_target(&method, &target))?;
    message.fields = fields(bytes, setting.limits.fields, |_| true)?;

    let is_old = minor == b'0';
    let hosts = values(message, "host");
    require(hosts.len() == 1 || hosts.is_empty() && is_old)?;
    require(hosts.iter().all(|host| is_authority(host)))?;
    if method != b"CONNECT"
        && let (Some(host), Some(authority)) = (hosts.first(), authority_of(&target))
    {
        require(split_port(host) == split_port(&authority))?;
    }
    let (chunked, length) = framing(message, is_old)?;
    let has_body = chunked != Some(Chunked::No) && chunked.is_some() || length.unwrap_or(0) > 0;
    require(method != b"CONNECT" || !has_body && chunked.is_none())?;
    let options = options(message)?;
    if chunked == Some(Chunked::No) {
        return Err(Stop::Reject(501));
    }
    let expectations = values(message, "expect");
    if expectations.iter().any(|value| !value.eq_ignore_ascii_case(b"100-continue")) {
        return Err(Stop::Reject(417));
    }
    if length.unwrap_or(0) > setting.limits.body {
        return Err(Stop::Reject(413));
    }
    message.persist = persists(&options, is_old) && method != b"CONNECT";
    message.expect_continue = !expectations.is_empty() && !is_old && has_body;
    let shown = if is_old { "HTTP/1.0" } else { "HTTP/1.1" };
    message.start_line = [method, target, shown.into()];
    match chunked {
        Some(_) => chunks(bytes, setting, message),
        None => run(bytes, length.unwrap_or(0), message),
    }
}

fn response(
    bytes: &mut Bytes<'_>,
    setting: Setting,
    method: Method,
    close: bool,
    message: &mut Message,
) -> Parsed<()> {
    bytes.limit(setting.limits.head, 431);
    let (major, minor) = version(bytes)?;
    require(major == b'1')?;
    require(bytes.next()? == b' ')?;
    let mut digits = Vec::new();
    for _ in 0..3 {
        digits.push(bytes.next()?);
        require(digits.iter().all(u8::is_ascii_digit))?;
    }
    require((b"100".as_slice()..=b"599").contains(&digits.as_slice()))?;
    let mut reason = Vec::new();
    let mut byte = bytes.next()?;
    require(byte == b' ' || byte == b'\r')?;
    while byte != b'\r' {
        reason.push(byte);
        byte = bytes.next()?;
        require(is_text(byte) || byte == b'\r')?;
    }
    bytes.exactly(b"\n")?;
    let reason = reason.get(1..).unwrap_or_default().to_vec();
    message.fields = fields(bytes, setting.limits.fields, |_| true)?;

    let is_old = minor == b'0';
    let (chunked, length) = framing(message, is_old)?;
    let options = options(message)?;
    require(chunked != Some(Chunked::No))?;
    let is_tunnel = method == Method::CONNECT && digits[0] == b'2';
    let is_bare = digits[0] == b'1' || digits == b"204";
    let is_unframed = length.is_none() || digits == b"204" && length == Some(0);
    require(!is_bare || chunked.is_none() && is_unframed)?;
    let shown = if is_old { "HTTP/1.0" } else { "HTTP/1.1" };
    message.start_line = [shown.into(), digits.clone(), reason];
    if digits[0] == b'1' && digits != b"101" {
        let interim = std::mem::take(message);
        message.interim = interim.interim;
        message.interim.push((interim.start_line, interim.fields));
        return response(bytes, setting, method, close, message);
    }
    message.persist = persists(&options, is_old) && !is_tunnel && digits != b"101";
    if is_bare || is_tunnel || method == Method::HEAD || digits == b"304" {
        return Ok(());
    }
    if length.is_some_and(|length| length > setting.limits.body) {
        return Err(Stop::Reject(413));
    }
    match (chunked, length) {
        (Some(_), _) => chunks(bytes, setting, message),
        (None, Some(length)) => run(bytes, length, message),
        (None, None) => {
            message.persist = false;
            message.body = std::mem::take(&mut bytes.rest).to_vec();
            match message.body.len() as u64 > setting.limits.body {
                true => Err(Stop::Reject(413)),
                false if close => Ok(()),
                false => Err(Stop::Incomplete),
            }
        }
    }
}

fn until_space(
    bytes: &mut Bytes<'_>,
    belongs: impl Fn(u8) -> bool,
    longest: usize,
    overrun: u16,
) -> Parsed<Vec<u8>> {
    let mut part = Vec::new();
    loop {
        let byte = bytes.next()?;
        if byte == b' ' {
            require(!part.is_empty())?;
            return Ok(part);
        }
        require(belongs(byte))?;
        part.push(byte);
        if part.len() > longest {
            return Err(Stop::Reject(overrun));
        }
    }
}

fn version(bytes: &mut Bytes<'_>) -> Parsed<(u8, u8)> {
    bytes.exactly(b"HTTP/")?;
    let major = bytes.next()?;
    require(major.is_ascii_digit())?;
    bytes.exactly(b".")?;
    let minor = bytes.next()?;
    require(minor.is_ascii_digit())?;
    Ok((major, minor))
}

fn fields(bytes: &mut Bytes<'_>, most: usize, allowed: impl Fn(&[u8]) -> bool) -> Parsed<Lines> {
    let mut lines = Lines::new();
    loop {
        let mut byte = bytes.next()?;
        if byte == b'\r' {
            bytes.exactly(b"\n")?;
            return Ok(lines);
        }
        let mut name = Vec::new();
        while byte != b':' || name.is_empty() {
            require(is_token(byte))?;
            name.push(byte);
            byte = bytes.next()?;
        }
        let mut value = Vec::new();
        byte = bytes.next()?;
        while byte != b'\r' {
            require(is_text(byte))?;
            value.push(byte);
            byte = bytes.next()?;
        }
        bytes.exactly(b"\n")?;
        if lines.len() == most {
            return Err(Stop::Reject(431));
        }
        require(allowed(&name))?;
        lines.push((name, trim(&value)));
    }
}

fn trim(value: &[u8]) -> Vec<u8> {
    let is_space = |byte: &&u8| is_blank(**byte);
    let mut text: Vec<u8> = value.iter().skip_while(is_space).copied().collect();
    while text.last().as_ref().is_some_and(is_space) {
        text.pop();
    }
    text
}

fn values(message: &Message, name: &str) -> Vec<Vec<u8>> {
    let named = |(other, _): &&(Vec<u8>, Vec<u8>)| other.eq_ignore_ascii_case(name.as_bytes());
    message.fields.iter().filter(named).map(|(_, value)| value.clone()).collect()
}

/// All lines joined to one list, as RFC 9110 section 5.3 has it; `None` when there is no line.
fn members(message: &Message, name: &str) -> Option<Vec<Vec<u8>>> {
    let lines = values(message, name);
    let joined = lines.join(b",".as_slice());
    (!lines.is_empty()).then(|| joined.split(|&byte| byte == b',').map(trim).collect())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunked {
    Yes,
    No,
}

fn framing(message: &Message, is_old: bool) -> Parsed<(Option<Chunked>, Option<u64>)> {
    let lengths = values(message, "content-length");
    require(lengths.len() < 2)?;
    let length = match lengths.first() {
        None => None,
        Some(text) => {
            require(text.len() < 20 && !text.is_empty() && text.iter().all(u8::is_ascii_digit))?;
            let number: i64 = String::from_utf8_lossy(text).parse().or(Err(Stop::Reject(400)))?;
            Some(number.unsigned_abs())
        }
    };
    let Some(codings) = members(message, "transfer-encoding") else { return Ok((None, length)) };
    require(length.is_none() && !is_old)?;
    require(codings.iter().all(|it| !it.is_empty() && it.iter().all(|&byte| is_token(byte))))?;
    let is_chunked = |coding: &Vec<u8>| coding.eq_ignore_ascii_case(b"chunked");
    let first = codings.iter().position(is_chunked);
    require(first.is_none_or(|place| place + 1 == codings.len()))?;
    Ok((Some(if first == Some(0) { Chunked::Yes } else { Chunked::No }), None))
}

fn options(message: &Message) -> Parsed<Vec<Vec<u8>>> {
    let options = members(message, "connection").unwrap_or_default();
    require(options.iter().flatten().all(|&byte| is_token(byte)))?;
    Ok(options.iter().map(|option| option.to_ascii_lowercase()).collect())
}

fn persists(options: &[Vec<u8>], is_old: bool) -> bool {
    let has = |wanted: &[u8]| options.iter().any(|option| option == wanted);
    !has(b"close") && (!is_old || has(b"keep-alive"))
}

fn run(bytes: &mut Bytes<'_>, length: u64, message: &mut Message) -> Parsed<()> {
    bytes.limit(usize::MAX, 0);
    for _ in 0..length {
        message.body.push(bytes.next()?);
    }
    Ok(())
}

fn chunks(bytes: &mut Bytes<'_>, setting: Setting, message: &mut Message) -> Parsed<()> {
    let mut sum = 0;
    loop {
        let size = chunk_size(bytes, setting.limits.chunk_line)?;
        if size == 0 {
            bytes.limit(setting.limits.trailers, 431);
            message.trailers = fields(bytes, setting.limits.fields, may_be_trailer)?;
            return Ok(());
        }
        sum += u128::from(size);
        if sum > u128::from(setting.limits.body) {
            return Err(Stop::Reject(413));
        }
        run(bytes, size, message)?;
        bytes.exactly(b"\r\n")?;
    }
}

fn chunk_size(bytes: &mut Bytes<'_>, longest: usize) -> Parsed<u64> {
    bytes.limit(usize::MAX, 0);
    let mut line = Vec::new();
    loop {
        let byte = bytes.next()?;
        if byte == b'\r' {
            require(!line.is_empty() && are_extensions(behind_size(&line)))?;
            bytes.exactly(b"\n")?;
            break;
        }
        line.push(byte);
        let in_size = !line.contains(&b';');
        require(!in_size || byte.is_ascii_hexdigit())?;
        require(may_become_extensions(behind_size(&line)))?;
        require(line[0] != b';' && line.len() <= longest && (!in_size || line.len() <= 16))?;
        require(size_of(&line).is_none_or(|size| size < 1 << 63))?;
    }
    size_of(&line)
        .map_or(Err(Stop::Reject(400)), |size| Ok(u64::try_from(size).expect("below 2^63")))
}

fn behind_size(line: &[u8]) -> &[u8] {
    &line[line.iter().position(|&byte| byte == b';').unwrap_or(line.len())..]
}

/// Whether one of the ways to go on makes it complete.
fn may_become_extensions(text: &[u8]) -> bool {
    let endings: [&[u8]; 5] = [b"", b"a", b";a", b"\"", b"a\""];
    endings.iter().any(|ending| are_extensions(&[text, ending].concat()))
}

fn are_extensions(text: &[u8]) -> bool {
    let Some(text) = text.strip_prefix(b";") else { return text.is_empty() };
    let text = behind(text, is_blank);
    let rest = behind(text, is_token);
    match behind(rest, is_blank).strip_prefix(b"=") {
        _ if rest.len() == text.len() => false,
        Some(text) => behind_value(behind(text, is_blank)).is_some_and(may_be_next),
        None => may_be_next(rest),
    }
}

/// Whether nothing follows, or more extensions do, perhaps behind white space.
fn may_be_next(rest: &[u8]) -> bool {
    rest.is_empty()
        || behind(rest, is_blank).starts_with(b";") && are_extensions(behind(rest, is_blank))
}

fn behind_value(text: &[u8]) -> Option<&[u8]> {
    let Some(mut text) = text.strip_prefix(b"\"") else {
        return Some(behind(text, is_token)).filter(|rest| rest.len() < text.len());
    };
    loop {
        text = match text {
            [b'"', rest @ ..] => return Some(rest),
            [b'\\', byte, rest @ ..] if is_text(*byte) => rest,
            [byte, rest @ ..] if is_text(*byte) && *byte != b'\\' => rest,
            _ => return None,
        }
    }
}

fn behind(text: &[u8], is_meant: fn(u8) -> bool) -> &[u8] {
    &text[text.iter().take_while(|&&byte| is_meant(byte)).count()..]
}

fn size_of(line: &[u8]) -> Option<u128> {
    let digits = line.split(|&byte| byte == b';').next()?;
    u128::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn may_be_trailer(name: &[u8]) -> bool {
    const NOT: &str = " transfer-encoding content-length host connection trailer te upgrade \
        authorization proxy-authorization proxy-authenticate www-authenticate cookie set-cookie \
        content-encoding content-type content-range cache-control expect range max-forwards pragma \
        age date location retry-after vary warning keep-alive proxy-connection ";
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    !name.starts_with("if-") && !NOT.contains(&format!(" {name} "))
}

fn is_good_target(method: &[u8], target: &[u8]) -> bool {
    if method == b"CONNECT" {
        return is_authority(target) && split_port(target).1.is_some();
    }
    target.starts_with(b"/")
        || target == b"*" && method == b"OPTIONS"
        || authority_of(target).is_some_and(|authority| is_authority(&authority))
}

/// The authority of an absolute-form target.
fn authority_of(target: &[u8]) -> Option<Vec<u8>> {
    let lower = target.to_ascii_lowercase();
    let rest = lower.strip_prefix(b"http://").or(lower.strip_prefix(b"https://"))?;
    rest.split(|byte| matches!(byte, b'/' | b'?')).next().map(<[u8]>::to_vec)
}

fn is_authority(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let (host, port) = match text.rfind(':') {
        Some(colon) if !text[colon..].contains(']') => (&text[..colon], &text[colon + 1..]),
        _ => (text, ""),
    };
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit())
        && port.len() <= 5
        && (port.is_empty() || port.parse::<u16>().is_ok());
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    is_port && bracketed.map_or(is_name(host), |address| address.parse::<Ipv6Addr>().is_ok())
}

fn is_name(host: &str) -> bool {
    let mut pieces = host.split('%');
    let is_plain = |text: &str| {
        text.chars().all(|it| it.is_ascii_alphanumeric() || "-._~!$&'()*+;=".contains(it))
    };
    let is_escape = |text: &str| {
        let digits = text.bytes().take(2).filter(u8::is_ascii_hexdigit).count();
        digits == 2 && is_plain(&text[2..])
    };
    !host.is_empty() && pieces.next().is_some_and(is_plain) && pieces.all(is_escape)
}

/// The host in lower case and the port as a number.
fn split_port(authority: &[u8]) -> (String, Option<u16>) {
    let text = String::from_utf8_lossy(authority).to_ascii_lowercase();
    match text.rfind(':') {
        Some(colon) if !text[colon..].contains(']') => {
            (text[..colon].to_owned(), text[colon + 1..].parse().ok())
        }
        _ => (text, None),
    }
}
