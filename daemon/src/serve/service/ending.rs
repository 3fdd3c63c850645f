//! How long the service takes to end: so much time as it is given, not counting that in which it
//! was ready to run and had no processor.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use machine::system::procfs;

/// How long it looks at what has come before it ends; what it has is saved after that.
const LAST_LOOKS: Duration = Duration::from_secs(1);

/// How long it takes for that and for saving.
const LAST_SAVE: Duration = Duration::from_secs(4);

/// When it ends, whatever it is kept waiting for.
const LAST: Duration = Duration::from_millis(4700);

/// The most that is added for want of processor time: the service manager kills what takes a
/// minute and a half.
const MOST_DELAY: Duration = Duration::from_secs(45);

/// How often it is looked at whether the last moment has come.
const LOOK: Duration = Duration::from_millis(200);

/// Exit status where not all could be saved in time.
const UNFINISHED: i32 = 125;

/// An end that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    asked: Instant,
    /// How long the process had waited for processors by then.
    delayed: Duration,
}

impl Ending {
    /// It is asked for now.
    pub(super) fn now() -> Self {
        Self {
            asked: Instant::now(),
            delayed: procfs::delay(),
        }
    }

    /// Until when it looks at what has come.
    pub(super) fn looks_until(&self) -> Instant {
        self.until(LAST_LOOKS)
    }

    /// Until when saving is waited for.
    pub(super) fn saves_until(&self) -> Instant {
        self.until(LAST_SAVE)
    }

    /// Why it is not done yet.
    pub(super) fn cause(&self) -> &'static str {
        match self.delay() * 2 > self.asked.elapsed() {
            true => "vcpid gets too little processor time",
            false => "the disk took too long",
        }
    }

    fn until(&self, time: Duration) -> Instant {
        let plain = self.asked + time;
        // To ask for the delay costs more than to look at the time.
        match Instant::now() < plain {
            true => plain,
            false => plain + self.delay(),
        }
    }

    /// For how long it has been kept waiting for a processor.
    fn delay(&self) -> Duration {
        counted(procfs::delay().saturating_sub(self.delayed))
    }
}

/// What is added for a delay.
fn counted(delay: Duration) -> Duration {
    delay.min(MOST_DELAY)
}

/// Has the process end some time after the first signal to end, `saved` saying whether all is saved
/// by then: a thread that waits for the disk cannot look at the time. What is written then, and not
/// whole, is as that of a service that was killed.
pub(super) fn end_in_time(saved: Arc<AtomicBool>) -> Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("cannot handle signals")?;
    let wait = move || {
        if signals.forever().next().is_none() {
            return;
        }
        let ending = Ending::now();
        while Instant::now() < ending.until(LAST) {
            thread::sleep(LOOK);
        }
        tracing::warn!("it ends without waiting any longer: {}", ending.cause());
        let saved = saved.load(Ordering::Relaxed);
        process::exit(if saved { 0 } else { UNFINISHED });
    };
    let thread = thread::Builder::new().name("end".to_owned());
    thread.spawn(wait).context("cannot start a thread")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An end that is due is put off by the time that the process waited for processors since it
    /// was asked for, and by no other; the cause is told by it.
    #[test]
    fn waits_for_processors() {
        let long_ago = Instant::now() - Duration::from_secs(20);
        let at_ease = Ending {
            asked: long_ago,
            delayed: Duration::MAX,
        };
        assert_eq!(at_ease.looks_until(), long_ago + LAST_LOOKS);
        assert_eq!(at_ease.saves_until(), long_ago + LAST_SAVE);
        assert_eq!(at_ease.cause(), "the disk took too long");
        let fresh = Ending::now();
        assert_eq!(fresh.looks_until(), fresh.asked + LAST_LOOKS);
        assert_eq!(counted(Duration::from_secs(30)), Duration::from_secs(30));
        assert_eq!(counted(Duration::from_secs(3600)), MOST_DELAY);
    }
}
