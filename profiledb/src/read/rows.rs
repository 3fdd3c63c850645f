//! What was collected: interrupts, branches, calls, counters and names.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::file::File;
use super::referred::{FlushOfFile, Placed, Referred, ReferredRow, RowIndices};
use super::source::Table;
use crate::Error;
use crate::profile::{BranchRow, CallRow, CyclesRow, FlushCounters};
use crate::rows::Image;
use crate::tables::stored::{StoredBranch, StoredCall, StoredCounter, StoredCycles, StoredSymbol};

/// Where a name stands, over how many bytes, and the name.
pub(super) type NamedPlace = (u64, u64, String);

/// The kind of counters that a collector adds when it ends a flush.
const ENDED: &str = "overhead";

/// The two flushes that ended last, the later first, by their ids; they count nothing yet.
fn last_two(referred: &Referred) -> Vec<(i64, FlushCounters)> {
    let mut taken: Vec<_> = referred.flushes.iter().collect();
    taken.retain(|(_, flush)| flush.taken);
    taken.sort_unstable_by_key(|(id, flush)| Reverse((flush.ended, **id)));
    let counters = |(id, flush): (&i64, &FlushOfFile)| {
        let counters = FlushCounters {
            started: flush.started,
            ended: flush.ended,
            counters: BTreeMap::new(),
        };
        (*id, counters)
    };
    taken.into_iter().take(2).map(counters).collect()
}

impl File<'_> {
    pub(super) fn read_cycles(&mut self, referred: &mut Referred) -> Result<(), Error> {
        let only = self.rows_of(Table::Cycles);
        self.rows(
            &format!("{only} ORDER BY rowid"),
            |file, _, row: StoredCycles| {
                let (samples, weight) = (row.samples, row.weight);
                let (image, place) = match file.place(referred, &row)? {
                    Placed::Nowhere => return Ok(()),
                    Placed::Elsewhere(image, cycles_per_unit) => {
                        let cycles = weight as f64 * cycles_per_unit;
                        file.builder.add_total(image, samples, cycles);
                        return Ok(());
                    }
                    Placed::Here(place) => (file.builder.image_of(place.pc), place),
                };
                {
                    let RowIndices {
                        process,
                        subject,
                        pc,
                        other: caller,
                        cycles_per_unit,
                        flush_time: time,
                    } = place;
                    let cycles = weight as f64 * cycles_per_unit;
                    file.builder.add_total(image, samples, cycles);
                    let row = CyclesRow {
                        process,
                        subject,
                        pc,
                        caller,
                        samples,
                        cycles,
                        time,
                    };
                    file.builder.add_cycles(row);
                }
                Ok(())
            },
        )
    }

    /// What branches or calls weigh; `None`: nobody has said it.
    fn weight(&self, weight: Option<f64>) -> Result<Option<f64>, Error> {
        match weight {
            Some(weight) if !(0.0..f64::INFINITY).contains(&weight) => {
                Err(self.corrupt(format!("a weight of {weight}")))
            }
            weight => Ok(weight),
        }
    }

    pub(super) fn read_branches(&mut self, referred: &mut Referred) -> Result<(), Error> {
        let only = self.rows_of(Table::Branches);
        self.rows(
            &format!("{only} ORDER BY rowid"),
            |file, _, row: StoredBranch| {
                let (taken, not_taken, unknown) = (row.taken, row.not_taken, row.unknown);
                let mut weights = [taken, not_taken, unknown].map(|times| times as f64);
                let said = [row.taken_weight, row.not_taken_weight, row.unknown_weight];
                for (said, weight) in said.into_iter().zip(&mut weights) {
                    *weight = file.weight(said)?.unwrap_or(*weight);
                }
                let squares = file.weight(row.squares)?;
                if let Some(RowIndices {
                    process,
                    subject,
                    pc,
                    ..
                }) = file.place(referred, &row)?.here()
                {
                    let row = BranchRow {
                        process,
                        subject,
                        pc,
                        taken,
                        not_taken,
                        unknown,
                        weights,
                        squares,
                    };
                    file.builder.add_branch(row);
                }
                Ok(())
            },
        )
    }

    pub(super) fn read_calls(&mut self, referred: &mut Referred) -> Result<(), Error> {
        let only = self.rows_of(Table::Calls);
        self.rows(
            &format!("{only} ORDER BY rowid"),
            |file, _, row: StoredCall| {
                let calls = row.calls;
                let weight = file.weight(row.weight)?.unwrap_or(calls as f64);
                let squares = file.weight(row.squares)?;
                // Who asks for a function asks who calls it as well.
                let placed = file.place_if(referred, &row, |site, callee| site || callee)?;
                if let Some(place) = placed.here() {
                    let RowIndices {
                        process,
                        subject,
                        pc: site,
                        other: callee,
                        ..
                    } = place;
                    let row = CallRow {
                        process,
                        subject,
                        site,
                        callee,
                        calls,
                        weight,
                        squares,
                    };
                    file.builder.add_call(row);
                }
                Ok(())
            },
        )
    }

    pub(super) fn read_counters(&mut self, referred: &Referred) -> Result<(), Error> {
        let mut latest = last_two(referred);
        let only = match self.kinds.counters {
            true => "",
            // How much an epoch collected is told by one of them.
            false => "WHERE kind = 'run' AND name = 'samples'",
        };
        self.rows(only, |file, _, row: StoredCounter| {
            let StoredCounter {
                flush,
                kind,
                name,
                value,
            } = row;
            let key = (kind, name);
            let Some(FlushOfFile { epoch, taken, .. }) = referred.flushes.get(&flush) else {
                return Err(file.dangling("flush", flush));
            };
            if *taken {
                let index = referred.epochs.get(epoch).and_then(|epoch| epoch.index);
                if key.0 == "run"
                    && key.1 == "samples"
                    && let Some(extent) =
                        index.and_then(|at| file.builder.profile.extents.get_mut(at))
                {
                    extent.samples = extent.samples.saturating_add(value);
                }
                if let Some((_, latest)) = latest.iter_mut().find(|(id, _)| *id == flush) {
                    latest.counters.insert(key.clone(), value);
                }
                let sum = file.builder.profile.counters.entry(key).or_insert(0);
                *sum = sum.saturating_add(value);
            }
            Ok(())
        })?;
        let is_ended = |flush: &FlushCounters| flush.counters.keys().any(|(kind, _)| kind == ENDED);
        let mut latest = latest.into_iter().map(|(_, flush)| flush);
        let first = latest.next();
        let latest = match latest.next() {
            Some(before) if !first.as_ref().is_some_and(is_ended) && is_ended(&before) => {
                Some(before)
            }
            _ => first,
        };
        let known = &mut self.builder.profile.latest;
        let ended = |flush: &Option<FlushCounters>| flush.as_ref().map(|flush| flush.ended);
        if ended(&latest) >= ended(known) {
            *known = latest;
        }
        Ok(())
    }
    /// The names of images that rows have referred to.
    pub(super) fn read_symbols(&mut self, referred: &Referred) -> Result<(), Error> {
        let mut symbols = Vec::new();
        self.rows("", |file, _, row: StoredSymbol| {
            let StoredSymbol {
                image,
                address,
                size,
                name,
            } = row;
            let Some(ReferredRow { index, .. }) = referred.images.get(&image) else {
                return Err(file.dangling("image", image));
            };
            if let Some(index) = *index {
                symbols.push(((index, address), (size, name)));
            }
            Ok(())
        })?;
        for (place, symbol) in symbols {
            self.builder.symbols.entry(place).or_insert(symbol);
        }
        Ok(())
    }

    /// The images of the file, and the names of each: address, size and name.
    pub(super) fn read_outline(mut self) -> Result<(Vec<Image>, Vec<Vec<NamedPlace>>), Error> {
        let mut referred = Referred::default();
        self.read_images(&mut referred)?;
        let mut index_of = HashMap::new();
        let (mut images, mut names) = (Vec::new(), Vec::new());
        for (id, ReferredRow { row, .. }) in referred.images {
            index_of.insert(id, images.len());
            images.push(row);
            names.push(Vec::new());
        }
        self.rows("", |file, _, row: StoredSymbol| {
            let (image, name) = (row.image, (row.address, row.size, row.name));
            let index = index_of.get(&image).copied();
            match index.and_then(|index| names.get_mut(index)) {
                Some(names) => names.push(name),
                None => return Err(file.dangling("image", image)),
            }
            Ok(())
        })?;
        Ok((images, names))
    }
}
