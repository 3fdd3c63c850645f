//! Whether threads can be stopped at breakpoints here.

use std::time::Duration;

use super::BpfRefusal;
use crate::breakpoints::with_turning;
use crate::{Breakpoints, Miss};

/// How long the thread may take to come by: the machine may be busy.
const ALLOWED: Duration = Duration::from_secs(2);

/// Whether a trap at a breakpoint says that it is one. Where Intel's processors are virtual, some
/// traps come without a reason in the debug status register (1 of some 10,000 was seen). The kernel
/// takes these for the program's own, and ends it with SIGTRAP.
///
/// # Errors
/// What is missing: no breakpoint may be set in other programs then.
pub fn traps_are_told() -> Result<(), &'static str> {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    match are_untold(&text) {
        true => Err(
            "on virtual machines of Intel's processors breakpoints trap without saying so, now and \
             then, and programs end by that",
        ),
        false => Ok(()),
    }
}

fn are_untold(cpuinfo: &str) -> bool {
    let of = |key: &str| cpuinfo.lines().find(|line| line.starts_with(key));
    let has =
        |key, word: &str| of(key).is_some_and(|line| line.split_whitespace().any(|at| at == word));
    has("vendor_id", "GenuineIntel") && has("flags", "hypervisor")
}

/// Stops a thread of this process at a breakpoint.
///
/// # Errors
/// What is missing, with what would mend it.
pub fn breakpoints() -> Result<(), BpfRefusal> {
    traps_are_told().map_err(|why| BpfRefusal {
        why: why.to_owned(),
        mend: "use a machine of its own, or step threads (--bounce=step)".to_owned(),
    })?;
    let stopped = with_turning(|tid, entry| Breakpoints::stop_own(tid, entry, ALLOWED));
    let mend = |miss| match miss {
        Miss::NoRegister => "let the debuggers end that use the processor's debug registers",
        Miss::NoEntry => {
            "use another machine: this processor, or the one that it is made to look like, does \
             not stop there"
        }
        _ => "run as root, or with CAP_PERFMON, on Linux 5.15 or newer",
    };
    stopped.map_err(|miss| BpfRefusal {
        why: miss.meaning().to_owned(),
        mend: mend(miss).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::are_untold;

    /// Intel's processors are told from others, and virtual ones from real ones.
    #[test]
    fn machines() {
        let text =
            |vendor: &str, flags: &str| format!("vendor_id\t: {vendor}\nflags\t\t: {flags}\n");
        assert!(are_untold(&text("GenuineIntel", "fpu hypervisor avx")));
        assert!(!are_untold(&text("GenuineIntel", "fpu avx")));
        assert!(!are_untold(&text("AuthenticAMD", "fpu hypervisor")));
        assert!(!are_untold(""));
    }
}
