//! From reports to figures: medians over the rounds, and ratios taken within each round.

use titan_bench::report::Report;

use crate::engine::Engine;
use crate::measure::{Samples, ScenarioRun};
use crate::scenario::Scenario;

/// One engine's figures in one scenario.
pub struct Row {
    pub engine: Engine,
    pub rounds: usize,
    /// Processor microseconds per request, or bytes of memory per idle connection.
    pub cost: f64,
    /// The cost as a share of nginx's in the same round.
    pub to_nginx: Option<f64>,
    /// The cost as a share of HAProxy's in the same round.
    pub to_haproxy: Option<f64>,
    /// The cost as a share of the floor's in the same round.
    pub to_floor: Option<f64>,
    /// The cost over that of the same route without the policies, in the same round.
    pub over_bare: Option<f64>,
    /// The cost, to that of the same without.
    pub to_bare: Option<f64>,
    /// What reloads cost others, where there are some.
    pub reloads: Option<Reloads>,
    /// Bytes of a response's body as it came.
    pub body_bytes: f64,
    pub requests_per_second: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// Over all rounds.
    pub errors: u64,
    pub resident: f64,
    /// The share of the time that the proxy's core worked for it.
    pub busy: f64,
}

/// Reloads, and what they cost: ratios to the same configuration without, in the same round.
pub struct Reloads {
    pub per_second: f64,
    /// The processor time of workers for a request.
    pub workers_to_bare: f64,
    /// That of the whole process, in which the configurations are read and built.
    pub process_to_bare: f64,
    pub p99_to_bare: f64,
}

/// All engines' figures in one scenario.
pub struct Figures {
    pub scenario: &'static Scenario,
    pub rows: Vec<Row>,
}

impl Figures {
    pub fn of(run: &ScenarioRun) -> Self {
        let idle = run.scenario.idle();
        let costs = |engine| {
            let samples = run.samples.iter().find(|samples| samples.engine == engine)?;
            Some(costs(samples, idle))
        };
        let peers = [Engine::Nginx, Engine::Haproxy, Engine::Floor, Engine::Bare].map(costs);
        let bare = run.samples.iter().find(|samples| samples.engine == Engine::Bare);
        let row = |samples| Row {
            reloads: bare.and_then(|bare| Reloads::of(samples, bare)),
            ..row(samples, idle, &peers)
        };
        Self { scenario: run.scenario, rows: run.samples.iter().map(row).collect() }
    }

    pub fn of_engine(&self, engine: Engine) -> Option<&Row> {
        self.rows.iter().find(|row| row.engine == engine)
    }

    pub fn has_errors(&self) -> bool {
        self.rows.iter().any(|row| row.errors > 0)
    }
}

impl Row {
    /// Connections with their handshakes for each second of processor time, where each request has its own.
    pub fn handshakes_per_cpu_second(&self, scenario: &Scenario) -> Option<f64> {
        (scenario.shakes_hands() && self.cost > 0.0).then(|| 1e6 / self.cost)
    }
}

/// `peers` are the costs of nginx, HAProxy, the floor and the bare Titan, as far as they take part.
fn row(samples: &Samples, idle: bool, peers: &[Option<Vec<f64>>; 4]) -> Row {
    let costs = costs(samples, idle);
    let ratio_to = |peer: &Option<Vec<f64>>| Some(paired_ratio(&costs, peer.as_deref()?));
    let [nginx, haproxy, floor, bare] = peers;
    let bare = bare.as_deref().filter(|_| samples.engine == Engine::Titan);
    let reports = &samples.reports;
    let median_of = |figure: fn(&Report) -> f64| median(reports.iter().map(figure).collect());
    Row {
        engine: samples.engine,
        rounds: reports.len(),
        to_nginx: ratio_to(nginx),
        to_haproxy: ratio_to(haproxy),
        to_floor: ratio_to(floor),
        over_bare: bare.map(|bare| paired_difference(&costs, bare)),
        to_bare: bare.map(|bare| paired_ratio(&costs, bare)),
        reloads: None,
        body_bytes: median_of(|report| report.body_bytes as f64 / report.requests.max(1) as f64),
        cost: median(costs),
        requests_per_second: median_of(|report| per_second(report, report.requests as f64)),
        p50_us: median_of(|report| report.p50_us),
        p99_us: median_of(|report| report.p99_us),
        errors: reports.iter().map(|report| report.errors).sum(),
        resident: median_of(|report| report.resident as f64),
        busy: median_of(|report| per_second(report, report.cpu_ns as f64 / 1e9)),
    }
}

impl Reloads {
    fn of(samples: &Samples, bare: &Samples) -> Option<Self> {
        if samples.reloads.is_empty() {
            return None;
        }
        let to_bare = |figure: fn(&Report) -> f64| {
            let [own, bare] = [samples, bare]
                .map(|samples| samples.reports.iter().map(figure).collect::<Vec<_>>());
            paired_ratio(&own, &bare)
        };
        Some(Self {
            per_second: median(samples.reloads.clone()),
            workers_to_bare: to_bare(|report| per_request(report, report.worker_cpu_ns)),
            process_to_bare: to_bare(|report| per_request(report, report.cpu_ns)),
            p99_to_bare: to_bare(|report| report.p99_us),
        })
    }
}

/// Microseconds for each request.
fn per_request(report: &Report, nanos: u64) -> f64 {
    nanos as f64 / 1e3 / report.requests.max(1) as f64
}

/// Nothing happens in no time: a run that errors cut short has measured nothing.
fn per_second(report: &Report, amount: f64) -> f64 {
    if report.seconds > 0.0 { amount / report.seconds } else { 0.0 }
}

/// What a request, or an idle connection, cost in each round.
fn costs(samples: &Samples, idle: bool) -> Vec<f64> {
    let cost = |report: &Report| {
        if idle {
            report.resident.saturating_sub(report.resident_before) as f64
                / samples.connections as f64
        } else {
            per_request(report, report.cpu_ns)
        }
    };
    samples.reports.iter().map(cost).collect()
}

/// The median of the ratios of each round: what slows a whole round down cancels out.
fn paired_ratio(costs: &[f64], reference: &[f64]) -> f64 {
    median(
        costs.iter().zip(reference).map(|(cost, reference)| cost / reference.max(1e-9)).collect(),
    )
}

/// The median of the differences of each round.
fn paired_difference(costs: &[f64], reference: &[f64]) -> f64 {
    median(costs.iter().zip(reference).map(|(cost, reference)| cost - reference).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(Vec::new()), 0.0);
    }

    #[test]
    fn a_round_that_is_slow_for_all_does_not_move_a_ratio() {
        assert_eq!(paired_ratio(&[1.0, 10.0, 1.0], &[2.0, 20.0, 2.0]), 0.5);
    }
}
