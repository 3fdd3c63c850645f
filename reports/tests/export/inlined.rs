//! Source lines and inlined functions, of an image with debug information.

use std::path::PathBuf;

use profiledb::{Image, ImageKind, Process, StackEnd, Subject, Writer};

use crate::common::{Fixture, epoch};
use crate::{export, exported, json, read_by};

/// The build id of the image.
const BUILD_ID: &str = "903a47543b09ee8b400230e9d293ed39e2d423e6";

/// Interrupts in a function that another one called, at an instruction of a function that is
/// inlined there; of some the callers are not known.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    std::fs::remove_file(fixture.database()).expect("is there");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/declared.so");
    let mut writer =
        Writer::create_epoch(&fixture.database(), &epoch(0, "declared", "bpf")).expect("creates");
    let mut flush = writer.begin(0, 1_000_000_000).expect("begins");
    let image = flush
        .image(&Image {
            kind: ImageKind::File,
            path: path.to_str().expect("is UTF-8").to_owned(),
            build_id: Some(BUILD_ID.to_owned()),
            identity: BUILD_ID.to_owned(),
        })
        .expect("image");
    let process = flush
        .process(&Process {
            pid: 7,
            started: 1,
            execs: 0,
            comm: "prog".into(),
        })
        .expect("process");
    let subject = flush.subject(&Subject::default()).expect("subject");
    let pc = flush.pc(image, 0x1026, None).expect("pc");
    let caller = flush.pc(image, 0x1096, None).expect("pc");
    flush
        .cycles(process, subject, pc, Some(caller), 100, 1_000)
        .expect("cycles");
    flush
        .cycles(process, subject, pc, None, 20, 200)
        .expect("cycles");
    flush
        .stack(process, subject, &[pc, caller], StackEnd::Whole, 100, 1_000)
        .expect("a stack");
    flush.commit().expect("commits");
    writer.end_epoch(1_000_000_000).expect("ends");
    writer.close().expect("closes");
    fixture
}

/// The inlined function is a frame of its own, with its file and line, in every form.
#[test]
fn frames() {
    let fixture = fixture();
    let folded = exported(&fixture, &["folded", "--weight", "samples"]);
    assert_eq!(
        String::from_utf8_lossy(&folded),
        "prog;[unknown callers];local;mix_[i] 20\nprog;through_stub;local;mix_[i] 100\n"
    );

    let file = export(&fixture, &["pprof"]);
    let raw = read_by("go", &["tool", "pprof", "-raw"], &file);
    assert!(
        raw.contains(&format!("{BUILD_ID} [FN][FL][LN][IN]")),
        "{raw}"
    );
    assert!(raw.contains("mix /fixture/declared.c:9"), "{raw}");
    assert!(raw.contains("local /fixture/declared.c:17"), "{raw}");
    let traces = read_by("go", &["tool", "pprof", "-traces"], &file);
    assert!(traces.contains("mix (inline)"), "{traces}");

    let speedscope = json(&fixture, &["speedscope"]);
    let frames = speedscope["shared"]["frames"].as_array().expect("frames");
    let mix = frames
        .iter()
        .find(|frame| frame["name"] == "mix")
        .expect("mix");
    assert_eq!(
        (&mix["line"], &mix["file"]),
        (&9.into(), &"/fixture/declared.c".into())
    );

    let firefox = json(&fixture, &["firefox"]);
    let table = &firefox["threads"][0]["frameTable"];
    assert_eq!(table["inlineDepth"], serde_json::json!([0, 0, 1, 0]));
    assert_eq!(table["line"], serde_json::json!([null, 17, 9, 19]));
    let code_id = &firefox["libs"][0]["codeId"];
    assert_eq!(code_id, BUILD_ID);

    let file = export(&fixture, &["callgrind"]);
    let annotated = read_by(
        "callgrind_annotate",
        &["--threshold=100", "--tree=both"],
        &file,
    );
    assert!(annotated.contains("/fixture/declared.c:mix"), "{annotated}");
    let text = std::fs::read_to_string(&file).expect("is text");
    assert!(text.contains("0x1026 9 1200 120\n"), "{text}");
    assert!(text.contains("0x1026 17 1200 120\n"), "{text}");
}
