//! What it costs to scrape a gateway with 10,000 routes and 10,000 endpoints: how long a scrape takes, and how much of that
//! the admin thread works.
//!
//! Nothing listens at the endpoints: no request is sent but those of scrapes. A page with other series than there should be
//! is an error: what is not written is cheap.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Parser;
use titan_bench::launch::{self, Running, free_address, run_directory};
use titan_bench::machine::Machine;
use titan_bench::process::{resident, time_of_threads};
use titan_bench::programs::{built, cargo_build, first_version, repository};
use titan_bench::results::Results;

const ROUTES: usize = 10_000;
const UPSTREAMS: usize = 10;
const ENDPOINTS_OF_EACH: usize = 1_000;
/// The first ones are not measured.
const WARM_UP: usize = 3;
const MEASURED: usize = 20;
/// The thread that responds.
const THREAD: &str = "admin";
const HEADER: &str = "date,machine,cores,kernel,version,format,limit,series,bytes,median_ms,slowest_ms,\
    admin_ms,resident_mb\n";

/// Measures what a scrape of a large gateway costs Titan.
#[derive(Parser)]
#[command(name = "scrapes")]
struct Options {
    /// Run this titan binary; none is built.
    #[arg(long, value_name = "PATH")]
    titan: Option<PathBuf>,
    #[command(flatten)]
    results: Results,
}

/// Which page is asked for: its format, by what is accepted, and how many series it may have.
struct Page {
    format: &'static str,
    accept: &'static str,
    limit: usize,
}

const TEXT: &str = "text/plain; version=0.0.4";
const OPEN: &str = "application/openmetrics-text; version=1.0.0";
/// As many as are configured unless somebody says so, and more than there are.
const LIMITS: [usize; 2] = [50_000, 5_000_000];

/// What the scrapes of a page have come to.
struct Figures {
    series: usize,
    bytes: usize,
    /// How long each has taken, the fastest first.
    took: Vec<Duration>,
    /// Of the admin thread, for each.
    worked: Duration,
    resident: u64,
}

fn main() -> ExitCode {
    let outcome = all(&Options::parse());
    launch::clean_up();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scrapes: {error}");
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
    let mut rows = HEADER.to_owned();
    for limit in LIMITS {
        for (format, accept) in [("text", TEXT), ("openmetrics", OPEN)] {
            let page = Page { format, accept, limit };
            let figures = measure(&page, &titan)?;
            rows += &row(&page, &figures, &machine, &version);
        }
    }
    let file = options.results.folder(true)?.join(format!("{}-scrapes.csv", machine.file_name()));
    fs::write(&file, rows)?;
    println!("written: {}", file.display());
    Ok(())
}

/// Says what a page has cost, and returns its row of the result.
fn row(page: &Page, figures: &Figures, machine: &Machine, version: &str) -> String {
    let Page { format, accept: _, limit } = page;
    let Figures { series, bytes, took, worked, resident } = figures;
    let millis = |time: &Duration| time.as_secs_f64() * 1e3;
    let median = millis(&took[took.len() / 2]);
    let slowest = took.last().map_or(0.0, millis);
    let (worked, resident) = (millis(worked), resident >> 20);
    println!(
        "{format:<11} at most {limit:>7}: {series:>7} series, {bytes:>9} bytes  median {median:.1} ms, \
         slowest {slowest:.1} ms, admin thread {worked:.1} ms  {resident} MB"
    );
    let Machine { date, model, cores, kernel, .. } = machine;
    format!(
        "{date},\"{model}\",{cores},{kernel},{version},{format},{limit},{series},{bytes},{median:.2},\
         {slowest:.2},{worked:.2},{resident}\n"
    )
}

fn titan(options: &Options) -> io::Result<PathBuf> {
    match &options.titan {
        Some(path) => fs::canonicalize(path),
        None => {
            cargo_build(&repository(), &["--release", "--package", "titan"])?;
            Ok(built("release", "titan"))
        }
    }
}

fn measure(page: &Page, titan: &Path) -> io::Result<Figures> {
    let (listen, admin) = (free_address()?, free_address()?);
    let directory = run_directory(&format!("{}-{}", page.format, page.limit))?;
    let directory = fs::canonicalize(directory)?;
    let file = directory.join("titan.yaml");
    fs::write(&file, definition(page, (listen, admin)))?;
    let mut command = Command::new(titan);
    command.arg("run").arg("--config").arg(file);
    let listens = |address| TcpStream::connect(address).is_ok();
    let running = Running::start(command, None, listen, directory.join("log"), listens)?;
    let ids = [running.id()];
    for _ in 0..WARM_UP {
        scrape(page, admin)?;
    }
    let before = time_of_threads(&ids, THREAD)?;
    let (mut took, mut last) = (Vec::new(), String::new());
    for _ in 0..MEASURED {
        let begin = Instant::now();
        last = scrape(page, admin)?;
        took.push(begin.elapsed());
    }
    let worked = (time_of_threads(&ids, THREAD)? - before) / MEASURED as u32;
    took.sort();
    let series = check(page, &last)?;
    Ok(Figures { series, bytes: last.len(), took, worked, resident: resident(&ids)? })
}

fn definition(page: &Page, (listen, admin): (SocketAddr, SocketAddr)) -> String {
    let mut text = format!(
        "listeners: [\"{listen}\"]\nadmin: {{ address: \"{admin}\", metrics_series: {} }}\nroutes:\n",
        page.limit
    );
    for route in 0..ROUTES {
        let upstream = route % UPSTREAMS;
        text += &format!(
            "  - {{ name: route-{route}, path: /route/{route}, upstream: u{upstream} }}\n"
        );
    }
    text += "upstreams:\n";
    for upstream in 0..UPSTREAMS {
        let address =
            |it: usize| format!("\"127.{}.{}.{}:9\"", upstream + 1, it / 250, it % 250 + 1);
        let endpoints: Vec<_> = (0..ENDPOINTS_OF_EACH).map(address).collect();
        text += &format!("  u{upstream}: {{ endpoints: [{}] }}\n", endpoints.join(", "));
    }
    text
}

/// A page, from its request to its last byte.
fn scrape(page: &Page, admin: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(admin)?;
    let accept = page.accept;
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let (head, body) = response
        .split_once("\r\n\r\n")
        .ok_or_else(|| io::Error::other("the response has no end of its head"))?;
    match head.contains(accept) {
        true => Ok(body.to_owned()),
        false => Err(io::Error::other(format!("this is not {accept}: {head}"))),
    }
}

/// How many series a page has: all that it may have, and of each route where all may be there.
fn check(page: &Page, text: &str) -> io::Result<usize> {
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    let of_last = format!("route=\"route-{}\"", ROUTES - 1);
    let all_are_there = page.limit > LIMITS[0];
    if series > page.limit || series < page.limit.min(40 * ROUTES) * 9 / 10 {
        return Err(io::Error::other(format!("{series} series of {}", page.limit)));
    }
    if text.contains(&of_last) != all_are_there {
        return Err(io::Error::other(format!("{of_last} is not as it should be")));
    }
    Ok(series)
}
