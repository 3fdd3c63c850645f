//! Ordinary life: statuses, epochs, signals, and what is recorded beside what.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use libtest_mimic::Failed;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::bench::{BURN, Bench};
use crate::common::{ensure, text};
use crate::{TestResult, done};

/// Waits until the recorded command has said something, so that it certainly runs.
fn wait_for_output(child: &mut Child) -> Result<(), Failed> {
    use std::io::Read;
    let mut byte = [0; 1];
    let out = child.stdout.as_mut().ok_or("no standard output")?;
    Ok(out.read_exact(&mut byte)?)
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX))
}

pub(crate) fn statuses() -> TestResult {
    for (script, expected) in [
        ("exit 0", 0),
        ("exit 3", 3),
        ("kill -TERM $$", 143),
        ("kill -9 $$", 137),
    ] {
        let bench = Bench::new()?;
        let output = bench.record(&["--", "sh", "-c", script]).output()?;
        ensure(output.status.code() == Some(expected), || {
            format!("{script}: {}", text(&output))
        })?;
    }
    done()
}

pub(crate) fn appends() -> TestResult {
    let bench = Bench::new()?;
    for _ in 0..2 {
        let output = bench.record(&["--", "sh", "-c", BURN]).output()?;
        ensure(output.status.success(), || text(&output))?;
    }
    ensure(
        bench.query::<i64>("SELECT count(*) FROM epoch WHERE ended IS NOT NULL")? == 2,
        || "not two closed epochs".to_owned(),
    )?;
    ensure(!bench.path("db-wal").exists(), || {
        "a write-ahead log was left".to_owned()
    })?;
    let mode = fs::metadata(bench.path("db"))?.permissions().mode() & 0o777;
    ensure(mode == 0o600, || {
        format!("others may read the file: mode {mode:o}")
    })?;
    done()
}

/// What a recording that was killed has left without an end, the next one ends, and marks.
pub(crate) fn killed() -> TestResult {
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
    ensure(output.status.success(), || text(&output))?;
    let ends: String = bench.query(
        "SELECT group_concat((ended IS NOT NULL) || coalesce(json_extract(settings, '$.cut_short'), 0))
         FROM (SELECT * FROM epoch ORDER BY id)",
    )?;
    ensure(ends == "11,10", || ends.clone())?;
    done()
}

pub(crate) fn signals() -> TestResult {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let bench = Bench::new()?;
        let script = format!("{BURN}; echo ready; while :; do :; done");
        let mut child = bench.record(&["--", "sh", "-c", &script]).spawn()?;
        wait_for_output(&mut child)?;
        kill(pid_of(&child), signal)?;
        let output = child.wait_with_output()?;
        // The command was asked to end, and its status is passed on.
        ensure(output.status.code() == Some(143), || text(&output))?;
        let samples: i64 = bench.query("SELECT coalesce(sum(samples), 0) FROM cycles")?;
        ensure(samples > 10, || format!("{samples} samples"))?;
    }
    done()
}

pub(crate) fn attached_process() -> TestResult {
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
    ensure(output.status.success(), || text(&output))?;
    let output = bench.record(&["-p", "4194303"]).output()?;
    ensure(output.status.code() == Some(125), || text(&output))?;
    ensure(text(&output).contains("4194303"), || text(&output))?;
    // Of several, whatever stands between them, the first that is not there is named.
    for several in [
        &["-p", "4194302,4194303"][..],
        &["-p", "4194302", "-p", "4194303"],
    ] {
        let output = bench.record(several).output()?;
        ensure(output.status.code() == Some(125), || text(&output))?;
        ensure(text(&output).contains("no process 4194302"), || {
            text(&output)
        })?;
    }
    done()
}

pub(crate) fn beside() -> TestResult {
    let bench = Bench::new()?;
    let output = bench.record(&["-a", "--", "sh", "-c", BURN]).output()?;
    ensure(output.status.success(), || text(&output))?;
    let others: i64 = bench.query("SELECT count(DISTINCT comm) FROM process")?;
    ensure(others > 1, || "only the command was profiled".to_owned())?;
    done()
}

pub(crate) fn closed_pipe() -> TestResult {
    let bench = Bench::new()?;
    let output = bench.record(&["--", "sh", "-c", BURN]).output()?;
    ensure(output.status.success(), || text(&output))?;
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
        ensure(quiet && ended, || text(&output))?;
    }
    done()
}
