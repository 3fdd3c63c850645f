//! Interrupts, branches and calls: rows of a few counts.

use super::bytes::{Reader, folded, put, put_real, put_rough};
use super::head::{Dictionary, Ids, Sums, Unpacked, pack_with, unpack};
use super::recent::Recent;
use super::sums::CyclesSum;
use super::{At, Bad, ChunkKind, ChunkPlace, Packed, address_in, later, offset_of};
use crate::{Calls, Directions};

/// Interrupts at a PC.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CyclesOf {
    /// Row of the process.
    pub(crate) process: i64,
    /// Address of the PC.
    pub(crate) address: u64,
    /// Image and address of the call site.
    pub(crate) caller: Option<(i64, u64)>,
    /// Interrupts.
    pub(crate) samples: u64,
    /// What they stand for, in the epoch's unit.
    pub(crate) weight: u64,
}

/// Directions of a branch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BranchOf {
    /// Row of the process.
    pub(crate) process: i64,
    /// Address of the branch.
    pub(crate) address: u64,
    /// Where it went.
    pub(crate) seen: Directions,
}

/// Calls that windows ran into.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CallOf {
    /// Row of the process.
    pub(crate) process: i64,
    /// Address of the call.
    pub(crate) address: u64,
    /// Image and address of the entry.
    pub(crate) callee: Option<(i64, u64)>,
    /// How often.
    pub(crate) seen: Calls,
}

/// What is the same of rows that are ordered by their places.
macro_rules! packed {
    ($row:ty, $get:expr, $set:expr) => {
        impl Packed for $row {
            type Key = At;

            fn key(&self) -> At {
                self.at()
            }

            fn at(&self) -> At {
                let other: fn(&Self) -> Option<(i64, u64)> = $get;
                (self.process, self.address, other(self))
            }

            fn set_at(&mut self, (process, address, other): At) {
                (self.process, self.address) = (process, address);
                let set: fn(&mut Self, Option<(i64, u64)>) = $set;
                set(self, other);
            }
        }
    };
}

packed!(CyclesOf, |row| row.caller, |row, caller| row.caller =
    caller);
packed!(BranchOf, |_| None, |_, _| {});
packed!(CallOf, |row| row.callee, |row, callee| row.callee = callee);

/// Weights are mostly whole numbers of this part.
const PART: f64 = 65_536.0;

/// How the sum of squares of a row is told.
const SQUARES_UNKNOWN: u8 = 0;
/// It is the square of all that is known: of one window.
const SQUARES_OF_ONE: u8 = 1;
/// By how many windows of one weight would tell as much.
const SQUARES_BY_WINDOWS: u8 = 2;
const SQUARES_OWN: u8 = 3;

/// Steps of a number of windows for each doubling: it is kept to one percent.
const STEPS: f64 = 32.0;
/// The most steps.
const MOST_STEPS: f64 = 64.0 * STEPS;

/// The steps of the windows that squares stand for.
fn steps(squares: f64, known: f64) -> f64 {
    ((known * known / squares).log2() * STEPS).round()
}

/// The squares of windows at a step.
fn squares_at(steps: f64, known: f64) -> f64 {
    known * known / (steps / STEPS).exp2()
}

/// The columns of places, and of what is at them.
#[derive(Default)]
struct Columns {
    runs: Vec<u8>,
    addresses: Vec<u8>,
    others: Vec<u8>,
    shapes: Vec<u8>,
    counts: Vec<u8>,
    places: Vec<u8>,
    weights: Vec<u8>,
    reals: Vec<u8>,
}

impl Columns {
    /// Writes places that lie in order, calls `more` with each row, and packs all with these sums
    /// in front.
    fn pack<T: Packed>(
        mut self,
        (kind, sums): (ChunkKind, Option<Sums>),
        rows: &[T],
        mut more: impl FnMut(&mut Self, &T),
    ) -> Vec<u8> {
        let processes = Dictionary::of(rows.iter().map(|row| row.at().0));
        let images = Dictionary::of(rows.iter().filter_map(|row| Some(row.at().2?.0)));
        let has_others = rows.iter().any(|row| row.at().2.is_some());
        let mut last_other = 0_u64;
        for run in rows.chunk_by(|a, b| a.at().0 == b.at().0) {
            put(&mut self.runs, run.len() as u64);
            let mut offset = 0;
            for row in run {
                let (_, address, other) = row.at();
                let next = offset_of(kind.bits(), address);
                put(&mut self.addresses, next - offset);
                offset = next;
                if has_others {
                    match other {
                        None => put(&mut self.others, 0),
                        Some((image, address)) => {
                            put(&mut self.others, images.place(image) + 1);
                            let step = address.wrapping_sub(last_other).cast_signed();
                            put(&mut self.others, folded(step));
                            last_other = address;
                        }
                    }
                }
                more(&mut self, row);
            }
        }
        let ids = Ids::of_places(processes, images);
        let columns: [&[u8]; 8] = [
            &self.runs,
            &self.addresses,
            &self.others,
            &self.shapes,
            &self.counts,
            &self.places,
            &self.weights,
            &self.reals,
        ];
        pack_with(&ids, rows.len(), &columns, sums)
    }

    /// A weight: a whole number of parts, or else itself.
    fn weight(&mut self, weight: f64, recent: &mut Recent) {
        let parts = weight * PART;
        let is_whole = parts.fract() == 0.0 && parts < (1_u64 << 52) as f64;
        // The lowest bit tells which.
        match is_whole {
            true => recent.put((parts as u64) << 1, &mut self.places, &mut self.weights),
            false => {
                recent.put(1, &mut self.places, &mut self.weights);
                put_real(&mut self.reals, weight);
            }
        }
    }

    fn squares(&mut self, kind: u8, squares: Option<f64>, known: f64) {
        let squares = squares.unwrap_or_default();
        match kind {
            // The kind says that it is within its range.
            SQUARES_BY_WINDOWS => put(&mut self.reals, steps(squares, known) as u64),
            SQUARES_OWN => put_rough(&mut self.reals, squares),
            _ => {}
        }
    }
}

fn squares_kind(squares: Option<f64>, known: f64) -> u8 {
    match squares {
        None => SQUARES_UNKNOWN,
        Some(squares) if squares == known * known => SQUARES_OF_ONE,
        // One window at the least.
        Some(squares) if (0.0..=MOST_STEPS).contains(&steps(squares, known)) => SQUARES_BY_WINDOWS,
        Some(_) => SQUARES_OWN,
    }
}

/// What interrupts add up to, with these.
fn sums_with(others: Sums, rows: &[CyclesOf]) -> Sums {
    rows.iter().fold(others, |(samples, weight), row| {
        (
            samples.saturating_add(row.samples),
            weight.saturating_add(row.weight),
        )
    })
}

/// Packs interrupts that lie in the order of their keys.
pub(crate) fn encode_cycles(rows: &[CyclesOf]) -> Vec<u8> {
    let sums = sums_with((0, 0), rows);
    Columns::default().pack((ChunkKind::Cycles, Some(sums)), rows, |columns, row| {
        put(&mut columns.counts, row.samples);
        put(&mut columns.weights, row.weight);
    })
}

/// Packs branches that lie in the order of their keys.
pub(crate) fn encode_branches(rows: &[BranchOf]) -> Vec<u8> {
    let mut recent = Recent::default();
    Columns::default().pack((ChunkKind::Branches, None), rows, |columns, row| {
        let Directions {
            taken,
            not_taken,
            unknown,
            weights,
            squares,
        } = row.seen;
        let kind = squares_kind(squares, weights[0] + weights[1]);
        let directions = (1_u8..).zip([taken, not_taken, unknown].into_iter().zip(weights));
        let mut shape = kind << 3;
        for (bit, (times, weight)) in directions {
            if times == 0 && weight == 0.0 {
                continue;
            }
            shape |= 1 << (bit - 1);
            put(&mut columns.counts, times);
            columns.weight(weight, &mut recent);
        }
        columns.shapes.push(shape);
        columns.squares(kind, squares, weights[0] + weights[1]);
    })
}

/// Packs calls that lie in the order of their keys.
pub(crate) fn encode_calls(rows: &[CallOf]) -> Vec<u8> {
    let mut recent = Recent::default();
    Columns::default().pack((ChunkKind::Calls, None), rows, |columns, row| {
        let kind = squares_kind(row.seen.squares, row.seen.weight);
        columns.shapes.push(kind);
        put(&mut columns.counts, row.seen.times);
        columns.weight(row.seen.weight, &mut recent);
        columns.squares(kind, row.seen.squares, row.seen.weight);
    })
}

/// Columns being read.
struct Decoder<'b> {
    shapes: Reader<'b>,
    counts: Reader<'b>,
    places: Reader<'b>,
    weights: Reader<'b>,
    reals: Reader<'b>,
    recent: Recent,
}

/// Unpacks rows: `take` makes one of a place and what the columns have of it.
fn decode<T>(
    kind: ChunkKind,
    place: ChunkPlace,
    blob: &[u8],
    take: impl Fn(At, &mut Decoder<'_>) -> Result<T, Bad>,
) -> Result<Vec<T>, Bad> {
    let unpacked = unpack(blob)?;
    let mut rows = Vec::with_capacity(unpacked.front.rows);
    each(kind, place, &unpacked, |at, columns| {
        rows.push(take(at, columns)?);
        Ok(())
    })?;
    Ok(rows)
}

/// Gives the place of each row, and the columns at what they have of it, to `take`.
fn each(
    kind: ChunkKind,
    place: ChunkPlace,
    unpacked: &Unpacked,
    mut take: impl FnMut(At, &mut Decoder<'_>) -> Result<(), Bad>,
) -> Result<(), Bad> {
    let [
        runs,
        addresses,
        others,
        shapes,
        counts,
        places,
        weights,
        reals,
    ] = unpacked.columns()?;
    let mut decoder = Decoder {
        shapes,
        counts,
        places,
        weights,
        reals,
        recent: Recent::default(),
    };
    let (mut runs, mut addresses, mut others) = (runs, addresses, others);
    let mut left = unpacked.front.rows;
    let mut last_other = 0;
    let mut last = None;
    for index in 0..unpacked.front.ids.processes.len() {
        let (process, _) = unpacked.process(index)?;
        let mut offset = 0;
        let run = runs.count(left)?;
        left -= run;
        for _ in 0..run {
            offset = later(kind.bits(), offset, addresses.number()?)?;
            let other = other(unpacked, &mut others, &mut last_other)?;
            let key = (index, offset, other);
            if last.is_some_and(|last| last >= key) {
                return Err(Bad("has its rows out of order"));
            }
            last = Some(key);
            let other = match other {
                Some((image, address)) => Some((unpacked.image(image)?, address)),
                None => None,
            };
            let at = (
                process,
                address_in(kind.bits(), place.bucket, offset),
                other,
            );
            take(at, &mut decoder)?;
        }
    }
    if left > 0 {
        return Err(Bad("has not the rows that it says"));
    }
    let Decoder {
        shapes,
        counts,
        places,
        weights,
        reals,
        ..
    } = decoder;
    for column in [
        runs, addresses, others, shapes, counts, places, weights, reals,
    ] {
        column.end()?;
    }
    Ok(())
}

fn other(
    unpacked: &Unpacked,
    others: &mut Reader<'_>,
    last: &mut u64,
) -> Result<Option<(usize, u64)>, Bad> {
    if unpacked.front.ids.images.is_empty() {
        return Ok(None);
    }
    let Some(image) = others.number()?.checked_sub(1) else {
        return Ok(None);
    };
    let image = usize::try_from(image).unwrap_or(usize::MAX);
    *last = last.wrapping_add(others.signed()?.cast_unsigned());
    Ok(Some((image, *last)))
}

impl Decoder<'_> {
    fn weight(&mut self) -> Result<f64, Bad> {
        match self.recent.take(&mut self.places, &mut self.weights)? {
            1 => self.reals.real(),
            n if n % 2 == 0 => Ok((n / 2) as f64 / PART),
            _ => Err(Bad("has a weight of no known kind")),
        }
    }

    fn squares(&mut self, kind: u8, known: f64) -> Result<Option<f64>, Bad> {
        match kind {
            SQUARES_UNKNOWN => Ok(None),
            SQUARES_OF_ONE => Ok(Some(known * known)),
            SQUARES_BY_WINDOWS => {
                let steps = self.reals.number()? as f64;
                match steps <= MOST_STEPS {
                    true => Ok(Some(squares_at(steps, known))),
                    false => Err(Bad("has squares of more windows than there can be")),
                }
            }
            SQUARES_OWN => self.reals.rough().map(Some),
            _ => Err(Bad("has squares of no known kind")),
        }
    }
}

/// Unpacks interrupts.
pub(crate) fn decode_cycles(place: ChunkPlace, blob: &[u8]) -> Result<Vec<CyclesOf>, Bad> {
    Ok(decode_some_cycles(place, blob, |_| true)?.0)
}

/// Unpacks interrupts at addresses that pass a test, and adds up the rest.
pub(crate) fn decode_some_cycles(
    place: ChunkPlace,
    blob: &[u8],
    wants: impl Fn(u64) -> bool,
) -> Result<(Vec<CyclesOf>, CyclesSum), Bad> {
    let unpacked = unpack(blob)?;
    let mut rest = CyclesSum::of(&unpacked.front, (0, 0));
    let mut rows = Vec::new();
    let kind = ChunkKind::Cycles;
    each(
        kind,
        place,
        &unpacked,
        |(process, address, caller), columns| {
            let (samples, weight) = (columns.counts.number()?, columns.weights.number()?);
            match wants(address) {
                true => rows.push(CyclesOf {
                    process,
                    address,
                    caller,
                    samples,
                    weight,
                }),
                false => rest.add(samples, weight),
            }
            Ok(())
        },
    )?;
    unpacked.front.check(sums_with(rest.sums(), &rows))?;
    Ok((rows, rest))
}

/// Unpacks branches.
pub(crate) fn decode_branches(place: ChunkPlace, blob: &[u8]) -> Result<Vec<BranchOf>, Bad> {
    decode(
        ChunkKind::Branches,
        place,
        blob,
        |(process, address, _), columns| {
            let shape = columns.shapes.byte()?;
            let mut times = [0; 3];
            let mut weights = [0.0; 3];
            for (bit, (times, weight)) in times.iter_mut().zip(&mut weights).enumerate() {
                if shape & (1 << bit) != 0 {
                    *times = columns.counts.number()?;
                    *weight = columns.weight()?;
                }
            }
            let squares = columns.squares(shape >> 3, weights[0] + weights[1])?;
            let [taken, not_taken, unknown] = times;
            Ok(BranchOf {
                process,
                address,
                seen: Directions {
                    taken,
                    not_taken,
                    unknown,
                    weights,
                    squares,
                },
            })
        },
    )
}

/// Unpacks calls.
pub(crate) fn decode_calls(place: ChunkPlace, blob: &[u8]) -> Result<Vec<CallOf>, Bad> {
    decode(
        ChunkKind::Calls,
        place,
        blob,
        |(process, address, callee), columns| {
            let kind = columns.shapes.byte()?;
            let times = columns.counts.number()?;
            let weight = columns.weight()?;
            let squares = columns.squares(kind, weight)?;
            Ok(CallOf {
                process,
                address,
                callee,
                seen: Calls {
                    times,
                    weight,
                    squares,
                },
            })
        },
    )
}
