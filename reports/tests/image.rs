//! Reports on code of the checked-in image: its names, lines, stubs and declared arguments.

use std::path::{Path, PathBuf};
use std::process::Command;

use hotlist::{Config, Estimates, Generator, Hotlist};
use profiledb::{
    Epoch, Flush, Image, ImageKind, ImageRowId, NewHotlist, PcRowId, Process, ProcessRowId,
    Subject, SubjectRowId, Writer,
};

/// Build id of the fixture.
const BUILD_ID: &str = "903a47543b09ee8b400230e9d293ed39e2d423e6";

/// Where two functions of the image of shared code are, and its build id.
const SHARED: u64 = 0x19b0;
const SHARED_ID: &str = "4fde4925e45b29cddb1973974dfc5961b4ef03c3";

/// What the first argument's register holds; the others hold the numbers behind it.
const VALUE: u64 = 0xabcd_ef01_2345_6700;

fn image_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/declared.so")
}

/// A report in JSON on a profile of the fixture, which claims to have this build id.
fn report(build_id: &str, args: &[&str]) -> (serde_json::Value, String) {
    report_of(&image_path(), build_id, write, args)
}

/// The same of any image, with these rows.
fn report_of(
    path: &Path,
    build_id: &str,
    write: impl Fn(&mut Flush<'_>, ImageRowId, ProcessRowId, SubjectRowId),
    args: &[&str],
) -> (serde_json::Value, String) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let database = dir.path().join("vcpi.db");
    let epoch = Epoch {
        started: 0,
        ended: None,
        host: "host".into(),
        kernel: "6.12.0".into(),
        command: "fixture".into(),
        engine: "ring".into(),
        clock: "cycles".into(),
        unit: "cycles".into(),
        cycles_per_unit: 1.0,
        period: 1,
        window: 16,
        settings: profiledb::EpochSettings::default(),
    };
    let mut writer = Writer::create_epoch(&database, &epoch).expect("creates");
    let mut flush = writer.begin(0, 1).expect("begins");
    let path = path.to_str().expect("is UTF-8").to_owned();
    let image = Image {
        kind: ImageKind::File,
        path,
        build_id: Some(build_id.to_owned()),
        identity: build_id.to_owned(),
    };
    let image = flush.image(&image).expect("image");
    let process = Process {
        pid: 1,
        started: 1,
        execs: 0,
        comm: "fixture".into(),
    };
    let process = flush.process(&process).expect("process");
    let subject = flush.subject(&Subject::default()).expect("subject");
    write(&mut flush, image, process, subject);
    flush.commit().expect("commits");
    writer.close().expect("closes");
    let output = Command::new(env!("CARGO_BIN_EXE_vcpi"))
        .args(args)
        .args(["--format", "json"])
        .current_dir(dir.path())
        .output()
        .expect("vcpi runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (
        serde_json::from_slice(&output.stdout).expect(&errors),
        errors,
    )
}

/// Functions that share their code are found by each of their names, which a note tells from the
/// one that is shown, and have no parameters in common.
#[test]
fn functions_of_one_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/passed");
    let write = |flush: &mut Flush<'_>, image, process, subject| {
        let pc = flush.pc(image, SHARED, None).expect("pc");
        let cycles = flush.cycles(process, subject, pc, None, 1, 100);
        cycles.expect("cycles");
        let list = list(process, subject, pc, None, "arg0", VALUE);
        flush.hotlist(list).expect("hotlist");
    };
    let of = |name| report_of(&folder.join("passed.so"), SHARED_ID, write, &["args", name]);
    let (rows, said) = of("linked_user");
    let (others, said_of_other) = of("linked_packet");
    assert_eq!(rows, others);
    let shown = rows[0]["function"].as_str().expect("a function");
    assert_eq!(rows[0]["args"][0]["name"], serde_json::Value::Null);
    let told = |said: &str| said.contains(&format!("in common with {shown}"));
    assert_eq!(told(&said), shown != "linked_user", "{said}");
    assert_eq!(
        told(&said_of_other),
        shown != "linked_packet",
        "{said_of_other}"
    );
}

/// Calls of `declared` and of the stub, with all six registers as a collector sees them, one of
/// them also of windows that began in the stub, and returns from `local` and `nothing`, in windows
/// and at breakpoints.
fn write(flush: &mut Flush<'_>, image: ImageRowId, process: ProcessRowId, subject: SubjectRowId) {
    let site = flush.pc(image, 0x10a1, None).expect("pc");
    for entry in [0x1040, 0x1010, 0x1020] {
        let pc = flush.pc(image, entry, None).expect("pc");
        flush
            .cycles(process, subject, pc, Some(site), 1, 100)
            .expect("cycles");
        flush
            .call(process, subject, site, Some(pc), 20)
            .expect("call");
        for index in 0..6_u64 {
            let parameter = format!("arg{index}");
            let list = list(process, subject, pc, Some(site), &parameter, VALUE + index);
            flush.hotlist(list).expect("hotlist");
        }
    }
    let declared = flush.pc(image, 0x1040, None).expect("pc");
    let stub = flush.pc(image, 0x1010, None).expect("pc");
    let through = list(process, subject, declared, Some(stub), "arg1", VALUE + 1);
    flush.hotlist(through).expect("hotlist");
    for (address, parameter) in [
        (0x1035, "ret"),
        (0x10c1, "ret"),
        (0x10c1, "vret"),
        (0x1020, "entry.result"),
        (0x10b0, "entry.result"),
        (0x10b0, "entry.arg0"),
    ] {
        let pc = flush.pc(image, address, None).expect("pc");
        let list = list(process, subject, pc, None, parameter, 7);
        flush.hotlist(list).expect("hotlist");
    }
}

/// A parameter that was the same value twenty times.
fn list(
    process: ProcessRowId,
    subject: SubjectRowId,
    pc: PcRowId,
    caller: Option<PcRowId>,
    parameter: &str,
    value: u64,
) -> NewHotlist<'_> {
    let mut list = Hotlist::new(&Config::default());
    let mut coins = Generator::new(1);
    for time in 0..20 {
        list.update(value, time, &mut coins);
    }
    NewHotlist {
        process,
        subject,
        pc,
        caller,
        parameter,
        reached: 20.0,
        unknown: 0.0,
        windows: 20,
        even: None,
        list: Estimates::from(&list),
    }
}

/// Index, width and first value of each argument in a row of `args`.
fn arguments(row: &serde_json::Value) -> Vec<(u64, u64, String)> {
    let arguments = row["args"].as_array().expect("a list");
    let argument = |one: &serde_json::Value| {
        let value = one["values"][0]["value"]
            .as_str()
            .expect("a value")
            .to_owned();
        (
            one["arg"].as_u64().expect("an index"),
            one["bits"].as_u64().expect("a width"),
            value,
        )
    };
    arguments.iter().map(argument).collect()
}

/// Declared arguments are shown in their declared widths.
#[test]
fn declared_arguments() {
    let (rows, _) = report(BUILD_ID, &["args", "declared"]);
    assert_eq!(
        rows.as_array().map(Vec::len),
        Some(2),
        "all sites, and the one"
    );
    assert_eq!(rows[0]["caller"], serde_json::Value::Null);
    assert_eq!(rows[1]["caller"], "through_stub");
    assert_eq!(rows[1]["call_site"], "0x10a1");
    let wanted = [
        (0, 32, "0x23456700"),
        (1, 64, "0xabcdef0123456701"),
        (2, 8, "0x2"),
        (3, 32, "0x23456703"),
        (4, 8, "0x4"),
        (5, 16, "0x6705"),
    ];
    let wanted = wanted.map(|(index, bits, value)| (index, bits, value.to_owned()));
    assert_eq!(arguments(&rows[0]), wanted);
}

/// A stub is nobody's caller: what was seen of windows that began in one counts in the sum over all
/// sites, and at none.
#[test]
fn stubs_are_no_callers() {
    let (rows, _) = report(BUILD_ID, &["args", "declared"]);
    let of = |row: &serde_json::Value| (row["call_site"].clone(), row["calls"].clone());
    let rows: Vec<_> = rows.as_array().expect("rows").iter().map(of).collect();
    let null = serde_json::Value::Null;
    assert_eq!(rows, [(null, 40.into()), ("0x10a1".into(), 20.into())]);
    let (rows, _) = report(BUILD_ID, &["list", "declared", "--by-caller"]);
    let profiles = rows[0]["profiles"].as_array().expect("profiles");
    let callers: Vec<&str> = profiles
        .iter()
        .filter(|profile| profile["parameter"] == "arg1")
        .map(|profile| profile["caller"]["function"].as_str().unwrap_or("unknown"))
        .collect();
    assert_eq!(callers, ["unknown", "through_stub"]);
}

/// What only its own file calls has the arguments that its code reads.
#[test]
fn local_arguments() {
    let (rows, _) = report(BUILD_ID, &["args", "local"]);
    let found: Vec<(u64, u64)> = arguments(&rows[0])
        .into_iter()
        .map(|(index, bits, _)| (index, bits))
        .collect();
    assert_eq!(found, [(0, 32), (1, 64)]);
}

/// A stub goes by the name of its target; of a target that is nowhere, all six are shown.
#[test]
fn stub_arguments() {
    let (rows, _) = report(BUILD_ID, &["args", "imported"]);
    assert_eq!(rows[0]["function"], "imported");
    assert_eq!(rows[0]["image"], serde_json::Value::Null);
    assert_eq!(arguments(&rows[0]).len(), 6);
    let (top, _) = report(BUILD_ID, &["top", "--function", "imported@plt"]);
    assert_eq!(top[0]["key"], "imported@plt");
}

/// A listing has source lines, inlined names and the targets of calls.
#[test]
fn lines_and_inlining() {
    let (rows, _) = report(BUILD_ID, &["list", "local"]);
    let rows = rows.as_array().expect("instructions");
    assert_eq!(rows.len(), 7, "from entry to return");
    assert_eq!(rows[0]["build_id"], BUILD_ID);
    assert_eq!(rows[2]["text"], "shl rax,5");
    assert_eq!(rows[2]["offset"], 6);
    assert_eq!(rows[2]["inlined"], serde_json::json!(["mix"]));
    assert_eq!(rows[2]["source"], "/fixture/declared.c:9");
    let (rows, _) = report(BUILD_ID, &["list", "through_stub"]);
    let texts: Vec<&str> = rows
        .as_array()
        .expect("rows")
        .iter()
        .filter_map(|row| row["text"].as_str())
        .collect();
    assert!(texts.contains(&"call 0x1010 <imported@plt>"), "{texts:?}");
    assert!(texts.contains(&"call 0x1020 <local>"), "{texts:?}");
}

/// What a function without a result leaves in the registers is not listed as one.
#[test]
fn no_result() {
    let parameters = |function| -> Vec<String> {
        let (rows, _) = report(BUILD_ID, &["list", function]);
        let rows = rows.as_array().expect("instructions").clone();
        let profiles = rows.iter().flat_map(|row| row["profiles"].as_array());
        let names = profiles.flatten().map(|one| one["parameter"].to_string());
        names.filter(|name| name.contains("ret")).collect()
    };
    assert_eq!(parameters("local"), ["\"ret\""]);
    assert_eq!(parameters("nothing"), [""; 0]);
    let result = |function| report(BUILD_ID, &["args", function]).0[0]["result"].clone();
    assert_eq!(result("local")["values"][0]["value"], "0x7");
    assert_eq!(result("nothing"), serde_json::Value::Null);
}

/// Another build of the image names nothing, and its code is not looked at.
#[test]
fn other_build() {
    let (rows, errors) = report("00", &["top"]);
    assert!(errors.contains("another build"), "{errors}");
    let rows = rows.as_array().expect("rows");
    assert!(
        rows.iter().all(|row| row["key"] == "[declared.so]"),
        "{rows:?}"
    );
    let (rows, _) = report("00", &["args"]);
    assert_eq!(
        arguments(&rows[0]).len(),
        6,
        "nothing is known of the callee"
    );
}
