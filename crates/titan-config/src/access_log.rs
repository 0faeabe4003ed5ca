//! The access log: which exchanges are told of, how, and where.

mod fields;
mod target;
mod template;

pub use fields::LogField;
pub use target::{Facility, LogDestination, LogTarget, Rotation, SyslogAddress, SyslogServer};
pub use template::{LogFormat, LogPart, LogTemplate};

use crate::bounds::{MAX_CAPTURES, MAX_ROUTES};
use crate::diagnostic::Diagnostic;
use crate::location::{Location, Span};
use crate::node::{Entry, Kind, Node};
use crate::otlp::collector_name;
use crate::policy::{Claim, claim};
use crate::quantity::Percent;
use crate::read::{At, Read, Reading, at, default, optional};
use crate::readers::{boolean, duration, empty, one_or_list, percent, text_or};
use crate::section::{exclude, has_unknown_keys, section, section_of};
use crate::shape::{Shape, alternatives};
use crate::statuses::{Statuses, statuses};
use crate::token::{HeaderName, Name, header_name, name};
use std::ops::RangeInclusive;
use std::time::Duration;
use target::{LogFile, Syslog, log_file, plain, syslog};
use template::format;

/// A destination of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// Where its records go.
    pub to: LogDestination,
    /// How a record becomes a line.
    pub format: LogFormat,
    /// What of messages and tokens it tells beside the fields that every record has.
    pub captures: Captures,
    /// What must hold for an exchange to be logged.
    pub only: LogOnly,
    /// Which share is logged of those for which that holds.
    pub share: Percent,
    /// What is logged whatever the others say.
    pub always: LogAlways,
    /// Where the file says so.
    pub location: Location,
}

/// What of messages and tokens a log tells; none twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captures {
    /// Header fields of requests.
    pub request_headers: Vec<HeaderName>,
    /// Header fields of responses.
    pub response_headers: Vec<HeaderName>,
    /// Claims of verified tokens.
    pub claims: Vec<Claim>,
}

/// What must hold for an exchange to be logged: all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOnly {
    /// Its route is one of these; any if there are none.
    pub routes: Vec<Name>,
    /// Its status is one of these; any if there are none.
    pub statuses: Statuses,
    /// It took longer than that.
    pub slower_than: Option<Duration>,
}

section! {
    "access_log", "an access log", Any;
    /// A destination of the access log: exactly one of `stdout`, `file`, `syslog` and `otlp`, in which format, and which
    /// exchanges. A record is written when its exchange is over; for a tunnel also when it opens. No request waits for it: records that a
    /// destination does not take in time are dropped and counted. `stdout` alone is `stdout: {}`.
    pub(crate) struct AccessLogFields {
        /// The standard output, a line for each record.
        pub(crate) stdout: Option<()> = optional("", empty()),
        /// A file, a line for each record.
        pub(crate) file: Option<LogFile> = optional("", log_file()),
        /// A syslog server, a message for each record.
        pub(crate) syslog: Option<Syslog> = optional("", syslog()),
        /// A collector of OpenTelemetry, by its name in the file's `otlp`: a log record for each, with all that there is as attributes.
        pub(crate) otlp: Option<At<Name>> = optional("", collector_name()),
        /// How a record is written: `json` is an object with every field that there is; `combined` is the format of Apache
        /// and nginx; any other text has fields in braces, as in `"{time} {client} \"{method} {path}\" {status}"`. `{{` and
        /// `}}` are braces, and `-` stands for a field that there is not. The fields are below.
        pub(crate) format: LogFormat = default("json", format()),
        /// Header fields of requests, as clients send them, that the records have too; in a format they are
        /// `{request_header.NAME}`, without being listed here. If the name tells that the value is secret, as that of
        /// `Authorization` and `Cookie` does, `***` is written.
        pub(crate) request_headers: Vec<HeaderName> =
            default("[]", one_or_list(header_name(), 0..=MAX_CAPTURES)),
        /// The same of responses, as clients get them: `{response_header.NAME}`.
        pub(crate) response_headers: Vec<HeaderName> =
            default("[]", one_or_list(header_name(), 0..=MAX_CAPTURES)),
        /// The same of the claims of verified tokens: `{claim.NAME}`.
        pub(crate) claims: Vec<Claim> = default("[]", one_or_list(claim(), 0..=MAX_CAPTURES)),
        /// Which exchanges are logged: those for which all of this holds.
        pub(crate) only: LogOnlyFields = default("{}", section_of::<LogOnlyFields>()),
        /// The share that is logged of those that `only` leaves, drawn at random. `0%` needs `always`, and then logs nothing
        /// else.
        pub(crate) share: Percent = default("100%", percent(0..=100)),
        /// Which exchanges are logged whatever `only` and `share` say.
        pub(crate) always: LogAlways = default("{}", section_of::<LogAlways>()),
    }
}

section! {
    "log_only", "the conditions of an access log", Any;
    /// Which exchanges are logged: all that is given must hold.
    pub(crate) struct LogOnlyFields {
        /// The routes, by name.
        pub(crate) routes: Option<Vec<At<Name>>> =
            optional("all routes", one_or_list(at(name()), 1..=MAX_ROUTES)),
        /// The statuses that clients got, such as `404` and `5xx`. Without a response there is none.
        pub(crate) statuses: Option<Statuses> = optional("all statuses", statuses(FIRST, LAST)),
        /// The time from the complete head of the request to the end of the response; only slower ones are logged.
        pub(crate) slower_than: Option<Duration> = optional("any duration", duration(DURATIONS)),
    }
}

section! {
    "log_always", "the exceptions of an access log", Any;
    /// Which exchanges are logged in any case: those for which one of these holds.
    pub struct LogAlways {
        /// Those with a failure (the field `error`).
        pub failures: bool = default("false", boolean()),
        /// Those with these statuses.
        pub statuses: Statuses = default("[]", statuses(FIRST, LAST)),
        /// Those that took longer, from the complete head of the request to the end of the response.
        pub slower_than: Option<Duration> = optional("none", duration(DURATIONS)),
    }
}

const FIRST: u16 = 100;
const LAST: u16 = 599;
const DURATIONS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(86_400);

impl AccessLogFields {
    fn captures(&self) -> Captures {
        let AccessLogFields { request_headers, response_headers, claims, format, .. } = self;
        let mut captures = Captures::default();
        captures.add(&Captures {
            request_headers: request_headers.clone(),
            response_headers: response_headers.clone(),
            claims: claims.clone(),
        });
        for part in format.parts() {
            match part {
                LogPart::RequestHeader(name) => add(name, &mut captures.request_headers),
                LogPart::ResponseHeader(name) => add(name, &mut captures.response_headers),
                LogPart::Claim(claim) => add(claim, &mut captures.claims),
                LogPart::Text(_) | LogPart::Field(_) => {}
            }
        }
        captures
    }
}

impl Captures {
    /// Adds those of another log.
    pub fn add(&mut self, other: &Captures) {
        let Captures { request_headers, response_headers, claims } = other;
        request_headers.iter().for_each(|name| add(name, &mut self.request_headers));
        response_headers.iter().for_each(|name| add(name, &mut self.response_headers));
        claims.iter().for_each(|claim| add(claim, &mut self.claims));
    }
}

/// Adds what is not there yet.
fn add<T: Clone + PartialEq>(item: &T, to: &mut Vec<T>) {
    if !to.contains(item) {
        to.push(item.clone());
    }
}

impl LogAlways {
    fn is_empty(&self) -> bool {
        let LogAlways { failures, statuses, slower_than } = self;
        !failures && statuses.is_empty() && slower_than.is_none()
    }
}

/// A destination whose routes are not looked up yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessLogDraft {
    pub(crate) log: AccessLog,
    /// Where its target stands.
    pub(crate) target: Span,
    /// Its routes, with their places.
    pub(crate) routes: Vec<At<Name>>,
}

impl AccessLogDraft {
    /// What two destinations cannot share: the standard output, or a file.
    pub(crate) fn exclusive(&self) -> Option<String> {
        match &self.log.to {
            LogDestination::Lines(LogTarget::Stdout) => Some("the standard output".to_owned()),
            LogDestination::Lines(LogTarget::File { path, .. }) => {
                Some(format!("the file `{}`", plain(path).display()))
            }
            LogDestination::Lines(LogTarget::Syslog { .. }) | LogDestination::Otlp(_) => None,
        }
    }
}

pub(crate) fn access_log() -> impl Read<Value = AccessLogDraft> {
    text_or(Word, section_of::<AccessLogFields>().then(check))
}

/// `stdout` alone.
struct Word;

const STDOUT: &str = "stdout";
const OTLP: &str = "otlp";

impl Read for Word {
    type Value = AccessLogDraft;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<AccessLogDraft> {
        let Some(text) = node.as_text().filter(|text| *text != STDOUT) else {
            let empty = Node { span: node.span, kind: Kind::Map(Vec::new()) };
            let entry = Entry { key: STDOUT.to_owned(), key_span: node.span, value: empty };
            let full = Node { span: node.span, kind: Kind::Map(vec![entry]) };
            return access_log().read(&full, to);
        };
        let help = match text {
            "off" | "none" | "no" | "false" => {
                "without `access_log` nothing is logged: remove it".to_owned()
            }
            "-" | "/dev/stdout" => format!("did you mean `{STDOUT}`?"),
            "on" | "yes" | "true" => {
                format!("say where lines go: `{STDOUT}`, or `file: /var/log/titan/access.log`")
            }
            text if text.contains("://") => format!("did you mean `syslog: {text}`?"),
            text if text.contains('/') || text.contains('.') => {
                format!("did you mean `file: {text}`?")
            }
            _ => return to.mismatch(node, &access_log()),
        };
        let error =
            Diagnostic::error(node.span, format!("expected {}", access_log().shape().describe()));
        to.fail(error.label(format!("this is {}", node.describe())).help(help))
    }

    fn shape(&self) -> Shape {
        Shape::Words(vec![STDOUT])
    }
}

fn check(fields: AccessLogFields, node: &Node, to: &mut Reading<'_>) -> Option<AccessLogDraft> {
    let captures = fields.captures();
    let is_fine = check_captures(&fields, node, to) & check_share(&fields, node, to);
    let (target, at) = one_target(&fields, node, to)?;
    let AccessLogFields { format, only, share, always, .. } = fields;
    let LogOnlyFields { routes, statuses, slower_than } = only;
    let routes = routes.unwrap_or_default();
    let names = routes.iter().map(|route| route.value.clone()).collect();
    let only = LogOnly { routes: names, statuses: statuses.unwrap_or_default(), slower_than };
    let location = node.span.start;
    let log = AccessLog { to: target, format, captures, only, share, always, location };
    is_fine.then_some(AccessLogDraft { log, target: at, routes })
}

/// The target, with its place; nothing unless there is exactly one.
fn one_target(
    fields: &AccessLogFields,
    node: &Node,
    to: &mut Reading<'_>,
) -> Option<(LogDestination, Span)> {
    let AccessLogFields { stdout, file, syslog, otlp, .. } = fields;
    let stdout = stdout.map(|()| (STDOUT, LogTarget::Stdout));
    let file =
        file.clone().map(|LogFile { path, rotate }| ("file", LogTarget::File { path, rotate }));
    let syslog = syslog.clone().map(|Syslog { address, facility, tag }| {
        ("syslog", LogTarget::Syslog { address, facility, tag })
    });
    let lines = stdout.into_iter().chain(file).chain(syslog);
    let lines = lines.map(|(key, target)| (key, LogDestination::Lines(target)));
    let otlp = otlp.clone().map(|name| (OTLP, LogDestination::Otlp(name.value)));
    let mut given = lines.chain(otlp);
    match (given.next(), given.next()) {
        (Some((key, target)), None) => Some((target, node.key_span(key))),
        (Some((first, _)), Some((second, _))) => {
            if let (Some(first), Some(second)) = (node.entry(first), node.entry(second)) {
                exclude(first, second, to);
            }
            None
        }
        (None, _) if has_unknown_keys::<AccessLogFields>(node) => None,
        (None, _) => {
            let keys = [STDOUT, "file", "syslog", OTLP].map(|key| format!("`{key}`"));
            let error = Diagnostic::error(node.span, "an access log is incomplete");
            to.fail(error.label(format!("expected {}", alternatives(keys.to_vec()))))
        }
    }
}

/// Whether what is captured is written.
fn check_captures(fields: &AccessLogFields, node: &Node, to: &mut Reading<'_>) -> bool {
    if fields.format == LogFormat::Json {
        return true;
    }
    let keys = [
        ("request_headers", fields.request_headers.is_empty(), "{request_header.NAME}"),
        ("response_headers", fields.response_headers.is_empty(), "{response_header.NAME}"),
        ("claims", fields.claims.is_empty(), "{claim.NAME}"),
    ];
    let idle = keys.into_iter().filter(|(_, is_empty, _)| !is_empty);
    let mut is_fine = true;
    for (key, _, field) in idle {
        let error = Diagnostic::error(node.key_span(key), format!("`{key}` has no effect"));
        let error = error.also(node.key_span("format"), "this says what is written");
        to.add(error.help(format!("remove it; where `format` is a text, write `{field}` there")));
        is_fine = false;
    }
    is_fine
}

/// Whether anything is logged at all.
fn check_share(fields: &AccessLogFields, node: &Node, to: &mut Reading<'_>) -> bool {
    if fields.share != Percent::NONE || !fields.always.is_empty() {
        return true;
    }
    let error = Diagnostic::error(node.key_span("share"), "nothing would be logged");
    to.add(error.label("this is the share of none").help("set `always`, or a larger share"));
    false
}
