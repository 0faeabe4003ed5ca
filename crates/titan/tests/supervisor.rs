//! The program under a service manager: what it tells it, and the sockets that it gets from it.

#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    dead_code,
    reason = "a test may stop at a surprise, and uses a part of what tests have in common"
)]

mod titan;

use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use titan::{Titan, config, program};

const FIXED: &str =
    "workers: 2\nlisteners: [127.0.0.1:0]\nadmin: off\nroutes: [{ respond: 200 }]\n";

/// What stands for the service manager.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    fn new(name: &str) -> Manager {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("notify-{name}"));
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Manager { socket, path }
    }

    fn starts(&self, name: &str, variables: &[(&str, &str)]) -> Titan {
        let mut command = Command::new(program());
        command.envs(variables.iter().copied()).env("NOTIFY_SOCKET", &self.path);
        Titan::start_by(command, name, FIXED)
    }

    /// The next message, except those for the watchdog.
    fn hears(&self) -> String {
        loop {
            let text = self.hears_any();
            if text != "WATCHDOG=1" {
                return text;
            }
        }
    }

    fn hears_any(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }
}

fn get(mut stream: impl Read + Write) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn the_service_manager_is_told_of_start_reload_upgrade_and_stop() {
    let manager = Manager::new("life");
    let mut titan = manager.starts("life", &[]);
    let pid = titan.pid().as_raw_nonzero();
    let ready = manager.hears();
    assert!(ready.starts_with(&format!("MAINPID={pid}\nREADY=1\nSTATUS=titan ")), "{ready}");
    assert!(ready.contains(&format!("serves {} since ", titan.address)), "{ready}");
    for (text, outcome) in [(FIXED, "applied"), ("routes", "refused")] {
        std::fs::write(&titan.file, text).unwrap();
        titan.signal(Signal::HUP);
        let begun = manager.hears();
        assert!(begun.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{begun}");
        let time = begun.lines().nth(1).unwrap().strip_prefix("MONOTONIC_USEC=").unwrap();
        assert!(time.parse::<u64>().unwrap() > 0);
        let ended = manager.hears();
        assert!(ended.starts_with("READY=1\nSTATUS=titan "), "{ended}");
        assert!(ended.contains(&format!("; last reload {outcome} ")), "{ended}");
    }
    std::fs::write(&titan.file, FIXED).unwrap();
    titan.upgrades();
    let pid = format!("MAINPID={}", titan.pid().as_raw_nonzero());
    let mut told = [manager.hears(), manager.hears()];
    told.sort();
    assert_eq!(told[0], pid);
    assert!(told[1].starts_with(&format!("{pid}\nREADY=1\n")), "{told:?}");
    titan.signal(Signal::TERM);
    assert_eq!(manager.hears(), "STOPPING=1\nSTATUS=draining");
    titan.ends();
}

#[test]
fn the_watchdog_is_fed_in_half_of_its_period() {
    let manager = Manager::new("watchdog");
    let _titan = manager.starts("watchdog", &[("WATCHDOG_USEC", "2000000")]);
    assert!(manager.hears_any().starts_with("MAINPID="));
    for _ in 0..2 {
        assert_eq!(manager.hears_any(), "WATCHDOG=1");
    }
}

/// A gateway that is started with sockets at these addresses, as systemd does, once a client has come.
fn activated(addresses: &[&str], name: &str, text: &str) -> Titan {
    let mut command = Command::new("systemd-socket-activate");
    for address in addresses {
        command.args(["--listen", address]);
    }
    command.args(["--fdname", "web:socket"]).arg(program());
    let mut titan = Titan::launch_by(command, name, text);
    for _ in addresses {
        let line = titan.next_complaint();
        assert!(line.contains("istening on"), "{line}");
    }
    titan
}

/// An address that nobody else has: no other test uses this part of the loopback network.
fn free_address(host: &str) -> String {
    TcpListener::bind((host, 0)).unwrap().local_addr().unwrap().to_string()
}

#[test]
fn sockets_of_the_service_manager_are_used() {
    let (address, path) = (free_address("127.85.85.1"), socket_path("activated"));
    let text = format!(
        "workers: 3\nlisteners: [\"{address}\", \"unix:{}\"]\nadmin: off\nroutes: [{{ respond: 200 }}]\n",
        path.display()
    );
    let mut titan = activated(&[&address, path.to_str().unwrap()], "activated", &text);
    let first = TcpStream::connect(&address).unwrap();
    titan.next_output("admin off");
    assert!(get(first).starts_with("HTTP/1.1 200 OK\r\n"));
    for _ in 0..2 {
        for _ in 0..6 {
            assert!(get(TcpStream::connect(&address).unwrap()).starts_with("HTTP/1.1 200 OK\r\n"));
            assert!(get(UnixStream::connect(&path).unwrap()).starts_with("HTTP/1.1 200 OK\r\n"));
        }
        titan.upgrades();
    }
    titan.signal(Signal::TERM);
    titan.ends();
    assert!(path.exists(), "the file of the socket is the service manager's");
}

#[test]
fn the_socket_of_the_admin_interface_is_the_service_manager_s() {
    let (address, path) = (free_address("127.85.85.3"), socket_path("activated-admin"));
    let text = format!(
        "workers: 1\nlisteners: [\"{address}\"]\nadmin: {{ address: \"127.0.0.1:0\", socket: \"{}\" }}\n\
         routes: [{{ respond: 200 }}]\n",
        path.display()
    );
    let mut titan = activated(&[&address, path.to_str().unwrap()], "activated-admin", &text);
    let first = TcpStream::connect(&address).unwrap();
    titan.next_output("admin on unix:");
    assert!(get(first).starts_with("HTTP/1.1 200 OK\r\n"));
    titan.upgrades();
    UnixStream::connect(&path).unwrap();
    titan.signal(Signal::TERM);
    titan.ends();
    assert!(path.exists(), "the file of the socket is the service manager's");
}

#[test]
fn a_socket_that_nothing_is_configured_for_is_an_error() {
    let address = free_address("127.85.85.2");
    let mut titan = activated(&[&address], "activated-wrong", FIXED);
    let _client = TcpStream::connect(&address).unwrap();
    let wanted = format!(
        "a socket for {address} (`web`), but the configuration has nothing at that address"
    );
    let told =
        std::iter::from_fn(|| Some(titan.next_complaint())).find(|line| line.contains("error: "));
    assert!(told.as_ref().is_some_and(|line| line.contains(&wanted)), "{told:?}");
    assert_eq!(titan.exit_code(), Some(2));
}

fn socket_path(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.sock"));
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn the_unit_file_is_valid() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/titan.service");
    let text = std::fs::read_to_string(unit).unwrap();
    // Before version 253 systemd does not know the type; the program need not be installed here.
    let text = text.replace("Type=notify-reload", "Type=notify");
    let text = text.replace("/usr/local/bin/titan", program().to_str().unwrap());
    let copy = config("unit", "").with_file_name("titan-checked.service");
    std::fs::write(&copy, text).unwrap();
    let output = Command::new("systemd-analyze").arg("verify").arg(&copy).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let about_it: Vec<_> = told.lines().filter(|line| line.contains("titan-checked")).collect();
    assert!(about_it.is_empty(), "{about_it:#?}");
}
