//! Lanes that a mask register picks.

use iced_x86::Register;
use interpreter::{Vector, Word};

use crate::lab::{After, Lab};

/// A vector of these lanes and zeros.
fn vector(lanes: [u32; 4]) -> Vector {
    let mut bytes = [0; 64];
    for (bytes, lane) in bytes.chunks_exact_mut(4).zip(lanes) {
        bytes.copy_from_slice(&lane.to_le_bytes());
    }
    Vector::partial(bytes, u64::MAX)
}

/// The low lanes of a vector register.
fn lanes(after: &After, number: usize) -> [Option<u32>; 4] {
    let vector = &after.outcome.registers.vectors[number];
    std::array::from_fn(|lane| {
        let bytes: Option<Vec<u8>> = (0..4).map(|k| vector.byte(4 * lane + k)).collect();
        Some(u32::from_le_bytes(bytes?.try_into().ok()?))
    })
}

/// A bench with a mask in k1, and four lanes in xmm1.
fn lab(mask: Word) -> Lab {
    let mut lab = Lab::new().reg(Register::RSI, 0x6000);
    lab.registers.masks[1] = mask;
    lab.registers.vectors[1] = vector([10, 20, 30, 40]);
    lab
}

/// Picked lanes move together, and lanes that lie together move to the picked places.
#[test]
fn lanes_move_as_the_mask_says() {
    let compress = [0x62, 0xf2, 0x7d, 0x89, 0x8b, 0xc8]; // vpcompressd xmm0{k1}{z}, xmm1
    let after = lab(Word::known(0b1010)).bytes(&compress).run();
    assert_eq!(lanes(&after, 0), [20, 40, 0, 0].map(Some));
    let expand = [0x62, 0xf2, 0x7d, 0x89, 0x89, 0xc1]; // vpexpandd xmm0{k1}{z}, xmm1
    let after = lab(Word::known(0b1010)).bytes(&expand).run();
    assert_eq!(lanes(&after, 0), [0, 10, 0, 20].map(Some));
    for code in [compress, expand] {
        let after = lab(Word::UNKNOWN).bytes(&code).run();
        assert_eq!(lanes(&after, 0), [None; 4], "{code:x?}");
    }
}

/// Of lanes that are stored at one address the highest stays, and the mask is clear afterwards.
#[test]
fn the_highest_lane_stays() {
    let mut lab = lab(Word::known(0b1111));
    lab.registers.vectors[2] = vector([3, 0, 3, 1]);
    let after = lab
        .bytes(&[0x62, 0xf2, 0x7d, 0x09, 0xa0, 0x0c, 0x96]) // vpscatterdd [rsi+xmm2*4]{k1}, xmm1
        .bytes(&[0x8b, 0x46, 0x0c]) // mov eax, [rsi+12]
        .bytes(&[0x8b, 0x1e]) // mov ebx, [rsi]
        .run();
    assert_eq!(after.get(Register::EAX), Some(30));
    assert_eq!(after.get(Register::EBX), Some(20));
    assert_eq!(after.outcome.registers.masks[1].get(8), Some(0));
}

/// Lanes that are not picked keep what they hold; the others are loaded.
#[test]
fn picked_lanes_are_loaded() {
    let mut lab = lab(Word::known(0b0101));
    lab.registers.vectors[2] = vector([1, 0, 0, 0]);
    let after = lab
        .bytes(&[0xc7, 0x46, 0x04, 7, 0, 0, 0]) // mov dword ptr [rsi+4], 7
        .bytes(&[0xc7, 0x06, 9, 0, 0, 0]) // mov dword ptr [rsi], 9
        .bytes(&[0x62, 0xf2, 0x7d, 0x09, 0x90, 0x0c, 0x96]) // vpgatherdd xmm1{k1}, [rsi+xmm2*4]
        .run();
    assert_eq!(lanes(&after, 1), [7, 20, 9, 40].map(Some));
    assert_eq!(after.outcome.registers.masks[1].get(8), Some(0));
}

/// Each lane tells which lanes below it are its like.
#[test]
fn likes_below() {
    let mut lab = lab(Word::known(0));
    lab.registers.vectors[1] = vector([5, 6, 5, 5]);
    // vpconflictd xmm0, xmm1
    let after = lab.bytes(&[0x62, 0xf2, 0x7d, 0x08, 0xc4, 0xc1]).run();
    assert_eq!(lanes(&after, 0), [0, 0, 0b001, 0b101].map(Some));
}
