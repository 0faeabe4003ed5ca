//! Workers with their load.

use super::Tone;
use super::table::{Cell, Column, Row, Table};
use crate::top::figures::Load;
use crate::top::text::{bytes, figure, seconds, share, shown};

const COLUMNS: [Column; 9] = [
    Column::text("WORKER", 7, 0),
    Column::figure("BUSY", 6, 0),
    Column::figure("LAG", 7, 1),
    Column::figure("REQ/S", 6, 0),
    Column::figure("CONNS", 6, 2),
    Column::figure("STREAMS", 8, 5),
    Column::figure("TUNNELS", 8, 6),
    Column::figure("IN/S", 8, 4),
    Column::figure("OUT/S", 8, 3),
];

/// The share of a core from which a worker is as good as saturated.
const SATURATED: f64 = 0.9;
/// A lag, in seconds, that clients notice.
const LATE: f64 = 0.05;
/// Digits of numbers of workers: their names are sorted as text.
const DIGITS: usize = 4;

/// The table of workers.
pub(super) fn table(workers: &[(String, Load)]) -> Table {
    let widest = workers.iter().map(|(name, _)| name.len()).max().unwrap_or(0).min(DIGITS);
    let rows = workers.iter().map(|(name, load)| row(name, load, widest)).collect();
    Table {
        columns: COLUMNS.to_vec(),
        rows,
        empty: "there are no workers",
        note: None,
        has_stories: false,
    }
}

fn row(name: &str, load: &Load, widest: usize) -> Row {
    let Load { busy, lag, requests, connections, streams, tunnels, received, sent } = load;
    let busy_tone = if busy.is_some_and(|it| it > SATURATED) { Tone::Bad } else { Tone::Plain };
    let cells = vec![
        Cell::text(format!("{:>widest$}", shown(name))),
        Cell::figure(*busy, share).with(busy_tone),
        Cell::figure(*lag, seconds).bad_above(LATE),
        Cell::figure(*requests, figure),
        Cell::figure(*connections, figure),
        Cell::figure(*streams, figure),
        Cell::figure(*tunnels, figure),
        Cell::figure(*received, bytes),
        Cell::figure(*sent, bytes),
    ];
    Row { cells, details: None, members: Vec::new() }
}
