//! What happens at instructions without a meaning of their own here: a table.
//!
//! An instruction may end the window, or make unknown what it writes. The second is sound where the
//! decoder knows all that it writes, or [`effects`](crate::effects) does, and nothing else happens to
//! registers and memory.

use iced_x86::{
    Code, CpuidFeature, Decoder, DecoderOptions, FlowControl, Instruction, MemorySize, Mnemonic,
    OpKind,
};

use crate::stop::StopReason;

/// How far the interpreter understands an instruction, and so what it does with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Support {
    /// It is interpreted.
    Interpreted,
    /// What it writes becomes unknown, and the window goes on.
    Skipped,
    /// The window ends before it.
    Stops(StopReason),
}

/// The treatment of instructions that are named one by one.
pub(crate) fn named(instruction: &Instruction) -> Option<Support> {
    use Mnemonic as M;
    use StopReason as R;
    use Support::{Skipped, Stops};
    let treatment = match instruction.mnemonic() {
        M::Syscall
        | M::Sysenter
        | M::Sysexit
        | M::Sysret
        | M::Sysexitq
        | M::Sysretq
        | M::Int
        | M::Int1
        | M::Int3
        | M::Into
        | M::Vmcall
        | M::Vmmcall
        | M::Vmfunc
        | M::Vmgexit
        | M::Enclu => Stops(R::SystemCall),
        M::Iret | M::Iretd | M::Iretq | M::Uiret | M::Retf | M::Lss | M::Lfs | M::Lgs => {
            Stops(R::FarTransfer)
        }
        M::In
        | M::Out
        | M::Insb
        | M::Insw
        | M::Insd
        | M::Outsb
        | M::Outsw
        | M::Outsd
        | M::Hlt
        | M::Monitor
        | M::Mwait
        | M::Monitorx
        | M::Mwaitx => Stops(R::Privileged),
        // Processors keep them from programs (UMIP), and kernels do for programs what they like.
        M::Sgdt | M::Sidt | M::Sldt | M::Str | M::Smsw => Stops(R::Privileged),
        // Which memory can be read changes.
        M::Wrpkru => Stops(R::MachineState),
        M::Ud0 | M::Ud1 | M::Ud2 => Stops(R::FaultingInstruction),
        M::Xbegin | M::Xend | M::Xabort => Stops(R::Transaction),
        // Of what follows, part may be undone.
        _ if instruction.has_xacquire_prefix() => Stops(R::Transaction),

        // They read clocks, counters, random numbers, and what else no register or memory holds.
        M::Cpuid
        | M::Rdtsc
        | M::Rdtscp
        | M::Rdpmc
        | M::Rdpru
        | M::Rdrand
        | M::Rdseed
        | M::Rdpid
        | M::Rdpkru
        | M::Rdsspd
        | M::Rdsspq
        | M::Xgetbv
        | M::Lar
        | M::Lsl
        | M::Verr
        | M::Verw => Skipped,
        // They wait, for an event or some time.
        M::Umonitor | M::Umwait | M::Tpause => Skipped,
        M::Movdir64b | M::Ptwrite => Skipped,
        _ if is_far(instruction) => Stops(R::FarTransfer),
        _ => return None,
    };
    Some(treatment)
}

/// Whether processors of different makers differ in what this instruction does, `bytes` being what
/// it was decoded from.
pub(crate) fn depends_on_processor(instruction: &Instruction, bytes: &[u8]) -> bool {
    use Mnemonic as M;
    let differs = match instruction.mnemonic() {
        // To AMD's, 0F 0D is a prefetch, which needs memory; to Intel's it is no operation.
        // Processors with bounds registers (MPX) check, load and store bounds with 0F 1A and 0F 1B;
        // to all others they are no operation.
        M::Reservednop => is_bare_prefetch(instruction) || is_of_bounds(instruction),
        // AMD's take the condition from a repeat prefix, Intel's leave it out of account.
        M::Loope | M::Loopne => instruction.has_rep_prefix() || instruction.has_repne_prefix(),
        _ => false,
    };
    differs || instruction.flow_control() != FlowControl::Next && is_narrowed(instruction, bytes)
}

/// Whether the instruction is 0F 0D with a register.
fn is_bare_prefetch(instruction: &Instruction) -> bool {
    let named = matches!(
        instruction.code(),
        Code::Reservednop_rm16_r16_0F0D
            | Code::Reservednop_rm32_r32_0F0D
            | Code::Reservednop_rm64_r64_0F0D
    );
    named && instruction.op0_kind() == OpKind::Register
}

/// Whether the instruction is 0F 1A or 0F 1B.
fn is_of_bounds(instruction: &Instruction) -> bool {
    matches!(
        instruction.code(),
        Code::Reservednop_rm16_r16_0F1A
            | Code::Reservednop_rm32_r32_0F1A
            | Code::Reservednop_rm64_r64_0F1A
            | Code::Reservednop_rm16_r16_0F1B
            | Code::Reservednop_rm32_r32_0F1B
            | Code::Reservednop_rm64_r64_0F1B
    )
}

/// Whether a near branch has an operand-size prefix that counts: with it AMD's processors take the
/// displacement, the return address and the next instruction's as 16 bits, Intel's leave it out of
/// account.
fn is_narrowed(instruction: &Instruction, bytes: &[u8]) -> bool {
    let options = DecoderOptions::AMD;
    let of_amd = Decoder::with_ip(64, bytes, instruction.ip(), options).decode();
    of_amd.code() != instruction.code() || of_amd.len() != instruction.len()
}

/// Whether a branch names a segment with its target.
fn is_far(instruction: &Instruction) -> bool {
    matches!(
        instruction.op0_kind(),
        OpKind::FarBranch16 | OpKind::FarBranch32
    ) || matches!(
        instruction.memory_size(),
        MemorySize::SegPtr16 | MemorySize::SegPtr32 | MemorySize::SegPtr64
    )
}

/// The treatment of instructions that are neither named nor interpreted.
pub(crate) fn of_the_rest(instruction: &Instruction) -> Support {
    if instruction.is_privileged() {
        Support::Stops(StopReason::Privileged)
    } else if instruction.is_save_restore_instruction() {
        Support::Stops(StopReason::StateSave)
    } else if is_plain(instruction) {
        Support::Skipped
    } else {
        Support::Stops(StopReason::Unsupported)
    }
}

/// Whether the instruction only moves or computes data, in vector and mask registers and in
/// registers that are not kept (x87, tiles), besides what its operands and flags say.
fn is_plain(instruction: &Instruction) -> bool {
    use CpuidFeature as F;
    if instruction.flow_control() != FlowControl::Next || instruction.is_stack_instruction() {
        return false;
    }
    // A segment register is read.
    if instruction.mnemonic() == Mnemonic::Mov
        && instruction.op1_kind() == OpKind::Register
        && instruction.op1_register().is_segment_register()
    {
        return true;
    }
    instruction.cpuid_features().iter().any(|feature| {
        matches!(
            feature,
            F::FPU
                | F::FPU287
                | F::FPU387
                | F::MMX
                | F::SSE
                | F::SSE2
                | F::SSE3
                | F::SSSE3
                | F::SSE4_1
                | F::SSE4_2
                | F::SSE4A
                | F::AVX
                | F::AVX2
                | F::AVX_VNNI
                | F::AVX_IFMA
                | F::AVX_VNNI_INT8
                | F::AVX_VNNI_INT16
                | F::AVX_NE_CONVERT
                | F::AVX512F
                | F::AVX512BW
                | F::AVX512CD
                | F::AVX512DQ
                | F::AVX512VL
                | F::AVX512ER
                | F::AVX512PF
                | F::AVX512_4FMAPS
                | F::AVX512_4VNNIW
                | F::AVX512_BF16
                | F::AVX512_BITALG
                | F::AVX512_FP16
                | F::AVX512_IFMA
                | F::AVX512_VBMI
                | F::AVX512_VBMI2
                | F::AVX512_VNNI
                | F::AVX512_VP2INTERSECT
                | F::AVX512_VPOPCNTDQ
                | F::AES
                | F::VAES
                | F::PCLMULQDQ
                | F::VPCLMULQDQ
                | F::GFNI
                | F::SHA
                | F::SHA512
                | F::SM3
                | F::SM4
                | F::F16C
                | F::FMA
                | F::FMA4
                | F::XOP
                | F::TBM
                | F::D3NOW
                | F::D3NOWEXT
                | F::CMPCCXADD
                | F::RAO_INT
                | F::KL
                | F::AESKLE
                | F::WIDE_KL
                | F::AMX_TILE
                | F::AMX_INT8
                | F::AMX_BF16
                | F::AMX_FP16
                | F::AMX_COMPLEX
        )
    })
}
