//! The HTTP/2 load against the HTTP/2 origin, without a proxy between them.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use titan_bench::payload::Target;
use titan_bench::report::{Job, Manner, Report, Stop};

#[test]
fn gets_and_calls_have_no_errors() {
    let origin = Origin::start();
    for target in [Target::Small, Target::Call] {
        let report = origin.under_load(target);
        assert_eq!((report.requests, report.first_error), (500, None), "{target:?}");
    }
}

#[test]
fn responses_of_another_status_are_errors() {
    let report = Origin::start().under_load(Target::Body30k);
    assert_eq!(report.requests, 0);
    assert_eq!(report.first_error.as_deref(), Some("status \"HTTP/2.0 404 Not Found\""));
}

struct Origin {
    child: Child,
    address: SocketAddr,
}

impl Origin {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_origin-h2"))
            .arg("127.0.0.1:0")
            .stdout(Stdio::piped())
            .spawn()
            .expect("it is built for this test");
        let mut line = String::new();
        let mut printed = BufReader::new(child.stdout.take().expect("it is piped"));
        printed.read_line(&mut line).expect("it prints text");
        Self { child, address: line.trim().parse().expect("it prints where it listens") }
    }

    fn under_load(&self, target: Target) -> Report {
        let job = Job {
            to: self.address,
            target,
            connections: 2,
            manner: Manner::Streams(10),
            fields: None,
            coding: None,
            tls: None,
            http3: false,
            warm_up: 0.0,
            stop: Stop::Requests(500),
            watch: Vec::new(),
        };
        let output = Command::new(env!("CARGO_BIN_EXE_load"))
            .arg(serde_json::to_string(&job).expect("a job is JSON"))
            .output()
            .expect("it is built for this test");
        serde_json::from_slice(&output.stdout).expect("it prints a report")
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
