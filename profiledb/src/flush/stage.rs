//! Rows that wait for the end of their flush, and how they become chunks.

use std::collections::{BTreeMap, HashSet};

use counters::Counter;
use rusqlite::params;

use super::Flush;
use crate::budget::{self, ROW};
use crate::chunk::{
    BranchOf, CODE_BITS, CallOf, ChunkKind, ChunkPlace, CyclesOf, Encoding, ListOf, Packed,
    StackOf, USUAL_RAW, bucket_of, code_bucket_of, encode_branches, encode_calls, encode_code,
    encode_cycles, encode_stacks, encode_values,
};
use crate::packed::SCHEMA;
use crate::tables;
use crate::tables::stored::{CODE, StoredChunk, StoredCode};
use crate::{Error, to_sql};

/// Lists that were reached so often in a flush are of instructions whose encodings are kept.
const HOT: f64 = 16.0;

/// Buckets whose encodings a writer remembers. An image has hundreds of them.
const MOST_BUCKETS: usize = 1 << 13;

/// A row with its image and subject.
type Staged<T> = (i64, i64, T);

/// Rows that wait.
#[derive(Default)]
pub(super) struct Stage {
    pub(super) cycles: Vec<Staged<CyclesOf>>,
    pub(super) lists: Vec<Staged<ListOf>>,
    pub(super) branches: Vec<Staged<BranchOf>>,
    pub(super) calls: Vec<Staged<CallOf>>,
    pub(super) stacks: Vec<Staged<StackOf>>,
    /// Encodings by image and address.
    pub(super) code: BTreeMap<(i64, u64), Vec<u8>>,
}

/// How rows of a kind become blobs.
struct Packing<T> {
    kind: ChunkKind,
    /// About how many bytes of columns a row takes.
    size: fn(&T) -> usize,
    pack: fn(ChunkPlace, f64, &[T]) -> Vec<u8>,
}

/// What lists a flush left out.
#[derive(Default)]
struct LeftOut {
    lists: u64,
    events: f64,
}

impl Flush<'_> {
    /// Writes all rows that wait.
    pub(super) fn write_stage(&mut self) -> Result<(), Error> {
        let stage = std::mem::take(&mut self.stage);
        let mut bytes = self.write_code(&stage)?;
        bytes += self.write_chunks(stage.cycles, 0.0, &CYCLES)?;
        bytes += self.write_chunks(stage.branches, 0.0, &BRANCHES)?;
        bytes += self.write_chunks(stage.calls, 0.0, &CALLS)?;
        bytes += self.write_chunks(stage.stacks, 0.0, &STACKS)?;
        self.write_lists(stage.lists, bytes)
    }

    fn write_lists(&mut self, mut lists: Vec<Staged<ListOf>>, besides: usize) -> Result<(), Error> {
        let (mut tau, mut size) = (self.tau, 0);
        let seconds = self.seconds();
        if let Some(budget) = &self.writer.budget {
            let mut sizes = BTreeMap::new();
            for (_, _, row) in &lists {
                *sizes.entry(row.reached as u64).or_insert(0) += budget::size(row.list.len());
            }
            tau = budget.tau(seconds, besides, &sizes) as f64;
            let (all, events) = totals(&lists);
            let mut left_out = LeftOut::default();
            let flush = self.row;
            lists.retain(|(image, _, row)| {
                let (call_image, call) = row.caller.unwrap_or_default();
                let of = [
                    to_word(row.process),
                    to_word(*image),
                    row.address,
                    call ^ to_word(call_image),
                ];
                let is_kept = row.reached >= tau || budget.draw(flush, of) < row.reached / tau;
                if !is_kept {
                    left_out.lists += 1;
                    left_out.events += row.reached;
                }
                is_kept
            });
            size = lists
                .iter()
                .map(|(_, _, row)| budget::size(row.list.len()))
                .sum();
            self.count(Counter::Lists, all)?;
            self.count(Counter::Events, events as u64)?;
            self.count(Counter::ListsLeftOut, left_out.lists)?;
            self.count(Counter::EventsLeftOut, left_out.events as u64)?;
        }
        // The others stay where they are.
        let keyed = lists.extract_if(.., |(_, _, row)| row.caller.is_some());
        let keyed: Vec<_> = keyed.collect();
        let mut bytes = self.write_chunks(lists, tau, &VALUES)?;
        bytes += self.write_chunks(keyed, tau, &KEYED)?;
        if let Some(budget) = &mut self.writer.budget {
            budget.wrote(bytes, size);
        }
        Ok(())
    }

    /// Writes rows of one kind. Returns about how many bytes these take.
    fn write_chunks<T: Packed>(
        &mut self,
        mut rows: Vec<Staged<T>>,
        tau: f64,
        packing: &Packing<T>,
    ) -> Result<usize, Error> {
        let Packing { kind, size, pack } = *packing;
        let place =
            |(image, subject, row): &Staged<T>| (*image, bucket_of(kind, row.at().1), *subject);
        rows.sort_unstable_by(|a, b| {
            place(a)
                .cmp(&place(b))
                .then_with(|| a.2.key().cmp(&b.2.key()))
        });
        let mut written = 0;
        let mut again = Vec::new();
        let mut rows = rows.into_iter().peekable();
        let mut chunk: Vec<T> = Vec::new();
        while let Some(first) = rows.next() {
            let at @ (image, bucket, subject) = place(&first);
            let mut bytes = size(&first.2);
            chunk.clear();
            chunk.push(first.2);
            while bytes < USUAL_RAW
                && let Some(next) = rows.next_if(|next| place(next) == at)
            {
                bytes += size(&next.2);
                // What is there twice is of a chunk of its own.
                match chunk.last().is_some_and(|last| last.key() == next.2.key()) {
                    true => again.push(next),
                    false => chunk.push(next.2),
                }
            }
            let place = ChunkPlace {
                bucket,
                time: (self.started, self.ended),
            };
            let blob = pack(place, tau, &chunk);
            written += blob.len() + ROW;
            self.insert(&StoredChunk {
                flush: self.row,
                kind: kind.number(),
                image,
                bucket,
                subject,
                data: blob,
            })?;
        }
        if !again.is_empty() {
            written += self.write_chunks(again, tau, packing)?;
        }
        Ok(written)
    }

    /// Writes encodings that are not there yet: of instructions that are hot, and of all of some
    /// images. Returns about how many bytes these take.
    fn write_code(&mut self, stage: &Stage) -> Result<usize, Error> {
        if stage.code.is_empty() {
            return Ok(0);
        }
        let mut hot: HashSet<(i64, u64)> = HashSet::new();
        hot.extend(
            stage
                .cycles
                .iter()
                .map(|(image, _, row)| (*image, row.address)),
        );
        let lists = stage.lists.iter().filter(|(_, _, row)| row.reached >= HOT);
        hot.extend(lists.map(|(image, _, row)| (*image, row.address)));
        let without_file = &self.writer.caches.without_file;
        let wanted = stage.code.iter();
        let wanted = wanted.filter(|(at, _)| without_file.contains(&at.0) || hot.contains(at));
        let wanted: Vec<_> = wanted.collect();
        let mut buckets: BTreeMap<(i64, u64), Vec<Encoding>> = BTreeMap::new();
        for (&(image, address), bytes) in wanted {
            let place = (image, code_bucket_of(address));
            if self.encoded(place)?.insert(offset(address)) {
                let rows = buckets.entry(place).or_default();
                rows.push((address, bytes.clone()));
            }
        }
        let mut written = 0;
        for ((image, bucket), rows) in buckets {
            let blob = encode_code(&rows);
            written += blob.len() + ROW;
            self.insert(&StoredCode {
                image,
                bucket,
                data: blob,
            })?;
        }
        Ok(written)
    }

    /// The offsets in a bucket whose encodings are there.
    fn encoded(&mut self, place: (i64, u64)) -> Result<&mut HashSet<u16>, Error> {
        if !self.writer.caches.encoded.contains_key(&place) {
            let known = self.read_encoded(place)?;
            let encoded = &mut self.writer.caches.encoded;
            if encoded.len() >= MOST_BUCKETS {
                encoded.clear();
            }
            encoded.insert(place, known);
        }
        Ok(self.writer.caches.encoded.entry(place).or_default())
    }

    fn read_encoded(&mut self, (image, bucket): (i64, u64)) -> Result<HashSet<u16>, Error> {
        let select = CODE.select(SCHEMA);
        let sql = format!("{select} WHERE image = ?1 AND bucket = ?2");
        let codes: Vec<(i64, StoredCode<Vec<u8>>)> = self.run(&sql, |statement| {
            let rows = statement.query_map(params![image, to_sql(bucket)], tables::read)?;
            rows.collect()
        })?;
        let mut known = HashSet::new();
        for (id, StoredCode { data: blob, .. }) in codes {
            let rows = crate::chunk::decode_code(bucket, &blob)
                .map_err(|bad| Error::corrupt(&self.writer.path, format!("code {id}: {bad}")))?;
            known.extend(rows.into_iter().map(|(address, _)| offset(address)));
        }
        Ok(known)
    }
}

/// The lists, and how often they were reached together.
fn totals(lists: &[Staged<ListOf>]) -> (u64, f64) {
    let events = lists.iter().map(|(_, _, row)| row.reached).sum();
    (lists.len() as u64, events)
}

fn to_word(id: i64) -> u64 {
    id.cast_unsigned()
}

/// An address within its bucket: it has that many bits.
const fn offset(address: u64) -> u16 {
    const { assert!(CODE_BITS == u16::BITS) };
    address as u16
}

const CYCLES: Packing<CyclesOf> = Packing {
    kind: ChunkKind::Cycles,
    size: |_| 20,
    pack: |_, _, rows| encode_cycles(rows),
};

const BRANCHES: Packing<BranchOf> = Packing {
    kind: ChunkKind::Branches,
    size: |_| 20,
    pack: |_, _, rows| encode_branches(rows),
};

const CALLS: Packing<CallOf> = Packing {
    kind: ChunkKind::Calls,
    size: |_| 20,
    pack: |_, _, rows| encode_calls(rows),
};

const STACKS: Packing<StackOf> = Packing {
    kind: ChunkKind::Stacks,
    size: StackOf::size,
    pack: |_, _, rows| encode_stacks(rows),
};

const VALUES: Packing<ListOf> = Packing {
    kind: ChunkKind::Values,
    size: |row| 10 + 10 * row.list.len(),
    pack: encode_values,
};

const KEYED: Packing<ListOf> = Packing {
    kind: ChunkKind::Keyed,
    ..VALUES
};
