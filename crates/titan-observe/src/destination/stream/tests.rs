//! Pipes and FIFOs whose readers are slow, or gone.

use super::super::queue::Queue;
use super::super::trial::{Folder, figures, numbered, numbers, text, until};
use super::*;
use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_getfl, mknodat};
use rustix::pipe::pipe;
use std::io::Read;
use std::path::Path;
use std::thread;

/// A pipe whose writing end may block, as that of a standard output.
fn stdout() -> (File, Stream, Arc<DestinationFigures>) {
    let (reader, writer) = pipe().unwrap();
    let figures = figures();
    (File::from(reader), Stream::new(None, File::from(writer), Arc::clone(&figures)), figures)
}

fn reads_all(mut file: File) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut content = Vec::new();
        file.read_to_end(&mut content).unwrap();
        content
    })
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_reader_gets_every_line_before_the_end() {
    let (reader, stream, figures) = stdout();
    let mut queue = Queue::start("stream", || stream, Arc::clone(&figures)).unwrap();
    for batch in 0..60 {
        queue.write(&numbered(batch * 100, 100));
    }
    // Much more than a pipe holds.
    queue.finish();
    let content = reads_all(reader);
    queue.wait();
    assert_eq!(numbers(&content.join().unwrap()), Vec::from_iter(0..6_000));
    assert_eq!((figures.written(), figures.dropped()), (6_000, 0));
    assert!(!figures.is_in_trouble());
}

#[test]
fn a_reader_that_takes_nothing_holds_nothing_up() {
    let (reader, stream, figures) = stdout();
    let grace = Duration::from_millis(100);
    let mut queue = Queue::with_grace(grace, "stream", || stream, Arc::clone(&figures)).unwrap();
    for batch in 0..200 {
        queue.write(&numbered(batch * 100, 100));
    }
    queue.wait();
    until("all is written or dropped", || figures.written() + figures.dropped() == 20_000);
    let seen = numbers(&reads_all(reader).join().unwrap());
    assert_eq!(seen.len() as u64, figures.written());
    assert_eq!(seen, Vec::from_iter(0..seen.len()), "the pipe holds the first ones, each whole");
    assert!(figures.dropped() > 0);
}

#[test]
fn a_line_longer_than_a_pipe_holds_arrives() {
    let (reader, stream, figures) = stdout();
    let mut queue = Queue::start("stream", || stream, Arc::clone(&figures)).unwrap();
    let lines = Lines::of(&["x".repeat(300_000), "y".to_owned()]);
    queue.write(&lines);
    let content = reads_all(reader);
    queue.wait();
    assert_eq!(content.join().unwrap(), lines.text);
}

#[test]
fn a_line_that_is_given_up_is_ended_where_there_is_room() {
    let (mut reader, mut stream, figures) = stdout();
    let (now, end) = (SystemTime::now(), End::default());
    end.finish_within(Duration::ZERO);
    // As much as a pipe holds, and no time for the rest.
    stream.write_at(&Lines::of(&["x".repeat(300_000)]), now, &end);
    let held = rustix::io::ioctl_fionread(&reader).unwrap();
    let mut content = vec![0; usize::try_from(held).unwrap()];
    reader.read_exact(&mut content).unwrap();
    stream.close(&End::default());
    stream.write_at(&numbered(1, 1), now, &End::default());
    drop(stream);
    content.extend(reads_all(reader).join().unwrap());
    let line = content.iter().position(|byte| *byte == b'\n').unwrap();
    assert_eq!(numbers(&content[line + 1..]), [1]);
    assert_eq!((figures.written(), figures.dropped()), (1, 1));
}

#[test]
fn a_stream_that_finds_a_full_pipe_begins_a_line() {
    let (reader, mut first, figures) = stdout();
    let Some(writer) = first.file.as_ref().map(|file| file.try_clone().unwrap()) else { panic!() };
    let (now, end) = (SystemTime::now(), End::default());
    end.finish_within(Duration::ZERO);
    first.write_at(&Lines::of(&["x".repeat(300_000)]), now, &end);
    first.close(&End::default());
    let mut second = Stream::new(None, writer, Arc::clone(&figures));
    drop(first);
    let content = reads_all(reader);
    second.write_at(&numbered(1, 1), now, &End::default());
    drop(second);
    let content = content.join().unwrap();
    let line = content.iter().position(|byte| *byte == b'\n').unwrap();
    assert!(line > 4096);
    assert_eq!(numbers(&content[line + 1..]), [1]);
}

#[test]
fn the_description_that_others_share_may_go_on_blocking() {
    let (reader, writer) = pipe().unwrap();
    let other = writer.try_clone().unwrap();
    let figures = figures();
    let mut stream = Stream::new(None, File::from(writer), Arc::clone(&figures));
    stream.write(&numbered(0, 3), &End::default());
    assert!(!fcntl_getfl(&other).unwrap().contains(OFlags::NONBLOCK));
    drop((stream, other));
    assert_eq!(numbers(&reads_all(File::from(reader)).join().unwrap()), [0, 1, 2]);
}

#[test]
fn that_the_reader_is_gone_is_told_once() {
    let (reader, mut stream, figures) = stdout();
    let (now, end) = (SystemTime::now(), End::default());
    drop(reader);
    stream.write_at(&numbered(0, 3), now, &end);
    assert_eq!((figures.written(), figures.dropped()), (0, 3));
    let told = figures.take_trouble().unwrap();
    assert_eq!(told, "cannot write to the standard output: Broken pipe (os error 32)");
    stream.write_at(&numbered(3, 3), now + SECOND / 2, &end);
    stream.write_at(&numbered(6, 3), now + SECOND, &end);
    assert_eq!(figures.dropped(), 9);
    assert_eq!(figures.take_trouble(), None);
    assert!(figures.is_in_trouble());
}

#[test]
fn nothing_is_tried_again_within_a_second() {
    // Another pipe takes the place of the one that failed.
    let (reader, mut stream, figures) = stdout();
    let (now, end) = (SystemTime::now(), End::default());
    drop(reader);
    stream.write_at(&numbered(0, 1), now, &end);
    let (reader, writer) = pipe().unwrap();
    stream.file = Some(File::from(writer));
    stream.write_at(&numbered(1, 1), now + SECOND / 2, &end);
    stream.write_at(&numbered(2, 1), now + SECOND, &end);
    assert!(!figures.is_in_trouble());
    drop(stream);
    assert_eq!(numbers(&reads_all(File::from(reader)).join().unwrap()), [2]);
    assert_eq!((figures.written(), figures.dropped()), (1, 2));
}

/// A FIFO, and a reader of it that does not wait for a writer.
fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

fn reader_of(path: &Path) -> File {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    File::from(rustix::fs::open(path, flags, Mode::empty()).unwrap())
}

#[test]
fn a_fifo_is_opened_anew_for_its_next_reader() {
    let folder = Folder::new();
    let path = folder.join("fifo");
    fifo(&path);
    let (now, end, figures) = (SystemTime::now(), End::default(), figures());
    assert_eq!(open(&path).unwrap_err().to_string(), "it is a FIFO that no process reads");
    let reader = reader_of(&path);
    let Ok(Opened::Stream(file)) = open(&path) else { panic!("it is a FIFO") };
    let mut stream = Stream::new(Some(path.clone()), file, Arc::clone(&figures));
    stream.write_at(&numbered(0, 2), now, &end);
    drop(reader);
    stream.write_at(&numbered(2, 2), now, &end);
    assert!(figures.take_trouble().unwrap().ends_with("Broken pipe (os error 32)"));
    stream.write_at(&numbered(4, 2), now + SECOND, &end);
    assert!(figures.take_trouble().unwrap().ends_with("it is a FIFO that no process reads"));
    let mut reader = reader_of(&path);
    stream.write_at(&numbered(6, 2), now + 2 * SECOND, &end);
    assert!(!figures.is_in_trouble());
    drop(stream);
    let mut content = Vec::new();
    reader.read_to_end(&mut content).unwrap();
    assert_eq!(numbers(&content), [6, 7]);
    assert_eq!((figures.written(), figures.dropped()), (4, 4));
}

#[test]
fn the_next_reader_does_not_begin_with_half_a_line() {
    let folder = Folder::new();
    let path = folder.join("fifo");
    fifo(&path);
    let (now, figures) = (SystemTime::now(), figures());
    let reader = reader_of(&path);
    let Ok(Opened::Stream(file)) = open(&path) else { panic!("it is a FIFO") };
    let mut stream = Stream::new(Some(path.clone()), file, Arc::clone(&figures));
    let mut queue = Lines::of(&["x".repeat(300_000)]);
    // It writes as much as the pipe holds until its reader ends.
    let thread = thread::spawn(move || {
        stream.write_at(&queue, now, &End::default());
        queue = Lines::of(&[text(1)]);
        (stream, queue)
    });
    until("the pipe is full", || rustix::io::ioctl_fionread(&reader).unwrap() >= 65_536);
    drop(reader);
    let (mut stream, next) = thread.join().unwrap();
    let reader = reader_of(&path);
    stream.write_at(&next, now + SECOND, &End::default());
    drop(stream);
    assert_eq!(numbers(&reads_all(reader).join().unwrap()), [1]);
    assert_eq!((figures.written(), figures.dropped()), (1, 1));
}
