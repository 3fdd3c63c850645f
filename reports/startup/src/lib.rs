//! What a program was started with, before Rust's runtime changes it.
//!
//! The runtime puts `/dev/null` in place of a standard descriptor that is closed, so that no file
//! that is opened later gets its number. Whoever then writes to standard output writes nowhere, and
//! nothing fails. Only code that runs before the runtime can tell the two apart.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether standard output was open.
static HAD_STDOUT: AtomicBool = AtomicBool::new(true);

/// Whether the program was started with an open standard output.
pub fn had_stdout() -> bool {
    HAD_STDOUT.load(Ordering::Relaxed)
}

/// Looks at standard output.
extern "C" fn look() {
    let is_open = rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_ok();
    HAD_STDOUT.store(is_open, Ordering::Relaxed);
}

/// Has the loader call [`look`] before the runtime begins.
// SAFETY: the loader calls what this section points to as C functions. `look` is one. It makes one
// system call and stores a byte: it needs nothing of the runtime, allocates nothing, and cannot
// panic.
#[expect(unsafe_code, reason = "only the section makes it run before `main`")]
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = look;
