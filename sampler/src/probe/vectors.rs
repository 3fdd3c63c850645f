//! Whether vector registers can be brought here.

use std::thread;

use super::bpf::BpfRefusal;
use crate::bpf::Bpf;
use crate::{Clock, Config, Engine, Share, Target, VectorOptions, cpus, sys};

/// Loads the handler with what brings vector registers, and tries whether a thread may have
/// real-time priority. It takes a few tenths of a second.
///
/// # Errors
/// What is missing, with what would mend it.
pub fn vectors() -> Result<(), BpfRefusal> {
    super::bpf_at_sight()?;
    let refusal = |why: String, mend: &str| BpfRefusal {
        why,
        mend: mend.to_owned(),
    };
    let real_time = thread::spawn(sys::become_real_time).join();
    if let Ok(Err(error)) = real_time {
        return Err(refusal(
            format!("a thread cannot have real-time priority: {error}"),
            "run as root, or with CAP_SYS_NICE; a control group of version 1 needs a share of \
             real-time (cpu.rt_runtime_us)",
        ));
    }
    let mut config = Config {
        engine: Engine::Bpf,
        ..Config::new(Target::System, Clock::CpuClock, 1_000_000_000)
    };
    config.bpf.vectors = Some(VectorOptions {
        share: Some(Share::ALL),
        most: 1,
    });
    let online = cpus::online().unwrap_or_default();
    let cpu = online.first().copied().unwrap_or(0);
    let needed = "use a kernel from Linux 5.15 on with the trace point \
                  x86_fpu_regs_activated, as root or with CAP_BPF, CAP_PERFMON and CAP_SYSLOG";
    match Bpf::load(&config, cpu + 1, None) {
        Ok(bpf) => match bpf.no_vectors {
            None => Ok(()),
            Some(why) => Err(refusal(why, needed)),
        },
        Err(error) => Err(refusal(error.to_string(), needed)),
    }
}
