//! What there is to validate, in the order in which it runs: what takes longest comes last.

use crate::section::{Picture, Proof, Section};

/// All of it.
pub const SECTIONS: [Section<'static>; 31] = [
    Section {
        id: "peers",
        title: "what is compared with, and what tests need, is installed",
        command: "make peers && scripts/install-http3-peers.sh && scripts/install-chaos-peers.sh",
        expected: "all of it can be installed, or is",
        proof: Proof::ExitCode,
        budget: minutes(20, 20),
        pictures: &[],
    },
    Section {
        id: "lint",
        title: "formatting and clippy, in every workspace",
        command: "make lint",
        expected: "nothing to format, no warning",
        proof: Proof::ExitCode,
        budget: minutes(30, 30),
        pictures: &[],
    },
    Section {
        id: "tidy",
        title: "the project's own rules; licences, sources and versions of dependencies",
        command: "make tidy",
        expected: "no rule is broken",
        proof: Proof::ExitCode,
        budget: minutes(15, 15),
        pictures: &[],
    },
    tests(
        "unit",
        "unit, property, conformance and integration tests in Rust, and those with other software",
        "make unit",
        minutes(90, 90),
    ),
    tests(
        "vectors",
        "the HTTP/1.1 vectors, for Titan and Shockwave",
        "make conformance",
        minutes(20, 20),
    ),
    Section {
        expected: "146 of 146 tests pass in strict mode, in clear text and over TLS, with HTTP/1.1 and HTTP/2 to the endpoint",
        ..peers("h2spec", "h2spec judges HTTP/2", "cargo test --workspace --test peers h2spec")
    },
    Section {
        expected: "every case of the official interoperability tests passes, in clear text and over TLS, gRPC-Web too",
        ..peers(
            "grpc",
            "grpc-go's interoperability tests",
            "cargo test --workspace --test peers grpc",
        )
    },
    peers(
        "websocket",
        "Python's websockets, h2 and wsproto on both sides",
        "cargo test --workspace --test peers websocket",
    ),
    peers(
        "curl",
        "curl as a client in every version of HTTP",
        "cargo test --workspace --test peers curl",
    ),
    peers(
        "load",
        "wrk and h2load, to whom each response that is not right is an error",
        "cargo test --workspace --test peers content",
    ),
    peers(
        "testssl",
        "testssl.sh looks for weaknesses of TLS",
        "cargo test --workspace --test peers testssl",
    ),
    tests("http3", "quic-go and curl judge HTTP/3", "make http3", minutes(30, 30)),
    tests(
        "go",
        "every Go module: vet, staticcheck, tests with the race detector; Shockwave beside net/http and fasthttp",
        "make go",
        minutes(60, 60),
    ),
    Section {
        id: "dashboard",
        title: "the dashboard, in Chromium, with a gateway under traffic",
        command: "make dashboard-check",
        expected: "the built page belongs to its sources, and each check passes",
        proof: Proof::ExitCode,
        budget: minutes(20, 20),
        pictures: &[],
    },
    tests(
        "fuzz-smoke",
        "each fuzz target over a bounded corpus",
        "make fuzz-smoke",
        minutes(30, 30),
    ),
    Section {
        id: "audit",
        title: "known vulnerabilities of dependencies",
        command: "make audit",
        expected: "both databases can be asked, and know none",
        proof: Proof::ExitCode,
        budget: minutes(20, 20),
        pictures: &[],
    },
    tests(
        "consul",
        "Consul itself as the source of the configuration",
        "make consul",
        full_only(90),
    ),
    tests(
        "cluster",
        "the gateway of a cluster, with a kube-apiserver",
        "make cluster",
        full_only(120),
    ),
    tests("gateway-api", "Gateway API's conformance suite", "make conformance-k8s", full_only(120)),
    Section {
        id: "chaos",
        title: "endpoints break behind Titan, and in a full run behind HAProxy, Envoy and nginx",
        command: "cargo run --release --manifest-path bench/engines/Cargo.toml --bin chaos -- {--short |}--check --results {raw}",
        expected: "no GET fails that another endpoint can respond to, and no more requests than with the better of HAProxy and Envoy",
        proof: Proof::Bars,
        budget: minutes(20, 60),
        pictures: &[
            Picture {
                title: "GETs that failed",
                panel: &["upstream", "case"],
                bar: &["gateway"],
                value: "failed_gets",
                unit: "GETs",
            },
            Picture {
                title: "99 of 100 requests took no longer, while endpoints were broken",
                panel: &["upstream", "case"],
                bar: &["gateway"],
                value: "p99_ms",
                unit: "ms",
            },
        ],
    },
    tests(
        "outages",
        "endpoints that fail, by turns and at random: no response is mixed up, or lost without need",
        "CHAOS_SECONDS={20|300*} cargo test --workspace --test peers chaos -- --nocapture",
        minutes(20, 30),
    ),
    tests(
        "overload",
        "a service gets twice what it can serve, and has to serve 90 % of it",
        "OVERLOAD_SECONDS={10|60} make overload",
        minutes(30, 30),
    ),
    tests(
        "fleet",
        "three gateways count together",
        "FLEET_SECONDS={10|120} make fleet",
        minutes(30, 40),
    ),
    tests(
        "soak",
        "reloads and upgrades under load, with open WebSockets: none of them fails, and nothing is left over",
        "SOAK_RELOADS={100|1000*} SOAK_TUNNELS={100|1000} SOAK_UPGRADES={4|20*} SOAK_REQUESTS={500|2000} make soak",
        minutes(30, 45),
    ),
    Section {
        id: "bench",
        title: "processor time, memory and latency beside nginx, HAProxy and a bare forwarder",
        command: "cargo run --release --manifest-path bench/engines/Cargo.toml --bin bench -- {--quick |}--check --results {raw}",
        expected: "every response is right, and every bar is met",
        proof: Proof::Bars,
        budget: minutes(60, 150),
        pictures: &[
            Picture {
                title: "Processor time of the proxy per request; shorter is better",
                panel: &["scenario"],
                bar: &["engine"],
                value: "cpu_us_per_request",
                unit: "\u{b5}s",
            },
            Picture {
                title: "Memory of an idle connection",
                panel: &["scenario"],
                bar: &["engine"],
                value: "idle_bytes_per_connection",
                unit: "bytes",
            },
            Picture {
                title: "Latency that 99 of 100 requests kept to, in a closed loop",
                panel: &["scenario"],
                bar: &["engine"],
                value: "p99_us",
                unit: "\u{b5}s",
            },
        ],
    },
    measured(
        "probes",
        "what it costs to probe 10,000 endpoints",
        "cargo run --release --manifest-path bench/engines/Cargo.toml --bin probes -- --results {raw}",
        "as many probes as are due, and none fails",
        &[Picture {
            title: "Share of a core that probes take",
            panel: &["endpoints"],
            bar: &["probe"],
            value: "core_share",
            unit: "of a core",
        }],
    ),
    measured(
        "scrapes",
        "what it costs to scrape a gateway with 10,000 routes and 10,000 endpoints",
        "cargo run --release --manifest-path bench/engines/Cargo.toml --bin scrapes -- --results {raw}",
        "each page has the series that it should have",
        &[Picture {
            title: "Time of a scrape",
            panel: &["limit"],
            bar: &["format"],
            value: "median_ms",
            unit: "ms",
        }],
    ),
    measured(
        "routes",
        "what many routes and endpoints cost",
        "cargo run --release --manifest-path bench/engines/Cargo.toml --bin routes -- --results {raw}",
        "each response is that of its route",
        &[
            Picture {
                title: "Time of a reload",
                panel: &[],
                bar: &["routes", "endpoints"],
                value: "reload_ms",
                unit: "ms",
            },
            Picture {
                title: "Memory",
                panel: &[],
                bar: &["routes", "endpoints"],
                value: "resident_mb",
                unit: "MB",
            },
        ],
    ),
    Section {
        id: "shockwave",
        title: "Shockwave beside fasthttp, net/http and hertz",
        command: "go -C bench/engines/go run . {-quick |}-check -results {raw}",
        expected: "every response is right, and every bar is met",
        proof: Proof::Bars,
        budget: minutes(15, 30),
        pictures: &[Picture {
            title: "Processor time per request; shorter is better",
            panel: &["scenario"],
            bar: &["engine"],
            value: "cpu_ns_per_request",
            unit: "ns",
        }],
    },
    Section {
        id: "fuzz",
        title: "every fuzz target in Rust",
        command: "FUZZ_SECONDS={5|60*} make fuzz",
        expected: "no input is found that breaks one",
        proof: Proof::ExitCode,
        budget: minutes(20, 60),
        pictures: &[],
    },
    Section {
        id: "fuzz-go",
        title: "every fuzz target in Go",
        command: "scripts/fuzz-go.sh {5|60*}s",
        expected: "no input is found that breaks one",
        proof: Proof::ExitCode,
        budget: minutes(15, 45),
        pictures: &[],
    },
];

const fn minutes(short: u64, full: u64) -> (u64, u64) {
    (short * 60, full * 60)
}

/// The minutes of what takes too long for a short run.
const fn full_only(minutes: u64) -> (u64, u64) {
    (0, minutes * 60)
}

const fn tests(
    id: &'static str,
    title: &'static str,
    command: &'static str,
    budget: (u64, u64),
) -> Section<'static> {
    let (expected, proof) = ("every test passes", Proof::Tests);
    Section { id, title, command, expected, proof, budget, pictures: &[] }
}

/// Tests with other software that `unit` runs too, by themselves.
const fn peers(id: &'static str, title: &'static str, command: &'static str) -> Section<'static> {
    tests(id, title, command, minutes(30, 30))
}

/// A program of the harness whose figures have no bars.
const fn measured(
    id: &'static str,
    title: &'static str,
    command: &'static str,
    expected: &'static str,
    pictures: &'static [Picture],
) -> Section<'static> {
    let (proof, budget) = (Proof::ExitCode, minutes(30, 30));
    Section { id, title, command, expected, proof, budget, pictures }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs;

    use titan_bench::programs::repository;

    use super::*;
    use crate::plan::{Extent, plan};

    #[test]
    fn every_section_can_be_planned_and_its_make_target_is_there() {
        let makefile = fs::read_to_string(repository().join("Makefile")).unwrap();
        for extent in [Extent::Short, Extent::Full, Extent::Hours(48.0)] {
            for task in plan(&SECTIONS, extent, &[]).unwrap() {
                let command = &task.command;
                assert!(!command.contains(['{', '|', '*']), "{command}");
                let goals = command.split("make ").skip(1).filter_map(|it| it.split(' ').next());
                for goal in goals {
                    assert!(makefile.contains(&format!("\n{goal}:")), "{goal}");
                }
            }
        }
    }

    #[test]
    fn no_two_sections_have_a_name() {
        let ids: HashSet<_> = SECTIONS.iter().map(|section| section.id).collect();
        assert_eq!(ids.len(), SECTIONS.len());
    }
}
