//! Paths that some upstreams confuse with others: how they are handled.

use crate::read::{Read, optional};
use crate::readers::words;
use crate::section::section;

section! {
    "paths", "path settings", Any;
    /// What happens to paths that some upstreams treat as equal to others. Routes compare paths byte for byte: with
    /// `/admin` guarded and `/` open, `/ADMIN`, `/admin;x` and `/%2Fadmin` match `/`. `keep`: they are passed on, which
    /// is right for upstreams that tell them apart; `refuse`: they get 400. The settings of the route that a request
    /// matches apply. `titan check` warns if one is not set and a guarded route lies under an open one.
    pub struct Paths {
        /// Encoded slashes: `refuse` every path with a `%2F`.
        pub encoded_slashes: Option<LookAlike> = optional("`keep`", look_alike()),
        /// Parameters of segments: `refuse` every path with a `;`, encoded or not.
        pub parameters: Option<LookAlike> = optional("`keep`", look_alike()),
        /// Other case: `refuse` a path that would match another route if case did not matter. Costs a second route
        /// lookup.
        pub case: Option<LookAlike> = optional("`keep`", look_alike()),
    }
}

/// What happens to a path that some upstreams take for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookAlike {
    /// It is passed on.
    Keep,
    /// It is refused with 400.
    Refuse,
}

impl Paths {
    /// Nothing is stated.
    pub(crate) const UNSTATED: Paths =
        Paths { encoded_slashes: None, parameters: None, case: None };

    /// What holds where a route says that, and the file the other.
    pub(crate) fn over(&self, file: &Paths) -> Paths {
        let Paths { encoded_slashes, parameters, case } = self;
        Paths {
            encoded_slashes: encoded_slashes.or(file.encoded_slashes),
            parameters: parameters.or(file.parameters),
            case: case.or(file.case),
        }
    }
}

fn look_alike() -> impl Read<Value = LookAlike> {
    words(&[("keep", LookAlike::Keep), ("refuse", LookAlike::Refuse)])
}
