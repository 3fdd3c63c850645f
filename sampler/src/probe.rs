//! What works here: which clocks the kernel grants to whom, and what would mend it where it does
//! not.

use std::fs;

use perf_event_open_sys::bindings as b;

use crate::attr::{Features, Role};
use crate::refusal::{refusal, sysctl};
use crate::{Clock, Config, Pid, Target, cpus, event, sys};

mod bpf;
mod breakpoints;
mod calibrate;
mod timer;
mod vectors;

pub use crate::error::ProbeError;
pub use crate::refusal::{Scope, perf_event_paranoid};
pub use bpf::{BpfRefusal, bpf, bpf_at_sight};
pub use breakpoints::{breakpoints, traps_are_told};
pub use calibrate::{Calibration, calibrate, interrupt_cost};
pub(crate) use calibrate::{MANY_ROUNDS, compare, period};
pub use timer::{Timer, timer, timer_cost};
pub use vectors::vectors;

/// What an event that works can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Only user code can be sampled with the caller's privileges.
    pub user_only: bool,
    /// The kernel's total of lost records can be read, so that losses at the very end count too.
    pub lost_totals: bool,
}

/// Tries to open an event of this clock and scope, as sampling would, and closes it again.
///
/// # Errors
/// The kernel's refusal, with what would mend it.
pub fn probe_clock(clock: Clock, scope: Scope) -> Result<Capabilities, ProbeError> {
    let target = match scope {
        Scope::System => Target::System,
        Scope::Own => Target::Processes(vec![Pid(std::process::id())]),
    };
    let task = if scope == Scope::System { -1 } else { 0 };
    let config = Config::new(target, clock, 1_000_000_000);
    // Where the list of CPUs is hidden there is still a first one.
    let cpu = cpus::online()
        .ok()
        .and_then(|cpus| cpus.first().copied())
        .unwrap_or(0);
    let mut features = Features {
        lost: true,
        user_only: false,
    };
    match event::open(&config, Role::Both, config.period, &mut features, task, cpu) {
        Ok(_) => Ok(Capabilities {
            user_only: features.user_only,
            lost_totals: features.lost,
        }),
        Err(error) => Err(refusal(clock, scope, &error)),
    }
}

/// `kernel.perf_event_max_sample_rate`: samples per second and CPU above which the kernel
/// throttles. The kernel lowers it by itself when interrupts take too long.
pub fn max_sample_rate() -> Option<u64> {
    sysctl("perf_event_max_sample_rate")
}

/// `kernel.perf_event_mlock_kb`: KiB of rings that each user may lock per CPU, above the limit of
/// locked memory.
pub fn mlock_kb() -> Option<u64> {
    sysctl("perf_event_mlock_kb")
}

/// `kernel.perf_cpu_time_max_percent`: the share of CPU time that interrupts may take before the
/// kernel lowers the sample rate; 0 for no limit.
pub fn cpu_time_max_percent() -> Option<u32> {
    sysctl("perf_cpu_time_max_percent")
}

/// The nominal frequency of the time stamp counter in cycles per second: a fair estimate of the
/// CPU's own, by which nanoseconds of the software clock can be scaled to cycles.
///
/// `None` where neither the kernel's perf page nor `/proc/cpuinfo` says.
pub fn cycles_per_second() -> Option<u64> {
    perf_page_hz().or_else(|| cpuinfo_hz(&fs::read_to_string("/proc/cpuinfo").ok()?))
}

fn perf_page_hz() -> Option<u64> {
    let mut attr = b::perf_event_attr {
        type_: b::PERF_TYPE_SOFTWARE,
        config: b::PERF_COUNT_SW_DUMMY.into(),
        // The size is that of a small fixed struct.
        size: size_of::<b::perf_event_attr>() as u32,
        ..Default::default()
    };
    attr.set_disabled(1);
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    let event = sys::open(attr, 0, -1).ok()?;
    use std::os::fd::AsFd;
    sys::Ring::map(event.as_fd(), 1).ok()?.tsc_hz()
}

/// The first CPU's frequency in a text like `/proc/cpuinfo`.
fn cpuinfo_hz(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("cpu MHz"))?;
    let (whole, fraction) = line.split_once(':')?.1.trim().split_once('.')?;
    let khz: u64 = fraction.get(..3)?.parse().ok()?;
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(1000)?
        .checked_add(khz)?
        .checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The frequency in /proc/cpuinfo is read in its units, and nonsense gives none.
    #[test]
    fn cpuinfo() {
        let text = "processor\t: 0\ncpu MHz\t\t: 2596.122\nprocessor\t: 1\ncpu MHz\t\t: 1.000\n";
        assert_eq!(cpuinfo_hz(text), Some(2_596_122_000));
        for bad in [
            "",
            "cpu MHz",
            "cpu MHz : x.y",
            "cpu MHz : 1.2",
            "cpu MHz : 9999999999999999999.000",
        ] {
            assert_eq!(cpuinfo_hz(bad), None, "{bad:?}");
        }
    }
}
