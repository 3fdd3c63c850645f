//! Unpacking chunks beside what reads them: no database, and nothing of the profile.

use foldhash::HashMap;
use hotlist::Estimates;

use super::chunks::{ChunkOfFile, Parameter};
use super::instructions::At as AtInstruction;
use crate::chunk::{
    At, Bad, BranchOf, CallOf, ChunkKind, CyclesOf, CyclesSum, InstructionSum, ListOf, StackOf,
    addresses_of, decode_branches, decode_calls, decode_some_cycles, decode_stacks, each_list,
    each_place, parameters as parameters_of, sum_cycles, sum_instructions,
};
use crate::filter::Apart;
use crate::join::join_equal;
use crate::list::put_tuple;

/// A chunk as its file has it.
pub(super) struct Packed {
    pub(super) chunk: ChunkOfFile,
    pub(super) kind: ChunkKind,
    pub(super) data: Vec<u8>,
}

/// What lies in a chunk.
pub(super) enum Rows {
    Cycles(Interrupts),
    /// Interrupts by instruction, where nothing else of them is asked.
    Instructions(Vec<AtInstruction>, CyclesSum),
    Lists {
        lists: Vec<PackedList>,
        /// The values of all of these, one list's behind the other's.
        tuples: Vec<u8>,
        /// Process and address of lists that the question is not about.
        passed_over: Vec<(i64, u64)>,
    },
    /// Where there are lists, of which nothing else is asked.
    Places(Vec<At>),
    /// Lists of none of the parameters that the question is about.
    OtherLists,
    Branches(Vec<BranchOf>),
    Calls(Vec<CallOf>),
    Stacks(Vec<StackOf>),
}

/// Interrupts of a chunk, those together that the question does not tell apart.
pub(super) struct Interrupts {
    pub(super) rows: Vec<CyclesOf>,
    /// Samples and weight of those elsewhere than the question asks.
    pub(super) elsewhere: (u64, u64),
    /// The processes of all.
    pub(super) processes: Vec<i64>,
    /// How many rows the chunk has.
    pub(super) unpacked: usize,
}

/// A list with what it stands for. Its values lie apart: lists that one thread makes and another
/// frees have both wait for each other.
pub(super) struct PackedList {
    /// All but the values.
    pub(super) row: ListOf,
    /// How many there are.
    pub(super) count: u32,
    /// Where they end.
    pub(super) end: usize,
}

/// A chunk whose rows are known, or what is wrong with it.
pub(super) type Unpacked = (ChunkOfFile, Result<Rows, Bad>);

/// Unpacks chunks, in their order. `room` is for what lies between.
pub(super) fn unpack(
    packed: Vec<Packed>,
    parameters: &HashMap<i64, Parameter>,
    room: &mut Vec<InstructionSum>,
) -> Vec<Unpacked> {
    let one = |packed: Packed| {
        let rows = rows(&packed, parameters, room);
        (packed.chunk, rows)
    };
    packed.into_iter().map(one).collect()
}

fn rows(
    packed: &Packed,
    parameters: &HashMap<i64, Parameter>,
    room: &mut Vec<InstructionSum>,
) -> Result<Rows, Bad> {
    let Packed { chunk, kind, data } = packed;
    match kind {
        ChunkKind::Cycles
            if chunk.of_all_processes
                && !chunk.may_want(addresses_of(*kind, chunk.place.bucket)) =>
        {
            let sum = sum_cycles(data)?;
            Ok(Rows::Cycles(Interrupts {
                rows: Vec::new(),
                elsewhere: (sum.samples, sum.weight),
                processes: sum.processes,
                unpacked: sum.rows,
            }))
        }
        ChunkKind::Cycles if chunk.only_instructions => {
            let all = sum_instructions(chunk.place, data, room)?;
            let at = |sum: &InstructionSum| AtInstruction {
                address: sum.address,
                samples: sum.samples,
                cycles: sum.weight as f64 * chunk.cycles_per_unit,
            };
            Ok(Rows::Instructions(room.iter().map(at).collect(), all))
        }
        ChunkKind::Cycles => {
            // Of one process, what is elsewhere is added up with the rest of its rows.
            let wants = |address| !chunk.of_all_processes || chunk.wants(address);
            let (mut rows, rest) = decode_some_cycles(chunk.place, data, wants)?;
            for row in rows
                .iter_mut()
                .filter(|row| !chunk.tells_callers(row.address))
            {
                row.caller = None;
            }
            Ok(Rows::Cycles(added_up(chunk, rows, rest)))
        }
        ChunkKind::Values | ChunkKind::Keyed => {
            lists(chunk, *kind == ChunkKind::Keyed, data, parameters)
        }
        ChunkKind::Branches => decode_branches(chunk.place, data).map(Rows::Branches),
        ChunkKind::Calls => decode_calls(chunk.place, data).map(Rows::Calls),
        ChunkKind::Stacks => decode_stacks(data).map(Rows::Stacks),
    }
}

/// Adds up what the question does not tell apart, where it is about all processes. A roll-up has an
/// instruction of a library once for each process that ran it.
fn added_up(chunk: &ChunkOfFile, mut rows: Vec<CyclesOf>, rest: CyclesSum) -> Interrupts {
    if chunk.of_all_processes {
        match chunk.apart {
            // Which processes are of one program is told later.
            Apart::Rows | Apart::Programs => {}
            Apart::Calls => join(&mut rows, |row| (row.address, row.caller)),
            Apart::Pcs | Apart::Instructions => join(&mut rows, |row| row.address),
            Apart::Images => join(&mut rows, |row| row.process),
        }
    }
    Interrupts {
        rows,
        elsewhere: (rest.samples, rest.weight),
        processes: rest.processes,
        unpacked: rest.rows,
    }
}

/// Makes one row of those with the same key, which is that of the first.
fn join<K: Ord>(rows: &mut Vec<CyclesOf>, key: impl Fn(&CyclesOf) -> K) {
    join_equal(rows, key, |sum, more| {
        sum.samples = sum.samples.saturating_add(more.samples);
        sum.weight = sum.weight.saturating_add(more.weight);
    });
}

fn lists(
    chunk: &ChunkOfFile,
    is_keyed: bool,
    data: &[u8],
    parameters: &HashMap<i64, Parameter>,
) -> Result<Rows, Bad> {
    if chunk.narrowed && chunk.only_places {
        let mut places = Vec::new();
        each_place(chunk.place, data, |at| {
            if places.last() != Some(&at) {
                places.push(at);
            }
        })?;
        return Ok(Rows::Places(places));
    }
    // Else it would have to be known whose the lists are.
    if chunk.narrowed && chunk.of_all_processes && !chunk.may_want_details() {
        let is_left_out = |id: &i64| parameters.get(id).is_some_and(|known| !known.wanted);
        let of = parameters_of(data)?;
        if !of.is_empty() && of.iter().all(is_left_out) {
            return Ok(Rows::OtherLists);
        }
    }
    let mut passed_over = Vec::new();
    let (mut lists, mut tuples) = (Vec::new(), Vec::new());
    let wants = |(process, address, _): At, id: i64| {
        if !chunk.wants(address) {
            return false;
        }
        let known = parameters.get(&id);
        let is_wanted = known.is_none_or(|known| known.wanted);
        let is_detail = || known.is_none_or(|known| known.detailed) && chunk.wants_details(address);
        if is_wanted || !chunk.narrowed || is_detail() {
            return true;
        }
        if passed_over.last() != Some(&(process, address)) {
            passed_over.push((process, address));
        }
        false
    };
    let take = |row: &mut ListOf, tau: f64| {
        row.weigh(tau);
        for tuple in &row.list.tuples {
            put_tuple(&mut tuples, tuple);
        }
        let list = Estimates {
            tuples: Vec::new(),
            ..row.list
        };
        lists.push(PackedList {
            count: u32::try_from(row.list.tuples.len()).unwrap_or(u32::MAX),
            end: tuples.len(),
            row: ListOf { list, ..*row },
        });
    };
    each_list(chunk.place, is_keyed, data, wants, take)?;
    Ok(Rows::Lists {
        lists,
        tuples,
        passed_over,
    })
}
