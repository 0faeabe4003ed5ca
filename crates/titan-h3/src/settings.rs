//! What each side announces (RFC 9114 section 7.2.4).

use crate::code::Code;
use crate::varint;

/// What a peer has announced. What it says nothing of is as it is here by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// SETTINGS_QPACK_MAX_TABLE_CAPACITY (RFC 9204 section 5).
    pub table_capacity: u64,
    /// SETTINGS_QPACK_BLOCKED_STREAMS (RFC 9204 section 5).
    pub blocked_streams: u64,
    /// SETTINGS_MAX_FIELD_SECTION_SIZE (RFC 9114 section 4.2.2).
    pub field_section: u64,
    /// SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 9220).
    pub extended_connect: bool,
    /// SETTINGS_H3_DATAGRAM (RFC 9297 section 2.1.1).
    pub datagrams: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            table_capacity: 0,
            blocked_streams: 0,
            field_section: u64::MAX,
            extended_connect: false,
            datagrams: false,
        }
    }
}

const TABLE_CAPACITY: u64 = 0x1;
const FIELD_SECTION: u64 = 0x6;
const BLOCKED_STREAMS: u64 = 0x7;
const EXTENDED_CONNECT: u64 = 0x8;
const DATAGRAMS: u64 = 0x33;
/// Settings that a frame may have. None is known that needs more, and each is compared with those before it.
const MAX_SETTINGS: usize = 32;
/// Bytes of a frame with as many.
pub const MAX_PAYLOAD: u64 = 16 * MAX_SETTINGS as u64;

impl Settings {
    /// Reads the payload of a SETTINGS frame.
    ///
    /// # Errors
    ///
    /// H3_SETTINGS_ERROR for a setting that stands there twice, that HTTP/2 has and HTTP/3 must not, or that cannot have that value;
    /// H3_FRAME_ERROR where it ends within one; H3_EXCESSIVE_LOAD for too many.
    pub fn read(payload: &[u8]) -> Result<Settings, Code> {
        let (mut settings, mut seen, mut rest) = (Settings::default(), Vec::new(), payload);
        while !rest.is_empty() {
            let (id, first) = varint::read(rest).ok_or(Code::Frame)?;
            let (value, second) = varint::read(&rest[first..]).ok_or(Code::Frame)?;
            rest = &rest[first + second..];
            if seen.contains(&id) {
                return Err(Code::Settings);
            }
            if seen.len() == MAX_SETTINGS {
                return Err(Code::ExcessiveLoad);
            }
            seen.push(id);
            settings.take(id, value)?;
        }
        Ok(settings)
    }

    fn take(&mut self, id: u64, value: u64) -> Result<(), Code> {
        let switch = |value| match value {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Code::Settings),
        };
        match id {
            TABLE_CAPACITY => self.table_capacity = value,
            FIELD_SECTION => self.field_section = value,
            BLOCKED_STREAMS => self.blocked_streams = value,
            EXTENDED_CONNECT => self.extended_connect = switch(value)?,
            DATAGRAMS => self.datagrams = switch(value)?,
            // What they mean in HTTP/2 has no place here (section 7.2.4.1).
            0x0 | 0x2..=0x5 => return Err(Code::Settings),
            _ => {}
        }
        Ok(())
    }

    /// Appends the payload of a SETTINGS frame: what is not as it is by default.
    pub fn write(&self, out: &mut Vec<u8>) {
        let default = Settings::default();
        let mut setting = |id, value, default| {
            if value != default {
                varint::write(out, id);
                varint::write(out, value);
            }
        };
        setting(TABLE_CAPACITY, self.table_capacity, default.table_capacity);
        setting(FIELD_SECTION, self.field_section, default.field_section);
        setting(BLOCKED_STREAMS, self.blocked_streams, default.blocked_streams);
        setting(EXTENDED_CONNECT, self.extended_connect.into(), default.extended_connect.into());
        setting(DATAGRAMS, self.datagrams.into(), default.datagrams.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn payload(settings: &[(u64, u64)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (id, value) in settings {
            varint::write(&mut out, *id);
            varint::write(&mut out, *value);
        }
        out
    }

    #[test]
    fn wrong_settings_have_their_code() {
        let known = [(1, 4096), (6, 16_384), (7, 16), (8, 1), (0x33, 1)];
        let settings = Settings::read(&payload(&known)).unwrap();
        assert_eq!((settings.table_capacity, settings.blocked_streams), (4096, 16));
        assert_eq!(
            (settings.field_section, settings.extended_connect, settings.datagrams),
            (16_384, true, true)
        );
        assert_eq!(Settings::read(&payload(&[(0x21, 7), (0x40, 1)])), Ok(Settings::default()));
        for id in [0, 2, 3, 4, 5] {
            assert_eq!(Settings::read(&payload(&[(id, 1)])), Err(Code::Settings), "{id}");
        }
        for twice in [1, 6, 7, 8, 0x33, 0x21] {
            let settings = payload(&[(twice, 1), (twice, 1)]);
            assert_eq!(Settings::read(&settings), Err(Code::Settings), "{twice}");
        }
        assert_eq!(Settings::read(&payload(&[(8, 2)])), Err(Code::Settings));
        assert_eq!(Settings::read(&payload(&[(0x33, 2)])), Err(Code::Settings));
        assert_eq!(Settings::read(&[0x40]), Err(Code::Frame));
        assert_eq!(Settings::read(&[0x1]), Err(Code::Frame));
        let many: Vec<_> = (100..100 + MAX_SETTINGS as u64).map(|id| (id, 0)).collect();
        assert!(Settings::read(&payload(&many)).is_ok());
        let more: Vec<_> = many.into_iter().chain([(99, 0)]).collect();
        assert_eq!(Settings::read(&payload(&more)), Err(Code::ExcessiveLoad));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(numbers in any::<[u32; 3]>(), extended_connect in any::<bool>(), datagrams in any::<bool>()) {
            let [table_capacity, blocked_streams, field_section] = numbers.map(u64::from);
            let settings = Settings { table_capacity, blocked_streams, field_section, extended_connect, datagrams };
            let mut out = Vec::new();
            settings.write(&mut out);
            prop_assert_eq!(Settings::read(&out), Ok(settings));
        }
    }
}
