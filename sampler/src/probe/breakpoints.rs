//! Whether threads can be stopped at breakpoints here.

use std::time::Duration;

use super::BpfRefusal;
use crate::breakpoints::with_turning;
use crate::{Breakpoints, Miss};

/// How long the thread may take to come by: the machine may be busy.
const ALLOWED: Duration = Duration::from_secs(2);

/// Stops a thread of this process at a breakpoint.
///
/// # Errors
/// What is missing, with what would mend it.
pub fn breakpoints() -> Result<(), BpfRefusal> {
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
