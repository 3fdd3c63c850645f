//! How many threads run in the memory of a process.

use crate::system::procfs;

/// The threads of a process, as births and ends are told.
///
/// A process that shares its memory with another one (`vfork`, or `clone` with `CLONE_VM`) cannot
/// be told from one that was forked. Its parent waits meanwhile, unless that has further threads,
/// or asked for no such wait: the latter is not known of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Threads {
    /// How many there are, where that is known.
    count: Option<u32>,
    /// When they were counted: the times before and behind the look.
    counted: (u64, u64),
    /// When they were counted, or one was born or ended last: of the time before that the count
    /// tells nothing.
    since: u64,
    /// The memory may be that of a parent with further threads.
    may_be_lent: bool,
}

impl Threads {
    /// Behind an exec at that time: the one that executes it is left.
    pub(crate) fn behind_exec(time: u64) -> Self {
        Self {
            count: Some(1),
            since: time,
            ..Self::default()
        }
    }

    /// Of a process that was born at that time, by what is known of its parent's.
    pub(crate) fn forked(parent: Option<Self>, time: u64) -> Self {
        Self {
            count: Some(1),
            since: time,
            may_be_lent: !parent.is_some_and(|parent| parent.are_one(time)),
            ..Self::default()
        }
    }

    /// Those that were counted, and the times before and behind the look.
    pub(crate) fn counted((count, before, behind): (u32, u64, u64)) -> Self {
        Self {
            count: Some(count),
            counted: (before, behind),
            since: before,
            ..Self::default()
        }
    }

    /// How many threads a live process has, and the times before and behind the look.
    pub(crate) fn look(pid: sampler::Pid) -> Option<(u32, u64, u64)> {
        let before = sampler::clock_now();
        let count = procfs::threads(pid)?;
        Some((count, before, sampler::clock_now()))
    }

    /// One was born.
    pub(crate) fn born(&mut self, time: u64) {
        self.change(time, |count| count.saturating_add(1));
    }

    /// One ended.
    pub(crate) fn ended(&mut self, time: u64) {
        self.change(time, |count| count.saturating_sub(1));
    }

    fn change(&mut self, time: u64, to: impl FnOnce(u32) -> u32) {
        self.since = self.since.max(time);
        let (before, behind) = self.counted;
        self.count = match () {
            () if time < before => self.count,
            // It is not known whether it was counted.
            () if time <= behind => None,
            () => self.count.map(to),
        };
    }

    /// Births and ends were lost.
    pub(crate) fn lost(&mut self) {
        self.count = None;
    }

    /// Whether a single thread ran in this memory at a time that the records have come to. They may
    /// have gone on since, for samples wait: what was there before the last birth or end is not
    /// known then, nor what was there before they were counted.
    pub(crate) fn are_one(self, time: u64) -> bool {
        self.count == Some(1) && !self.may_be_lent && time >= self.since
    }

    /// Whether all have ended.
    pub(crate) fn are_gone(self) -> bool {
        self.count == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::Threads;

    /// What was counted already is not counted twice; what may have been makes the number unknown,
    /// and so it is before that.
    #[test]
    fn births_around_a_look() {
        let counted = Threads::counted((1, 10, 20));
        let behind = |time| {
            let mut threads = counted;
            threads.born(time);
            threads.are_one(time.max(10))
        };
        assert!(behind(9) && !behind(15) && !behind(21));
        assert!(counted.are_one(10) && !counted.are_one(9));
        let mut again = counted;
        again.born(30);
        again.ended(40);
        assert!(again.are_one(40) && !again.are_one(39) && !again.are_one(29));
        let mut threads = counted;
        threads.ended(9);
        assert!(threads.are_one(25));
        threads.born(30);
        threads.ended(31);
        assert!(threads.are_one(31));
        threads.ended(32);
        assert!(threads.are_gone());
        let mut unsure = counted;
        unsure.ended(12);
        unsure.born(30);
        assert!(!unsure.are_one(30) && !unsure.are_gone());
    }

    /// The child of a process with several threads may use their memory until it runs a program of
    /// its own.
    #[test]
    fn memory_of_a_parent() {
        let mut parent = Threads::behind_exec(0);
        let child = |parent| Threads::forked(parent, 5).are_one(5);
        assert!(child(Some(parent)));
        parent.born(1);
        assert!(!child(Some(parent)) && !child(None));
        parent.ended(2);
        assert!(child(Some(parent)));
        parent.lost();
        assert!(!parent.are_one(5));
    }
}
