//! Epochs, processes, and readers from whom counters are withheld.

mod common;

use std::process::Output;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Fixture, epoch};
use counters::Counter;
use profiledb::view::{Limits, Viewer, write_view};
use profiledb::{Image, ImageKind, Process, Subject, Writer};
use protocol::Selection;
use serde_json::Value;

/// Noon of 2026-05-02 UTC, a day after the fixture's epoch, in nanoseconds.
const NEXT_DAY: i64 = 1_777_723_200_000_000_000;

fn json(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("reports are JSON")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A writer of a second epoch in the fixture's database.
fn second_epoch(fixture: &Fixture) -> Writer {
    let epoch = epoch(NEXT_DAY, "another", "bpf");
    Writer::create_epoch(&fixture.database(), &epoch).expect("appends")
}

/// Interrupts in processes, all in one flush.
fn add(writer: &mut Writer, processes: &[Process]) {
    let second = 1_000_000_000;
    let mut flush = writer.begin(NEXT_DAY, NEXT_DAY + second).expect("begins");
    let image = flush.image(&Image {
        kind: ImageKind::Anon,
        path: "[anon]".into(),
        build_id: None,
        identity: "[anon]".into(),
    });
    let image = image.expect("image");
    let pc = flush.pc(image, 0x10, None).expect("pc");
    let subject = flush.subject(&Subject::default()).expect("subject");
    for process in processes {
        let process = flush.process(process).expect("process");
        let added = flush.cycles(process, subject, pc, None, 1, 100_000);
        added.expect("cycles");
    }
    let samples = u64::try_from(processes.len()).expect("few");
    flush.count(Counter::Samples, samples).expect("counter");
    flush.commit().expect("commits");
}

fn process(pid: u32, started: u64, execs: u32, comm: &str) -> Process {
    Process {
        pid,
        started,
        execs,
        comm: comm.into(),
    }
}

/// An epoch without an end is running for as long as its writer has the file open, and cut short
/// from then on; either shows how much was saved of it.
#[test]
fn running_and_cut_short() {
    let fixture = Fixture::new();
    let mut writer = second_epoch(&fixture);
    add(&mut writer, &[process(200, 1, 0, "late")]);
    let status = || json(&fixture.run(&["status", "--format", "json"]));
    let text = || fixture.report(&["status"]);
    let epochs = status()["epochs"].clone();
    let state = |epochs: &Value| {
        let of = |at: usize| epochs[at]["state"].as_str().map(str::to_owned);
        [of(0), of(1)]
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(state(&epochs), [some("ended"), some("running")]);
    assert_eq!((&epochs[0]["id"], &epochs[1]["id"]), (&1.into(), &2.into()));
    assert_eq!(epochs[0]["samples"], 992);
    assert_eq!(epochs[1]["samples"], 1);
    assert_eq!(epochs[1]["ended"], Value::Null);
    assert!(text().contains("still running"), "{}", text());

    drop(writer);
    let epochs = status()["epochs"].clone();
    assert_eq!(state(&epochs), [some("ended"), some("cut_short")]);
    assert_eq!(epochs[1]["saved"], "2026-05-02T12:00:01Z");
    let cut = "2026-05-02 12:00:01+00:00, cut short";
    assert!(text().contains(cut), "{}", text());

    // Nothing can run any more in front of a later epoch.
    drop(second_epoch(&fixture));
    let epochs = status()["epochs"].clone();
    assert_eq!(epochs[1]["state"], "cut_short");
}

/// An epoch that is not there is answered with those that are; one among others is named.
#[test]
fn epochs_that_are_not_there() {
    let fixture = Fixture::new();
    for report in ["top", "status", "list"] {
        let function = (report == "list").then_some("hot");
        let words: Vec<&str> = [report].into_iter().chain(function).collect();
        let output = fixture.run(&[&words[..], &["--epoch", "99"]].concat());
        assert_eq!(output.status.code(), Some(1));
        let said = errors(&output);
        assert!(said.contains("there is no epoch 99; there is"), "{said}");
        assert!(said.contains("2026-05-01 12:00:00+00:00"), "{said}");
        let both = fixture.run(&[&words[..], &["--epoch", "99", "--epoch", "1"]].concat());
        assert_eq!(both.status.code(), Some(0));
        let said = errors(&both);
        assert!(said.contains("nothing of epoch 99"), "{said}");
    }
    let before = fixture.run(&["top", "--until", "2020-01-01"]);
    assert_eq!(before.status.code(), Some(1));
    let said = errors(&before);
    assert!(
        said.contains("before 2020-01-01 00:00:00+00:00; there is"),
        "{said}"
    );
}

/// A process is one row over all its epochs, whatever its execs; a name that it had before is a
/// row of its own, and so is a process that got its id later. No key is there twice.
#[test]
fn processes_have_keys_of_their_own() {
    let fixture = Fixture::new();
    let mut writer = second_epoch(&fixture);
    add(
        &mut writer,
        &[
            process(100, 7, 1, "fixture"),
            process(100, 7, 2, "next"),
            process(300, 1_500_000_000, 0, "twice"),
            process(300, 2_500_000_000, 0, "twice"),
        ],
    );
    drop(writer);
    let rows = json(&fixture.run(&["top", "--by", "process", "--format", "json"]));
    let of = |row: &Value| {
        let key = row["key"].as_str().expect("a key").to_owned();
        (key, row["samples"].as_u64().expect("a count"))
    };
    let mut rows: Vec<_> = rows.as_array().expect("rows").iter().map(of).collect();
    rows.sort();
    let rows: Vec<_> = rows.iter().map(|(key, count)| (&**key, *count)).collect();
    assert_eq!(
        rows,
        [
            ("evil\u{1b}[2J[101]", 10),
            ("fixture[100]", 983),
            ("next[100]", 1),
            ("twice[300] (1 of 2 of this id)", 1),
            ("twice[300] (2 of 2 of this id)", 1),
        ]
    );
}

/// Where a collector kept no processes apart, the row of all is called so, and is no process.
#[test]
fn all_processes_together() {
    let fixture = Fixture::new();
    let mut writer = second_epoch(&fixture);
    add(&mut writer, &[process(0, 0, 0, "")]);
    drop(writer);
    let words = ["top", "--by", "process", "--epoch", "2"];
    let rows = json(&fixture.run(&[&words[..], &["--format", "json"]].concat()));
    assert_eq!(rows[0]["key"], "(all)");
    assert_eq!(rows[0].get("pid"), None);
    let text = fixture.report(&words);
    assert!(text.lines().any(|line| line.ends_with("  (all)")), "{text}");
}

/// Counters whose names do not say it are explained where they stand.
#[test]
fn counters_are_explained() {
    let fixture = Fixture::new();
    let mut writer = second_epoch(&fixture);
    let mut flush = writer.begin(NEXT_DAY, NEXT_DAY + 1).expect("begins");
    for (name, value) in [("windows_thinned", 40), ("windows_thinned_early", 2)] {
        flush.counter("run", name, value).expect("counter");
    }
    flush.commit().expect("commits");
    drop(writer);
    let text = fixture.report(&["status"]);
    for (name, meaning) in [
        ("windows_thinned ", "behind stalls do not weigh too much"),
        ("windows_thinned_early ", "more than should have been"),
    ] {
        let line = text.lines().find(|line| line.contains(name));
        assert!(line.is_some_and(|line| line.contains(meaning)), "{text}");
    }
}

/// What the service tells an ordinary user: the samples that are theirs; every counter of the
/// whole machine is not shown, which is something else than 0.
#[test]
fn counters_are_withheld() {
    let fixture = Fixture::new();
    let view = fixture.dir().join("view.db");
    std::fs::File::create(&view).expect("creates");
    let limits = Limits {
        bytes: 1 << 30,
        until: Instant::now() + Duration::from_secs(600),
        stop: Arc::default(),
    };
    let all = Selection::default();
    let sources = [fixture.database()];
    let left_out = write_view(&sources, &view, Viewer::User(1000), &all, &limits);
    assert_eq!(left_out.expect("writes").len(), 0);

    let output = fixture.run(&["-i", "view.db", "status", "--format", "json"]);
    let status = json(&output);
    assert!(errors(&output).contains("the samples are yours"));
    assert_eq!(status["samples"], 912);
    assert_eq!(status["epochs"][0]["samples"], 912);
    assert_eq!(status["engine"], "ring");
    for path in [
        "/windows",
        "/value_events",
        "/lost",
        "/stops",
        "/throttled",
        "/intervals/mean",
        "/intervals/distinct",
        "/coverage/destinations_known",
        "/coverage/loads_captured",
        "/coverage/user_samples_with_caller",
        "/overhead/cpu_percent",
        "/epochs/0/command",
    ] {
        assert_eq!(status.pointer(path), Some(&Value::Null), "{path}");
    }
    let text = fixture.report(&["-i", "view.db", "status"]);
    let of_counters = text.split_once("collected").expect("counters").1;
    assert_eq!(of_counters.matches("not shown").count(), 8, "{text}");
    assert!(!text.contains("none counted"), "{text}");
    let zero = |line: &str| line.split_whitespace().any(|word| word == "0");
    assert!(!of_counters.lines().any(zero), "{text}");

    // What ran as another is not there, or not theirs to see.
    let other = fixture.run(&["-i", "view.db", "top", "--user", "1001"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(errors(&other).contains("not yours to see"));
}
