//! The `values` target under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan_fuzz::values::values(data));
