//! Log files on a disk that fails, with a clock of their own.

use super::super::trial::{Folder, figures, numbered, numbers};
use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;
use titan_config::ByteSize;

/// The disk with faults, each for one call; without, it works.
#[derive(Clone, Debug, Default)]
struct Faulty(Arc<Mutex<Faults>>);

#[derive(Debug, Default)]
struct Faults {
    /// How many bytes a call writes, if that is not all of them; none is an error.
    writes: VecDeque<Option<usize>>,
    /// Whether a call fails.
    opens: VecDeque<bool>,
    renames: VecDeque<bool>,
    /// Lengths of what was to be written.
    asked: Vec<usize>,
}

impl Faulty {
    fn set<T>(&self, change: impl FnOnce(&mut Faults) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }
}

impl Disk for Faulty {
    fn open(&mut self, path: &Path) -> io::Result<File> {
        match self.set(|faults| faults.opens.pop_front()) {
            Some(true) => Err(ErrorKind::QuotaExceeded.into()),
            _ => RealDisk.open(path),
        }
    }

    fn write(&mut self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        let most = self.set(|faults| {
            faults.asked.push(bytes.len());
            faults.writes.pop_front().flatten()
        });
        match most {
            Some(0) => Err(ErrorKind::StorageFull.into()),
            most => RealDisk.write(file, &bytes[..bytes.len().min(most.unwrap_or(usize::MAX))]),
        }
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        match self.set(|faults| faults.renames.pop_front()) {
            Some(true) => Err(ErrorKind::PermissionDenied.into()),
            _ => RealDisk.rename(from, to),
        }
    }
}

/// A log file, its folder, its disk and its clock.
struct Trial {
    folder: Folder,
    disk: Faulty,
    file: LogFile<Faulty>,
    figures: Arc<DestinationFigures>,
    now: SystemTime,
    next: usize,
}

impl Trial {
    fn new(rotation: Option<Rotation>) -> Trial {
        Trial::within(Folder::new(), rotation)
    }

    fn within(folder: Folder, rotation: Option<Rotation>) -> Trial {
        let (disk, figures) = (Faulty::default(), figures());
        let path = folder.join("a.log");
        let opened = RealDisk.open(&path).unwrap();
        let file = LogFile::on(disk.clone(), path, rotation, opened, Arc::clone(&figures)).unwrap();
        Trial { folder, disk, file, figures, now: SystemTime::now(), next: 0 }
    }

    /// Writes the next so many lines.
    fn writes(&mut self, count: usize) {
        self.file.write(&numbered(self.next, count), self.now);
        self.next += count;
    }

    fn passes(&mut self, time: Duration) {
        self.now += time;
    }

    fn content(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.join(name)).unwrap()
    }

    fn numbers(&self, name: &str) -> Vec<usize> {
        numbers(&self.content(name))
    }

    /// Names of all files but the current one: from the first to the last.
    fn old(&self) -> Vec<String> {
        let mut names = self.folder.names();
        names.retain(|name| name != "a.log");
        names.sort_by_key(|name| {
            let (second, number) = name.split_once('-').unwrap_or((name, "0"));
            (second.to_owned(), number.parse::<u32>().unwrap())
        });
        names
    }

    fn counts(&self) -> (u64, u64) {
        (self.figures.written(), self.figures.dropped())
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn by_size(bytes: u64, keep: u16) -> Option<Rotation> {
    Some(Rotation { size: Some(ByteSize::new(bytes)), age: None, keep })
}

fn by_age(age: Duration) -> Option<Rotation> {
    Some(Rotation { size: None, age: Some(age), keep: 7 })
}

#[test]
fn each_batch_is_appended_by_one_write() {
    let mut trial = Trial::new(None);
    trial.writes(3);
    trial.writes(2);
    assert_eq!(trial.numbers("a.log"), [0, 1, 2, 3, 4]);
    let sizes = [numbered(0, 3).text.len(), numbered(3, 2).text.len()];
    assert_eq!(trial.disk.set(|faults| faults.asked.clone()), sizes);
    assert_eq!(trial.counts(), (5, 0));
    assert_eq!(trial.figures.bytes(), trial.content("a.log").len() as u64);
    let mode = fs::metadata(trial.folder.join("a.log")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777 & !0o640, 0);
    assert_eq!(mode & 0o600, 0o600);
}

#[test]
fn a_moved_file_is_noticed_after_a_second() {
    let mut trial = Trial::new(None);
    trial.writes(1);
    fs::rename(trial.folder.join("a.log"), trial.folder.join("b.log")).unwrap();
    trial.writes(1);
    trial.passes(SECOND);
    trial.writes(1);
    assert_eq!(trial.numbers("b.log"), [0, 1]);
    assert_eq!(trial.numbers("a.log"), [2]);
    fs::remove_file(trial.folder.join("a.log")).unwrap();
    trial.passes(SECOND);
    trial.writes(1);
    assert_eq!(trial.numbers("a.log"), [3]);
    assert!(!trial.figures.is_in_trouble());
}

#[test]
fn reopen_takes_what_the_path_leads_to_at_once() {
    let mut trial = Trial::new(None);
    trial.writes(1);
    fs::rename(trial.folder.join("a.log"), trial.folder.join("b.log")).unwrap();
    trial.file.reopen();
    trial.writes(1);
    assert_eq!((trial.numbers("b.log"), trial.numbers("a.log")), (vec![0], vec![1]));
}

#[test]
fn half_a_line_of_another_process_is_ended() {
    for (found, expected) in [("", "<0>\n"), ("a\n", "a\n<0>\n"), ("a\nb", "a\nb\n<0>\n")] {
        let folder = Folder::new();
        fs::write(folder.join("a.log"), found).unwrap();
        let mut trial = Trial::within(folder, None);
        trial.writes(1);
        assert_eq!(String::from_utf8(trial.content("a.log")).unwrap(), expected);
        assert_eq!(trial.counts(), (1, 0));
    }
}

#[test]
fn a_full_disk_tears_no_line_and_is_asked_once_a_second() {
    let mut trial = Trial::new(None);
    trial.disk.set(|faults| faults.writes.extend([Some(6), Some(0), Some(1), Some(0)]));
    trial.writes(3);
    assert_eq!(trial.content("a.log"), b"<0>\n<1");
    assert_eq!(trial.counts(), (1, 1), "one of them is not done with");
    let told = trial.figures.take_trouble().unwrap();
    let path = trial.folder.join("a.log");
    assert_eq!(told, format!("cannot write to {}: no storage space", path.display()));
    trial.passes(SECOND / 2);
    trial.writes(2);
    assert_eq!(trial.disk.set(|faults| faults.asked.len()), 2, "not asked again");
    trial.passes(SECOND);
    trial.writes(1);
    assert_eq!(trial.content("a.log"), b"<0>\n<1x");
    assert!(trial.figures.is_in_trouble());
    assert_eq!(trial.figures.take_trouble(), None, "it is the same");
    trial.passes(SECOND);
    trial.writes(1);
    assert_eq!(trial.numbers("a.log"), [0, 1, 6]);
    assert_eq!(trial.counts(), (3, 4));
    assert!(!trial.figures.is_in_trouble());
}

#[test]
fn the_rest_of_a_line_does_not_begin_another_file() {
    let mut trial = Trial::new(None);
    trial.disk.set(|faults| faults.writes.extend([Some(6), Some(0)]));
    trial.writes(2);
    // The same file goes on with it.
    trial.file.reopen();
    trial.passes(SECOND);
    trial.writes(1);
    assert_eq!(trial.numbers("a.log"), [0, 1, 2]);
    trial.disk.set(|faults| faults.writes.extend([Some(2), Some(0)]));
    trial.writes(1);
    fs::rename(trial.folder.join("a.log"), trial.folder.join("b.log")).unwrap();
    trial.passes(SECOND);
    trial.writes(1);
    assert_eq!(trial.numbers("a.log"), [4]);
    assert!(trial.content("b.log").ends_with(b"\n<3"));
    assert_eq!(trial.counts(), (4, 1));
}

#[test]
fn a_line_that_would_exceed_the_size_begins_another_file() {
    let mut trial = Trial::new(by_size(20, 100));
    trial.writes(12);
    let old = trial.old();
    assert!(old.len() > 3, "{old:?}");
    let mut found = Vec::new();
    for name in old.iter().map(String::as_str).chain(["a.log"]) {
        let numbers = trial.numbers(name);
        assert!(trial.content(name).len() <= 20 || numbers.len() == 1, "{name}");
        found.extend(numbers);
    }
    assert_eq!(found, Vec::from_iter(0..12));
    let stamp = old[0].strip_prefix("a.log.").unwrap();
    assert_eq!(old[1], format!("a.log.{stamp}-1"), "of the same second");
    assert_eq!(trial.counts(), (12, 0));
}

#[test]
fn as_many_old_files_stay_as_are_to_be_kept() {
    let mut trial = Trial::new(by_size(1, 2));
    let others = ["a.log.1", "a.log.20260101T000000Z.gz", "b.log.20260101T000000Z", "a.log.x"];
    for name in others {
        fs::write(trial.folder.join(name), "").unwrap();
    }
    fs::create_dir(trial.folder.join("a.log.20250101T000000Z")).unwrap();
    fs::write(trial.folder.join("a.log.20260101T000000Z"), "").unwrap();
    trial.writes(5);
    let names = trial.folder.names();
    for name in others.into_iter().chain(["a.log.20250101T000000Z"]) {
        assert!(names.iter().any(|it| it == name), "{name} is gone");
    }
    assert!(!names.iter().any(|it| it == "a.log.20260101T000000Z"));
    assert_eq!(names.len(), others.len() + 1 + 2 + 1, "{names:?}");
    assert_eq!(trial.numbers("a.log"), [4]);
}

#[test]
fn age_counts_from_when_the_file_was_begun_and_survives_a_restart() {
    let age = Duration::from_secs(3600);
    let mut trial = Trial::new(by_age(age));
    // A file without lines is not begun.
    trial.passes(2 * age);
    trial.writes(1);
    trial.passes(age - SECOND);
    trial.writes(1);
    assert_eq!(trial.old().len(), 0);
    trial.passes(SECOND);
    trial.writes(1);
    assert_eq!(trial.numbers(&trial.old()[0]), [0, 1]);
    assert_eq!(trial.numbers("a.log"), [2]);
    // The next process goes by when the file system says that it was made: just now.
    let Trial { folder, file, .. } = trial;
    drop(file);
    let mut trial = Trial::within(folder, by_age(age));
    trial.passes(age - SECOND);
    trial.writes(1);
    assert_eq!(trial.old().len(), 1);
    trial.passes(2 * SECOND);
    trial.writes(1);
    assert_eq!(trial.old().len(), 2);
}

#[test]
fn a_file_that_cannot_be_renamed_goes_on() {
    let mut trial = Trial::new(by_size(1, 7));
    trial.disk.set(|faults| faults.renames.push_back(true));
    trial.writes(3);
    assert_eq!(trial.numbers("a.log"), [0, 1, 2]);
    assert!(trial.figures.is_in_trouble());
    let told = trial.figures.take_trouble().unwrap();
    assert!(told.starts_with("cannot rename /"), "{told}");
    trial.writes(1);
    assert_eq!(trial.old().len(), 0, "it is tried once a second");
    trial.passes(SECOND);
    trial.writes(1);
    assert_eq!(trial.numbers(&trial.old()[0]), [0, 1, 2, 3]);
    assert_eq!(trial.numbers("a.log"), [4]);
    assert!(!trial.figures.is_in_trouble());
    assert_eq!(trial.counts(), (5, 0));
}

#[test]
fn lines_go_to_the_old_file_until_there_is_another() {
    let mut trial = Trial::new(by_size(1, 7));
    trial.writes(1);
    trial.disk.set(|faults| faults.opens.extend([true, true]));
    trial.writes(2);
    assert_eq!(trial.numbers(&trial.old()[0]), [0, 1, 2]);
    assert!(trial.figures.is_in_trouble());
    trial.passes(SECOND);
    trial.writes(1);
    trial.passes(SECOND);
    trial.writes(1);
    assert_eq!(trial.numbers(&trial.old()[0]), [0, 1, 2, 3]);
    assert_eq!(trial.numbers("a.log"), [4]);
    assert!(!trial.figures.is_in_trouble());
}

#[test]
fn lines_for_no_file_are_dropped() {
    let mut trial = Trial::new(None);
    trial.writes(1);
    trial.disk.set(|faults| faults.opens.push_back(true));
    fs::remove_file(trial.folder.join("a.log")).unwrap();
    trial.passes(SECOND);
    trial.writes(2);
    trial.passes(SECOND / 2);
    trial.writes(1);
    assert_eq!(trial.counts(), (1, 3));
    assert!(trial.figures.take_trouble().unwrap().starts_with("cannot open /"));
    trial.passes(SECOND / 2);
    trial.writes(1);
    assert_eq!(trial.numbers("a.log"), [4]);
    assert!(!trial.figures.is_in_trouble());
}

#[test]
fn a_directory_that_is_moved_away_and_back_is_no_trouble_any_more() {
    let place = Folder::new();
    let (here, away) = (place.join("logs"), place.join("away"));
    fs::create_dir(&here).unwrap();
    let figures = figures();
    let path = here.join("a.log");
    let opened = RealDisk.open(&path).unwrap();
    let mut file = LogFile::on(RealDisk, path, None, opened, Arc::clone(&figures)).unwrap();
    let now = SystemTime::now();
    file.write(&numbered(0, 1), now);
    fs::rename(&here, &away).unwrap();
    file.write(&numbered(1, 1), now + SECOND);
    assert!(figures.is_in_trouble(), "nobody finds the lines by the path");
    fs::write(&here, "").unwrap();
    file.write(&numbered(2, 1), now + 2 * SECOND);
    assert!(figures.is_in_trouble(), "where the path leads cannot be seen");
    fs::remove_file(&here).unwrap();
    fs::rename(&away, &here).unwrap();
    file.write(&numbered(3, 1), now + 3 * SECOND);
    assert!(!figures.is_in_trouble());
    assert_eq!(numbers(&fs::read(here.join("a.log")).unwrap()), [0, 1, 2, 3]);
}

#[test]
fn a_line_that_another_process_is_writing_is_left_to_it() {
    let folder = Folder::new();
    let path = folder.join("a.log");
    let mut other = File::create(&path).unwrap();
    let mut ends_within_line = |parts: &[&str]| {
        let mut parts = parts.iter();
        other.write_all(parts.next().unwrap().as_bytes()).unwrap();
        disk::ends_within_line(&path, || {
            let part = parts.next().copied().unwrap_or_default();
            other.write_all(part.as_bytes()).unwrap();
        })
    };
    assert!(!ends_within_line(&[""]));
    assert!(!ends_within_line(&["a", "b\n"]));
    assert!(!ends_within_line(&["a", "b", "c\n"]));
    assert!(ends_within_line(&["a"]));
    assert!(ends_within_line(&["b", "c"]));
    assert!(ends_within_line(&["d", "e", "f", "g", "h", "i"]));
    assert!(!ends_within_line(&["\n"]));
}

#[test]
fn a_link_stays_where_it_is() {
    let folder = Folder::new();
    fs::create_dir(folder.join("volume")).unwrap();
    symlink("volume/b.log", folder.join("a.log")).unwrap();
    let mut trial = Trial::within(folder, by_size(1, 7));
    trial.writes(2);
    assert_eq!(trial.folder.names(), ["a.log", "volume"]);
    assert_eq!(fs::read_link(trial.folder.join("a.log")).unwrap(), Path::new("volume/b.log"));
    assert_eq!(trial.numbers("volume/b.log"), [1]);
    assert_eq!(fs::read_dir(trial.folder.join("volume")).unwrap().count(), 2);
}

#[test]
fn a_reader_that_follows_rotations_sees_whole_lines_in_order() {
    let folder = Folder::new();
    let path = folder.join("a.log");
    let mut trial = Trial::within(folder, by_size(64, 10_000));
    let (sender, receiver) = mpsc::sync_channel(1);
    let mut file = File::open(&path).unwrap();
    let reader = thread::spawn(move || {
        let mut seen = Vec::new();
        loop {
            let is_over = receiver.try_recv().is_ok();
            // Looked for first: once another file has the name, no line is added to this one.
            let next = File::open(&path).ok();
            file.read_to_end(&mut seen).unwrap();
            if is_over {
                return seen;
            }
            let identity = |file: &File| identity(&file.metadata().unwrap());
            file = next.filter(|next| identity(next) != identity(&file)).unwrap_or(file);
        }
    });
    for _ in 0..200 {
        trial.writes(5);
    }
    sender.send(()).unwrap();
    // Between two looks several files may have come and gone: what the reader sees is whole and in order.
    let seen = numbers(&reader.join().unwrap());
    assert!(seen.is_sorted_by(|one, other| one < other));
    let mut found = Vec::new();
    for name in trial.old().iter().map(String::as_str).chain(["a.log"]) {
        found.extend(trial.numbers(name));
    }
    assert_eq!(found, Vec::from_iter(0..1_000));
}

/// What may happen between two batches.
#[derive(Clone, Debug)]
enum Event {
    Batch(usize),
    Pass(u32),
    Move,
    Reopen,
    Write(Option<usize>),
    FailToOpen,
    FailToRename,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        8 => (0..40_usize).prop_map(Event::Batch),
        4 => (0..2_000_u32).prop_map(Event::Pass),
        1 => Just(Event::Move),
        1 => Just(Event::Reopen),
        3 => prop::option::of(0..60_usize).prop_map(Event::Write),
        1 => Just(Event::FailToOpen),
        1 => Just(Event::FailToRename),
    ];
    prop::collection::vec(event, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever fails and moves: files have whole lines in order, and all others were counted.
    #[test]
    fn every_line_is_written_whole_or_counted(events in events(), size in prop::option::of(1..300_u64)) {
        let mut trial = Trial::new(size.and_then(|size| by_size(size, 10_000)));
        let mut moved = 0;
        for event in events {
            match event {
                Event::Batch(count) => trial.writes(count),
                Event::Pass(millis) => trial.passes(Duration::from_millis(millis.into())),
                Event::Move => {
                    moved += 1;
                    let to = trial.folder.join(&format!("moved.{moved}"));
                    let _ = fs::rename(trial.folder.join("a.log"), to);
                }
                Event::Reopen => trial.file.reopen(),
                Event::Write(most) => trial.disk.set(|faults| faults.writes.push_back(most)),
                Event::FailToOpen => trial.disk.set(|faults| faults.opens.push_back(true)),
                Event::FailToRename => trial.disk.set(|faults| faults.renames.push_back(true)),
            }
        }
        let Trial { folder, file, figures, next, .. } = trial;
        drop(file);
        let mut all = Vec::new();
        for name in folder.names() {
            let content = fs::read(folder.join(&name)).unwrap();
            let whole = content.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let found = numbers(&content[..whole]);
            prop_assert!(found.is_sorted_by(|one, other| one < other), "{} has {:?}", name, found);
            all.extend(found);
        }
        all.sort_unstable();
        prop_assert!(all.is_sorted_by(|one, other| one < other), "a line twice: {:?}", all);
        prop_assert_eq!(figures.written(), all.len() as u64);
        prop_assert_eq!(figures.written() + figures.dropped(), next as u64);
    }
}
