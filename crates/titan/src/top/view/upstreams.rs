//! Upstreams with their endpoints.

use super::Tone;
use super::routes::durations_cell;
use super::table::{Cell, Column, Row, Table};
use crate::top::figures::{EndpointFigures, Figures, State, UpstreamFigures};
use crate::top::text::{UNKNOWN, age, figure, seconds, share, shown};

const COLUMNS: [Column; 14] = [
    Column::text("UPSTREAM", 23, 0),
    Column::text("STATE", 12, 0),
    Column::text("SINCE", 7, 4),
    Column::figure("REQ/S", 6, 1),
    Column::figure("FAILED", 7, 2),
    Column::figure("P50", 7, 5),
    Column::figure("P99", 7, 3),
    Column::figure("ACTIVE", 6, 4),
    Column::figure("CONNS", 5, 7),
    Column::figure("WAIT", 5, 8),
    Column::figure("RETRY", 6, 6),
    Column::figure("HEDGE", 6, 9),
    Column::figure("EJECT", 6, 10),
    Column::figure("SHED", 6, 11),
];

/// The table of upstreams; `refused` is why the gateway does not tell their states.
pub(super) fn table(figures: &Figures, refused: Option<&str>) -> Table {
    let rows = figures.upstreams.iter().map(row).collect();
    let note = (!figures.has_states).then(|| {
        let why = refused.map_or_else(String::new, |why| format!(": {}", shown(why)));
        format!("states, reasons and breakers are not known{why}")
    });
    Table {
        columns: COLUMNS.to_vec(),
        rows,
        empty: "there are no upstreams",
        note,
        has_stories: true,
    }
}

fn row(upstream: &UpstreamFigures) -> Row {
    let UpstreamFigures { name, panics, breaker, attempts, endpoints } = upstream;
    let sum = |of: fn(&EndpointFigures) -> Option<f64>| {
        endpoints.iter().filter_map(of).reduce(|sum, one| sum + one)
    };
    let (state, since) = state_of(upstream);
    let rate = |rate: Option<f64>| Cell::figure(rate, figure);
    let cells = vec![
        Cell::text(shown(name)),
        state,
        since,
        rate(attempts.requests),
        Cell::figure(attempts.errors, share).bad_above(0.0),
        durations_cell(attempts.durations.quantile(0.5)),
        durations_cell(attempts.durations.quantile(0.99)),
        rate(sum(|it| it.active)),
        rate(sum(|it| it.connections)),
        rate(sum(|it| it.waiting)).bad_above(0.0),
        rate(attempts.retries),
        rate(attempts.hedges),
        rate(attempts.ejections).bad_above(0.0),
        rate(attempts.shed).bad_above(0.0),
    ];
    let breaker = breaker.as_ref().filter(|it| !it.is_good());
    let panic = panics.then_some("too few endpoints are healthy: requests go to all of them");
    let said = [
        breaker.map(|state| format!("its circuit breaker is {}", said_of(state))),
        panic.map(str::to_owned),
    ];
    let said: Vec<_> = said.into_iter().flatten().collect();
    let details = (!said.is_empty()).then(|| format!("{}: {}", shown(name), said.join("; ")));
    Row { cells, details, members: endpoints.iter().map(|it| of_endpoint(name, it)).collect() }
}

/// That of its breaker if it is not as usual, else how many endpoints are healthy.
fn state_of(upstream: &UpstreamFigures) -> (Cell, Cell) {
    let UpstreamFigures { panics, breaker, endpoints, .. } = upstream;
    if let Some(breaker) = breaker.as_ref().filter(|it| !it.is_good()) {
        return (
            Cell::text(format!("br. {}", shown(&breaker.name))).with(Tone::Bad),
            since(breaker),
        );
    }
    let good = endpoints.iter().filter(|it| it.state.is_good()).count();
    let tone = match good {
        _ if *panics => Tone::Bad,
        _ if good == endpoints.len() => Tone::Good,
        _ => Tone::Warning,
    };
    let panic = if *panics { " panic" } else { "" };
    (Cell::text(format!("{good}/{}{panic}", endpoints.len())).with(tone), Cell::default())
}

fn of_endpoint(upstream: &str, endpoint: &EndpointFigures) -> Row {
    let EndpointFigures {
        address,
        state,
        requests,
        errors,
        latency,
        active,
        waiting,
        connections,
        ejections,
    } = endpoint;
    let tone = if state.is_good() { Tone::Good } else { Tone::Bad };
    let none = || Cell::text(String::new());
    let cells = vec![
        Cell::text(shown(address)),
        Cell::text(shown(&state.name)).with(tone),
        since(state),
        Cell::figure(*requests, figure),
        Cell::figure(*errors, share).bad_above(0.0),
        Cell::figure(*latency, mean),
        none(),
        Cell::figure(*active, figure),
        Cell::figure(*connections, figure),
        Cell::figure(*waiting, figure).bad_above(0.0),
        none(),
        none(),
        Cell::figure(*ejections, figure).bad_above(0.0),
        none(),
    ];
    let has_story = !state.is_good() || state.why.is_some();
    let details =
        has_story.then(|| format!("{} {}: {}", shown(upstream), shown(address), said_of(state)));
    Row { cells, details, members: Vec::new() }
}

/// An average among percentiles.
fn mean(latency: Option<f64>) -> String {
    latency.map_or_else(|| UNKNOWN.to_owned(), |_| format!("~{}", seconds(latency)))
}

fn since(state: &State) -> Cell {
    Cell::text(state.lasted.map_or_else(String::new, age))
}

/// A state with all that is known of it.
fn said_of(state: &State) -> String {
    let State { name, why, lasted, left } = state;
    let lasted = lasted.map(|it| format!(" for {}", age(it))).unwrap_or_default();
    let left = left.map(|it| format!(", {} more", age(it))).unwrap_or_default();
    let why = why.as_ref().map(|why| format!(": {}", shown(why))).unwrap_or_default();
    format!("{}{lasted}{left}{why}", shown(name))
}
