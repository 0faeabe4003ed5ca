//! The gateway as a whole, and its busiest routes.

use super::facts::{self, Fact};
use super::{Theme, Tone, routes};
use crate::top::figures::{
    Attempts, CLASSES, Clients, Configuration, Figures, Load, Pressure, Traffic,
};
use crate::top::text::{UNKNOWN, age, bytes, figure, quantile, seconds, share, shown};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::collections::BTreeMap;

/// Problem codes that are named.
const MAX_CODES: usize = 8;
/// The column of the table of routes that it is sorted by: requests a second.
const REQUESTS: usize = 1;

pub(super) fn draw(buffer: &mut Buffer, area: Rect, figures: &Figures, theme: Theme) {
    let facts = facts(figures);
    facts::draw(buffer, area, &facts, theme);
    let below = u16::try_from(facts.len()).unwrap_or(u16::MAX).saturating_add(1);
    // A head and a row.
    if area.height < below.saturating_add(2) {
        return;
    }
    let area = Rect { y: area.y + below, height: area.height - below, ..area };
    routes::table(&figures.routes).busiest(REQUESTS).draw_plain(buffer, area, theme);
}

/// The lines of figures.
pub(super) fn facts(figures: &Figures) -> Vec<Fact> {
    let all = &figures.all;
    let mut facts = vec![
        requests(all, figures.is_restarted),
        Fact::of("Durations", durations(all)),
        Fact::of(
            "Bytes",
            [
                plain(format!("in {}/s", bytes(all.received))),
                plain(format!("out {}/s", bytes(all.sent))),
            ],
        ),
        clients(&figures.clients),
        upstreams(&figures.attempts),
        endpoints(figures),
        workers(&figures.workers),
        pressure(&figures.pressure),
        configuration(&figures.configuration),
    ];
    facts.push(Fact::of("Failures", failures(&figures.failures)));
    facts
}

fn requests(all: &Traffic, is_restarted: bool) -> Fact {
    let errors = (format!("errors {}", share(all.errors)), bad_if(is_above(all.errors)));
    let classes = CLASSES.iter().zip(all.classes).filter(|(class, _)| **class != "1xx");
    let classes = classes.map(|(class, rate)| plain(format!("{class} {}", figure(rate))));
    let restarted =
        is_restarted.then(|| ("another process responds than before".to_owned(), Tone::Warning));
    let rate = plain(format!("{}/s", figure(all.requests)));
    Fact::of("Requests", [rate].into_iter().chain(restarted).chain([errors]).chain(classes))
}

fn durations(all: &Traffic) -> Vec<(String, Tone)> {
    let named = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];
    let text = |(name, part)| plain(format!("{name} {}", quantile(all.durations.quantile(part))));
    named.map(text).into()
}

fn clients(clients: &Clients) -> Fact {
    let Clients { connections, streams, tunnels, accepted, refused, handshakes_failed } = clients;
    Fact::of(
        "Clients",
        [
            plain(format!("connections {}", figure(*connections))),
            plain(format!("opened {}/s", figure(*accepted))),
            plain(format!("streams {}", figure(*streams))),
            plain(format!("tunnels {}", figure(*tunnels))),
            bad(format!("refused {}/s", figure(*refused)), *refused),
            bad(format!("TLS failed {}/s", figure(*handshakes_failed)), *handshakes_failed),
        ],
    )
}

fn upstreams(attempts: &Attempts) -> Fact {
    let Attempts {
        retries, retries_refused, hedges, hedges_won, shed, rejected, ejections, ..
    } = attempts;
    Fact::of(
        "Upstreams",
        [
            plain(format!("attempts {}/s", figure(attempts.attempts))),
            bad(format!("failed {}", share(attempts.errors)), attempts.errors),
            plain(format!("retries {}/s", figure(*retries))),
            plain(format!("hedges {}/s", figure(*hedges))),
            bad(format!("ejections {}/s", figure(*ejections)), *ejections),
            bad(format!("rejected {}/s", figure(*rejected)), *rejected),
            bad(format!("shed {}/s", figure(*shed)), *shed),
            bad(format!("retries refused {}/s", figure(*retries_refused)), *retries_refused),
            plain(format!("hedges won {}/s", figure(*hedges_won))),
        ],
    )
}

/// How many there are in each state, and what the breakers of upstreams are in.
fn endpoints(figures: &Figures) -> Fact {
    let all = || figures.upstreams.iter().flat_map(|upstream| &upstream.endpoints);
    let good = all().filter(|it| it.state.is_good()).count();
    let tone = if good == all().count() { Tone::Good } else { Tone::Warning };
    let mut others: BTreeMap<&str, usize> = BTreeMap::new();
    for endpoint in all().filter(|it| !it.state.is_good()) {
        *others.entry(&endpoint.state.name).or_default() += 1;
    }
    let others =
        others.into_iter().map(|(state, count)| (format!("{} {count}", shown(state)), Tone::Bad));
    let breakers = figures.upstreams.iter().filter_map(|it| it.breaker.as_ref());
    let open = breakers.filter(|it| !it.is_good()).count();
    let open = (open > 0).then(|| (format!("breakers not closed {open}"), Tone::Bad));
    let panics = figures.upstreams.iter().filter(|it| it.panics).count();
    let panics = (panics > 0).then(|| (format!("panic {panics}"), Tone::Bad));
    let sum = (format!("{good} of {} healthy", all().count()), tone);
    Fact::of("Endpoints", [sum].into_iter().chain(others).chain(open).chain(panics))
}

fn workers(workers: &[(String, Load)]) -> Fact {
    let most = |of: fn(&Load) -> Option<f64>| {
        workers.iter().filter_map(|(_, load)| of(load)).max_by(f64::total_cmp)
    };
    let busy: Vec<f64> = workers.iter().filter_map(|(_, load)| load.busy).collect();
    let mean = Some(busy.iter().sum::<f64>() / figure_of(busy.len())).filter(|it| it.is_finite());
    Fact::of(
        "Workers",
        [
            plain(workers.len().to_string()),
            plain(format!("busy {}", share(mean))),
            plain(format!("the busiest {}", share(most(|it| it.busy)))),
            plain(format!("lag up to {}", seconds(most(|it| it.lag)))),
        ],
    )
}

fn pressure(pressure: &Pressure) -> Fact {
    let Pressure { level, descriptors, memory } = pressure;
    Fact::of(
        "Pressure",
        [
            bad(format!("level {}", figure(*level)), *level),
            plain(format!("descriptors {}", share(*descriptors))),
            plain(format!("memory {}", share(*memory))),
        ],
    )
}

fn configuration(configuration: &Configuration) -> Fact {
    let Configuration { reloaded, is_successful, is_on_trial, in_use } = configuration;
    let last = reloaded
        .map_or_else(|| "as at the start".to_owned(), |it| format!("last reload {} ago", age(it)));
    let outcome = match (is_successful, reloaded) {
        (Some(false), _) => Some(("refused: the one before is in force".to_owned(), Tone::Bad)),
        (Some(true), Some(_)) => Some(("successful".to_owned(), Tone::Good)),
        _ => None,
    };
    let trial = is_on_trial.then(|| ("on trial".to_owned(), Tone::Warning));
    let in_use = plain(format!("in use {}", figure(*in_use)));
    Fact::of("Config", [plain(last)].into_iter().chain(outcome).chain(trial).chain([in_use]))
}

fn failures(failures: &[(String, f64)]) -> Vec<(String, Tone)> {
    let text = |(code, rate): &(String, f64)| {
        (format!("{} {}/s", shown(code), figure(Some(*rate))), Tone::Bad)
    };
    let named: Vec<_> = failures.iter().take(MAX_CODES).map(text).collect();
    if named.is_empty() { vec![(UNKNOWN.to_owned(), Tone::Faint)] } else { named }
}

fn plain(text: String) -> (String, Tone) {
    (text, Tone::Plain)
}

/// Something that should not be.
fn bad(text: String, figure: Option<f64>) -> (String, Tone) {
    (text, bad_if(is_above(figure)))
}

fn bad_if(is_bad: bool) -> Tone {
    if is_bad { Tone::Bad } else { Tone::Plain }
}

fn is_above(figure: Option<f64>) -> bool {
    figure.is_some_and(|it| it > 0.0)
}

fn figure_of(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
