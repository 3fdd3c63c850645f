//! Days of a small service, and everything that they have, added up.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use counters::{Counter, Loss};
use hotlist::{Config, Estimates, Generator, Hotlist};
use profiledb::{
    Directory, Epoch, EpochSettings, Filter, Image, ImageKind, NewHotlist, Process, Profile,
    StackEnd, Subject, Writer,
};

/// A minute and a day, in nanoseconds.
pub(super) const MINUTE: i64 = 60_000_000_000;
pub(super) const DAY: i64 = 1_440 * MINUTE;
/// A Monday at midnight.
pub(super) const BEGIN: i64 = 1_793_577_600_000_000_000;
/// The machine was booted so long before, in nanoseconds.
const UP: u64 = 1_000_000_000_000_000;

/// How much there is of everything.
#[derive(Clone, Debug)]
pub(super) struct Days {
    pub(super) days: i64,
    /// Minutes from one flush to the next.
    pub(super) every: i64,
    /// Instructions with lists.
    pub(super) instructions: u64,
    /// Most events of a list in a flush.
    pub(super) events: u64,
    /// Distinct values.
    pub(super) values: u64,
}

impl Default for Days {
    fn default() -> Self {
        Self {
            days: 1,
            every: 20,
            instructions: 12,
            events: 5,
            values: 9,
        }
    }
}

impl Days {
    pub(super) fn write(&self, folder: &Path) {
        for day in 0..self.days {
            let (_, mut writer) = self.begin(folder, day);
            for number in 0..1_440 / self.every {
                self.minute(&mut writer, day, number * self.every);
            }
            self.end(writer, day);
        }
    }

    pub(super) fn begin(&self, folder: &Path, day: i64) -> (PathBuf, Writer) {
        let started = BEGIN + day * DAY;
        let (path, sequence) = Directory::new(folder).unwrap().next(started).unwrap();
        let writer = Writer::create_epoch_as(&path, &epoch(started), Some(sequence)).unwrap();
        (path, writer)
    }

    pub(super) fn end(&self, mut writer: Writer, day: i64) {
        writer.end_epoch(BEGIN + (day + 1) * DAY).unwrap();
        writer.close().unwrap();
    }

    /// A flush, of a minute that the day's flushes are apart by `every`.
    pub(super) fn minute(&self, writer: &mut Writer, day: i64, minute: i64) {
        let started = BEGIN + day * DAY + minute * MINUTE;
        let since = (day * DAY + minute * MINUTE).unsigned_abs();
        let mut coins = Generator::new(started.unsigned_abs());
        let mut flush = writer.begin(started, started + MINUTE).unwrap();
        let image = flush.image(&program()).unwrap();
        let subject = flush.subject(&user()).unwrap();
        let of = |pid, started, comm: &str| Process {
            pid,
            started,
            execs: 0,
            comm: comm.to_owned(),
        };
        let short_pid = 100 + (since / MINUTE.unsigned_abs()) as u32;
        let mut processes = vec![
            of(10, 5_000, "server"),
            of(short_pid, UP + since + 30_000_000_000, "cc1"),
        ];
        // One that is seen once in some hours.
        if coins.next_u64().is_multiple_of(10) {
            processes.push(of(11, 6_000, "waker"));
        }
        let mut samples = 0;
        for process in &processes {
            let process = flush.process(process).unwrap();
            let entry = flush.pc(image, 0x5_0000, Some(&[0x55])).unwrap();
            for at in 0..self.instructions {
                // Several buckets.
                let pc = flush
                    .pc(image, 0x1_0000 * (at % 4) + 8 * at, Some(&[0x90]))
                    .unwrap();
                let site = flush.pc(image, 0x6_0000 + at, None).unwrap();
                let count = 1 + coins.next_u64() % 3;
                flush
                    .cycles(process, subject, pc, Some(site), count, count * 1_000)
                    .unwrap();
                samples += count;
                let frames = [pc, site, entry];
                for (depth, end) in [(3, StackEnd::Whole), (2, StackEnd::NoRules)] {
                    flush
                        .stack(process, subject, &frames[..depth], end, count, count)
                        .unwrap();
                }
                if at % 3 == 0 {
                    flush.branch(process, subject, pc, [count, 2, 1]).unwrap();
                    flush
                        .call(process, subject, pc, Some(entry), count)
                        .unwrap();
                }
                let mut list = Hotlist::new(&Config::default().precise());
                let events = 1 + coins.next_u64() % self.events;
                for time in 0..events {
                    let u = coins.uniform();
                    let value = ((self.values as f64 + 1.0).powf(u) - 1.0) as u64;
                    list.update(7 * at + value, started.unsigned_abs() + time, &mut coins);
                }
                let lists = [
                    ("eax", pc, None),
                    ("ret", pc, None),
                    ("arg0", entry, Some(site)),
                ];
                for (parameter, pc, caller) in lists {
                    let row = NewHotlist {
                        process,
                        subject,
                        pc,
                        caller,
                        parameter,
                        reached: (events + at % 2) as f64,
                        unknown: (at % 2) as f64,
                        windows: events,
                        even: Some(0.5),
                        list: Estimates::from(&list),
                    };
                    flush.hotlist(row).unwrap();
                }
            }
        }
        flush.count(Counter::Samples, samples).unwrap();
        flush.count(Loss::RingSamples, 1).unwrap();
        flush.commit().unwrap();
    }
}

fn epoch(started: i64) -> Epoch {
    Epoch {
        started,
        ended: None,
        host: "host".to_owned(),
        kernel: "6.1.0".to_owned(),
        command: "serve".to_owned(),
        engine: "bpf".to_owned(),
        clock: "cpu-clock".to_owned(),
        unit: "ns".to_owned(),
        cycles_per_unit: 2.5,
        period: 1_000_000,
        window: 256,
        settings: EpochSettings::default(),
    }
}

fn program() -> Image {
    Image {
        kind: ImageKind::File,
        path: "/usr/bin/program".to_owned(),
        build_id: Some("ab12cd34".to_owned()),
        identity: "ab12cd34".to_owned(),
    }
}

fn user() -> Subject {
    Subject {
        uid: Some(1000),
        euid: Some(1000),
        suid: Some(1000),
        dumpable: Some(true),
        capable: Some(false),
        ..Subject::default()
    }
}

/// Everything that databases tell of instructions, whoever ran them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sums {
    samples: u64,
    cycles: f64,
    pub(super) reached: f64,
    unknown: f64,
    windows: u64,
    /// By address and parameter.
    pub(super) values: BTreeMap<(u64, String), BTreeMap<u64, f64>>,
    branches: [u64; 3],
    calls: u64,
    /// By the addresses of the frames, and the end.
    stacks: BTreeMap<(Vec<u64>, &'static str), (u64, f64)>,
    counters: BTreeMap<(String, String), u64>,
    encodings: usize,
}

pub(super) fn sums(folder: &Path) -> Sums {
    of(&Profile::load(&[folder.to_owned()], &Filter::default()).unwrap())
}

fn of(profile: &Profile) -> Sums {
    let mut sums = Sums::default();
    for row in &profile.cycles {
        sums.samples += row.samples;
        sums.cycles += row.cycles;
    }
    for row in &profile.hotlists {
        sums.reached += row.reached;
        sums.unknown += row.unknown;
        sums.windows += row.windows;
        let address = profile.pcs[row.pc].address;
        let values = sums
            .values
            .entry((address, row.parameter.to_string()))
            .or_default();
        for tuple in row.list.tuples() {
            *values.entry(tuple.value).or_default() += tuple.estimate;
        }
    }
    for row in &profile.branches {
        let more = [row.taken, row.not_taken, row.unknown];
        for (sum, more) in sums.branches.iter_mut().zip(more) {
            *sum += more;
        }
    }
    sums.calls = profile.calls.iter().map(|row| row.calls).sum();
    for row in &profile.stacks {
        let address = |pc: usize| profile.pcs[pc].address;
        let frames = profile.frames(row).map(|frame| address(frame.pc)).collect();
        let sum = sums.stacks.entry((frames, row.end.name())).or_default();
        (sum.0, sum.1) = (sum.0 + row.samples, sum.1 + row.cycles);
    }
    sums.counters = profile.counters.clone();
    sums.counters.retain(|(kind, _), _| kind != "storage");
    sums.encodings = profile.pcs.iter().filter(|pc| pc.bytes.is_some()).count();
    sums
}
