//! What the gateway does, for people who look at it: figures over time, of the last seconds, and what is wrong.
//!
//! A thread of its own samples the counters of the workers every two seconds. What is shown is made once for each sample, however many
//! ask for it, and only if somebody does.

mod tally;

mod series;

mod problems;

mod store;

mod shown;
#[cfg(test)]
mod tests;

use crate::http::{NotSent, PieceSender, Response, pieces};
use crate::reloads::Reloads;
use problems::unix;
use series::{RESOLUTIONS, Resolution, TICK};
use shown::{Columns, Window};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};
use std::{io, thread};
use store::{MOST, OTHER, Sample, Store};
use tally::{Tally, UpstreamTally, as_figure};
use titan_http::{Status, query};
use titan_observe::events::Log;
use titan_proxy::{Cells, Gateway, Metrics};

/// The figures of a gateway.
pub(crate) struct Figures {
    metrics: Arc<Metrics>,
    status: titan_proxy::Status,
    reloads: Arc<Reloads>,
    log: Log,
    started: SystemTime,
    store: Mutex<Store>,
    /// What was made of the last sample.
    made: Mutex<Made>,
    /// Those who get each sample as it comes.
    readers: Mutex<Vec<PieceSender>>,
    /// Its end is that of the thread which samples.
    sampling: OnceLock<SyncSender<Infallible>>,
}

/// What is made of a sample.
#[derive(Default)]
struct Made {
    sample: u64,
    texts: [Option<Arc<str>>; View::ALL.len()],
}

/// What is shown of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Now,
    Routes,
    Upstreams,
}

/// What a browser waits before it connects again.
const RETRY: &str = "retry: 2000\n";

impl View {
    const ALL: [View; 3] = [View::Now, View::Routes, View::Upstreams];

    fn event(self) -> &'static str {
        match self {
            View::Now => "now",
            View::Routes => "routes",
            View::Upstreams => "upstreams",
        }
    }
}

impl Figures {
    /// Those of a gateway that has just started, without any sample.
    pub(crate) fn new(gateway: &Gateway, reloads: &Arc<Reloads>, started: SystemTime) -> Figures {
        Figures {
            metrics: gateway.metrics(),
            status: gateway.status(),
            reloads: Arc::clone(reloads),
            log: gateway.log().clone(),
            started,
            store: Mutex::new(Store::new(started)),
            made: Mutex::default(),
            readers: Mutex::default(),
            sampling: OnceLock::new(),
        }
    }

    /// Starts the thread that samples, which ends with these figures.
    pub(crate) fn start(self: &Arc<Figures>) -> io::Result<()> {
        let (sampling, ended) = sync_channel(0);
        if self.sampling.set(sampling).is_err() {
            return Ok(());
        }
        let figures = Arc::downgrade(self);
        let sample = move || {
            let first = Instant::now();
            while let Some(figures) = Weak::upgrade(&figures) {
                figures.sample(first.elapsed());
                drop(figures);
                // So that a point is not a little too late each time.
                let rest = TICK - Duration::from_nanos(nanos_within(first.elapsed()));
                let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(rest) else { return };
            }
        };
        thread::Builder::new().name("figures".to_owned()).spawn(sample)?;
        Ok(())
    }

    /// Takes a sample, so long behind the first one, and sends it to those who read along.
    fn sample(&self, behind: Duration) {
        let workers = self.metrics.workers().iter();
        let dropped = self.log.dropped();
        let sample = Sample {
            routes: self.status.routes(),
            upstreams: self.status.upstreams(),
            workers: workers.map(|cells| cells.busy_micros.get()).collect(),
            drops: [
                self.metrics.sum(|cells| cells.records_dropped.get()),
                dropped.queue + dropped.rate,
            ],
        };
        let upstreams_of = || self.status.upstreams_of_routes(MOST);
        let mut store = lock(&self.store);
        store.note(sample, (behind, SystemTime::now()), upstreams_of);
        let drafts = self.drafts(&store);
        store.date(drafts);
        drop(store);
        self.send();
    }

    /// What is wrong, of what does not know itself since when.
    fn drafts(&self, store: &Store) -> Vec<problems::Draft> {
        let pressure = &self.metrics.pressure;
        let of_pressure = problems::of_pressure(pressure.level(), pressure.shares());
        let busy = busy(store);
        let workers = self.metrics.workers().iter().enumerate();
        let workers = workers.filter_map(|(worker, cells)| {
            problems::of_worker(worker, busy.get(worker).copied(), lag(cells))
        });
        let logs = self.status.access_logs();
        let logs = logs.iter().filter(|log| log.is_in_trouble());
        let logs = logs.map(|log| problems::of_log(log.name(), log.fault(), log.dropped()));
        let drops = store.drops.grown(&store.timeline).map_or([0; 2], |(grown, _)| grown);
        let drops = ["records of exchanges", "events"].into_iter().zip(drops);
        let drops = drops.filter_map(|(what, count)| problems::of_drops(what, count));
        of_pressure.into_iter().chain(workers).chain(logs).chain(drops).collect()
    }

    /// Responds with the points of a window, of all routes or one.
    pub(crate) fn window(&self, asked: Option<&[u8]>) -> Response {
        let (mut window, mut route) = (Cow::Borrowed(&b"300"[..]), None);
        for (name, value) in query::pairs(asked) {
            match &*name {
                b"window" => window = value,
                b"route" => route = Some(String::from_utf8_lossy(&value).into_owned()),
                _ => return bad_query(),
            }
        }
        let seconds = std::str::from_utf8(&window).ok().and_then(|text| text.parse().ok());
        let Some(level) = seconds.and_then(Resolution::of_window) else { return bad_query() };
        let store = lock(&self.store);
        let Some(series) = store.series(route.as_deref()) else {
            let detail = format!(
                "no route of that name has figures of its own: there is none, or it is one of those beyond the first {MOST}, \
                 which `{OTHER}` stands for"
            );
            return Response::problem(Status::NOT_FOUND, &detail);
        };
        let (step, now) = (RESOLUTIONS[level].step(), unix(store.at));
        let begun = store.timeline.begun(level);
        let points = series.window(level, begun);
        let complete = points.len() - usize::from(begun > 0.0);
        let from = now - begun - as_figure(complete as u64 * step);
        Response::json(Status::OK, &Window { from, step, now, series: Columns::of(&points) })
    }

    /// Responds with the last sample.
    pub(crate) fn view(&self, view: View) -> Response {
        Response::new(Status::OK, "application/json", format!("{}\n", self.made(view)))
    }

    /// Responds with each sample as it comes: server-sent events.
    pub(crate) fn live(&self) -> Response {
        let (reader, rest) = pieces();
        let first = format!("{RETRY}{}", self.events());
        let mut readers = lock(&self.readers);
        // Those who have gone since the last sample.
        readers.retain(|reader| !reader.is_gone());
        readers.push(reader);
        Response::new(Status::OK, "text/event-stream", first).followed_by(rest)
    }

    /// Sends the last sample to those who read along. Who does not keep up is cut off.
    fn send(&self) {
        if lock(&self.readers).is_empty() {
            return;
        }
        let events: Arc<[u8]> = self.events().into_bytes().into();
        let slow = |reader: &mut PieceSender| match reader.send(Arc::clone(&events)) {
            Ok(()) => false,
            Err(NotSent::Full | NotSent::Gone) => true,
        };
        let slow: Vec<_> = lock(&self.readers).extract_if(.., slow).collect();
        slow.into_iter().for_each(PieceSender::cut_off);
    }

    /// All views as events, behind a comment that keeps the connection from looking dead.
    fn events(&self) -> String {
        let events = View::ALL.map(|view| {
            let text = self.made(view);
            format!("event: {}\ndata: {text}\n\n", view.event())
        });
        format!(":\n{}", events.concat())
    }

    /// The text of a view of the last sample.
    fn made(&self, view: View) -> Arc<str> {
        let mut made = lock(&self.made);
        let sample = lock(&self.store).samples;
        if made.sample != sample {
            *made = Made { sample, ..Made::default() };
        }
        let text = &mut made.texts[view as usize];
        Arc::clone(text.get_or_insert_with(|| self.make(view).into()))
    }

    fn make(&self, view: View) -> String {
        match view {
            View::Now => written(&self.now()),
            View::Routes => written(&routes(&lock(&self.store))),
            View::Upstreams => written(&upstreams(&lock(&self.store))),
        }
    }

    fn now(&self) -> shown::Now {
        let problems = self.problems();
        let attempts = self.reloads.attempts();
        let store = lock(&self.store);
        let tally::Point { rate, errors, quantiles: [p50, p90, p99], .. } = store.all.last();
        let busy = busy(&store);
        let workers = self.metrics.workers().iter().enumerate();
        let worker = |(worker, cells): (usize, &Cells)| shown::Worker {
            worker,
            busy: busy.get(worker).copied(),
            lag: lag(cells).as_secs_f64(),
            connections: cells.open(),
        };
        shown::Now {
            at: unix(store.at),
            version: env!("CARGO_PKG_VERSION"),
            started: unix(self.started),
            rate,
            error_share: (rate > 0.0).then(|| errors / rate),
            p50,
            p90,
            p99,
            connections: connections(&self.metrics),
            workers: workers.map(worker).collect(),
            problems,
            configuration: shown::Configuration {
                version: attempts.digest,
                since: unix(attempts.in_force_since),
                on_trial: attempts.is_on_trial,
                to_confirm_until: attempts.confirm_until.map(unix),
            },
        }
    }

    /// What is wrong, the worst first.
    fn problems(&self) -> Vec<problems::Problem> {
        let upstreams = self.status.upstreams_now();
        let certificates = self.status.certificates();
        let attempts = self.reloads.attempts();
        let key_sets = self.status.key_sets();
        let store = lock(&self.store);
        let now = store.at;
        let of_upstreams = upstreams.iter().flat_map(|it| problems::of_upstream(it, now));
        let of_certificates =
            certificates.iter().filter_map(|it| problems::of_certificate(it, now));
        let of_routes = store.routes.iter().filter_map(|(name, series)| {
            let (Tally { requests, errors, .. }, seconds) = series.recent.grown(&store.timeline)?;
            let lasted = series.lasted(|point| problems::is_failing(point.errors, point.rate));
            let since = (lasted > 0.0).then(|| now - Duration::from_secs_f64(lasted));
            problems::of_route(name, (errors, requests, seconds), since, now)
        });
        let all = of_upstreams
            .chain(of_routes)
            .chain(key_sets.iter().filter_map(problems::of_key_set))
            .chain(of_certificates)
            .chain(problems::of_attempts(&attempts, now))
            .chain(store.dated.iter().cloned());
        problems::sorted(all.collect())
    }
}

fn routes(store: &Store) -> shown::Routes<'_> {
    let places = 0..store.routes.len();
    shown::Routes { at: unix(store.at), routes: places.map(|place| route(store, place)).collect() }
}

fn route(store: &Store, place: usize) -> shown::Route<'_> {
    let (name, series) = &store.routes[place];
    let recent = series.recent.grown(&store.timeline);
    let rate = |of: fn(&Tally) -> u64| {
        recent.as_ref().map(|(grown, seconds)| as_figure(of(grown)) / seconds)
    };
    let share = |of: fn(&Tally) -> u64| {
        let (grown, _) = recent.as_ref().filter(|(grown, _)| grown.requests > 0)?;
        Some(as_figure(of(grown)) / as_figure(grown.requests))
    };
    let quantiles = recent.as_ref().map(|(grown, _)| grown.took.quantiles(tally::QUANTILES));
    let [p50, p90, p99] = quantiles.unwrap_or_default();
    shown::Route {
        name,
        // Behind those of the file are those without a route of their own.
        upstreams: store.upstreams_of_routes.get(place).map_or(&[][..], Vec::as_slice),
        rate: rate(|it| it.requests),
        error_share: share(|it| it.errors),
        client_error_share: share(|it| it.client_errors),
        p50,
        p90,
        p99,
        bytes_out_rate: rate(|it| it.sent),
    }
}

fn upstreams(store: &Store) -> shown::Upstreams<'_> {
    let upstreams = store.upstreams.iter().map(|(name, recent)| {
        let recent = recent.grown(&store.timeline);
        let rate = recent.as_ref().map(|(grown, seconds)| as_figure(grown.attempts) / seconds);
        let grown = recent.map(|(grown, _)| grown).unwrap_or_default();
        let UpstreamTally { attempts, failures, connect, first_byte } = &grown;
        let error_share = (*attempts > 0).then(|| as_figure(*failures) / as_figure(*attempts));
        let [connect_p50, connect_p99] = connect.quantiles([0.5, 0.99]);
        let [first_byte_p50, first_byte_p99] = first_byte.quantiles([0.5, 0.99]);
        shown::Upstream {
            name,
            rate,
            error_share,
            connect_p50,
            connect_p99,
            first_byte_p50,
            first_byte_p99,
        }
    });
    shown::Upstreams { at: unix(store.at), upstreams: upstreams.collect() }
}

/// The share of a core that each worker has used in the last seconds.
fn busy(store: &Store) -> Vec<f64> {
    let grown = store.workers.grown(&store.timeline);
    grown.map_or_else(Vec::new, |(micros, seconds)| {
        micros.into_iter().map(|micros| as_figure(micros) / 1e6 / seconds).collect()
    })
}

fn lag(cells: &Cells) -> Duration {
    Duration::from_micros(cells.lag_micros.get())
}

/// The connections of clients by protocol, and tunnels.
fn connections(metrics: &Metrics) -> BTreeMap<&'static str, u64> {
    // Closed first: what comes and goes meanwhile must not make more closed than opened.
    let open = |closed: fn(&Cells) -> u64, opened: fn(&Cells) -> u64| {
        let closed = metrics.sum(closed);
        metrics.sum(opened).saturating_sub(closed)
    };
    let h2 = open(|it| it.h2_closed.get(), |it| it.h2_opened.get());
    let h3 = open(|it| it.h3_closed.get(), |it| it.h3_opened.get());
    let all = open(|it| it.closed.get(), |it| it.accepted.get());
    let tunnels = open(|it| it.tunnels_closed.get(), |it| it.tunnels_opened.get());
    let h1 = all.saturating_sub(h2).saturating_sub(h3);
    [("http/1.1", h1), ("h2", h2), ("h3", h3), ("tunnels", tunnels)].into()
}

fn written(document: &impl serde::Serialize) -> String {
    serde_json::to_string(document).expect("it is made of numbers and texts")
}

fn nanos_within(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_nanos() % TICK.as_nanos()).unwrap_or_default()
}

fn bad_query() -> Response {
    let detail =
        "expected `window` (300, 3600 or 86400 seconds) and, for a single one, `route` (its name)";
    Response::problem(Status::BAD_REQUEST, detail)
}

/// A lock that is held for moments.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
