//! Ciphers and hashes: AES, carry-less products, SHA-1 and SHA-256.

use iced_x86::Register;

use super::{
    Done, binary, binary_immediate, first_source, immediate, is_legacy, read, unary,
    vector_register, write,
};
use crate::decode::Decoded;
use crate::machine::Machine;
use crate::vector::{HALF, Vector};

/// 128 bits, all known.
type Block = [u8; HALF];

fn block(vector: &Vector, half: usize) -> Option<Block> {
    let mut block = [0; HALF];
    for (i, byte) in block.iter_mut().enumerate() {
        *byte = vector.byte(half * HALF + i)?;
    }
    Some(block)
}

fn set_block(vector: &mut Vector, half: usize, block: Option<Block>) {
    for i in 0..HALF {
        vector.set_byte(half * HALF + i, block.map(|block| block[i]));
    }
}

/// Four 32-bit lanes, all known.
fn words(vector: &Vector) -> Option<[u32; 4]> {
    Some([
        vector.lane(0)?,
        vector.lane(1)?,
        vector.lane(2)?,
        vector.lane(3)?,
    ])
}

fn from_words(words: Option<[u32; 4]>) -> Vector {
    let mut result = Vector::ZERO;
    for i in 0..4 {
        result.set_lane(i, words.map(|words| words[i]));
    }
    result
}

/// A product in the field of AES.
const fn field_product(a: u8, b: u8) -> u8 {
    let (mut a, mut product, mut i) = (a, 0, 0);
    while i < 8 {
        if b >> i & 1 != 0 {
            product ^= a;
        }
        a = (a << 1) ^ ((a >> 7) * 0x1b);
        i += 1;
    }
    product
}

/// The substitution of AES, worked out: the inverse in the field, then an affine map.
const SUBSTITUTE: [u8; 256] = {
    let mut table = [0; 256];
    let mut x = 0;
    while x < 256 {
        // The 254th power is the inverse, and zero of zero.
        let (mut inverse, mut i) = (1, 0);
        while i < 254 {
            inverse = field_product(inverse, x as u8);
            i += 1;
        }
        let b = inverse;
        table[x] =
            b ^ b.rotate_left(1) ^ b.rotate_left(2) ^ b.rotate_left(3) ^ b.rotate_left(4) ^ 0x63;
        x += 1;
    }
    table
};

const RESTORE: [u8; 256] = {
    let mut table = [0; 256];
    let mut x = 0;
    while x < 256 {
        table[SUBSTITUTE[x] as usize] = x as u8;
        x += 1;
    }
    table
};

/// Byte `row` of each column multiplied by the matrix whose first row is `factors`.
fn mix(block: Block, factors: [u8; 4]) -> Block {
    std::array::from_fn(|i| {
        let (column, row) = (i / 4, i % 4);
        (0..4).fold(0, |sum, k| {
            sum ^ field_product(block[4 * column + k], factors[(k + 4 - row) % 4])
        })
    })
}

const MIX: [u8; 4] = [2, 3, 1, 1];
const UNMIX: [u8; 4] = [14, 11, 13, 9];

fn encrypt(state: Block, last: bool) -> Block {
    let shifted: Block = std::array::from_fn(|i| state[(i + 4 * (i % 4)) % HALF]);
    let substituted = shifted.map(|byte| SUBSTITUTE[usize::from(byte)]);
    if last {
        substituted
    } else {
        mix(substituted, MIX)
    }
}

fn decrypt(state: Block, last: bool) -> Block {
    let shifted: Block = std::array::from_fn(|i| state[(i + 12 * (i % 4)) % HALF]);
    let restored = shifted.map(|byte| RESTORE[usize::from(byte)]);
    if last { restored } else { mix(restored, UNMIX) }
}

/// A round on each 128 bits, the key added at its end.
fn round(m: &mut Machine<'_>, d: &Decoded, apply: impl Fn(Block) -> Block) -> Done {
    binary(m, d, |state, key, bytes| {
        let mut result = Vector::ZERO;
        for half in 0..bytes / HALF {
            let value = block(state, half).map(&apply);
            let value = value.zip(block(key, half));
            let value = value.map(|(a, b)| std::array::from_fn(|i| a[i] ^ b[i]));
            set_block(&mut result, half, value);
        }
        result
    })
}

pub(super) fn aesenc(m: &mut Machine<'_>, d: &Decoded) -> Done {
    round(m, d, |state| encrypt(state, false))
}

pub(super) fn aesenclast(m: &mut Machine<'_>, d: &Decoded) -> Done {
    round(m, d, |state| encrypt(state, true))
}

pub(super) fn aesdec(m: &mut Machine<'_>, d: &Decoded) -> Done {
    round(m, d, |state| decrypt(state, false))
}

pub(super) fn aesdeclast(m: &mut Machine<'_>, d: &Decoded) -> Done {
    round(m, d, |state| decrypt(state, true))
}

pub(super) fn aesimc(m: &mut Machine<'_>, d: &Decoded) -> Done {
    unary(m, d, |source, _| {
        let mut result = Vector::ZERO;
        set_block(&mut result, 0, block(source, 0).map(|b| mix(b, UNMIX)));
        result
    })
}

pub(super) fn aeskeygenassist(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let constant = u32::from(immediate(d));
    unary(m, d, |source, _| {
        from_words(words(source).map(|[_, x1, _, x3]| {
            let substitute = |word: u32| {
                u32::from_le_bytes(word.to_le_bytes().map(|b| SUBSTITUTE[usize::from(b)]))
            };
            let (x1, x3) = (substitute(x1), substitute(x3));
            [
                x1,
                x1.rotate_right(8) ^ constant,
                x3,
                x3.rotate_right(8) ^ constant,
            ]
        }))
    })
}

/// The product without carries of two 64-bit halves that the immediate chooses.
pub(super) fn pclmulqdq(m: &mut Machine<'_>, d: &Decoded) -> Done {
    binary_immediate(m, d, |a, b, bytes, control| {
        let mut result = Vector::ZERO;
        for half in 0..bytes / HALF {
            let a = a.lane::<u64>(2 * half + usize::from(control & 1));
            let b = b.lane::<u64>(2 * half + usize::from(control >> 4 & 1));
            let product = a.zip(b).map(|(a, b)| {
                (0..64)
                    .filter(|i| b >> i & 1 != 0)
                    .fold(0, |sum, i| sum ^ u128::from(a) << i)
            });
            set_block(&mut result, half, product.map(u128::to_le_bytes));
        }
        result
    })
}

/// `gf2p8mulb`: products in the field of AES.
pub(super) fn gf2p8mulb(m: &mut Machine<'_>, d: &Decoded) -> Done {
    super::lane_pairs(m, d, field_product)
}

/// The inverse in the field of AES; of zero, zero.
pub(super) fn field_inverse(a: u8) -> u8 {
    // Of 255 elements each to the power of 255 is one.
    (0..253).fold(a, |power, _| field_product(power, a))
}

/// `gf2p8affineqb`: bytes times a matrix of bits, of which each 64-bit lane has its own, plus a
/// constant.
pub(super) fn gf2p8affine(m: &mut Machine<'_>, d: &Decoded, prepare: impl Fn(u8) -> u8) -> Done {
    binary_immediate(m, d, |a, matrix, bytes, constant| {
        Vector::arrange(bytes, |i| {
            let source = prepare(a.byte(i)?);
            let rows = matrix.lane::<u64>(i / 8)?.to_be_bytes();
            let product = (0..8).zip(rows).fold(0, |sum, (bit, row)| {
                sum | (((row & source).count_ones() & 1) as u8) << bit
            });
            Some(product ^ constant)
        })
    })
}

/// Two sources of four words each.
fn on_words(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl Fn([u32; 4], [u32; 4]) -> [u32; 4],
) -> Done {
    debug_assert!(is_legacy(d), "there are no other encodings");
    binary(m, d, |a, b, _| {
        from_words(words(a).zip(words(b)).map(|(a, b)| apply(a, b)))
    })
}

pub(super) fn sha256msg1(m: &mut Machine<'_>, d: &Decoded) -> Done {
    on_words(m, d, |a, b| {
        let next = [a[1], a[2], a[3], b[0]];
        std::array::from_fn(|i| {
            let w = next[i];
            a[i].wrapping_add(w.rotate_right(7) ^ w.rotate_right(18) ^ w >> 3)
        })
    })
}

pub(super) fn sha256msg2(m: &mut Machine<'_>, d: &Decoded) -> Done {
    on_words(m, d, |a, b| {
        let sigma = |w: u32| w.rotate_right(17) ^ w.rotate_right(19) ^ w >> 10;
        let w16 = a[0].wrapping_add(sigma(b[2]));
        let w17 = a[1].wrapping_add(sigma(b[3]));
        let w18 = a[2].wrapping_add(sigma(w16));
        [w16, w17, w18, a[3].wrapping_add(sigma(w17))]
    })
}

/// Two rounds; the message and its constants are in `xmm0`.
pub(super) fn sha256rnds2(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let message = vector_register(m, Register::XMM0);
    let first = first_source(d);
    let upper = read(m, d, first)?;
    let lower = read(m, d, first + 1)?;
    let message = message.lane::<u32>(0).zip(message.lane::<u32>(1));
    let known = words(&upper).zip(words(&lower)).zip(message);
    let result = known.map(|((cdgh, abef), message)| {
        let [mut f, mut e, mut b, mut a] = abef;
        let [mut h, mut g, mut x, mut c] = cdgh;
        for w in [message.0, message.1] {
            let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let choice = e & f ^ !e & g;
            let t1 = h.wrapping_add(s1).wrapping_add(choice).wrapping_add(w);
            let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let majority = a & b ^ a & c ^ b & c;
            let t2 = s0.wrapping_add(majority);
            (h, g, f, e) = (g, f, e, x.wrapping_add(t1));
            (x, c, b, a) = (c, b, a, t1.wrapping_add(t2));
        }
        // The other half of the state is `abef` as it was.
        [f, e, b, a]
    });
    write(m, d, 0, &from_words(result))
}

pub(super) fn sha1msg1(m: &mut Machine<'_>, d: &Decoded) -> Done {
    on_words(m, d, |a, b| {
        let [w3, w2, w1, w0] = a;
        let [_, _, w5, w4] = b;
        [w5 ^ w3, w4 ^ w2, w3 ^ w1, w2 ^ w0]
    })
}

pub(super) fn sha1msg2(m: &mut Machine<'_>, d: &Decoded) -> Done {
    on_words(m, d, |a, b| {
        let [a3, a2, a1, a0] = a;
        let [w15, w14, w13, _] = b;
        let w16 = (a0 ^ w13).rotate_left(1);
        let w17 = (a1 ^ w14).rotate_left(1);
        let w18 = (a2 ^ w15).rotate_left(1);
        [(a3 ^ w16).rotate_left(1), w18, w17, w16]
    })
}

pub(super) fn sha1nexte(m: &mut Machine<'_>, d: &Decoded) -> Done {
    on_words(m, d, |a, b| {
        [b[0], b[1], b[2], b[3].wrapping_add(a[3].rotate_left(30))]
    })
}

/// Four rounds; the immediate chooses their function and constant.
pub(super) fn sha1rnds4(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let kind = usize::from(immediate(d) & 3);
    on_words(m, d, |state, message| {
        const CONSTANTS: [u32; 4] = [0x5a82_7999, 0x6ed9_eba1, 0x8f1b_bcdc, 0xca62_c1d6];
        let [mut x, mut c, mut b, mut a] = state;
        let mut e = 0u32;
        for word in message.into_iter().rev() {
            let mixed = match kind {
                0 => b & c ^ !b & x,
                2 => b & c ^ b & x ^ c & x,
                _ => b ^ c ^ x,
            };
            let next = mixed
                .wrapping_add(a.rotate_left(5))
                .wrapping_add(word)
                .wrapping_add(e)
                .wrapping_add(CONSTANTS[kind]);
            (e, x, c, b, a) = (x, c, b.rotate_left(30), a, next);
        }
        [x, c, b, a]
    })
}
