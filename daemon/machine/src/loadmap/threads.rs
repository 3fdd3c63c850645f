//! How many threads run in the memory of a process.

use crate::system::procfs;

/// The threads of a process, as births and ends are told.
///
/// A process that uses its parent's memory (`vfork`, or `clone` with `CLONE_VM`) cannot be told
/// from one that was forked. So behind a fork parent and child are looked at before they count as
/// alone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Threads {
    /// How many there are, where that is known.
    count: Option<u32>,
    /// When they were counted: the times before and behind the look.
    counted: (u64, u64),
    /// When they were counted, or one was born or ended last: of the time before that the count
    /// tells nothing.
    since: u64,
    /// No other process uses the memory: the times before and behind the look that saw it.
    own: Option<(u64, u64)>,
}

impl Threads {
    /// Behind an exec at that time: the one that executes it is left.
    pub(crate) fn behind_exec(time: u64) -> Self {
        Self {
            count: Some(1),
            since: time,
            own: Some((time, time)),
            ..Self::default()
        }
    }

    /// Of a process that was born at that time.
    pub(crate) fn forked(time: u64) -> Self {
        Self {
            count: Some(1),
            since: time,
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

    /// A process was born that may use the memory, too.
    pub(crate) fn lent(&mut self, time: u64) {
        self.own = self.own.filter(|(before, _)| time < *before);
    }

    /// No other process uses the memory, as was seen between these times.
    pub(crate) fn kept(&mut self, before: u64, behind: u64) {
        self.own = Some((before, behind));
    }

    /// Whether it is worth a look whether another process uses the memory.
    pub(crate) fn may_be_lent(self) -> bool {
        self.count == Some(1) && self.own.is_none()
    }

    /// Births and ends were lost.
    pub(crate) fn lost(&mut self) {
        self.count = None;
    }

    /// Whether a single thread ran in this memory at a time that the records have come to. They may
    /// have gone on since, for samples wait: what was there before the last birth or end is not
    /// known then, nor what was there before they were counted.
    pub(crate) fn are_one(self, time: u64) -> bool {
        let is_own = self.own.is_some_and(|(_, behind)| time >= behind);
        self.count == Some(1) && is_own && time >= self.since
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
        let mut counted = Threads::counted((1, 10, 20));
        counted.kept(5, 8);
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

    /// Behind a fork, nothing is known until somebody has looked whose the memory is.
    #[test]
    fn memory_of_several() {
        let mut parent = Threads::behind_exec(1);
        assert!(parent.are_one(1) && !parent.may_be_lent());
        parent.lent(5);
        let mut child = Threads::forked(5);
        for mut threads in [parent, child] {
            assert!(!threads.are_one(9) && threads.may_be_lent());
            threads.kept(7, 8);
            assert!(threads.are_one(8) && !threads.are_one(7));
        }
        child.kept(7, 10);
        // Seen, or not: it was born while they were looked through.
        let mut unseen = child;
        child.lent(6);
        unseen.lent(8);
        assert!(child.are_one(10) && !unseen.are_one(10));
        child.born(20);
        assert!(!child.are_one(20) && !child.may_be_lent());
        parent.lost();
        assert!(!parent.may_be_lent());
    }
}
