//! A fence around libraries that parse what may be hostile files.
//!
//! Our own code checks what it reads. The symbol libraries trust some of the
//! numbers in a file, and a broken one makes them panic; that must cost a name,
//! not the report.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static FENCED: Cell<bool> = const { Cell::new(false) };
}

/// Makes panics inside [`fenced`] silent; others are printed as ever.
pub(crate) fn install() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !FENCED.get() {
            print(info);
        }
    }));
}

/// What `parse` gives, or `None` if it panicked. What `parse` may leave
/// half-changed must not be used after that.
pub(crate) fn fenced<T>(parse: impl FnOnce() -> T) -> Option<T> {
    let outer = FENCED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(parse)).ok();
    FENCED.set(outer);
    result
}

/// Whether this thread is inside the fence.
pub(crate) fn is_fenced() -> bool {
    FENCED.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A panic inside the fence becomes `None`, and the fence is taken down again.
    #[test]
    fn panics_stay_inside() {
        assert_eq!(fenced(|| 7), Some(7));
        let empty: [u8; 0] = [];
        assert_eq!(fenced(|| std::hint::black_box(&empty[..])[0]), None);
        assert!(!FENCED.get());
    }
}
