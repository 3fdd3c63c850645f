//! Windows of a single-stepped program, with all memory and with a plan's.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use anyhow::{Context as _, Result};
use interpreter::{
    Arms, Capture, Decoded, Ending, Evaluated, Limits, Memory, Parameter, Planned, Planner,
    Registers, Request, Sink, Snapshot, Sources, StopReason, Window, evaluate,
};
use nix::libc::user_regs_struct;

use crate::tracee::{Start, Step, Tracee};
use crate::view::{BIAS, Random, TraceeCode, TraceeMemory, general};

/// Steps from one window to the next: not a multiple of what loops are long.
const STRIDE: u64 = 23;
/// Destinations that are remembered of an indirect branch.
const DESTINATIONS: usize = 4;
/// Disagreements after which the watch ends.
const MAX_DIFFERENCES: usize = 5;

/// What one way of reading memory led to.
#[derive(Default)]
struct Tally {
    instructions: u64,
    destinations: u64,
    destinations_known: u64,
    loads: u64,
    loads_known: u64,
    stops: BTreeMap<&'static str, u64>,
}

impl Tally {
    fn add(&mut self, seen: &Recorder, instructions: u32, stop: StopReason) {
        self.instructions += u64::from(instructions);
        *self.stops.entry(stop.key()).or_default() += 1;
        for told in seen.told.iter().flat_map(|(_, told)| told) {
            match *told {
                Told::Value(Parameter::Dest(_), value) => {
                    self.destinations += 1;
                    self.destinations_known += u64::from(value.is_some());
                }
                Told::Load(known) => {
                    self.loads += 1;
                    self.loads_known += u64::from(known);
                }
                _ => {}
            }
        }
    }
}

/// What was seen.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) windows: u64,
    full: Tally,
    both: Tally,
    drawn: Tally,
    steps: u64,
    bytes: u64,
    ended_early: u64,
    dropped: u64,
    unknown: u64,
    cut: u64,
    pub(crate) differences: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        let mean = |sum: u64| sum as f64 / self.windows.max(1) as f64;
        write!(
            f,
            "{} windows, plans of {:.1} steps and {:.0} bytes, {:.1} % ended early; a window: \
             {:.2} loads dropped, {:.2} not followed, {:.2} ways cut",
            self.windows,
            mean(self.steps),
            mean(self.bytes),
            share(self.ended_early, self.windows),
            mean(self.dropped),
            mean(self.unknown),
            mean(self.cut),
        )?;
        let ways = [
            ("all memory", &self.full),
            ("both arms", &self.both),
            ("drawn", &self.drawn),
        ];
        for (name, tally) in ways {
            write!(
                f,
                "\n  {name}: {:.1} instructions, {:.1} destinations known ({:.1} % of those \
                 reached, {:.1} % of those with all memory), {:.1} loads known ({:.1} %); stops:",
                mean(tally.instructions),
                mean(tally.destinations_known),
                share(tally.destinations_known, tally.destinations),
                share(tally.destinations_known, self.full.destinations_known),
                mean(tally.loads_known),
                share(tally.loads_known, self.full.loads_known),
            )?;
            for (key, count) in &tally.stops {
                write!(f, " {key} {:.1} %", share(*count, self.windows))?;
            }
        }
        Ok(())
    }
}

/// What a window told of one instruction.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Told {
    Value(Parameter, Option<u64>),
    Branch(Option<bool>),
    /// Whether it is known.
    Load(bool),
}

impl Told {
    /// Whether it says anything.
    fn is_known(self) -> bool {
        !matches!(
            self,
            Self::Value(_, None) | Self::Branch(None) | Self::Load(false)
        )
    }
}

/// Instructions in order, each with its PC, and where indirect branches led.
#[derive(Default)]
struct Recorder {
    told: Vec<(u64, Vec<Told>)>,
    went: Vec<(u64, u64)>,
}

impl Recorder {
    fn push(&mut self, told: Told) {
        let (_, last) = self
            .told
            .last_mut()
            .expect("an instruction is reached first");
        last.push(told);
    }
}

impl Sink for Recorder {
    fn reached(&mut self, pc: u64) {
        self.told.push((pc, Vec::new()));
    }

    fn value(&mut self, _: u64, parameter: Parameter, value: Option<u64>) {
        self.push(Told::Value(parameter, value));
    }

    fn branch(&mut self, _: u64, taken: Option<bool>) {
        self.push(Told::Branch(taken));
    }

    fn load(&mut self, _: u64, _: Option<u64>, _: u32, known: bool) {
        self.push(Told::Load(known));
    }

    fn went(&mut self, pc: u64, destination: u64) {
        self.went.push((pc, destination));
    }
}

/// What the window with a plan claims and the one with all memory does not.
fn difference(full: &Recorder, planned: &Recorder) -> Option<String> {
    for (index, (pc, claimed)) in planned.told.iter().enumerate() {
        // Where all memory shows a fault, the rest is never executed.
        let (real_pc, real) = full.told.get(index)?;
        if pc != real_pc {
            return Some(format!("claimed to go to {pc:#x}, went to {real_pc:#x}"));
        }
        if let Some(told) = claimed.iter().find(|t| t.is_known() && !real.contains(t)) {
            return Some(format!("{pc:#x}: claimed {told:x?}, is {real:x?}"));
        }
    }
    None
}

struct Watch {
    tracee: Tracee,
    volatile: Vec<(u64, u64)>,
    decoded: HashMap<u64, ([u8; 15], Decoded)>,
    random: Random,
    planner: Planner,
    /// Where indirect branches led in earlier windows, the latest last.
    seen: HashMap<u64, Vec<u64>>,
    report: Report,
}

/// Watches a program for a number of windows.
pub(crate) fn run(command: &[String], start: &Start, windows: u64) -> Result<Report> {
    let mut tracee = Tracee::start(command).with_context(|| format!("running {command:?}"))?;
    tracee.run_to(start)?;
    let volatile = tracee.volatile_ranges()?;
    let mut watch = Watch {
        tracee,
        volatile,
        decoded: HashMap::new(),
        random: Random(0x1234_5678_9abc_def1),
        planner: Planner::default(),
        seen: HashMap::new(),
        report: Report::default(),
    };
    while watch.report.windows < windows && watch.report.differences.len() < MAX_DIFFERENCES {
        for _ in 0..STRIDE {
            if matches!(watch.tracee.step()?, Step::Gone) {
                return Ok(watch.report);
            }
        }
        let registers = watch.tracee.registers()?;
        watch.compare(&registers);
    }
    Ok(watch.report)
}

impl Watch {
    /// Remembers where the indirect branches of a window led.
    fn learn(&mut self, window: &Recorder) {
        for (pc, destination) in &window.went {
            let seen = self.seen.entry(*pc).or_default();
            seen.retain(|held| held != destination);
            seen.push(*destination);
            if seen.len() > DESTINATIONS {
                seen.remove(0);
            }
        }
    }

    /// A window with all memory, one with a plan of both arms, one with an arm drawn.
    fn compare(&mut self, registers: &user_regs_struct) {
        let Ok(both) = self.plan(registers, false) else {
            return;
        };
        let Ok(drawn) = self.plan(registers, true) else {
            return;
        };
        self.report.windows += 1;
        self.report.steps += both.plan.steps().len() as u64;
        self.report.bytes += both.plan.load_bytes() as u64;
        self.report.dropped += u64::from(both.account.dropped);
        self.report.unknown += u64::from(both.account.unknown);
        self.report.cut += u64::from(both.account.ways_cut);
        let (full, stop, instructions) = self.window(registers, None, false);
        self.report.full.add(&full, instructions, stop);
        for (planned, is_drawn) in [(&both, false), (&drawn, true)] {
            let (seen, stop, instructions) = self.window(registers, Some(planned), !is_drawn);
            let tally = if is_drawn {
                &mut self.report.drawn
            } else {
                &mut self.report.both
            };
            tally.add(&seen, instructions, stop);
            if let Some(difference) = difference(&full, &seen) {
                let at = format!("at {:#x}: {difference}\n{}", registers.rip, planned.plan);
                self.report.differences.push(at);
            }
        }
        self.learn(&full);
    }

    fn plan(&mut self, registers: &user_regs_struct, drawn: bool) -> Result<Planned, StopReason> {
        let mut code = TraceeCode {
            tracee: &self.tracee,
            decoded: &mut self.decoded,
        };
        let random = &mut self.random;
        let mut coin = |arms| (random.next() % arms as u64) as usize;
        let arms = if drawn {
            Arms::Drawn(&mut coin)
        } else {
            Arms::Both
        };
        let seen = &self.seen;
        let mut destinations = |pc: u64, tell: &mut dyn FnMut(u64)| {
            for destination in seen.get(&pc).into_iter().flatten() {
                tell(*destination);
            }
        };
        let request = Request {
            arms,
            destinations: Some(&mut destinations),
            ..Request::default()
        };
        self.planner.plan(registers.rip, &mut code, request)
    }

    fn window(
        &mut self,
        regs: &user_regs_struct,
        planned: Option<&Planned>,
        count: bool,
    ) -> (Recorder, StopReason, u32) {
        let mut all = TraceeMemory {
            tracee: &self.tracee,
            volatile: &self.volatile,
            hide: None,
        };
        let mut code = TraceeCode {
            tracee: &self.tracee,
            decoded: &mut self.decoded,
        };
        let mut start = Registers::from_sample(general(regs), regs.rip, regs.eflags);
        start.fs_base = Some(regs.fs_base);
        start.gs_base = Some(regs.gs_base);
        let window = Window {
            max_instructions: Limits::default().instructions,
            capture: Capture::all(),
        };
        let mut seen = Recorder::default();
        let outcome = match planned {
            None => window.run(&start, &mut code, &mut all, &mut seen),
            Some(planned) => {
                let sources = Sources {
                    gpr: general(regs),
                    bias: BIAS,
                    fs_base: Some(regs.fs_base),
                    gs_base: None,
                };
                let mut snapshot = Snapshot::default();
                let mut read = |address, bytes: &mut [u8]| all.read(address, bytes);
                let done = evaluate(&planned.plan, &sources, &mut read, &mut snapshot);
                self.report.ended_early += u64::from(count && done != Evaluated::Done);
                let mut code = Ending::new(&mut code, planned, BIAS);
                window.run(&start, &mut code, &mut snapshot, &mut seen)
            }
        };
        (seen, outcome.stop, outcome.instructions)
    }
}
