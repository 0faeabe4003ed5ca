//! slowhttptest, whose clients read next to nothing, and what a good client notices of them.

use crate::curl::{Curl, curl};
use crate::gateway::Gateway;
use crate::nginx::Nginx;
use crate::place::Folder;
use crate::process::connections;
use crate::program::{Program, peer};
use crate::wait::until;
use std::process::Stdio;

/// How many read slowly: more than an endpoint had connections when that was the default.
const READERS: usize = 1100;

/// How many it has where it has few.
const FEW: usize = 64;

/// How many of `count` requests of a good client are served while all those readers are there and have all connections to
/// the upstream that they can get. The upstream has that more in its configuration, the gateway these limits.
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
    command.args(["-X", "-c", &readers, "-r", "500", "-l", "60", "-n", "2", "-z", "32"]);
    command.args(["-w", "512", "-y", "1024", "-u", &gateway.url("/files/large")]);
    let _readers = Program::start(command.stdout(Stdio::null()), &folder);
    let taken = if upstream.contains("max_connections") { FEW - FEW / 8 } else { READERS };
    until("the slow readers are there", || connections(gateway.id()) >= READERS + taken);
    let responses = (0..count).map(|_| curl(&gateway).args(["--interface", from]).get("/"));
    let is_served = |response: &Curl| {
        let is_served = response.status() == 200;
        if !is_served {
            eprintln!("{response:?}");
        }
        is_served
    };
    responses.filter(is_served).count()
}

#[test]
fn slow_readers_leave_others_an_upstream() {
    assert_eq!(served(50, "127.0.0.1", "", ""), 50);
    // Where connections are few, other clients have theirs.
    let few = format!("max_connections: {FEW}");
    let patient = format!("{few}, queue: {{ timeout: 10s }}");
    assert_eq!(served(50, "127.9.8.7", &patient, ""), 50);
    // This is what the readers would do to every client.
    let hasty = format!("{few}, queue: {{ timeout: 100ms }}");
    assert_eq!(served(5, "127.0.0.1", &hasty, "response_rate: off"), 0);
}
