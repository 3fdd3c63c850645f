//! A program whose functions are known to its symbol table, and a profile of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use profiledb::{
    Epoch, Flush, Image, ImageKind, ImageRowId, PcRowId, Process, ProcessRowId, Subject,
    SubjectRowId, Writer,
};

/// Where the code lies.
const START: u64 = 0x1000;
/// `turns`: xor eax,eax; test edi,1; je +2; add eax,edi; dec edi; jne back; ret. Then `calls`: call
/// turns; call rax; ret.
const CODE: &[u8] = &[
    0x31, 0xc0, 0xf7, 0xc7, 1, 0, 0, 0, 0x74, 2, 0x01, 0xf8, 0xff, 0xcf, 0x75, 0xf2, 0xc3, 0xcc,
    0xcc, 0xcc, 0xe8, 0xe7, 0xff, 0xff, 0xff, 0xff, 0xd0, 0xc3,
];
const TURNS: (u64, u64) = (0x1000, 0x11);
const CALLS: (u64, u64) = (0x1014, 8);

/// The build id that the profile has.
pub(crate) const BUILD_ID: [u8; 8] = [0xab, 0xcd, 1, 2, 3, 4, 5, 6];

/// A folder with the program, which is of build [`BUILD_ID`], and its profile.
pub(crate) struct Program {
    dir: tempfile::TempDir,
}

impl Program {
    /// One of which there are so many samples.
    pub(crate) fn with_samples(samples: u64) -> Program {
        let program = Program {
            dir: tempfile::tempdir().expect("a temporary directory"),
        };
        std::fs::write(program.path("prog"), elf(&BUILD_ID)).expect("the program is written");
        program.record(samples);
        program
    }

    /// One that is written in Go, as its sections tell.
    pub(crate) fn of_go(samples: u64) -> Program {
        /// The section of another that is as long.
        const GO: &[u8] = b".gopclntab\0\0\0";
        let program = Program::with_samples(samples);
        let mut bytes = elf(&BUILD_ID);
        let is_name = |window: &[u8]| window == b".pseudo_probe";
        let at = bytes.windows(GO.len()).position(is_name);
        let at = at.expect("it has the section");
        bytes.splice(at..at + GO.len(), GO.iter().copied());
        std::fs::write(program.path("prog"), bytes).expect("the program is written");
        program
    }

    /// A file in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs `vcpi` in the folder, where there are no tools of a compiler.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_vcpi"))
            .args(args)
            .current_dir(self.dir.path())
            .env("PATH", "/nowhere")
            .output()
            .expect("vcpi runs")
    }

    fn record(&self, samples: u64) {
        let epoch = Epoch {
            started: 0,
            ended: None,
            host: "host".into(),
            kernel: "6.12.0".into(),
            command: "prog".into(),
            engine: "bpf".into(),
            clock: "cpu-clock".into(),
            unit: "ns".into(),
            cycles_per_unit: 1.0,
            period: 1_000_000,
            window: 256,
            settings: profiledb::EpochSettings::default(),
        };
        let database = self.path("vcpi.db");
        let mut writer = Writer::create_epoch(&database, &epoch).expect("creates");
        // Two processes, in a flush each: counts are of both.
        for pid in [100, 101] {
            let flush = writer.begin(0, 1_000_000_000).expect("begins");
            Rows::new(flush, &self.path("prog"), pid).write(samples / 2);
        }
        writer.end_epoch(1_000_000_000).expect("ends");
        writer.close().expect("closes");
    }
}

struct Rows<'w> {
    flush: Flush<'w>,
    image: ImageRowId,
    process: ProcessRowId,
    subject: SubjectRowId,
}

impl<'w> Rows<'w> {
    fn new(mut flush: Flush<'w>, program: &Path, pid: u32) -> Rows<'w> {
        let build_id: String = BUILD_ID.iter().map(|byte| format!("{byte:02x}")).collect();
        let image = Image {
            kind: ImageKind::File,
            path: program.to_str().expect("is UTF-8").to_owned(),
            identity: build_id.clone(),
            build_id: Some(build_id),
        };
        let process = Process {
            pid,
            started: 7,
            execs: 0,
            comm: "prog".into(),
        };
        Rows {
            image: flush.image(&image).expect("image"),
            process: flush.process(&process).expect("process"),
            subject: flush.subject(&Subject::default()).expect("subject"),
            flush,
        }
    }

    fn pc(&mut self, address: u64) -> PcRowId {
        self.flush.pc(self.image, address, None).expect("pc")
    }

    fn cycles(&mut self, address: u64, samples: u64) {
        let pc = self.pc(address);
        self.flush
            .cycles(self.process, self.subject, pc, None, samples, samples)
            .expect("cycles");
    }

    fn branch(&mut self, address: u64, directions: [u64; 3]) {
        let pc = self.pc(address);
        self.flush
            .branch(self.process, self.subject, pc, directions)
            .expect("branch");
    }

    /// Of nine in ten samples the loop, which turns a hundred times and skips the addition in half
    /// of the turns. All of the loop's samples are at one instruction.
    fn write(mut self, samples: u64) {
        self.cycles(0x1002, samples / 10 * 9);
        self.cycles(0x1014, samples / 10);
        self.branch(0x1008, [500, 500, 10]);
        self.branch(0x100e, [990, 10, 0]);
        let (site, callee) = (self.pc(0x1019), self.pc(TURNS.0));
        self.flush
            .call(self.process, self.subject, site, Some(callee), 40)
            .expect("call");
        self.flush.commit().expect("commits");
    }
}

/// Name, type, flags, address, link, info, size of an entry, bytes.
type Section<'b> = (u32, u32, u64, u64, u32, u32, u64, &'b [u8]);

/// A program of this build: code, its symbols, and a sign of probes, by which llvm-profgen finds
/// places of the source.
pub(crate) fn elf(build_id: &[u8]) -> Vec<u8> {
    let mut note: Vec<u8> = Vec::new();
    for number in [4, u32::try_from(build_id.len()).expect("short"), 3] {
        note.extend(number.to_le_bytes());
    }
    note.extend(b"GNU\0");
    note.extend(build_id);
    let names = b"\0turns\0calls\0";
    let mut symbols = vec![0; 24];
    for (name, (start, size)) in [(1_u32, TURNS), (7, CALLS)] {
        symbols.extend(name.to_le_bytes());
        // A global function in section 1.
        symbols.extend([0x12, 0, 1, 0]);
        symbols.extend(start.to_le_bytes());
        symbols.extend(size.to_le_bytes());
    }
    let section_names =
        b"\0.text\0.note.gnu.build-id\0.symtab\0.strtab\0.shstrtab\0.pseudo_probe\0";
    let sections: [Section<'_>; 6] = [
        (1, 1, 6, START, 0, 0, 0, CODE),
        (7, 7, 2, 0, 0, 0, 0, &note),
        (26, 2, 0, 0, 4, 1, 24, &symbols),
        (34, 3, 0, 0, 0, 0, 0, names),
        (42, 3, 0, 0, 0, 0, 0, section_names),
        (52, 1, 0, 0, 0, 0, 0, &[0]),
    ];
    let mut body: Vec<u8> = Vec::new();
    let mut headers = vec![0; 64];
    let at = 64 + 56;
    for (name, kind, flags, address, link, info, entry, bytes) in sections {
        while !body.len().is_multiple_of(8) {
            body.push(0);
        }
        let offset = at + body.len() as u64;
        headers.extend(name.to_le_bytes());
        headers.extend(kind.to_le_bytes());
        for word in [flags, address, offset, bytes.len() as u64] {
            headers.extend(word.to_le_bytes());
        }
        headers.extend(link.to_le_bytes());
        headers.extend(info.to_le_bytes());
        headers.extend(4_u64.to_le_bytes());
        headers.extend(entry.to_le_bytes());
        body.extend(bytes);
    }
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(16, 0);
    elf.extend([2_u16, 62].iter().flat_map(|half| half.to_le_bytes()));
    elf.extend(1_u32.to_le_bytes());
    for word in [START, 64, at + body.len() as u64] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend(0_u32.to_le_bytes());
    elf.extend(
        [64_u16, 56, 1, 64, 7, 5]
            .iter()
            .flat_map(|half| half.to_le_bytes()),
    );
    elf.extend([1_u32, 5].iter().flat_map(|word| word.to_le_bytes()));
    let size = CODE.len() as u64;
    for word in [at, START, START, size, size, 1] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend(body);
    elf.extend(headers);
    elf
}
