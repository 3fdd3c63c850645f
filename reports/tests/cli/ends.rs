//! Exit codes, questions that make no sense, and what is printed of what there is.

use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::common::Fixture;
use crate::{code, errors, json};

/// What matches nothing exits with 1, says so, and prints nothing.
#[test]
fn nothing_matches() {
    let fixture = Fixture::new();
    for args in [
        &["list", "no_such_function"][..],
        &["top", "--image", "no-such-image"],
        &["top", "--pid", "4242"],
        &["top", "--min-samples", "100000000"],
        &["top", "--since", "2030-01-01"],
        &["top", "--epoch", "99"],
        &["branches", "--function", "helper"],
    ] {
        let output = fixture.run(args);
        assert_eq!(code(&output), 1, "{args:?}: {}", errors(&output));
        assert!(output.stdout.is_empty(), "{args:?}");
        assert!(errors(&output).lines().count() > 0, "{args:?}");
    }
}

/// For programs a report of nothing is an empty one, with the same exit code.
#[test]
fn nothing_is_json_too() {
    let fixture = Fixture::new();
    for (args, empty) in [
        (&["list", "no_such_function"][..], "[]\n"),
        (&["top", "--pid", "4242"], "[]\n"),
        (&["status", "--epoch", "99"], "{}\n"),
    ] {
        let output = fixture.run(&[args, &["--format", "json"]].concat());
        assert_eq!(code(&output), 1, "{args:?}: {}", errors(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), empty, "{args:?}");
    }
}

/// Questions that make no sense exit with 2.
#[test]
fn usage_errors() {
    let fixture = Fixture::new();
    for args in [
        &["no-such-report"][..],
        &[],
        &["list"],
        &["top", "--since", "whenever"],
        &["top", "--since", "12"],
        &["top", "--since", "today", "--until", "yesterday"],
        &["top", "--user", "no such user"],
        &["export"],
        &["export", "no-such-kind"],
        &["export", "folded", "--format", "json"],
        &["export", "folded", "--lines", "3"],
        &["html"],
        &["html", "-o", "file", "--format", "json"],
        &["top", "--by", "weather"],
        &["blks", "--invariant", "200"],
    ] {
        let output = fixture.run(args);
        assert_eq!(code(&output), 2, "{args:?}: {}", errors(&output));
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

/// No more rows than asked for are printed, the first ones, and the rest is counted.
#[test]
fn rows_are_limited() {
    let fixture = Fixture::new();
    let all = json(&fixture, &["top", "--by", "instruction"]);
    let two = json(&fixture, &["top", "--by", "instruction", "-n", "2"]);
    let (all, two) = (all.as_array().expect("rows"), two.as_array().expect("rows"));
    assert!(all.len() > 2);
    assert_eq!(two.as_slice(), &all[..2]);
    let said = errors(&fixture.run(&["top", "--by", "instruction", "--lines", "2"]));
    let more = format!("{} more row", all.len() - 2);
    assert!(said.contains(&more), "{said}");
}

/// Called by a classic name, the program is that report, and goes by that name.
#[test]
fn classic_names() {
    let fixture = Fixture::new();
    let says = |name: &str, word: &str| {
        let link = fixture.dir().join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_vcpi"), &link).expect("links");
        }
        let output = Command::new(&link)
            .arg(word)
            .current_dir(fixture.dir())
            .output()
            .expect("runs");
        assert_eq!(code(&output), 0, "{name} {word}: {}", errors(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(says("dcpivlist", "hot").contains("value profile"));
    for name in ["dcpivlist", "dcpivargs", "dcpivcg", "dcpivblks"] {
        let version = says(name, "--version");
        assert_eq!(version, format!("{name} {}\n", env!("CARGO_PKG_VERSION")));
        let help = says(name, "--help");
        assert!(help.contains(&format!("Usage: {name} [")), "{help}");
    }
}

/// When the reader of the report goes away, the program ends without a word about it.
#[test]
fn closed_pipe_is_quiet() {
    let fixture = Fixture::new();
    // Nobody reads: the first write meets a closed pipe.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    // A program that another test begins just now has what this one has, until its exec.
    let mut ends = [PollFd::new(writer.as_fd(), PollFlags::empty())];
    poll(&mut ends, PollTimeout::NONE).expect("tells that nobody reads");
    let mut child = Command::new(env!("CARGO_BIN_EXE_vcpi"))
        .args(["top", "--format", "json"])
        .current_dir(fixture.dir())
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .expect("vcpi runs");
    let mut errors = String::new();
    let mut stderr = child.stderr.take().expect("is piped");
    stderr.read_to_string(&mut errors).expect("is UTF-8");
    let status = child.wait().expect("ends");
    assert_eq!(status.code(), Some(141));
    assert!(
        !errors.contains("panicked") && !errors.contains("roken pipe"),
        "{errors}"
    );
}
