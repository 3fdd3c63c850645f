//! All builds of a program at once on one processor: they meet the same neighbours of a shared
//! machine, so that their ratios are steadier than those of runs in turn.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use super::builds::{Variant, Work};
use crate::process::progress;

/// Processor time of each build in seconds, round by round.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Times {
    /// The builds that there are.
    pub(super) variants: Vec<String>,
    pub(super) rounds: Vec<Vec<f64>>,
}

impl Times {
    /// As lines of words: the names, then a line for each round.
    pub(super) fn text(&self) -> String {
        let rounds = self.rounds.iter().map(|round| {
            let words: Vec<String> = round.iter().map(f64::to_string).collect();
            words.join(" ")
        });
        let mut lines = vec![self.variants.join(" ")];
        lines.extend(rounds);
        lines.join("\n") + "\n"
    }

    /// Of such lines.
    pub(super) fn of(text: &str) -> Result<Times> {
        let mut lines = text.lines();
        let names = lines.next().unwrap_or_default().split(' ');
        let variants: Vec<String> = names.map(str::to_owned).collect();
        let rounds = lines
            .map(|line| line.split(' ').map(str::parse).collect())
            .collect::<Result<Vec<Vec<f64>>, _>>()?;
        if rounds.iter().any(|round| round.len() != variants.len()) {
            bail!("a round has another number of times than there are builds");
        }
        Ok(Times { variants, rounds })
    }
}

/// Lets all builds that there are run the same load, so many times. A round before them does not
/// count.
///
/// # Errors
/// If a build fails, or prints something else than the plain one.
pub(super) fn run(work: &Work, rounds: usize, processor: usize) -> Result<Times> {
    let is_there = |variant: &Variant| work.build(*variant).is_file();
    let variants: Vec<Variant> = Variant::ALL.into_iter().filter(is_there).collect();
    let mut times = Times {
        variants: variants.iter().map(|one| one.name().to_owned()).collect(),
        rounds: Vec::new(),
    };
    let folder = work.folder.join("race");
    for round in 0..=rounds {
        if folder.is_dir() {
            std::fs::remove_dir_all(&folder).context("removing what the last round wrote")?;
        }
        progress(&format!("{}: round {round} of {rounds}", work.program.name));
        let mut running = Vec::new();
        for place in 0..variants.len() {
            // Who starts first changes.
            let variant = variants[(place + round) % variants.len()];
            let at = folder.join(variant.name());
            std::fs::create_dir_all(&at).context("making a folder")?;
            running.push((variant, start(work, variant, &at, processor)?));
        }
        for (variant, child) in &mut running {
            let status = child.wait().context("waiting for a build")?;
            if !status.success() {
                bail!("{}, {}: {status}", work.program.name, variant.name());
            }
        }
        let printed = |variant: &Variant| std::fs::read(folder.join(variant.name()).join("out"));
        let plain = printed(&Variant::Plain)?;
        for variant in &variants {
            if printed(variant)? != plain {
                bail!(
                    "{}: {} prints something else than the plain build",
                    work.program.name,
                    variant.name()
                );
            }
        }
        if round > 0 {
            let time = |variant: &Variant| {
                let file = folder.join(variant.name()).join("time");
                let text = std::fs::read_to_string(file).context("reading a time")?;
                text.parse().context("a time")
            };
            times
                .rounds
                .push(variants.iter().map(time).collect::<Result<_>>()?);
        }
    }
    std::fs::remove_dir_all(&folder).context("removing what the last round wrote")?;
    Ok(times)
}

/// Starts a build on a processor.
fn start(work: &Work, variant: Variant, at: &Path, processor: usize) -> Result<Child> {
    let own = std::env::current_exe().context("asking for the own path")?;
    let mut command = Command::new("taskset");
    command.args(["-c", &processor.to_string()]).arg(own);
    command.arg("__timed").arg(at.join("time"));
    command.args(["sh", "-ec", work.program.test]);
    command.current_dir(at).envs(work.variables());
    command.env("PROG", work.build(variant));
    let out = File::create(at.join("out")).context("a file for what it prints")?;
    command.stdin(Stdio::null()).stdout(out);
    command.spawn().context("running taskset")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times that were kept are those that were taken.
    #[test]
    fn kept_times() {
        let times = Times {
            variants: vec!["plain".to_owned(), "vcpi".to_owned()],
            rounds: vec![vec![1.5, 1.25], vec![1.75, 0.1 + 0.2]],
        };
        assert_eq!(Times::of(&times.text()).unwrap(), times);
        assert!(Times::of("plain vcpi\n1.5\n").is_err());
    }
}
