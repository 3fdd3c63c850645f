//! What is read: files, folders, sockets, and what is damaged among them.

use std::process::Command;

use crate::common::{Fixture, Rows, epoch};
use crate::{code, errors, json, samples};

/// Noon of 2026-05-02 UTC, a day after the fixture's epoch, in nanoseconds.
const NEXT_DAY: i64 = 1_777_723_200_000_000_000;

/// A report goes to stdout with 0, and the source that was read is named on stderr.
#[test]
fn source_is_named() {
    let fixture = Fixture::new();
    let output = fixture.run(&["top"]);
    assert_eq!(code(&output), 0);
    assert!(errors(&output).contains("reading ./vcpi.db (1 epoch: fixture --loop)"));
    assert!(
        errors(&output).contains("/nowhere/libgone.so"),
        "missing names are explained"
    );
}

/// Inputs that cannot be read exit with 3, and no input is explained.
#[test]
fn unreadable_inputs() {
    let fixture = Fixture::new();
    let foreign = fixture.dir().join("foreign.db");
    std::fs::write(&foreign, "no database at all").expect("writes");
    for input in ["missing.db", "foreign.db", "fixture", "/dev/null"] {
        let output = fixture.run(&["-i", input, "top"]);
        let said = errors(&output);
        assert_eq!(code(&output), 3, "{input}: {said}");
        assert!(output.stdout.is_empty(), "{input}");
        assert!(said.contains("vcpid record"), "{input}: {said}");
    }
    // Of a database that is cut short it is said that it is a bad copy.
    let whole = std::fs::read(fixture.database()).expect("reads");
    for bytes in [whole.len() / 2, 8192] {
        std::fs::write(fixture.dir().join("cut.db"), &whole[..bytes]).expect("writes");
        let output = fixture.run(&["-i", "cut.db", "top"]);
        let said = errors(&output);
        assert_eq!(code(&output), 3, "{bytes}: {said}");
        assert!(said.contains("copy it again"), "{bytes}: {said}");
    }
    let empty = tempfile::tempdir().expect("a temporary directory");
    let output = Command::new(env!("CARGO_BIN_EXE_vcpi"))
        .arg("top")
        .current_dir(empty.path())
        .output()
        .expect("vcpi runs");
    assert_eq!(code(&output), 3);
    let said = errors(&output);
    for words in [
        "./vcpi.db",
        "/run/vcpi/vcpid.sock",
        "vcpid record",
        "systemctl start vcpid",
        "-i",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

/// A directory is all databases in it; a file named twice counts once, and so does an epoch that is
/// in two of its files, which is said.
#[test]
fn directories_are_inputs() {
    let fixture = Fixture::new();
    let once = samples(&json(&fixture, &["top"]));
    assert_eq!(samples(&json(&fixture, &["-i", ".", "top"])), once);
    assert_eq!(
        samples(&json(&fixture, &["-i", "vcpi.db", "-i", "vcpi.db", "top"])),
        once
    );
    std::fs::copy(fixture.database(), fixture.dir().join("copy.db")).expect("copies");
    assert_eq!(samples(&json(&fixture, &["-i", ".", "top"])), once);
    let said = errors(&fixture.run(&["-i", ".", "top"]));
    for words in [
        "epoch 1 is in ",
        "vcpi.db and in ",
        "copy.db: it is read once",
    ] {
        assert!(said.contains(words), "{said}");
    }
    // What the original went on with is not left out for its copy, nor what is another epoch.
    let more = epoch(NEXT_DAY, "another", "bpf");
    let mut writer = profiledb::Writer::create_epoch(&fixture.database(), &more).expect("appends");
    {
        let flush = writer.begin(NEXT_DAY, NEXT_DAY + 1).expect("begins");
        let mut rows = Rows::new(flush, &fixture.image());
        rows.cycles(0x1020, None, 7);
        rows.flush.commit().expect("commits");
    }
    writer.close().expect("closes");
    assert_eq!(samples(&json(&fixture, &["-i", ".", "top"])), once + 7);
    let both = ["-i", "vcpi.db", "-i", "copy.db", "top", "--epoch", "1"];
    assert_eq!(samples(&json(&fixture, &both)), 2 * once);
}

/// A damaged database in a directory is named and left out; by its own name it is an error, and
/// so is a directory with nothing else in it.
#[test]
fn damaged_among_others() {
    let fixture = Fixture::new();
    let once = samples(&json(&fixture, &["top"]));
    std::fs::write(fixture.dir().join("damaged.db"), [7; 5000]).expect("writes");
    let output = fixture.run(&["-i", ".", "top"]);
    assert_eq!(code(&output), 0, "{}", errors(&output));
    assert!(
        errors(&output).contains("left out: "),
        "{}",
        errors(&output)
    );
    assert!(
        errors(&output).contains("damaged.db"),
        "{}",
        errors(&output)
    );
    assert_eq!(samples(&json(&fixture, &["-i", ".", "top"])), once);
    assert_eq!(code(&fixture.run(&["-i", "damaged.db", "top"])), 3);
    std::fs::remove_file(fixture.database()).expect("removes");
    let others = fixture.run(&["-i", ".", "top"]);
    assert_eq!(code(&others), 3, "{}", errors(&others));
}

/// A recording without a sample says where to look for the reason.
#[test]
fn nothing_collected() {
    let fixture = Fixture::new();
    let path = fixture.dir().join("nothing.db");
    let epoch = epoch(0, "sleep", "bpf");
    let writer = profiledb::Writer::create_epoch(&path, &epoch).expect("creates");
    writer.close().expect("closes");
    let output = fixture.run(&["-i", "nothing.db", "top"]);
    assert_eq!(code(&output), 1);
    assert!(
        errors(&output).contains("nothing was collected; `vcpi status`"),
        "{}",
        errors(&output)
    );
}

/// A socket on which nobody answers is an input that cannot be read, and stands alone.
#[test]
fn sockets() {
    let fixture = Fixture::new();
    let socket = fixture.dir().join("socket");
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("listens"));
    let output = fixture.run(&["-i", "socket", "top"]);
    assert_eq!(code(&output), 3, "{}", errors(&output));
    assert!(
        errors(&output).contains("cannot reach the service"),
        "{}",
        errors(&output)
    );
    let output = fixture.run(&["-i", "socket", "-i", "vcpi.db", "top"]);
    assert_eq!(code(&output), 2, "{}", errors(&output));
}

/// An image that changed since gives no names and no instructions of the new one.
#[test]
fn changed_image_is_not_believed() {
    let fixture = Fixture::new();
    let mut image = std::fs::read(fixture.image()).expect("reads");
    let at = image.len() - 0x60 + 0x20;
    image[at] = 0x90;
    std::fs::write(fixture.image(), image).expect("writes");
    let output = fixture.run(&["list", "hot", "--format", "json"]);
    assert!(
        errors(&output).contains("not what was profiled"),
        "{}",
        errors(&output)
    );
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    assert_eq!(
        rows[0]["text"], "mov rax,[rsi+8]",
        "the recorded instruction"
    );
}

/// Damaged databases give an error or a report, never a panic or a signal.
#[test]
fn damaged_databases_are_harmless() {
    let fixture = Fixture::new();
    let good = std::fs::read(fixture.database()).expect("reads");
    let mut state = 9_u64;
    for round in 0..40 {
        let mut bad = good.clone();
        for _ in 0..1 + round % 8 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let at = usize::try_from(state >> 33).expect("fits") % bad.len();
            bad[at] ^= u8::try_from(state >> 24 & 0xff).expect("a byte");
        }
        std::fs::write(fixture.database(), bad).expect("writes");
        for args in [&["list", "hot"][..], &["args"], &["status"]] {
            let output = fixture.run(args);
            assert!(
                (0..=3).contains(&code(&output)),
                "{args:?}: {}",
                errors(&output)
            );
            assert!(!errors(&output).contains("panicked"), "{}", errors(&output));
        }
    }
}
