//! Unpacking chunks beside what reads them: no database, and nothing of the profile.

use foldhash::HashMap;
use hotlist::Estimates;

use super::chunks::{Chunk, Parameter};
use crate::chunk::{
    At, Bad, BranchOf, CallOf, CyclesOf, Kind, ListOf, StackOf, decode_branches, decode_calls,
    decode_cycles, decode_stacks, each_list,
};
use crate::list::put_tuple;

/// A chunk as its file has it.
pub(super) struct Packed {
    pub(super) chunk: Chunk,
    pub(super) kind: Kind,
    pub(super) data: Vec<u8>,
}

/// What lies in a chunk.
pub(super) enum Rows {
    Cycles(Vec<CyclesOf>),
    Lists {
        lists: Vec<PackedList>,
        /// The values of all of these, one list's behind the other's.
        tuples: Vec<u8>,
        /// Process and address of lists that the question is not about.
        passed_over: Vec<(i64, u64)>,
    },
    Branches(Vec<BranchOf>),
    Calls(Vec<CallOf>),
    Stacks(Vec<StackOf>),
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
pub(super) type Unpacked = (Chunk, Result<Rows, Bad>);

/// Unpacks chunks, in their order.
pub(super) fn unpack(packed: Vec<Packed>, parameters: &HashMap<i64, Parameter>) -> Vec<Unpacked> {
    let one = |packed: Packed| {
        let rows = rows(&packed, parameters);
        (packed.chunk, rows)
    };
    packed.into_iter().map(one).collect()
}

fn rows(packed: &Packed, parameters: &HashMap<i64, Parameter>) -> Result<Rows, Bad> {
    let Packed { chunk, kind, data } = packed;
    match kind {
        Kind::Cycles => decode_cycles(chunk.place, data).map(Rows::Cycles),
        Kind::Values | Kind::Keyed => lists(chunk, *kind == Kind::Keyed, data, parameters),
        Kind::Branches => decode_branches(chunk.place, data).map(Rows::Branches),
        Kind::Calls => decode_calls(chunk.place, data).map(Rows::Calls),
        Kind::Stacks => decode_stacks(data).map(Rows::Stacks),
    }
}

fn lists(
    chunk: &Chunk,
    is_keyed: bool,
    data: &[u8],
    parameters: &HashMap<i64, Parameter>,
) -> Result<Rows, Bad> {
    let mut passed_over = Vec::new();
    let (mut lists, mut tuples) = (Vec::new(), Vec::new());
    let wants = |(process, address, _): At, id: i64| {
        if !chunk.wants(address) {
            return false;
        }
        let is_wanted = parameters.get(&id).is_none_or(|known| known.wanted);
        if is_wanted || !chunk.narrowed {
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
