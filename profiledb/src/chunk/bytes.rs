//! Numbers as bytes: what the columns of a chunk are made of.

use super::Bad;

/// The most bytes of a number of 64 bits.
const LONGEST: usize = 10;

/// Appends `n`, seven bits a byte, the lowest first; all bytes but the last have the top bit.
pub(crate) fn put(bytes: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        // The mask leaves what fits.
        bytes.push((n & 0x7f) as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
}

/// How many bytes [`put`] appends.
pub(super) fn length(n: u64) -> u32 {
    (64 - (n | 1).leading_zeros()).div_ceil(7)
}

/// A signed number such that small ones of either sign are small.
pub(super) const fn folded(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)).cast_unsigned()
}

/// What [`folded`] was given.
pub(super) const fn unfolded(n: u64) -> i64 {
    (n >> 1).cast_signed() ^ -((n & 1).cast_signed())
}

/// Appends a number from 0 on, exactly: a whole one as twice itself, another as 1 and its bits.
pub(crate) fn put_real(bytes: &mut Vec<u8>, x: f64) {
    match whole(x) {
        Some(n) => put(bytes, n << 1),
        None => {
            put(bytes, 1);
            bytes.extend(x.to_le_bytes());
        }
    }
}

/// As [`put_real`], but 24 bits are kept of a number that is not whole.
pub(super) fn put_rough(bytes: &mut Vec<u8>, x: f64) {
    match whole(x) {
        Some(n) => put(bytes, n << 1),
        None => {
            put(bytes, 1);
            bytes.extend((x as f32).to_le_bytes());
        }
    }
}

/// The number, if it is whole and has room.
pub(crate) fn whole(x: f64) -> Option<u64> {
    // There are more as floats, which are not all exact.
    const MOST: u64 = 1 << 53;
    let n = x as u64;
    (n as f64 == x && n <= MOST).then_some(n)
}

/// The seven lower bits of each of eight bytes as one number.
const fn joined(groups: u64) -> u64 {
    let pairs = groups & 0x007f_007f_007f_007f | (groups & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = pairs & 0x0000_3fff_0000_3fff | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    fours & 0x0fff_ffff | (fours & 0x0fff_ffff_0000_0000) >> 4
}

/// A column being read. What is not there is an error, never a zero.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'b> {
    bytes: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes }
    }

    /// Bytes that are left.
    pub(super) fn left(&self) -> usize {
        self.bytes.len()
    }

    /// The next `count` bytes.
    pub(super) fn take(&mut self, count: usize) -> Result<&'b [u8], Bad> {
        let (taken, rest) = self
            .bytes
            .split_at_checked(count)
            .ok_or(Bad("is too short"))?;
        self.bytes = rest;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Bad> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(Bad("is too short"))?;
        self.bytes = rest;
        Ok(*taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Bad> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// What [`put`] appended.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<u64, Bad> {
        match self.bytes {
            // Most numbers are small.
            [byte @ 0..0x80, rest @ ..] => {
                self.bytes = rest;
                Ok(u64::from(*byte))
            }
            _ => self.large_number(),
        }
    }

    fn large_number(&mut self) -> Result<u64, Bad> {
        // Where eight bytes are left, a number that ends in them is taken out of all at once.
        if let Some(word) = self.bytes.first_chunk() {
            let word = u64::from_le_bytes(*word);
            let ends = !word & 0x8080_8080_8080_8080;
            if ends != 0 {
                // Up to the lowest top bit that is not set.
                let groups = word & (ends ^ (ends - 1)) & 0x7f7f_7f7f_7f7f_7f7f;
                self.take((ends.trailing_zeros() / 8) as usize + 1)?;
                return Ok(joined(groups));
            }
        }
        let mut n = 0;
        for (place, byte) in self.bytes.iter().enumerate().take(LONGEST) {
            if place == LONGEST - 1 && *byte > 1 {
                break;
            }
            n |= u64::from(*byte & 0x7f) << (7 * place);
            if *byte < 0x80 {
                self.take(place + 1)?;
                return Ok(n);
            }
        }
        match self.bytes.len() < LONGEST {
            true => Err(Bad("is too short")),
            false => Err(Bad("has a number of more than 64 bits")),
        }
    }

    /// A number of things of at least one byte each in a column of `room` bytes: no more can be
    /// meant.
    pub(super) fn count(&mut self, room: usize) -> Result<usize, Bad> {
        let count = usize::try_from(self.number()?).ok();
        count
            .filter(|count| *count <= room)
            .ok_or(Bad("says that it has more than it can"))
    }

    /// What [`put`] appended of a folded number.
    pub(super) fn signed(&mut self) -> Result<i64, Bad> {
        self.number().map(unfolded)
    }

    /// What [`put_real`] appended.
    pub(crate) fn real(&mut self) -> Result<f64, Bad> {
        match self.number()? {
            1 => positive(f64::from_le_bytes(self.array()?)),
            n => halved(n),
        }
    }

    /// What [`put_rough`] appended.
    pub(super) fn rough(&mut self) -> Result<f64, Bad> {
        match self.number()? {
            1 => positive(f64::from(f32::from_le_bytes(self.array()?))),
            n => halved(n),
        }
    }

    /// Everything has been read.
    pub(super) fn end(self) -> Result<(), Bad> {
        match self.bytes {
            [] => Ok(()),
            _ => Err(Bad("has more than its rows need")),
        }
    }
}

fn halved(n: u64) -> Result<f64, Bad> {
    match n % 2 {
        0 => Ok((n / 2) as f64),
        _ => Err(Bad("has a number of no known kind")),
    }
}

fn positive(x: f64) -> Result<f64, Bad> {
    match (0.0..f64::INFINITY).contains(&x) {
        true => Ok(x),
        false => Err(Bad("has a number that is not finite or below 0")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is appended is read again: numbers at the ends of each length, of both signs, and such
    /// that are not whole.
    #[test]
    fn round_trip() {
        let mut words = vec![0, u64::MAX];
        for bit in 0..64 {
            let power = 1_u64 << bit;
            words.extend([power - 1, power, power + 1]);
        }
        let mut bytes = Vec::new();
        for &word in &words {
            let before = bytes.len();
            put(&mut bytes, word);
            assert_eq!(bytes.len() - before, length(word) as usize);
            put(&mut bytes, folded(word.cast_signed()));
        }
        let reals = [
            0.0,
            1.0,
            0.5,
            1e300,
            f64::MIN_POSITIVE,
            (1_u64 << 60) as f64,
            7.25,
        ];
        for real in reals {
            put_real(&mut bytes, real);
        }
        for rough in [3.0, 0.25, 1e-3] {
            put_rough(&mut bytes, rough);
        }
        let mut reader = Reader::new(&bytes);
        for &word in &words {
            assert_eq!(reader.number(), Ok(word));
            assert_eq!(reader.signed(), Ok(word.cast_signed()));
        }
        for real in reals {
            assert_eq!(reader.real(), Ok(real));
        }
        for rough in [3.0, 0.25, f64::from(1e-3_f32)] {
            assert_eq!(reader.rough(), Ok(rough));
        }
        assert_eq!(reader.end(), Ok(()));
    }

    /// What cannot have been appended is an error.
    #[test]
    fn refused() {
        for bytes in [&[][..], &[0x80], &[0xff; 9], &[0xff; 10], &[0xff; 11]] {
            assert!(Reader::new(bytes).number().is_err());
        }
        let nan = [&[1][..], &f64::NAN.to_le_bytes()].concat();
        assert!(Reader::new(&nan).real().is_err());
        assert!(Reader::new(&[3]).real().is_err());
        assert!(Reader::new(&[5]).count(4).is_err());
        assert!(Reader::new(&[5]).end().is_err());
    }
}
