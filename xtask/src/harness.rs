//! Reads what test programs print (the standard harness, doc-tests, and
//! libtest-mimic) and adds it up. Looks at lines only.

/// How the reasons of permitted skips start: what a machine may lack.
const PERMITTED_SKIPS: [&str; 5] = [
    "needs the hardware cycle counter",
    "needs avx512",
    "needs two processors",
    "needs breakpoints that say so",
    "needs a processor that can be taken offline",
];

/// A test that did not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skip {
    /// The test.
    pub(crate) name: String,
    /// Why; empty if it did not say.
    pub(crate) reason: String,
}

impl Skip {
    /// Whether a test may be skipped for this reason.
    pub(crate) fn is_permitted(&self) -> bool {
        let mut permitted = PERMITTED_SKIPS.iter();
        permitted.any(|start| self.reason.starts_with(start))
    }
}

/// What the test programs said so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests that failed, and test programs that ended without a result.
    pub(crate) failed: u64,
    /// Tests reported as ignored.
    pub(crate) skipped: u64,
    /// Those of the ignored whose line was understood.
    pub(crate) skips: Vec<Skip>,
    /// What the harness said of the tests that failed, behind their output.
    pub(crate) failures: Vec<String>,
    /// Test programs that announced their tests and never gave a result.
    pub(crate) crashed: u64,
    /// The lines are what the harness says of failures.
    failing: bool,
    /// A test program has announced its tests and not yet given its result.
    running: bool,
}

impl Tally {
    /// Takes one line of output.
    pub(crate) fn line(&mut self, line: &str) {
        let line = line.trim_end();
        if is_announcement(line) {
            self.end();
            self.running = true;
        } else if let Some(result) = line.strip_prefix("test result: ") {
            self.running = false;
            self.failing = false;
            self.passed += count(result, "passed");
            self.failed += count(result, "failed");
            self.skipped += count(result, "ignored");
        } else if line == "failures:" {
            // Once before what they said, once more before their names alone.
            self.failing = !self.failing;
        } else if self.failing {
            self.failures.push(line.to_owned());
        } else if let Some(skip) = skip(line) {
            self.skips.push(skip);
        }
    }

    /// Takes note that nothing more comes (from this test program).
    pub(crate) fn end(&mut self) {
        self.failing = false;
        if std::mem::take(&mut self.running) {
            self.crashed += 1;
            self.failed += 1;
        }
    }

    /// Skips that are not permitted, as complaints; empty if all is well.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut complaints: Vec<String> = self
            .skips
            .iter()
            .filter(|skip| !skip.is_permitted())
            .map(|skip| match skip.reason.as_str() {
                "" => format!("{} was skipped without a reason", skip.name),
                reason => format!(
                    "{} was skipped for want of more than permitted: {reason}",
                    skip.name
                ),
            })
            .collect();
        let unexplained = self.skipped.saturating_sub(self.skips.len() as u64);
        if unexplained > 0 {
            complaints.push(format!(
                "{unexplained} tests were skipped whose names were not found"
            ));
        }
        complaints
    }

    /// The closing line.
    pub(crate) fn summary(&self) -> String {
        format!(
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

/// `running 3 tests`
fn is_announcement(line: &str) -> bool {
    line.strip_prefix("running ")
        .and_then(|rest| {
            rest.strip_suffix(" tests")
                .or_else(|| rest.strip_suffix(" test"))
        })
        .is_some_and(|number| number.parse::<u64>().is_ok())
}

/// The number before `what` in `ok. 3 passed; 0 failed; 1 ignored; ...`.
fn count(result: &str, what: &str) -> u64 {
    result
        .split([';', '.'])
        .filter_map(|part| part.trim().strip_suffix(what))
        .find_map(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

/// `test NAME ... ignored`, with `, REASON` (standard harness) or ` (REASON)`
/// (libtest-mimic) behind.
fn skip(line: &str) -> Option<Skip> {
    let (name, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ignored")?;
    let reason = match outcome.strip_prefix(", ") {
        Some(reason) => reason,
        None if outcome.is_empty() => "",
        None => outcome.strip_prefix(" (")?.strip_suffix(')')?,
    };
    Some(Skip {
        name: name.trim().to_owned(),
        reason: reason.trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(text: &str) -> Tally {
        let mut tally = Tally::default();
        text.lines().for_each(|line| tally.line(line));
        tally.end();
        tally
    }

    /// Results of several test programs are added up.
    #[test]
    fn results_add_up() {
        let result = tally(
            "\nrunning 2 tests\ntest a ... ok\ntest b - should panic ... ok\n\n\
             test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
             running 1 test\ntest c ... FAILED\n\
             test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1.50s\n",
        );
        assert_eq!(result.summary(), "2 passed, 1 failed, 0 skipped");
        assert!(result.complaints().is_empty());
    }

    /// What is said of failures is kept, not what tests print otherwise.
    #[test]
    fn failures_are_kept() {
        let result = tally(
            "running 2 tests\nnoise\ntest a ... ok\ntest b ... FAILED\n\n\
             failures:\n\n---- b ----\nit is 3, not 4\n\nfailures:\n    b\n\n\
             test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s\n",
        );
        assert_eq!(result.failures, ["", "---- b ----", "it is 3, not 4", ""]);
        assert_eq!(result.summary(), "1 passed, 1 failed, 0 skipped");
    }

    /// The reason of a skip is read in both harnesses' spelling, and permitted only
    /// where the hardware is what is missing.
    #[test]
    fn reasons_of_skips() {
        let result = tally(
            "running 5 tests\n\
             test live::avx512_1       ... ignored (needs avx512)\n\
             test live::cycles         ... ignored (needs the hardware cycle counter: no PMU here)\n\
             test cycles ... ignored, needs the hardware cycle counter\n\
             test slow ... ignored, takes long\n\
             test src/lib.rs - f (line 3) ... ignored\n\
             test result: ok. 0 passed; 0 failed; 5 ignored; 0 measured; 0 filtered out; finished in 0s\n",
        );
        assert_eq!(result.summary(), "0 passed, 0 failed, 5 skipped");
        assert_eq!(result.skips[1].name, "live::cycles");
        let complaints = result.complaints();
        assert_eq!(complaints.len(), 2);
        assert!(complaints[0].contains("takes long"));
        assert!(complaints[1].contains("without a reason"));
    }

    /// A skip that only the result line tells of is complained about as well.
    #[test]
    fn skips_without_a_line() {
        let result = tally(
            "running 1 test\ntest a ... noise\nignored\n\
             test result: ok. 0 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!(result.complaints().len(), 1);
    }

    /// A test program that ends without its result counts as failed.
    #[test]
    fn crashed_programs() {
        let result = tally(
            "running 3 tests\ntest a ... ok\nrunning 1 test\ntest b ... ok\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\nrunning 9 tests\n",
        );
        assert_eq!((result.passed, result.failed, result.crashed), (1, 2, 2));
    }

    /// What a test prints itself is not taken for the harness's lines.
    #[test]
    fn other_output() {
        let result = tally("running late\nrunning two tests\ntest of patience\nignored\n");
        assert_eq!(result, Tally::default());
    }
}
