//! The attempts of an exchange: which endpoint was asked when, over what, and how it has responded.

use super::{ExchangeRecord, MAX_ATTEMPTS, MAX_TEXTS, Place};
use std::time::Duration;
use titan_http::Status;
use titan_io::error::{Error, Side};

/// The request sent to one endpoint, or meant to be. `T` is a text: where it is, or what it says.
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

impl<T> Attempted<T> {
    /// The same with other texts.
    pub(super) fn map<U>(self, mut text: impl FnMut(T) -> U) -> Attempted<U> {
        let Attempted { error, upstream, endpoint, balance, .. } = self;
        Attempted {
            error: text(error),
            upstream: text(upstream),
            endpoint: text(endpoint),
            balance: text(balance),
            choices: self.choices,
            kind: self.kind,
            number: self.number,
            is_reused: self.is_reused,
            began: self.began,
            took: self.took,
            connect: self.connect,
            tls: self.tls,
            head: self.head,
            status: self.status,
            caused_by: self.caused_by,
        }
    }
}

/// How long it took from the start of an exchange to the head of its response; where the gateway has responded by itself, to the
/// end.
pub(super) fn time_to_head<T>(last: Option<&Attempted<T>>, took: Duration) -> Duration {
    let headed = last.and_then(|last| Some(last.began + last.head?));
    headed.unwrap_or(took)
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
        let number = self.facts.attempts;
        self.facts.attempts = number.saturating_add(1);
        // The same endpoint may be asked again over another connection, without being chosen anew.
        let before = self.attempts.last().and_then(|last| Some(last.began + last.took?));
        let began = before.map_or(began, |end| began.max(end));
        let [upstream, endpoint, balance] =
            [upstream, endpoint, balance].map(|text| self.push_within(MAX_TEXTS, text.as_bytes()));
        if self.attempts.len() >= MAX_ATTEMPTS {
            self.attempts.pop();
        }
        self.attempts.push(Attempted {
            kind,
            number,
            is_reused: true,
            began,
            took: None,
            connect: None,
            tls: None,
            head: None,
            status: None,
            caused_by: None,
            error: Place::default(),
            upstream,
            endpoint,
            balance,
            choices: u16::try_from(choices).unwrap_or(u16::MAX),
        });
    }

    /// The attempt that began last.
    pub fn last_attempt(&mut self) -> Option<&mut Attempted<Place>> {
        self.attempts.last_mut()
    }

    /// How long it took to the head of the response.
    pub fn time_to_head(&self) -> Duration {
        time_to_head(self.attempts.last(), self.facts.took)
    }

    /// The attempt at that endpoint, the last one of several.
    pub fn attempt_at(&mut self, endpoint: &str) -> Option<&mut Attempted<Place>> {
        let ExchangeRecord { arena, attempts, .. } = self;
        let mut last_first = attempts.iter_mut().rev();
        last_first.find(|attempt| attempt.endpoint.of(arena) == endpoint.as_bytes())
    }

    /// Notes that it is the attempt at that endpoint which decides what comes of the exchange.
    pub fn decide_by(&mut self, endpoint: &str) {
        let ExchangeRecord { arena, attempts, .. } = self;
        let is_it = |attempt: &Attempted<Place>| attempt.endpoint.of(arena) == endpoint.as_bytes();
        if let Some(place) = attempts.iter().rposition(is_it) {
            attempts[place..].rotate_left(1);
        }
    }

    /// Notes that the attempt at that endpoint has ended, so long after the start of the exchange.
    pub fn end_attempt(&mut self, endpoint: &str, at: Duration, error: Option<Error>) {
        let code = error.map(|error| error.kind.code().as_bytes());
        let code = code.map(|code| self.push_within(MAX_TEXTS, code));
        let Some(attempt) = self.attempt_at(endpoint) else { return };
        attempt.took = Some(at.saturating_sub(attempt.began));
        attempt.error = code.unwrap_or_default();
        attempt.caused_by = error.map(|error| error.side);
    }
}
