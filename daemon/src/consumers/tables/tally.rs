//! What is counted at every sample.

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
    /// The counters by kind and name.
    pub(super) fn each(&self) -> [(&'static str, &'static str, u64); 12] {
        [
            ("run", "samples", self.samples),
            ("run", "kernel_samples", self.kernel_samples),
            ("run", "user_samples", self.user_samples),
            ("run", "windows_thinned", self.windows_thinned),
            ("run", "windows_thinned_early", self.windows_thinned_early),
            ("run", "windows_without_way", self.windows_without_way),
            ("run", "windows_crowded", self.windows_crowded),
            ("interval", "count", self.samples),
            ("interval", "sum", self.interval_sum),
            ("coverage", "user_samples", self.user_samples),
            ("coverage", "user_samples_with_caller", self.callers),
            (
                "coverage",
                "callers_beyond_stack_copy",
                self.callers_beyond_stack_copy,
            ),
        ]
    }
}
