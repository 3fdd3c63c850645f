//! Days of a service, written as the service writes them: a file a day, a flush a minute, lists by
//! the collector's own kind of hotlist.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use counters::{Counter, Loss};
use hotlist::{Config, Estimates, Generator, Hotlist};
use nix::time::{ClockId, clock_gettime};
use profiledb::{Directory, Epoch, NewHotlist, Process, Writer};

use super::values::{is_taken, mix, skewed, value};
use super::world::{self, Flow, Function, Load, Site};

/// The first day's beginning: 2026-11-02, a Monday, at midnight.
const BEGIN: i64 = 1_793_577_600_000_000_000;
/// A minute, in nanoseconds.
const MINUTE: i64 = 60_000_000_000;
/// The most instructions of a function that a window runs through.
const WINDOW: u64 = 40;

/// How much there is of everything.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Amounts {
    /// Days to make.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) days: u32,
    /// Lists a day.
    #[arg(long, default_value_t = 2_000_000)]
    pub(super) lists: u64,
    /// Instructions that may run; of these a day sees three quarters.
    #[arg(long, default_value_t = 270_000)]
    pub(super) instructions: usize,
    /// Processes an hour that live for seconds.
    #[arg(long, default_value_t = 1_000)]
    pub(super) processes: u32,
    /// Flushes a day: fewer make a shorter day.
    #[arg(long, default_value_t = 1_440, value_parser = clap::value_parser!(u32).range(1..=1_440))]
    pub(super) flushes: u32,
    /// MiB that flushes of an hour may take, as for the service.
    #[arg(long, default_value_t = 37)]
    pub(super) hour_mib: u64,
    /// Seed of all that is random.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
}

impl Amounts {
    /// As words of a command.
    pub(super) fn words(&self) -> Vec<String> {
        let numbers: [(&str, u64); 7] = [
            ("--days", u64::from(self.days)),
            ("--lists", self.lists),
            ("--instructions", self.instructions as u64),
            ("--processes", self.processes.into()),
            ("--flushes", self.flushes.into()),
            ("--hour-mib", self.hour_mib),
            ("--seed", self.seed),
        ];
        let words = numbers.iter();
        words
            .flat_map(|(name, number)| [(*name).to_owned(), number.to_string()])
            .collect()
    }
}

/// What was made.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Made {
    pub(super) lists: u64,
    pub(super) events: u64,
    pub(super) flushes: u64,
    /// Of all flushes together.
    pub(super) wall: Duration,
    /// Processor time of them.
    pub(super) processor: Duration,
    pub(super) slowest: Duration,
}

/// Makes the days in an empty folder.
///
/// # Errors
/// What the file system or the database says.
pub(super) fn make(folder: &Path, amounts: &Amounts) -> Result<Made> {
    let mut coins = Generator::new(amounts.seed);
    let loads = world::loads(amounts.instructions, &mut coins)?;
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let directory = Directory::new(folder)?;
    let mut service = Service {
        loads,
        coins,
        next_pid: 2_000,
        made: Made::default(),
    };
    for day in 0..i64::from(amounts.days) {
        let started = BEGIN + day * 1_440 * MINUTE;
        let (path, sequence) = directory.next(started)?;
        let epoch = epoch(started);
        let mut writer = Writer::create_epoch_as(&path, &epoch, Some(sequence))?;
        writer.set_budget(Some(amounts.hour_mib << 20), amounts.seed);
        for number in 0..i64::from(amounts.flushes) {
            let minute = service.minute(started + number * MINUTE, amounts);
            service.write(&mut writer, &minute)?;
            // As the service has a thread do it.
            if number % 4 == 3 {
                profiledb::checkpoint(&path)?;
            }
        }
        writer.end_epoch(started + i64::from(amounts.flushes) * MINUTE)?;
        writer.close()?;
    }
    Ok(service.made)
}

/// The databases of a folder, in their order.
///
/// # Errors
/// If it cannot be read.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let listed = Directory::new(folder)?.list()?;
    Ok(listed.into_iter().map(|file| file.path).collect())
}

fn epoch(started: i64) -> Epoch {
    Epoch {
        started,
        ended: None,
        host: "generated".to_owned(),
        kernel: "6.1.0".to_owned(),
        command: "serve".to_owned(),
        engine: "bpf".to_owned(),
        clock: "cpu-clock".to_owned(),
        unit: "ns".to_owned(),
        cycles_per_unit: 2.5,
        period: 10_000_000,
        window: 256,
        settings: profiledb::EpochSettings::default(),
    }
}

/// A place in the code of a load: function and instruction.
type Place = (usize, usize, usize);

/// The key of a list: process, place, call site, parameter.
type Key = (usize, Place, Option<Place>, &'static str);

struct List {
    reached: u64,
    unknown: u64,
    windows: u64,
    last_window: u64,
    list: Hotlist<u64>,
}

/// What a minute brought.
struct Minute {
    started: i64,
    processes: Vec<(usize, Process)>,
    lists: BTreeMap<Key, List>,
    cycles: BTreeMap<(usize, Place, Option<Place>), u64>,
    branches: BTreeMap<(usize, Place), [u64; 3]>,
    calls: BTreeMap<(usize, Place, Place), u64>,
    windows: u64,
}

struct Service {
    loads: Vec<Load>,
    coins: Generator,
    next_pid: u32,
    made: Made,
}

impl Service {
    /// Runs windows until there are as many lists as a minute has.
    fn minute(&mut self, started: i64, amounts: &Amounts) -> Minute {
        let mut minute = Minute {
            started,
            processes: Vec::new(),
            lists: BTreeMap::new(),
            cycles: BTreeMap::new(),
            branches: BTreeMap::new(),
            calls: BTreeMap::new(),
            windows: 0,
        };
        let of_load = self.processes(&mut minute, amounts);
        let wanted = amounts.lists / u64::from(amounts.flushes);
        let all: u64 = self.loads.iter().map(|load| load.share).sum();
        while (minute.lists.len() as u64) < wanted {
            let mut at = self.coins.next_u64() % all;
            let load = self.loads.iter().position(|load| {
                let here = at < load.share;
                at = at.saturating_sub(load.share);
                here
            });
            let load = load.unwrap_or(0);
            let processes = of_load.get(load).map_or(&[][..], Vec::as_slice);
            if processes.is_empty() {
                continue;
            }
            let process = processes[skewed(processes.len(), &mut self.coins)];
            self.window(&mut minute, load, process);
        }
        minute
    }

    /// The processes that run in a minute; those of each load.
    fn processes(&mut self, minute: &mut Minute, amounts: &Amounts) -> Vec<Vec<usize>> {
        let mut of_load = Vec::new();
        let since_begin = (minute.started - BEGIN).unsigned_abs();
        for (number, load) in (0_u32..).zip(&self.loads) {
            let mut own = Vec::new();
            let mut add = |minute: &mut Minute, pid, started| {
                own.push(minute.processes.len());
                let process = Process {
                    pid,
                    started,
                    execs: 0,
                    comm: load.name.to_owned(),
                };
                minute.processes.push((number as usize, process));
            };
            for resident in 0..load.residents {
                // Some of those that are in the kernel are those that are in the database.
                let base = if load.is_kernel {
                    100
                } else {
                    100 + 100 * number
                };
                add(minute, base + resident, 1_000_000_000);
            }
            let short = u64::from(amounts.processes) * u64::from(load.short_lived);
            let short = short / 6_000 + u64::from(self.coins.next_u64() % 6_000 < short % 6_000);
            for _ in 0..short {
                self.next_pid = self.next_pid % 4_000_000 + 1;
                add(
                    minute,
                    self.next_pid,
                    since_begin + u64::from(self.next_pid),
                );
            }
            of_load.push(own);
        }
        of_load
    }

    /// One window: a stretch of a function, several times where that is a loop.
    fn window(&mut self, minute: &mut Minute, load_index: usize, process: usize) {
        let load = &self.loads[load_index];
        let coins = &mut self.coins;
        let function = skewed(load.functions.len(), coins);
        let code: &Function = &load.functions[function];
        let stretch = (1 + coins.next_u64() % WINDOW) as usize;
        let first = coins.next_u64() as usize % code.len();
        let last = (first + stretch).min(code.len());
        let rounds = 1 + coins.next_u64() % load.rounds;
        let caller = (coins.next_u64() % 8 < 7).then(|| {
            let function = mix(function as u64, skewed(4, coins) as u64) as usize;
            let function = function % load.functions.len();
            let site = mix(function as u64, 7) as usize % load.functions[function].len();
            (load_index, function, site)
        });
        minute.windows += 1;
        let window = minute.windows;
        *minute
            .cycles
            .entry((process, (load_index, function, first), caller))
            .or_insert(0) += 1;
        for _ in 0..rounds {
            for index in first..last {
                let place = (load_index, function, index);
                let Some(site) = code.get(index) else { break };
                let hash = mix(site.address, load_index as u64);
                let mut note = |parameter: &'static str, caller, coins: &mut Generator| {
                    let parameters = u64::from(parameter.as_bytes()[parameter.len() - 1]);
                    let hash = mix(hash, parameters);
                    let list = minute.lists.entry((process, place, caller, parameter));
                    let list = list.or_insert_with(|| List {
                        reached: 0,
                        unknown: 0,
                        windows: 0,
                        last_window: 0,
                        list: Hotlist::new(&Config::default().precise()),
                    });
                    list.reached += 1;
                    if coins.next_u64() % 100 < hash >> 50 & 15 {
                        list.unknown += 1;
                        return;
                    }
                    let now = minute.started.unsigned_abs() + window * 1_000_000;
                    let pid = minute.processes[process].1.pid.into();
                    let value = match parameter {
                        "taken" => is_taken(hash, coins).into(),
                        _ => value(hash, pid, now, coins),
                    };
                    if parameter == "taken" {
                        let seen = minute.branches.entry((process, place)).or_default();
                        seen[usize::from(value == 0)] += 1;
                    }
                    list.windows += u64::from(list.last_window != window);
                    list.last_window = window;
                    list.list.update(value, now, coins);
                };
                if index == 0 {
                    for parameter in ["arg0", "arg1", "arg2"] {
                        note(parameter, caller, coins);
                    }
                }
                let Site {
                    flow,
                    has_memory,
                    has_result,
                    ..
                } = *site;
                match flow {
                    Flow::Branch => note("taken", None, coins),
                    Flow::Next | Flow::Call => {
                        if has_result {
                            note("rax", None, coins);
                        }
                        if has_memory {
                            note("ea", None, coins);
                        }
                    }
                }
                if flow == Flow::Call {
                    let callee = mix(hash, 3) as usize % load.functions.len();
                    let callee = (load_index, callee, 0);
                    *minute.calls.entry((process, place, callee)).or_insert(0) += 1;
                }
            }
        }
    }

    fn write(&mut self, writer: &mut Writer, minute: &Minute) -> Result<()> {
        let begun = (Instant::now(), processor()?);
        let mut flush = writer.begin(minute.started, minute.started + MINUTE)?;
        let mut subjects = Vec::new();
        let mut images = Vec::new();
        for load in &self.loads {
            subjects.push(flush.subject(&load.subject)?);
            images.push(flush.image(&load.image)?);
        }
        let mut processes = Vec::new();
        for (load, process) in &minute.processes {
            processes.push((flush.process(process)?, subjects[*load]));
        }
        let mut pcs = BTreeMap::new();
        let of_lists = minute.lists.keys().flat_map(|key| [Some(key.1), key.2]);
        let of_cycles = minute.cycles.keys().flat_map(|key| [Some(key.1), key.2]);
        let of_calls = minute
            .calls
            .keys()
            .flat_map(|key| [Some(key.1), Some(key.2)]);
        for place in of_lists.chain(of_cycles).chain(of_calls).flatten() {
            if pcs.contains_key(&place) {
                continue;
            }
            let (load, function, index) = place;
            let code = &self.loads[load].functions[function];
            let site = &code[index];
            let pc = flush.pc(images[load], site.address, Some(site.bytes()))?;
            if self.loads[load].is_kernel && flush.is_new(pc) {
                let (name, begin) = (format!("kernel_function_{function}"), code[0].address);
                flush.symbol(images[load], begin, 4 * code.len() as u64, &name)?;
            }
            pcs.insert(place, pc);
        }
        for ((process, place, caller), samples) in &minute.cycles {
            let (process, subject) = processes[*process];
            let caller = caller.map(|caller| pcs[&caller]);
            flush.cycles(
                process,
                subject,
                pcs[place],
                caller,
                *samples,
                samples * 10_000_000,
            )?;
        }
        for ((process, place, caller, parameter), list) in &minute.lists {
            let (process, subject) = processes[*process];
            flush.hotlist(NewHotlist {
                process,
                subject,
                pc: pcs[place],
                caller: caller.map(|caller| pcs[&caller]),
                parameter,
                reached: list.reached as f64,
                unknown: list.unknown as f64,
                windows: list.windows,
                even: Some(0.5),
                list: Estimates::from(&list.list),
            })?;
            self.made.lists += 1;
            self.made.events += list.list.events();
        }
        for ((process, place), seen) in &minute.branches {
            let (process, subject) = processes[*process];
            flush.branch(process, subject, pcs[place], *seen)?;
        }
        for ((process, site, callee), calls) in &minute.calls {
            let (process, subject) = processes[*process];
            flush.call(process, subject, pcs[site], Some(pcs[callee]), *calls)?;
        }
        for loss in Loss::ALL {
            flush.count(loss, 0)?;
        }
        flush.count(Counter::Samples, minute.windows)?;
        flush.count(Counter::Windows, minute.windows)?;
        flush.commit()?;
        let took = begun.0.elapsed();
        self.made.flushes += 1;
        self.made.wall += took;
        self.made.processor += processor()?.saturating_sub(begun.1);
        self.made.slowest = self.made.slowest.max(took);
        Ok(())
    }
}

/// Processor time of this thread.
pub(super) fn processor() -> Result<Duration> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    Ok(time.context("asking for the processor time")?.into())
}
