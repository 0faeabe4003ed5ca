//! Which listeners a route serves.

use crate::bounds::MAX_LISTENERS;
use crate::diagnostic::Diagnostic;
use crate::location::Span;
use crate::node::quote;
use crate::read::{Read, Reading};
use crate::readers::{one_or_list, text};
use crate::shape::TextShape;
use crate::token::NAME;

/// Some of the listeners of a configuration, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerSet(u64);

// Each has a bit.
const _: () = assert!(MAX_LISTENERS <= u64::BITS as usize);

impl ListenerSet {
    /// Whatever listener a request came in at, also at one that the configuration no longer has.
    pub const ALL: ListenerSet = ListenerSet(u64::MAX);
    /// What a request came in at that no listener of the configuration has accepted.
    pub const NONE: ListenerSet = ListenerSet(0);

    /// The one at that index of [`crate::Config::listeners`].
    pub fn of(index: usize) -> ListenerSet {
        let bit = u32::try_from(index).ok().and_then(|index| 1_u64.checked_shl(index));
        bit.map_or(ListenerSet::NONE, ListenerSet)
    }

    /// These and those.
    #[must_use]
    pub fn and(self, other: ListenerSet) -> ListenerSet {
        ListenerSet(self.0 | other.0)
    }

    /// Whether a route for these serves what came in at `listener`.
    pub fn serves(self, listener: ListenerSet) -> bool {
        self == ListenerSet::ALL || self.overlaps(listener)
    }

    /// Their indices in [`crate::Config::listeners`], where it is not all of them.
    pub fn indices(self) -> impl Iterator<Item = usize> {
        (0..MAX_LISTENERS)
            .filter(move |index| !self.is_all() && self.overlaps(ListenerSet::of(*index)))
    }

    /// Whether it is no condition.
    pub fn is_all(self) -> bool {
        self == ListenerSet::ALL
    }

    pub(crate) fn overlaps(self, other: ListenerSet) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether all of `other` are among these.
    pub(crate) fn covers(self, other: ListenerSet) -> bool {
        other.0 & !self.0 == 0
    }
}

/// The names of listeners of the file.
pub(crate) fn listener_set() -> impl Read<Value = ListenerSet> {
    let name =
        TextShape { what: "the name of a listener", examples: "`internal`", pattern: None, ..NAME };
    let one = text(name, |text| Ok(text.to_owned()))
        .then(|name: String, node, to| find_listener(&name, node.span, to));
    one_or_list(one, 1..=MAX_LISTENERS)
        .map(|all| all.into_iter().fold(ListenerSet::NONE, ListenerSet::and))
}

fn find_listener(name: &str, span: Span, to: &mut Reading<'_>) -> Option<ListenerSet> {
    if let Some(index) = to.declared.listeners.use_name(name) {
        return Some(ListenerSet::of(index));
    }
    let error = Diagnostic::error(span, format!("there is no listener {}", quote(name)));
    let help = to.did_you_mean(name, to.declared.listeners.iter());
    let help = help.unwrap_or_else(|| {
        "give a listener this `name`, or write its `address` as it stands there".to_owned()
    });
    to.fail(error.label("not found in `listeners`").help(help))
}
