//! `vcpi hints` on a made-up profile of code whose values are known, and `--verify`.

use std::path::Path;
use std::process::{Command, Output};

use profiledb::{
    Epoch, Flush, Image, ImageKind, ImageRowId, NewHotlist, PcRowId, Process, ProcessRowId,
    Subject, SubjectRowId, Writer,
};
use serde_json::Value;

#[path = "hints/patches.rs"]
mod patches;
#[path = "hints/verify.rs"]
mod verify;

/// The instructions, by address.
const CODE: [(u64, &[u8]); 57] = [
    // rest: mov eax,edi; xor edx,edx; div esi; mov eax,edx; ret
    (0x1000, &[0x89, 0xf8]),
    (0x1002, &[0x31, 0xd2]),
    (0x1004, &[0xf7, 0xf6]),
    (0x1006, &[0x89, 0xd0]),
    (0x1008, &[0xc3]),
    // cold: cmp edi,4; jne +2; add eax,edi; ret
    (0x1010, &[0x83, 0xff, 4]),
    (0x1013, &[0x75, 2]),
    (0x1015, &[0x01, 0xf8]),
    (0x1017, &[0xc3]),
    // scan: mov ecx,[rdi]; test ecx,ecx; je +7; cmp ecx,4; jb +2; add eax,ecx; ret
    (0x1020, &[0x8b, 0x0f]),
    (0x1022, &[0x85, 0xc9]),
    (0x1024, &[0x74, 7]),
    (0x1026, &[0x83, 0xf9, 4]),
    (0x1029, &[0x72, 2]),
    (0x102b, &[0x01, 0xc8]),
    (0x102d, &[0xc3]),
    // main: call rest; call rax; ret
    (0x1030, &[0xe8, 0xcb, 0xff, 0xff, 0xff]),
    (0x1035, &[0xff, 0xd0]),
    (0x1037, &[0xc3]),
    // steps: mov ebx,[rdi]; mov eax,ecx; cdq; idiv ebx; dec ecx; jne -9; ret
    (0x1040, &[0x8b, 0x1f]),
    (0x1042, &[0x89, 0xc8]),
    (0x1044, &[0x99]),
    (0x1045, &[0xf7, 0xfb]),
    (0x1047, &[0xff, 0xc9]),
    (0x1049, &[0x75, 0xf7]),
    (0x104b, &[0xc3]),
    // paths: mov eax,edi; xor edx,edx; cmp eax,ecx; jb +3; div esi; ret; xor eax,eax; div esi; ret
    (0x1050, &[0x89, 0xf8]),
    (0x1052, &[0x31, 0xd2]),
    (0x1054, &[0x39, 0xc8]),
    (0x1056, &[0x72, 3]),
    (0x1058, &[0xf7, 0xf6]),
    (0x105a, &[0xc3]),
    (0x105b, &[0x31, 0xc0]),
    (0x105d, &[0xf7, 0xf6]),
    (0x105f, &[0xc3]),
    // twice: cmp edi,4; jne +2; add eax,edi; ret
    (0x1060, &[0x83, 0xff, 4]),
    (0x1063, &[0x75, 2]),
    (0x1065, &[0x01, 0xf8]),
    (0x1067, &[0xc3]),
    // sum: lea ecx,[rdi+rsi]; cmp ecx,3; jne +2; add eax,ecx; ret
    (0x1070, &[0x8d, 0x0c, 0x37]),
    (0x1073, &[0x83, 0xf9, 3]),
    (0x1076, &[0x75, 2]),
    (0x1078, &[0x01, 0xc8]),
    (0x107a, &[0xc3]),
    // wide: mov rax,rdi; xor edx,edx; div rsi; ret
    (0x1080, &[0x48, 0x89, 0xf8]),
    (0x1083, &[0x31, 0xd2]),
    (0x1085, &[0x48, 0xf7, 0xf6]),
    (0x1088, &[0xc3]),
    // negative: mov eax,edi; cdq; idiv esi; ret
    (0x1090, &[0x89, 0xf8]),
    (0x1092, &[0x99]),
    (0x1093, &[0xf7, 0xfe]),
    (0x1095, &[0xc3]),
    // tested: test rdi,rdi; je +6; cmp rdi,9; jb +0; ret
    (0x10a0, &[0x48, 0x85, 0xff]),
    (0x10a3, &[0x74, 6]),
    (0x10a5, &[0x48, 0x83, 0xff, 9]),
    (0x10a9, &[0x72, 0]),
    (0x10ab, &[0xc3]),
];

/// An image of one executable segment.
fn image() -> Vec<u8> {
    let mut code = vec![0xcc; 0xc0];
    for (address, bytes) in CODE {
        let at = usize::try_from(address - 0x1000).expect("small");
        code[at..at + bytes.len()].copy_from_slice(bytes);
    }
    let size = code.len() as u64;
    let mut image = b"\x7fELF\x02\x01\x01".to_vec();
    image.resize(16, 0);
    for half in [3_u16, 62] {
        image.extend(half.to_le_bytes());
    }
    image.extend(1_u32.to_le_bytes());
    for word in [0x1000_u64, 64, 0] {
        image.extend(word.to_le_bytes());
    }
    image.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 1, 64, 0, 0] {
        image.extend(half.to_le_bytes());
    }
    for word in [1_u32, 5] {
        image.extend(word.to_le_bytes());
    }
    for word in [120, 0x1000, 0x1000, size, size, 1] {
        image.extend(word.to_le_bytes());
    }
    image.extend(code);
    image
}

/// The build ID of a file, as its note has it.
fn build_id(path: &str) -> Option<String> {
    const NOTE: &[u8] = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
    let file = std::fs::read(path).expect("image is read");
    let at = file.windows(NOTE.len()).position(|part| part == NOTE)?;
    let id = file[at + NOTE.len()..].iter().take(20);
    Some(id.map(|byte| format!("{byte:02x}")).collect())
}

struct Rows<'w> {
    flush: Flush<'w>,
    image: ImageRowId,
    process: ProcessRowId,
    subject: SubjectRowId,
    /// Whether what instructions read was recorded, of a loop that divides.
    operands: bool,
}

impl<'w> Rows<'w> {
    fn new(mut flush: Flush<'w>, path: &Path, operands: bool) -> Rows<'w> {
        let path = path.to_str().expect("is UTF-8").to_owned();
        let image = Image {
            kind: ImageKind::File,
            identity: path.clone(),
            build_id: build_id(&path),
            path,
        };
        let process = Process {
            pid: 100,
            started: 7,
            execs: 0,
            comm: "prog".into(),
        };
        Rows {
            image: flush.image(&image).expect("image"),
            process: flush.process(&process).expect("process"),
            subject: flush.subject(&Subject::default()).expect("subject"),
            flush,
            operands,
        }
    }

    fn pc(&mut self, address: u64) -> PcRowId {
        let bytes = CODE.iter().find(|(of, _)| *of == address);
        let bytes = bytes.map(|(_, bytes)| *bytes);
        self.flush.pc(self.image, address, bytes).expect("pc")
    }

    fn cycles(&mut self, address: u64, samples: u64) {
        let pc = self.pc(address);
        self.flush
            .cycles(
                self.process,
                self.subject,
                pc,
                None,
                samples,
                samples * 1000,
            )
            .expect("cycles");
    }

    fn values(&mut self, address: u64, parameter: &str, value: u64, [times, others]: [u64; 2]) {
        let pc = self.pc(address);
        let mut list = hotlist::Hotlist::new(&hotlist::Config::default());
        let mut coins = hotlist::Generator::new(1);
        for time in 0..times + others {
            let value = if time < times { value } else { 1000 + time % 3 };
            list.update(value, time, &mut coins);
        }
        self.flush
            .hotlist(NewHotlist {
                process: self.process,
                subject: self.subject,
                pc,
                caller: None,
                parameter,
                reached: (times + others) as f64,
                unknown: 0.0,
                windows: times + others,
                even: None,
                list: hotlist::Estimates::from(&list),
            })
            .expect("hotlist");
    }

    /// Of the time a half is behind the division, whose divisor is 7 in 95 of 100 calls. The
    /// argument of `cold` is always 4, and that function takes nearly no time.
    fn write(mut self) {
        for (address, size, name) in [
            (0x1000, 9, "rest"),
            (0x1010, 8, "cold"),
            (0x1020, 14, "scan"),
            (0x1030, 8, "main"),
            (0x1040, 12, "steps"),
            (0x1050, 16, "paths"),
            (0x1060, 8, "twice"),
            (0x1070, 11, "sum"),
        ] {
            self.flush
                .symbol(self.image, address, size, name)
                .expect("symbol");
        }
        for (address, samples) in [
            (0x1000, 100),
            (0x1004, 20),
            (0x1006, 480),
            (0x1010, 1),
            (0x1020, 200),
            (0x1022, 40),
            (0x1026, 30),
            (0x1037, 129),
        ] {
            self.cycles(address, samples);
        }
        if self.operands {
            // No window saw the load in front of the loop.
            self.cycles(0x1045, 10);
            self.cycles(0x1047, 390);
            self.values(0x1045, "op0", 2, [300, 0]);
            self.values(0x1047, "op0", 2, [200, 100]);
            // Of two divisions the divisor of the one is known that few calls come to.
            self.cycles(0x105a, 400);
            self.cycles(0x105f, 60);
            self.values(0x105d, "op0", 9, [100, 0]);
            // An argument is seen where the function begins, and where it is read.
            self.cycles(0x1063, 100);
            self.values(0x1060, "arg0", 4, [200, 0]);
            self.values(0x1060, "op0", 4, [200, 0]);
            // A load has strides, and may be redundant.
            self.values(0x1020, "stride", 320, [300, 0]);
            self.values(0x1020, "reload", 1, [190, 10]);
            // What is computed is no load.
            self.cycles(0x1076, 90);
            self.values(0x1073, "op0", 3, [200, 0]);
        }
        self.values(0x1000, "arg0", 3, [20, 180]);
        self.values(0x1000, "arg1", 7, [190, 10]);
        self.values(0x1010, "arg0", 4, [200, 0]);
        self.values(0x1020, "ecx", 1, [180, 20]);
        // What differs from run to run is no case for the source.
        self.values(0x1020, "arg0", 0x7ffc_0000_1000, [200, 0]);
        let (site, callee) = (self.pc(0x1035), self.pc(0x1020));
        self.flush
            .call(self.process, self.subject, site, Some(callee), 100)
            .expect("call");
        self.flush.commit().expect("commits");
    }
}

/// A folder with the image and its profile.
fn fixture() -> tempfile::TempDir {
    fixture_with(false)
}

/// That, with what instructions read.
fn fixture_with(operands: bool) -> tempfile::TempDir {
    fixture_of("prog", operands)
}

/// That, of an image with this name.
fn fixture_of(name: &str, operands: bool) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join(name);
    std::fs::write(&path, image()).expect("image is written");
    write(dir.path(), &path, operands, |rows: Rows<'_>| rows.write());
    dir
}

/// Writes the profile of an image into a folder.
fn write(dir: &Path, path: &Path, operands: bool, rows: impl FnOnce(Rows<'_>)) {
    let mut writer = Writer::create_epoch(&dir.join("vcpi.db"), &epoch()).expect("creates");
    let flush = writer.begin(0, 1_000_000_000).expect("begins");
    rows(Rows::new(flush, path, operands));
    writer.end_epoch(1_000_000_000).expect("ends");
    writer.close().expect("closes");
}

fn epoch() -> Epoch {
    Epoch {
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
        window: 16,
        settings: profiledb::EpochSettings::default(),
    }
}

fn run(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vcpi"))
        .args(args)
        .current_dir(dir)
        .output()
        .expect("vcpi runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn hints(args: &[&str]) -> Vec<Value> {
    let dir = fixture();
    let output = run(dir.path(), &[&["hints", "--format", "json"], args].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("reports are JSON")
}

/// The divisor that is nearly always 7 comes first, with the time behind the division as what it
/// decides; what is always the same where no time goes is not listed, and no address is.
#[test]
fn divisor_comes_first() {
    let hints = hints(&[]);
    let first = hints.first().expect("there are hints");
    for (name, expected) in [
        ("kind", "modulus"),
        ("function", "rest"),
        ("parameter", "arg1"),
        ("value", "7"),
        ("address", "0x1000"),
    ] {
        assert_eq!(first[name], expected, "{first}");
    }
    assert_eq!(first["divisions"], serde_json::json!(["0x1004"]));
    assert!((first["share"].as_f64().expect("a share") - 95.0).abs() < 0.1);
    // 95 % of a tenth of the 500 samples at the division and behind it, of 1000.
    let predicted = first["predicted_percent"].as_f64().expect("a number");
    assert!((predicted - 4.75).abs() < 0.1, "{first}");
    assert!(first["predicted_low"].as_f64() < Some(predicted));
    assert!(first["predicted_high"].as_f64() > Some(predicted));
    assert_eq!(
        first["patch"][0],
        "__builtin_expect(... == 7, 1) ? ... % 7 : ... % ..."
    );
    assert_eq!(first["patch_is"], "pattern");
    assert!(
        hints.iter().all(|hint| hint["function"] != "cold"),
        "{hints:?}"
    );
    let address = |hint: &Value| {
        hint["value"]
            .as_str()
            .is_some_and(|value| value.contains("7ffc"))
    };
    assert!(!hints.iter().any(address));
}

/// A load that brings one value nine times in ten decides the tests and branches behind it, and not
/// itself. The first test waits for the load, so its time does not count.
#[test]
fn loads_and_targets() {
    let hints = hints(&[]);
    let of = |kind: &str| hints.iter().find(|hint| hint["kind"] == kind);
    let load = of("semi_invariant_load").expect("it is listed");
    assert_eq!(
        load["constant"],
        serde_json::json!(["0x1022", "0x1024", "0x1026", "0x1029"])
    );
    assert_eq!(
        (&load["parameter"], &load["value"]),
        (&"ecx".into(), &"1".into())
    );
    let predicted = load["predicted_percent"].as_f64().expect("a number");
    assert!((predicted - 2.7).abs() < 0.1, "{load}");
    assert!(of("indirect_target").is_none(), "no time is at that call");
}

/// A divisor that a loop keeps in a register is found where the loop reads it, and named by what
/// was there to be read; the loop's counter is none. Without such values the report says how to
/// record them.
#[test]
fn what_a_loop_reads() {
    let dir = fixture_with(true);
    let output = run(dir.path(), &["hints", "--format", "json"]);
    let hints: Vec<Value> = serde_json::from_slice(&output.stdout).expect("reports are JSON");
    let of: Vec<&Value> = hints
        .iter()
        .filter(|hint| hint["function"] == "steps")
        .collect();
    let [hint] = of.as_slice() else {
        panic!("one hint: {hints:?}");
    };
    assert_eq!(
        (&hint["kind"], &hint["parameter"], &hint["value"]),
        (&"divisor".into(), &"ebx".into(), &"2".into())
    );
    assert_eq!(hint["divisions"], serde_json::json!(["0x1045"]));
    assert_eq!(hint["constant"], serde_json::json!([]));
    let advice = "--capture dest,operands";
    assert!(!text(&run(dir.path(), &["hints"]).stdout).contains(advice));
    let without = run(fixture().path(), &["hints"]);
    assert!(text(&without.stdout).contains(advice));
}

/// The hints of a function where operands were recorded.
fn hints_of(function: &str) -> Vec<Value> {
    let dir = fixture_with(true);
    let output = run(dir.path(), &["hints", function, "--format", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("reports are JSON")
}

/// What a read behind a branch saw is told of what that branch leads to: of its division, and the
/// time of that, and not of another one that divides by the same register.
#[test]
fn what_a_branch_leads_to() {
    let hints = hints_of("paths");
    let [hint] = hints.as_slice() else {
        panic!("one hint: {hints:?}");
    };
    assert_eq!(
        (&hint["kind"], &hint["address"], &hint["value"]),
        (&"divisor".into(), &"0x105d".into(), &"9".into())
    );
    assert_eq!(hint["divisions"], serde_json::json!(["0x105d"]));
    assert_eq!(hint["folded_samples"], 60);
    let [under, predicted] = ["cycles_percent", "predicted_percent"].map(|of| hint[of].as_f64());
    assert!(under < Some(4.0) && predicted < Some(1.5), "{hint}");
}

/// A value that is seen where a function begins and where it is read is one hint, of an argument;
/// what is computed is held by a register, and no load.
#[test]
fn what_is_no_load() {
    let hints = hints_of("twice");
    let [hint] = hints.as_slice() else {
        panic!("one hint: {hints:?}");
    };
    assert_eq!(hint["kind"], "constant_argument");
    let hints = hints_of("sum");
    let kinds: Vec<&Value> = hints.iter().map(|hint| &hint["kind"]).collect();
    assert_eq!(kinds, ["semi_invariant_register"]);
}

/// Nobody changes the code of a library without lines: its values are no hints.
#[test]
fn libraries_without_lines() {
    let dir = fixture_of("libprog.so.1", true);
    let output = run(dir.path(), &["hints", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
}

/// What a prefetch saves is not predicted, and comes last; a redundant load saves its own time at
/// most, and not that of what waits for it.
#[test]
fn strides_and_redundant_loads() {
    let hints = hints_of("scan");
    let of = |kind: &str| hints.iter().position(|hint| hint["kind"] == kind);
    let prefetch = of("strided_prefetch").expect("it is listed");
    assert_eq!(prefetch, hints.len() - 1);
    let prefetch = &hints[prefetch];
    assert_eq!(
        (&prefetch["value"], &prefetch["folded_samples"]),
        (&"+320".into(), &240.into())
    );
    assert!(prefetch["predicted_percent"].is_null(), "{prefetch}");
    let redundant = &hints[of("redundant_load").expect("it is listed")];
    assert_eq!(redundant["folded_samples"], 200);
    let folded = redundant["folded_percent"].as_f64();
    let predicted = redundant["predicted_percent"].as_f64();
    assert!(predicted < folded && predicted.is_some(), "{redundant}");
}

/// Hints say that they are predictions, and no word of theirs claims a saving that was measured.
#[test]
fn predictions_are_called_so() {
    let dir = fixture();
    let output = run(dir.path(), &["hints", "-n", "1"]);
    let out = text(&output.stdout);
    assert!(
        out.contains("4.75% predicted") && out.contains("modulus"),
        "{out}"
    );
    assert!(
        !out.contains("saves") && !out.contains("measured: B"),
        "{out}"
    );
    assert!(text(&output.stderr).contains("left out (--lines)"));
    let none = run(dir.path(), &["hints", "--saving", "60"]);
    assert_eq!(none.status.code(), Some(1));
}

/// Each share says in the text what it is of.
#[test]
fn shares_name_their_base() {
    let dir = fixture();
    for args in [&["hints"][..], &["hints", "--explain"]] {
        let out = text(&run(dir.path(), args).stdout);
        assert!(
            out.contains("of 200 known values by time, at 0x1000"),
            "{out}"
        );
    }
}

#[path = "hints/divisions.rs"]
mod divisions;
