//! Settings of the kernel that a measurement changes for as long as it lasts.

use std::sync::Arc;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Settings as they were, which are put back at the end, also if a signal is the end.
pub(super) struct Limits(Arc<Settings>);

struct Settings(Vec<(&'static str, String)>);

impl Limits {
    const RATE: &'static str = "/proc/sys/kernel/perf_event_max_sample_rate";
    const SHARE: &'static str = "/proc/sys/kernel/perf_cpu_time_max_percent";
    const STATISTICS: &'static str = "/proc/sys/kernel/bpf_stats_enabled";

    /// Lifts the limits of sampling: they would cut the highest rate, and what one run made the
    /// kernel lower would hold for the next.
    ///
    /// # Errors
    /// If they cannot be read or written, as by anyone but root.
    pub(super) fn lift() -> Result<Self> {
        // Written back in the other order: the share sets the rate anew. Without a share the kernel
        // takes no rate.
        Self::set(&[(Self::RATE, "100000"), (Self::SHARE, "0")])
    }

    /// Has the kernel count how long BPF programs run, which makes each of them a little slower.
    ///
    /// # Errors
    /// As [`Limits::lift`].
    pub(super) fn count_programs() -> Result<Self> {
        Self::set(&[(Self::STATISTICS, "1")])
    }

    fn set(settings: &[(&'static str, &str)]) -> Result<Self> {
        let read = |&(path, _): &(&'static str, &str)| {
            std::fs::read_to_string(path)
                .map(|text| (path, text))
                .with_context(|| format!("reading {path}"))
        };
        let old = settings.iter().rev().map(read).collect::<Result<_>>()?;
        let limits = Self(Arc::new(Settings(old)));
        limits.put_back_on_signals()?;
        for (path, value) in settings {
            std::fs::write(path, value).with_context(|| format!("writing {path}"))?;
        }
        Ok(limits)
    }

    /// Has what ends programs wait for the settings. The signals are caught and not blocked:
    /// profilers that are started would inherit that, and never hear that they are to end.
    fn put_back_on_signals(&self) -> Result<()> {
        let mut ends = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("catching signals")?;
        let settings = Arc::clone(&self.0);
        std::thread::spawn(move || {
            if let Some(signal) = ends.forever().next() {
                settings.put_back();
                std::process::exit(128 + signal);
            }
        });
        Ok(())
    }
}

impl Settings {
    fn put_back(&self) {
        for (path, value) in &self.0 {
            if let Err(error) = std::fs::write(path, value) {
                eprintln!("{path} could not be put back to {}: {error}", value.trim());
            }
        }
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        self.0.put_back();
    }
}
