//! Nodes of a cluster that announce names, over TLS.

use super::super::redis::{HASH_KEY, Redis};
use super::super::{gateway, status};
use super::{SLOTS, is_up};
use crate::place::{Folder, own_address};
use crate::tls::certify_for;
use crate::wait::until;
use std::fs;
use std::net::{IpAddr, SocketAddr};

/// A name that resolves to the address without a name server.
fn name_of(address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(ip) => format!("0x{:08x}", u32::from(ip)),
        IpAddr::V6(ip) => panic!("no such name for {ip}"),
    }
}

fn certified(name: &str) -> Folder {
    let folder = Folder::new();
    let kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
    certify_for(&folder, &kind, &format!("DNS:{name}"));
    folder
}

/// Two primaries, of which the second one has the certificate of somebody else.
struct Named {
    nodes: [Redis; 2],
    names: [String; 2],
    /// Whose certificates they are: of the first, of nobody there, of the second.
    folders: [Folder; 3],
    all: Folder,
}

impl Named {
    fn start() -> Named {
        let addresses = [own_address(), own_address()];
        let names = addresses.map(name_of);
        let folders = [&*names[0], "elsewhere.example", &*names[1]].map(certified);
        let all = Folder::new();
        let pems =
            folders.each_ref().map(|it| fs::read_to_string(it.path().join("site.pem")).unwrap());
        let trusted = all.write("all.pem", pems.concat());
        let node = |place: usize| {
            Redis::node_named((addresses[place], &names[place]), &folders[place], &trusted)
        };
        let ((first, _), (second, bus)) = (node(0), node(1));
        let named = Named { nodes: [first, second], names, folders, all };
        let (ip, port) = (addresses[1].ip().to_string(), addresses[1].port().to_string());
        named.ask(0, &["CLUSTER", "MEET", &ip, &port, &bus.to_string()]);
        let half = SLOTS / 2;
        for (place, slots) in [0..half, half..SLOTS].into_iter().enumerate() {
            let (first, last) = (slots.start.to_string(), (slots.end - 1).to_string());
            named.ask(place, &["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
        }
        until("both know all names", || {
            [0, 1].iter().all(|place| {
                let told = named.ask(*place, &["CLUSTER", "SLOTS"]);
                let is_fine = named.ask(*place, &["CLUSTER", "INFO"]).contains("cluster_state:ok");
                is_fine && named.names.iter().all(|name| told.contains(name))
            })
        });
        named
    }

    fn ask(&self, place: usize, command: &[&str]) -> String {
        self.nodes[place].ask_securely(&self.folders[place], command)
    }

    /// The section of the store, with its first node.
    fn store(&self) -> String {
        let (name, port) = (&self.names[0], self.nodes[0].address.port());
        format!(
            "address: \"rediss://{name}:{port}\", cluster: true, hash_key: \"{HASH_KEY}\", password: of-test, \
             tls: {{ ca: {} }}, timeout: 100ms",
            self.all.path().join("all.pem").display()
        )
    }

    /// The second node gets the certificate of its name.
    fn certify_second(&self) {
        let file = |name: &str| self.folders[2].path().join(name).display().to_string();
        let (cert, key) = (file("site.pem"), file("site.key"));
        let set = self.ask(1, &["CONFIG", "SET", "tls-cert-file", &cert, "tls-key-file", &key]);
        assert_eq!(set.trim(), "OK");
    }
}

#[test]
fn a_node_is_who_its_certificate_says() {
    let cluster = Named::start();
    let names: Vec<_> = (0..12).map(|number| format!("p{number}")).collect();
    let limit = "rates: { rate: 100/h, burst: 10000 }, shared: { store: s, without_store: deny }";
    let limits: Vec<_> = names.iter().map(|name| (name.as_str(), limit)).collect();
    let gateway = gateway(&cluster.store(), &limits);
    let statuses =
        || names.iter().map(|name| status(&gateway, &format!("/{name}"))).collect::<Vec<_>>();
    until("the first node counts", || statuses().contains(&200));
    until("it is told of", || gateway.events().contains("not valid for name"));
    // Nothing is counted by a node that is somebody else.
    assert!(statuses().contains(&503) && !is_up(&gateway));
    assert_eq!(cluster.ask(1, &["KEYS", "titan:*:limit:*"]).trim(), "");
    cluster.certify_second();
    until("both count", || statuses().iter().all(|it| *it == 200));
    until("no node is missed", || is_up(&gateway));

    let keys = cluster.ask(0, &["KEYS", "titan:*:limit:*"]);
    let key = keys.lines().next().unwrap();
    let slot = cluster.ask(0, &["CLUSTER", "KEYSLOT", key]);
    let ids = [0, 1].map(|place| cluster.ask(place, &["CLUSTER", "MYID"]).trim().to_owned());
    cluster.ask(1, &["CLUSTER", "SETSLOT", slot.trim(), "IMPORTING", &ids[0]]);
    cluster.ask(0, &["CLUSTER", "SETSLOT", slot.trim(), "MIGRATING", &ids[1]]);
    assert_eq!(cluster.ask(0, &["DEL", key]).trim(), "1");
    assert!(statuses().iter().all(|it| *it == 200));
    assert!(cluster.ask(0, &["INFO", "errorstats"]).contains("errorstat_ASK:"));
    for place in [1, 0] {
        cluster.ask(place, &["CLUSTER", "SETSLOT", slot.trim(), "NODE", &ids[1]]);
    }
    assert!(statuses().iter().all(|it| *it == 200));
    assert!(cluster.ask(1, &["KEYS", "titan:*:limit:*"]).contains(key));
}
