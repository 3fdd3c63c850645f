//! Pairs of breakpoints, held against a block whose end follows from its beginning.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use addresses::ProcessAddress;
use libtest_mimic::{Completion, Failed, Trial};
use sampler::{
    Batch, Block, Breakpoints, Clock, Config, Engine, Miss, Pair, Pid, RawSample, Record, Running,
    Sampler, Stop, Target, Tid, UserRegisters, VectorOptions, Vectors, probe,
};

use crate::recording::check;

/// How many threads run the block, and whether signals interrupt them.
const CASES: [(u32, bool); 4] = [(1, false), (4, false), (1, true), (4, true)];

/// Pairs of a case, and how often they are tried at most.
const PAIRS: usize = 100;
const ATTEMPTS: usize = 10_000;
/// How long a thread may take to come by.
const ALLOWED: Duration = Duration::from_millis(20);

/// Numbers of the registers of the block.
const RCX: usize = 1;
const RDX: usize = 2;
const RBX: usize = 3;

pub(crate) fn trials() -> Vec<Trial> {
    let case = |(threads, storm, vectors): (u32, bool, bool)| {
        let suffix = if storm { "_in_a_storm" } else { "" };
        let name = if vectors {
            "pairs_bring_vectors"
        } else {
            "pairs_are_true"
        };
        Trial::ignorable_test(format!("{name}::{threads}{suffix}"), move || {
            if let Err(refusal) = probe::bpf() {
                return Ok(Completion::ignored_with(format!("needs BPF: {refusal}")));
            }
            if let Err(why) = probe::traps_are_told() {
                let reason = format!("needs breakpoints that say so: {why}");
                return Ok(Completion::ignored_with(reason));
            }
            // This machine's processor may not have them; nothing else keeps root from them.
            probe::breakpoints()?;
            if vectors && let Err(refusal) = probe::vectors() {
                return Ok(Completion::ignored_with(format!(
                    "needs vectors: {refusal}"
                )));
            }
            pairs(threads, storm, vectors).map(|()| Completion::Completed)
        })
    };
    let cases = CASES.into_iter();
    let each = cases.flat_map(|(threads, storm)| [(threads, storm, false), (threads, storm, true)]);
    each.map(case).collect()
}

/// A program that runs the block.
struct Program {
    child: Child,
    block: Block,
    tids: Vec<Tid>,
}

impl Program {
    fn start(folder: &Path, threads: u32, storm: bool) -> Result<Program, Failed> {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/live/paired.c");
        let path = folder.join("paired");
        let compiled = Command::new("gcc")
            .args(["-O2", "-pthread", "-o"])
            .arg(&path)
            .arg(source)
            .status()?;
        check(compiled.success(), || "it does not compile".to_owned())?;
        let mut child = Command::new(path)
            .args([threads.to_string(), u32::from(storm).to_string()])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let addresses = lines.next().ok_or("no addresses")??;
        let mut tids = Vec::new();
        for _ in 0..threads {
            tids.push(Tid(lines.next().ok_or("no thread")??.parse()?));
        }
        let (entry, exit) = addresses.split_once(' ').ok_or("no addresses")?;
        let address = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16);
        let (entry, exit) = (address(entry)?, address(exit)?);
        let mut code = vec![0; (exit - entry) as usize];
        File::open(format!("/proc/{}/mem", child.id()))?.read_exact_at(&mut code, entry)?;
        Ok(Program {
            block: Block {
                pid: Pid(child.id()),
                tid: Tid(0),
                entry: ProcessAddress(entry),
                exit: ProcessAddress(exit),
                code: code.into(),
                calls_system: false,
                wants_vectors: false,
                operands: Vec::new(),
            },
            child,
            tids,
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Vector registers that were brought, by the end of the block that they are of.
type Captured = HashMap<Stop, RawSample>;

/// Breakpoints as the collector sets them, for as long as the run goes on; and what is brought.
fn breakpoints(vectors: bool) -> Result<(Running, Breakpoints, Receiver<Batch>), Failed> {
    let mut config = Config::new(Target::System, Clock::CpuClock, 100_000_000);
    config.engine = Engine::Bpf;
    config.bpf.breakpoints = true;
    config.bpf.vectors = vectors.then_some(VectorOptions {
        share: None,
        most: 1,
    });
    let (sender, receiver) = sync_channel(16);
    let mut running = Sampler::open(&config)?.start(sender)?;
    let breakpoints = running.breakpoints();
    check(breakpoints.brings_vectors() == vectors, || {
        format!("no vectors: {:?}", running.setup().no_vectors)
    })?;
    Ok((running, breakpoints, receiver))
}

/// All that is brought until the run ends.
fn all(from: &Receiver<Batch>) -> Captured {
    let mut brought = Captured::new();
    for record in from.iter().flat_map(|batch| batch.records) {
        if let Record::Packed(packed) = record
            && let (Some(stop), Some(sample)) = (packed.stop(), packed.unpack())
        {
            brought.insert(stop, sample);
        }
    }
    brought
}

fn pairs(threads: u32, storm: bool, vectors: bool) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let program = Program::start(folder.path(), threads, storm)?;
    let (running, breakpoints, receiver) = breakpoints(vectors)?;
    let receiver = thread::spawn(move || all(&receiver));
    let (mut seen, mut missed) = (Vec::new(), Vec::new());
    for (attempt, tid) in program.tids.iter().cycle().enumerate() {
        if seen.len() >= PAIRS {
            break;
        }
        check(attempt < ATTEMPTS, || format!("{} pairs only", seen.len()))?;
        let block = Block {
            tid: *tid,
            wants_vectors: vectors,
            ..program.block.clone()
        };
        match breakpoints.pair(&block, ALLOWED) {
            Ok(pair) => {
                is_true(&pair, &block)?;
                seen.push(pair);
            }
            Err(
                miss @ (Miss::NoEntry
                | Miss::NoExit
                | Miss::ExitFirst
                | Miss::Switched
                | Miss::Signalled),
            ) => missed.push(miss.name()),
            Err(miss) => return Err(miss.meaning().into()),
        }
    }
    missed.sort_unstable();
    let kinds = missed.chunk_by(|a, b| a == b);
    let kinds: Vec<_> = kinds.map(|of| format!("{} {}", of.len(), of[0])).collect();
    println!("    {} pairs, none wrong; besides {kinds:?}", seen.len());
    running.stop();
    let mut brought = receiver.join().map_err(|_| "the receiver panicked")?;
    if !vectors {
        return check(brought.is_empty(), || "vectors nobody wanted".to_owned());
    }
    let (mut both, mut unproven) = (0, 0);
    for pair in &seen {
        let mut take = |is_exit| {
            let attempt = pair.attempt;
            brought.remove(&Stop { attempt, is_exit })
        };
        let (entry, exit) = (take(false), take(true));
        unproven += u32::from(pair.was_switched && entry.is_none());
        both += u32::from(entry.is_some() && exit.is_some());
        are_brought(pair, entry.as_ref(), exit.as_ref())?;
    }
    println!("    {both} with vectors at both ends, {unproven} without proof of one execution");
    check(both > 0, || "no vectors at both ends".to_owned())
}

/// The word of a vector register that the block doubles is what it is to be at each end, and the
/// general registers are those of the pair.
fn are_brought(
    pair: &Pair,
    entry: Option<&RawSample>,
    exit: Option<&RawSample>,
) -> Result<(), Failed> {
    let UserRegisters::Long(before) = &pair.before.user else {
        return Err("a pair without registers".into());
    };
    let count = before.gpr[RBX];
    let ends = [(entry, before, count), (exit, &pair.after, 2 * count)];
    for (end, registers, expected) in ends {
        let Some(end) = end else { continue };
        let state = match end.capture.as_ref().map(|capture| &capture.vectors) {
            Some(Vectors::Here(state)) => state,
            _ => return Err("a record without vectors".into()),
        };
        let found = u64::from_le_bytes(*state.vectors[7].first_chunk().ok_or("no word")?);
        check(found == expected, || {
            format!("{found:#x} is not {expected:#x}")
        })?;
        let UserRegisters::Long(of) = &end.user else {
            return Err("a record without registers".into());
        };
        check(of.is_same_but_resuming(registers), || {
            format!("{of:x?} is not {registers:x?}")
        })?;
    }
    Ok(())
}

/// What the thread has at the exit follows from what it had at the entry.
fn is_true(pair: &Pair, block: &Block) -> Result<(), Failed> {
    let UserRegisters::Long(before) = &pair.before.user else {
        return Err("a pair without registers".into());
    };
    check(
        before.pc() == block.entry && pair.after.pc() == block.exit,
        || "not at its ends".to_owned(),
    )?;
    check(pair.before.tid == block.tid, || "another thread".to_owned())?;
    let rbx = before.gpr[RBX].wrapping_add(1);
    let rcx = rbx.wrapping_mul(0x5eed);
    let mut expected = before.gpr;
    (expected[RBX], expected[RCX]) = (rbx, rcx);
    expected[RDX] = rcx.wrapping_add(rbx).wrapping_add(7);
    check(pair.after.gpr == expected, || {
        format!("{:x?} came of {:x?}", pair.after.gpr, before.gpr)
    })
}
