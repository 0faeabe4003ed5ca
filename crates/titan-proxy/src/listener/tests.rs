//! What a listener holds its clients to.

use super::*;
use titan_testkit::{Certificate, certificate};

/// A listener with those settings, and with what was at its address before in `registry`.
fn prepared(registry: &Registry, settings: &str, files: &Files) -> PreparedListener {
    let address = if settings.contains("address") { "" } else { "address: '127.0.0.1:1', " };
    let text =
        format!("{{ listeners: [{{ {address}{settings} }}], routes: [{{ respond: 204 }}] }}");
    let config = titan_config::Config::parse("test", &text).unwrap();
    let id = ListenerId::all(&config.listeners).remove(0);
    PreparedListener::new(&config.listeners[0], id, files, registry).unwrap()
}

/// The same in force.
fn state(registry: &Registry, settings: &str) -> Arc<ListenerState> {
    in_force(prepared(registry, settings, &Files::default()))
}

fn in_force(prepared: PreparedListener) -> Arc<ListenerState> {
    let state = Arc::clone(prepared.state());
    prepared.take_effect();
    state
}

fn size_of_future<F>(_: fn(Box<AdmittedConnection>) -> F) -> usize {
    size_of::<F>()
}

/// What only few connections need belongs into a box.
#[test]
fn a_connection_that_waits_has_no_room_to_spare() {
    let bytes = size_of_future(AdmittedConnection::converse);
    assert!(bytes <= 280, "{bytes} bytes for each connection");
}

#[test]
fn connections_count_on_under_other_limits_and_another_name() {
    let registry = Registry::default();
    let client = Some([192, 0, 2, 1].into());
    let before = state(&registry, "max_connections: 3, max_connections_per_client: 1");
    let mut open = [(); 2].map(|()| before.enter().unwrap());
    assert!(open[0].count_client(client) && !open[1].count_client(client));
    let after = "name: b, max_connections: 2, max_connections_per_client: 2";
    let after = state(&registry, after);
    assert!(after.enter().is_none(), "there are two");
    let [first, second] = open;
    drop(second);
    let mut new = after.enter().unwrap();
    assert!(new.count_client(client), "it is its second");
    drop(first);
    let mut newer = after.enter().unwrap();
    assert!(newer.count_client(client), "the first is gone");
    let other = state(&registry, "address: '127.0.0.1:2', max_connections: 1");
    assert!(other.enter().is_some(), "nobody has connected there");
}

#[test]
fn half_of_all_places_and_of_a_clients_is_for_validated_addresses() {
    let client = |last| [192, 0, 2, last].into();
    for (settings, free) in [
        ("max_connections: 8", 4),
        ("max_connections_per_client: 8", 4),
        ("max_connections_per_client: 3", 1),
        ("max_connections_per_client: 1", 0),
        ("max_connections: 6, max_connections_per_client: 4", 2),
    ] {
        let state = state(&Registry::default(), settings);
        let mut open = Vec::new();
        while !state.is_half_taken(client(1)) && open.len() < 100 {
            open.push(state.enter().unwrap());
            assert!(open.last_mut().unwrap().count_client(Some(client(1))));
        }
        assert_eq!(open.len(), free, "{settings}");
        let is_of_all = settings == "max_connections: 8";
        assert_eq!(state.is_half_taken(client(2)), is_of_all || free == 0, "{settings}");
    }
}

#[test]
fn listeners_at_the_same_free_port_are_two() {
    let text =
        "{ listeners: ['127.0.0.1:0', '127.0.0.1:0', '127.0.0.1:1'], routes: [{ respond: 204 }] }";
    let config = titan_config::Config::parse("test", text).unwrap();
    let ids = ListenerId::all(&config.listeners);
    assert_eq!(ids.iter().map(|id| id.name().1).collect::<Vec<_>>(), [0, 1, 0]);
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn handshakes_go_on_as_they_are_until_others_are_in_force() {
    let registry = Registry::default();
    let files = certificate(&["localhost"]);
    let files = Certificate::files(&[("site", &files)]);
    let prepared = |settings| {
        let tls =
            format!("tls: {{ certificates: {{ cert: site.pem, key: site.key }} {settings} }}");
        prepared(&registry, &tls, &files)
    };
    let state = in_force(prepared(""));
    let held = || state.listener_policy.tls().unwrap();
    let first = held();
    let other = prepared(", min_version: '1.3'");
    assert!(Arc::ptr_eq(&first, &held()) && Arc::ptr_eq(&state, other.state()));
    other.take_effect();
    assert!(!Arc::ptr_eq(&first, &held()), "also for connections that are open");
}

#[test]
fn nothing_is_left_of_a_listener_without_connections() {
    let registry = Registry::default();
    let listener = state(&registry, "");
    let open = listener.enter();
    drop(listener);
    registry.sweep();
    assert!(!registry.is_empty());
    drop(open);
    registry.sweep();
    assert!(registry.is_empty());
}

#[test]
fn accepting_rests_for_want_of_means_alone() {
    let rests = |errno: Errno| is_exhausted(&errno.into());
    assert!([Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS].into_iter().all(rests));
    assert!(![Errno::CONNABORTED, Errno::PROTO, Errno::PERM].into_iter().any(rests));
}
