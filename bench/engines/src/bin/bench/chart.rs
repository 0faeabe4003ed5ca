//! The costs as a picture: a panel for each scenario, a bar for each engine.

use std::fs;
use std::io;
use std::path::Path;

use titan_bench::chart::{Bar, Panel, draw};
use titan_bench::machine::Machine;

use crate::figures::{Figures, Row};
use crate::origin::Origin;

const TITLE: &str = "Processor time of the proxy per request; shorter is better";

/// Draws all scenarios.
pub fn write(
    path: &Path,
    machine: &Machine,
    origin: Origin,
    figures: &[Figures],
) -> io::Result<()> {
    let conditions = format!("{machine}; origin: {}", origin.name());
    let panels: Vec<Panel> = figures.iter().map(panel).collect();
    fs::write(path, draw(TITLE, &conditions, &panels))
}

fn panel(figures: &Figures) -> Panel {
    let idle = figures.scenario.idle();
    let bar = |row: &Row| Bar {
        name: row.engine.name().to_owned(),
        length: row.cost,
        label: label(row, idle),
    };
    Panel { title: figures.scenario.title.to_owned(), bars: figures.rows.iter().map(bar).collect() }
}

fn label(row: &Row, idle: bool) -> String {
    let cost = match row.cost {
        bytes if idle => format!("{bytes:.0} bytes"),
        micros if micros >= 100.0 => format!("{micros:.0} \u{b5}s"),
        micros => format!("{micros:.2} \u{b5}s"),
    };
    let ratio = row.to_nginx.map_or_else(String::new, |ratio| format!(", {ratio:.2} of nginx"));
    let mark = if row.errors > 0 { " (errors)" } else { "" };
    format!("{cost}{ratio}{mark}")
}
