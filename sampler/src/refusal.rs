//! What the kernel refuses, in words, with what would mend it.

use std::fs;
use std::io;

use crate::error::ProbeError;
use crate::{Clock, Config, Error, Target};

/// Whose samples are meant, as far as privileges go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The whole machine.
    System,
    /// The caller's own processes.
    Own,
}

/// Puts a refusal into words.
pub(crate) fn refusal(clock: Clock, scope: Scope, error: &io::Error) -> ProbeError {
    let errno = error.raw_os_error().unwrap_or(0);
    let event = match clock {
        Clock::Cycles => "the hardware cycle counter",
        Clock::CpuClock => "the software clock",
        Clock::Timer => "a timer",
    };
    let whom = match scope {
        Scope::System => "the whole machine",
        Scope::Own => "a process",
    };
    let what = format!("{event} is refused for {whom}");
    let mend = match (errno, clock, scope) {
        (libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV, Clock::Cycles, _) => {
            "this machine has no such counter, as is common in virtual machines: use the clock \
             cpu-clock"
                .to_owned()
        }
        (libc::EACCES | libc::EPERM, _, Scope::System) => format!(
            "run as root or with CAP_PERFMON, or set the sysctl kernel.perf_event_paranoid to 0 \
             (it is {}), or profile an own command",
            paranoid_text()
        ),
        (libc::EACCES | libc::EPERM, _, Scope::Own) => own_refusal(perf_event_paranoid()),
        (libc::EMFILE, ..) => {
            "raise the limit of open files (ulimit -n): each thread needs one per CPU".to_owned()
        }
        (libc::ENOSYS, ..) => "the kernel was built without CONFIG_PERF_EVENTS".to_owned(),
        (libc::EBUSY, ..) => "another user holds the counter: end it, or wait".to_owned(),
        (libc::ESRCH, ..) => "the process has ended".to_owned(),
        _ => "the kernel gives no further reason; see perf_event_open(2)".to_owned(),
    };
    ProbeError { what, errno, mend }
}

/// What lets a process be sampled where `kernel.perf_event_paranoid` is this.
fn own_refusal(paranoid: Option<i32>) -> String {
    match paranoid {
        // The setting allows it, so the process does not.
        Some(..=2) => "another user's process, and one that has more rights than its user, can be \
                       sampled only by root or with CAP_PERFMON; without, profile a command \
                       (vcpid record -- CMD) or a process of your own; a container may forbid all \
                       of it (perf_event_open, by seccomp)"
            .to_owned(),
        _ => format!(
            "set the sysctl kernel.perf_event_paranoid to 2 or less (it is {}), or run as root or \
             with CAP_PERFMON",
            paranoid_text()
        ),
    }
}

fn paranoid_text() -> String {
    perf_event_paranoid().map_or_else(|| "unknown".to_owned(), |level| level.to_string())
}

/// `kernel.perf_event_paranoid`: what users without privilege may do; -1 everything, 0 the whole
/// machine, 1 also the kernel in own processes, 2 own user code, 3 (Debian's patch) nothing.
pub fn perf_event_paranoid() -> Option<i32> {
    sysctl("perf_event_paranoid")
}

/// A setting of the kernel for perf events.
pub(crate) fn sysctl<T: std::str::FromStr>(name: &str) -> Option<T> {
    fs::read_to_string(format!("/proc/sys/kernel/{name}"))
        .ok()?
        .trim()
        .parse()
        .ok()
}

impl Scope {
    /// The scope of a target.
    fn of(target: &Target) -> Scope {
        match target {
            Target::System => Scope::System,
            Target::Command(_) | Target::Processes(_) => Scope::Own,
        }
    }
}

impl Error {
    /// The kernel's refusal of an event for this configuration.
    pub(crate) fn refused(config: &Config, error: &io::Error) -> Error {
        refusal(config.clock, Scope::of(&config.target), error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A missing counter points to the software clock; a missing privilege names the sysctl.
    #[test]
    fn mends() {
        let error = |errno| io::Error::from_raw_os_error(errno);
        let missing = refusal(Clock::Cycles, Scope::Own, &error(libc::ENOENT));
        assert!(missing.mend.contains("cpu-clock"), "{missing}");
        let refused = refusal(Clock::CpuClock, Scope::System, &error(libc::EACCES));
        assert!(refused.mend.contains("perf_event_paranoid"), "{refused}");
        assert_eq!(refused.errno, libc::EACCES);
        // Nobody is told to set what is set.
        assert!(!own_refusal(Some(2)).contains("perf_event_paranoid"));
        assert!(own_refusal(Some(3)).contains("perf_event_paranoid to 2"));
    }
}
