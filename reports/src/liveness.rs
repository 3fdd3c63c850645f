//! Which argument registers a function reads before it writes them: integer ones, and vector ones.
//!
//! The walk follows the callee's control flow from its entry, and calls and jumps
//! out of it as well, through PLT stubs too: what a callee has not touched may be
//! meant for the function that it hands over to. After a call nothing of the arguments
//! is left in registers, so a call is followed as a jump is. What is merely still there
//! where it hands over to code that cannot be read is no argument: nothing shows that it is.
//! Nor is what a function of variable arguments only saves: it saves all that could be there.

mod unread;
mod variadic;

use foldhash::{HashMap, HashSet};
use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

use crate::code::{decode, direct_target};
use crate::convention::{Convention, PLATFORM};
use crate::elf::Elf;

use self::unread::unread;
use self::variadic::variadic;

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

/// Where the platform's convention passes floating-point arguments.
pub(crate) const VECTORS: [Register; 8] = [
    Register::XMM0,
    Register::XMM1,
    Register::XMM2,
    Register::XMM3,
    Register::XMM4,
    Register::XMM5,
    Register::XMM6,
    Register::XMM7,
];

/// Argument registers of a convention at most.
const MAX_REGISTERS: usize = 16;

/// Steps that an analysis may take, so that code of any shape ends it.
const MAX_STEPS: usize = 4096;

/// Calls and stubs that the walk follows one into another.
const MAX_DEPTH: u8 = 3;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct WalkState {
    image: usize,
    address: u64,
    /// Bit i: argument register i was overwritten on the way here; in its low byte at least, in
    /// its low word, and in full.
    written: Written,
    /// Calls and stubs on the way here.
    depth: u8,
    /// How many of its integer arguments have names, if the function has variable ones.
    variadic: Option<u8>,
}

/// What was overwritten, for each of [`WIDTHS`] a bit for each register.
type Written = [u16; 3];

/// Bits of parts of a register that can be written alone. The high byte of a word counts as the
/// word where it is read, and as nothing where it is written.
const WIDTHS: [u8; 3] = [8, 16, 64];

/// General registers.
const REGISTERS: usize = 16;

/// An instruction as the walk needs it, whatever the convention is.
#[derive(Debug, Clone, Copy)]
struct RegisterUse {
    flow: FlowControl,
    next: u64,
    target: Option<u64>,
    /// The most bits that it reads, by general register.
    reads: [u8; REGISTERS],
    /// Bit r: it overwrites general register r.
    written: Written,
    /// Bit r: it reads vector register r, and overwrites it.
    vectors: (u16, u16),
    /// It stores a register on the stack.
    saves: bool,
    /// The general register that it pushes, and that it pops.
    pushed: Option<usize>,
    popped: Option<usize>,
}

/// What code does with registers before it writes them.
struct ReadRegisters {
    /// The most bits that it reads of each.
    bits: [u32; MAX_REGISTERS],
    /// Bit i: register i is pushed, and not popped again on the ways that were walked.
    handed_on: u16,
}

/// An address of an image.
type Place = (usize, u64);

/// Walks through the code of many functions. What they call they have in common, so instructions
/// are kept that were looked at.
pub(crate) struct Walker<'c, C> {
    code: &'c C,
    factory: InstructionInfoFactory,
    /// `None`: no instruction.
    steps: HashMap<Place, Option<RegisterUse>>,
    /// Named integer arguments of functions that have variable ones, by their entries.
    variadic: HashMap<Place, Option<u8>>,
}

/// Instructions that are kept at most: with more, all are forgotten.
const MOST_KEPT: usize = 1 << 15;

impl<'c, C: Code> Walker<'c, C> {
    /// Nothing was looked at yet.
    pub(crate) fn new(code: &'c C) -> Self {
        Self {
            code,
            factory: InstructionInfoFactory::new(),
            steps: HashMap::default(),
            variadic: HashMap::default(),
        }
    }

    /// The arguments read by the function at `entry` (image, address), of those that its
    /// convention has; `None` if it cannot be read.
    pub(crate) fn live_arguments(
        &mut self,
        entry: Place,
        convention: Convention,
    ) -> Option<Vec<Argument>> {
        let registers = convention.registers();
        let mut read = self.walk(entry, convention, registers)?;
        for (number, bits) in read.bits.iter_mut().enumerate() {
            if read.handed_on & (1 << number) != 0 {
                *bits = 64;
            }
        }
        let bits = read.bits;
        let width = |number: usize| bits.get(number).copied().unwrap_or_default();
        Some(arguments(convention, width))
    }

    /// The vector registers read by the function at `entry` (image, address), of those that the
    /// platform's convention passes arguments in, as bit i for the i-th; `None` if it cannot be
    /// read.
    pub(crate) fn live_vectors(&mut self, entry: Place) -> Option<u8> {
        let read = self.walk(entry, Convention::Platform, &VECTORS)?;
        let live = (0..).zip(read.bits.iter().take(VECTORS.len()));
        Some(live.fold(0, |all, (number, bits)| all | u8::from(*bits > 0) << number))
    }

    /// Whether the function at `entry` reads one of these registers, but to save it on the stack;
    /// `None` if it cannot be read.
    pub(crate) fn reads_any(&mut self, entry: Place, registers: &[Register]) -> Option<bool> {
        let read = self.walk(entry, Convention::Platform, registers)?;
        Some(read.bits.iter().any(|bits| *bits > 0))
    }

    /// The most bits that the code behind an entry reads of each of the registers before it writes
    /// them. They are general registers or vector registers.
    fn walk(
        &mut self,
        entry: Place,
        convention: Convention,
        registers: &[Register],
    ) -> Option<ReadRegisters> {
        let (image, address) = entry;
        self.step(entry)?;
        let mut bits = [0_u32; MAX_REGISTERS];
        // Bit i: argument register i is read by being pushed; general register r is popped.
        let (mut pushed, mut popped) = (0_u16, 0_u16);
        let start = WalkState {
            image,
            address,
            written: Written::default(),
            depth: 0,
            variadic: self.variadic(entry),
        };
        let mut seen = HashSet::default();
        seen.insert(start);
        let mut work = vec![start];
        let mut steps = 0;
        while let Some(state) = work.pop() {
            steps += 1;
            // Where all are read in full, nothing is left to be found.
            if steps > MAX_STEPS || is_full(&bits, registers) {
                break;
            }
            let Some(step) = self.step((state.image, state.address)) else {
                continue;
            };
            let mut written = state.written;
            pushed |= step.pushes(state, registers);
            popped |= step.popped.map_or(0, |register| 1 << register);
            for (all, more) in written
                .iter_mut()
                .zip(step.note(state, registers, &mut bits))
            {
                *all |= more;
            }
            let mut push = |next: WalkState| {
                if seen.insert(next) {
                    work.push(next);
                }
            };
            let to = |address| WalkState {
                address,
                written,
                ..state
            };
            match step.flow {
                FlowControl::Next | FlowControl::XbeginXabortXend => push(to(step.next)),
                FlowControl::ConditionalBranch => {
                    push(to(step.next));
                    if let Some(target) = step.target {
                        push(to(target));
                    }
                }
                FlowControl::UnconditionalBranch => {
                    if let Some(target) = step.target {
                        // It may be the entry of another function.
                        push(WalkState {
                            variadic: state.variadic.or(self.variadic((state.image, target))),
                            ..to(target)
                        });
                    }
                }
                FlowControl::Call if !convention.passes_on() => {}
                FlowControl::Call => match step.target {
                    Some(target) => self.enter(to(target)).into_iter().for_each(push),
                    // `syscall` counts as a call as well; it has no target.
                    None => push(to(step.next)),
                },
                // A jump through a table stays in the function, one through a register
                // leaves it: nothing tells which. One through a slot is a stub.
                FlowControl::IndirectBranch => {
                    let behind = self.code.behind_stub(state.image, state.address);
                    if let Some((image, address)) = behind {
                        let behind = WalkState {
                            image,
                            ..to(address)
                        };
                        self.enter(behind).into_iter().for_each(push);
                    }
                }
                FlowControl::IndirectCall
                | FlowControl::Return
                | FlowControl::Interrupt
                | FlowControl::Exception => {}
            }
        }
        // What is popped again was saved; what is not is handed on.
        for (index, register) in registers.iter().enumerate() {
            if register.is_gpr() && popped & (1 << register.number()) != 0 {
                pushed &= !(1 << index);
            }
        }
        Some(ReadRegisters {
            bits,
            handed_on: pushed,
        })
    }

    /// The state at the entry of a function, if it is not too far away.
    fn enter(&mut self, at: WalkState) -> Option<WalkState> {
        let depth = at.depth.checked_add(1).filter(|d| *d <= MAX_DEPTH)?;
        self.code.elf(at.image)?;
        Some(WalkState {
            depth,
            variadic: self.variadic((at.image, at.address)),
            ..at
        })
    }

    /// The instruction at a place; `None`: there is none.
    fn step(&mut self, place: Place) -> Option<RegisterUse> {
        if let Some(known) = self.steps.get(&place) {
            return *known;
        }
        let elf = self.code.elf(place.0);
        let instruction = elf.and_then(|elf| instruction_at(elf, place.1));
        let step = instruction.map(|instruction| RegisterUse::new(&instruction, &mut self.factory));
        if self.steps.len() >= MOST_KEPT {
            self.steps.clear();
        }
        self.steps.insert(place, step);
        step
    }

    fn variadic(&mut self, entry: Place) -> Option<u8> {
        if let Some(known) = self.variadic.get(&entry) {
            return *known;
        }
        let elf = self.code.elf(entry.0);
        let variadic = elf.and_then(|elf| variadic(elf, entry.1, &mut self.factory));
        if self.variadic.len() >= MOST_KEPT {
            self.variadic.clear();
        }
        self.variadic.insert(entry, variadic);
        variadic
    }
}

/// Whether all registers are read in full width.
fn is_full(bits: &[u32; MAX_REGISTERS], registers: &[Register]) -> bool {
    bits.iter().take(registers.len()).all(|bits| *bits >= 64)
}

impl RegisterUse {
    fn new(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> RegisterUse {
        let mut step = RegisterUse {
            flow: instruction.flow_control(),
            next: instruction.next_ip(),
            target: direct_target(instruction),
            reads: [0; REGISTERS],
            written: Written::default(),
            vectors: (0, 0),
            saves: is_save(instruction),
            pushed: None,
            popped: None,
        };
        let moved = || {
            let register = instruction.op0_register();
            let is_general = instruction.op0_kind() == OpKind::Register && register.is_gpr();
            is_general.then(|| register.full_register().number())
        };
        match instruction.mnemonic() {
            Mnemonic::Nop => return step,
            Mnemonic::Push => step.pushed = moved(),
            Mnemonic::Pop => step.popped = moved(),
            _ => {}
        }
        let unread = unread(instruction).map(Register::full_register);
        for used in factory.info(instruction).used_registers() {
            let register = used.register();
            let access = match used.access() {
                OpAccess::ReadWrite if unread == Some(register.full_register()) => OpAccess::Write,
                OpAccess::Read if unread == Some(register.full_register()) => OpAccess::None,
                access => access,
            };
            if register.is_vector_register() {
                let bit = 1_u16.checked_shl(register.number() as u32).unwrap_or(0);
                step.vectors.0 |= if reads(access) { bit } else { 0 };
                step.vectors.1 |= if access == OpAccess::Write { bit } else { 0 };
            }
            if !register.is_gpr() {
                continue;
            }
            let number = register.full_register().number();
            let is_high = matches!(
                register,
                Register::AH | Register::BH | Register::CH | Register::DH
            );
            let bits = u8::try_from(width(register)).unwrap_or(u8::MAX);
            let is_pushed = step.pushed == Some(number);
            if let Some(read) = step.reads.get_mut(number)
                && reads(access)
                && !is_pushed
            {
                *read = (*read).max(if is_high { 16 } else { bits });
            }
            // A write of the low byte or word leaves the rest as it was; of the low half, nothing.
            if access == OpAccess::Write && !is_high && number < REGISTERS {
                let bits = if bits >= 32 { 64 } else { bits };
                for (width, written) in WIDTHS.into_iter().zip(&mut step.written) {
                    *written |= u16::from(width <= bits) << number;
                }
            }
        }
        step
    }

    /// Notes in `bits` the argument registers that it reads before they are written, and gives
    /// those that it writes, bit i for register i.
    fn note(
        &self,
        state: WalkState,
        registers: &[Register],
        bits: &mut [u32; MAX_REGISTERS],
    ) -> Written {
        // Where a function of variable arguments saves what has a name, it means that.
        let is_saved = |register: &Register| {
            let named = state.variadic.filter(|_| self.saves)?;
            let number = PLATFORM.iter().zip(0..).find(|(of, _)| *of == register);
            Some(number.is_none_or(|(_, number)| number >= named))
        };
        let mut written = Written::default();
        for ((index, register), bits) in registers.iter().enumerate().zip(bits) {
            let number = register.number();
            let saves = is_saved(register) == Some(true);
            if register.is_vector_register() {
                let (read, overwritten) = self.vectors;
                let is_read = read >> number & 1 != 0 && !is_written(state.written, index, 64);
                *bits = (*bits).max(if is_read && !saves { 64 } else { 0 });
                for all in &mut written {
                    *all |= (overwritten >> number & 1) << index;
                }
                continue;
            }
            if let Some(read) = self.reads.get(number)
                && !saves
                && !is_written(state.written, index, *read)
            {
                *bits = (*bits).max(u32::from(*read));
            }
            for (all, here) in written.iter_mut().zip(self.written) {
                *all |= (here >> number & 1) << index;
            }
        }
        written
    }

    /// The argument register that it pushes as it came, as bit i.
    fn pushes(&self, state: WalkState, registers: &[Register]) -> u16 {
        let is_it = |register: &Register| Some(register.number()) == self.pushed;
        let index = registers.iter().position(is_it);
        let index = index.filter(|index| !is_written(state.written, *index, 64));
        index.map_or(0, |index| 1 << index)
    }
}

/// Whether so many low bits of an argument register were overwritten.
fn is_written(written: Written, index: usize, bits: u8) -> bool {
    let mut widths = WIDTHS.into_iter().zip(written);
    let narrowest = widths.find(|(width, _)| *width >= bits);
    narrowest.is_some_and(|(_, written)| written & (1 << index) != 0)
}

fn instruction_at(elf: &Elf, address: u64) -> Option<Instruction> {
    decode(elf.few_bytes(address)?, address)
}

/// Whether an instruction stores a register on the stack.
fn is_save(instruction: &Instruction) -> bool {
    let moves = [
        Mnemonic::Mov,
        Mnemonic::Movaps,
        Mnemonic::Movups,
        Mnemonic::Vmovaps,
        Mnemonic::Vmovups,
    ];
    moves.contains(&instruction.mnemonic())
        && instruction.op0_kind() == OpKind::Memory
        && instruction.op1_kind() == OpKind::Register
        && matches!(instruction.memory_base(), Register::RSP | Register::RBP)
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
        let arguments = Walker::new(images).live_arguments(entry, Convention::Platform);
        let arguments = arguments.expect("entry is readable");
        arguments
            .iter()
            .map(|argument| (argument.index, argument.bits))
            .collect()
    }

    /// Vector registers read before they are written are arguments; a register cleared by itself
    /// is not read, and of one that is read on one path only, that is enough.
    #[test]
    fn vectors() {
        let live = |code: &[u8]| Walker::new(&images(&[code], 0)).live_vectors((0, 0x1000));
        // pxor xmm0,xmm0; cvtsi2sd xmm0,edi; mulsd xmm0,xmm1; ret
        let code = [
            0x66, 0x0f, 0xef, 0xc0, 0xf2, 0x0f, 0x2a, 0xc7, 0xf2, 0x0f, 0x59, 0xc1, 0xc3,
        ];
        assert_eq!(live(&code), Some(0b10));
        // test edi,edi; je +4; addsd xmm0,xmm2; ret
        let code = [0x85, 0xff, 0x74, 4, 0xf2, 0x0f, 0x58, 0xc2, 0xc3];
        assert_eq!(live(&code), Some(0b101));
        // lea eax,[rdi+rsi]; ret
        assert_eq!(live(&[0x8d, 0x04, 0x37, 0xc3]), Some(0));
        // pcmpeqd xmm1,xmm1; paddd xmm0,xmm1; ret
        let code = [0x66, 0x0f, 0x76, 0xc9, 0x66, 0x0f, 0xfe, 0xc1, 0xc3];
        assert_eq!(live(&code), Some(1));
        // vpcmpeqd xmm1,xmm2,xmm2; ret
        assert_eq!(live(&[0xc5, 0xe9, 0x76, 0xca, 0xc3]), Some(0));
    }

    /// Registers read before they are written are arguments, in the width read.
    #[test]
    fn reads_before_writes() {
        // mov eax,edi; add rax,rsi; xor edx,edx; add rax,rdx; ret
        let code = [0x89, 0xf8, 0x48, 1, 0xf0, 0x31, 0xd2, 0x48, 1, 0xd0, 0xc3];
        assert_eq!(live(&code), [(0, 32), (1, 64)]);
    }

    /// A register that is set to a constant by an instruction that reads it, or to the carry flag,
    /// is no argument; what other numbers are joined with is.
    #[test]
    fn set_by_reading() {
        let unread: [&[u8]; 9] = [
            // or esi,-1; or rsi,-1; and esi,0; sbb esi,esi; imul rsi,rsi,0; xor esi,esi;
            // sub rsi,rsi; or esi,0xffffffff in its long form; imul eax,esi,0
            &[0x83, 0xce, 0xff],
            &[0x48, 0x83, 0xce, 0xff],
            &[0x83, 0xe6, 0],
            &[0x19, 0xf6],
            &[0x48, 0x6b, 0xf6, 0],
            &[0x31, 0xf6],
            &[0x48, 0x29, 0xf6],
            &[0x81, 0xce, 0xff, 0xff, 0xff, 0xff],
            &[0x6b, 0xc6, 0, 0x31, 0xf6],
        ];
        for set in unread {
            // mov eax,edi; ...; mov rax,rsi; ret
            let code = [&[0x89, 0xf8], set, &[0x48, 0x89, 0xf0, 0xc3]].concat();
            assert_eq!(live(&code), [(0, 32)], "{set:x?}");
        }
        // or esi,0x7f; and esi,1; sbb esi,edi; imul esi,esi,1; or sil,-1 leaves the rest.
        let read: [(&[u8], u32); 5] = [
            (&[0x83, 0xce, 0x7f], 32),
            (&[0x83, 0xe6, 1], 32),
            (&[0x19, 0xfe], 32),
            (&[0x6b, 0xf6, 1], 32),
            (&[0x40, 0x80, 0xce, 0xff], 64),
        ];
        for (set, bits) in read {
            let code = [&[0x89, 0xf8], set, &[0x48, 0x89, 0xf0, 0xc3]].concat();
            assert_eq!(live(&code), [(0, 32), (1, bits)], "{set:x?}");
        }
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

    /// What a byte write left is read of the register it was written to, and no argument; the high
    /// byte of a word was not written with it.
    #[test]
    fn scratch_bytes() {
        // mov cl,[rsi]; mov [rdi],cl; movzx eax,cl; ret
        let code = [0x8a, 0x0e, 0x88, 0x0f, 0x0f, 0xb6, 0xc1, 0xc3];
        assert_eq!(live(&code), [(0, 64), (1, 64)]);
        // mov cl,1; mov al,ch; ret
        assert_eq!(live(&[0xb1, 1, 0x88, 0xe8, 0xc3]), [(3, 16)]);
        // setl cl; movzx eax,cx; ret
        assert_eq!(live(&[0x0f, 0x9c, 0xc1, 0x0f, 0xb7, 0xc1, 0xc3]), [(3, 16)]);
    }

    /// What is pushed and popped again was saved; what is pushed for a call was handed on.
    #[test]
    fn saved_on_the_stack() {
        let reads_rdx = |code: &[u8]| {
            let images = images(&[code], 0);
            Walker::new(&images).reads_any((0, 0x1000), &[Register::RDX])
        };
        // push rdx; xor edx,edx; mov eax,edi; pop rdx; ret
        let code = [0x52, 0x31, 0xd2, 0x89, 0xf8, 0x5a, 0xc3];
        assert_eq!(live(&code), [(0, 32)]);
        assert_eq!(reads_rdx(&code), Some(false));
        // push rdx; call +4; add rsp,8... ret
        let code = [0x52, 0xe8, 0, 0, 0, 0, 0x48, 0x83, 0xc4, 8, 0xc3];
        assert_eq!(live(&code), [(2, 64)]);
        // It may be saved all the same: a mov is another thing.
        assert_eq!(reads_rdx(&code), Some(false));
        // mov rax,rdx; ret
        assert_eq!(reads_rdx(&[0x48, 0x89, 0xd0, 0xc3]), Some(true));
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

    /// A function of variable arguments that are integers alone does not ask for vector registers:
    /// it is told by what it saves and by where it says that begins. What is saved besides has a
    /// name.
    #[test]
    fn variable_integers() {
        let saved = [
            // mov [rsp-24],rcx; mov [rsp-16],r8; mov [rsp-8],r9; mov [rsp-56],rsi
            &[0x48, 0x89, 0x4c, 0x24, 0xe8, 0x4c, 0x89, 0x44, 0x24, 0xf0][..],
            &[0x4c, 0x89, 0x4c, 0x24, 0xf8, 0x48, 0x89, 0x74, 0x24, 0xc8],
        ];
        let saved = saved.concat();
        let of = |more: &[u8]| live(&[&saved, more, &[0x89, 0xf8, 0xc3]].concat());
        // lea rax,[rsp-48], where rdi would be
        assert_eq!(of(&[0x48, 0x8d, 0x44, 0x24, 0xd0]), [(0, 32), (1, 64)]);
        // mov dword [rsp-80],24
        let offset = [0xc7, 0x44, 0x24, 0xb0, 24, 0, 0, 0];
        assert_eq!(of(&offset), [(0, 32), (1, 64)]);
        // lea rax,[rsp-24]: the address of what is stored.
        let all = [(0, 32), (1, 64), (3, 64), (4, 64), (5, 64)];
        assert_eq!(of(&[0x48, 0x8d, 0x44, 0x24, 0xe8]), all);
        // mov [rsp-8],edi; test al,al; mov [rsp-16],r9; mov eax,esi
        let named = [
            0x89, 0x7c, 0x24, 0xf8, 0x84, 0xc0, 0x4c, 0x89, 0x4c, 0x24, 0xf0, 0x89, 0xf0, 0xc3,
        ];
        assert_eq!(live(&named), [(0, 32), (1, 32)]);
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
        let of = |code: &[u8], entry| {
            Walker::new(&images(&[code], 0)).live_arguments(entry, Convention::Platform)
        };
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
            let found = Walker::new(&images(&[&code], 0)).live_arguments((0, 0x1000), convention);
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
