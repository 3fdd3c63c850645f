//! Packing lists.

use super::super::bytes::{folded, put, put_real, put_rough};
use super::super::head::{Dictionary, Ids, pack};
use super::super::recent::Recent;
use super::super::{ChunkPlace, offset_of};
use super::{
    BITS, DRAWN, EVEN_OF_PROCESS, EVEN_OWN, EVEN_SHIFT, EVEN_UNKNOWN, ListOf, MANY, PAIRS_ACROSS,
    PAIRS_FOLLOW, PAIRS_OWN, PAIRS_SHIFT, PAIRS_UNKNOWN, PARTS, TIMED, even_for, pairs_that_follow,
};

/// The columns, in their order.
#[derive(Default)]
struct Columns {
    runs: Vec<u8>,
    addresses: Vec<u8>,
    callers: Vec<u8>,
    parameters: Vec<u8>,
    shapes: Vec<u8>,
    unknown: Vec<u8>,
    windows: Vec<u8>,
    counts: Vec<u8>,
    places: Vec<u8>,
    values: Vec<u8>,
    pairs: Vec<u8>,
    times: Vec<u8>,
    reals: Vec<u8>,
}

/// Packs lists that lie in the order of their keys.
pub(crate) fn encode_values(place: ChunkPlace, tau: f64, rows: &[ListOf]) -> Vec<u8> {
    let processes = Dictionary::of(rows.iter().map(|row| row.process));
    let images = Dictionary::of(rows.iter().filter_map(|row| Some(row.caller?.0)));
    let parameters = Dictionary::of(rows.iter().map(|row| row.parameter));
    let mut columns = Columns::default();
    let mut evens = Vec::new();
    let mut recent = Recent::default();
    let mut last_caller = 0;
    for run in rows.chunk_by(|a, b| a.process == b.process) {
        put(&mut columns.runs, run.len() as u64);
        let even = even_of(run);
        evens.push(even);
        let mut offset = 0;
        for row in run {
            let next = offset_of(BITS, row.address);
            put(&mut columns.addresses, next - offset);
            offset = next;
            match row.caller {
                None => put(&mut columns.callers, 0),
                Some((image, address)) => {
                    put(&mut columns.callers, images.place(image) + 1);
                    let step = address.wrapping_sub(last_caller).cast_signed();
                    put(&mut columns.callers, folded(step));
                    last_caller = address;
                }
            }
            put(&mut columns.parameters, parameters.place(row.parameter));
            columns.list(place, row, even, &mut recent);
        }
    }
    if images_are_none(rows) {
        columns.callers.clear();
    }
    let ids = Ids {
        tau,
        processes: processes.into_ids().into_iter().zip(evens).collect(),
        images: images.into_ids(),
        parameters: parameters.into_ids(),
    };
    pack(
        &ids,
        rows.len(),
        &[
            &columns.runs,
            &columns.addresses,
            &columns.callers,
            &columns.parameters,
            &columns.shapes,
            &columns.unknown,
            &columns.windows,
            &columns.counts,
            &columns.places,
            &columns.values,
            &columns.pairs,
            &columns.times,
            &columns.reals,
        ],
    )
}

fn images_are_none(rows: &[ListOf]) -> bool {
    rows.iter().all(|row| row.caller.is_none())
}

/// How even windows of a process are for each window: as its first list says it.
fn even_of(run: &[ListOf]) -> f32 {
    let told = run
        .iter()
        .find(|row| row.windows > 0 && row.even.is_some_and(|even| even > 0.0));
    told.map_or(0.0, |row| {
        (row.even.unwrap_or_default() / row.windows as f64) as f32
    })
}

impl Columns {
    fn list(&mut self, place: ChunkPlace, row: &ListOf, even: f32, recent: &mut Recent) {
        let list = &row.list;
        let all = list.tuples.iter().map(|tuple| tuple.estimate).sum::<f64>();
        let is_counted = list.threshold == 1.0
            && all == list.events
            && row.reached == list.events + row.unknown
            && list.tuples.iter().all(|tuple| {
                tuple.variance == 0.0
                    && tuple.least == tuple.estimate
                    && tuple.estimate >= 1.0
                    && tuple.estimate.fract() == 0.0
            });
        let even_kind = match row.even {
            None => EVEN_UNKNOWN,
            Some(own) if (own - even_for(even, row.windows)).abs() <= 1e-4 * own => EVEN_OF_PROCESS,
            Some(_) => EVEN_OWN,
        };
        let pairs_kind = pairs_kind(row);
        let shape = list.tuples.len().min(MANY) as u8
            | if is_counted { 0 } else { DRAWN }
            | even_kind << EVEN_SHIFT
            | pairs_kind << PAIRS_SHIFT;
        self.shapes.push(shape);
        if list.tuples.len() >= MANY {
            put(&mut self.counts, (list.tuples.len() - MANY) as u64);
        }
        put_real(&mut self.unknown, row.unknown);
        let most = list.events as u64;
        put(
            &mut self.windows,
            folded(most.wrapping_sub(row.windows).cast_signed()),
        );
        if even_kind == EVEN_OWN {
            put_rough(&mut self.reals, row.even.unwrap_or_default());
        }
        if !is_counted {
            put_real(&mut self.reals, row.reached);
            put_real(&mut self.reals, list.events);
            put_rough(&mut self.reals, list.threshold);
        }
        if pairs_kind == PAIRS_OWN {
            let (within, across) = list.pairs.unwrap_or_default();
            put_rough(&mut self.pairs, within);
            put_rough(&mut self.pairs, across);
        }
        for tuple in &list.tuples {
            recent.put(tuple.value, &mut self.places, &mut self.values);
            if is_counted {
                // A count is never 0.
                put(&mut self.counts, tuple.estimate as u64 - 1);
            } else {
                put_rough(&mut self.reals, tuple.estimate);
                put_rough(&mut self.reals, tuple.variance);
                put_rough(&mut self.reals, tuple.least);
            }
            match pairs_kind {
                PAIRS_ACROSS => put_rough(&mut self.pairs, tuple.pairs.1),
                PAIRS_OWN => {
                    put_rough(&mut self.pairs, tuple.pairs.0);
                    put_rough(&mut self.pairs, tuple.pairs.1);
                }
                _ => {}
            }
            if tuple.estimate >= TIMED {
                self.times.push(part_of(place.time, tuple.first));
            }
        }
    }
}

fn pairs_kind(row: &ListOf) -> u8 {
    let Some(pairs) = row.list.pairs else {
        return PAIRS_UNKNOWN;
    };
    let tuples = &row.list.tuples;
    let follow = pairs == (0.0, pairs_that_follow(row.windows))
        && tuples.iter().all(|tuple| tuple.pairs.0 == 0.0);
    match tuples.as_slice() {
        _ if !follow => PAIRS_OWN,
        [] => PAIRS_FOLLOW,
        [tuple] if tuple.pairs == pairs => PAIRS_FOLLOW,
        _ => PAIRS_ACROSS,
    }
}

/// Which part of a time a moment is in.
fn part_of((began, ended): (i64, i64), moment: u64) -> u8 {
    let length = i128::from(ended) - i128::from(began);
    if length <= 0 {
        return 0;
    }
    let part = (i128::from(moment) - i128::from(began)) * PARTS / length;
    // It is within 0 to 255 then.
    part.clamp(0, PARTS - 1) as u8
}
