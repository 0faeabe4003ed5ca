//! slowhttptest, whose clients read next to nothing, and what a good client notices of them.

use crate::curl::curl;
use crate::gateway::Gateway;
use crate::nginx::Nginx;
use crate::place::Folder;
use crate::process::connections;
use crate::program::{Program, peer};
use crate::wait::until;
use std::process::Stdio;

/// How many read slowly: more than an endpoint had connections when that was the default.
const READERS: usize = 1100;

/// How many of `count` requests of a good client are served while all those readers are there. The upstream has that
/// more in its configuration, the gateway these limits.
fn served(count: usize, from: &str, upstream: &str, limits: &str) -> usize {
    let nginx = Nginx::start("location / { return 200 'hello'; } location /files/ { }");
    nginx.file("large", &vec![b'x'; 16 << 20]);
    let gateway = Gateway::start(&format!(
        "workers: 2\nlisteners: [127.0.0.1:0]\nadmin: off\nroutes: [{{ upstream: it }}]\nlimits: {{ {limits} }}\n\
         upstreams: {{ it: {{ endpoints: '{}', {upstream} }} }}\n",
        nginx.address
    ));
    let folder = Folder::new();
    let mut command = peer("slowhttptest");
    let readers = READERS.to_string();
    command.args(["-X", "-c", &readers, "-r", "2000", "-l", "60", "-n", "2", "-z", "32"]);
    command.args(["-w", "512", "-y", "1024", "-u", &gateway.url("/files/large")]);
    let _readers = Program::start(command.stdout(Stdio::null()), &folder);
    until("the slow readers are there", || connections(gateway.id()) >= READERS);
    let statuses = (0..count).map(|_| curl(&gateway).args(["--interface", from]).get("/").status());
    statuses.filter(|status| *status == 200).count()
}

#[test]
fn slow_readers_leave_others_an_upstream() {
    assert_eq!(served(50, "127.0.0.1", "", ""), 50);
    // Where connections are few, other clients have theirs.
    let few = "max_connections: 64, queue: { timeout: 10s }";
    assert_eq!(served(50, "127.9.8.7", few, ""), 50);
    // This is what the readers would do to everybody.
    let few = "max_connections: 64, queue: { timeout: 100ms }";
    assert_eq!(served(5, "127.0.0.1", few, "response_rate: off"), 0);
}
