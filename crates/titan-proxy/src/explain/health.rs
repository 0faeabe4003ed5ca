//! How it is found out which endpoints of an upstream can take requests, in words.

use titan_config::{Ejection, HealthCheck, Probe, Upstream};

/// What keeps endpoints from getting requests.
pub(super) fn health(upstream: &Upstream) -> String {
    let Upstream { health, ejection, panic_below, slow_start, .. } = upstream;
    let is_none = health.is_none() && ejection.is_none();
    let panics = Some(panic_below).filter(|least| !is_none && least.as_hundredths() > 0);
    let facts = [
        Some(health.as_ref().map_or("no probes".to_owned(), probes)),
        panics.map(|least| format!("all get requests if fewer than {least} are left")),
        (!slow_start.is_zero()).then(|| format!("what returns takes more over {slow_start:?}")),
    ];
    facts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn probes(check: &HealthCheck) -> String {
    let HealthCheck { probe, port, interval, timeout, .. } = check;
    let probe = match probe {
        Probe::Tcp => "tcp".to_owned(),
        Probe::Tls => "tls".to_owned(),
        Probe::Http(http) => format!("{} {}", http.method.as_str(), http.path),
        Probe::Grpc(grpc) if grpc.service.is_empty() => "gRPC health".to_owned(),
        Probe::Grpc(grpc) => format!("gRPC health of {}", grpc.service),
    };
    let port = port.map_or_else(String::new, |port| format!(" at port {port}"));
    format!("{probe}{port} every {interval:?} within {timeout:?}")
}

/// When the requests of an endpoint have it ejected.
pub(super) fn ejection(upstream: &Upstream) -> String {
    let whys = upstream.ejection.as_ref().map_or_else(Vec::new, causes);
    match whys.is_empty() {
        true => "off".to_owned(),
        false => format!("after {}", whys.join(", or ")),
    }
}

fn causes(ejection: &Ejection) -> Vec<String> {
    let Ejection {
        consecutive_failures,
        consecutive_errors,
        failure_share,
        statuses,
        slower_than_others,
        min_requests,
        window,
        ..
    } = ejection;
    let whys = [
        consecutive_failures.map(|count| format!("{count} failures in a row")),
        consecutive_errors.map(|count| format!("{count} times {statuses} in a row")),
        failure_share.map(|share| {
            format!(
                "{share} of {min_requests} requests or more in {window:?} that failed or got {statuses}"
            )
        }),
        slower_than_others.map(|times| format!("{times} times the latency of the others")),
    ];
    whys.into_iter().flatten().collect()
}
