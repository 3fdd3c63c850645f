//! Lists: what a flush takes, and those in the tables `hotlist` and `tuple`, which older programs
//! wrote.
//!
//! There, of a list's settings only N is stored, and whether it is a precise one (counting samples,
//! eviction by weight) or the methods switch: f is N/(N-1), SatCount runs from 0 to 50, and
//! a list of other settings is not taken. The events offered
//! are not stored either: they are the known values, reached less unknown.

use hotlist::{Config, Estimates, Hotlist, Pairs, Parts, PartsTuple};
use rusqlite::Row;

use crate::flush::NewHotlist;
use crate::profile::HotlistRow;
use crate::read::{File, Place, Referred, Table};
use crate::{Error, List, from_sql, open};

/// Whether the row is such as can be read again.
pub(crate) fn check(row: &NewHotlist<'_>) -> Result<(), Error> {
    let NewHotlist {
        parameter,
        reached,
        unknown,
        windows,
        even,
        list,
        ..
    } = row;
    let invalid = |what: String| {
        Err(Error::Invalid {
            what: format!("{parameter}: {what}"),
        })
    };
    let known = reached - unknown;
    if !(is_count(*reached) && is_count(*unknown) && known >= 0.0) {
        return invalid(format!("{unknown} of {reached} values unknown"));
    }
    // Estimates add up but for rounding.
    if !is_count(list.events) || (list.events - known).abs() > 1e-9 * reached {
        let events = list.events;
        return invalid(format!(
            "a list of {events} events for {known} known values"
        ));
    }
    if *windows as f64 > known || (*windows == 0) != (known == 0.0) {
        return invalid(format!("{known} known values from {windows} windows"));
    }
    if !even.is_none_or(is_even) {
        return invalid(format!("windows at distances even to {even:?}"));
    }
    if !(list.threshold >= 1.0 && list.threshold < f64::INFINITY) {
        return invalid(format!("a list of threshold {}", list.threshold));
    }
    let pairs = list.pairs.unwrap_or_default();
    if !(is_count(pairs.0) && is_count(pairs.1)) {
        return invalid(format!("pairs of events {pairs:?}"));
    }
    for (index, tuple) in list.tuples.iter().enumerate() {
        let after = list.tuples.get(index + 1);
        let is_last = after.is_none_or(|after| after.estimate <= tuple.estimate);
        let numbers = [tuple.variance, tuple.least, tuple.pairs.0, tuple.pairs.1];
        let is_good = tuple.estimate > 0.0 && is_count(tuple.estimate) && is_last;
        if !(is_good && numbers.into_iter().all(is_count)) {
            return invalid(format!("estimate {index} cannot be: {tuple:?}"));
        }
    }
    match crate::chunk::has_double(&list.tuples) {
        true => invalid("a value is there twice".to_owned()),
        false => Ok(()),
    }
}

/// Whether it is a number from 0 on.
fn is_count(x: f64) -> bool {
    (0.0..f64::INFINITY).contains(&x)
}

fn is_even(even: f64) -> bool {
    (0.0..=1.0).contains(&even)
}

impl File<'_> {
    /// Both tables lie in the order of the lists' ids, so they are read side by side.
    pub(crate) fn read_hotlists(&mut self, referred: &mut Referred) -> Result<(), Error> {
        let (conn, path) = (self.conn, self.path);
        let failed = |e| Error::sqlite(path, e);
        let told = open::has_variance(conn).map_err(failed)?;
        let more = match told {
            true => "pairs_within, pairs_across, variance",
            false => "NULL, NULL, NULL",
        };
        let sql = format!(
            "SELECT hotlist, value, counted, certain, first, {more}
             FROM tuple NOT INDEXED {} ORDER BY hotlist, rank",
            self.rows_of(Table::Tuples)
        );
        let mut statement = conn.prepare(&sql).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        let mut fetch = || -> Result<_, Error> {
            rows.next()
                .and_then(|row| row.map(tuple).transpose())
                .map_err(failed)
        };
        let mut next = fetch()?;
        // Of few lists the tuples are looked up.
        let few = self.filter.places.is_some();
        let mut of_one = conn
            .prepare(&format!(
                "SELECT hotlist, value, counted, certain, first, {more}
                 FROM tuple WHERE hotlist = ?1 ORDER BY rank"
            ))
            .map_err(failed)?;

        let more = match told {
            true => "pairs_within, pairs_across, even",
            false => "NULL, NULL, NULL",
        };
        let sql = format!(
            "SELECT flush, process, subject, pc, caller, id, parameter, reached, unknown,
                    windows, capacity, p, concise, sat_count, by_weight, {more}
             FROM hotlist NOT INDEXED {} ORDER BY id",
            self.rows_of(Table::Lists)
        );
        self.each(&sql, |file, row| {
            let id: i64 = file.get(row, 5)?;
            let parameter = file.text(row, 6)?;
            let place = file.place(referred, row, 0)?.here();
            let mut tuples = Vec::new();
            if few {
                if let Some(place) = place {
                    for tuple in of_one.query_map([id], tuple).map_err(failed)? {
                        file.charge_row()?;
                        tuples.push(tuple.map_err(failed)?.1);
                    }
                    let row = file.hotlist(id, place, parameter, row, tuples)?;
                    file.builder.add_list(&row);
                }
                return Ok(());
            }
            while let Some((hotlist, tuple)) = next.filter(|(hotlist, _)| *hotlist <= id) {
                if hotlist < id {
                    return Err(file.stray(hotlist));
                }
                file.charge_row()?;
                tuples.push(tuple);
                next = fetch()?;
            }
            if let Some(place) = place {
                let row = file.hotlist(id, place, parameter, row, tuples)?;
                file.builder.add_list(&row);
            }
            Ok(())
        })?;
        let stray = next.filter(|_| !few);
        stray.map_or(Ok(()), |(hotlist, _)| Err(self.stray(hotlist)))
    }

    fn hotlist(
        &mut self,
        id: i64,
        place: Place,
        parameter: String,
        row: &Row<'_>,
        tuples: Vec<PartsTuple<u64>>,
    ) -> Result<HotlistRow, Error> {
        let reached = self.word(row, 7)?;
        let unknown = self.word(row, 8)?;
        let windows = self.word(row, 9)?;
        let capacity: u32 = self.get(row, 10)?;
        let Some(events) = reached.checked_sub(unknown) else {
            return Err(self.bad(id, format!("{unknown} of {reached} values unknown")));
        };
        if windows > events || (windows == 0) != (events == 0) {
            return Err(self.bad(id, format!("{events} known values from {windows} windows")));
        }
        // Every u32 is a usize on the one architecture there is.
        let config = Config::with_capacity(capacity as usize)
            .map_err(|error| self.bad(id, error.to_string()))?;
        let by_weight: bool = self.get(row, 14)?;
        let config = if by_weight { config.precise() } else { config };
        let even: Option<f64> = self.get(row, 17)?;
        if !even.is_none_or(is_even) {
            return Err(self.bad(id, format!("windows at distances even to {even:?}")));
        }
        let pairs = |column| -> Result<Option<u64>, Error> {
            self.get(row, column)
                .map(|sum: Option<i64>| sum.map(from_sql))
        };
        let pairs = pairs(15)?.zip(pairs(16)?);
        let parts = Parts {
            config,
            p: self.get(row, 11)?,
            concise: self.get(row, 12)?,
            sat_count: self.get(row, 13)?,
            events,
            // Not stored; no event of the list came later.
            last: u64::try_from(place.flush_time.1).unwrap_or(0),
            pairs: pairs.map(|(within, across)| Pairs { within, across }),
            tuples,
        };
        let list = Hotlist::from_parts(parts).map_err(|error| self.bad(id, error.to_string()))?;
        self.charge_list(list.bytes() as u64)?;
        let Place {
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
            parameter: self.builder.parameter(&parameter),
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

/// The list that a tuple belongs to, and the tuple.
fn tuple(row: &Row<'_>) -> rusqlite::Result<(i64, PartsTuple<u64>)> {
    let word = |column| row.get(column).map(from_sql);
    let pairs = |column| {
        row.get(column)
            .map(|sum: Option<i64>| sum.map_or(0, from_sql))
    };
    let tuple = PartsTuple {
        value: word(1)?,
        counted: word(2)?,
        certain: word(3)?,
        first: word(4)?,
        pairs: Pairs {
            within: pairs(5)?,
            across: pairs(6)?,
        },
        // The cast is exact: it was a number of 32 bits.
        variance: row
            .get::<_, Option<f64>>(7)?
            .map(|variance| variance as f32),
    };
    Ok((row.get(0)?, tuple))
}
