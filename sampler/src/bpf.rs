//! The engine `bpf`: loads the handler, says whom to sample, and hands out its maps.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, Once};

use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, OpenObject, PrintLevel,
};

use crate::abi;
use crate::attr::{Features, Role};
use crate::event::{self, Event};
use crate::{Clock, Config, Cycles, Error, Intervals, Pid, Target, packed, sys};

mod handler;
mod kernel;
mod layout;
mod timer;
mod trapped;
mod vectors;
mod verifier;

pub use handler::{
    CallerRbp, Denial, Handler, HandlerCounter, HandlerCounters, RowPlace, UnwindRow,
};
pub use trapped::MemoryOperand;
pub(crate) use trapped::{MOST_OPERANDS, Trapped};
pub(crate) use vectors::Wakes;

/// The handler, compiled by the build script. Aligned as an ELF file in memory must be.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static HANDLER: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/handler.bpf.o")));

/// The program on the overflow.
const ON_OVERFLOW: &str = "on_overflow";

/// The programs that follow targets through their lives.
const FOLLOWERS: [&str; 3] = ["on_fork", "on_exec", "on_exit"];
/// It notes exceptions.
const ON_EXCEPTION: &str = "on_exception";

/// The maps that are written while sampling goes on.
pub(crate) struct Maps {
    pub(crate) met: MapHandle,
    pub(crate) rows: MapHandle,
    pub(crate) denials: MapHandle,
    pub(crate) denial_count: MapHandle,
    /// What that map holds.
    pub(crate) denials_made: Mutex<u64>,
    pub(crate) counters: MapHandle,
    /// When accesses of a process, and of its pages, raised the last exception.
    pub(crate) raised: MapHandle,
    pub(crate) raised_pages: MapHandle,
}

/// One CPU's part of the engine.
pub(crate) struct OfCpu {
    /// Its clock, if that is one of events: see [`clocks_of`].
    pub(crate) clocks: Vec<Event>,
    /// Where the handler puts its records.
    pub(crate) buffer: MapHandle,
    /// Where it counts what finds no room there.
    pub(crate) overflow: Overflow,
}

/// A CPU's tables of cycles, of which the handler fills one while the other is read.
pub(crate) struct Overflow {
    cpu: u32,
    tables: [MapHandle; 2],
    /// Which one is filled.
    side: usize,
    sides: Arc<MapHandle>,
    maps: Arc<Maps>,
}

impl Overflow {
    /// Samples of the clock `timer` on this CPU of which nothing came at all, since the start.
    pub(crate) fn lost_by_timer(&self) -> u64 {
        let key = 0_u32.to_ne_bytes();
        let of_cpus = match self.maps.counters.lookup_percpu(&key, MapFlags::ANY) {
            Ok(of_cpus) => of_cpus.unwrap_or_default(),
            Err(error) => {
                tracing::warn!(%error, "the handler's counters cannot be read");
                return 0;
            }
        };
        // In the order of the possible CPUs, whose numbers have no gaps on this architecture.
        let words = of_cpus.get(self.cpu as usize).map(Vec::as_slice);
        let counters = words.unwrap_or_default().as_chunks().0.iter();
        let lost = HandlerCounter::ALL.iter().zip(counters);
        lost.filter(|(counter, _)| layout::TIMER_LOSSES.contains(counter))
            .map(|(_, word)| u64::from_ne_bytes(*word))
            .sum()
    }

    /// Turns the tables around and empties the one that was filled; also says how many of its
    /// entries could not be read.
    pub(crate) fn drain(&mut self) -> (Vec<Cycles>, u64) {
        let filled = self.side;
        let other = 1 - filled;
        // The other is 0 or 1.
        let value = (other as u32).to_ne_bytes();
        if let Err(error) = self
            .sides
            .update(&self.cpu.to_ne_bytes(), &value, MapFlags::ANY)
        {
            tracing::debug!(%error, "tables of cycles cannot be turned around");
            return (Vec::new(), 1);
        }
        self.side = other;
        let time = sys::clock_now();
        let table = &self.tables[filled];
        let (mut entries, mut unread) = (Vec::new(), 0);
        for key in table.keys().collect::<Vec<_>>() {
            let entry = match table.lookup_and_delete(&key) {
                Ok(Some(value)) => packed::cycles(&key, &value, time),
                _ => None,
            };
            match entry {
                Some(cycles) => entries.push(cycles),
                None => unread += 1,
            }
        }
        (entries, unread)
    }
}

/// The loaded handler. When it is dropped it runs no more.
pub(crate) struct Bpf {
    object: Object,
    maps: Arc<Maps>,
    targets: MapHandle,
    buffers: MapHandle,
    cycles: MapHandle,
    sides: Arc<MapHandle>,
    clock: Clock,
    /// Where vector registers are brought: what the wakers are woken by.
    pub(crate) wakes: Option<Wakes>,
    /// Why they are not, although they were asked for.
    pub(crate) no_vectors: Option<String>,
    /// Where there are to be breakpoints: what the handler knows of threads that have them.
    pub(crate) trapped: Option<Trapped>,
    /// Of the programs that follow targets, and note exceptions.
    _links: Vec<Link>,
}

impl Bpf {
    /// Loads the handler for a configuration and `cpus` possible CPUs. The process `own` is not
    /// sampled. Where vector registers cannot be had it does without.
    pub(crate) fn load(config: &Config, cpus: u32, own: Option<Pid>) -> Result<Bpf, Error> {
        let Some(options) = config.bpf.vectors else {
            return Self::load_as_it_is(config, cpus, own);
        };
        let mut why = vectors::missing();
        if why.is_none() {
            let loaded = Self::load_as_it_is(config, cpus, own);
            let begun = loaded.and_then(|mut bpf| {
                bpf.begin_vectors(options, cpus)?;
                Ok(bpf)
            });
            match begun {
                Ok(bpf) => return Ok(bpf),
                Err(error) => why = Some(error.to_string()),
            }
        }
        let mut without = config.clone();
        without.bpf.vectors = None;
        let mut bpf = Self::load_as_it_is(&without, cpus, own)?;
        bpf.no_vectors = why;
        Ok(bpf)
    }

    fn load_as_it_is(config: &Config, cpus: u32, own: Option<Pid>) -> Result<Bpf, Error> {
        quiet();
        verifier::take();
        let follow = config.target != Target::System;
        let mut open = ObjectBuilder::default()
            .open_memory(&HANDLER.0)
            .map_err(|error| Error::bpf("read the handler's object", &error))?;
        prepare(&mut open, config, own, cpus)?;
        let object = open.load().map_err(|error| match verifier::take() {
            Some(verifier::VerifierRefusal { program, why }) => Error::Verifier { program, why },
            None => Error::bpf("load the handler into the kernel", &error),
        })?;
        let handle = |name| map(&object, name);
        let mut bpf = Bpf {
            maps: Arc::new(Maps {
                met: handle("met")?,
                rows: handle("rows")?,
                denials: handle("denials")?,
                denial_count: handle("denial_count")?,
                denials_made: Mutex::new(0),
                counters: handle("counters")?,
                raised: handle("raised")?,
                raised_pages: handle("raised_pages")?,
            }),
            targets: handle("targets")?,
            buffers: handle("buffers")?,
            cycles: handle("cycles")?,
            sides: Arc::new(handle("sides")?),
            clock: config.clock,
            wakes: None,
            no_vectors: None,
            trapped: None,
            _links: Vec::new(),
            object,
        };
        bpf.name_targets(&config.target)?;
        bpf.set_mean(config.period)?;
        if config.bpf.breakpoints {
            match bpf.begin_breakpoints(config.bpf.vectors.is_some()) {
                Ok(trapped) => bpf.trapped = Some(trapped),
                Err(error) => tracing::info!(%error, "the handler counts no signals"),
            }
        }
        let followers = FOLLOWERS.into_iter().filter(|_| follow);
        bpf._links = followers
            .chain([ON_EXCEPTION])
            .map(|name| bpf.attach(name))
            .collect::<Result<_, _>>()?;
        Ok(bpf)
    }

    /// The maps that a [`crate::Handler`] needs.
    pub(crate) fn maps(&self) -> Arc<Maps> {
        Arc::clone(&self.maps)
    }

    /// Makes a CPU's buffer, and its clock with the handler on it, if that is an event; the clock
    /// does not run yet.
    pub(crate) fn open_cpu(
        &self,
        config: &Config,
        features: &mut Features,
        intervals: &mut Intervals,
        cpu: u32,
    ) -> Result<OfCpu, Error> {
        let buffer = create(
            MapType::RingBuf,
            "vcpi_samples",
            (0, 0),
            config.bpf.buffer_bytes,
        )?;
        insert(&self.buffers, cpu, &buffer)?;
        let table = || {
            let sizes = (
                size_of::<abi::CyclesKey>() as u32,
                size_of::<abi::CyclesValue>() as u32,
            );
            create(
                MapType::Hash,
                "vcpi_cycles",
                sizes,
                config.bpf.overflow_entries,
            )
        };
        let tables = [table()?, table()?];
        for (index, table) in (2 * cpu..).zip(&tables) {
            insert(&self.cycles, index, table)?;
        }
        let overflow = Overflow {
            cpu,
            tables,
            side: 0,
            sides: Arc::clone(&self.sides),
            maps: self.maps(),
        };
        let mut clocks: Vec<Event> = Vec::new();
        let count = clocks_of(config.clock);
        while clocks.len() < count as usize {
            let interval = intervals.draw();
            // The handler's records tell them apart by their first intervals.
            if clocks.iter().all(|other| other.interval != interval) {
                clocks.push(self.open_clock(config, features, (interval, count), cpu)?);
            }
        }
        Ok(OfCpu {
            clocks,
            buffer,
            overflow,
        })
    }

    /// Opens one of so many events of a CPU's clock with the handler on it.
    fn open_clock(
        &self,
        config: &Config,
        features: &mut Features,
        (interval, of): (u64, u64),
        cpu: u32,
    ) -> Result<Event, Error> {
        let period = interval.saturating_mul(of);
        let fd = event::open(config, Role::Clock, period, features, -1, cpu)
            .map_err(|error| Error::refused(config, &error))?;
        let id = sys::id(fd.as_fd()).map_err(|source| Error::Os {
            what: "ask for an event's id",
            source,
        })?;
        let program = self.program()?;
        sys::set_bpf(fd.as_fd(), program.as_fd()).map_err(|source| Error::Os {
            what: "set the handler on a clock",
            source,
        })?;
        Ok(Event { fd, id, interval })
    }

    /// The program on the overflow.
    pub(crate) fn program(&self) -> Result<OwnedFd, Error> {
        self.program_named(ON_OVERFLOW)
    }

    fn program_named(&self, name: &str) -> Result<OwnedFd, Error> {
        let program = self
            .object
            .progs()
            .find(|program| program.name() == name)
            .ok_or(Error::Bpf {
                what: "find the handler",
                why: "it is not in the object".to_owned(),
            })?;
        program
            .as_fd()
            .try_clone_to_owned()
            .map_err(|source| Error::Os {
                what: "keep the handler's descriptor",
                source,
            })
    }

    fn attach(&self, name: &str) -> Result<Link, Error> {
        let program = self.object.progs_mut().find(|of| of.name() == name);
        let program = program.ok_or(Error::Bpf {
            what: "find a program",
            why: format!("{name} is not in the object"),
        })?;
        program
            .attach_trace()
            .map_err(|error| Error::bpf("follow processes", &error))
    }

    /// Says whom to sample.
    fn name_targets(&self, target: &Target) -> Result<(), Error> {
        let (pids, state) = match target {
            Target::System => return Ok(()),
            Target::Command(pid) => (std::slice::from_ref(pid), abi::Target::WaitsForExec),
            Target::Processes(pids) => (pids.as_slice(), abi::Target::Sampled),
        };
        for pid in pids {
            self.targets
                .update(
                    &pid.0.to_ne_bytes(),
                    &(state as u32).to_ne_bytes(),
                    MapFlags::ANY,
                )
                .map_err(|error| Error::bpf("tell the handler its targets", &error))?;
        }
        Ok(())
    }
}

/// How many events a CPU's clock consists of, each as many times as slow.
///
/// An interval of the software clock stays in force for many samples, and a loop of the program may
/// be in step with it for as long. Of several events each has an interval of its own, and between
/// two samples of one a loop has more time to get out of step. Counters of cycles are few, and the
/// timer draws each interval anew.
fn clocks_of(clock: Clock) -> u64 {
    match clock {
        Clock::Timer => 0,
        Clock::Cycles => 1,
        Clock::CpuClock => 4,
    }
}

/// Fills in what must be known before loading.
fn prepare(
    open: &mut OpenObject,
    config: &Config,
    own: Option<Pid>,
    cpus: u32,
) -> Result<(), Error> {
    let rows = config.bpf.rows;
    let follow = config.target != Target::System;
    let timer = config.clock == Clock::Timer;
    let vectors = config.bpf.vectors.is_some();
    let breakpoints = config.bpf.breakpoints;
    let copies = layout::copy_bytes(config) > 0;
    let settings = layout::settings(config, own, kernel::KernelMemory::read()).to_bytes();
    for mut map in open.maps_mut() {
        let name = map.name().to_owned();
        let sized = match name.to_str() {
            Some(".rodata.settings") => map.set_initial_value(&settings),
            Some("rows") => map.set_max_entries(rows),
            Some("buffers" | "sides" | "wakers" | "wakes" | "awaiting") => {
                map.set_max_entries(cpus)
            }
            // Without copies of stacks the one that there is goes unused.
            Some("copies") if copies => map.set_max_entries(cpus),
            Some("second_works" | "vector_states") if !vectors => map.set_autocreate(false),
            Some("timers" | "mean_interval") if !timer => map.set_autocreate(false),
            Some("timers") => map.set_max_entries(cpus),
            Some("cycles") => map.set_max_entries(2 * cpus),
            _ => Ok(()),
        };
        sized.map_err(|error| Error::bpf("prepare the handler's maps", &error))?;
    }
    for mut program in open.progs_mut() {
        let name = program.name().to_owned();
        program.set_autoload(if FOLLOWERS.iter().any(|of| name == *of) {
            follow
        } else if name == *ON_EXCEPTION {
            true
        } else if vectors::PROGRAMS.iter().any(|of| name == *of) {
            vectors
        } else if name == *trapped::PROGRAM || name == *trapped::AT_EXIT {
            breakpoints
        } else if name == *trapped::AT_ENTRY {
            vectors
        } else {
            timer == timer::PROGRAMS.iter().any(|of| name == *of)
        });
    }
    Ok(())
}

fn map(object: &Object, name: &str) -> Result<MapHandle, Error> {
    let found = object.maps().find(|map| map.name() == name);
    let found = found.ok_or(Error::Bpf {
        what: "find a map",
        why: format!("{name} is not in the object"),
    })?;
    MapHandle::try_from(&found).map_err(|error| Error::bpf("keep a map", &error))
}

/// Makes a map that the object does not hold, with sizes of key and value in bytes.
fn create(
    kind: MapType,
    name: &'static str,
    (key, value): (u32, u32),
    entries: u32,
) -> Result<MapHandle, Error> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    MapHandle::create(kind, Some(name), key, value, entries, &options)
        .map_err(|error| Error::bpf("make a map of a CPU", &error))
}

/// Puts a map into a map of maps.
fn insert(outer: &MapHandle, index: u32, inner: &MapHandle) -> Result<(), Error> {
    let fd = inner.as_fd().as_raw_fd().to_ne_bytes();
    outer
        .update(&index.to_ne_bytes(), &fd, MapFlags::ANY)
        .map_err(|error| Error::bpf("give a CPU its map", &error))
}

/// Lets libbpf speak through `tracing`.
fn quiet() {
    static ONCE: Once = Once::new();
    fn print(level: PrintLevel, text: String) {
        let text = text.trim_end();
        verifier::hear(text);
        match level {
            PrintLevel::Warn => tracing::info!(target: "libbpf", "{text}"),
            PrintLevel::Info => tracing::debug!(target: "libbpf", "{text}"),
            PrintLevel::Debug => tracing::trace!(target: "libbpf", "{text}"),
        }
    }
    ONCE.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Info, print)));
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use object::{Object, ObjectSection};

    use super::HANDLER;

    /// `bpf_task_pt_regs`, the last helper that Linux 5.15 has, in the order of the kernel's
    /// `<linux/bpf.h>`.
    const LAST_OF_5_15: i32 = 175;

    /// The helpers that the handler calls, by the kernel's numbers.
    fn helpers() -> BTreeSet<i32> {
        const CALL: u8 = 0x85;
        let object = object::File::parse(&HANDLER.0).expect("the handler is an ELF file");
        let mut found = BTreeSet::new();
        for section in object.sections() {
            if section.kind() != object::SectionKind::Text {
                continue;
            }
            let code = section.data().expect("its code is there");
            // The second half of a load of 64 bits has the operation 0.
            for &[operation, registers, _, _, a, b, c, d] in code.as_chunks().0 {
                // The source register tells calls of helpers from those of its own functions.
                if operation == CALL && registers >> 4 == 0 {
                    found.insert(i32::from_le_bytes([a, b, c, d]));
                }
            }
        }
        found
    }

    /// The oldest kernel that it is made for has all the helpers that it calls.
    #[test]
    fn helpers_of_the_oldest_kernel() {
        let called = helpers();
        assert!(called.contains(&LAST_OF_5_15), "{called:?}");
        assert!(
            called.iter().all(|&id| (1..=LAST_OF_5_15).contains(&id)),
            "{called:?}"
        );
    }
}
