//! What is counted at every sample.

use counters::Counter;

/// Counters of the table `counter` of the database that are added to with every sample: what is
/// counted seldom is looked up by its name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) kernel_samples: u64,
    pub(crate) user_samples: u64,
    /// Samples of all, and the sum of their intervals.
    pub(crate) samples: u64,
    pub(crate) interval_sum: u64,
    pub(crate) callers: u64,
    pub(crate) callers_beyond_stack_copy: u64,
    pub(crate) windows_thinned: u64,
    pub(crate) windows_thinned_early: u64,
    pub(crate) windows_without_way: u64,
    pub(crate) windows_crowded: u64,
}

impl Tally {
    /// The counters.
    pub(super) fn each(&self) -> [(Counter, u64); 12] {
        [
            (Counter::Samples, self.samples),
            (Counter::KernelSamples, self.kernel_samples),
            (Counter::UserSamples, self.user_samples),
            (Counter::WindowsThinned, self.windows_thinned),
            (Counter::WindowsThinnedEarly, self.windows_thinned_early),
            (Counter::WindowsWithoutWay, self.windows_without_way),
            (Counter::WindowsCrowded, self.windows_crowded),
            (Counter::Intervals, self.samples),
            (Counter::IntervalSum, self.interval_sum),
            (Counter::CoverageUserSamples, self.user_samples),
            (Counter::UserSamplesWithCaller, self.callers),
            (
                Counter::CallersBeyondStackCopy,
                self.callers_beyond_stack_copy,
            ),
        ]
    }
}
