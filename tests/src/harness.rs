//! Live tests: each is a constant above its function, with the sentence that it shows and what it
//! needs of the machine. The `main` of a test program lists them in their order.
//!
//! ```
//! use anyhow::{Result, ensure};
//! use vcpi_tests::harness::{Test, test};
//! use vcpi_tests::needs::as_root;
//!
//! pub(crate) const OTHERS: Test = test("root sees the processes of others", others, &[as_root]);
//! fn others() -> Result<()> {
//!     let seen = std::fs::exists("/proc/1")?;
//!     ensure!(seen, "no process 1");
//!     Ok(())
//! }
//! ```

use std::process::Output;
use std::sync::OnceLock;

use anyhow::{Result, anyhow};
use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};

use crate::needs::{Missing, Need};

/// A live test, whose function may be given something to test with.
#[derive(Clone, Copy, Debug)]
pub struct Test<F = fn() -> Result<()>> {
    /// What it shows, which is its name.
    pub sentence: &'static str,
    /// The function. What it finds missing on the way has it skipped ([`Missing`]), any other error
    /// is that what it should show is not so.
    pub run: F,
    /// What it needs of the machine, besides what it is built of. Where something is missing, it is
    /// skipped, for the first one's reason.
    pub needs: &'static [Need],
}

/// A test that shows what the sentence says: a function, and what it needs.
pub const fn test<F: Copy>(sentence: &'static str, run: F, needs: &'static [Need]) -> Test<F> {
    Test {
        sentence,
        run,
        needs,
    }
}

impl Test {
    /// The test as the harness takes it.
    pub fn trial(self) -> Trial {
        trial(self.sentence, self.needs.iter().copied(), self.run)
    }
}

/// A test whose name, needs or function follow from how it is run, as the harness takes it.
pub fn trial(
    name: impl Into<String>,
    needs: impl IntoIterator<Item = Need>,
    run: impl FnOnce() -> Result<()> + Send + 'static,
) -> Trial {
    let needs: Vec<Need> = needs.into_iter().collect();
    Trial::ignorable_test(name, move || {
        let missing = needs.iter().find_map(|need| need().err());
        completion(missing.map_or_else(run, |missing| Err(missing.into())))
    })
}

/// Runs tests in their order, as many at once as the command line says.
pub fn run(arguments: &Arguments, tests: impl IntoIterator<Item = Test>) -> Conclusion {
    libtest_mimic::run(arguments, tests.into_iter().map(Test::trial).collect())
}

/// The arguments for tests that run one at a time unless it is said otherwise: their programs would
/// take processor time from each other.
pub fn one_at_a_time() -> Arguments {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(1);
    arguments
}

/// Something that several tests share, and that takes long to make.
#[derive(Debug)]
pub struct Shared<T>(OnceLock<Result<T>>);

impl<T> Shared<T> {
    /// Not yet made.
    #[expect(clippy::new_without_default, reason = "it is the value of a static")]
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// What is shared. The first test to come makes it, while others wait.
    ///
    /// # Errors
    /// Each of the tests gets the error of the one time that it was made.
    pub fn get(&self, make: impl FnOnce() -> Result<T>) -> Result<&T> {
        self.0.get_or_init(make).as_ref().map_err(|error| {
            let missing = error.downcast_ref::<Missing>();
            missing.map_or_else(|| anyhow!("{error:#}"), |missing| missing.clone().into())
        })
    }
}

/// How a test ended. An error is told with all its causes.
fn completion(result: Result<()>) -> Result<Completion, Failed> {
    match result {
        Ok(()) => Ok(Completion::Completed),
        Err(error) => match error.downcast_ref() {
            Some(Missing(what)) => Ok(Completion::ignored_with(what)),
            None => Err(format!("{error:#}").into()),
        },
    }
}

/// A program's status and all that it printed.
pub fn text(output: &Output) -> String {
    format!(
        "{}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    /// How a test ended, and why.
    fn told(result: Result<()>) -> (&'static str, Option<String>) {
        match completion(result) {
            Ok(Completion::Completed) => ("passed", None),
            Ok(Completion::Ignored { reason }) => ("skipped", reason),
            Err(failed) => ("failed", failed.message().map(str::to_owned)),
        }
    }

    /// A test that lacks something is skipped with the reason, also where an error says in which
    /// step that was found.
    #[test]
    fn missing_skips() {
        let missing = || anyhow!(Missing::new("needs a moon"));
        for error in [missing(), missing().context("rising")] {
            let expected = ("skipped", Some("needs a moon".to_owned()));
            assert_eq!(told(Err(error)), expected);
        }
    }

    /// Any other error fails the test, and is told with what it is about and its causes.
    #[test]
    fn errors_fail() {
        let error = Err(anyhow!("no moon")).context("rising");
        assert_eq!(told(error), ("failed", Some("rising: no moon".to_owned())));
        assert_eq!(told(Ok(())), ("passed", None));
    }

    /// What tests share is made once; each of them gets it, or the error, or what is missing.
    #[test]
    fn shared_is_made_once() {
        let (made, failed, missing) = (Shared::new(), Shared::new(), Shared::<u8>::new());
        for number in 1..=2 {
            assert_eq!(made.get(|| Ok(number)).expect("it is made"), &1);
            let result = failed.get(|| Err::<u8, _>(anyhow!("no. {number}")).context("making"));
            let expected = ("failed", Some("making: no. 1".to_owned()));
            assert_eq!(told(result.map(drop)), expected);
            let result = missing.get(|| Err(Missing::new(format!("needs {number}")).into()));
            let expected = ("skipped", Some("needs 1".to_owned()));
            assert_eq!(told(result.map(drop)), expected);
        }
    }
}
