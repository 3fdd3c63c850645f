//! daemon
fn main() {}
