//! What stays when one configuration follows another, and what does not.

use super::*;
use titan_io::network::ClientNetwork;

/// A snapshot of a configuration with those settings, with what is there already in `registry`.
fn snapshot(registry: &Registry, settings: &str) -> Snapshot {
    let text = format!("listeners: ['127.0.0.1:0']\n{settings}");
    let config = Config::parse("test", &text).unwrap_or_else(|bad| panic!("{bad}"));
    let tls = config.upstreams.iter().map(|_| None);
    Snapshot::build(&config, registry, tls.collect(), Keys::default(), &Files::default(), None)
}

const ROUTES: &str = "routes: [{ respond: 204 }]";

#[test]
fn tunnels_that_are_open_count_under_another_limit() {
    let registry = Registry::default();
    let limited = |most| snapshot(&registry, &format!("{ROUTES}\nlimits: {{ tunnels: {most} }}"));
    let before = limited(2);
    let open = [(); 2].map(|()| before.enter_tunnel().unwrap());
    let after = limited(3);
    drop(before);
    let third = after.enter_tunnel();
    assert!(third.is_some() && after.enter_tunnel().is_none());
    drop(open);
    assert!(after.enter_tunnel().is_some());
}

#[test]
fn memory_that_bodies_use_counts_under_another_limit() {
    let registry = Registry::default();
    let limited = |most| {
        let limits = format!("limits: {{ decoding_memory: {most}, response_memory: {most} }}");
        snapshot(&registry, &format!("{ROUTES}\n{limits}"))
    };
    let client = |last| Some(ClientNetwork::of([192, 0, 2, last].into()));
    let (before, after) = (limited("64MiB"), limited("32MiB"));
    let memories: [fn(&Snapshot) -> &ClientMemory; 2] =
        [|it| &it.decoding_memory, |it| &it.response_memory];
    for of in memories {
        let mut held = of(&before).of(client(1));
        assert!(held.grow(16 << 20) && held.grow(32 << 20));
        assert!(!of(&after).of(client(2)).grow(1));
        drop(held);
        assert!(of(&after).of(client(2)).grow(1));
    }
}

#[test]
fn nothing_outlives_the_last_snapshot() {
    let registry = Registry::default();
    let before = snapshot(&registry, ROUTES);
    let after = snapshot(&registry, ROUTES);
    let open = before.enter_tunnel();
    drop((before, after));
    registry.sweep();
    assert_eq!(registry.len(), 1, "the tunnel");
    drop(open);
    registry.sweep();
    assert!(registry.is_empty());
}
