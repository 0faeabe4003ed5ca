//! Gateways that tell each other what is revoked, over a stream that may be lost: what they come to know.

use super::super::entries::{Entries, MAX_WITHDRAWN};
use super::super::entry::Tokens;
use super::super::log::Log as File;
use super::super::tests::Place;
use super::*;
use proptest::prelude::*;
use titan_config::Config;
use titan_config::bounds::MAX_LEEWAY;
use titan_store::stream::MAX_REMOVED;

const NOW: u64 = 1_000_000;
/// The same time.
const AT: Duration = Duration::from_secs(NOW);
const MILLISECOND: Duration = Duration::from_millis(1);
const CONFIG: &str = "{ listeners: [':1'], routes: [{ respond: 200 }], apply: [p], \
    policies: { p: { jwt: { providers: { algorithms: EdDSA, keys: { jwks: k } } } } }, \
    stores: { s: { address: 'redis://127.0.0.1:1', hash_key: 0123456789abcdef } }, \
    jwt_revocations: { file: r, store: s } }";

/// A gateway, and what it has read of which stream.
struct Member {
    place: Place,
    revoked: RevocationStore,
    life: u64,
    is_cut_off: bool,
    read: usize,
    /// Whether it reads all of it, and has not come to the end.
    reads_all: bool,
    /// How far it has read again what it had read.
    again: Option<usize>,
}

/// All of them, and their stream.
struct Gateways {
    members: Vec<Member>,
    /// How many lives the stream has had, and which it has.
    lives: u64,
    life: u64,
    stream: Vec<Option<Vec<u8>>>,
    /// A copy of the stream.
    saved: (u64, Vec<Option<Vec<u8>>>),
}

fn open(place: &Place, capacity: usize) -> RevocationStore {
    open_with(CONFIG, place, capacity)
}

fn open_with(config: &str, place: &Place, capacity: usize) -> RevocationStore {
    let revoked =
        RevocationStore::new(&place.file(), capacity, &Config::parse("test", config).unwrap());
    revoked.open_at(AT).unwrap();
    revoked
}

/// One that has no store.
fn open_alone(place: &Place) -> RevocationStore {
    open_with(&CONFIG.replace(", store: s", ""), place, 100)
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

impl Member {
    fn of(place: Place, revoked: RevocationStore) -> Member {
        let (life, read, again) = (0, 0, None);
        Member { place, revoked, life, is_cut_off: true, read, reads_all: false, again }
    }
}

impl Gateways {
    fn of(capacities: [usize; 3]) -> Gateways {
        let member = |capacity| {
            let place = Place::new();
            let revoked = open(&place, capacity);
            Member::of(place, revoked)
        };
        let members = capacities.map(member).into();
        Gateways { members, lives: 1, life: 1, stream: Vec::new(), saved: (1, Vec::new()) }
    }

    /// Has a gateway hear a part of the stream. Tells whether there was room for all.
    fn hear(&self, member: usize, from: usize, to: usize) -> bool {
        let part = self.stream.iter().enumerate().take(to).skip(from);
        let parse = |(index, entry): (usize, &Option<Vec<u8>>)| {
            Some((id(index), serde_json::from_slice(entry.as_ref()?).unwrap()))
        };
        self.members[member].revoked.hear(part.filter_map(parse).collect(), (NOW, NOW)).1
    }

    /// Reads to the end. Tells whether there was room for all.
    fn read(&mut self, member: usize) -> bool {
        let it = &mut self.members[member];
        let is_another = it.life != self.life;
        if is_another {
            it.life = self.life;
            it.revoked.lock().entries.forget_told();
        }
        if is_another || it.is_cut_off {
            (it.is_cut_off, it.read, it.reads_all, it.again) = (false, 0, true, None);
            it.revoked.lock().entries.begin_reading();
        }
        let had_room = self.hear(member, self.members[member].read, usize::MAX);
        let it = &mut self.members[member];
        it.read = self.stream.len();
        if std::mem::take(&mut it.reads_all) {
            it.revoked.lock().entries.end_reading();
        }
        had_room
    }

    /// Reads some of what it has read already.
    fn read_again(&mut self, member: usize) {
        let Some(from) = self.members[member].again else { return };
        let to = from + 3;
        self.hear(member, from, to);
        self.members[member].again = Some(to).filter(|to| *to < self.stream.len());
        if self.members[member].again.is_none() {
            self.read(member);
            self.members[member].revoked.lock().entries.end_reading();
        }
    }

    fn begin_again(&mut self, member: usize) {
        self.members[member].again = Some(0);
        self.members[member].revoked.lock().entries.begin_reading();
    }

    /// What the thread of a gateway does, once.
    fn sync(&mut self, member: usize) {
        self.read(member);
        self.read_again(member);
        loop {
            let told = self.members[member].revoked.to_tell(NOW);
            if told.is_empty() {
                break;
            }
            self.stream.extend(told.iter().map(|it| Some(it.written.clone())));
            self.read(member);
            assert!(self.members[member].revoked.has_told(&told), "it does not keep anything");
        }
        let garbage = self.members[member].revoked.lock().entries.take_garbage(MAX_REMOVED);
        (0..self.stream.len()).for_each(|index| {
            if garbage.contains(&id(index)) {
                self.stream[index] = None;
            }
        });
    }

    fn lose(&mut self) {
        self.lives += 1;
        (self.life, self.stream) = (self.lives, Vec::new());
    }

    /// The store is started again from the copy.
    fn restore(&mut self) {
        (self.life, self.stream) = self.saved.clone();
        self.members.iter_mut().for_each(|member| member.is_cut_off = true);
    }

    fn sync_all(&mut self) {
        (0..6).for_each(|turn| self.sync(turn % 3));
        while let Some(member) = self.members.iter().position(|it| it.again.is_some()) {
            self.sync(member);
        }
        (0..6).for_each(|turn| self.sync(turn % 3));
    }

    fn lift(&self, member: usize, place: usize) {
        let revoked = &self.members[member].revoked;
        let ids: Vec<_> = revoked.list(0, 1000, NOW).iter().map(|entry| entry.id).collect();
        if let Some(id) = ids.get(place % ids.len().max(1)) {
            assert!(revoked.lift(*id, AT).unwrap().is_some());
        }
    }

    fn lives_on(&mut self, member: usize) {
        let it = &mut self.members[member];
        it.revoked.close();
        (it.revoked, it.life) = (open(&it.place, 100), 0);
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
    /// The store is copied.
    Save,
    /// The store is started again from the copy.
    Restore,
    /// The gateway reads again what it has read.
    Again,
}

fn acts() -> impl Strategy<Value = Vec<(usize, Act)>> {
    let revoke = (0..3u8, 0..4u64, 1..4u64);
    let act = prop_oneof![
        4 => revoke.prop_map(|(name, issued, ends)| Act::Revoke(subject(name, issued, ends * 1000))),
        3 => (0..3_usize).prop_map(Act::Lift),
        4 => Just(Act::Sync),
        1 => Just(Act::Restart),
        1 => Just(Act::Lose),
        1 => Just(Act::Save),
        1 => Just(Act::Restore),
        2 => Just(Act::Again),
    ];
    proptest::collection::vec((0..3_usize, act), 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    /// Whatever has happened, all know the same once they have heard each other, and the stream has it, once. And where each knew
    /// everything before anything was said, that is what was said; or more, where a copy of the stream has brought back what was
    /// withdrawn and revoked again since.
    #[test]
    fn all_come_to_know_the_same(acts in acts(), is_in_turn in any::<bool>()) {
        let mut gateways = Gateways::of([100; 3]);
        let alone = { let place = Place::new(); (open(&place, 100), place) };
        let is_restored = acts.iter().any(|(_, act)| matches!(act, Act::Restore));
        for (member, act) in acts {
            if is_in_turn {
                gateways.sync_all();
            }
            match act {
                Act::Revoke(tokens) => {
                    gateways.members[member].revoked.revoke(tokens.clone(), AT).unwrap();
                    alone.0.revoke(tokens, AT).unwrap();
                }
                Act::Lift(place) => {
                    // Each has its own ids, and so its own order.
                    let list = gateways.members[member].revoked.list(0, 1000, NOW);
                    let lifted = list.get(place % list.len().max(1)).map(|it| it.tokens.target());
                    gateways.lift(member, place);
                    let twin = alone.0.list(0, 1000, NOW).into_iter();
                    let twin = twin.filter(|it| Some(it.tokens.target()) == lifted);
                    twin.for_each(|it| drop(alone.0.lift(it.id, AT).unwrap()));
                }
                Act::Sync => gateways.sync(member),
                Act::Restart => gateways.lives_on(member),
                Act::Lose => gateways.lose(),
                Act::Save => gateways.saved = (gateways.life, gateways.stream.clone()),
                Act::Restore => gateways.restore(),
                Act::Again => gateways.begin_again(member),
            }
        }
        gateways.sync_all();
        let all: Vec<_> = gateways.members.iter().map(|it| known(&it.revoked)).collect();
        prop_assert_eq!(&all[0], &all[1]);
        prop_assert_eq!(&all[1], &all[2]);
        if is_in_turn && is_restored {
            let list = gateways.members[0].revoked.list(0, 1000, NOW);
            let covers = |it: &Entry| list.iter().any(|known| known.tokens.target() == it.tokens.target() &&
                known.tokens.and(&it.tokens) == known.tokens);
            prop_assert!(alone.0.list(0, 1000, NOW).iter().all(covers));
        } else if is_in_turn {
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
    gateways.members[0].revoked.revoke(subject(1, 5, 1000), AT).unwrap();
    gateways.sync_all();
    // The third one is cut off from here on, and the store loses everything.
    gateways.lift(1, 0);
    gateways.lose();
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
    gateways.members[0].revoked.revoke(subject(1, 9, 1000), AT).unwrap();
    let later = AT + Duration::from_secs(60);
    gateways.members[1].revoked.revoke(subject(1, 5, 2000), later).unwrap();
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
        gateways.members[0].revoked.revoke(subject(name, 5, 1000), AT).unwrap();
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
    revoked.revoke(subject(1, 5, 1000), AT).unwrap();
    assert_eq!(runtime.block_on(revoked.published(1)), Some(false));
    assert_eq!(revoked.is_published(1), Some(false));
    let told = revoked.to_tell(NOW);
    assert_eq!((told.len(), revoked.has_told(&told)), (1, false));
    assert_eq!(revoked.hear(read_back(&told), (NOW, NOW)), (0, true), "it is what was known");
    assert!(revoked.has_told(&told));
    assert_eq!(runtime.block_on(revoked.published(1)), Some(true));
}

/// What was told, as it comes from the stream.
fn read_back(told: &[Telling]) -> Vec<(EntryId, Entry)> {
    let entry = |it: &Telling| serde_json::from_slice(&it.written).unwrap();
    told.iter().enumerate().map(|(index, it)| (id(index), entry(it))).collect()
}

#[test]
fn a_store_is_told_from_one_that_keeps_nothing_whatever_is_revoked_meanwhile() {
    let place = Place::new();
    let revoked = open(&place, 100);
    revoked.revoke(subject(1, 5, 1000), AT).unwrap();
    let told = revoked.to_tell(NOW);
    (2..9).for_each(|name| drop(revoked.revoke(subject(name, 5, 1000), AT).unwrap()));
    assert!(!revoked.has_told(&told));
    revoked.hear(read_back(&told), (NOW, NOW));
    assert!(revoked.has_told(&told));
    // Revoked once more, it is not to be read back as it was.
    let told = revoked.to_tell(NOW);
    (2..9).for_each(|name| drop(revoked.revoke(subject(name, 6, 1000), AT).unwrap()));
    assert!(revoked.has_told(&told));
}

#[test]
fn what_is_revoked_again_stays_so_whatever_was_withdrawn_before() {
    let mut gateways = Gateways::of([100; 3]);
    gateways.members[0].revoked.revoke(subject(1, 5, 1000), AT).unwrap();
    gateways.sync_all();
    gateways.lift(1, 0);
    // The third one has not heard of that.
    let later = AT + Duration::from_secs(1);
    gateways.members[2].revoked.revoke(subject(1, 5, 1000), later).unwrap();
    gateways.sync_all();
    assert!(gateways.members.iter().all(|it| known(&it.revoked).len() == 1));
}

#[test]
fn what_is_said_later_in_the_same_second_counts() {
    let mut gateways = Gateways::of([100; 3]);
    gateways.members[0].revoked.revoke(subject(1, 5, 1000), AT).unwrap();
    gateways.sync_all();
    gateways.members[0].revoked.revoke(subject(1, 5, 1000), AT + MILLISECOND * 200).unwrap();
    gateways.sync_all();
    let lifted = gateways.members[1].revoked.lift(1, AT + MILLISECOND * 700).unwrap();
    assert!(lifted.is_some());
    gateways.sync_all();
    assert!(gateways.members.iter().all(|it| known(&it.revoked).is_empty()));
}

#[test]
fn what_was_revoked_before_there_was_a_store_is_later_than_what_was_withdrawn_before_that() {
    let mut gateways = Gateways::of([100; 3]);
    gateways.members[0].revoked.revoke(subject(1, 5, 1000), AT).unwrap();
    gateways.lift(0, 0);
    gateways.sync(0);
    let place = Place::new();
    let alone = open_alone(&place);
    alone.revoke(subject(1, 5, 1000), AT + Duration::from_secs(1)).unwrap();
    drop(alone);
    let revoked = open(&place, 100);
    gateways.members[2] = Member::of(place, revoked);
    gateways.sync_all();
    assert!(gateways.members.iter().all(|it| known(&it.revoked).len() == 1));
}

#[test]
fn what_an_earlier_version_has_revoked_counts_as_revoked_when_there_is_a_store() {
    let place = Place::new();
    drop(open_alone(&place));
    let (mut file, _) = File::open(&place.file(), |_| Ok(())).unwrap();
    let entry = Entry { id: 1, tokens: subject(1, 5, 1000), stamp: 0, lifts: None };
    file.append(&[Record::Add(entry)]).unwrap();
    drop(file);
    for _ in 0..2 {
        let revoked = open(&place, 100);
        assert_eq!(revoked.list(0, 10, NOW)[0].stamp, 1000 * NOW, "once and for all");
    }
}

#[test]
fn the_stream_keeps_what_others_may_need_whose_clocks_are_behind() {
    let mut gateways = Gateways::of([100; 3]);
    gateways.members[0].revoked.revoke(subject(1, 5, 1000), AT).unwrap();
    gateways.sync_all();
    let ended = NOW + 1000 + MAX_LEEWAY.as_secs();
    let garbage = |gateways: &Gateways, now: u64, by_store: u64| {
        let entry = serde_json::from_slice(gateways.stream.iter().flatten().next().unwrap());
        let revoked = &gateways.members[1].revoked;
        assert_eq!(revoked.list(0, 10, now).len(), 0);
        revoked.hear(vec![(id(9), entry.unwrap())], (now, by_store));
        revoked.lock().entries.take_garbage(MAX_REMOVED)
    };
    assert_eq!(garbage(&gateways, ended, ended), []);
    let over = ended + CLOCKS;
    assert_eq!(garbage(&gateways, over - 1, over), []);
    // One clock alone that is far ahead.
    assert_eq!(garbage(&gateways, over + 1_000_000, over - 1), []);
    assert_eq!(garbage(&gateways, over, over), [id(9)]);
}

#[test]
fn nothing_is_removed_from_the_stream_before_there_is_another_in_its_place() {
    let mut gateways = Gateways::of([100; 3]);
    gateways.members[0].revoked.revoke(subject(1, 5, 1000), AT).unwrap();
    gateways.sync(0);
    let revoked = &gateways.members[0].revoked;
    revoked.revoke(subject(1, 6, 1000), AT).unwrap();
    let garbage = || revoked.lock().entries.take_garbage(MAX_REMOVED);
    assert_eq!(garbage(), []);
    let told = revoked.to_tell(NOW);
    let entry = serde_json::from_slice(&told[0].written).unwrap();
    revoked.hear(vec![(id(1), entry)], (NOW, NOW));
    assert_eq!(garbage(), [id(0)]);
}

#[test]
fn what_a_store_has_lost_is_told_again() {
    for by_reading_again in [false, true] {
        let mut gateways = Gateways::of([100; 3]);
        for name in 0..4 {
            gateways.saved = (1, gateways.stream.clone());
            gateways.members[0].revoked.revoke(subject(name, 5, 1000), AT).unwrap();
            gateways.sync(0);
        }
        if by_reading_again {
            // As the connection has seen nothing of it.
            gateways.stream = gateways.saved.1.clone();
            gateways.begin_again(0);
        } else {
            gateways.restore();
        }
        gateways.sync_all();
        assert!(gateways.members.iter().all(|it| known(&it.revoked).len() == 4));
        assert_eq!(gateways.stream.iter().flatten().count(), 4);
        // Nobody has lost anything.
        gateways.members[1].revoked.lock().entries.begin_reading();
        gateways.hear(1, 0, usize::MAX);
        assert_eq!(gateways.members[1].revoked.lock().entries.end_reading(), 0);
        gateways.members[1].revoked.lock().entries.begin_reading();
        assert_eq!(gateways.members[1].revoked.lock().entries.end_reading(), 4);
    }
}

#[test]
fn a_withdrawal_undoes_what_its_author_knew_and_nothing_else() {
    let mut gateways = Gateways::of([100; 3]);
    gateways.members[0].revoked.revoke(subject(1, 5, 1000), AT).unwrap();
    gateways.sync_all();
    // The third one revokes more, of which the second has not heard when it withdraws later.
    gateways.members[2].revoked.revoke(subject(1, 9, 1000), AT + MILLISECOND * 10).unwrap();
    let later = AT + MILLISECOND * 20;
    assert!(gateways.members[1].revoked.lift(1, later).unwrap().is_some());
    gateways.sync_all();
    assert!(gateways.members.iter().all(|it| known(&it.revoked).len() == 1));
    // Whoever has heard of it can withdraw it.
    gateways.lift(0, 0);
    gateways.sync_all();
    assert!(gateways.members.iter().all(|it| known(&it.revoked).is_empty()));
}

#[test]
fn what_an_earlier_version_has_withdrawn_undoes_what_was_said_before() {
    let text = |more: &str| format!("{{\"id\":1,\"sub\":\"a\",\"iat\":5,\"exp\":9{more}}}");
    let entry = |more: &str| serde_json::from_str::<Entry>(&text(more)).unwrap();
    let withdrawn = entry(",\"stamp\":10,\"withdrawn\":true");
    assert!(withdrawn.merged(&entry(",\"stamp\":9")).is_withdrawn());
    assert!(!withdrawn.merged(&entry(",\"stamp\":10")).is_withdrawn());
    let written = serde_json::to_string(&withdrawn).unwrap();
    assert_eq!(serde_json::from_str::<Entry>(&written).unwrap(), withdrawn);
}

#[test]
fn one_for_which_there_is_no_room_takes_the_place_of_what_was_withdrawn() {
    let mut gateways = Gateways::of([100, 1, 100]);
    gateways.members[0].revoked.revoke(subject(1, 5, 1000), AT).unwrap();
    gateways.sync_all();
    gateways.lift(0, 0);
    gateways.sync_all();
    gateways.members[1].revoked.revoke(subject(2, 5, 1000), AT).unwrap();
    gateways.sync_all();
    gateways.members[0].revoked.revoke(subject(1, 6, 1000), AT + MILLISECOND).unwrap();
    gateways.sync(0);
    gateways.sync(0);
    assert!(!gateways.read(1));
    gateways.begin_again(1);
    let it = &gateways.members[1].revoked;
    gateways.hear(1, 0, usize::MAX);
    assert_eq!(it.lock().entries.end_reading(), 0, "nobody has lost anything");
}

#[test]
fn what_is_withdrawn_beyond_what_is_remembered_is_told_before_it_is_forgotten() {
    let mut entries = Entries::new(true);
    let entry = |id: u64, ends: u64, lifts| {
        let text = format!("{{\"jti\":\"{id}\",\"exp\":{ends}}}");
        Entry { id, tokens: serde_json::from_str(&text).unwrap(), stamp: id, lifts }
    };
    // The last one ends first.
    (1..=MAX_WITHDRAWN as u64 + 1).for_each(|id| entries.put(entry(id, 1_000_000 - id, Some(0))));
    let last = MAX_WITHDRAWN as u64 + 1;
    assert!(entries.of(last).is_some() && entries.of(last - 1).is_none());
    assert_eq!(entries.is_told(last - 1), Some(false));
    // What is forgotten is not missed.
    entries.note_told(last - 1, id(1));
    entries.begin_reading();
    assert_eq!(entries.end_reading(), 0);
    assert_eq!(entries.untold(), MAX_WITHDRAWN);
}
