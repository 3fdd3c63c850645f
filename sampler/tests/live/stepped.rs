//! Second records of real programs, held against what ptrace tells of the same moment.
//!
//! The programs are executed instruction by instruction (`stepped.c`). An interrupt that comes
//! while the kernel returns to the program hits it right before the next instruction, where ptrace
//! has just told all its registers.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::process::Command;

use libtest_mimic::{Completion, Failed, Trial};
use sampler::{
    Clock, Config, Engine, RawSample, Registers, Share, Target, UserRegisters, VectorOptions,
    VectorState, probe,
};

use crate::programs::{Waiting, compile};
use crate::recording::{Recording, check, samples};
use crate::vectors::{MORE, state};

/// States of each program that are compared, unless the environment asks for more.
const STATES: usize = 100;
/// Rounds of a program, at most: some end early.
const ROUNDS: usize = 1000;
/// Steps of a round, of a burst, and the microseconds that the program runs freely between two.
const STEPS: u32 = 60_000;
const BURST: u32 = 3000;
const PAUSE: u32 = 500;
/// The mean interval, in nanoseconds.
const INTERVAL: u64 = 50_000;

/// The trap flag, which is the tracer's, and the resume flag.
const NOT_THE_PROGRAMS: u64 = 1 << 8 | 1 << 16;

/// Programs, by what they are here for, and what each is.
const PROGRAMS: [(&str, &str); 9] = [
    (
        "floats",
        "python3 -c 'while True: print(sum(n * 1.1 / (n + 0.5) for n in range(9999)))'",
    ),
    (
        "ciphers",
        "openssl speed -seconds 9 -evp aes-256-gcm -bytes 8192",
    ),
    (
        "streams",
        "openssl speed -seconds 9 -evp chacha20-poly1305 -bytes 8192",
    ),
    (
        "digests",
        "openssl speed -seconds 9 -evp sha512 -bytes 8192",
    ),
    ("perl", "perl -e 'while () { $x = sqrt($x * 1.5 + 2) }'"),
    (
        "calls",
        "openssl enc -aes-256-ctr -nosalt -pass pass:a -in /dev/zero -out /dev/null",
    ),
    ("exec", "sh -c 'while :; do /bin/true; done'"),
    ("signals", "'{vectors}' avx 1 signals"),
    ("threads", "'{vectors}' sse 4 signals"),
];

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |(name, command): (&'static str, &'static str)| {
        let title = format!("bpf::vectors_are_those_of_ptrace::{name}");
        Trial::ignorable_test(title, move || match missing(command) {
            Some(why) => Ok(Completion::ignored_with(why)),
            None => compared(name, command).map(|()| Completion::Completed),
        })
    };
    PROGRAMS.into_iter().map(trial).collect()
}

fn missing(command: &str) -> Option<String> {
    if let Err(refusal) = probe::bpf() {
        return Some(format!("needs BPF: {refusal}"));
    }
    let program = command.split(' ').next().unwrap_or_default();
    let found = Command::new(program).arg("--version").output();
    (!program.starts_with('\'') && found.is_err()).then(|| format!("needs {program}"))
}

/// What ptrace told before a step.
struct Step {
    /// Around the step, in nanoseconds of `CLOCK_MONOTONIC`.
    before: u64,
    after: u64,
    registers: Registers,
    saved: Vec<u8>,
}

/// The steps of each thread, in order of time.
type Steps = HashMap<u32, Vec<Step>>;

/// Reads what `stepped.c` wrote. The log ends where its writer did.
fn read(log: &Path) -> Result<Steps, Failed> {
    /// Words of a record: four, and the 27 of the kernel's `user_regs_struct`.
    const WORDS: usize = 31;
    let mut log = BufReader::new(File::open(log)?);
    let mut steps = Steps::new();
    let mut head = [0; 8 * WORDS];
    while log.read_exact(&mut head).is_ok() {
        let words: Vec<u64> = head
            .as_chunks()
            .0
            .iter()
            .map(|w| u64::from_le_bytes(*w))
            .collect();
        let [before, after, tid, bytes, ref registers @ ..] = words[..] else {
            unreachable!("a record has more words");
        };
        let [
            r15,
            r14,
            r13,
            r12,
            rbp,
            rbx,
            r11,
            r10,
            r9,
            r8,
            rax,
            rcx,
            rdx,
            rsi,
            rdi,
            _,
            ip,
            cs,
            flags,
            rsp,
            ss,
            ..,
        ] = registers[..]
        else {
            unreachable!("a record has more words");
        };
        let mut saved = vec![0; usize::try_from(bytes)?];
        log.read_exact(&mut saved)?;
        let gpr = [
            rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15,
        ];
        let registers = Registers {
            gpr,
            ip,
            flags,
            cs,
            ss,
        };
        steps.entry(u32::try_from(tid)?).or_default().push(Step {
            before,
            after,
            registers,
            saved,
        });
    }
    Ok(steps)
}

/// All registers that second records bring are those that ptrace told of the same thread at the
/// same time.
fn compared(name: &'static str, command: &str) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let stepped = compile(folder.path(), "stepped")?;
    let vectors = compile(folder.path(), "vectors")?;
    let log = folder.path().join("log");
    let command = command.replace("{vectors}", &vectors.display().to_string());
    let command = format!(
        "'{}' '{}' {STEPS} {BURST} {PAUSE} {command} >/dev/null 2>&1",
        stepped.display(),
        log.display()
    );
    let wanted = std::env::var(MORE).ok().and_then(|text| text.parse().ok());
    let wanted = wanted.unwrap_or(STATES);
    let (mut same, mut between, mut written) = (0, 0, 0);
    for _ in 0..ROUNDS {
        let records = sample(&command)?;
        let steps = read(&log)?;
        written += steps.values().map(Vec::len).sum::<usize>();
        for record in &records {
            // The tracer is sampled, too.
            let Some(steps) = steps.get(&record.tid.0) else {
                continue;
            };
            match step_of(steps, record) {
                Some(step) => {
                    check_same(step, record)?;
                    same += 1;
                }
                None => between += 1,
            }
        }
        if same >= wanted {
            break;
        }
    }
    println!(
        "    {name}: {same} states of {written} steps are the same, {between} of moments between steps"
    );
    check(same >= wanted, || format!("{same} states"))
}

/// The second records of a run.
fn sample(command: &str) -> Result<Vec<RawSample>, Failed> {
    let mut child = Waiting::shell(command)?;
    let target = Target::Processes(vec![child.pid()]);
    let mut config = Config::new(target, Clock::CpuClock, INTERVAL);
    config.engine = Engine::Bpf;
    config.bpf.followed = 512;
    config.bpf.vectors = Some(VectorOptions {
        share: Some(Share::ALL),
        most: 10_000,
    });
    // What comes is received when the program has ended.
    let recording = Recording::with_room(&config, 1 << 16)?;
    if let Some(why) = &recording.running().setup().no_vectors {
        return Err(why.clone().into());
    }
    child.go()?;
    child.wait()?;
    let (batches, _) = recording.stop()?;
    let second = |sample: &&RawSample| state(sample).is_some();
    Ok(samples(&batches).filter(second).cloned().collect())
}

/// The step that a thread was about to make when it was sampled and when its registers were
/// brought.
fn step_of<'a>(steps: &'a [Step], record: &RawSample) -> Option<&'a Step> {
    // Of a second record the period is the time of the first.
    let (sampled, brought) = (record.period, record.time);
    let behind = steps.partition_point(|step| step.before <= sampled);
    let step = steps[..behind].last()?;
    (brought <= step.after).then_some(step)
}

fn check_same(step: &Step, record: &RawSample) -> Result<(), Failed> {
    let UserRegisters::Long(registers) = &record.user else {
        return Err("a second record without registers".into());
    };
    let as_program = |registers: &Registers| Registers {
        flags: registers.flags & !NOT_THE_PROGRAMS,
        ..*registers
    };
    check(as_program(registers) == as_program(&step.registers), || {
        format!("{registers:x?} are not {:x?}", step.registers)
    })?;
    let told = VectorState::saved(&step.saved).ok_or("what ptrace tells is not understood")?;
    let brought = state(record).ok_or("a record without vector registers")?;
    check(*brought == *told, || {
        let numbers = 0..told.vectors.len();
        let others = numbers.filter(|n| brought.vectors[*n] != told.vectors[*n]);
        format!(
            "at {:#x}: vectors {:?}, masks {:x?} for {:x?}, MXCSR {:x} for {:x}, {:x?} for {:x?}",
            registers.ip,
            others.collect::<Vec<_>>(),
            brought.masks,
            told.masks,
            brought.mxcsr,
            told.mxcsr,
            brought.x87,
            told.x87
        )
    })
}
