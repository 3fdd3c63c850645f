//! What is said on the standard error stream.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::render::clean;

/// Whether the screen is drawn, and nothing is printed beside that.
static HUSHED: AtomicBool = AtomicBool::new(false);

/// Has nothing be said from now on, or again.
pub(crate) fn hush(is_hushed: bool) {
    HUSHED.store(is_hushed, Ordering::Relaxed);
}

/// One message on stderr, each of its lines marked. Whether it arrives is not
/// worth failing for.
pub(crate) fn say(message: &str) {
    if HUSHED.load(Ordering::Relaxed) {
        return;
    }
    let mut err = std::io::stderr().lock();
    for line in message.lines() {
        let _ = writeln!(err, "vcpi: {}", clean(line));
    }
}
