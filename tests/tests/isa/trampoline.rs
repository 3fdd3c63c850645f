//! The way to an instruction and back: every register loaded, every register saved.
#![expect(
    unsafe_code,
    reason = "registers are loaded and saved in assembly, and system calls made without the library"
)]

use std::arch::{asm, global_asm};
use std::mem::offset_of;

use crate::native::NativeState;

/// Where the trampoline keeps what it needs when no register is free.
pub(crate) const AREA: u64 = 0x2100_0000;

/// What lies there.
#[repr(C)]
pub(crate) struct Area {
    /// General registers as saved.
    gpr: [u64; 16],
    rflags: u64,
    /// The child's own stack.
    stack: u64,
    /// Where the state after goes.
    after: u64,
    entry: u64,
    /// Address of `isa_exit`: stubs jump through here.
    exit: u64,
    /// Written by the stubs and the handler.
    pub(crate) arrived: u64,
    pub(crate) exception: u64,
    /// The child's own MXCSR.
    mxcsr: u32,
    /// Which vector registers there are, a [`Level`].
    level: u32,
}

impl Area {
    /// Fills in what does not change.
    pub(crate) fn prepare(&mut self) {
        self.exit = exit_address();
        self.mxcsr = 0x1f80;
        self.level = Level::of_this_processor() as u32;
    }
}

/// The vector registers that a processor has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub(crate) enum Level {
    /// `xmm0` to `xmm15`.
    Sse,
    /// `ymm0` to `ymm15`.
    Avx,
    /// `zmm0` to `zmm31`, `k0` to `k7`.
    Avx512,
}

impl Level {
    pub(crate) fn of_this_processor() -> Self {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
            Self::Avx512
        } else if is_x86_feature_detected!("avx") {
            Self::Avx
        } else {
            Self::Sse
        }
    }

    /// Vector registers, bytes of each.
    pub(crate) fn vectors(self) -> (usize, usize) {
        match self {
            Self::Sse => (16, 16),
            Self::Avx => (16, 32),
            Self::Avx512 => (32, 64),
        }
    }
}

/// Bytes of a stub.
pub(crate) const STUB_BYTES: usize = 19;

/// Code that says that it was reached, and changes no register and no flag.
pub(crate) fn stub(address: u64) -> [u8; STUB_BYTES] {
    let low = |value: u64| (value as u32).to_le_bytes();
    let mut code = [0; STUB_BYTES];
    // mov qword ptr [AREA.arrived], address
    code[..4].copy_from_slice(&[0x48, 0xc7, 0x04, 0x25]);
    code[4..8].copy_from_slice(&low(AREA + offset_of!(Area, arrived) as u64));
    code[8..12].copy_from_slice(&low(address));
    // jmp qword ptr [AREA.exit]
    code[12..15].copy_from_slice(&[0xff, 0x24, 0x25]);
    code[15..].copy_from_slice(&low(AREA + offset_of!(Area, exit) as u64));
    code
}

/// Where the registers are saved.
pub(crate) fn exit_address() -> u64 {
    isa_exit as extern "C" fn() as usize as u64
}

/// Loads the state `before`, jumps to `entry`, and returns when the state `after` is saved.
///
/// # Safety
/// The area is mapped and prepared, both states are valid, and what runs from `entry` on ends in a
/// stub or an exception.
pub(crate) unsafe fn enter(before: *const NativeState, entry: u64, after: *mut NativeState) {
    // SAFETY: as above; what the calling convention wants kept is kept.
    unsafe { isa_enter(before, entry, after) }
}

/// A system call without the library, which would use thread-local storage.
///
/// # Safety
/// As the call asks.
pub(crate) unsafe fn system_call(number: i64, arguments: [u64; 3]) -> i64 {
    let result;
    // SAFETY: the caller's; the kernel changes rax, rcx and r11 alone.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

unsafe extern "C" {
    fn isa_enter(before: *const NativeState, entry: u64, after: *mut NativeState);
    safe fn isa_exit();
}

// Absolute addresses below 2^31 need no register.
global_asm!(
    ".pushsection .text.isa,\"ax\",@progbits",
    ".globl isa_enter",
    "isa_enter:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov [{stack}], rsp",
    "mov [{after}], rdx",
    "mov [{entry}], rsi",
    "fxrstor64 [rdi + {x87}]",
    "ldmxcsr [rdi + {mxcsr}]",
    "cmp dword ptr [{level}], 1",
    "ja 2f",
    "je 1f",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "movups xmm\\n, [rdi + {vectors} + 64*\\n]",
    ".endr",
    "jmp 3f",
    "1:",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "vmovups ymm\\n, [rdi + {vectors} + 64*\\n]",
    ".endr",
    "jmp 3f",
    "2:",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "vmovups zmm\\n, [rdi + {vectors} + 64*\\n]",
    ".endr",
    ".irp n, 0,1,2,3,4,5,6,7",
    "kmovq k\\n, [rdi + {masks} + 8*\\n]",
    ".endr",
    "3:",
    "push qword ptr [rdi + {rflags}]",
    "popfq",
    "mov rax, [rdi + {gpr}]",
    "mov rcx, [rdi + {gpr} + 8]",
    "mov rdx, [rdi + {gpr} + 16]",
    "mov rbx, [rdi + {gpr} + 24]",
    "mov rsp, [rdi + {gpr} + 32]",
    "mov rbp, [rdi + {gpr} + 40]",
    "mov rsi, [rdi + {gpr} + 48]",
    ".irp n, 8,9,10,11,12,13,14,15",
    "mov r\\n, [rdi + {gpr} + 8*\\n]",
    ".endr",
    "mov rdi, [rdi + {gpr} + 56]",
    "jmp qword ptr [{entry}]",
    ".globl isa_exit",
    "isa_exit:",
    "mov [{saved}], rax",
    "mov [{saved} + 8], rcx",
    "mov [{saved} + 16], rdx",
    "mov [{saved} + 24], rbx",
    "mov [{saved} + 32], rsp",
    "mov [{saved} + 40], rbp",
    "mov [{saved} + 48], rsi",
    "mov [{saved} + 56], rdi",
    ".irp n, 8,9,10,11,12,13,14,15",
    "mov [{saved} + 8*\\n], r\\n",
    ".endr",
    "mov rsp, [{stack}]",
    "pushfq",
    "pop qword ptr [{flags}]",
    "push 2",
    "popfq",
    "mov rdi, [{after}]",
    "fxsave64 [rdi + {x87}]",
    "stmxcsr [rdi + {mxcsr}]",
    "ldmxcsr [{own_mxcsr}]",
    "fninit",
    "cmp dword ptr [{level}], 1",
    "ja 2f",
    "je 1f",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "movups [rdi + {vectors} + 64*\\n], xmm\\n",
    ".endr",
    "jmp 3f",
    "1:",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "vmovups [rdi + {vectors} + 64*\\n], ymm\\n",
    ".endr",
    "vzeroupper",
    "jmp 3f",
    "2:",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "vmovups [rdi + {vectors} + 64*\\n], zmm\\n",
    ".endr",
    ".irp n, 0,1,2,3,4,5,6,7",
    "kmovq [rdi + {masks} + 8*\\n], k\\n",
    ".endr",
    "vzeroupper",
    "3:",
    "mov rax, [{flags}]",
    "mov [rdi + {rflags}], rax",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "mov rax, [{saved} + 8*\\n]",
    "mov [rdi + {gpr} + 8*\\n], rax",
    ".endr",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
    ".popsection",
    vectors = const offset_of!(NativeState, vectors),
    x87 = const offset_of!(NativeState, x87),
    gpr = const offset_of!(NativeState, gpr),
    masks = const offset_of!(NativeState, masks),
    rflags = const offset_of!(NativeState, rflags),
    mxcsr = const offset_of!(NativeState, mxcsr),
    saved = const AREA as usize + offset_of!(Area, gpr),
    flags = const AREA as usize + offset_of!(Area, rflags),
    stack = const AREA as usize + offset_of!(Area, stack),
    after = const AREA as usize + offset_of!(Area, after),
    entry = const AREA as usize + offset_of!(Area, entry),
    level = const AREA as usize + offset_of!(Area, level),
    own_mxcsr = const AREA as usize + offset_of!(Area, mxcsr),
);
