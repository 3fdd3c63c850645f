//! Where exports go: files that are whole or not there.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};

use crate::common::Fixture;
use crate::{KINDS, export, exported};

fn code(output: &Output) -> i32 {
    output.status.code().expect("no signal ends vcpi")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs `vcpi` by the shell, as `$0`.
fn shell(fixture: &Fixture, script: &str) -> Output {
    Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_vcpi")])
        .current_dir(fixture.dir())
        .output()
        .expect("the shell runs")
}

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("can be listed")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

/// A file has what standard output gets, and the same profile gives the same bytes.
#[test]
fn file_and_stdout() {
    let fixture = Fixture::new();
    for kind in KINDS {
        let file = export(&fixture, &[kind]);
        let bytes = fs::read(file).expect("is written");
        assert!(!bytes.is_empty());
        assert_eq!(exported(&fixture, &[kind]), bytes, "{kind}");
        assert_eq!(exported(&fixture, &[kind, "-o", "-"]), bytes, "{kind}");
    }
}

/// A new file is its owner's alone, as databases are. One that is there is replaced, keeps who may
/// read it, and a link to it stays one.
#[test]
fn files_are_replaced() {
    let fixture = Fixture::new();
    let file = export(&fixture, &["folded"]);
    let mode = |path: &Path| fs::metadata(path).expect("is there").permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    let old = fixture.dir().join("old");
    fs::write(&old, "old".repeat(100_000)).expect("is written");
    fs::set_permissions(&old, fs::Permissions::from_mode(0o640)).expect("is ours");
    symlink(&old, fixture.dir().join("link")).expect("links");
    let output = fixture.run(&["export", "folded", "-o", "link"]);
    assert_eq!(code(&output), 0, "{}", errors(&output));
    assert_eq!(
        fs::read(&old).expect("is there"),
        fs::read(&file).expect("is there")
    );
    assert_eq!(mode(&old), 0o640);
    let link = fs::symlink_metadata(fixture.dir().join("link")).expect("is there");
    assert!(link.is_symlink());
}

/// What cannot be written is an error that names the file, and leaves all as it was.
#[test]
fn failures_leave_nothing() {
    let fixture = Fixture::new();
    fs::write(fixture.dir().join("old"), "old").expect("is written");
    let before = names(fixture.dir());
    for (script, named) in [
        ("\"$0\" export firefox -o /dev/full", "/dev/full"),
        ("\"$0\" export firefox -o no/such/folder", "no/such/folder"),
        ("\"$0\" export firefox -o .", "."),
        // No file may have more than a block: as on a full disk.
        (
            "trap '' XFSZ; ulimit -f 1; \"$0\" export firefox -o old",
            "old",
        ),
        (
            "trap '' XFSZ; ulimit -f 1; \"$0\" export firefox -o new",
            "new",
        ),
    ] {
        let output = shell(&fixture, script);
        assert_eq!(code(&output), 1, "{script}: {}", errors(&output));
        let said = format!("cannot write {named}: ");
        assert!(
            errors(&output).contains(&said),
            "{script}: {}",
            errors(&output)
        );
        assert_eq!(names(fixture.dir()), before, "{script}");
    }
    let old = fs::read_to_string(fixture.dir().join("old"));
    assert_eq!(old.expect("is there"), "old");
    let output = shell(&fixture, "\"$0\" export firefox > /dev/full");
    assert_eq!(code(&output), 1, "{}", errors(&output));
}

/// Of nothing there is no file, and a reason.
#[test]
fn nothing_is_no_file() {
    let fixture = Fixture::new();
    for kind in KINDS {
        for args in [
            &["--pid", "4242"][..],
            &["--since", "2030-01-01"],
            &["--function", "no such function"],
            &["--min-samples", "1000000"],
        ] {
            let output = fixture.run(&[&["export", kind, "-o", "new"], args].concat());
            assert_eq!(code(&output), 1, "{kind} {args:?}: {}", errors(&output));
            assert!(errors(&output).lines().count() > 0);
            assert!(!fixture.dir().join("new").exists());
        }
    }
}

/// Bytes that are no text do not go to a terminal; text does.
#[test]
fn terminals() {
    let fixture = Fixture::new();
    let on_terminal = |kind: &str| {
        let vcpi = env!("CARGO_BIN_EXE_vcpi");
        let output = Command::new("script")
            .args(["-qec", &format!("'{vcpi}' export {kind}"), "/dev/null"])
            .current_dir(fixture.dir())
            .output()
            .expect("script runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (code(&output), text)
    };
    for kind in ["pprof", "otlp"] {
        let (code, text) = on_terminal(kind);
        assert_eq!(code, 2, "{kind}: {text}");
        assert!(text.contains("name a file with -o"), "{text}");
    }
    let (code, text) = on_terminal("folded");
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("fixture;main;hot "), "{text}");
}
