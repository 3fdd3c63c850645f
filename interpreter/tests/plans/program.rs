//! Random programs, and a world for them to run in.

use iced_x86::{Code, Encoder, Instruction, MemoryOperand, Register};
use interpreter::{
    Code as CodeSource, Decoded, Fetched, Limits, Memory, Registers, Sources, StopReason,
    is_nowhere,
};

/// Image address of the first instruction.
pub(crate) const START: u64 = 0x40_1000;
/// Process addresses are this much above image addresses.
pub(crate) const BIAS: u64 = 0x7f00_0000_0000;
/// What windows and plans go by.
pub(crate) const LIMITS: Limits = Limits {
    instructions: 16,
    steps: 32,
    bytes: 512,
    fs_base: true,
    gs_base: false,
};

/// Random numbers, the same for the same seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Memory made of a seed: words that are small numbers or lead to other memory, and pages that are
/// not there.
#[derive(Clone, Copy)]
pub(crate) struct World {
    pub(crate) seed: u64,
    /// One page in so many is missing; 0: none.
    pub(crate) missing: u64,
}

impl World {
    fn byte(self, address: u64) -> Option<u8> {
        let page = mix(self.seed ^ address >> 12);
        let missing = self.missing > 0 && page.is_multiple_of(self.missing);
        if missing || is_nowhere(address) {
            return None;
        }
        let hash = mix(self.seed ^ address >> 3);
        let word = match hash >> 60 {
            0..6 => hash & 0xff,
            6..8 => (hash & 0xff).wrapping_neg(),
            _ => hash & 0x0fff_ffff_fff8,
        };
        Some((word >> (8 * (address & 7))) as u8)
    }
}

impl Memory for World {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        for (i, place) in bytes.iter_mut().enumerate() {
            match self.byte(address.wrapping_add(i as u64)) {
                Some(byte) => *place = byte,
                None => return false,
            }
        }
        true
    }
}

/// Instructions one behind the other from [`START`] on.
#[derive(Clone)]
pub(crate) struct Program {
    bytes: Vec<u8>,
    decoded: Vec<(u64, Decoded)>,
}

impl CodeSource for Program {
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        let at = pc.wrapping_sub(BIAS);
        let index = self.decoded.binary_search_by_key(&at, |(at, _)| *at);
        let (_, instruction) = index
            .ok()
            .and_then(|index| self.decoded.get(index))
            .ok_or(StopReason::NotMapped)?;
        Ok(Fetched {
            instruction,
            bias: BIAS,
            mark: 0,
        })
    }
}

impl Program {
    /// A program of whole instructions.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let mut decoded = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let address = START + at as u64;
            let instruction = Decoded::new(&bytes[at..], address).expect("the code is valid");
            at += instruction.len();
            decoded.push((address, instruction));
        }
        Self {
            bytes: bytes.to_vec(),
            decoded,
        }
    }

    /// A random program; with branches or straight on.
    pub(crate) fn random(random: &mut Random, branches: bool) -> Self {
        let mut pieces = Vec::new();
        while pieces.len() < 24 {
            pieces.push(match random.below(20) {
                0..3 if branches => Piece::Branch(random.below(16) as u8),
                3 if branches => Piece::Jump,
                4 if branches => Piece::Call,
                _ => Piece::Plain(plain(random, branches)),
            });
        }
        let mut starts = Vec::new();
        let mut end = 0;
        for piece in &pieces {
            starts.push(end);
            end += piece.len();
        }
        let mut bytes = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            // Mostly a little ahead, as compilers do.
            let ahead = index + 2 + random.below(5) as usize;
            let to = if random.below(4) > 0 && ahead < pieces.len() {
                ahead
            } else {
                random.below(pieces.len() as u64) as usize
            };
            piece.write(&mut bytes, starts[to]);
        }
        Self::new(&bytes)
    }

    /// The code, for messages.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

enum Piece {
    Plain(Vec<u8>),
    Branch(u8),
    Jump,
    Call,
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Plain(bytes) => bytes.len(),
            Self::Branch(_) => 6,
            Self::Jump | Self::Call => 5,
        }
    }

    fn write(&self, bytes: &mut Vec<u8>, to: usize) {
        let distance = to as i32 - (bytes.len() + self.len()) as i32;
        match self {
            Self::Plain(plain) => return bytes.extend(plain),
            Self::Branch(condition) => bytes.extend([0x0f, 0x80 | condition]),
            Self::Jump => bytes.push(0xe9),
            Self::Call => bytes.push(0xe8),
        }
        bytes.extend(distance.to_le_bytes());
    }
}

/// Few registers, so that values travel; none is rsp, which stays a stack pointer.
const WORDS: [Register; 7] = [
    Register::RAX,
    Register::RCX,
    Register::RBX,
    Register::RBP,
    Register::RSI,
    Register::RDI,
    Register::R13,
];

fn plain(random: &mut Random, branches: bool) -> Vec<u8> {
    use Code as C;
    let (a, b) = (random.of(&WORDS), random.of(&WORDS));
    let half = |register: Register| Register::EAX + register.number() as u32;
    let bytes_of = |register: Register| Register::AX + register.number() as u32;
    let (a4, b4, a2) = (half(a), half(b), bytes_of(a));
    let m = memory(random);
    let number = random.below(300) as i32 - 100;
    let instruction = match random.below(if branches { 46 } else { 43 }) {
        0..6 => Instruction::with2(C::Mov_r64_rm64, a, m),
        6..8 => Instruction::with2(C::Mov_r32_rm32, a4, m),
        8 => Instruction::with2(C::Mov_rm64_r64, m, a),
        9 => Instruction::with2(C::Mov_rm32_r32, m, a4),
        10 => Instruction::with2(C::Mov_rm8_r8, m, Register::AL),
        11 => Instruction::with2(C::Mov_r64_rm64, a, b),
        12 => Instruction::with2(C::Mov_r32_rm32, a4, b4),
        13 => Instruction::with2(C::Movzx_r32_rm8, a4, m),
        14 => Instruction::with2(C::Movzx_r32_rm16, a4, m),
        15 => Instruction::with2(C::Movsx_r64_rm8, a, m),
        16 => Instruction::with2(C::Movsx_r32_rm16, a4, m),
        17 => Instruction::with2(C::Movsxd_r64_rm32, a, m),
        18 => Instruction::with2(C::Movsxd_r64_rm32, a, b4),
        19 | 20 => Instruction::with2(C::Lea_r64_m, a, m),
        21 => Instruction::with2(C::Lea_r32_m, a4, m),
        22 | 23 => Instruction::with2(C::Add_rm64_imm32, a, number),
        24 => Instruction::with2(C::Sub_rm32_imm32, a4, number),
        25 | 26 => Instruction::with2(C::Add_r64_rm64, a, b),
        27 => Instruction::with2(C::Add_r64_rm64, a, m),
        28 => Instruction::with2(C::Add_rm64_r64, m, a),
        29 => Instruction::with2(C::Shl_rm64_imm8, a, random.below(5) as i32),
        30 => Instruction::with2(C::Shl_rm32_imm8, a4, random.below(5) as i32),
        31 => Instruction::with3(C::Imul_r64_rm64_imm32, a, b, random.of(&[3, 24, 40, 7, 0])),
        32 => Instruction::with2(C::And_rm32_imm32, a4, random.of(&[0xff, 0xffff, 0, 15])),
        33 => Instruction::with2(C::Xor_r32_rm32, a4, a4),
        34 => Instruction::with1(C::Push_r64, a),
        35 => Instruction::with1(C::Pop_r64, a),
        36 => Instruction::with2(C::Cmp_rm32_r32, m, a4),
        37 => Instruction::with2(C::Cmovne_r64_rm64, a, m),
        38 => Instruction::with1(C::Inc_rm32, m),
        39 => Instruction::with2(C::Xchg_rm64_r64, a, b),
        40 => Instruction::with2(C::Mov_r16_rm16, a2, m),
        41 => Ok(Instruction::with(C::Cdqe)),
        42 => Instruction::with_lodsq(64, Register::None, iced_x86::RepPrefixKind::None),
        43 => Ok(Instruction::with(C::Retnq)),
        44 => Instruction::with1(C::Jmp_rm64, m),
        _ => Instruction::with2(C::Test_rm64_r64, a, b),
    };
    let instruction = instruction.expect("the operands fit the code");
    let mut encoder = Encoder::new(64);
    encoder
        .encode(&instruction, START)
        .expect("the instruction can be encoded");
    encoder.take_buffer()
}

fn memory(random: &mut Random) -> MemoryOperand {
    let base = random.of(&WORDS);
    let displacement = random.below(12) as i64 * 8 - 16 + random.of(&[0, 0, 0, 1, 4]);
    match random.below(12) {
        0..2 => MemoryOperand::with_base_displ(Register::RSP, displacement.max(0)),
        2 => MemoryOperand::with_base_displ(Register::RIP, (START + 0x5000) as i64),
        3 => MemoryOperand::new(
            Register::None,
            Register::None,
            1,
            0x28,
            4,
            false,
            Register::FS,
        ),
        4..7 => {
            let (index, scale) = (random.of(&WORDS), random.of(&[1, 2, 4, 8]));
            MemoryOperand::with_base_index_scale_displ_size(base, index, scale, displacement, 1)
        }
        _ => MemoryOperand::with_base_displ(base, displacement),
    }
}

/// Registers to start from: pointers and small numbers.
pub(crate) fn sources(random: &mut Random) -> Sources {
    let mut gpr = [0; 16];
    for word in &mut gpr {
        *word = match random.below(3) {
            0 => random.below(64),
            _ => random.next() & 0x0fff_ffff_fff8,
        };
    }
    gpr[4] = 0x7ffd_1234_5000 + 8 * random.below(512);
    Sources {
        gpr,
        bias: BIAS,
        fs_base: Some(0x7f55_0000_1000),
        gs_base: None,
    }
}

/// The same registers for a window.
pub(crate) fn registers(sources: &Sources, rflags: u64) -> Registers {
    let mut registers = Registers::from_sample(sources.gpr, START + BIAS, rflags);
    registers.fs_base = sources.fs_base;
    registers
}
