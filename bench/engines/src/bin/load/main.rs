//! The load generator: keeps a proxy busy from one thread and verifies every response byte for byte.
//!
//! Usage: load JOB, with the job as JSON (see `titan_bench::report::Job`); prints a report as JSON.
//! For example, 64 connections for three seconds:
//!
//! ```text
//! load '{"to":"127.0.0.1:8080","target":"small","connections":64,"stop":{"seconds":3}}'
//! ```

mod answer;
mod coded;
mod conn;
mod fault;
mod http3;
mod idle;
mod places;
mod script;
mod steady;
mod streams;
mod tally;
mod transport;
mod tunnel;

use std::io;
use std::time::Duration;

use titan_bench::process;
use titan_bench::report::{Job, Manner, Report};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [job] = arguments.as_slice() else {
        return Err(io::Error::other("usage: load JOB-AS-JSON"));
    };
    let job: Job = serde_json::from_str(job)?;
    let report = match job.manner {
        _ if job.http3 => http3::run(&job)?,
        Manner::Idle => idle::run(&job)?,
        Manner::Pipelined(_) | Manner::Fresh | Manner::Messages => steady::run(&job)?,
        Manner::Streams(streams) => streams::run(&job, streams)?,
    };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

/// What the watched processes use at one moment.
struct Usage {
    cpu_ns: u64,
    whole_cpu_ns: u64,
    worker_cpu_ns: u64,
    resident: u64,
}

fn usage(job: &Job) -> io::Result<Usage> {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Ok(Usage {
        cpu_ns: nanos(process::cpu_time(&job.watch)?),
        whole_cpu_ns: nanos(process::whole_cpu_time(&job.watch)?),
        worker_cpu_ns: nanos(process::time_of_threads(&job.watch, "worker-")?),
        resident: process::resident(&job.watch)?,
    })
}

impl Usage {
    /// Writes what lies between two moments into the report.
    fn report(before: &Self, after: &Self, report: &mut Report) {
        report.cpu_ns = after.cpu_ns.saturating_sub(before.cpu_ns);
        report.whole_cpu_ns = after.whole_cpu_ns.saturating_sub(before.whole_cpu_ns);
        report.worker_cpu_ns = after.worker_cpu_ns.saturating_sub(before.worker_cpu_ns);
        report.resident_before = before.resident;
        report.resident = after.resident;
    }
}
