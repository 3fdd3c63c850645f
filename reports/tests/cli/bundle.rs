//! Bundles: profiles with all that their reports read.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Fixture, Rows, write_epoch, write_epoch_as};
use crate::{code, errors};

/// Reports, of which some need the program's file.
const REPORTS: [&[&str]; 6] = [
    &["top"],
    &["list", "hot"],
    &["list", "hot", "--format", "json"],
    &["args"],
    &["cg"],
    &["status"],
];

/// A run whose temporary files go to `folder`.
fn run(fixture: &Fixture, folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vcpi"))
        .args(arguments)
        .current_dir(fixture.dir())
        .env("TMPDIR", folder)
        .env_remove("DEBUGINFOD_URLS")
        .output()
        .expect("vcpi runs")
}

fn entries(folder: &Path) -> usize {
    fs::read_dir(folder).expect("a folder").count()
}

/// Without database and program, a bundle gives the reports that these gave; what it was taken
/// apart to is gone afterwards.
#[test]
fn everything_is_inside() {
    let fixture = Fixture::new();
    let scratch = tempfile::tempdir().expect("a folder");
    let before: Vec<Output> = REPORTS
        .iter()
        .map(|report| run(&fixture, scratch.path(), report))
        .collect();
    let made = run(&fixture, scratch.path(), &["bundle", "-o", "all.vcpi"]);
    assert_eq!(code(&made), 0, "{}", errors(&made));
    fs::remove_file(fixture.database()).expect("removed");
    fs::remove_file(fixture.image()).expect("removed");
    for (report, before) in REPORTS.iter().zip(before) {
        let after = run(
            &fixture,
            scratch.path(),
            &[&["-i", "all.vcpi"], *report].concat(),
        );
        assert_eq!(code(&after), 0, "{report:?}: {}", errors(&after));
        assert!(errors(&after).contains("reading all.vcpi "), "{report:?}");
        assert_eq!(
            String::from_utf8_lossy(&after.stdout),
            String::from_utf8_lossy(&before.stdout),
            "{report:?}"
        );
    }
    assert_eq!(entries(scratch.path()), 0);
}

/// A bundle of a directory has its databases in their order, each once.
#[test]
fn directories() {
    let fixture = Fixture::new();
    let scratch = tempfile::tempdir().expect("a folder");
    let days = fixture.dir().join("days");
    fs::create_dir(&days).expect("a folder");
    for day in 0..12 {
        // As a bundle names them, for `status` shows that.
        let to = days.join(format!("{day:05}.db"));
        write_epoch_as(&to, Some(day + 1), |flush| {
            let mut rows = Rows::new(flush, &fixture.image());
            rows.cycles(0x1020, None, 30);
            rows.flush.commit().expect("commits");
        });
    }
    let report = |input, name| {
        let output = run(&fixture, scratch.path(), &["-i", input, name]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let made = run(
        &fixture,
        scratch.path(),
        &["bundle", "-i", "days", "-o", "all.vcpi"],
    );
    assert_eq!(code(&made), 0, "{}", errors(&made));
    assert_eq!(report("all.vcpi", "top"), report("days", "top"));
    assert_eq!(report("all.vcpi", "status"), report("days", "status"));
    fs::create_dir(fixture.dir().join("none")).expect("a folder");
    let made = fixture.run(&["bundle", "-i", "none", "-o", "no.vcpi"]);
    assert_eq!(code(&made), 3, "{}", errors(&made));
    assert!(!fixture.dir().join("no.vcpi").exists());
}

/// A bundle takes the place of nothing, and is of all rows.
#[test]
fn wrong_use() {
    let fixture = Fixture::new();
    fs::write(fixture.dir().join("there"), "kept").expect("written");
    for (arguments, said) in [
        (&["bundle", "-o", "there"][..], "is there already"),
        (&["bundle", "-o", "x", "--pid", "1"], "--pid is for reports"),
        (&["bundle"], "--output"),
    ] {
        let output = fixture.run(arguments);
        assert_eq!(code(&output), 2, "{arguments:?}");
        assert!(errors(&output).contains(said), "{}", errors(&output));
    }
    let kept = fs::read_to_string(fixture.dir().join("there")).expect("there");
    assert_eq!(kept, "kept");
    let output = fixture.run(&["bundle", "-o", "/nowhere/at/all"]);
    assert_eq!(code(&output), 1, "{}", errors(&output));
}

/// A damaged bundle is told to be one, whatever is damaged, and leaves nothing behind.
#[test]
fn damaged_bundles() {
    let fixture = Fixture::new();
    let scratch = tempfile::tempdir().expect("a folder");
    let made = run(&fixture, scratch.path(), &["bundle", "-o", "whole"]);
    assert_eq!(code(&made), 0, "{}", errors(&made));
    let whole = fs::read(fixture.dir().join("whole")).expect("a bundle");
    let look = |bytes: &[u8]| {
        fs::write(fixture.dir().join("bad"), bytes).expect("written");
        let output = run(&fixture, scratch.path(), &["-i", "bad", "top"]);
        assert_eq!(entries(scratch.path()), 0);
        output
    };
    for length in [4, 40, whole.len() / 2, whole.len() - 1000] {
        let output = look(&whole[..length]);
        assert_eq!(code(&output), 3, "{length}: {}", errors(&output));
    }
    let plain = zstd::decode_all(whole.as_slice()).expect("zstd");
    let packed = |plain: &[u8]| zstd::encode_all(plain, 1).expect("packed");
    let replaced = |from: &str, to: &str| {
        let at = plain
            .windows(from.len())
            .position(|window| window == from.as_bytes())
            .expect("it is in the list");
        let mut changed = plain.clone();
        changed[at..at + to.len()].copy_from_slice(to.as_bytes());
        look(&packed(&changed))
    };
    for (from, to, said) in [
        ("\"version\": 2", "\"version\": 9", "newer vcpi"),
        ("\"database\"", "\"image\"   ", "no database"),
        ("\"members\"", "\"numbers\"", "list is broken"),
    ] {
        let output = replaced(from, to);
        assert_eq!(code(&output), 3, "{from}: {}", errors(&output));
        assert!(errors(&output).contains(said), "{}", errors(&output));
    }
    // Something else under zstd.
    let output = look(&packed(b"no archive"));
    assert_eq!(code(&output), 3, "{}", errors(&output));
}

/// A program with debug information, its source, and a database of samples in its `main`, in a
/// folder.
fn program_with_source(folder: &Path) {
    let source = folder.join("source.c");
    let text = "int twice(int n)\n{\n    return n * 2; /* the hot line */\n}\n\n\
                int main(void) { return twice(0); }\n";
    fs::write(&source, text).expect("written");
    let program = folder.join("program");
    let built = Command::new("gcc")
        .args([
            "-g",
            "-O0",
            "-fcf-protection=none",
            "-Wl,--build-id=none",
            "-o",
        ])
        .args([&program, &source])
        .status();
    assert!(built.expect("gcc runs").success());
    let names = Command::new("nm").arg(&program).output().expect("nm runs");
    let names = String::from_utf8_lossy(&names.stdout).into_owned();
    let line = names.lines().find(|line| line.ends_with(" T twice"));
    let address = line.and_then(|line| line.split(' ').next());
    let address = u64::from_str_radix(address.expect("an address"), 16).expect("a number");
    write_epoch(&folder.join("p.db"), |flush| {
        let mut rows = Rows::new(flush, &program);
        // The code tells that the file is what was profiled: push rbp.
        let (image, process, subject) = (rows.fixture, rows.process, rows.user);
        let pc = rows.flush.pc(image, address, Some(&[0x55])).expect("pc");
        let added = rows
            .flush
            .cycles(process, subject, pc, None, 100, 10_000_000);
        added.expect("cycles");
        rows.flush.commit().expect("commits");
    });
}

/// Source lines around hot code are inside, and lists and pages show them when the files are gone;
/// without them if so asked, and without those of files that others may not read.
#[test]
fn source_lines() {
    use std::os::unix::fs::PermissionsExt as _;

    let fixture = Fixture::new();
    let scratch = tempfile::tempdir().expect("a folder");
    let run = |arguments: &[&str]| {
        let output = run(&fixture, scratch.path(), arguments);
        assert_eq!(code(&output), 0, "{arguments:?}: {}", errors(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    program_with_source(fixture.dir());
    let source = fixture.dir().join("source.c");
    run(&["bundle", "-i", "p.db", "-o", "with.vcpi"]);
    run(&["bundle", "-i", "p.db", "-o", "without.vcpi", "--no-source"]);
    let mode = |mode| fs::set_permissions(&source, fs::Permissions::from_mode(mode));
    mode(0o600).expect("changed");
    run(&["bundle", "-i", "p.db", "-o", "secret.vcpi"]);
    fs::remove_file(&source).expect("removed");
    fs::remove_file(fixture.dir().join("program")).expect("removed");
    let shown = |bundle| run(&["list", "twice", "--source", "-i", bundle]);
    let with = shown("with.vcpi");
    assert!(with.contains("return n * 2; /* the hot line */"), "{with}");
    assert!(!shown("without.vcpi").contains("the hot line"));
    let is_root = nix::unistd::geteuid().is_root();
    assert_eq!(shown("secret.vcpi").contains("the hot line"), !is_root);
    run(&["html", "-o", "page.html", "-i", "with.vcpi"]);
    let page = fs::read_to_string(fixture.dir().join("page.html")).expect("a page");
    assert!(page.contains("the hot line"));
}
