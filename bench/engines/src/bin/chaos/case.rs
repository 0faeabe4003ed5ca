//! What goes wrong, and what is expected of a gateway then.

use clap::ValueEnum;

/// One way for things to go wrong.
pub struct Case {
    pub name: &'static str,
    /// How each of the three endpoints fails, if it does.
    pub faults: [Option<Fault>; 3],
    /// What becomes of the name of the endpoints, where they are known by one.
    pub names: Option<NameFault>,
    pub promise: Promise,
    /// Whether it belongs to the short form.
    pub is_short: bool,
}

/// How an endpoint fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its process is killed; another one takes its place when the fault is over.
    Killed,
    /// Its process stands still.
    Stopped,
    /// It does what the endpoint's own table of faults says of this name.
    Told(&'static str),
}

/// What becomes of the endpoints' name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFault {
    /// It stands for a fourth endpoint instead of the third, which is killed a moment later.
    Changed,
    /// The name server has nothing but errors.
    Failed,
}

/// What is expected of Titan, besides that no more requests fail than with the better of HAProxy and Envoy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// No GET fails: another endpoint can respond to it.
    EveryGet,
    /// The response has begun when it fails, or the only retry fails too: the fewer, the better.
    Few,
    /// Nobody can respond: a failure comes at once, and costs the endpoints little more than no gateway would.
    AtOnce,
}

/// The protocol of the endpoints; of clients, HTTP/2 with gRPC and HTTP/1.1 otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    #[value(name = "h1")]
    Http1,
    #[value(name = "h2")]
    Http2,
    #[value(name = "grpc")]
    Grpc,
}

/// All cases, in the order of the tables.
pub const CASES: [Case; 15] = [
    one("kill", Fault::Killed, Promise::EveryGet).also_short(),
    one("stop", Fault::Stopped, Promise::EveryGet).also_short(),
    one("backlog", Fault::Told("backlog"), Promise::EveryGet),
    one("blackhole", Fault::Told("blackhole"), Promise::EveryGet).also_short(),
    one("reset", Fault::Told("reset"), Promise::Few),
    one("truncate", Fault::Told("truncate"), Promise::Few),
    one("garbage", Fault::Told("garbage"), Promise::EveryGet),
    one("error", Fault::Told("error"), Promise::EveryGet),
    one("alternate", Fault::Told("alternate"), Promise::EveryGet).also_short(),
    one("slow", Fault::Told("slow"), Promise::EveryGet),
    names("dns-change", NameFault::Changed),
    names("dns-failure", NameFault::Failed),
    Case {
        faults: [None, Some(Fault::Killed), Some(Fault::Told("blackhole"))],
        ..one("two", Fault::Killed, Promise::Few)
    },
    all("all-killed", Fault::Killed).also_short(),
    all("all-errors", Fault::Told("error")),
];

/// One endpoint of three fails.
const fn one(name: &'static str, fault: Fault, promise: Promise) -> Case {
    Case { name, faults: [None, None, Some(fault)], names: None, promise, is_short: false }
}

/// All of them fail.
const fn all(name: &'static str, fault: Fault) -> Case {
    Case { faults: [Some(fault); 3], ..one(name, fault, Promise::AtOnce) }
}

/// Nothing fails but the name server, or one endpoint ends of which it had told.
const fn names(name: &'static str, fault: NameFault) -> Case {
    let faults = [None; 3];
    Case { name, faults, names: Some(fault), promise: Promise::EveryGet, is_short: false }
}

impl Case {
    const fn also_short(self) -> Case {
        Case { is_short: true, ..self }
    }

    /// The names of the endpoints that fail.
    pub fn failing(&self) -> impl Iterator<Item = usize> {
        (0..self.faults.len()).filter(|index| self.faults[*index].is_some())
    }
}

impl Protocol {
    pub const ALL: [Self; 3] = [Self::Http1, Self::Http2, Self::Grpc];

    /// As on the command line and in the results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "h1",
            Self::Http2 => "h2",
            Self::Grpc => "grpc",
        }
    }

    /// Above its table.
    pub fn title(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1 to the endpoints",
            Self::Http2 => "HTTP/2 to the endpoints, HTTP/1.1 to the clients",
            Self::Grpc => "gRPC",
        }
    }
}
