//! Follows the stream of a fleet: hears what other gateways have revoked, and tells what was revoked here.
//!
//! ```text
//! connect -> what is its life? -> read to its end -> in sync -> write what it lacks -> remove what nobody needs
//!    ^             ^ another one: read it all, and see what it lacks                                      |
//!    |             +--------------------------- 100 ms later, or when something is revoked here -----------+
//!    +--- after an error
//! ```
//!
//! A stream that has just begun says nothing of what was revoked before it was lost: who has not been in sync until then does not
//! trust it before the others have had the time to write that again ([`REFILLED`]).
//!
//! A store may lose its last entries alone: one that is started from an older copy, or a replica that lagged behind. So all of the
//! stream is read after each connection, and again every few minutes ([`CHECK`]), some of it at each look.

use super::super::entry::Entry;
use super::super::now;
use super::{Fleet, RevocationStore};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use titan_config::{LogArea, LogLevel};
use titan_io::random::Random;
use titan_observe::events::{Event, Log, Repeat};
use titan_proxy::StoresInForce;
use titan_store::stream::{
    CallError, EntryId, FIRST, Life, Look, MAX_REMOVED, Read, Stream, StreamLink, Written,
};
use tokio::time::sleep;

/// Follows the stream, on a thread of its own.
pub(super) struct Follower {
    revoked: Arc<RevocationStore>,
    stores: StoresInForce,
    log: Log,
    life: Option<Life>,
    /// While others may be writing again what the life before had.
    young: Option<Young>,
    /// The last entry that was heard.
    at: EntryId,
    /// The last one in its life of which it was told whether it can be read.
    judged: EntryId,
    openings: u64,
    reading: Reading,
    /// Whether the reading has met something for which there was no room.
    is_lacking: bool,
    is_cut_off: bool,
    /// After a store has refused to be written to, or to have something removed.
    telling: PutOff,
    cleaning: PutOff,
}

/// A life that others may still be filling.
#[derive(Clone, Copy)]
struct Young {
    /// Until when, unless something comes meanwhile that is news.
    until: Instant,
    /// Until when at most.
    most: Instant,
}

/// When something is tried again that was refused, and how long that was put off.
#[derive(Clone, Copy, Default)]
struct PutOff(Option<(Instant, Duration)>);

impl PutOff {
    fn is_over(self) -> bool {
        self.0.is_none_or(|(until, _)| Instant::now() >= until)
    }

    fn again(&mut self) {
        let pause = self.0.map_or(PUT_OFF.0, |(_, pause)| (2 * pause).min(PUT_OFF.1));
        self.0 = Some((Instant::now() + pause, pause));
    }
}

/// The stream is read from its beginning, time and again.
#[derive(Clone, Copy)]
enum Reading {
    /// All of it at once, before anything else.
    All,
    /// A part of it at each look: it goes on behind that entry.
    Again(EntryId),
    /// Begins again then.
    Due(Instant),
}

/// The stream, by what its name in the store ends with.
const STREAM: &str = "revocations";
/// Between two looks. A call that waits for news would need a connection beside the one that writes, and could not tell a store
/// that hangs from one that has none.
const LOOK: Duration = Duration::from_millis(100);
/// Before the first attempt to connect again, and the longest before another one.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));
/// The longest between two readings of all of the stream, and while there was no room for some of it. The shortest is half of that,
/// so that gateways do not all read at once.
const CHECK: Duration = Duration::from_secs(300);
const LACKING: Duration = Duration::from_secs(10);
/// Pages of such a reading at each look, so that no news waits for it: some five thousand entries a second.
const PAGES: u32 = 8;
/// How often a stream is begun that does not stay.
const MAX_BEGUN: u32 = 3;
/// In which all gateways that reach a stream that has begun anew have written there what they know: they look for it at each
/// [`LOOK`], or connect again within twice a second.
const REFILLED: Duration = Duration::from_secs(5);
/// While there is always more that comes, they may need longer for many entries, but not than this.
const REFILLED_AT_MOST: Duration = Duration::from_secs(60);
/// Until a store that refuses to be written to is asked again, at first and at most.
const PUT_OFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

impl Follower {
    /// One that has heard nothing yet.
    pub(super) fn new(revoked: Arc<RevocationStore>, stores: StoresInForce, log: Log) -> Follower {
        Follower {
            revoked,
            stores,
            log,
            life: None,
            young: None,
            at: FIRST,
            judged: FIRST,
            openings: 0,
            reading: Reading::All,
            is_lacking: false,
            is_cut_off: false,
            telling: PutOff::default(),
            cleaning: PutOff::default(),
        }
    }

    /// Follows it for as long as the process runs.
    pub(super) async fn run(mut self) {
        let mut pause = PAUSES.0;
        let revoked = Arc::clone(&self.revoked);
        let Some(fleet) = &revoked.fleet else { return };
        loop {
            let mut is_done = false;
            let Err(why) = self.follow(&revoked, fleet, &mut is_done).await;
            pause = if is_done { PAUSES.0 } else { (2 * pause).min(PAUSES.1) };
            self.tell_if_cut_off(fleet, &why);
            sleep(pause).await;
        }
    }

    /// From a connection to why it has ended. `is_done` once there was nothing left to hear or to tell.
    async fn follow(
        &mut self,
        revoked: &RevocationStore,
        fleet: &Fleet,
        is_done: &mut bool,
    ) -> Result<Infallible, String> {
        let store = || self.stores.named(fleet.store.as_str());
        let store = store().ok_or("the configuration in force has no such store")?;
        let stream = Stream::new(store, STREAM).map_err(|_| "its entries cannot be encrypted")?;
        let mut link = stream.connect().await?;
        // What it had may be lost, and what is new may have lesser ids than that. Another server may take what the one before refused.
        self.start_over(revoked);
        (self.telling, self.cleaning) = Default::default();
        loop {
            let caught_up = self.catch_up(&mut link, revoked, fleet).await;
            caught_up.map_err(|error| error.to_string())?;
            *is_done = true;
            let is_changed = fleet.changed.notified();
            tokio::select! { () = sleep(LOOK) => {}, () = is_changed => {} }
            // A reload may have changed its section.
            if !self.stores.named(fleet.store.as_str()).is_some_and(|store| stream.is_in(&store)) {
                return Err("the configuration in force has another store of that name".to_owned());
            }
            if link.has_moved() {
                return Err("it is at another place now".to_owned());
            }
        }
    }

    /// Hears everything, and tells everything.
    async fn catch_up(
        &mut self,
        link: &mut StreamLink<'_>,
        revoked: &RevocationStore,
        fleet: &Fleet,
    ) -> Result<(), CallError> {
        let mut begun = 0;
        loop {
            let asked = Instant::now();
            let look = link.look().await?;
            self.look_for_losses(&look, revoked, fleet);
            self.read_on(link, revoked, fleet, look.now).await?;
            self.read_again(link, revoked, fleet, look.now).await?;
            match look.life {
                None if begun == MAX_BEGUN => return Err(does_not_keep()),
                None => {
                    begun += 1;
                    link.begin(None, look.now).await?;
                }
                Some(life) => {
                    self.note_in_sync(revoked, fleet, asked);
                    let told = self.tell(link, (&life, look.now), revoked, fleet).await;
                    let is_told = match unless_refused(told)? {
                        Ok(is_told) => is_told,
                        Err(why) => {
                            self.telling.again();
                            self.note_refused("be told of revoked tokens", &why, fleet);
                            false
                        }
                    };
                    if !is_told {
                        return self.clean(link, revoked, fleet).await;
                    }
                }
            }
        }
    }

    /// Removes what nobody needs any more.
    async fn clean(
        &mut self,
        link: &mut StreamLink<'_>,
        revoked: &RevocationStore,
        fleet: &Fleet,
    ) -> Result<(), CallError> {
        while self.cleaning.is_over() {
            let garbage = revoked.lock().entries.take_garbage(MAX_REMOVED);
            if garbage.is_empty() {
                break;
            }
            if let Err(why) = unless_refused(link.remove(&garbage).await)? {
                self.cleaning.again();
                self.note_refused("have old entries of revoked tokens removed", &why, fleet);
            }
        }
        Ok(())
    }

    /// Has everything read again where the stream is another one, or what was heard may be lost.
    fn look_for_losses(&mut self, look: &Look, revoked: &RevocationStore, fleet: &Fleet) {
        let Look { life, now } = look;
        let openings = fleet.openings.load(Ordering::Relaxed);
        let is_another = life.is_none() || *life != self.life;
        if is_another && self.life.is_some() {
            self.note_lost("the revoked tokens", fleet);
        }
        if is_another {
            // Who was in sync until now knows what it had.
            let age = life.as_ref().map_or(Duration::ZERO, |life| life.age(*now));
            let is_new_here = !fleet.is_in_sync();
            let (rest, seen) = (REFILLED.saturating_sub(age), Instant::now());
            let young = Young { until: seen + rest, most: seen + REFILLED_AT_MOST };
            self.young = (is_new_here && !rest.is_zero()).then_some(young);
            (self.telling, self.cleaning) = Default::default();
            (self.life, self.judged) = (life.clone(), FIRST);
            revoked.lock().entries.forget_told();
        }
        if is_another || openings != self.openings {
            self.openings = openings;
            self.start_over(revoked);
        }
    }

    fn start_over(&mut self, revoked: &RevocationStore) {
        (self.at, self.reading, self.is_lacking) = (FIRST, Reading::All, false);
        revoked.lock().entries.begin_reading();
    }

    /// Reads to the end.
    async fn read_on(
        &mut self,
        link: &mut StreamLink<'_>,
        revoked: &RevocationStore,
        fleet: &Fleet,
        now: Duration,
    ) -> Result<(), CallError> {
        loop {
            let page = link.read(self.at).await?;
            let Some((last, _)) = page.last() else { break };
            self.at = *last;
            self.hear(page, revoked, fleet, now);
            fleet.heard.send_replace(());
        }
        if matches!(self.reading, Reading::All) {
            self.end_reading(revoked, fleet);
        }
        Ok(())
    }

    /// Reads some of what it has read already, if it is time for that.
    async fn read_again(
        &mut self,
        link: &mut StreamLink<'_>,
        revoked: &RevocationStore,
        fleet: &Fleet,
        now: Duration,
    ) -> Result<(), CallError> {
        if matches!(self.reading, Reading::Due(at) if Instant::now() >= at) {
            (self.reading, self.is_lacking) = (Reading::Again(FIRST), false);
            revoked.lock().entries.begin_reading();
        }
        for _ in 0..PAGES {
            let Reading::Again(from) = self.reading else { break };
            let page = link.read(from).await?;
            let last = page.last().map(|(last, _)| *last);
            self.hear(page, revoked, fleet, now);
            if let Some(last) = last.filter(|last| *last < self.at) {
                self.reading = Reading::Again(last);
                continue;
            }
            // What was removed before it was met here has another entry in its place, which is there by now.
            self.read_on(link, revoked, fleet, now).await?;
            self.end_reading(revoked, fleet);
        }
        Ok(())
    }

    /// The end is reached, and what was not met is lost.
    fn end_reading(&mut self, revoked: &RevocationStore, fleet: &Fleet) {
        let lost = revoked.lock().entries.end_reading();
        if lost > 0 {
            self.note_lost(&format!("{lost} of the revoked tokens"), fleet);
        }
        fleet.is_lacking.store(self.is_lacking, Ordering::Relaxed);
        self.reading = Reading::Due(due(if self.is_lacking { LACKING } else { CHECK }));
    }

    /// Puts a page in force. `theirs` is the time by the clock of the store.
    fn hear(
        &mut self,
        page: Vec<Read>,
        revoked: &RevocationStore,
        fleet: &Fleet,
        theirs: Duration,
    ) {
        let (mut entries, mut unreadable) = (Vec::with_capacity(page.len()), 0);
        let judged = self.judged;
        for (id, entry) in page {
            let entry = entry.and_then(|entry| serde_json::from_slice::<Entry>(&entry).ok());
            unreadable += u64::from(entry.is_none() && id > judged);
            entries.extend(entry.map(|entry| (id, entry)));
            self.judged = self.judged.max(id);
        }
        self.note_unreadable(unreadable, fleet);
        let (changed, had_room) = revoked.hear(entries, (now(), theirs.as_secs()));
        fleet.received.fetch_add(changed, Ordering::Relaxed);
        if let Some(young) = self.young.as_mut().filter(|_| changed > 0) {
            young.until = (Instant::now() + REFILLED).min(young.most);
        }
        if !had_room {
            self.note_lack(revoked, fleet);
        }
    }

    /// Writes some of what the stream lacks, and reads it there. Tells whether there was anything, and whether it can be done now.
    async fn tell(
        &mut self,
        link: &mut StreamLink<'_>,
        (life, theirs): (&Life, Duration),
        revoked: &RevocationStore,
        fleet: &Fleet,
    ) -> Result<bool, CallError> {
        let is_over = self.telling.is_over();
        let telling = if is_over { revoked.to_tell(now()) } else { Vec::new() };
        if telling.is_empty() {
            return Ok(false);
        }
        let entries: Vec<_> = telling.iter().map(|it| it.written.as_slice()).collect();
        match link.write(life, &entries).await? {
            Written::OtherLife => return Ok(true),
            Written::Exhausted => {
                self.note_exhausted(fleet);
                link.begin(Some(life), theirs).await?;
                return Err(CallError::Lost("its ids were used up: it has begun anew".to_owned()));
            }
            Written::Added => {}
        }
        self.telling = PutOff::default();
        self.read_on(link, revoked, fleet, theirs).await?;
        // Something else may have been revoked meanwhile; then this is done again.
        if revoked.has_told(&telling) { Ok(true) } else { Err(does_not_keep()) }
    }

    /// Everything was heard that the stream had when it was asked.
    fn note_in_sync(&mut self, revoked: &RevocationStore, fleet: &Fleet, asked: Instant) {
        fleet.heard.send_replace(());
        if fleet.denies && self.young.is_some_and(|young| Instant::now() < young.until) {
            self.note_young(fleet);
            return;
        }
        if self.young.take().is_some() && fleet.denies {
            let what = format!(
                "what the store `{}` has of revoked tokens is trusted from now on",
                fleet.store
            );
            self.log.tell(event(LogLevel::Info, "revocations_back", what));
        }
        fleet.note_in_sync(asked.elapsed());
        if fleet.denies && !fleet.is_lacking.load(Ordering::Relaxed) {
            revoked.table.distrust_after(fleet.stale_after.saturating_sub(asked.elapsed()));
        }
        if std::mem::take(&mut self.is_cut_off) {
            let what = format!("hears again from the store `{}` what is revoked", fleet.store);
            self.log.tell(event(LogLevel::Info, "revocations_back", what));
        }
    }

    fn note_young(&self, fleet: &Fleet) {
        let what = format!(
            "the revoked tokens in the store `{}` have begun anew: tokens that could be revoked are refused until other gateways have \
                had {REFILLED:?} to write there what they know",
            fleet.store
        );
        self.log.tell(event(LogLevel::Warn, "revocations_begun", what).once(Repeat::ByMinute));
    }

    fn note_refused(&self, what: &str, why: &str, fleet: &Fleet) {
        let what = format!(
            "the store `{}` refuses to {what}: {why}; it is tried again, and what other gateways revoke is heard",
            fleet.store
        );
        self.log.tell(event(LogLevel::Error, "revocations_untold", what).once(Repeat::ByMinute));
    }

    fn tell_if_cut_off(&mut self, fleet: &Fleet, why: &str) {
        if self.is_cut_off || fleet.age() < fleet.stale_after {
            return;
        }
        self.is_cut_off = true;
        let what = match fleet.denies {
            true => "tokens that could be revoked are refused",
            false => "what is known to be revoked stays in force",
        };
        let what = format!(
            "cut off from the store `{}` for {:?}, so that other gateways cannot say what they have revoked: {why}; {what}",
            fleet.store, fleet.stale_after
        );
        self.log.tell(event(LogLevel::Warn, "revocations_cut_off", what));
    }

    fn note_lost(&self, what: &str, fleet: &Fleet) {
        fleet.refills.fetch_add(1, Ordering::Relaxed);
        let what = format!(
            "the store `{}` has lost {what}: this gateway writes again what it knows",
            fleet.store
        );
        self.log.tell(event(LogLevel::Warn, "revocations_lost", what));
    }

    fn note_exhausted(&self, fleet: &Fleet) {
        let what = format!(
            "the store `{}` has an entry with the greatest id there is, which no gateway has written, among those of revoked tokens: \
                nothing can be written behind it, so all gateways begin anew with what they know. See who else may write there",
            fleet.store
        );
        self.log.tell(event(LogLevel::Warn, "revocations_exhausted", what).once(Repeat::ByMinute));
    }

    fn note_unreadable(&self, count: u64, fleet: &Fleet) {
        if count == 0 {
            return;
        }
        fleet.unreadable.fetch_add(count, Ordering::Relaxed);
        let what = format!(
            "the store `{}` has entries of revoked tokens that no gateway of this fleet and version has written: they are ignored",
            fleet.store
        );
        let event = event(LogLevel::Warn, "revocations_unreadable", what);
        self.log.tell(event.once(Repeat::ByMinute));
    }

    fn note_lack(&mut self, revoked: &RevocationStore, fleet: &Fleet) {
        self.is_lacking = true;
        if let Reading::Due(at) = self.reading {
            self.reading = Reading::Due(at.min(due(LACKING)));
        }
        fleet.is_lacking.store(true, Ordering::Relaxed);
        fleet.distrust(&revoked.table);
        let what = "other gateways have revoked tokens that are not refused here: \
            `jwt_revocations.capacity` is reached; make it as large as theirs";
        let event = event(LogLevel::Error, "revocations_full", what);
        self.log.tell(event.once(Repeat::ByMinute));
    }
}

/// What a store has refused is tried again in a while: what it has can be heard nevertheless.
fn unless_refused<T>(result: Result<T, CallError>) -> Result<Result<T, String>, CallError> {
    match result {
        Ok(done) => Ok(Ok(done)),
        Err(CallError::Refused(why)) => Ok(Err(why)),
        Err(lost) => Err(lost),
    }
}

/// Between half of that from now on and all of it.
fn due(most: Duration) -> Instant {
    let share = u32::try_from(Random::default().next() % 1000).unwrap_or(0);
    Instant::now() + most / 2 + most * share / 2000
}

fn does_not_keep() -> CallError {
    CallError::Lost("it does not keep what is written there".to_owned())
}

fn event(level: LogLevel, kind: &'static str, what: impl std::fmt::Display) -> Event {
    Event::new((LogArea::Policy, level), kind, what)
}
