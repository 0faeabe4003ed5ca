//! What it costs to probe 10,000 endpoints every ten seconds: the share of a core that Titan's monitor takes while nothing
//! else happens.
//!
//! All endpoints are the harness's origin, under addresses of their own in 127.0.0.0/8. A run with a failed probe, or with
//! fewer of them than there should be, is an error: what does not probe is cheap.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Parser;
use titan_bench::launch::{self, Running, free_address, pause, run_directory};
use titan_bench::machine::Machine;
use titan_bench::process::{resident, time_of_threads};
use titan_bench::programs::{built, cargo_build, first_version, own_directory, repository};
use titan_bench::results::Results;

const UPSTREAMS: usize = 10;
const ENDPOINTS_OF_EACH: usize = 1_000;
const INTERVAL: Duration = Duration::from_secs(10);
/// The first probes of all endpoints are not what is measured.
const WARM_UP: Duration = Duration::from_secs(15);
const MEASURED: Duration = Duration::from_secs(30);
/// The monitor's thread.
const THREAD: &str = "health";
const HEADER: &str =
    "date,machine,cores,kernel,version,probe,endpoints,interval_s,probes,core_share,resident_mb\n";

/// Measures what probing 10,000 endpoints costs Titan.
#[derive(Parser)]
#[command(name = "probes")]
struct Options {
    /// Run this titan binary; none is built.
    #[arg(long, value_name = "PATH")]
    titan: Option<PathBuf>,
    #[command(flatten)]
    results: Results,
}

/// What endpoints are probed by: the name of it, and the setting.
struct Probe {
    name: &'static str,
    health: Option<&'static str>,
}

const PROBES: [Probe; 3] = [
    Probe { name: "none", health: None },
    Probe { name: "tcp", health: Some("tcp") },
    Probe { name: "http", health: Some("{ http: /small/0 }") },
];

/// What a run has come to.
struct Figures {
    probes: u64,
    core_share: f64,
    resident: u64,
}

fn main() -> ExitCode {
    let outcome = all(&Options::parse());
    launch::clean_up();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("probes: {error}");
            ExitCode::FAILURE
        }
    }
}

fn all(options: &Options) -> io::Result<()> {
    let titan = titan(options)?;
    let version = first_version(&titan, "--version")?;
    let machine = Machine::inspect()?;
    println!("{machine}");
    machine.warn_when_busy()?;
    let origin = origin()?;
    let mut rows = HEADER.to_owned();
    for probe in &PROBES {
        let figures = measure(probe, &titan, origin.address.port())?;
        let Figures { probes, core_share, resident } = figures;
        let percent = core_share * 100.0;
        println!(
            "{:<5} {probes:>6} probes  {percent:.2} % of a core  {} MB",
            probe.name,
            resident >> 20
        );
        let Machine { date, model, cores, kernel, .. } = &machine;
        rows += &format!(
            "{date},\"{model}\",{cores},{kernel},{version},{},{},{},{probes},{core_share:.4},{}\n",
            probe.name,
            UPSTREAMS * ENDPOINTS_OF_EACH,
            INTERVAL.as_secs(),
            resident >> 20
        );
    }
    let file = options.results.folder(true)?.join(format!("{}-probes.csv", machine.file_name()));
    fs::write(&file, rows)?;
    println!("written: {}", file.display());
    Ok(())
}

fn titan(options: &Options) -> io::Result<PathBuf> {
    cargo_build(Path::new(env!("CARGO_MANIFEST_DIR")), &["--release", "--bin", "origin"])?;
    match &options.titan {
        Some(path) => fs::canonicalize(path),
        None => {
            cargo_build(&repository(), &["--release", "--package", "titan"])?;
            Ok(built("release", "titan"))
        }
    }
}

/// Listens under every address of this machine.
fn origin() -> io::Result<Running> {
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, free_address()?.port()));
    let mut command = Command::new(own_directory()?.join("origin"));
    command.arg(address.to_string());
    let log = run_directory("origin")?.join("log");
    Running::start(command, None, address, log, |address| {
        TcpStream::connect((Ipv4Addr::LOCALHOST, address.port())).is_ok()
    })
}

fn measure(probe: &Probe, titan: &Path, port: u16) -> io::Result<Figures> {
    let (listen, admin) = (free_address()?, free_address()?);
    let directory = fs::canonicalize(run_directory(probe.name)?)?;
    let file = directory.join("titan.yaml");
    fs::write(&file, definition(probe, (listen, admin), port))?;
    let mut command = Command::new(titan);
    command.arg("run").arg("--config").arg(file);
    let listens = |address| TcpStream::connect(address).is_ok();
    let running = Running::start(command, None, listen, directory.join("log"), listens)?;
    wait(WARM_UP);
    let (ids, begin) = ([running.id()], Instant::now());
    let (probes, time) = (probes_made(admin)?, time_of_threads(&ids, THREAD)?);
    wait(MEASURED);
    let time = time_of_threads(&ids, THREAD)? - time;
    let core_share = time.as_secs_f64() / begin.elapsed().as_secs_f64();
    let probes = probes_made(admin)? - probes;
    // Intervals have jitter: in so short a time a few endpoints are due once less.
    let expected =
        (MEASURED.as_secs() / INTERVAL.as_secs()) as usize * UPSTREAMS * ENDPOINTS_OF_EACH;
    if probe.health.is_some() && probes < expected as u64 * 9 / 10 {
        return Err(io::Error::other(format!("only {probes} of {expected} probes were made")));
    }
    Ok(Figures { probes, core_share, resident: resident(&ids)? })
}

fn definition(probe: &Probe, (listen, admin): (SocketAddr, SocketAddr), port: u16) -> String {
    let mut text = format!(
        "listeners: [\"{listen}\"]\nadmin: {{ address: \"{admin}\" }}\nroutes: [{{ prefix: /, upstream: u0 }}]\nupstreams:\n"
    );
    for upstream in 0..UPSTREAMS {
        let address =
            |it: usize| format!("\"127.{}.{}.{}:{port}\"", upstream + 1, it / 250, it % 250 + 1);
        let endpoints: Vec<_> = (0..ENDPOINTS_OF_EACH).map(address).collect();
        let health = match probe.health {
            Some(what) => {
                format!(", health: {{ probe: {what}, interval: {}s }}", INTERVAL.as_secs())
            }
            None => String::new(),
        };
        text += &format!("  u{upstream}: {{ endpoints: [{}]{health} }}\n", endpoints.join(", "));
    }
    text
}

/// How many probes all endpoints have had, of which none may have failed.
fn probes_made(admin: SocketAddr) -> io::Result<u64> {
    let mut stream = TcpStream::connect(admin)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let sum = |name: &str| -> u64 {
        let values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
        values.filter_map(|it| it.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    match sum("titan_endpoint_probes_failed_total") {
        0 => Ok(sum("titan_endpoint_probes_total")),
        failed => Err(io::Error::other(format!("{failed} probes failed"))),
    }
}

fn wait(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        pause();
    }
}
