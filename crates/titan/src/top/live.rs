//! The page while it is looked at: what comes from the gateway, the keyboard and the system, one after another.

use super::figures::Figures;
use super::page::{Next, Page};
use super::reading::Reading;
use super::screen::{self, Screen};
use super::source::Source;
use super::view::{self, Picture, Theme};
use crate::failure::Failure;
use ratatui::Frame;
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
/// How long the page may take to end after a signal.
const PATIENCE: Duration = Duration::from_secs(1);
/// The exit code after a signal is this and its number.
const BY_SIGNAL: i32 = 128;

/// A gateway as far as it is known.
struct Watched {
    picture: Picture,
    last: Option<Reading>,
    /// Since when it does not respond.
    lost: Option<Instant>,
}

/// The page, and what it shows: while it is paused, what it showed then.
struct Session {
    page: Page,
    shown: Picture,
    watched: Watched,
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
    let mut session = Session { page: Page::default(), shown: watched.picture.clone(), watched };
    loop {
        let Session { page, shown, .. } = &mut session;
        let draw = |frame: &mut Frame<'_>| view::draw(frame.buffer_mut(), page, shown, theme);
        screen.terminal.draw(draw).map_err(cannot)?;
        let news = news.recv();
        let news = news.map_err(|_| Failure::Runtime("nothing can be read any more".to_owned()))?;
        if let Some(code) = session.hears(news, Instant::now()) {
            return Ok(ExitCode::from(code));
        }
    }
}

impl Session {
    /// Takes what has happened. Returns the exit code where that is the end.
    fn hears(&mut self, news: News, now: Instant) -> Option<u8> {
        match news {
            News::Key(key) => {
                if self.page.on_key(key) == Next::Leave {
                    return Some(0);
                }
            }
            News::Resized => {}
            News::Read(read, refused) => self.watched.take(*read, refused, now),
            News::Ends(code) => return Some(code),
        }
        if !self.page.is_paused {
            self.shown.clone_from(&self.watched.picture);
        }
        None
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

    /// Waits for one, and tells of it. What does not end then is ended.
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
        let to = to.clone();
        // On a thread of its own: there may be no room for it. Where nobody listens, the process ends already.
        thread::spawn(move || to.send(News::Ends(code)));
        end_late(code)
    }
}

/// Ends the process if the page has not by then: its thread waits for a terminal that takes nothing.
#[expect(clippy::disallowed_methods, reason = "the thread that would return the code is held")]
fn end_late(code: u8) -> ! {
    thread::sleep(PATIENCE);
    screen::give_back_at_once();
    std::process::exit(i32::from(code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::tests::readings;
    use ratatui::crossterm::event::KeyCode;

    const SECOND: Duration = Duration::from_secs(1);

    fn session() -> Session {
        let watched = Watched::new("here".to_owned(), SECOND);
        Session { page: Page::default(), shown: watched.picture.clone(), watched }
    }

    fn key(c: char) -> News {
        News::Key(KeyCode::Char(c).into())
    }

    fn read(read: Result<Reading, &str>) -> News {
        let read = read.map_err(|why| Failure::Runtime(format!("{why}\nhelp: none")));
        News::Read(Box::new(read), None)
    }

    #[test]
    fn what_is_paused_stays_and_what_goes_on_is_of_now() {
        let (mut session, now) = (session(), Instant::now());
        let [before, after] = readings();
        session.hears(read(Ok(before)), now);
        let rate = |session: &Session| session.shown.figures.all.requests;
        session.hears(key(' '), now);
        session.hears(read(Ok(after)), now);
        assert_eq!(rate(&session), None);
        session.hears(key(' '), now);
        assert_eq!(rate(&session), Some(1242.0));
    }

    #[test]
    fn a_lost_gateway_is_told_until_it_is_back() {
        let (mut session, now) = (session(), Instant::now());
        let [before, after] = readings();
        session.hears(read(Ok(before)), now);
        session.hears(read(Err("refused")), now + SECOND);
        session.hears(read(Err("refused still")), now + 5 * SECOND);
        let lost = session.shown.lost.clone();
        assert_eq!(lost, Some(("refused still".to_owned(), 4 * SECOND)));
        assert!(session.shown.time.is_some(), "the last figures stay");
        session.hears(read(Ok(after)), now + 6 * SECOND);
        assert_eq!(session.shown.lost, None);
        assert_eq!(session.shown.figures.all.requests, Some(1242.0));
    }

    #[test]
    fn keys_and_signals_end_it() {
        let now = Instant::now();
        assert_eq!(session().hears(key('q'), now), Some(0));
        assert_eq!(session().hears(News::Ends(143), now), Some(143));
        assert_eq!(session().hears(News::Resized, now), None);
    }
}
