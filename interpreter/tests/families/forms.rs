//! An instruction means the same in every form: whether its operands are registers, memory or an
//! immediate, known or not, reported or not. Some forms have handlers of their own.

use iced_x86::Register;
use interpreter::{Flags, Parameter, ValueKinds, Word};
use proptest::prelude::*;

use crate::lab::{After, Lab, Told, value};

const DATA: u64 = 0x5000;

/// An instruction with two operands, by the opcodes of its forms for 8 bits; the next is that for
/// more.
#[derive(Clone, Copy, Debug)]
struct Opcodes {
    /// Register or memory, register.
    to: u8,
    /// Register, register or memory.
    from: u8,
    /// Register or memory, immediate: the opcode, and the digit beside it.
    immediate: (u8, u8),
}

const fn arithmetic(digit: u8) -> Opcodes {
    Opcodes {
        to: digit << 3,
        from: digit << 3 | 2,
        immediate: (0x80, digit),
    }
}

/// add or adc sbb and sub xor cmp, mov, test.
const CODE: [Opcodes; 10] = [
    arithmetic(0),
    arithmetic(1),
    arithmetic(2),
    arithmetic(3),
    arithmetic(4),
    arithmetic(5),
    arithmetic(6),
    arithmetic(7),
    Opcodes {
        to: 0x88,
        from: 0x8a,
        immediate: (0xc6, 0),
    },
    Opcodes {
        to: 0x84,
        from: 0x84,
        immediate: (0xf6, 0),
    },
];

/// Shifts and rotations by an immediate, by their digits: rol ror shl shr sar.
const SHIFTS: [u8; 5] = [0, 1, 4, 5, 7];

/// The operand rax, rbx or [rsi], where an instruction may have register or memory.
const RAX: u8 = 0xc0;
const RBX: u8 = 0xc3;
const AT_RSI: u8 = 0x06;

/// The code of an instruction whose operands have that many bytes.
fn sized(bytes: u32, opcode: u8, rest: &[u8]) -> Vec<u8> {
    let mut code = match bytes {
        2 => vec![0x66],
        8 => vec![0x48],
        _ => Vec::new(),
    };
    code.push(opcode + u8::from(bytes > 1));
    code.extend(rest);
    code
}

/// The same with an immediate, of at most 32 bits.
fn with_immediate(bytes: u32, (opcode, digit): (u8, u8), operand: u8, value: i32) -> Vec<u8> {
    let mut rest = vec![operand | digit << 3];
    rest.extend(&value.to_le_bytes()[..bytes.min(4) as usize]);
    sized(bytes, opcode, &rest)
}

/// `mov [rsi], rax` and `mov [rsi], rbx`; `mov rcx, [rsi]`.
const STORE_RAX: &[u8] = &[0x48, 0x89, 0x06];
const STORE_RBX: &[u8] = &[0x48, 0x89, 0x1e];
const LOAD_RCX: &[u8] = &[0x48, 0x8b, 0x0e];

/// A word of which everything, some bytes or nothing is known.
fn word() -> impl Strategy<Value = Word> {
    let known = prop_oneof![3 => Just(u8::MAX), 1 => any::<u8>(), 1 => Just(0)];
    (value(), known).prop_map(|(bits, known)| Word::partial(bits, known))
}

fn flags() -> impl Strategy<Value = Flags> {
    prop_oneof![
        any::<u64>().prop_map(Flags::from_rflags),
        Just(Flags::UNKNOWN)
    ]
}

fn lab(a: Word, b: Word, flags: Flags) -> Lab {
    let mut lab = Lab::new().reg(Register::RSI, DATA);
    lab.capture = ValueKinds::default();
    lab.registers.gpr[0] = a;
    lab.registers.gpr[3] = b;
    lab.registers.rflags = flags;
    lab
}

fn run(lab: &Lab, code: &[&[u8]]) -> After {
    lab.clone().bytes(&code.concat()).run()
}

/// The low bytes of a register, those of an operand.
fn low(after: &After, number: usize, bytes: u32) -> Word {
    let word = after.outcome.registers.gpr[number];
    let set = u8::MAX >> (8 - bytes);
    Word::partial(
        word.known_bits() & (u64::MAX >> (64 - 8 * bytes)),
        word.known_bytes() & set,
    )
}

/// That what else is captured changes neither what an instruction does nor its other events.
fn check_reporting(lab: &Lab, code: &[u8]) -> Result<After, TestCaseError> {
    let quiet = run(lab, &[code]);
    let mut telling = lab.clone();
    telling.capture = ValueKinds::all();
    let telling = run(&telling, &[code]);
    prop_assert_eq!(&quiet.outcome, &telling.outcome);
    let wanted = |told: &&Told| match told {
        Told::Value(_, parameter, _) => matches!(parameter, Parameter::Dest(_) | Parameter::Ea),
        _ => true,
    };
    let told: Vec<_> = telling.told.iter().filter(wanted).collect();
    prop_assert_eq!(quiet.told.iter().collect::<Vec<_>>(), told);
    Ok(quiet)
}

/// That forms with the operands in memory do the same as one with both in registers.
fn check_memory(
    lab: &Lab,
    bytes: u32,
    registers: &After,
    from: Option<&[u8]>,
    to: &[u8],
) -> Result<(), TestCaseError> {
    let flags = registers.outcome.registers.rflags;
    if let Some(from) = from {
        let loaded = run(lab, &[STORE_RBX, from]);
        let (a, b) = (&loaded.outcome.registers, &registers.outcome.registers);
        prop_assert_eq!(a.gpr, b.gpr);
        prop_assert_eq!(a.rflags, flags);
    }
    let stored = run(lab, &[STORE_RAX, to, LOAD_RCX]);
    prop_assert_eq!(low(&stored, 1, bytes), low(registers, 0, bytes));
    prop_assert_eq!(stored.outcome.registers.rflags, flags);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Two operands: registers against memory, and against a register that has the immediate.
    #[test]
    fn forms_of_two_operands_agree(
        code in proptest::sample::select(&CODE[..]),
        bytes in proptest::sample::select(&[1, 2, 4, 8][..]),
        (a, b) in (word(), word()),
        small in any::<i8>(),
        flags in flags(),
    ) {
        let before = lab(a, b, flags);
        let registers = check_reporting(&before, &sized(bytes, code.to, &[RAX | 3 << 3]))?;
        check_reporting(&before, &sized(bytes, code.to, &[RAX]))?;
        let from = sized(bytes, code.from, &[AT_RSI]);
        let to = sized(bytes, code.to, &[AT_RSI | 3 << 3]);
        check_memory(&before, bytes, &registers, Some(&from), &to)?;

        let small = i32::from(small);
        let before = lab(a, Word::known(i64::from(small) as u64), flags);
        let registers = run(&before, &[&sized(bytes, code.to, &[RAX | 3 << 3])]);
        let immediate = with_immediate(bytes, code.immediate, RAX, small);
        let immediate = check_reporting(&before, &immediate)?;
        prop_assert_eq!(&immediate.outcome.registers.gpr, &registers.outcome.registers.gpr);
        prop_assert_eq!(
            immediate.outcome.registers.rflags,
            registers.outcome.registers.rflags
        );
        let to = with_immediate(bytes, code.immediate, AT_RSI, small);
        check_memory(&before, bytes, &registers, None, &to)?;
    }

    /// Shifts by an immediate: of a register and of memory.
    #[test]
    fn forms_of_shifts_agree(
        digit in proptest::sample::select(&SHIFTS[..]),
        bytes in proptest::sample::select(&[1, 2, 4, 8][..]),
        a in word(),
        count in 0..80u8,
        flags in flags(),
    ) {
        let before = lab(a, Word::known(0), flags);
        let registers = check_reporting(&before, &sized(bytes, 0xc0, &[RAX | digit << 3, count]))?;
        let to = sized(bytes, 0xc0, &[AT_RSI | digit << 3, count]);
        check_memory(&before, bytes, &registers, None, &to)?;
    }

    /// Conditional moves, and moves that extend: from a register and from memory.
    #[test]
    fn forms_of_extensions_agree(
        opcode in proptest::sample::select(&[0xb6, 0xb7, 0xbe, 0xbf, 0x44, 0x4c, 0x46][..]),
        bytes in proptest::sample::select(&[2, 4, 8][..]),
        (a, b) in (word(), word()),
        flags in flags(),
    ) {
        let before = lab(a, b, flags);
        let form = |operand| {
            let mut code = sized(bytes, 0x0e, &[opcode, operand]);
            let escape = code.len() - 3;
            code[escape] = 0x0f;
            code
        };
        let registers = check_reporting(&before, &form(RBX))?;
        let loaded = run(&before, &[STORE_RBX, &form(AT_RSI)]);
        let (a, b) = (&loaded.outcome.registers, &registers.outcome.registers);
        prop_assert_eq!(a.gpr, b.gpr);
        prop_assert_eq!(a.rflags, b.rflags);
    }
}
