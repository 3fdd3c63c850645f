//! Branches, calls and returns.

use iced_x86::Register;
use interpreter::{Call, Flag, Parameter, StopReason, Word};

use crate::lab::{Lab, START, Told};

/// A known direction is followed and reported; an unknown one ends the window and is reported.
#[test]
fn conditional_branches() {
    // je +1; nop; nop
    let lab = Lab::new().bytes(&[0x74, 1, 0x90, 0x90]);
    for (rflags, next) in [(0x40, START + 3), (0, START + 2)] {
        let after = lab.clone().flags(rflags).run();
        assert!(after.told.contains(&Told::Branch(START, Some(rflags != 0))));
        assert_eq!(
            after.values(Parameter::Taken),
            [Some(u64::from(rflags != 0))]
        );
        assert_eq!(
            after
                .told
                .iter()
                .filter(|t| **t == Told::Reached(next))
                .count(),
            1
        );
    }
    let mut unknown = lab;
    unknown.registers.rflags.set(Flag::Zf, None);
    let after = unknown.run();
    assert_eq!(after.outcome.stop, StopReason::UnknownBranch);
    assert_eq!(after.outcome.instructions, 0);
    assert_eq!(
        after.told[1..],
        [
            Told::Value(START, Parameter::Taken, None),
            Told::Branch(START, None)
        ]
    );
}

/// A condition of several flags is decided by one of them where that is enough.
#[test]
fn conditions_need_not_know_everything() {
    // jbe: CF or ZF; a known CF decides.
    let mut lab = Lab::new().flags(1).bytes(&[0x76, 0]);
    lab.registers.rflags.set(Flag::Zf, None);
    assert!(lab.run().told.contains(&Told::Branch(START, Some(true))));
}

/// What AMD's processors do and Intel's do not, or the other way round, ends the window: near
/// branches with an operand-size prefix that counts, a repeat prefix before `loope` and `loopne`,
/// 0F 0D without memory. Where REX.W takes the prefix's meaning away, as before the call of a
/// thread's variables, it does not.
#[test]
fn what_processors_differ_in() {
    for code in [
        &[0x66, 0x0f, 0x83, 0xbb, 0xff, 0xff, 0xff][..],
        &[0x66, 0x74, 1],
        &[0x66, 0xeb, 1],
        &[0x66, 0xe8, 0, 0, 0, 0],
        &[0x66, 0xff, 0xd0],
        &[0x66, 0xc3],
        &[0x66, 0xe2, 1],
        &[0xf2, 0xe1, 1],
        &[0xf3, 0xe0, 1],
        &[0x0f, 0x0d, 0xe8],
    ] {
        let outcome = Lab::new().bytes(code).run().outcome;
        let ended = (outcome.stop, outcome.instructions);
        assert_eq!(ended, (StopReason::Unsupported, 0), "{code:02x?}");
    }
    // data16 data16 rex.W call
    let after = Lab::new()
        .bytes(&[0x66, 0x66, 0x48, 0xe8, 1, 0, 0, 0, 0x90, 0x90])
        .run();
    assert_eq!(after.calls().len(), 1);
    assert!(after.told.contains(&Told::Reached(START + 9)));
}

/// `loop` counts down without flags; `jrcxz` looks at the whole register, `jecxz` at half of it.
#[test]
fn counting_branches() {
    // 1: loop 1b
    let after = Lab::new().reg(Register::RCX, 3).bytes(&[0xe2, 0xfe]).run();
    assert_eq!(after.values(Parameter::Taken), [Some(1), Some(1), Some(0)]);
    assert_eq!(
        after.values(Parameter::Dest(Register::RCX)),
        [Some(2), Some(1), Some(0)]
    );
    let lab = Lab::new().reg(Register::RCX, 1 << 32);
    assert_eq!(
        lab.clone().bytes(&[0xe3, 0]).run().values(Parameter::Taken),
        [Some(0)]
    );
    assert_eq!(
        lab.bytes(&[0x67, 0xe3, 0]).run().values(Parameter::Taken),
        [Some(1)]
    );
}

/// A call and its return are followed through the stack; arguments and result are reported.
#[test]
fn calls_and_returns() {
    let function = START + 0x100;
    let lab = Lab::new().reg(Register::RDI, 4).hide(Register::RSI);
    // call function; nop  ...  function: lea eax, [rdi+1]; ret
    let lab = lab.bytes(&[0xe8, 0xfb, 0, 0, 0, 0x90]).at(function);
    let after = lab.bytes(&[0x8d, 0x47, 1, 0xc3]).run();
    let call = Call {
        site: START,
        target: Some(function),
        indirect: false,
        arguments: [Some(4), None, Some(0), Some(0), Some(0), Some(0)],
        others: [Some(0); 8],
        vector_arguments: [Word::UNKNOWN; 8],
    };
    assert_eq!(after.calls(), [call]);
    assert_eq!(after.values(Parameter::Ret), [Some(5)]);
    assert!(after.told.contains(&Told::Returned(function + 3)));
    assert!(after.told.contains(&Told::Reached(START + 5)));
    assert_eq!(after.get(Register::RSP), Some(0x7fff_0000));
    // The pushed address is no value event, nor is rsp.
    assert!(after.values(Parameter::Mem).is_empty());
    assert!(after.values(Parameter::Dest(Register::RSP)).is_empty());
}

/// A call through a linkage stub is reported with its final target; a stub whose own target is
/// unknown, or that would bind first, is the target itself.
#[test]
fn calls_through_stubs() {
    let (stub, slot, function) = (START + 0x100, START + 0x1000, START + 0x200);
    // call stub  ...  stub: endbr64; jmp [rip+...]
    let distance = u32::try_from(slot - (stub + 10))
        .expect("the slot is near")
        .to_le_bytes();
    let mut jump = vec![0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25];
    jump.extend(distance);
    let lab = Lab::new()
        .bytes(&[0xe8, 0xfb, 0, 0, 0])
        .at(stub)
        .bytes(&jump);
    let target = |lab: Lab| lab.run().calls()[0].target;
    assert_eq!(target(lab.clone()), Some(stub));
    let bound = lab
        .clone()
        .memory(slot, &function.to_le_bytes())
        .at(function)
        .bytes(&[0xc3]);
    assert_eq!(target(bound), Some(function));
    // Lazy binding: the slot leads to `push 3; ...`.
    let lazy = lab
        .memory(slot, &function.to_le_bytes())
        .at(function)
        .bytes(&[0x6a, 3]);
    assert_eq!(target(lazy), Some(stub));
}

/// Indirect calls and jumps report their target, known or not; an unknown one ends the window.
#[test]
fn indirect_targets() {
    // call rax; jmp [rbx]
    for (lab, known) in [
        (
            Lab::new()
                .reg(Register::RAX, START + 0x80)
                .bytes(&[0xff, 0xd0]),
            true,
        ),
        (Lab::new().hide(Register::RAX).bytes(&[0xff, 0xd0]), false),
        (
            Lab::new().reg(Register::RBX, 0x5000).bytes(&[0xff, 0x23]),
            false,
        ),
    ] {
        let after = lab.run();
        let target = known.then_some(START + 0x80);
        assert_eq!(after.values(Parameter::Target), [target]);
        let stop = if known {
            StopReason::NotMapped
        } else {
            StopReason::UnknownTarget
        };
        assert_eq!(after.outcome.stop, stop);
        assert!(
            after
                .calls()
                .iter()
                .all(|call| call.target == target && call.indirect)
        );
    }
}

/// A return to an address that is not known ends the window, after its value was reported.
#[test]
fn return_to_the_unknown() {
    let after = Lab::new().reg(Register::RAX, 6).bytes(&[0xc3]).run();
    assert_eq!(after.outcome.stop, StopReason::UnknownTarget);
    assert_eq!(after.values(Parameter::Ret), [Some(6)]);
    assert!(!after.told.contains(&Told::Returned(START)));
}

/// What leaves the program, reads the machine, or faults ends the window with its reason.
#[test]
fn stops() {
    let cases: [(&[u8], StopReason); 13] = [
        (&[0x0f, 0x05], StopReason::SystemCall),
        (&[0xcc], StopReason::SystemCall),
        (&[0x0f, 0x01, 0xef], StopReason::MachineState), // wrpkru
        // In a program: cli, swapgs, wrmsr.
        (&[0xfa], StopReason::Privileged),
        (&[0x0f, 0x01, 0xf8], StopReason::Privileged),
        (&[0x0f, 0x30], StopReason::Privileged),
        (&[0xf4], StopReason::Privileged),
        (&[0x0f, 0x22, 0xd8], StopReason::Privileged),
        (&[0x48, 0xcf], StopReason::FarTransfer),
        (&[0xff, 0x28], StopReason::FarTransfer),
        (&[0x0f, 0x0b], StopReason::FaultingInstruction),
        (&[0xf3, 0x41, 0x90], StopReason::Unsupported), // rep xchg r8d, eax
        (&[0x0f, 0xb4, 0x00], StopReason::FarTransfer), // lfs eax, [rax]
    ];
    for (code, reason) in cases {
        let after = Lab::new().bytes(code).run();
        assert_eq!(after.outcome.stop, reason, "{code:02x?}");
        assert!(after.parameters().is_empty());
    }
}
