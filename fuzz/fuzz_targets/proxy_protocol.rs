//! The `proxy_protocol` target under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan_fuzz::proxy_protocol::proxy_protocol(data));
