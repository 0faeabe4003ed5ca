//! The figures as text for a terminal.

use std::fmt::Write as _;

use crate::figures::{Figures, Reloads, Row};

/// The table of one scenario.
pub fn lay_out(figures: &Figures) -> String {
    let scenario = figures.scenario;
    let mut text = format!("\n{}: {}\n", scenario.name, scenario.title);
    let cost = if scenario.idle() { "bytes/conn" } else { "cpu us/req" };
    let _ = writeln!(
        text,
        "{:<9}{cost:>12}{:>10}{:>12}{:>10}{:>11}{:>10}{:>10}{:>9}{:>8}{:>8}",
        "engine",
        "to nginx",
        "to haproxy",
        "to floor",
        "requests/s",
        "p50 us",
        "p99 us",
        "RSS MiB",
        "busy",
        "errors"
    );
    for row in &figures.rows {
        text.push_str(&line(row, scenario.idle()));
    }
    for row in &figures.rows {
        if let Some(count) = row.handshakes_per_cpu_second(scenario) {
            let engine = row.engine.name();
            let _ = writeln!(text, "{engine}: {count:.0} handshakes per processor second");
        }
    }
    for row in &figures.rows {
        if let Some(reloads) = &row.reloads {
            let Reloads { per_second, workers_to_bare, process_to_bare, p99_to_bare } = reloads;
            let _ = writeln!(
                text,
                "{}: {per_second:.1} reloads/s; to the same without: workers {workers_to_bare:.2}, \
                 process {process_to_bare:.2}, p99 {p99_to_bare:.2}",
                row.engine.name()
            );
        }
    }
    for row in &figures.rows {
        if let Some(over) = row.over_bare {
            let share = row.body_bytes / scenario.plain_bytes() as f64 * 100.0;
            let engine = row.engine.name();
            let _ = writeln!(
                text,
                "{engine}: {over:+.2} us over the route without; bodies of {share:.1} %"
            );
        }
    }
    text
}

fn line(row: &Row, idle: bool) -> String {
    let cost = if idle { format!("{:.0}", row.cost) } else { format!("{:.2}", row.cost) };
    let (nginx, haproxy, floor) = (ratio(row.to_nginx), ratio(row.to_haproxy), ratio(row.to_floor));
    let memory = row.resident / 1024.0 / 1024.0;
    let mark = if row.errors > 0 { "  <- WRONG: not a result" } else { "" };
    // An idle run's rate and latency are those of opening connections: no figures of the scenario.
    let timed = if idle {
        format!("{:>11}{:>10}{:>10}{memory:>9.1}{:>8}", "", "", "", "")
    } else {
        let busy = format!("{:.0} %", row.busy * 100.0);
        let rate = row.requests_per_second;
        format!("{rate:>11.0}{:>10.0}{:>10.0}{memory:>9.1}{busy:>8}", row.p50_us, row.p99_us)
    };
    format!(
        "{:<9}{cost:>12}{nginx:>10}{haproxy:>12}{floor:>10}{timed}{:>8}{mark}\n",
        row.engine.name(),
        row.errors
    )
}

fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}
