//! How far a thread is stepped: over a few instructions, up to the first that leads elsewhere.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};
use sampler::{Load, Moment, Next};

/// What is loaded by one instruction that is looked at: of longer ones, states that are saved, most
/// is never compared.
const LONGEST_LOAD: usize = 64;
const MOST_LOADS: usize = 8;

/// Numbers of system calls that do not come back behind themselves with what they gave in rax, or
/// that make who is traced another question.
const LEFT_OUT: [i64; 12] = [
    libc::SYS_rt_sigreturn,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_ptrace,
    libc::SYS_restart_syscall,
    libc::SYS_kexec_load,
];

/// The plan of one visit.
#[derive(Default)]
pub(super) struct Plan {
    /// The last instruction leads elsewhere.
    is_over: bool,
}

impl Plan {
    /// What is to be done with a thread that stands there.
    pub(super) fn next(&mut self, moment: &Moment<'_>) -> Next {
        let ip = moment.registers.ip;
        let mut decoder = Decoder::with_ip(64, moment.code, ip, DecoderOptions::NONE);
        let instruction = decoder.decode();
        if self.is_over || instruction.is_invalid() || shows_steps(&instruction) {
            return Next::End;
        }
        if instruction.mnemonic() == Mnemonic::Syscall {
            return calls(moment);
        }
        let behind = instruction.next_ip();
        let is_near = instruction.op0_kind() == OpKind::NearBranch64;
        let leads_to = match instruction.flow_control() {
            FlowControl::Next => [behind; 2],
            FlowControl::ConditionalBranch if is_near => [behind, instruction.near_branch_target()],
            FlowControl::UnconditionalBranch | FlowControl::Call if is_near => {
                [instruction.near_branch_target(); 2]
            }
            // Where a kernel sends a thread that it takes out of a restartable sequence is not
            // told from where these lead.
            _ => return Next::End,
        };
        self.is_over = instruction.flow_control() != FlowControl::Next;
        Next::Step {
            len: instruction.len(),
            loads: loads(&instruction, moment),
            leads_to,
        }
    }
}

/// A system call, if it comes back. Of its number the kernel looks at the lower half.
fn calls(moment: &Moment<'_>) -> Next {
    let number = i64::from(moment.registers.gpr[0] as u32);
    if LEFT_OUT.contains(&number) {
        Next::End
    } else {
        Next::Call
    }
}

/// Whether the program would see that it is stepped, or a step would not be one: the trap flag is
/// stored or loaded, the exception of a step is put off or mistaken, a transaction is broken off.
fn shows_steps(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    let by_name = matches!(
        instruction.mnemonic(),
        M::Pushf
            | M::Pushfd
            | M::Pushfq
            | M::Popf
            | M::Popfd
            | M::Popfq
            | M::Iret
            | M::Iretd
            | M::Iretq
            | M::Int
            | M::Int1
            | M::Int3
            | M::Into
            | M::Sysenter
            | M::Sysexit
            | M::Sysret
            | M::Xbegin
            | M::Xabort
            | M::Xend
            | M::Enclu
            | M::Senduipi
            | M::Uiret
    );
    by_name
        || (0..instruction.op_count()).any(|of| instruction.op_register(of).is_segment_register())
}

/// What an instruction loads, by the registers before it.
fn loads(instruction: &Instruction, moment: &Moment<'_>) -> Vec<Load> {
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info(instruction).used_memory();
    let loaded = used.iter().filter(|of| {
        matches!(
            of.access(),
            OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    });
    let loads = loaded.filter_map(|of| {
        let bytes = of.memory_size().size();
        let address = of.virtual_address(0, |register, _, _| held(register, moment))?;
        let is_short = bytes > 0 && bytes <= LONGEST_LOAD;
        is_short.then_some(Load { address, bytes })
    });
    loads.take(MOST_LOADS).collect()
}

/// What a register holds that addresses are made of; of segments, their bases.
fn held(register: Register, moment: &Moment<'_>) -> Option<u64> {
    match register {
        Register::FS => Some(moment.fs_base),
        Register::GS => Some(moment.gs_base),
        Register::ES | Register::CS | Register::SS | Register::DS => Some(0),
        of if of.is_gpr64() => Some(moment.registers.gpr[of.number() & 15]),
        of if of.is_gpr32() => Some(moment.registers.gpr[of.number() & 15] & 0xffff_ffff),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sampler::Registers;

    use super::*;

    /// What is planned for code at 0x1000, whose registers hold 0x100 times their numbers.
    fn planned(plan: &mut Plan, code: &[u8]) -> Next {
        let registers = Registers {
            gpr: std::array::from_fn(|number| 0x100 * number as u64),
            ip: 0x1000,
            ..Registers::default()
        };
        plan.next(&Moment {
            registers: &registers,
            fs_base: 0x7000,
            gs_base: 0,
            code,
        })
    }

    fn step(len: usize, loads: &[(u64, usize)], leads_to: [u64; 2]) -> Next {
        let loads = loads
            .iter()
            .map(|&(address, bytes)| Load { address, bytes });
        Next::Step {
            len,
            loads: loads.collect(),
            leads_to,
        }
    }

    /// A block goes on to the first instruction that leads elsewhere, which belongs to it if it
    /// says itself where to.
    #[test]
    fn up_to_a_branch() {
        let mut plan = Plan::default();
        // inc eax; jz +2
        let next = planned(&mut plan, &[0xff, 0xc0]);
        assert_eq!(next, step(2, &[], [0x1002; 2]));
        let next = planned(&mut plan, &[0x74, 2]);
        assert_eq!(next, step(2, &[], [0x1002, 0x1004]));
        assert_eq!(planned(&mut plan, &[0xff, 0xc0]), Next::End);
        // ret; call rax; what is no code, or cut off.
        for code in [&[0xc3][..], &[0xff, 0xd0], &[], &[0x0f]] {
            assert_eq!(planned(&mut Plan::default(), code), Next::End);
        }
    }

    /// What is loaded is told by the registers, the place of the code and the segment.
    #[test]
    fn addresses() {
        let mut plan = Plan::default();
        // mov rax, [rip+8]
        let next = planned(&mut plan, &[0x48, 0x8b, 0x05, 8, 0, 0, 0]);
        assert_eq!(next, step(7, &[(0x100f, 8)], [0x1007; 2]));
        // mov rax, fs:[rbx+rcx*2+4]
        let next = planned(&mut plan, &[0x64, 0x48, 0x8b, 0x44, 0x4b, 4]);
        assert_eq!(next, step(6, &[(0x7504, 8)], [0x1006; 2]));
        // pop rbp
        assert_eq!(
            planned(&mut plan, &[0x5d]),
            step(1, &[(0x400, 8)], [0x1001; 2])
        );
        // lea rax, [rbx]
        assert_eq!(
            planned(&mut plan, &[0x48, 0x8d, 0x03]),
            step(3, &[], [0x1003; 2])
        );
        // lock xadd [rbx], rax
        let next = planned(&mut plan, &[0xf0, 0x48, 0x0f, 0xc1, 0x03]);
        assert_eq!(next, step(5, &[(0x300, 8)], [0x1005; 2]));
    }

    /// A program is not to see that it is stepped: it may look at the flags, and at exceptions.
    #[test]
    fn what_shows_steps() {
        // pushfq; popfq; int3; int1; mov ss, eax; pop fs; iretq; xbegin +0
        for code in [
            &[0x9c][..],
            &[0x9d],
            &[0xcc],
            &[0xf1],
            &[0x8e, 0xd0],
            &[0x0f, 0xa1],
            &[0x48, 0xcf],
            &[0xc7, 0xf8, 0, 0, 0, 0],
        ] {
            assert_eq!(planned(&mut Plan::default(), code), Next::End, "{code:x?}");
        }
    }

    /// System calls that come back are met again behind themselves; rax is 0 here, `read`.
    #[test]
    fn system_calls() {
        assert_eq!(planned(&mut Plan::default(), &[0x0f, 0x05]), Next::Call);
        let mut registers = Registers::default();
        for number in LEFT_OUT {
            registers.gpr[0] = number as u64 | 1 << 40;
            let moment = Moment {
                registers: &registers,
                fs_base: 0,
                gs_base: 0,
                code: &[0x0f, 0x05],
            };
            assert_eq!(Plan::default().next(&moment), Next::End, "{number}");
        }
    }
}
