//! Where loads of one instruction are, as seen from each other.

/// Where a load is, as seen from the last one of the same instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locality {
    /// In the same line of memory.
    Line = 0,
    /// In another line of the same page.
    Page = 1,
    /// In another page.
    Elsewhere = 2,
}

impl Locality {
    /// Bytes of a line of memory.
    pub const LINE: u64 = 64;
    /// Bytes of a page.
    pub const PAGE: u64 = 4096;

    /// Where `next` is, as seen from `last`.
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
    use super::Locality;

    /// Lines and pages tell, whichever way the loads go.
    #[test]
    fn localities() {
        for (last, next, locality) in [
            (0x1000, 0x103f, Locality::Line),
            (0x103f, 0x1040, Locality::Page),
            (0x1040, 0x103f, Locality::Page),
            (0x1fff, 0x2000, Locality::Elsewhere),
            (0, u64::MAX, Locality::Elsewhere),
        ] {
            assert_eq!(Locality::between(last, next), locality);
        }
    }
}
