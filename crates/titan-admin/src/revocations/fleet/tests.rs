//! Gateways that tell each other what is revoked, over a stream that may be lost: what they come to know.

use super::super::entry::Tokens;
use super::super::tests::Place;
use super::*;
use proptest::prelude::*;
use titan_config::Config;

const NOW: u64 = 1_000_000;
const CONFIG: &str = "{ listeners: [':1'], routes: [{ respond: 200 }], apply: [p], \
    policies: { p: { jwt: { providers: { algorithms: EdDSA, keys: { jwks: k } } } } }, \
    stores: { s: { address: 'redis://127.0.0.1:1', hash_key: 0123456789abcdef } }, \
    jwt_revocations: { file: r, store: s } }";

/// A gateway, and what it has read of which stream.
struct Member {
    place: Place,
    revoked: RevocationStore,
    life: u64,
    read: usize,
}

/// All of them, and their stream.
struct Gateways {
    members: Vec<Member>,
    life: u64,
    stream: Vec<Option<Vec<u8>>>,
}

fn open(place: &Place, capacity: usize) -> RevocationStore {
    let revoked =
        RevocationStore::new(&place.file(), capacity, &Config::parse("test", CONFIG).unwrap());
    revoked.open_at(NOW).unwrap();
    revoked
}

fn subject(name: u8, issued: u64, ends: u64) -> Tokens {
    let text = format!("{{\"sub\":\"{name}\",\"iat\":{issued},\"exp\":{}}}", NOW + ends);
    serde_json::from_str(&text).unwrap()
}

fn id(index: usize) -> EntryId {
    format!("{}-0", index + 1).parse().unwrap()
}

/// What is revoked there, whatever the ids.
fn known(revoked: &RevocationStore) -> Vec<String> {
    let tokens = revoked.list(0, 1000, NOW).into_iter().map(|it| format!("{:?}", it.tokens));
    let mut tokens: Vec<_> = tokens.collect();
    tokens.sort();
    tokens
}

impl Gateways {
    fn of(capacities: [usize; 3]) -> Gateways {
        let member = |capacity| {
            let place = Place::new();
            let revoked = open(&place, capacity);
            Member { place, revoked, life: 0, read: 0 }
        };
        Gateways { members: capacities.map(member).into(), life: 1, stream: Vec::new() }
    }

    /// Reads to the end. Tells whether there was room for all.
    fn read(&mut self, member: usize) -> bool {
        let Member { revoked, life, read, .. } = &mut self.members[member];
        if *life != self.life {
            (*life, *read) = (self.life, 0);
            revoked.lock().entries.forget_told();
        }
        let new = self.stream.iter().enumerate().skip(*read);
        let parse = |(index, entry): (usize, &Option<Vec<u8>>)| {
            Some((id(index), serde_json::from_slice(entry.as_ref()?).unwrap()))
        };
        let page: Vec<_> = new.filter_map(parse).collect();
        *read = self.stream.len();
        revoked.hear(page, NOW).1
    }

    /// What the thread of a gateway does, once.
    fn sync(&mut self, member: usize) {
        self.read(member);
        loop {
            let (entries, before) = self.members[member].revoked.to_tell(NOW);
            if entries.is_empty() {
                break;
            }
            self.stream.extend(entries.into_iter().map(Some));
            self.read(member);
            let left = self.members[member].revoked.lock().entries.untold();
            assert!(left < before, "{left} of {before} are still to be told");
        }
        let garbage = self.members[member].revoked.lock().entries.take_garbage(MAX_REMOVED);
        (0..self.stream.len()).for_each(|index| {
            if garbage.contains(&id(index)) {
                self.stream[index] = None;
            }
        });
    }

    fn sync_all(&mut self) {
        (0..6).for_each(|turn| self.sync(turn % 3));
    }

    fn lift(&self, member: usize, place: usize) {
        let revoked = &self.members[member].revoked;
        let ids: Vec<_> = revoked.list(0, 1000, NOW).iter().map(|entry| entry.id).collect();
        if let Some(id) = ids.get(place % ids.len().max(1)) {
            assert!(revoked.lift(*id, NOW).unwrap().is_some());
        }
    }

    fn lives_on(&mut self, member: usize) {
        let Member { place, revoked, life, .. } = &mut self.members[member];
        revoked.close();
        (*revoked, *life) = (open(place, 100), 0);
    }
}

#[derive(Clone, Debug)]
enum Act {
    Revoke(Tokens),
    Lift(usize),
    Sync,
    /// The gateway starts again.
    Restart,
    /// The store loses everything.
    Lose,
}

fn acts() -> impl Strategy<Value = Vec<(usize, Act)>> {
    let revoke = (0..3u8, 0..4u64, 1..4u64);
    let act = prop_oneof![
        4 => revoke.prop_map(|(name, issued, ends)| Act::Revoke(subject(name, issued, ends * 1000))),
        3 => (0..3_usize).prop_map(Act::Lift),
        4 => Just(Act::Sync),
        1 => Just(Act::Restart),
        1 => Just(Act::Lose),
    ];
    proptest::collection::vec((0..3_usize, act), 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    /// Whatever has happened, all know the same once they have heard each other, and the stream has it, once. And where each knew
    /// everything before anything was said, that is what was said.
    #[test]
    fn all_come_to_know_the_same(acts in acts(), is_in_turn in any::<bool>()) {
        let mut gateways = Gateways::of([100; 3]);
        let alone = { let place = Place::new(); (open(&place, 100), place) };
        for (member, act) in acts {
            if is_in_turn {
                gateways.sync_all();
            }
            match act {
                Act::Revoke(tokens) => {
                    gateways.members[member].revoked.revoke(tokens.clone(), NOW).unwrap();
                    alone.0.revoke(tokens, NOW).unwrap();
                }
                Act::Lift(place) => {
                    // Each has its own ids, and so its own order.
                    let list = gateways.members[member].revoked.list(0, 1000, NOW);
                    let lifted = list.get(place % list.len().max(1)).map(|it| it.tokens.target());
                    gateways.lift(member, place);
                    let twin = alone.0.list(0, 1000, NOW).into_iter();
                    let twin = twin.filter(|it| Some(it.tokens.target()) == lifted);
                    twin.for_each(|it| drop(alone.0.lift(it.id, NOW).unwrap()));
                }
                Act::Sync => gateways.sync(member),
                Act::Restart => gateways.lives_on(member),
                Act::Lose => (gateways.life, gateways.stream) = (gateways.life + 1, Vec::new()),
            }
        }
        gateways.sync_all();
        let all: Vec<_> = gateways.members.iter().map(|it| known(&it.revoked)).collect();
        prop_assert_eq!(&all[0], &all[1]);
        prop_assert_eq!(&all[1], &all[2]);
        if is_in_turn {
            prop_assert_eq!(&all[0], &known(&alone.0));
        }
        let kept = gateways.stream.iter().flatten().count();
        let entries = gateways.members[0].revoked.lock().entries.all().len();
        prop_assert_eq!(kept, entries);
        // And it is in each file.
        for member in 0..3 {
            gateways.lives_on(member);
            prop_assert_eq!(&known(&gateways.members[member].revoked), &all[0]);
        }
    }
}

#[test]
fn an_older_revocation_does_not_undo_a_withdrawal() {
    let mut gateways = Gateways::of([100; 3]);
    gateways.members[0].revoked.revoke(subject(1, 5, 1000), NOW).unwrap();
    gateways.sync_all();
    // The third one is cut off from here on, and the store loses everything.
    gateways.lift(1, 0);
    (gateways.life, gateways.stream) = (2, Vec::new());
    gateways.sync(1);
    gateways.sync(0);
    assert_eq!(known(&gateways.members[2].revoked).len(), 1);
    gateways.sync(2);
    gateways.sync_all();
    assert!(gateways.members.iter().all(|it| known(&it.revoked).is_empty()));
}

#[test]
fn of_two_that_could_not_hear_each_other_both_revoke() {
    let mut gateways = Gateways::of([100; 3]);
    gateways.members[0].revoked.revoke(subject(1, 9, 1000), NOW).unwrap();
    gateways.members[1].revoked.revoke(subject(1, 5, 2000), NOW + 60).unwrap();
    gateways.sync_all();
    for member in &gateways.members {
        let both = &member.revoked.list(0, 10, NOW)[0].tokens;
        assert_eq!(*both, subject(1, 9, 2000));
    }
}

#[test]
fn what_there_is_no_room_for_is_told_and_heard_when_there_is() {
    let mut gateways = Gateways::of([100, 100, 2]);
    for name in 0..4 {
        gateways.members[0].revoked.revoke(subject(name, 5, 1000), NOW).unwrap();
    }
    gateways.sync(0);
    assert!(gateways.read(1) && !gateways.read(2));
    assert_eq!(known(&gateways.members[2].revoked).len(), 2);
    gateways.sync_all();
    assert_eq!(
        known(&gateways.members[0].revoked).len(),
        4,
        "nobody forgets what another has no room for"
    );
}

#[test]
fn a_stream_that_is_gone_is_not_waited_for() {
    let place = Place::new();
    let revoked = open(&place, 100);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    revoked.revoke(subject(1, 5, 1000), NOW).unwrap();
    assert_eq!(runtime.block_on(revoked.published(1)), Some(false));
    assert_eq!(revoked.is_published(1), Some(false));
    let (entries, untold) = revoked.to_tell(NOW);
    assert_eq!((entries.len(), untold), (1, 1));
    let theirs = serde_json::from_slice(&entries[0]).unwrap();
    assert_eq!(revoked.hear(vec![(id(0), theirs)], NOW), (0, true), "it is what was known");
    assert_eq!(runtime.block_on(revoked.published(1)), Some(true));
}
