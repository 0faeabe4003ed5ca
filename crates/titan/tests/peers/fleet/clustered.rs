//! Gateways that count together in a cluster of Redis, whose nodes have a part of the keys each.

mod named;

use super::redis::{HASH_KEY, Redis, ask_at};
use super::revoked::{in_sync, revoke, shows, soon, token};
use super::{ask_until, calls, counted, figure, gateway, passing, status};
use crate::client::Client;
use crate::gateway::Gateway;
use crate::wait::{TIMEOUT, eventually, until};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Three primaries, and a replica of each.
struct Cluster {
    nodes: Vec<Redis>,
}

/// The slots of a cluster, and its primaries.
const SLOTS: usize = 16_384;
const PRIMARIES: usize = 3;

impl Cluster {
    fn start() -> Cluster {
        let (nodes, buses): (Vec<_>, Vec<_>) = (0..2 * PRIMARIES).map(|_| Redis::node()).unzip();
        let cluster = Cluster { nodes };
        for (node, bus) in cluster.nodes.iter().zip(buses) {
            let (ip, port) = (node.address.ip().to_string(), node.address.port().to_string());
            cluster.ask(0, &["CLUSTER", "MEET", &ip, &port, &bus.to_string()]);
        }
        for place in 0..PRIMARIES {
            let (first, end) = (place * SLOTS / PRIMARIES, (place + 1) * SLOTS / PRIMARIES);
            let range = [first, end - 1].map(|slot| slot.to_string());
            cluster.ask(place, &["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]]);
        }
        let is_known = |id: &str| {
            (0..2 * PRIMARIES).all(|place| cluster.ask(place, &["CLUSTER", "NODES"]).contains(id))
        };
        for place in 0..PRIMARIES {
            let id = cluster.id(place);
            until("all nodes know each other", || is_known(&id));
            cluster.ask(place + PRIMARIES, &["CLUSTER", "REPLICATE", &id]);
        }
        for place in 0..2 * PRIMARIES {
            let is_fine = || cluster.ask(place, &["CLUSTER", "INFO"]).contains("cluster_state:ok");
            until("the cluster is there", is_fine);
        }
        for place in PRIMARIES..2 * PRIMARIES {
            until("the replica follows", || cluster.ask(place, &["ROLE"]).contains("connected"));
        }
        until("all know of the replicas", || {
            (0..PRIMARIES)
                .all(|at| cluster.ask(at, &["CLUSTER", "NODES"]).matches("slave").count() == 3)
        });
        cluster
    }

    fn ask(&self, place: usize, command: &[&str]) -> String {
        ask_at(self.nodes[place].address, command)
    }

    fn id(&self, place: usize) -> String {
        self.ask(place, &["CLUSTER", "MYID"]).trim().to_owned()
    }

    /// The section of the store: one node is enough.
    fn store(&self) -> String {
        self.store_at(&[2 * PRIMARIES - 1])
    }

    fn store_at(&self, places: &[usize]) -> String {
        let url = |place: &usize| format!("\"redis://{}\"", self.nodes[*place].address);
        let urls: Vec<_> = places.iter().map(url).collect();
        format!(
            "address: [{}], cluster: true, hash_key: \"{HASH_KEY}\", timeout: 100ms",
            urls.join(", ")
        )
    }

    /// The primary that has a key like that, and its name.
    fn with(&self, pattern: &str) -> (usize, String) {
        let keys = |place| self.ask(place, &["KEYS", pattern]).trim().to_owned();
        // That of a limit is gone as soon as its burst is whole.
        eventually("somebody has it", || {
            let mut found = (0..PRIMARIES).map(|place| (place, keys(place)));
            found.find(|(_, key)| !key.is_empty())
        })
    }

    fn kill(&mut self, place: usize) {
        self.nodes[place].kill();
    }
}

/// Looks until `is_so`, for as long as nodes may take to agree.
fn until_a_replica_takes_over(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < 3 * TIMEOUT, "no replica has taken over");
        crate::wait::pause();
    }
}

fn is_up(gateway: &Gateway) -> bool {
    figure(gateway, "titan_store_up{") == 1.0
}

// field: store.cluster
#[test]
fn gateways_count_together_wherever_a_cluster_has_the_keys() {
    let cluster = Cluster::start();
    let names: Vec<_> = (0..12).map(|number| format!("p{number}")).collect();
    let limit = "rates: 5/h, shared: { store: s, without_store: deny }";
    let limits: Vec<_> = names.iter().map(|name| (name.as_str(), limit)).collect();
    let gateways = [(); 2].map(|()| gateway(&cluster.store(), &limits));
    gateways.iter().for_each(|it| until("it has its connections", || is_up(it)));
    for name in &names {
        let path = format!("/{name}");
        assert_eq!(counted(&gateways[0], &path), 200);
        assert_eq!(passing(&gateways[0], &path, 2), 2);
        assert_eq!(passing(&gateways[1], &path, 4), 2, "{name}");
    }
    let limits = |place| cluster.ask(place, &["KEYS", "titan:*:limit:*"]).lines().count();
    let of_each = [0, 1, 2].map(limits);
    assert!(of_each.iter().all(|it| *it > 0) && of_each.iter().sum::<usize>() == 12, "{of_each:?}");
    gateways
        .iter()
        .for_each(|it| until("they see each other", || figure(it, "titan_store_gateways{") == 2.0));
}

/// A slot that moves to another node while its keys are counted.
#[test]
fn a_key_is_counted_on_while_it_moves() {
    let cluster = Cluster::start();
    // Whom documentation tells to have.
    let counting = "+eval +evalsha +get +set +time +zadd +zcard +zrem +zremrangebyscore +pexpire";
    let finding = "+ping +role +cluster|slots +cluster|info +asking";
    let rights = [counting, finding].join(" ");
    for place in 0..2 * PRIMARIES {
        let user = ["ACL", "SETUSER", "titan", "on", ">secret", "resetkeys", "~titan:*"];
        let user: Vec<_> = user.into_iter().chain(rights.split(' ')).collect();
        assert_eq!(cluster.ask(place, &user).trim(), "OK");
    }
    let store = format!("{}, username: titan, password: secret", cluster.store());
    let limit = "rates: 9/h, shared: { store: s, without_store: deny }";
    let gateway = gateway(&store, &[("p", limit)]);
    assert_eq!(counted(&gateway, "/p"), 200);
    let lost = || {
        let outcomes = ["down", "timeout", "refused", "failed"];
        outcomes.map(|outcome| calls(std::slice::from_ref(&gateway), outcome))
    };
    let before = lost();
    let (from, key) = cluster.with("titan:*:limit:*");
    let to = (from + 1) % PRIMARIES;
    let slot = cluster.ask(from, &["CLUSTER", "KEYSLOT", &key]);
    let slot = slot.trim();
    cluster.ask(to, &["CLUSTER", "SETSLOT", slot, "IMPORTING", &cluster.id(from)]);
    cluster.ask(from, &["CLUSTER", "SETSLOT", slot, "MIGRATING", &cluster.id(to)]);
    // Still there.
    assert_eq!(passing(&gateway, "/p", 2), 2);
    let address = cluster.nodes[to].address;
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let moved = cluster.ask(from, &["MIGRATE", &ip, &port, &key, "0", "5000"]);
    assert_eq!(moved.trim(), "OK");
    // The old node sends on each call.
    assert_eq!(passing(&gateway, "/p", 2), 2);
    for place in [to, from] {
        cluster.ask(place, &["CLUSTER", "SETSLOT", slot, "NODE", &cluster.id(to)]);
    }
    // The old node says that it has the slot no more.
    assert_eq!(passing(&gateway, "/p", 2), 2);
    assert_eq!(lost(), before);
    // By now the gateway knows: what the old node would say nobody hears.
    until("the gateway knows", || {
        cluster.ask(from, &["CONFIG", "RESETSTAT"]);
        counted(&gateway, "/p");
        !cluster.ask(from, &["INFO", "errorstats"]).contains("MOVED")
    });
    assert_eq!(passing(&gateway, "/p", 9), 0, "nine have passed");
}

#[test]
fn a_node_that_dies_under_load_keeps_no_request_waiting() {
    let mut cluster = Cluster::start();
    let limit = |without: &str| {
        format!(
            "rates: {{ rate: 50/s, burst: 25 }}, shared: {{ store: s, without_store: {without} }}"
        )
    };
    let (deny, allow) = (limit("deny"), limit("allow"));
    let gateway = gateway(&cluster.store(), &[("deny", &*deny), ("allow", &*allow)]);
    assert_eq!(counted(&gateway, "/deny"), 200);
    let is_over = AtomicBool::new(false);
    let met = thread::scope(|scope| {
        let clients = ["/deny", "/allow"].map(|path| {
            let (address, is_over) = (gateway.address(), &is_over);
            scope.spawn(move || ask_until(address, path, is_over))
        });
        let replied = || calls(std::slice::from_ref(&gateway), "replied");
        let before = replied();
        until("the store counts", || replied() > before + 100.0);
        let (dies, _) = cluster.with("titan:*:limit:deny*");
        cluster.kill(dies);
        until("it is missed", || status(&gateway, "/deny") == 503);
        until_a_replica_takes_over(|| status(&gateway, "/deny") != 503);
        let before = replied();
        until("the store counts again", || replied() > before + 100.0);
        is_over.store(true, Ordering::Relaxed);
        clients.map(|client| client.join().unwrap())
    });
    let [(denied, slowest), (allowed, other)] = met;
    println!("{} and {} requests; {slowest:?}, {other:?}", denied.len(), allowed.len());
    assert!(slowest.max(other) < Duration::from_millis(500), "a request has waited");
    assert!([200, 429, 503].iter().all(|status| denied.contains(status)));
    assert!(allowed.iter().all(|status| matches!(status, 200 | 429)));
    until("no node is missed", || is_up(&gateway));
}

/// The configuration names one node, which dies: those that the gateway has heard of are asked then.
#[test]
fn what_is_revoked_is_heard_through_a_failover() {
    let mut cluster = Cluster::start();
    let gateways = [(); 2].map(|()| super::revoked::gateway(&cluster.store_at(&[0]), ""));
    gateways.iter().for_each(in_sync);
    assert!(revoke(&gateways[0], "a"));
    soon(&gateways, &token("a"), 401, Instant::now());
    let (dies, _) = cluster.with("titan:*:revocations");
    cluster.kill(dies);
    if dies != 0 {
        cluster.kill(PRIMARIES);
    }
    until_a_replica_takes_over(|| revoke(&gateways[1], "b"));
    until("it is heard", || gateways.iter().all(|it| shows(it, &token("b")) == 401));
    assert_eq!(gateways.each_ref().map(|it| shows(it, &token("a"))), [401; 2]);
}

#[test]
fn what_is_revoked_is_heard_while_its_slot_moves() {
    let cluster = Cluster::start();
    let denies = ", without_store: deny, stale_after: 2s";
    let gateways = [(); 2].map(|()| super::revoked::gateway(&cluster.store(), denies));
    gateways.iter().for_each(in_sync);
    assert!(revoke(&gateways[0], "a"));
    let (from, key) = cluster.with("titan:*:revocations");
    let to = (from + 1) % PRIMARIES;
    let slot = cluster.ask(from, &["CLUSTER", "KEYSLOT", &key]);
    let slot = slot.trim();
    cluster.ask(to, &["CLUSTER", "SETSLOT", slot, "IMPORTING", &cluster.id(from)]);
    cluster.ask(from, &["CLUSTER", "SETSLOT", slot, "MIGRATING", &cluster.id(to)]);
    let address = cluster.nodes[to].address;
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let moved = cluster.ask(from, &["MIGRATE", &ip, &port, &key, "0", "5000"]);
    assert_eq!(moved.trim(), "OK");
    // Nobody ends the migration for longer than a gateway trusts what it has.
    let began = Instant::now();
    until("it is published", || revoke(&gateways[1], "b"));
    until("it is heard", || gateways.iter().all(|it| shows(it, &token("b")) == 401));
    while began.elapsed() < Duration::from_secs(4) {
        gateways.iter().for_each(|it| assert_eq!(shows(it, &token("good")), 200));
        crate::wait::pause();
    }
    for place in [to, from] {
        cluster.ask(place, &["CLUSTER", "SETSLOT", slot, "NODE", &cluster.id(to)]);
    }
    until("it is published", || revoke(&gateways[0], "c"));
    until("it is heard", || gateways.iter().all(|it| shows(it, &token("c")) == 401));
    let lost = |it: &Gateway| it.events().contains("revocations_lost");
    assert!(!gateways.iter().any(lost));
}

/// A cluster without nodes, and what is none.
#[test]
fn what_is_no_cluster_is_done_without() {
    let alone = Redis::start();
    let (node, _) = Redis::node();
    let limits = [
        ("deny", "rates: 5/h, shared: { store: s, without_store: deny }"),
        ("allow", "rates: 5/h, shared: { store: s, without_store: allow }"),
    ];
    let reasons: [(SocketAddr, &str); 2] = [
        (alone.address, "cluster support disabled"),
        (node.address, "no node of its cluster has slots"),
    ];
    for (address, reason) in reasons {
        let store =
            format!("address: \"redis://{address}\", cluster: true, hash_key: \"{HASH_KEY}\"");
        let gateway = gateway(&store, &limits);
        assert_eq!([status(&gateway, "/deny"), status(&gateway, "/allow")], [503, 200]);
        until("it is told of", || gateway.events().contains(reason));
        assert!(!is_up(&gateway));
        assert!(Client::connect(gateway.address()).is_ok());
    }
}
