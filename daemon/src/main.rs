//! The program `vcpid`.

use std::process::ExitCode;

/// Samples are made on one thread and freed on another, and what a flush frees lies between what
/// stays. The usual allocator gives little of that back, and takes its time over it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    vcpid::run()
}
