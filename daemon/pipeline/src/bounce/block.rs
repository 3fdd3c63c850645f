//! The block of a pair: a few instructions that are executed one behind the other, where the thread
//! comes out of them, and which results are to be seen there.

use addresses::{Bias, ImageAddress, ProcessAddress};
use iced_x86::{
    FlowControl, Instruction, InstructionInfo, InstructionInfoFactory, InstructionInfoOptions,
    Mnemonic, OpKind, Register,
};

use interpreter::Parameter;
use machine::place::Pc;
use sampler::{MemoryOperand, VectorState};

use super::truth::Difference;
use crate::results::{results as results_of, writes};

/// Instructions of a block that is tried first, next, and last: of one that is to be compared, and
/// of one whose first result is wanted, which later instructions may write over.
const LENGTHS: [usize; 3] = [4, 8, 12];
const SHORT: [usize; 3] = [1, 4, 8];
/// Instructions of the longest one.
pub(crate) const LONGEST: usize = LENGTHS[2] + 1;

/// One instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockInstruction {
    /// Its place in an image.
    pub(crate) pc: Pc,
    /// Where it lies in the process.
    pub(crate) address: ProcessAddress,
    pub(crate) len: u8,
    /// As decoded at its image address.
    pub(crate) instruction: Instruction,
}

impl BlockInstruction {
    /// What lies behind it.
    fn end(&self) -> ProcessAddress {
        self.address.wrapping_add(self.len.into())
    }

    /// The target of a near branch.
    fn target(&self) -> ProcessAddress {
        let bias = Bias::between(self.address, ImageAddress(self.instruction.ip()));
        let target = self.instruction.near_branch_target();
        bias.in_process(ImageAddress(target))
    }
}

/// A way out: the thread comes to this process address behind so many steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) steps: usize,
    pub(crate) address: ProcessAddress,
}

/// Where an instruction leads.
enum Leads {
    Next,
    ToTarget,
    /// Nothing tells: a thread that went the other way of a conditional branch may come round to
    /// this one later, and that would be no pair.
    Elsewhere,
}

/// Whether it is a system call, which comes back behind itself.
pub(crate) fn calls_system(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Syscall
}

fn leads(instruction: &Instruction) -> Leads {
    let is_near = instruction.op0_kind() == OpKind::NearBranch64;
    match instruction.flow_control() {
        FlowControl::Next => Leads::Next,
        _ if calls_system(instruction) => Leads::Next,
        FlowControl::UnconditionalBranch | FlowControl::Call if is_near => Leads::ToTarget,
        _ => Leads::Elsewhere,
    }
}

/// Whether a block goes on behind this instruction.
pub(crate) fn goes_on(instruction: &Instruction) -> bool {
    matches!(leads(instruction), Leads::Next)
}

/// The ways out of a block, in the order in which they are to be tried; `is_short`: at first right
/// behind its first instruction.
pub(crate) fn exits(steps: &[BlockInstruction], is_short: bool) -> Vec<Exit> {
    let lengths = if is_short { SHORT } else { LENGTHS };
    let mut exits: Vec<Exit> = Vec::new();
    let Some(entry) = steps.first().map(|step| step.address) else {
        return exits;
    };
    let mut add = |steps, address| {
        let is_new = exits.iter().all(|exit| exit.address != address);
        if address != entry && is_new {
            exits.push(Exit { steps, address });
        }
    };
    let straight = steps.iter().take_while(|step| goes_on(&step.instruction));
    let straight = straight.count();
    for length in lengths {
        if let Some(last) = straight.min(length).checked_sub(1) {
            add(last + 1, steps[last].end());
        }
    }
    if let Some(last) = steps.get(straight)
        && straight < lengths[2]
        && matches!(leads(&last.instruction), Leads::ToTarget)
    {
        add(straight + 1, last.target());
    }
    exits.truncate(lengths.len());
    exits
}

/// What these steps leave in memory, with the numbers of the steps, as far as where that is follows
/// from the registers at the entry, and no later step stores elsewhere than that says.
pub(crate) fn stored(steps: &[BlockInstruction]) -> Vec<(usize, MemoryOperand)> {
    let mut factory = InstructionInfoFactory::new();
    let mut found = Vec::new();
    let mut written = 0_u16;
    for (number, step) in steps.iter().enumerate() {
        let info = factory.info(&step.instruction);
        let stores = info.used_memory().iter();
        let stores = stores.filter(|used| writes(used.access())).count();
        let operand = store_of(step, info).filter(|of| {
            let changed = |register: Option<u8>| register.is_some_and(|of| written >> of & 1 != 0);
            !changed(of.base) && !changed(of.index)
        });
        match (operand, stores) {
            (_, 0) if !calls_system(&step.instruction) => {}
            (Some(operand), 1) => found.push((number, operand)),
            // Nobody knows where.
            _ => found.clear(),
        }
        for used in info.used_registers() {
            if writes(used.access()) && used.register().is_gpr() {
                written |= 1 << (used.register().full_register().number() & 15);
            }
        }
    }
    // The last ones: nothing that is left out can have written over these.
    found.drain(..found.len().saturating_sub(sampler::Block::MOST_OPERANDS));
    found
}

/// The operand in memory that a step writes, of eight bytes at most, if where it is follows from
/// general registers.
fn store_of(step: &BlockInstruction, info: &InstructionInfo) -> Option<MemoryOperand> {
    let instruction = &step.instruction;
    let is_written =
        |of: u32| instruction.op_kind(of) == OpKind::Memory && writes(info.op_access(of));
    // What takes a word from the stack works out an address with rsp as it is behind that.
    if instruction.is_stack_instruction() || !(0..instruction.op_count()).any(is_written) {
        return None;
    }
    let number = |register: Register| match register {
        Register::None => Some(None),
        // Shorter ones are cut off.
        of if of.is_gpr64() => Some(Some((of.number() & 15) as u8)),
        _ => None,
    };
    let displacement = instruction.memory_displacement64();
    let (base, displacement) = match instruction.memory_base() {
        Register::RIP => {
            let bias = Bias::between(step.address, ImageAddress(instruction.ip()));
            (None, bias.in_process(ImageAddress(displacement)).0)
        }
        of => (number(of)?, displacement),
    };
    let is_flat = !matches!(instruction.memory_segment(), Register::FS | Register::GS);
    let bytes = instruction.memory_size().size();
    (is_flat && (1..=8).contains(&bytes)).then_some(MemoryOperand {
        base,
        index: number(instruction.memory_index())?,
        // 1, 2, 4 or 8.
        scale: instruction.memory_index_scale() as u8,
        displacement,
        bytes: bytes as u8,
    })
}

/// Whether one of these steps reads or writes vector or mask registers, or those of x87.
pub(crate) fn uses_vectors(steps: &[BlockInstruction]) -> bool {
    let mut factory = InstructionInfoFactory::new();
    steps.iter().any(|step| {
        let options = InstructionInfoOptions::NO_MEMORY_USAGE;
        let info = factory.info_options(&step.instruction, options);
        let mut used = info.used_registers().iter().map(|used| used.register());
        used.any(|of| of.is_vector_register() || of.is_k()) || touches_x87(&step.instruction, info)
    })
}

/// Registers other than general ones that these steps write and that still hold that behind the
/// last one, with what they hold: the number of the step, and the values of its results.
pub(crate) fn vector_results(
    steps: &[BlockInstruction],
    after: &sampler::Registers,
    others: &VectorState,
) -> Vec<(usize, Parameter, u64)> {
    let mut factory = InstructionInfoFactory::new();
    let mut all = Vec::new();
    // Bits of registers that a later step writes. Whatever that does on the stack of x87, names of
    // what lies on it are others behind it.
    let (mut later, mut later_masks, mut later_x87) = (0_u32, 0_u8, false);
    for (number, step) in steps.iter().enumerate().rev() {
        let (mut own, mut own_masks, mut own_x87) = (0, 0, false);
        for (parameter, value) in results_of(&step.instruction, after, Some(others)) {
            let (register, is_last) = match parameter {
                Parameter::Pair(of) if of.is_k() => (of, later_masks >> of.number() & 1 == 0),
                Parameter::PairWord(of, _) if of.is_st() => (of, !later_x87),
                Parameter::PairWord(of, _) => (of, later >> of.number() & 1 == 0),
                _ => continue,
            };
            if is_last {
                all.push((number, parameter, value));
            }
            match register {
                of if of.is_k() => own_masks |= 1 << of.number(),
                of if of.is_st() => own_x87 = true,
                of => own |= 1 << of.number(),
            }
        }
        later |= own;
        later_masks |= own_masks;
        let info = factory.info_options(&step.instruction, InstructionInfoOptions::NO_MEMORY_USAGE);
        later_x87 |= own_x87 || touches_x87(&step.instruction, info);
    }
    all.reverse();
    all
}

/// The number of the last step that writes the register in which there is a difference, as far as
/// it is in a general or a vector register, a mask or memory.
pub(crate) fn last_writer(steps: &[BlockInstruction], difference: Difference) -> Option<usize> {
    if let Difference::Memory(number) = difference {
        return Some(number);
    }
    let is_it = |of: Register| match difference {
        Difference::Register(number) => of.is_gpr() && of.full_register().number() == number,
        Difference::Vector(number) => of.is_vector_register() && of.number() == number,
        Difference::Mask(number) => of.is_k() && of.number() == number,
        _ => false,
    };
    let mut factory = InstructionInfoFactory::new();
    steps.iter().rposition(|step| {
        let options = InstructionInfoOptions::NO_MEMORY_USAGE;
        let info = factory.info_options(&step.instruction, options);
        let mut used = info.used_registers().iter();
        used.any(|used| writes(used.access()) && is_it(used.register()))
    })
}

/// Whether an instruction may change what lies on the stack of x87, or where.
fn touches_x87(instruction: &Instruction, info: &InstructionInfo) -> bool {
    let mut used = info.used_registers().iter().map(|used| used.register());
    instruction.fpu_stack_increment_info().writes_top() || used.any(|of| of.is_st() || of.is_mm())
}

/// The general registers that these steps write and that still hold that behind the last one: the
/// number of the step, and the register as it is written.
pub(crate) fn results(steps: &[BlockInstruction]) -> Vec<(usize, Register)> {
    let mut factory = InstructionInfoFactory::new();
    let mut results = Vec::new();
    let mut later = 0_u16;
    for (number, step) in steps.iter().enumerate().rev() {
        let mut written = Vec::new();
        let options = InstructionInfoOptions::NO_MEMORY_USAGE;
        let info = factory.info_options(&step.instruction, options);
        for used in info.used_registers() {
            if writes(used.access()) && used.register().is_gpr() {
                written.push(used.register());
            }
        }
        if calls_system(&step.instruction) {
            // Of the others the kernel makes what it needs itself.
            written = vec![Register::RAX];
        }
        let mut own = 0;
        for register in written {
            let bit = 1_u16 << (register.full_register().number() & 15);
            own |= bit;
            let is_stack = register.full_register() == Register::RSP;
            if later & bit == 0 && !is_stack {
                results.push((number, register));
            }
        }
        later |= own;
    }
    results.reverse();
    results
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions};

    use super::*;
    use machine::images::ImageId;

    /// Steps of code at image address 0x100, which is mapped at 0x5100.
    fn steps(code: &[u8]) -> Vec<BlockInstruction> {
        let mut decoder = Decoder::with_ip(64, code, 0x100, DecoderOptions::NONE);
        let mut steps = Vec::new();
        while decoder.can_decode() {
            let instruction = decoder.decode();
            let pc = Pc {
                image: ImageId(0),
                address: ImageAddress(instruction.ip()),
            };
            steps.push(BlockInstruction {
                pc,
                address: ProcessAddress(instruction.ip() + 0x5000),
                len: instruction.len() as u8,
                instruction,
            });
        }
        steps
    }

    fn exit(steps: usize, address: u64) -> Exit {
        let address = ProcessAddress(address);
        Exit { steps, address }
    }

    /// A block has four instructions, then more, up to a branch. One without condition belongs to
    /// it.
    #[test]
    fn ways_out() {
        assert_eq!(
            exits(&steps(&[0x90; 13]), false),
            [exit(4, 0x5104), exit(8, 0x5108), exit(12, 0x510c)]
        );
        assert_eq!(
            exits(&steps(&[0x90; 13]), true),
            [exit(1, 0x5101), exit(4, 0x5104), exit(8, 0x5108)]
        );
        // nop; jz +2
        assert_eq!(
            exits(&steps(&[0x90, 0x74, 2, 0x90]), false),
            [exit(1, 0x5101)]
        );
        // nop; jmp +2
        assert_eq!(
            exits(&steps(&[0x90, 0xeb, 2, 0x90]), false),
            [exit(1, 0x5101), exit(2, 0x5105)]
        );
        // What goes both ways is no pair.
        assert_eq!(exits(&steps(&[0x74, 2, 0x90]), false), []);
        // call +0x10
        assert_eq!(
            exits(&steps(&[0xe8, 0x10, 0, 0, 0]), false),
            [exit(1, 0x5115)]
        );
        // A return, a jump to itself: nothing tells, or there is no progress.
        assert_eq!(exits(&steps(&[0xc3]), false), []);
        assert_eq!(exits(&steps(&[0xeb, 0xfe]), false), []);
        // syscall
        assert_eq!(exits(&steps(&[0x0f, 0x05]), false), [exit(1, 0x5102)]);
    }

    /// What is stored is known where the registers of its address are those of the entry, and until
    /// a step stores elsewhere.
    #[test]
    fn what_is_stored() {
        let numbers = |code: &[u8]| -> Vec<usize> {
            let found = stored(&steps(code));
            found.into_iter().map(|(number, _)| number).collect()
        };
        // lock xadd [rbx+8*rcx-8], rax; mov [rip+0x10], edx
        let code = [
            0xf0, 0x48, 0x0f, 0xc1, 0x44, 0xcb, 0xf8, 0x89, 0x15, 0x10, 0, 0, 0,
        ];
        let found = stored(&steps(&code));
        let mut gpr = [0; 16];
        (gpr[1], gpr[3]) = (2, 0x1000);
        let at: Vec<_> = found
            .iter()
            .map(|(number, of)| (*number, of.address(&gpr).0, of.bytes))
            .collect();
        // The second lies 0x10 behind its end, which is 13 bytes on.
        assert_eq!(at, [(0, 0x1008, 8), (1, 0x511d, 4)]);
        // mov rbx, rax; mov [rbx], rax
        assert_eq!(
            numbers(&[0x48, 0x89, 0xc3, 0x48, 0x89, 0x03]),
            [] as [usize; 0]
        );
        // mov [rbx], rax; push rax; mov [rbx], al
        assert_eq!(numbers(&[0x48, 0x89, 0x03, 0x50, 0x88, 0x03]), [2]);
        // pop [rsp]: what lies above the word that is taken away
        assert_eq!(numbers(&[0x8f, 0x04, 0x24]), [] as [usize; 0]);
        // mov [rbx+i], al, six times: any of the last four may lie where an earlier one did
        let many: Vec<u8> = (0..6).flat_map(|i| [0x88, 0x43, i]).collect();
        assert_eq!(numbers(&many), [2, 3, 4, 5]);
        // movups [rbx], xmm0; mov fs:[rbx], rax
        assert_eq!(numbers(&[0x0f, 0x11, 0x03]), [] as [usize; 0]);
        assert_eq!(numbers(&[0x64, 0x48, 0x89, 0x03]), [] as [usize; 0]);
    }

    /// Of vectors, masks and x87 results are told by words, those that no later step writes over.
    #[test]
    fn what_is_left_of_vectors() {
        // addsd xmm0, xmm1; mulsd xmm0, xmm2; movapd xmm3, xmm0; kmovw k1, eax; fld1; fldz
        let code = [
            0xf2, 0x0f, 0x58, 0xc1, 0xf2, 0x0f, 0x59, 0xc2, 0x66, 0x0f, 0x28, 0xd8, 0xc5, 0xf8,
            0x92, 0xc8, 0xd9, 0xe8, 0xd9, 0xee,
        ];
        let steps = steps(&code);
        assert!(uses_vectors(&steps[..1]) && uses_vectors(&steps[5..]));
        assert!(!uses_vectors(&self::steps(&[0x90])));
        let others = VectorState {
            vectors: std::array::from_fn(|number| [number as u8; 64]),
            masks: [7; 8],
            mxcsr: 0x1f80,
            x87: sampler::X87 {
                control: 0x37f,
                status: 0,
                used: 0xff,
                stack: std::array::from_fn(|place| [place as u8; 10]),
            },
        };
        let left = vector_results(&steps, &sampler::Registers::default(), &others);
        let names: Vec<_> = left
            .iter()
            .map(|(number, parameter, _)| format!("{number} {parameter}"))
            .collect();
        let word = |number: usize, register: &str, word: usize| {
            format!("{number} pair.{register}.u64[{word}]")
        };
        let expected = [
            word(1, "xmm0", 0),
            word(1, "xmm0", 1),
            word(2, "xmm3", 0),
            word(2, "xmm3", 1),
            "3 pair.k1".to_owned(),
            word(5, "st0", 0),
            word(5, "st0", 1),
        ];
        assert_eq!(names.len(), expected.len(), "{names:?}");
        assert!(expected.iter().all(|of| names.contains(of)), "{names:?}");
    }

    /// Results are those that no later instruction writes over.
    #[test]
    fn what_is_left() {
        // rdtsc; mov ecx, eax; xor eax, eax
        let code = [0x0f, 0x31, 0x89, 0xc1, 0x31, 0xc0];
        let left: Vec<_> = results(&steps(&code))
            .into_iter()
            .map(|(number, register)| (number, register.full_register()))
            .collect();
        assert_eq!(
            left,
            [(0, Register::RDX), (1, Register::RCX), (2, Register::RAX)]
        );
        assert_eq!(results(&steps(&[0x0f, 0x05])), [(0, Register::RAX)]);
    }
}
