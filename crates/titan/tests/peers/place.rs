//! Addresses and folders that no other test uses.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

/// A temporary folder; removed when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("titan-peers-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file into it, and tells where.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A loopback address of this caller's own (all of 127.0.0.0/8 is this machine). A port that is free there stays free:
/// no other process binds it, and the kernel takes no source port there by itself.
pub(crate) fn own_ip() -> IpAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let [.., high, low] = std::process::id().to_be_bytes();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // 0 and 255 at the end are no addresses of a machine.
    let (block, [_, last]) = (number / 254, (number % 254 + 1).to_be_bytes());
    assert!(block < 2, "more addresses than one process has");
    let block = if block == 0 { 64 } else { 192 };
    Ipv4Addr::new(127, block | high, low, last).into()
}

/// A free port on an address of its own.
pub(crate) fn own_address() -> SocketAddr {
    let listener = TcpListener::bind((own_ip(), 0)).unwrap();
    listener.local_addr().unwrap()
}
