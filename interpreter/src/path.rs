//! Program paths: which way each branch of a window went.
//!
//! A path is where a window starts, the directions of its conditional branches in order, and the
//! destinations of its indirect jumps, indirect calls and returns in order. With the code at hand
//! that is every instruction of the window.

use crate::host::Sink;
use parameters::Parameter;

/// The greatest length of a path: directions and destinations together.
pub const MAX_PATH_LENGTH: usize = 64;

/// Why bytes are no path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PathError {
    /// The bytes end before the path does.
    #[error("the path is cut short")]
    Truncated,
    /// A length that no path has.
    #[error(
        "a path of length {wanted} has {directions} directions and {destinations} destinations"
    )]
    Length {
        /// Length asked for.
        wanted: u8,
        /// Directions claimed.
        directions: u8,
        /// Destinations claimed.
        destinations: u8,
    },
    /// Bits behind the last direction are set.
    #[error("there are directions behind the last one")]
    Directions,
    /// A number is too great, or written longer than it need be.
    #[error("a number is not in its shortest form")]
    Number,
    /// A destination refers to one that is not there, or should refer to one and does not.
    #[error("destination {0} is not in its shortest form")]
    Destination(u8),
}

/// A program path of a settable length, recorded without allocation.
///
/// It is a [`Sink`]: give it to a window, or hand on [`branch`](Sink::branch) and
/// [`went`](Sink::went) from the sink of the host. What exceeds its length is not recorded, so that
/// paths from one start compare whatever the windows' lengths were; one that stays shorter, because
/// its window ended, is not [complete](Self::is_complete).
///
/// Addresses are process addresses at first; [`map_addresses`](Self::map_addresses) turns them into
/// what is the same in every process before a path is hashed or stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path {
    start: u64,
    /// Bit `i` is set if branch `i` was taken; clear from the last direction on.
    directions: u64,
    /// Zero from the last destination on.
    destinations: [u64; MAX_PATH_LENGTH],
    wanted: u8,
    direction_count: u8,
    destination_count: u8,
}

impl Path {
    /// An empty path from `start` on, to become `length` long (at most [`MAX_PATH_LENGTH`]).
    pub fn new(start: u64, length: usize) -> Self {
        Self {
            start,
            directions: 0,
            destinations: [0; MAX_PATH_LENGTH],
            wanted: length.min(MAX_PATH_LENGTH) as u8,
            direction_count: 0,
            destination_count: 0,
        }
    }

    /// Where the path starts.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Directions and destinations recorded.
    pub fn len(&self) -> usize {
        usize::from(self.direction_count) + usize::from(self.destination_count)
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the path has the length asked for.
    pub fn is_complete(&self) -> bool {
        self.len() == usize::from(self.wanted)
    }

    /// The directions of the conditional branches in order; true: taken.
    pub fn directions(&self) -> impl ExactSizeIterator<Item = bool> + '_ {
        (0..self.direction_count).map(|i| self.directions >> i & 1 != 0)
    }

    /// The destinations of the indirect jumps, indirect calls and returns in order.
    pub fn destinations(&self) -> &[u64] {
        &self.destinations[..usize::from(self.destination_count)]
    }

    /// Records a direction.
    fn push_direction(&mut self, taken: bool) {
        if !self.is_complete() {
            self.directions |= u64::from(taken) << self.direction_count;
            self.direction_count += 1;
        }
    }

    /// Records a destination.
    fn push_destination(&mut self, destination: u64) {
        if !self.is_complete() {
            self.destinations[usize::from(self.destination_count)] = destination;
            self.destination_count += 1;
        }
    }

    /// Replaces the start and every destination.
    pub fn map_addresses(&mut self, mut map: impl FnMut(u64) -> u64) {
        self.start = map(self.start);
        for destination in &mut self.destinations[..usize::from(self.destination_count)] {
            *destination = map(*destination);
        }
    }

    /// A hash that stays the same from run to run and version to version: 64-bit FNV-1a over the
    /// [compressed form](Self::compress). Paths of different length asked for, or cut short at
    /// different places, differ.
    pub fn hash64(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        self.write(|byte| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        hash
    }

    /// Appends the compressed form, which says itself where it ends. Equal paths, and no others,
    /// have equal bytes:
    ///
    /// - one byte each: the length asked for, the number of directions, that of destinations;
    /// - the directions, eight to a byte, the first in the lowest bit, the rest zero;
    /// - the start, as a number;
    /// - each destination, as a number: twice the distance back to the latest destination that is
    ///   the same (1: the one before) plus one, or else four times the difference from the one
    ///   before (the start, before the first) if that is not negative, four times its complement
    ///   plus two if it is.
    ///
    /// A number is written in groups of 7 bits, the lowest first, all but the last with bit 7 set.
    pub fn compress(&self, bytes: &mut Vec<u8>) {
        self.write(|byte| bytes.push(byte));
    }

    fn write(&self, mut byte: impl FnMut(u8)) {
        byte(self.wanted);
        byte(self.direction_count);
        byte(self.destination_count);
        for i in 0..self.direction_count.div_ceil(8) {
            byte((self.directions >> (8 * i)) as u8);
        }
        write_number(u128::from(self.start), &mut byte);
        let destinations = self.destinations();
        let mut previous = self.start;
        for (i, &destination) in destinations.iter().enumerate() {
            let number = match distance_back(&destinations[..i], destination) {
                Some(distance) => u128::from(distance) << 1 | 1,
                None => {
                    let difference = destination.wrapping_sub(previous);
                    let negative = difference as i64 >> 63;
                    u128::from(difference ^ negative as u64) << 2 | (negative & 2) as u128
                }
            };
            write_number(number, &mut byte);
            previous = destination;
        }
    }

    /// Reads a path from the start of `bytes` and says how many of them it took.
    ///
    /// # Errors
    /// If they are not what [`compress`](Self::compress) writes.
    pub fn decompress(bytes: &[u8]) -> Result<(Self, usize), PathError> {
        let mut rest = bytes.iter().copied();
        let mut next = || rest.next().ok_or(PathError::Truncated);
        let (wanted, directions, destinations) = (next()?, next()?, next()?);
        let sum = usize::from(directions) + usize::from(destinations);
        if usize::from(wanted) > MAX_PATH_LENGTH || sum > usize::from(wanted) {
            return Err(PathError::Length {
                wanted,
                directions,
                destinations,
            });
        }
        let mut path = Self::new(0, usize::from(wanted));
        for i in 0..directions.div_ceil(8) {
            path.directions |= u64::from(next()?) << (8 * i);
        }
        if directions < 64 && path.directions >> directions != 0 {
            return Err(PathError::Directions);
        }
        path.direction_count = directions;
        path.start = u64::try_from(read_number(&mut next)?).map_err(|_| PathError::Number)?;
        let mut previous = path.start;
        for i in 0..destinations {
            let wrong = PathError::Destination(i);
            let number = read_number(&mut next)?;
            let destination = if number & 1 != 0 {
                let distance = usize::try_from(number >> 1).map_err(|_| wrong)?;
                let from = usize::from(i).checked_sub(distance).ok_or(wrong)?;
                let held = path.destinations().get(from).copied().ok_or(wrong)?;
                if distance_back(path.destinations(), held) != Some(distance as u64) {
                    return Err(wrong);
                }
                held
            } else {
                let magnitude = u64::try_from(number >> 2).map_err(|_| PathError::Number)?;
                if magnitude >> 63 != 0 {
                    return Err(PathError::Number);
                }
                let negative = if number & 2 != 0 { u64::MAX } else { 0 };
                let destination = previous.wrapping_add(magnitude ^ negative);
                if distance_back(path.destinations(), destination).is_some() {
                    return Err(wrong);
                }
                destination
            };
            path.push_destination(destination);
            previous = destination;
        }
        Ok((path, bytes.len() - rest.len()))
    }
}

impl Sink for Path {
    fn value(&mut self, _: u64, _: Parameter, _: Option<u64>) {}

    fn branch(&mut self, _: u64, taken: Option<bool>) {
        if let Some(taken) = taken {
            self.push_direction(taken);
        }
    }

    fn went(&mut self, _: u64, destination: u64) {
        self.push_destination(destination);
    }
}

/// How far back the latest equal destination lies; 1: it is the last one.
fn distance_back(earlier: &[u64], destination: u64) -> Option<u64> {
    let from_end = earlier.iter().rev().position(|held| *held == destination)?;
    Some(from_end as u64 + 1)
}

fn write_number(mut number: u128, byte: &mut impl FnMut(u8)) {
    while number >= 0x80 {
        byte(number as u8 | 0x80);
        number >>= 7;
    }
    byte(number as u8);
}

/// At most 10 groups: 70 bits.
fn read_number(next: &mut impl FnMut() -> Result<u8, PathError>) -> Result<u128, PathError> {
    let mut number = 0;
    for group in 0..10 {
        let byte = next()?;
        number |= u128::from(byte & 0x7f) << (7 * group);
        if byte & 0x80 == 0 {
            let shortest = group == 0 || byte != 0;
            return if shortest {
                Ok(number)
            } else {
                Err(PathError::Number)
            };
        }
    }
    Err(PathError::Number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{MAX_PATH_LENGTH, Path, PathError};
    use crate::Sink as _;

    fn path(start: u64, length: usize, steps: &[Result<bool, u64>]) -> Path {
        let mut path = Path::new(start, length);
        for step in steps {
            match step {
                Ok(taken) => path.branch(0, Some(*taken)),
                Err(destination) => path.went(0, *destination),
            }
        }
        path
    }

    fn bytes(path: &Path) -> Vec<u8> {
        let mut bytes = Vec::new();
        path.compress(&mut bytes);
        bytes
    }

    /// The compressed form and the hash of a path are what they always were.
    #[test]
    fn the_form_is_fixed() {
        let steps = [
            Ok(true),
            Ok(false),
            Err(0x1010),
            Ok(true),
            Err(0xff0),
            Err(0x1010),
        ];
        let path = path(0x1000, 8, &steps);
        assert_eq!(bytes(&path), [8, 3, 3, 0b101, 0x80, 0x20, 0x40, 0x7e, 5]);
        assert_eq!(path.hash64(), 0x52ee_82de_9f26_99a5);
        assert!(!path.is_complete());
    }

    /// Nothing is recorded beyond the length asked for, and that never exceeds the capacity.
    #[test]
    fn paths_end_at_their_length() {
        let long = [Ok(true), Err(7), Ok(true), Err(9)];
        assert_eq!(path(1, 3, &long), path(1, 3, &long[..3]));
        assert!(path(1, 3, &long).is_complete());
        let mut path = Path::new(1, usize::MAX);
        for i in 0..200 {
            path.went(0, i);
        }
        assert_eq!(path.len(), MAX_PATH_LENGTH);
        assert!(Path::new(1, 0).is_complete());
        path.branch(0, None);
        assert_eq!(path.directions().len(), 0);
    }

    /// What is not the one form of a path is refused, with the reason.
    #[test]
    fn other_forms_are_refused() {
        let read = |bytes: &[u8]| Path::decompress(bytes).map(|_| ());
        assert_eq!(read(&[]), Err(PathError::Truncated));
        assert_eq!(read(&[4, 1, 0, 1]), Err(PathError::Truncated));
        let length = |wanted, directions, destinations| {
            Err(PathError::Length {
                wanted,
                directions,
                destinations,
            })
        };
        assert_eq!(read(&[65, 0, 0, 0]), length(65, 0, 0));
        assert_eq!(read(&[4, 200, 100, 0]), length(4, 200, 100));
        assert_eq!(read(&[4, 1, 0, 2, 0]), Err(PathError::Directions));
        assert_eq!(read(&[4, 0, 0, 0x80, 0]), Err(PathError::Number));
        assert_eq!(
            read(&[[4, 0, 0].as_slice(), &[0xff; 12]].concat()),
            Err(PathError::Number)
        );
        assert_eq!(read(&[4, 0, 1, 0, 1]), Err(PathError::Destination(0)));
        assert_eq!(read(&[4, 0, 1, 0, 3]), Err(PathError::Destination(0)));
        // The same destination again, written as a difference.
        assert_eq!(read(&[4, 0, 2, 0, 4, 0]), Err(PathError::Destination(1)));
        assert_eq!(read(&[4, 0, 2, 0, 4, 3]), Ok(()));
    }

    fn step() -> impl Strategy<Value = Result<bool, u64>> {
        prop_oneof![
            any::<bool>().prop_map(Ok),
            any::<u64>().prop_map(Err),
            (0u64..8).prop_map(|i| Err(0x40_0000 + i)),
            prop_oneof![Just(0), Just(u64::MAX), Just(1 << 63)].prop_map(Err),
        ]
    }

    proptest! {
        /// Every path comes back from its compressed form, whatever follows that.
        #[test]
        fn round_trip(
            start in any::<u64>(),
            length in 0usize..80,
            steps in prop::collection::vec(step(), 0..80),
            behind in prop::collection::vec(any::<u8>(), 0..4),
        ) {
            let path = path(start, length, &steps);
            let compressed = bytes(&path);
            let all = [&compressed[..], &behind].concat();
            prop_assert_eq!(Path::decompress(&all), Ok((path.clone(), compressed.len())));
            for cut in 0..compressed.len() {
                prop_assert_eq!(Path::decompress(&compressed[..cut]), Err(PathError::Truncated));
            }
        }

        /// Bytes that are read as a path are the bytes that it is written as.
        #[test]
        fn hostile_bytes(
            head in prop::collection::vec(0u8..6, 3),
            tail in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let all = [head, tail].concat();
            if let Ok((path, len)) = Path::decompress(&all) {
                prop_assert_eq!(&bytes(&path)[..], &all[..len]);
            }
        }
    }
}
