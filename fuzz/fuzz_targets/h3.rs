//! The `h3` target under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan_fuzz::h3_connection::connection(data));
