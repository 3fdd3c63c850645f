//! Live tests.
fn main() {}
