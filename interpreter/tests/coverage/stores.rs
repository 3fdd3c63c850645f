//! What instructions write, against the decoder's tables and a list of what these leave out.

use std::collections::HashMap;

use iced_x86::{
    CpuidFeature, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
    UsedMemory,
};
use interpreter::{
    Decoded, Fetched, Flag, Outcome, Parameter, Registers, Sink, StopReason, Support, Vector,
    Window, Word,
};

use crate::walk::Walk;
use crate::{START, Threes, rflag_bit};

/// Bases of FS and GS.
const BASES: [u64; 2] = [0x5000_0000, 0x6000_0000];

/// What an instruction writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Written {
    /// So many bytes from an address on.
    Range(u64, usize),
    /// Something at addresses that are not known.
    Somewhere,
}

/// Where general registers point: to pages of their own, aligned as any instruction asks for.
fn general() -> [u64; 16] {
    std::array::from_fn(|number| 0x10_0000 + 0x1_0000 * number as u64)
}

/// A state in which all is known: every lane and every mask is chosen, and vectors of indices lead
/// to places of their own.
fn state(instruction: &Instruction) -> Registers {
    let mut registers = Registers::from_sample(general(), START, 0);
    [registers.fs_base, registers.gs_base] = BASES.map(Some);
    registers.mxcsr = Some(0x1f80);
    let mut bytes = [0xff; 64];
    if instruction.is_vsib() {
        let lane = if instruction.is_vsib64() { 8 } else { 4 };
        for (number, lane) in bytes.chunks_exact_mut(lane).enumerate() {
            lane.fill(0);
            lane[..2].copy_from_slice(&(0x20 * number as u16).to_le_bytes());
        }
    }
    registers.vectors = [Vector::partial(bytes, u64::MAX); 32];
    registers.masks = [Word::known(u64::MAX); 8];
    // rcx counts, or names a register of the system.
    if instruction.is_string_instruction() {
        registers.gpr[1] = Word::known(1);
    }
    if matches!(instruction.mnemonic(), Mnemonic::Rdpkru | Mnemonic::Xgetbv) {
        registers.gpr[1] = Word::known(0);
    }
    // The number of a bit moves the operand: of a low one not.
    let moves = matches!(
        instruction.mnemonic(),
        Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
    );
    if moves && instruction.op1_kind() == OpKind::Register {
        let number = instruction.op1_register().full_register().number();
        registers.gpr[number] = Word::known(1);
    }
    registers
}

fn writes(access: OpAccess) -> bool {
    !matches!(
        access,
        OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
    )
}

/// What a register holds, for the decoder: lane `element` of a vector of indices.
fn register_value(registers: &Registers, register: Register, lane: usize) -> Option<u64> {
    match register {
        Register::FS => registers.fs_base,
        Register::GS => registers.gs_base,
        _ if register.is_segment_register() => Some(0),
        _ if register.is_gpr() => {
            let value = registers.gpr[register.full_register().number()].get(8)?;
            Some(value & u64::MAX >> (64 - 8 * register.size()))
        }
        _ if register.is_vector_register() => Some(0x20 * lane as u64),
        _ => None,
    }
}

/// What the decoder says of one piece of memory.
fn described(instruction: &Instruction, used: &UsedMemory, registers: &Registers) -> Vec<Written> {
    let bytes = used.memory_size().size();
    if bytes == 0 {
        return vec![Written::Somewhere];
    }
    let lanes = if instruction.is_vsib() {
        let lane = if instruction.is_vsib64() { 8 } else { 4 };
        // Of the wider ones of data and indices there are fewer.
        let data = (0..instruction.op_count())
            .map(|operand| instruction.op_register(operand))
            .find(|register| register.is_vector_register())
            .map_or(1, |register| register.size() / bytes);
        data.min(instruction.memory_index().size() / lane)
    } else {
        1
    };
    let at = |lane| {
        used.virtual_address(lane, |register, lane, _| {
            register_value(registers, register, lane)
        })
    };
    let ranges = (0..lanes).map(at);
    ranges
        .map(|at| at.map_or(Written::Somewhere, |at| Written::Range(at, bytes)))
        .collect()
}

/// What the manuals say of instructions whose stores the decoder's tables do not know.
fn undescribed(instruction: &Instruction, registers: &Registers) -> Vec<Written> {
    match instruction.mnemonic() {
        Mnemonic::Clzero => {
            let pointer = match instruction.code() {
                iced_x86::Code::Clzerod => Register::EAX,
                _ => Register::RAX,
            };
            let segment = instruction.segment_prefix();
            let base = register_value(registers, segment, 0).unwrap_or(0);
            let offset = register_value(registers, pointer, 0).expect("a general register");
            vec![Written::Range((base + offset) & !63, 64)]
        }
        // Rows at distances that the index says.
        Mnemonic::Tilestored => vec![Written::Somewhere],
        _ => Vec::new(),
    }
}

/// One instruction, and behind it one that loads.
struct Two<'a> {
    first: &'a Decoded,
    then: Option<Decoded>,
    done: bool,
}

impl interpreter::Code for Two<'_> {
    fn fetch(&mut self, _: u64) -> Result<Fetched<'_>, StopReason> {
        let instruction = if std::mem::replace(&mut self.done, true) {
            self.then.as_ref().ok_or(StopReason::NotMapped)?
        } else {
            self.first
        };
        Ok(Fetched {
            instruction,
            bias: 0,
            mark: 0,
        })
    }
}

/// The bytes that an instruction is told to have stored.
#[derive(Default)]
struct Stored(HashMap<u64, ()>);

impl Sink for Stored {
    fn value(&mut self, _: u64, _: Parameter, _: Option<u64>) {}

    fn store(&mut self, _: u64, address: Option<u64>, bytes: u32, _: Option<u64>) {
        let start = address.unwrap_or(0);
        self.0
            .extend((0..u64::from(bytes)).map(|i| (start.wrapping_add(i), ())));
    }
}

fn run(first: &Decoded, start: &Registers, then: Option<u64>) -> (Outcome, Stored) {
    let window = Window {
        max_instructions: 1 + u32::from(then.is_some()),
        ..Window::default()
    };
    // mov rax, [address]
    let then = then.map(|address| {
        let bytes = [&[0x48, 0xa1][..], &address.to_le_bytes()].concat();
        Decoded::new(&bytes, 0).expect("it is an instruction")
    });
    let mut code = Two {
        first,
        then,
        done: false,
    };
    let mut stored = Stored::default();
    let outcome = window.run(start, &mut code, &mut Threes, &mut stored);
    (outcome, stored)
}

/// The bytes of eight at an address that are known after the instruction.
fn known_after(first: &Decoded, start: &Registers, address: u64) -> u8 {
    let (outcome, _) = run(first, start, Some(address));
    assert_eq!(outcome.stop, StopReason::Complete, "the load runs");
    outcome.registers.gpr[0].known_bytes()
}

/// Addresses that no operand leads to.
const ELSEWHERE: [u64; 3] = [0x7000_0000, 0x1234_5678, 0x7fff_ffff_0000];

/// The bytes of a range that are still what they were before the instruction, though it wrote them.
fn kept(first: &Decoded, start: &Registers, stored: &Stored, written: Written) -> Option<u64> {
    let Written::Range(address, bytes) = written else {
        return ELSEWHERE
            .into_iter()
            .find(|address| known_after(first, start, *address) != 0);
    };
    (0..bytes as u64)
        .step_by(8)
        .map(|offset| (address + offset, (bytes as u64 - offset).min(8)))
        .find(|(at, count)| {
            let known = known_after(first, start, *at);
            (0..*count).any(|i| known >> i & 1 != 0 && !stored.0.contains_key(&(at + i)))
        })
        .map(|(at, _)| at)
}

/// Instructions that write memory, registers or flags forget all of it, if they are skipped; if
/// they are interpreted they store there, or forget. What the decoder's tables do not know is in a
/// list of this test's own.
#[test]
fn what_is_written_is_forgotten() {
    let mut factory = InstructionInfoFactory::new();
    let mut stores = 0;
    for decoded in Walk::of_all() {
        let instruction = *decoded.instruction();
        let code = instruction.code();
        let start = state(&instruction);
        let (outcome, stored) = run(decoded, &start, None);
        if outcome.stop != StopReason::Complete {
            continue;
        }
        let info = factory.info(&instruction);
        let mut written = undescribed(&instruction, &start);
        for used in info.used_memory().iter().filter(|u| writes(u.access())) {
            written.extend(described(&instruction, used, &start));
        }
        stores += usize::from(!written.is_empty());
        for written in written {
            let kept = kept(decoded, &start, &stored, written);
            assert_eq!(
                kept, None,
                "{code:?} {written:x?} keeps memory: {instruction}"
            );
        }
        if decoded.support() == Support::Skipped {
            forgets_registers(&instruction, &mut factory, &outcome.registers);
        }
    }
    assert!(stores > 500, "only {stores} encodings store");
}

/// Every register, mask and flag that a skipped instruction writes is unknown.
fn forgets_registers(
    instruction: &Instruction,
    factory: &mut InstructionInfoFactory,
    after: &Registers,
) {
    let code = instruction.code();
    for used in factory.info(instruction).used_registers() {
        let register = used.register();
        if !writes(used.access()) {
            continue;
        }
        let number = register.number();
        let known = if register.is_gpr() {
            u64::from(after.gpr[register.full_register().number()].known_bytes())
        } else if register.is_vector_register() {
            after.vectors[number].known_bytes()
        } else if register.is_k() {
            u64::from(after.masks[number].known_bytes())
        } else {
            // Of x87, MMX and tiles nothing is kept.
            0
        };
        assert_eq!(known, 0, "{code:?} keeps {register:?}");
    }
    let settled = instruction.rflags_cleared() | instruction.rflags_set();
    for flag in Flag::ALL {
        let bit = rflag_bit(flag);
        if u64::from(instruction.rflags_modified() & !settled) & bit != 0 {
            assert_eq!(after.rflags.get(flag), None, "{code:?} keeps {flag:?}");
        }
    }
}

/// Features whose instructions store to memory that no operand names (control blocks, shadow
/// stacks, saved states, buffers of records) or hand over to another program.
const HIDDEN: [CpuidFeature; 27] = [
    CpuidFeature::CET_SS,
    CpuidFeature::ENQCMD,
    CpuidFeature::FRED,
    CpuidFeature::HRESET,
    CpuidFeature::INVLPGB,
    CpuidFeature::LWP,
    CpuidFeature::MCOMMIT,
    CpuidFeature::MSRLIST,
    CpuidFeature::OSS,
    CpuidFeature::PADLOCK_ACE,
    CpuidFeature::PADLOCK_GMI,
    CpuidFeature::PADLOCK_PHE,
    CpuidFeature::PADLOCK_RNG,
    CpuidFeature::PADLOCK_UNDOC,
    CpuidFeature::PCONFIG,
    CpuidFeature::RTM,
    CpuidFeature::SEV_ES,
    CpuidFeature::SEV_SNP,
    CpuidFeature::SGX1,
    CpuidFeature::SKINIT_or_SVM,
    CpuidFeature::SMM,
    CpuidFeature::SMX,
    CpuidFeature::SVM,
    CpuidFeature::TDX,
    CpuidFeature::TSE,
    CpuidFeature::UINTR,
    CpuidFeature::VMX,
];

/// No window goes on at an instruction that stores to memory of the processor's or the system's.
#[test]
fn hidden_stores_end_windows() {
    for decoded in Walk::of_all() {
        let instruction = decoded.instruction();
        let features = instruction.cpuid_features();
        // It reads the pointer to the shadow stack.
        let reads = matches!(instruction.mnemonic(), Mnemonic::Rdsspd | Mnemonic::Rdsspq);
        if reads || !features.iter().any(|feature| HIDDEN.contains(feature)) {
            continue;
        }
        let support = decoded.support();
        assert!(
            matches!(support, Support::Stops(_)),
            "{:?}: {support:?}",
            instruction.code()
        );
    }
}
