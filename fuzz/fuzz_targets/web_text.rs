//! The `web_text` target under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| titan_fuzz::web_text::web_text(data));
