//! The figures as a table for people.

use std::time::Duration;

use crate::figures::{Ejected, Figures};

/// Above the rows.
pub const HEADER: &str = "case         gateway  requests  GET failed  POST failed   noticed   ejected  returned  \
tries/req  wasted   fails in   p99 ms  failures";

/// The row of one gateway in one case.
pub fn row(figures: &Figures) -> String {
    let Figures { engine, case, requests, failed_gets, failed_posts, .. } = figures;
    let Figures { tries_per_request, wasted, p99, .. } = figures;
    let noticed = figures.noticed.map_or_else(|| "-".to_owned(), seconds);
    let ejected = match figures.ejected {
        Some(Ejected::After(time)) => seconds(time),
        Some(Ejected::Never) => "never".to_owned(),
        None => "-".to_owned(),
    };
    let returned = figures.returned.map_or_else(|| "never".to_owned(), seconds);
    let failure = figures.failure_took.map(|(_, most)| format!("{} ms", most.as_millis()));
    let failure = failure.unwrap_or_else(|| "-".to_owned());
    let kinds: Vec<_> =
        figures.kinds.iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
    let before = match figures.failed_before {
        0 => String::new(),
        count => format!("; {count} before the fault"),
    };
    format!(
        "{:<12} {:<8} {requests:>8}  {failed_gets:>10}  {failed_posts:>11}  {noticed:>8}  {ejected:>8}  \
         {returned:>8}  {tries_per_request:>9.2}  {wasted:>6}  {failure:>9}  {:>7}  {}{before}",
        case.name,
        engine.name(),
        p99.as_millis(),
        kinds.join(", "),
    )
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}
