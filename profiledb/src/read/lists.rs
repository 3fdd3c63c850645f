//! Lists in the tables `hotlist` and `tuple`, which older programs wrote.
//!
//! Of a list's settings only N is stored, and whether it is a precise one (counting samples,
//! eviction by weight) or the methods switch: f is N/(N-1), SatCount runs from 0 to 50, and a list
//! of other settings is not taken. The events offered are not stored either: they are the known
//! values, reached less unknown.

use hotlist::{Config, Estimates, Hotlist, Pairs, Parts, PartsTuple};

use super::{File, Referred, RowIndices, Table};
use crate::list::is_even;
use crate::profile::HotlistRow;
use crate::tables::Record;
use crate::tables::stored::{StoredHotlist, StoredTuple, TUPLE};
use crate::{Error, List};

impl File<'_> {
    /// Both tables lie in the order of the lists' ids, so they are read side by side.
    pub(crate) fn read_hotlists(&mut self, referred: &mut Referred) -> Result<(), Error> {
        let (conn, path) = (self.conn, self.path);
        let failed = |e| Error::sqlite(path, e);
        let select = TUPLE.select(self.version()?);
        let of = self.rows_of(Table::Tuples);
        let mut statement = conn
            .prepare(&format!("{select} NOT INDEXED {of} ORDER BY hotlist, rank"))
            .map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        let mut fetch = || -> Result<Option<StoredTuple>, Error> {
            rows.next()
                .and_then(|row| row.map(StoredTuple::read).transpose())
                .map_err(failed)
        };
        let mut next = fetch()?;
        // Of few lists the tuples are looked up.
        let few = self.filter.places.is_some();
        let mut of_one = conn
            .prepare(&format!("{select} WHERE hotlist = ?1 ORDER BY rank"))
            .map_err(failed)?;
        let of = self.rows_of(Table::Lists);
        self.rows(
            &format!("{of} ORDER BY id"),
            |file, id, row: StoredHotlist| {
                let place = file.place(referred, &row)?.here();
                let mut tuples = Vec::new();
                if few {
                    if let Some(place) = place {
                        let found = of_one.query_map([id], StoredTuple::read);
                        for tuple in found.map_err(failed)? {
                            file.charge_row()?;
                            tuples.push(parts(&tuple.map_err(failed)?));
                        }
                        let row = file.hotlist(id, place, row, tuples)?;
                        file.builder.add_list(&row);
                    }
                    return Ok(());
                }
                while let Some(tuple) = next.filter(|tuple| tuple.hotlist <= id) {
                    if tuple.hotlist < id {
                        return Err(file.stray(tuple.hotlist));
                    }
                    file.charge_row()?;
                    tuples.push(parts(&tuple));
                    next = fetch()?;
                }
                if let Some(place) = place {
                    let row = file.hotlist(id, place, row, tuples)?;
                    file.builder.add_list(&row);
                }
                Ok(())
            },
        )?;
        let stray = next.filter(|_| !few);
        stray.map_or(Ok(()), |tuple| Err(self.stray(tuple.hotlist)))
    }

    fn hotlist(
        &mut self,
        id: i64,
        place: RowIndices,
        row: StoredHotlist,
        tuples: Vec<PartsTuple<u64>>,
    ) -> Result<HotlistRow, Error> {
        let StoredHotlist {
            reached,
            unknown,
            windows,
            even,
            ..
        } = row;
        let Some(events) = reached.checked_sub(unknown) else {
            return Err(self.bad(id, format!("{unknown} of {reached} values unknown")));
        };
        if windows > events || (windows == 0) != (events == 0) {
            return Err(self.bad(id, format!("{events} known values from {windows} windows")));
        }
        // Every u32 is a usize on the one architecture there is.
        let config = Config::with_capacity(row.capacity as usize)
            .map_err(|error| self.bad(id, error.to_string()))?;
        let config = match row.by_weight {
            true => config.precise(),
            false => config,
        };
        if !even.is_none_or(is_even) {
            return Err(self.bad(id, format!("windows at distances even to {even:?}")));
        }
        let pairs = row.pairs_within.zip(row.pairs_across);
        let parts = Parts {
            config,
            p: row.p,
            concise: row.concise,
            sat_count: row.sat_count,
            events,
            // Not stored; no event of the list came later.
            last: u64::try_from(place.flush_time.1).unwrap_or(0),
            pairs: pairs.map(|(within, across)| Pairs { within, across }),
            tuples,
        };
        let list = Hotlist::from_parts(parts).map_err(|error| self.bad(id, error.to_string()))?;
        self.charge_list(list.bytes() as u64)?;
        let RowIndices {
            process,
            subject,
            pc,
            other: caller,
            ..
        } = place;
        Ok(HotlistRow {
            process,
            subject,
            pc,
            caller,
            parameter: self.builder.parameter(&row.parameter),
            reached: reached as f64,
            unknown: unknown as f64,
            windows,
            even,
            time: place.flush_time,
            list: List::from(&Estimates::from(&list)),
        })
    }

    fn bad(&self, id: i64, detail: String) -> Error {
        self.corrupt(format!("hotlist {id}: {detail}"))
    }

    fn stray(&self, hotlist: i64) -> Error {
        self.corrupt(format!(
            "a tuple belongs to hotlist {hotlist}, which is missing"
        ))
    }
}

/// A tuple as lists are made of.
fn parts(tuple: &StoredTuple) -> PartsTuple<u64> {
    PartsTuple {
        value: tuple.value,
        counted: tuple.counted,
        certain: tuple.certain,
        first: tuple.first,
        pairs: Pairs {
            within: tuple.pairs_within.unwrap_or(0),
            across: tuple.pairs_across.unwrap_or(0),
        },
        // The cast is exact: it was a number of 32 bits.
        variance: tuple.variance.map(|variance| variance as f32),
    }
}
