//! The number that is summarised, made from the words that were seen.

/// Makes a signed number of one word, or of two where it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Projection {
    /// The word as a signed number.
    Identity,
    /// -1, 0 or 1.
    Sign,
    /// The largest of 4096, 64, 16, 8, 4, 2 and 1 that divides the word; 4096 for zero.
    Alignment,
    /// The lowest bits of the value, as an unsigned number; from 64 on, the whole value.
    LowBits(u8),
    /// `count` bits from bit `low` up, as an unsigned number; what lies beyond bit 63 is zero.
    BitField {
        /// The lowest bit.
        low: u8,
        /// How many bits.
        count: u8,
    },
    /// How many bits are set.
    PopulationCount,
    /// How many bits above the highest that is set; 64 for zero.
    LeadingZeros,
    /// The first word less the second, wrapping around.
    Difference,
    /// The first word plus the second, wrapping around.
    Sum,
}

impl Projection {
    /// The number; `second` counts for [`Projection::Difference`] and [`Projection::Sum`] only.
    pub fn apply(self, first: u64, second: u64) -> i64 {
        // The casts between 64-bit words keep the bits; all others are of small numbers.
        match self {
            Self::Identity => first as i64,
            Self::Sign => (first as i64).signum(),
            Self::Alignment => {
                let zeros = first.trailing_zeros();
                let largest = [4096_i64, 64, 16, 8, 4, 2]
                    .into_iter()
                    .find(|size| size.trailing_zeros() <= zeros);
                largest.unwrap_or(1)
            }
            Self::LowBits(count) => low_bits(first, count),
            Self::BitField { low, count } => {
                low_bits(first.checked_shr(u32::from(low)).unwrap_or(0), count)
            }
            Self::PopulationCount => i64::from(first.count_ones()),
            Self::LeadingZeros => i64::from(first.leading_zeros()),
            Self::Difference => first.wrapping_sub(second) as i64,
            Self::Sum => first.wrapping_add(second) as i64,
        }
    }
}

fn low_bits(word: u64, count: u8) -> i64 {
    let mask = 1_u64
        .checked_shl(u32::from(count))
        .map_or(u64::MAX, |bit| bit - 1);
    (word & mask) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every projection at ordinary words and at the extremes.
    #[test]
    fn values() {
        let negative = (-5_i64) as u64;
        let field = |low, count| Projection::BitField { low, count };
        for (projection, first, second, wanted) in [
            (Projection::Identity, negative, 0, -5),
            (Projection::Sign, negative, 0, -1),
            (Projection::Sign, 0, 0, 0),
            (Projection::Sign, 9, 0, 1),
            (Projection::Alignment, 7, 0, 1),
            (Projection::Alignment, 6, 0, 2),
            (Projection::Alignment, 32, 0, 16),
            (Projection::Alignment, 2048, 0, 64),
            (Projection::Alignment, 1 << 40, 0, 4096),
            (Projection::Alignment, 0, 0, 4096),
            (Projection::LowBits(4), 0xabcd, 0, 0xd),
            (Projection::LowBits(0), 0xabcd, 0, 0),
            (Projection::LowBits(64), u64::MAX, 0, -1),
            (Projection::LowBits(255), u64::MAX, 0, -1),
            (field(4, 8), 0xabcd, 0, 0xbc),
            (field(60, 8), u64::MAX, 0, 0xf),
            (field(64, 8), u64::MAX, 0, 0),
            (field(255, 255), u64::MAX, 0, 0),
            (Projection::PopulationCount, u64::MAX, 0, 64),
            (Projection::LeadingZeros, 0, 0, 64),
            (Projection::LeadingZeros, 1, 0, 63),
            (Projection::Difference, 3, 5, -2),
            (Projection::Difference, 0, 1 << 63, i64::MIN),
            (Projection::Sum, u64::MAX, 2, 1),
        ] {
            assert_eq!(
                projection.apply(first, second),
                wanted,
                "{projection:?} of {first:#x}"
            );
        }
    }
}
