//! What instructions do that do not leave the straight line, as micro-operations.

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};

use super::emit::{Address, Emitter, RSP, T0, T1, general, vector};
use super::wire::Uop;

const RAX: u8 = 0;
const RCX: u8 = 1;
const RDX: u8 = 2;
const RBP: u8 = 5;
const RSI: u8 = 6;
const RDI: u8 = 7;

/// Translates an instruction behind which the next one comes.
pub(super) fn translate(e: &mut Emitter, i: &Instruction, factory: &mut InstructionInfoFactory) {
    let (uops, flags) = (e.uops.len(), e.flags);
    if followed(e, i).is_none() {
        e.uops.truncate(uops);
        e.flags = flags;
        e.others(i, factory);
    }
}

/// `None` if it is none of those that are followed; what was written then is to be taken back.
fn followed(e: &mut Emitter, i: &Instruction) -> Option<()> {
    use Mnemonic as M;
    match i.mnemonic() {
        M::Nop
        | M::Endbr64
        | M::Pause
        | M::Prefetcht0
        | M::Prefetcht1
        | M::Prefetcht2
        | M::Prefetchnta
        | M::Prefetchw
        | M::Lfence
        | M::Mfence
        | M::Sfence
        | M::Vzeroupper => {}
        M::Mov => mov(e, i)?,
        M::Movzx => {
            let (to, width) = general(i.op0_register())?;
            if i.op1_kind() == OpKind::Memory {
                let size = i.memory_size().size() as u8;
                let address = e.address(i)?;
                e.load(to, address, size, width, 0);
            } else {
                let (from, size) = e.source(i, 1, T1)?;
                let mask = if size == 1 { 0xff } else { 0xffff };
                e.by_value(Uop::AND, to, from, mask, width, 0);
            }
        }
        M::Movsx | M::Movsxd => {
            let (to, width) = general(i.op0_register())?;
            if i.op1_kind() == OpKind::Memory {
                let size = i.memory_size().size() as u8;
                let address = e.address(i)?;
                e.load(to, address, size, width, Uop::SIGN);
            } else {
                let (from, size) = e.source(i, 1, T1)?;
                extend(e, (to, width), (from, size));
            }
        }
        M::Cdqe => extend(e, (RAX, 8), (RAX, 4)),
        M::Cwde => extend(e, (RAX, 4), (RAX, 2)),
        M::Cdq => e.by_value(Uop::SAR, RDX, RAX, 31, 4, 0),
        M::Cqo => e.by_value(Uop::SAR, RDX, RAX, 63, 8, 0),
        M::Lea => {
            let (to, size) = general(i.op0_register()).filter(|(_, size)| *size >= 4)?;
            if i.memory_segment() == Register::FS || i.memory_segment() == Register::GS {
                return None;
            }
            let address = e.address(i)?;
            e.lea(to, address, size);
        }
        M::Add => binary(e, i, Uop::ADD, Uop::SETS_RESULT, true)?,
        M::Sub => binary(e, i, Uop::SUB, Uop::SETS_COMPARED, true)?,
        M::Cmp => binary(e, i, Uop::SUB, Uop::SETS_COMPARED, false)?,
        M::And => binary(e, i, Uop::AND, Uop::SETS_RESULT, true)?,
        M::Test => binary(e, i, Uop::AND, Uop::SETS_RESULT, false)?,
        M::Or => binary(e, i, Uop::OR, Uop::SETS_RESULT, true)?,
        M::Xor => binary(e, i, Uop::XOR, Uop::SETS_RESULT, true)?,
        M::Inc => unary(e, i, |e, to, a, size| {
            e.by_value(Uop::ADD, to, a, 1, size, Uop::SETS_RESULT);
        })?,
        M::Dec => unary(e, i, |e, to, a, size| {
            e.by_value(Uop::SUB, to, a, 1, size, Uop::SETS_RESULT);
        })?,
        M::Not => unary(e, i, |e, to, a, size| {
            e.by_value(Uop::XOR, to, a, -1, size, 0)
        })?,
        M::Neg => unary(e, i, |e, to, a, size| {
            e.by_word(Uop::SUB, to, (Uop::NONE, a), size, Uop::SETS_COMPARED);
        })?,
        M::Imul | M::Mul => multiply(e, i)?,
        M::Div | M::Idiv => {
            let (divisor, size) = e.source(i, 0, T1).filter(|(_, size)| *size >= 4)?;
            e.by_word(Uop::MOVE, T1, (T1, divisor), 8, 0);
            e.by_word(Uop::DIV, T0, (RAX, T1), size, Uop::WHOLE);
            e.by_word(Uop::REM, RDX, (RAX, T1), size, 0);
            e.by_word(Uop::MOVE, RAX, (RAX, T0), size, 0);
        }
        M::Shl | M::Sal => shift(e, i, Uop::SHL)?,
        M::Shr => shift(e, i, Uop::SHR)?,
        M::Sar => shift(e, i, Uop::SAR)?,
        M::Rol | M::Ror => turn(e, i)?,
        M::Bt => {
            let (a, size) = match i.op0_kind() {
                OpKind::Memory if i.op1_kind() != OpKind::Immediate8 => return None,
                _ => e.source(i, 0, T0)?,
            };
            let flags = Uop::NO_RESULT | Uop::SETS_BIT;
            match i.op1_kind() {
                OpKind::Register => {
                    let (b, _) = general(i.op1_register())?;
                    e.by_word(Uop::MOVE, T0, (a, b), size, flags);
                }
                _ => e.by_value(Uop::MOVE, T0, a, i32::from(i.immediate8()), size, flags),
            }
        }
        M::Xchg => {
            let (b, size) = general(i.op1_register())?;
            if i.op0_kind() == OpKind::Memory {
                let address = e.address(i)?;
                e.load(T0, address, size, 8, Uop::WHOLE);
                e.store(b, address, size);
                e.by_word(Uop::MOVE, b, (b, T0), size, 0);
            } else {
                let (a, _) = general(i.op0_register())?;
                e.by_word(Uop::MOVE, T0, (T0, a), 8, 0);
                e.by_word(Uop::MOVE, a, (a, b), size, 0);
                e.by_word(Uop::MOVE, b, (b, T0), size, 0);
            }
        }
        M::Push => push(e, i)?,
        M::Pop => {
            let (to, size) = general(i.op0_register()).filter(|of| of.1 == 8 && of.0 != RSP)?;
            e.load(to, Address::at(RSP, 0), size, 8, 0);
            e.move_stack(8);
        }
        M::Leave => {
            e.by_word(Uop::MOVE, RSP, (RSP, RBP), 8, 0);
            e.load(RBP, Address::at(RSP, 0), 8, 8, 0);
            e.move_stack(8);
        }
        M::Movsb | M::Movsw | M::Movsd | M::Movsq | M::Stosb | M::Stosw | M::Stosd | M::Stosq
            if i.is_string_instruction() =>
        {
            string(e, i);
        }
        _ => return vectors(e, i).or_else(|| by_condition(e, i)),
    }
    Some(())
}

/// Moves of vectors of 16 bytes, as structures are copied with, and those that make them 0.
fn vectors(e: &mut Emitter, i: &Instruction) -> Option<()> {
    use Mnemonic as M;
    let whole = |e: &mut Emitter| {
        if i.op0_kind() == OpKind::Memory {
            let (low, high) = vector(i.op1_register())?;
            let address = e.address(i)?;
            e.store(low, address, 8);
            e.store(high, address.plus(8)?, 8);
        } else if i.op1_kind() == OpKind::Memory {
            let (low, high) = vector(i.op0_register())?;
            let address = e.address(i)?;
            e.load(low, address, 8, 8, Uop::WHOLE);
            e.load(high, address.plus(8)?, 8, 8, Uop::WHOLE);
        } else {
            let (to, from) = (vector(i.op0_register())?, vector(i.op1_register())?);
            e.by_word(Uop::MOVE, to.0, (to.0, from.0), 8, 0);
            e.by_word(Uop::MOVE, to.1, (to.1, from.1), 8, 0);
        }
        Some(())
    };
    match i.mnemonic() {
        M::Movups
        | M::Movaps
        | M::Movdqu
        | M::Movdqa
        | M::Movupd
        | M::Movapd
        | M::Lddqu
        | M::Vmovups
        | M::Vmovaps
        | M::Vmovdqu
        | M::Vmovdqa
        | M::Vmovupd
        | M::Vmovapd => whole(e)?,
        M::Movq | M::Vmovq | M::Movd | M::Vmovd | M::Movsd | M::Vmovsd | M::Movss | M::Vmovss => {
            part(e, i)?;
        }
        M::Pxor | M::Xorps | M::Xorpd | M::Vpxor | M::Vxorps | M::Vxorpd => {
            let last = i.op_count() - 1;
            let is_zero = i.op_kind(last) == OpKind::Register
                && i.op_register(last) == i.op_register(last - 1);
            let (low, high) = vector(i.op0_register()).filter(|_| is_zero)?;
            e.constant(low, 0);
            e.constant(high, 0);
        }
        _ => return None,
    }
    Some(())
}

/// Moves of the lowest bytes of a vector.
fn part(e: &mut Emitter, i: &Instruction) -> Option<()> {
    let size: u8 = match i.mnemonic() {
        Mnemonic::Movq | Mnemonic::Vmovq | Mnemonic::Movsd | Mnemonic::Vmovsd => 8,
        _ => 4,
    };
    if i.op_count() != 2 {
        return None;
    }
    match (i.op0_kind(), i.op1_kind()) {
        (OpKind::Memory, OpKind::Register) => {
            let (low, _) = vector(i.op1_register())?;
            let address = e.address(i)?;
            e.store(low, address, size);
        }
        (OpKind::Register, OpKind::Memory) => {
            let (low, high) = vector(i.op0_register())?;
            let address = e.address(i)?;
            e.load(low, address, size, 8, Uop::WHOLE);
            e.constant(high, 0);
        }
        (OpKind::Register, OpKind::Register) => {
            let (to, from) = (i.op0_register(), i.op1_register());
            if let Some((to, width)) = general(to) {
                let (low, _) = vector(from)?;
                e.by_word(Uop::MOVE, to, (to, low), width.min(size), 0);
            } else if let Some((from, _)) = general(from) {
                let (low, high) = vector(to)?;
                e.by_word(Uop::MOVE, low, (low, from), size, 0);
                e.constant(high, 0);
            } else if size == 8 && matches!(i.mnemonic(), Mnemonic::Movq | Mnemonic::Vmovq) {
                let (to, from) = (vector(to)?, vector(from)?);
                e.by_word(Uop::MOVE, to.0, (to.0, from.0), 8, 0);
                e.constant(to.1, 0);
            } else {
                return None;
            }
        }
        _ => return None,
    }
    Some(())
}

fn extend(e: &mut Emitter, (to, width): (u8, u8), (from, size): (u8, u8)) {
    if width == 8 {
        return e.by_word(Uop::SIGNED, to, (from, Uop::NONE), size, Uop::WHOLE);
    }
    e.by_word(Uop::SIGNED, T0, (from, Uop::NONE), size, Uop::WHOLE);
    e.by_word(Uop::MOVE, to, (to, T0), width, 0);
}

fn mov(e: &mut Emitter, i: &Instruction) -> Option<()> {
    match (i.op0_kind(), i.op1_kind()) {
        (OpKind::Register, OpKind::Register) => {
            let (to, size) = general(i.op0_register())?;
            let (from, _) = e.source(i, 1, T0)?;
            e.by_word(Uop::MOVE, to, (to, from), size, 0);
        }
        (OpKind::Register, OpKind::Memory) => {
            let (to, size) = general(i.op0_register())?;
            let address = e.address(i)?;
            e.load(to, address, size, size, 0);
        }
        (OpKind::Memory, OpKind::Register) => {
            let (from, size) = e.source(i, 1, T0)?;
            let address = e.address(i)?;
            e.store(from, address, size);
        }
        (OpKind::Memory, _) => {
            let size = i.memory_size().size() as u8;
            let address = e.address(i)?;
            e.constant(T0, i.immediate(1));
            e.store(T0, address, size);
        }
        (OpKind::Register, _) => {
            let (to, size) = general(i.op0_register())?;
            let value = i.immediate(1);
            match size {
                8 => e.constant(to, value),
                4 => e.constant(to, value & 0xffff_ffff),
                // The cast keeps the bytes that count.
                _ => e.by_value(Uop::OR, to, Uop::NONE, value as i32, size, 0),
            }
        }
        _ => return None,
    }
    Some(())
}

/// Two operands, of which the first is written unless it is only `compared`.
fn binary(e: &mut Emitter, i: &Instruction, code: u8, sets: u8, writes: bool) -> Option<()> {
    let is_register = |n| i.op_kind(n) == OpKind::Register;
    let same = is_register(0) && is_register(1) && i.op0_register() == i.op1_register();
    if same && writes && matches!(code, Uop::XOR | Uop::SUB) {
        let (to, size) = general(i.op0_register())?;
        if size >= 4 {
            e.by_value(Uop::AND, to, Uop::NONE, 0, size, Uop::SETS_RESULT);
            return Some(());
        }
    }
    let (a, size) = e.source(i, 0, T0)?;
    if writes && is_register(0) {
        // One that is the second byte of another is not written so.
        general(i.op0_register())?;
    }
    let address = match i.op0_kind() {
        OpKind::Memory if writes => Some(e.address(i)?),
        _ => None,
    };
    let flags = if writes { sets } else { sets | Uop::NO_RESULT };
    match i.op1_kind() {
        OpKind::Register | OpKind::Memory => {
            let (b, _) = e.source(i, 1, T1)?;
            e.by_word(code, a, (a, b), size, flags);
        }
        _ => {
            // Immediates of 64 bits are sign-extended from 32; the casts keep the bytes that count.
            e.by_value(code, a, a, i.immediate(1) as i32, size, flags);
        }
    }
    if let Some(address) = address {
        e.store(a, address, size);
    }
    Some(())
}

/// One operand, which is read and written.
fn unary(
    e: &mut Emitter,
    i: &Instruction,
    operation: impl Fn(&mut Emitter, u8, u8, u8),
) -> Option<()> {
    if i.op0_kind() == OpKind::Register {
        general(i.op0_register())?;
    }
    let (a, size) = e.source(i, 0, T0)?;
    operation(e, a, a, size);
    if i.op0_kind() == OpKind::Memory {
        let address = e.address(i)?;
        e.store(a, address, size);
    }
    Some(())
}

fn multiply(e: &mut Emitter, i: &Instruction) -> Option<()> {
    match i.op_count() {
        1 => {
            let (b, size) = e.source(i, 0, T0).filter(|(_, size)| *size >= 4)?;
            e.by_word(Uop::MUL, RAX, (RAX, b), size, 0);
            e.push(Uop {
                code: Uop::FORGET,
                value: 1 << RDX,
                flags: Uop::SETS_RESULT,
                ..Uop::default()
            });
        }
        2 => {
            let (to, size) = general(i.op0_register())?;
            let (b, _) = e.source(i, 1, T0)?;
            e.by_word(Uop::MUL, to, (to, b), size, 0);
        }
        _ => {
            let (to, size) = general(i.op0_register())?;
            let (a, _) = e.source(i, 1, T0)?;
            // As above.
            e.by_value(Uop::MUL, to, a, i.immediate(2) as i32, size, 0);
        }
    }
    Some(())
}

fn shift(e: &mut Emitter, i: &Instruction, code: u8) -> Option<()> {
    if i.op0_kind() == OpKind::Register {
        general(i.op0_register())?;
    }
    let (a, size) = e.source(i, 0, T0)?;
    match i.op1_kind() {
        OpKind::Register => e.by_word(code, a, (a, RCX), size, Uop::SETS_RESULT),
        _ => {
            let count = i32::from(i.immediate8());
            e.by_value(code, a, a, count, size, Uop::SETS_RESULT);
        }
    }
    if i.op0_kind() == OpKind::Memory {
        let address = e.address(i)?;
        e.store(a, address, size);
    }
    Some(())
}

fn turn(e: &mut Emitter, i: &Instruction) -> Option<()> {
    let (a, size) = general(i.op0_register())?;
    if i.op1_kind() == OpKind::Register {
        return None;
    }
    let (bits, count) = (8 * i32::from(size), i32::from(i.immediate8()));
    let left = match i.mnemonic() {
        Mnemonic::Rol => count,
        _ => bits - count % bits,
    };
    e.by_value(Uop::ROL, a, a, left % bits, size, 0);
    Some(())
}

fn push(e: &mut Emitter, i: &Instruction) -> Option<()> {
    let from = match i.op0_kind() {
        OpKind::Register | OpKind::Memory => {
            let (from, size) = e.source(i, 0, T0)?;
            if size != 8 {
                return None;
            }
            from
        }
        _ => {
            e.constant(T0, i.immediate(0));
            T0
        }
    };
    e.store(from, Address::at(RSP, -8), 8);
    e.move_stack(-8);
    Some(())
}

/// String instructions upwards. Of repeated ones only the first line is read; what they write is
/// taken for what was there.
fn string(e: &mut Emitter, i: &Instruction) {
    use Mnemonic as M;
    let copies = matches!(i.mnemonic(), M::Movsb | M::Movsw | M::Movsd | M::Movsq);
    let size = i.memory_size().size() as u8;
    let (source, to) = (Address::at(RSI, 0), Address::at(RDI, 0));
    let repeated = i.has_rep_prefix();
    let scale = size.trailing_zeros() as u8;
    let move_on = |e: &mut Emitter, register: u8| match repeated {
        true => e.lea(
            register,
            Address {
                a: register,
                b: RCX,
                scale,
                value: 0,
            },
            8,
        ),
        false => e.by_value(Uop::ADD, register, register, i32::from(size), 8, 0),
    };
    match (copies, repeated) {
        (true, true) => {
            e.touch(source, 64);
            e.blur(to, 64);
        }
        (false, true) => e.blur(to, 64),
        (true, false) => {
            e.load(T0, source, size, 8, Uop::WHOLE);
            e.store(T0, to, size);
        }
        (false, false) => e.store(RAX, to, size),
    }
    if copies {
        move_on(e, RSI);
    }
    move_on(e, RDI);
    if repeated {
        e.constant(RCX, 0);
    }
}

/// Moves and sets by a condition, and those that are none of what is followed.
fn by_condition(e: &mut Emitter, i: &Instruction) -> Option<()> {
    let condition = condition(i)?;
    let name = i.mnemonic();
    let borrows = matches!(name, Mnemonic::Sbb | Mnemonic::Adc);
    if borrows || i.is_jcc_short_or_near() {
        return None;
    }
    e.carry_is_wanted(condition);
    if i.op_count() == 2 {
        let (to, size) = general(i.op0_register())?;
        let (a, _) = e.source(i, 1, T0)?;
        e.push(Uop {
            code: Uop::MOVE_IF,
            to,
            a,
            size,
            scale: condition,
            ..Uop::default()
        });
        return Some(());
    }
    e.push(Uop {
        code: Uop::SET_IF,
        to: T0,
        scale: condition,
        ..Uop::default()
    });
    if i.op0_kind() == OpKind::Memory {
        let address = e.address(i)?;
        e.store(T0, address, 1);
    } else {
        let (to, _) = general(i.op0_register())?;
        e.by_word(Uop::MOVE, to, (to, T0), 1, 0);
    }
    Some(())
}

/// The condition that an instruction depends on, as the processor encodes it.
pub(super) fn condition(i: &Instruction) -> Option<u8> {
    use iced_x86::ConditionCode as C;
    Some(match i.condition_code() {
        C::None => return None,
        C::o => 0,
        C::no => 1,
        C::b => 2,
        C::ae => 3,
        C::e => 4,
        C::ne => 5,
        C::be => 6,
        C::a => 7,
        C::s => 8,
        C::ns => 9,
        C::p => 10,
        C::np => 11,
        C::l => 12,
        C::ge => 13,
        C::le => 14,
        C::g => 15,
    })
}

impl Emitter {
    /// Has an addition before leave its carry, if a condition depends on that.
    pub(super) fn carry_is_wanted(&mut self, condition: u8) {
        let Some(uop) = self.flags.and_then(|at| self.uops.get_mut(at)) else {
            return;
        };
        if condition >> 1 == 1 && uop.code == Uop::ADD {
            uop.flags = uop.flags & !Uop::SETS | Uop::SETS_CARRY;
        }
    }
}
