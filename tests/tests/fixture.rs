//! Profiles the fixture with the release build of both programs and holds every
//! even-tempered share to the truth. One recording serves all tests, and another those of samples
//! of which a part goes without a way.
//!
//! What the biased functions show is printed by `cargo xtask demo`, not judged.

use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::{Context as _, Result, ensure};
use libtest_mimic::Arguments;
use vcpi_tests::fixture::{DEFAULT, SPARSE, Settings, profile};
use vcpi_tests::harness::{Shared, Test, test, trial};
use vcpi_tests::needs::{Need, gcc};
use vcpi_tests::programs::Programs;
use vcpi_tests::shares::Comparison;

/// Of which recording a test is.
#[derive(Clone, Copy, Debug)]
enum Samples {
    /// All ways are followed.
    All,
    /// Some are.
    Sparse,
}

fn main() -> ExitCode {
    let mut tests = Vec::new();
    for (sentence, function) in EVEN {
        let name = format!("{sentence}, where a part of the ways is followed");
        tests.push(trial(sentence, [gcc as Need], || {
            even(function, Samples::All)
        }));
        tests.push(trial(name, [gcc as Need], || {
            even(function, Samples::Sparse)
        }));
    }
    tests.push(ALL_SAMPLED.trial());
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

/// Functions of the fixture, and what their shares show.
const EVEN: [(&str, &str); 4] = [
    ("an argument has its true share", "even_argument"),
    ("a load from the stack has its true share", "even_load"),
    ("a branch has its true direction", "even_branch"),
    ("an indirect call has its true target", "even_target"),
];
/// Holds the share of `function` to the truth: within 3 points at 3,000 windows.
fn even(function: &'static str, samples: Samples) -> Result<()> {
    let comparison = comparisons(samples)?
        .iter()
        .find(|comparison| comparison.truth.function == function)
        .with_context(|| format!("the fixture says nothing about {function}"))?;
    ensure!(
        comparison.truth.even_tempered,
        "{function} is not even-tempered"
    );
    comparison.verdict().map_err(anyhow::Error::msg)
}

const ALL_SAMPLED: Test = test("every share of the fixture is sampled", all_sampled, &[gcc]);
/// No share of the fixture's truth is without a sampled one.
fn all_sampled() -> Result<()> {
    let missing: Vec<_> = comparisons(Samples::All)?
        .iter()
        .filter(|comparison| comparison.sampled.is_none())
        .map(|comparison| format!("{} ({})", comparison.truth.name, comparison.truth.function))
        .collect();
    ensure!(missing.is_empty(), "not sampled: {}", missing.join(", "));
    Ok(())
}

/// The comparison of the one recording that these tests look at.
fn comparisons(samples: Samples) -> Result<&'static [Comparison]> {
    static RECORDINGS: [Shared<Vec<Comparison>>; 2] = [const { Shared::new() }; 2];
    // The second one would take processor time from the first.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let (recording, settings): (_, Settings) = match samples {
        Samples::All => (&RECORDINGS[0], DEFAULT),
        Samples::Sparse => (&RECORDINGS[1], SPARSE),
    };
    let _alone = ONE_AT_A_TIME.lock();
    let comparisons = recording.get(|| {
        let folder = tempfile::tempdir()?;
        profile(&Programs::find()?, folder.path(), settings)
    })?;
    Ok(comparisons)
}
