//! Where a proxy's own share goes: system calls, instructions and functions per request.
//!
//! Each tool gets a run of its own, for each slows the proxy down in its own way; only counts per
//! request are reported, never times.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use titan_bench::machine::Machine;
use titan_bench::report::Report;

use crate::engine::Engine;
use crate::keys;
use crate::launch::{self, Running};
use crate::options::ProfileOptions;
use crate::programs::{Programs, installed};
use crate::scenario::Scenario;
use crate::tokens;

/// Requests of a run under strace or perf.
const REQUESTS: u64 = 50_000;
/// Valgrind runs the proxy some fifty times slower. The shorter run's instructions are those of starting
/// and ending, and are taken off.
const FEW: u64 = 1_000;
const MANY: u64 = 6_000;
/// Lines of function listings.
const TOP: usize = 25;

struct Profile<'a> {
    engine: Engine,
    scenario: &'static Scenario,
    programs: &'a Programs,
    machine: &'a Machine,
}

/// Profiles one engine under one load.
pub fn run(options: &ProfileOptions) -> io::Result<()> {
    if options.scenario.idle() {
        return Err(io::Error::other("an idle proxy does nothing that could be profiled"));
    }
    let (engine, scenario) = (options.engine, options.scenario);
    if !scenario.setup.suits(engine) {
        let (engine, scenario) = (engine.name(), scenario.name);
        return Err(io::Error::other(format!("{engine} cannot do {scenario}")));
    }
    let programs = &Programs::prepare(&options.build, &[options.engine], &[scenario.setup])?;
    let machine = &Machine::inspect()?;
    keys::write_all()?;
    tokens::write_all()?;
    let profile = Profile { engine, scenario, programs, machine };
    println!(
        "{} under {}: {}",
        profile.engine.name(),
        profile.scenario.name,
        profile.scenario.title
    );
    profile.section("strace", Profile::system_calls)?;
    profile.section("perf", Profile::hardware_counters)?;
    profile.section("perf", Profile::functions_by_time)?;
    profile.section("valgrind", Profile::instructions)?;
    Ok(())
}

impl Profile<'_> {
    /// Runs one part, or says that its tool is missing.
    fn section(&self, tool: &str, part: fn(&Self, &Path) -> io::Result<()>) -> io::Result<()> {
        match installed(tool) {
            Ok(path) => part(self, &path),
            Err(_) => {
                println!("\n{tool} is not installed: skipped");
                Ok(())
            }
        }
    }

    fn system_calls(&self, strace: &Path) -> io::Result<()> {
        println!(
            "\nsystem calls per request (strace -c; slowing each call makes polling rounds larger):"
        );
        let listing = launch::run_directory("strace")?.join("calls");
        let answered = self.observed(|proxy| {
            let mut command = Command::new(strace);
            command.args(["-f", "-c", "-o"]).arg(&listing);
            for pid in proxy.processes()? {
                command.arg("-p").arg(pid.to_string());
            }
            let tracer = command.stderr(Stdio::null()).spawn()?;
            wait_until_traced(proxy)?;
            Ok(tracer)
        })?;
        for (name, calls) in parse_calls(&fs::read_to_string(listing)?) {
            println!("  {name:<16}{:>9.4}", calls as f64 / answered as f64);
        }
        Ok(())
    }

    fn hardware_counters(&self, perf: &Path) -> io::Result<()> {
        println!("\ninstructions per request (perf stat):");
        let listing = launch::run_directory("perf")?.join("counters");
        let answered = self.observed(|proxy| {
            let mut command = Command::new(perf);
            command.args([
                "stat",
                "-x",
                ",",
                "-e",
                "instructions:u,instructions:k,cycles:u,cycles:k",
            ]);
            command.arg("-o").arg(&listing).arg("-p").arg(pid_list(proxy)?);
            start_quietly(&mut command)
        })?;
        let text = fs::read_to_string(listing).unwrap_or_default();
        let counters: Vec<(&str, f64)> = text.lines().filter_map(parse_counter).collect();
        if counters.is_empty() {
            println!("  this machine gives no hardware counters; see callgrind below");
        }
        for (name, count) in counters {
            println!("  {name:<16}{:>9.0}", count / answered as f64);
        }
        Ok(())
    }

    fn functions_by_time(&self, perf: &Path) -> io::Result<()> {
        println!("\nfunctions by time, kernel included (perf record):");
        let data = launch::run_directory("perf")?.join("data");
        self.observed(|proxy| {
            let mut command = Command::new(perf);
            command.args(["record", "-q", "-e", "cpu-clock", "-F", "1999", "-o"]).arg(&data);
            command.arg("-p").arg(pid_list(proxy)?);
            start_quietly(&mut command)
        })?;
        let report = Command::new(perf)
            .args(["report", "--stdio", "-q", "--no-children", "-s", "dso,sym", "-i"])
            .arg(&data)
            .output()?;
        print_top(&String::from_utf8_lossy(&report.stdout), |line| line.contains('%'));
        Ok(())
    }

    fn instructions(&self, valgrind: &Path) -> io::Result<()> {
        println!("\nown instructions per request (callgrind, without the kernel's):");
        let (few, _) = self.under_callgrind(valgrind, FEW)?;
        let (many, busiest) = self.under_callgrind(valgrind, MANY)?;
        println!("  {:.0}", many.saturating_sub(few) as f64 / (MANY - FEW) as f64);
        let Ok(annotate) = installed("callgrind_annotate") else { return Ok(()) };
        println!("\nown instructions by function, over {MANY} requests and the start:");
        let Some(busiest) = busiest else { return Ok(()) };
        let report = Command::new(&annotate).arg("--threshold=95").arg(busiest).output()?;
        print_top(&String::from_utf8_lossy(&report.stdout), |line| line.contains("%)"));
        Ok(())
    }

    /// The instructions of a whole life that responses so many requests, and callgrind's file on the process
    /// that did most.
    fn under_callgrind(
        &self,
        valgrind: &Path,
        requests: u64,
    ) -> io::Result<(u64, Option<PathBuf>)> {
        let directory = launch::run_directory("callgrind")?;
        // nginx's worker is not root any more when it writes its file.
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777))?;
        let services = launch::services(self.scenario.setup, self.programs, self.machine)?;
        let mut proxy = launch::engine(
            self.engine,
            self.scenario.setup,
            self.programs,
            self.machine,
            &services,
            |command, _| {
                let out = directory.join("out.%p");
                let mut wrapped = without_auxv(valgrind);
                wrapped
                    .arg("--tool=callgrind")
                    .arg(format!("--callgrind-out-file={}", out.display()));
                wrapped.arg(command.get_program()).args(command.get_args());
                wrapped
            },
        )?;
        let job = self.scenario.counted(proxy.address, requests);
        checked(&launch::load(self.programs, self.machine, &job)?)?;
        proxy.stop();
        let mut listings = Vec::new();
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            listings.push((total_instructions(&fs::read_to_string(&path)?), path));
        }
        let total = listings.iter().map(|listing| listing.0).sum();
        let busiest = listings.into_iter().max().map(|listing| listing.1);
        Ok((total, busiest))
    }

    /// Puts the load on a warm proxy while a tool watches it; how many requests were answered.
    fn observed(&self, attach: impl FnOnce(&Running) -> io::Result<Child>) -> io::Result<u64> {
        let services = launch::services(self.scenario.setup, self.programs, self.machine)?;
        let proxy = launch::engine(
            self.engine,
            self.scenario.setup,
            self.programs,
            self.machine,
            &services,
            |command, _| command,
        )?;
        let warm = self.scenario.timed(proxy.address, 0.5, &[]);
        checked(&launch::load(self.programs, self.machine, &warm)?)?;
        let mut tool = attach(&proxy)?;
        let job = self.scenario.counted(proxy.address, REQUESTS);
        let report = launch::load(self.programs, self.machine, &job);
        launch::send(&tool, Signal::INT);
        tool.wait()?;
        checked(&report?)
    }
}

/// Runs a program so that it does not find what valgrind hides from it; without Python as it is.
fn without_auxv(program: &Path) -> Command {
    let Ok(python) = installed("python3") else { return Command::new(program) };
    let mut command = Command::new(python);
    command.args(["-c", include_str!("without_auxv.py")]).arg(program);
    command
}

/// The requests of a report without errors.
fn checked(report: &Report) -> io::Result<u64> {
    match &report.first_error {
        Some(error) => Err(io::Error::other(format!("{} errors, first: {error}", report.errors))),
        None => Ok(report.requests),
    }
}

fn start_quietly(command: &mut Command) -> io::Result<Child> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    // perf says nowhere that it has attached; what it misses of the load is far below a percent.
    (0..60).for_each(|_| launch::pause());
    Ok(child)
}

fn wait_until_traced(proxy: &Running) -> io::Result<()> {
    for pid in proxy.processes()? {
        for _ in 0..1000 {
            let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
            if !status.contains("TracerPid:\t0\n") {
                break;
            }
            launch::pause();
        }
    }
    Ok(())
}

fn pid_list(proxy: &Running) -> io::Result<String> {
    let pids: Vec<String> = proxy.processes()?.iter().map(ToString::to_string).collect();
    Ok(pids.join(","))
}

/// strace's table as calls by name, the most frequent first.
fn parse_calls(table: &str) -> Vec<(&str, u64)> {
    let mut calls = BTreeMap::new();
    for line in table.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        // "% time seconds usecs/call calls [errors] syscall"
        let [_, _, _, count, .., name] = words.as_slice() else { continue };
        if let Ok(count) = count.parse::<u64>()
            && *name != "total"
        {
            *calls.entry(*name).or_insert(0) += count;
        }
    }
    let mut calls: Vec<_> = calls.into_iter().collect();
    calls.sort_by_key(|call| std::cmp::Reverse(call.1));
    calls
}

/// A line of `perf stat -x ,`; none where the counter is not supported.
fn parse_counter(line: &str) -> Option<(&str, f64)> {
    let mut fields = line.split(',');
    let count = fields.next()?.parse().ok()?;
    Some((fields.nth(1)?, count))
}

/// The sum that a callgrind file ends with.
fn total_instructions(listing: &str) -> u64 {
    let total = listing.lines().filter_map(|line| line.strip_prefix("totals: ")).next();
    total.and_then(|total| total.trim().parse().ok()).unwrap_or(0)
}

fn print_top(text: &str, wanted: impl Fn(&str) -> bool) {
    for line in text.lines().filter(|line| wanted(line)).take(TOP) {
        println!("  {}", line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_strace_is_read_with_and_without_errors() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
                     ------ ----------- ----------- --------- --------- ----------------\n\
                     60.00    0.100000           1     20000           read\n\
                     40.00    0.050000           1     30000        12 write\n\
                     ------ ----------- ----------- --------- --------- ----------------\n\
                     100.00    0.150000           3     50000        12 total\n";
        assert_eq!(parse_calls(table), [("write", 30000), ("read", 20000)]);
    }

    #[test]
    fn unsupported_counters_are_left_out() {
        assert_eq!(
            parse_counter("1200,,instructions:u,100,100.00,,"),
            Some(("instructions:u", 1200.0))
        );
        assert_eq!(parse_counter("<not supported>,,instructions:k,0,100.00,,"), None);
    }
}
