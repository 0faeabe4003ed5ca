//! What stays of a policy when one configuration follows another, and what does not.

use super::requests::{LASTING, admitted};
use super::*;
use crate::policy::Policy as _;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Weak;
use std::thread;
use titan_config::{Config, Policy};
use titan_io::tls::Files;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const PROVIDER: &str = "providers: { algorithms: HS256, keys: { secret_file: k } }";

/// The policy of that name with those fields, and what `registry` has of it. Its file `k` holds that.
fn later(registry: &Registry, name: &str, fields: &str, file: &[u8]) -> Jwt {
    later_with(registry, (name, fields), file, &None).0
}

/// The same with these revoked tokens; and what its files come to.
fn later_with(
    registry: &Registry,
    (name, fields): (&str, &str),
    file: &[u8],
    revoked: &Option<Revocations>,
) -> (Jwt, Vec<Source>) {
    try_later(registry, (name, fields), file, revoked).unwrap_or_else(|bad| panic!("{bad}"))
}

/// The same where the file may be of no use.
pub(super) fn try_later(
    registry: &Registry,
    (name, fields): (&str, &str),
    file: &[u8],
    revoked: &Option<Revocations>,
) -> Result<(Jwt, Vec<Source>), BadCredentials> {
    let text = format!(
        "listeners: ['127.0.0.1:0']\nroutes: [{{ respond: 204, apply: [{name}] }}]\npolicies: {{ {name}: {{ jwt: {{ {fields} }} }} }}"
    );
    let config = Config::parse("test", &text).unwrap_or_else(|report| panic!("{report}"));
    let Policy::Jwt(jwt) = &config.policies[0].policy else { panic!("it is one of jwt") };
    let mut files = Files::default();
    files.insert("k".into(), file.to_vec());
    let sources = Jwt::read(jwt, &files)?;
    let setting = Setting { name, config: &config, shared: revoked, registry };
    Ok((Jwt::new(jwt, sources.clone(), &setting), sources))
}

/// Whether a request with the token passes, and whether it was known.
fn passes(policy: &Jwt, tokens: &Caches) -> (bool, bool) {
    let cells = JwtCells::default();
    let is_admitted = admitted(policy, &token(LASTING), tokens, &cells).is_ok();
    (is_admitted, cells.hits.get() > 0)
}

const CHECKED: (bool, bool) = (true, false);
const KNOWN: (bool, bool) = (true, true);
const REFUSED: (bool, bool) = (false, false);

#[tokio::test(start_paused = true)]
async fn tokens_are_known_to_the_same_policy_and_to_no_other() {
    let (registry, tokens) = (Registry::default(), Caches::default());
    let before = later(&registry, "p", PROVIDER, SECRET);
    assert_eq!([(); 2].map(|()| passes(&before, &tokens)), [CHECKED, KNOWN]);
    let after = later(&registry, "p", PROVIDER, SECRET);
    assert_eq!(passes(&after, &tokens), KNOWN);
    assert_eq!(passes(&later(&registry, "q", PROVIDER, SECRET), &tokens), CHECKED);
    for stricter in ["require: [sub]", "types: [at+jwt]", "max_age: 1h"] {
        let stricter = later(&registry, "p", &format!("{PROVIDER}, {stricter}"), SECRET);
        assert_eq!(passes(&stricter, &tokens), REFUSED);
    }
    let theirs = PROVIDER.replace("{ algorithms", "{ audience: [a], algorithms");
    assert_eq!(passes(&later(&registry, "p", &theirs, SECRET), &tokens), REFUSED);
    let tables = [(); 2].map(|()| Some(Revocations::default()));
    let asking = tables.map(|table| later_with(&registry, ("p", PROVIDER), SECRET, &table).0);
    for asks in &asking {
        assert_eq!(passes(asks, &tokens), CHECKED, "it was never looked for in that table");
    }
    drop((before, after));
    let again = later(&registry, "p", PROVIDER, SECRET);
    assert_eq!(passes(&again, &tokens), CHECKED, "nobody had it meanwhile");
}

#[tokio::test(start_paused = true)]
async fn other_keys_are_in_use_once_they_are_put_in_place() {
    let (registry, tokens, other) = (Registry::default(), Caches::default(), [b'x'; 64]);
    let before = later(&registry, "p", PROVIDER, SECRET);
    let (after, others) = later_with(&registry, ("p", PROVIDER), &other, &None);
    assert_eq!([&before, &after].map(|it| passes(it, &tokens)), [CHECKED, KNOWN]);
    let (_, same) = later_with(&registry, ("p", PROVIDER), SECRET, &None);
    after.replace(same);
    assert_eq!(passes(&after, &tokens), KNOWN, "nothing has changed");
    after.replace(others);
    assert_eq!([&before, &after].map(|it| passes(it, &tokens)), [REFUSED; 2]);
}

/// Serves a key set once, and is gone then.
fn serves_once(set: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        drop(listener);
        let request = BufReader::new(&socket).lines();
        assert!(request.map_while(Result::ok).any(|line| line.is_empty()));
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", set.len());
        (&socket).write_all((head + &set).as_bytes()).unwrap();
    });
    format!("http://{address}/keys")
}

/// A provider whose keys are there, fetched like that.
fn fetched(url: &str, how: &str) -> String {
    format!("providers: {{ algorithms: EdDSA, keys: {{ jwks_url: {{ url: '{url}', {how} }} }} }}")
}

/// Fetches what the policy has elsewhere, as long as it is in use.
fn follow(policy: &Jwt) -> JoinHandle<()> {
    tokio::spawn(remote::fetch_all(remote::unfollowed(policy.keys.fetched().map(|(_, set)| set))))
}

/// Waits until the fetching ends.
async fn ends(task: JoinHandle<()>) {
    timeout(Duration::from_secs(60), task).await.unwrap().unwrap();
}

async fn comes(policy: &Jwt) {
    while policy.lacks_keys() {
        assert_eq!(policy.take_failures(), [""; 0]);
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_set_is_fetched_once_for_all_configurations_that_have_it() {
    let registry = Registry::default();
    let url = serves_once(set(&[jwk("EdDSA", "")]));
    let before = later(&registry, "p", &fetched(&url, "refresh: 1h"), b"");
    let task = follow(&before);
    comes(&before).await;
    let after = later(&registry, "p", &(fetched(&url, "refresh: 2h") + ", required: false"), b"");
    assert!(!after.lacks_keys());
    ends(follow(&after)).await;
    drop(before);
    let token = token_as("EdDSA", &header_of("EdDSA"), GOOD);
    assert_eq!(judge(&after, &token), Ok(()));
    for other in [url.replace("/keys", "/others"), format!("{url}?")] {
        assert!(later(&registry, "p", &fetched(&other, ""), b"").lacks_keys());
    }
    assert!(later(&registry, "q", &fetched(&url, ""), b"").lacks_keys(), "another policy");
    drop(after);
    ends(task).await;
}

#[tokio::test(start_paused = true)]
async fn unused_key_sets_are_not_fetched() {
    let registry = Registry::default();
    let policy = later(&registry, "p", &fetched("http://127.0.0.1:1/", ""), b"");
    let generation: Weak<_> = Arc::downgrade(policy.keys.generation());
    let task = follow(&policy);
    sleep(Duration::from_secs(60)).await;
    assert!(!task.is_finished() && policy.key_sets().all(|set| set.failed > 1));
    drop(policy);
    ends(task).await;
    registry.sweep();
    assert!(registry.is_empty() && generation.upgrade().is_none());
}

#[tokio::test(start_paused = true)]
async fn keys_become_stale_by_the_time_that_is_in_force() {
    const HOUR: Duration = Duration::from_secs(3600);
    let registry = Registry::default();
    let url = serves_once(set(&[jwk("EdDSA", "")]));
    let before =
        later(&registry, "p", &fetched(&url, "refresh: 1h, pause: 1h, max_stale: unlimited"), b"");
    let task = follow(&before);
    comes(&before).await;
    sleep(50 * HOUR).await;
    let token = token_as("EdDSA", &header_of("EdDSA"), GOOD);
    let shorter = fetched(&url, "refresh: 1h, pause: 1h, max_stale: 60h");
    let (after, sources) = later_with(&registry, ("p", &shorter), b"", &None);
    after.replace(sources);
    sleep(9 * HOUR).await;
    assert_eq!(judge(&after, &token), Ok(()));
    sleep(2 * HOUR).await;
    assert_eq!([&before, &after].map(|it| judge(it, &token)), [Err(Refusal::NoKeys); 2]);
    drop((before, after));
    ends(task).await;
}
