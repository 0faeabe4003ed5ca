//! The figures as a file for machines: one line for each engine in each scenario.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use titan_bench::machine::Machine;

use crate::figures::{Figures, Reloads, Row};
use crate::programs::Programs;
use crate::scenario::Scenario;

const HEADER: &str = "date,machine,cores,kernel,congestion_control,scenario,origin,engine,version,rounds,cpu_us_per_request,\
idle_bytes_per_connection,to_nginx,to_haproxy,to_floor,requests_per_second,p50_us,p99_us,errors,resident_kib,core_busy,\
handshakes_per_cpu_second,over_bare_us,body_bytes,reloads_per_second,workers_to_bare,process_to_bare,p99_to_bare\n";

/// Writes all scenarios' figures.
pub fn write(
    path: &Path,
    machine: &Machine,
    programs: &Programs,
    figures: &[Figures],
) -> io::Result<()> {
    let mut text = HEADER.to_owned();
    for scenario in figures {
        for row in &scenario.rows {
            let Machine { date, model, cores, kernel, congestion_control, .. } = machine;
            let model = quoted(model);
            let (name, engine) = (scenario.scenario.name, row.engine.name());
            let origin = scenario.scenario.setup.origin(programs.origin()).name();
            let version = programs.version(row.engine, scenario.scenario.setup);
            let _ = write!(
                text,
                "{date},{model},{cores},{kernel},{congestion_control},{name},{origin},{engine},{version},"
            );
            text.push_str(&numbers(row, scenario.scenario));
        }
    }
    fs::write(path, text)
}

fn numbers(row: &Row, scenario: &Scenario) -> String {
    let idle = scenario.idle();
    let Row {
        rounds,
        cost,
        to_nginx,
        to_haproxy,
        to_floor,
        requests_per_second,
        p50_us,
        p99_us,
        errors,
        body_bytes,
        ..
    } = row;
    let (time, memory) = if idle {
        (String::new(), format!("{cost:.0}"))
    } else {
        (format!("{cost:.3}"), String::new())
    };
    let timed = if idle {
        ",,".to_owned()
    } else {
        format!("{requests_per_second:.0},{p50_us:.0},{p99_us:.0}")
    };
    let ratios = [to_nginx, to_haproxy, to_floor].map(|ratio| optional(*ratio)).join(",");
    let handshakes = row.handshakes_per_cpu_second(scenario);
    let handshakes = handshakes.map_or_else(String::new, |count| format!("{count:.0}"));
    let over = optional(row.over_bare);
    let reloads = row.reloads.as_ref().map_or_else(
        || ",,,".to_owned(),
        |Reloads { per_second, workers_to_bare, process_to_bare, p99_to_bare }| {
            format!("{per_second:.1},{workers_to_bare:.3},{process_to_bare:.3},{p99_to_bare:.3}")
        },
    );
    let resident = row.resident / 1024.0;
    let busy = if idle { String::new() } else { format!("{:.2}", row.busy) };
    format!(
        "{rounds},{time},{memory},{ratios},{timed},{errors},{resident:.0},{busy},{handshakes},{over},{body_bytes:.0},{reloads}\n"
    )
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.3}"))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}
