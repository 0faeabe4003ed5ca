//! From how a section ended and what it printed to what is right and wrong with it. Pure.

use std::time::Duration;

use titan_bench::verdict::Verdict;

use crate::section::Proof;

/// Failing tests that are named.
const MAX_NAMES: usize = 50;

/// How a section ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    /// Of this signal.
    Killed(i32),
    /// It was ended because it had run for so long.
    OverBudget(Duration),
}

/// What its output tells.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    passed: u64,
    failed: u64,
    ignored: u64,
    /// Of Go, whose packages say `ok` or `FAIL`.
    packages: u64,
    /// Tests that failed, each once.
    failing: Vec<String>,
    /// Lines of tests that say that they could not test something.
    untested: Vec<String>,
    pub verdicts: Vec<Verdict>,
}

/// Everything that is wrong; nothing, where the section has passed. `changed` are the files of the repository that are
/// not as they were.
pub fn faults(proof: Proof, end: End, found: &Found, changed: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    match end {
        End::Exited(0) => {}
        End::Exited(127) => faults.push("exit code 127: a command is not installed".to_owned()),
        End::Exited(code) => faults.push(format!("exit code {code}")),
        End::Killed(signal) => faults.push(format!("killed by signal {signal}")),
        End::OverBudget(budget) => faults.push(format!("ended after {}, its budget", time(budget))),
    }
    if found.failed > 0 || !found.failing.is_empty() {
        let names = found.failing.join(", ");
        faults
            .push(format!("failed tests: {}", if names.is_empty() { "not named" } else { &names }));
    }
    match proof {
        Proof::Tests if found.passed + found.packages == 0 => {
            faults.push("no test has passed".to_owned());
        }
        Proof::Bars if found.verdicts.is_empty() => faults.push("no bar was judged".to_owned()),
        _ => {}
    }
    let missed = found.verdicts.iter().filter(|verdict| !verdict.is_met).count();
    if missed > 0 {
        faults.push(format!("{missed} of {} bars are missed", found.verdicts.len()));
    }
    if !changed.is_empty() {
        faults.push(format!("the repository has changed meanwhile: {}", changed.join(", ")));
    }
    faults
}

impl Found {
    /// Looks through what a section has printed.
    pub fn look(log: &str) -> Self {
        let mut found = Self::default();
        log.lines().for_each(|line| found.read(line));
        found
    }

    fn read(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.count(counts);
        } else if line.starts_with("ok  \t") && !line.ends_with("[no tests to run]") {
            self.packages += 1;
        } else if line.starts_with("FAIL\t") {
            self.failed += 1;
        } else if line.starts_with("not tested") {
            self.untested.push(line.to_owned());
        } else if let Some(verdict) = Verdict::read(line) {
            self.verdicts.push(verdict);
        } else if let Some(name) = failing_test(line)
            && self.failing.len() < MAX_NAMES
            && !self.failing.iter().any(|known| known == name)
        {
            self.failing.push(name.to_owned());
        }
    }

    /// As cargo sums up: `ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s`.
    fn count(&mut self, counts: &str) {
        for count in counts.split(['.', ';']) {
            let Some((number, what)) = count.trim().split_once(' ') else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }

    /// What came out, a sentence for each kind of thing.
    pub fn summary(&self) -> Vec<String> {
        let Self { passed, failed, ignored, packages, verdicts, untested, .. } = self;
        let mut summary = Vec::new();
        if passed + failed + ignored > 0 {
            summary.push(format!("{passed} tests passed, {failed} failed, {ignored} ignored"));
        }
        if *packages > 0 {
            summary.push(format!("tests of {packages} Go packages passed"));
        }
        if !verdicts.is_empty() {
            let met = verdicts.iter().filter(|verdict| verdict.is_met).count();
            summary.push(format!("{met} of {} bars are met", verdicts.len()));
        }
        summary.extend(untested.iter().cloned());
        summary
    }
}

/// `---- place::name stdout ----` of cargo, `--- FAIL: TestName (0.00s)` of Go.
fn failing_test(line: &str) -> Option<&str> {
    let of_cargo = || line.strip_prefix("---- ")?.strip_suffix(" stdout ----");
    let of_go = || line.trim_start().strip_prefix("--- FAIL: ")?.split(' ').next();
    of_cargo().or_else(of_go)
}

/// As a person says it, to two places.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, _) => format!("{:.1} s", time.as_secs_f64()),
        (0, minutes, 0) => format!("{minutes} min"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARGO: &str = "\
test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s
---- place::name stdout ----
thread 'place::name' panicked at a.rs:1:1:
test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 2.50s
";
    const GO: &str = "\
ok  \tshockwave\t1.204s
ok  \tshockwave/cmd/echo\t0.004s [no tests to run]
?   \tshockwave/internal\t[no test files]
    --- FAIL: TestDrain/late (0.00s)
--- FAIL: TestDrain (0.01s)
FAIL
FAIL\tconformance/http3\t3.1s
";
    const BARS: &str = "\
engine  cpu us/req
bar met: small-64 to nginx 0.78, at most 0.90
bar MISSED: h3-30k to nginx 1.17, at most 0.80
";

    fn judged(proof: Proof, end: End, log: &str) -> Vec<String> {
        faults(proof, end, &Found::look(log), &[])
    }

    #[test]
    fn what_ends_well_and_proves_it_has_no_fault() {
        let met = BARS.lines().nth(1).unwrap();
        let passed = CARGO.lines().next().unwrap();
        for (proof, log) in [
            (Proof::ExitCode, ""),
            (Proof::Tests, passed),
            (Proof::Tests, "ok  \ta\t1s"),
            (Proof::Bars, met),
        ] {
            assert_eq!(judged(proof, End::Exited(0), log), [""; 0], "{proof:?}");
        }
    }

    #[test]
    fn each_end_but_a_good_one_is_a_fault() {
        let rows = [
            (End::Exited(1), "exit code 1"),
            (End::Exited(127), "exit code 127: a command is not installed"),
            (End::Killed(9), "killed by signal 9"),
            (End::OverBudget(Duration::from_secs(90)), "ended after 1 min 30 s, its budget"),
        ];
        for (end, wanted) in rows {
            assert_eq!(judged(Proof::ExitCode, end, ""), [wanted]);
        }
    }

    #[test]
    fn what_has_done_nothing_has_not_passed() {
        let none = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out";
        assert_eq!(judged(Proof::Tests, End::Exited(0), none), ["no test has passed"]);
        assert_eq!(judged(Proof::Bars, End::Exited(0), CARGO).last().unwrap(), "no bar was judged");
    }

    #[test]
    fn failures_count_whatever_the_exit_code_says() {
        assert_eq!(judged(Proof::Tests, End::Exited(0), CARGO), ["failed tests: place::name"]);
        let of_go = "failed tests: TestDrain/late, TestDrain";
        assert_eq!(judged(Proof::Tests, End::Exited(1), GO), ["exit code 1", of_go]);
        assert_eq!(judged(Proof::Bars, End::Exited(0), BARS), ["1 of 2 bars are missed"]);
    }

    #[test]
    fn a_section_that_changes_the_repository_has_failed() {
        let changed = ["?? bench/results/a.csv".to_owned()];
        let faults = faults(Proof::ExitCode, End::Exited(0), &Found::default(), &changed);
        assert_eq!(faults, ["the repository has changed meanwhile: ?? bench/results/a.csv"]);
    }

    #[test]
    fn what_came_out_is_summed_up() {
        let summary = |log| Found::look(log).summary();
        assert_eq!(summary(CARGO), ["15 tests passed, 1 failed, 1 ignored"]);
        assert_eq!(
            summary(GO),
            ["0 tests passed, 1 failed, 0 ignored", "tests of 1 Go packages passed"]
        );
        assert_eq!(summary(BARS), ["1 of 2 bars are met"]);
        let untested = "not tested: this machine has no IPv6";
        assert_eq!(summary(untested), [untested]);
    }
}
