//! Whether the engine `bpf` works here.

use std::fs;
use std::path::Path;

use crate::attr::Features;
use crate::bpf::Bpf;
use crate::{Clock, Config, Engine, Error, Intervals, Target, cpus};

/// The type information of the running kernel.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// What `/proc/self/ns/pid` leads to in the namespace of process ids that the machine began with:
/// the kernel gives it this number.
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Why the engine `bpf` does not work, and what would mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}: {mend}")]
pub struct BpfRefusal {
    /// What is missing or was refused, with the answer of the kernel or of libbpf.
    pub why: String,
    /// What would mend it: a sentence for the person at the terminal.
    pub mend: String,
}

/// Loads the handler as sampling would, makes a buffer, sets the handler on a clock that does not
/// run, and gives all of it up again. It takes a tenth of a second.
///
/// # Errors
/// What is missing, with what would mend it.
pub fn bpf() -> Result<(), BpfRefusal> {
    bpf_at_sight()?;
    try_it().map_err(|error| BpfRefusal {
        why: error.to_string(),
        mend: match error {
            Error::Verifier { .. } => format!(
                "use the engine ring; if this kernel ({}) is 5.15 or newer, tell the makers of \
                 vcpid of it",
                release()
            ),
            _ => format!(
                "run as root, or with CAP_BPF and CAP_PERFMON, on Linux 5.15 or newer (this is \
                 {}); a container may forbid bpf and perf_event_open by seccomp, and a kernel in \
                 lockdown forbids reading memory",
                release()
            ),
        },
    })
}

/// The kernel's release, as `uname -r` prints it.
fn release() -> String {
    let name = nix::sys::utsname::uname();
    name.map_or_else(
        |_| "unknown".to_owned(),
        |name| name.release().to_string_lossy().into_owned(),
    )
}

/// Looks for what rules the engine out before it is tried, in next to no time.
///
/// # Errors
/// What is missing, with what would mend it.
pub fn bpf_at_sight() -> Result<(), BpfRefusal> {
    let refusal = |why: &str, mend: &str| {
        Err(BpfRefusal {
            why: why.to_owned(),
            mend: mend.to_owned(),
        })
    };
    let namespace = fs::read_link("/proc/self/ns/pid");
    if namespace.is_ok_and(|name| name != Path::new(INITIAL_PID_NAMESPACE)) {
        return refusal(
            "this is a container with process ids of its own, which the handler does not know",
            "run outside of it, or with the host's ids (docker run --pid=host)",
        );
    }
    if !Path::new(BTF).exists() {
        return refusal(
            "the kernel does not tell its types (no /sys/kernel/btf/vmlinux)",
            "use a kernel built with CONFIG_DEBUG_INFO_BTF, as distributions have it since 2021",
        );
    }
    Ok(())
}

fn try_it() -> Result<(), Error> {
    let config = Config {
        engine: Engine::Bpf,
        // Targets, so that the programs that follow them are tried, too.
        ..Config::new(
            Target::Processes(Vec::new()),
            Clock::CpuClock,
            1_000_000_000,
        )
    };
    let online = cpus::online()?;
    let cpu = online.first().copied().unwrap_or(0);
    let bpf = Bpf::load(&config, cpu + 1, None)?;
    let mut intervals = Intervals::new(config.clock, config.period, config.seed, cpu);
    let mut features = Features {
        lost: true,
        user_only: false,
    };
    bpf.open_cpu(&config, &mut features, &mut intervals, cpu)?;
    Ok(())
}
