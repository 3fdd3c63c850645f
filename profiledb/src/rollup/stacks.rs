//! Call stacks added up: each path once, its sums exact. What has no room loses outer frames.

use std::collections::BTreeMap;

use super::ids::Ids;
use crate::chunk::{Packed, StackOf};
use crate::{Error, StackEnd};

/// Bytes that the call stacks of one image and access tag have in a roll-up, about, before they are
/// packed.
const ROOM: usize = 1 << 20;
/// Frames that a path keeps which is too rare to be kept whole: those that tell interrupts apart.
const KEPT: usize = 2;

type Key = <StackOf as Packed>::Key;

/// Call stacks that are being added up.
#[derive(Default)]
pub(super) struct Stacks {
    sums: BTreeMap<Key, (u64, u64)>,
}

impl Stacks {
    /// Adds samples of a path, under the ids of where it goes.
    pub(super) fn add(
        &mut self,
        mut row: StackOf,
        target: i64,
        ids: &mut impl Ids,
    ) -> Result<(), Error> {
        row.process = ids.process(row.process, target)?;
        let mut path = Vec::with_capacity(row.path.len());
        for &(image, address) in row.path.iter() {
            path.push((ids.image(image)?, address));
        }
        row.path = path.into();
        let sum = self.sums.entry(row.key()).or_insert((0, 0));
        sum.0 = sum.0.saturating_add(row.samples);
        sum.1 = sum.1.saturating_add(row.weight);
        Ok(())
    }

    /// The sums, in pieces of about so many bytes.
    pub(super) fn finish(mut self, most: usize) -> Vec<Vec<StackOf>> {
        self.fold(ROOM);
        let mut pieces = Vec::new();
        let (mut piece, mut bytes) = (Vec::new(), 0);
        for row in self.sums.into_iter().map(row) {
            bytes += row.size();
            piece.push(row);
            if bytes >= most {
                pieces.push(std::mem::take(&mut piece));
                bytes = 0;
            }
        }
        if !piece.is_empty() {
            pieces.push(piece);
        }
        pieces
    }

    /// Leaves the rarest paths their innermost frames alone, so that all take about so many bytes.
    /// Sums stay exact, and no frame is wrong: a stack that was cut says so.
    fn fold(&mut self, room: usize) {
        let size = |key: &Key| 8 + 4 * key.1.len();
        let mut sizes: Vec<(u64, usize)> = Vec::with_capacity(self.sums.len());
        sizes.extend(self.sums.iter().map(|(key, sum)| (sum.0, size(key))));
        if sizes.iter().map(|(_, size)| size).sum::<usize>() <= room {
            return;
        }
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let mut left = room;
        let first_without = sizes
            .iter()
            .find(|(_, size)| match left.checked_sub(*size) {
                Some(less) => {
                    left = less;
                    false
                }
                None => true,
            });
        // Of those with as many samples none stays whole: which one did would be chance.
        let least = first_without.map_or(0, |(samples, _)| *samples);
        for ((process, path, end), (samples, weight)) in std::mem::take(&mut self.sums) {
            let key = match path.len().checked_sub(KEPT) {
                Some(outer @ 1..) if samples <= least => {
                    let inner = path.get(outer..).unwrap_or_default();
                    (process, inner.into(), StackEnd::Rare)
                }
                _ => (process, path, end),
            };
            let sum = self.sums.entry(key).or_insert((0, 0));
            sum.0 = sum.0.saturating_add(samples);
            sum.1 = sum.1.saturating_add(weight);
        }
    }
}

fn row(((process, path, end), (samples, weight)): (Key, (u64, u64))) -> StackOf {
    StackOf {
        process,
        path,
        end,
        samples,
        weight,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::FrameOf;

    fn path(frames: &[u64]) -> std::sync::Arc<[FrameOf]> {
        frames.iter().map(|address| (1, *address)).collect()
    }

    /// Where there is no room, rare paths lose their outer frames and nothing else: sums by
    /// innermost frames are exact, and frequent paths are whole.
    #[test]
    fn rare_paths_are_cut() {
        let mut stacks = Stacks::default();
        for caller in 0..1_000 {
            let key = (7, path(&[1, 2, caller + 100, 50, 60]), StackEnd::Whole);
            stacks.sums.insert(key, (1 + caller % 2, 10));
        }
        let frequent = (7, path(&[1, 2, 3, 50, 60]), StackEnd::Whole);
        stacks.sums.insert(frequent.clone(), (500, 5_000));
        let all = |stacks: &Stacks| {
            stacks
                .sums
                .values()
                .fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1))
        };
        let before = all(&stacks);
        stacks.fold(1_000);
        assert_eq!(all(&stacks), before);
        let rare = (7, path(&[50, 60]), StackEnd::Rare);
        assert_eq!(stacks.sums[&rare], (1_500, 10_000));
        assert_eq!(stacks.sums[&frequent], (500, 5_000));
        assert_eq!(stacks.sums.len(), 2);
    }

    /// Where there is room, nothing is cut.
    #[test]
    fn room_for_all() {
        let mut stacks = Stacks::default();
        let key = (7, path(&[1, 2, 3]), StackEnd::Whole);
        stacks.sums.insert(key.clone(), (1, 1));
        stacks.fold(20);
        assert_eq!(stacks.sums[&key], (1, 1));
    }
}
