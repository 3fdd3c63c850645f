//! Where loads of one instruction are, as seen from each other.

/// Where a load is, as seen from the last one of the same instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// In the same line of memory.
    Line = 0,
    /// In another line of the same page.
    Page = 1,
    /// In another page.
    Elsewhere = 2,
}

impl Step {
    /// Bytes of a line of memory.
    pub const LINE: u64 = 64;
    /// Bytes of a page.
    pub const PAGE: u64 = 4096;

    /// The step from one address to another.
    pub const fn between(last: u64, next: u64) -> Self {
        if last / Self::LINE == next / Self::LINE {
            Self::Line
        } else if last / Self::PAGE == next / Self::PAGE {
            Self::Page
        } else {
            Self::Elsewhere
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Step;

    /// A step is told by lines and pages, whichever way it goes.
    #[test]
    fn steps() {
        for (last, next, step) in [
            (0x1000, 0x103f, Step::Line),
            (0x103f, 0x1040, Step::Page),
            (0x1040, 0x103f, Step::Page),
            (0x1fff, 0x2000, Step::Elsewhere),
            (0, u64::MAX, Step::Elsewhere),
        ] {
            assert_eq!(Step::between(last, next), step);
        }
    }
}
