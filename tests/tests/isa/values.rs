//! Values that instructions are likely to get wrong, and others.

use rand::rngs::SmallRng;
use rand::{Rng as _, RngExt as _};

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
    match rng.random_range(0..8) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => power,
        4 => power.wrapping_sub(1),
        5 => power.wrapping_add(1),
        6 => power.wrapping_neg(),
        _ => [
            0x7f,
            0x80,
            0x8080_8080_8080_8080,
            0x7f7f_7f7f_7f7f_7f7f,
            0x7fff_7fff_7fff_7fff,
            0x8000_8000_8000_8000,
            0x7fff_ffff_7fff_ffff,
            0x8000_0000_8000_0000,
        ][rng.random_range(0..8)],
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
    let special = [
        0.0,
        1.0,
        0.5,
        1.5,
        f32::INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN_POSITIVE,
        f32::EPSILON,
        2_147_483_648.0,
        2_147_483_520.0,
        9_223_372_036_854_775_808.0,
        4_294_967_296.0,
        f32::from_bits(1),
        f32::from_bits(0x007f_ffff),
        f32::from_bits(0x7f80_0001),
    ];
    let bits = match rng.random_range(0..8) {
        0..=2 => special[rng.random_range(0..special.len())].to_bits(),
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
    let special = [
        0.0,
        1.0,
        0.5,
        1.5,
        f64::INFINITY,
        f64::NAN,
        f64::MAX,
        f64::MIN_POSITIVE,
        f64::EPSILON,
        2_147_483_648.0,
        2_147_483_647.5,
        9_223_372_036_854_775_808.0,
        f64::from(f32::MAX),
        f64::from(f32::MIN_POSITIVE),
        f64::from_bits(1),
        f64::from_bits(0x000f_ffff_ffff_ffff),
        f64::from_bits(0x7ff0_0000_0000_0001),
    ];
    let bits = match rng.random_range(0..8) {
        0..=2 => special[rng.random_range(0..special.len())].to_bits(),
        3 => (f64::from(rng.random_range(-300..300i16)) / 2.0).to_bits(),
        4 => (rng.random::<i64>() as f64).to_bits(),
        5 => 0x3ff0_0000_0000_0000 | rng.random::<u64>() & 0x001f_ffff_ffff_ffff,
        6 => f64::from(f32::from_bits(rng.random())).to_bits(),
        _ => rng.random(),
    };
    bits ^ u64::from(rng.random::<bool>()) << 63
}

fn half(rng: &mut SmallRng) -> u16 {
    let special = [
        0, 0x3c00, 0x7c00, 0x7e00, 0x7c01, 0x7bff, 0x0400, 0x0001, 0x03ff,
    ];
    let bits = match rng.random_range(0..3) {
        0 => special[rng.random_range(0..special.len())],
        _ => rng.random::<u16>(),
    };
    bits ^ u16::from(rng.random::<bool>()) << 15
}
