//! What the service manager is told, as sd_notify(3) describes it. Without one it is told nothing.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// Tells the service manager how it stands.
#[derive(Debug)]
pub(super) struct Manager {
    /// How often it wants to hear that there is progress; half of what it waits for.
    every: Option<Duration>,
    told: Instant,
    /// The progress that it was told of last.
    progress: u64,
}

impl Manager {
    pub(super) fn new() -> Self {
        Self {
            every: sd_notify::watchdog_enabled().map(|wait| wait / 2),
            told: Instant::now(),
            progress: 0,
        }
    }

    /// The service does what it is for.
    pub(super) fn ready(&self) {
        tell(&[NotifyState::Ready]);
    }

    pub(super) fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(error) => tracing::debug!(%error, "the time cannot be told"),
        }
    }

    pub(super) fn stopping(&self) {
        tell(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
    }

    /// A line for people.
    pub(super) fn status(&self, line: &str) {
        tell(&[NotifyState::Status(line)]);
    }

    /// Lets the watchdog know of progress, if there was any since the last time and it is due.
    /// `progress` is a number that grows with it.
    pub(super) fn alive(&mut self, progress: u64) {
        let due = self.every.is_some_and(|every| self.told.elapsed() >= every);
        if due && progress != self.progress {
            tell(&[NotifyState::Watchdog]);
            (self.told, self.progress) = (Instant::now(), progress);
        }
    }
}

fn tell(state: &[NotifyState<'_>]) {
    // A manager that does not listen is no reason to do anything else.
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "the service manager cannot be told");
    }
}
