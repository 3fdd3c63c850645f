//! The engine `bpf`: loads the handler, says whom to sample, and hands out its maps.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Once};

use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, OpenObject, PrintLevel,
};

use crate::attr::{Features, Role};

use crate::ring::{Event, open_event};
use crate::{BpfOptions, Config, Error, Intervals, Target, sys};

pub(crate) mod layout;
pub(crate) mod record;

/// The handler, compiled by the build script. Aligned as an ELF file in memory must be.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static HANDLER: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/handler.bpf.o")));

/// The program on the overflow.
const ON_OVERFLOW: &str = "on_overflow";

/// The programs that follow targets through their lives.
const FOLLOWERS: [&str; 3] = ["on_fork", "on_exec", "on_exit"];

/// The maps that are written while sampling goes on.
pub(crate) struct Maps {
    pub(crate) plans: MapHandle,
    pub(crate) rows: MapHandle,
    pub(crate) denials: MapHandle,
    pub(crate) counters: MapHandle,
}

/// One CPU's part of the engine.
pub(crate) struct OfCpu {
    /// The clock.
    pub(crate) event: Event,
    /// Where the handler puts its records.
    pub(crate) buffer: MapHandle,
}

/// The loaded handler. When it is dropped it runs no more.
pub(crate) struct Bpf {
    object: Object,
    maps: Arc<Maps>,
    targets: MapHandle,
    buffers: MapHandle,
    /// Of the programs that follow targets.
    _links: Vec<Link>,
}

impl Bpf {
    /// Loads the handler for a configuration and `cpus` possible CPUs.
    pub(crate) fn load(config: &Config, cpus: u32) -> Result<Bpf, Error> {
        quiet();
        let follow = config.target != Target::System;
        let mut open = ObjectBuilder::default()
            .open_memory(&HANDLER.0)
            .map_err(|error| Error::bpf("read the handler's object", &error))?;
        prepare(&mut open, config, follow, cpus)?;
        let object = open
            .load()
            .map_err(|error| Error::bpf("load the handler into the kernel", &error))?;
        let handle = |name| map(&object, name);
        let mut bpf = Bpf {
            maps: Arc::new(Maps {
                plans: handle("plans")?,
                rows: handle("rows")?,
                denials: handle("denials")?,
                counters: handle("counters")?,
            }),
            targets: handle("targets")?,
            buffers: handle("buffers")?,
            _links: Vec::new(),
            object,
        };
        bpf.name_targets(&config.target)?;
        if follow {
            bpf._links = FOLLOWERS
                .into_iter()
                .map(|name| bpf.attach(name))
                .collect::<Result<_, _>>()?;
        }
        Ok(bpf)
    }

    /// The maps that a [`crate::Handler`] needs.
    pub(crate) fn maps(&self) -> Arc<Maps> {
        Arc::clone(&self.maps)
    }

    /// Makes a CPU's buffer, and its clock with the handler on it; the clock does not run yet.
    pub(crate) fn open_cpu(
        &self,
        config: &Config,
        features: &mut Features,
        intervals: &mut Intervals,
        cpu: u32,
    ) -> Result<OfCpu, Error> {
        let buffer = MapHandle::create(
            MapType::RingBuf,
            Some("vcpi_samples"),
            0,
            0,
            config.bpf.buffer_bytes,
            &libbpf_sys::bpf_map_create_opts {
                sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
                ..Default::default()
            },
        )
        .map_err(|error| Error::bpf("make a CPU's buffer", &error))?;
        let fd = buffer.as_fd().as_raw_fd().to_ne_bytes();
        self.buffers
            .update(&cpu.to_ne_bytes(), &fd, MapFlags::ANY)
            .map_err(|error| Error::bpf("give a CPU its buffer", &error))?;
        let interval = intervals.draw();
        let fd = open_event(config, Role::Clock, interval, features, -1, cpu)
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
        let event = Event { fd, id, interval };
        Ok(OfCpu { event, buffer })
    }

    fn program(&self) -> Result<OwnedFd, Error> {
        let program = self
            .object
            .progs()
            .find(|program| program.name() == ON_OVERFLOW)
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
            Target::Command(pid) => (std::slice::from_ref(pid), layout::TARGET_WAITS_FOR_EXEC),
            Target::Processes(pids) => (pids.as_slice(), layout::TARGET_SAMPLED),
        };
        for pid in pids {
            self.targets
                .update(&pid.0.to_ne_bytes(), &state.to_ne_bytes(), MapFlags::ANY)
                .map_err(|error| Error::bpf("tell the handler its targets", &error))?;
        }
        Ok(())
    }
}

/// Fills in what must be known before loading.
fn prepare(open: &mut OpenObject, config: &Config, follow: bool, cpus: u32) -> Result<(), Error> {
    let BpfOptions { plans, rows, .. } = config.bpf;
    let settings = layout::Settings::new(
        &config.bpf,
        follow,
        std::process::id(),
        config.wake_up_samples,
        config.stack_bytes,
    )
    .to_bytes();
    for mut map in open.maps_mut() {
        let name = map.name().to_owned();
        let sized = match name.to_str() {
            Some(".rodata.settings") => map.set_initial_value(&settings),
            Some("plans") => map.set_max_entries(plans),
            Some("rows") => map.set_max_entries(rows),
            Some("buffers") => map.set_max_entries(cpus),
            _ => Ok(()),
        };
        sized.map_err(|error| Error::bpf("prepare the handler's maps", &error))?;
    }
    for mut program in open.progs_mut() {
        let name = program.name().to_owned();
        let follower = FOLLOWERS.iter().any(|of| name == *of);
        program.set_autoload(follow || !follower);
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

/// Lets libbpf speak through `tracing`.
fn quiet() {
    static ONCE: Once = Once::new();
    fn print(level: PrintLevel, text: String) {
        let text = text.trim_end();
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
