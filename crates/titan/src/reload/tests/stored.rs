//! The history on the disk, which may be full, another process's, or silent.

use super::*;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use std::os::unix::fs::OpenOptionsExt;
use titan_admin::history::Directory;
use titan_testkit::waits_until;

#[test]
fn the_history_outlives_the_process() {
    let mut program = Program::starts(&with_status(200));
    program.change(apply(&with_status(201), PLAIN)).unwrap();
    program.change(apply(&with_status(202), confirm_within(LONG))).unwrap();
    let mut program = program.starts_again(&with_status(200));
    assert_eq!(program.status(), 200);
    let history = program.history();
    assert_eq!(
        fates(&history),
        "4* Start Applied, 3 Admin Unconfirmed, 2 Admin Applied, 1 Start Applied, "
    );
    assert_eq!(program.change(Change::Rollback(Some(2))).unwrap().entry.id, 5);
    assert_eq!(program.status(), 201);
}

#[test]
fn secrets_of_another_process_are_gone() {
    let secret = with_status(201)
        + "apply: [p]\npolicies: { p: { jwt: { required: false, providers: { algorithms: HS256, \
           keys: { secret: forty bytes that nobody but us can guess } } } } }\n";
    let mut program = Program::starts(&with_status(200));
    program.change(apply(&secret, PLAIN)).unwrap();
    program.change(Change::Reload).unwrap();
    // In this process nothing was forgotten.
    assert_eq!(program.change(Change::Rollback(Some(2))).unwrap().entry.id, 4);
    assert_eq!(program.status(), 201);
    let mut program = program.starts_again(&with_status(200));
    let Err(NotApplied::Refused(findings)) = program.change(Change::Rollback(Some(2))) else {
        panic!()
    };
    for part in ["configuration 2 ", "keys.secret` (new.yaml:7:", "${file:PATH}"] {
        assert!(findings.text.contains(part), "{}", findings.text);
    }
    assert_eq!(program.status(), 200);
}

#[test]
fn a_directory_that_a_predecessor_still_has_is_no_reason_to_complain() {
    let mut program = Program::starts(&with_status(200));
    program.change(apply(&with_status(201), PLAIN)).unwrap();
    let file = program.folder.join("titan.yaml");
    let config = config_file::read_whole(&file).1.unwrap().config;
    let (records, warnings) = opens(&config, &file, false);
    assert!(warnings.is_empty(), "{warnings:?}");
    let History { entries, notes } = records.told();
    assert_eq!(entries.len(), 2);
    assert!(notes[0].starts_with("another process uses the state directory"), "{notes:?}");
}

#[test]
fn a_directory_that_cannot_be_used_keeps_nothing_from_changing() {
    let text = |status| with_status(status).replace("directory: state", "directory: titan.yaml");
    let mut program = Program::starts(&text(200));
    let applied = program.change(apply(&text(201), PLAIN)).unwrap();
    assert_eq!(program.status(), 201);
    let fault = applied.notes.last().unwrap();
    assert!(fault.starts_with("cannot use ") && fault.contains("titan.yaml/history"), "{fault}");
    let history = program.history();
    assert_eq!((history.entries.len(), &history.notes), (2, &vec![fault.clone()]));
    assert_eq!(program.change(Change::Rollback(None)).unwrap().entry.id, 3);
}

/// A file at which whoever opens it to write hangs, as on a disk that does not respond.
struct Hang(PathBuf);

impl Hang {
    fn at(path: PathBuf) -> Hang {
        let _ = std::fs::remove_file(&path);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        Hang(path)
    }

    /// The disk responds again: what has hung goes on.
    fn ends(self) {
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
        let reader = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(&self.0);
        std::fs::remove_file(self.0).unwrap();
        drop(reader.unwrap());
    }
}

#[test]
fn a_history_that_hangs_holds_up_nothing_else() {
    let mut program = Program::starts(&with_status(200));
    program.change(Change::Reload).unwrap();
    let written = program.folder.join("state/history");
    let hang = Hang::at(written.join("3.jsonl.new"));
    program.is_fast = true;
    let safeguards = confirm_within(Duration::from_secs(60));
    let applied = program.change(apply(&with_status(201), safeguards)).unwrap();
    assert_eq!((applied.entry.id, applied.entry.outcome), (3, Fate::OnTrial));
    let late = applied.notes.last().unwrap();
    assert!(late.contains("state/history has not responded for 5s"), "{late}");
    let history = program.until(|entry| entry.source == Source::TakenBack);
    assert_eq!((program.status(), &history.notes), (200, &vec![late.clone()]));
    let applied = program.change(apply(&with_status(202), PLAIN)).unwrap();
    assert_eq!((program.status(), applied.notes.last()), (202, Some(late)));
    assert_eq!(program.reloading.as_ref().unwrap().before_upgrade(), None);
    hang.ends();
    program.until_all(|history| history.notes.is_empty());
    for id in 3..=5 {
        assert!(written.join(format!("{id}.jsonl")).exists(), "{id}");
    }
}

#[test]
fn whoever_waits_for_the_history_hears_what_came_into_force_meanwhile() {
    let mut program = Program::starts(&with_status(200));
    program.change(Change::Reload).unwrap();
    let hang = Hang::at(program.folder.join("state/history/3.jsonl.new"));
    let orders = program.orders.clone();
    let applied = program.during(async move {
        let short = confirm_within(Duration::from_millis(10));
        let change = orders.change(apply(&with_status(201), short), PEER);
        let ending = async {
            while orders.history().await.unwrap().entries[0].source != Source::TakenBack {
                tokio::task::yield_now().await;
            }
            hang.ends();
        };
        tokio::join!(change, ending).0
    });
    let Applied { entry, notes, .. } = applied.unwrap();
    assert_eq!((entry.id, entry.outcome), (3, Fate::TakenBack));
    let last = notes.last().unwrap();
    assert_eq!(last, "configuration 3 is not in force any more: configuration 4 is");
}

#[test]
fn a_history_that_hangs_at_the_start_is_read_when_it_responds() {
    let mut program = Program::starts(&with_status(200));
    program.change(Change::Reload).unwrap();
    let folder = std::mem::take(&mut program.folder);
    drop(program);
    let hang = Hang::at(folder.join("state/history/lock"));
    let mut program = Program::starts_in(folder, &with_status(200), true);
    assert_eq!(fates(&program.history()), "1* Start Applied, ");
    let applied = program.change(apply(&with_status(201), PLAIN)).unwrap();
    assert_eq!((applied.entry.id, program.status()), (2, 201));
    assert!(applied.notes.last().unwrap().contains("has not responded"), "{:?}", applied.notes);
    hang.ends();
    let history = program.until(|entry| entry.id == 4);
    let all = "4* Admin Applied, 3 Start Applied, 2 Admin Applied, 1 Start Applied, ";
    assert_eq!(fates(&history), all);
}

#[test]
fn a_trial_knows_what_was_before_it_when_ids_have_moved() {
    let mut old = Program::starts(&with_status(200));
    old.change(Change::Reload).unwrap();
    let mut new = Program::starts_in(old.folder.clone(), &with_status(200), false);
    let trial = new.change(apply(&with_status(201), confirm_within(LONG))).unwrap();
    assert_eq!(trial.entry.id, 4);
    for id in [3, 4] {
        assert_eq!(old.change(Change::Reload).unwrap().entry.id, id);
    }
    old.folder = PathBuf::new();
    drop(old);
    let mut lock = Directory::new(new.folder.join("state/history"));
    waits_until("the lock to be free", || lock.acquire(1).is_ok());
    drop(lock);
    new.reloading.as_mut().unwrap().records.hurry();
    assert_eq!(new.reloads.attempts().id, Some(4));
    new.until(|entry| entry.id == 6);
    assert_eq!(new.reloads.attempts().id, Some(6));
    let back = new.change(Change::Rollback(Some(5))).unwrap();
    assert_eq!((back.entry.source, back.entry.repeats), (Source::TakenBack, Some(5)));
    assert_eq!(new.status(), 200);
}
