//! Orders to a gateway that serves, and what comes of them.

mod stored;
mod trials;

use super::*;
use crate::documents::Parsed;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use titan_admin::history::{Entry, Outcome as Fate};
use titan_admin::orders::{Document, Guard, History, Order, Orders, orders};
use titan_proxy::{Files, Gateway};
use tokio::sync::mpsc;

/// A gateway with the loop of the program, which runs while [`Program::during`] waits for something.
struct Program {
    gateway: Gateway,
    reloading: Option<Reloading>,
    orders: Orders,
    ordered: mpsc::Receiver<Order>,
    folder: PathBuf,
    reloads: Arc<Reloads>,
    /// Whether time passes at once where nothing is left to do.
    is_fast: bool,
}

const PEER: Author = Author::Peer { uid: 1000, pid: None };

/// A configuration in which every request gets that status.
fn with_status(status: u16) -> String {
    format!(
        "workers: 1\nlisteners: ['127.0.0.1:0']\nadmin: off\nstate: {{ directory: state, history: 4 }}\n\
         routes: [{{ name: r, respond: {status} }}]\n"
    )
}

/// The change to one, with what takes it back.
fn apply(text: &str, safeguards: Safeguards) -> Change {
    let document = Document { name: "new.yaml".to_owned(), text: text.to_owned() };
    Change::Apply { documents: vec![document], safeguards }
}

fn confirm_within(time: Duration) -> Safeguards {
    Safeguards { confirm: Some(time), guard: None }
}

const PLAIN: Safeguards = Safeguards { confirm: None, guard: None };
const LONG: Duration = Duration::from_secs(600);

impl Program {
    /// One that was started with a file that says so, in a folder of its own.
    fn starts(text: &str) -> Program {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("titan-reload-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        Program::starts_in(folder, text, false)
    }

    fn starts_in(folder: PathBuf, text: &str, is_fast: bool) -> Program {
        let file = folder.join("titan.yaml");
        std::fs::write(&file, text).unwrap();
        let Parsed { config, documents } = config_file::read_whole(&file).1.unwrap();
        let digest = documents.public_digest;
        let config = Arc::new(config);
        let gateway = Gateway::start(&config, &Files::default(), None).unwrap();
        let access = Access::new(&config, &Files::default()).unwrap();
        let (records, _) = opens(&config, &file, is_fast);
        let in_force = InForce { file, config, documents, state: Vec::new(), is_in_file: true };
        let (loader, status) = (gateway.loader().clone(), gateway.status());
        let reloads = Arc::new(Reloads::new(digest));
        let (orders, ordered) = orders();
        let mut program = Program {
            gateway,
            reloading: None,
            orders,
            ordered,
            folder,
            reloads: Arc::clone(&reloads),
            is_fast,
        };
        program.runtime().block_on(async {
            let reloading =
                Reloading::new(in_force, records, (loader, access, None), (reloads, status));
            program.reloading = Some(reloading);
        });
        program
    }

    /// Ends it as a kill does, and starts another one with its folder.
    fn starts_again(mut self, text: &str) -> Program {
        let folder = std::mem::take(&mut self.folder);
        drop(self);
        Program::starts_in(folder, text, false)
    }

    fn runtime(&self) -> tokio::runtime::Runtime {
        runtime(self.is_fast)
    }

    /// Runs the loop until `asked` is there.
    fn during<T>(&mut self, asked: impl Future<Output = T>) -> T {
        let runtime = self.runtime();
        let Program { reloading, ordered, .. } = self;
        runtime.block_on(async {
            let mut look = tokio::time::interval(Duration::from_millis(20));
            tokio::pin!(asked);
            loop {
                // In this order: what is asked for is on its way before something is done.
                tokio::select! {
                    biased;
                    told = &mut asked => return told,
                    Some(Order::Configuration(order)) = ordered.recv() => take(reloading, order),
                    () = proceed(reloading) => {}
                    _ = look.tick() => reloading.iter_mut().for_each(Reloading::look),
                }
            }
        })
    }

    fn change(&mut self, change: Change) -> Outcome {
        let orders = self.orders.clone();
        self.during(async move { orders.change(change, PEER).await })
    }

    fn confirm(&mut self) -> Outcome {
        let orders = self.orders.clone();
        self.during(async move { orders.confirm(PEER).await })
    }

    fn history(&mut self) -> History {
        let orders = self.orders.clone();
        self.during(async move { orders.history().await }).unwrap()
    }

    /// Runs the loop until the latest entry is like that.
    fn until(&mut self, is_so: impl Fn(&Entry) -> bool) -> History {
        self.until_all(|history| is_so(&history.entries[0]))
    }

    /// Runs the loop until the history is like that.
    fn until_all(&mut self, is_so: impl Fn(&History) -> bool) -> History {
        let (orders, is_fast) = (self.orders.clone(), self.is_fast);
        self.during(async move {
            loop {
                let history = orders.history().await.unwrap();
                if is_so(&history) {
                    return history;
                }
                match is_fast {
                    true => tokio::time::sleep(Duration::from_millis(10)).await,
                    false => tokio::task::yield_now().await,
                }
            }
        })
    }

    /// Lets the time pass that there is to confirm, and runs the loop until it was tried to take back.
    fn runs_out(&mut self) -> History {
        self.is_fast = true;
        let history = self.until(|entry| entry.why.is_some());
        self.is_fast = false;
        history
    }

    /// Lets it be time to take back again what could not be taken back, and runs the loop until that was tried.
    fn tries_again(&mut self) {
        let runtime = self.runtime();
        let reloading = self.reloading.as_mut().unwrap();
        let asked = reloading.asked();
        let retry = reloading.trial.as_mut().and_then(|trial| trial.retry.as_mut());
        retry.unwrap().at = Instant::now();
        runtime.block_on(async {
            while reloading.asked() == asked || reloading.is_under_way() {
                reloading.proceed().await;
            }
        });
    }

    /// What a request gets.
    fn status(&self) -> u16 {
        self.statuses(1)[0]
    }

    /// Sends so many times fifty requests, which all have to get that status.
    fn gets(&self, status: u16, times: usize) {
        for _ in 0..times {
            assert_eq!(self.statuses(50), [status; 50]);
        }
    }

    /// What so many requests on one connection get.
    fn statuses(&self, count: usize) -> Vec<u16> {
        let address = self.gateway.listeners()[0].socket_address.unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        for number in 1..=count {
            let close = if number == count { "Connection: close\r\n" } else { "" };
            write!(stream, "GET / HTTP/1.1\r\nHost: a\r\n{close}\r\n").unwrap();
        }
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let heads = text.split("HTTP/1.1 ").skip(1);
        heads.map(|head| head.split(' ').next().unwrap().parse().unwrap()).collect()
    }
}

/// Time passes there at once, or as it does.
fn runtime(is_fast: bool) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(is_fast).build().unwrap()
}

/// What the state directory of that file has.
fn opens(config: &Config, file: &Path, is_fast: bool) -> (Records, Vec<String>) {
    runtime(is_fast).block_on(Records::open(&config.state, file))
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.folder.as_os_str().is_empty() {
            // What is still to be written would make the folder again.
            self.reloading.iter().filter_map(Reloading::storage).for_each(|it| it.release());
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// Ids and what became of them, the latest first.
fn fates(history: &History) -> String {
    let mut text = String::new();
    for Entry { id, source, outcome, in_force, .. } in &history.entries {
        let mark = if *in_force { "*" } else { "" };
        write!(text, "{id}{mark} {source:?} {outcome:?}, ").unwrap();
    }
    text
}

#[test]
fn documents_are_applied_and_rolled_back() {
    let mut program = Program::starts(&with_status(200));
    let applied = program.change(apply(&with_status(201), PLAIN)).unwrap();
    assert_eq!((applied.entry.id, program.status()), (2, 201));
    assert_eq!(applied.entry.author, Some(PEER));
    let [note] = &applied.notes[..] else { panic!("{:?}", applied.notes) };
    assert!(
        note.ends_with("titan.yaml says something else: a reload or a restart takes that, unless the change is put there"),
        "{note}"
    );
    let back = program.change(Change::Rollback(None)).unwrap();
    assert_eq!((back.entry.id, back.entry.repeats, program.status()), (3, Some(1), 200));
    assert!(back.notes.is_empty(), "the file says the same: {:?}", back.notes);
    let forth = program.change(Change::Rollback(Some(2))).unwrap();
    assert_eq!((forth.entry.id, program.status()), (4, 201));
    let history = program.history();
    assert_eq!(
        fates(&history),
        "4* Rollback Applied, 3 Rollback Applied, 2 Admin Applied, 1 Start Applied, "
    );
    assert!(history.notes.is_empty(), "{:?}", history.notes);
    assert!(matches!(program.change(Change::Rollback(Some(9))), Err(NotApplied::NotFound(_))));
    let again = program.change(Change::Reload).unwrap();
    assert_eq!((again.entry.id, program.status(), again.notes.len()), (5, 200, 0));
    let same = program.change(apply(&with_status(200), PLAIN)).unwrap();
    assert_eq!((same.entry.id, same.notes.len()), (6, 0), "the file says that: {:?}", same.notes);
}

#[test]
fn what_is_shown_of_a_configuration_is_made_when_it_comes_into_force() {
    let mut program = Program::starts(&with_status(200));
    program.change(apply(&with_status(201), PLAIN)).unwrap();
    let shows = |program: &mut Program| {
        let orders = program.orders.clone();
        program.during(async move { orders.in_force().await }).unwrap()
    };
    let [one, other] = [shows(&mut program), shows(&mut program)];
    assert!(one.summary.contains("workers") && one.masked[0].text == with_status(201), "{one:?}");
    assert!(Arc::ptr_eq(&one.summary, &other.summary) && Arc::ptr_eq(&one.masked, &other.masked));
}

#[test]
fn few_plans_wait_and_those_that_nobody_waits_for_are_not_made() {
    let mut program = Program::starts(&with_status(200));
    let (turn, places) = {
        let planning = &program.reloading.as_ref().unwrap().planning;
        (Arc::clone(&planning.turn), Arc::clone(&planning.places))
    };
    let document = Document { name: "new.yaml".to_owned(), text: with_status(201) };
    let count = u32::try_from(places.available_permits()).unwrap();
    let under_way = turn.lock().unwrap();
    let mut reloading = program.reloading.take();
    let mut asks = || {
        let (done, outcome) = oneshot::channel();
        take(&mut reloading, ConfigOrder::Plan { documents: vec![document.clone()], done });
        outcome
    };
    let mut waiting: Vec<_> = (0..count).map(|_| asks()).collect();
    let Ok(Err(NotApplied::Conflict(why))) = asks().blocking_recv() else { panic!() };
    assert!(why.contains("4 others are being made or wait"), "{why}");
    let last = waiting.pop().unwrap();
    drop((waiting, under_way));
    assert!(last.blocking_recv().unwrap().unwrap().text.contains("respond.status: 200 -> 201"));
    program.reloading = reloading;
    // Those that nobody waits for leave their places as well.
    program.during(async move { places.acquire_many(count).await.map(drop) }).unwrap();
}

#[test]
fn what_is_wrong_changes_nothing_and_is_told_to_whoever_asked() {
    let mut program = Program::starts(&with_status(200));
    let wrong = apply(&with_status(201).replace("respond", "respnd"), PLAIN);
    let Err(NotApplied::Refused(findings)) = program.change(wrong) else { panic!() };
    assert!(
        findings.text.contains("new.yaml:5:") && findings.text.contains("respond"),
        "{}",
        findings.text
    );
    assert_eq!(findings.json[0]["file"], "new.yaml");
    let busy = apply(&with_status(201).replace("127.0.0.1:0", "192.0.2.1:1"), PLAIN);
    assert!(matches!(program.change(busy), Err(NotApplied::Failed(_))));
    let fixed = apply(&with_status(201).replace("history: 4", "history: 5"), PLAIN);
    let Err(NotApplied::Refused(findings)) = program.change(fixed) else { panic!() };
    assert!(findings.text.contains("new.yaml: `state` cannot change"), "{}", findings.text);
    assert_eq!((program.status(), fates(&program.history()).as_str()), (200, "1* Start Applied, "));
}

#[test]
fn of_changes_that_wait_the_last_one_is_made() {
    let mut program = Program::starts(&with_status(200));
    let orders = program.orders.clone();
    let ask = |status: u16| {
        let (orders, change) = (orders.clone(), apply(&with_status(status), PLAIN));
        async move { orders.change(change, PEER).await }
    };
    // All are on their way before the loop takes the first one, and it takes all before it begins to wait.
    let [first, second, third] = program.during(async {
        let (first, second, third) = tokio::join!(ask(201), ask(202), ask(203));
        [first, second, third]
    });
    assert!(first.is_ok(), "{first:?}");
    assert!(matches!(second, Err(NotApplied::Superseded)), "{second:?}");
    assert!(third.is_ok());
    assert_eq!(program.status(), 203);
}

#[test]
fn no_process_takes_over_while_a_change_is_under_way() {
    let mut program = Program::starts(&with_status(200));
    let before_upgrade = |program: &Program| program.reloading.as_ref().unwrap().before_upgrade();
    assert_eq!(before_upgrade(&program), None);
    program.reloading.as_mut().unwrap().hang_up();
    let why = before_upgrade(&program).unwrap();
    assert!(why.starts_with("a change of the configuration is under way"), "{why}");
    program.until(|entry| entry.source == Source::Signal);
    assert_eq!(before_upgrade(&program), None);
}

#[test]
fn what_is_confirmed_stays() {
    let mut program = Program::starts(&with_status(200));
    assert!(
        matches!(program.confirm(), Err(NotApplied::Conflict(_))),
        "there is nothing to confirm"
    );
    let applied = program.change(apply(&with_status(201), confirm_within(LONG))).unwrap();
    assert_eq!((applied.entry.outcome, program.status()), (Fate::OnTrial, 201));
    assert!(
        applied.notes[1].contains("unless `titan confirm` comes before"),
        "{:?}",
        applied.notes
    );
    let confirmed = program.confirm().unwrap();
    assert_eq!((confirmed.entry.id, confirmed.entry.outcome), (2, Fate::Confirmed));
    assert_eq!(confirmed.entry.why.as_deref(), Some("confirmed by uid 1000"));
    assert!(matches!(program.confirm(), Err(NotApplied::Conflict(_))));
    assert_eq!(program.change(Change::Reload).unwrap().entry.id, 3);
}

#[test]
fn what_nobody_confirms_is_taken_back() {
    let mut program = Program::starts(&with_status(200));
    let short = confirm_within(Duration::from_millis(200));
    assert_eq!(program.change(apply(&with_status(201), short)).unwrap().entry.id, 2);
    let history = program.until(|entry| entry.source == Source::TakenBack);
    assert_eq!(fates(&history), "3* TakenBack Applied, 2 Admin TakenBack, 1 Start Applied, ");
    assert_eq!(history.entries[1].why.as_deref(), Some("it was not confirmed in time"));
    assert_eq!((history.entries[0].repeats, program.status()), (Some(1), 200));
    assert!(matches!(program.confirm(), Err(NotApplied::Conflict(_))));
}

/// Applies a configuration that names a file, and then one on trial that does not; the file goes away.
fn has_nothing_to_go_back_to() -> (Program, PathBuf) {
    let mut program = Program::starts(&with_status(200));
    let secret = program.folder.join("secret");
    std::fs::write(&secret, SECRET).unwrap();
    let with_file = with_status(201)
        + "apply: [p]\npolicies: { p: { jwt: { required: false, providers: { algorithms: HS256, \
           keys: { secret_file: secret } } } } }\n";
    program.change(apply(&with_file, PLAIN)).unwrap();
    let safeguards = confirm_within(Duration::from_secs(60));
    program.change(apply(&with_status(202), safeguards)).unwrap();
    std::fs::remove_file(&secret).unwrap();
    (program, secret)
}

const SECRET: &str = "forty bytes that nobody but us can guess";

#[test]
fn taking_back_is_tried_until_it_succeeds() {
    let (mut program, secret) = has_nothing_to_go_back_to();
    for _ in 0..2 {
        let Err(NotApplied::Refused(findings) | NotApplied::Failed(findings)) =
            program.change(Change::Rollback(None))
        else {
            panic!()
        };
        assert!(findings.text.contains("secret"), "{}", findings.text);
        let latest = program.history().entries[0].clone();
        assert_eq!((latest.id, latest.outcome, program.status()), (3, Fate::OnTrial, 202));
        let why = latest.why.unwrap();
        assert!(why.starts_with("uid 1000 asked for that, but it cannot be taken back: "), "{why}");
    }
    let Err(NotApplied::Conflict(_)) = program.change(Change::Reload) else { panic!() };
    std::fs::write(&secret, SECRET).unwrap();
    program.tries_again();
    let history = program.until(|entry| entry.source == Source::TakenBack);
    assert_eq!((history.entries[0].repeats, program.status()), (Some(2), 201));
    assert_eq!(history.entries[1].outcome, Fate::TakenBack);
    assert!(program.change(Change::Reload).is_ok(), "the trial is over");
}

#[test]
fn a_trial_that_cannot_be_taken_back_shows_in_the_metrics() {
    let (mut program, secret) = has_nothing_to_go_back_to();
    let figures = |program: &Program| {
        let it = program.reloads.attempts();
        (it.is_on_trial, it.taken_back, it.applied, it.refused, it.refused_last.is_none())
    };
    let shown = |program: &Program| program.reloads.attempts().id;
    assert_eq!((figures(&program), shown(&program)), ((true, [0; 3], 2, 0, true), Some(3)));
    program.runs_out();
    let failed = (true, [0; 3], 2, 1, false);
    assert_eq!(figures(&program), failed);
    // A failure that is known is not counted again.
    program.tries_again();
    assert_eq!(figures(&program), failed);
    let last = program.reloads.last();
    std::fs::write(&secret, SECRET).unwrap();
    program.tries_again();
    assert_eq!(figures(&program), (false, [1, 0, 0], 3, 1, true));
    assert!(program.reloads.last() > last);
    assert_eq!((shown(&program), program.history().entries[0].id), (Some(4), 4));
}

#[test]
fn what_cannot_be_taken_back_can_be_confirmed() {
    let (mut program, secret) = has_nothing_to_go_back_to();
    assert_eq!(program.runs_out().entries[0].outcome, Fate::OnTrial);
    // A failure that is known is tried again too.
    program.tries_again();
    let confirmed = program.confirm().unwrap();
    assert_eq!((confirmed.entry.id, confirmed.entry.outcome), (3, Fate::Confirmed));
    std::fs::write(&secret, SECRET).unwrap();
    assert!(program.reloading.as_ref().unwrap().trial.is_none());
    assert_eq!(program.status(), 202);
}

#[test]
fn nothing_else_changes_during_a_trial() {
    let mut program = Program::starts(&with_status(200));
    program.change(apply(&with_status(201), confirm_within(LONG))).unwrap();
    for change in [Change::Reload, apply(&with_status(202), PLAIN), Change::Rollback(Some(2))] {
        let Err(NotApplied::Conflict(why)) = program.change(change) else { panic!() };
        assert!(why.starts_with("configuration 2 is on trial until "), "{why}");
    }
    program.reloading.as_mut().unwrap().hang_up();
    assert_eq!((program.history().entries.len(), program.status()), (2, 201));
    // Going back is what a trial is for.
    let back = program.change(Change::Rollback(None)).unwrap();
    assert_eq!((back.entry.source, program.status()), (Source::TakenBack, 200));
    let history = program.history();
    assert_eq!(history.entries[1].why.as_deref(), Some("uid 1000 asked for that"));
    assert!(program.change(Change::Reload).is_ok());
}

#[test]
fn what_the_watch_sees_during_a_trial_is_taken_up_after_it() {
    let mut program = Program::starts(&with_status(200));
    let file = program.folder.join("titan.yaml");
    program.reloading = program.reloading.take().map(Reloading::watching);
    program.change(apply(&with_status(201), confirm_within(LONG))).unwrap();
    std::fs::write(&file, with_status(202)).unwrap();
    program.reloading.as_mut().unwrap().look();
    program.reloading.as_mut().unwrap().look();
    assert_eq!((program.history().entries.len(), program.status()), (2, 201));
    program.confirm().unwrap();
    program.until(|entry| entry.source == Source::Watch);
    assert_eq!(program.status(), 202);
}

#[test]
fn a_look_at_files_that_does_not_come_back_holds_up_nothing() {
    let mut program = Program::starts(&with_status(200));
    program.reloading = program.reloading.take().map(Reloading::watching);
    program.is_fast = true;
    let (done, seen) = oneshot::channel();
    let reloading = program.reloading.as_mut().unwrap();
    reloading.looking = Some(Pending::new(reloading.asked(), seen, LONG_LOOK));
    let file = program.folder.join("titan.yaml");
    std::fs::write(&file, with_status(202)).unwrap();
    program.change(apply(&with_status(201), confirm_within(LONG))).unwrap();
    program.during(async { tokio::time::sleep(2 * LONG_LOOK).await });
    let looking = &program.reloading.as_ref().unwrap().looking;
    assert!(looking.as_ref().is_some_and(Pending::is_late), "there is one look at a time");
    program.confirm().unwrap();
    assert_eq!((program.history().entries.len(), program.status()), (2, 201));
    // What it has seen is of the past.
    assert!(done.send(Seen { named: vec![None], origins: None }).is_ok());
    program.until(|entry| entry.source == Source::Watch);
    assert_eq!((program.reloading.as_ref().unwrap().asked(), program.status()), (2, 202));
}

#[test]
fn safeguards_make_sense() {
    let mut program = Program::starts(&with_status(200));
    let guard = |factor| Safeguards { confirm: None, guard: Some(Guard { window: LONG, factor }) };
    for safeguards in [
        confirm_within(Duration::ZERO),
        confirm_within(Duration::MAX),
        guard(1.0),
        guard(f64::NAN),
        guard(f64::INFINITY),
    ] {
        let outcome = program.change(apply(&with_status(201), safeguards));
        assert!(matches!(outcome, Err(NotApplied::Refused(_))), "{safeguards:?}");
    }
    assert_eq!(program.status(), 200);
}

#[test]
fn the_guard_takes_back_what_fails() {
    let mut program = Program::starts(&with_status(200));
    program.gets(200, 6);
    let guard = Some(Guard { window: LONG, factor: 2.0 });
    let safeguards = Safeguards { confirm: None, guard };
    let applied = program.change(apply(&with_status(503), safeguards)).unwrap();
    assert_eq!(applied.entry.outcome, Fate::OnTrial);
    program.gets(503, 3);
    let history = program.until(|entry| entry.source == Source::TakenBack);
    assert_eq!(program.status(), 200);
    assert_eq!(
        history.entries[1].why.as_deref(),
        Some("route `r`: 5xx 100.0 % of 150 requests, before 0.0 % of 300 requests")
    );
}

#[test]
fn the_guard_is_content_with_what_works() {
    let mut program = Program::starts(&with_status(200));
    let guard = Some(Guard { window: Duration::from_millis(200), factor: 2.0 });
    program.change(apply(&with_status(201), Safeguards { confirm: None, guard })).unwrap();
    program.gets(201, 3);
    let history = program.until(|entry| entry.outcome != Fate::OnTrial);
    assert_eq!(fates(&history), "2* Admin Confirmed, 1 Start Applied, ");
    assert_eq!(program.status(), 201);
}
