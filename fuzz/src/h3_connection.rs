//! HTTP/3: a whole connection in either role, whose peer does anything, over a transport with windows of any size.
//!
//! | in reading order | |
//! |---|---|
//! | `script` | what happens, step by step |
//! | `peer` | what the peer makes of what the connection sends: it must break no rule |
//! | `wire` | the streams between the two |
//! | `driver` | what reads and writes them, as titan-io's `Link` does, and serves the requests |

mod driver;
mod peer;
mod script;
mod wire;

pub use script::Step;

use crate::choices::CHOICES;
use driver::Driver;
use titan_h3::Limits;
use titan_http::section::SectionLimits;

/// A connection panics at nothing, tells of each stream what it may and no more, keeps what its limits allow, sends nothing that breaks a
/// rule, and keeps nothing of what is over.
pub fn connection(data: &[u8]) {
    let Some((choices, mut input)) = data.split_first_chunk::<CHOICES>() else { return };
    let mut driver = Driver::new(choices, limits(choices[0]));
    while let Some((step, place, bytes)) = Step::split(&mut input) {
        driver.go(step, place, bytes);
    }
    driver.settle();
}

/// The defaults, or bounds so low that small inputs meet them; with a budget for floods that ends a connection early, or late.
fn limits(choice: u8) -> Limits {
    let flood_budget = if choice & 2 == 0 { 10_000 } else { 20 };
    match choice % 2 {
        0 => Limits { flood_budget, ..Limits::default() },
        _ => Limits {
            streams: 4,
            sections: SectionLimits { head: 300, trailers: 100, fields: 4, target: 8 },
            stream_window: usize::from(choice) + 1,
            connection_window: 300,
            output: 100,
            blocked: usize::from(choice) / 64,
            flood_budget,
        },
    }
}
