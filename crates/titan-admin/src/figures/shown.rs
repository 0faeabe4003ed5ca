//! Figures as JSON.

use super::problems::Problem;
use super::tally::Point;
use serde::Serialize;
use std::collections::BTreeMap;

/// What `/figures` responds.
#[derive(Serialize)]
pub(super) struct Window {
    pub(super) from: f64,
    pub(super) step: u64,
    pub(super) now: f64,
    pub(super) series: Columns,
}

/// The figures of points, each in the order of time.
#[derive(Serialize)]
pub(super) struct Columns {
    rate: Vec<f32>,
    errors: Vec<f32>,
    client_errors: Vec<f32>,
    p50: Vec<f32>,
    p90: Vec<f32>,
    p99: Vec<f32>,
}

/// What `/figures/now` responds.
#[derive(Serialize)]
pub(super) struct Now {
    pub(super) at: f64,
    pub(super) version: &'static str,
    pub(super) started: f64,
    pub(super) rate: f32,
    pub(super) error_share: Option<f32>,
    pub(super) p50: f32,
    pub(super) p90: f32,
    pub(super) p99: f32,
    pub(super) connections: BTreeMap<&'static str, u64>,
    pub(super) workers: Vec<Worker>,
    pub(super) problems: Vec<Problem>,
    pub(super) configuration: Configuration,
}

#[derive(Serialize)]
pub(super) struct Worker {
    pub(super) worker: usize,
    /// The share of a core.
    pub(super) busy: Option<f64>,
    /// Seconds.
    pub(super) lag: f64,
    pub(super) connections: u64,
}

#[derive(Serialize)]
pub(super) struct Configuration {
    /// The SHA-256 of the configuration in force, without its secrets.
    pub(super) version: String,
    pub(super) since: f64,
    pub(super) on_trial: bool,
    pub(super) to_confirm_until: Option<f64>,
}

/// What `/figures/routes` responds.
#[derive(Serialize)]
pub(super) struct Routes<'s> {
    pub(super) at: f64,
    pub(super) routes: Vec<Route<'s>>,
}

#[derive(Serialize)]
pub(super) struct Route<'s> {
    pub(super) name: &'s str,
    pub(super) upstreams: &'s [String],
    pub(super) rate: Option<f64>,
    pub(super) error_share: Option<f64>,
    pub(super) client_error_share: Option<f64>,
    pub(super) p50: Option<f64>,
    pub(super) p90: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) bytes_out_rate: Option<f64>,
}

/// What `/figures/upstreams` responds.
#[derive(Serialize)]
pub(super) struct Upstreams<'s> {
    pub(super) at: f64,
    pub(super) upstreams: Vec<Upstream<'s>>,
}

#[derive(Serialize)]
pub(super) struct Upstream<'s> {
    pub(super) name: &'s str,
    pub(super) rate: Option<f64>,
    pub(super) error_share: Option<f64>,
    pub(super) connect_p50: Option<f64>,
    pub(super) connect_p99: Option<f64>,
    pub(super) first_byte_p50: Option<f64>,
    pub(super) first_byte_p99: Option<f64>,
}

impl Columns {
    pub(super) fn of(points: &[Point]) -> Columns {
        let column = |figure: fn(&Point) -> f32| points.iter().map(figure).collect();
        Columns {
            rate: column(|point| point.rate),
            errors: column(|point| point.errors),
            client_errors: column(|point| point.client_errors),
            p50: column(|point| point.quantiles[0]),
            p90: column(|point| point.quantiles[1]),
            p99: column(|point| point.quantiles[2]),
        }
    }
}
