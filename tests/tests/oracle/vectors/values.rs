//! What vector instructions are run on.

use crate::fixture::next_random;

/// Values for the lanes: integers at their edges, floating-point numbers of both sizes, random
/// bits.
pub(crate) fn values() -> Vec<u64> {
    const SINGLE: [u32; 24] = [
        0,
        0x8000_0000,
        1,
        0x8000_0001,
        0x007f_ffff,
        0x0080_0000,
        0x3f80_0000,
        0xbf80_0000,
        0x3f00_0000,
        0x4020_0000,
        0xc060_0000,
        0x4b80_0001,
        0x4eff_ffff,
        0x4f00_0000,
        0xcf00_0000,
        0x5f00_0000,
        0x7f7f_ffff,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0x7fa0_1234,
        0xffff_ffff,
        0x3dcc_cccd,
        0x42f6_e979,
    ];
    const DOUBLE: [u64; 24] = [
        0,
        0x8000_0000_0000_0000,
        1,
        0x8000_0000_0000_0001,
        0x0010_0000_0000_0000,
        0x3ff0_0000_0000_0000,
        0xbff0_0000_0000_0000,
        0x3fe0_0000_0000_0000,
        0x4004_0000_0000_0000,
        0xc00c_0000_0000_0000,
        0x41df_ffff_ffc0_0000,
        0x41e0_0000_0000_0000,
        0xc1e0_0000_0020_0000,
        0x43e0_0000_0000_0000,
        0x36a0_0000_0000_0000,
        0x47ef_ffff_f000_0000,
        0x7fef_ffff_ffff_ffff,
        0x7ff0_0000_0000_0000,
        0xfff0_0000_0000_0000,
        0x7ff8_0000_0000_0000,
        0xfff4_1234_5678_9abc,
        0x3fb9_9999_9999_999a,
        0x405e_dccc_cccc_cccd,
        0x4330_0000_0000_0001,
    ];
    const WORD: [u16; 8] = [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff];
    let mut state = 0x7ea1_0fb1;
    let mut random = || {
        state = next_random(state);
        state ^ state >> 29
    };
    (0..1100)
        .map(|i| {
            let pick = (random() >> 20) as usize;
            match i / 4 % 5 {
                0 => DOUBLE[pick % DOUBLE.len()],
                1 => {
                    let other = (random() >> 20) as usize;
                    u64::from(SINGLE[pick % SINGLE.len()])
                        | u64::from(SINGLE[other % SINGLE.len()]) << 32
                }
                2 => (0..4).fold(0, |word, i| {
                    word << 16 | u64::from(WORD[(pick >> (3 * i)) % WORD.len()])
                }),
                3 => random() & 0x0f1f_3f7f_0f1f_3f7f,
                _ => random(),
            }
        })
        .collect()
}
