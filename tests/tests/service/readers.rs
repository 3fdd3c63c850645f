//! `vcpi` over the socket.

use std::process::{Command, Output};

use libtest_mimic::Failed;
use serde_json::Value;
use vcpi_tests::programs::Programs;

use crate::bench::Bench;
use crate::common::{ensure, text};
use crate::{TestResult, done};

fn report(bench: &Bench, words: &[&str]) -> Result<Output, Failed> {
    let mut command = Command::new(Programs::find()?.vcpi);
    command.arg("-i").arg(bench.path("socket")).args(words);
    Ok(command.output()?)
}

/// Epochs have the ids that `--epoch` takes, and each says how it ended; one that is not there is
/// answered with those that are.
pub(crate) fn epochs() -> TestResult {
    let bench = Bench::new()?;
    let mut service = bench.start(&bench.configure("collection.flush_seconds = 3600")?)?;
    let next = bench.ctl(&["epoch"])?;
    ensure(next.status.success(), || text(&next))?;
    let output = report(&bench, &["status", "--format", "json"])?;
    ensure(output.status.success(), || text(&output))?;
    let status: Value = serde_json::from_slice(&output.stdout)?;
    let epochs = status["epochs"].as_array().ok_or("no list of epochs")?;
    let of = |epoch: &Value| (epoch["id"].clone(), epoch["state"].clone());
    let found: Vec<(Value, Value)> = epochs.iter().map(of).collect();
    let expected = [(1.into(), "ended".into()), (2.into(), "running".into())];
    ensure(found == expected, || status.to_string())?;
    let one = report(&bench, &["status", "--epoch", "2"])?;
    ensure(one.status.success(), || text(&one))?;
    let none = report(&bench, &["top", "--epoch", "99"])?;
    ensure(
        none.status.code() == Some(1) && text(&none).contains("no epoch 99; there is"),
        || text(&none),
    )?;
    service.stop()?;
    done()
}
