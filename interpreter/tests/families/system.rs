//! Instructions of the system: what they leave unknown, and what goes on in the kernel.

use iced_x86::Register;
use interpreter::{Flag, StopReason, Vector, Word};

use crate::lab::{Lab, START};

/// Where kernel code lies.
const KERNEL: u64 = 0xffff_ffff_8100_0000;

fn in_kernel() -> Lab {
    let mut lab = Lab::new().at(KERNEL);
    lab.registers.rip = KERNEL;
    lab
}

/// What reads clocks, random numbers and the like makes its results unknown and nothing else.
#[test]
fn results_of_the_machine_are_unknown() {
    let cases: [(&[u8], &[Register]); 8] = [
        (&[0x0f, 0x31], &[Register::RAX, Register::RDX]), // rdtsc
        (
            &[0x0f, 0x01, 0xf9], // rdtscp
            &[Register::RAX, Register::RDX, Register::RCX],
        ),
        (
            &[0x0f, 0xa2], // cpuid
            &[Register::RAX, Register::RBX, Register::RCX, Register::RDX],
        ),
        (&[0x0f, 0x01, 0xd0], &[Register::RAX, Register::RDX]), // xgetbv
        (&[0x48, 0x0f, 0xc7, 0xf3], &[Register::RBX]),          // rdrand rbx
        (&[0xf3, 0x0f, 0xc7, 0xfb], &[Register::RBX]),          // rdpid rbx
        (&[0x0f, 0x03, 0xd8], &[Register::RBX]),                // lsl ebx, eax
        (&[0x0f, 0x00, 0xe8], &[]),                             // verw ax
    ];
    for (code, written) in cases {
        let after = Lab::new().bytes(code).run();
        assert_eq!(after.outcome.stop, StopReason::NotMapped, "{code:02x?}");
        for number in 0..16u32 {
            let register = Register::RAX + number;
            let known = after.get(register).is_some();
            assert_eq!(
                known,
                !written.contains(&register),
                "{code:02x?} {register:?}"
            );
        }
    }
    let random = Lab::new().flags(0x8d5).bytes(&[0x0f, 0xc7, 0xf0]).run();
    assert_eq!(
        (random.flag(Flag::Cf), random.flag(Flag::Zf)),
        (None, Some(false))
    );
}

/// The kernel's switches of interrupts and access are passed over; in a program they fault.
#[test]
fn kernel_code_goes_on() {
    let cases: [&[u8]; 7] = [
        &[0xfa],             // cli
        &[0xfb],             // sti
        &[0x0f, 0x01, 0xca], // clac
        &[0x0f, 0x01, 0xcb], // stac
        &[0x0f, 0x20, 0xd0], // mov rax, cr2
        &[0x0f, 0x32],       // rdmsr
        &[0x0f, 0x01, 0xf8], // swapgs
    ];
    for code in cases {
        let after = in_kernel().bytes(code).run();
        assert_eq!(after.outcome.stop, StopReason::NotMapped, "{code:02x?}");
        let in_program = Lab::new().bytes(code).run().outcome;
        assert_eq!(
            (in_program.stop, in_program.registers.rip),
            (StopReason::Privileged, START),
            "{code:02x?}"
        );
    }
    // mov cr3, rax: other memory from here on.
    let after = in_kernel().bytes(&[0x0f, 0x22, 0xd8]).run();
    assert_eq!(after.outcome.stop, StopReason::Privileged);
}

/// Accesses through GS are known while its base is: not after `swapgs`, again after `wrmsr`.
#[test]
fn per_cpu_accesses() {
    // mov rbx, gs:[0x10]
    let load = [0x65, 0x48, 0x8b, 0x1c, 0x25, 0x10, 0, 0, 0];
    let mut lab = in_kernel().memory(0xffff_8880_0000_0010, &[7, 0, 0, 0, 0, 0, 0, 0]);
    let unknown = lab.clone().bytes(&load).run();
    assert_eq!(unknown.get(Register::RBX), None);
    lab.registers.gs_base = Some(0xffff_8880_0000_0000);
    let known = lab.clone().bytes(&load).run();
    assert_eq!(known.get(Register::RBX), Some(7));
    // swapgs
    let swapped = lab.clone().bytes(&[0x0f, 0x01, 0xf8]).bytes(&load).run();
    assert_eq!(swapped.get(Register::RBX), None);
    // wrmsr to the base of GS, of edx:eax
    let written = lab
        .reg(Register::RCX, 0xc000_0101)
        .reg(Register::RDX, 0xffff_8880)
        .bytes(&[0x0f, 0x01, 0xf8, 0x0f, 0x30])
        .bytes(&load)
        .run();
    assert_eq!(written.get(Register::RBX), Some(7));
}

/// The bases of segments can be read and written; a selector of FS or GS makes its base unknown.
#[test]
fn segment_bases() {
    let mut lab = Lab::new().reg(Register::RCX, 0x7777_0000);
    lab.registers.fs_base = Some(0x1234_5678_9abc);
    // rdfsbase rax; wrfsbase rcx; rdfsbase edx
    let code = [
        0xf3, 0x48, 0x0f, 0xae, 0xc0, 0xf3, 0x48, 0x0f, 0xae, 0xd1, 0xf3, 0x0f, 0xae, 0xc2,
    ];
    let after = lab.clone().bytes(&code).run();
    assert_eq!(after.get(Register::RAX), Some(0x1234_5678_9abc));
    assert_eq!(after.get(Register::RDX), Some(0x7777_0000));
    // Of no segment: mov ds, eax keeps it; mov fs, eax does not.
    let kept = lab.clone().bytes(&[0x8e, 0xd8]).run();
    assert_eq!(kept.outcome.registers.fs_base, Some(0x1234_5678_9abc));
    let lost = lab.clone().bytes(&[0x8e, 0xe0]).run();
    assert_eq!(lost.outcome.registers.fs_base, None);
    // Whether there is a segment that is asked for only the kernel knows.
    let stopped = lab.reg(Register::RAX, 0x33).bytes(&[0x8e, 0xe0]).run();
    assert_eq!(stopped.outcome.stop, StopReason::FarTransfer);
}

/// State that is saved makes its area unknown and nothing beside it; what is restored is unknown.
#[test]
fn state_in_bulk() {
    let lab = Lab::new()
        .memory(0x8000, &[1; 0x1000])
        .reg(Register::RBX, 0x8000)
        .reg(Register::RAX, 0xee);
    // xsavec [rbx]; mov rcx, [rbx+2680]; mov rdx, [rbx+2688]
    let code = [
        0x0f, 0xc7, 0x23, 0x48, 0x8b, 0x8b, 0x78, 0x0a, 0, 0, 0x48, 0x8b, 0x93, 0x80, 0x0a, 0, 0,
    ];
    let after = lab.clone().bytes(&code).run();
    assert_eq!(after.get(Register::RCX), None);
    assert_eq!(after.get(Register::RDX), Some(0x0101_0101_0101_0101));
    // With an unknown set of components any memory may be theirs.
    let after = lab.clone().hide(Register::RAX).bytes(&code).run();
    assert_eq!(after.get(Register::RDX), None);
    // xrstor [rbx]
    let mut lab = lab;
    lab.registers.vectors[3] = Vector::partial([9; 64], u64::MAX);
    lab.registers.masks[1] = Word::known(5);
    lab.registers.mxcsr = Some(0x1f80);
    let registers = lab.bytes(&[0x0f, 0xae, 0x2b]).run().outcome.registers;
    assert_eq!(registers.vectors[3], Vector::UNKNOWN);
    assert_eq!((registers.masks[1], registers.mxcsr), (Word::UNKNOWN, None));
}

/// State is saved to aligned areas, and restored from those whose MXCSR means something.
#[test]
fn areas_of_state_that_raise_exceptions() {
    let stop = |code: &[u8], at, mxcsr: u32| {
        let lab = Lab::new()
            .reg(Register::RSI, at)
            .memory(at + 24, &mxcsr.to_le_bytes())
            .bytes(code);
        lab.run().outcome.stop
    };
    let fxsave = [0x0f, 0xae, 0x06];
    let fxrstor = [0x0f, 0xae, 0x0e];
    let xsave = [0x0f, 0xae, 0x26];
    assert_eq!(stop(&fxsave, 0x5010, 0), StopReason::NotMapped);
    assert_eq!(stop(&fxsave, 0x5008, 0), StopReason::FaultingInstruction);
    assert_eq!(stop(&xsave, 0x5040, 0), StopReason::NotMapped);
    assert_eq!(stop(&xsave, 0x5010, 0), StopReason::FaultingInstruction);
    assert_eq!(stop(&fxrstor, 0x5010, 0x1f80), StopReason::NotMapped);
    assert_eq!(
        stop(&fxrstor, 0x5010, 0x1_0000),
        StopReason::FaultingInstruction
    );
}
