//! What many routes cost: how long a start and a reload take, how much memory each has, and what a request costs the worker.
//!
//! Nine routes of ten have upstreams, at whose endpoints nothing listens; the tenth responds itself, and requests are for those in
//! turn, so that each is looked up elsewhere, and then for one alone, which shows what looking up among many costs where the
//! processor's caches hold what it needs. Every response is read to its end and has to be the one of its route.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Parser;
use rustix::process::{Pid, Signal, kill_process};
use titan_bench::launch::{self, Running, free_address, run_directory};
use titan_bench::machine::Machine;
use titan_bench::process::{peak, resident, time_of_threads};
use titan_bench::programs::{built, cargo_build, first_version, repository};
use titan_bench::results::Results;

/// Routes and endpoints. The first one is what the others are compared with.
const SIZES: [(usize, usize); 4] = [(10, 1), (1_000, 500), (10_000, 5_000), (100_000, 50_000)];
/// Routes with one host, of which one responds itself.
const OF_A_HOST: usize = 10;
const ENDPOINTS_OF_AN_UPSTREAM: usize = 5;
const CONNECTIONS: usize = 64;
/// Requests on each connection that are not measured, and those that are.
const WARM_UP: usize = 1_000;
const MEASURED: usize = 5_000;
/// Runs of each size, in turn; the figures are their medians.
const ROUNDS: usize = 3;
/// The core of the gateway.
const CORE: usize = 1;
/// Within which a reload has to be in force.
const PATIENCE: Duration = Duration::from_secs(60);
/// What the gateway says of a reload.
const DONE: &str = "is in force";
/// How long what was needed to read a configuration has to go back to the system.
const REST: Duration = Duration::from_secs(5);
const HEADER: &str = "date,machine,cores,kernel,version,routes,endpoints,start_ms,reload_ms,resident_mb,peak_mb,\
    bytes_a_route,cpu_us_a_request,cpu_us_a_request_of_one_route\n";

/// Measures what many routes cost Titan.
#[derive(Parser)]
#[command(name = "routes")]
struct Options {
    /// Run this titan binary; none is built.
    #[arg(long, value_name = "PATH")]
    titan: Option<PathBuf>,
    #[command(flatten)]
    results: Results,
}

/// What a configuration has cost.
#[derive(Clone, Copy)]
struct Figures {
    start: Duration,
    reload: Duration,
    /// Before the reload, in bytes.
    resident: u64,
    /// The most that there was, in bytes.
    peak: u64,
    /// For all routes that respond themselves, in turn.
    request: Duration,
    /// For one of them.
    of_one: Duration,
}

fn main() -> ExitCode {
    let outcome = all(&Options::parse());
    launch::clean_up();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("routes: {error}");
            ExitCode::FAILURE
        }
    }
}

fn all(options: &Options) -> io::Result<()> {
    let titan = match &options.titan {
        Some(path) => fs::canonicalize(path)?,
        None => {
            cargo_build(&repository(), &["--release", "--package", "titan"])?;
            built("release", "titan")
        }
    };
    let version = first_version(&titan, "--version")?;
    let machine = Machine::inspect()?;
    println!("{machine}");
    machine.warn_when_busy()?;
    let mut rounds = vec![Vec::new(); SIZES.len()];
    for _ in 0..ROUNDS {
        for (size, figures) in SIZES.iter().zip(&mut rounds) {
            figures.push(measure(*size, &titan)?);
        }
    }
    let medians: Vec<_> = rounds.iter().map(|figures| median(figures)).collect();
    let mut rows = HEADER.to_owned();
    for (size, figures) in SIZES.iter().zip(&medians) {
        rows += &row(*size, (figures, &medians[0]), &machine, &version);
    }
    let file = options.results.folder(true)?.join(format!("{}-routes.csv", machine.file_name()));
    fs::write(&file, rows)?;
    println!("written: {}", file.display());
    Ok(())
}

fn median(figures: &[Figures]) -> Figures {
    fn of<T: Ord + Copy>(figures: &[Figures], which: impl Fn(&Figures) -> T) -> T {
        let mut all: Vec<_> = figures.iter().map(which).collect();
        all.sort();
        all[all.len() / 2]
    }
    Figures {
        start: of(figures, |it| it.start),
        reload: of(figures, |it| it.reload),
        resident: of(figures, |it| it.resident),
        peak: of(figures, |it| it.peak),
        request: of(figures, |it| it.request),
        of_one: of(figures, |it| it.of_one),
    }
}

/// Says what a configuration has cost, and returns its row of the result.
fn row(
    (routes, endpoints): (usize, usize),
    (figures, few): (&Figures, &Figures),
    machine: &Machine,
    version: &str,
) -> String {
    let Figures { start, reload, resident, peak, request, of_one } = figures;
    let of_route = resident.saturating_sub(few.resident) / routes as u64;
    let micros = |time: &Duration| time.as_nanos() as f64 / 1e3;
    let ratio = |which: fn(&Figures) -> &Duration| micros(which(figures)) / micros(which(few));
    let (ratio, ratio_of_one) = (ratio(|it| &it.request), ratio(|it| &it.of_one));
    let (micros, of_one) = (micros(request), micros(of_one));
    let (start, reload) = (start.as_millis(), reload.as_millis());
    let (resident, peak) = (resident >> 20, peak >> 20);
    println!(
        "{routes:>7} routes, {endpoints:>6} endpoints: start {start} ms, reload {reload} ms, {resident} MB ({peak} at most), \
         {of_route} bytes a route, {micros:.2} us a request ({ratio:.3} of the first), {of_one:.2} of one route ({ratio_of_one:.3})"
    );
    let Machine { date, model, cores, kernel, .. } = machine;
    format!(
        "{date},\"{model}\",{cores},{kernel},{version},{routes},{endpoints},{start},{reload},{resident},{peak},{of_route},\
         {micros:.3},{of_one:.3}\n"
    )
}

fn measure((routes, endpoints): (usize, usize), titan: &Path) -> io::Result<Figures> {
    let listen = free_address()?;
    let directory = fs::canonicalize(run_directory(&format!("{routes}-{endpoints}"))?)?;
    let file = directory.join("titan.yaml");
    let text = definition((routes, endpoints), listen);
    fs::write(&file, &text)?;
    let mut command = Command::new(titan);
    command.arg("run").arg("--config").arg(&file);
    let listens = |address| TcpStream::connect(address).is_ok();
    let begin = Instant::now();
    let running = Running::start(command, Some(CORE), listen, directory.join("log"), listens)?;
    let start = begin.elapsed();
    let rested = Instant::now();
    while rested.elapsed() < REST {
        launch::pause();
    }
    let ids = [running.id()];
    let resident = resident(&ids)?;
    let request = load((routes / OF_A_HOST).max(1), listen, &running)?;
    let of_one = load(1, listen, &running)?;
    fs::write(&file, text.replace("/own/0,", "/own/0/again,"))?;
    let reload = reload(&running)?;
    Ok(Figures { start, reload, resident, peak: peak(&ids)?, request, of_one })
}

/// What a request for the first hosts has cost the worker.
fn load(hosts: usize, address: SocketAddr, running: &Running) -> io::Result<Duration> {
    let connect = || {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    let mut streams = (0..CONNECTIONS).map(|_| connect()).collect::<io::Result<Vec<_>>>()?;
    // Far from each other, and each in its turn.
    let mut host = (1..).map(|turn: usize| turn * 7_919 % hosts);
    let mut ask = |rounds: usize| -> io::Result<()> {
        for _ in 0..rounds {
            let asked: Vec<_> = host.by_ref().take(CONNECTIONS).collect();
            for (stream, host) in streams.iter_mut().zip(&asked) {
                write!(stream, "GET /own/{host} HTTP/1.1\r\nHost: h{host}.example.com\r\n\r\n")?;
            }
            for (stream, host) in streams.iter_mut().zip(&asked) {
                read_response(stream, *host)?;
            }
        }
        Ok(())
    };
    ask(WARM_UP / 4)?;
    let before = time_of_threads(&[running.id()], "worker")?;
    ask(MEASURED)?;
    let worked = time_of_threads(&[running.id()], "worker")? - before;
    Ok(worked / (MEASURED * CONNECTIONS) as u32)
}

/// Reads a response to its end, and checks that it is that of the route.
fn read_response(stream: &mut TcpStream, host: usize) -> io::Result<()> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 1_024]);
    let end = format!("\r\n\r\nroute {host}\n");
    while !bytes.ends_with(end.as_bytes()) {
        let read = stream.read(&mut buffer)?;
        bytes.extend_from_slice(&buffer[..read]);
        if read == 0 || bytes.len() > 2 * buffer.len() {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            return Err(io::Error::other(format!("this is no response of route {host}: {text}")));
        }
    }
    Ok(())
}

/// How long it takes until another configuration is in force.
fn reload(running: &Running) -> io::Result<Duration> {
    let id = i32::try_from(running.id()).ok().and_then(Pid::from_raw);
    let id = id.ok_or_else(|| io::Error::other("the gateway has no process"))?;
    let done = running.log()?.matches(DONE).count();
    let begin = Instant::now();
    kill_process(id, Signal::HUP)?;
    while running.log()?.matches(DONE).count() == done {
        if begin.elapsed() > PATIENCE {
            return Err(io::Error::other(format!("no reload:\n{}", running.log()?)));
        }
        launch::pause();
    }
    Ok(begin.elapsed())
}

fn definition((routes, endpoints): (usize, usize), listen: SocketAddr) -> String {
    let upstreams = endpoints.div_ceil(ENDPOINTS_OF_AN_UPSTREAM);
    let mut text = format!("listeners: [\"{listen}\"]\nadmin: off\nworkers: 1\nroutes:\n");
    for route in 0..routes {
        let (host, place) = (route / OF_A_HOST, route % OF_A_HOST);
        let what = match place {
            0 => format!("path: /own/{host}, respond: {{ body: \"route {host}\\n\" }}"),
            _ => format!("prefix: /services/{place}, upstream: u{}", route % upstreams),
        };
        text += &format!("  - {{ name: r{route}, host: h{host}.example.com, {what} }}\n");
    }
    text += "upstreams:\n";
    for upstream in 0..upstreams {
        let count = ENDPOINTS_OF_AN_UPSTREAM.min(endpoints);
        let host = format!("127.1.{}.{}", upstream / 256, upstream % 256);
        let address = |it: usize| format!("\"{host}:{}\"", 1_000 + it);
        let all: Vec<_> = (0..count).map(address).collect();
        text += &format!("  u{upstream}: [{}]\n", all.join(", "));
    }
    text
}
