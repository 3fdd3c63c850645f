//! Entries of functions: which are watched, and what is made of the calls that were seen.

use addresses::ImageAddress;
use counters::{Counter, CounterKey, Group};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, InstructionInfoOptions, OpAccess,
};
use rustc_hash::FxHashMap;
use sampler::{Burst, FunctionEntry, RawSample, Record};

use super::Collector;
use crate::entries::Entries;
use crate::entries::{Kept, SeenTarget, Target, VectorUse, VectorsOfCall};
use consumers::entries::{ARGUMENTS, Arrived, ArrivedWith, Entered, VECTORS};
use machine::address_space::{AddressSpace, Located};
use machine::callsite::call_before;
use machine::flow::CallProof;
use machine::loadmap::ProcessId;
use machine::place::Pc;

/// Bytes of a file's symbol tables that are held at a time, to look for names.
const NAMES_AT_ONCE: u64 = 96 << 20;
/// Bytes of code at an entry that are compared.
const CODE: usize = 16;
/// Longer functions are not looked through for ways back to their entry, and not watched.
const LONGEST: u64 = 1 << 16;
/// A function that is to be watched by itself has so many of the calls, in percent.
const LEAST_PERCENT: f64 = 1.0;
/// Calls that windows have seen before the hottest functions are chosen.
const LEAST_CALLS: u64 = 200;
/// Numbers of the registers of arguments: rdi rsi rdx rcx r8 r9.
const REGISTERS: [usize; ARGUMENTS] = [7, 6, 2, 1, 8, 9];
/// Number of rsp.
const RSP: usize = 4;

/// Watches what is wanted of a sample's image, in the sample's thread.
pub(super) fn meet(
    entries: &mut Entries,
    space: &AddressSpace<'_>,
    sample: &RawSample,
    process: ProcessId,
    located: &Located,
) {
    let image = located.pc.image;
    if space.is_generated_code(image) || space.is_denied(located.pc) {
        return;
    }
    if let Some(names) = entries.names_for(image) {
        let mut images = space.images.borrow_mut();
        let elf = images.elf(image, None);
        let found = elf.map(|elf| elf.named(names, NAMES_AT_ONCE));
        drop(images);
        entries.found(image, found.unwrap_or_default());
    }
    for address in entries.of(image).to_vec() {
        let at = located.bias.in_process(address);
        if entries.has(process, sample.tid, at) {
            continue;
        }
        let pc = Pc { image, address };
        let Some(vectors) = entered_by_calls(space, pc) else {
            entries.refuse(pc);
            continue;
        };
        let mut code = [0; CODE];
        let read = space.images.borrow_mut().read(image, address, &mut code);
        if read > 0 {
            entries.watch(Target {
                entry: FunctionEntry {
                    pid: sample.pid,
                    tid: sample.tid,
                    address: at,
                    code: code[..read].into(),
                    returns_to: None,
                },
                process,
                pc,
                vectors,
            });
        }
    }
}

/// What the function that begins here does with vector registers. `None` if none begins, or its
/// first instruction is executed more often than it is called: a jump of its own leads there.
fn entered_by_calls(space: &AddressSpace<'_>, pc: Pc) -> Option<VectorUse> {
    let (start, end) = space.function(pc)?;
    let length = end.0.saturating_sub(start.0);
    if start != pc.address || length > LONGEST {
        return None;
    }
    let mut code = vec![0; length as usize];
    let read = space.images.borrow_mut().read(pc.image, start, &mut code);
    if read < code.len() {
        return None;
    }
    let decoder = Decoder::with_ip(64, &code, start.0, DecoderOptions::NONE);
    let mut factory = InstructionInfoFactory::new();
    let mut vectors = VectorUse::default();
    for instruction in decoder {
        let jumps = matches!(
            instruction.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        );
        if jumps && ImageAddress(instruction.near_branch_target()) == start {
            return None;
        }
        let info = factory.info_options(&instruction, InstructionInfoOptions::NO_MEMORY_USAGE);
        let used = info.used_registers().iter();
        for of in used.filter(|of| of.register().is_vector_register()) {
            let (number, access) = (of.register().number(), of.access());
            let writes_only = matches!(access, OpAccess::Write | OpAccess::CondWrite);
            let reads_only = matches!(access, OpAccess::Read | OpAccess::CondRead);
            vectors.reads_arguments |= number < VECTORS && !writes_only;
            vectors.writes_result |= number == 0 && !reads_only;
        }
    }
    Some(vectors)
}

/// Where a call came from: the call instruction that it returns behind.
fn site(space: &AddressSpace<'_>, pc: Pc, call: &sampler::Entered) -> Option<Pc> {
    let found = call_before(space, call.return_address?)?;
    let gpr = &call.registers.gpr;
    let is_other = found.target().is_some_and(|target| {
        let leads = space.leads(target, pc);
        leads.verdict(gpr[RSP], gpr) == CallProof::Disproved
    });
    (!is_other).then_some(found.site)
}

impl Collector {
    /// Has entries of functions watched from now on.
    pub fn watch_entries(&mut self, entries: Entries) {
        self.entries = Some(entries);
    }

    /// Keeps what the handler brought from the entry of a function. Another record is given back.
    pub(super) fn without_vectors_at_entry(&mut self, record: Record) -> Option<Record> {
        match record {
            Record::Packed(packed) if packed.is_at_entry() => {
                if let (Some(entries), Some(stop)) = (&mut self.entries, packed.at_entry()) {
                    entries.came_in(stop);
                }
                None
            }
            other => Some(other),
        }
    }

    /// Takes what was seen at entries since the last call; at the end no vector registers are
    /// waited for.
    pub fn take_entries(&mut self, is_last: bool) {
        let Some(entries) = &mut self.entries else {
            return;
        };
        let without_room = std::mem::take(&mut entries.without_room);
        self.tables.count(Counter::EntriesWithoutRoom, without_room);
        let refused = std::mem::take(&mut entries.not_watched);
        self.tables.count(Counter::EntriesNotWatched, refused);
        while let Some(seen) = self.entries.as_mut().and_then(|of| of.next(is_last)) {
            self.entered(seen);
        }
        self.choose_hottest();
    }

    /// Watches the functions that windows see called most, if that is asked for.
    fn choose_hottest(&mut self) {
        let Some(entries) = self.entries.as_mut().filter(|of| of.wants_hottest()) else {
            return;
        };
        let (shared, images) = (&self.tables.shared, &self.images);
        let (mut called, mut all) = (FxHashMap::default(), 0.0);
        let mut count = 0;
        for (owner, _, callee, calls) in self.tables.consumers.calls.each() {
            let subject = shared.subjects.get(owner.subject.0 as usize);
            if subject.is_none_or(|subject| subject.kernel) {
                continue;
            }
            all += calls.weight;
            count += calls.times;
            let callee = callee.and_then(|callee| shared.pcs.get(callee.0 as usize));
            if let Some(callee) = callee.filter(|callee| !images.is_generated_code(callee.image)) {
                *called.entry(*callee).or_insert(0.0) += calls.weight;
            }
        }
        if count < LEAST_CALLS {
            return;
        }
        let is_hot = |(_, weight): &(Pc, f64)| 100.0 * weight >= LEAST_PERCENT * all;
        let mut called: Vec<(Pc, f64)> = called.into_iter().filter(is_hot).collect();
        called.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        entries.watch_also(called.into_iter().map(|(pc, _)| pc));
    }

    /// Takes what was seen of one function in a while.
    fn entered(&mut self, seen: SeenTarget) {
        let SeenTarget {
            target,
            burst,
            vectors,
        } = seen;
        let (burst, kept) = match burst {
            Ok((burst, Some(kept))) => (burst, kept),
            Ok((_, None)) => return self.tables.count(Counter::Trials, 1),
            Err(miss) => {
                return self
                    .tables
                    .count(CounterKey::of(Group::Entries, miss.name()), 1);
            }
        };
        self.tables.count(Counter::Bursts, 1);
        let full = u64::from(burst.is_full);
        self.tables.count(Counter::BurstsFull, full);
        self.tables
            .count(Counter::BurstsDense, u64::from(kept.is_dense));
        if kept.calls.is_empty() {
            return self.tables.count(Counter::BurstsEmpty, 1);
        }
        self.tell_calls(&target, &burst, &kept, vectors.as_deref());
    }

    /// Tells the calls of a burst that count: their vector registers, if the burst is to tell
    /// these, and the others otherwise.
    fn tell_calls(
        &mut self,
        target: &Target,
        burst: &Burst,
        kept: &Kept,
        vectors: Option<&[VectorsOfCall]>,
    ) {
        let pid = target.entry.pid;
        let Some(owner) = self.owner(pid, burst.begin, None, false, 0) else {
            return;
        };
        let found = self.loadmap.get_and_host(pid);
        let Some((process, host)) = found.filter(|(process, _)| process.id == target.process)
        else {
            if let Some(entries) = &mut self.entries {
                entries.leave(pid);
            }
            return self.tables.count(Counter::EntriesOfGoneProcesses, 1);
        };
        if process.keeps_memory_to_itself() && !self.settings.allow_secrets {
            return self.tables.count(Counter::EntriesKeptBack, 1);
        }
        let mut space = AddressSpace::of(process, host, &mut self.images, burst.begin);
        space.allow_secrets = self.settings.allow_secrets;
        if space.place(target.entry.address) != Some(target.pc) {
            return self.tables.count(Counter::EntriesMappedAnew, 1);
        }
        let shared = &mut self.tables.shared;
        let Some(callee) = shared.pc(target.pc) else {
            return;
        };
        let returns_to = target.entry.returns_to;
        let mut without_site = 0;
        let mut arrived = |(number, call): (usize, &sampler::Entered)| {
            let site = site(&space, target.pc, call);
            without_site += u64::from(site.is_none());
            let is_of_site = returns_to.is_some() && call.return_address == returns_to;
            Arrived {
                caller: site.and_then(|site| shared.pc(site)),
                values: match vectors {
                    Some(all) => {
                        let of = all.get(number).copied().unwrap_or_default();
                        let arguments = || match of.arguments {
                            Some(found) => found.map(Some),
                            None => [None; VECTORS],
                        };
                        ArrivedWith::Vectors(
                            target.vectors.reads_arguments.then(arguments),
                            is_of_site.then_some(of.result),
                        )
                    }
                    None => ArrivedWith::General(
                        REGISTERS.map(|register| call.registers.gpr[register]),
                        is_of_site.then(|| call.returned.map(|of| of.result())),
                    ),
                },
            }
        };
        let calls: Vec<Arrived> = burst.calls.iter().enumerate().map(&mut arrived).collect();
        self.windows += 1;
        let told = Entered {
            callee: (owner, callee),
            number: self.windows,
            time: burst
                .begin
                .saturating_add_signed(self.settings.clock_offset),
            times: kept.times,
            is_dense: kept.is_dense,
        };
        let first = calls.first().filter(|_| kept.calls.start > 0);
        let counted = calls.get(kept.calls.clone()).unwrap_or_default();
        let count = counted.len() as u64;
        if let Some(all) = vectors {
            let of_counted = all.get(kept.calls.clone()).unwrap_or_default();
            let brought = of_counted.iter().filter(|of| of.arguments.is_some());
            let brought = brought.count() as u64;
            self.tables.count(Counter::EnteredWithVectors, brought);
            self.tables
                .count(Counter::EnteredWithoutVectors, count - brought);
        }
        self.tables.consumers.entries.entered(
            &mut self.tables.shared,
            &told,
            first,
            counted.iter().copied(),
        );
        self.tables.count(Counter::EnteredCalls, count);
        self.tables.count(Counter::EnteredWithoutSite, without_site);
    }
}
