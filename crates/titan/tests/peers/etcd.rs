//! etcd as a source of the configuration: what is put there is served, and what happens when it fails, is restored, or asks who is there.

mod apply;
mod server;

use crate::client::Client;
use crate::gateway::{Gateway, titan};
use crate::place::{Folder, own_address};
use crate::program::output_of;
use crate::wait::until;
use server::Etcd;
use std::process::Command;

/// A main file with a source at these endpoints.
fn main(endpoints: &str, more: &str) -> String {
    format!(
        "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nroutes: [{{ path: /own, respond: 204 }}]\nstate: state\n\
         sources: {{ fleet: {{ etcd: {{ endpoints: [{endpoints}], interval: 1s, timeout: 2s{more} }} }} }}\n"
    )
}

fn followed(etcd: &Etcd, more: &str) -> Gateway {
    Gateway::start(&main(&format!("'http://{}'", etcd.address), more))
}

fn route(path: &str, status: u16) -> String {
    format!("routes: [{{ path: {path}, respond: {status} }}]")
}

fn status(gateway: &Gateway, path: &str) -> u16 {
    let mut client = Client::connect(gateway.address()).unwrap();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
    client.response().unwrap().status
}

fn serves(gateway: &Gateway, path: &str, wanted: u16) {
    until(&format!("{path} is {wanted}"), || status(gateway, path) == wanted);
}

fn tells(gateway: &Gateway, words: &str) {
    until(&format!("it tells `{words}`: {}", gateway.events()), || {
        gateway.events().contains(words)
    });
}

// field: source.etcd, etcd_source.endpoints, etcd_source.prefix
#[test]
fn what_is_put_is_served_until_it_is_deleted() {
    let etcd = Etcd::start();
    etcd.put("/titan/shop/front.yaml", &route("/a", 201));
    etcd.put("/other/shop.yaml", &route("/other", 201));
    let gateway = followed(&etcd, "");
    serves(&gateway, "/a", 201);
    etcd.put("/titan/shop/front.yaml", &route("/a", 202));
    serves(&gateway, "/a", 202);
    etcd.put("/titan/b.yaml", &route("/b", 203));
    serves(&gateway, "/b", 203);
    etcd.delete("/titan/shop/front.yaml");
    serves(&gateway, "/a", 404);
    assert_eq!([status(&gateway, "/b"), status(&gateway, "/other")], [203, 404]);
    let shown = gateway.told_by("sources");
    let revision = etcd.revision();
    assert!(shown.contains(&format!("fleet  etcd  up       {revision} ")), "{revision}: {shown}");
    let other = followed(&etcd, ", prefix: /other/");
    serves(&other, "/other", 201);
    assert_eq!(status(&other, "/b"), 404);
}

#[test]
fn what_does_not_fit_is_held_back_alone() {
    let etcd = Etcd::start();
    etcd.put("/titan/a.yaml", &route("/a", 201));
    let gateway = followed(&etcd, "");
    serves(&gateway, "/a", 201);
    etcd.put("/titan/bad.yaml", "rutes: []");
    etcd.put("/titan/no name.yaml", &route("/x", 201));
    etcd.put("/titan/b.yaml", &route("/b", 202));
    serves(&gateway, "/b", 202);
    tells(&gateway, "source://fleet/no name.yaml is held back: what follows the prefix is no name");
    let shown = gateway.told_by("sources");
    assert!(shown.contains("  bad.yaml is held back: 1:1: unknown key `rutes`"), "{shown}");
    assert!(shown.contains("  no name.yaml is held back: what follows the prefix"), "{shown}");
    assert_eq!([status(&gateway, "/a"), status(&gateway, "/x")], [201, 404]);
    etcd.delete("/titan/no name.yaml");
    tells(&gateway, "source://fleet/no name.yaml is not held back any more");
}

#[test]
fn many_keys_are_read_page_by_page() {
    let etcd = Etcd::start();
    let keys: Vec<_> = (0..1_200)
        .map(|number| (format!("/titan/{number}"), route(&format!("/{number}"), 201)))
        .collect();
    keys.chunks(100).for_each(|chunk| etcd.put_at_once(chunk));
    let gateway = followed(&etcd, "");
    serves(&gateway, "/1199", 201);
    assert_eq!([status(&gateway, "/0"), status(&gateway, "/700")], [201, 201]);
    etcd.ctl(&["del", "--prefix", "/titan/"]);
    serves(&gateway, "/700", 404);
}

#[test]
fn a_member_that_crashes_is_followed_again() {
    let mut etcd = Etcd::start();
    etcd.put("/titan/a.yaml", &route("/a", 201));
    let gateway = followed(&etcd, "");
    serves(&gateway, "/a", 201);
    etcd.kill();
    tells(&gateway, "the source fleet cannot be asked, and what is in force of it stays: ");
    assert_eq!(status(&gateway, "/a"), 201);
    etcd.start_again();
    tells(&gateway, "the source fleet can be asked again");
    etcd.put("/titan/a.yaml", &route("/a", 202));
    serves(&gateway, "/a", 202);
}

#[test]
fn what_was_compacted_meanwhile_is_read_again() {
    let mut etcd = Etcd::start();
    etcd.put("/titan/a.yaml", &route("/a", 201));
    etcd.put("/titan/gone.yaml", &route("/gone", 201));
    let gateway = followed(&etcd, "");
    serves(&gateway, "/gone", 201);
    etcd.kill();
    etcd.start_elsewhere();
    etcd.delete("/titan/gone.yaml");
    etcd.put("/titan/a.yaml", &route("/a", 202));
    etcd.put("/titan/a.yaml", &route("/a", 203));
    let revision = etcd.revision();
    etcd.ctl(&["compact", "--physical", &revision]);
    etcd.kill();
    etcd.come_back();
    serves(&gateway, "/a", 203);
    assert_eq!(status(&gateway, "/gone"), 404);
}

#[test]
fn another_member_is_followed_when_one_is_lost() {
    let mut members = Etcd::cluster();
    members[0].put("/titan/a.yaml", &route("/a", 201));
    let endpoints = members.each_ref().map(|it| format!("'http://{}'", it.address)).join(", ");
    let gateway = Gateway::start(&main(&endpoints, ""));
    serves(&gateway, "/a", 201);
    members[0].kill();
    members[1].put("/titan/a.yaml", &route("/a", 202));
    serves(&gateway, "/a", 202);
}

// field: etcd_source.interval, etcd_source.timeout
#[test]
fn a_member_that_hangs_is_noticed() {
    let etcd = Etcd::start();
    etcd.put("/titan/a.yaml", &route("/a", 201));
    let gateway = followed(&etcd, "");
    serves(&gateway, "/a", 201);
    etcd.stop();
    tells(&gateway, "no response within 2s");
    etcd.resume();
    tells(&gateway, "the source fleet can be asked again");
    etcd.put("/titan/a.yaml", &route("/a", 202));
    serves(&gateway, "/a", 202);
}

#[test]
fn an_older_backup_is_told_before_it_is_taken() {
    let mut etcd = Etcd::start();
    etcd.put("/titan/a.yaml", &route("/a", 201));
    etcd.kill();
    etcd.back_up();
    etcd.start_again();
    etcd.put("/titan/a.yaml", &route("/a", 202));
    etcd.put("/titan/a.yaml", &route("/a", 203));
    let gateway = followed(&etcd, "");
    serves(&gateway, "/a", 203);
    etcd.kill();
    tells(&gateway, "the source fleet cannot be asked");
    etcd.restore();
    etcd.start_again();
    serves(&gateway, "/a", 201);
    tells(&gateway, "was an older backup restored?");
}

// field: etcd_source.username, etcd_source.password
#[test]
fn a_user_may_have_to_log_in() {
    let mut etcd = Etcd::start();
    etcd.put("/titan/a.yaml", &route("/a", 201));
    for command in [
        &["user", "add", "root:of root"][..],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "reader"],
        &["role", "grant-permission", "--prefix=true", "reader", "read", "/titan/"],
        &["user", "add", "titan:of titan"],
        &["user", "grant-role", "titan", "reader"],
        &["auth", "enable"],
    ] {
        etcd.ctl(command);
    }
    etcd.log_in("root:of root");
    let nobody = followed(&etcd, "");
    tells(&nobody, "user name is empty");
    let wrong = followed(&etcd, ", username: titan, password: secret-4711");
    tells(&wrong, "the user titan cannot log in: ");
    assert!(!wrong.events().contains("secret-4711"));
    let gateway = followed(&etcd, ", username: titan, password: of titan");
    serves(&gateway, "/a", 201);
    // Tokens are in its memory: those from before are not valid any more.
    etcd.kill();
    etcd.start_again();
    etcd.put("/titan/a.yaml", &route("/a", 202));
    serves(&gateway, "/a", 202);
    etcd.ctl(&["user", "revoke-role", "titan", "reader"]);
    tells(&gateway, "permission denied");
    assert_eq!(status(&gateway, "/a"), 202);
}

// field: etcd_source.tls
#[test]
fn members_are_asked_over_tls() {
    let folder = Folder::new();
    let address = own_address();
    let mut certify = Command::new(titan());
    output_of(certify.args(["cert", &address.ip().to_string(), "--out"]).arg(folder.path()));
    let authority = folder.path().join("ca.pem").display().to_string();
    let etcd = Etcd::with_tls(folder, address);
    etcd.put("/titan/a.yaml", &route("/a", 201));
    let endpoint = format!("'https://{}'", etcd.address);
    let with = |tls: &str| Gateway::start(&main(&endpoint, tls));
    let doubting = with("");
    tells(&doubting, "certificate");
    assert_eq!(status(&doubting, "/a"), 404);
    let gateway = with(&format!(", tls: {{ ca: {authority} }}"));
    serves(&gateway, "/a", 201);
    etcd.put("/titan/a.yaml", &route("/a", 202));
    serves(&gateway, "/a", 202);
}

#[test]
fn a_start_without_etcd_serves_what_is_kept() {
    let mut etcd = Etcd::start();
    etcd.put("/titan/a.yaml", &route("/a", 201));
    let gateway = followed(&etcd, "");
    serves(&gateway, "/a", 201);
    let kept = gateway.folder.path().join("state/sources/fleet.json");
    until("it is kept", || std::fs::read_to_string(&kept).is_ok_and(|text| text.contains("/a")));
    let folder = gateway.kill();
    etcd.kill();
    let gateway = Gateway::start_in(folder, &main(&format!("'http://{}'", etcd.address), ""));
    assert_eq!(status(&gateway, "/a"), 201);
    etcd.start_again();
    etcd.put("/titan/a.yaml", &route("/a", 202));
    serves(&gateway, "/a", 202);
}
