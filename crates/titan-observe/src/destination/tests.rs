//! Destinations as the configuration names them.

use super::trial::{Folder, numbered, numbers, until};
use super::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::time::Duration;
use titan_config::{ByteSize, Facility, SyslogAddress};

fn target(path: impl Into<PathBuf>) -> LogTarget {
    LogTarget::File { path: path.into(), rotate: None }
}

fn open(path: &str, folder: &Path) -> Result<Destination, BadDestination> {
    let target = target(path);
    let figures = Arc::new(DestinationFigures::new(&target));
    Destination::open(&target, folder, figures)
}

// field: log_file.path
#[test]
fn relative_paths_start_at_the_folder() {
    let folder = Folder::new();
    let mut destination = open("a.log", &folder.join("")).unwrap();
    destination.write(&numbered(0, 3), SystemTime::now());
    assert_eq!(numbers(&fs::read(folder.join("a.log")).unwrap()), [0, 1, 2]);
    fs::rename(folder.join("a.log"), folder.join("b.log")).unwrap();
    destination.reopen();
    destination.write(&numbered(3, 1), SystemTime::now());
    destination.wait();
    assert_eq!(numbers(&fs::read(folder.join("a.log")).unwrap()), [3]);
}

/// Writes a line, and another one after so long; the names of the files.
fn after_rotation(rotation: Rotation, time: Duration) -> Vec<String> {
    let folder = Folder::new();
    let target = LogTarget::File { path: folder.join("a.log"), rotate: Some(rotation) };
    let figures = Arc::new(DestinationFigures::new(&target));
    let mut destination = Destination::open(&target, Path::new("/"), figures).unwrap();
    let now = SystemTime::now();
    for number in 0..4 {
        destination.write(&numbered(number, 1), now + time * u32::try_from(number).unwrap());
    }
    folder.names()
}

// field: log_file.rotate, log_rotation.size, log_rotation.age, log_rotation.keep
#[test]
fn files_are_rotated_as_configured() {
    let (size, age) = (ByteSize::new(1), Duration::from_secs(60));
    for (size, age, time, keep, count) in [
        (None, None, age, 7, 1),
        (Some(size), None, Duration::ZERO, 7, 4),
        (None, Some(age), Duration::ZERO, 7, 1),
        (None, Some(age), age, 7, 4),
        (Some(size), None, Duration::ZERO, 2, 3),
    ] {
        let names = after_rotation(Rotation { size, age, keep }, time);
        assert_eq!(names.len(), count, "{size:?} {age:?} {keep}: {names:?}");
    }
}

// field: syslog.address, syslog.facility, syslog.tag
#[test]
fn a_server_of_syslog_gets_lines_as_configured() {
    let folder = Folder::new();
    let path = folder.join("socket");
    let server = UnixDatagram::bind(&path).unwrap();
    server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (address, facility) = (SyslogAddress::Unix(path), Facility::USER);
    let target = LogTarget::Syslog { address, facility, tag: "gateway".to_owned() };
    let figures = Arc::new(DestinationFigures::new(&target));
    let mut destination = Destination::open(&target, Path::new("/"), figures).unwrap();
    destination.write(&Lines::of(&["a"]), SystemTime::now());
    let mut buffer = [0; 1024];
    let size = server.recv(&mut buffer).unwrap();
    let message = str::from_utf8(&buffer[..size]).unwrap();
    assert!(message.starts_with("<14>1 1970-01-01T00:00:00.000000Z "), "{message}");
    let end = format!(" gateway {} access - a", std::process::id());
    assert!(message.ends_with(&end), "{message}");
    destination.wait();
}

#[test]
fn what_takes_no_lines_is_an_error_that_says_why() {
    let folder = Folder::new();
    let fifo = folder.join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let _socket = UnixListener::bind(folder.join("socket")).unwrap();
    fs::create_dir(folder.join("folder")).unwrap();
    for (name, why) in [
        ("fifo", "it is a FIFO that no process reads"),
        ("socket", "it is a socket"),
        ("folder", "Is a directory (os error 21)"),
        ("none/a.log", "No such file or directory (os error 2)"),
    ] {
        let error = open(name, folder.path()).unwrap_err().to_string();
        let path = folder.join(name);
        assert_eq!(error, format!("cannot open the access log {}: {why}", path.display()));
    }
    assert_eq!(folder.names(), ["fifo", "folder", "socket"], "nothing was made");
}

#[test]
fn devices_are_written_to_by_a_thread() {
    for (path, trouble) in [
        ("/dev/null", None),
        ("/dev/full", Some("cannot write to /dev/full: No space left on device (os error 28)")),
    ] {
        let target = target(path);
        let figures = Arc::new(DestinationFigures::new(&target));
        assert_eq!(figures.name(), format!("file {path}"));
        let mut destination =
            Destination::open(&target, Path::new("/"), Arc::clone(&figures)).unwrap();
        destination.write(&numbered(0, 3), SystemTime::now());
        destination.write(&numbered(3, 3), SystemTime::now());
        destination.wait();
        assert_eq!(figures.take_trouble().as_deref(), trouble);
        let counts = (figures.written(), figures.dropped());
        assert_eq!(counts, if trouble.is_none() { (6, 0) } else { (0, 6) });
    }
}

#[test]
fn lines_after_the_end_are_counted() {
    let target = target("/dev/null");
    let figures = Arc::new(DestinationFigures::new(&target));
    let mut destination = Destination::open(&target, Path::new("/"), Arc::clone(&figures)).unwrap();
    destination.finish();
    destination.write(&numbered(0, 3), SystemTime::now());
    assert_eq!(figures.dropped(), 3);
}

#[test]
fn a_dropped_destination_ends_by_itself() {
    let target = target("/dev/null");
    let figures = Arc::new(DestinationFigures::new(&target));
    let mut destination = Destination::open(&target, Path::new("/"), Arc::clone(&figures)).unwrap();
    destination.write(&numbered(0, 3), SystemTime::now());
    drop(destination);
    until("it is written", || figures.written() == 3);
    until("the thread lets go", || Arc::strong_count(&figures) == 1);
}
