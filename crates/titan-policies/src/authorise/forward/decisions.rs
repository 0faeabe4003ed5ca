//! A worker's cache of decisions, so that the same question is not asked again for a while.

use crate::buffered_response::BufferedResponse;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use titan_http::{FieldName, ResponseHead};
use titan_io::clock::{Clock, CoarseInstant};

/// The decisions of a worker, by their policy and a digest of what they were made by: what clients show is not kept.
#[derive(Default)]
pub(crate) struct Decisions {
    key: OnceCell<Option<hmac::Key>>,
    by_owner: RefCell<HashMap<u64, PolicyDecisions>>,
}

/// The policy that decisions belong to, as long as some configuration has it.
pub(super) struct Owner {
    /// No policy of this process has had the same.
    id: u64,
}

/// Of what a decision was made by, under a key that the worker has made for itself.
pub(super) type Digest = [u8; 32];

/// The keys of a decision.
#[derive(Clone, Copy)]
pub(super) struct Digests {
    /// Of what is configured: what lets one request pass lets those pass that are alike in that.
    pub(super) of_key: Digest,
    /// Of all that the service sees. A refusal may name the requested page, as a redirect to a login does: it is for
    /// nobody else.
    pub(super) of_all: Digest,
}

/// A digest that is being computed.
pub(super) struct Digesting(hmac::Context);

/// The decisions of a policy. Each kind has its own room: anyone can make up requests that are refused, and must not
/// push out decisions that let others pass.
struct PolicyDecisions {
    owner: Weak<Owner>,
    consents: Table,
    refusals: Table,
}

#[derive(Default)]
struct Table {
    decisions: HashMap<Digest, Decision>,
    /// Each of them by its turn, the oldest first.
    order: BTreeMap<u64, Digest>,
    /// The turn of the next one.
    next: u64,
}

struct Decision {
    turn: u64,
    until: CoarseInstant,
    response: Rc<BufferedResponse>,
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
        owner: &Owner,
        digests: &Digests,
        clock: &Clock,
    ) -> Option<Rc<BufferedResponse>> {
        let by_owner = self.by_owner.borrow();
        let known = by_owner.get(&owner.id)?;
        let refusal = || known.refusals.get(&digests.of_all, clock);
        known.consents.get(&digests.of_key, clock).or_else(refusal)
    }

    /// Notes what was decided for as long as `lasts`. As many consents as `capacity` are kept for the policy, and as many
    /// refusals.
    pub(super) fn put(
        &self,
        (owner, capacity): (&Arc<Owner>, usize),
        digests: &Digests,
        response: BufferedResponse,
        (clock, lasts): (&Clock, Duration),
    ) {
        if response.head.fields.text().len() + response.body.len() > MAX_KEPT {
            return;
        }
        let mut by_owner = self.by_owner.borrow_mut();
        let known = by_owner.entry(owner.id).or_insert_with(|| PolicyDecisions::new(owner));
        let (table, digest) = match response.head.status.is_success() {
            true => (&mut known.consents, digests.of_key),
            false => (&mut known.refusals, digests.of_all),
        };
        table.put(digest, clock.deadline(lasts), response);
        table.make_room(capacity, clock);
    }

    /// Forgets those of policies that are gone.
    pub(in super::super) fn sweep(&self) {
        self.by_owner.borrow_mut().retain(|_, known| known.owner.strong_count() > 0);
    }
}

impl Owner {
    /// A policy that has decided nothing.
    pub(super) fn new() -> Owner {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Owner { id: NEXT.fetch_add(1, Ordering::Relaxed) }
    }
}

impl PolicyDecisions {
    fn new(owner: &Arc<Owner>) -> PolicyDecisions {
        PolicyDecisions {
            owner: Arc::downgrade(owner),
            consents: Table::default(),
            refusals: Table::default(),
        }
    }
}

impl Table {
    fn get(&self, digest: &Digest, clock: &Clock) -> Option<Rc<BufferedResponse>> {
        let Decision { until, response, .. } = self.decisions.get(digest)?;
        (!clock.is_past(*until)).then(|| Rc::clone(response))
    }

    /// Notes a decision as the newest, also in place of one that is known.
    fn put(&mut self, digest: Digest, until: CoarseInstant, response: BufferedResponse) {
        let turn = self.next;
        self.next += 1;
        let decision = Decision { turn, until, response: Rc::new(response) };
        if let Some(before) = self.decisions.insert(digest, decision) {
            self.order.remove(&before.turn);
        }
        self.order.insert(turn, digest);
    }

    /// Forgets the oldest while they are too many or over.
    fn make_room(&mut self, capacity: usize, clock: &Clock) {
        let Table { decisions, order, .. } = self;
        while let Some(oldest) = order.first_entry() {
            let is_over = decisions.get(oldest.get()).is_none_or(|it| clock.is_past(it.until));
            if decisions.len() <= capacity && !is_over {
                return;
            }
            decisions.remove(&oldest.remove());
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

    const TTL: Duration = Duration::from_secs(5);

    /// What a worker has decided for one policy with room for two of each kind.
    struct Scene {
        decisions: Decisions,
        clock: Rc<Clock>,
        owner: Arc<Owner>,
    }

    impl Scene {
        fn new() -> Scene {
            Scene {
                decisions: Decisions::default(),
                clock: Clock::new(),
                owner: Arc::new(Owner::new()),
            }
        }

        fn digests(&self, text: &str) -> Digests {
            let mut digesting = self.decisions.digest().unwrap();
            digesting.add(text.as_bytes());
            let digest = digesting.end().unwrap();
            Digests { of_key: digest, of_all: digest }
        }

        fn put_for(
            &self,
            owner: &Arc<Owner>,
            text: &str,
            status: u16,
            body: usize,
            lasts: Duration,
        ) {
            let response = BufferedResponse { head: head(status, &[]), body: vec![0; body] };
            self.decisions.put((owner, 2), &self.digests(text), response, (&self.clock, lasts));
        }

        fn put(&self, text: &str, status: u16) {
            self.put_for(&self.owner, text, status, 0, TTL);
        }

        fn has_for(&self, owner: &Owner, text: &str) -> bool {
            self.decisions.get(owner, &self.digests(text), &self.clock).is_some()
        }

        fn has<const N: usize>(&self, texts: [&str; N]) -> [bool; N] {
            texts.map(|text| self.has_for(&self.owner, text))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_are_kept_for_so_long() {
        let scene = Scene::new();
        scene.put("a", 200);
        scene.put("b", 200);
        scene.put_for(&scene.owner, "long", 200, MAX_KEPT + 1, TTL);
        assert_eq!(scene.has(["a", "b", "c", "long"]), [true, true, false, false]);
        scene.put("c", 200);
        assert_eq!(scene.has(["a", "b", "c"]), [false, true, true]);
        tokio::time::advance(TTL * 2).await;
        scene.clock.tick();
        assert_eq!(scene.has(["b", "c"]), [false, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_push_out_no_consents() {
        let scene = Scene::new();
        scene.put("ann", 200);
        (0..100).for_each(|number| scene.put(&format!("invented {number}"), 401));
        assert_eq!(scene.has(["ann", "invented 97", "invented 98"]), [true, false, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_decision_that_is_renewed_is_the_newest() {
        let scene = Scene::new();
        ["a", "b", "a", "c"].iter().for_each(|text| scene.put(text, 200));
        assert_eq!(scene.has(["a", "b", "c"]), [true, false, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_over_takes_no_memory() {
        let scene = Scene::new();
        scene.put_for(&scene.owner, "a", 200, 0, Duration::from_secs(1));
        tokio::time::advance(TTL).await;
        scene.clock.tick();
        scene.put("b", 200);
        assert_eq!(scene.decisions.by_owner.borrow()[&scene.owner.id].consents.decisions.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_decision_is_for_its_policy_alone_and_lasts_no_longer() {
        let (scene, other) = (Scene::new(), Arc::new(Owner::new()));
        scene.put("a", 200);
        assert!(!scene.has_for(&other, "a"));
        scene.put_for(&other, "b", 200, 0, TTL);
        assert_eq!((scene.has(["a", "b"]), scene.has_for(&other, "b")), ([true, false], true));
        drop(other);
        scene.decisions.sweep();
        assert_eq!((scene.has(["a"]), scene.decisions.by_owner.borrow().len()), ([true], 1));
    }
}
