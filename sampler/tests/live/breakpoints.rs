//! Pairs of breakpoints, held against a block whose end follows from its beginning.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use addresses::ProcessAddress;
use libtest_mimic::{Completion, Failed, Trial};
use sampler::{
    Block, Breakpoints, Clock, Config, Engine, Miss, Pair, Pid, Running, Sampler, Target, Tid,
    UserRegisters, probe,
};

use crate::recording::check;

/// How many threads run the block, and whether signals interrupt them.
const CASES: [(u32, bool); 4] = [(1, false), (4, false), (1, true), (4, true)];

/// Pairs of a case, and how often they are tried at most.
const PAIRS: u32 = 100;
const ATTEMPTS: u32 = 10_000;
/// How long a thread may take to come by.
const ALLOWED: Duration = Duration::from_millis(20);

/// Numbers of the registers of the block.
const RCX: usize = 1;
const RDX: usize = 2;
const RBX: usize = 3;

pub(crate) fn trials() -> Vec<Trial> {
    let case = |(threads, storm): (u32, bool)| {
        let suffix = if storm { "_in_a_storm" } else { "" };
        Trial::ignorable_test(format!("pairs_are_true::{threads}{suffix}"), move || {
            if let Err(refusal) = probe::bpf() {
                return Ok(Completion::ignored_with(format!("needs BPF: {refusal}")));
            }
            if let Err(why) = probe::traps_are_told() {
                let reason = format!("needs breakpoints that say so: {why}");
                return Ok(Completion::ignored_with(reason));
            }
            // This machine's processor may not have them; nothing else keeps root from them.
            probe::breakpoints()?;
            pairs(threads, storm).map(|()| Completion::Completed)
        })
    };
    CASES.into_iter().map(case).collect()
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

/// Breakpoints as the collector sets them, for as long as the run goes on.
fn breakpoints() -> Result<(Running, Breakpoints), Failed> {
    let mut config = Config::new(Target::System, Clock::CpuClock, 100_000_000);
    config.engine = Engine::Bpf;
    config.bpf.breakpoints = true;
    // Nobody receives what is sampled.
    let (sender, _) = sync_channel(1);
    let mut running = Sampler::open(&config)?.start(sender)?;
    let breakpoints = running.breakpoints();
    Ok((running, breakpoints))
}

fn pairs(threads: u32, storm: bool) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let program = Program::start(folder.path(), threads, storm)?;
    let (_running, breakpoints) = breakpoints()?;
    let (mut seen, mut missed) = (0, Vec::new());
    for (attempt, tid) in program.tids.iter().cycle().enumerate() {
        if seen >= PAIRS {
            break;
        }
        check(attempt < ATTEMPTS as usize, || format!("{seen} pairs only"))?;
        let block = Block {
            tid: *tid,
            ..program.block.clone()
        };
        match breakpoints.pair(&block, ALLOWED) {
            Ok(pair) => {
                is_true(&pair, &block)?;
                seen += 1;
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
    println!("    {seen} pairs, none wrong; besides {kinds:?}");
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
