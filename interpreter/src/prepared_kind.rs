//! Which instructions are prepared, and as what.

use iced_x86::{ConditionCode, EncodingKind, Instruction, Mnemonic, OpKind};

use crate::operand::{OperandKind, Operands};
use crate::word::Width;

/// What a prepared instruction does. The letters say where its operands are: in registers (R), in
/// memory (M), in a register or an immediate (X).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum PreparedKind {
    /// Its handler is to be called.
    General,
    Nop,
    MovRX,
    MovRM,
    MovMX,
    MovzxRX,
    MovzxRM,
    MovsxRX,
    MovsxRM,
    Lea,
    AddRX,
    AddRM,
    AddMX,
    SubRX,
    SubRM,
    SubMX,
    AdcRX,
    AdcRM,
    SbbRX,
    SbbRM,
    CmpRX,
    CmpRM,
    CmpMX,
    AndRX,
    AndRM,
    AndMX,
    OrRX,
    OrRM,
    OrMX,
    XorRX,
    XorRM,
    XorMX,
    TestRX,
    TestMX,
    Shl,
    Shr,
    Sar,
    Inc,
    Dec,
    Neg,
    Not,
    ImulRX,
    ImulRM,
    ImulRRI,
    ImulRMI,
    CmovRX,
    CmovRM,
    Setcc,
    VectorRM,
    VectorMR,
    VectorRR,
    VectorZero,
    Push,
    Pop,
    Jcc,
    Jmp,
    JmpR,
    JmpM,
    Call,
    CallR,
    CallM,
    Ret,
}

/// Where the operands of an instruction of two are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OperandPlaces {
    RX,
    RM,
    MX,
}

impl PreparedKind {
    /// How an instruction is prepared that its handler interprets.
    pub(crate) fn of(instruction: &Instruction, operands: &Operands) -> Self {
        use Mnemonic as M;
        use OperandKind as K;
        let kinds = [0, 1, 2].map(|i| operands.get(i).kind);
        let has_memory = kinds.contains(&K::Memory);
        let address = &operands.address;
        let is_plain = match instruction.mnemonic() {
            M::Lea => address.is_sum,
            _ => address.is_sum_in_segment(),
        };
        if has_memory && !is_plain || instruction.has_lock_prefix() {
            return Self::General;
        }
        let places = match kinds {
            [K::Register, K::Register | K::Immediate, K::Other] => Some(OperandPlaces::RX),
            [K::Register, K::Memory, K::Other] => Some(OperandPlaces::RM),
            [K::Memory, K::Register | K::Immediate, K::Other] => Some(OperandPlaces::MX),
            _ => None,
        };
        let has_widths = |count: u32| (0..count).all(|i| operands.get(i).width.is_some());
        let of_two = |rx: Self, rm: Self, mx: Self| match places.filter(|_| has_widths(2)) {
            Some(OperandPlaces::RX) => rx,
            Some(OperandPlaces::RM) => rm,
            Some(OperandPlaces::MX) => mx,
            None => Self::General,
        };
        let is_register = kinds == [K::Register, K::Other, K::Other] && has_widths(1);
        let of_register = |kind: Self| if is_register { kind } else { Self::General };
        let is_full = operands.get(0).width == Some(Width::B64);
        match instruction.mnemonic() {
            M::Nop | M::Endbr64 => Self::Nop,
            M::Mov => of_two(Self::MovRX, Self::MovRM, Self::MovMX),
            M::Movzx => of_two(Self::MovzxRX, Self::MovzxRM, Self::General),
            M::Movsx | M::Movsxd => of_two(Self::MovsxRX, Self::MovsxRM, Self::General),
            M::Lea if kinds[0] == K::Register && has_widths(1) => Self::Lea,
            M::Add => of_two(Self::AddRX, Self::AddRM, Self::AddMX),
            M::Sub => of_two(Self::SubRX, Self::SubRM, Self::SubMX),
            M::Cmp => of_two(Self::CmpRX, Self::CmpRM, Self::CmpMX),
            M::And => of_two(Self::AndRX, Self::AndRM, Self::AndMX),
            M::Or => of_two(Self::OrRX, Self::OrRM, Self::OrMX),
            M::Xor => of_two(Self::XorRX, Self::XorRM, Self::XorMX),
            M::Test => of_two(Self::TestRX, Self::General, Self::TestMX),
            M::Shl | M::Sal => of_two(Self::Shl, Self::General, Self::General),
            M::Shr => of_two(Self::Shr, Self::General, Self::General),
            M::Sar => of_two(Self::Sar, Self::General, Self::General),
            M::Inc => of_register(Self::Inc),
            M::Dec => of_register(Self::Dec),
            M::Neg => of_register(Self::Neg),
            M::Not => of_register(Self::Not),
            M::Adc => of_two(Self::AdcRX, Self::AdcRM, Self::General),
            M::Sbb => of_two(Self::SbbRX, Self::SbbRM, Self::General),
            M::Imul if instruction.op_count() == 3 => match kinds {
                [K::Register, K::Register, K::Immediate] => Self::ImulRRI,
                [K::Register, K::Memory, K::Immediate] => Self::ImulRMI,
                _ => Self::General,
            },
            M::Imul if instruction.op_count() == 2 => {
                of_two(Self::ImulRX, Self::ImulRM, Self::General)
            }
            _ if instruction.condition_code() != ConditionCode::None => {
                Self::of_condition(instruction, kinds, of_two, of_register)
            }
            M::Push if instruction.stack_pointer_increment() == -8 => match kinds {
                [K::Register | K::Immediate, K::Other, K::Other] => Self::Push,
                _ => Self::General,
            },
            M::Pop if instruction.stack_pointer_increment() == 8 => of_register(Self::Pop),
            M::Jmp | M::Call => match (kinds[0], instruction.mnemonic()) {
                (K::NearBranch, M::Jmp) => Self::Jmp,
                (K::NearBranch, _) => Self::Call,
                (K::Register, M::Jmp) if is_full => Self::JmpR,
                (K::Register, _) if is_full => Self::CallR,
                (K::Memory, M::Jmp) if is_full => Self::JmpM,
                (K::Memory, _) if is_full => Self::CallM,
                _ => Self::General,
            },
            M::Ret if instruction.code() == iced_x86::Code::Retnq => Self::Ret,
            _ => Self::of_vector(instruction, kinds),
        }
    }

    fn of_condition(
        instruction: &Instruction,
        kinds: [OperandKind; 3],
        of_two: impl Fn(Self, Self, Self) -> Self,
        of_register: impl Fn(Self) -> Self,
    ) -> Self {
        if instruction.is_jcc_short_or_near() {
            let is_near = kinds[0] == OperandKind::NearBranch;
            return if is_near { Self::Jcc } else { Self::General };
        }
        let name = instruction.mnemonic();
        if CMOV.contains(&name) {
            of_two(Self::CmovRX, Self::CmovRM, Self::General)
        } else if SET.contains(&name) {
            of_register(Self::Setcc)
        } else {
            Self::General
        }
    }

    /// Whole vectors of 16 bytes that are moved or cleared.
    fn of_vector(instruction: &Instruction, kinds: [OperandKind; 3]) -> Self {
        use OperandKind as K;
        let is_vector = |i: u32| {
            instruction.op_kind(i) == OpKind::Register && instruction.op_register(i).is_xmm()
        };
        let is_zero = matches!(
            instruction.mnemonic(),
            Mnemonic::Pxor | Mnemonic::Xorps | Mnemonic::Xorpd
        );
        let name = instruction.mnemonic();
        let moves = is_zero || ALIGNED.contains(&name) || UNALIGNED.contains(&name);
        let is_legacy = instruction.encoding() == EncodingKind::Legacy;
        if !moves || !is_legacy || instruction.op_count() != 2 {
            return Self::General;
        }
        match [is_vector(0), is_vector(1)] {
            [true, true] if is_zero => {
                let is_same = instruction.op0_register() == instruction.op1_register();
                if is_same {
                    Self::VectorZero
                } else {
                    Self::General
                }
            }
            _ if is_zero => Self::General,
            [true, true] => Self::VectorRR,
            [true, false] if kinds[1] == K::Memory => Self::VectorRM,
            [false, true] if kinds[0] == K::Memory => Self::VectorMR,
            _ => Self::General,
        }
    }

    /// Whether the memory operand is read.
    pub(crate) fn loads(self) -> bool {
        use PreparedKind as K;
        matches!(
            self,
            K::MovRM
                | K::MovzxRM
                | K::MovsxRM
                | K::AddRM
                | K::AddMX
                | K::SubRM
                | K::SubMX
                | K::AdcRM
                | K::SbbRM
                | K::CmpRM
                | K::CmpMX
                | K::AndRM
                | K::AndMX
                | K::OrRM
                | K::OrMX
                | K::XorRM
                | K::XorMX
                | K::TestMX
                | K::ImulRM
                | K::ImulRMI
                | K::CmovRM
                | K::JmpM
                | K::CallM
        )
    }

    /// Whether the first operand is written, and is a register.
    pub(crate) fn writes_register(self) -> bool {
        use PreparedKind as K;
        matches!(
            self,
            K::MovRX
                | K::MovRM
                | K::MovzxRX
                | K::MovzxRM
                | K::MovsxRX
                | K::MovsxRM
                | K::Lea
                | K::AddRX
                | K::AddRM
                | K::SubRX
                | K::SubRM
                | K::AdcRX
                | K::AdcRM
                | K::SbbRX
                | K::SbbRM
                | K::AndRX
                | K::AndRM
                | K::OrRX
                | K::OrRM
                | K::XorRX
                | K::XorRM
                | K::Shl
                | K::Shr
                | K::Sar
                | K::Inc
                | K::Dec
                | K::Neg
                | K::Not
                | K::ImulRX
                | K::ImulRM
                | K::ImulRRI
                | K::ImulRMI
                | K::CmovRX
                | K::CmovRM
                | K::Setcc
                | K::Pop
        )
    }
}

/// Moves of vectors whose address must be a multiple of their size, and others.
pub(crate) const ALIGNED: [Mnemonic; 3] = [Mnemonic::Movaps, Mnemonic::Movapd, Mnemonic::Movdqa];
const UNALIGNED: [Mnemonic; 3] = [Mnemonic::Movups, Mnemonic::Movupd, Mnemonic::Movdqu];

const CMOV: [Mnemonic; 16] = [
    Mnemonic::Cmova,
    Mnemonic::Cmovae,
    Mnemonic::Cmovb,
    Mnemonic::Cmovbe,
    Mnemonic::Cmove,
    Mnemonic::Cmovg,
    Mnemonic::Cmovge,
    Mnemonic::Cmovl,
    Mnemonic::Cmovle,
    Mnemonic::Cmovne,
    Mnemonic::Cmovno,
    Mnemonic::Cmovnp,
    Mnemonic::Cmovns,
    Mnemonic::Cmovo,
    Mnemonic::Cmovp,
    Mnemonic::Cmovs,
];
const SET: [Mnemonic; 16] = [
    Mnemonic::Seta,
    Mnemonic::Setae,
    Mnemonic::Setb,
    Mnemonic::Setbe,
    Mnemonic::Sete,
    Mnemonic::Setg,
    Mnemonic::Setge,
    Mnemonic::Setl,
    Mnemonic::Setle,
    Mnemonic::Setne,
    Mnemonic::Setno,
    Mnemonic::Setnp,
    Mnemonic::Setns,
    Mnemonic::Seto,
    Mnemonic::Setp,
    Mnemonic::Sets,
];
