//! What plans and rows make the handler read, held against what the program must hold.

use std::path::Path;
use std::process::Command;

use libtest_mimic::{Failed, Trial};
use sampler::{
    CallerRbp, Capture, Clock, Config, Context, Engine, FrameSource, GivenPlan, Handler,
    PlanFailure, PlanOutcome, ProcessKey, RawSample, Registers, Row, Share, Target,
};

use crate::for_clocks_with_bpf;
use crate::programs::Waiting;
use crate::recording::{Recording, millisecond, samples};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    trials.extend(for_clocks_with_bpf("plans_bring_true_values", truth));
    trials.extend(for_clocks_with_bpf(
        "a_plan_ends_at_what_cannot_be_read",
        unreadable,
    ));
    trials.extend(for_clocks_with_bpf(
        "a_plan_is_for_its_share_of_samples",
        share,
    ));
    trials.extend(for_clocks_with_bpf(
        "kernel_plans_read_the_kernels_memory_only",
        kernel,
    ));
    trials
}

fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(what().into()) }
}

/// As in the program's source.
const NODES: u64 = 1021;
const STEP: u64 = 389;
const NODE_BYTES: u64 = 64;
const CONSTANT: u64 = 0x5eed_5eed_1234_5678;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Samples that are held against the truth.
const SAMPLES: usize = 20_000;

/// Numbers of registers and of a plan's other sources.
const RSP: u8 = 4;
const RSI: u8 = 6;
const RDI: u8 = 7;
const BIAS: u8 = 16;
const NONE: u8 = 19;
const STEP_0: u8 = 32;
const STEP_1: u8 = 33;

/// A load as the wire form has it: `size` bytes at `base + (index << scale) + displacement`.
struct Load {
    displacement: u64,
    base: u8,
    index: u8,
    scale: u8,
    size: u8,
}

const fn load(displacement: u64, base: u8, index: u8, scale: u8, size: u8) -> Load {
    Load {
        displacement,
        base,
        index,
        scale,
        size,
    }
}

fn plan(loads: &[Load]) -> Vec<u8> {
    let total: u16 = loads.iter().map(|load| u16::from(load.size)).sum();
    let [b0, b1] = total.to_le_bytes();
    let mut bytes = vec![1, 0, loads.len() as u8, 0, b0, b1, 0, 0];
    for load in loads {
        bytes.extend(load.displacement.to_le_bytes());
        bytes.extend([load.base, 0, load.index, 0, load.scale, load.size, 0, 0]);
    }
    bytes.resize(520, 0);
    bytes
}

/// The program, chasing.
struct Chase {
    child: Waiting,
    code: std::ops::Range<u64>,
    nodes: u64,
    table: u64,
    constant: u64,
    _folder: tempfile::TempDir,
}

impl Chase {
    fn start() -> Result<Chase, Failed> {
        let folder = tempfile::tempdir()?;
        let program = folder.path().join("chase");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/chase.c");
        let compiled = Command::new("gcc")
            .args([
                "-O1",
                "-fno-omit-frame-pointer",
                "-fno-optimize-sibling-calls",
            ])
            .args(["-pthread", "-o"])
            .arg(&program)
            .arg(source)
            .status()?;
        check(compiled.success(), || {
            "the program does not compile".to_owned()
        })?;
        let mut child = Waiting::shell(&format!("'{}'", program.display()))?;
        child.go()?;
        let mut number = || child.number();
        let (begin, end) = (number()?, number()?);
        let (nodes, table, constant) = (number()?, number()?, number()?);
        Ok(Chase {
            child,
            code: begin..end,
            nodes,
            table,
            constant,
            _folder: folder,
        })
    }

    /// The loads that the code does next, whatever PC of the loop it is at.
    fn plan(&self) -> Vec<u8> {
        plan(&[
            load(0, RDI, NONE, 0, 8),
            load(8, STEP_0, NONE, 0, 4),
            load(0, RSI, STEP_1, 3, 8),
            load(self.constant - self.code.start, BIAS, NONE, 0, 8),
        ])
    }

    /// The pieces that registers imply.
    fn truth(&self, registers: &Registers) -> Vec<(u64, Vec<u8>)> {
        let node = registers.gpr[usize::from(RDI)];
        let index = ((node - self.nodes) / NODE_BYTES + STEP) % NODES;
        let next = self.nodes + index * NODE_BYTES;
        vec![
            (node, next.to_le_bytes().to_vec()),
            (next + 8, index.to_le_bytes()[..4].to_vec()),
            (
                self.table + 8 * index,
                index.wrapping_mul(FACTOR).to_le_bytes().to_vec(),
            ),
            (self.constant, CONSTANT.to_le_bytes().to_vec()),
        ]
    }

    fn recording(&self, clock: Clock) -> Result<Recording, Failed> {
        let period = match clock {
            Clock::CpuClock | Clock::Timer => 100_000,
            Clock::Cycles => 300_000,
        };
        Recording::with(&Config {
            engine: Engine::Bpf,
            ..Config::new(Target::Processes(vec![self.child.pid()]), clock, period)
        })
    }

    fn is_in_loop(&self, sample: &RawSample) -> bool {
        self.code.contains(&sample.ip)
    }

    /// Gives a plan for every PC of the loop.
    fn give(&self, handler: &Handler, key: ProcessKey, plan: &GivenPlan<'_>) -> Result<(), Failed> {
        for pc in self.code.clone() {
            handler.put_plan(key, pc, plan)?;
        }
        Ok(())
    }

    /// Its key, from the first sample of it.
    fn process(&self, recording: &mut Recording) -> Result<ProcessKey, Failed> {
        recording.samples(1, |sample| self.is_in_loop(sample))?;
        let mut captures = samples(&recording.batches).filter_map(|sample| sample.capture.as_ref());
        let first = captures.next().ok_or("no capture")?;
        Ok(first.task.process())
    }
}

/// A plan for all samples, of code that is loaded where it is linked.
fn plain(tag: u32, bytes: &[u8]) -> GivenPlan<'_> {
    GivenPlan {
        bytes,
        bias: 0,
        tag,
        row: None,
        share: Share::ALL,
    }
}

fn pieces(capture: &Capture) -> Vec<(u64, Vec<u8>)> {
    capture
        .pieces()
        .map(|(address, bytes)| (address, bytes.to_vec()))
        .collect()
}

/// With a plan for each PC of the loop, every piece is what the registers imply; so is every caller
/// that the rows lead to. Not one may be wrong.
fn truth(clock: Clock) -> Result<(), Failed> {
    let chase = Chase::start()?;
    let mut recording = chase.recording(clock)?;
    let handler = recording.running().handler().ok_or("no handler")?;
    let is_in_loop = |sample: &RawSample| chase.is_in_loop(sample);
    recording.samples(1, is_in_loop)?;
    let first = samples(&recording.batches).find(|sample| is_in_loop(sample));
    let capture = first
        .and_then(|sample| sample.capture.as_ref())
        .ok_or("no capture")?;
    // Frame pointers lead to the callers of the loop: its function's, and two more.
    let callers: Vec<_> = capture.frames().take(2).collect();
    check(
        callers.len() == 2
            && callers
                .iter()
                .all(|of| of.source == FrameSource::FramePointer),
        || format!("{callers:x?}"),
    )?;
    let key = capture.task.process();
    let row = Row::Frame {
        register: 5,
        offset: 16,
        rbp: CallerRbp::Saved(-16),
    };
    let bytes = chase.plan();
    // Before the plans: whatever has one then has its rows, too.
    handler.put_row(key, callers[0].return_address, row)?;
    let plan = GivenPlan {
        bias: chase.code.start,
        row: Some(row),
        ..plain(7, &bytes)
    };
    chase.give(&handler, key, &plan)?;
    let given = samples(&recording.batches).count();
    recording.samples(SAMPLES, is_in_loop)?;
    let (batches, _) = recording.stop()?;
    let (mut complete, mut all) = (0, 0);
    for sample in samples(&batches)
        .skip(given)
        .filter(|sample| is_in_loop(sample))
    {
        let capture = sample.capture.as_ref().ok_or("no capture")?;
        let registers = sample.interrupted.ok_or("no registers")?;
        all += 1;
        if capture.plan != (PlanOutcome::Complete { tag: 7 }) {
            continue;
        }
        complete += 1;
        check(pieces(capture) == chase.truth(&registers), || {
            format!("{:x?} at {registers:x?}", pieces(capture))
        })?;
        check(capture.code().is_empty(), || format!("{capture:?}"))?;
        let frames: Vec<_> = capture.frames().take(2).collect();
        check(
            frames
                .iter()
                .map(|of| of.return_address)
                .eq(callers.iter().map(|of| of.return_address))
                && frames.iter().all(|of| of.source == FrameSource::Row),
            || format!("{frames:x?}, not {callers:x?}"),
        )?;
    }
    chase.child.end()?;
    // What was in the buffer while plans were being given is without.
    check(complete * 100 >= all * 95, || {
        format!("{complete} plans of {all} samples were done")
    })
}

/// A plan ends at the first load that cannot be done, for the kernel's memory as for none, with what
/// came before; null pointers are passed over.
fn unreadable(clock: Clock) -> Result<(), Failed> {
    let chase = Chase::start()?;
    let mut recording = chase.recording(clock)?;
    let handler = recording.running().handler().ok_or("no handler")?;
    let is_in_loop = |sample: &RawSample| chase.is_in_loop(sample);
    let key = chase.process(&mut recording)?;
    let bad = [
        (0xffff_ffff_8100_0000, PlanFailure::Forbidden),
        (0x1000_0000_0000, PlanFailure::Unreadable),
        (0x0000_7fff_ffff_fffc, PlanFailure::Unreadable),
        (0x00ff_ffff_ffff_fffc, PlanFailure::Forbidden),
    ];
    for (tag, (address, cause)) in (0_u32..).zip(bad) {
        let bytes = plan(&[
            load(0, RDI, NONE, 0, 8),
            load(0x10, NONE, NONE, 0, 8),
            load(address, NONE, NONE, 0, 8),
            load(0, RSI, NONE, 0, 8),
        ]);
        chase.give(&handler, key, &plain(tag, &bytes))?;
        let outcome = PlanOutcome::Failed {
            tag,
            step: 2,
            cause,
        };
        recording.samples(50, |sample| {
            sample.capture.as_ref().is_some_and(|of| of.plan == outcome)
        })?;
    }
    let (batches, _) = recording.stop()?;
    for sample in samples(&batches).filter(|sample| is_in_loop(sample)) {
        let capture = sample.capture.as_ref().ok_or("no capture")?;
        if let PlanOutcome::Failed { tag, step, cause } = capture.plan {
            let expected = bad.get(tag as usize).map(|(_, cause)| (2, *cause));
            check(Some((step, cause)) == expected, || format!("{capture:?}"))?;
            let registers = sample.interrupted.ok_or("no registers")?;
            let truth = chase.truth(&registers);
            check(pieces(capture) == truth[..1], || {
                format!("{:x?}", pieces(capture))
            })?;
        }
    }
    chase.child.end()
}

/// Of the samples at a PC the given share have the plan evaluated; the others have their callers and
/// say how likely it was. A share that is changed holds from then on.
fn share(clock: Clock) -> Result<(), Failed> {
    let chase = Chase::start()?;
    let mut recording = chase.recording(clock)?;
    let handler = recording.running().handler().ok_or("no handler")?;
    let is_in_loop = |sample: &RawSample| chase.is_in_loop(sample);
    let key = chase.process(&mut recording)?;
    let (bytes, part) = (chase.plan(), Share::new(0.25));
    let plan = GivenPlan {
        bias: chase.code.start,
        share: part,
        ..plain(7, &bytes)
    };
    chase.give(&handler, key, &plan)?;
    let of_share = |part: Share| {
        move |sample: &RawSample| {
            let capture = sample.capture.as_ref();
            capture.is_some_and(|of| of.plan != PlanOutcome::Missing && of.share == part)
        }
    };
    const WANTED: usize = 4000;
    recording.samples(WANTED, of_share(part))?;
    for pc in chase.code.clone() {
        handler.set_share(key, pc, Share::ALL);
    }
    // No plan is there: nothing comes of it.
    handler.set_share(key, 1, Share::ALL);
    recording.samples(100, of_share(Share::ALL))?;
    let (batches, _) = recording.stop()?;
    let (mut all, mut done) = (0_usize, 0_usize);
    for sample in samples(&batches).filter(|sample| is_in_loop(sample)) {
        let capture = sample.capture.as_ref().ok_or("no capture")?;
        let thinned = capture.plan == PlanOutcome::Thinned { tag: 7 };
        let parts = (capture.code().is_empty(), capture.pieces().next().is_none());
        if thinned {
            check(parts == (true, true), || format!("{capture:?}"))?;
            check(capture.frames().len() > 0, || format!("{capture:?}"))?;
            check(capture.share == part, || format!("{:?}", capture.share))?;
        }
        if capture.plan != PlanOutcome::Missing && capture.share == part {
            all += 1;
            done += usize::from(!thinned);
        }
    }
    chase.child.end()?;
    // Six standard deviations of 4000 coins are 4 of 100.
    check(
        all >= WANTED && done * 100 > all * 21 && done * 100 < all * 29,
        || format!("{done} of {all} samples had their plan evaluated"),
    )
}

/// A plan for the kernel's code serves all processes; it reads the stack it is on, and no user memory.
fn kernel(clock: Clock) -> Result<(), Failed> {
    let mut child = Waiting::shell("dd if=/dev/zero of=/dev/null bs=64k")?;
    child.go()?;
    let target = Target::Processes(vec![child.pid()]);
    let mut recording = Recording::with(&Config {
        engine: Engine::Bpf,
        ..Config::new(target, clock, millisecond(clock) / 4)
    })?;
    let handler = recording.running().handler().ok_or("no handler")?;
    let in_system_call = |sample: &RawSample| {
        let capture = sample.capture.as_ref();
        capture.is_some_and(|of| of.task.context == Context::Kernel && of.system_call.is_some())
    };
    let stack = plan(&[load(0, RSP, NONE, 0, 8), load(8, RSP, NONE, 0, 16)]);
    let user = plan(&[load(0, RSP, NONE, 0, 8), load(0x40_0000, NONE, NONE, 0, 8)]);
    let forbidden = PlanOutcome::Failed {
        tag: 2,
        step: 1,
        cause: PlanFailure::Forbidden,
    };
    for (tag, bytes, outcome) in [
        (1, stack, PlanOutcome::Complete { tag: 1 }),
        (2, user, forbidden),
    ] {
        let given = samples(&recording.batches).count();
        let with =
            |sample: &RawSample| sample.capture.as_ref().is_some_and(|of| of.plan == outcome);
        while samples(&recording.batches)
            .skip(given)
            .filter(|of| with(of))
            .count()
            < 50
        {
            recording.samples(samples(&recording.batches).count() + 1, |_| true)?;
            let last: Vec<u64> = samples(&recording.batches)
                .skip(given)
                .filter(|sample| in_system_call(sample) && !with(sample))
                .map(|sample| sample.ip)
                .collect();
            for pc in last {
                handler.put_plan(ProcessKey::default(), pc, &plain(tag, &bytes))?;
            }
        }
    }
    let (batches, _) = recording.stop()?;
    child.kill()?;
    for sample in samples(&batches).filter(|sample| in_system_call(sample)) {
        let capture = sample.capture.as_ref().ok_or("no capture")?;
        let rsp = sample.interrupted.ok_or("no registers")?.sp();
        let addresses: Vec<(u64, usize)> = capture
            .pieces()
            .map(|(address, bytes)| (address, bytes.len()))
            .collect();
        let expected = match capture.plan {
            PlanOutcome::Missing => vec![],
            PlanOutcome::Complete { tag: 1 } => vec![(rsp, 8), (rsp + 8, 16)],
            outcome if outcome == forbidden => vec![(rsp, 8)],
            _ => return Err(format!("{capture:?}").into()),
        };
        check(addresses == expected, || {
            format!("{addresses:x?} at {rsp:x}")
        })?;
        check(
            capture.code().is_empty() == matches!(capture.plan, PlanOutcome::Complete { .. })
                && capture.frames().len() == 0,
            || format!("{capture:?}"),
        )?;
    }
    Ok(())
}
