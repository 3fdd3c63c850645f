//! Lists: which values parameters had.

use hotlist::{Estimate, Estimates};

use super::bytes::{Reader, folded, put, put_real, put_rough};
use super::head::{Dictionary, Ids, Unpacked, pack, unpack};
use super::recent::Recent;
use super::{At, Bad, ChunkKind, ChunkPlace, Packed, address_in, later, offset_of};

/// The values of one parameter at one PC, as they are stored: what a list that was kept by a draw
/// stands for is not in its numbers yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListOf {
    /// Row of the process.
    pub(crate) process: i64,
    /// Address of the PC.
    pub(crate) address: u64,
    /// Image and address of the call site.
    pub(crate) caller: Option<(i64, u64)>,
    /// Row of the parameter.
    pub(crate) parameter: i64,
    /// How often a window came by.
    pub(crate) reached: f64,
    /// How often of these the value was unknown.
    pub(crate) unknown: f64,
    /// Distinct windows that the known values came from.
    pub(crate) windows: u64,
    /// How far these came at even distances.
    pub(crate) even: Option<f64>,
    /// The values.
    pub(crate) list: Estimates<u64>,
}

/// The lists of a chunk.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Values {
    /// As [`Ids::tau`].
    pub(crate) tau: f64,
    /// By process, address, call site and parameter.
    pub(crate) rows: Vec<ListOf>,
}

impl Packed for ListOf {
    type Key = (i64, u64, Option<(i64, u64)>, i64);

    fn key(&self) -> Self::Key {
        (self.process, self.address, self.caller, self.parameter)
    }

    fn at(&self) -> At {
        (self.process, self.address, self.caller)
    }

    fn set_at(&mut self, at: At) {
        (self.process, self.address, self.caller) = at;
    }
}

impl ListOf {
    /// As how many lists it counts where lists were drawn by this.
    pub(crate) fn weight(&self, tau: f64) -> f64 {
        (tau / self.reached.max(1.0)).max(1.0)
    }

    /// Its numbers with those that it stands for.
    pub(crate) fn weigh(&mut self, tau: f64) {
        let weight = self.weight(tau);
        if weight > 1.0 {
            self.reached *= weight;
            self.unknown *= weight;
            self.list.weigh(weight);
        }
    }
}

/// Bits of an address within its bucket.
const BITS: u32 = ChunkKind::Values.bits();
const _: () = assert!(BITS == ChunkKind::Keyed.bits());

/// Bits 0 to 2 of a row's shape: how many values; so many or more.
const MANY: usize = 7;
/// Bit 3: the list is what was drawn, not all that came.
const DRAWN: u8 = 1 << 3;
/// Bits 4 and 5: how even its windows are.
const EVEN_SHIFT: u8 = 4;
const EVEN_UNKNOWN: u8 = 0;
const EVEN_OF_PROCESS: u8 = 1;
const EVEN_OWN: u8 = 2;
/// Bits 6 and 7: its pairs.
const PAIRS_SHIFT: u8 = 6;
const PAIRS_UNKNOWN: u8 = 0;
/// None within windows, and those across follow from the number of windows.
const PAIRS_FOLLOW: u8 = 1;
/// As these, but for those of each value across windows.
const PAIRS_ACROSS: u8 = 2;
const PAIRS_OWN: u8 = 3;

/// A time of a value is kept from so many events on.
const TIMED: f64 = 8.0;
/// Parts of the time that a chunk covers.
const PARTS: i128 = 256;

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

fn even_for(of_process: f32, windows: u64) -> f64 {
    (f64::from(of_process) * windows as f64).min(1.0)
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

/// The pairs across windows of a list with one event in each window.
fn pairs_that_follow(windows: u64) -> f64 {
    windows.saturating_sub(1) as f64
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

/// The begin of a part.
fn begin_of((began, ended): (i64, i64), part: u8) -> u64 {
    let length = (i128::from(ended) - i128::from(began)).max(0);
    let moment = i128::from(began) + i128::from(part) * length / PARTS;
    u64::try_from(moment).unwrap_or(0)
}

/// Unpacks lists.
pub(crate) fn decode_values(place: ChunkPlace, is_keyed: bool, blob: &[u8]) -> Result<Values, Bad> {
    decode_some_values(place, is_keyed, blob, |_, _| true)
}

/// Unpacks the lists that pass a test of their place and their parameter. The values of others are
/// passed over.
pub(crate) fn decode_some_values(
    place: ChunkPlace,
    is_keyed: bool,
    blob: &[u8],
    wants: impl FnMut(At, i64) -> bool,
) -> Result<Values, Bad> {
    let mut rows: Vec<ListOf> = Vec::new();
    let tau = each_list(place, is_keyed, blob, wants, |row, _| {
        rows.push(ListOf {
            list: std::mem::take(&mut row.list),
            ..*row
        });
    })?;
    Ok(Values { tau, rows })
}

/// Unpacks the lists that pass a test of their place and their parameter, and gives each with
/// [`Values::tau`] to `take`; tau once more. One list at a time has room.
pub(crate) fn each_list(
    place: ChunkPlace,
    is_keyed: bool,
    blob: &[u8],
    mut wants: impl FnMut(At, i64) -> bool,
    mut take: impl FnMut(&mut ListOf, f64),
) -> Result<f64, Bad> {
    let unpacked = unpack(blob)?;
    let [
        runs,
        addresses,
        callers,
        parameters,
        shapes,
        unknown,
        windows,
        counts,
        places,
        values,
        pairs,
        times,
        reals,
    ] = unpacked.columns()?;
    let mut decoder = Decoder {
        unpacked: &unpacked,
        place,
        addresses,
        callers,
        parameters,
        shapes,
        unknown,
        windows,
        counts,
        places,
        values,
        pairs,
        times,
        reals,
        recent: Recent::default(),
        last_caller: 0,
        last: None,
    };
    let mut runs = runs;
    let tau = unpacked.ids.tau;
    let mut room = Vec::new();
    let mut left = unpacked.rows;
    for process in 0..unpacked.ids.processes.len() {
        let mut offset = 0;
        for _ in 0..runs.count(left)? {
            left -= 1;
            let at = decoder.at(process, &mut offset)?;
            if at.caller.is_some() && !is_keyed {
                return Err(Bad("has a call site where none belongs"));
            }
            let shape = decoder.shape()?;
            match wants((at.process, at.address, at.caller), at.parameter) {
                true => {
                    let mut row = decoder.row(at, shape, std::mem::take(&mut room))?;
                    take(&mut row, tau);
                    room = std::mem::take(&mut row.list.tuples);
                }
                false => decoder.pass_over(shape)?,
            }
        }
    }
    if left != 0 {
        return Err(Bad("has not the rows that it says"));
    }
    for column in [
        runs,
        decoder.addresses,
        decoder.callers,
        decoder.parameters,
        decoder.shapes,
        decoder.unknown,
        decoder.windows,
        decoder.counts,
        decoder.places,
        decoder.values,
        decoder.pairs,
        decoder.times,
        decoder.reals,
    ] {
        column.end()?;
    }
    Ok(tau)
}

struct Decoder<'b> {
    unpacked: &'b Unpacked,
    place: ChunkPlace,
    addresses: Reader<'b>,
    callers: Reader<'b>,
    parameters: Reader<'b>,
    shapes: Reader<'b>,
    unknown: Reader<'b>,
    windows: Reader<'b>,
    counts: Reader<'b>,
    places: Reader<'b>,
    values: Reader<'b>,
    pairs: Reader<'b>,
    times: Reader<'b>,
    reals: Reader<'b>,
    recent: Recent,
    last_caller: u64,
    /// The key of the last row, with places in dictionaries for ids.
    last: Option<Key>,
}

/// What orders rows: process, offset, call site and parameter, ids by their places.
type Key = (usize, u64, Option<(usize, u64)>, usize);

/// Where a list is, and how even windows of its process are.
struct AtOfList {
    process: i64,
    even: f32,
    address: u64,
    caller: Option<(i64, u64)>,
    parameter: i64,
}

/// What columns have of a list.
struct Shape {
    tuples: usize,
    is_counted: bool,
    even: u8,
    pairs: u8,
}

impl Decoder<'_> {
    fn at(&mut self, process: usize, offset: &mut u64) -> Result<AtOfList, Bad> {
        *offset = later(BITS, *offset, self.addresses.number()?)?;
        let key = (process, *offset, self.caller()?, self.parameter()?);
        if self.last.is_some_and(|last| last >= key) {
            return Err(Bad("has its rows out of order"));
        }
        self.last = Some(key);
        let (process, even) = self.unpacked.process(process)?;
        let caller = match key.2 {
            Some((image, address)) => Some((self.unpacked.image(image)?, address)),
            None => None,
        };
        let parameter = self.unpacked.ids.parameters.get(key.3).copied();
        let parameter = parameter.ok_or(Bad("refers to a parameter that it does not name"))?;
        Ok(AtOfList {
            process,
            even,
            address: address_in(BITS, self.place.bucket, *offset),
            caller,
            parameter,
        })
    }

    fn shape(&mut self) -> Result<Shape, Bad> {
        let shape = self.shapes.byte()?;
        let mut tuples = usize::from(shape) & MANY;
        if tuples == MANY {
            tuples += self.counts.count(self.places.left())?;
        }
        Ok(Shape {
            tuples,
            is_counted: shape & DRAWN == 0,
            even: (shape >> EVEN_SHIFT) & 3,
            pairs: shape >> PAIRS_SHIFT,
        })
    }

    /// Leaves a list behind. Its numbers are not looked at.
    fn pass_over(&mut self, shape: Shape) -> Result<(), Bad> {
        self.unknown.real()?;
        self.windows.number()?;
        if shape.even == EVEN_OWN {
            self.reals.rough()?;
        }
        if !shape.is_counted {
            self.reals.real()?;
            self.reals.real()?;
            self.reals.rough()?;
        }
        if shape.pairs == PAIRS_OWN {
            self.pairs.rough()?;
            self.pairs.rough()?;
        }
        for _ in 0..shape.tuples {
            self.tuple(shape.is_counted, shape.pairs)?;
        }
        Ok(())
    }

    /// A list; its values have the room of `values`.
    fn row(
        &mut self,
        at: AtOfList,
        shape: Shape,
        mut values: Vec<Estimate<u64>>,
    ) -> Result<ListOf, Bad> {
        let Shape {
            tuples,
            is_counted,
            even: even_kind,
            pairs: pairs_kind,
        } = shape;
        let unknown = self.unknown.real()?;
        let fewer = self.windows.signed()?;
        let own = match even_kind {
            EVEN_OWN => Some(self.reals.rough()?),
            _ => None,
        };
        let drawn = match is_counted {
            true => None,
            false => Some((self.reals.real()?, self.reals.real()?, self.reals.rough()?)),
        };
        let own_pairs = match pairs_kind {
            PAIRS_OWN => Some((self.pairs.rough()?, self.pairs.rough()?)),
            _ => None,
        };
        values.clear();
        // More than are there cannot be asked for.
        values.reserve(tuples.min(self.places.left()));
        let mut list = Estimates {
            events: 0.0,
            threshold: 1.0,
            pairs: own_pairs,
            tuples: values,
        };
        for _ in 0..tuples {
            let tuple = self.tuple(is_counted, pairs_kind)?;
            list.events += tuple.estimate;
            if list
                .tuples
                .last()
                .is_some_and(|last| last.estimate < tuple.estimate)
            {
                return Err(Bad("has its values out of order"));
            }
            list.tuples.push(tuple);
        }
        if has_double(&list.tuples) {
            return Err(Bad("has a value twice"));
        }
        let mut reached = list.events + unknown;
        if let Some((of_row, events, threshold)) = drawn {
            (reached, list.events, list.threshold) = (of_row, events, threshold);
            let differs = (reached - unknown - events).abs() > 1e-6 * reached;
            if differs || threshold < 1.0 {
                return Err(Bad("has counts that contradict each other"));
            }
        }
        let windows = (list.events as u64).wrapping_sub(fewer.cast_unsigned());
        if windows > 1 << 62
            || (is_counted && fewer < 0)
            || ((windows == 0) != (list.events == 0.0))
        {
            return Err(Bad("has counts that contradict each other"));
        }
        let followed = pairs_that_follow(windows);
        if let PAIRS_FOLLOW | PAIRS_ACROSS = pairs_kind {
            list.pairs = Some((0.0, followed));
        }
        if let (PAIRS_FOLLOW, [tuple]) = (pairs_kind, list.tuples.as_mut_slice()) {
            tuple.pairs = (0.0, followed);
        }
        let even = match even_kind {
            EVEN_UNKNOWN => None,
            EVEN_OF_PROCESS => Some(even_for(at.even, windows)),
            _ => own.filter(|own| *own <= 1.0),
        };
        Ok(ListOf {
            process: at.process,
            address: at.address,
            caller: at.caller,
            parameter: at.parameter,
            reached,
            unknown,
            windows,
            even,
            list,
        })
    }

    fn caller(&mut self) -> Result<Option<(usize, u64)>, Bad> {
        if self.unpacked.ids.images.is_empty() {
            return Ok(None);
        }
        let Some(image) = self.callers.number()?.checked_sub(1) else {
            return Ok(None);
        };
        let step = self.callers.signed()?.cast_unsigned();
        self.last_caller = self.last_caller.wrapping_add(step);
        let image = usize::try_from(image).unwrap_or(usize::MAX);
        Ok(Some((image, self.last_caller)))
    }

    fn parameter(&mut self) -> Result<usize, Bad> {
        Ok(usize::try_from(self.parameters.number()?).unwrap_or(usize::MAX))
    }

    fn tuple(&mut self, is_counted: bool, pairs_kind: u8) -> Result<Estimate<u64>, Bad> {
        let value = self.recent.take(&mut self.places, &mut self.values)?;
        let (estimate, variance, least) = match is_counted {
            true => {
                let count = self.counts.number()?.saturating_add(1) as f64;
                (count, 0.0, count)
            }
            false => (
                self.reals.rough()?,
                self.reals.rough()?,
                self.reals.rough()?,
            ),
        };
        let pairs = match pairs_kind {
            PAIRS_ACROSS => (0.0, self.pairs.rough()?),
            PAIRS_OWN => (self.pairs.rough()?, self.pairs.rough()?),
            _ => (0.0, 0.0),
        };
        let part = match estimate >= TIMED {
            true => self.times.byte()?,
            false => 0,
        };
        Ok(Estimate {
            value,
            estimate,
            variance,
            least,
            first: begin_of(self.place.time, part),
            pairs,
        })
    }
}

/// Whether a value is there twice.
pub(crate) fn has_double(tuples: &[Estimate<u64>]) -> bool {
    if let [] | [_] = tuples {
        return false;
    }
    // Few are compared one by one: most lists have few, and there are many lists.
    const FEW: usize = 8;
    if tuples.len() <= FEW {
        let mut rest = tuples;
        while let Some((one, others)) = rest.split_first() {
            if others.iter().any(|other| other.value == one.value) {
                return true;
            }
            rest = others;
        }
        return false;
    }
    let mut values: Vec<u64> = tuples.iter().map(|tuple| tuple.value).collect();
    values.sort_unstable();
    values.windows(2).any(|pair| pair.first() == pair.last())
}
