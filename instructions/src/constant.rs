//! Results that follow from the encoding alone.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use crate::is_same_register;

/// What an instruction writes, whatever the machine's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Constant {
    /// A number, as wide as the first operand.
    Number(u64),
    /// An address of the image that the code lies in.
    Place(u64),
    /// A vector register full of zeros.
    Zeros,
    /// A vector register full of ones.
    Ones,
}

/// The value of an instruction's destination, where the encoding alone decides it: `mov eax,5`,
/// `xor eax,eax`, `or eax,-1`, `lea rax,[rip+8]`, `pxor xmm0,xmm0`.
///
/// Flags are not looked at. An instruction with a mask has a destination that other elements stay
/// in, and no constant.
pub fn constant(instruction: &Instruction) -> Option<Constant> {
    use Mnemonic as M;
    let same = || is_same_register(instruction, 0, 1);
    let same_sources = || is_same_register(instruction, 1, 2) && !instruction.has_op_mask();
    let mask = mask_of(instruction);
    let immediate = |operand: u32| Some(instruction.try_immediate(operand).ok()? & mask?);
    let zero = Some(Constant::Number(0));
    match instruction.mnemonic() {
        M::Mov => immediate(1).map(Constant::Number),
        M::Lea => place(instruction, mask?),
        M::Xor | M::Sub if same() => zero,
        M::And if immediate(1) == Some(0) => zero,
        M::Or if mask.is_some() && immediate(1) == mask => mask.map(Constant::Number),
        M::Imul if instruction.op_count() == 3 && immediate(2) == Some(0) => zero,
        M::Pxor | M::Xorps | M::Xorpd if same() => Some(Constant::Zeros),
        M::Psubb | M::Psubw | M::Psubd | M::Psubq if same() => Some(Constant::Zeros),
        M::Pcmpeqb | M::Pcmpeqw | M::Pcmpeqd | M::Pcmpeqq if same() => Some(Constant::Ones),
        M::Vpxor | M::Vpxord | M::Vpxorq | M::Vxorps | M::Vxorpd if same_sources() => {
            Some(Constant::Zeros)
        }
        M::Vpsubb | M::Vpsubw | M::Vpsubd | M::Vpsubq if same_sources() => Some(Constant::Zeros),
        // With EVEX the destination is a mask register.
        M::Vpcmpeqb | M::Vpcmpeqw | M::Vpcmpeqd | M::Vpcmpeqq if same_sources() => {
            Some(Constant::Ones)
        }
        _ => None,
    }
}

/// The address that a `lea` without a register computes.
fn place(instruction: &Instruction, mask: u64) -> Option<Constant> {
    if instruction.memory_index() != Register::None {
        return None;
    }
    let address = instruction.memory_displacement64() & mask;
    match instruction.memory_base() {
        Register::RIP | Register::EIP => Some(Constant::Place(address)),
        Register::None => Some(Constant::Number(address)),
        _ => None,
    }
}

/// The bits of the first operand, if that has at most 64.
fn mask_of(instruction: &Instruction) -> Option<u64> {
    let bytes = match instruction.op0_kind() {
        OpKind::Register => instruction.op0_register().size(),
        OpKind::Memory => instruction.memory_size().size(),
        _ => return None,
    };
    match bytes {
        1..8 => Some((1 << (8 * bytes)) - 1),
        8 => Some(u64::MAX),
        _ => None,
    }
}

/// The address of the image that an instruction loads from, if it does nothing but load into a
/// register.
pub fn loaded_place(instruction: &Instruction) -> Option<u64> {
    use Mnemonic as M;
    let only_moves = matches!(
        instruction.mnemonic(),
        M::Mov
            | M::Movzx
            | M::Movsx
            | M::Movsxd
            | M::Movd
            | M::Movq
            | M::Movss
            | M::Movsd
            | M::Movaps
            | M::Movapd
            | M::Movups
            | M::Movupd
            | M::Movdqa
            | M::Movdqu
            | M::Vmovd
            | M::Vmovq
            | M::Vmovss
            | M::Vmovsd
            | M::Vmovaps
            | M::Vmovapd
            | M::Vmovups
            | M::Vmovupd
            | M::Vmovdqa
            | M::Vmovdqu
    );
    let is_load = only_moves
        && instruction.op0_kind() == OpKind::Register
        && instruction.is_ip_rel_memory_operand();
    is_load.then(|| instruction.ip_rel_memory_address())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoded;

    /// Each form whose result the encoding decides has it, in the width of its destination.
    #[test]
    fn results_of_the_encoding() {
        use Constant::{Number, Ones, Place, Zeros};
        let cases: &[(&[u8], Constant)] = &[
            (&[0xb8, 5, 0, 0, 0], Number(5)),
            (&[0xc6, 0x07, 0xff], Number(0xff)),
            (
                &[0x48, 0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff],
                Number(u64::MAX),
            ),
            (&[0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff], Number(0xffff_ffff)),
            (&[0x31, 0xc0], Number(0)),
            (&[0x29, 0xc0], Number(0)),
            (&[0x83, 0xe0, 0], Number(0)),
            (&[0x83, 0x27, 0], Number(0)),
            (&[0x83, 0xc8, 0xff], Number(0xffff_ffff)),
            (&[0x0d, 0xff, 0xff, 0xff, 0xff], Number(0xffff_ffff)),
            (&[0x48, 0x83, 0xc8, 0xff], Number(u64::MAX)),
            (&[0x0c, 0xff], Number(0xff)),
            (&[0x6b, 0xc3, 0], Number(0)),
            (&[0x48, 0x8d, 0x05, 1, 0, 0, 0], Place(0x1008)),
            (&[0x8d, 0x04, 0x25, 1, 0, 0, 0], Number(1)),
            (&[0x66, 0x0f, 0xef, 0xc0], Zeros),
            (&[0xc5, 0xf1, 0xef, 0xc1], Zeros),
            (&[0x66, 0x0f, 0x76, 0xc0], Ones),
        ];
        for (bytes, expected) in cases {
            assert_eq!(constant(&decoded(bytes)), Some(*expected), "{bytes:x?}");
        }
    }

    /// What looks like one of these forms, but depends on the machine's state, has none.
    #[test]
    fn results_of_the_state() {
        let cases: &[&[u8]] = &[
            &[0x01, 0xd8],                         // add eax, ebx
            &[0x31, 0xd8],                         // xor eax, ebx
            &[0x83, 0xe0, 1],                      // and eax, 1
            &[0x83, 0xc8, 0x7f],                   // or eax, 0x7f
            &[0x66, 0x83, 0xc8, 0x0f],             // or ax, 0xf
            &[0x6b, 0xc3, 2],                      // imul eax, ebx, 2
            &[0x19, 0xc0],                         // sbb eax, eax
            &[0x48, 0x8d, 0x47, 1],                // lea rax, [rdi+1]
            &[0x8b, 0x07],                         // mov eax, [rdi]
            &[0x66, 0x0f, 0xef, 0xc1],             // pxor xmm0, xmm1
            &[0xc5, 0xf9, 0xef, 0xc1],             // vpxor xmm0, xmm0, xmm1
            &[0x62, 0xf1, 0x75, 0x09, 0xef, 0xc1], // vpxord xmm0{k1}, xmm1, xmm1
        ];
        for bytes in cases {
            assert_eq!(constant(&decoded(bytes)), None, "{bytes:x?}");
        }
    }

    /// A load says where; a store and what computes load nothing as it is.
    #[test]
    fn loads_of_the_image() {
        let place = |bytes: &[u8]| loaded_place(&decoded(bytes));
        // mov eax, [rip+8]; movsd xmm0, [rip+8]
        assert!(place(&[0x8b, 5, 8, 0, 0, 0]).is_some());
        assert!(place(&[0xf2, 0x0f, 0x10, 5, 8, 0, 0, 0]).is_some());
        // mov [rip+8], eax; add eax, [rip+8]; mov eax, [rax]
        assert!(place(&[0x89, 5, 8, 0, 0, 0]).is_none());
        assert!(place(&[3, 5, 8, 0, 0, 0]).is_none());
        assert!(place(&[0x8b, 0]).is_none());
    }
}
