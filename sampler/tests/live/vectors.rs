//! Vector registers that second records bring, held against what the program must hold.

use std::arch::is_x86_feature_detected;
use std::collections::HashMap;

use libtest_mimic::{Completion, Failed, Trial};
use sampler::{
    Clock, Config, Engine, HandlerCounter, RawSample, Registers, Share, Target, Tid, UserRegisters,
    VectorOptions, VectorState, Vectors, probe,
};

use crate::programs::{Waiting, compile};
use crate::recording::{Recording, check, samples};

/// Loops of the program, how many threads run them, and whether signals interrupt these.
const CASES: [(&str, u32, bool); 9] = [
    ("sse", 1, false),
    ("avx", 1, false),
    ("avx512", 1, false),
    ("x87", 1, false),
    ("calls", 1, false),
    ("sse", 4, false),
    ("avx", 4, false),
    ("sse", 1, true),
    ("avx", 4, true),
];

/// Second records that are held against the truth, unless the environment asks for more.
const RECORDS: usize = 500;
pub(crate) const MORE: &str = "VCPI_TEST_SAMPLES";

/// The mean interval, in nanoseconds.
const INTERVAL: u64 = 500_000;

/// As in the program's source.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const MODES: [u32; 4] = [0x1f80, 0x3f80, 0x5f80, 0x7f80];

/// Numbers of the registers that count, and that point to the counter's cell.
const RBX: usize = 3;
const R13: usize = 13;

pub(crate) fn trials() -> Vec<Trial> {
    let case = |(name, threads, signals): (&'static str, u32, bool)| {
        let storm = if signals { "_in_a_storm" } else { "" };
        let title = format!("bpf::vectors_are_true::{name}_{threads}{storm}");
        Trial::ignorable_test(title, move || match missing(name) {
            Some(why) => Ok(Completion::ignored_with(why)),
            None => vectors(name, threads, signals).map(|()| Completion::Completed),
        })
    };
    CASES.into_iter().map(case).collect()
}

fn missing(name: &str) -> Option<String> {
    if let Err(refusal) = probe::bpf() {
        return Some(format!("needs BPF: {refusal}"));
    }
    let has = match name {
        "avx" => is_x86_feature_detected!("avx2"),
        "avx512" => is_x86_feature_detected!("avx512bw"),
        _ => true,
    };
    (!has).then(|| format!("needs {name}"))
}

/// The program, in one of its loops.
struct Loop {
    child: Waiting,
    name: &'static str,
    /// What instruction of the loop lies at an address.
    places: HashMap<u64, u64>,
    _folder: tempfile::TempDir,
}

impl Loop {
    fn start(name: &'static str, threads: u32, signals: bool) -> Result<Loop, Failed> {
        let folder = tempfile::tempdir()?;
        let program = compile(folder.path(), "vectors")?;
        let signals = if signals { "signals" } else { "" };
        let command = format!("'{}' {name} {threads} {signals}", program.display());
        let mut child = Waiting::shell(&command)?;
        child.go()?;
        let count = child.number()?;
        let place = |number| child.number().map(|address| (address, number));
        let places = (0..count).map(place).collect::<Result<_, _>>()?;
        Ok(Loop {
            child,
            name,
            places,
            _folder: folder,
        })
    }

    /// Whether a thread that stands here may hold this; `None` outside of the loop.
    fn holds(&self, registers: &Registers, state: &VectorState) -> Option<Result<(), String>> {
        let at = *self.places.get(&registers.ip)?;
        let (turn, last) = (registers.gpr[RBX], self.places.len() as u64 - 1);
        Some(match self.name {
            "x87" => holds_x87(at, turn, state),
            _ => self.holds_sums(at, turn, last, state),
        })
    }

    fn holds_sums(&self, at: u64, turn: u64, last: u64, state: &VectorState) -> Result<(), String> {
        let (words, registers) = match self.name {
            "avx" => (4, 16),
            "avx512" => (8, 32),
            _ => (2, 16),
        };
        // Behind the addition that counts the turns.
        let counted = match self.name {
            "calls" => at + 2 >= last,
            _ => at == last,
        };
        for number in 0..registers {
            let times = match counted {
                true => turn,
                false => turn + u64::from(number < at),
            };
            let words_of = state.vectors[number as usize].as_chunks().0;
            for (lane, word) in (0..).zip(words_of) {
                let found = u64::from_le_bytes(*word);
                let constant = FACTOR.wrapping_mul(8 * number + lane + 1);
                let expected = constant.wrapping_mul(times);
                let expected = if lane < words { expected } else { 0 };
                if found != expected {
                    return Err(format!(
                        "at {at}, turn {turn}: lane {lane} of vector {number} is {found:#x}"
                    ));
                }
            }
        }
        if self.name != "avx512" {
            return Ok(());
        }
        for (place, mask) in (32..).zip(&state.masks[1..]) {
            // The last turn's, up to where it is written.
            let is_new = !counted && at > place;
            let expected = if is_new { turn } else { turn.saturating_sub(1) };
            if *mask != expected {
                return Err(format!("at {at}, turn {turn}: a mask is {mask:#x}"));
            }
        }
        Ok(())
    }
}

fn holds_x87(at: u64, turn: u64, state: &VectorState) -> Result<(), String> {
    // The loop's instructions: add, another, two for the mode, its load, count, jump.
    let sum = if at == 6 {
        turn
    } else {
        turn + u64::from(at > 0)
    };
    let expected = extended(sum);
    if state.x87.stack[0] != expected || state.x87.stack[1] != extended(1) {
        let found = state.x87.stack[0];
        return Err(format!("at {at}, turn {turn}: {found:x?} is not {sum}"));
    }
    let of = match at {
        5 => Some(turn),
        _ => turn.checked_sub(1),
    };
    let mode = of.map_or(MODES[0], |turn| MODES[turn as usize % 4]);
    // Its lowest bits tell what was met so far.
    if state.mxcsr & !0x3f != mode {
        return Err(format!("at {at}, turn {turn}: MXCSR is {:#x}", state.mxcsr));
    }
    Ok(())
}

/// A whole number as an extended real.
fn extended(number: u64) -> [u8; 10] {
    let mut bytes = [0; 10];
    if number > 0 {
        let zeros = number.leading_zeros();
        bytes[..8].copy_from_slice(&(number << zeros).to_le_bytes());
        let exponent = 16383 + 63 - zeros as u16;
        bytes[8..].copy_from_slice(&exponent.to_le_bytes());
    }
    bytes
}

/// What a second record brings; `None` of another record.
pub(crate) fn state(sample: &RawSample) -> Option<&VectorState> {
    match &sample.capture.as_ref()?.vectors {
        Vectors::Here(state) => Some(state),
        _ => None,
    }
}

/// All registers that a second record brings are those that the program has at its PC, and the
/// general ones are those of the first.
fn vectors(name: &'static str, threads: u32, signals: bool) -> Result<(), Failed> {
    let program = Loop::start(name, threads, signals)?;
    let target = Target::Processes(vec![program.child.pid()]);
    let mut config = Config::new(target, Clock::CpuClock, INTERVAL);
    config.engine = Engine::Bpf;
    config.bpf.followed = 64;
    config.bpf.vectors = Some(VectorOptions {
        share: Some(Share::ALL),
        most: 10_000,
    });
    let mut recording = Recording::with(&config)?;
    if let Some(why) = &recording.running().setup().no_vectors {
        return Err(why.clone().into());
    }
    let wanted = std::env::var(MORE).ok().and_then(|text| text.parse().ok());
    let wanted = wanted.unwrap_or(RECORDS);
    recording.samples(wanted, |sample| state(sample).is_some())?;
    let handler = recording.running().handler().ok_or("no handler")?;
    let counters = handler.counters()?;
    let (batches, _) = recording.stop()?;
    let mut firsts: HashMap<(Tid, u64), &RawSample> = HashMap::new();
    let (mut right, mut cells, mut elsewhere) = (0, 0, 0);
    for sample in samples(&batches) {
        let Some(state) = state(sample) else {
            firsts.insert((sample.tid, sample.time), sample);
            continue;
        };
        let UserRegisters::Long(registers) = &sample.user else {
            return Err("a second record without registers".into());
        };
        // The first one may have found no room.
        if let Some(first) = firsts.get(&(sample.tid, sample.period)) {
            check(first.user == sample.user, || {
                format!("{registers:x?} are not {:x?}", first.user)
            })?;
        }
        match program.holds(registers, state) {
            Some(held) => held?,
            None => {
                elsewhere += 1;
                continue;
            }
        }
        right += 1;
        cells += usize::from(holds_cell(&program, sample, registers)?);
    }
    let asked = counters.get(HandlerCounter::VectorsAwaited);
    println!(
        "    {name}: {right} right, {cells} with their cell, {elsewhere} elsewhere, {asked} asked"
    );
    for (counter, count) in counters.iter() {
        let name = counter.name();
        if name.starts_with("vectors_") && count > 0 {
            println!("        {name}: {count}");
        }
    }
    check(right > wanted / 2, || format!("{right} records"))?;
    program.child.end()
}

/// Whether the memory of a second record has the counter's cell, which is then as the registers
/// are.
fn holds_cell(program: &Loop, sample: &RawSample, registers: &Registers) -> Result<bool, Failed> {
    let Some(capture) = &sample.capture else {
        return Ok(false);
    };
    let cell = registers.gpr[R13];
    let found = capture.pieces().find_map(|(address, bytes)| {
        let at = usize::try_from(cell.checked_sub(address)?).ok()?;
        Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
    });
    let Some(found) = found else {
        return Ok(false);
    };
    let at = program.places[&registers.ip];
    let store = match program.name {
        "avx512" => 39,
        "x87" => return Ok(false),
        _ => 16,
    };
    let counted = at > store + 2;
    let turn = registers.gpr[RBX];
    let expected = match at > store && !counted {
        true => turn,
        false => turn.saturating_sub(1),
    };
    check(found == expected, || {
        format!("the cell is {found}, not {expected}, at {at}")
    })?;
    Ok(true)
}
