//! What marked instructions can result in, as the program itself wrote it down.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use crate::registers::general;

/// Numbers of the runtime's dump.
const MAGIC: u64 = 0x0031_746e_7568;
const HEADER: usize = 64;

/// The state before an instruction.
struct TracedState {
    pc: u64,
    event: bool,
    gpr: [u64; 16],
    fs: u64,
    gs: u64,
    instruction: Instruction,
    /// 32 registers of 64 bytes.
    vectors: Vec<u8>,
}

/// All states of a process's first calls.
pub(crate) struct Trace {
    states: Vec<TracedState>,
    /// For each address the executions of the instruction there: the state before, by number.
    executions: HashMap<u64, Vec<usize>>,
    /// The same of those that were begun, whether or not they were completed.
    pub(crate) met: HashMap<u64, Vec<usize>>,
    /// Calls whose result was another than that of the first with the same input.
    pub(crate) mismatches: u64,
    pub(crate) calls: u64,
    /// Where marked instructions are.
    pub(crate) marked: std::ops::Range<u64>,
}

impl Trace {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let word = |at: usize| -> u64 {
            let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.first_chunk());
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        ensure!(word(0) == MAGIC, "{} is no trace", path.display());
        let (count, size) = (word(8) as usize, word(16) as usize);
        let mut states = Vec::with_capacity(count);
        for record in bytes[HEADER..].chunks_exact(size).take(count) {
            states.push(state(record));
        }
        ensure!(states.len() == count, "{} is cut short", path.display());
        let marked = word(48)..word(56);
        let mut executions: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut met: HashMap<u64, Vec<usize>> = HashMap::new();
        for (i, pair) in states.windows(2).enumerate() {
            let [before, after] = pair else { continue };
            if !marked.contains(&before.pc) {
                continue;
            }
            met.entry(before.pc).or_default().push(i);
            // A repeated string instruction ends once, however many steps it has.
            let goes_on = after.pc == before.pc && before.instruction.is_string_instruction();
            if !after.event && !goes_on {
                executions.entry(before.pc).or_default().push(i);
            }
        }
        Ok(Self {
            states,
            executions,
            met,
            mismatches: word(24),
            calls: word(32),
            marked,
        })
    }

    /// Whether an instruction was ever completed.
    pub(crate) fn completed(&self, pc: u64) -> bool {
        self.executions.contains_key(&pc)
    }

    /// The values of a parameter at an instruction; none where the parameter cannot be told.
    pub(crate) fn possible(&self, pc: u64, parameter: &str) -> Option<BTreeSet<u64>> {
        let none = Vec::new();
        // Of an instruction that faults the address is none the less true.
        let of_address = matches!(parameter, "ea" | "base");
        let executions = if of_address {
            &self.met
        } else {
            &self.executions
        };
        let executions = executions.get(&pc).unwrap_or(&none);
        executions
            .iter()
            .map(|i| value(&self.states[*i], &self.states[*i + 1], parameter))
            .collect()
    }

    /// Whether a branch was ever taken, and ever not.
    pub(crate) fn directions(&self, pc: u64) -> (bool, bool) {
        let taken = self.possible(pc, "taken").unwrap_or_default();
        (taken.contains(&1), taken.contains(&0))
    }

    /// Where calls and jumps led.
    pub(crate) fn targets(&self, pc: u64) -> BTreeSet<u64> {
        let executions = self.executions.get(&pc);
        let states = executions.into_iter().flatten();
        states.map(|i| self.states[*i + 1].pc).collect()
    }

    /// The instruction, as it was met first.
    pub(crate) fn shown(&self, pc: u64) -> String {
        let state = self.states.iter().find(|state| state.pc == pc);
        state.map_or_else(
            || "not met".to_owned(),
            |state| state.instruction.to_string(),
        )
    }
}

fn state(record: &[u8]) -> TracedState {
    let word = |i: usize| {
        let bytes = record
            .get(8 * i..8 * i + 8)
            .and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    let pc = word(0);
    let code = &record[8 * 22..8 * 24];
    let instruction = Decoder::with_ip(64, code, pc, DecoderOptions::NONE).decode();
    TracedState {
        pc,
        event: word(1) != 0,
        gpr: std::array::from_fn(|i| word(2 + i)),
        fs: word(19),
        gs: word(20),
        instruction,
        vectors: record[8 * 24..8 * 24 + 32 * 64].to_vec(),
    }
}

/// The value of a parameter, by the name that the database has for it.
fn value(before: &TracedState, after: &TracedState, parameter: &str) -> Option<u64> {
    let instruction = &before.instruction;
    match parameter {
        "taken" => Some(u64::from(after.pc != instruction.next_ip())),
        "target" => Some(after.pc),
        "ret" => Some(before.gpr[0]),
        "vret" => word(before, 0, 0),
        "ea" => address(before, after),
        "base" => general(&before.gpr, instruction.memory_base()),
        _ => {
            if let Some(i) = parameter.strip_prefix("varg") {
                return word(before, i.parse().ok()?, 0);
            }
            if let Some(i) = parameter.strip_prefix("arg") {
                let i: usize = i.parse().ok()?;
                return before.gpr.get(*[7, 6, 2, 1, 8, 9].get(i)?).copied();
            }
            result(after, parameter)
        }
    }
}

/// `eax`, `xmm3.f64[0]`, `zmm17.u64[7]`.
fn result(after: &TracedState, parameter: &str) -> Option<u64> {
    let Some((register, lane)) = parameter.split_once('.') else {
        return general(&after.gpr, named(parameter)?);
    };
    let number = register.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let number: usize = number.parse().ok()?;
    let (kind, lane) = lane.trim_end_matches(']').split_once('[')?;
    if !matches!(&register[..1], "x" | "y" | "z") {
        return None;
    }
    let lane: usize = lane.parse().ok()?;
    match kind {
        "f32" => Some(word(after, number, 0)? & 0xffff_ffff),
        _ => word(after, number, lane),
    }
}

fn word(state: &TracedState, register: usize, lane: usize) -> Option<u64> {
    let at = 64 * register + 8 * lane;
    let bytes = state.vectors.get(at..at + 8)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

fn named(name: &str) -> Option<Register> {
    let found = (0..16u32).flat_map(|i| {
        [
            Register::AX + i,
            Register::EAX + i,
            Register::RAX + i,
            if i < 4 {
                Register::AL + i
            } else {
                Register::SPL + (i - 4)
            },
            Register::AH + (i & 3),
        ]
    });
    let low = name.strip_suffix('b').map(|stem| format!("{stem}l"));
    let mut found = found.filter(|register| {
        let text = format!("{register:?}").to_lowercase();
        text == name || low.as_ref() == Some(&text)
    });
    found.next()
}

/// The linear address of the explicit memory operand.
fn address(before: &TracedState, after: &TracedState) -> Option<u64> {
    let instruction = &before.instruction;
    let operand =
        (0..instruction.op_count()).find(|i| instruction.op_kind(*i) == OpKind::Memory)?;
    // An address made from rsp uses the popped one.
    let from = if instruction.mnemonic() == Mnemonic::Pop {
        after
    } else {
        before
    };
    let moves = matches!(
        instruction.mnemonic(),
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
    );
    if moves && instruction.op1_kind() == OpKind::Register || instruction.is_vsib() {
        return None;
    }
    instruction.virtual_address(operand, 0, |register, _, _| match register {
        Register::FS => Some(before.fs),
        Register::GS => Some(before.gs),
        _ if register.is_segment_register() => Some(0),
        _ => general(&from.gpr, register),
    })
}
