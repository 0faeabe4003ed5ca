//! gRPC: which requests are gRPC calls, how long they may take, and how failures are reported.
//!
//! The terms are those of its specification: `PROTOCOL-HTTP2.md`, `statuscodes.md` and `http-grpc-status-mapping.md`.

mod text;
pub(crate) mod web;

use std::io::Write;
use std::time::Duration;
use titan_http::{BadField, FieldName, Fields, Method, RequestHead, ResponseHead, Status};
use titan_io::error::{Error, Kind, Refusal, Side};
use titan_policies::jwt::TOKEN_AMBIGUOUS;

/// What the client of a call speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// gRPC over HTTP/2.
    Native,
    /// What browsers can do: trailers at the end of the body.
    Web,
    /// The same in base64.
    WebText,
}

/// The status of a call, as far as the gateway has one to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Cancelled = 1,
    DeadlineExceeded = 4,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    Unauthenticated = 16,
}

const TIMEOUT: &[u8] = b"grpc-timeout";
const STATUS: &[u8] = b"grpc-status";
const MESSAGE: &[u8] = b"grpc-message";
const MEDIA_TYPE: &[u8] = b"application/grpc";
const WEB: &[u8] = b"application/grpc-web";
const WEB_TEXT: &[u8] = b"application/grpc-web-text";

impl Dialect {
    /// The dialect of a call; none where the request is no call. One that wants a tunnel never is, whatever it
    /// says of its content: it is a GET.
    pub(crate) fn of_call(request: &RequestHead) -> Option<Dialect> {
        let is_call = request.method == Method::POST;
        is_call.then(|| Dialect::of(&request.fields)).flatten()
    }

    /// The dialect of a message with those fields.
    pub(crate) fn of(fields: &Fields) -> Option<Dialect> {
        let value = fields.get(FieldName::ContentType)?;
        let (start, rest) = value.split_at_checked(MEDIA_TYPE.len())?;
        if !start.eq_ignore_ascii_case(MEDIA_TYPE) {
            return None;
        }
        let name = &rest[..rest.len() - suffix(rest).len()];
        match name.to_ascii_lowercase().as_slice() {
            b"" => Some(Dialect::Native),
            b"-web" => Some(Dialect::Web),
            b"-web-text" => Some(Dialect::WebText),
            _ => None,
        }
    }

    /// The dialect of the response to a call in this one. Browsers may want text for what they send as bytes.
    pub(crate) fn of_response(self, fields: &Fields) -> Dialect {
        let wants = |text: &[u8]| {
            let accepted = fields.all(FieldName::Accept);
            self != Dialect::Native && accepted.into_iter().any(|list| contains(list, text))
        };
        if wants(WEB_TEXT) {
            return Dialect::WebText;
        }
        if wants(WEB) { Dialect::Web } else { self }
    }

    /// Its media type, without what follows a `+`.
    fn media_type(self) -> &'static [u8] {
        match self {
            Dialect::Native => MEDIA_TYPE,
            Dialect::Web => WEB,
            Dialect::WebText => WEB_TEXT,
        }
    }
}

/// What follows the name of a media type: a format, parameters.
fn suffix(media_type: &[u8]) -> &[u8] {
    let end = media_type.iter().position(|byte| b"+;\t ".contains(byte));
    &media_type[end.unwrap_or(media_type.len())..]
}

fn contains(list: &[u8], text: &[u8]) -> bool {
    list.windows(text.len()).any(|window| window.eq_ignore_ascii_case(text))
}

/// The time that the client gives its call; none where it sets no limit.
pub(crate) fn timeout(fields: &Fields) -> Result<Option<Duration>, Kind> {
    let mut values = fields.named(TIMEOUT);
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => read_timeout(value).map(Some).ok_or(Kind::BadDeadline),
        (Some(_), Some(_)) => Err(Kind::BadDeadline),
    }
}

/// Tells the endpoint how much time is left.
pub(crate) fn set_timeout(fields: &mut Fields, left: Duration) -> Result<(), BadField> {
    let mut text = [0; 9];
    fields.set_named(TIMEOUT, write_timeout(left, &mut text))
}

/// The status of a call, in trailers or in the head of a response that is nothing but its status (Trailers-Only).
pub(crate) fn status(fields: &Fields) -> Option<u8> {
    std::str::from_utf8(fields.named(STATUS).next()?).ok()?.parse().ok()
}

/// The status that says of an endpoint in HTTP what the response to a call says of it, in its head or in its trailers. That of HTTP
/// is 200, whatever has become of the call. A deadline that has passed is left out: it is the client's.
pub(crate) fn http_status(of_head: Status, fields: &Fields) -> Status {
    const UNKNOWN: u8 = 2;
    const DATA_LOSS: u8 = 15;
    match status(fields) {
        Some(number) if number == Code::Unimplemented as u8 => Status::NOT_IMPLEMENTED,
        Some(number) if number == Code::Unavailable as u8 => Status::SERVICE_UNAVAILABLE,
        Some(number) if number == Code::Internal as u8 => Status::INTERNAL_SERVER_ERROR,
        Some(UNKNOWN | DATA_LOSS) => Status::INTERNAL_SERVER_ERROR,
        _ => of_head,
    }
}

/// How long a call must have run for its deadline to excuse a client that gives it up: calls that last but a moment
/// are no reason to give them up by the thousand.
const MOMENT: Duration = Duration::from_millis(10);

/// Whether the time that the client gives its call is over, as far as that can be told here, where the call has come
/// later than it was made: half of it must have gone.
pub(crate) fn is_overdue(elapsed: Duration, timeout: Option<Duration>) -> bool {
    elapsed >= MOMENT && timeout.is_some_and(|timeout| elapsed >= timeout / 2)
}

/// The whole response to a call that the gateway has failed.
pub(crate) fn failure(
    error: Error,
    detail: Option<&str>,
    dialect: Dialect,
    request_id: Option<&[u8]>,
) -> Result<ResponseHead, BadField> {
    let mut message = detail.map_or_else(|| error.to_string(), str::to_owned).into_bytes();
    message.extend_from_slice(b" (");
    message.extend_from_slice(error.kind.code().as_bytes());
    if let Some(id) = request_id {
        message.extend_from_slice(b", request ");
        message.extend_from_slice(id);
    }
    message.push(b')');
    let mut head = ResponseHead::with_status(Status::OK);
    head.fields.append(FieldName::ContentType, dialect.media_type())?;
    let code = Code::of(error) as u8;
    head.fields.append_named(STATUS, code.to_string().as_bytes())?;
    head.fields.append_named(MESSAGE, &percent_encoded(&message))?;
    Ok(head)
}

impl Code {
    /// What a call gets for a failure.
    pub(crate) fn of(error: Error) -> Code {
        match error.kind {
            Kind::ClientGone | Kind::ClientStalled | Kind::ClientTooSlow => Code::Cancelled,
            Kind::HeadTimeout
            | Kind::BodyTimeout
            | Kind::BodyTooSlow
            | Kind::ResponseTimeout
            | Kind::ResponseStalled
            | Kind::Deadline => Code::DeadlineExceeded,
            Kind::Refused(refusal) => Code::of_refusal(refusal),
            Kind::ClientCertificate | Kind::FileForbidden => Code::PermissionDenied,
            Kind::BodyTooLarge => Code::ResourceExhausted,
            Kind::Malformed(_) | Kind::MalformedStream(_) if is_too_much(error) => {
                Code::ResourceExhausted
            }
            Kind::NoRoute
            | Kind::NoFile
            | Kind::MethodNotAllowed
            | Kind::ConnectMethod
            | Kind::UpgradeRefused => Code::Unimplemented,
            Kind::NoEndpoint
            | Kind::NoSocket
            | Kind::QueueFull
            | Kind::QueueTimeout
            | Kind::CircuitOpen
            | Kind::Overloaded
            | Kind::Connect
            | Kind::ConnectTimeout
            | Kind::Tls
            | Kind::Closed
            | Kind::Truncated
            | Kind::Unprocessed
            | Kind::RequestMemory
            | Kind::TooManyTunnels
            | Kind::ConnectionOutdated => Code::Unavailable,
            Kind::Malformed(_)
            | Kind::MalformedStream(_)
            | Kind::Path(_)
            | Kind::ConnectionList
            | Kind::FieldName
            | Kind::EncodedSlash
            | Kind::PathParameter
            | Kind::PathCase
            | Kind::BadDeadline
            | Kind::BadDeadlineField
            | Kind::BadWebText
            | Kind::BadRewrite
            | Kind::NoHost
            | Kind::FileUnreadable
            | Kind::FileShrunk
            | Kind::PreconditionFailed
            | Kind::BeyondFile
            | Kind::Loop
            | Kind::Reset
            | Kind::TooManyInterim
            | Kind::UnexpectedUpgrade
            | Kind::UpgradeIgnored
            | Kind::Internal => Code::Internal,
        }
    }
}

impl Code {
    /// What a call gets that a policy refuses.
    fn of_refusal(refusal: &'static Refusal) -> Code {
        match refusal.status {
            // A call with several tokens identifies its client as little as one with none.
            Status::UNAUTHORIZED => Code::Unauthenticated,
            Status::FORBIDDEN => Code::PermissionDenied,
            Status::CONTENT_TOO_LARGE | Status::TOO_MANY_REQUESTS => Code::ResourceExhausted,
            Status::BAD_GATEWAY | Status::SERVICE_UNAVAILABLE => Code::Unavailable,
            Status::GATEWAY_TIMEOUT => Code::DeadlineExceeded,
            _ if Kind::Refused(refusal) == TOKEN_AMBIGUOUS => Code::Unauthenticated,
            _ => Code::Internal,
        }
    }
}

/// Whether the client has sent more than a limit allows, rather than something wrong.
fn is_too_much(error: Error) -> bool {
    let status = error.status();
    error.side == Side::Downstream
        && matches!(
            status,
            Status::CONTENT_TOO_LARGE | Status::URI_TOO_LONG | Status::FIELDS_TOO_LARGE
        )
}

/// How many digits a timeout has at most.
const DIGITS: usize = 8;
const MOST: u128 = 99_999_999;
/// The units of timeouts in nanoseconds, the finest first.
const UNITS: [(u8, u128); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', 1_000_000),
    (b'S', 1_000_000_000),
    (b'M', 60_000_000_000),
    (b'H', 3_600_000_000_000),
];

fn read_timeout(value: &[u8]) -> Option<Duration> {
    let (&unit, digits) = value.split_last()?;
    if !(1..=DIGITS).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    let (_, nanoseconds) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    let nanoseconds = u128::from(number) * nanoseconds;
    let seconds = u64::try_from(nanoseconds / 1_000_000_000).ok()?;
    let rest = u32::try_from(nanoseconds % 1_000_000_000).ok()?;
    Some(Duration::new(seconds, rest))
}

/// Writes a timeout in the finest unit that has room for it, and never a longer one.
fn write_timeout(left: Duration, text: &mut [u8; DIGITS + 1]) -> &[u8] {
    let nanoseconds = left.as_nanos();
    let fits = UNITS.into_iter().find(|(_, unit)| nanoseconds / unit <= MOST);
    let (unit, number) = fits.map_or((b'H', MOST), |(name, unit)| (name, nanoseconds / unit));
    let mut rest = &mut text[..];
    let _ = write!(rest, "{number}");
    let length = DIGITS + 1 - rest.len();
    text[length] = unit;
    &text[..=length]
}

/// Writes a message as a field can hold it: what is not a printable character of ASCII, and `%`, as `%` and
/// two digits.
fn percent_encoded(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len());
    for &byte in message {
        match byte {
            b' '..=b'~' if byte != b'%' => out.push(byte),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_io::error::FIXED;
    use titan_policies::list::refusals;

    fn with(lines: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::default();
        for (name, value) in lines {
            fields.append_named(name.as_bytes(), value.as_bytes()).unwrap();
        }
        fields
    }

    #[test]
    fn the_media_type_identifies_a_call() {
        let cases = [
            ("application/grpc", Some(Dialect::Native)),
            ("Application/GRPC", Some(Dialect::Native)),
            ("application/grpc+proto", Some(Dialect::Native)),
            ("application/grpc; charset=utf-8", Some(Dialect::Native)),
            ("application/grpc;x", Some(Dialect::Native)),
            ("application/grpc-web", Some(Dialect::Web)),
            ("application/grpc-web+proto", Some(Dialect::Web)),
            ("application/grpc-web-text", Some(Dialect::WebText)),
            ("application/grpc-web-text+proto", Some(Dialect::WebText)),
            ("application/grpcx", None),
            ("application/grpc-", None),
            ("application/grpc-websocket", None),
            ("application/grp", None),
            ("text/plain; application/grpc", None),
        ];
        for (value, dialect) in cases {
            assert_eq!(Dialect::of(&with(&[("Content-Type", value)])), dialect, "{value}");
        }
        assert_eq!(Dialect::of(&with(&[])), None);
    }

    #[test]
    fn a_browser_may_want_text_for_bytes() {
        let of_response =
            |dialect: Dialect, accept| dialect.of_response(&with(&[("Accept", accept)]));
        assert_eq!(Dialect::Web.of_response(&with(&[])), Dialect::Web);
        assert_eq!(Dialect::WebText.of_response(&with(&[])), Dialect::WebText);
        assert_eq!(of_response(Dialect::WebText, "*/*"), Dialect::WebText);
        assert_eq!(of_response(Dialect::Web, "a/b, application/grpc-web-text"), Dialect::WebText);
        assert_eq!(of_response(Dialect::WebText, "application/grpc-web+proto"), Dialect::Web);
        assert_eq!(of_response(Dialect::Native, "application/grpc-web-text"), Dialect::Native);
    }

    #[test]
    fn a_timeout_is_a_number_and_its_unit() {
        let cases = [
            ("1H", Some(Duration::from_secs(3600))),
            ("2M", Some(Duration::from_secs(120))),
            ("3S", Some(Duration::from_secs(3))),
            ("4m", Some(Duration::from_millis(4))),
            ("5u", Some(Duration::from_micros(5))),
            ("6n", Some(Duration::from_nanos(6))),
            ("0n", Some(Duration::ZERO)),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
            ("99999999m", Some(Duration::from_millis(99_999_999))),
            ("100000000m", None),
            ("", None),
            ("m", None),
            ("1", None),
            ("1s", None),
            ("-1m", None),
            ("+1m", None),
            ("1 m", None),
            ("1.5S", None),
            ("1mm", None),
        ];
        for (value, read) in cases {
            let fields = with(&[("Grpc-Timeout", value)]);
            assert_eq!(timeout(&fields), read.map(Some).ok_or(Kind::BadDeadline), "{value}");
        }
        assert_eq!(timeout(&with(&[])), Ok(None));
        let twice = with(&[("grpc-timeout", "1S"), ("grpc-timeout", "1S")]);
        assert_eq!(timeout(&twice), Err(Kind::BadDeadline));
    }

    #[test]
    fn a_timeout_is_passed_on_as_exactly_as_it_can_be_and_never_longer() {
        let cases = [
            (Duration::ZERO, "0n"),
            (Duration::from_nanos(99_999_999), "99999999n"),
            (Duration::from_nanos(100_000_999), "100000u"),
            (Duration::from_secs(5), "5000000u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_millis(99_999_999), "99999999m"),
            (Duration::from_millis(100_000_999), "100000S"),
            (Duration::from_secs(100_000_059), "1666667M"),
            (Duration::from_secs(99_999_999 * 3600), "99999999H"),
            (Duration::MAX, "99999999H"),
        ];
        for (left, value) in cases {
            let mut fields = with(&[("grpc-timeout", "1H"), ("a", "b")]);
            set_timeout(&mut fields, left).unwrap();
            let values: Vec<_> = fields.named(TIMEOUT).collect();
            assert_eq!(values, [value.as_bytes()], "{left:?}");
        }
    }

    #[test]
    fn a_failure_names_its_code_and_the_request() {
        let head =
            failure(Kind::NoRoute.into(), None, Dialect::Native, Some(b"7\xc3\xa9%")).unwrap();
        let values: Vec<_> =
            head.fields.iter().map(|field| field.value.escape_ascii().to_string()).collect();
        let message = "No route matches this request. (no-route, request 7%C3%A9%25)";
        assert_eq!(values, ["application/grpc", "12", message]);
    }

    /// Where the documentation's table puts each code is where it is.
    #[test]
    fn the_documentation_lists_the_status_of_each_failure() {
        let page = include_str!("../../../docs/operations.md");
        let (_, table) = page.split_once("| grpc-status | code |").expect("there is a table");
        let rows: Vec<_> = table.lines().skip(1).take_while(|line| line.starts_with('|')).collect();
        for kind in FIXED.iter().copied().chain(refusals()) {
            let code = format!("`{}`", kind.code());
            let told: Vec<_> = rows.iter().filter(|row| row.contains(&code)).collect();
            let start = format!("| {} ", Code::of(kind.into()) as u8);
            assert!(told.len() == 1 && told[0].starts_with(&start), "{code} {start}: {told:?}");
        }
    }
}
