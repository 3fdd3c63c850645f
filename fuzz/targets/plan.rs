//! Any code and any limits as a plan.

#![no_main]

#[path = "../../interpreter/tests/hostile/cases.rs"]
#[expect(dead_code, reason = "the other targets' cases are there too")]
mod cases;

libfuzzer_sys::fuzz_target!(|data: &[u8]| cases::plan(data));
