//! Which listener is which, also in the next configuration.

use std::collections::HashMap;
use titan_config::ListenAddress;

/// What makes a listener the one that it was: where clients connect, whatever its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ListenerId {
    address: ListenAddress,
    /// How many of the same address stand before it in the file: port 0 may be there more than once.
    before: usize,
    side: Side,
}

/// A part of a listener that has sockets of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Side {
    /// Connections of TCP or of a Unix socket.
    Stream,
    Udp,
    /// The ways to processes that have connections of the UDP side.
    Ways,
}

impl ListenerId {
    /// Those of the listeners of a configuration.
    pub(crate) fn all(listeners: &[titan_config::Listener]) -> Vec<ListenerId> {
        let mut seen: HashMap<&ListenAddress, usize> = HashMap::new();
        let id = |listener: &'_ titan_config::Listener, before| ListenerId {
            address: listener.address.clone(),
            before,
            side: Side::Stream,
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
        ListenerId { side: Side::Udp, ..self.clone() }
    }

    /// All sides of a listener on which clients come in.
    pub(crate) fn sides(&self) -> [ListenerId; 2] {
        [self.clone(), self.udp()]
    }

    /// Whether it is that of a listener.
    pub(crate) fn is_udp(&self) -> bool {
        self.side == Side::Udp
    }

    /// What leads to the processes that have connections of a listener's UDP side.
    #[must_use]
    pub(crate) fn ways(&self) -> ListenerId {
        ListenerId { side: Side::Ways, ..self.clone() }
    }

    /// As the configuration writes its address, and how many of that stand before it.
    pub(crate) fn name(&self) -> (String, usize) {
        (format!("{}{}", self.side.prefix(), self.address), self.before)
    }
}

impl Side {
    /// What stands in front of its address, and no address begins with.
    fn prefix(self) -> &'static str {
        match self {
            Side::Stream => "",
            Side::Udp => "udp:",
            Side::Ways => "udp-ways:",
        }
    }
}
