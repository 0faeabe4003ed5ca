//! What a peer costs below HTTP/3: frames and datagrams that get nothing done. They are judged by the second, by what quinn-proto has
//! counted, and are charged to the account that HTTP/3 has of the peer.
//!
//! | what | how many are free in a second |
//! |---|---|
//! | PATH_CHALLENGE, NEW_CONNECTION_ID, PING, MAX_DATA, DATA_BLOCKED and the like | [`FREE`], and two for each STREAM frame |
//! | datagrams | [`FREE`], and two for each that was sent, and for each STREAM frame |
//!
//! What is beyond that costs a point for each [`A_POINT`]. Acknowledgements come with what was sent, and cost only where they are more
//! than that.

use quinn_proto::{Connection, ConnectionStats};
use std::net::SocketAddr;

/// What has happened on a connection since it was asked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineFigures {
    /// Packets that were lost on their way to the peer.
    pub lost: u64,
    /// Changes of the peer's address.
    pub migrations: u64,
}

/// What was counted by the last look.
pub(super) struct Audit {
    control: u64,
    received: u64,
    sent: u64,
    data: u64,
    lost: u64,
    address: SocketAddr,
}

/// Frames or datagrams beyond what is free that make a point.
const A_POINT: u64 = 16;
/// What is free in any second.
const FREE: u64 = 128;

impl Audit {
    /// Nothing has come yet from that address.
    pub(super) fn new(address: SocketAddr) -> Audit {
        Audit { control: 0, received: 0, sent: 0, data: 0, lost: 0, address }
    }

    /// Takes in what has happened, and tells what it costs.
    pub(super) fn look(&mut self, connection: &Connection, figures: &mut LineFigures) -> u32 {
        let stats = connection.stats();
        let now = Audit {
            control: control(&stats),
            received: stats.udp_rx.datagrams,
            sent: stats.udp_tx.datagrams,
            data: stats.frame_rx.stream + stats.frame_tx.stream,
            lost: stats.path.lost_packets,
            address: connection.remote_address(),
        };
        figures.migrations += u64::from(now.address != self.address);
        // A new path begins to count anew.
        figures.lost += now.lost.saturating_sub(self.lost);
        let cost = self.cost_until(&now);
        *self = now;
        cost
    }

    fn cost_until(&self, now: &Audit) -> u32 {
        let data = now.data.saturating_sub(self.data);
        let sent = now.sent.saturating_sub(self.sent);
        let control = now.control.saturating_sub(self.control);
        let received = now.received.saturating_sub(self.received);
        let control = control.saturating_sub(FREE + 2 * data);
        let received = received.saturating_sub(FREE + 2 * (sent + data));
        u32::try_from((control + received) / A_POINT).unwrap_or(u32::MAX)
    }
}

fn control(stats: &ConnectionStats) -> u64 {
    let frames = &stats.frame_rx;
    let of_paths = frames.path_challenge + frames.path_response + frames.ping;
    let of_ids = frames.new_connection_id + frames.retire_connection_id;
    let of_limits = frames.max_data
        + frames.max_stream_data
        + frames.max_streams_bidi
        + frames.max_streams_uni
        + frames.data_blocked
        + frames.stream_data_blocked
        + frames.streams_blocked_bidi
        + frames.streams_blocked_uni;
    of_paths + of_ids + of_limits
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn audit(control: u64, received: u64, sent: u64, data: u64) -> Audit {
        let address = (Ipv4Addr::LOCALHOST, 1).into();
        Audit { control, received, sent, data, ..Audit::new(address) }
    }

    #[test]
    fn what_gets_something_done_is_free() {
        let begun = audit(1000, 1000, 1000, 1000);
        let cost = |control: u64, received: u64, sent: u64, data: u64| {
            begun.cost_until(&audit(1000 + control, 1000 + received, 1000 + sent, 1000 + data))
        };
        assert_eq!(cost(0, 0, 0, 0), 0);
        assert_eq!(cost(FREE, FREE, 0, 0), 0, "a moment without any");
        assert_eq!(cost(2000, 50_000, 25_000, 1000), 0, "a download, with its acknowledgements");
        assert_eq!(cost(2000, 50_000, 1000, 50_000), 0, "an upload");
        assert_eq!(cost(FREE + 160, 0, 0, 0), 10);
        assert_eq!(cost(0, FREE + 160, 0, 0), 10);
        assert!(cost(1_000_000, 1_000_000, 1000, 0) > 100_000);
    }
}
