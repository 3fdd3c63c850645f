//! Ordinary life: statuses, epochs, signals, and what is recorded beside what.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::as_root;

use crate::bench::{BURN, Bench};

/// Waits until the recorded command has said something, so that it certainly runs.
fn wait_for_output(child: &mut Child) -> Result<()> {
    use std::io::Read;
    let mut byte = [0; 1];
    let out = child.stdout.as_mut().context("no standard output")?;
    Ok(out.read_exact(&mut byte)?)
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX))
}

pub(crate) const STATUSES: Test = test("the command's status is vcpid's", statuses, &[]);
fn statuses() -> Result<()> {
    for (script, expected) in [
        ("exit 0", 0),
        ("exit 3", 3),
        ("kill -TERM $$", 143),
        ("kill -9 $$", 137),
    ] {
        let bench = Bench::new()?;
        let output = bench.record(&["--", "sh", "-c", script]).output()?;
        ensure!(
            output.status.code() == Some(expected),
            "{script}: {}",
            text(&output)
        );
    }
    Ok(())
}

pub(crate) const APPENDS: Test = test("a second recording is a second epoch", appends, &[]);
fn appends() -> Result<()> {
    let bench = Bench::new()?;
    for _ in 0..2 {
        let output = bench.record(&["--", "sh", "-c", BURN]).output()?;
        ensure!(output.status.success(), text(&output));
    }
    ensure!(
        bench.query::<i64>("SELECT count(*) FROM epoch WHERE ended IS NOT NULL")? == 2,
        "not two closed epochs"
    );
    ensure!(!bench.path("db-wal").exists(), "a write-ahead log was left");
    let mode = fs::metadata(bench.path("db"))?.permissions().mode() & 0o777;
    ensure!(mode == 0o600, "others may read the file: mode {mode:o}");
    Ok(())
}

pub(crate) const KILLED: Test = test(
    "what a killed recording left open the next one ends",
    killed,
    &[],
);
/// What a recording that was killed has left without an end, the next one ends, and marks.
fn killed() -> Result<()> {
    let bench = Bench::new()?;
    // It ends when its recorder is gone.
    let script = "echo ready; while kill -0 $PPID 2>/dev/null; do :; done";
    let mut child = bench
        .record(&["--flush", "0.1", "--", "sh", "-c", script])
        .spawn()?;
    wait_for_output(&mut child)?;
    kill(pid_of(&child), Signal::SIGKILL)?;
    child.wait()?;
    let output = bench.record(&["--", "sh", "-c", BURN]).output()?;
    ensure!(output.status.success(), text(&output));
    let ends: String = bench.query(
        "SELECT group_concat((ended IS NOT NULL) || coalesce(json_extract(settings, '$.cut_short'), 0))
         FROM (SELECT * FROM epoch ORDER BY id)",
    )?;
    ensure!(ends == "11,10", "{ends}");
    Ok(())
}

pub(crate) const SIGNALS: Test = test("SIGINT, SIGTERM and SIGHUP flush, then end", signals, &[]);
fn signals() -> Result<()> {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let bench = Bench::new()?;
        let script = format!("{BURN}; echo ready; while :; do :; done");
        let mut child = bench.record(&["--", "sh", "-c", &script]).spawn()?;
        wait_for_output(&mut child)?;
        kill(pid_of(&child), signal)?;
        let output = child.wait_with_output()?;
        // The command was asked to end, and its status is passed on.
        ensure!(output.status.code() == Some(143), text(&output));
        let samples: i64 = bench.query("SELECT coalesce(sum(samples), 0) FROM cycles")?;
        ensure!(samples > 10, "{samples} samples");
    }
    Ok(())
}

pub(crate) const ATTACHED_PROCESS: Test = test(
    "a process that exits in the middle ends -p",
    attached_process,
    &[],
);
fn attached_process() -> Result<()> {
    let bench = Bench::new()?;
    let mut target = Command::new("sh")
        .args([
            "-c",
            "read x; i=0; while [ $i -lt 2000000 ]; do i=$((i+1)); done",
        ])
        .stdin(Stdio::piped())
        .spawn()?;
    let recorder = bench.record(&["-p", &target.id().to_string()]).spawn()?;
    // The epoch is written before sampling starts; the shell burns long enough for both.
    drop(target.stdin.take());
    let output = recorder.wait_with_output()?;
    target.wait()?;
    ensure!(output.status.success(), text(&output));
    let output = bench.record(&["-p", "4194303"]).output()?;
    ensure!(output.status.code() == Some(125), text(&output));
    ensure!(text(&output).contains("4194303"), text(&output));
    // Of several, whatever stands between them, the first that is not there is named.
    for several in [
        &["-p", "4194302,4194303"][..],
        &["-p", "4194302", "-p", "4194303"],
    ] {
        let output = bench.record(several).output()?;
        ensure!(output.status.code() == Some(125), text(&output));
        ensure!(text(&output).contains("no process 4194302"), text(&output));
    }
    Ok(())
}

pub(crate) const BESIDE: Test = test(
    "-a goes on for as long as a command beside it",
    beside,
    &[as_root],
);
fn beside() -> Result<()> {
    let bench = Bench::new()?;
    let output = bench.record(&["-a", "--", "sh", "-c", BURN]).output()?;
    ensure!(output.status.success(), text(&output));
    let others: i64 = bench.query("SELECT count(DISTINCT comm) FROM process")?;
    ensure!(others > 1, "only the command was profiled");
    Ok(())
}

pub(crate) const CLOSED_PIPE: Test =
    test("a report into a closed pipe ends quietly", closed_pipe, &[]);
fn closed_pipe() -> Result<()> {
    let bench = Bench::new()?;
    let output = bench.record(&["--", "sh", "-c", BURN]).output()?;
    ensure!(output.status.success(), text(&output));
    for report in ["top --by instruction", "status", "branches"] {
        let script = format!(
            "{} {report} -i {} | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}",
            bench.programs.vcpi.display(),
            bench.path("db").display()
        );
        let output = Command::new("bash").args(["-c", &script]).output()?;
        let quiet = !text(&output).contains("panicked");
        let ended =
            matches!(output.status.code(), Some(0 | 141)) || output.status.signal() == Some(13);
        ensure!(quiet && ended, text(&output));
    }
    Ok(())
}
