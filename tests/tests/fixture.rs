//! Profiles the fixture with the release build of both programs and holds every
//! even-tempered share to the truth. One recording serves all tests, and another those of samples
//! of which a part goes without a way.
//!
//! What the biased functions show is printed by `cargo xtask demo`, not judged.

use std::process::ExitCode;
use std::sync::{Mutex, OnceLock};

use libtest_mimic::{Arguments, Trial};
use vcpi_tests::fixture::{DEFAULT, SPARSE, Settings, profile};
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

const EVEN: [(&str, &str); 4] = [
    ("an argument has its true share", "even_argument"),
    ("a load from the stack has its true share", "even_load"),
    ("a branch has its true direction", "even_branch"),
    ("an indirect call has its true target", "even_target"),
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut tests = Vec::new();
    for (name, function) in EVEN {
        tests.push(even(name.to_owned(), function, Samples::All));
        let name = format!("{name}, where a part of the ways is followed");
        tests.push(even(name, function, Samples::Sparse));
    }
    tests.push(Trial::test("every share of the fixture is sampled", || {
        let missing: Vec<_> = comparisons(Samples::All)?
            .iter()
            .filter(|comparison| comparison.sampled.is_none())
            .map(|comparison| format!("{} ({})", comparison.truth.name, comparison.truth.function))
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(format!("not sampled: {}", missing.join(", ")).into())
        }
    }));
    libtest_mimic::run(&arguments, tests).exit_code()
}

/// Holds the share of `function` to the truth: within 3 points at 3,000 windows.
fn even(name: String, function: &'static str, samples: Samples) -> Trial {
    Trial::test(name, move || {
        let comparison = comparisons(samples)?
            .iter()
            .find(|comparison| comparison.truth.function == function)
            .ok_or_else(|| format!("the fixture says nothing about {function}"))?;
        if !comparison.truth.even_tempered {
            return Err(format!("{function} is not even-tempered").into());
        }
        Ok(comparison.verdict()?)
    })
}

type Compared = OnceLock<Result<Vec<Comparison>, String>>;

/// The comparison of the one recording that these tests look at.
fn comparisons(samples: Samples) -> Result<&'static [Comparison], String> {
    static RESULTS: [Compared; 2] = [const { OnceLock::new() }; 2];
    // The second one would take processor time from the first.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let (result, settings): (_, Settings) = match samples {
        Samples::All => (&RESULTS[0], DEFAULT),
        Samples::Sparse => (&RESULTS[1], SPARSE),
    };
    let _alone = ONE_AT_A_TIME.lock();
    result
        .get_or_init(|| {
            let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
            Programs::find()
                .and_then(|programs| profile(&programs, folder.path(), settings))
                .map_err(|error| format!("{error:#}"))
        })
        .as_deref()
        .map_err(Clone::clone)
}
