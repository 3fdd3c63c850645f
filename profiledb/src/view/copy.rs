//! One database into the view: which of its rows, and as what.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;

use rusqlite::types::{FromSql, Value};
use rusqlite::{Connection, Params, Row, Rows, params};
use selection::Selection;

use super::refer::{FlushOfSource, ImageOfSource, PcOfSource, PcRow, SubjectOfSource};
use super::target::Target;
use super::{Stop, Viewer};
use crate::{Filter, from_sql, open, to_sql};

/// One database on its way into the view.
pub(super) struct Copy<'a> {
    pub(super) path: &'a Path,
    pub(super) source: &'a Connection,
    pub(super) view: &'a mut Target,
    pub(super) viewer: Viewer,
    pub(super) selection: &'a Selection,
    /// What it says of whole rows.
    pub(super) filter: Rc<Filter>,
    /// It is what the last epoch of the sources before has not saved yet.
    pub(super) is_newest: bool,
    pub(super) flushes: HashMap<i64, FlushOfSource>,
    /// Epoch in the view, begin, end and grain of the roll-up that the time asked for ends within.
    pub(super) cut: Option<(i64, i64, i64, i64)>,
    pub(super) subjects: HashMap<i64, SubjectOfSource>,
    pub(super) images: HashMap<i64, ImageOfSource>,
    /// Images that the source has names for.
    pub(super) with_names: HashSet<i64>,
    /// `None`: all.
    pub(super) wanted_processes: Option<HashSet<i64>>,
    pub(super) processes: HashMap<i64, i64>,
    pub(super) pcs: HashMap<i64, PcOfSource>,
    /// Rows of the table `parameter` by those of the source.
    pub(super) parameters: HashMap<i64, i64>,
    /// Addresses of PCs that chunks of the view have, by the images of the source.
    pub(super) shown: HashMap<i64, HashSet<u64>>,
    /// PCs that were just read.
    pub(super) read: [Option<(i64, PcRow)>; 2],
}

/// The ids of what a row refers to: flush, process, subject, PC, and the PC of a caller or callee.
type Place = (i64, i64, i64, i64, Option<i64>);

/// The tuples of all lists, in the order of these.
struct Tuples<'s> {
    rows: Rows<'s>,
    /// One that was read already: its list, its other numbers, and what tells how sure it is.
    next: Option<([i64; 6], [Value; 3])>,
}

impl<'a> Copy<'a> {
    pub(super) fn new(
        path: &'a Path,
        source: &'a Connection,
        view: &'a mut Target,
        viewer: Viewer,
        selection: &'a Selection,
    ) -> Self {
        Copy {
            path,
            source,
            view,
            viewer,
            selection,
            filter: Rc::new(Filter::from(selection)),
            is_newest: false,
            flushes: HashMap::new(),
            cut: None,
            subjects: HashMap::new(),
            images: HashMap::new(),
            with_names: HashSet::new(),
            wanted_processes: None,
            processes: HashMap::new(),
            pcs: HashMap::new(),
            parameters: HashMap::new(),
            shown: HashMap::new(),
            read: [None, None],
        }
    }

    /// It is what the last epoch of the sources before has not saved yet.
    pub(super) fn of_newest(mut self) -> Self {
        self.is_newest = true;
        self
    }

    pub(super) fn run(mut self) -> Result<(), Stop> {
        match self.is_newest {
            true => self.go_on()?,
            false => self.epochs()?,
        }
        if self.flushes.is_empty() {
            return Ok(());
        }
        self.read_subjects()?;
        self.read_pids()?;
        self.read_images()?;
        if self.viewer.is_privileged() && self.selection.kinds.is_none() {
            return self.outline();
        }
        self.each("SELECT DISTINCT image FROM symbol", [], |copy, row| {
            copy.with_names.insert(copy.get(row, 0)?);
            Ok(())
        })?;
        let kinds = self.selection.kinds;
        if kinds.cycles {
            self.cycles()?;
        }
        if kinds.values {
            self.hotlists()?;
        }
        if kinds.branches {
            self.branches()?;
        }
        if kinds.calls {
            self.calls()?;
        }
        let has_chunks = open::has_chunks(self.source).map_err(|e| self.failed(e))?;
        if has_chunks {
            self.chunks()?;
        }
        if kinds.values && open::has_regions(self.source).map_err(|e| self.failed(e))? {
            self.regions()?;
        }
        if kinds.counters {
            self.counters()?;
        }
        if has_chunks {
            self.code()?;
        }
        self.symbols()
    }

    /// All images and names: what has to be known to ask for less than all rows.
    fn outline(&mut self) -> Result<(), Stop> {
        let images: Vec<i64> = self.images.keys().copied().collect();
        for image in images {
            self.put_image(image)?;
        }
        self.each(
            "SELECT image, address, size, name FROM symbol",
            [],
            |copy, row| {
                let image = copy.put_image(copy.get(row, 0)?)?;
                let (address, size): (i64, i64) = (copy.get(row, 1)?, copy.get(row, 2)?);
                let name: String = copy.get(row, 3)?;
                copy.view.add(
                "INSERT OR IGNORE INTO symbol (image, address, size, name) VALUES (?1, ?2, ?3, ?4)",
                params![image, address, size, name],
            )
            },
        )
    }

    /// What a row refers to whose first five columns say when, in which process, for whom and at
    /// which PCs it was collected: as in the source, less what the viewer may not see. `None`:
    /// it is not for this view.
    fn judge(
        &mut self,
        row: &Row<'_>,
        is_wanted: fn(PcOfSource, Option<PcOfSource>) -> bool,
    ) -> Result<Option<Place>, Stop> {
        let (flush, process): (i64, i64) = (self.get(row, 0)?, self.get(row, 1)?);
        let (subject, pc): (i64, i64) = (self.get(row, 2)?, self.get(row, 3)?);
        let other: Option<i64> = self.get(row, 4)?;
        let processes = self.wanted_processes.as_ref();
        if !self.subjects.contains_key(&subject)
            || !self.flushes.contains_key(&flush)
            || processes.is_some_and(|wanted| !wanted.contains(&process))
        {
            return Ok(None);
        }
        let at = self.pc(pc)?;
        let sees_kernel = self.viewer.is_privileged();
        if at.kernel && !sees_kernel {
            return Ok(None);
        }
        let seen = other.map(|id| self.pc(id)).transpose()?;
        let seen = seen.filter(|other| sees_kernel || !other.kernel);
        if !is_wanted(at, seen) {
            return Ok(None);
        }
        let shown = other.filter(|_| seen.is_some());
        Ok(Some((flush, process, subject, pc, shown)))
    }

    /// What a row refers to in the view, where it is put if it is not there yet. `None`: it is
    /// not for this view.
    fn place(
        &mut self,
        row: &Row<'_>,
        is_wanted: fn(PcOfSource, Option<PcOfSource>) -> bool,
    ) -> Result<Option<Place>, Stop> {
        let Some((flush, process, subject, pc, other)) = self.judge(row, is_wanted)? else {
            return Ok(None);
        };
        Ok(Some((
            self.put_flush(flush)?,
            self.put_process(process, flush)?,
            self.put_subject(subject)?,
            self.put_pc(pc)?,
            other.map(|id| self.put_pc(id)).transpose()?,
        )))
    }

    fn cycles(&mut self) -> Result<(), Stop> {
        let sql = "SELECT flush, process, subject, pc, caller, samples, weight
                   FROM cycles NOT INDEXED ORDER BY rowid";
        self.each(sql, [], |copy, row| {
            // Shares are of all of them, wherever they are.
            let placed = copy.place(row, |at, _| at.of_wanted_image)?;
            let Some((flush, process, subject, pc, other)) = placed else {
                return Ok(());
            };
            let (samples, weight): (i64, i64) = (copy.get(row, 5)?, copy.get(row, 6)?);
            copy.count(copy.get(row, 0)?, samples);
            copy.view.add(
                "INSERT INTO cycles (flush, process, subject, pc, caller, samples, weight)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![flush, process, subject, pc, other, samples, weight],
            )
        })
    }

    fn hotlists(&mut self) -> Result<(), Stop> {
        let told = open::has_variance(self.source).map_err(|e| self.failed(e))?;
        let (of_list, of_tuple) = match told {
            true => (
                "pairs_within, pairs_across, even",
                "pairs_within, pairs_across, variance",
            ),
            false => ("NULL, NULL, NULL", "NULL, NULL, NULL"),
        };
        let sql = format!(
            "SELECT flush, process, subject, pc, caller, id, parameter, reached, unknown,
                    windows, capacity, by_weight, p, concise, sat_count, {of_list}
             FROM hotlist NOT INDEXED ORDER BY id"
        );
        // In the same order, so that one walk over the tuples is enough for all lists.
        let mut tuples = self
            .source
            .prepare(&format!(
                "SELECT hotlist, rank, value, counted, certain, first, {of_tuple}
                 FROM tuple ORDER BY hotlist, rank"
            ))
            .map_err(|e| self.failed(e))?;
        let mut tuples = Tuples {
            rows: tuples.query([]).map_err(|e| self.failed(e))?,
            next: None,
        };
        self.each(&sql, [], |copy, row| {
            let Some((flush, process, subject, pc, other)) = copy.place(row, |at, _| at.wanted)?
            else {
                return Ok(());
            };
            let parameter: String = copy.get(row, 6)?;
            let counts: [i64; 3] = [copy.get(row, 7)?, copy.get(row, 8)?, copy.get(row, 9)?];
            let (capacity, by_weight): (i64, i64) = (copy.get(row, 10)?, copy.get(row, 11)?);
            let p: f64 = copy.get(row, 12)?;
            let (concise, sat_count): (i64, i64) = (copy.get(row, 13)?, copy.get(row, 14)?);
            let pairs: [Option<i64>; 2] = [copy.get(row, 15)?, copy.get(row, 16)?];
            let even: Option<f64> = copy.get(row, 17)?;
            let new = copy.view.insert(
                "INSERT INTO hotlist (flush, process, subject, pc, caller, parameter, reached,
                                      unknown, windows, capacity, by_weight, p, concise,
                                      sat_count, pairs_within, pairs_across, even)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
                         ?17)",
                params![
                    flush, process, subject, pc, other, parameter, counts[0], counts[1], counts[2],
                    capacity, by_weight, p, concise, sat_count, pairs[0], pairs[1], even,
                ],
            )?;
            copy.tuples(&mut tuples, copy.get(row, 5)?, new)
        })
    }

    /// Copies the tuples of a list; those of lists before it are passed over.
    fn tuples(
        &mut self,
        tuples: &mut Tuples<'_>,
        of_source: i64,
        hotlist: i64,
    ) -> Result<(), Stop> {
        loop {
            let tuple = match tuples.next.take() {
                Some(tuple) => tuple,
                None => match tuples.rows.next().map_err(|e| self.failed(e))? {
                    None => return Ok(()),
                    Some(row) => {
                        self.view.look_at_limits()?;
                        let mut columns = [0; 6];
                        for (index, column) in columns.iter_mut().enumerate() {
                            *column = self.get::<i64>(row, index)?;
                        }
                        let whole = |column| -> Result<Value, Stop> {
                            self.get::<Option<i64>>(row, column).map(Value::from)
                        };
                        let variance: Option<f64> = self.get(row, 8)?;
                        (columns, [whole(6)?, whole(7)?, variance.into()])
                    }
                },
            };
            let (columns, sure) = &tuple;
            let &[list, rank, value, counted, certain, first] = columns;
            if list > of_source {
                tuples.next = Some(tuple);
                return Ok(());
            }
            if list == of_source {
                self.view.add(
                    "INSERT INTO tuple (hotlist, rank, value, counted, certain, first,
                                        pairs_within, pairs_across, variance)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                    params![
                        hotlist, rank, value, counted, certain, first, sure[0], sure[1], sure[2],
                    ],
                )?;
            }
        }
    }

    fn branches(&mut self) -> Result<(), Stop> {
        let weights = match open::has_weights(self.source).map_err(|e| self.failed(e))? {
            true => "taken_weight, not_taken_weight, unknown_weight, squares",
            false => "NULL, NULL, NULL, NULL",
        };
        let sql = format!(
            "SELECT flush, process, subject, pc, NULL, taken, not_taken, unknown, {weights}
             FROM branch NOT INDEXED ORDER BY rowid"
        );
        self.each(&sql, [], |copy, row| {
            let Some((flush, process, subject, pc, _)) = copy.place(row, |at, _| at.wanted)? else {
                return Ok(());
            };
            let counts: [i64; 3] = [copy.get(row, 5)?, copy.get(row, 6)?, copy.get(row, 7)?];
            let mut weights = [None::<f64>; 4];
            for (column, weight) in (8..).zip(&mut weights) {
                *weight = copy.get(row, column)?;
            }
            copy.view.add(
                "INSERT INTO branch (flush, process, subject, pc, taken, not_taken, unknown,
                                     taken_weight, not_taken_weight, unknown_weight, squares)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                params![
                    flush, process, subject, pc, counts[0], counts[1], counts[2], weights[0],
                    weights[1], weights[2], weights[3],
                ],
            )
        })
    }

    fn calls(&mut self) -> Result<(), Stop> {
        let weights = match open::has_weights(self.source).map_err(|e| self.failed(e))? {
            true => "weight, squares",
            false => "NULL, NULL",
        };
        let sql = format!(
            "SELECT flush, process, subject, site, callee, calls, {weights}
             FROM call NOT INDEXED ORDER BY rowid"
        );
        self.each(&sql, [], |copy, row| {
            // Who asks for a function asks who calls it as well.
            let placed = copy.place(row, |site, callee| {
                site.wanted || callee.is_some_and(|callee| callee.is_in_range)
            })?;
            let Some((flush, process, subject, site, callee)) = placed else {
                return Ok(());
            };
            let calls: i64 = copy.get(row, 5)?;
            let weights: [Option<f64>; 2] = [copy.get(row, 6)?, copy.get(row, 7)?];
            copy.view.add(
                "INSERT INTO call (flush, process, subject, site, callee, calls, weight, squares)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    flush, process, subject, site, callee, calls, weights[0], weights[1]
                ],
            )
        })
    }

    /// Counts the interrupts that the view would show.
    fn count_samples(&mut self) -> Result<(), Stop> {
        let sql = "SELECT flush, process, subject, pc, NULL, samples FROM cycles NOT INDEXED";
        self.each(sql, [], |copy, row| {
            let (flush, samples): (i64, i64) = (copy.get(row, 0)?, copy.get(row, 5)?);
            if copy.judge(row, |at, _| at.of_wanted_image)?.is_some() {
                copy.put_flush(flush)?;
                copy.count(flush, samples);
            }
            Ok(())
        })?;
        match open::has_chunks(self.source).map_err(|e| self.failed(e))? {
            true => self.count_packed(),
            false => Ok(()),
        }
    }

    pub(super) fn count(&mut self, flush: i64, samples: i64) {
        if let Some(flush) = self.flushes.get_mut(&flush) {
            flush.samples = flush.samples.saturating_add(from_sql(samples));
        }
    }

    fn counters(&mut self) -> Result<(), Stop> {
        const INSERT: &str =
            "INSERT INTO counter (flush, kind, name, value) VALUES (?1, ?2, ?3, ?4)";
        if !self.viewer.is_privileged() {
            if !self.selection.kinds.cycles {
                self.count_samples()?;
            }
            for flush in self.flushes.values() {
                if let Some(id) = flush.id {
                    let samples = to_sql(flush.samples);
                    self.view
                        .add(INSERT, params![id, "run", "samples", samples])?;
                }
            }
            return Ok(());
        }
        let sql = "SELECT flush, kind, name, value FROM counter ORDER BY flush";
        self.each(sql, [], |copy, row| {
            let flush: i64 = copy.get(row, 0)?;
            if !copy.flushes.contains_key(&flush) {
                return Ok(());
            }
            let (kind, name): (String, String) = (copy.get(row, 1)?, copy.get(row, 2)?);
            let value: i64 = copy.get(row, 3)?;
            let flush = copy.put_flush(flush)?;
            copy.view.add(INSERT, params![flush, kind, name, value])
        })
    }

    /// The names of the functions around the PCs of the view.
    fn symbols(&mut self) -> Result<(), Stop> {
        for (id, image) in &mut self.images {
            if self.with_names.contains(id)
                && let Some(shown) = self.shown.get(id)
            {
                image.addresses.extend(shown);
            }
            image.addresses.sort_unstable();
        }
        // By address as it is stored: of one image all are on the same side of 0.
        let sql = "SELECT image, address, size, name,
                          lead(address) OVER (PARTITION BY image ORDER BY address)
                   FROM symbol";
        self.each(sql, [], |copy, row| {
            let image: i64 = copy.get(row, 0)?;
            let (address, size): (i64, i64) = (copy.get(row, 1)?, copy.get(row, 2)?);
            let name: String = copy.get(row, 3)?;
            let next: Option<i64> = copy.get(row, 4)?;
            let (start, size) = (from_sql(address), from_sql(size));
            let end = match size {
                0 => next.map_or(u64::MAX, from_sql),
                size => start.saturating_add(size),
            };
            if let Some(image) = copy.image_with_code(image, start, end) {
                copy.view.add(
                    "INSERT OR IGNORE INTO symbol (image, address, size, name)
                     VALUES (?1, ?2, ?3, ?4)",
                    params![image, address, to_sql(size), name],
                )?;
            }
            Ok(())
        })
    }

    /// The image's id in the view if that has a PC between these addresses.
    fn image_with_code(&self, of_source: i64, start: u64, end: u64) -> Option<i64> {
        let image = self.images.get(&of_source)?;
        let first = image.addresses.partition_point(|address| *address < start);
        let address = image.addresses.get(first)?;
        image.id.filter(|_| *address < end)
    }

    /// Gives the rows of a query on the source to `take`, one by one.
    pub(super) fn each(
        &mut self,
        sql: &str,
        values: impl Params,
        mut take: impl FnMut(&mut Self, &Row<'_>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let source = self.source;
        let mut statement = source.prepare_cached(sql).map_err(|e| self.failed(e))?;
        let mut rows = statement.query(values).map_err(|e| self.failed(e))?;
        while let Some(row) = rows.next().map_err(|e| self.failed(e))? {
            self.view.look_at_limits()?;
            take(self, row)?;
        }
        Ok(())
    }

    /// A column of the source.
    pub(super) fn get<T: FromSql>(&self, row: &Row<'_>, column: usize) -> Result<T, Stop> {
        row.get(column).map_err(|e| self.failed(e))
    }
}
