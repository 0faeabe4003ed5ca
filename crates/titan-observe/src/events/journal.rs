//! Whether the journal reads what is written (systemd.exec(5)).

use rustix::fs::fstat;
use std::env;
use std::os::fd::AsFd;

/// Whether that file is the stream to the journal that the service manager has given to this process.
pub(super) fn reads(file: &impl AsFd) -> bool {
    let Ok(stat) = fstat(file) else { return false };
    let named = env::var("JOURNAL_STREAM").ok();
    named.and_then(|named| parse(&named)) == Some((stat.st_dev, stat.st_ino))
}

/// The numbers of a device and an inode, in `DEVICE:INODE`.
fn parse(named: &str) -> Option<(u64, u64)> {
    let (device, inode) = named.split_once(':')?;
    Some((device.parse().ok()?, inode.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_named_by_two_numbers() {
        assert_eq!(parse("9:12345"), Some((9, 12_345)));
        assert_eq!([parse(""), parse("9"), parse("9:x"), parse("9:1:2")], [None; 4]);
    }
}
