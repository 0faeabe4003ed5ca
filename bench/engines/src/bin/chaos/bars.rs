//! What Titan has to reach.

use std::time::Duration;

use titan_bench::verdict::Verdict;

use crate::case::Promise;
use crate::figures::{Ejected, Figures};
use crate::gateway::Engine;

/// The longest that a failure takes when nobody can respond.
const AT_ONCE: Duration = Duration::from_millis(100);
/// The most tries for each request then: a fifth of them may be retries, and 10 a second are free.
const TRIES: f64 = 1.25;

/// How many failures are no more than so many, but for chance: which of the requests an endpoint gets differs from run to
/// run, and twice its standard deviation is twice the root of what is counted.
fn no_more_than(best: usize) -> usize {
    best + (2.0 * (best.max(1) as f64).sqrt()).ceil() as usize
}

/// One for each bar of each case in which Titan took part.
pub fn verdicts(figures: &[Figures]) -> Vec<Verdict> {
    let titans = figures.iter().filter(|figures| figures.engine == Engine::Titan);
    titans.flat_map(|titan| of_one(titan, figures)).collect()
}

fn of_one(titan: &Figures, all: &[Figures]) -> Vec<Verdict> {
    let place = format!("{}, {}", titan.protocol.name(), titan.case.name);
    let verdict = |is_met, text: String| Verdict { is_met, text: format!("{place}: {text}") };
    let mut verdicts = vec![verdict(
        titan.failed_before == 0,
        format!("{} requests failed before the fault, bar 0", titan.failed_before),
    )];
    let returned = titan.returned.is_some();
    verdicts.push(verdict(returned, "requests come to each endpoint again".to_owned()));
    match titan.case.promise {
        Promise::EveryGet => {
            let count = titan.failed_gets;
            verdicts.push(verdict(count == 0, format!("{count} GETs failed, bar 0")));
            let is_ejected = titan.ejected != Some(Ejected::Never);
            verdicts.push(verdict(is_ejected, "an endpoint that fails is ejected".to_owned()));
        }
        Promise::AtOnce => {
            let took = titan.failure_took.map_or(Duration::ZERO, |(_, most)| most);
            let text = format!("failed within {took:?}, bar {AT_ONCE:?}");
            verdicts.push(verdict(took <= AT_ONCE, text));
            let tries = titan.tries_per_request;
            let text = format!("{tries:.2} tries for each request, bar {TRIES}");
            verdicts.push(verdict(tries <= TRIES, text));
        }
        Promise::Few => {}
    }
    let of_peers = all.iter().filter(|other| {
        other.case.name == titan.case.name
            && other.protocol == titan.protocol
            && [Engine::Haproxy, Engine::Envoy].contains(&other.engine)
    });
    if let Some(best) = of_peers.map(Figures::failed).min()
        && titan.case.promise != Promise::AtOnce
    {
        let count = titan.failed();
        let text = format!("{count} requests failed, {best} with the better of HAProxy and Envoy");
        verdicts.push(verdict(count <= no_more_than(best), text));
    }
    verdicts
}
