//! Each table: what it is called, its columns, its key, how its rows are merged, and who may see
//! them. What the columns mean stands in the schema.

use std::sync::LazyLock;

use rusqlite::Row;
use rusqlite::types::ToSqlOutput;

use super::{Cell, Column, Counted, Layout, Merged, Record, References, Shown, Statements, Table};
use crate::rows::{Epoch, Image, ImageKind, Process, Subject};

/// The version of the schema that a file begins with.
const FIRST: i64 = 2;

/// The version that has what tells how sure a share is.
const VARIANCE: i64 = 3;

/// The version that has what branches and calls weigh.
const WEIGHTS: i64 = 4;

/// The version that has chunks.
const CHUNKS: i64 = 5;

/// The version that has regions.
const REGIONS: i64 = 6;

/// Describes a table and its rows: `RECORD in TABLE = "name" VERSION ID`, where it says how rows
/// are merged, the columns, and for a column of a later version what stands in its place before.
macro_rules! table {
    (
        $(#[$doc:meta])*
        $record:ident $(<$data:ident>)? in $table:ident = $name:literal $since:ident $has_id:ident;
        key: [$($key:ident),*], merged: $merged:expr, shown: $shown:ident, layout: $layout:ident;
        $($column:ident $(: $later:ident or $before:literal)?),+ $(,)?
    ) => {
        $(#[$doc])*
        pub(crate) const $table: Table = Table {
            name: $name,
            has_id: table!(@has $has_id),
            columns: &[$(Column {
                name: stringify!($column),
                since: table!(@since $since $($later)?),
                before: table!(@before $($before)?),
            }),+],
            key: &[$(stringify!($key)),*],
            merged: $merged,
            shown: Shown::$shown,
            layout: Layout::$layout,
        };

        impl $(<$data: Cell>)? Record for $record $(<$data>)? {
            const TABLE: &'static Table = &$table;

            fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
                // The id comes first.
                let mut at = 0;
                $(
                    at += 1;
                    let $column = Cell::get(row, at)?;
                )+
                Ok(Self { $($column),+ })
            }

            fn values(&self) -> Vec<ToSqlOutput<'_>> {
                vec![$(self.$column.put()),+]
            }

            fn bytes(&self) -> u64 {
                0 $(+ self.$column.bytes())+
            }

            fn statements() -> &'static Statements {
                static STATEMENTS: LazyLock<Statements> = LazyLock::new(|| $table.statements());
                &STATEMENTS
            }
        }
    };
    (@has id) => { true };
    (@has no_id) => { false };
    (@since $since:ident) => { $since };
    (@since $since:ident $later:ident) => { $later };
    (@before) => { "NULL" };
    (@before $before:literal) => { $before };
}

/// All tables.
pub(crate) const ALL: [Table; 18] = [
    BRANCH, CALL, CHUNK, CODE, COUNTER, CYCLES, EPOCH, FLUSH, HOTLIST, IMAGE, JOINED, PARAMETER,
    PC, PROCESS, REGION, SUBJECT, SYMBOL, TUPLE,
];

table! {
    /// Epochs. The key is what must be the same for two to be one: what their numbers mean.
    Epoch in EPOCH = "epoch" FIRST id;
    key: [host, kernel, command, engine, clock, unit, cycles_per_unit, period, window],
    merged: Merged::Spanned, shown: Asked, layout: Every;
    started, ended, host, kernel, command, engine, clock, unit, cycles_per_unit, period, window,
    settings
}

/// A flush.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredFlush {
    pub(crate) epoch: i64,
    /// Nanoseconds of the Unix epoch, as its end is.
    pub(crate) started: i64,
    pub(crate) ended: i64,
    /// Seconds of what it was rolled up to; 0: a flush as it was written.
    pub(crate) grain: i64,
    /// How many it stands for.
    pub(crate) replaced: i64,
}

table! {
    /// Flushes.
    StoredFlush in FLUSH = "flush" FIRST id;
    key: [epoch], merged: Merged::Spanned, shown: WithOthers, layout: Every;
    epoch, started, ended, grain: CHUNKS or "0", replaced: CHUNKS or "1"
}

table! {
    /// Images. The build id may have come to be known later.
    Image in IMAGE = "image" FIRST id;
    key: [kind, identity, path], merged: Merged::Same, shown: WithOthers, layout: Every;
    kind, path, build_id, identity
}

table! {
    /// Access tags.
    Subject in SUBJECT = "subject" FIRST id;
    key: [uid, gid, euid, egid, suid, dumpable, capable, kernel],
    merged: Merged::Same, shown: WithOthers, layout: Every;
    uid, gid, euid, egid, suid, dumpable, capable, kernel
}

/// A process of an epoch.
#[derive(Clone, Debug)]
pub(crate) struct StoredProcess {
    pub(crate) epoch: i64,
    pub(crate) pid: u32,
    pub(crate) started: u64,
    pub(crate) execs: u32,
    pub(crate) comm: String,
}

impl StoredProcess {
    /// The row of a process in an epoch.
    pub(crate) fn new(epoch: i64, process: Process) -> Self {
        let Process {
            pid,
            started,
            execs,
            comm,
        } = process;
        Self {
            epoch,
            pid,
            started,
            execs,
            comm,
        }
    }

    /// The process, without its epoch.
    pub(crate) fn process(self) -> Process {
        Process {
            pid: self.pid,
            started: self.started,
            execs: self.execs,
            comm: self.comm,
        }
    }
}

table! {
    /// Processes. The first name that was seen stays.
    StoredProcess in PROCESS = "process" FIRST id;
    key: [epoch, pid, started, execs], merged: Merged::Same, shown: WithOthers, layout: Every;
    epoch, pid, started, execs, comm
}

/// An instruction.
#[derive(Clone, Debug)]
pub(crate) struct StoredPc {
    pub(crate) image: i64,
    pub(crate) address: u64,
    pub(crate) bytes: Option<Vec<u8>>,
}

table! {
    /// Instructions.
    StoredPc in PC = "pc" FIRST id;
    key: [image, address], merged: Merged::Same, shown: WithOthers, layout: Single;
    image, address, bytes
}

/// The name of a function.
#[derive(Clone, Debug)]
pub(crate) struct StoredSymbol {
    pub(crate) image: i64,
    pub(crate) address: u64,
    /// 0: it is not known.
    pub(crate) size: u64,
    pub(crate) name: String,
}

table! {
    /// Names of functions.
    StoredSymbol in SYMBOL = "symbol" FIRST no_id;
    key: [image, address], merged: Merged::Same, shown: WithOthers, layout: Every;
    image, address, size, name
}

/// Interrupts at a PC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredCycles {
    pub(crate) flush: i64,
    pub(crate) process: i64,
    pub(crate) subject: i64,
    pub(crate) pc: i64,
    pub(crate) caller: Option<i64>,
    pub(crate) samples: u64,
    pub(crate) weight: u64,
}

table! {
    /// Interrupts by PC and caller.
    StoredCycles in CYCLES = "cycles" FIRST no_id;
    key: [], merged: Merged::Apart, shown: Tagged, layout: Single;
    flush, process, subject, pc, caller, samples, weight
}

/// A value profile, without its tuples.
#[derive(Clone, Debug)]
pub(crate) struct StoredHotlist {
    pub(crate) flush: i64,
    pub(crate) process: i64,
    pub(crate) subject: i64,
    pub(crate) pc: i64,
    pub(crate) caller: Option<i64>,
    pub(crate) parameter: String,
    pub(crate) reached: u64,
    pub(crate) unknown: u64,
    pub(crate) windows: u64,
    pub(crate) capacity: u32,
    pub(crate) by_weight: bool,
    pub(crate) p: f64,
    pub(crate) concise: bool,
    pub(crate) sat_count: u32,
    pub(crate) pairs_within: Option<u64>,
    pub(crate) pairs_across: Option<u64>,
    pub(crate) even: Option<f64>,
}

table! {
    /// Value profiles.
    StoredHotlist in HOTLIST = "hotlist" FIRST id;
    key: [], merged: Merged::Apart, shown: Tagged, layout: Single;
    flush, process, subject, pc, caller, parameter, reached, unknown, windows, capacity, by_weight,
    p, concise, sat_count, pairs_within: VARIANCE or "NULL", pairs_across: VARIANCE or "NULL",
    even: VARIANCE or "NULL"
}

/// A value of a value profile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredTuple {
    pub(crate) hotlist: i64,
    pub(crate) rank: i64,
    pub(crate) value: u64,
    pub(crate) counted: u64,
    pub(crate) certain: u64,
    pub(crate) first: u64,
    pub(crate) pairs_within: Option<u64>,
    pub(crate) pairs_across: Option<u64>,
    pub(crate) variance: Option<f64>,
}

table! {
    /// Values of value profiles.
    StoredTuple in TUPLE = "tuple" FIRST no_id;
    key: [hotlist, rank], merged: Merged::Apart, shown: WithOthers, layout: Single;
    hotlist, rank, value, counted, certain, first, pairs_within: VARIANCE or "NULL",
    pairs_across: VARIANCE or "NULL", variance: VARIANCE or "NULL"
}

/// Directions of a branch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredBranch {
    pub(crate) flush: i64,
    pub(crate) process: i64,
    pub(crate) subject: i64,
    pub(crate) pc: i64,
    pub(crate) taken: u64,
    pub(crate) not_taken: u64,
    pub(crate) unknown: u64,
    pub(crate) taken_weight: Option<f64>,
    pub(crate) not_taken_weight: Option<f64>,
    pub(crate) unknown_weight: Option<f64>,
    pub(crate) squares: Option<f64>,
}

table! {
    /// Directions of conditional branches.
    StoredBranch in BRANCH = "branch" FIRST no_id;
    key: [], merged: Merged::Apart, shown: Tagged, layout: Single;
    flush, process, subject, pc, taken, not_taken, unknown, taken_weight: WEIGHTS or "NULL",
    not_taken_weight: WEIGHTS or "NULL", unknown_weight: WEIGHTS or "NULL",
    squares: WEIGHTS or "NULL"
}

/// Calls from a site.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredCall {
    pub(crate) flush: i64,
    pub(crate) process: i64,
    pub(crate) subject: i64,
    pub(crate) site: i64,
    pub(crate) callee: Option<i64>,
    pub(crate) calls: u64,
    pub(crate) weight: Option<f64>,
    pub(crate) squares: Option<f64>,
}

table! {
    /// Calls and indirect jumps.
    StoredCall in CALL = "call" FIRST no_id;
    key: [], merged: Merged::Apart, shown: Tagged, layout: Single;
    flush, process, subject, site, callee, calls, weight: WEIGHTS or "NULL",
    squares: WEIGHTS or "NULL"
}

/// Something that a flush counted.
#[derive(Clone, Debug)]
pub(crate) struct StoredCounter {
    pub(crate) flush: i64,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) value: u64,
}

table! {
    /// What is counted but not by PC.
    StoredCounter in COUNTER = "counter" FIRST no_id;
    key: [flush, kind, name], merged: Merged::Added("value"), shown: Privileged, layout: Every;
    flush, kind, name, value
}

/// What lists were captured of.
#[derive(Clone, Debug)]
pub(crate) struct StoredParameter {
    pub(crate) name: String,
}

table! {
    /// What lists were captured of.
    StoredParameter in PARAMETER = "parameter" CHUNKS id;
    key: [name], merged: Merged::Same, shown: WithOthers, layout: Packed;
    name
}

/// Rows of one kind in one bucket, packed.
#[derive(Clone, Debug)]
pub(crate) struct StoredChunk<D> {
    pub(crate) flush: i64,
    pub(crate) kind: i64,
    pub(crate) image: i64,
    pub(crate) bucket: u64,
    pub(crate) subject: i64,
    pub(crate) data: D,
}

table! {
    /// Packed rows.
    StoredChunk<D> in CHUNK = "chunk" CHUNKS id;
    key: [], merged: Merged::Apart, shown: Tagged, layout: Packed;
    flush, kind, image, bucket, subject, data
}

/// Encodings of instructions in one bucket, packed.
#[derive(Clone, Debug)]
pub(crate) struct StoredCode<D> {
    pub(crate) image: i64,
    pub(crate) bucket: u64,
    pub(crate) data: D,
}

table! {
    /// Encodings of instructions.
    StoredCode<D> in CODE = "code" CHUNKS id;
    key: [], merged: Merged::Apart, shown: WithOthers, layout: Packed;
    image, bucket, data
}

/// A file that this one was made of.
#[derive(Clone, Debug)]
pub(crate) struct StoredJoined {
    pub(crate) name: String,
}

table! {
    /// Files that this one was made of.
    StoredJoined in JOINED = "joined" CHUNKS no_id;
    key: [name], merged: Merged::Same, shown: Never, layout: OfFile;
    name
}

/// What lay in some pages of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredRegion {
    pub(crate) process: i64,
    pub(crate) subject: i64,
    pub(crate) first: u64,
    pub(crate) kind: i64,
    pub(crate) pages: u64,
    pub(crate) image: Option<i64>,
    pub(crate) shown: Option<u64>,
}

table! {
    /// What lay where in the memory of processes.
    StoredRegion in REGION = "region" REGIONS no_id;
    key: [process, subject, first, kind], merged: Merged::Largest("pages"), shown: Tagged,
    layout: Every;
    process, subject, first, kind, pages, image, shown
}

/// Says which columns refer to which rows.
macro_rules! counted {
    ($record:ident: $pc:ident $(, $other:ident)?) => {
        impl Counted for $record {
            fn references(&self) -> References {
                References {
                    flush: self.flush,
                    process: self.process,
                    subject: self.subject,
                    pc: self.$pc,
                    other: counted!(@other self $($other)?),
                }
            }

            fn refer(&mut self, to: References) {
                self.flush = to.flush;
                self.process = to.process;
                self.subject = to.subject;
                self.$pc = to.pc;
                $(self.$other = to.other;)?
            }
        }
    };
    (@other $self:ident) => { None };
    (@other $self:ident $other:ident) => { $self.$other };
}

counted!(StoredCycles: pc, caller);
counted!(StoredHotlist: pc, caller);
counted!(StoredBranch: pc);
counted!(StoredCall: site, callee);

impl ImageKind {
    /// All of them.
    pub(crate) const ALL: [ImageKind; 4] = [
        ImageKind::File,
        ImageKind::Vdso,
        ImageKind::Kernel,
        ImageKind::Anon,
    ];

    /// Its name in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ImageKind::File => "file",
            ImageKind::Vdso => "vdso",
            ImageKind::Kernel => "kernel",
            ImageKind::Anon => "anon",
        }
    }
}
