//! Values as programs have them: constants, a few, skewed ones, pointers, counters.

use hotlist::Generator;

/// Mixes two words into one that looks random.
pub(super) fn mix(a: u64, b: u64) -> u64 {
    Generator::new(a ^ b.rotate_left(29).wrapping_mul(0x9fb2_1c65_1e98_df25)).next_u64()
}

/// An index below `count`, the first ones most often: the k-th about as often as 1/k.
pub(super) fn skewed(count: usize, coins: &mut Generator) -> usize {
    let index = (count as f64 + 1.0).powf(coins.uniform()) - 1.0;
    (index as usize).min(count.saturating_sub(1))
}

/// A value of a parameter that is known by its hash, in a process, at a time in nanoseconds.
pub(super) fn value(parameter: u64, process: u64, now: u64, coins: &mut Generator) -> u64 {
    let small = parameter >> 40 & 0xff;
    let heap = 0x5500_0000_0000 + ((mix(process, 1) & 0xff_ffff) << 12);
    match parameter % 100 {
        // Most results never vary.
        0..35 => small,
        35..45 => 0x5600_0000_0000 + (parameter >> 20 & 0xf_fff0),
        45..65 => match coins.next_u64() % 100 {
            0..70 => small,
            70..90 => small + 1,
            _ => small.wrapping_sub(1) & 0xffff,
        },
        65..80 => (parameter >> 32 & 0xffff) + skewed(10_000, coins) as u64,
        80..93 => heap + 16 * skewed(1 << 14, coins) as u64,
        _ => now / 1_000 % 100_000_000 + coins.next_u64() % 1_000,
    }
}

/// Whether a branch that is known by its hash is taken this time.
pub(super) fn is_taken(branch: u64, coins: &mut Generator) -> bool {
    let often = [0.0, 0.02, 0.1, 0.5, 0.9, 0.98, 1.0, 1.0][(branch >> 8 & 7) as usize];
    coins.uniform() <= often
}
