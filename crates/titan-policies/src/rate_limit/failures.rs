//! Limits on failures: whoever shows too much that is wrong is not looked at any more for a while.

use super::cells::RateLimitCells;
use super::limiter::{Limiter, Pace};
use super::table::Maker;
use super::{Rate, mask_of, seconds, since, write_all, write_client, write_retry_after};
use crate::authorise::user_shown;
use crate::context::{PolicyContext, Step};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Instant;
use titan_http::{BadField, FieldName, ResponseHead, Status};
use titan_io::error::{Error, Kind};

/// A policy, with the numbers that all workers count in.
pub(crate) struct FailureLimit {
    by_client: Option<Limiter>,
    by_name: Option<Limiter>,
    mask: u128,
    is_shadow: bool,
    /// Keyed anew at each start: nobody can choose two keys that count as one.
    hasher: RandomState,
    started: Instant,
    /// What is allowed, in words.
    words: Box<str>,
    /// Its place among the cells of rate limits.
    cells: usize,
}

/// What the failure of a request that is about to be judged would be counted by.
pub(crate) struct Asking {
    client: Option<u64>,
    /// The user whose password it shows.
    name: Option<u64>,
    shows_authorization: bool,
}

/// The seconds after which to come again, where a request was not looked at.
#[derive(Default)]
pub(crate) struct FailureState(Option<u64>);

impl FailureLimit {
    /// The policy whose place among the rate limits is `cells`.
    pub(crate) fn new(limit: &titan_config::FailureLimit, cells: usize) -> FailureLimit {
        let titan_config::FailureLimit { by_client, by_name, ipv6_prefix, shadow, capacity } =
            limit;
        let capacity = capacity.get().try_into().unwrap_or(usize::MAX);
        let limiter = |rate: &Rate| Limiter::new([[Pace::of(rate)].into()].into(), None, capacity);
        FailureLimit {
            by_client: by_client.as_ref().map(limiter),
            by_name: by_name.as_ref().map(limiter),
            mask: mask_of(*ipv6_prefix),
            is_shadow: *shadow,
            hasher: RandomState::new(),
            started: Instant::now(),
            words: words(limit).into(),
            cells,
        }
    }

    /// What is allowed, in words.
    pub(crate) fn explain(&self) -> String {
        self.words.to_string()
    }

    /// Lets a request be judged, unless its client or its user has failed too often.
    pub(crate) fn on_request(
        &self,
        meeting: &PolicyContext<'_>,
        note: &mut FailureState,
        cells: &[RateLimitCells],
    ) -> Result<Asking, Error> {
        let asking = self.asking(meeting);
        let now = since(self.started);
        let wait_of = |limiter: &Option<Limiter>, key: Option<u64>| {
            limiter.as_ref().zip(key).map_or(0, |(limiter, key)| limiter.wait(key, now))
        };
        let wait = wait_of(&self.by_client, asking.client).max(wait_of(&self.by_name, asking.name));
        let cells = &cells[self.cells];
        match wait {
            0 => cells.allowed.add(1),
            _ if self.is_shadow => cells.shadowed.add(1),
            wait => {
                cells.limited.add(1);
                *note = FailureState(Some(seconds(wait)));
                return Err(Kind::TooManyFailures.into());
            }
        }
        Ok(asking)
    }

    /// Counts a request that has shown something wrong, whatever was decided of it then: also who is let in by something
    /// else, or refused for another reason, has had a guess looked at.
    pub(crate) fn count(
        &self,
        asking: &Asking,
        judged: &Result<Step, Error>,
        meeting: &PolicyContext<'_>,
    ) {
        let is_refused = match judged {
            Err(error) => match error.kind {
                Kind::TokenInvalid | Kind::TokenAmbiguous => true,
                Kind::AuthAnonymous => asking.shows_authorization,
                _ => false,
            },
            Ok(Step::Respond(response)) => {
                response.head.status == Status::UNAUTHORIZED && asking.shows_authorization
            }
            Ok(Step::Go) => false,
        };
        let found = &*meeting.findings;
        let maker = Maker::new(meeting.worker);
        let charge = |limiter: &Option<Limiter>, key: Option<u64>| {
            if let Some((limiter, key)) = limiter.as_ref().zip(key) {
                limiter.owe(key, maker, || since(self.started));
            }
        };
        if is_refused || found.is_key_wrong || found.is_password_wrong {
            charge(&self.by_client, asking.client);
        }
        if found.is_password_wrong {
            charge(&self.by_name, asking.name);
        }
    }

    pub(crate) fn on_response(
        &self,
        note: &FailureState,
        head: &mut ResponseHead,
    ) -> Result<(), BadField> {
        note.0.map_or(Ok(()), |wait| write_retry_after(&mut head.fields, wait))
    }

    fn asking(&self, meeting: &PolicyContext<'_>) -> Asking {
        let fields = &meeting.request.fields;
        let client = self.by_client.as_ref().map(|_| {
            let mut hasher = self.hasher.build_hasher();
            write_client(&mut hasher, meeting.client(), self.mask);
            hasher.finish()
        });
        let name = self.by_name.as_ref().and_then(|_| {
            let mut hasher = self.hasher.build_hasher();
            write_all(&mut hasher, std::iter::once(user_shown(fields)?.as_slice()));
            Some(hasher.finish())
        });
        let shows_authorization = fields.get(FieldName::Authorization).is_some();
        Asking { client, name, shows_authorization }
    }
}

fn words(limit: &titan_config::FailureLimit) -> String {
    let of = |rate: Option<Rate>, whom: &str| {
        rate.map(|rate| format!("{rate} for each {whom} with bursts up to {}", rate.burst))
    };
    let both = [of(limit.by_client, "client"), of(limit.by_name, "user name")];
    let both = both.into_iter().flatten().collect::<Vec<_>>().join(", ");
    format!("failures at most {both}{}", if limit.shadow { " (watched only)" } else { "" })
}
