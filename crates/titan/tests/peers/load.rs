//! wrk and h2load: many requests at once, kept connections and pipelines. Nothing fails, and nothing
//! stays open afterwards.

use crate::gateway::Gateway;
use crate::nginx::Nginx;
use crate::place::Folder;
use crate::program::{output_of, peer};
use std::process::Command;

/// nginx closes each connection after 1000 requests unless told otherwise; here more often, so that
/// the gateway meets that all the time.
const QUICK: &str = "keepalive_requests 100; location / { return 200 'hello\n'; }";

/// Runs a load generator against a gateway and tells what it printed.
fn under(load: impl FnOnce(&str) -> Command) -> Vec<u8> {
    let nginx = Nginx::start(QUICK);
    let gateway = Gateway::to(nginx.address);
    let before = gateway.footprint();
    let output = output_of(&mut load(&gateway.url("/")));
    gateway.returns_to(before);
    output
}

/// The same with wrk, which finds no fault.
fn wrk_under(load: impl FnOnce(&str) -> Command) {
    let output = String::from_utf8(under(load)).unwrap();
    assert!(wrk_is_content(&output) > 100, "{output}");
}

/// How many responses wrk counted.
fn responses(output: &str) -> u64 {
    let line = output.lines().find(|line| line.contains(" requests in "));
    let count = line.and_then(|line| line.trim().split(' ').next());
    count.unwrap_or_else(|| panic!("{output}")).parse().unwrap()
}

/// How many responses there were, of which none is missing or a failure.
pub(crate) fn wrk_is_content(output: &str) -> u64 {
    assert!(!output.contains("Socket errors"), "{output}");
    assert!(!output.contains("Non-2xx"), "{output}");
    responses(output)
}

/// Whether there were so many responses, and no failure.
pub(crate) fn h2load_is_content(output: &[u8], requests: u64) {
    let output = String::from_utf8_lossy(output);
    let all = format!(" {requests} succeeded, 0 failed, 0 errored, 0 timeout");
    assert!(output.contains(&all), "{output}");
    let all = format!("status codes: {requests} 2xx, 0 3xx, 0 4xx, 0 5xx");
    assert!(output.contains(&all), "{output}");
}

#[test]
fn wrk_is_content_with_kept_connections() {
    wrk_under(|url| {
        let mut wrk = peer("wrk");
        wrk.args(["-t1", "-c32", "-d2s", "--timeout", "20s", url]);
        wrk
    });
}

#[test]
fn wrk_is_content_with_pipelines() {
    let folder = Folder::new();
    let script = folder.write(
        "pipeline.lua",
        "init = function()\n  local all = {}\n  for i = 1, 16 do all[i] = wrk.format() end\n\
         \x20 pipeline = table.concat(all)\nend\nrequest = function() return pipeline end\n",
    );
    wrk_under(|url| {
        let mut wrk = peer("wrk");
        wrk.args(["-t1", "-c8", "-d2s", "--timeout", "20s", "-s"]).arg(script).arg(url);
        wrk
    });
}

#[test]
fn h2load_is_content_with_and_without_pipelines() {
    for depth in ["-m1", "-m8"] {
        let output = under(|url| {
            let mut h2load = peer("h2load");
            h2load.args(["--h1", "-n5000", "-c16", depth, url]);
            h2load
        });
        h2load_is_content(&output, 5000);
    }
}
