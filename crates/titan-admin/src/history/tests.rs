//! What is known of configurations, and what a directory has of them after whatever happened.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};
use titan_config::{FileId, Location, SecretPlace};

/// A directory that goes with this.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Temporary {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("titan-history-{}-{number}", std::process::id());
        Temporary(std::env::temp_dir().join(name))
    }

    fn opens(&self) -> (Directory, Found) {
        let mut directory = Directory::new(self.0.clone());
        let found = directory.acquire(MOST).unwrap().unwrap();
        (directory, found)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const MOST: usize = 3;
const START: Origin = Origin { source: Source::Start, author: None, repeats: None };

fn documents(text: &str) -> Arc<[Document]> {
    [Document { name: "titan.yaml".to_owned(), text: text.to_owned() }].into()
}

/// What has no secrets.
fn said(text: &str, number: u8) -> Said {
    let masked = [Masked { text: text.to_owned(), secrets: Vec::new() }].into();
    Said { documents: documents(text), masked, sha256: [number; 32] }
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

/// Notes a configuration that says what its number is.
fn note(history: &mut History, number: u8) -> u64 {
    note_as(history, START, number)
}

fn note_as(history: &mut History, origin: Origin, number: u8) -> u64 {
    history.note(origin, said(&format!("workers: {number}"), number), now())
}

/// Writes what is not on the disk yet.
fn save(history: &mut History, directory: &mut Directory) -> Result<(), DirectoryError> {
    if let Some(found) = directory.acquire(MOST)? {
        history.take_in(found);
    }
    for record in history.unsaved() {
        directory.save(&record)?;
        history.note_saved(record.entry.id, record.entry.outcome);
    }
    directory.prune(MOST, &history.ids())
}

fn ids(history: &History) -> Vec<u64> {
    history.entries().map(|entry| entry.id).collect()
}

#[test]
fn a_later_process_finds_the_latest_entries() {
    let place = Temporary::new();
    let (mut directory, found) = place.opens();
    assert!(found.entries.is_empty());
    let mut history = History::new(MOST);
    for number in 1..=5 {
        note(&mut history, number);
        save(&mut history, &mut directory).unwrap();
    }
    assert_eq!(ids(&history), [5, 4, 3]);
    let told: Vec<Entry> = history.entries().cloned().collect();
    drop(directory);
    let (directory, found) = place.opens();
    assert!(found.warnings.is_empty());
    let mut history = History::new(MOST);
    history.take_in(found);
    assert!(history.in_force().is_none(), "nothing of another process is in force");
    let past: Vec<Entry> = history.entries().cloned().collect();
    let told: Vec<Entry> = told.into_iter().map(Entry::of_the_past).collect();
    assert_eq!(past, told);
    assert!(matches!(history.content(4), Some(Content::Stored)));
    assert_eq!(directory.load(4).unwrap().documents[..], documents("workers: 4")[..]);
    assert_eq!(note(&mut history, 6), 6);
}

#[test]
fn what_changes_nothing_pushes_nothing_out() {
    let place = Temporary::new();
    for _ in 0..2 {
        let (mut directory, found) = place.opens();
        let mut history = History::new(MOST);
        let is_new = found.entries.is_empty();
        history.take_in(found);
        if is_new {
            note(&mut history, 1);
        }
        for _ in 0..9 {
            note(&mut history, 2);
            save(&mut history, &mut directory).unwrap();
        }
        assert_eq!(history.before(), Some(1));
        let last = history.in_force().unwrap().id;
        assert_eq!(ids(&history), [last, 2, 1]);
    }
    let (_, found) = place.opens();
    assert_eq!(found.entries.iter().map(|entry| entry.id).collect::<Vec<_>>(), [1, 2, 19]);
    // What was taken back, and what came before it, is no repetition.
    let mut history = History::new(MOST);
    let (first, second) = (note(&mut history, 1), note(&mut history, 2));
    history.settle(second, Outcome::TakenBack, None);
    let third = note(&mut history, 2);
    let fourth = note(&mut history, 2);
    assert_eq!(ids(&history), [fourth, third, second]);
    assert_eq!((first, history.before()), (1, None));
}

#[test]
fn secrets_are_left_out_and_named() {
    let place = Temporary::new();
    let (mut directory, _) = place.opens();
    let (text, masked) = ("secret: forty bytes", "secret: ***********");
    let location = Location { file: FileId::MAIN, line: 1, column: 9 };
    let secrets = vec![SecretPlace { location, path: "keys.secret".to_owned() }];
    let masked = [Masked { text: masked.to_owned(), secrets }].into();
    let mut history = History::new(MOST);
    let said = Said { documents: documents(text), masked, sha256: [1; 32] };
    history.note(START, said, now());
    save(&mut history, &mut directory).unwrap();
    let Stored { documents, secrets } = directory.load(1).unwrap();
    assert_eq!(documents[0].text, "secret: ***********");
    let [secret] = &secrets[..] else { panic!("{secrets:?}") };
    assert_eq!(secret.to_string(), "`keys.secret` (titan.yaml:1:9)");
    let bytes = fs::read(place.0.join("1.jsonl")).unwrap();
    assert!(!String::from_utf8(bytes).unwrap().contains("forty"));
}

#[test]
fn another_secret_is_something_to_go_back_from() {
    let mut history = History::new(MOST);
    for (id, text, before) in
        [(1, "secret: a", None), (2, "secret: b", Some(1)), (3, "secret: b", Some(1))]
    {
        assert_eq!(history.note(START, said(text, 1), now()), id);
        assert_eq!(history.before(), before, "{id}");
    }
}

#[test]
fn only_the_owner_can_read_it() {
    let place = Temporary::new();
    let (mut directory, _) = place.opens();
    let mut history = History::new(MOST);
    note(&mut history, 1);
    save(&mut history, &mut directory).unwrap();
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(place.0.clone()), 0o700);
    assert_eq!([mode(place.0.join("1.jsonl")), mode(place.0.join("lock"))], [0o600; 2]);
}

#[test]
fn one_process_writes_there_and_the_next_one_when_that_has_ended() {
    let place = Temporary::new();
    let (mut old, _) = place.opens();
    let mut of_old = History::new(MOST);
    note(&mut of_old, 1);
    save(&mut of_old, &mut old).unwrap();
    let mut new = Directory::new(place.0.clone());
    assert!(matches!(new.acquire(MOST), Err(DirectoryError::InUse(_))));
    // What is there can be read, and what comes is kept until it can be written.
    let mut of_new = History::new(MOST);
    of_new.take_in(new.read(MOST).unwrap());
    assert_eq!((note(&mut of_new, 7), ids(&of_new)), (2, vec![2, 1]));
    let [known, new_one] = [1, 2].map(|id| of_new.refer(id));
    assert_eq!((of_new.is_unsaved(known), of_new.is_unsaved(new_one)), (false, true));
    // Meanwhile the old one takes the same id.
    assert_eq!(note(&mut of_old, 2), 2);
    save(&mut of_old, &mut old).unwrap();
    assert!(save(&mut of_new, &mut new).is_err());
    drop(old);
    save(&mut of_new, &mut new).unwrap();
    assert_eq!(ids(&of_new), [3, 2, 1]);
    assert_eq!(of_new.in_force().map(|entry| entry.id), Some(3));
    assert_eq!(new.load(2).unwrap().documents[..], documents("workers: 2")[..]);
    assert_eq!(new.load(3).unwrap().documents[..], documents("workers: 7")[..]);
    assert_eq!([known, new_one].map(|it| of_new.id(it)), [1, 3]);
    assert_eq!((of_new.entry(new_one).unwrap().id, of_new.is_unsaved(new_one)), (3, false));
    assert_eq!((note(&mut of_new, 8), of_new.id(of_new.refer(3))), (4, 3));
}

#[test]
fn an_entry_that_was_forgotten_before_it_was_written_gives_its_id_up_too() {
    let mut history = History::new(1);
    let forgotten = note(&mut history, 1);
    let forgotten = history.refer(forgotten);
    let again = Origin { source: Source::Rollback, author: None, repeats: Some(1) };
    note_as(&mut history, again, 1);
    let other = Entry { id: 1, ..history.in_force().unwrap().clone() };
    history.take_in(Found { entries: vec![other], warnings: Vec::new() });
    assert_eq!((history.id(forgotten), history.entry(forgotten)), (2, None));
    let in_force = history.in_force().unwrap();
    assert_eq!((in_force.id, in_force.repeats), (3, Some(2)));
}

#[test]
fn a_directory_that_was_deleted_is_made_again_with_what_it_had() {
    let place = Temporary::new();
    let (mut directory, _) = place.opens();
    let mut history = History::new(MOST);
    note(&mut history, 1);
    save(&mut history, &mut directory).unwrap();
    for number in [2, 3] {
        fs::remove_dir_all(&place.0).unwrap();
        if number == 3 {
            fs::create_dir(&place.0).unwrap();
        }
        note(&mut history, number);
        save(&mut history, &mut directory).unwrap();
        let wanted: Vec<u64> = (1..=number.into()).collect();
        let there = directory.read(MOST).unwrap().entries.into_iter();
        assert_eq!(there.map(|entry| entry.id).collect::<Vec<_>>(), wanted);
        let mut other = Directory::new(place.0.clone());
        assert!(matches!(other.acquire(MOST), Err(DirectoryError::InUse(_))));
    }
}

#[test]
fn a_file_that_cannot_be_read_is_told_and_hides_no_other() {
    let place = Temporary::new();
    let (mut directory, _) = place.opens();
    let mut history = History::new(MOST);
    for number in 1..=3 {
        note(&mut history, number);
    }
    save(&mut history, &mut directory).unwrap();
    drop(directory);
    let whole = fs::read(place.0.join("2.jsonl")).unwrap();
    for end in [0, 1, 20] {
        fs::write(place.0.join("2.jsonl"), &whole[..end]).unwrap();
        let (_, Found { entries, warnings }) = place.opens();
        assert_eq!(entries.iter().map(|entry| entry.id).collect::<Vec<_>>(), [1, 3]);
        let [warning] = &warnings[..] else { panic!("{warnings:?}") };
        assert!(warning.starts_with("cannot read ") && warning.contains("2.jsonl: "), "{warning}");
    }
    let later = String::from_utf8(whole).unwrap().replace("\"form\":1", "\"form\":2");
    fs::write(place.0.join("2.jsonl"), later).unwrap();
    assert!(place.opens().1.warnings[0].ends_with("a later version of Titan wrote it"));
}

#[test]
fn a_trial_that_the_end_of_the_process_cut_short_is_told() {
    let place = Temporary::new();
    let (mut directory, _) = place.opens();
    let mut history = History::new(MOST);
    let id = note(&mut history, 1);
    history.settle(id, Outcome::OnTrial, None);
    save(&mut history, &mut directory).unwrap();
    assert!(history.unsaved().is_empty());
    drop(directory);
    let mut history = History::new(MOST);
    history.take_in(place.opens().1);
    assert_eq!(history.entries().next().unwrap().outcome, Outcome::Unconfirmed);
}

#[test]
fn the_one_before_says_something_else_and_each_step_leads_further_back() {
    let mut history = History::new(9);
    assert_eq!(history.before(), None);
    for number in [1, 2, 3, 3] {
        note(&mut history, number);
    }
    assert_eq!(history.before(), Some(2));
    let again = |id| Origin { source: Source::Rollback, author: None, repeats: Some(id) };
    assert_eq!(note_as(&mut history, again(2), 2), 5);
    assert_eq!(history.before(), Some(1));
    for outcome in [Outcome::TakenBack, Outcome::Unconfirmed, Outcome::OnTrial] {
        let bad = note(&mut history, 6);
        history.settle(bad, outcome, Some("nobody confirmed it"));
    }
    note(&mut history, 7);
    assert_eq!(history.before(), Some(5), "what was not to stay is not gone back to");
    history.settle(8, Outcome::Confirmed, None);
    assert_eq!(history.before(), Some(8));
}

#[test]
fn a_configuration_that_comes_again_is_in_memory_once() {
    let mut history = History::new(9);
    let ids = [1, 2, 1].map(|number| note(&mut history, number));
    let texts = ids.map(|id| match history.content(id) {
        Some(Content::Whole(said)) => said.documents,
        other => panic!("{other:?}"),
    });
    assert!(Arc::ptr_eq(&texts[0], &texts[2]) && !Arc::ptr_eq(&texts[0], &texts[1]));
}

/// What happens to a history.
#[derive(Clone, Debug)]
enum Event {
    /// A configuration comes into force.
    Note(u8),
    /// The one in force is settled.
    Settle,
    /// A configuration comes into force, and the machine crashes that many steps into writing; where that takes less, the
    /// process ends.
    Crash(u8, usize),
    /// A configuration comes into force, and the disk is full from that many steps on.
    Full(u8, usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => any::<u8>().prop_map(Event::Note),
        1 => Just(Event::Settle),
        2 => (any::<u8>(), 0_usize..12).prop_map(|(number, steps)| Event::Crash(number, steps)),
        1 => (any::<u8>(), 0_usize..12).prop_map(|(number, steps)| Event::Full(number, steps)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    // What has been acknowledged is there after every crash, as it was, up to the bound; and nothing is ever half there.
    #[test]
    fn what_was_written_is_there_after_whatever_happened(events in vec(event(), 1..30)) {
        let place = Temporary::new();
        let (mut directory, _) = place.opens();
        let mut history = History::new(MOST);
        let mut written: BTreeMap<u64, (Vec<Document>, Outcome)> = BTreeMap::new();
        // What was tried and failed may be there all the same.
        let mut tried: Vec<(u64, Vec<Document>, Outcome)> = Vec::new();
        for event in events {
            directory.crash_in = None;
            match event {
                Event::Note(number) => drop(note(&mut history, number)),
                Event::Settle => {
                    let id = history.in_force().map(|entry| entry.id);
                    history.settle(id.unwrap_or(0), Outcome::Confirmed, None);
                }
                Event::Crash(number, steps) | Event::Full(number, steps) => {
                    note(&mut history, number);
                    directory.crash_in = Some(steps);
                }
            }
            let attempted: BTreeMap<_, _> =
                history.unsaved().into_iter().map(|it| (it.entry.id, it)).collect();
            let all = attempted.iter();
            tried.extend(all.map(|(id, it)| (*id, it.said.documents.to_vec(), it.entry.outcome)));
            let outcome = save(&mut history, &mut directory);
            if let Err(DirectoryError::Io(_, error)) = &outcome {
                prop_assert_eq!(error.kind(), ErrorKind::StorageFull);
            }
            let unsaved: Vec<u64> = history.unsaved().iter().map(|it| it.entry.id).collect();
            for (id, record) in attempted.iter().filter(|(id, _)| !unsaved.contains(id)) {
                written.insert(*id, (record.said.documents.to_vec(), record.entry.outcome));
            }
            if matches!(event, Event::Crash(..)) {
                drop(directory);
                let (opened, found) = place.opens();
                directory = opened;
                prop_assert!(found.warnings.is_empty(), "{:?}", found.warnings);
                let there: Vec<u64> = found.entries.iter().map(|entry| entry.id).collect();
                let wanted = written.keys().rev().take(MOST);
                let oldest = there.first().copied().unwrap_or(0);
                let texts: Vec<_> =
                    there.iter().map(|id| directory.load(*id).unwrap().documents).collect();
                for id in wanted.filter(|id| **id >= oldest) {
                    // One that repeats another may go for one that does not.
                    let is_there = there.contains(id) || texts.contains(&written[id].0);
                    prop_assert!(is_there, "{id} is gone: {there:?}");
                }
                for entry in &found.entries {
                    let stored = directory.load(entry.id).unwrap().documents;
                    let known = written.get(&entry.id);
                    let is_known = known.is_some_and(|it| *it == (stored.clone(), entry.outcome));
                    let is_tried = tried.contains(&(entry.id, stored.clone(), entry.outcome));
                    prop_assert!(is_known || is_tried, "{entry:?}: {stored:?}");
                    written.insert(entry.id, (stored, entry.outcome));
                }
                history = History::new(MOST);
                history.take_in(found);
            }
        }
    }
}
