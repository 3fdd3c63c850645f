//! The programs and maps by which vector registers are brought.

use std::fs;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapType};

use super::{Bpf, create, insert, map};
use crate::abi;
use crate::{Error, VectorOptions};

/// They run at each switch between threads, and where registers are loaded.
pub(super) const PROGRAMS: [&str; 2] = ["on_switch", "on_activated"];

/// Bytes of a waker's ring: a page is the least.
const RING_BYTES: u32 = 4096;

/// What the handler wakes the wakers by.
pub(crate) struct Wakes {
    options: VectorOptions,
    wakers: MapHandle,
    rings: Vec<MapHandle>,
    /// Of the programs, which run no more when this is dropped.
    _links: Vec<Link>,
}

impl Wakes {
    /// The ring of a CPU's waker.
    pub(crate) fn ring(&self, cpu: u32) -> Result<MapHandle, String> {
        let ring = self.rings.get(cpu as usize).ok_or("it has no ring")?;
        MapHandle::try_from(ring).map_err(|error| error.to_string())
    }

    /// Says that this thread is the CPU's waker: it is woken from now on.
    pub(crate) fn enlist(&self, cpu: u32, tid: u32) -> Result<(), String> {
        let pause = 1_000_000_000 / u64::from(self.options.most.max(1));
        let waker = abi::Waker {
            tid,
            share: self.options.share.map_or(0, |share| share.0),
            pause,
        };
        let written = self
            .wakers
            .update(&cpu.to_ne_bytes(), &waker.to_bytes(), MapFlags::ANY);
        written.map_err(|error| error.to_string())
    }
}

impl Bpf {
    /// Makes the rings, and has the programs run.
    pub(super) fn begin_vectors(&mut self, options: VectorOptions, cpus: u32) -> Result<(), Error> {
        let of_rings = map(&self.object, "wakes")?;
        let mut rings = Vec::new();
        for cpu in 0..cpus {
            let ring = create(MapType::RingBuf, "vcpi_wakes", (0, 0), RING_BYTES)?;
            insert(&of_rings, cpu, &ring)?;
            rings.push(ring);
        }
        let links = PROGRAMS.into_iter().map(|name| self.attach(name));
        let links = links.collect::<Result<_, _>>()?;
        self.wakes = Some(Wakes {
            options,
            wakers: map(&self.object, "wakers")?,
            rings,
            _links: links,
        });
        Ok(())
    }
}

/// What of the kernel is missing, if anything is.
pub(super) fn missing() -> Option<String> {
    let entries = super::kernel::KernelMemory::read().entries;
    if entries.end == 0 {
        return Some("the kernel does not show where its entries of interrupts are".to_owned());
    }
    let has = |point: &str| {
        let below = format!("events/{point}/id");
        ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
            .iter()
            .any(|at| fs::exists(format!("{at}/{below}")).unwrap_or(false))
    };
    // Where the tracing file system is not mounted, loading tells.
    let tells = fs::exists("/sys/kernel/tracing/events").unwrap_or(false);
    let point = "x86_fpu/x86_fpu_regs_activated";
    (tells && !has(point)).then(|| format!("the kernel has no trace point {point}"))
}
