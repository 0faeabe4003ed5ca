//! Which gateway a call is meant for.

use crate::hex::hex;
use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path, PathBuf};
use titan_proxy::sha256;

/// The file that a gateway was started with.
#[derive(Clone, Debug)]
pub struct Identity {
    file: PathBuf,
    named: String,
}

impl Identity {
    /// The field with which a call says which gateway it is meant for, as [`Identity::name`] has it.
    pub const FIELD: &str = "Titan-Config-File";

    /// That of a gateway with this file; `None` if it is not there.
    pub fn of(file: &Path) -> Option<Identity> {
        Some(Identity { file: file.to_owned(), named: Identity::name(file)? })
    }

    /// What stands for a file in a field: the SHA-256 of its path, which may have any bytes. The path is the same by whatever way
    /// one gets to its directory; the file itself may be a link that leads elsewhere after each change.
    pub fn name(file: &Path) -> Option<String> {
        let file = path::absolute(file).ok()?;
        let directory = file.parent()?.canonicalize().ok()?;
        Some(hex(sha256(directory.join(file.file_name()?).as_os_str().as_bytes())))
    }

    /// Why a call that is meant for the gateway with that name is not for this one, if it is not.
    pub(crate) fn refusal(own: Option<&Identity>, named: &[u8]) -> Option<String> {
        match own {
            Some(own) if own.named.as_bytes() == named => None,
            Some(own) => Some(format!(
                "the gateway here was started with another file, {}: name the socket of the one that you mean with `--socket`",
                own.file.display()
            )),
            None => Some("the gateway here was started without a file".to_owned()),
        }
    }
}
