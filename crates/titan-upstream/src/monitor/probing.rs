//! When an endpoint is probed, and what its probes say. Pure: time and chance are arguments.

use crate::health::{Fact, Health};
use crate::probe::Probed;
use std::rc::Rc;
use std::time::Duration;
use titan_config::{HealthCheck, Percent};
use tokio::task::{AbortHandle, Id};
use tokio::time::Instant;

/// The probes of an endpoint.
pub(super) struct Probing {
    /// What is probed.
    pub(super) probed: Rc<Probed>,
    turn: Turn,
    /// How many of them in a row have failed, or succeeded.
    row: u32,
    has_failed: bool,
}

enum Turn {
    /// The next one is due then.
    At(Instant),
    /// One runs.
    Running(Running),
}

/// A probe that runs, for as long as somebody wants to know.
struct Running {
    number: u64,
    task: AbortHandle,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Probing {
    /// Probes that begin at that time.
    pub(super) fn new(probed: Probed, first: Instant) -> Probing {
        Probing { probed: Rc::new(probed), turn: Turn::At(first), row: 0, has_failed: false }
    }

    /// Probes with other settings from that time on, or from when the next one is due. One that runs was made by those before, and is
    /// ended.
    pub(super) fn change(&mut self, probed: Probed, first: Instant) {
        self.probed = Rc::new(probed);
        let next = match self.turn {
            Turn::At(next) => next.min(first),
            Turn::Running(_) => first,
        };
        self.turn = Turn::At(next);
    }

    /// Since when the next one is due, if it is.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        match self.turn {
            Turn::At(next) if next <= now => Some(next),
            Turn::At(_) | Turn::Running(_) => None,
        }
    }

    /// Notes that one runs.
    pub(super) fn start(&mut self, number: u64, task: AbortHandle) {
        self.turn = Turn::Running(Running { number, task });
    }

    /// Whether it is that one which runs.
    pub(super) fn is_running(&self, number: u64) -> bool {
        matches!(&self.turn, Turn::Running(running) if running.number == number)
    }

    /// Whether the one that runs is that task.
    pub(super) fn is_task(&self, task: Id) -> bool {
        matches!(&self.turn, Turn::Running(running) if running.task.id() == task)
    }

    /// Counts one; whether the endpoint is healthy, if that has changed.
    pub(super) fn count(
        &mut self,
        check: &HealthCheck,
        health: &Health,
        has_failed: bool,
    ) -> Option<bool> {
        self.row = if self.has_failed == has_failed { self.row.saturating_add(1) } else { 1 };
        self.has_failed = has_failed;
        let is_news = health.has(Fact::Unprobed) || health.has(Fact::Unhealthy) != has_failed;
        let enough = if has_failed { check.unhealthy_after } else { check.healthy_after };
        (is_news && self.row >= enough.get()).then_some(!has_failed)
    }

    /// Has the next one wait for its time.
    pub(super) fn wait(&mut self, check: &HealthCheck, health: &Health, random: u64) {
        let interval = interval(check, health, self.has_failed);
        self.turn = Turn::At(Instant::now() + jittered(interval, check.jitter, random));
    }

    /// How many of them have done what the last one did.
    pub(super) fn told(&self) -> String {
        let have_done = if self.has_failed { "failed" } else { "succeeded" };
        match self.row {
            1 => format!("a probe {have_done}"),
            row => format!("{row} probes in a row {have_done}"),
        }
    }
}

/// The time to the first probe: at random within an interval, so that many endpoints are not probed all at once when Titan starts or is
/// reloaded. What gets no requests before it is probed does not wait.
pub(super) fn first_pause(check: &HealthCheck, health: &Health, random: u64) -> Duration {
    if health.has(Fact::Unprobed) {
        return Duration::ZERO;
    }
    let micros = u128::from(micros(interval(check, health, false)));
    Duration::from_micros(u64::try_from((micros * u128::from(random)) >> 64).unwrap_or(u64::MAX))
}

fn interval(check: &HealthCheck, health: &Health, has_failed: bool) -> Duration {
    let is_bad = has_failed || health.has(Fact::Unhealthy) || health.has(Fact::Unprobed);
    if is_bad { check.unhealthy_interval } else { check.interval }
}

/// A time that is longer or shorter by up to a part of it.
fn jittered(time: Duration, jitter: Percent, random: u64) -> Duration {
    let micros = micros(time);
    let spread = jitter.of(micros);
    Duration::from_micros(micros - spread + random % (2 * spread + 1))
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::mix;
    use crate::signals::Signals;
    use titan_config::Config;

    fn check(settings: &str) -> HealthCheck {
        let text = format!(
            "listeners: [':0']\nroutes: [{{upstream: a}}]\n\
             upstreams: {{a: {{endpoints: ['127.0.0.1:1'], health: {{probe: tcp, {settings}}}}}}}"
        );
        let mut config = Config::parse("test", &text).unwrap_or_else(|report| panic!("{report}"));
        config.upstreams.remove(0).health.unwrap()
    }

    // field: health.jitter
    #[test]
    fn probes_spread_around_their_interval() {
        for (jitter, least, most) in [("0%", 10_000, 10_000), ("20%", 8_000, 12_000)] {
            let check = check(&format!("interval: 10s, jitter: {jitter}"));
            let drawn = |number| jittered(check.interval, check.jitter, mix(number)).as_millis();
            let drawn: Vec<_> = (0..1000).map(drawn).collect();
            let (min, max) = (drawn.iter().min().unwrap(), drawn.iter().max().unwrap());
            assert!(min.abs_diff(least) < 100 && max.abs_diff(most) < 100, "{min} to {max}");
        }
    }

    #[test]
    fn first_probes_spread_over_an_interval_unless_somebody_waits_for_them() {
        let check = check("interval: 10s");
        let first = |health: &Health| {
            let drawn = (0..1000).map(|number| first_pause(&check, health, mix(number)));
            let mut drawn: Vec<_> = drawn.map(|pause| pause.as_millis()).collect();
            drawn.sort_unstable();
            [drawn[0], drawn[500], drawn[999]]
        };
        let [min, mean, max] = first(&Health::new(Signals::default(), None));
        assert!(min < 100 && mean.abs_diff(5000) < 500 && (9900..10_000).contains(&max), "{max}");
        assert_eq!(first(&Health::new(Signals::default(), Some(Fact::Unprobed))), [0, 0, 0]);
    }
}
