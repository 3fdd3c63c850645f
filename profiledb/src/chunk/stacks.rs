//! Call stacks: the paths of a calling-context tree, in preorder.
//!
//! Each path shares its outermost frames with the one before it, and brings the others. So a node
//! of the tree is written once for each process and image of the interrupted instruction.

use std::sync::Arc;

use super::bytes::{folded, put};
use super::head::{Dictionary, Ids, pack, unpack};
use super::{At, Bad, Packed};
use crate::stacks::StackEnd;

/// Image and address of an instruction.
pub(crate) type FrameOf = (i64, u64);

/// The most frames of a path, the interrupted instruction among them.
pub(crate) const MOST_FRAMES: usize = 128;

/// The most frames of all paths of a chunk, once these are told apart. A writer puts far fewer into
/// one.
const MOST_UNPACKED: usize = 1 << 18;

/// Samples of one call stack.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StackOf {
    /// Row of the process.
    pub(crate) process: i64,
    /// The frames, the outermost first. The last one is the interrupted instruction, the others
    /// are calls.
    pub(crate) path: Arc<[FrameOf]>,
    /// Why there are no more.
    pub(crate) end: StackEnd,
    /// Samples.
    pub(crate) samples: u64,
    /// What they stand for, in the epoch's unit.
    pub(crate) weight: u64,
}

impl StackOf {
    /// The interrupted instruction.
    pub(crate) fn leaf(&self) -> FrameOf {
        self.path.last().copied().unwrap_or_default()
    }

    /// About how many bytes of columns it takes, if it shares nothing.
    pub(crate) fn size(&self) -> usize {
        8 + 4 * self.path.len()
    }
}

impl Packed for StackOf {
    type Key = (i64, Arc<[FrameOf]>, StackEnd);

    fn key(&self) -> Self::Key {
        (self.process, Arc::clone(&self.path), self.end)
    }

    fn at(&self) -> At {
        (self.process, self.leaf().1, None)
    }

    /// Sets the process: a path is replaced as a whole.
    fn set_at(&mut self, (process, ..): At) {
        self.process = process;
    }
}

/// How many frames two paths begin with together.
fn shared(a: &[FrameOf], b: &[FrameOf]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Packs call stacks that lie in the order of their keys. None is empty.
pub(crate) fn encode_stacks(rows: &[StackOf]) -> Vec<u8> {
    let processes = Dictionary::of(rows.iter().map(|row| row.process));
    let frames = || rows.iter().flat_map(|row| row.path.iter());
    let images = Dictionary::of(frames().map(|(image, _)| *image));
    let (mut runs, mut begins, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    let (mut places, mut addresses) = (Vec::new(), Vec::new());
    let (mut ends, mut counts, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    let mut last: Vec<u64> = Vec::new();
    let mut before: &[FrameOf] = &[];
    for run in rows.chunk_by(|a, b| a.process == b.process) {
        put(&mut runs, run.len() as u64);
        for row in run {
            let begin = shared(before, &row.path);
            put(&mut begins, begin as u64);
            put(&mut lengths, (row.path.len() - begin) as u64);
            for (image, address) in row.path.iter().skip(begin) {
                let place = images.place(*image);
                put(&mut places, place);
                // There are no more of them than there are frames.
                let place = place as usize;
                if last.len() <= place {
                    last.resize(place + 1, 0);
                }
                let step = address.wrapping_sub(last[place]).cast_signed();
                put(&mut addresses, folded(step));
                last[place] = *address;
            }
            ends.push(row.end.number());
            put(&mut counts, row.samples);
            put(&mut weights, row.weight);
            before = &row.path;
        }
    }
    let ids = Ids::of_places(processes, images);
    let columns: [&[u8]; 8] = [
        &runs, &begins, &lengths, &places, &addresses, &ends, &counts, &weights,
    ];
    pack(&ids, rows.len(), &columns)
}

/// Unpacks call stacks.
pub(crate) fn decode_stacks(blob: &[u8]) -> Result<Vec<StackOf>, Bad> {
    let unpacked = unpack(blob)?;
    let [
        mut runs,
        mut begins,
        mut lengths,
        mut places,
        mut addresses,
        mut ends,
        mut counts,
        mut weights,
    ] = unpacked.columns()?;
    let mut rows: Vec<StackOf> = Vec::with_capacity(unpacked.front.rows);
    let mut last = vec![0_u64; unpacked.front.ids.images.len()];
    let mut left = MOST_UNPACKED;
    // Frames by the places of their images.
    let mut path: Vec<(usize, u64)> = Vec::new();
    for index in 0..unpacked.front.ids.processes.len() {
        let (process, _) = unpacked.process(index)?;
        let mut is_first = true;
        for _ in 0..runs.count(unpacked.front.rows - rows.len())? {
            let begin = begins.count(path.len())?;
            let length = lengths.count(MOST_FRAMES - begin.min(MOST_FRAMES))?;
            let all = begin + length;
            left = left
                .checked_sub(all)
                .filter(|_| all > 0)
                .ok_or(Bad("has more frames than it can, or a stack of none"))?;
            let before = path.split_off(begin);
            for _ in 0..length {
                let place = usize::try_from(places.number()?).unwrap_or(usize::MAX);
                let last = last
                    .get_mut(place)
                    .ok_or(Bad("refers to an image that it does not name"))?;
                *last = last.wrapping_add(addresses.signed()?.cast_unsigned());
                path.push((place, *last));
            }
            let end = StackEnd::of(ends.byte()?).ok_or(Bad("has an end of no known kind"))?;
            let fresh = path.get(begin..).unwrap_or_default();
            let is_later = is_first
                || match (before.first(), fresh.first()) {
                    (Some(before), Some(fresh)) => before < fresh,
                    (None, Some(_)) => true,
                    (Some(_), None) => false,
                    (None, None) => rows.last().is_some_and(|last| last.end < end),
                };
            if !is_later {
                return Err(Bad("has its rows out of order"));
            }
            is_first = false;
            let frame = |&(place, address): &(usize, u64)| Ok((unpacked.image(place)?, address));
            rows.push(StackOf {
                process,
                path: path.iter().map(frame).collect::<Result<_, Bad>>()?,
                end,
                samples: counts.number()?,
                weight: weights.number()?,
            });
        }
    }
    if rows.len() != unpacked.front.rows {
        return Err(Bad("has not the rows that it says"));
    }
    for column in [
        runs, begins, lengths, places, addresses, ends, counts, weights,
    ] {
        column.end()?;
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chunk::head::plain;

    fn row(process: i64, path: &[FrameOf], end: StackEnd, samples: u64) -> StackOf {
        StackOf {
            process,
            path: path.into(),
            end,
            samples,
            weight: samples.wrapping_mul(1000),
        }
    }

    fn rows() -> Vec<StackOf> {
        let (main, libc) = (3, 9);
        vec![
            row(
                1,
                &[(main, 0x10), (main, 0x20), (libc, 0x500)],
                StackEnd::Whole,
                7,
            ),
            row(1, &[(main, 0x10), (libc, 0x500)], StackEnd::Whole, 2),
            row(1, &[(main, 0x10), (libc, 0x500)], StackEnd::Depth, 1),
            row(
                2,
                &[(main, 0x10), (main, 0x20), (libc, 0x500)],
                StackEnd::Whole,
                1,
            ),
            row(
                2,
                &[(main, 0x10), (main, 0x20), (libc, 0x501)],
                StackEnd::NoRules,
                1,
            ),
            row(2, &[(libc, u64::MAX)], StackEnd::Kernel, u64::MAX),
        ]
    }

    /// A path takes three bytes for what it shares, whatever that is.
    #[test]
    fn shared_frames_are_written_once() {
        let deep: Vec<FrameOf> = (0..100).map(|frame| (1, frame << 20)).collect();
        let with = |leaf: u64| {
            let path: Vec<FrameOf> = deep.iter().copied().chain([(1, leaf)]).collect();
            row(1, &path, StackEnd::Whole, 1)
        };
        let size = |rows: &[StackOf]| plain(&encode_stacks(rows)).expect("is whole").len();
        let (one, two) = (
            size(&[with(1 << 30)]),
            size(&[with(1 << 30), with((1 << 30) + 1)]),
        );
        assert!(two - one < 12, "{one} and {two}");
    }

    /// Each row comes back, in its order, whatever ids processes and images have.
    #[test]
    fn round_trip() {
        let blob = encode_stacks(&rows());
        assert_eq!(decode_stacks(&blob), Ok(rows()));
        assert_eq!(decode_stacks(&encode_stacks(&[])), Ok(Vec::new()));
    }

    /// Rows out of order, and stacks of no frame, are damage.
    #[test]
    fn disorder_is_damage() {
        for (a, b) in [(0, 1), (1, 2), (3, 4), (4, 5)] {
            let mut wrong = rows();
            let (first, second) = (wrong[a].clone(), wrong[b].clone());
            (wrong[a], wrong[b]) = (second, first);
            assert!(
                decode_stacks(&encode_stacks(&wrong)).is_err(),
                "{a} and {b}"
            );
        }
        let mut wrong = rows();
        wrong[0].path = Vec::new().into();
        assert!(decode_stacks(&encode_stacks(&wrong)).is_err());
        let long: Vec<FrameOf> = (0..=MOST_FRAMES as u64).map(|frame| (1, frame)).collect();
        let long = row(1, &long, StackEnd::Depth, 1);
        assert!(decode_stacks(&encode_stacks(&[long])).is_err());
    }

    proptest! {
        /// Whatever byte is changed behind the checksum and the compression, nothing is invented
        /// that has no room, and nothing panics.
        #[test]
        fn hostile(at in 0_usize..200, byte in any::<u8>()) {
            let mut blob = plain(&encode_stacks(&rows())).expect("is whole");
            let place = crate::chunk::head::FRONT + at % (blob.len() - crate::chunk::head::FRONT);
            blob[place] = byte;
            crate::chunk::head::seal(&mut blob);
            if let Ok(rows) = decode_stacks(&blob) {
                for row in rows {
                    prop_assert!((1..=MOST_FRAMES).contains(&row.path.len()));
                }
            }
        }
    }
}
