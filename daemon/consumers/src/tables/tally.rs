//! What is counted at every sample.

use counters::Counter;

/// Counters of the table `counter` of the database that are added to with every sample: what is
/// counted seldom is looked up by its name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// [`Counter::KernelSamples`].
    pub kernel_samples: u64,
    /// [`Counter::UserSamples`].
    pub user_samples: u64,
    /// [`Counter::Samples`].
    pub samples: u64,
    /// [`Counter::IntervalSum`], in the clock's unit.
    pub interval_sum: u64,
    /// [`Counter::UserSamplesWithCaller`].
    pub callers: u64,
    /// [`Counter::CallersBeyondStackCopy`].
    pub callers_beyond_stack_copy: u64,
    /// [`Counter::WindowsThinned`].
    pub windows_thinned: u64,
    /// [`Counter::WindowsThinnedEarly`].
    pub windows_thinned_early: u64,
    /// [`Counter::WindowsWithoutWay`].
    pub windows_without_way: u64,
    /// [`Counter::WindowsCrowded`].
    pub windows_crowded: u64,
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
