//! What is claimed with partial knowledge holds whatever the unknown bytes are.

use iced_x86::Register;
use interpreter::{Flag, Word};
use proptest::prelude::*;

use crate::lab::{Lab, value};

/// Instructions on rax, rbx, rcx and rdx, one or two at a time.
const CODE: &[&[u8]] = &[
    &[0x48, 0x01, 0xd8],                   // add rax, rbx
    &[0x10, 0xdc],                         // adc ah, bl
    &[0x29, 0xd8],                         // sub eax, ebx
    &[0x66, 0x19, 0xd8],                   // sbb ax, bx
    &[0x48, 0x39, 0xd8],                   // cmp rax, rbx
    &[0x48, 0x21, 0xd8],                   // and rax, rbx
    &[0x48, 0x09, 0xd8],                   // or rax, rbx
    &[0x31, 0xd8],                         // xor eax, ebx
    &[0x48, 0x85, 0xd8],                   // test rax, rbx
    &[0x48, 0xf7, 0xd8],                   // neg rax
    &[0x48, 0xff, 0xc0],                   // inc rax
    &[0xfe, 0xcc],                         // dec ah
    &[0x48, 0xd3, 0xe0],                   // shl rax, cl
    &[0x48, 0xc1, 0xe8, 12],               // shr rax, 12
    &[0xc1, 0xf8, 8],                      // sar eax, 8
    &[0x48, 0xc1, 0xf8, 9],                // sar rax, 9
    &[0x48, 0xc1, 0xc0, 24],               // rol rax, 24
    &[0x66, 0xc1, 0xc8, 9],                // ror ax, 9
    &[0x48, 0xd1, 0xd0],                   // rcl rax, 1
    &[0x48, 0x0f, 0xa4, 0xd8, 16],         // shld rax, rbx, 16
    &[0x0f, 0xac, 0xd8, 3],                // shrd eax, ebx, 3
    &[0x48, 0xf7, 0xe3],                   // mul rbx
    &[0x48, 0x0f, 0xaf, 0xc3],             // imul rax, rbx
    &[0x0f, 0xbe, 0xc3],                   // movsx eax, bl
    &[0x48, 0x0f, 0xb7, 0xc3],             // movzx rax, bx
    &[0x48, 0x63, 0xc3],                   // movsxd rax, ebx
    &[0x48, 0x99],                         // cqo
    &[0x66, 0x98],                         // cbw
    &[0x48, 0x0f, 0x4c, 0xc3],             // cmovl rax, rbx
    &[0x0f, 0x97, 0xc0],                   // seta al
    &[0x48, 0x0f, 0xc8],                   // bswap rax
    &[0x0f, 0xab, 0xd8],                   // bts eax, ebx
    &[0x48, 0x0f, 0xbc, 0xc3],             // bsf rax, rbx
    &[0xf3, 0x0f, 0xbd, 0xc3],             // lzcnt eax, ebx
    &[0x48, 0x8d, 0x84, 0x8b, 1, 2, 3, 4], // lea rax, [rbx+rcx*4+...]
    &[0x0f, 0xc1, 0xd8],                   // xadd eax, ebx
    &[0x48, 0x0f, 0xb1, 0xcb],             // cmpxchg rbx, rcx
    &[0x0f, 0xb1, 0xcb],                   // cmpxchg ebx, ecx
    &[0x48, 0x87, 0xd8],                   // xchg rax, rbx
    &[0x50, 0x66, 0x5b],                   // push rax; pop bx
    &[0xc4, 0xe2, 0xf8, 0xf3, 0xdb],       // blsi rax, rbx
    &[0xc4, 0xe2, 0xf0, 0xf5, 0xc3],       // bzhi rax, rbx, rcx
    &[0x9e],                               // sahf
    &[0x9f],                               // lahf
];

/// Prefixes that change what follows.
const PREFIXES: &[&[u8]] = &[&[], &[0xf3], &[0x66], &[0x48], &[0x67], &[0xf0]];

/// All bytes of ones where a bit of `known` is set.
fn spread(known: u8) -> u64 {
    (0..8)
        .filter(|i| known >> i & 1 != 0)
        .fold(0, |mask, i| mask | 0xff << (8 * i))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Two instructions run on partly known registers claim only what they yield for any values of
    /// the unknown bytes and flags.
    #[test]
    fn claims_hold_for_any_completion(
        first in proptest::sample::select(CODE),
        second in proptest::sample::select(CODE),
        values in [value(), value(), value(), value()],
        others in [value(), value(), value(), value()],
        known in [any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>()],
        rflags in any::<u16>(),
        unknown_flags in any::<u16>(),
        other_flags in any::<u16>(),
    ) {
        const REGISTERS: [Register; 4] =
            [Register::RAX, Register::RBX, Register::RCX, Register::RDX];
        let code = Lab::new().bytes(first).bytes(second);
        let (mut partial, mut complete) = (code.clone(), code);
        for (i, register) in REGISTERS.into_iter().enumerate() {
            let number = crate::lab::number(register);
            partial.registers.gpr[number] = Word::partial(values[i], known[i]);
            let mask = spread(known[i]);
            complete = complete.reg(register, values[i] & mask | others[i] & !mask);
        }
        let unknown = u64::from(unknown_flags);
        partial = partial.flags(u64::from(rflags));
        complete = complete.flags(u64::from(rflags) & !unknown | u64::from(other_flags) & unknown);
        for flag in Flag::ALL {
            if unknown & flag as u64 != 0 {
                partial.registers.rflags.set(flag, None);
            }
        }
        let (claimed, real) = (partial.run().outcome, complete.run().outcome);
        prop_assert_eq!(claimed.instructions, real.instructions);
        for (claimed, real) in claimed.registers.gpr.into_iter().zip(real.registers.gpr) {
            // What full knowledge leaves undefined is not to be claimed with less.
            prop_assert_eq!(claimed.known_bytes() & !real.known_bytes(), 0);
            let mask = spread(claimed.known_bytes());
            prop_assert_eq!(claimed.known_bits(), real.known_bits() & mask);
        }
        for flag in Flag::ALL {
            if let Some(claimed) = claimed.registers.rflags.get(flag) {
                prop_assert_eq!(Some(claimed), real.registers.rflags.get(flag));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// Whatever bytes stand where code should, and whatever is known, nothing panics.
    #[test]
    fn any_bytes_are_survived(
        prefix in proptest::sample::select(PREFIXES),
        bytes in any::<[u8; 15]>(),
        values in proptest::array::uniform16(value()),
        known in proptest::array::uniform16(prop_oneof![Just(0xff), Just(0), any::<u8>()]),
        rflags in any::<u64>(),
        fs_base in any::<Option<u64>>(),
    ) {
        let bytes: Vec<u8> = prefix.iter().chain(&bytes).copied().collect();
        let Ok(decoded) = interpreter::Decoded::new(&bytes, u64::MAX - 7) else { return Ok(()) };
        let mut lab = Lab::new().bytes(&bytes[..decoded.len()]).flags(rflags);
        for (i, word) in lab.registers.gpr.iter_mut().enumerate() {
            *word = Word::partial(values[i], known[i]);
        }
        lab.registers.fs_base = fs_base;
        for address in values {
            lab = lab.memory(address, &bytes[..8]);
        }
        prop_assert!(lab.run().outcome.instructions <= 16);
    }
}
