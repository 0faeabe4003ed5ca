//! The thread that writes events.

use super::event::Event;
use super::journal;
use super::line::Form;
use super::log::{Dropped, Log, Queue, Shared};
use super::rate::Rate;
use super::repeats::Repeats;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use titan_config::{EventFormat, LogArea, LogLevel};

/// Has events written until it is dropped. That waits until everything is written, or [`Writer::LONGEST`] have passed: whoever reads
/// too slowly, or not at all, does not hold the process.
pub struct Writer(Log);

impl Writer {
    /// How long the end of a process may take for what is still to be written.
    pub const LONGEST: Duration = Duration::from_secs(2);

    /// Has everything written to standard error that is told, on a thread of its own, which `log` must not have yet.
    pub fn to_standard_error(log: &Log) -> io::Result<Writer> {
        let error = io::stderr();
        let for_journal = journal::reads(&error);
        // Not through what others of this process print with: its lock would hold them as long as a slow reader holds this thread.
        let file = File::from(error.as_fd().try_clone_to_owned()?);
        Writer::start(log, Patient { file, most: PATIENCE }, for_journal)
    }

    fn start(log: &Log, out: impl Write + Send + 'static, for_journal: bool) -> io::Result<Writer> {
        let mut pen = Pen::new(log, out, for_journal, Instant::now());
        thread::Builder::new().name("events".to_owned()).spawn(move || pen.run())?;
        Ok(Writer(log.clone()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let Shared { arrived, written, .. } = &*self.0.0;
        let mut queue = self.0.0.lock();
        queue.ends = true;
        arrived.notify_one();
        let is_unwritten = |queue: &mut Queue| !queue.has_ended;
        drop(written.wait_timeout_while(queue, Writer::LONGEST, is_unwritten));
    }
}

/// What the thread works with.
struct Pen<W> {
    log: Log,
    out: W,
    for_journal: bool,
    repeats: Repeats,
    rate: Rate,
    /// Whether the last line lacks its end.
    is_torn: bool,
    /// What was said of events that were left out, and when.
    told: Dropped,
    told_at: Option<Instant>,
}

/// How often there is a look at what is due while events come.
const LOOK: Duration = Duration::from_millis(100);
/// How often it is said that events were left out.
const QUIET: Duration = Duration::from_secs(60);
/// How long there is to be room where writing does not wait by itself.
const PATIENCE: Duration = Duration::from_secs(1);

/// A file that others may have set to not wait: whoever shares a terminal or a pipe shares that.
struct Patient {
    file: File,
    /// How long there is to be room.
    most: Duration,
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.file.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let most = Timespec::try_from(self.most).map_err(io::Error::other)?;
                poll(&mut [PollFd::new(&self.file, PollFlags::OUT)], Some(&most))?;
                self.file.write(bytes)
            }
            done => done,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// What there is to do.
enum Next {
    Write(Event, Form),
    /// Nothing has come, or other levels.
    Look(Form),
    End(Form),
}

impl<W: Write> Pen<W> {
    fn new(log: &Log, out: W, for_journal: bool, now: Instant) -> Pen<W> {
        Pen {
            log: log.clone(),
            out,
            for_journal,
            repeats: Repeats::default(),
            rate: Rate::new(now),
            is_torn: false,
            told: Dropped::default(),
            told_at: None,
        }
    }

    fn run(&mut self) {
        let mut looked = Instant::now();
        loop {
            match self.next() {
                Next::Write(event, form) => {
                    let now = Instant::now();
                    if let Some(event) = self.repeats.sift(event, now) {
                        self.write(&event, form, now);
                    }
                    // Not behind each of a flood: what is due is looked for among thousands.
                    if now.duration_since(looked) >= LOOK {
                        self.look(form);
                        looked = now;
                    }
                }
                Next::Look(form) => self.look(form),
                Next::End(form) => return self.end(form, Instant::now()),
            }
        }
    }

    /// Waits until there is something to do.
    fn next(&self) -> Next {
        loop {
            let form = match self.take() {
                Ok(next) => return next,
                Err(form) => form,
            };
            match self.due().map(|due| due.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return Next::Look(form),
                time => self.wait(time),
            }
        }
    }

    /// What there is to do now; otherwise how lines look.
    fn take(&self) -> Result<Next, Form> {
        let mut queue = self.log.0.lock();
        let format = if queue.is_json { EventFormat::Json } else { EventFormat::Text };
        let form = Form { format, for_journal: self.for_journal };
        if let Some(event) = queue.events.pop_front() {
            return Ok(Next::Write(event, form));
        }
        match (std::mem::take(&mut queue.has_news), queue.ends) {
            (true, _) => Ok(Next::Look(form)),
            (false, true) => Ok(Next::End(form)),
            (false, false) => Err(form),
        }
    }

    /// Waits until something comes, or that time has passed.
    fn wait(&self, time: Option<Duration>) {
        let Shared { arrived, .. } = &*self.log.0;
        let queue = self.log.0.lock();
        let is_idle = |queue: &mut Queue| queue.events.is_empty() && !queue.has_news && !queue.ends;
        match time {
            Some(time) => drop(arrived.wait_timeout_while(queue, time, is_idle)),
            None => drop(arrived.wait_while(queue, is_idle)),
        }
    }

    /// When there is something to do though nothing has come.
    fn due(&self) -> Option<Instant> {
        let levels = self.log.0.levels.until();
        let told = self.told_at.filter(|_| self.log.dropped() != self.told).map(|at| at + QUIET);
        [levels, self.repeats.next(), told].into_iter().flatten().min()
    }

    /// Does what is due.
    fn look(&mut self, form: Form) {
        let now = Instant::now();
        for event in self.repeats.due(now) {
            self.write(&event, form, now);
        }
        if self.log.0.levels.expire(now) {
            let what = "the levels of the configuration hold again";
            self.write(&own(LogLevel::Info, "levels_restored", what), form, now);
        }
        if self.told_at.is_none_or(|at| now.duration_since(at) >= QUIET) {
            self.tell_dropped(form, now);
        }
    }

    fn end(&mut self, form: Form, now: Instant) {
        for event in self.repeats.rest() {
            self.write(&event, form, now);
        }
        self.tell_dropped(form, now);
        self.log.0.lock().has_ended = true;
        self.log.0.written.notify_all();
    }

    /// Says how many events were left out, if there are more of them.
    fn tell_dropped(&mut self, form: Form, now: Instant) {
        let (dropped, before) = (self.log.dropped(), self.told);
        if dropped == before {
            return;
        }
        let (queue, rate) = (dropped.queue - before.queue, dropped.rate - before.rate);
        let what = format!(
            "{} events were left out: {queue} found no room because standard error takes them too slowly, {rate} were too \
             many in a second",
            queue + rate
        );
        self.told_at = Some(now);
        if self.put(&own(LogLevel::Warn, "events_dropped", what), form) {
            self.told = dropped;
        }
    }

    fn write(&mut self, event: &Event, form: Form, now: Instant) {
        if self.rate.takes(event.has_own_share(), now) {
            self.put(event, form);
        } else {
            self.log.0.too_many.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the line is written. What is not, because the reader is gone or does not read, is counted. Of what has begun, the next
    /// line is kept apart.
    fn put(&mut self, event: &Event, form: Form) -> bool {
        let mut line = form.line(event);
        if self.is_torn {
            line.insert(0, '\n');
        }
        let mut rest = line.as_bytes();
        let done = write_all(&mut self.out, &mut rest);
        let has_begun = rest.len() < line.len();
        if done.is_ok() {
            self.is_torn = false;
        } else {
            self.is_torn |= has_begun;
            self.log.0.no_room.fetch_add(1, Ordering::Relaxed);
        }
        done.is_ok()
    }
}

/// Writes everything, and leaves in `rest` what is not written.
fn write_all(out: &mut impl Write, rest: &mut &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        match out.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => *rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    out.flush()
}

/// An event about the log itself.
fn own(level: LogLevel, kind: &'static str, what: impl std::fmt::Display) -> Event {
    Event::new((LogArea::Log, level), kind, what)
}

#[cfg(test)]
mod tests {
    use super::super::event::{Field, Repeat};
    use super::super::levels::Wish;
    use super::*;
    use std::os::fd::OwnedFd;
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    /// Sends on what is written, and waits until that is taken.
    struct Pipe(SyncSender<String>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            self.0.send(text).map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn started(log: &Log, room: usize) -> (Writer, Receiver<String>) {
        let (pipe, read) = sync_channel(room);
        (Writer::start(log, Pipe(pipe), true).unwrap(), read)
    }

    fn event(what: impl std::fmt::Display) -> Event {
        Event::new((LogArea::Health, LogLevel::Warn), "test", what).with(Field::Upstream, "api")
    }

    #[test]
    fn what_is_told_is_written_by_the_end() {
        let log = Log::default();
        let (writer, read) = started(&log, 1000);
        (0..10).for_each(|number| log.tell(event(number)));
        ["a", "b", "c"].into_iter().for_each(|what| log.tell(event(what).once(Repeat::ByMinute)));
        drop(writer);
        let lines: String = read.iter().collect();
        let numbered: String =
            (0..10).map(|number| format!("<4>warn health upstream=api {number}\n")).collect();
        let rest = "<4>warn health upstream=api a\n<4>warn health upstream=api count=2 c\n";
        assert_eq!(lines, numbered + rest);
    }

    #[test]
    fn a_reader_that_does_not_read_holds_up_nobody() {
        let log = Log::default();
        let (writer, read) = started(&log, 0);
        // Far more than anything keeps.
        (0..20_000).for_each(|number| log.tell(event(number)));
        assert!(log.dropped().queue > 10_000);
        drop(writer);
        drop(read);
    }

    const TEXT: Form = Form { format: EventFormat::Text, for_journal: true };

    #[test]
    fn a_flood_is_cut_and_what_was_left_out_is_told() {
        let (log, now) = (Log::default(), Instant::now());
        let mut pen = Pen::new(&log, Vec::new(), true, now);
        (0..2000).for_each(|number| pen.write(&event(number), TEXT, now));
        pen.end(TEXT, now);
        assert_eq!(log.dropped(), Dropped { queue: 0, rate: 1500 });
        let lines = String::from_utf8(pen.out).unwrap();
        assert_eq!(lines.lines().count(), 501);
        let said = lines.lines().last().unwrap();
        assert!(said.starts_with("<4>warn log 1500 events were left out: "), "{said}");
    }

    /// Takes so many bytes each time it is asked, and otherwise fails.
    struct Torn {
        takes: Vec<usize>,
        written: Vec<u8>,
    }

    impl Write for Torn {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = self.takes.pop().ok_or(io::ErrorKind::WouldBlock)?.min(bytes.len());
            self.written.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_the_next_line_is_one_of_its_own() {
        let (log, now) = (Log::default(), Instant::now());
        let out = Torn { takes: vec![8], written: Vec::new() };
        let mut pen = Pen::new(&log, out, true, now);
        pen.write(&event("a"), TEXT, now);
        pen.write(&event("b"), TEXT, now);
        pen.tell_dropped(TEXT, now);
        assert_eq!(log.dropped(), Dropped { queue: 3, rate: 0 });
        pen.out.takes = vec![1000; 3];
        pen.write(&event("c"), TEXT, now);
        pen.end(TEXT, now);
        let written = String::from_utf8(pen.out.written).unwrap();
        let lines: Vec<_> = written.lines().collect();
        assert_eq!(lines[..2], ["<4>warn ", "<4>warn health upstream=api c"]);
        assert!(lines[2].starts_with("<4>warn log 3 events were left out: 3 "), "{written}");
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn a_file_that_does_not_wait_is_waited_for_and_not_for_ever() {
        let (mut read, write) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&write, true).unwrap();
        let mut out =
            Patient { file: File::from(OwnedFd::from(write)), most: Duration::from_millis(1) };
        let full = std::iter::repeat_with(|| out.write(&[b'x'; 4096])).find_map(Result::err);
        assert_eq!(full.unwrap().kind(), io::ErrorKind::WouldBlock);
        out.most = Writer::LONGEST * 100;
        let reader = thread::spawn(move || {
            let mut some = vec![0; 1 << 16];
            io::Read::read_exact(&mut read, &mut some).map(|()| read)
        });
        out.write_all(&[b'y'; 4096]).unwrap();
        drop(reader.join().unwrap().unwrap());
    }

    #[test]
    fn other_levels_and_another_form_hold_at_once() {
        let log = Log::default();
        let (writer, read) = started(&log, 0);
        let areas = vec![(LogArea::Health, LogLevel::Error)];
        log.wish(&Wish { level: None, areas: areas.clone(), time: None });
        log.tell(event("not told"));
        let time = Some(Duration::from_millis(20));
        log.wish(&Wish { level: None, areas, time });
        let restored = "<6>info log the levels of the configuration hold again\n";
        assert_eq!(read.recv().unwrap(), restored);
        log.tell(event("told"));
        assert_eq!(read.recv().unwrap(), "<4>warn health upstream=api told\n");
        let format = EventFormat::Json;
        log.configure(&titan_config::Log { format, ..titan_config::Log::default() });
        log.tell(event("told"));
        assert!(read.recv().unwrap().starts_with("<4>{\"time\":\""));
        drop(writer);
    }
}
