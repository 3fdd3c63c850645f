//! Unpacking lists.

use hotlist::{Estimate, Estimates};

use super::super::bytes::Reader;
use super::super::head::{Unpacked, unpack};
use super::super::recent::Recent;
use super::super::{At, Bad, ChunkPlace, address_in, later};
use super::{
    BITS, DRAWN, EVEN_OF_PROCESS, EVEN_OWN, EVEN_SHIFT, EVEN_UNKNOWN, ListOf, MANY, PAIRS_ACROSS,
    PAIRS_FOLLOW, PAIRS_OWN, PAIRS_SHIFT, PARTS, TIMED, Values, even_for, has_double,
    pairs_that_follow,
};

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
    let (mut runs, mut decoder) = Decoder::new(&unpacked, place)?;
    let tau = unpacked.front.ids.tau;
    let mut room = Vec::new();
    let mut left = unpacked.front.rows;
    for process in 0..unpacked.front.ids.processes.len() {
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

/// Gives the process, address and call site of each list to `take`. What else there is of it is
/// not looked at.
pub(crate) fn each_place(
    place: ChunkPlace,
    blob: &[u8],
    mut take: impl FnMut(At),
) -> Result<(), Bad> {
    let unpacked = unpack(blob)?;
    let (mut runs, mut decoder) = Decoder::new(&unpacked, place)?;
    let mut left = unpacked.front.rows;
    for process in 0..unpacked.front.ids.processes.len() {
        let mut offset = 0;
        for _ in 0..runs.count(left)? {
            left -= 1;
            let at = decoder.at(process, &mut offset)?;
            take((at.process, at.address, at.caller));
        }
    }
    match left {
        0 => Ok(()),
        _ => Err(Bad("has not the rows that it says")),
    }
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

impl<'b> Decoder<'b> {
    /// That of a chunk, and how many lists each process has in it.
    fn new(unpacked: &'b Unpacked, place: ChunkPlace) -> Result<(Reader<'b>, Decoder<'b>), Bad> {
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
        let decoder = Decoder {
            unpacked,
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
        Ok((runs, decoder))
    }

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
        let parameter = self.unpacked.front.ids.parameters.get(key.3).copied();
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
        if self.unpacked.front.ids.images.is_empty() {
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

/// The begin of a part.
fn begin_of((began, ended): (i64, i64), part: u8) -> u64 {
    let length = (i128::from(ended) - i128::from(began)).max(0);
    let moment = i128::from(began) + i128::from(part) * length / PARTS;
    u64::try_from(moment).unwrap_or(0)
}
