//! One sample: whose it is, where it was taken, who called, and the window that starts there.

use addresses::{Bias, ProcessAddress};
use counters::{Counter, CounterKey, Group, Loss};
use interpreter::StopReason;
use profiledb::Subject;
use sampler::{Mode, Pid, RawSample, Record, TaskIdentity};

use super::waiting::Arrival;
use super::{Collector, MAX_PERIODS};
use consumers::events::Owner;
use machine::address_space::AddressSpace;
use machine::images::{Identity, UNKNOWN};
use machine::place::Pc;
use machine::system::page_check::PageEvidence;
use machine::system::procfs::Credentials;
use machine::window::Captured;

impl Collector {
    /// Takes notice of a sample that has come, in order of time: it waits.
    pub(super) fn arrive(&mut self, record: Record, evidence: Option<Box<PageEvidence>>) {
        let record = self.without_second(record);
        let record = record.and_then(|record| self.without_entry(record));
        let Some(record) = record.and_then(|record| self.without_vectors_at_entry(record)) else {
            return;
        };
        let arrival = Arrival {
            record,
            evidence,
            second: None,
            probability: 1.0,
        };
        let Some((time, pid, ..)) = arrival.origin() else {
            return;
        };
        if pid != self.own_pid {
            self.meet(pid, time);
        }
        self.waiting.push(arrival, pid);
    }

    /// Finds and counts the places of samples that have come, in order of time, and puts them in
    /// the order of these.
    pub fn sort_waiting(&mut self) {
        while let Some((time, pid, ip, mode)) = self.waiting.unplaced().and_then(Arrival::origin) {
            if self.images.has_generated() && mode == Mode::User {
                self.observe(time, pid, ip);
            }
            let (place, probability) = match pid == self.own_pid {
                true => (None, 1.0),
                false => self.place(time, pid, ip, mode),
            };
            self.waiting.place(pid, place.ok_or(ip), probability);
        }
        self.waiting.sort();
    }

    /// Takes notice of the code at a sample, if that may be made at run time.
    fn observe(&mut self, time: u64, pid: Pid, ip: ProcessAddress) {
        let process = self.loadmap.get(pid);
        let mapping = process.and_then(|process| process.maps.find(ip));
        let Some(image) = mapping.map(|mapping| mapping.image) else {
            return;
        };
        if !self.images.is_generated(image) {
            return;
        }
        let Some(arrival) = self.waiting.unplaced() else {
            return;
        };
        let unpacked;
        let sample = match &arrival.record {
            Record::Sample(sample) => &**sample,
            Record::Packed(packed) => match packed.unpack() {
                Some(sample) => {
                    unpacked = sample;
                    &unpacked
                }
                None => return,
            },
            _ => return,
        };
        if let Some(capture) = &sample.capture {
            let captured = Captured::new(ip, capture, self.copies_whole);
            let (_, code) = captured.pieces().numbered_code(ip.0);
            self.images.observe(image, ip, time, code);
        }
    }

    /// Counts a sample at its place, if it has one; with what probability its window is to be
    /// accepted.
    fn place(&mut self, time: u64, pid: Pid, ip: ProcessAddress, mode: Mode) -> (Option<Pc>, f64) {
        let space = match mode {
            Mode::User => self.loadmap.get_and_host(pid),
            _ => Some((&mut self.kernel_space, &mut self.loadmap.host)),
        };
        let place = space.and_then(|(process, host)| {
            AddressSpace::of(process, host, &mut self.images, time).place(ip)
        });
        let probability = place.map_or(1.0, |pc| self.blocks.sample(&mut self.images, pc));
        (place, probability)
    }

    /// Looks at all that waits.
    pub(super) fn run_all(&mut self) {
        self.sort_waiting();
        while self.run_next() {}
    }

    /// Looks at a sample that has waited.
    pub(super) fn run(&mut self, arrival: Arrival) {
        let Arrival {
            record,
            evidence,
            second,
            probability,
        } = arrival;
        let evidence = evidence.map(|evidence| *evidence);
        if let Some(sample) = self.upgraded(&record, second) {
            return self.sample(&sample, evidence, probability);
        }
        match record {
            Record::Sample(sample) => self.sample(&sample, evidence, probability),
            Record::Packed(packed) => match packed.unpack() {
                Some(sample) => self.sample(&sample, evidence, probability),
                None => self.lost(Loss::MalformedRecords, 1),
            },
            _ => {}
        }
    }

    fn sample(&mut self, sample: &RawSample, evidence: Option<PageEvidence>, probability: f64) {
        if sample.pid == self.own_pid {
            self.tables.count(Counter::CollectorSamples, 1);
            return;
        }
        self.totals.samples += 1;
        self.totals.weight = self.totals.weight.saturating_add(sample.period);
        let tally = &mut self.tables.tally;
        tally.samples += 1;
        tally.interval_sum = tally.interval_sum.saturating_add(sample.period);
        if self.periods.len() < MAX_PERIODS {
            self.periods.insert(sample.period);
        }
        let kernel = sample.mode != Mode::User;
        let of_moment = sample
            .capture
            .as_ref()
            .map(|capture| subject_of(&capture.task));
        if let Some(owner) = self.owner(sample.pid, sample.time, of_moment, kernel, 1) {
            self.interpret(sample, owner, evidence, probability);
        }
    }

    /// Makes a process known that was running at that time, if it is not.
    fn meet(&mut self, pid: Pid, time: u64) {
        if self.loadmap.get(pid).is_none() {
            self.loadmap.introduce(pid, time, &mut self.images);
        }
    }

    /// Who so many samples belong to; if there is no room, they are lost. Credentials of their
    /// moment are better than those of a look at the process now.
    pub(super) fn owner(
        &mut self,
        pid: Pid,
        time: u64,
        of_moment: Option<Subject>,
        kernel: bool,
        samples: u64,
    ) -> Option<Owner> {
        self.meet(pid, time);
        let subject = match of_moment {
            Some(subject) => Some(subject),
            None => self.loadmap.credentials(pid, time).map(nearly),
        };
        let Some(process) = self.loadmap.get(pid) else {
            self.lost(Loss::ProcessTableFull, samples);
            return None;
        };
        let subject = Subject {
            kernel,
            ..subject.unwrap_or_default()
        };
        process.sampled = true;
        let process = if self.settings.per_process {
            &*process
        } else {
            &self.kernel_space
        };
        let owner = self
            .tables
            .shared
            .owner(process.id, subject, || process.row());
        if owner.is_none() {
            self.lost(Loss::TableFullSamples, samples);
        }
        owner
    }

    /// Samples that found no room in the engine's buffer: cycles without values.
    pub(super) fn cycles(&mut self, cycles: &sampler::Cycles) {
        let pid = Pid(cycles.process.tgid);
        if pid == self.own_pid {
            let n = cycles.samples;
            return self.tables.count(Counter::CollectorSamples, n);
        }
        self.totals.samples += cycles.samples;
        let tally = &mut self.tables.tally;
        tally.samples = tally.samples.saturating_add(cycles.samples);
        tally.interval_sum = tally.interval_sum.saturating_add(cycles.weight);
        self.lost(Loss::ValuesOfSamplesWithoutRoom, cycles.samples);
        let kernel = cycles.mode != Mode::User;
        let Some(owner) = self.owner(pid, cycles.time, None, kernel, cycles.samples) else {
            return;
        };
        let pc = if kernel {
            Some(Pc {
                image: self.kernel_image,
                address: self.kernel.relative(cycles.ip),
            })
        } else {
            let Some((process, host)) = self.loadmap.get_and_host(pid) else {
                return;
            };
            let space = AddressSpace::of(process, host, &mut self.images, cycles.time);
            space.place(cycles.ip)
        };
        let pc = self.pc_or_unknown(pc, cycles.ip);
        self.tables
            .add_cycles(owner, pc, None, cycles.samples, cycles.weight);
    }

    /// A PC, or the address itself where nothing is known to be mapped.
    pub(super) fn pc_or_unknown(&mut self, pc: Option<Pc>, address: ProcessAddress) -> Pc {
        pc.unwrap_or_else(|| {
            self.tables.shared.lost.count(Loss::UnmappedPcSamples, 1);
            let image = self.images.intern(Identity::Anon, UNKNOWN);
            let address = Bias::NONE.in_image(address);
            Pc { image, address }
        })
    }

    pub(super) fn stop(&mut self, reason: StopReason) {
        self.tables
            .count(CounterKey::of(Group::Stop, reason.key()), 1);
    }

    /// A window without values, because nothing can tell any more whether its pages are pristine.
    pub(super) fn process_gone(&mut self) {
        self.totals.gone += 1;
        self.lost(Loss::WindowsOfGoneProcesses, 1);
    }
}

/// The access tag of a thread, as of the interrupt.
pub(super) fn subject_of(task: &TaskIdentity) -> Subject {
    Subject {
        uid: Some(task.uid),
        gid: Some(task.gid),
        euid: Some(task.euid),
        egid: Some(task.egid),
        suid: Some(task.suid),
        dumpable: Some(task.dumpable),
        capable: Some(task.privileged),
        kernel: false,
    }
}

/// The access tag of a process that was looked at about then. It does not tell whose the
/// sample was: the process may have changed since, or been another one.
fn nearly(seen: Credentials) -> Subject {
    Subject {
        uid: Some(seen.uid),
        gid: Some(seen.gid),
        euid: Some(seen.euid),
        egid: Some(seen.egid),
        ..Subject::default()
    }
}
