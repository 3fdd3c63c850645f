//! Putting together what was read of several files.

use super::super::instructions::First;
use super::Builder;
use crate::profile::{BranchRow, CallRow, CyclesRow};

impl Builder {
    /// Adds all that was read of another file.
    pub(in crate::read) fn absorb(&mut self, other: Builder) {
        let cut = longer(self.profile.cut, other.profile.cut);
        if self.is_empty() {
            *self = other;
            self.profile.cut = cut;
            return;
        }
        // Where its rows are is of no use any more.
        drop((other.rows, other.row_of_pc, other.transfers, other.pcs));
        let more = other.profile;
        let images: Vec<usize> = more.images.iter().map(|image| self.image(image)).collect();
        let image = |index: usize| images.get(index).copied().unwrap_or(index);
        let subjects = more.subjects.iter().map(|subject| self.subject(*subject));
        let subjects: Vec<usize> = subjects.collect();
        let subject = |index: usize| subjects.get(index).copied().unwrap_or(index);
        let before = self.profile.processes.len();
        let process = |index: usize| index + before;
        self.profile.processes.extend(more.processes);
        let mut noted: Vec<_> = other.noted.into_iter().collect();
        noted.sort_unstable_by_key(|(_, place)| *place);
        for ((of, address), _) in noted {
            self.note(image(of), address);
        }
        let pcs = more.pcs.iter();
        let pcs: Vec<usize> = pcs
            .map(|pc| self.unnoted(image(pc.image), pc.address, pc.bytes.as_deref()))
            .collect();
        let pc = |index: usize| pcs.get(index).copied().unwrap_or(index);
        for row in more.cycles {
            self.add_cycles(CyclesRow {
                process: process(row.process),
                subject: subject(row.subject),
                pc: pc(row.pc),
                caller: row.caller.map(pc),
                ..row
            });
        }
        self.instructions
            .absorb(other.instructions, image, |first| First {
                process: process(first.process),
                subject: subject(first.subject),
                ..first
            });
        let encodings = other.encodings.into_iter();
        let encodings = encodings.map(|(of, address, bytes)| (image(of), address, bytes));
        self.encodings.extend(encodings);
        for (index, total) in more.totals.iter().enumerate() {
            self.add_total(image(index), total.samples, total.cycles);
        }
        for mut row in more.hotlists {
            (row.process, row.subject) = (process(row.process), subject(row.subject));
            (row.pc, row.caller) = (pc(row.pc), row.caller.map(pc));
            match self.sums {
                Some(_) => self.add_list(&row),
                None => self.profile.hotlists.push(row),
            }
        }
        for row in more.branches {
            self.add_branch(BranchRow {
                process: process(row.process),
                subject: subject(row.subject),
                pc: pc(row.pc),
                ..row
            });
        }
        for row in more.calls {
            self.add_call(CallRow {
                process: process(row.process),
                subject: subject(row.subject),
                site: pc(row.site),
                callee: row.callee.map(pc),
                ..row
            });
        }
        let mut nodes: Vec<usize> = Vec::with_capacity(more.stack_nodes.len());
        for node in &more.stack_nodes {
            // Callers come first.
            let parent = node.parent.and_then(|parent| nodes.get(parent).copied());
            nodes.push(self.node(parent, pc(node.pc)));
        }
        let stacks = more.stacks.into_iter().map(|mut row| {
            (row.process, row.subject) = (process(row.process), subject(row.subject));
            row.node = nodes.get(row.node).copied().unwrap_or(row.node);
            row
        });
        self.profile.stacks.extend(stacks);
        for (of, addresses) in other.passed_over {
            let known = self.passed_over.entry(image(of)).or_default();
            for address in addresses.all {
                known.add(address);
            }
        }
        let regions = more.regions.into_iter();
        let regions = regions.map(|region| region.with_image(&mut |index| image(index)));
        self.profile.regions.extend(regions);
        for ((of, address), symbol) in other.symbols {
            let known = self.symbols.entry((image(of), address));
            known.or_insert(symbol);
        }
        self.packed |= other.packed;
        let profile = &mut self.profile;
        profile.epochs.extend(more.epochs);
        profile.extents.extend(more.extents);
        for (key, value) in more.counters {
            let sum = profile.counters.entry(key).or_insert(0);
            *sum = sum.saturating_add(value);
        }
        let ended = profile.latest.as_ref().map(|latest| latest.ended);
        if more.latest.as_ref().map(|latest| latest.ended) >= ended {
            profile.latest = more.latest;
        }
        profile.cut = cut;
    }
}

/// The longer one of two times.
fn longer(one: Option<(i64, i64)>, other: Option<(i64, i64)>) -> Option<(i64, i64)> {
    let length = |time: Option<(i64, i64)>| time.map_or(0, |(from, to)| to.saturating_sub(from));
    match length(other) > length(one) {
        true => other,
        false => one,
    }
}
