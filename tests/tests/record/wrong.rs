//! Bad input: commands that are none, databases and programs that are something else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use rusqlite::Connection;
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::gcc;

use crate::bench::Bench;

pub(crate) const NO_COMMAND: Test = test(
    "a command that does not exist is 127 and leaves no file",
    no_command,
    &[],
);
fn no_command() -> Result<()> {
    let bench = Bench::new()?;
    for name in ["no-such-command-anywhere", "/no/such/file"] {
        let output = bench.record(&["--", name]).output()?;
        ensure!(output.status.code() == Some(127), text(&output));
        ensure!(text(&output).contains(name), text(&output));
        ensure!(!bench.path("db").exists(), "a database was made");
    }
    Ok(())
}

pub(crate) const FOREIGN_FILES: Test = test(
    "a file that is no vcpi database is refused untouched",
    foreign_files,
    &[],
);
fn foreign_files() -> Result<()> {
    let bench = Bench::new()?;
    let other = {
        let connection = Connection::open(bench.path("other"))?;
        connection.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES (1);")?;
        drop(connection);
        fs::read(bench.path("other"))?
    };
    let marker = bench.path("ran");
    for contents in [b"just some text\n".to_vec(), vec![0; 5000], other] {
        fs::write(bench.path("db"), &contents)?;
        let output = bench.record(&["--", "touch"]).arg(&marker).output()?;
        ensure!(output.status.code() == Some(125), text(&output));
        ensure!(text(&output).contains("(-o "), text(&output));
        ensure!(
            fs::read(bench.path("db"))? == contents,
            "the file was changed"
        );
        ensure!(!marker.exists(), "the command was run all the same");
    }
    Ok(())
}

pub(crate) const BROKEN_ELF: Test = test(
    "a truncated and a foreign ELF are profiled without harm",
    broken_elf,
    &[gcc],
);
fn broken_elf() -> Result<()> {
    let bench = Bench::new()?;
    let burner = bench.compile(
        "burner",
        "#include <stdio.h>\n#include <unistd.h>\nint main(int c, char **v) { if (c > 1 && truncate(v[1], 600)) return 9; \
         volatile unsigned long n = 0; while (n < 300000000ul) n++; return 0; }",
    )?;
    // The file is cut while the program runs: `vcpid` finds 600 bytes where an image was.
    let copy = bench.path("copy");
    fs::copy(&burner, &copy)?;
    let script = format!(
        "{0} & sleep 0.3; cp {0} {0}.new; truncate -s 600 {0}.new; mv {0}.new {0}; wait",
        copy.display()
    );
    let output = bench.record(&["--", "sh", "-c", &script]).output()?;
    ensure!(output.status.success(), text(&output));
    let output = Command::new(&bench.programs.vcpi)
        .arg("top")
        .arg("-i")
        .arg(bench.path("db"))
        .output()?;
    ensure!(output.status.success(), text(&output));
    // A file that the kernel cannot execute goes to the shell, as from a shell, and fails there.
    let nonsense = bench.path("nonsense");
    fs::write(&nonsense, b"\x7fELF but nothing more\n")?;
    fs::set_permissions(&nonsense, fs::Permissions::from_mode(0o755))?;
    let output = bench.record(&["--"]).arg(&nonsense).output()?;
    ensure!(
        matches!(output.status.code(), Some(126 | 127)),
        text(&output)
    );
    Ok(())
}

pub(crate) const FILTERS: Test = test("a filter that cannot be is refused", filters, &[]);
/// A folder that is no control group is refused, and so are filters where no engine can filter.
fn filters() -> Result<()> {
    let bench = Bench::new()?;
    let folder = bench.path("group");
    fs::create_dir(&folder)?;
    let group = folder.to_str().context("a path that is not UTF-8")?;
    for (wrong, why) in [
        (["--cgroup", group], "is no control group of version 2"),
        (["--cgroup", "/nowhere"], "cannot find the control group"),
        (["--engine=ring", "--comm=x"], "need the engine bpf"),
    ] {
        let output = bench.record(&wrong).args(["--", "true"]).output()?;
        let refused = output.status.code() == Some(125) && text(&output).contains(why);
        ensure!(refused && !bench.path("db").exists(), text(&output));
    }
    Ok(())
}

pub(crate) const OPTIONS: Test = test("what looks like an option is no command", options, &[]);
fn options() -> Result<()> {
    let bench = Bench::new()?;
    for wrong in [
        &["--seeds", "3", "--", "true"][..],
        &["-F", "99", "true"],
        &["--rate", "0", "true"],
    ] {
        let output = bench.record(wrong).output()?;
        ensure!(output.status.code() == Some(2), text(&output));
        ensure!(!bench.path("db").exists(), "a database was made");
    }
    // Behind two dashes anything is a command, and a command's own options are its own.
    let output = bench.record(&["--", "-x"]).output()?;
    ensure!(output.status.code() == Some(127), text(&output));
    let output = bench.record(&["sh", "-c", "exit 5"]).output()?;
    ensure!(output.status.code() == Some(5), text(&output));
    for (impossible, why) in [
        (&["--bounce=often"][..], "auto, off, a number"),
        (&["--bounce=step:0"], "step: with such a number"),
        (&["--entries=one,,two"], "auto, off, or names"),
        (
            &["--clock", "timer", "--engine", "ring"][..],
            "needs the engine bpf",
        ),
    ] {
        let output = Command::new(&bench.programs.vcpid)
            .arg("record")
            .args(impossible)
            .arg("true")
            .output()?;
        let said = text(&output);
        ensure!(
            output.status.code() == Some(2) && said.contains(why),
            "{said}"
        );
    }
    Ok(())
}

pub(crate) const RAW_THAT_IS_THERE: Test = test(
    "a raw recording that is there is refused, and no database made",
    raw_that_is_there,
    &[],
);
/// Where one of both files cannot be made, the other is not made either, and the command does not
/// run. What is there stays as it is.
fn raw_that_is_there() -> Result<()> {
    let bench = Bench::new()?;
    let (raw, marker) = (bench.path("raw"), bench.path("ran"));
    let record = || {
        let mut command = bench.record(&["--raw"]);
        command.arg(&raw).args(["--", "touch"]).arg(&marker);
        command.output()
    };
    fs::write(&raw, "mine")?;
    let output = record()?;
    ensure!(output.status.code() == Some(125), text(&output));
    ensure!(text(&output).contains("is there already"), text(&output));
    ensure!(fs::read(&raw)? == b"mine", "it was changed");
    ensure!(!bench.path("db").exists(), "a database was made");
    fs::remove_file(&raw)?;
    fs::write(bench.path("db"), "just some text")?;
    let output = record()?;
    ensure!(output.status.code() == Some(125), text(&output));
    ensure!(!raw.exists(), "a raw recording was made");
    ensure!(!marker.exists(), "the command was run all the same");
    Ok(())
}
