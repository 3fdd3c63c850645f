//! A small profile that every report has something to say about: an image of a few
//! hand-assembled functions, and rows as a collector would have written them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hotlist::{Config, Estimates, Generator, Hotlist};
use profiledb::{
    Epoch, Flush, Image, ImageKind, ImageRowId, NewHotlist, PcRowId, Process, ProcessRowId,
    StackEnd, Subject, SubjectRowId, Writer,
};

/// The instructions of the fixture, by address.
const CODE: [(u64, &[u8]); 18] = [
    // main: mov edi,4; mov rsi,[rsp+8]; call hot; call [rax+8]; dec ebx; jne main; ret
    (0x1000, &[0xbf, 4, 0, 0, 0]),
    (0x1005, &[0x48, 0x8b, 0x74, 0x24, 8]),
    (0x100a, &[0xe8, 0x11, 0, 0, 0]),
    (0x100f, &[0xff, 0x50, 8]),
    (0x1012, &[0xff, 0xcb]),
    (0x1014, &[0x75, 0xea]),
    (0x1016, &[0xc3]),
    // hot: mov rax,[rsi+8]; shl rax,0x30; sar rax,0x30; cmp edi,4; jne +2; add eax,edi; ret
    (0x1020, &[0x48, 0x8b, 0x46, 8]),
    (0x1024, &[0x48, 0xc1, 0xe0, 0x30]),
    (0x1028, &[0x48, 0xc1, 0xf8, 0x30]),
    (0x102c, &[0x83, 0xff, 4]),
    (0x102f, &[0x75, 2]),
    (0x1031, &[0x01, 0xf8]),
    (0x1033, &[0xc3]),
    // helper: movsd xmm0,[rdi]; jmp rcx
    (0x1040, &[0xf2, 0x0f, 0x10, 0x07]),
    (0x1044, &[0xff, 0xe1]),
    // hotter: nop; ret
    (0x1050, &[0x90]),
    (0x1051, &[0xc3]),
];

/// Time of the fixture's epoch: 2026-05-01 12:00 UTC in nanoseconds.
const START: i64 = 1_777_636_800_000_000_000;
const SECOND: i64 = 1_000_000_000;

/// A directory with the fixture's image and its database.
pub(crate) struct Fixture {
    dir: tempfile::TempDir,
}

/// An epoch that has begun.
pub(crate) fn epoch(started: i64, command: &str, engine: &str) -> Epoch {
    Epoch {
        started,
        ended: None,
        host: "host".into(),
        kernel: "6.12.0".into(),
        command: command.into(),
        engine: engine.into(),
        clock: "cycles".into(),
        unit: "cycles".into(),
        cycles_per_unit: 1.0,
        period: 100_000,
        window: 16,
        settings: profiledb::EpochSettings::default(),
    }
}

impl Fixture {
    /// Writes image and database.
    pub(crate) fn new() -> Fixture {
        Fixture::with_hot("hot")
    }

    /// As [`Fixture::new`], the function `hot` being called otherwise.
    pub(crate) fn with_hot(name: &str) -> Fixture {
        let fixture = Fixture {
            dir: tempfile::tempdir().expect("a temporary directory"),
        };
        std::fs::write(fixture.image(), image()).expect("image is written");
        fixture.write_database(name);
        fixture
    }

    /// The directory, in which `vcpi.db` lies.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The image.
    pub(crate) fn image(&self) -> PathBuf {
        self.dir().join("fixture")
    }

    /// The database.
    pub(crate) fn database(&self) -> PathBuf {
        self.dir().join("vcpi.db")
    }

    /// Runs `vcpi` in the directory.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_vcpi"))
            .args(args)
            .current_dir(self.dir())
            .env("TZ", "UTC")
            .output()
            .expect("vcpi runs")
    }

    /// The report that must come out, with the directory's name taken out of it.
    pub(crate) fn report(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {errors}");
        let text = String::from_utf8(output.stdout).expect("reports are UTF-8");
        text.replace(self.dir().to_str().expect("is UTF-8"), "/fixture")
    }

    fn write_database(&self, hot: &str) {
        write_epoch(&self.database(), |flush| {
            Rows::new(flush, &self.image()).write(hot)
        });
    }
}

/// Writes a database of two flushes.
pub(crate) fn write_epoch(path: &Path, write: impl FnMut(Flush<'_>)) {
    write_epoch_as(path, None, write);
}

/// As [`write_epoch`], under an id that is not the first.
pub(crate) fn write_epoch_as(path: &Path, id: Option<u64>, mut write: impl FnMut(Flush<'_>)) {
    let epoch = epoch(START, "fixture --loop", "ring");
    let mut writer = Writer::create_epoch_as(path, &epoch, id).expect("creates");
    for half in 0..2 {
        let started = START + half * 60 * SECOND;
        let flush = writer
            .begin(started, started + 60 * SECOND)
            .expect("begins");
        write(flush);
    }
    writer.end_epoch(START + 120 * SECOND).expect("ends");
    writer.close().expect("closes");
}

/// The image: one executable segment, no sections, no build id.
fn image() -> Vec<u8> {
    let mut code = vec![0xcc; 0x60];
    for (address, bytes) in CODE {
        let at = usize::try_from(address - 0x1000).expect("small");
        code[at..at + bytes.len()].copy_from_slice(bytes);
    }
    let size = code.len() as u64;
    let mut image = b"\x7fELF\x02\x01\x01".to_vec();
    image.resize(16, 0);
    image.extend([3_u16, 62].iter().flat_map(|half| half.to_le_bytes()));
    image.extend(1_u32.to_le_bytes());
    image.extend(
        [0x1000_u64, 64, 0]
            .iter()
            .flat_map(|word| word.to_le_bytes()),
    );
    image.extend(0_u32.to_le_bytes());
    image.extend(
        [64_u16, 56, 1, 64, 0, 0]
            .iter()
            .flat_map(|half| half.to_le_bytes()),
    );
    image.extend([1_u32, 5].iter().flat_map(|word| word.to_le_bytes()));
    image.extend(
        [120, 0x1000, 0x1000, size, size, 1]
            .iter()
            .flat_map(|word| word.to_le_bytes()),
    );
    image.extend(code);
    image
}

/// One flush being written; both flushes hold the same.
pub(crate) struct Rows<'w> {
    pub(crate) flush: Flush<'w>,
    pub(crate) fixture: ImageRowId,
    pub(crate) process: ProcessRowId,
    pub(crate) other: ProcessRowId,
    pub(crate) user: SubjectRowId,
    kernel: SubjectRowId,
}

/// The list of values that came so many times each.
fn list(values: &[(u64, u64)]) -> Estimates<u64> {
    let mut list = Hotlist::new(&Config::default());
    let mut coins = Generator::new(1);
    let mut time = 0;
    for (value, times) in values {
        for _ in 0..*times {
            time += 1;
            list.update(*value, time, &mut coins);
        }
    }
    Estimates::from(&list)
}

impl<'w> Rows<'w> {
    pub(crate) fn new(mut flush: Flush<'w>, image: &Path) -> Rows<'w> {
        let path = image.to_str().expect("is UTF-8").to_owned();
        let fixture = flush
            .image(&Image {
                kind: ImageKind::File,
                identity: path.clone(),
                path,
                build_id: None,
            })
            .expect("image");
        let process = |flush: &mut Flush<'_>, pid, comm: &str| {
            let process = Process {
                pid,
                started: 7,
                execs: 0,
                comm: comm.into(),
            };
            flush.process(&process).expect("process")
        };
        let first = process(&mut flush, 100, "fixture");
        let other = process(&mut flush, 101, "evil\u{1b}[2J");
        let subject = |flush: &mut Flush<'_>, kernel| {
            let uid = Some(1000);
            let subject = Subject {
                uid,
                gid: uid,
                euid: uid,
                egid: uid,
                suid: uid,
                dumpable: Some(true),
                capable: Some(false),
                kernel,
            };
            flush.subject(&subject).expect("subject")
        };
        let user = subject(&mut flush, false);
        let kernel = subject(&mut flush, true);
        Rows {
            flush,
            fixture,
            process: first,
            other,
            user,
            kernel,
        }
    }

    pub(crate) fn pc(&mut self, address: u64) -> PcRowId {
        let bytes = CODE
            .iter()
            .find(|(of, _)| *of == address)
            .map(|(_, bytes)| *bytes);
        self.flush.pc(self.fixture, address, bytes).expect("pc")
    }

    pub(crate) fn cycles(&mut self, address: u64, caller: Option<u64>, samples: u64) {
        let pc = self.pc(address);
        let caller = caller.map(|caller| self.pc(caller));
        self.flush
            .cycles(
                self.process,
                self.user,
                pc,
                caller,
                samples,
                samples * 100_000,
            )
            .expect("cycles");
    }

    pub(crate) fn values(
        &mut self,
        address: u64,
        parameter: &str,
        unknown: u64,
        values: &[(u64, u64)],
    ) {
        self.values_from(address, None, parameter, unknown, values);
    }

    pub(crate) fn values_from(
        &mut self,
        address: u64,
        caller: Option<u64>,
        parameter: &str,
        unknown: u64,
        values: &[(u64, u64)],
    ) {
        let pc = self.pc(address);
        let caller = caller.map(|caller| self.pc(caller));
        let known: u64 = values.iter().map(|(_, times)| times).sum();
        self.flush
            .hotlist(NewHotlist {
                process: self.process,
                subject: self.user,
                pc,
                caller,
                parameter,
                reached: (known + unknown) as f64,
                unknown: unknown as f64,
                windows: known - known / 20,
                even: None,
                list: list(values),
            })
            .expect("hotlist");
    }

    fn write(mut self, hot: &str) {
        self.write_symbols(hot);
        self.write_cycles();
        self.write_values();
        self.write_control();
        self.write_stacks();
        self.write_counters();
        self.flush.commit().expect("commits");
    }

    pub(crate) fn write_symbols(&mut self, hot: &str) {
        for (address, size, name) in [
            (0x1000, 0x17, "main"),
            (0x1020, 0x14, hot),
            (0x1040, 6, "helper"),
            (0x1050, 2, "hotter"),
        ] {
            self.flush
                .symbol(self.fixture, address, size, name)
                .expect("symbol");
        }
    }

    fn write_cycles(&mut self) {
        self.cycles(0x1005, None, 30);
        self.cycles(0x1020, Some(0x100a), 300);
        self.cycles(0x1024, Some(0x100a), 50);
        self.cycles(0x1028, Some(0x100f), 20);
        self.cycles(0x1031, None, 10);
        self.cycles(0x1040, Some(0x100f), 25);
        self.cycles(0x1050, None, 1);
        // Another process, the kernel, and an image that is gone.
        let pc = self.pc(0x1020);
        self.flush
            .cycles(self.other, self.user, pc, None, 5, 500_000)
            .expect("cycles");
        let image = |kind, path: &str| Image {
            kind,
            path: path.into(),
            build_id: None,
            identity: path.into(),
        };
        let kernel = self
            .flush
            .image(&image(ImageKind::Kernel, "[kernel]"))
            .expect("image");
        self.flush
            .symbol(kernel, 0x4000, 0x80, "copy_page")
            .expect("symbol");
        let pc = self.flush.pc(kernel, 0x4010, None).expect("pc");
        self.flush
            .cycles(self.process, self.kernel, pc, None, 40, 4_000_000)
            .expect("cycles");
        let gone = self
            .flush
            .image(&image(ImageKind::File, "/nowhere/libgone.so"))
            .expect("image");
        let pc = self.flush.pc(gone, 0x777, Some(&[0x90])).expect("pc");
        self.flush
            .cycles(self.process, self.user, pc, None, 15, 1_500_000)
            .expect("cycles");
    }

    fn write_values(&mut self) {
        self.values(0x1000, "edi", 0, &[(4, 100)]);
        self.values(0x1005, "rsi", 2, &[(0x11ff_fd040, 60), (0x11ff_fd980, 38)]);
        let loaded = [
            (2, 67),
            (0x2_0000_0002, 56),
            (u64::MAX - 1, 40),
            (0x5_0000_0002, 37),
        ];
        self.values(0x1020, "rax", 0, &loaded);
        self.values(0x1020, "ea", 0, &[(0x7ffc_0000_1008, 200)]);
        self.values(0x1024, "rax", 0, &[(2 << 48, 200)]);
        self.values(0x1028, "rax", 0, &[(2, 200)]);
        self.values(0x1031, "eax", 30, &[(6, 66), (0xffff_ffff, 4)]);
        self.values(0x1033, "ret", 0, &[(6, 90), (2, 10)]);
        let halves = [(4.0_f64.to_bits(), 30), ((-18.3555_f64).to_bits(), 10)];
        self.values(0x1040, "xmm0.f64[0]", 0, &halves);
        self.values(0x1044, "target", 1, &[(0x5555_5555_6040, 9)]);
        // The upper half of an int argument is whatever was there.
        self.values_from(
            0x1020,
            Some(0x100a),
            "arg0",
            0,
            &[(4, 90), (0x7fff_0000_0004, 5), (9, 5)],
        );
        self.values_from(0x1020, Some(0x100a), "arg1", 40, &[(0x11ff_fd040, 60)]);
        self.values_from(0x1020, Some(0x100a), "arg2", 0, &[(77, 100)]);
        self.values_from(0x1020, Some(0x100f), "arg0", 0, &[(9, 5)]);
    }

    fn write_control(&mut self) {
        for (address, taken, not_taken, unknown) in [(0x102f, 10, 190, 0), (0x1014, 99, 0, 1)] {
            let pc = self.pc(address);
            self.flush
                .branch(self.process, self.user, pc, [taken, not_taken, unknown])
                .expect("branch");
        }
        for (site, callee, calls) in [
            (0x100a, Some(0x1020), 100),
            (0x100f, Some(0x1040), 95),
            (0x100f, Some(0x1020), 5),
            (0x100f, None, 3),
        ] {
            let site = self.pc(site);
            let callee = callee.map(|callee| self.pc(callee));
            self.flush
                .call(self.process, self.user, site, callee, calls)
                .expect("call");
        }
    }

    /// Call stacks of `hot`, which calls itself once, and of `helper`.
    fn write_stacks(&mut self) {
        for (frames, end, samples) in [
            (&[0x1020, 0x100a][..], StackEnd::Whole, 300),
            (&[0x1024, 0x1031, 0x100f], StackEnd::Whole, 60),
            (&[0x1040, 0x1028], StackEnd::NoRules, 40),
        ] {
            let frames: Vec<PcRowId> = frames.iter().map(|at| self.pc(*at)).collect();
            self.flush
                .stack(
                    self.process,
                    self.user,
                    &frames,
                    end,
                    samples,
                    samples * 100_000,
                )
                .expect("stack");
        }
    }

    fn write_counters(&mut self) {
        for (kind, name, value) in [
            ("run", "samples", 496),
            ("run", "windows", 430),
            ("run", "value_events", 1500),
            ("run", "user_samples", 456),
            ("run", "kernel_samples", 40),
            ("lost", "records", 3),
            ("stop", "window_end", 400),
            ("stop", "unknown_branch", 30),
            ("coverage", "destinations_known", 900),
            ("coverage", "destinations_reached", 1000),
            ("coverage", "loads_captured", 1),
            ("coverage", "loads_reached", 3),
            ("coverage", "user_samples", 456),
            ("coverage", "user_samples_with_caller", 395),
            ("interval", "count", 496),
            ("interval", "sum", 49_600_000),
            ("interval", "distinct", 12),
            ("interval", "redraws", 12),
            ("throttle", "throttled", 1),
            ("throttle", "unthrottled", 1),
            ("overhead", "collector_cpu_ns", 600_000_000),
            ("overhead", "wall_ns", 60_000_000_000),
            ("overhead", "machine_cpu_ns", 120_000_000_000),
            ("weather", "rain", 1),
        ] {
            self.flush.counter(kind, name, value).expect("counter");
        }
    }
}
