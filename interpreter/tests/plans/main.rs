//! Capture plans against windows: what a plan brings back is what the window would have read.

mod cases;
mod code;
mod program;

use interpreter::{
    Arms, Capture, Ending, Memory, Outcome, Parameter, Planned, Planner, Request, Sink, Snapshot,
    StopReason, Window, evaluate,
};
use proptest::prelude::*;

use crate::program::{BIAS, LIMITS, Program, Random, START, World, registers, sources};

/// What a window told, in order.
#[derive(Clone, PartialEq, Debug)]
enum Told {
    Value(u64, Parameter, Option<u64>),
    Branch(u64, Option<bool>),
    Load(u64, Option<u64>, u32),
}

#[derive(Default)]
struct Recorder {
    told: Vec<Told>,
    loads: u32,
    known: u32,
}

impl Sink for Recorder {
    fn value(&mut self, pc: u64, parameter: Parameter, value: Option<u64>) {
        self.told.push(Told::Value(pc, parameter, value));
    }

    fn branch(&mut self, pc: u64, taken: Option<bool>) {
        self.told.push(Told::Branch(pc, taken));
    }

    fn load(&mut self, pc: u64, address: Option<u64>, bytes: u32, known: bool) {
        self.told.push(Told::Load(pc, address, bytes));
        self.loads += 1;
        self.known += u32::from(known);
    }
}

/// A window of a random program, all memory at hand, and again with a plan's snapshot alone.
struct Both {
    full: (Recorder, Outcome),
    planned: (Recorder, Outcome),
    plan: Planned,
}

fn run(
    program: &mut Program,
    sources: &interpreter::Sources,
    rflags: u64,
    memory: &mut dyn Memory,
    ending: Option<&Planned>,
) -> (Recorder, Outcome) {
    let mut recorder = Recorder::default();
    let window = Window {
        max_instructions: LIMITS.instructions,
        capture: Capture::all(),
    };
    let start = registers(sources, rflags);
    let outcome = match ending {
        None => window.run(&start, program, memory, &mut recorder),
        Some(planned) => {
            let mut code = Ending::new(program, planned, BIAS);
            window.run(&start, &mut code, memory, &mut recorder)
        }
    };
    (recorder, outcome)
}

/// Both runs of the program that a seed makes.
fn both(seed: u64, branches: bool, drawn: bool, missing: u64) -> (Program, Both) {
    let mut random = Random(seed);
    let mut program = Program::random(&mut random, branches);
    let sources = sources(&mut random);
    let rflags = random.next() & 0x8d5;
    let mut world = World {
        seed: random.next(),
        missing,
    };
    let mut coin = |arms| random.below(arms as u64) as usize;
    let arms = if drawn {
        Arms::Drawn(&mut coin)
    } else {
        Arms::Both
    };
    let plan = Planner::default()
        .plan(
            START + BIAS,
            &mut program,
            Request {
                arms,
                limits: LIMITS,
                ..Request::default()
            },
        )
        .expect("there is code at the start");
    let mut snapshot = Snapshot::default();
    let mut read = |address, bytes: &mut [u8]| world.read(address, bytes);
    evaluate(&plan.plan, &sources, &mut read, &mut snapshot);
    let full = run(&mut program, &sources, rflags, &mut world, None);
    let ending = drawn.then_some(&plan);
    let planned = run(&mut program, &sources, rflags, &mut snapshot, ending);
    let both = Both {
        full,
        planned,
        plan,
    };
    (program, both)
}

/// Says where the window with the plan claims anything that the one with all memory does not.
fn difference(both: &Both) -> Option<String> {
    let (full, full_end) = &both.full;
    let (planned, planned_end) = &both.planned;
    for (index, claimed) in planned.told.iter().enumerate() {
        let Some(real) = full.told.get(index) else {
            // Without the memory that it goes by, a fault cannot be foreseen.
            if full_end.stop == StopReason::FaultingInstruction {
                return None;
            }
            return Some(format!("{claimed:x?} was never reached"));
        };
        let agrees = match (claimed, real) {
            (Told::Value(pc, p, value), Told::Value(real_pc, real_p, real)) => {
                (pc, p) == (real_pc, real_p) && (value.is_none() || value == real)
            }
            (Told::Branch(pc, taken), Told::Branch(real_pc, real)) => {
                pc == real_pc && (taken.is_none() || taken == real)
            }
            (Told::Load(pc, address, bytes), Told::Load(real_pc, real, real_bytes)) => {
                (pc, bytes) == (real_pc, real_bytes) && (address.is_none() || address == real)
            }
            _ => false,
        };
        if !agrees {
            return Some(format!("claimed {claimed:x?}, is {real:x?}"));
        }
    }
    let done = StopReason::Complete;
    if (full_end.stop, planned_end.stop) == (done, done) {
        let words = full_end
            .registers
            .gpr
            .iter()
            .zip(&planned_end.registers.gpr);
        for (number, (real, claimed)) in words.enumerate() {
            let known = claimed.known_bytes();
            let of_real = interpreter::Word::partial(real.known_bits(), known);
            if real.known_bytes() & known != known || of_real.known_bits() != claimed.known_bits() {
                return Some(format!(
                    "register {number}: claimed {claimed:x?}, is {real:x?}"
                ));
            }
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// With a plan's snapshot alone a window claims nothing that it does not find with all memory,
    /// whatever the code, with pages missing, with both arms planned or one drawn.
    #[test]
    fn plans_tell_no_lies(
        seed in any::<u64>(),
        branches in any::<bool>(),
        drawn in any::<bool>(),
        missing in prop_oneof![Just(0u64), Just(2), Just(8)],
    ) {
        let (program, both) = both(seed, branches, drawn, missing);
        if let Some(difference) = difference(&both) {
            return Err(TestCaseError::fail(format!(
                "{difference}\n{:02x?}\n{}",
                program.bytes(),
                both.plan.plan
            )));
        }
    }

    /// A plan depends on nothing but what it is made from, and keeps to its limits.
    #[test]
    fn plans_keep_to_limits(seed in any::<u64>(), steps in 0u8..40, bytes in 0u16..600) {
        let mut program = Program::random(&mut Random(seed), true);
        let limits = interpreter::Limits { steps, bytes, ..LIMITS };
        let mut planner = Planner::default();
        let mut plan = || {
            planner.plan(START + BIAS, &mut program, Request { limits, ..Request::default() })
                .expect("there is code at the start")
        };
        let first = plan();
        prop_assert_eq!(&first, &plan());
        prop_assert!(first.plan.steps().len() <= usize::from(steps).min(32));
        prop_assert!(first.plan.load_bytes() <= usize::from(bytes));
        prop_assert_eq!(interpreter::Plan::from_bytes(&first.plan.to_bytes()), Ok(first.plan));
    }
}

/// Of the loads that windows of random code do with all memory at hand, plans bring back most.
#[test]
fn loads_are_covered() {
    for (name, branches, least) in [("straight", false, 90), ("branching", true, 70)] {
        let (mut loads, mut known, mut of_plan) = (0, 0, 0);
        let mut accounts = interpreter::Account::default();
        for seed in 0..2000 {
            let (_, both) = both(seed, branches, false, 0);
            loads += both.full.0.loads;
            known += both.full.0.known;
            of_plan += both.planned.0.known;
            let account = both.plan.account;
            accounts.loads += account.loads;
            accounts.dropped += account.dropped;
            accounts.unknown += account.unknown;
            accounts.stored += account.stored;
            accounts.ways_cut += account.ways_cut;
        }
        println!("{name}: {loads} loads, {known} known, {of_plan} with the plan; {accounts:?}");
        assert!(
            of_plan * 100 >= known * least,
            "{name}: {of_plan} of {known}"
        );
    }
}
