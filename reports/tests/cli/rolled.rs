//! What is past in a service's directory has been rolled up: what is said of what is not told apart
//! any more.

use std::path::PathBuf;

use counters::Counter;
use profiledb::rollup::{Limits, RollUpStep, RollUps};
use profiledb::{Directory, Image, ImageKind, Process, Subject, Writer};
use serde_json::Value;

use crate::common::{Fixture, epoch};
use crate::{code, errors, json};

/// In nanoseconds.
const MINUTE: i64 = 60_000_000_000;
const DAY: i64 = 1_440 * MINUTE;
/// Monday, 2026-11-02, midnight UTC.
const BEGIN: i64 = 1_793_577_600_000_000_000;
/// The machine was booted so long before.
const UP: u64 = 1_000_000_000_000_000;

const HOURS: Limits = Limits {
    hour: 1 << 30,
    day: 0,
    week: 0,
};
const NONE: Limits = Limits {
    hour: 0,
    day: 0,
    week: 0,
};
const WEEKS: Limits = Limits {
    hour: 1 << 30,
    day: 1 << 30,
    week: 1 << 30,
};

/// Two epochs of a service, the second a day after the first, each with four flushes in an hour: of
/// a process that stays, and of one for each flush that ends soon. They are rolled up.
fn service(fixture: &Fixture, limits: &Limits) -> PathBuf {
    let folder = fixture.dir().join("service");
    std::fs::create_dir(&folder).expect("creates");
    let directory = Directory::new(&folder).expect("a folder");
    for day in 0..2 {
        let started = BEGIN + day * DAY;
        let (path, sequence) = directory.next(started).expect("lists");
        let epoch = epoch(started, "service", "bpf");
        let writer = Writer::create_epoch_as(&path, &epoch, Some(sequence));
        let mut writer = writer.expect("creates");
        for minute in [10, 20, 30, 40] {
            flush(&mut writer, day * DAY + minute * MINUTE);
        }
        writer.end_epoch(started + 50 * MINUTE).expect("ends");
        writer.close().expect("closes");
    }
    let mut rollups = RollUps::new(directory);
    let mut step = || rollups.step(BEGIN + 100 * DAY, None, limits);
    while step().expect("rolls up") != RollUpStep::Idle {}
    folder
}

/// A flush of a minute that begins so long after the first epoch.
fn flush(writer: &mut Writer, since: i64) {
    let began = BEGIN + since;
    let mut flush = writer.begin(began, began + MINUTE).expect("begins");
    let image = flush.image(&Image {
        kind: ImageKind::Anon,
        path: "[anon]".into(),
        build_id: None,
        identity: "[anon]".into(),
    });
    let image = image.expect("image");
    let pc = flush.pc(image, 0x10, None).expect("pc");
    let subject = flush.subject(&Subject::default()).expect("subject");
    let soon = UP + since.unsigned_abs() + 30_000_000_000;
    let number = u32::try_from(since / MINUTE).expect("small");
    for (pid, started, comm) in [(10, 5_000, "server"), (100 + number, soon, "cc1")] {
        let process = flush.process(&Process {
            pid,
            started,
            execs: 0,
            comm: comm.into(),
        });
        let process = process.expect("process");
        let added = flush.cycles(process, subject, pc, None, 20, 2_000_000);
        added.expect("cycles");
    }
    flush.count(Counter::Samples, 40).expect("counter");
    flush.commit().expect("commits");
}

/// A time within an hour that was rolled up takes nothing of it, or all: what to ask for is said,
/// and gives it.
#[test]
fn times() {
    let fixture = Fixture::new();
    service(&fixture, &HOURS);
    let words = ["-i", "service", "top"];
    let asked = |option: &[&str]| fixture.run(&[&words[..], option].concat());
    let within = asked(&["--until", "2026-11-02 00:20:30Z"]);
    let said = errors(&within);
    assert_eq!(code(&within), 1, "{said}");
    let until = "2026-11-02 00:41:00+00:00";
    for words in [
        "nothing counts before 2026-11-02 00:20:30+00:00; what was collected",
        "from 2026-11-02 00:10:00+00:00 to 2026-11-02 00:41:00+00:00 was rolled up",
        &format!("--until '{until}' takes all of it"),
    ] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(code(&asked(&["--until", until])), 0);
    let within = asked(&[
        "--since",
        "2026-11-03 00:15Z",
        "--until",
        "2026-11-03 00:25Z",
    ]);
    let said = errors(&within);
    assert_eq!(code(&within), 1, "{said}");
    assert!(
        said.contains("--until '2026-11-03 00:41:00+00:00'"),
        "{said}"
    );
    // Where nothing was saved, that is said.
    let before = asked(&["--until", "2026-11-01"]);
    assert!(
        errors(&before).contains("; there is"),
        "{}",
        errors(&before)
    );
}

/// An epoch that was rolled up into another is not told apart: which one it is in is said.
#[test]
fn epochs() {
    let fixture = Fixture::new();
    service(&fixture, &WEEKS);
    let words = ["-i", "service", "top"];
    let asked = |option: &[&str]| fixture.run(&[&words[..], option].concat());
    let sentence = "vcpi: epoch 1 was rolled up with others into epoch 2, and is not told apart";
    for (option, status) in [
        (&["--epoch", "1"][..], 1),
        (&["--epoch", "1", "--epoch", "2"], 0),
    ] {
        let output = asked(option);
        assert_eq!(code(&output), status, "{}", errors(&output));
        assert!(errors(&output).contains(sentence), "{}", errors(&output));
    }
    let absent = asked(&["--epoch", "7"]);
    assert!(errors(&absent).contains("there is no epoch 7; there is"));
}

/// A process that lived for seconds is not told apart after its hour: it is not said that it was
/// not collected.
#[test]
fn processes() {
    let fixture = Fixture::new();
    let pid = ["top", "--pid", "110"];
    for limits in [&NONE, &HOURS] {
        let folder = service(&fixture, limits);
        let is_rolled_up = limits.hour > 0;
        let output = fixture.run(&[&["-i", "service"], &pid[..]].concat());
        let said = errors(&output);
        assert_eq!(code(&output), i32::from(is_rolled_up), "{said}");
        let sentence = "nothing that ran in process 110 is told apart; processes that lived for";
        assert_eq!(said.contains(sentence), is_rolled_up, "{said}");
        std::fs::remove_dir_all(folder).expect("removes");
    }
    let said = errors(&fixture.run(&pid));
    assert!(said.contains("process 110 was collected"), "{said}");
}

/// The row of all short-lived processes of a command has no id and no begin, for programs: none of
/// them has those of a row.
#[test]
fn folded_rows_have_no_id() {
    let fixture = Fixture::new();
    service(&fixture, &HOURS);
    let rows = json(&fixture, &["-i", "service", "top", "--by", "process"]);
    let of = |key: &str| {
        let rows = rows.as_array().expect("rows");
        let row = rows.iter().find(|row| row["key"] == key).expect("a row");
        [row.get("pid").cloned(), row.get("started").cloned()]
    };
    assert_eq!(of("server[10]"), [Some(10.into()), Some(5_000.into())]);
    assert_eq!(
        of("cc1 (short-lived)"),
        [Some(Value::Null), Some(Value::Null)]
    );
}
