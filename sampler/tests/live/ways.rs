//! What ways and rows make the handler read, held against what the program must hold.

use std::path::Path;
use std::process::Command;

use addresses::ProcessAddress;
use libtest_mimic::{Failed, Trial};
use sampler::{
    CallerRbp, CapturedMemory, Clock, Config, Context, Engine, FrameSource, Outcome, RawSample,
    RowPlace, Share, Target, UnwindRow,
};

use crate::for_clocks_with_bpf;
use crate::programs::Waiting;
use crate::recording::{Recording, check, millisecond, samples};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    trials.extend(for_clocks_with_bpf("ways_bring_true_values", truth));
    trials.extend(for_clocks_with_bpf(
        "a_share_of_samples_has_its_way_followed",
        share,
    ));
    trials.extend(for_clocks_with_bpf(
        "ways_through_the_kernel_read_its_memory_only",
        kernel,
    ));
    trials
}

/// As in the program's source.
const NODES: u64 = 1021;
const STEP: u64 = 389;
const NODE_BYTES: u64 = 64;
const CONSTANT: u64 = 0x5eed_5eed_1234_5678;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Samples that are held against the truth.
const SAMPLES: usize = 20_000;

/// Number of the register that leads to the node.
const RDI: usize = 7;

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

    /// What lies at the address of a word of nodes, table or constant; `None` elsewhere.
    fn word(&self, address: u64) -> Option<u64> {
        let node = address.wrapping_sub(self.nodes);
        let entry = address.wrapping_sub(self.table) / 8;
        if node < NODES * NODE_BYTES {
            let (index, offset) = (node / NODE_BYTES, (node % NODE_BYTES) / 8);
            return Some(match offset {
                0 => self.nodes + (index + STEP) % NODES * NODE_BYTES,
                1 => index,
                _ => 0,
            });
        }
        if entry < NODES {
            return Some(entry.wrapping_mul(FACTOR));
        }
        (address == self.constant).then_some(CONSTANT)
    }

    /// How many words of the pieces are the program's, each of which must be as it made them.
    fn known_words(&self, capture: &CapturedMemory) -> Result<usize, Failed> {
        let mut known = 0;
        for (address, bytes) in capture.pieces() {
            for (word, at) in bytes.as_chunks().0.iter().zip((address..).step_by(8)) {
                let Some(expected) = self.word(at) else {
                    continue;
                };
                let found = u64::from_le_bytes(*word);
                check(found == expected, || format!("{found:x} at {at:x}"))?;
                known += 1;
            }
        }
        Ok(known)
    }

    /// The loads of one turn, from registers at the loop's begin: node, its successor, table,
    /// constant.
    fn loads(&self, node: u64) -> [u64; 4] {
        let index = ((node - self.nodes) / NODE_BYTES + STEP) % NODES;
        let next = self.nodes + index * NODE_BYTES;
        [node, next + 8, self.table + 8 * index, self.constant]
    }

    fn recording(&self, clock: Clock, share: Share) -> Result<Recording, Failed> {
        let period = match clock {
            Clock::CpuClock | Clock::Timer => 100_000,
            Clock::Cycles => 300_000,
        };
        let target = Target::Processes(vec![self.child.pid()]);
        let mut config = Config {
            engine: Engine::Bpf,
            ..Config::new(target, clock, period)
        };
        config.bpf.share = share;
        Recording::with(&config)
    }

    fn is_in_loop(&self, sample: &RawSample) -> bool {
        self.code.contains(&sample.ip.0)
    }
}

fn is_followed(capture: &CapturedMemory) -> bool {
    matches!(capture.outcome, Outcome::Followed { .. })
}

/// Every way through the loop brings what its turn loads, and nothing else than what the program
/// holds; so is every caller that the rows lead to. Not one may be wrong, before the process is
/// known and after that.
fn truth(clock: Clock) -> Result<(), Failed> {
    let chase = Chase::start()?;
    let mut recording = chase.recording(clock, Share::ALL)?;
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
    let row = UnwindRow::Frame {
        register: 5,
        offset: 16,
        rbp: CallerRbp::Saved(-16),
    };
    handler.put_row(key, RowPlace::of_return(callers[0].return_address), row)?;
    for pc in chase.code.clone() {
        handler.put_row(key, RowPlace::of_start(ProcessAddress(pc)), row)?;
    }
    recording.samples(SAMPLES / 2, is_in_loop)?;
    handler.meet(key, false)?;
    recording.samples(SAMPLES, is_in_loop)?;
    let (batches, _) = recording.stop()?;
    let (mut by_row, mut all, mut crowded) = (0, 0, 0);
    for sample in samples(&batches).filter(|sample| is_in_loop(sample)) {
        let capture = sample.capture.as_ref().ok_or("no capture")?;
        let registers = sample.interrupted.ok_or("no registers")?;
        // So it is where this test had no processor for a while to empty the buffer.
        if capture.outcome == Outcome::Crowded {
            crowded += 1;
            continue;
        }
        check(is_followed(capture), || format!("{capture:?}"))?;
        let known = chase.known_words(capture)?;
        check(known >= 16, || format!("{known} words of {capture:?}"))?;
        if sample.ip.0 == chase.code.start {
            let has = |address: u64| {
                let mut starts = capture.pieces().map(|(start, _)| start);
                starts.any(|start| start == address & !63)
            };
            let loads = chase.loads(registers.gpr[RDI]);
            check(loads.into_iter().all(has), || {
                format!("{loads:x?} of {capture:?}")
            })?;
        }
        let frames: Vec<_> = capture.frames().take(2).collect();
        check(
            frames
                .iter()
                .map(|of| of.return_address)
                .eq(callers.iter().map(|of| of.return_address)),
            || format!("{frames:x?}, not {callers:x?}"),
        )?;
        all += 1;
        by_row += usize::from(frames.iter().all(|of| of.source == FrameSource::Row));
    }
    chase.child.end()?;
    check(crowded * 20 <= all, || {
        format!("no room for the ways of {crowded} samples, and {all} others")
    })?;
    // What was in the buffer while rows were being given is without.
    check(by_row * 100 >= all * 95, || {
        format!("the callers of {by_row} of {all} samples were found by rows")
    })
}

/// Of all samples the given share have their ways followed; the others have their callers, and no
/// memory.
fn share(clock: Clock) -> Result<(), Failed> {
    const WANTED: usize = 4000;
    let chase = Chase::start()?;
    let mut recording = chase.recording(clock, Share::new(0.25))?;
    let is_in_loop = |sample: &RawSample| chase.is_in_loop(sample);
    recording.samples(WANTED, is_in_loop)?;
    let (batches, _) = recording.stop()?;
    let (mut all, mut followed) = (0_usize, 0_usize);
    for sample in samples(&batches).filter(|sample| is_in_loop(sample)) {
        let capture = sample.capture.as_ref().ok_or("no capture")?;
        if capture.outcome == Outcome::Crowded {
            continue;
        }
        all += 1;
        if is_followed(capture) {
            followed += 1;
            continue;
        }
        let has_memory = !capture.code().is_empty() || capture.pieces().next().is_some();
        let is_bare = capture.outcome == Outcome::WithoutWay && !has_memory;
        check(is_bare && capture.frames().len() > 0, || {
            format!("{capture:?}")
        })?;
    }
    chase.child.end()?;
    // Six standard deviations of 4000 coins are 4 of 100.
    check(
        all * 20 >= WANTED * 19 && followed * 100 > all * 21 && followed * 100 < all * 29,
        || format!("the ways of {followed} of {all} samples were followed"),
    )
}

/// A way through the kernel's code reads the kernel's memory, and none of the process.
fn kernel(clock: Clock) -> Result<(), Failed> {
    let mut child = Waiting::shell("dd if=/dev/zero of=/dev/null bs=1")?;
    child.go()?;
    let target = Target::Processes(vec![child.pid()]);
    let mut recording = Recording::with(&Config {
        engine: Engine::Bpf,
        ..Config::new(target, clock, millisecond(clock) / 4)
    })?;
    let in_system_call = |sample: &RawSample| {
        let capture = sample.capture.as_ref();
        capture.is_some_and(|of| of.task.context == Context::Kernel && of.system_call.is_some())
    };
    recording.samples(300, in_system_call)?;
    let (batches, _) = recording.stop()?;
    child.kill()?;
    let (mut all, mut with_data) = (0, 0);
    for sample in samples(&batches).filter(|sample| in_system_call(sample)) {
        let capture = sample.capture.as_ref().ok_or("no capture")?;
        let mut starts = capture.pieces().map(|(start, _)| start);
        check(starts.all(|start| start >> 63 == 1), || {
            format!("{:x?}", capture.pieces().collect::<Vec<_>>())
        })?;
        check(is_followed(capture) && capture.frames().len() == 0, || {
            format!("{capture:?}")
        })?;
        check(sample.stack.is_empty(), || format!("{sample:?}"))?;
        all += 1;
        let mut starts = capture.pieces().map(|(start, _)| start);
        with_data += usize::from(starts.any(|start| start.abs_diff(sample.ip.0) > 4096));
    }
    // Its own stack, say.
    check(with_data * 4 > all, || {
        format!("{with_data} of {all} ways read more than code")
    })
}
