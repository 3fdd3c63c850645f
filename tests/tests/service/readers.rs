//! `vcpi` over the socket.

use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::as_root;
use vcpi_tests::programs::Programs;

use crate::bench::Bench;

fn report(bench: &Bench, words: &[&str]) -> Result<Output> {
    let mut command = Command::new(Programs::find()?.vcpi);
    command.arg("-i").arg(bench.path("socket")).args(words);
    Ok(command.output()?)
}

pub(crate) const EPOCHS: Test = test(
    "readers are told which epochs there are",
    epochs,
    &[as_root],
);
/// Epochs have the ids that `--epoch` takes, and each says how it ended; one that is not there is
/// answered with those that are.
fn epochs() -> Result<()> {
    let bench = Bench::new()?;
    let mut service = bench.start(&bench.configure("collection.flush_seconds = 3600")?)?;
    let next = bench.ctl(&["epoch"])?;
    ensure!(next.status.success(), text(&next));
    let output = report(&bench, &["status", "--format", "json"])?;
    ensure!(output.status.success(), text(&output));
    let status: Value = serde_json::from_slice(&output.stdout)?;
    let epochs = status["epochs"].as_array().context("no list of epochs")?;
    let of = |epoch: &Value| (epoch["id"].clone(), epoch["state"].clone());
    let found: Vec<(Value, Value)> = epochs.iter().map(of).collect();
    let expected = [(1.into(), "ended".into()), (2.into(), "running".into())];
    ensure!(found == expected, "{status}");
    let one = report(&bench, &["status", "--epoch", "2"])?;
    ensure!(one.status.success(), text(&one));
    let none = report(&bench, &["top", "--epoch", "99"])?;
    ensure!(
        none.status.code() == Some(1) && text(&none).contains("no epoch 99; there is"),
        text(&none)
    );
    service.stop()?;
    Ok(())
}
