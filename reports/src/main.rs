//! reports
fn main() {}
