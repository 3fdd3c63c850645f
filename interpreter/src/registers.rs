//! The registers that a window starts from, and ends with.

use crate::handlers::Handlers;
use crate::rflags::Flags;
use crate::vector::Vector;
use crate::word::Word;
use crate::x87::X87;

/// The registers that a window starts from, and ends with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registers {
    /// rax rcx rdx rbx rsp rbp rsi rdi r8 to r15.
    pub gpr: [Word; 16],
    /// Process address of the instruction to be executed next.
    pub rip: u64,
    /// The arithmetic flags and the direction flag.
    pub rflags: Flags,
    /// Base of the FS segment, if known.
    pub fs_base: Option<u64>,
    /// Base of the GS segment, if known.
    pub gs_base: Option<u64>,
    /// `zmm0` to `zmm31`.
    pub vectors: [Vector; 32],
    /// The mask registers `k0` to `k7`.
    pub masks: [Word; 8],
    /// MXCSR, if known: of it only the modes (rounding, subnormal numbers) are used and kept, not
    /// the exception flags. Where it is not known, exceptions may be unmasked.
    pub mxcsr: Option<u32>,
    /// What x87 and MMX instructions work with.
    pub x87: X87,
    /// The trap flag: an exception follows each instruction.
    pub single_step: bool,
    /// The alignment check flag, in a program: an access that is not aligned raises an exception.
    pub alignment_checked: bool,
    /// The exceptions that the program may have handlers for.
    pub handlers: Handlers,
}

/// The trap flag of RFLAGS.
const TRAP: u64 = 1 << 8;
/// The alignment check flag of RFLAGS. In the kernel it means another thing.
const ALIGNMENT_CHECK: u64 = 1 << 18;

fn is_alignment_checked(rip: u64, rflags: u64) -> bool {
    rflags & ALIGNMENT_CHECK != 0 && rip >> 63 == 0
}

impl Registers {
    /// Registers as an interrupt shows them: the general ones and the flags are known, the segment
    /// bases and what vector instructions work with are not. The program has no handlers. `gpr` in
    /// the processor's order: rax rcx rdx rbx rsp rbp rsi rdi r8 to r15.
    pub fn from_sample(gpr: [u64; 16], rip: u64, rflags: u64) -> Self {
        Self {
            gpr: gpr.map(Word::known),
            rip,
            rflags: Flags::from_rflags(rflags),
            fs_base: None,
            gs_base: None,
            vectors: [Vector::UNKNOWN; 32],
            masks: [Word::UNKNOWN; 8],
            mxcsr: None,
            x87: X87::UNKNOWN,
            single_step: rflags & TRAP != 0,
            alignment_checked: is_alignment_checked(rip, rflags),
            handlers: Handlers::NONE,
        }
    }

    /// Makes them [those of a sample](Self::from_sample), in less time than it takes to make new
    /// ones.
    pub fn set_sample(&mut self, gpr: [u64; 16], rip: u64, rflags: u64) {
        self.gpr = gpr.map(Word::known);
        self.rip = rip;
        self.rflags = Flags::from_rflags(rflags);
        (self.fs_base, self.gs_base, self.mxcsr) = (None, None, None);
        self.masks = [Word::UNKNOWN; 8];
        self.x87 = X87::UNKNOWN;
        self.single_step = rflags & TRAP != 0;
        self.alignment_checked = is_alignment_checked(rip, rflags);
        self.handlers = Handlers::NONE;
        for vector in self.vectors.iter_mut().filter(|v| v.known_bytes() != 0) {
            *vector = Vector::UNKNOWN;
        }
    }

    /// Makes `zmm0` to `zmm31`, `k0` to `k7` and MXCSR known.
    pub fn set_vectors(&mut self, vectors: &[[u8; 64]; 32], masks: [u64; 8], mxcsr: u32) {
        for (known, bytes) in self.vectors.iter_mut().zip(vectors) {
            *known = Vector::partial(*bytes, u64::MAX);
        }
        self.masks = masks.map(Word::known);
        self.mxcsr = Some(mxcsr);
    }
}
