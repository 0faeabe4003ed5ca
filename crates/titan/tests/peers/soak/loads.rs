//! wrk and h2load, for as long as it takes.

use super::clients::Progress;
use super::configurations::Site;
use crate::load::{h2load_is_content, wrk_is_content};
use crate::place::Folder;
use crate::program::{Program, output_of, peer};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::process::{Command, Stdio};

/// A load generator that runs until it is stopped.
pub(super) struct Wrk(Program);

/// The same program with less of the processors: what is measured, and who checks, come first.
fn behind(name: &str) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "10"]).arg(peer(name).get_program());
    command
}

impl Wrk {
    /// Kept and new connections, in the clear and over TLS.
    pub(super) fn all(site: &Site, folder: &Folder) -> Vec<Wrk> {
        let (clear, secure) =
            (format!("http://{}", site.clear), format!("https://{}", site.secure));
        let close = ["-H", "Connection: close"].as_slice();
        let each = [
            ("-c16", [].as_slice(), format!("{clear}/through/wrk")),
            ("-c4", close, format!("{clear}/moves/wrk")),
            ("-c8", &[], format!("{secure}/moves/wrk")),
            ("-c2", close, format!("{secure}/fixed")),
        ];
        let start = |(connections, fields, url): (&str, &[&str], String)| {
            let mut command = behind("wrk");
            command.args(["-t1", connections, "-d24h", "--timeout", "20s"]).args(fields).arg(url);
            Wrk(Program::start(command.stdout(Stdio::piped()), folder))
        };
        each.map(start).into()
    }

    /// Stops it. How many responses it had, each of them as it should be.
    pub(super) fn stop(mut self) -> u64 {
        let id = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(id, Signal::INT).unwrap();
        let mut output = String::new();
        self.0.child().stdout.take().unwrap().read_to_string(&mut output).unwrap();
        wrk_is_content(&output)
    }
}

/// Runs h2load again and again: HTTP/1.1 and HTTP/2, in the clear and over TLS. How many responses it had, each of them
/// as it should be.
pub(super) fn h2load(site: &Site, progress: &Progress) -> u64 {
    const REQUESTS: u64 = 1000;
    let (clear, secure) = (format!("http://{}", site.clear), format!("https://{}", site.secure));
    let runs = [
        (["--h1", "-c4", "-m1"].as_slice(), format!("{clear}/moves/h2load")),
        (&["--h1", "-c2", "-m1"], format!("{secure}/through/h2load")),
        (&["-c2", "-m10"], format!("{clear}/through/h2load")),
        (&["-c2", "-m10"], format!("{secure}/moves/h2load")),
    ];
    let mut responses = 0;
    for (options, url) in runs.iter().cycle() {
        let mut command = behind("h2load");
        command.arg(format!("-n{REQUESTS}")).args(*options).arg(url);
        h2load_is_content(&output_of(&mut command), REQUESTS);
        responses += REQUESTS;
        if progress.is_over() {
            break;
        }
    }
    responses
}
