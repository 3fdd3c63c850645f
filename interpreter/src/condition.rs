//! The conditions of branches, moves and sets, as a table over the flags.

use crate::flag::Flag;

/// When a condition holds.
#[derive(Clone, Copy)]
pub(crate) struct Condition {
    /// The flags that it depends on.
    pub(crate) needs: u64,
    /// Whether the condition holds: a bit for each state of CF, PF, ZF, SF and OF.
    pub(crate) holds: u32,
}

/// Conditions by the numbers of the decoder, which come in pairs: a condition and its opposite.
pub(crate) const CONDITIONS: [Condition; 17] = {
    let never = Condition {
        needs: u64::MAX,
        holds: 0,
    };
    let mut all = [never; 17];
    let mut number = 1;
    while number < all.len() {
        all[number] = condition_of(number - 1);
        number += 1;
    }
    all
};

const fn condition_of(number: usize) -> Condition {
    let (c, p, z) = (Flag::Cf as u64, Flag::Pf as u64, Flag::Zf as u64);
    let (s, o) = (Flag::Sf as u64, Flag::Of as u64);
    let mut condition = Condition {
        needs: [o, c, z, c | z, s, p, s | o, z | s | o][number / 2],
        holds: 0,
    };
    let mut state: u32 = 0;
    while state < 32 {
        let (carry, parity, zero) = (state & 1, state >> 1 & 1, state >> 2 & 1);
        let (sign, overflow) = (state >> 3 & 1, state >> 4);
        let less = sign ^ overflow;
        let of_pair = [
            overflow,
            carry,
            zero,
            carry | zero,
            sign,
            parity,
            less,
            zero | less,
        ];
        let holds = of_pair[number / 2] ^ number as u32 & 1;
        condition.holds |= holds << state;
        state += 1;
    }
    condition
}

#[cfg(test)]
mod tests {
    use iced_x86::ConditionCode;

    use crate::flag::Flag;
    use crate::rflags::Flags;

    /// Of flags that are known a condition says the same as of flags that are perhaps not, and of
    /// flags that are not known it says only what those decide that are.
    #[test]
    fn conditions() {
        let flags = [Flag::Cf, Flag::Pf, Flag::Zf, Flag::Sf, Flag::Of];
        for state in 0..243_u32 {
            let mut some = Flags::UNKNOWN;
            for (i, flag) in flags.into_iter().enumerate() {
                let value =
                    [None, Some(false), Some(true)][(state / 3_u32.pow(i as u32) % 3) as usize];
                some.set(flag, value);
            }
            for condition in ConditionCode::values() {
                assert_eq!(
                    some.condition(condition),
                    some.partial_condition(condition),
                    "{condition:?} of {some:?}"
                );
            }
        }
    }
}
