//! What a peer costs below HTTP/3: frames and datagrams that get nothing done. They are judged by the second, by what quinn-proto has
//! counted, and are charged to the account that HTTP/3 has of the peer.
//!
//! - Frames that steer: PATH_CHALLENGE, NEW_CONNECTION_ID, PING, MAX_DATA, DATA_BLOCKED, RESET_STREAM, CRYPTO and the like, and of each
//!   datagram what is beyond one ACK and [`STREAMS`] STREAM frames. Free in a second are [`FREE`], [`OF_A_STREAM`] for each stream of the
//!   peer, and one for each [`A_FRAME`] bytes on streams.
//! - Datagrams, as far as they have brought frames: others can send what only looks like the peer's, and it is counted before it is
//!   authenticated. One that the peer has filled with padding alone costs no more than such a one. Free in a second are [`FREE`], two for
//!   each that was sent, one for each [`A_DATAGRAM`] bytes on streams, and one for each [`FULL`] bytes of them.
//!
//! What is beyond that costs a point for each [`A_POINT`]. Acknowledgements come with what was sent, and cost only where they are more
//! than that. STREAM frames earn nothing by themselves: they may be empty.

use super::link::Link;
use quinn_proto::{ConnectionStats, FrameStats};
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
    /// Frames that get nothing done by themselves.
    control: u64,
    /// Frames of all kinds.
    frames: u64,
    /// Datagrams that have come, and their bytes, whoever has sent them.
    received: u64,
    bytes: u64,
    /// Datagrams that were sent.
    sent: u64,
    /// Streams that the peer has opened, and bytes on all streams, in both directions.
    streams: u64,
    moved: u64,
    lost: u64,
    address: SocketAddr,
}

/// Frames or datagrams beyond what is free that make a point.
const A_POINT: u64 = 16;
/// What is free in any second.
const FREE: u64 = 128;
/// Bytes on streams that make a frame free, and a datagram: small messages come in one each.
const A_FRAME: u64 = 256;
const A_DATAGRAM: u64 = 32;
/// Bytes of datagrams that make one free: those of an upload are longer, whether what they have brought was read or not.
const FULL: u64 = 600;
/// STREAM frames in a datagram that may be messages on as many streams.
const STREAMS: u64 = 16;
/// Frames that are free for a stream: it may end early in both directions, and move its limits.
const OF_A_STREAM: u64 = 4;

impl Audit {
    /// Nothing has come yet from that address.
    pub(super) fn new(address: SocketAddr) -> Audit {
        let (control, frames, received, bytes, sent, streams) = Default::default();
        Audit { control, frames, received, bytes, sent, streams, moved: 0, lost: 0, address }
    }

    /// Takes in what has happened, and tells what it costs.
    pub(super) fn look(&mut self, link: &Link, figures: &mut LineFigures) -> u32 {
        let stats = link.quic.stats();
        let now = Audit {
            control: control(&stats),
            frames: frames(&stats.frame_rx),
            received: stats.udp_rx.datagrams,
            bytes: stats.udp_rx.bytes,
            sent: stats.udp_tx.datagrams,
            streams: link.streams,
            moved: link.moved,
            lost: stats.path.lost_packets,
            address: link.quic.remote_address(),
        };
        figures.migrations += u64::from(now.address != self.address);
        // A new path begins to count anew.
        figures.lost += now.lost.saturating_sub(self.lost);
        let cost = self.cost_until(&now);
        *self = now;
        cost
    }

    fn cost_until(&self, now: &Audit) -> u32 {
        let since = |of: fn(&Audit) -> u64| of(now).saturating_sub(of(self));
        let (streams, moved) = (since(|it| it.streams), since(|it| it.moved));
        let control = since(|it| it.control);
        let control = control.saturating_sub(FREE + OF_A_STREAM * streams + moved / A_FRAME);
        let (sent, bytes) = (since(|it| it.sent), since(|it| it.bytes));
        let free = FREE + 2 * sent + moved / A_DATAGRAM + bytes / FULL;
        let received = since(|it| it.received).min(since(|it| it.frames)).saturating_sub(free);
        u32::try_from((control + received) / A_POINT).unwrap_or(u32::MAX)
    }
}

/// Those that a client may send on a connection that goes on, but for padding.
fn frames(frames: &FrameStats) -> u64 {
    let of_streams = frames.stream + frames.reset_stream + frames.stop_sending;
    of_streams + frames.acks + frames.ack_frequency + frames.crypto + steering(frames)
}

fn control(stats: &ConnectionStats) -> u64 {
    let (frames, datagrams) = (&stats.frame_rx, stats.udp_rx.datagrams);
    let of_streams = frames.reset_stream
        + frames.stop_sending
        + frames.stream.saturating_sub(STREAMS * datagrams);
    let of_acks = frames.acks.saturating_sub(datagrams) + frames.ack_frequency;
    of_streams + of_acks + frames.crypto + steering(frames)
}

/// Those that are about paths, ids and limits.
fn steering(frames: &FrameStats) -> u64 {
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
    of_paths + of_ids + of_limits + frames.immediate_ack
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// What has come of each, beyond what is there already.
    #[derive(Clone, Copy, Default)]
    struct Came {
        control: u64,
        frames: u64,
        received: u64,
        bytes: u64,
        sent: u64,
        streams: u64,
        moved: u64,
    }

    fn cost(came: Came) -> u32 {
        const BEFORE: u64 = 1000;
        let Came { control, frames, received, bytes, sent, streams, moved } = came;
        let address = (Ipv4Addr::LOCALHOST, 1).into();
        let audit = |[control, frames, received, bytes, sent, streams, moved]: [u64; 7]| {
            let begun = Audit::new(address);
            Audit { control, frames, received, bytes, sent, streams, moved, ..begun }
        };
        let now = [control, frames, received, bytes, sent, streams, moved].map(|it| BEFORE + it);
        audit([BEFORE; 7]).cost_until(&audit(now))
    }

    #[test]
    fn what_gets_something_done_is_free() {
        let none = Came::default();
        for (name, came) in [
            ("nothing", none),
            ("a moment without data", Came { control: FREE, frames: FREE, received: FREE, ..none }),
            (
                "a download, and acknowledgements",
                Came {
                    control: 2000,
                    frames: 50_000,
                    received: 50_000,
                    sent: 25_000,
                    moved: 30 << 20,
                    ..none
                },
            ),
            (
                "an upload that few acknowledgements are sent for, and of which nothing was read",
                Came { frames: 50_000, received: 50_000, bytes: 60_000_000, sent: 500, ..none },
            ),
            (
                "short messages",
                Came {
                    frames: 5000,
                    received: 5000,
                    bytes: 350_000,
                    sent: 500,
                    moved: 200_000,
                    ..none
                },
            ),
            (
                "datagrams that only look like the peer's",
                Came { received: 1_000_000, bytes: 30_000_000, ..none },
            ),
            (
                "the same beside requests",
                Came { frames: 500, received: 1_000_000, bytes: 40_000_000, sent: 250, ..none },
            ),
            ("streams that end early", Came { control: 4000, streams: 1000, ..none }),
        ] {
            assert_eq!(cost(came), 0, "{name}");
        }
    }

    #[test]
    fn what_gets_nothing_done_costs() {
        let none = Came::default();
        assert_eq!(cost(Came { control: FREE + 160, ..none }), 10);
        assert_eq!(cost(Came { frames: FREE + 160, received: FREE + 160, ..none }), 10);
        let million = Came { control: 1_000_000, frames: 1_000_000, ..none };
        let many = Came { received: 1_000_000, bytes: 30_000_000, ..million };
        assert!(cost(many) > 100_000);
    }

    #[test]
    fn frames_beyond_need_are_counted() {
        let counted = |set: fn(&mut ConnectionStats)| {
            let mut stats = ConnectionStats::default();
            stats.udp_rx.datagrams = 10;
            set(&mut stats);
            control(&stats)
        };
        assert_eq!(counted(|_| {}), 0);
        assert_eq!(counted(|it| (it.frame_rx.stream, it.frame_rx.acks) = (160, 10)), 0);
        assert_eq!(counted(|it| it.frame_rx.stream = 4000), 4000 - 160, "most must be empty");
        assert_eq!(counted(|it| it.frame_rx.acks = 100), 90);
        assert_eq!(counted(|it| it.frame_rx.crypto = 100), 100);
        assert_eq!(counted(|it| it.frame_rx.reset_stream = 100), 100);
        assert_eq!(counted(|it| it.frame_rx.stop_sending = 100), 100);
    }

    /// Each frame that costs something by itself is among those that a datagram is charged for.
    #[test]
    fn frames_of_all_kinds_are_counted() {
        let mut stats = ConnectionStats::default();
        let rx = &mut stats.frame_rx;
        (rx.stream, rx.acks, rx.ack_frequency, rx.crypto, rx.reset_stream) = (1, 2, 4, 8, 16);
        (rx.stop_sending, rx.ping, rx.path_challenge, rx.path_response) = (32, 64, 128, 256);
        (rx.new_connection_id, rx.retire_connection_id, rx.immediate_ack) = (512, 1024, 2048);
        (rx.max_data, rx.max_stream_data, rx.max_streams_bidi) = (1 << 12, 1 << 13, 1 << 14);
        (rx.max_streams_uni, rx.data_blocked, rx.stream_data_blocked) = (1 << 15, 1 << 16, 1 << 17);
        (rx.streams_blocked_bidi, rx.streams_blocked_uni) = (1 << 18, 1 << 19);
        assert_eq!(frames(rx), (1 << 20) - 1);
    }
}
