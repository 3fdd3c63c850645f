//! Bits, scans, fields, checksums.

use iced_x86::Register;
use interpreter::{Flag, Parameter};

use crate::edges;
use crate::lab::Lab;

/// `bt` with a register offset reaches beyond its operand in memory, in both directions.
#[test]
fn bit_strings() {
    let base = 0x5000u64;
    for (offset, byte, bit) in [
        (0i64, 0i64, 0),
        (31, 3, 7),
        (32, 4, 0),
        (-1, -1, 7),
        (-33, -5, 7),
    ] {
        let address = base.wrapping_add_signed(byte);
        let lab = Lab::new()
            .memory(base - 16, &[0; 32])
            .memory(address, &[1 << bit])
            .reg(Register::RSI, base)
            .reg(Register::RBX, offset as u64)
            // btr [rsi], ebx; the memory then is all zero.
            .bytes(&[0x0f, 0xb3, 0x1e]);
        let after = lab.run();
        assert_eq!(after.flag(Flag::Cf), Some(true), "offset {offset}");
        assert_eq!(after.values(Parameter::Mem), [Some(0)]);
        let unit = base.wrapping_add_signed(offset.div_euclid(32) * 4);
        assert_eq!(after.values(Parameter::Ea), [Some(unit)]);
    }
}

/// The bit operations take a register's offset modulo its width and keep ZF.
#[test]
fn bits_of_registers() {
    let lab = Lab::new().reg(Register::RBX, 64 + 5).flags(0x40);
    let cases: [(&[u8], u64, u64); 4] = [
        (&[0x48, 0x0f, 0xa3, 0xd8], 0x20, 0x20), // bt rax, rbx
        (&[0x48, 0x0f, 0xab, 0xd8], 0x20, 0x20), // bts
        (&[0x48, 0x0f, 0xb3, 0xd8], 0x20, 0x00), // btr
        (&[0x48, 0x0f, 0xbb, 0xd8], 0x20, 0x00), // btc
    ];
    for (code, value, expected) in cases {
        let after = lab.clone().reg(Register::RAX, value).bytes(code).run();
        assert_eq!(after.get(Register::RAX), Some(expected));
        assert_eq!(after.flag(Flag::Cf), Some(true));
        assert_eq!(after.flag(Flag::Zf), Some(true));
        assert_eq!(after.flag(Flag::Sf), None);
    }
}

/// Scans and counts agree with the language's own; a scan of zero is undefined.
#[test]
fn scans_and_counts() {
    for value in edges::INTEGERS {
        let lab = Lab::new().reg(Register::RBX, value).reg(Register::RAX, 77);
        let run = |code: &[u8]| lab.clone().bytes(code).run();
        let zero = value == 0;
        for (code, index) in [
            (&[0x48, 0x0f, 0xbc, 0xc3][..], value.trailing_zeros()), // bsf rax, rbx
            (
                &[0x48, 0x0f, 0xbd, 0xc3],
                value.checked_ilog2().unwrap_or(0),
            ), // bsr
        ] {
            let after = run(code);
            assert_eq!(
                after.get(Register::RAX),
                (!zero).then_some(u64::from(index))
            );
            assert_eq!(after.flag(Flag::Zf), Some(zero));
            assert_eq!(after.flag(Flag::Cf), None);
        }
        for (code, count) in [
            (&[0xf3, 0x48, 0x0f, 0xbc, 0xc3], value.trailing_zeros()), // tzcnt
            (&[0xf3, 0x48, 0x0f, 0xbd, 0xc3], value.leading_zeros()),  // lzcnt
        ] {
            let after = run(code);
            assert_eq!(after.get(Register::RAX), Some(u64::from(count)));
            assert_eq!(after.flag(Flag::Cf), Some(zero));
            assert_eq!(after.flag(Flag::Zf), Some(count == 0));
        }
        let after = run(&[0xf3, 0x48, 0x0f, 0xb8, 0xc3]); // popcnt
        assert_eq!(
            after.get(Register::RAX),
            Some(u64::from(value.count_ones()))
        );
        assert_eq!(
            (after.flag(Flag::Zf), after.flag(Flag::Cf)),
            (Some(zero), Some(false))
        );
    }
    // 16 bits: the width counts, not the register.
    let lab = Lab::new().reg(Register::RAX, 0xffff_ffff);
    assert_eq!(
        lab.clone()
            .bytes(&[0x66, 0xf3, 0x0f, 0xbd, 0xc3])
            .run()
            .get(Register::AX),
        Some(16)
    );
    assert_eq!(
        lab.bytes(&[0x66, 0xf3, 0x0f, 0xbc, 0xc3])
            .run()
            .get(Register::AX),
        Some(16)
    );
}

/// The BMI instructions agree with their definitions.
#[test]
fn bit_manipulation() {
    for value in edges::INTEGERS {
        let lab = Lab::new()
            .reg(Register::RBX, value)
            .reg(Register::RCX, 0x0804);
        let run = |code: &[u8]| lab.clone().bytes(code).run();
        let zero = value == 0;
        // andn rax, rcx, rbx; bextr rax, rbx, rcx; bzhi rax, rbx, rcx
        let andn = run(&[0xc4, 0xe2, 0xf0, 0xf2, 0xc3]);
        assert_eq!(andn.get(Register::RAX), Some(!0x0804 & value));
        let bextr = run(&[0xc4, 0xe2, 0xf0, 0xf7, 0xc3]);
        assert_eq!(bextr.get(Register::RAX), Some(value >> 4 & 0xff));
        assert_eq!(bextr.flag(Flag::Zf), Some(value >> 4 & 0xff == 0));
        let bzhi = run(&[0xc4, 0xe2, 0xf0, 0xf5, 0xc3]);
        assert_eq!(bzhi.get(Register::RAX), Some(value & 15));
        assert_eq!(bzhi.flag(Flag::Cf), Some(false));
        // blsi, blsr, blsmsk rax, rbx
        let blsi = run(&[0xc4, 0xe2, 0xf8, 0xf3, 0xdb]);
        assert_eq!(blsi.get(Register::RAX), Some(value & value.wrapping_neg()));
        assert_eq!(blsi.flag(Flag::Cf), Some(!zero));
        let blsr = run(&[0xc4, 0xe2, 0xf8, 0xf3, 0xcb]);
        assert_eq!(blsr.get(Register::RAX), Some(value & value.wrapping_sub(1)));
        assert_eq!(blsr.flag(Flag::Cf), Some(zero));
        let blsmsk = run(&[0xc4, 0xe2, 0xf8, 0xf3, 0xd3]);
        assert_eq!(
            blsmsk.get(Register::RAX),
            Some(value ^ value.wrapping_sub(1))
        );
        assert_eq!(blsmsk.flag(Flag::Zf), Some(false));
    }
}

/// `pdep` and `pext` scatter and gather bits by a mask, and undo each other.
#[test]
fn scatter_and_gather() {
    let lab = Lab::new()
        .reg(Register::RBX, 0b1011)
        .reg(Register::RCX, 0xf0f0_0000_0000_0000);
    // pdep rax, rbx, rcx; pext rdx, rax, rcx
    let lab = lab
        .bytes(&[0xc4, 0xe2, 0xe3, 0xf5, 0xc1])
        .bytes(&[0xc4, 0xe2, 0xfa, 0xf5, 0xd1]);
    let after = lab.run();
    assert_eq!(after.get(Register::RAX), Some(0x00b0_0000_0000_0000));
    assert_eq!(after.get(Register::RDX), Some(0b1011));
}

/// `crc32` over "123456789" gives the published check value of CRC-32C.
#[test]
fn checksum() {
    let mut lab = Lab::new()
        .reg(Register::RAX, 0xffff_ffff)
        .memory(0x5000, b"123456789");
    lab = lab.reg(Register::RSI, 0x5000);
    // crc32 rax, qword ptr [rsi]; crc32 eax, byte ptr [rsi+8]
    lab = lab.bytes(&[0xf2, 0x48, 0x0f, 0x38, 0xf1, 0x06]);
    lab = lab.bytes(&[0xf2, 0x0f, 0x38, 0xf0, 0x46, 8]);
    assert_eq!(
        lab.run().get(Register::RAX),
        Some(!0xe306_9283 & 0xffff_ffff)
    );
}

/// With 32-bit addresses, the address that a bit's offset leads to has 32 bits as well.
#[test]
fn bit_strings_at_the_end_of_32_bits() {
    let after = Lab::new()
        .reg(Register::RSI, 0xffff_fff0)
        .reg(Register::RBX, 0x30 * 8)
        // bt [esi], rbx
        .bytes(&[0x67, 0x48, 0x0f, 0xa3, 0x1e])
        .memory(0x20, &[1, 0, 0, 0, 0, 0, 0, 0])
        .run();
    assert_eq!(after.values(Parameter::Ea), [Some(0x20)]);
    assert_eq!(after.flag(Flag::Cf), Some(true));
}
