//! The page while it is looked at: what comes from the gateway, the keyboard and the system, one after another.

use super::figures::Figures;
use super::page::{Next, Page};
use super::reading::Reading;
use super::screen::Screen;
use super::source::Source;
use super::view::{self, Picture, Theme};
use crate::failure::Failure;
use ratatui::crossterm::event::{self, Event, KeyEvent};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What the page hears of.
enum News {
    Key(KeyEvent),
    /// The terminal has another size.
    Resized,
    /// The gateway has responded, or not; and why it told nothing of its upstreams.
    Read(Box<Result<Reading, Failure>>, Option<String>),
    /// The process is to end, with that exit code.
    Ends(u8),
}

/// News that wait for the page to be drawn.
const MAX_NEWS: usize = 64;
/// The exit code after a signal is this and its number.
const BY_SIGNAL: i32 = 128;

/// A gateway as far as it is known.
struct Watched {
    picture: Picture,
    last: Option<Reading>,
    /// Since when it does not respond.
    lost: Option<Instant>,
}

/// Shows the page until the user leaves it. The gateway has responded once.
pub(super) fn show(
    source: Source,
    first: Reading,
    interval: Duration,
    theme: Theme,
) -> Result<ExitCode, Failure> {
    let cannot = |error| Failure::Runtime(format!("cannot use the terminal: {error}"));
    let mut watched = Watched::new(source.place(), interval);
    watched.take(Ok(first), source.refused(), Instant::now());
    let (sender, news) = sync_channel(MAX_NEWS);
    let signals = Signals::new().map_err(cannot)?;
    let mut screen = Screen::take().map_err(cannot)?;
    let (_reading, stop) = sync_channel(0);
    start(&sender, move |to| signals.report(to));
    start(&sender, report_keys);
    start(&sender, move |to| report_readings(source, interval, to, &stop));
    let mut page = Page::default();
    let mut frozen = watched.picture.clone();
    loop {
        if !page.is_paused {
            frozen.clone_from(&watched.picture);
        }
        let draw = |frame: &mut ratatui::Frame<'_>| {
            view::draw(frame.buffer_mut(), &mut page, &frozen, theme);
        };
        screen.terminal.draw(draw).map_err(cannot)?;
        match news.recv() {
            Ok(News::Key(key)) => {
                if page.on_key(key) == Next::Leave {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            Ok(News::Resized) => {}
            Ok(News::Read(read, refused)) => watched.take(*read, refused, Instant::now()),
            Ok(News::Ends(code)) => return Ok(ExitCode::from(code)),
            Err(_) => return Err(Failure::Runtime("nothing can be read any more".to_owned())),
        }
    }
}

/// Starts a thread that reports. If it panics, the page ends: it would show what is no longer so.
fn start(to: &SyncSender<News>, report: impl FnOnce(&SyncSender<News>) + Send + 'static) {
    struct Reporter(SyncSender<News>);
    impl Drop for Reporter {
        fn drop(&mut self) {
            if thread::panicking() {
                // Where nobody listens, the process ends already.
                let _ = self.0.send(News::Ends(1));
            }
        }
    }
    let reporter = Reporter(to.clone());
    thread::spawn(move || report(&reporter.0));
}

impl Watched {
    fn new(place: String, interval: Duration) -> Watched {
        let picture = Picture {
            place,
            time: None,
            interval,
            figures: Figures::default(),
            lost: None,
            refused: None,
        };
        Watched { picture, last: None, lost: None }
    }

    /// Takes what the gateway said, or why it said nothing. Then the last figures stay.
    fn take(&mut self, read: Result<Reading, Failure>, refused: Option<String>, now: Instant) {
        match read {
            Ok(reading) => {
                self.picture.figures = Figures::of(&reading, self.last.as_ref());
                self.picture.time = Some(reading.time);
                (self.picture.lost, self.lost) = (None, None);
                self.picture.refused = refused;
                self.last = Some(reading);
            }
            Err(failure) => {
                let since = *self.lost.get_or_insert(now);
                self.picture.lost = Some((reason(&failure), now.duration_since(since)));
            }
        }
    }
}

/// What went wrong, in one line.
fn reason(failure: &Failure) -> String {
    let text = failure.text(false);
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// Asks the gateway once an interval, until nobody listens.
fn report_readings(
    mut source: Source,
    interval: Duration,
    to: &SyncSender<News>,
    stop: &Receiver<()>,
) {
    let mut next = Instant::now() + interval;
    while stop.recv_timeout(next.saturating_duration_since(Instant::now()))
        == Err(RecvTimeoutError::Timeout)
    {
        // One that took long is not made up for.
        next = Instant::now() + interval;
        let read = Box::new(source.read());
        if to.send(News::Read(read, source.refused())).is_err() {
            return;
        }
    }
}

fn report_keys(to: &SyncSender<News>) {
    loop {
        let news = match event::read() {
            Ok(Event::Key(key)) => News::Key(key),
            Ok(Event::Resize(..)) => News::Resized,
            Ok(_) => continue,
            // The terminal is gone.
            Err(_) => News::Ends(1),
        };
        let is_last = matches!(news, News::Ends(_));
        if to.send(news).is_err() || is_last {
            return;
        }
    }
}

/// The signals that end the process.
struct Signals {
    runtime: Runtime,
    signals: [(SignalKind, Signal); 3],
}

impl Signals {
    /// From now on they no longer end it by themselves.
    fn new() -> std::io::Result<Signals> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let within = runtime.enter();
        let of = |kind| signal(kind).map(|signal| (kind, signal));
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let [terminate, interrupt, hangup] = kinds.map(of);
        let signals = [terminate?, interrupt?, hangup?];
        drop(within);
        Ok(Signals { runtime, signals })
    }

    /// Waits for one, and tells of it.
    fn report(mut self, to: &SyncSender<News>) {
        let [(_, terminate), (_, interrupt), (_, hangup)] = &mut self.signals;
        let which = self.runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => 0,
                _ = interrupt.recv() => 1,
                _ = hangup.recv() => 2,
            }
        });
        let number = self.signals[which].0.as_raw_value();
        let code = u8::try_from(BY_SIGNAL + number).unwrap_or(u8::MAX);
        // Where nobody listens, the process ends already.
        let _ = to.send(News::Ends(code));
    }
}
