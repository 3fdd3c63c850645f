//! The form in which the handler gets micro-operations.

/// A micro-operation: 16 bytes, in C little-endian
///
/// ```c
/// struct uop {
///     u8 code, to, a, b;
///     u8 scale, size, width, flags;
///     s32 value;
///     u32 target;
/// };
/// ```
///
/// `to`, `a` and `b` are numbers of words: 0 to 15 the general registers in the processor's order,
/// 16 the load bias of the image, 17 and 18 the bases of FS and GS, 19 zero, 20 to 31 for the
/// translation's own use, 32 + 2n and 33 + 2n the lower and the upper half of vector register n of the
/// first sixteen. An address is `a + (b << scale) + value`. A word that is written with
/// fewer than eight bytes keeps its others if these are one or two, and is zero above if they are
/// four, unless the flag [`WHOLE`](Self::WHOLE) is set.
///
/// A result is known if all of its operands are. A way ends at a branch that depends on what is not.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Uop {
    /// What it does.
    pub code: u8,
    /// The word that it writes, or stores.
    pub to: u8,
    /// The first operand, or an address's base.
    pub a: u8,
    /// The second operand, or an address's index.
    pub b: u8,
    /// How far the index is shifted (0 to 3); of operations on a condition its number, as the
    /// processor encodes it (0 to 15).
    pub scale: u8,
    /// Bytes of the operands, or of memory.
    pub size: u8,
    /// Bytes of the word that a load writes.
    pub width: u8,
    /// Bits that the constants below name.
    pub flags: u8,
    /// An immediate operand or a displacement.
    pub value: i32,
    /// The number of the micro-operation that a jump leads to.
    pub target: u32,
}

impl Uop {
    /// The way ends.
    pub const END: u8 = 0;
    /// `to = b`
    pub const MOVE: u8 = 1;
    /// `to = a + b`
    pub const ADD: u8 = 2;
    /// `to = a - b`
    pub const SUB: u8 = 3;
    /// `to = a & b`
    pub const AND: u8 = 4;
    /// `to = a | b`
    pub const OR: u8 = 5;
    /// `to = a ^ b`
    pub const XOR: u8 = 6;
    /// `to = a * b`
    pub const MUL: u8 = 7;
    /// `to = a << b`
    pub const SHL: u8 = 8;
    /// `to = a >> b`, zeros coming in.
    pub const SHR: u8 = 9;
    /// `to = a >> b`, the sign coming in.
    pub const SAR: u8 = 10;
    /// `to = a` turned left by `b`.
    pub const ROL: u8 = 11;
    /// `to = a`, sign-extended from `size` bytes.
    pub const SIGNED: u8 = 12;
    /// `to = a / b`, unsigned.
    pub const DIV: u8 = 13;
    /// `to = a % b`, unsigned.
    pub const REM: u8 = 14;
    /// `to` is loaded.
    pub const LOAD: u8 = 16;
    /// `to` is stored.
    pub const STORE: u8 = 17;
    /// Up to 64 bytes are loaded into what is not followed.
    pub const TOUCH: u8 = 18;
    /// Up to 64 bytes are stored that are not known.
    pub const BLUR: u8 = 19;
    /// `to` is the address itself.
    pub const ADDRESS: u8 = 20;
    /// `to` is `target << 32 | value`.
    pub const CONSTANT: u8 = 21;
    /// `to = a` if the condition holds.
    pub const MOVE_IF: u8 = 22;
    /// `to` is 1 if the condition holds, else 0.
    pub const SET_IF: u8 = 23;
    /// Goes on at `target` if the condition holds: the instruction at the image address `value`,
    /// whose code is read, as of all jumps.
    pub const JUMP_IF: u8 = 24;
    /// Goes on at `target`.
    pub const JUMP: u8 = 25;
    /// Goes on at `target` if `a` is 0.
    pub const JUMP_IF_ZERO: u8 = 26;
    /// Goes on at the image address `value`.
    pub const GO: u8 = 27;
    /// Goes on at the process address `a`.
    pub const GO_TO: u8 = 28;
    /// The words whose bits are set in `target << 32 | value` are not known any more.
    pub const FORGET: u8 = 29;

    /// `value` is the second operand.
    pub const IMMEDIATE: u8 = 1;
    /// Only the flags are written.
    pub const NO_RESULT: u8 = 2;
    /// All of the word is written.
    pub const WHOLE: u8 = 4;
    /// What is loaded is sign-extended.
    pub const SIGN: u8 = 8;
    /// The flags are those of a comparison of both operands.
    pub const SETS_COMPARED: u8 = 0x10;
    /// The flags are those of a comparison of the result with 0.
    pub const SETS_RESULT: u8 = 0x20;
    /// The flags are those of a comparison of the result with the first operand, of which only the
    /// carry is right.
    pub const SETS_CARRY: u8 = 0x30;
    /// The carry is the bit of `a` that `b` numbers. With [`FORGET`](Self::FORGET), as with any of
    /// these, the flags are not known any more.
    pub const SETS_BIT: u8 = 0x40;
    /// All of these.
    pub const SETS: u8 = 0x70;

    /// The word that holds the bias.
    pub const BIAS: u8 = 16;
    /// The word that holds the base of FS.
    pub const FS_BASE: u8 = 17;
    /// The word that holds the base of GS.
    pub const GS_BASE: u8 = 18;
    /// The word that is 0.
    pub const NONE: u8 = 19;

    /// As the handler reads it.
    pub fn to_bytes(self) -> [u8; 16] {
        let [v0, v1, v2, v3] = self.value.to_le_bytes();
        let [t0, t1, t2, t3] = self.target.to_le_bytes();
        let Self { code, to, a, b, .. } = self;
        let Self {
            scale,
            size,
            width,
            flags,
            ..
        } = self;
        [
            code, to, a, b, scale, size, width, flags, v0, v1, v2, v3, t0, t1, t2, t3,
        ]
    }
}
