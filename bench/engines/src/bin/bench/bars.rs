//! What Titan has to reach, checked against the figures of a run.

use titan_bench::verdict::Verdict;

use crate::engine::Engine;
use crate::figures::{Figures, Row};

/// The most that one of Titan's figures may be.
struct Bar {
    scenario: &'static str,
    measure: Measure,
    most: f64,
}

#[derive(Clone, Copy)]
enum Measure {
    ToNginx,
    ToFloor,
    /// To nginx or HAProxy, whichever is cheaper. One with wrong responses is none.
    ToBetter,
    /// To Titan's own cost in another scenario.
    ToOwn(&'static str),
    BytesPerConnection,
    /// Microseconds over the route without the policies.
    OverBare,
    /// What a request costs, to the same without.
    ToBare,
    /// How long a response's body is, to nginx's.
    BodyToNginx,
    /// How long a response's body is, to what was compressed.
    BodyToPlain,
    /// What a request costs the workers, to the same without reloads.
    WorkersToBare,
    /// The same of the p99.
    P99ToBare,
}

const BARS: [Bar; 47] = [
    Bar { scenario: "small-64", measure: Measure::ToNginx, most: 0.90 },
    Bar { scenario: "small-64", measure: Measure::ToFloor, most: 1.12 },
    Bar { scenario: "small-256", measure: Measure::ToNginx, most: 0.90 },
    Bar { scenario: "small-256", measure: Measure::ToFloor, most: 1.12 },
    Bar { scenario: "body-30k", measure: Measure::ToNginx, most: 0.85 },
    Bar { scenario: "body-1m", measure: Measure::ToNginx, most: 0.90 },
    Bar { scenario: "connection-per-request", measure: Measure::ToNginx, most: 1.00 },
    Bar { scenario: "pipelined-16", measure: Measure::ToNginx, most: 0.75 },
    Bar { scenario: "idle-10000", measure: Measure::BytesPerConnection, most: 2048.0 },
    Bar { scenario: "post-16k", measure: Measure::ToNginx, most: 0.90 },
    Bar { scenario: "https-keepalive", measure: Measure::ToNginx, most: 0.95 },
    // As many handshakes per processor second as nginx, or more.
    Bar { scenario: "https-new-full", measure: Measure::ToNginx, most: 1.00 },
    Bar { scenario: "https-new-full-rsa", measure: Measure::ToNginx, most: 1.00 },
    Bar { scenario: "h2-tls-10x100", measure: Measure::ToBetter, most: 1.00 },
    Bar { scenario: "h2-tls-100x10", measure: Measure::ToBetter, most: 1.00 },
    Bar { scenario: "h2c-10x100", measure: Measure::ToBetter, most: 1.00 },
    Bar { scenario: "h2-to-h2", measure: Measure::ToOwn("h2-tls-10x100"), most: 0.80 },
    Bar { scenario: "grpc-unary", measure: Measure::ToBetter, most: 1.00 },
    Bar { scenario: "h3-small-10x100", measure: Measure::ToBetter, most: 0.80 },
    Bar { scenario: "h3-small-100x10", measure: Measure::ToBetter, most: 0.80 },
    Bar { scenario: "h3-30k", measure: Measure::ToBetter, most: 0.80 },
    Bar { scenario: "h3-1m", measure: Measure::ToBetter, most: 0.90 },
    Bar { scenario: "h3-handshake", measure: Measure::ToBetter, most: 0.80 },
    Bar { scenario: "h3-idle", measure: Measure::BytesPerConnection, most: 12288.0 },
    Bar { scenario: "ws-echo", measure: Measure::ToFloor, most: 1.10 },
    Bar { scenario: "jwt-hs256-1", measure: Measure::OverBare, most: 1.0 },
    Bar { scenario: "jwt-hs256-10000", measure: Measure::OverBare, most: 1.0 },
    Bar { scenario: "jwt-es256-1", measure: Measure::OverBare, most: 1.0 },
    Bar { scenario: "jwt-es256-10000", measure: Measure::OverBare, most: 1.0 },
    Bar { scenario: "rate-limit", measure: Measure::OverBare, most: 0.5 },
    Bar { scenario: "shared-exact", measure: Measure::OverBare, most: 6.0 },
    Bar { scenario: "shared-lease", measure: Measure::OverBare, most: 0.7 },
    Bar { scenario: "cors-headers", measure: Measure::OverBare, most: 0.5 },
    Bar { scenario: "all-policies", measure: Measure::OverBare, most: 3.0 },
    Bar { scenario: "gzip-30k", measure: Measure::ToNginx, most: 0.80 },
    Bar { scenario: "gzip-30k", measure: Measure::BodyToNginx, most: 1.00 },
    Bar { scenario: "gzip-30k", measure: Measure::BodyToPlain, most: 0.40 },
    Bar { scenario: "brotli-30k", measure: Measure::BodyToPlain, most: 0.40 },
    Bar { scenario: "zstd-30k", measure: Measure::BodyToPlain, most: 0.40 },
    Bar { scenario: "watched", measure: Measure::ToBare, most: 1.03 },
    Bar { scenario: "recorder", measure: Measure::ToBare, most: 1.02 },
    Bar { scenario: "traces-off", measure: Measure::OverBare, most: 0.1 },
    Bar { scenario: "traces-1", measure: Measure::OverBare, most: 0.3 },
    Bar { scenario: "access-log", measure: Measure::OverBare, most: 0.8 },
    Bar { scenario: "access-log", measure: Measure::ToNginx, most: 0.85 },
    Bar { scenario: "reloads", measure: Measure::WorkersToBare, most: 1.05 },
    Bar { scenario: "reloads", measure: Measure::P99ToBare, most: 1.30 },
];

/// The verdicts on every bar that this run can tell about.
pub fn verdicts(figures: &[Figures]) -> Vec<Verdict> {
    let verdict = |bar: &Bar| {
        let own = figures.iter().find(|figures| figures.scenario.name == bar.scenario)?;
        let row = own.of_engine(Engine::Titan)?;
        let figure = bar.measure.of(row, own, figures)?;
        // Wrong responses meet no bar.
        let is_met = figure <= bar.most && row.errors == 0;
        Some(Verdict { is_met, text: bar.describe(figure) })
    };
    BARS.iter().filter_map(verdict).collect()
}

fn titan_in<'a>(figures: &'a [Figures], scenario: &str) -> Option<&'a Row> {
    figures.iter().find(|figures| figures.scenario.name == scenario)?.of_engine(Engine::Titan)
}

/// The cheaper peer is the one that the ratio to is greater. Both have to be measured.
fn to_better(row: &Row, own: &Figures) -> Option<f64> {
    let peers = [(Engine::Nginx, row.to_nginx?), (Engine::Haproxy, row.to_haproxy?)];
    let is_right = |engine| own.of_engine(engine).is_some_and(|peer| peer.errors == 0);
    let ratios = peers.into_iter().filter(|(engine, _)| is_right(*engine)).map(|(_, ratio)| ratio);
    ratios.reduce(f64::max)
}

impl Bar {
    /// What the figure is, and what it may be.
    fn describe(&self, figure: f64) -> String {
        let Self { scenario, measure, most } = self;
        let (measure, digits) = match measure {
            Measure::ToNginx => ("to nginx".to_owned(), 2),
            Measure::ToFloor => ("to the floor".to_owned(), 2),
            Measure::ToBetter => ("to the better of nginx and HAProxy".to_owned(), 2),
            Measure::ToOwn(other) => (format!("to {other}"), 2),
            Measure::BytesPerConnection => ("bytes per connection".to_owned(), 0),
            Measure::OverBare => ("microseconds over the route without".to_owned(), 2),
            Measure::ToBare => ("to the same without".to_owned(), 3),
            Measure::BodyToNginx => ("bodies to nginx's".to_owned(), 2),
            Measure::BodyToPlain => ("bodies to what was compressed".to_owned(), 2),
            Measure::WorkersToBare => ("workers to those without reloads".to_owned(), 2),
            Measure::P99ToBare => ("p99 to that without reloads".to_owned(), 2),
        };
        format!("{scenario} {measure} {figure:.digits$}, at most {most:.digits$}")
    }
}

impl Measure {
    fn of(self, row: &Row, own: &Figures, figures: &[Figures]) -> Option<f64> {
        match self {
            Self::ToNginx => row.to_nginx,
            Self::ToFloor => row.to_floor,
            Self::ToBetter => to_better(row, own),
            Self::ToOwn(other) => Some(row.cost / titan_in(figures, other)?.cost.max(1e-9)),
            Self::BytesPerConnection => Some(row.cost),
            Self::OverBare => row.over_bare,
            Self::ToBare => row.to_bare,
            Self::BodyToNginx => {
                Some(row.body_bytes / own.of_engine(Engine::Nginx)?.body_bytes.max(1.0))
            }
            Self::WorkersToBare => Some(row.reloads.as_ref()?.workers_to_bare),
            Self::P99ToBare => Some(row.reloads.as_ref()?.p99_to_bare),
            Self::BodyToPlain => Some(row.body_bytes / own.scenario.plain_bytes() as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::SCENARIOS;

    fn row(engine: Engine, errors: u64) -> Row {
        Row {
            engine,
            rounds: 1,
            cost: 1.0,
            to_nginx: Some(0.7),
            to_haproxy: Some(0.9),
            to_floor: None,
            over_bare: None,
            to_bare: None,
            reloads: None,
            body_bytes: 0.0,
            requests_per_second: 0.0,
            p50_us: 0.0,
            p99_us: 0.0,
            errors,
            resident: 0.0,
            busy: 0.0,
        }
    }

    #[test]
    fn a_peer_with_wrong_responses_is_no_bar() {
        let ratio = |nginx, haproxy| {
            let rows = [(Engine::Nginx, nginx), (Engine::Haproxy, haproxy), (Engine::Titan, 0)];
            let rows = rows.map(|(engine, errors)| row(engine, errors)).into();
            let own = Figures { scenario: &SCENARIOS[0], rows };
            Measure::ToBetter.of(own.of_engine(Engine::Titan)?, &own, &[])
        };
        assert_eq!(ratio(0, 0), Some(0.9));
        assert_eq!(ratio(0, 3), Some(0.7));
        assert_eq!(ratio(3, 0), Some(0.9));
        assert_eq!(ratio(3, 3), None);
    }
}
