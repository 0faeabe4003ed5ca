//! What the gateway does when its own limits come near.

use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::quantity::{ByteSize, Percent};
use crate::read::{Read, Reading, default, optional};
use crate::readers::{duration, percent, size, word_or};
use crate::section::{section, section_of};
use std::time::Duration;

section! {
    "pressure", "pressure settings", Any;
    /// What the gateway does when its own limits come near, in steps. Measured are the open file descriptors as a share of
    /// `RLIMIT_NOFILE`, the resident memory as a share of `max_memory`, and how late the event loop of each worker is as a
    /// share of `max_lag`; the largest share counts. A step ends when the share is 5% below its threshold, or at half of one below
    /// 10%. Each change is a line on standard error.
    pub struct Pressure {
        /// From that share of descriptors or memory on, a connection closes after its response; clients of HTTP/2 are told to
        /// open another one. Lag does not count here: new connections cost more than kept ones.
        pub stop_keep_alive: Percent = default("80%", percent(1..=100)),
        /// From that share on, requests of routes with `importance: sheddable` get 503 with `Retry-After` (`overloaded`). Not
        /// below `stop_keep_alive`.
        pub shed: Percent = default("90%", percent(1..=100)),
        /// From that share on, no connection is accepted; clients wait in the kernel's queue. Not below `shed`.
        pub stop_accepting: Percent = default("97%", percent(1..=100)),
        /// The resident memory that is 100%.
        pub max_memory: Option<ByteSize> = optional(
            "the limit of the process's control group (version 2); without one, memory does not count",
            size((1 << 20)..=(1 << 50)),
        ),
        /// The lag of a worker's event loop that is 100%: how much later than planned its clock ticks. It counts for
        /// the connections and requests of that worker.
        pub max_lag: Duration =
            default("5s", duration(Duration::from_millis(1)..=Duration::from_secs(60))),
    }
}

pub(crate) fn pressure() -> impl Read<Value = Option<Pressure>> {
    word_or("off", None, section_of::<Pressure>().then(check).map(Some))
}

fn check(pressure: Pressure, node: &Node, to: &mut Reading<'_>) -> Option<Pressure> {
    let Pressure { stop_keep_alive, shed, stop_accepting, max_memory: _, max_lag: _ } = &pressure;
    let steps =
        [("stop_keep_alive", stop_keep_alive), ("shed", shed), ("stop_accepting", stop_accepting)];
    let wrong = steps.windows(2).find(|pair| pair[0].1.as_hundredths() > pair[1].1.as_hundredths());
    let Some([(first, low), (second, high)]) = wrong else { return Some(pressure) };
    let key = if node.entry(second).is_some() { second } else { first };
    let error = Diagnostic::error(
        node.key_span(key),
        format!("`{second}` comes before `{first}`: the steps have to follow each other"),
    );
    to.fail(error.label(format!("`{first}` is {low}, `{second}` is {high}")))
}
