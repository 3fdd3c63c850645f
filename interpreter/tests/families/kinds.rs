//! The kinds of values: what each yields, and that no other comes with it.

use iced_x86::Register;
use interpreter::{Parameter, ValueKinds, Word};

use crate::lab::{After, Lab};

const DATA: u64 = 0x5000;

/// rbx points to 64 bytes of which byte `i` is `i`; rax is 7.
fn lab(code: &[u8]) -> Lab {
    let data: Vec<u8> = (0..64).collect();
    Lab::new()
        .memory(DATA, &data)
        .reg(Register::RBX, DATA)
        .reg(Register::RAX, 7)
        .bytes(code)
}

/// What a window of that code tells of some kinds of values.
fn told(code: &[u8], capture: ValueKinds) -> Vec<(Parameter, Option<u64>)> {
    values(&lab(code), capture)
}

fn values(lab: &Lab, capture: ValueKinds) -> Vec<(Parameter, Option<u64>)> {
    let mut lab = lab.clone();
    lab.capture = capture;
    let after: After = lab.run();
    let parameters = after.parameters();
    let mut seen = Vec::new();
    for parameter in parameters {
        if seen.iter().all(|(p, _)| *p != parameter) {
            let values = after.values(parameter);
            seen.extend(values.into_iter().map(|value| (parameter, value)));
        }
    }
    seen
}

/// The operands of comparisons, and of nothing else; of a number in a vector register its lowest
/// lane. An immediate is none.
#[test]
fn comparisons() {
    let compare = |code: &[u8]| told(code, ValueKinds::COMPARE);
    let (op0, op1) = (Parameter::Operand(0), Parameter::Operand(1));
    // cmp eax, [rbx]; test rax, rax; cmp al, 5; add eax, [rbx]
    assert_eq!(
        compare(&[0x3b, 0x03]),
        [(op0, Some(7)), (op1, Some(0x0302_0100))]
    );
    assert_eq!(
        compare(&[0x48, 0x85, 0xc0]),
        [(op0, Some(7)), (op1, Some(7))]
    );
    assert_eq!(compare(&[0x3c, 5]), [(op0, Some(7))]);
    assert_eq!(compare(&[0x03, 0x03]), []);
    // comisd xmm0, [rbx+8]; ucomiss xmm0, xmm1
    let wide = 0x0f0e_0d0c_0b0a_0908;
    assert_eq!(
        compare(&[0x66, 0x0f, 0x2f, 0x43, 8]),
        [(op0, None), (op1, Some(wide))]
    );
    assert_eq!(compare(&[0x0f, 0x2e, 0xc1]), [(op0, None), (op1, None)]);
}

/// The base register of an access, whatever is added to it; an address without one has none.
#[test]
fn base_addresses() {
    let base = |code: &[u8]| told(code, ValueKinds::BASE);
    let known = [(Parameter::Base, Some(DATA))];
    assert_eq!(base(&[0x8b, 0x43, 8]), known); // mov eax, [rbx+8]
    assert_eq!(base(&[0x8b, 0x04, 0x83]), known); // mov eax, [rbx+rax*4]
    assert_eq!(base(&[0x67, 0x8b, 0x03]), known); // mov eax, [ebx]
    assert_eq!(base(&[0x8b, 0x05, 0, 1, 0, 0]), []); // mov eax, [rip+0x100]
    assert_eq!(base(&[0x8b, 0x04, 0x85, 0, 0, 0, 0]), []); // mov eax, [rax*4]
    assert_eq!(base(&[0x48, 0x8d, 0x43, 8]), []); // lea rax, [rbx+8]
    let hidden = lab(&[0x8b, 0x43, 8]).hide(Register::RBX);
    assert_eq!(values(&hidden, ValueKinds::BASE), [(Parameter::Base, None)]);
}

/// What is loaded, overwritten and stored.
#[test]
fn memory_values() {
    let memory = ValueKinds::LOAD.with(ValueKinds::OLD).with(ValueKinds::MEM);
    let told = |code: &[u8]| told(code, memory);
    let (load, old, mem) = (Parameter::Load, Parameter::Old, Parameter::Mem);
    let four = 0x0302_0100;
    // mov cl, [rbx+5]; add [rbx], eax; mov [rbx], eax; mov dword ptr [rbx], 1
    assert_eq!(told(&[0x8a, 0x4b, 5]), [(load, Some(5))]);
    assert_eq!(
        told(&[0x01, 0x03]),
        [(load, Some(four)), (mem, Some(four + 7)), (old, Some(four))]
    );
    assert_eq!(told(&[0x89, 0x03]), [(mem, Some(7)), (old, Some(four))]);
    assert_eq!(told(&[0xc7, 0x03, 1, 0, 0, 0]), [(old, Some(four))]);
    // mov [rbx+62], eax: of what it overwrites half is not at hand.
    assert_eq!(told(&[0x89, 0x43, 62]), [(mem, Some(7)), (old, None)]);
    // lodsb and stosb with rsi and rdi
    let string = lab(&[0xac]).reg(Register::RSI, DATA + 9);
    assert_eq!(values(&string, memory), [(load, Some(9))]);
    // mov [rcx], eax at an unknown address
    let hidden = lab(&[0x89, 0x01]).hide(Register::RCX);
    assert_eq!(values(&hidden, memory), [(mem, Some(7)), (old, None)]);
}

/// What is told apart from values by a window that captures one kind.
fn apart(lab: &Lab, capture: ValueKinds) -> Vec<(Parameter, Option<u64>)> {
    let mut lab = lab.clone();
    lab.capture = capture;
    lab.run().apart
}

/// A store of what is there is told from others, through the window's own stores as well.
#[test]
fn stores_of_the_same() {
    let silent = |lab: &Lab| apart(lab, ValueKinds::REDUNDANT);
    let told = |values: &[Option<u64>]| -> Vec<_> {
        values.iter().map(|is| (Parameter::Silent, *is)).collect()
    };
    // mov [rbx], eax, twice; mov dword ptr [rbx], 0x03020100
    assert_eq!(
        silent(&lab(&[0x89, 0x03, 0x89, 0x03])),
        told(&[Some(0), Some(1)])
    );
    let same = [0xc7, 0x03, 0, 1, 2, 3];
    assert_eq!(silent(&lab(&same)), told(&[Some(1)]));
    // mov [rbx+62], eax: of what is there half is not at hand.
    assert_eq!(silent(&lab(&[0x89, 0x43, 62])), told(&[None]));
    assert_eq!(silent(&lab(&same).hide(Register::RBX)), told(&[None]));
    assert_eq!(
        silent(&lab(&[0x89, 0x03]).hide(Register::RAX)),
        told(&[None])
    );
    // mov eax, [rbx]
    assert_eq!(silent(&lab(&[0x8b, 0x03])), told(&[]));
    assert_eq!(apart(&lab(&same), ValueKinds::MEM), told(&[]));
}

/// What loads or stores more than it tells says so: repetitions, and what is saved at once.
#[test]
fn accesses_that_are_not_told() {
    let more = |code: &[u8]| apart(&lab(code), ValueKinds::DEST).len();
    // rep movsb; rep lodsb; fxsave [rbx]; movsb; mov eax, [rbx]
    assert!(more(&[0xf3, 0xa4]) > 0);
    assert!(more(&[0xf3, 0xac]) > 0);
    assert!(more(&[0x0f, 0xae, 0x03]) > 0);
    assert_eq!(more(&[0xa4]), 0);
    assert_eq!(more(&[0x8b, 0x03]), 0);
}

/// A system call has its number and six arguments; the window ends before it. An interrupt of
/// other systems is none.
#[test]
fn system_calls() {
    let registers = [
        Register::RAX,
        Register::RDI,
        Register::RSI,
        Register::RDX,
        Register::R10,
        Register::R8,
    ];
    let numbered = |lab: Lab, (i, register): (u64, &Register)| lab.reg(*register, 100 + i);
    let lab = |code: &[u8]| {
        let registers = (0..).zip(&registers);
        registers.fold(lab(code), numbered).hide(Register::R9)
    };
    let values = apart(&lab(&[0x0f, 0x05]), ValueKinds::SYSCALL);
    let expected = (0..7).map(|i| {
        let value = (i < 6).then_some(100 + u64::from(i));
        (Parameter::Syscall(i), value)
    });
    assert_eq!(values, expected.collect::<Vec<_>>());
    assert_eq!(apart(&lab(&[0x0f, 0x05]), ValueKinds::ARGS), []);
    assert_eq!(apart(&lab(&[0xcd, 0x80]), ValueKinds::SYSCALL), []);
}

/// Values of more than 64 bits come word by word.
#[test]
fn wide_memory_values() {
    let memory = ValueKinds::LOAD.with(ValueKinds::OLD).with(ValueKinds::MEM);
    let word = |i: u64| Some(0x0706_0504_0302_0100 + 0x0808_0808_0808_0808 * i);
    // vmovdqu ymm1, [rbx]; vmovdqu [rbx+32], ymm1
    let code = [0xc5, 0xfe, 0x6f, 0x0b, 0xc5, 0xfe, 0x7f, 0x4b, 32];
    let told = told(&code, memory);
    for i in 0..4 {
        let place = u64::from(i);
        assert!(told.contains(&(Parameter::LoadWord(i), word(place))));
        assert!(told.contains(&(Parameter::MemWord(i), word(place))));
        assert!(told.contains(&(Parameter::OldWord(i), word(place + 4))));
    }
    assert_eq!(told.len(), 12);
}

/// Vector registers that are written: 128 and 256 bits, known and unknown, and none for a register
/// that is combined with itself.
#[test]
fn vectors() {
    let vector = |code: &[u8]| told(code, ValueKinds::VECTOR);
    let xmm = |i| Parameter::DestWord(Register::XMM1, i);
    let ymm = |i| Parameter::DestWord(Register::YMM1, i);
    let (low, high) = (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
    // movdqu xmm1, [rbx]; movd xmm1, eax; vpbroadcastq ymm1, [rbx]
    assert_eq!(
        vector(&[0xf3, 0x0f, 0x6f, 0x0b]),
        [(xmm(0), Some(low)), (xmm(1), Some(high))]
    );
    assert_eq!(
        vector(&[0x66, 0x0f, 0x6e, 0xc8]),
        [(xmm(0), Some(7)), (xmm(1), Some(0))]
    );
    assert_eq!(
        vector(&[0xc4, 0xe2, 0x7d, 0x59, 0x0b]),
        [0, 1, 2, 3].map(|i| (ymm(i), Some(low)))
    );
    // paddd xmm1, xmm2
    let unknown = [(xmm(0), None), (xmm(1), None)];
    assert_eq!(vector(&[0x66, 0x0f, 0xfe, 0xca]), unknown);
    // pxor xmm1, xmm1; vpcmpeqd ymm1, ymm2, ymm2
    assert_eq!(vector(&[0x66, 0x0f, 0xef, 0xc9]), []);
    assert_eq!(vector(&[0xc5, 0xed, 0x76, 0xca]), []);
}

/// Vector arguments and results: if they are asked for, with the integer ones.
#[test]
fn calls_with_vectors() {
    // movsd xmm1, [rbx]; movss xmm2, [rbx]; call +0; ret
    let code = [
        0xf2, 0x0f, 0x10, 0x0b, 0xf3, 0x0f, 0x10, 0x13, 0xe8, 0, 0, 0, 0, 0xc3,
    ];
    let mut lab = lab(&code).reg(Register::RDI, 3);
    let mut call = |capture| {
        lab.capture = capture;
        let after = lab.run();
        let results = [Parameter::Ret, Parameter::VectorRet].map(|p| after.values(p));
        (after.calls()[0], results)
    };
    let (both, results) = call(ValueKinds::all());
    assert_eq!(both.arguments[0], Some(3));
    let known = both.vector_arguments;
    assert_eq!(known[1].get(8), Some(0x0706_0504_0302_0100));
    assert_eq!(known[2].get(4), Some(0x0302_0100));
    assert_eq!(known[0], Word::UNKNOWN);
    // The window returns twice: from the call, and from there to what nobody knows.
    assert_eq!(results, [vec![Some(7); 2], vec![None; 2]]);
    let (integers, results) = call(ValueKinds::ARGS);
    assert_eq!(integers.arguments, both.arguments);
    assert_eq!(integers.vector_arguments, [Word::UNKNOWN; 8]);
    assert_eq!(results, [vec![], vec![]]);
    let (none, _) = call(ValueKinds::VECTOR);
    assert_eq!(none.arguments, [None; 6]);
}

/// Each kind yields what all kinds together yield of it: none depends on another.
#[test]
fn kinds_are_independent() {
    let code = [
        0x03, 0x03, // add eax, [rbx]
        0x3b, 0x43, 4, // cmp eax, [rbx+4]
        0x89, 0x43, 8, // mov [rbx+8], eax
        0x66, 0x0f, 0x6f, 0x03, // movdqa xmm0, [rbx]
        0xf2, 0x0f, 0x58, 0x03, // addsd xmm0, [rbx]
        0x74, 0, // je +0
        0xff, 0xd1, // call rcx
    ];
    let lab = lab(&code).reg(Register::RCX, 0x7000);
    let all = values(&lab, ValueKinds::all());
    for kind in ValueKinds::all().kinds() {
        let own = values(&lab, kind);
        let expected: Vec<_> = all
            .iter()
            .filter(|(parameter, _)| parameter.kinds() == kind)
            .copied()
            .collect();
        if kind == ValueKinds::COMPARE {
            assert_eq!(own.len(), 2);
        } else {
            assert_eq!(own, expected, "{kind}");
        }
    }
}

/// The accumulator compared with itself has one result, the new value.
#[test]
fn accumulator_compared_with_itself() {
    let lab = lab(&[0x4c, 0x0f, 0xb1, 0xd0]).reg(Register::R10, 0x1000_0000); // cmpxchg rax, r10
    assert_eq!(
        values(&lab, ValueKinds::DEST),
        [(Parameter::Dest(Register::RAX), Some(0x1000_0000))]
    );
}
