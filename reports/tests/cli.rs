//! The command line: exit codes, inputs, filters, hostile input.

mod common;

use std::io::Read as _;
use std::process::{Command, Output, Stdio};

use common::Fixture;

fn code(output: &Output) -> i32 {
    output.status.code().expect("no signal ends vcpi")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(fixture: &Fixture, args: &[&str]) -> serde_json::Value {
    let text = fixture.report(&[args, &["--format", "json"]].concat());
    serde_json::from_str(&text).expect("reports are JSON")
}

fn samples(report: &serde_json::Value) -> u64 {
    let rows = report.as_array().expect("a report of rows");
    rows.iter()
        .map(|row| row["samples"].as_u64().expect("a count"))
        .sum()
}

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

/// An instruction as a report shows it names its function; one behind its end does not.
#[test]
fn instructions_name_functions() {
    let fixture = Fixture::new();
    let rows = json(&fixture, &["top", "--by", "instruction"]);
    let rows = rows.as_array().expect("rows");
    let mut names = rows.iter().filter_map(|row| row["key"].as_str());
    let inside = names
        .find(|name| name.contains("+0x") && !name.contains('.') && !name.starts_with("fixture+"))
        .expect("an instruction inside a function");
    let (function, _) = inside.rsplit_once("+0x").expect("an offset");
    assert_eq!(
        fixture.report(&["list", inside]),
        fixture.report(&["list", function])
    );
    let behind = format!("{function}+0x7fffffff");
    assert_eq!(code(&fixture.run(&["list", &behind])), 1);
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
        &["diff", "a.db", "b.db"],
        &["export", "pprof", "-o", "file"],
        &["html", "-o", "file"],
        &["top", "--by", "weather"],
        &["blks", "--invariant", "200"],
    ] {
        let output = fixture.run(args);
        assert_eq!(code(&output), 2, "{args:?}: {}", errors(&output));
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

/// Inputs that cannot be read exit with 3, and no input is explained.
#[test]
fn unreadable_inputs() {
    let fixture = Fixture::new();
    let foreign = fixture.dir().join("foreign.db");
    std::fs::write(&foreign, "no database at all").expect("writes");
    for input in ["missing.db", "foreign.db", "fixture", "/dev/null"] {
        let output = fixture.run(&["-i", input, "top"]);
        assert_eq!(code(&output), 3, "{input}: {}", errors(&output));
        assert!(output.stdout.is_empty(), "{input}");
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

/// A directory is all databases in it; a file named twice counts once.
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
    assert_eq!(samples(&json(&fixture, &["-i", ".", "top"])), 2 * once);
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

/// Filters choose processes, images, functions and whole flushes.
#[test]
fn filters() {
    let fixture = Fixture::new();
    assert_eq!(samples(&json(&fixture, &["top", "--pid", "101"])), 10);
    assert_eq!(
        samples(&json(&fixture, &["top", "--image", "libgone.so"])),
        30
    );
    assert_eq!(
        samples(&json(&fixture, &["top", "--function", "helper"])),
        50
    );
    let all = samples(&json(&fixture, &["top"]));
    let half = json(&fixture, &["top", "--since", "2026-05-01 12:01"]);
    assert_eq!(samples(&half) * 2, all);
    let half = json(&fixture, &["top", "--until", "2026-05-01T12:01:00Z"]);
    assert_eq!(samples(&half) * 2, all);
    assert_eq!(samples(&json(&fixture, &["top", "--user", "1000"])), all);
}

/// An image is found by its path from here, through links, and after its file is gone.
#[test]
fn images_by_path() {
    let fixture = Fixture::new();
    let link = fixture.dir().join("link");
    std::os::unix::fs::symlink(fixture.dir(), &link).expect("links");
    let whole = fixture.image();
    let whole = whole.to_str().expect("is UTF-8");
    let found = samples(&json(&fixture, &["top", "--image", whole]));
    assert!(found > 0);
    for gone in [false, true] {
        if gone {
            std::fs::remove_file(fixture.image()).expect("removes");
        }
        for path in ["./fixture", "link/fixture", ".//link/./fixture"] {
            let report = json(&fixture, &["top", "--image", path]);
            assert_eq!(samples(&report), found, "{path}, gone: {gone}");
        }
        let elsewhere = fixture.run(&["top", "--image", "/usr/fixture"]);
        assert_eq!(code(&elsewhere), 1, "{}", errors(&elsewhere));
    }
}

/// For an image that is not there, those are named that may have been meant.
#[test]
fn images_near_a_name() {
    let fixture = Fixture::new();
    for (name, near) in [
        ("libgone", "libgone.so"),
        ("libgone.so.5", "libgone.so"),
        ("/usr/bin/FIX", "fixture"),
        ("ixtur", "fixture"),
    ] {
        for report in ["top", "branches"] {
            let output = fixture.run(&[report, "--image", name]);
            assert_eq!(code(&output), 1, "{name}");
            let said = errors(&output);
            let expected = format!("no image named {name} in this profile; near it: {near}\n");
            assert!(said.contains(&expected), "{said}");
        }
    }
    // Beside one that is there, it is said as well.
    let output = fixture.run(&["top", "--image", "fixture", "--image", "libgone"]);
    assert_eq!(code(&output), 0);
    assert!(errors(&output).contains("no image named libgone in this profile"));
    let output = fixture.run(&["top", "--image", "weather"]);
    assert!(!errors(&output).contains("near"), "{}", errors(&output));
}

/// What was not collected is said in the words of the question.
#[test]
fn absence_is_explained() {
    let fixture = Fixture::new();
    for (args, said) in [
        (
            &["--pid", "4242"][..],
            "nothing that ran in process 4242 was collected",
        ),
        (
            &["--user", "root"],
            "nothing that ran as user root (id 0) was collected",
        ),
        (
            &["--user", "4242", "--pid", "7"],
            "nothing that ran in process 7, as user 4242 was collected",
        ),
        (&["--user", "no such user"], "there is no such user here"),
    ] {
        let output = fixture.run(&[&["top"], args].concat());
        assert!(errors(&output).contains(said), "{}", errors(&output));
    }
}

/// A part of one name is enough; of several, they are listed.
#[test]
fn functions_by_part_and_address() {
    let fixture = Fixture::new();
    for name in ["help", "fixture+0x1044", "helper"] {
        let rows = json(&fixture, &["list", name]);
        assert_eq!(rows[0]["function"], "helper", "{name}");
    }
    let output = fixture.run(&["list", "h"]);
    assert_eq!(code(&output), 1);
    assert!(errors(&output).contains("hotter"), "{}", errors(&output));
    // A whole name is not ambiguous because another begins with it.
    assert_eq!(json(&fixture, &["list", "hot"])[0]["function"], "hot");
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

/// A name of hundreds of characters is as wide as a column in text, and is found as it is shown
/// there; `--full-names` and JSON have the whole.
#[test]
fn long_names() {
    // void ns::table<std::map<std::string, std::vector<int>>>::hot<...>(...// void ns::table<std::map<std::string, std::vector<int>>>::hot<...>(..., ... const&), ... const// void ns::table<std::map<std::string, std::vector<int>>>::hot<...>(..., ... const&))
    let fixture = Fixture::with_hot(
        "_ZN2ns5tableISt3mapINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt6vectorIiSaIi\
         EESt4lessIS7_ESaISt4pairIKS7_SA_EEEE3hotISH_EEvRT_RKSH_",
    );
    let short = "ns::table<std::map<...> >::hot<std::map<...> >";
    for report in [
        &["top"][..],
        &["top", "--by", "instruction"],
        &["args"],
        &["cg"],
        &["branches"],
        &["list", "main"],
    ] {
        let text = fixture.report(report);
        assert!(text.contains(short), "{report:?}: {text}");
        assert!(!text.contains("char_traits"), "{report:?}: {text}");
        let whole = fixture.report(&[report, &["--full-names"]].concat());
        assert!(whole.contains("char_traits"), "{report:?}: {whole}");
    }
    let rows = json(&fixture, &["list", short]);
    let whole = rows[0]["function"].as_str().expect("a name");
    assert!(whole.starts_with("void ns::table<std::map<std::__cxx11::basic_string<char"));
    assert!(whole.len() > 500, "{whole}");
    assert!(fixture.report(&["list", short]).contains("value profile"));
}

/// When the reader of the report goes away, the program ends without a word about it.
#[test]
fn closed_pipe_is_quiet() {
    let fixture = Fixture::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_vcpi"))
        .args(["top", "--format", "json"])
        .current_dir(fixture.dir())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("vcpi runs");
    // Nobody reads: the first write meets a closed pipe.
    drop(child.stdout.take());
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
