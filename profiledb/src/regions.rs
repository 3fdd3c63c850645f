//! What lies where in the memory of a process.

/// Memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Region<I> {
    /// Its first address, a page's first.
    pub start: u64,
    /// The address behind its last.
    pub end: u64,
    /// What lies there.
    pub what: Mapped<I>,
}

/// What lies in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mapped<I> {
    /// The heap that `brk` moves the end of.
    Heap,
    /// A stack.
    Stack,
    /// Other memory without a file.
    Anon,
    /// An image.
    Image {
        /// Which.
        image: I,
        /// The image's own address of what lies at the region's start.
        address: u64,
    },
}

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;

impl<I> Region<I> {
    /// The same with an image that goes by another name.
    pub(crate) fn with_image<J>(self, name: &mut impl FnMut(I) -> J) -> Region<J> {
        let what = match self.what {
            Mapped::Heap => Mapped::Heap,
            Mapped::Stack => Mapped::Stack,
            Mapped::Anon => Mapped::Anon,
            Mapped::Image { image, address } => Mapped::Image {
                image: name(image),
                address,
            },
        };
        Region {
            start: self.start,
            end: self.end,
            what,
        }
    }

    /// The region that these columns tell of: `first`, `kind`, `pages`, `image`, `shown`. `None`:
    /// there is no such one.
    pub(crate) fn of_columns(
        (first, kind, pages): (u64, i64, u64),
        image: Option<(I, u64)>,
    ) -> Option<Region<I>> {
        let what = match (kind, image) {
            (1, None) => Mapped::Heap,
            (2, None) => Mapped::Stack,
            (3, None) => Mapped::Anon,
            (4, Some((image, shown))) => Mapped::Image {
                image,
                address: shown.checked_mul(PAGE)?,
            },
            _ => return None,
        };
        let end = first.checked_add(pages)?.checked_mul(PAGE)?;
        (pages > 0).then_some(Region {
            start: first * PAGE,
            end,
            what,
        })
    }
}

impl<I> Mapped<I> {
    /// The number of the kind.
    pub(crate) fn kind(&self) -> i64 {
        match self {
            Mapped::Heap => 1,
            Mapped::Stack => 2,
            Mapped::Anon => 3,
            Mapped::Image { .. } => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns that contradict each other tell of no region.
    #[test]
    fn columns() {
        let of = |first, kind, pages, image| Region::of_columns((first, kind, pages), image);
        let heap = Region {
            start: 0x5000,
            end: 0x7000,
            what: Mapped::Heap,
        };
        assert_eq!(of(5, 1, 2, None::<((), u64)>), Some(heap));
        assert_eq!(of(5, 1, 2, Some(((), 0))), None);
        assert_eq!(of(5, 4, 2, None), None);
        assert_eq!(of(5, 5, 2, None), None);
        assert_eq!(of(5, 1, 0, None), None);
        assert_eq!(of(u64::MAX, 1, 2, None), None);
        assert_eq!(of(1, 1, u64::MAX / 4096, None), None);
        assert_eq!(of(5, 4, 2, Some(((), u64::MAX))), None);
    }
}
