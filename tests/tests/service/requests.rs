//! `vcpid ctl`.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::as_root;

use crate::bench::{Bench, ensure_whole};

pub(crate) const ALL: Test = test(
    "ctl: status in three forms, flush, epoch, reload",
    all,
    &[as_root],
);
/// Each request is done when it is answered.
fn all() -> Result<()> {
    let bench = Bench::new()?;
    // No flush but those that are asked for.
    let mut service = bench.start(&bench.configure("collection.flush_seconds = 3600")?)?;
    let status = |bench: &Bench| -> Result<Value> {
        let output = bench.ctl(&["status", "--format", "json"])?;
        ensure!(output.status.success(), text(&output));
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    let before = status(&bench)?;
    ensure!(
        before["pid"] == service.pid() && before["database"]["flushes"] == 0,
        "{before}"
    );
    // It is asked in the first seconds, or late: either way it says what it knows.
    let people = text(&bench.ctl(&["status"])?);
    ensure!(
        people.contains("overhead  not known yet: it is measured from about ten seconds")
            || people.contains(" % of the machine (budget"),
        "{people}"
    );
    ensure!(!people.contains('?'), "{people}");
    let flush = bench.ctl(&["flush"])?;
    ensure!(flush.status.success(), text(&flush));
    ensure!(status(&bench)?["database"]["flushes"] == 1, "not flushed");
    let epoch = bench.ctl(&["epoch"])?;
    ensure!(
        text(&epoch).contains("epoch 2 begins in ") && text(&epoch).contains("-000002.db"),
        text(&epoch)
    );
    let now = status(&bench)?;
    ensure!(now["database"]["epoch"] == 2, "{now}");
    ensure!(bench.databases()?.len() == 2, "no second epoch");
    let first = &bench.databases()?[0];
    ensure_whole(first)?;
    bench.configure("sampling.rate = -1")?;
    let wrong = bench.ctl(&["reload"])?;
    ensure!(
        wrong.status.code() == Some(1) && text(&wrong).contains(":5:17:"),
        text(&wrong)
    );
    let wrong = bench.ctl(&["reload", "--format", "json"])?;
    let said: Value = serde_json::from_slice(&wrong.stdout)?;
    ensure!(
        wrong.status.code() == Some(1)
            && said["error"]
                .as_str()
                .is_some_and(|why| why.contains(":5:17:")),
        "{said}"
    );
    bench.configure("governor.budget_percent = 2.5")?;
    let reload = bench.ctl(&["reload"])?;
    ensure!(reload.status.success(), text(&reload));
    ensure!(
        status(&bench)?["overhead"]["budget_percent"] == 2.5,
        "not applied"
    );
    let people = bench.ctl(&["status"])?;
    for part in ["sampling  engine", "database  epoch 2 in ", "; 2 files, "] {
        ensure!(text(&people).contains(part), text(&people));
    }
    let prometheus = bench.ctl(&["status", "--format", "prometheus"])?;
    ensure!(
        text(&prometheus).contains("# TYPE vcpid_samples_total counter\nvcpid_samples_total "),
        text(&prometheus)
    );
    service.stop()?;
    Ok(())
}

pub(crate) const ONLY_THE_STATUS_FOR_MONITORS: Test = test(
    "ctl has only the status for monitors",
    only_the_status_for_monitors,
    &[as_root],
);
/// What has no form for a monitor is not asked for at all.
fn only_the_status_for_monitors() -> Result<()> {
    let bench = Bench::new()?;
    for request in ["flush", "epoch", "reload"] {
        let output = bench.ctl(&[request, "--format", "prometheus"])?;
        ensure!(
            output.status.code() == Some(2)
                && output.stdout.is_empty()
                && text(&output).contains("Usage"),
            text(&output)
        );
    }
    Ok(())
}

pub(crate) const NO_SERVICE: Test = test("ctl without a service says so", no_service, &[]);
/// Exit status 1, with the place where a service was looked for, and how one is started.
fn no_service() -> Result<()> {
    let bench = Bench::new()?;
    let output = bench.ctl(&["status"])?;
    ensure!(output.status.code() == Some(1), text(&output));
    let socket = bench.path("socket");
    for part in [socket.to_str().unwrap_or("?"), "systemctl start vcpid"] {
        ensure!(text(&output).contains(part), text(&output));
    }
    Ok(())
}

pub(crate) const STOPPED_SERVICE: Test = test(
    "a stopped service is waited for, which is said",
    stopped_service,
    &[as_root],
);
/// A service that is stopped is not waited for in silence: whoever asks is told what it is waited
/// for and where, gives up a status soon, and has the answer when it goes on.
fn stopped_service() -> Result<()> {
    let bench = Bench::new()?;
    let mut service = bench.start(&bench.configure("")?)?;
    service.await_flushes(1)?;
    service.signal(Signal::SIGSTOP)?;
    let status = bench.ctl(&["status"])?;
    ensure!(status.status.code() == Some(1), text(&status));
    for part in ["has not answered yet", "nothing came for 10 s", "stopped"] {
        ensure!(text(&status).contains(part), text(&status));
    }
    let mut reader = Command::new(&bench.programs.vcpi)
        .args(["status", "-i"])
        .arg(bench.path("socket"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut said = BufReader::new(reader.stderr.take().context("no standard error")?).lines();
    let first = said.next().context("it said nothing")??;
    service.signal(Signal::SIGCONT)?;
    ensure!(first.contains("has not answered yet"), "{first}");
    // What it says besides is of no interest, but must not fill the pipe.
    said.for_each(drop);
    let status = reader.wait()?;
    ensure!(status.success(), "{status}");
    service.stop()?;
    Ok(())
}
