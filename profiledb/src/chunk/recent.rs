//! Values as differences from values before them.
//!
//! Programs meet the same values again and again, and addresses near each other. So a value is
//! told by its place among the last distinct ones and the difference from that one, or by itself
//! where that is shorter.

use super::Bad;
use super::bytes::{Reader, folded, length, put};

/// How many of the last values are remembered.
const PLACES: usize = 24;

/// The last distinct values, the latest first.
#[derive(Default)]
pub(super) struct Recent {
    values: Vec<u64>,
}

impl Recent {
    /// Appends what tells `value`: to `places` 0 or the place from 1 on, to `differences` the
    /// value or the difference. A value that is there itself has a place, and no difference:
    /// places from `PLACES + 1` on.
    pub(super) fn put(&mut self, value: u64, places: &mut Vec<u8>, differences: &mut Vec<u8>) {
        let mut best = (length(value), 0, value);
        let mut equal = None;
        for (place, &recent) in self.values.iter().enumerate() {
            if recent == value {
                equal = Some(place);
                break;
            }
            let difference = folded(value.wrapping_sub(recent).cast_signed());
            // What is nearer must be a byte shorter to be worth another place.
            let bytes = length(difference) + u32::from(place > 0);
            if bytes < best.0 {
                best = (bytes, place + 1, difference);
            }
        }
        match equal {
            Some(place) => places.push((PLACES + 1 + place) as u8),
            None => {
                places.push(best.1 as u8);
                put(differences, best.2);
            }
        }
        self.remember(value, equal);
    }

    /// The value that these tell.
    pub(super) fn take(
        &mut self,
        places: &mut Reader<'_>,
        differences: &mut Reader<'_>,
    ) -> Result<u64, Bad> {
        let place = usize::from(places.byte()?);
        let at = |place: usize| {
            let value = self.values.get(place).copied();
            value.ok_or(Bad("refers to a value before the first"))
        };
        let (value, equal) = match place {
            0 => (differences.number()?, None),
            1..=PLACES => {
                let recent = at(place - 1)?;
                let difference = differences.signed()?.cast_unsigned();
                (recent.wrapping_add(difference), None)
            }
            _ => {
                let place = place - PLACES - 1;
                (at(place)?, Some(place))
            }
        };
        // A value that is written as another, though it is there, would come to be there twice.
        if equal.is_none() && self.values.contains(&value) {
            return Err(Bad("tells a value in two ways"));
        }
        self.remember(value, equal);
        Ok(value)
    }

    fn remember(&mut self, value: u64, equal: Option<usize>) {
        match equal {
            Some(place) => self.values[..=place].rotate_right(1),
            None => {
                self.values.truncate(PLACES - 1);
                self.values.insert(0, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values come back as they went in: equal ones, near ones, far ones.
    #[test]
    fn round_trip() {
        let mut state = 1_u64;
        let mut values = Vec::new();
        for n in 0..5_000_u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(n);
            values.push(match state >> 61 {
                0 => 0,
                1 => state,
                2 => u64::MAX - (state >> 40) % 3,
                3 => 0x7fff_ffff_0000 + (state >> 50),
                _ => (state >> 30) % 50,
            });
        }
        let (mut places, mut differences) = (Vec::new(), Vec::new());
        let mut recent = Recent::default();
        for &value in &values {
            recent.put(value, &mut places, &mut differences);
        }
        let (mut places, mut differences) = (Reader::new(&places), Reader::new(&differences));
        let mut recent = Recent::default();
        for &value in &values {
            assert_eq!(recent.take(&mut places, &mut differences), Ok(value));
        }
        assert_eq!((places.left(), differences.left()), (0, 0));
    }
}
