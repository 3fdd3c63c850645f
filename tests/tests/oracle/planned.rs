//! Windows with nothing but what a plan for their PC brings back.
//!
//! They must agree with windows from the same registers with all memory wherever both know.

use std::collections::HashMap;

use interpreter::{
    Arms, Ending, Evaluated, Memory as _, Outcome, Planned, Planner, Request, Snapshot, Sources,
    StopReason, evaluate,
};
use nix::libc::user_regs_struct;

use crate::check::{Scene, WINDOW, window as capturing};
use crate::report::{Cause, End, Plans};
use crate::view::{BIAS, Random, Recorder, general};

/// Destinations that are remembered of an indirect branch.
const DESTINATIONS: usize = 4;

/// Makes plans, and remembers what they are made with.
#[derive(Default)]
pub(crate) struct PlanWatch {
    planner: Planner,
    /// Where indirect branches led in earlier windows, the latest last.
    seen: HashMap<u64, Vec<u64>>,
}

/// What the window with a plan claims and the one with all memory does not.
fn difference(full: &Recorder, planned: &Recorder) -> Option<String> {
    for (real, claimed) in full.instructions.iter().zip(&planned.instructions) {
        if claimed.pc != real.pc {
            return Some(format!(
                "claimed to go to {:#x}, went to {:#x}",
                claimed.pc, real.pc
            ));
        }
        let values = || claimed.values.iter().filter(|(_, value)| value.is_some());
        if let Some(value) = values().find(|value| !real.values.contains(value)) {
            return Some(format!(
                "{:#x}: claimed {value:x?}, is {:x?}",
                claimed.pc, real.values
            ));
        }
        if claimed.branch.flatten().is_some() && claimed.branch != real.branch {
            return Some(format!(
                "{:#x}: claimed direction {:?}, is {:?}",
                claimed.pc, claimed.branch, real.branch
            ));
        }
    }
    None
}

/// An end is told by its reason alone.
fn end_of(outcome: &Outcome) -> Option<End> {
    (outcome.stop != StopReason::Complete).then(|| End {
        cause: Cause::of(outcome.stop, || Cause::Unknown),
        reason: outcome.stop.key(),
        place: String::new(),
    })
}

impl PlanWatch {
    /// A window with all memory, one with a plan of both arms, one with an arm drawn; returns the
    /// differences.
    pub(crate) fn compare(
        &mut self,
        scene: &mut Scene<'_>,
        regs: &user_regs_struct,
        random: &mut Random,
        plans: &mut Plans,
    ) -> Vec<String> {
        let mut differences = Vec::new();
        let (Ok(both), Ok(drawn)) = (
            self.plan(scene, regs, None),
            self.plan(scene, regs, Some(random)),
        ) else {
            return differences;
        };
        plans.count += 1;
        plans.steps += both.plan.steps().len() as u64;
        plans.bytes += both.plan.load_bytes() as u64;
        plans.dropped += u64::from(both.account.dropped);
        plans.unknown += u64::from(both.account.unknown);
        plans.cut += u64::from(both.account.ways_cut);
        let (full, outcome) = scene.bare(regs);
        plans
            .full
            .add(&full, outcome.instructions, end_of(&outcome));
        for (planned, tally) in [(&both, &mut plans.both), (&drawn, &mut plans.drawn)] {
            let (seen, outcome, evaluated) = window(scene, regs, planned);
            if std::ptr::eq(planned, &both) {
                plans.ended_early += u64::from(evaluated != Evaluated::Done);
            }
            tally.add(&seen, outcome.instructions, end_of(&outcome));
            if let Some(difference) = difference(&full, &seen) {
                differences.push(format!(
                    "with a plan at {:#x}: {difference}\n{}",
                    regs.rip, planned.plan
                ));
            }
        }
        self.learn(&full);
        differences
    }

    /// Remembers where the indirect branches of a window led.
    fn learn(&mut self, window: &Recorder) {
        for claims in &window.instructions {
            let Some(destination) = claims.went else {
                continue;
            };
            let seen = self.seen.entry(claims.pc).or_default();
            seen.retain(|held| *held != destination);
            seen.push(destination);
            if seen.len() > DESTINATIONS {
                seen.remove(0);
            }
        }
    }

    /// A plan of both arms, or, with random numbers, of one that is drawn.
    fn plan(
        &mut self,
        scene: &mut Scene<'_>,
        regs: &user_regs_struct,
        random: Option<&mut Random>,
    ) -> Result<Planned, StopReason> {
        let mut coin;
        let arms = match random {
            Some(random) => {
                coin = |arms: usize| (random.next() % arms as u64) as usize;
                Arms::Drawn(&mut coin)
            }
            None => Arms::Both,
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
        self.planner.plan(regs.rip, &mut scene.code(), request)
    }
}

fn window(
    scene: &mut Scene<'_>,
    regs: &user_regs_struct,
    planned: &Planned,
) -> (Recorder, Outcome, Evaluated) {
    let sources = Sources {
        gpr: general(regs),
        bias: BIAS,
        fs_base: Some(regs.fs_base),
        gs_base: None,
    };
    let mut snapshot = Snapshot::default();
    let mut all = scene.memory(None);
    let mut read = |address, bytes: &mut [u8]| all.read(address, bytes);
    let evaluated = evaluate(&planned.plan, &sources, &mut read, &mut snapshot);
    let mut seen = Recorder::default();
    let start = scene.registers(regs);
    let mut code = scene.code();
    let mut code = Ending::new(&mut code, planned, BIAS);
    let outcome = capturing(WINDOW).run(&start, &mut code, &mut snapshot, &mut seen);
    (seen, outcome, evaluated)
}
