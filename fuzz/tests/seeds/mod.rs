//! What libFuzzer begins with: it finds few frames by itself, and no message that is valid.

use crate::random::Random;
use std::fs;
use std::path::Path;

/// How many there are of a target.
const COUNT: usize = 2000;

/// Writes some of a walk to where cargo-fuzz looks for what a target begins with.
pub(crate) fn write(target: &str, mut next: impl FnMut(&mut Random) -> Vec<u8>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder).expect("the folder of this package can be written to");
    let mut random = Random(0x7469_7461_6e00_0009);
    for number in 0..COUNT {
        let file = folder.join(format!("seed-{number}"));
        fs::write(file, next(&mut random)).expect("there is room");
    }
}
