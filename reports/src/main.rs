//! reports
mod args;
mod code;
mod elf;
mod render;
mod values;
fn main() {}
