//! The block of a pair: a few instructions that are executed one behind the other, where the thread
//! comes out of them, and which results are to be seen there.

use addresses::{Bias, ImageAddress, ProcessAddress};
use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess,
    OpKind, Register,
};

use machine::place::Pc;

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
            let writes = matches!(
                used.access(),
                OpAccess::Write
                    | OpAccess::ReadWrite
                    | OpAccess::CondWrite
                    | OpAccess::ReadCondWrite
            );
            if writes && used.register().is_gpr() {
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
