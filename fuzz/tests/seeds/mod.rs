//! What libFuzzer begins with: it finds few frames by itself, and no message that is valid.

use crate::random::Random;
use std::fs;
use std::path::PathBuf;

/// How many there are of a target.
const COUNT: usize = 1000;

/// Writes some of a walk to where `scripts/fuzz.sh` looks for what a target begins with.
pub(crate) fn write(target: &str, mut next: impl FnMut(&mut Random) -> Vec<u8>) {
    let folder = std::env::var_os("FUZZ_SEEDS").expect("FUZZ_SEEDS names a folder");
    let folder = PathBuf::from(folder).join(target);
    fs::create_dir_all(&folder).expect("the folder can be written to");
    let mut random = Random(0x7469_7461_6e00_0009);
    for number in 0..COUNT {
        let file = folder.join(format!("seed-{number}"));
        fs::write(file, next(&mut random)).expect("there is room");
    }
}
