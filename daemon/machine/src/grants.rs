//! What samples of a process may access, as was found for others before.

use std::cell::Cell;

use interpreter::Access;

/// So many are remembered: the stack, the heap, and some more.
const GRANTS: usize = 6;

/// What samples may access, the newest first.
#[derive(Clone, Debug)]
pub(crate) struct Grants(Cell<[Grant; GRANTS]>);

/// Addresses at which samples up to a time may access memory.
#[derive(Clone, Copy, Debug)]
struct Grant {
    first: u64,
    last: u64,
    access: Access,
    time: u64,
}

impl Grant {
    /// For no sample.
    const NONE: Self = Self {
        first: 1,
        last: 0,
        access: Access::Load,
        time: 0,
    };
}

impl Default for Grants {
    fn default() -> Self {
        Self(Cell::new([Grant::NONE; GRANTS]))
    }
}

impl Grants {
    /// Something has changed.
    pub(crate) fn forget(&self) {
        self.0.set([Grant::NONE; GRANTS]);
    }

    /// Addresses around these bytes that a sample of that time may access, if that was
    /// [found](Self::add) before.
    #[inline]
    pub(crate) fn find(
        &self,
        address: u64,
        bytes: u64,
        access: Access,
        time: u64,
    ) -> Option<(u64, u64)> {
        let last = address.saturating_add(bytes - 1);
        let grants = self.0.get();
        let mut fitting = grants
            .iter()
            .filter(|grant| grant.first <= address && last <= grant.last && time <= grant.time);
        let grant = fitting.find(|grant| grant.access == access)?;
        Some((grant.first, grant.last))
    }

    /// Samples up to that time may access these addresses: the kernel was asked behind them.
    pub(crate) fn add(&self, first: u64, last: u64, access: Access, time: u64) {
        let mut grants = self.0.get();
        let same = |old: &Grant| old.access == access && old.first == first && old.last == last;
        let place = grants.iter().position(same).unwrap_or(GRANTS - 1);
        grants[..=place].rotate_right(1);
        grants[0] = Grant {
            first,
            last,
            access,
            time,
        };
        self.0.set(grants);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was granted holds for earlier samples and the same kind of access, until something
    /// changes; the oldest of many is given up.
    #[test]
    fn grants() {
        let grants = Grants::default();
        let find = |at, access, time| grants.find(at, 8, access, time);
        grants.add(0x1000, 0x2fff, Access::Store, 5);
        assert_eq!(find(0x1ffc, Access::Store, 5), Some((0x1000, 0x2fff)));
        assert_eq!(find(0x2ffc, Access::Store, 5), None);
        assert_eq!(find(0x1ffc, Access::Store, 6), None);
        assert_eq!(find(0x1ffc, Access::Load, 5), None);
        grants.add(0x1000, 0x2fff, Access::Store, 6);
        assert!(find(0x1ffc, Access::Store, 6).is_some());
        for i in 3..3 + GRANTS as u64 {
            grants.add(i << 12, (i << 12) + 0xfff, Access::Load, 6);
        }
        assert_eq!(find(0x1ffc, Access::Store, 5), None);
        assert!(find(0x3000, Access::Load, 5).is_some());
        grants.forget();
        assert_eq!(find(0x3000, Access::Load, 5), None);
    }
}
