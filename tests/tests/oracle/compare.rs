//! Comparison of the interpreter's claims with what the processor did.

use std::collections::BTreeMap;

use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use interpreter::{Flag, Flags, Parameter, Registers, Vector, Word};

use crate::check::Watch;
use crate::tracee::TraceeState;
use crate::view::{BIAS, Claims, GENERAL, SHOWN, general, value_of, widen};

/// The bits of MXCSR that are no exception flags.
const MODES: u32 = 0xffc0;

impl Watch {
    pub(crate) fn compare_events(
        &mut self,
        claims: &Claims,
        before: &TraceeState,
        after: &TraceeState,
    ) {
        let pc = claims.pc;
        let Some((_, decoded)) = self.decoded.get(&pc) else {
            return;
        };
        let instruction = *decoded.instruction();
        let next = pc.wrapping_add(instruction.len() as u64);
        let goes_to = instruction.near_branch_target().wrapping_add(BIAS);
        let taken = (goes_to != next).then_some(after.general.rip == goes_to);
        for &(parameter, claimed) in &claims.values {
            let Some(claimed) = claimed else { continue };
            let real = match parameter {
                Parameter::Dest(register) => value_of(&after.general, register),
                Parameter::Single(register) => {
                    vector_word(after, register, 0).map(|bits| bits & u64::from(u32::MAX))
                }
                Parameter::Double(register) => vector_word(after, register, 0),
                Parameter::Taken => taken.map(u64::from),
                Parameter::Ea => self.effective_address(&instruction, before, after),
                Parameter::DestWord(register, i) => vector_word(after, register, i),
                Parameter::Base => {
                    let base = instruction.memory_base();
                    value_of(&before.general, base)
                }
                Parameter::Load | Parameter::Old => self.operand_word(&instruction, 0),
                Parameter::LoadWord(i) | Parameter::OldWord(i) => {
                    self.operand_word(&instruction, i)
                }
                Parameter::VectorRet => vector_word(before, Register::XMM0, 0),
                // Stores and calls are compared below.
                Parameter::Mem
                | Parameter::MemWord(_)
                | Parameter::Arg(_)
                | Parameter::ArgIn(_)
                | Parameter::VectorArg(_)
                | Parameter::Pair(_)
                | Parameter::PairWord(..)
                | Parameter::PairMem
                | Parameter::Result
                | Parameter::VectorResult
                | Parameter::Stride
                | Parameter::Line
                | Parameter::Reload
                | Parameter::Silent
                | Parameter::Syscall(_)
                | Parameter::Sched
                | Parameter::Text(_) => None,
                Parameter::Target => Some(after.general.rip),
                Parameter::Ret => Some(before.general.rax),
                Parameter::Operand(i) => match instruction.op_kind(u32::from(i)) {
                    OpKind::Register => {
                        value_of(&before.general, instruction.op_register(u32::from(i)))
                    }
                    _ => None,
                },
            };
            self.expect(pc, || format!("{parameter}"), claimed, real);
        }
        if let Some(Some(claimed)) = claims.branch {
            self.expect(
                pc,
                || "direction".into(),
                u64::from(claimed),
                taken.map(u64::from),
            );
        }
        if let Some(call) = claims.call {
            let general = &before.general;
            let arguments = [
                general.rdi,
                general.rsi,
                general.rdx,
                general.rcx,
                general.r8,
                general.r9,
            ];
            let others = [
                general.rax,
                general.rbx,
                general.r10,
                general.r11,
                general.r12,
                general.r13,
                general.r14,
                general.r15,
            ];
            let arguments = call.arguments.into_iter().zip(arguments);
            let others = call.others.into_iter().zip(others);
            let named = arguments.map(|both| ("argument", both));
            for (name, (claimed, real)) in named.chain(others.map(|both| ("other argument", both)))
            {
                if let Some(claimed) = claimed {
                    self.expect(pc, || name.into(), claimed, Some(real));
                }
            }
            for (i, claimed) in call.vector_arguments.into_iter().enumerate() {
                let real = vector_word(before, Register::XMM0 + i as u32, 0)
                    .map(|bits| Word::partial(bits, claimed.known_bytes()).known_bits());
                self.expect(
                    pc,
                    || format!("vector argument {i}"),
                    claimed.known_bits(),
                    real,
                );
            }
        }
        self.compare_stores(claims);
    }

    /// Every byte stored must be in memory now, unless a later store went over it.
    fn compare_stores(&mut self, claims: &Claims) {
        let mut bytes = BTreeMap::new();
        for &(address, size, value) in &claims.stores {
            let Some(address) = address else {
                bytes.clear();
                continue;
            };
            for i in 0..size {
                let byte = value.map(|value| (value >> (8 * i)) as u8);
                bytes.insert(address.wrapping_add(u64::from(i)), byte);
            }
        }
        while let Some((&start, _)) = bytes.first_key_value() {
            let mut real = [0; 64];
            let read = self.tracee.read(start, &mut real);
            let rest = bytes.split_off(&start.saturating_add(real.len() as u64));
            for (address, claimed) in std::mem::replace(&mut bytes, rest) {
                let real = real[..read].get(address.wrapping_sub(start) as usize);
                if let (Some(claimed), Some(real)) = (claimed, real) {
                    let what = || format!("stored at {address:#x}");
                    self.expect(claims.pc, what, u64::from(claimed), Some(u64::from(*real)));
                }
            }
        }
    }

    /// Reads what the memory operand holds that the next instruction names.
    pub(crate) fn read_operand(&mut self, before: &TraceeState) {
        self.operand = None;
        let Some((_, decoded)) = self.decoded.get(&before.general.rip) else {
            return;
        };
        let instruction = decoded.instruction();
        let names_one = instruction.op_kinds().any(|kind| kind == OpKind::Memory);
        if !names_one || instruction.mnemonic() == Mnemonic::Pop {
            return;
        }
        if let Some(address) = self.effective_address(instruction, before, before) {
            let mut bytes = [0; 64];
            let read = self.tracee.read(address, &mut bytes);
            self.operand = Some((read, bytes));
        }
    }

    /// 64 bits, or what it has, of what the memory operand held before the step.
    fn operand_word(&self, instruction: &Instruction, word: u8) -> Option<u64> {
        let (read, bytes) = self.operand?;
        let size = instruction.memory_size();
        let size = if instruction.is_broadcast() {
            size.element_size()
        } else {
            size.size()
        };
        let at = 8 * usize::from(word);
        let mut value = [0; 8];
        let held = bytes[..read].get(at..size.min(at + 8))?;
        value[..held.len()].copy_from_slice(held);
        Some(u64::from_le_bytes(value))
    }

    /// The address of the memory operand, worked out by the decoder's own rules.
    fn effective_address(
        &self,
        instruction: &iced_x86::Instruction,
        before: &TraceeState,
        after: &TraceeState,
    ) -> Option<u64> {
        use iced_x86::Mnemonic as M;
        let bits = matches!(instruction.mnemonic(), M::Bt | M::Bts | M::Btr | M::Btc);
        if bits && instruction.op1_kind() == OpKind::Register {
            return None;
        }
        let regs = if instruction.mnemonic() == M::Pop {
            &after.general
        } else {
            &before.general
        };
        let operand = (0..instruction.op_count()).find(|i| {
            !matches!(
                instruction.op_kind(*i),
                OpKind::Register
                    | OpKind::Immediate8
                    | OpKind::Immediate8_2nd
                    | OpKind::Immediate8to16
                    | OpKind::Immediate8to32
                    | OpKind::Immediate8to64
                    | OpKind::Immediate16
                    | OpKind::Immediate32
                    | OpKind::Immediate32to64
                    | OpKind::Immediate64
            )
        })?;
        instruction.virtual_address(operand, 0, |register, _, _| match register {
            Register::FS => Some(before.general.fs_base),
            Register::GS => Some(before.general.gs_base),
            Register::ES | Register::DS | Register::SS | Register::CS => Some(0),
            _ => value_of(regs, register),
        })
    }

    /// Every known byte and flag must agree.
    pub(crate) fn compare_state(&mut self, pc: u64, claimed: &Registers, after: &TraceeState) {
        self.expect(pc, || "rip".into(), claimed.rip, Some(after.general.rip));
        for ((word, real), register) in claimed
            .gpr
            .into_iter()
            .zip(general(&after.general))
            .zip(GENERAL)
        {
            let known = Word::partial(real, word.known_bytes());
            let what = || format!("{register:?} (known bytes {:#04x})", word.known_bytes());
            self.expect(pc, what, word.known_bits(), Some(known.known_bits()));
        }
        for (number, (claimed, real)) in claimed.vectors.iter().zip(after.vectors).enumerate() {
            let known = claimed.known_bytes() & SHOWN;
            let real = Vector::partial(widen(real), known);
            let claimed = Vector::partial(*claimed.known_bits(), known);
            for half in [0, 8] {
                let bits = |vector: &Vector| {
                    let mut word = [0; 8];
                    word.copy_from_slice(&vector.known_bits()[half..half + 8]);
                    u64::from_le_bytes(word)
                };
                let what = || format!("xmm{number} from byte {half} (known bytes {known:#06x})");
                self.expect(pc, what, bits(&claimed), Some(bits(&real)));
            }
        }
        if let Some(claimed) = claimed.mxcsr {
            let modes = |mxcsr: u32| u64::from(mxcsr & MODES);
            let real = Some(modes(after.mxcsr));
            self.expect(pc, || "modes in MXCSR".into(), modes(claimed), real);
        }
        let real = Flags::from_rflags(after.general.eflags);
        for flag in Flag::ALL {
            if let Some(claimed) = claimed.rflags.get(flag) {
                let real = real.get(flag).map(u64::from);
                self.expect(pc, || format!("{flag:?}"), u64::from(claimed), real);
            }
        }
    }

    /// A call must arrive at the target that was reported for it.
    pub(crate) fn compare_calls(&mut self, after: &TraceeState) {
        let mut missed = Vec::new();
        self.pending.retain_mut(|pending| {
            if pending.target == after.general.rip {
                return false;
            }
            pending.steps -= 1;
            if pending.steps == 0 {
                missed.push((pending.site, pending.target));
            }
            pending.steps > 0
        });
        for (site, target) in missed {
            self.differ(site, format!("the call did not arrive at {target:#x}"));
        }
    }

    fn expect(&mut self, pc: u64, what: impl FnOnce() -> String, claimed: u64, real: Option<u64>) {
        let Some(real) = real else { return };
        self.report.compared += 1;
        if claimed != real {
            let what = what();
            self.differ(pc, format!("{what}: claimed {claimed:#x}, is {real:#x}"));
        }
    }

    pub(crate) fn differ(&mut self, pc: u64, what: String) {
        let code = self.decoded.get(&pc).map(|(bytes, decoded)| {
            let instruction = decoded.instruction();
            format!("{:?} {:02x?}", instruction.code(), &bytes[..decoded.len()])
        });
        let step = self.report.steps;
        self.report
            .differences
            .push(format!("step {step}, {pc:#x} {code:?}: {what}"));
    }
}

/// 64 bits of a vector or MMX register, if the processor shows them.
fn vector_word(state: &TraceeState, register: Register, word: u8) -> Option<u64> {
    if register.is_mm() {
        return state.mmx.get(register.number()).copied();
    }
    let half = state.vectors.get(register.number())?;
    let at = 8 * usize::from(word);
    Some(u64::from_le_bytes(half.get(at..at + 8)?.try_into().ok()?))
}
