//! Which integer argument registers a function reads before it writes them.
//!
//! The walk follows the callee's control flow from its entry, and calls and jumps
//! out of it as well: what a callee has not touched may be meant for the function
//! that it hands over to. After a call nothing of the arguments is left in
//! registers, so a call is followed as a jump is. What is merely still there where it
//! hands over to code that cannot be read is no argument: nothing shows that it is.

use std::collections::BTreeSet;

use iced_x86::{FlowControl, InstructionInfoFactory, Mnemonic, OpAccess, Register};

use crate::code::{decode, direct_target};
use crate::elf::Elf;

/// An integer argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Argument {
    /// Position among the integer arguments, 0 to 5.
    pub(crate) index: u8,
    /// Width in bits.
    pub(crate) bits: u32,
}

/// The argument registers in their order (System V calling convention).
const REGISTERS: [Register; 6] = [
    Register::RDI,
    Register::RSI,
    Register::RDX,
    Register::RCX,
    Register::R8,
    Register::R9,
];

/// Steps that an analysis may take, so that code of any shape ends it.
const MAX_STEPS: usize = 4096;

/// All six, in full width: for a callee that cannot be read.
pub(crate) fn all() -> Vec<Argument> {
    (0..6).map(|index| Argument { index, bits: 64 }).collect()
}

/// One state of the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    address: u64,
    /// Bit i: argument register i was overwritten on the way here.
    written: u8,
}

/// The arguments read by the function at `entry`; `None` if it cannot be read.
pub(crate) fn live_arguments(elf: &Elf, entry: u64) -> Option<Vec<Argument>> {
    elf.bytes(entry).and_then(|bytes| decode(bytes, entry))?;
    let mut factory = InstructionInfoFactory::new();
    let mut bits = [0_u32; 6];
    let start = State {
        address: entry,
        written: 0,
    };
    let mut seen = BTreeSet::from([start]);
    let mut work = vec![start];
    let mut steps = 0;
    while let Some(state) = work.pop() {
        steps += 1;
        if steps > MAX_STEPS {
            break;
        }
        let decoded = elf
            .bytes(state.address)
            .and_then(|bytes| decode(bytes, state.address));
        let Some(instruction) = decoded else {
            continue;
        };
        let mut written = state.written;
        if instruction.mnemonic() != Mnemonic::Nop {
            let info = factory.info(&instruction);
            for used in info.used_registers() {
                let Some(index) = argument_of(used.register()) else {
                    continue;
                };
                if state.written & (1 << index) == 0
                    && reads(used.access())
                    && let Some(bits) = bits.get_mut(index)
                {
                    *bits = (*bits).max(width(used.register()));
                }
            }
            for used in info.used_registers() {
                // A write of the low byte or word leaves the rest as it was.
                let full = width(used.register()) >= 32;
                if let Some(index) = argument_of(used.register())
                    && used.access() == OpAccess::Write
                    && full
                {
                    written |= 1 << index;
                }
            }
        }
        let mut push = |address| {
            let next = State { address, written };
            if seen.insert(next) {
                work.push(next);
            }
        };
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::XbeginXabortXend => push(instruction.next_ip()),
            FlowControl::ConditionalBranch => {
                push(instruction.next_ip());
                if let Some(target) = direct_target(&instruction) {
                    push(target);
                }
            }
            FlowControl::UnconditionalBranch => {
                if let Some(target) = direct_target(&instruction) {
                    push(target);
                }
            }
            FlowControl::Call => {
                // `syscall` counts as one as well; it has no target.
                push(direct_target(&instruction).unwrap_or(instruction.next_ip()));
            }
            // A jump through a table stays in the function, one through a register
            // or slot leaves it: nothing tells which.
            FlowControl::IndirectBranch
            | FlowControl::IndirectCall
            | FlowControl::Return
            | FlowControl::Interrupt
            | FlowControl::Exception => {}
        }
    }
    let live = bits.iter().zip(0_u8..).filter(|(bits, _)| **bits > 0);
    Some(
        live.map(|(bits, index)| Argument { index, bits: *bits })
            .collect(),
    )
}

fn argument_of(register: Register) -> Option<usize> {
    if !register.is_gpr() {
        return None;
    }
    REGISTERS
        .iter()
        .position(|argument| *argument == register.full_register())
}

fn width(register: Register) -> u32 {
    u32::try_from(register.size())
        .unwrap_or(8)
        .saturating_mul(8)
}

fn reads(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::tests::image_of;

    fn live(code: &[u8]) -> Vec<(u8, u32)> {
        let elf = Elf::parse(image_of(code, 0x1000)).expect("image parses");
        let arguments = live_arguments(&elf, 0x1000).expect("entry is readable");
        arguments
            .iter()
            .map(|argument| (argument.index, argument.bits))
            .collect()
    }

    /// Registers read before they are written are arguments, in the width read.
    #[test]
    fn reads_before_writes() {
        // mov eax,edi; add rax,rsi; xor edx,edx; add rax,rdx; ret
        let code = [0x89, 0xf8, 0x48, 1, 0xf0, 0x31, 0xd2, 0x48, 1, 0xd0, 0xc3];
        assert_eq!(live(&code), [(0, 32), (1, 64)]);
    }

    /// An argument read on one path only is live; a loop ends the walk.
    #[test]
    fn paths_and_loops() {
        // test edi,edi; je +3; mov rax,[rsi]; dec edi; jne -11; ret
        let code = [
            0x85, 0xff, 0x74, 3, 0x48, 0x8b, 6, 0xff, 0xcf, 0x75, 0xf5, 0xc3,
        ];
        assert_eq!(live(&code), [(0, 32), (1, 64)]);
    }

    /// A byte write is no write of the register: the argument is still read.
    #[test]
    fn partial_writes_do_not_end_an_argument() {
        // mov dil,1; mov rax,rdi; ret
        assert_eq!(live(&[0x40, 0xb7, 1, 0x48, 0x89, 0xf8, 0xc3]), [(0, 64)]);
    }

    /// Arguments that pass untouched through a call or a tail jump belong to the function.
    #[test]
    fn passed_on() {
        // call +2; ret; nop; mov eax,edx; ret
        assert_eq!(
            live(&[0xe8, 2, 0, 0, 0, 0xc3, 0x90, 0x89, 0xd0, 0xc3]),
            [(2, 32)]
        );
        // jmp +1; nop; mov eax,ecx; ret
        assert_eq!(live(&[0xeb, 1, 0x90, 0x89, 0xc8, 0xc3]), [(3, 32)]);
        // mov edi,1; jmp rax: the rest may go anywhere, but nothing shows that it does.
        assert!(live(&[0xbf, 1, 0, 0, 0, 0xff, 0xe0]).is_empty());
        // mov eax,edi; call rax; ret
        assert_eq!(live(&[0x89, 0xf8, 0xff, 0xd0, 0xc3]), [(0, 32)]);
    }

    /// An entry outside the image, or that is no instruction, gives no answer.
    #[test]
    fn unreadable_entry_is_not_guessed() {
        let elf = Elf::parse(image_of(&[0xc3], 0x1000)).expect("image parses");
        assert_eq!(live_arguments(&elf, 0x9000), None);
        let elf = Elf::parse(image_of(&[0x06], 0x1000)).expect("image parses");
        assert_eq!(live_arguments(&elf, 0x1000), None);
    }
}
