//! The tables, and what is in their columns.

use std::ffi::CStr;
use std::rc::Rc;

use profiledb::packed::{self, At, Damage, List};

use crate::cell::{Cell, Column, Line, Source, column};
use crate::chunks::{BlobRow, Holder};
use crate::cursor::Table;

/// Columns that all tables of chunks begin with.
macro_rules! begin {
    ($($more:expr),* $(,)?) => {
        &[
            column("image", "TEXT", Source::Chunk("image.path")),
            column("address", "INTEGER", Source::Address),
            $($more,)*
            column("pid", "INTEGER", Source::Pid),
            column("comm", "TEXT", Source::Comm),
            column("uid", "INTEGER", Source::Chunk("subject.uid")),
            column("gid", "INTEGER", Source::Chunk("subject.gid")),
            column("euid", "INTEGER", Source::Chunk("subject.euid")),
            column("egid", "INTEGER", Source::Chunk("subject.egid")),
            column("suid", "INTEGER", Source::Chunk("subject.suid")),
            column("dumpable", "INTEGER", Source::Chunk("subject.dumpable")),
            column("capable", "INTEGER", Source::Chunk("subject.capable")),
            column("kernel", "INTEGER", Source::Chunk("subject.kernel")),
            column("started", "INTEGER", Source::Chunk("flush.started")),
            column("ended", "INTEGER", Source::Chunk("flush.ended")),
            column("image_kind", "TEXT", Source::Chunk("image.kind")),
            column("image_id", "INTEGER", Source::Chunk("held.image")),
            column("process_id", "INTEGER", Source::Process),
            column("subject_id", "INTEGER", Source::Chunk("held.subject")),
            column("epoch_id", "INTEGER", Source::Chunk("flush.epoch")),
            column("flush_id", "INTEGER", Source::Chunk("held.flush")),
            column("chunk_id", "INTEGER", Source::Chunk("held.id")),
            column("schema", "TEXT HIDDEN", Source::Schema),
        ]
    };
}

/// A column that the table alone has, by its place in the line.
const fn own(name: &'static str, kind: &'static str, place: usize) -> Column {
    column(name, kind, Source::Own(place))
}

const CALLER_IMAGE: Column = column("caller_image", "TEXT", Source::OtherImage);
const CALLER: Column = column("caller", "INTEGER", Source::OtherAddress);
const CALLER_IMAGE_ID: Column = column("caller_image_id", "INTEGER", Source::OtherImageId);

/// Where something is.
fn place<T>(at: &At<T>) -> (Option<i64>, u64, Option<(i64, u64)>) {
    (Some(at.process), at.address, at.other)
}

fn lists(chunk: &BlobRow) -> Result<Vec<At<List>>, Damage> {
    packed::lists(chunk.kind, chunk.bucket, chunk.time, &chunk.data)
}

/// `vcpi_values`: a row for each value of each list.
#[derive(Debug)]
pub(crate) struct Values;

impl Table for Values {
    const NAME: &'static CStr = c"vcpi_values";
    const HOLDER: Holder = Holder::Chunk(&[packed::LISTS, packed::KEYED_LISTS]);
    const COLUMNS: &'static [Column] = begin![
        CALLER_IMAGE,
        CALLER,
        own("parameter", "TEXT", 0),
        own("value", "INTEGER", 1),
        own("estimate", "REAL", 2),
        own("variance", "REAL", 3),
        own("least", "REAL", 4),
        own("first", "INTEGER", 5),
        own("rank", "INTEGER", 6),
        own("reached", "REAL", 7),
        own("unknown", "REAL", 8),
        own("events", "REAL", 9),
        own("stands_for", "REAL", 10),
        own("by_caller", "INTEGER", 11),
        CALLER_IMAGE_ID,
    ];

    fn lines(chunk: &BlobRow) -> Result<Vec<Line>, Damage> {
        let by_caller = i64::from(chunk.kind == packed::KEYED_LISTS);
        let mut lines = Vec::new();
        for at in lists(chunk)? {
            let list = &at.what;
            for (rank, tuple) in (0..).zip(&list.estimates.tuples) {
                let cells = [
                    Cell::Parameter(list.parameter),
                    Cell::word(tuple.value),
                    Cell::Real(tuple.estimate),
                    Cell::Real(tuple.variance),
                    Cell::Real(tuple.least),
                    Cell::word(tuple.first),
                    Cell::Integer(rank),
                    Cell::Real(list.reached),
                    Cell::Real(list.unknown),
                    Cell::Real(list.estimates.events),
                    Cell::Real(list.stands_for),
                    Cell::Integer(by_caller),
                ];
                lines.push(Line::new(place(&at), cells));
            }
        }
        Ok(lines)
    }
}

/// `vcpi_lists`: a row for each list, those without a known value among them.
#[derive(Debug)]
pub(crate) struct Lists;

impl Table for Lists {
    const NAME: &'static CStr = c"vcpi_lists";
    const HOLDER: Holder = Values::HOLDER;
    const COLUMNS: &'static [Column] = begin![
        CALLER_IMAGE,
        CALLER,
        own("parameter", "TEXT", 0),
        own("reached", "REAL", 1),
        own("unknown", "REAL", 2),
        own("events", "REAL", 3),
        own("windows", "INTEGER", 4),
        own("distinct_values", "INTEGER", 5),
        own("threshold", "REAL", 6),
        own("even", "REAL", 7),
        own("pairs_within", "REAL", 8),
        own("pairs_across", "REAL", 9),
        own("stands_for", "REAL", 10),
        own("by_caller", "INTEGER", 11),
        CALLER_IMAGE_ID,
    ];

    fn lines(chunk: &BlobRow) -> Result<Vec<Line>, Damage> {
        let by_caller = i64::from(chunk.kind == packed::KEYED_LISTS);
        let lines = lists(chunk)?.into_iter().map(|at| {
            let list = &at.what;
            let estimates = &list.estimates;
            let cells = [
                Cell::Parameter(list.parameter),
                Cell::Real(list.reached),
                Cell::Real(list.unknown),
                Cell::Real(estimates.events),
                Cell::word(list.windows),
                Cell::Integer(estimates.tuples.len() as i64),
                Cell::Real(estimates.threshold),
                Cell::real(list.even),
                Cell::real(estimates.pairs.map(|pairs| pairs.0)),
                Cell::real(estimates.pairs.map(|pairs| pairs.1)),
                Cell::Real(list.stands_for),
                Cell::Integer(by_caller),
            ];
            Line::new(place(&at), cells)
        });
        Ok(lines.collect())
    }
}

/// `vcpi_cycles`: interrupts.
#[derive(Debug)]
pub(crate) struct Cycles;

impl Table for Cycles {
    const NAME: &'static CStr = c"vcpi_cycles";
    const HOLDER: Holder = Holder::Chunk(&[packed::CYCLES]);
    const COLUMNS: &'static [Column] = begin![
        CALLER_IMAGE,
        CALLER,
        own("samples", "INTEGER", 0),
        own("weight", "INTEGER", 1),
        own("cycles", "REAL", 2),
        CALLER_IMAGE_ID,
    ];

    fn lines(chunk: &BlobRow) -> Result<Vec<Line>, Damage> {
        let rows = packed::cycles(chunk.bucket, &chunk.data)?;
        let lines = rows.into_iter().map(|at| {
            let seen = at.what;
            let cells = [
                Cell::word(seen.samples),
                Cell::word(seen.weight),
                Cell::Real(seen.weight as f64 * chunk.cycles_per_unit),
            ];
            Line::new(place(&at), cells)
        });
        Ok(lines.collect())
    }
}

/// `vcpi_branches`: directions of conditional branches.
#[derive(Debug)]
pub(crate) struct Branches;

impl Table for Branches {
    const NAME: &'static CStr = c"vcpi_branches";
    const HOLDER: Holder = Holder::Chunk(&[packed::BRANCHES]);
    const COLUMNS: &'static [Column] = begin![
        own("taken", "INTEGER", 0),
        own("not_taken", "INTEGER", 1),
        own("unknown", "INTEGER", 2),
        own("taken_weight", "REAL", 3),
        own("not_taken_weight", "REAL", 4),
        own("unknown_weight", "REAL", 5),
        own("squares", "REAL", 6),
    ];

    fn lines(chunk: &BlobRow) -> Result<Vec<Line>, Damage> {
        let rows = packed::branches(chunk.bucket, &chunk.data)?;
        let lines = rows.into_iter().map(|at| {
            let seen = at.what;
            let [taken, not_taken, unknown] = seen.weights;
            let cells = [
                Cell::word(seen.taken),
                Cell::word(seen.not_taken),
                Cell::word(seen.unknown),
                Cell::Real(taken),
                Cell::Real(not_taken),
                Cell::Real(unknown),
                Cell::real(seen.squares),
            ];
            Line::new(place(&at), cells)
        });
        Ok(lines.collect())
    }
}

/// `vcpi_calls`: calls and indirect jumps.
#[derive(Debug)]
pub(crate) struct Calls;

impl Table for Calls {
    const NAME: &'static CStr = c"vcpi_calls";
    const HOLDER: Holder = Holder::Chunk(&[packed::CALLS]);
    const COLUMNS: &'static [Column] = begin![
        column("callee_image", "TEXT", Source::OtherImage),
        column("callee", "INTEGER", Source::OtherAddress),
        own("calls", "INTEGER", 0),
        own("weight", "REAL", 1),
        own("squares", "REAL", 2),
        column("callee_image_id", "INTEGER", Source::OtherImageId),
    ];

    fn lines(chunk: &BlobRow) -> Result<Vec<Line>, Damage> {
        let rows = packed::calls(chunk.bucket, &chunk.data)?;
        let lines = rows.into_iter().map(|at| {
            let seen = at.what;
            let cells = [
                Cell::word(seen.times),
                Cell::Real(seen.weight),
                Cell::real(seen.squares),
            ];
            Line::new(place(&at), cells)
        });
        Ok(lines.collect())
    }
}

/// `vcpi_stacks`: call stacks, by their interrupted instruction.
#[derive(Debug)]
pub(crate) struct Stacks;

impl Table for Stacks {
    const NAME: &'static CStr = c"vcpi_stacks";
    const HOLDER: Holder = Holder::Chunk(&[packed::STACKS]);
    const COLUMNS: &'static [Column] = begin![
        CALLER_IMAGE,
        CALLER,
        own("samples", "INTEGER", 0),
        own("weight", "INTEGER", 1),
        own("cycles", "REAL", 2),
        own("depth", "INTEGER", 3),
        own("ending", "TEXT", 4),
        own("frames", "TEXT", 5),
        CALLER_IMAGE_ID,
    ];

    fn lines(chunk: &BlobRow) -> Result<Vec<Line>, Damage> {
        let rows = packed::stacks(&chunk.data)?;
        let lines = rows.into_iter().map(|at| {
            let stack = &at.what;
            // Signed, as the other columns have addresses.
            let frames = stack.frames.iter();
            let frames: Vec<String> = frames
                .map(|(image, address)| format!("[{image},{}]", address.cast_signed()))
                .collect();
            let cells = [
                Cell::word(stack.seen.samples),
                Cell::word(stack.seen.weight),
                Cell::Real(stack.seen.weight as f64 * chunk.cycles_per_unit),
                Cell::Integer(stack.frames.len() as i64),
                Cell::Text(stack.end.name().into()),
                Cell::Text(format!("[{}]", frames.join(",")).into()),
            ];
            Line::new(place(&at), cells)
        });
        Ok(lines.collect())
    }
}

/// `vcpi_code`: encodings of instructions.
#[derive(Debug)]
pub(crate) struct Code;

impl Table for Code {
    const NAME: &'static CStr = c"vcpi_code";
    const HOLDER: Holder = Holder::Code;
    const COLUMNS: &'static [Column] = &[
        column("image", "TEXT", Source::Chunk("image.path")),
        column("address", "INTEGER", Source::Address),
        own("bytes", "BLOB", 0),
        column("image_kind", "TEXT", Source::Chunk("image.kind")),
        column("image_id", "INTEGER", Source::Chunk("held.image")),
        column("code_id", "INTEGER", Source::Chunk("held.id")),
        column("schema", "TEXT HIDDEN", Source::Schema),
    ];

    fn lines(chunk: &BlobRow) -> Result<Vec<Line>, Damage> {
        let rows = packed::code(chunk.bucket, &chunk.data)?;
        let lines = rows.into_iter().map(|(address, bytes)| {
            let bytes: Rc<[u8]> = bytes.into();
            Line::new((None, address, None), [Cell::Bytes(bytes)])
        });
        Ok(lines.collect())
    }
}
