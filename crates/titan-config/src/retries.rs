//! Retries: which failed attempts of a route are repeated, and how many retries an upstream may get.

use crate::bounds::MAX_METHODS;
use crate::diagnostic::Diagnostic;
use crate::method::served_method;
use crate::node::Node;
use crate::quantity::Percent;
use crate::read::{Read, Reading, default, optional};
use crate::readers::{duration, one_or_list, percent, short_for, whole, words};
use crate::section::{section, section_of};
use crate::shape::Shape;
use crate::statuses::{Statuses, names_statuses, statuses};
use crate::timeouts::timeout;
use crate::token::{HeaderName, header_name};
use std::time::Duration;
use titan_http::Method;

section! {
    "retries", "retries", Any;
    /// Which failed attempts of a request are followed by another one. A plain number sets `attempts` alone. Nothing is
    /// retried once the client has any of the response, nor after a body was sent that is not held (`limits.retry_body`), nor
    /// beyond the upstream's `retry_budget`.
    pub struct Retries {
        /// Further attempts after the first one. Each goes to an endpoint that was not tried yet, while there is one.
        pub attempts: u8 = default("1", whole(0..=MAX_RETRIES)),
        /// The failures that are retried: `connect` (no connection to the endpoint: refused, timed out, TLS failed, or none was
        /// free in time), `refused_stream` (an HTTP/2 endpoint says that it did not process the request),
        /// `reset_before_response` (the connection or the stream ended before a response, or what came was none), `timeout` (no
        /// response within `per_try_timeout` or `timeouts.response`). After the first two the endpoint has done nothing, so that
        /// any request is repeated; after the others only those whose repetition does no harm (`methods`, `idempotency_key`).
        pub on: RetryConditions = default("[connect, refused_stream, reset_before_response]", conditions()),
        /// Statuses that are retried as well, such as `503` or `[502-504]`. If no attempt is left, the client gets the response.
        pub statuses: Statuses = default("[]", statuses(400, 599)),
        /// Statuses of gRPC calls that are retried, such as `unavailable`, where the endpoint responds with nothing but the
        /// status (Trailers-Only). Calls are POST requests: to name a status says that they may be repeated after it.
        pub grpc: Vec<GrpcStatus> = default("[]", one_or_list(grpc_status(), 0..=GRPC.len())),
        /// A response with this header field is retried, whatever its status.
        pub header: Option<HeaderName> = optional("none", header_name()),
        /// The methods whose requests may be repeated although they may have had their effect.
        pub methods: Option<Vec<Method>> = optional(
            "the idempotent ones (RFC 9110 section 9.2.2): GET, HEAD, OPTIONS, TRACE, PUT, DELETE",
            one_or_list(served_method(), 1..=MAX_METHODS),
        ),
        /// A request header field, such as `Idempotency-Key`, that lets a request be repeated whatever its method: the
        /// service recognizes the second one. To repeat a body, it must be held (`limits.retry_body`).
        pub idempotency_key: Option<HeaderName> = optional("none", header_name()),
        /// How long one attempt may take, from its start to the head of the response, without the time in which the client sends the
        /// rest of its body. It needs `timeout` in `on`.
        pub per_try_timeout: Option<Duration> = optional("`timeouts.connect` and `timeouts.response`", timeout()),
        /// The pause before a retry.
        pub backoff: Backoff = default("{}", backoff()),
        /// The longest `Retry-After` of a response that is waited for: seconds, or the time from its `Date` to a date. A response
        /// with a longer one is not retried.
        pub max_retry_after: Duration = default("1s", duration(Duration::ZERO..=MINUTE)),
    }
}

section! {
    "backoff", "a backoff", Any;
    /// The pause before a retry: a random time (full jitter) of at most `base` before the first one, and twice as much before
    /// each further one. The first retry that goes to another endpoint does not wait.
    pub struct Backoff {
        /// The longest first pause.
        pub base: Duration = default("25ms", duration(Duration::ZERO..=MINUTE)),
        /// The longest pause.
        pub max: Duration = default("250ms", duration(Duration::ZERO..=MINUTE)),
    }
}

/// The failures that are retried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryConditions {
    /// There was no connection to the endpoint.
    pub connect: bool,
    /// The endpoint has not processed the request, and says so.
    pub refused_stream: bool,
    /// The connection or stream ended before a response.
    pub reset_before_response: bool,
    /// The response did not come in time.
    pub timeout: bool,
}

/// A status of a gRPC call, other than OK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrpcStatus(u8);

/// The most retries of a request.
const MAX_RETRIES: i64 = 5;
const MINUTE: Duration = Duration::from_secs(60);

/// The names of gRPC statuses, from number 1 (`statuscodes.md`).
const GRPC: [&str; 16] = [
    "cancelled",
    "unknown",
    "invalid_argument",
    "deadline_exceeded",
    "not_found",
    "already_exists",
    "permission_denied",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "out_of_range",
    "unimplemented",
    "internal",
    "unavailable",
    "data_loss",
    "unauthenticated",
];

impl Retries {
    /// The same, where no attempt takes longer than that.
    pub fn within(self, timeout: Duration) -> Retries {
        Retries { per_try_timeout: Some(timeout), ..self }
    }

    /// So many, of failures after which any request may be repeated, or an idempotent one.
    pub fn plain(attempts: u8) -> Retries {
        Retries {
            attempts,
            on: RetryConditions::SAFE,
            statuses: Statuses::default(),
            grpc: Vec::new(),
            header: None,
            methods: None,
            idempotency_key: None,
            per_try_timeout: None,
            backoff: Backoff { base: Duration::from_millis(25), max: Duration::from_millis(250) },
            max_retry_after: Duration::from_secs(1),
        }
    }

    /// Whether any response is retried.
    pub fn look_at_responses(&self) -> bool {
        let Retries { statuses, grpc, header, attempts, .. } = self;
        *attempts > 0 && (!statuses.is_empty() || !grpc.is_empty() || header.is_some())
    }
}

impl RetryConditions {
    /// Those of the default.
    const SAFE: RetryConditions = RetryConditions {
        connect: true,
        refused_stream: true,
        reset_before_response: true,
        timeout: false,
    };

    fn is_empty(self) -> bool {
        self == RetryConditions::default()
    }

    fn and(self, other: RetryConditions) -> RetryConditions {
        RetryConditions {
            connect: self.connect | other.connect,
            refused_stream: self.refused_stream | other.refused_stream,
            reset_before_response: self.reset_before_response | other.reset_before_response,
            timeout: self.timeout | other.timeout,
        }
    }

    /// Their names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        CONDITIONS.into_iter().filter(move |(_, it)| self.and(*it) == self).map(|(name, _)| name)
    }
}

impl GrpcStatus {
    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        GRPC[usize::from(self.0) - 1]
    }
}

const NONE: RetryConditions = RetryConditions {
    connect: false,
    refused_stream: false,
    reset_before_response: false,
    timeout: false,
};

const CONDITIONS: [(&str, RetryConditions); 4] = [
    ("connect", RetryConditions { connect: true, ..NONE }),
    ("refused_stream", RetryConditions { refused_stream: true, ..NONE }),
    ("reset_before_response", RetryConditions { reset_before_response: true, ..NONE }),
    ("timeout", RetryConditions { timeout: true, ..NONE }),
];

pub(crate) fn retries() -> impl Read<Value = Retries> {
    short_for("attempts", section_of::<Retries>()).then(check)
}

/// A failure by its name. What names responses has a key of its own, which the error says.
struct ConditionReader<R>(R);

impl<R: Read<Value = RetryConditions>> Read for ConditionReader<R> {
    type Value = RetryConditions;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<RetryConditions> {
        let (before, _) = to.last_error();
        let condition = self.0.read(node, to);
        let meant = node.as_text().and_then(key_of_responses);
        if let (None, Some(meant)) = (condition, meant)
            && let (count, Some(error)) = to.last_error()
            && count > before
        {
            error.help.push(meant.to_owned());
        }
        condition
    }

    fn shape(&self) -> Shape {
        self.0.shape()
    }
}

/// Where responses are named that are to be retried, if that names some.
fn key_of_responses(text: &str) -> Option<&'static str> {
    let is_call = || GRPC.iter().any(|name| text.eq_ignore_ascii_case(name));
    if names_statuses(text) {
        return Some("to retry by status, set `statuses`, such as `statuses: [502-504]`");
    }
    is_call()
        .then_some("to retry by the status of a gRPC call, set `grpc`, such as `grpc: unavailable`")
}

fn conditions() -> impl Read<Value = RetryConditions> {
    let condition = ConditionReader(words(&CONDITIONS));
    let conditions = one_or_list(condition, 0..=CONDITIONS.len());
    conditions.map(|all| all.into_iter().fold(NONE, RetryConditions::and))
}

fn grpc_status() -> impl Read<Value = GrpcStatus> {
    let numbered: Vec<_> = GRPC.into_iter().zip((1..).map(GrpcStatus)).collect();
    words(&numbered)
}

fn backoff() -> impl Read<Value = Backoff> {
    section_of::<Backoff>().then(|backoff, node, to| {
        if backoff.base <= backoff.max {
            return Some(backoff);
        }
        let message = format!(
            "the first pause, {:?}, is longer than the longest, {:?}",
            backoff.base, backoff.max
        );
        let error = Diagnostic::error(node.key_span("base"), message);
        let error = error.label("`base` has to be at most `max`");
        to.fail(match node.entry("max") {
            Some(entry) => error.also(entry.key_span, "`max` is here"),
            None => error.help("the default of `max` is 250ms: set a larger one"),
        })
    })
}

fn check(retries: Retries, node: &Node, to: &mut Reading<'_>) -> Option<Retries> {
    if retries.attempts == 0 {
        return Some(retries);
    }
    if retries.on.is_empty() && !retries.look_at_responses() {
        let error = Diagnostic::error(node.key_span("on"), "nothing is retried");
        let error = error.label("no failure is named, and no status");
        return to.fail(error.help("name some, remove `on`, or turn retries off: `retries: 0`"));
    }
    if retries.per_try_timeout.is_some() && !retries.on.timeout {
        let message = "an attempt that takes too long is given up, and not retried";
        let error = Diagnostic::error(node.key_span("per_try_timeout"), message);
        let error = error.label("`on` does not name `timeout`");
        return to.fail(error.help(
            "add `timeout` to `on`; for one bound on each response, set `timeouts.response`",
        ));
    }
    Some(retries)
}

section! {
    "retry_budget", "a retry budget", Any;
    /// How many retries an upstream may get, over all routes and workers. Without a bound, an upstream that fails under
    /// its load gets twice that load from its retries. A request that would be retried, and for which the budget has
    /// nothing left, fails as its first attempt did (`titan_upstream_retries_refused_total`).
    pub struct RetryBudget {
        /// Retries as a share of the requests: with `20%`, an upstream that fails all requests gets 1.2 times the load.
        /// What the requests of the last 10 s have not used is saved for the moment at which an endpoint fails, and
        /// given up as soon as a retry fails as well.
        pub share: Percent = default("20%", percent(0..=100)),
        /// Retries a second that are allowed in any case, because 20% of few requests are none.
        pub floor: u32 = default("10", whole(0..=1_000_000)),
    }
}

pub(crate) fn retry_budget() -> impl Read<Value = RetryBudget> {
    section_of::<RetryBudget>().then(check_budget)
}

fn check_budget(budget: RetryBudget, node: &Node, to: &mut Reading<'_>) -> Option<RetryBudget> {
    if budget.share != Percent::NONE || budget.floor > 0 {
        return Some(budget);
    }
    let error = Diagnostic::error(node.span, "this budget allows no retry at all");
    let error = error.label("`share` and `floor` are both 0");
    to.fail(error.help("to turn retries off, set `retries: 0` in the routes"))
}
