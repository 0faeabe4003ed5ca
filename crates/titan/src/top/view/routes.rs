//! Routes with what they serve.

use super::Tone;
use super::table::{Cell, Column, Row, Table};
use crate::top::figures::{CLASSES, Quantile, Traffic};
use crate::top::text::{bytes, figure, quantile, share, shown};

const COLUMNS: [Column; 12] = [
    Column::text("ROUTE", 16, 0),
    Column::figure("REQ/S", 6, 0),
    Column::figure("ERRORS", 7, 1),
    Column::figure("P50", 7, 3),
    Column::figure("P90", 7, 4),
    Column::figure("P99", 7, 2),
    Column::figure("2XX/S", 6, 8),
    Column::figure("3XX/S", 6, 9),
    Column::figure("4XX/S", 6, 5),
    Column::figure("5XX/S", 6, 6),
    Column::figure("IN/S", 7, 11),
    Column::figure("OUT/S", 7, 10),
];

/// The table of routes.
pub(super) fn table(routes: &[(String, Traffic)]) -> Table {
    let rows = routes.iter().map(|(name, traffic)| row(name, traffic)).collect();
    Table {
        columns: COLUMNS.to_vec(),
        rows,
        empty: "there are no routes",
        note: None,
        has_stories: false,
    }
}

fn row(name: &str, traffic: &Traffic) -> Row {
    let Traffic { requests, classes, errors, durations, received, sent } = traffic;
    let part = |part| durations_cell(durations.quantile(part));
    let class = |place: usize| Cell::figure(classes[place], figure);
    let cells = vec![
        Cell::text(shown(name)),
        Cell::figure(*requests, figure),
        Cell::figure(*errors, share).bad_above(0.0),
        part(0.5),
        part(0.9),
        part(0.99),
        class(0),
        class(1),
        class(2),
        class(3).bad_above(0.0),
        Cell::figure(*received, bytes),
        Cell::figure(*sent, bytes),
    ];
    Row { cells, details: None, members: Vec::new() }.with_details(name, classes)
}

impl Row {
    /// With the whole name, and all classes.
    fn with_details(self, name: &str, classes: &[Option<f64>]) -> Row {
        let rate = |(class, rate): (&&str, &Option<f64>)| format!("{class} {}/s", figure(*rate));
        let rates: Vec<_> = CLASSES.iter().zip(classes).map(rate).collect();
        Row { details: Some(format!("{}: {}", shown(name), rates.join(", "))), ..self }
    }
}

/// A percentile.
pub(super) fn durations_cell(found: Option<Quantile>) -> Cell {
    let tone = if matches!(found, Some(Quantile::Over(_))) { Tone::Warning } else { Tone::Plain };
    Cell { text: quantile(found), tone, order: found.map(Quantile::order) }
}
