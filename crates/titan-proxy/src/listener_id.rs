//! Which listener is which, also in the next configuration.

use std::collections::HashMap;
use titan_config::ListenAddress;

/// What makes a listener the one that it was: where clients connect, whatever its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ListenerId {
    address: ListenAddress,
    /// How many of the same address stand before it in the file: port 0 may be there more than once.
    before: usize,
    /// Whether it is the UDP side of the listener.
    is_udp: bool,
}

impl ListenerId {
    /// Those of the listeners of a configuration.
    pub(crate) fn all(listeners: &[titan_config::Listener]) -> Vec<ListenerId> {
        let mut seen: HashMap<&ListenAddress, usize> = HashMap::new();
        let id = |listener: &'_ titan_config::Listener, before| ListenerId {
            address: listener.address.clone(),
            before,
            is_udp: false,
        };
        let ids = listeners.iter().map(|listener| {
            let count = seen.entry(&listener.address).or_default();
            *count += 1;
            id(listener, *count - 1)
        });
        ids.collect()
    }

    /// The UDP side of a listener.
    #[must_use]
    pub(crate) fn udp(&self) -> ListenerId {
        ListenerId { is_udp: true, ..self.clone() }
    }

    /// As the configuration writes its address, and how many of that stand before it.
    pub(crate) fn name(&self) -> (String, usize) {
        let prefix = if self.is_udp { UDP } else { "" };
        (format!("{prefix}{}", self.address), self.before)
    }
}

/// What stands in front of the address of a UDP side, which no address begins with.
const UDP: &str = "udp:";
