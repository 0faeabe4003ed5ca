//! The attempts of an exchange: which endpoint was asked when, over what, and how it has responded.

use super::fixed::{Fixed, fixed, words};
use super::{ExchangeRecord, MAX_ATTEMPTS, MAX_TEXTS, Place};
use std::time::Duration;
use titan_http::Status;
use titan_io::error::{Error, Side};

/// The request sent to one endpoint, or meant to be. `T` is a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempted<T> {
    /// Why it was made.
    pub kind: AttemptKind,
    /// How many began before it.
    pub number: u16,
    /// Whether it went over a connection that was there already.
    pub is_reused: bool,
    /// From the start of the exchange to when its endpoint was chosen.
    pub began: Duration,
    /// From then to its end; none where the exchange has ended with it.
    pub took: Option<Duration>,
    /// Opening the connection to the endpoint.
    pub connect: Option<Duration>,
    /// The TLS handshake with the endpoint.
    pub tls: Option<Duration>,
    /// From its beginning to the head of its response.
    pub head: Option<Duration>,
    /// The status of that.
    pub status: Option<Status>,
    /// Which side caused its failure.
    pub caused_by: Option<Side>,
    /// The code of its failure; empty where it has not failed, or where it was not waited for any more.
    pub error: T,
    /// The name of the upstream.
    pub upstream: T,
    /// The address of the endpoint.
    pub endpoint: T,
    /// How it was chosen.
    pub balance: T,
    /// Of how many, those that take no requests among them.
    pub choices: u16,
}

/// The endpoint of an attempt, and how it was chosen.
#[derive(Clone, Copy, Debug)]
pub struct Chosen<'t> {
    /// The name of the upstream.
    pub upstream: &'t str,
    /// The address of the endpoint.
    pub endpoint: &'t str,
    /// How it was chosen.
    pub balance: &'static str,
    /// Of how many.
    pub choices: usize,
}

/// Why an attempt was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttemptKind {
    /// It was the first one.
    #[default]
    First,
    /// The one before had failed.
    Retry,
    /// The one before took long, and went on.
    Hedge,
}

impl AttemptKind {
    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            AttemptKind::First => "first",
            AttemptKind::Retry => "retry",
            AttemptKind::Hedge => "hedge",
        }
    }
}

fixed! {
    /// An attempt, while the exchange lasts. What is noted is told at [`Attempted`].
    pub NotedAttempt;
    kind set_kind: AttemptKind = 1, "why it was made.";
    is_reused set_reused: bool = 1, "whether its connection was there already.";
    caused_by set_caused_by: Option<Side> = 1, "which side caused its failure.";
    number set_number: u16 = 2, "how many began before it.";
    status set_status: Option<Status> = 2, "the status of its response.";
    began set_began: Duration = 8, "from the start of the exchange to its own.";
    took set_took: Option<Duration> = 4, "from then to its end.";
    connect set_connect: Option<Duration> = 4, "opening the connection.";
    tls set_tls: Option<Duration> = 4, "the TLS handshake.";
    head set_head: Option<Duration> = 4, "from its beginning to the head of its response.";
    choices set_choices: u16 = 2, "of how many its endpoint was chosen.";
    error set_error: Place = 4, "the code of its failure.";
    upstream set_upstream: Place = 4, "the name of the upstream.";
    endpoint set_endpoint: Place = 4, "the address of the endpoint.";
    balance set_balance: Place = 4, "how it was chosen.";
}

words! { AttemptKind: First = 0, Retry = 1, Hedge = 2,; }

/// How long it took from the start of an exchange to the head of its response; where the gateway has responded by itself, to the
/// end. Of the last attempt it is told when it began, and how long its head took.
pub(super) fn time_to_head(last: Option<(Duration, Option<Duration>)>, took: Duration) -> Duration {
    last.and_then(|(began, head)| Some(began + head?)).unwrap_or(took)
}

impl NotedAttempt {
    /// Notes that the head of its response has come, so long after the start of the exchange.
    pub fn note_head(&mut self, at: Duration, status: Status) {
        self.set_head(Some(at.saturating_sub(self.began())));
        self.set_status(Some(status));
    }

    /// What is read of it, with its texts from there.
    pub(super) fn read<'r>(&self, arena: &'r [u8]) -> Attempted<&'r [u8]> {
        Attempted {
            kind: self.kind(),
            number: self.number(),
            is_reused: self.is_reused(),
            began: self.began(),
            took: self.took(),
            connect: self.connect(),
            tls: self.tls(),
            head: self.head(),
            status: self.status(),
            caused_by: self.caused_by(),
            error: self.error().of(arena),
            upstream: self.upstream().of(arena),
            endpoint: self.endpoint().of(arena),
            balance: self.balance().of(arena),
            choices: self.choices(),
        }
    }

    /// The same with its texts elsewhere.
    pub(super) fn moved(mut self, mut moved: impl FnMut(Place) -> Place) -> NotedAttempt {
        self.set_error(moved(self.error()));
        self.set_upstream(moved(self.upstream()));
        self.set_endpoint(moved(self.endpoint()));
        self.set_balance(moved(self.balance()));
        self
    }
}

impl ExchangeRecord {
    /// Notes that an attempt begins, so long after the start of the exchange.
    pub fn begin_attempt(&mut self, is_hedge: bool, began: Duration, chosen: Chosen<'_>) {
        let Chosen { upstream, endpoint, balance, choices } = chosen;
        let kind = match (is_hedge, self.attempts.is_empty()) {
            (true, _) => AttemptKind::Hedge,
            (false, true) => AttemptKind::First,
            (false, false) => AttemptKind::Retry,
        };
        let number = self.facts.attempts();
        self.facts.set_attempts(number.saturating_add(1));
        // The same endpoint may be asked again over another connection, without being chosen anew.
        let before = self.attempts.last().and_then(|last| Some(last.began() + last.took()?));
        let mut attempt = NotedAttempt::EMPTY;
        attempt.set_kind(kind);
        attempt.set_reused(true);
        attempt.set_number(number);
        attempt.set_began(before.map_or(began, |end| began.max(end)));
        attempt.set_choices(u16::try_from(choices).unwrap_or(u16::MAX));
        attempt.set_upstream(self.push_within(MAX_TEXTS, upstream.as_bytes()));
        attempt.set_endpoint(self.push_within(MAX_TEXTS, endpoint.as_bytes()));
        attempt.set_balance(self.push_within(MAX_TEXTS, balance.as_bytes()));
        if self.attempts.len() >= MAX_ATTEMPTS {
            self.attempts.pop();
        }
        self.attempts.push(attempt);
    }

    /// The attempt that began last.
    pub fn last_attempt(&mut self) -> Option<&mut NotedAttempt> {
        self.attempts.last_mut()
    }

    /// How long it took to the head of the response.
    pub fn time_to_head(&self) -> Duration {
        let last = self.attempts.last().map(|last| (last.began(), last.head()));
        time_to_head(last, self.facts.took())
    }

    /// The attempt at that endpoint, the last one of several.
    pub fn attempt_at(&mut self, endpoint: &str) -> Option<&mut NotedAttempt> {
        let ExchangeRecord { arena, attempts, .. } = self;
        let mut last_first = attempts.iter_mut().rev();
        last_first.find(|attempt| attempt.endpoint().of(arena) == endpoint.as_bytes())
    }

    /// Notes that it is the attempt at that endpoint which decides what comes of the exchange.
    pub fn decide_by(&mut self, endpoint: &str) {
        let ExchangeRecord { arena, attempts, .. } = self;
        let is_it = |attempt: &NotedAttempt| attempt.endpoint().of(arena) == endpoint.as_bytes();
        if let Some(place) = attempts.iter().rposition(is_it) {
            attempts[place..].rotate_left(1);
        }
    }

    /// Notes that the attempt at that endpoint has ended, so long after the start of the exchange.
    pub fn end_attempt(&mut self, endpoint: &str, at: Duration, error: Option<Error>) {
        let code = error.map(|error| error.kind.code().as_bytes());
        let code = code.map(|code| self.push_within(MAX_TEXTS, code));
        let Some(attempt) = self.attempt_at(endpoint) else { return };
        attempt.set_took(Some(at.saturating_sub(attempt.began())));
        attempt.set_error(code.unwrap_or_default());
        attempt.set_caused_by(error.map(|error| error.side));
    }
}
