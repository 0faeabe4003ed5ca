//! Decisions of services that a worker remembers, so that the same question is not asked again for a while.

use crate::buffered_response::BufferedResponse;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use titan_http::{FieldName, ResponseHead};
use titan_io::clock::{Clock, Moment};

/// The decisions of a worker, by the place of their policy and a digest of what they were made by: what clients show is not kept.
#[derive(Default)]
pub struct Decisions {
    key: OnceCell<Option<hmac::Key>>,
    by_policy: RefCell<HashMap<usize, Known>>,
}

/// Of what a decision was made by, under a key that the worker has made for itself.
pub(super) type Digest = [u8; 32];

/// What a digest is made of.
pub(super) struct Digesting(hmac::Context);

#[derive(Default)]
struct Known {
    decisions: HashMap<Digest, (Moment, Rc<BufferedResponse>)>,
    /// Each of them, in the order in which they came.
    order: VecDeque<Digest>,
}

/// Bytes of a decision that is kept: its fields and its body.
const MAX_KEPT: usize = 4 << 10;

impl Decisions {
    /// Nothing where the system has no randomness to give.
    pub(super) fn digest(&self) -> Option<Digesting> {
        let new = || hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok();
        let key = self.key.get_or_init(new).as_ref()?;
        Some(Digesting(hmac::Context::with_key(key)))
    }

    /// What was decided not long ago.
    pub(super) fn get(
        &self,
        policy: usize,
        digest: &Digest,
        clock: &Clock,
    ) -> Option<Rc<BufferedResponse>> {
        let by_policy = self.by_policy.borrow();
        let (until, response) = by_policy.get(&policy)?.decisions.get(digest)?;
        (!clock.is_past(*until)).then(|| Rc::clone(response))
    }

    /// Notes what was decided, of which as many as `capacity` are kept for the policy.
    pub(super) fn put(
        &self,
        (policy, capacity): (usize, usize),
        digest: Digest,
        until: Moment,
        response: BufferedResponse,
    ) {
        if response.head.fields.text().len() + response.body.len() > MAX_KEPT {
            return;
        }
        let mut by_policy = self.by_policy.borrow_mut();
        let Known { decisions, order } = by_policy.entry(policy).or_default();
        if decisions.insert(digest, (until, Rc::new(response))).is_some() {
            return;
        }
        order.push_back(digest);
        if order.len() > capacity
            && let Some(oldest) = order.pop_front()
        {
            decisions.remove(&oldest);
        }
    }
}

impl Digesting {
    /// Adds a part, so that no two lists of parts are alike.
    pub(super) fn add(&mut self, part: &[u8]) {
        self.0.update(&part.len().to_be_bytes());
        self.0.update(part);
    }

    pub(super) fn end(self) -> Option<Digest> {
        self.0.sign().as_ref().try_into().ok()
    }
}

/// How long a decision with that head may be kept, at most for `ttl`; nothing where it may not be at all.
pub(super) fn lasts(head: &ResponseHead, ttl: Duration) -> Option<Duration> {
    // What a cookie is set by is meant for one client, and a service that is overloaded has decided nothing.
    let decides = head.status.is_success()
        || matches!(head.status.code(), 300..=499)
            && !matches!(head.status.code(), 408 | 425 | 429);
    if !decides || head.fields.get(FieldName::SetCookie).is_some() {
        return None;
    }
    let (mut lasts, mut shared) = (ttl, None);
    for directive in head.fields.members(FieldName::CacheControl) {
        let end = directive.iter().position(|&byte| byte == b'=').unwrap_or(directive.len());
        let (name, value) = directive.split_at(end);
        let seconds = || {
            let digits = value.strip_prefix(b"=").unwrap_or(value).trim_ascii();
            let digits =
                digits.strip_prefix(b"\"").and_then(|it| it.strip_suffix(b"\"")).unwrap_or(digits);
            // One that cannot be read is over (RFC 9111 section 4.2.1).
            std::str::from_utf8(digits).ok().and_then(|it| it.parse().ok()).unwrap_or(0)
        };
        match name.trim_ascii().to_ascii_lowercase().as_slice() {
            b"no-store" | b"no-cache" | b"private" => return None,
            b"max-age" => lasts = lasts.min(Duration::from_secs(seconds())),
            b"s-maxage" => shared = Some(ttl.min(Duration::from_secs(seconds()))),
            _ => {}
        }
    }
    Some(shared.unwrap_or(lasts)).filter(|lasts| !lasts.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_http::Status;

    fn head(status: u16, fields: &[(&str, &str)]) -> ResponseHead {
        let mut head = ResponseHead::with_status(Status::from_code(status).unwrap());
        for (name, value) in fields {
            head.fields.append_named(name.as_bytes(), value.as_bytes()).unwrap();
        }
        head
    }

    #[test]
    fn a_service_says_how_long_its_decision_lasts() {
        let ttl = Duration::from_secs(60);
        let of = |status, value: &str| {
            let lasts = lasts(&head(status, &[("Cache-Control", value)]), ttl);
            lasts.map(|lasts| lasts.as_secs())
        };
        let cases = [
            ("", Some(60)),
            ("public, MAX-AGE=7", Some(7)),
            ("max-age=\"7\"", Some(7)),
            ("max-age=700", Some(60)),
            ("max-age=7, s-maxage=9", Some(9)),
            ("max-age=0", None),
            ("max-age=-1", None),
            ("max-age", None),
            ("max-age=99999999999999999999999", None),
            ("No-Store", None),
            ("max-age=7, no-cache", None),
            ("private", None),
            ("private=\"x\"", None),
        ];
        for (value, expected) in cases {
            assert_eq!(of(200, value), expected, "{value}");
        }
        for (status, is_kept) in [
            (204, true),
            (302, true),
            (401, true),
            (403, true),
            (429, false),
            (500, false),
            (503, false),
        ] {
            assert_eq!(of(status, "").is_some(), is_kept, "{status}");
        }
        assert_eq!(lasts(&head(302, &[("Set-Cookie", "csrf=1")]), ttl), None);
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_are_kept_for_so_long() {
        let (decisions, clock) = (Decisions::default(), Clock::new());
        let digest = |text: &str| {
            let mut digesting = decisions.digest().unwrap();
            digesting.add(text.as_bytes());
            digesting.end().unwrap()
        };
        let response = |body: usize| BufferedResponse { head: head(200, &[]), body: vec![0; body] };
        let put = |text: &str, response| {
            let until = clock.deadline(Duration::from_secs(5));
            decisions.put((1, 2), digest(text), until, response);
        };
        let has = |text: &str| decisions.get(1, &digest(text), &clock).is_some();
        put("a", response(0));
        put("b", response(0));
        put("a", response(0));
        put("long", response(MAX_KEPT + 1));
        assert_eq!(["a", "b", "c", "long"].map(has), [true, true, false, false]);
        put("c", response(0));
        assert_eq!(["a", "b", "c"].map(has), [false, true, true]);
        assert!(decisions.get(2, &digest("b"), &clock).is_none(), "another policy");
        tokio::time::advance(Duration::from_secs(6)).await;
        clock.tick();
        assert_eq!(["b", "c"].map(has), [false, false]);
    }
}
