//! What is read back from the file, whatever has happened to it, and how the interface responds.

use super::log::new_path;
use super::*;
use crate::http::{Peer, Request, Response};
use proptest::collection::vec;
use proptest::prelude::*;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use titan_config::bounds::MAX_LEEWAY;
use titan_http::{FieldName, Method, RequestHead};

const NOW: u64 = 1_000_000;
/// The same time.
const AT: Duration = Duration::from_secs(NOW);
const HOUR: u64 = 3600;
const CONFIG: &str = "{ listeners: [':1'], routes: [{ respond: 200 }], apply: [p], policies: { p: { jwt: { \
    providers: [{ issuer: i, algorithms: EdDSA, keys: { jwks: k } }, { issuer: j, algorithms: EdDSA, keys: { jwks: k } }] } } } }";

/// The same at a time that is given.
fn open_at(
    path: &Path,
    capacity: usize,
    config: &Config,
    now: u64,
) -> Result<RevocationStore, RevocationStoreError> {
    let store = RevocationStore::new(path, capacity, config);
    store.open_at(Duration::from_secs(now))?;
    Ok(store)
}

/// A file in a folder of its own, which goes with this.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new() -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("titan-store-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        Place(folder)
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("revocations")
    }

    pub(crate) fn opens(&self) -> Result<RevocationStore, RevocationStoreError> {
        self.opens_for(100)
    }

    pub(crate) fn opens_for(
        &self,
        capacity: usize,
    ) -> Result<RevocationStore, RevocationStoreError> {
        open_at(&self.file(), capacity, &Config::parse("test", CONFIG).unwrap(), NOW)
    }

    /// From now on nothing can be written.
    pub(crate) fn fails(&self, store: &RevocationStore) {
        store.lock().log().unwrap().fail();
        fs::create_dir(new_path(&self.file())).unwrap();
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    fn adds(&self, bytes: &[u8]) {
        let file = OpenOptions::new().append(true).open(self.file());
        file.unwrap().write_all(bytes).unwrap();
    }
}

/// A gateway of a fleet that never hears of others, and its folder.
pub(crate) fn cut_off() -> (Place, RevocationStore) {
    let place = Place::new();
    let text = CONFIG.replacen(
        '{',
        "{ stores: { s: { address: 'redis://127.0.0.1:1', hash_key: 0123456789abcdef } }, jwt_revocations: { file: r, store: s },",
        1,
    );
    let store = open_at(&place.file(), 100, &Config::parse("test", &text).unwrap(), NOW).unwrap();
    (place, store)
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn tokens(text: &str) -> Tokens {
    serde_json::from_str(text).unwrap()
}

fn token(name: &str) -> Tokens {
    tokens(&format!("{{\"jti\":\"{name}\",\"exp\":{}}}", NOW + HOUR))
}

fn ids(store: &RevocationStore, now: u64) -> Vec<u64> {
    store.list(0, 100, now).iter().map(|entry| entry.id).collect()
}

#[test]
fn what_is_revoked_stays_so_over_a_restart() {
    let place = Place::new();
    let store = place.opens().unwrap();
    for name in ["a", "b", "c"] {
        assert!(matches!(store.revoke(token(name), AT), Ok(Outcome::Added(_))));
    }
    assert!(store.lift(2, AT).unwrap().is_some());
    assert!(store.lift(2, AT).unwrap().is_none());
    let before = store.list(0, 100, NOW);
    drop(store);
    let store = place.opens().unwrap();
    assert_eq!(store.list(0, 100, NOW), before);
    assert_eq!(store.take_warning(), None);
    // The id of one that is gone is not used again, even if no line has it any more.
    assert!(store.lift(3, AT).unwrap().is_some());
    store.lock().compact().unwrap();
    drop(store);
    let Ok(Outcome::Added(entry)) = place.opens().unwrap().revoke(token("d"), AT) else { panic!() };
    assert_eq!(entry.id, 4);
}

#[test]
fn it_is_on_the_disk_before_the_response() {
    let place = Place::new();
    let store = place.opens().unwrap();
    store.revoke(token("a"), AT).unwrap();
    assert!(place.text().ends_with(&format!(
        " {{\"add\":{{\"id\":1,\"jti\":\"a\",\"exp\":{},\"stamp\":{}}}}}\n",
        NOW + HOUR,
        AT.as_millis()
    )));
    store.lift(1, AT).unwrap();
    assert!(place.text().ends_with(" {\"remove\":1}\n"));
}

#[test]
fn one_entry_is_for_all_tokens_of_a_target() {
    let place = Place::new();
    let store = place.opens().unwrap();
    let subject =
        |iat: u64, exp: u64| tokens(&format!("{{\"sub\":\"s\",\"iat\":{iat},\"exp\":{exp}}}"));
    store.revoke(subject(5, NOW + 20), AT).unwrap();
    let lines = || place.text().lines().count();
    let before = lines();
    let stamp = 1000 * NOW + 1;
    let both = Entry { id: 1, tokens: subject(7, NOW + 20), stamp, lifts: None };
    assert_eq!(store.revoke(subject(7, NOW + 10), AT).unwrap(), Outcome::Known(both.clone()));
    assert_eq!(lines(), before + 1);
    assert_eq!(store.revoke(subject(6, NOW + 20), AT).unwrap(), Outcome::Known(both));
    assert_eq!(lines(), before + 1, "it says nothing new");
    let other = tokens(&format!("{{\"sub\":\"s\",\"iat\":1,\"iss\":\"i\",\"exp\":{}}}", NOW + 10));
    assert!(matches!(store.revoke(other, AT), Ok(Outcome::Added(_))));
    assert!(matches!(store.revoke(token("s"), AT), Ok(Outcome::Added(_))));
}

#[test]
fn a_full_ledger_refuses_and_those_that_have_ended_make_room() {
    let place = Place::new();
    let store = place.opens_for(2).unwrap();
    let short = tokens(&format!("{{\"jti\":\"short\",\"exp\":{}}}", NOW + 1));
    store.revoke(short, AT).unwrap();
    store.revoke(token("a"), AT).unwrap();
    // Providers' clocks may be off: a token may be accepted for that much longer than it says.
    let ended = NOW + 1 + MAX_LEEWAY.as_secs();
    for now in [NOW, ended - 1] {
        assert!(matches!(store.revoke(token("b"), Duration::from_secs(now)), Err(Refused::Full)));
        assert_eq!(ids(&store, now), [1, 2]);
    }
    assert!(matches!(store.revoke(token("a"), AT), Ok(Outcome::Known(_))));
    assert!(matches!(store.revoke(token("b"), Duration::from_secs(ended)), Ok(Outcome::Added(_))));
    assert_eq!(ids(&store, ended), [2, 3]);
    drop(store);
    // With less capacity no entry is dropped.
    let store = place.opens_for(1).unwrap();
    assert_eq!(store.list(0, 9, ended).len(), 2);
    assert!(matches!(store.revoke(token("c"), Duration::from_secs(ended)), Err(Refused::Full)));
}

#[test]
fn what_would_change_nothing_is_refused() {
    let place = Place::new();
    let store = place.opens().unwrap();
    let of = |issuer: &str| {
        tokens(&format!("{{\"jti\":\"a\",\"iss\":\"{issuer}\",\"exp\":{}}}", NOW + 9))
    };
    assert!(matches!(store.revoke(of("typo"), AT), Err(Refused::Issuer)));
    assert!(matches!(store.revoke(of("j"), AT), Ok(Outcome::Added(_))));
    let old = tokens(&format!("{{\"jti\":\"a\",\"exp\":{}}}", NOW - MAX_LEEWAY.as_secs()));
    assert!(matches!(store.revoke(old, AT), Err(Refused::Ended)));
    for text in [
        "",
        "[]",
        "{}",
        "{\"jti\":\"a\"}",
        "{\"jti\":1,\"exp\":1}",
        "{\"jti\":\"\",\"exp\":1}",
        "{\"jti\":\"a\",\"jti\":\"b\",\"exp\":1}",
        "{\"jti\":\"a\",\"sub\":\"a\",\"exp\":1}",
        "{\"jti\":\"a\",\"iat\":1,\"exp\":1}",
        "{\"sub\":\"a\",\"exp\":1}",
        "{\"iss\":\"i\",\"exp\":1}",
        "{\"jti\":\"a\",\"exp\":-1}",
        "{\"jti\":\"a\",\"exp\":1767225600000}",
        "{\"jti\":\"a\",\"exp\":1,\"more\":1}",
    ] {
        assert!(serde_json::from_str::<Tokens>(text).is_err(), "{text}");
    }
    let long = format!("{{\"jti\":\"{}\",\"exp\":1}}", "a".repeat(entry::MAX_NAME + 1));
    assert!(serde_json::from_str::<Tokens>(&long).is_err());
}

#[test]
fn a_file_belongs_to_one_process() {
    let place = Place::new();
    let store = place.opens().unwrap();
    assert!(matches!(place.opens(), Err(RevocationStoreError::InUse(_))));
    store.lock().compact().unwrap();
    assert!(matches!(place.opens(), Err(RevocationStoreError::InUse(_))));
    drop(store);
    place.opens().unwrap();
}

/// A file with three lines behind the first, and its bytes.
fn written() -> (Place, Vec<u8>) {
    let place = Place::new();
    let store = place.opens().unwrap();
    store.revoke(token("a"), AT).unwrap();
    store.revoke(token("b"), AT).unwrap();
    store.lift(1, AT).unwrap();
    drop(store);
    let bytes = fs::read(place.file()).unwrap();
    (place, bytes)
}

#[test]
fn a_line_that_a_crash_has_cut_is_dropped_and_reported() {
    let (place, bytes) = written();
    let last = bytes.len()
        - 1
        - bytes[..bytes.len() - 1].iter().rev().position(|it| *it == b'\n').unwrap();
    for cut in last + 1..bytes.len() {
        fs::write(place.file(), &bytes[..cut]).unwrap();
        RevocationStore::check(&place.file()).unwrap();
        assert_eq!(fs::read(place.file()).unwrap(), &bytes[..cut], "looking has changed it");
        let store = place.opens().unwrap();
        assert_eq!(ids(&store, NOW), [1, 2], "{cut}");
        // As while the file is written on a disk that does not respond.
        let writing = store.lock();
        assert_eq!(store.take_warning(), None);
        drop(writing);
        let warning = store.take_warning().unwrap();
        assert!(warning.contains(&format!(" {} bytes", cut - last)), "{warning}");
        assert_eq!(store.take_warning(), None);
        // What comes next stands on a line of its own.
        store.revoke(token("c"), AT).unwrap();
        drop(store);
        let store = place.opens().unwrap();
        assert_eq!((ids(&store, NOW), store.take_warning()), (vec![1, 2, 3], None));
    }
    // The file has grown, and its bytes have not come.
    for tail in [&[0; 40][..], b"0123456789abcdef {\"add\":{\"id\":9\0\0\0\0\0\n"] {
        fs::write(place.file(), &bytes).unwrap();
        place.adds(tail);
        let store = place.opens().unwrap();
        assert_eq!((ids(&store, NOW), store.take_warning().is_some()), (vec![2], true));
    }
}

#[test]
fn any_other_change_keeps_it_from_being_used() {
    let (place, bytes) = written();
    let refused = |bytes: &[u8], what: &str| {
        fs::write(place.file(), bytes).unwrap();
        let error = place.opens().map(drop).expect_err(what);
        assert!(matches!(error, RevocationStoreError::Corrupt { .. }), "{what}: {error}");
        assert!(RevocationStore::check(&place.file()).is_err(), "{what}");
        assert_eq!(fs::read(place.file()).unwrap(), bytes, "{what}: it was changed");
    };
    for place in 0..bytes.len() - 1 {
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        refused(&changed, &format!("byte {place}"));
    }
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    for gone in 0..lines.len() - 1 {
        let rest = lines.iter().enumerate().filter(|(line, _)| *line != gone);
        refused(&rest.flat_map(|(_, line)| line.to_vec()).collect::<Vec<_>>(), "a line is gone");
    }
    refused(&[lines[0], lines[2], lines[1], lines[3]].concat(), "lines have changed places");
    refused(&[&bytes[..], lines[3]].concat(), "a line is there twice");
    refused(b"a secret that somebody has named by mistake", "another file");
    refused(b"one line\n", "another file");
    refused(&[b'x'; 100_000], "a long file");
    let error = RevocationStoreError::Corrupt { path: "f".into(), line: 3, why: "w".to_owned() };
    assert!(error.to_string().starts_with("f:3: w; without the file, revoked tokens"), "{error}");
    for no_file in ["/dev/null", "/nowhere/f"] {
        let opened = open_at(Path::new(no_file), 1, &config(), NOW);
        assert!(matches!(opened, Err(RevocationStoreError::BadPlace { .. })), "{no_file}");
    }
}

fn config() -> Config {
    Config::parse("test", CONFIG).unwrap()
}

#[test]
fn an_empty_file_is_a_new_one() {
    let place = Place::new();
    fs::write(place.file(), "").unwrap();
    place.opens().unwrap().revoke(token("a"), AT).unwrap();
    assert_eq!(ids(&place.opens().unwrap(), NOW), [1]);
}

/// A process may be killed between any two steps of writing the file anew.
#[test]
fn a_crash_while_it_is_compacted_loses_nothing() {
    let (place, bytes) = written();
    let new = new_path(&place.file());
    let store = place.opens().unwrap();
    store.lock().compact().unwrap();
    drop(store);
    let compacted = fs::read(place.file()).unwrap();
    assert!(compacted.len() < bytes.len());
    for cut in 0..=compacted.len() {
        fs::write(place.file(), &bytes).unwrap();
        fs::write(&new, &compacted[..cut]).unwrap();
        let store = place.opens().unwrap();
        assert_eq!(ids(&store, NOW), [2]);
        // What was left there does no harm.
        store.lock().compact().unwrap();
        assert!(!new.exists());
        drop(store);
        assert_eq!(fs::read(place.file()).unwrap(), compacted);
    }
    assert_eq!(ids(&place.opens().unwrap(), NOW), [2]);
}

#[test]
fn the_file_does_not_grow_for_ever() {
    let place = Place::new();
    let store = place.opens().unwrap();
    for _ in 0..SLACK {
        store.revoke(token("a"), AT).unwrap();
        let id = ids(&store, NOW)[0];
        store.lift(id, AT).unwrap();
        assert!(store.lock().log().unwrap().lines() <= SLACK + 3);
    }
}

#[test]
fn a_disk_that_fails_changes_nothing_until_it_works_again() {
    let place = Place::new();
    let store = place.opens().unwrap();
    store.revoke(token("a"), AT).unwrap();
    store.lock().log().unwrap().fail();
    // Where a folder stands no file can be written anew.
    fs::create_dir(new_path(&place.file())).unwrap();
    assert!(matches!(store.revoke(token("b"), AT), Err(Refused::Disk(_))));
    assert!(store.lift(1, AT).is_err());
    assert_eq!(ids(&store, NOW), [1]);
    fs::remove_dir(new_path(&place.file())).unwrap();
    store.revoke(token("b"), AT).unwrap();
    drop(store);
    assert_eq!(ids(&place.opens().unwrap(), NOW), [1, 2]);
}

#[test]
fn another_process_can_have_the_file_for_a_while() {
    let place = Place::new();
    let store = place.opens().unwrap();
    store.revoke(token("a"), AT).unwrap();
    assert!(matches!(place.opens(), Err(RevocationStoreError::InUse(_))));
    store.close();
    let other = place.opens().unwrap();
    assert_eq!(ids(&other, NOW), [1]);
    assert!(matches!(store.open_at(AT), Err(RevocationStoreError::InUse(_))));
    let Err(Refused::Disk(error)) = store.revoke(token("b"), AT) else { panic!("it is not ours") };
    assert!(error.to_string().contains("an upgrade is under way"), "{error}");
    assert_eq!(ids(&store, NOW), [1], "what is revoked stays so");
    drop(other);
    store.open_at(AT).unwrap();
    store.revoke(token("b"), AT).unwrap();
    assert_eq!(ids(&store, NOW), [1, 2]);
    drop(store);
    assert_eq!(ids(&place.opens().unwrap(), NOW), [1, 2]);
}

/// Waits as long as a response may take, without taking that long.
fn response(asked: impl Future<Output = Response>) -> Response {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(asked)
}

/// Asks for a page with these fields and that body: status and body.
fn ask(
    store: &RevocationStore,
    method: Method,
    rest: &str,
    fields: &[(FieldName, &str)],
    body: &str,
) -> (u16, String) {
    let mut head = RequestHead { method, ..RequestHead::default() };
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    head.set_query(Some(query.as_bytes())).unwrap();
    for (name, value) in fields {
        head.fields.append(*name, value.as_bytes()).unwrap();
    }
    let request = Request { head, body: body.into(), peer: PEER };
    let Response { head, body, .. } = response(async {
        match (method, path) {
            (Method::POST, "") => revoke(store, &request).await,
            (Method::GET, "") => list(store, request.head.query()),
            (_, path) => restore(store, path.strip_prefix('/').unwrap().as_bytes()).await,
        }
    });
    (head.status.code(), String::from_utf8(body).unwrap())
}

const PEER: Peer = Peer::Process { uid: 0, pid: None };
const JSON: &[(FieldName, &str)] = &[(FieldName::ContentType, "application/json; charset=utf-8")];

#[test]
fn tokens_are_revoked_listed_and_accepted_again() {
    let place = Place::new();
    let store = place.opens().unwrap();
    let ends = now() + HOUR;
    let add = |name: &str| {
        ask(&store, Method::POST, "", JSON, &format!("{{\"jti\":\"{name}\",\"exp\":{ends}}}"))
    };
    let shown = |id: u64, name: &str| format!("{{\"id\":{id},\"jti\":\"{name}\",\"exp\":{ends}}}");
    for (id, name) in [(1, "a"), (2, "b"), (3, "c")] {
        assert_eq!(add(name), (201, shown(id, name) + "\n"));
        assert_eq!(add(name), (200, shown(id, name) + "\n"));
    }
    let get = |rest: &str| ask(&store, Method::GET, rest, &[], "");
    let (a, b, c) = (shown(1, "a"), shown(2, "b"), shown(3, "c"));
    let page = |entries: &str, next: &str, count: usize| {
        format!(
            "{{\"revocations\":[{entries}],\"next\":{next},\"count\":{count},\"capacity\":100}}\n"
        )
    };
    assert_eq!(get(""), (200, page(&format!("{a},{b},{c}"), "null", 3)));
    assert_eq!(get("?limit=2"), (200, page(&format!("{a},{b}"), "2", 3)));
    assert_eq!(get("?limit=2&after=2"), (200, page(&c, "null", 3)));
    for query in ["?limit=0", "?limit=1001", "?limit=x", "?after=-1", "?other=1", "?after=+1"] {
        assert_eq!(get(query).0, 400, "{query}");
    }
    let delete = |rest: &str| ask(&store, Method::DELETE, rest, &[], "");
    assert_eq!(delete("/2"), (204, String::new()));
    for rest in ["/2", "/", "/x", "/1/", "/+1", "/99999999999999999999"] {
        assert_eq!(delete(rest).0, 404, "{rest}");
    }
    assert_eq!(get("").1, page(&format!("{a},{c}"), "null", 2));
}

#[test]
fn a_malformed_request_does_nothing() {
    let place = Place::new();
    let store = place.opens_for(1).unwrap();
    let body = |iss: &str, exp: u64| format!("{{\"jti\":\"a\",\"iss\":\"{iss}\",\"exp\":{exp}}}");
    let good = body("i", now() + HOUR);
    let form = [(FieldName::ContentType, "text/plain")];
    for (method, rest, fields, body, status) in [
        (Method::POST, "", &form[..], &*good, 400),
        (Method::POST, "", &[], &*good, 400),
        (Method::POST, "", JSON, "{}", 400),
        (Method::POST, "", JSON, &body("typo", now() + HOUR), 400),
        (Method::POST, "", JSON, &body("i", 1), 400),
    ] {
        assert_eq!(ask(&store, method, rest, fields, body).0, status, "{method:?} {rest} {body}");
    }
    assert_eq!(store.count(now()), (0, 1));
    assert_eq!(ask(&store, Method::POST, "", JSON, &good).0, 201);
    let (status, text) = ask(&store, Method::POST, "", JSON, &body("j", now() + HOUR));
    assert_eq!(status, 409);
    assert!(text.contains("`jwt_revocations.capacity`"), "{text}");
    place.fails(&store);
    assert_eq!(ask(&store, Method::DELETE, "/1", &[], "").0, 503);
}

#[derive(Clone, Debug)]
enum Step {
    Revoke { name: u8, is_subject: bool, issued: u64, ends: u64 },
    Lift(u64),
    Pass(u64),
    Restart { torn: usize },
    Compact,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..4u8, any::<bool>(), 0..9u64, 0..50u64)
            .prop_map(|(name, is_subject, issued, ends)| Step::Revoke { name, is_subject, issued, ends }),
        2 => (1..9u64).prop_map(Step::Lift),
        1 => (1..40u64).prop_map(Step::Pass),
        1 => (0..60usize).prop_map(|torn| Step::Restart { torn }),
        1 => Just(Step::Compact),
    ];
    vec(step, 1..24)
}

/// What a revocation is, without files: a list of id, whether it is a subject, name, issued and ends.
type Model = Vec<(u64, bool, u8, u64, u64)>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever happens in whatever order, what is read back from the file is what was acknowledged.
    #[test]
    fn what_comes_back_is_what_was_acknowledged(steps in steps()) {
        let place = Place::new();
        let mut store = place.opens_for(3).unwrap();
        let (mut model, mut now, mut next): (Model, u64, u64) = (Vec::new(), NOW, 1);
        for step in steps {
            model.retain(|(.., ends)| now < ends + MAX_LEEWAY.as_secs());
            match step {
                Step::Revoke { name, is_subject, issued, ends } => {
                    let ends = now + ends;
                    let what = match is_subject {
                        true => format!("\"sub\":\"{name}\",\"iat\":{issued}"),
                        false => format!("\"jti\":\"{name}\""),
                    };
                    let asked = tokens(&format!("{{{what},\"exp\":{ends}}}"));
                    let result = store.revoke(asked, Duration::from_secs(now));
                    let is_full = model.len() == 3;
                    match model.iter_mut().find(|it| (it.1, it.2) == (is_subject, name)) {
                        Some(known) => {
                            (known.3, known.4) = (known.3.max(issued), known.4.max(ends));
                            prop_assert!(matches!(result, Ok(Outcome::Known(_))));
                        }
                        None if is_full => prop_assert!(matches!(result, Err(Refused::Full))),
                        None => {
                            model.push((next, is_subject, name, issued, ends));
                            next += 1;
                            prop_assert!(matches!(result, Ok(Outcome::Added(_))));
                        }
                    }
                }
                Step::Lift(id) => {
                    let is_there = model.iter().any(|it| it.0 == id);
                    model.retain(|it| it.0 != id);
                    let lifted = store.lift(id, Duration::from_secs(now)).unwrap();
                    prop_assert_eq!(lifted.is_some(), is_there);
                }
                Step::Pass(seconds) => now += seconds * 10,
                Step::Restart { torn } => {
                    drop(store);
                    let line = b"0123456789abcdef {\"add\":{\"id\":99,\"jti\":\"never acknowledged\",\"exp\":1}}";
                    place.adds(&line[..torn]);
                    store = open_at(&place.file(), 3, &config(), now).unwrap();
                    prop_assert_eq!(store.take_warning().is_some(), torn > 0);
                }
                Step::Compact => store.lock().compact().unwrap(),
            }
            model.retain(|(.., ends)| now < ends + MAX_LEEWAY.as_secs());
            let entries = store.list(0, 100, now);
            prop_assert_eq!(entries.len(), model.len());
            for (entry, (id, is_subject, name, issued, ends)) in entries.iter().zip(&model) {
                let expected = match is_subject {
                    true => format!("{{\"id\":{id},\"sub\":\"{name}\",\"iat\":{issued},\"exp\":{ends}}}"),
                    false => format!("{{\"id\":{id},\"jti\":\"{name}\",\"exp\":{ends}}}"),
                };
                let shown = entry.clone().shown(None);
                prop_assert_eq!(serde_json::to_string(&shown).unwrap(), expected);
            }
        }
    }
}
