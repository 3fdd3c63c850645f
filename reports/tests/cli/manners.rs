//! Explanations, help, completions, and what is said of what was left out.

use std::process::{Command, Output};

use crate::common::Fixture;
use crate::{code, errors};

/// A report explains itself in a line, and at length where that is asked for.
#[test]
fn explanations() {
    let fixture = Fixture::new();
    let short = fixture.report(&["branches"]);
    let long = fixture.report(&["branches", "--explain"]);
    assert!(
        short.starts_with("Directions of conditional branches"),
        "{short}"
    );
    assert!(short.contains("--explain") && !long.contains("--explain"));
    assert!(long.contains("95 % interval") && !short.contains("95 % interval"));
}

/// What rests on too few samples is left out, and that is said.
#[test]
fn few_samples() {
    let fixture = Fixture::new();
    let said = errors(&fixture.run(&["top", "--min-samples", "100"]));
    assert!(
        said.contains("fewer than 100 samples left out (--min-samples)"),
        "{said}"
    );
    assert!(said.contains("row"), "{said}");
    let said = errors(&fixture.run(&["top"]));
    assert!(!said.contains("--min-samples"), "{said}");
}

/// A full disk is told, for reports and for help, and the exit code is 1.
#[test]
fn full_disk() {
    let fixture = Fixture::new();
    for args in [
        &["top"][..],
        &["top", "--format", "json"],
        &["--help"],
        &["help", "list"],
    ] {
        let full = std::fs::File::create("/dev/full").expect("is there");
        let output = Command::new(env!("CARGO_BIN_EXE_vcpi"))
            .args(args)
            .current_dir(fixture.dir())
            .stdout(full)
            .output()
            .expect("runs");
        assert_eq!(code(&output), 1, "{args:?}: {}", errors(&output));
        assert!(
            errors(&output).contains("cannot write"),
            "{}",
            errors(&output)
        );
    }
}

/// Runs `vcpi` from a shell that does this to its descriptors.
fn redirected(fixture: &Fixture, args: &[&str], redirection: &str) -> Output {
    Command::new("sh")
        .arg("-c")
        .arg(format!("exec \"$0\" \"$@\" {redirection}"))
        .arg(env!("CARGO_BIN_EXE_vcpi"))
        .args(args)
        .current_dir(fixture.dir())
        .output()
        .expect("runs")
}

/// Standard output that is closed or cannot be written to is told wherever something would go
/// there, and the exit code is 1. No file that is read or written takes its place.
#[test]
fn closed_output() {
    let fixture = Fixture::new();
    let before = std::fs::read(fixture.database()).expect("reads");
    for (redirection, why) in [
        (">&-", "is closed"),
        ("1</dev/null", "is open for reading alone"),
    ] {
        for args in [
            &["top"][..],
            &["top", "--format", "json"],
            &["list", "hot"],
            &["status"],
            &["export", "folded"],
            &["export", "pprof"],
            &["export", "folded", "-o", "/dev/stdout"],
            &["html", "-o", "-"],
            &["html", "-o", "/proc/self/fd/1"],
            &["--help"],
            &["--version"],
        ] {
            let output = redirected(&fixture, args, redirection);
            let said = errors(&output);
            assert_eq!(code(&output), 1, "{args:?} {redirection}: {said}");
            let expected = format!("cannot write the report: standard output {why}");
            assert!(said.contains(&expected), "{args:?}: {said}");
        }
    }
    let after = std::fs::read(fixture.database()).expect("reads");
    assert!(before == after);
    // Who wants nothing there, or closes something else, is served.
    for redirection in [">/dev/null", "1<>/dev/null", "<&-", "2>&-"] {
        let output = redirected(&fixture, &["top"], redirection);
        assert_eq!(code(&output), 0, "{redirection}: {}", errors(&output));
    }
    let to_file = ["export", "folded", "-o", "file"];
    let output = redirected(&fixture, &to_file, ">&-");
    assert_eq!(code(&output), 0, "{}", errors(&output));
    let written = std::fs::read(fixture.dir().join("file")).expect("is there");
    let printed = fixture.run(&["export", "folded"]).stdout;
    assert!(!printed.is_empty() && written == printed);
}

/// Colours can be forced where no terminal is.
#[test]
fn forced_colours() {
    let fixture = Fixture::new();
    let printed = |value: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_vcpi"))
            .arg("top")
            .current_dir(fixture.dir())
            .env("CLICOLOR_FORCE", value)
            .env_remove("NO_COLOR")
            .output()
            .expect("runs");
        String::from_utf8(output.stdout).expect("is UTF-8")
    };
    assert!(printed("1").contains("\u{1b}[31m"));
    assert!(!printed("0").contains('\u{1b}'));
}

/// Each report has a worked example in its help and in its manual page.
#[test]
fn worked_examples() {
    let fixture = Fixture::new();
    let man = fixture.dir().join("man");
    std::fs::create_dir(&man).expect("creates");
    assert!(fixture.run(&["__document", "man"]).status.success());
    for report in [
        "top",
        "list",
        "args",
        "cg",
        "blks",
        "branches",
        "targets",
        "copies",
        "loads",
        "redundant",
        "syscalls",
        "locks",
        "prio",
        "irq",
        "hints",
        "diff",
        "status",
    ] {
        let help = fixture.report(&["help", report]);
        assert!(help.contains("Example: "), "{report}: {help}");
        assert!(
            help.contains(&format!("  vcpi {report}")),
            "{report}: {help}"
        );
        let page = man.join(format!("vcpi-{report}.1"));
        let page = std::fs::read_to_string(page).expect("is there");
        assert!(
            page.contains(".SH EXAMPLES") && page.contains("Example: "),
            "{page}"
        );
    }
}

/// Names of functions complete a line that asks for one, of the profile that the line names.
#[test]
fn names_complete() {
    let fixture = Fixture::new();
    let complete = |words: &[&str]| {
        let output = fixture.run(&[&["__complete", "--"], words].concat());
        assert_eq!(code(&output), 0);
        assert!(errors(&output).is_empty(), "{}", errors(&output));
        String::from_utf8(output.stdout).expect("is UTF-8")
    };
    assert_eq!(complete(&["list", "ho"]), "hot\nhotter\n");
    assert_eq!(complete(&["top", "--function", "mai"]), "main\n");
    assert_eq!(complete(&["top", "ho"]), "");
    assert_eq!(complete(&["-i", "no-such.db", "list", "ho"]), "");
    assert_eq!(complete(&["list", "--by-c"]), "");
}

/// bash completes options and names with what the program writes for it.
#[test]
fn bash_completes() {
    let fixture = Fixture::new();
    assert!(fixture.run(&["__document", "."]).status.success());
    let complete = |line: &str| {
        let script = "\
            source ./vcpi.bash; COMP_LINE=$1; COMP_POINT=${#1}; read -ra COMP_WORDS <<< \"$1\"; \
            COMP_WORDS[0]=$0; COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); \
            _vcpi_with_names \"$0\" \"${COMP_WORDS[COMP_CWORD]}\" \
            \"${COMP_WORDS[COMP_CWORD - 1]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
        let output = Command::new("bash")
            .args(["-c", script, env!("CARGO_BIN_EXE_vcpi"), line])
            .current_dir(fixture.dir())
            .output()
            .expect("bash runs");
        String::from_utf8(output.stdout).expect("is UTF-8")
    };
    let names = complete("vcpi list hot");
    assert!(names.lines().any(|name| name == "hotter"), "{names}");
    let options = complete("vcpi list --by-c");
    assert!(
        options.lines().any(|option| option == "--by-caller"),
        "{options}"
    );
}
