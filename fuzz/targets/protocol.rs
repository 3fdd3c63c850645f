//! Any bytes as what the other side of the service's socket sent.

#![no_main]

#[path = "../../protocol/tests/hostile/cases.rs"]
mod cases;

libfuzzer_sys::fuzz_target!(|data: &[u8]| cases::decode(data));
