//! What the service manager is told, if one started the process (sd_notify(3)): that it serves, that it reloads, that it
//! stops, and that its workers answer.
//!
//! Nothing waits for the service manager: what it does not take is lost.

use crate::reload::Reloading;
use rustix::time::{ClockId, clock_gettime};
use std::convert::Infallible;
use std::env;
use std::ffi::OsStr;
use std::future::pending;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use titan_admin::Reloads;
use titan_proxy::{Bound, Metrics};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// What tells the service manager.
pub(crate) struct Supervisor {
    way: Option<Way>,
    watchdog: Option<Watchdog>,
    reloads: Arc<Reloads>,
    /// What is served, and since when.
    serves: String,
    /// How many reloads had been asked for when there was a look at them last, and whether one was under way.
    seen: (u64, bool),
}

/// Where messages go.
struct Way {
    socket: UnixDatagram,
    to: SocketAddr,
}

/// Says regularly that the workers answer, for as long as they do.
struct Watchdog {
    interval: Interval,
    /// How often each worker's clock had ticked at the last look.
    ticks: Vec<u64>,
    /// Whether workers may have ended: the time that a drain takes is bounded without a watchdog.
    is_draining: bool,
}

/// Addresses that a status names.
const MAX_NAMED: usize = 4;

impl Supervisor {
    /// That of a gateway that serves at these listeners, and tells of its reloads there. Says that it serves.
    pub(crate) fn of(listeners: &[Bound], reloads: &Arc<Reloads>) -> Supervisor {
        let (now, count) = (httpdate::fmt_http_date(SystemTime::now()), listeners.len());
        let named: Vec<_> =
            listeners.iter().take(MAX_NAMED).map(|it| it.address.as_str()).collect();
        let more = if count > MAX_NAMED { ", ..." } else { "" };
        let version = env!("CARGO_PKG_VERSION");
        let serves = format!("titan {version} serves {}{more} since {now}", named.join(", "));
        let supervisor = Supervisor {
            way: env::var_os("NOTIFY_SOCKET").and_then(|name| Way::to(&name)),
            watchdog: Watchdog::wanted().map(Watchdog::every),
            reloads: Arc::clone(reloads),
            serves,
            seen: (0, false),
        };
        // A successor of the process that was started by the service manager becomes the main process so.
        let own = format!("MAINPID={}", std::process::id());
        supervisor.tell(&[&own, "READY=1", &supervisor.status()]);
        supervisor
    }

    /// Tells of reloads that were asked for, and of those that are over, since this was called last. One that is refused at once is
    /// both: the service manager may have asked for it, and waits.
    pub(crate) fn follow(&mut self, reloading: Option<&Reloading>) {
        let Some(reloading) = reloading else { return };
        let (before, now) = (self.seen, (reloading.asked(), reloading.is_under_way()));
        self.seen = now;
        if now.0 != before.0 {
            // The service manager compares it with when it asked for the reload.
            let time = Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default();
            let time = format!("MONOTONIC_USEC={}", time.as_micros());
            self.tell(&["RELOADING=1", &time, "STATUS=reading the configuration"]);
        }
        if !now.1 && now != before {
            self.tell(&["READY=1", &self.status()]);
        }
    }

    /// Waits until it is time to say that the workers answer, and says it if they do. For ever if nobody wants to know.
    pub(crate) async fn beat(&mut self, metrics: &Metrics) {
        let Some(watchdog) = &mut self.watchdog else { return pending().await };
        watchdog.interval.tick().await;
        if watchdog.is_fed(metrics.workers().iter().map(|cells| cells.ticks.get())) {
            self.tell(&["WATCHDOG=1"]);
        }
    }

    /// The same for as long as something else takes.
    pub(crate) async fn beat_on(&mut self, metrics: &Metrics) -> Infallible {
        loop {
            self.beat(metrics).await;
        }
    }

    /// Says that the gateway is about to end.
    pub(crate) fn stop(&mut self) {
        self.watchdog.iter_mut().for_each(|watchdog| watchdog.is_draining = true);
        self.tell(&["STOPPING=1", "STATUS=draining"]);
    }

    /// Says that another process is the one to watch, and nothing more.
    pub(crate) fn leave_to(&mut self, successor: u32) {
        self.tell(&[&format!("MAINPID={successor}")]);
        (self.way, self.watchdog) = (None, None);
    }

    fn status(&self) -> String {
        let last = self.reloads.last().map(|(when, is_applied)| {
            let outcome = if is_applied { "applied" } else { "refused" };
            format!("; last reload {outcome} {}", httpdate::fmt_http_date(when))
        });
        format!("STATUS={}{}", self.serves, last.unwrap_or_default())
    }

    fn tell(&self, lines: &[&str]) {
        let Some(Way { socket, to }) = &self.way else { return };
        // A path may have any character, and a line ends a value.
        let lines = lines.iter().map(|line| line.replace(char::is_control, " "));
        let text = lines.collect::<Vec<_>>().join("\n");
        let _ = socket.send_to_addr(text.as_bytes(), to);
    }
}

impl Way {
    fn to(name: &OsStr) -> Option<Way> {
        let to = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
            _ => SocketAddr::from_pathname(name),
        };
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_nonblocking(true).ok()?;
        Some(Way { socket, to: to.ok()? })
    }
}

impl Watchdog {
    /// How often the service manager wants to hear of this process.
    fn wanted() -> Option<Duration> {
        let number = |name| env::var(name).ok()?.parse::<u64>().ok();
        let is_other =
            number("WATCHDOG_PID").is_some_and(|pid| pid != u64::from(std::process::id()));
        let period = number("WATCHDOG_USEC").filter(|period| *period > 0 && !is_other)?;
        Some(Duration::from_micros(period))
    }

    /// One that speaks twice in each period.
    fn every(period: Duration) -> Watchdog {
        let half = (period / 2).max(Duration::from_millis(1));
        let mut interval = interval_at(Instant::now() + half, half);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Watchdog { interval, ticks: Vec::new(), is_draining: false }
    }

    /// Whether every worker has ticked since this was asked last.
    fn is_fed(&mut self, ticks: impl Iterator<Item = u64>) -> bool {
        let ticks: Vec<_> = ticks.collect();
        let mut pairs = self.ticks.iter().zip(&ticks);
        let is_fed =
            self.is_draining || self.ticks.is_empty() || pairs.all(|(before, now)| now > before);
        self.ticks = ticks;
        is_fed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_worker_that_does_not_answer_starves_the_watchdog() {
        let mut watchdog = Watchdog::every(Duration::from_secs(10));
        assert!(watchdog.is_fed([1, 1].into_iter()), "nothing is known yet");
        assert!(watchdog.is_fed([2, 5].into_iter()));
        assert!(!watchdog.is_fed([3, 5].into_iter()), "the second one stands still");
        assert!(!watchdog.is_fed([4, 5].into_iter()));
        assert!(watchdog.is_fed([5, 6].into_iter()));
        watchdog.is_draining = true;
        assert!(watchdog.is_fed([5, 6].into_iter()), "it may have ended");
    }
}
