//! Any bytes as a path.

#![no_main]

#[path = "../../interpreter/tests/hostile/cases.rs"]
#[expect(dead_code, reason = "the other targets' cases are there too")]
mod cases;

libfuzzer_sys::fuzz_target!(|data: &[u8]| cases::path(data));
