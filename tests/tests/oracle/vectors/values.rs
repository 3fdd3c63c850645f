//! What vector instructions are run on.

use crate::edges::{DOUBLES, INTEGERS, SINGLES};
use crate::fixture::next_random;

/// Values for the lanes: integers at their edges, floating-point numbers of both sizes, random
/// bits.
pub(crate) fn values() -> Vec<u64> {
    let mut words: Vec<u16> = Vec::new();
    words.extend(INTEGERS.iter().filter_map(|edge| u16::try_from(*edge).ok()));
    let mut state = 0x7ea1_0fb1;
    let mut random = || {
        state = next_random(state);
        state ^ state >> 29
    };
    (0..1100)
        .map(|i| {
            let pick = (random() >> 20) as usize;
            match i / 4 % 5 {
                0 => DOUBLES[pick % DOUBLES.len()],
                1 => {
                    let other = (random() >> 20) as usize;
                    u64::from(SINGLES[pick % SINGLES.len()])
                        | u64::from(SINGLES[other % SINGLES.len()]) << 32
                }
                2 => (0..4).fold(0, |word, i| {
                    word << 16 | u64::from(words[(pick >> (4 * i)) % words.len()])
                }),
                3 => random() & 0x0f1f_3f7f_0f1f_3f7f,
                _ => random(),
            }
        })
        .collect()
}
