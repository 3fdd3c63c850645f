//! What one image has in one bucket of its addresses, added up over chunks.

use std::collections::{BTreeMap, HashSet};

use hotlist::Generator;

use super::budget::Spending;
use super::ids::Ids;
use super::lists::{Lists, bytes_of, often_met, thin};
use super::rolled::{Rolled, RolledChunk};
use super::stacks::Stacks;
use crate::chunk::{
    Bad, BranchOf, CallOf, ChunkKind, ChunkPlace, CyclesOf, ListOf, Packed, decode_branches,
    decode_calls, decode_cycles, decode_stacks, decode_values, encode_branches, encode_calls,
    encode_cycles, encode_stacks, encode_values,
};
use crate::{Calls, Directions};

/// About how many bytes of rows go into one chunk.
const CHUNK: usize = 128 << 10;
/// What a row of a few counts takes, roughly.
const ROW: usize = 16;

/// A process, an address, another place.
type At = (i64, u64, Option<(i64, u64)>);

/// Why a chunk cannot be added.
pub(crate) enum ChunkRefusal {
    /// It is damaged.
    Bad(Bad),
    /// What it refers to.
    Ids(crate::Error),
}

impl From<Bad> for ChunkRefusal {
    fn from(bad: Bad) -> Self {
        ChunkRefusal::Bad(bad)
    }
}

impl From<crate::Error> for ChunkRefusal {
    fn from(error: crate::Error) -> Self {
        ChunkRefusal::Ids(error)
    }
}

/// The sums of a bucket so far, for each roll-up and access tag.
pub(crate) struct Bucket {
    most: usize,
    parts: BTreeMap<(i64, i64), BucketPart>,
}

struct BucketPart {
    cycles: BTreeMap<At, (u64, u64)>,
    values: Lists,
    keyed: Lists,
    branches: BTreeMap<At, Directions>,
    calls: BTreeMap<At, Calls>,
    stacks: Stacks,
}

impl Bucket {
    /// Nothing yet; lists keep so many values.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            parts: BTreeMap::new(),
        }
    }

    /// Adds the rows of a chunk.
    pub(crate) fn add(
        &mut self,
        chunk: &RolledChunk,
        ids: &mut impl Ids,
        coins: &mut Generator,
    ) -> Result<(), ChunkRefusal> {
        let most = self.most;
        let part = self.parts.entry((chunk.target, chunk.subject));
        let part = part.or_insert_with(|| BucketPart {
            cycles: BTreeMap::new(),
            values: Lists::new(most),
            keyed: Lists::new(most),
            branches: BTreeMap::new(),
            calls: BTreeMap::new(),
            stacks: Stacks::default(),
        });
        let RolledChunk {
            place,
            ref data,
            target,
            ..
        } = *chunk;
        match chunk.kind {
            ChunkKind::Cycles => {
                for row in decode_cycles(place, data)? {
                    let at = at(row.key(), target, ids)?;
                    let sum = part.cycles.entry(at).or_insert((0, 0));
                    sum.0 = sum.0.saturating_add(row.samples);
                    sum.1 = sum.1.saturating_add(row.weight);
                }
            }
            ChunkKind::Values | ChunkKind::Keyed => {
                let is_keyed = chunk.kind == ChunkKind::Keyed;
                let values = decode_values(place, is_keyed, data)?;
                for mut row in values.rows {
                    row.weigh(values.tau);
                    row.process = ids.process(row.process, target)?;
                    row.parameter = ids.parameter(row.parameter)?;
                    if let Some((image, _)) = &mut row.caller {
                        *image = ids.image(*image)?;
                    }
                    match is_keyed {
                        true => part.keyed.add(row, coins),
                        false => part.values.add(row, coins),
                    }
                }
            }
            ChunkKind::Branches => {
                for row in decode_branches(place, data)? {
                    let at = at(row.key(), target, ids)?;
                    add_directions(part.branches.entry(at).or_insert(NO_DIRECTIONS), &row.seen);
                }
            }
            ChunkKind::Stacks => {
                for row in decode_stacks(data)? {
                    part.stacks.add(row, target, ids)?;
                }
            }
            ChunkKind::Calls => {
                for row in decode_calls(place, data)? {
                    let at = at(row.key(), target, ids)?;
                    add_calls(part.calls.entry(at).or_insert(NO_CALLS), &row.seen);
                }
            }
        }
        Ok(())
    }

    /// What its lists would take, by how often they were reached: for a guess at the whole.
    pub(crate) fn measure(self, spending: &mut Spending, coins: &mut Generator) {
        for part in self.parts.into_values() {
            for lists in [part.values, part.keyed] {
                let [kept, others] = often_met(lists.finish(coins));
                for row in &kept {
                    // As one that no threshold reaches.
                    spending.list(f64::MAX, bytes_of(row));
                }
                for row in &others {
                    spending.list(row.reached, bytes_of(row));
                }
            }
        }
    }

    /// The chunks of the sums; `time` says what a roll-up covers, `tau` which lists stay. Lists of
    /// parameters that are `asked_alone` have chunks of their own, so that whoever asks for these
    /// need not unpack the others.
    pub(crate) fn finish(
        self,
        bucket: u64,
        time: impl Fn(i64) -> (i64, i64),
        tau: f64,
        asked_alone: &HashSet<i64>,
        coins: &mut Generator,
    ) -> Rolled {
        let mut rolled = Rolled {
            chunks: Vec::new(),
            estimate: (0, 0),
            lists: 0,
            fixed: 0,
            all: (0, 0.0),
            left_out: (0, 0.0),
        };
        for ((target, subject), part) in self.parts {
            let place = ChunkPlace {
                bucket,
                time: time(target),
            };
            let mut push = |kind, data: Vec<u8>| {
                let bytes = data.len() + super::ROW;
                rolled.chunks.push(RolledChunk {
                    kind,
                    subject,
                    target,
                    place,
                    data,
                });
                bytes
            };
            let cycles: Vec<CyclesOf> = part.cycles.into_iter().map(cycles_of).collect();
            for rows in cycles.chunks(CHUNK / ROW) {
                rolled.fixed += push(ChunkKind::Cycles, encode_cycles(rows));
            }
            let branches: Vec<BranchOf> = part.branches.into_iter().map(branch_of).collect();
            for rows in branches.chunks(CHUNK / ROW) {
                rolled.fixed += push(ChunkKind::Branches, encode_branches(rows));
            }
            let calls: Vec<CallOf> = part.calls.into_iter().map(call_of).collect();
            for rows in calls.chunks(CHUNK / ROW) {
                rolled.fixed += push(ChunkKind::Calls, encode_calls(rows));
            }
            for rows in part.stacks.finish(CHUNK) {
                rolled.fixed += push(ChunkKind::Stacks, encode_stacks(&rows));
            }
            for (kind, lists) in [
                (ChunkKind::Values, part.values),
                (ChunkKind::Keyed, part.keyed),
            ] {
                let rows = lists.finish(coins);
                let events = |rows: &[ListOf]| rows.iter().map(|row| row.reached).sum::<f64>();
                let sizes = |rows: &[ListOf]| rows.iter().map(bytes_of).sum::<usize>();
                let before = (rows.len() as u64, events(&rows));
                rolled.estimate.0 += sizes(&rows);
                let [kept, mut rows] = often_met(rows);
                thin(&mut rows, tau, coins);
                rolled.estimate.1 += sizes(&kept) + sizes(&rows);
                rolled.all = (rolled.all.0 + before.0, rolled.all.1 + before.1);
                rolled.left_out.0 += before.0 - (kept.len() + rows.len()) as u64;
                rolled.left_out.1 += before.1 - events(&kept) - events(&rows);
                let is_alone = |row: &ListOf| asked_alone.contains(&row.parameter);
                for (tau, rows) in [(0.0, kept), (tau, rows)] {
                    let (alone, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_alone);
                    for rows in in_chunks(&alone).into_iter().chain(in_chunks(&others)) {
                        rolled.lists += push(kind, encode_values(place, tau, rows));
                    }
                }
            }
        }
        rolled
    }
}

fn at((process, address, other): At, target: i64, ids: &mut impl Ids) -> Result<At, crate::Error> {
    let other = match other {
        Some((image, address)) => Some((ids.image(image)?, address)),
        None => None,
    };
    Ok((ids.process(process, target)?, address, other))
}

/// The rows in pieces that make chunks of the usual size.
fn in_chunks(mut rows: &[ListOf]) -> Vec<&[ListOf]> {
    let mut pieces = Vec::new();
    while !rows.is_empty() {
        let mut bytes = 0;
        let fits = rows.iter().take_while(|row| {
            bytes += bytes_of(row);
            bytes <= CHUNK
        });
        let (piece, rest) = rows.split_at(fits.count().max(1));
        pieces.push(piece);
        rows = rest;
    }
    pieces
}

/// Sums of nothing. The squares of nothing are known.
const NO_DIRECTIONS: Directions = Directions {
    taken: 0,
    not_taken: 0,
    unknown: 0,
    weights: [0.0; 3],
    squares: Some(0.0),
};
const NO_CALLS: Calls = Calls {
    times: 0,
    weight: 0.0,
    squares: Some(0.0),
};

fn add_directions(sum: &mut Directions, more: &Directions) {
    sum.taken = sum.taken.saturating_add(more.taken);
    sum.not_taken = sum.not_taken.saturating_add(more.not_taken);
    sum.unknown = sum.unknown.saturating_add(more.unknown);
    for (weight, more) in sum.weights.iter_mut().zip(more.weights) {
        *weight += more;
    }
    sum.squares = sum.squares.zip(more.squares).map(|(a, b)| a + b);
}

fn add_calls(sum: &mut Calls, more: &Calls) {
    sum.times = sum.times.saturating_add(more.times);
    sum.weight += more.weight;
    sum.squares = sum.squares.zip(more.squares).map(|(a, b)| a + b);
}

fn cycles_of(((process, address, caller), (samples, weight)): (At, (u64, u64))) -> CyclesOf {
    CyclesOf {
        process,
        address,
        caller,
        samples,
        weight,
    }
}

fn branch_of(((process, address, _), seen): (At, Directions)) -> BranchOf {
    BranchOf {
        process,
        address,
        seen,
    }
}

fn call_of(((process, address, callee), seen): (At, Calls)) -> CallOf {
    CallOf {
        process,
        address,
        callee,
        seen,
    }
}
