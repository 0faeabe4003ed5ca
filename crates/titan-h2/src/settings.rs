//! SETTINGS (RFC 9113 section 6.5): what this side announces, and what the peer has announced.

use crate::code::Violation;
use crate::flow::FIRST_WINDOW;
use crate::frame;
use crate::limits::Limits;

const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;
const ENABLE_CONNECT_PROTOCOL: u16 = 8;

/// Which end of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Client,
}

/// What the peer has announced, as far as this side heeds it. The size of its table for fields is not:
/// what is written here uses none. Nor is its frame size: it is never below what is sent here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerSettings {
    /// Streams that it takes at the same time.
    pub(crate) streams: u32,
    /// What it lets each stream send before it says more.
    pub(crate) window: i64,
    /// It knows extended CONNECT (RFC 8441).
    pub(crate) extended_connect: bool,
    /// The longest list of fields that it takes, by its own account.
    pub(crate) list: u64,
}

impl PeerSettings {
    /// What holds until the peer has spoken: no limit on streams is what the RFC says, and this many are
    /// what it recommends everyone to allow.
    pub(crate) fn unknown() -> PeerSettings {
        PeerSettings { streams: 100, window: FIRST_WINDOW, extended_connect: false, list: u64::MAX }
    }

    /// Reads a payload. A setting that comes twice counts as it comes last.
    pub(crate) fn read(&mut self, payload: &[u8], us: Role) -> Result<(), Violation> {
        for setting in payload.chunks_exact(6) {
            let id = u16::from_be_bytes([setting[0], setting[1]]);
            self.set(id, frame::whole_number(&setting[2..]), us)?;
        }
        Ok(())
    }

    fn set(&mut self, id: u16, value: u32, us: Role) -> Result<(), Violation> {
        let is_flag = value <= 1;
        match id {
            ENABLE_PUSH if !is_flag || us == Role::Client && value != 0 => {
                return Err(Violation::SettingValue);
            }
            MAX_CONCURRENT_STREAMS => self.streams = value,
            INITIAL_WINDOW_SIZE if value > frame::MAX_31 => return Err(Violation::SettingWindow),
            INITIAL_WINDOW_SIZE => self.window = i64::from(value),
            MAX_FRAME_SIZE if !(1 << 14..1 << 24).contains(&value) => {
                return Err(Violation::SettingValue);
            }
            MAX_HEADER_LIST_SIZE => self.list = value.into(),
            ENABLE_CONNECT_PROTOCOL if !is_flag || self.extended_connect && value == 0 => {
                return Err(Violation::SettingValue);
            }
            ENABLE_CONNECT_PROTOCOL => self.extended_connect = value == 1,
            _ => {}
        }
        Ok(())
    }
}

/// Appends the SETTINGS of this side.
pub(crate) fn write(out: &mut Vec<u8>, limits: &Limits, us: Role) {
    // A server aborts a response whose trailers are longer than this.
    let list = if us == Role::Client { limits.longest_list() } else { limits.head };
    let list = u32::try_from(list).unwrap_or(u32::MAX);
    let first = match us {
        Role::Server => [(MAX_CONCURRENT_STREAMS, limits.streams), (ENABLE_CONNECT_PROTOCOL, 1)],
        Role::Client => [(ENABLE_PUSH, 0), (MAX_CONCURRENT_STREAMS, 0)],
    };
    let both = [(INITIAL_WINDOW_SIZE, limits.stream_window), (MAX_HEADER_LIST_SIZE, list)];
    frame::write_head(out, 6 * (first.len() + both.len()), frame::SETTINGS, 0, 0);
    for (id, value) in first.into_iter().chain(both) {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(id: u16, value: u32, us: Role) -> Result<PeerSettings, Violation> {
        let mut settings = PeerSettings::unknown();
        let mut payload = id.to_be_bytes().to_vec();
        payload.extend_from_slice(&value.to_be_bytes());
        settings.read(&payload, us).map(|()| settings)
    }

    #[test]
    fn values_are_held_to_their_ranges() {
        let bad = Some(Violation::SettingValue);
        for (id, value, us, outcome) in [
            (ENABLE_PUSH, 1, Role::Server, None),
            (ENABLE_PUSH, 2, Role::Server, bad),
            (ENABLE_PUSH, 1, Role::Client, bad),
            (ENABLE_PUSH, 0, Role::Client, None),
            (INITIAL_WINDOW_SIZE, frame::MAX_31, Role::Server, None),
            (INITIAL_WINDOW_SIZE, 1 << 31, Role::Server, Some(Violation::SettingWindow)),
            (MAX_FRAME_SIZE, 16_383, Role::Server, bad),
            (MAX_FRAME_SIZE, 16_384, Role::Server, None),
            (MAX_FRAME_SIZE, (1 << 24) - 1, Role::Server, None),
            (MAX_FRAME_SIZE, 1 << 24, Role::Server, bad),
            (ENABLE_CONNECT_PROTOCOL, 2, Role::Client, bad),
            (0xff, u32::MAX, Role::Client, None),
        ] {
            assert_eq!(read(id, value, us).err(), outcome, "{id} = {value}");
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        for us in [Role::Server, Role::Client] {
            let mut out = Vec::new();
            write(&mut out, &Limits::default(), us);
            let mut settings = PeerSettings::unknown();
            let them = if us == Role::Server { Role::Client } else { Role::Server };
            settings.read(&out[frame::HEAD..], them).unwrap();
            assert_eq!(settings.window, i64::from(Limits::default().stream_window));
            assert_eq!(settings.extended_connect, us == Role::Server);
            assert!(settings.list < u64::MAX);
        }
    }
}
