//! The figures as a file for machines: one line for each gateway in each case.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use titan_bench::machine::Machine;

use crate::figures::{Ejected, Figures};
use crate::gateway::Programs;

const HEADER: &str = "date,machine,cores,kernel,upstream,case,gateway,version,requests,failed_gets,failed_posts,failures,\
noticed_ms,ejected_ms,returned_ms,tries_per_request,wasted_tries,failure_p50_ms,failure_p99_ms,p99_ms,failed_before\n";

/// Writes the figures of all runs.
pub fn write(
    path: &Path,
    machine: &Machine,
    programs: &Programs,
    figures: &[Figures],
) -> io::Result<()> {
    let mut text = HEADER.to_owned();
    for row in figures {
        let Machine { date, model, cores, kernel, .. } = machine;
        let model = format!("\"{}\"", model.replace('"', "\"\""));
        let (protocol, case, gateway) = (row.protocol.name(), row.case.name, row.engine.name());
        let version = programs.version(row.engine);
        let _ =
            write!(text, "{date},{model},{cores},{kernel},{protocol},{case},{gateway},{version},");
        text.push_str(&numbers(row));
    }
    fs::write(path, text)
}

fn numbers(row: &Figures) -> String {
    let Figures { requests, failed_gets, failed_posts, failed_before, wasted, .. } = row;
    let kinds: Vec<_> = row.kinds.iter().map(|(kind, count)| format!("{kind}:{count}")).collect();
    let kinds = kinds.join(" ");
    let noticed = optional(row.noticed);
    let ejected = match row.ejected {
        Some(Ejected::After(time)) => milliseconds(time),
        Some(Ejected::Never) => "never".to_owned(),
        None => String::new(),
    };
    let returned = row.returned.map_or_else(|| "never".to_owned(), milliseconds);
    let (p50, p99) = row.failure_took.unzip();
    let (p50, p99, all) = (optional(p50), optional(p99), milliseconds(row.p99));
    let tries = row.tries_per_request;
    format!(
        "{requests},{failed_gets},{failed_posts},{kinds},{noticed},{ejected},{returned},{tries:.3},{wasted},{p50},{p99},\
         {all},{failed_before}\n"
    )
}

fn optional(time: Option<Duration>) -> String {
    time.map_or_else(String::new, milliseconds)
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}
