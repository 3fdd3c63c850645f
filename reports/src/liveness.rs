//! Which integer argument registers a function reads before it writes them.
//!
//! The walk follows the callee's control flow from its entry, and calls and jumps
//! out of it as well, through PLT stubs too: what a callee has not touched may be
//! meant for the function that it hands over to. After a call nothing of the arguments
//! is left in registers, so a call is followed as a jump is. What is merely still there
//! where it hands over to code that cannot be read is no argument: nothing shows that it is.
//! Nor is what a function of variable arguments only saves: it saves all that could be there.

use std::collections::BTreeSet;

use iced_x86::{
    FlowControl, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

use crate::code::{decode, direct_target};
use crate::convention::Convention;
use crate::elf::Elf;

/// An integer argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Argument {
    /// Position among the integer arguments, from 0.
    pub(crate) index: u8,
    /// Width in bits.
    pub(crate) bits: u32,
    /// Where it is passed.
    pub(crate) register: Register,
}

/// Argument registers of a convention at most.
const MAX_REGISTERS: usize = 16;

/// Steps that an analysis may take, so that code of any shape ends it.
const MAX_STEPS: usize = 4096;

/// Calls and stubs that the walk follows one into another.
const MAX_DEPTH: u8 = 3;

/// Instructions within which a function of variable arguments asks for the number of vector
/// registers in use.
const PROLOGUE: usize = 32;

/// All of a convention, in full width: for a callee that cannot be read.
pub(crate) fn all(convention: Convention) -> Vec<Argument> {
    arguments(convention, |_| 64)
}

/// Those registers of a convention that have a width.
fn arguments(convention: Convention, bits: impl Fn(usize) -> u32) -> Vec<Argument> {
    let registers = convention.registers().iter().enumerate().zip(0_u8..);
    let arguments = registers.map(|((number, register), index)| Argument {
        index,
        bits: bits(number),
        register: *register,
    });
    arguments.filter(|argument| argument.bits > 0).collect()
}

/// The code that the walk goes through.
pub(crate) trait Code {
    /// The verified file of an image.
    fn elf(&self, image: usize) -> Option<&Elf>;

    /// Image and address of the function that the PLT stub at an address leads to.
    fn behind_stub(&self, image: usize, address: u64) -> Option<(usize, u64)>;
}

/// One state of the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    image: usize,
    address: u64,
    /// Bit i: argument register i was overwritten on the way here.
    written: u16,
    /// Calls and stubs on the way here.
    depth: u8,
    /// The function has variable arguments.
    variadic: bool,
}

/// The arguments read by the function at `entry` (image, address), of those that its convention
/// has; `None` if it cannot be read.
pub(crate) fn live_arguments(
    code: &impl Code,
    entry: (usize, u64),
    convention: Convention,
) -> Option<Vec<Argument>> {
    let (image, address) = entry;
    instruction_at(code.elf(image)?, address)?;
    let mut factory = InstructionInfoFactory::new();
    let mut bits = [0_u32; MAX_REGISTERS];
    let registers = convention.registers();
    let start = State {
        image,
        address,
        written: 0,
        depth: 0,
        variadic: is_variadic(code.elf(image)?, address),
    };
    let mut seen = BTreeSet::from([start]);
    let mut work = vec![start];
    let mut steps = 0;
    while let Some(state) = work.pop() {
        steps += 1;
        if steps > MAX_STEPS {
            break;
        }
        let instruction = code
            .elf(state.image)
            .and_then(|elf| instruction_at(elf, state.address));
        let Some(instruction) = instruction else {
            continue;
        };
        let info = factory.info(&instruction);
        let written = state.written | note(&instruction, info, state, registers, &mut bits);
        let mut push = |next: State| {
            if seen.insert(next) {
                work.push(next);
            }
        };
        let to = |address| State {
            address,
            written,
            ..state
        };
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::XbeginXabortXend => push(to(instruction.next_ip())),
            FlowControl::ConditionalBranch => {
                push(to(instruction.next_ip()));
                if let Some(target) = direct_target(&instruction) {
                    push(to(target));
                }
            }
            FlowControl::UnconditionalBranch => {
                if let Some(target) = direct_target(&instruction) {
                    // It may be the entry of another function.
                    let entered = code.elf(state.image).map(|elf| is_variadic(elf, target));
                    push(State {
                        variadic: state.variadic || entered == Some(true),
                        ..to(target)
                    });
                }
            }
            FlowControl::Call if !convention.passes_on() => {}
            FlowControl::Call => match direct_target(&instruction) {
                Some(target) => enter(code, to(target)).into_iter().for_each(push),
                // `syscall` counts as a call as well; it has no target.
                None => push(to(instruction.next_ip())),
            },
            // A jump through a table stays in the function, one through a register
            // leaves it: nothing tells which. One through a slot is a stub.
            FlowControl::IndirectBranch => {
                if let Some((image, address)) = code.behind_stub(state.image, state.address) {
                    let behind = State {
                        image,
                        ..to(address)
                    };
                    enter(code, behind).into_iter().for_each(push);
                }
            }
            FlowControl::IndirectCall
            | FlowControl::Return
            | FlowControl::Interrupt
            | FlowControl::Exception => {}
        }
    }
    let width = |number: usize| bits.get(number).copied().unwrap_or_default();
    Some(arguments(convention, width))
}

/// The state at the entry of a function, if it is not too far away.
fn enter(code: &impl Code, at: State) -> Option<State> {
    let depth = at.depth.checked_add(1).filter(|d| *d <= MAX_DEPTH)?;
    Some(State {
        depth,
        variadic: is_variadic(code.elf(at.image)?, at.address),
        ..at
    })
}

/// Notes in `bits` the argument registers that an instruction reads before they are written,
/// and gives those that it writes, bit i for register i.
fn note(
    instruction: &Instruction,
    info: &InstructionInfo,
    state: State,
    registers: &[Register],
    bits: &mut [u32; MAX_REGISTERS],
) -> u16 {
    let mut written = 0;
    if instruction.mnemonic() == Mnemonic::Nop {
        return written;
    }
    let saves = state.variadic && is_save(instruction);
    for used in info.used_registers() {
        let Some(index) = argument_of(used.register(), registers) else {
            continue;
        };
        if state.written & (1 << index) == 0
            && reads(used.access())
            && !saves
            && let Some(bits) = bits.get_mut(index)
        {
            *bits = (*bits).max(width(used.register()));
        }
        // A write of the low byte or word leaves the rest as it was.
        if used.access() == OpAccess::Write && width(used.register()) >= 32 {
            written |= 1 << index;
        }
    }
    written
}

fn instruction_at(elf: &Elf, address: u64) -> Option<Instruction> {
    decode(elf.few_bytes(address)?, address)
}

/// Whether the function at `entry` has variable arguments: callers of such tell in `al` how
/// many vector registers they use (System V ABI 3.5.7), and it looks there before it saves them.
fn is_variadic(elf: &Elf, entry: u64) -> bool {
    let mut address = entry;
    let mut factory = InstructionInfoFactory::new();
    for _ in 0..PROLOGUE {
        let Some(instruction) = instruction_at(elf, address) else {
            return false;
        };
        let is_al = |operand| {
            instruction.op_kind(operand) == OpKind::Register
                && instruction.op_register(operand) == Register::AL
        };
        if instruction.mnemonic() == Mnemonic::Test && is_al(0) && is_al(1) {
            return true;
        }
        let info = factory.info(&instruction);
        let writes_rax = info.used_registers().iter().any(|used| {
            used.register().full_register() == Register::RAX && used.access() != OpAccess::Read
        });
        if writes_rax || instruction.flow_control() != FlowControl::Next {
            return false;
        }
        address = instruction.next_ip();
    }
    false
}

/// Whether an instruction stores a register on the stack.
fn is_save(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Mov
        && instruction.op0_kind() == OpKind::Memory
        && instruction.op1_kind() == OpKind::Register
        && matches!(instruction.memory_base(), Register::RSP | Register::RBP)
}

fn argument_of(register: Register, registers: &[Register]) -> Option<usize> {
    if !register.is_gpr() {
        return None;
    }
    registers
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

    /// Images by their index, and a stub of image 0 that leads to the entry of image 1.
    struct Images {
        elfs: Vec<Elf>,
        stub: u64,
    }

    impl Code for Images {
        fn elf(&self, image: usize) -> Option<&Elf> {
            self.elfs.get(image)
        }

        fn behind_stub(&self, image: usize, address: u64) -> Option<(usize, u64)> {
            (image == 0 && address == self.stub).then_some((1, 0x1000))
        }
    }

    fn images(codes: &[&[u8]], stub: u64) -> Images {
        let parse = |code: &&[u8]| Elf::parse(image_of(code, 0x1000)).expect("image parses");
        Images {
            elfs: codes.iter().map(parse).collect(),
            stub,
        }
    }

    fn live(code: &[u8]) -> Vec<(u8, u32)> {
        live_in(&images(&[code], 0))
    }

    fn live_in(images: &Images) -> Vec<(u8, u32)> {
        let entry = (0, 0x1000);
        let arguments = live_arguments(images, entry, Convention::Platform);
        let arguments = arguments.expect("entry is readable");
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

    /// A stub leads to the code of another image; one that leads nowhere known shows nothing.
    #[test]
    fn through_a_stub() {
        // mov eax,edi; call +0; jmp [rip+0x10]
        let code = [
            0x89, 0xf8, 0xe8, 0, 0, 0, 0, 0xff, 0x25, 0x10, 0, 0, 0, 0xcc,
        ];
        // mov rax,rsi; ret
        let other = [0x48, 0x89, 0xf0, 0xc3];
        assert_eq!(
            live_in(&images(&[&code, &other], 0x1007)),
            [(0, 32), (1, 64)]
        );
        assert_eq!(live_in(&images(&[&code], 0x1007)), [(0, 32)]);
        assert_eq!(live_in(&images(&[&code, &other], 0)), [(0, 32)]);
    }

    /// Of what a function of variable arguments saves nothing was passed for sure, neither to
    /// it nor through it; what it reads besides was.
    #[test]
    fn variable_arguments() {
        // mov eax,esi; mov [rsp-8],r9; test al,al; ...
        let not_al = [
            0x89, 0xf0, 0x4c, 0x89, 0x4c, 0x24, 0xf8, 0x84, 0xc0, 0x89, 0xf8, 0xc3,
        ];
        assert_eq!(live(&not_al), [(0, 32), (1, 32), (5, 64)]);
        // mov [rsp-8],r9; test al,al; mov eax,edi; ret
        let variadic = [0x4c, 0x89, 0x4c, 0x24, 0xf8, 0x84, 0xc0, 0x89, 0xf8, 0xc3];
        assert_eq!(live(&variadic), [(0, 32)]);
        let mut through = vec![0xe8, 0, 0, 0, 0];
        through.extend(variadic);
        assert_eq!(live(&through), [(0, 32)]);
    }

    /// The walk ends some calls away.
    #[test]
    fn depth_is_bounded() {
        // call +0, so many times; mov eax,edi; ret
        let chain = |calls| {
            let mut code = [0xe8, 0, 0, 0, 0].repeat(calls);
            code.extend([0x89, 0xf8, 0xc3]);
            code
        };
        assert_eq!(live(&chain(3)), [(0, 32)]);
        assert!(live(&chain(4)).is_empty());
    }

    /// An entry outside the image, or that is no instruction, gives no answer.
    #[test]
    fn unreadable_entry_is_not_guessed() {
        let of =
            |code: &[u8], entry| live_arguments(&images(&[code], 0), entry, Convention::Platform);
        assert_eq!(of(&[0xc3], (0, 0x9000)), None);
        assert_eq!(of(&[0x06], (0, 0x1000)), None);
        assert_eq!(of(&[0xc3], (7, 0x1000)), None);
    }

    /// A language's own registers have its order, and what its run-time system saves when it is
    /// called is no argument.
    #[test]
    fn conventions_of_languages() {
        // lea rdx,[rbx+rcx]; add rax,rdx; call +1; ret; push r11; push rsi; ret
        let code = [
            0x48, 0x8d, 0x14, 0x0b, 0x48, 1, 0xd0, 0xe8, 1, 0, 0, 0, 0xc3, 0x41, 0x53, 0x56, 0xc3,
        ];
        let of = |convention| {
            let found = live_arguments(&images(&[&code], 0), (0, 0x1000), convention);
            let found = found.expect("entry is readable").into_iter();
            found
                .map(|argument| (argument.index, argument.register))
                .collect::<Vec<_>>()
        };
        use Register::{RAX, RBX, RCX, RSI};
        assert_eq!(of(Convention::Go), [(0, RAX), (1, RBX), (2, RCX)]);
        assert_eq!(of(Convention::OCaml), [(0, RAX), (1, RBX), (5, RCX)]);
        assert_eq!(of(Convention::Platform), [(1, RSI), (3, RCX)]);
        assert_eq!(of(Convention::GoStack), []);
    }
}
