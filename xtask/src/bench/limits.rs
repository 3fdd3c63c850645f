//! The kernel's limits of sampling.

use anyhow::{Context, Result};

/// The kernel's limits of sampling, out of the way while this lives: they would cut the highest
/// rate, and what one run made the kernel lower would hold for the next.
pub(super) struct Limits([(&'static str, String); 2]);

impl Limits {
    const RATE: &'static str = "/proc/sys/kernel/perf_event_max_sample_rate";
    const SHARE: &'static str = "/proc/sys/kernel/perf_cpu_time_max_percent";

    /// Lifts them.
    ///
    /// # Errors
    /// If they cannot be read or written, as by anyone but root.
    pub(super) fn lift() -> Result<Self> {
        let read = |path: &'static str| {
            std::fs::read_to_string(path)
                .map(|text| (path, text))
                .with_context(|| format!("reading {path}"))
        };
        // Written back in this order: the share sets the rate anew.
        let limits = Self([read(Self::SHARE)?, read(Self::RATE)?]);
        // Without a share the kernel takes no rate.
        for (path, value) in [(Self::RATE, "100000"), (Self::SHARE, "0")] {
            std::fs::write(path, value).with_context(|| format!("writing {path}"))?;
        }
        Ok(limits)
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        for (path, value) in &self.0 {
            if let Err(error) = std::fs::write(path, value) {
                eprintln!("{path} could not be put back to {}: {error}", value.trim());
            }
        }
    }
}
