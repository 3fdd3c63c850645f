//! Values that instructions are likely to get wrong, and others.

use rand::rngs::SmallRng;
use rand::{Rng as _, RngExt as _};

use crate::edges;

/// What the lanes of a block of bytes are taken from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// Any bits.
    Random,
    /// All zeros or all ones, byte by byte.
    Masks,
    /// Integers at the limits of their width.
    Limits,
    /// Small integers.
    Small,
    /// Numbers of single precision.
    Single,
    /// Numbers of double precision.
    Double,
    /// Numbers of half precision.
    Half,
    /// Characters of a small alphabet, the zero among them.
    Text,
}

impl Class {
    pub(crate) const ALL: [Self; 8] = [
        Self::Random,
        Self::Masks,
        Self::Limits,
        Self::Small,
        Self::Single,
        Self::Double,
        Self::Half,
        Self::Text,
    ];
}

/// Bytes of a block: those of the widest vector register.
pub(crate) const BLOCK: usize = 64;
/// Blocks of each class in a pool.
const BLOCKS: usize = 48;

/// Blocks of every class, made anew for each batch: registers and memory are put together from
/// them.
pub(crate) struct Pool {
    blocks: Vec<[u8; BLOCK]>,
}

impl Pool {
    pub(crate) fn new(rng: &mut SmallRng) -> Self {
        let mut blocks = Vec::with_capacity(Class::ALL.len() * BLOCKS);
        for class in Class::ALL {
            blocks.extend((0..BLOCKS).map(|_| block(class, rng)));
        }
        Self { blocks }
    }

    /// A block of a class.
    pub(crate) fn of(&self, class: Class, rng: &mut SmallRng) -> &[u8; BLOCK] {
        &self.blocks[class as usize * BLOCKS + rng.random_range(0..BLOCKS)]
    }

    /// A block of any class.
    pub(crate) fn any(&self, rng: &mut SmallRng) -> &[u8; BLOCK] {
        &self.blocks[rng.random_range(0..self.blocks.len())]
    }
}

fn block(class: Class, rng: &mut SmallRng) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    // Of integers, one width for the whole block.
    let width = [1, 2, 4, 8][rng.random_range(0..4)];
    match class {
        Class::Random => rng.fill_bytes(&mut bytes),
        Class::Masks => bytes.fill_with(|| if rng.random() { 0xff } else { 0 }),
        Class::Text => bytes.fill_with(|| b"\0abcabcABCz\x80\xff"[rng.random_range(0..13)]),
        Class::Limits => lanes(&mut bytes, width, || limit(rng)),
        Class::Small => lanes(&mut bytes, width, || rng.random_range(0..70)),
        Class::Single => lanes(&mut bytes, 4, || u64::from(single(rng))),
        Class::Double => lanes(&mut bytes, 8, || double(rng)),
        Class::Half => lanes(&mut bytes, 2, || u64::from(half(rng))),
    }
    bytes
}

fn lanes(bytes: &mut [u8; BLOCK], width: usize, mut value: impl FnMut() -> u64) {
    for lane in bytes.chunks_mut(width) {
        lane.copy_from_slice(&value().to_le_bytes()[..width]);
    }
}

/// 0, 1, -1, the limits of each width, powers of two and their neighbours.
pub(crate) fn limit(rng: &mut SmallRng) -> u64 {
    let power = 1u64 << rng.random_range(0..64);
    match rng.random_range(0..9) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => power,
        4 => power.wrapping_sub(1),
        5 => power.wrapping_add(1),
        6 => power.wrapping_neg(),
        7 => edges::INTEGERS[rng.random_range(0..edges::INTEGERS.len())],
        _ => edges::LANES[rng.random_range(0..edges::LANES.len())],
    }
}

/// A value for a general register.
pub(crate) fn integer(rng: &mut SmallRng) -> u64 {
    match rng.random_range(0..8) {
        0..=2 => limit(rng),
        3 => rng.random_range(0..80),
        4 => u64::from(rng.random::<u32>()),
        5 => i64::from(rng.random::<i16>()).cast_unsigned(),
        _ => rng.random(),
    }
}

fn single(rng: &mut SmallRng) -> u32 {
    let bits = match rng.random_range(0..8) {
        0..=2 => edges::SINGLES[rng.random_range(0..edges::SINGLES.len())],
        3 => (rng.random_range(-300..300i16) as f32 / 2.0).to_bits(),
        4 => (rng.random::<i32>() as f32).to_bits(),
        // Of like size: sums that cancel, quotients near one.
        5 => 0x3f80_0000 | rng.random::<u32>() & 0x00ff_ffff,
        6 => 0x3f80_0000 | rng.random::<u32>() & 0x7f,
        _ => rng.random(),
    };
    bits ^ u32::from(rng.random::<bool>()) << 31
}

fn double(rng: &mut SmallRng) -> u64 {
    let bits = match rng.random_range(0..8) {
        0..=2 => edges::DOUBLES[rng.random_range(0..edges::DOUBLES.len())],
        3 => (f64::from(rng.random_range(-300..300i16)) / 2.0).to_bits(),
        4 => (rng.random::<i64>() as f64).to_bits(),
        5 => 0x3ff0_0000_0000_0000 | rng.random::<u64>() & 0x001f_ffff_ffff_ffff,
        6 => f64::from(f32::from_bits(rng.random())).to_bits(),
        _ => rng.random(),
    };
    bits ^ u64::from(rng.random::<bool>()) << 63
}

fn half(rng: &mut SmallRng) -> u16 {
    let bits = match rng.random_range(0..3) {
        0 => edges::HALVES[rng.random_range(0..edges::HALVES.len())],
        _ => rng.random::<u16>(),
    };
    bits ^ u16::from(rng.random::<bool>()) << 15
}
