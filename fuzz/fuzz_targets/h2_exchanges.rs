//! The `h2_exchanges` target under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan_fuzz::h2_exchanges::h2_exchanges(data));
