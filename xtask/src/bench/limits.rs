//! Settings of the kernel that a measurement changes for as long as it lasts.

use std::sync::Arc;

use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};

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

    /// Has what ends programs wait for the settings. Threads that run already are not asked.
    fn put_back_on_signals(&self) -> Result<()> {
        let ends = SigSet::from_iter([Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM]);
        ends.thread_block().context("blocking signals")?;
        let settings = Arc::clone(&self.0);
        std::thread::spawn(move || {
            if let Ok(signal) = ends.wait() {
                settings.put_back();
                std::process::exit(128 + signal as i32);
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
