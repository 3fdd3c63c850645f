//! Sampling: opens the events, maps a ring per CPU, and starts and stops the readers.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::attr::{Features, Role};
use crate::bpf::{Bpf, OfCpu};
use crate::event::{self, Event};
use crate::readers::{Outlet, Reader, Readers, Sources};
use crate::stats::Stats;
use crate::stop_request::StopRequest;
use crate::sys::{self, Ring};
use crate::{Batch, Config, Engine, Error, Intervals, Pid, Target, Tid, cpus, wakers};

mod cost;
mod running;

/// The smallest ring that is still of use: room for a dozen samples with their stacks.
const FEWEST_PAGES: u32 = 8;

/// How often the threads of a process are listed anew while it keeps making new ones.
const LISTINGS: u32 = 20;

/// What the machine and our privileges made of a [`Config`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The CPUs that are sampled, in ascending order.
    pub cpus: Vec<u32>,
    /// Pages of 4 KiB of each ring; fewer than configured where memory could not be locked.
    pub ring_pages: u32,
    /// The kernel's code is left out.
    pub user_only: bool,
    /// By which way samples come.
    pub engine: Engine,
    /// How many events were opened.
    pub events: usize,
    /// A process made threads faster than they could be listed: some are not sampled.
    pub threads_missed: bool,
    /// Why no vector registers are brought, although they were asked for.
    pub no_vectors: Option<String>,
    /// Vector registers are brought.
    pub vectors: bool,
}

/// The events of one CPU, whose first one has the ring of all.
struct CpuEvents {
    cpu: u32,
    events: Vec<Event>,
    /// With the engine `bpf` the clock and its buffer; the events above then explain samples only.
    bpf: Option<OfCpu>,
    intervals: Intervals,
}

impl CpuEvents {
    /// The handler's clock, if it is an event.
    fn clocks(&self) -> impl Iterator<Item = &Event> {
        self.bpf.iter().flat_map(|bpf| &bpf.clocks)
    }
}

/// Opened events that do not count yet.
pub struct Sampler {
    bpf: Option<Bpf>,
    config: Config,
    setup: Setup,
    cpus: Vec<(CpuEvents, Ring)>,
}

impl Sampler {
    /// Opens the events and maps their rings; nothing is sampled before [`Sampler::start`].
    ///
    /// # Errors
    /// An impossible configuration, a refusal by the kernel (with what would mend it), a process
    /// that does not exist, or rings that cannot be mapped.
    pub fn open(config: &Config) -> Result<Sampler, Error> {
        config.validate()?;
        loop {
            let online = cpus::online()?;
            match Self::open_on(config, &online) {
                // A CPU has gone meanwhile, or one has come.
                Err(_) if cpus::online()? != online => {}
                opened => return opened,
            }
        }
    }

    fn open_on(config: &Config, online: &[u32]) -> Result<Sampler, Error> {
        let mut features = Features {
            lost: true,
            user_only: config.user_only,
        };
        let (mut cpus, threads_missed) = open_events(config, online, &mut features)?;
        let bpf = match config.engine {
            Engine::Ring => None,
            Engine::Bpf => Some(open_bpf(config, &mut features, &mut cpus)?),
        };
        let (rings, ring_pages) = map_rings(&cpus, config.ring_pages)?;
        for cpu in &cpus {
            join_outputs(cpu)?;
        }
        let setup = Setup {
            cpus: cpus.iter().map(|cpu| cpu.cpu).collect(),
            ring_pages,
            user_only: features.user_only,
            engine: config.engine,
            events: cpus
                .iter()
                .map(|cpu| cpu.events.len() + cpu.clocks().count())
                .sum(),
            threads_missed,
            vectors: false,
            no_vectors: bpf.as_ref().and_then(|bpf| bpf.no_vectors.clone()),
        };
        tracing::debug!(?setup, "events opened");
        let cpus = cpus.into_iter().zip(rings).collect();
        Ok(Sampler {
            bpf,
            config: config.clone(),
            setup,
            cpus,
        })
    }

    /// What the machine made of the configuration.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Starts the readers, then the events; those of [`Target::Command`] start by
    /// themselves when the child calls `exec`.
    ///
    /// Of each CPU something is told every 80 ms or so, with the engine `bpf` every 160, be it that
    /// it had nothing ([`Batch::others_drained_to`]), so that a consumer can merge the CPUs by
    /// time. Sending blocks while the channel is full; the rings then run over, and what is lost is
    /// counted.
    ///
    /// # Errors
    /// [`Error::Os`] if a thread cannot be made.
    pub fn start(self, sender: SyncSender<Batch>) -> Result<Running, Error> {
        let os = |what| move |source| Error::Os { what, source };
        let stop = Arc::new(StopRequest::new().map_err(os("make an eventfd"))?);
        // From here on an early return drops `running`, which ends the readers made so far.
        let mut running = Running {
            readers: Vec::new(),
            events: Vec::new(),
            tids: Vec::new(),
            stop,
            setup: self.setup,
            bpf: self.bpf,
            mean: Arc::new(AtomicU64::new(self.config.period)),
            sent: Arc::default(),
            config: self.config,
        };
        let mut readers = Vec::new();
        for (of_cpu, ring) in self.cpus {
            let CpuEvents {
                cpu,
                events,
                bpf,
                intervals,
            } = of_cpu;
            let sources = Sources::new(ring, events, bpf, running.config.period);
            running.events.extend(sources.events());
            let sent = Arc::clone(&running.sent);
            readers.push(Reader::new(
                cpu,
                sources,
                intervals,
                Arc::clone(&running.mean),
                &running.config,
                Outlet::new(sender.clone(), running.config.batch_bytes, sent),
            ));
        }
        // The last sender is to be a reader's.
        drop(sender);
        let threads: Vec<(String, Vec<Reader>)> = match running.bpf {
            Some(_) => vec![("sampler".to_owned(), readers)],
            None => readers
                .into_iter()
                .map(|reader| (format!("sampler/{}", reader.cpu()), vec![reader]))
                .collect(),
        };
        let (tid_sender, tid_receiver) = sync_channel(threads.len());
        for (name, readers) in threads {
            let readers = Readers::new(readers, Arc::clone(&running.stop));
            let tid_sender = tid_sender.clone();
            let thread = thread::Builder::new()
                .name(name)
                .spawn(move || readers.run(tid_sender))
                .map_err(os("start a reader's thread"))?;
            running.readers.push(thread);
        }
        drop(tid_sender);
        if let Some(wakes) = running.bpf.as_ref().and_then(|bpf| bpf.wakes.as_ref()) {
            let started = wakers::start(wakes, &running.setup.cpus, &running.stop);
            running.setup.vectors = started.is_ok();
            running.setup.no_vectors = started.err();
        }
        if !running.setup.vectors
            && let Some(bpf) = &mut running.bpf
        {
            bpf.wakes = None;
        }
        // Each thread sends its id once it is where it belongs.
        running.tids = tid_receiver.iter().collect();
        // Those of a command begin with its exec. A handler's clocks have other events around them,
        // which say for whom they run.
        let by_exec = matches!(running.config.target, Target::Command(_));
        for (role, events) in &running.events {
            if by_exec && *role != Role::Clock {
                continue;
            }
            for event in events.iter() {
                // A CPU or a thread that has gone since then is no reason to leave the others.
                if let Err(error) = sys::enable(event.as_fd()) {
                    tracing::warn!(%error, "an event cannot be enabled");
                }
            }
        }
        if let Some(bpf) = &running.bpf {
            bpf.start_timers(&running.setup.cpus)?;
        }
        Ok(running)
    }
}

/// Opens an event for each CPU and task. The flag says that threads may have been missed.
fn open_events(
    config: &Config,
    online: &[u32],
    features: &mut Features,
) -> Result<(Vec<CpuEvents>, bool), Error> {
    let Target::Processes(pids) = &config.target else {
        let task = match config.target {
            Target::Command(pid) => task_id(pid.0).ok_or(Error::NoSuchProcess(pid))?,
            _ => -1,
        };
        return Ok((open_tasks(config, online, &[task], features)?, false));
    };
    // A thread made while the events are being opened is either inherited by one of them or
    // missed, and nothing tells which. So the list must be the same before and after.
    let mut before = list_threads(pids)?;
    for _ in 0..LISTINGS {
        let opened = open_tasks(config, online, &before, features)?;
        let after = list_threads(pids)?;
        if after.iter().all(|task| before.binary_search(task).is_ok()) {
            return Ok((opened, false));
        }
        before = after;
    }
    Ok((open_tasks(config, online, &before, features)?, true))
}

/// Loads the handler and opens its clocks.
fn open_bpf(
    config: &Config,
    features: &mut Features,
    cpus: &mut [CpuEvents],
) -> Result<Bpf, Error> {
    // Numbers, not how many: some between may be offline.
    let most = cpus.iter().map(|of| of.cpu).max().unwrap_or(0) + 1;
    let bpf = Bpf::load(config, most, Some(Pid(std::process::id())))?;
    for of in cpus {
        of.bpf = Some(bpf.open_cpu(config, features, &mut of.intervals, of.cpu)?);
    }
    Ok(bpf)
}

/// A thread id as the system call takes it; `None` for what is none.
fn task_id(id: u32) -> Option<i32> {
    i32::try_from(id).ok().filter(|id| *id > 0)
}

/// The threads of all processes, in ascending order.
fn list_threads(pids: &[Pid]) -> Result<Vec<i32>, Error> {
    let mut tasks = Vec::new();
    for pid in pids {
        let threads = cpus::threads(*pid).map_err(|source| Error::Os {
            what: "list threads",
            source,
        })?;
        if threads.is_empty() {
            return Err(Error::NoSuchProcess(*pid));
        }
        tasks.extend(threads.iter().filter_map(|tid| task_id(tid.0)));
    }
    tasks.sort_unstable();
    tasks.dedup();
    Ok(tasks)
}

fn open_tasks(
    config: &Config,
    online: &[u32],
    tasks: &[i32],
    features: &mut Features,
) -> Result<Vec<CpuEvents>, Error> {
    let role = match config.engine {
        Engine::Ring => Role::Both,
        Engine::Bpf => Role::SideBand,
    };
    let mut opened = Vec::new();
    let mut last = None;
    for cpu in online.iter().copied() {
        let mut intervals = Intervals::new(config.clock, config.period, config.seed, cpu);
        let mut events = Vec::new();
        for task in tasks.iter().copied() {
            let interval = intervals.draw();
            let fd = match event::open(config, role, interval, features, task, cpu) {
                Ok(fd) => fd,
                // The thread has ended, or the CPU went offline.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH)) => {
                    last = Some(error);
                    continue;
                }
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::ENODEV)) && online.len() > 1 =>
                {
                    last = Some(error);
                    break;
                }
                Err(error) => return Err(Error::refused(config, &error)),
            };
            let id = sys::id(fd.as_fd()).map_err(|source| Error::Os {
                what: "ask for an event's id",
                source,
            })?;
            events.push(Event { fd, id, interval });
        }
        if !events.is_empty() {
            opened.push(CpuEvents {
                cpu,
                events,
                bpf: None,
                intervals,
            });
        }
    }
    match last {
        Some(error) if opened.is_empty() => Err(Error::refused(config, &error)),
        _ => Ok(opened),
    }
}

/// Maps the ring of each CPU's first event, all of one size: `pages`, or as much of it as may be
/// locked.
fn map_rings(cpus: &[CpuEvents], pages: u32) -> Result<(Vec<Ring>, u32), Error> {
    let mut size = pages;
    loop {
        let rings: io::Result<Vec<Ring>> = cpus
            .iter()
            .filter_map(|cpu| cpu.events.first())
            .map(|event| Ring::map(event.fd.as_fd(), size))
            .collect();
        match rings {
            Ok(rings) => {
                if size < pages {
                    tracing::info!(
                        wanted = pages,
                        got = size,
                        "rings are smaller than asked for"
                    );
                }
                return Ok((rings, size));
            }
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM))
                    && size / 2 >= FEWEST_PAGES =>
            {
                size /= 2;
            }
            Err(source) => {
                return Err(Error::Ring {
                    pages: size,
                    cpus: cpus.len(),
                    error: source,
                });
            }
        }
    }
}

/// Lets all events of a CPU write into the ring of the first.
fn join_outputs(cpu: &CpuEvents) -> Result<(), Error> {
    let Some((first, others)) = cpu.events.split_first() else {
        return Ok(());
    };
    // A clock's own records, such as those of throttling, go there, too.
    for event in others.iter().chain(cpu.clocks()) {
        sys::set_output(event.fd.as_fd(), first.fd.as_fd()).map_err(|source| Error::Os {
            what: "join the rings of two events",
            source,
        })?;
    }
    Ok(())
}

/// Sampling that goes on until it is stopped or dropped.
pub struct Running {
    readers: Vec<JoinHandle<Stats>>,
    events: Vec<(Role, Arc<[OwnedFd]>)>,
    tids: Vec<Tid>,
    stop: Arc<StopRequest>,
    setup: Setup,
    bpf: Option<Bpf>,
    config: Config,
    /// Mean of the intervals that are drawn now.
    mean: Arc<AtomicU64>,
    /// Bytes of the batches that readers have sent.
    sent: Arc<AtomicU64>,
}
