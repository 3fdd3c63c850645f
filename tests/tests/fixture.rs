//! Profiles the fixture with the release build of both programs and holds every
//! even-tempered share to the truth. One recording serves all tests.
//!
//! What the biased functions show is printed by `cargo xtask demo`, not judged.

use std::process::ExitCode;
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Trial};
use vcpi_tests::fixture::{DEFAULT, profile};
use vcpi_tests::programs::Programs;
use vcpi_tests::shares::Comparison;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tests = vec![
        even("an argument has its true share", "even_argument"),
        even("a load from the stack has its true share", "even_load"),
        even("a branch has its true direction", "even_branch"),
        even("an indirect call has its true target", "even_target"),
        Trial::test("every share of the fixture is sampled", || {
            let missing: Vec<_> = comparisons()?
                .iter()
                .filter(|comparison| comparison.sampled.is_none())
                .map(|comparison| {
                    format!("{} ({})", comparison.truth.name, comparison.truth.function)
                })
                .collect();
            if missing.is_empty() {
                Ok(())
            } else {
                Err(format!("not sampled: {}", missing.join(", ")).into())
            }
        }),
    ];
    libtest_mimic::run(&arguments, tests).exit_code()
}

/// Holds the share of `function` to the truth: within 3 points at 3,000 windows.
fn even(name: &str, function: &'static str) -> Trial {
    Trial::test(name, move || {
        let comparison = comparisons()?
            .iter()
            .find(|comparison| comparison.truth.function == function)
            .ok_or_else(|| format!("the fixture says nothing about {function}"))?;
        if !comparison.truth.even_tempered {
            return Err(format!("{function} is not even-tempered").into());
        }
        Ok(comparison.verdict()?)
    })
}

/// The comparison of the one recording that all tests look at.
fn comparisons() -> Result<&'static [Comparison], String> {
    static RESULT: OnceLock<Result<Vec<Comparison>, String>> = OnceLock::new();
    RESULT
        .get_or_init(|| {
            let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
            Programs::find()
                .and_then(|programs| profile(&programs, folder.path(), DEFAULT))
                .map_err(|error| format!("{error:#}"))
        })
        .as_deref()
        .map_err(Clone::clone)
}
