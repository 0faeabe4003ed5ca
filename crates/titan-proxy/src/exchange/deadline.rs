//! The deadline of a request: one for all its attempts, pauses and queues, passed on with each attempt.

use super::attempt::SendOptions;
use super::{Exchange, Record};
use crate::grpc;
use std::time::Duration;
use titan_config::RouteTimeouts;
use titan_http::Fields;
use titan_io::body::{RequestBody, ResponseSink};
use titan_io::clock::CoarseInstant;
use titan_io::error::{Error, Kind};

impl<'x, B: RequestBody + ?Sized, S: ResponseSink + ?Sized> Exchange<'x, B, S> {
    /// Notes how long the request may take: as long as its client says, and no longer than its route allows.
    pub(super) fn note_deadline(&mut self, timeouts: &RouteTimeouts) -> Result<(), Error> {
        let RouteTimeouts { total, deadline_header, .. } = timeouts;
        let fields = &self.request.fields;
        let of_call = match self.record.dialect {
            Some(_) => grpc::timeout(fields)?,
            None => None,
        };
        let of_field = match deadline_header {
            Some(name) => read_timeout(fields, name.as_str().as_bytes())?,
            None => None,
        };
        let sooner =
            |one: Option<Duration>, other: Option<Duration>| one.into_iter().chain(other).min();
        self.record.timeout = sooner(of_call, of_field);
        self.record.deadline = sooner(self.record.timeout, total.at_most());
        Ok(())
    }

    /// What is left of the time that the request may take.
    pub(super) fn time_left(&self) -> Result<Option<Duration>, Error> {
        let Record { deadline, started, .. } = self.record;
        let Some(deadline) = deadline else { return Ok(None) };
        let left = deadline.saturating_sub(started.elapsed());
        if left.is_zero() { Err(Kind::Deadline.into()) } else { Ok(Some(left)) }
    }

    /// Until when the request may take.
    pub(super) fn deadline(&self) -> Result<CoarseInstant, Error> {
        Ok(self.worker.io.clock.deadline(self.time_left()?.unwrap_or(Duration::MAX)))
    }

    /// What is left of the time that the route gives the request, where that ends first. An endpoint that takes longer has failed. It
    /// has not where the client gives its request less: clients could have any endpoint ejected.
    pub(super) fn time_of_route(&self, how: SendOptions<'_>) -> Option<Duration> {
        let total = self.record.deadline.and(how.timeouts.total.at_most())?;
        let is_first = self.record.timeout.is_none_or(|of_client| total <= of_client);
        is_first.then(|| total.saturating_sub(self.record.started.elapsed()))
    }

    /// What a failure is to the client when the time of its request is over as well.
    pub(super) fn or_late(&self, error: Error) -> Error {
        let is_late =
            matches!(error.kind, Kind::ConnectTimeout | Kind::QueueTimeout | Kind::ResponseTimeout);
        match is_late && self.time_left().is_err() {
            true => Kind::Deadline.into(),
            false => error,
        }
    }

    /// What a failure of an endpoint is to the client. One that ends its stream because the time is over may do
    /// so before the gateway's own timer, which is coarser.
    pub(super) fn or_deadline(&self, error: Error) -> Error {
        let gives_up = matches!(error.kind, Kind::Reset | Kind::Truncated);
        match gives_up && self.time_left().is_err() {
            true => Kind::Deadline.into(),
            false => error,
        }
    }

    /// Tells an endpoint what is left of the time that the request may take.
    pub(super) fn pass_on_deadline(&mut self, how: SendOptions<'_>) -> Result<(), Error> {
        let Some(left) = self.time_left()? else { return Ok(()) };
        let fields = &mut self.request.fields;
        if self.record.dialect.is_some() {
            grpc::set_timeout(fields, left).map_err(|_| Kind::Internal)?;
        }
        if let Some(name) = &how.timeouts.deadline_header {
            // Rounded down, so that nobody has more time than there is, and not longer than what this gateway would accept.
            let left = left.as_millis().min(MOST_MILLIS).to_string();
            fields
                .set_named(name.as_str().as_bytes(), left.as_bytes())
                .map_err(|_| Kind::Internal)?;
        }
        Ok(())
    }
}

/// How many digits a deadline has at most: a day has eight.
const DIGITS: usize = 9;
/// The longest that they can tell.
const MOST_MILLIS: u128 = 999_999_999;

/// The milliseconds that a client gives its request in the field of that name.
fn read_timeout(fields: &Fields, name: &[u8]) -> Result<Option<Duration>, Kind> {
    let mut values = fields.named(name);
    let value = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => value,
        (Some(_), Some(_)) => return Err(Kind::BadDeadlineField),
    };
    if !(1..=DIGITS).contains(&value.len()) || !value.iter().all(u8::is_ascii_digit) {
        return Err(Kind::BadDeadlineField);
    }
    let millis = value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    Ok(Some(Duration::from_millis(millis)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_a_number_of_milliseconds() {
        let read = |values: &[&str]| {
            let mut fields = Fields::default();
            for value in values {
                fields.append_named(b"X-Deadline", value.as_bytes()).unwrap();
            }
            read_timeout(&fields, b"x-deadline")
        };
        assert_eq!(read(&[]), Ok(None));
        for (value, millis) in [("0", 0), ("1", 1), ("0250", 250), ("999999999", 999_999_999)] {
            assert_eq!(read(&[value]), Ok(Some(Duration::from_millis(millis))), "{value}");
        }
        for value in ["", "-1", "+1", "1.5", "1s", "1000000000", "0x10", "1, 2"] {
            assert_eq!(read(&[value]), Err(Kind::BadDeadlineField), "{value}");
        }
        assert_eq!(read(&["1", "1"]), Err(Kind::BadDeadlineField));
    }
}
