//! Days rolled up: what that takes, what is left, and how right it is; and killed on the way.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hotlist::Generator;
use profiledb::rollup::{Limits, RollUpStep, RollUps};
use profiledb::{Directory, Filter, Profile};
use selection::Kinds;

use super::{days, times};

/// Every hour, day and week is over by then.
const LATER: i64 = 1 << 62;

/// MiB of an hour of the default configuration.
pub(super) const HOUR_MIB: f64 = 7.0;

/// Bytes of the default configuration, but for an hour's.
const USUAL: Limits = Limits {
    hour: 0,
    day: 150 << 20,
    week: 375 << 20,
};

/// Which lists are compared with what they were: of so many events that were counted, and more.
/// What lists stand for that were left out is no such event.
const ENOUGH: f64 = 1_000.0;

/// Rolls up all that there is in a folder, and says so piece by piece if it is to be killed.
///
/// # Errors
/// What a piece fails by.
pub(crate) fn roll(folder: &Path, is_told: bool, hour_mib: f64) -> Result<()> {
    let limits = match is_told {
        // What is left must be all that there was.
        true => Limits {
            hour: 1 << 40,
            day: 1 << 40,
            week: 1 << 40,
        },
        false => Limits {
            // Far below what a double can count.
            hour: (hour_mib * f64::from(1 << 20)) as u64,
            ..USUAL
        },
    };
    if is_told {
        return pieces(folder, &limits, || {
            Ok(writeln!(std::io::stdout(), "a piece")?)
        })
        .map(drop);
    }
    let of_image = image(folder)?;
    let before = Sums::of(&days::files(folder)?, &of_image)?;
    println!("| | MiB | files | processor, s | longest piece, ms |\n|---|---|---|---|---|");
    row("as flushed", folder, &Took::default())?;
    for (name, limits) in [
        ("hours", Limits { day: 0, ..limits }),
        ("days", Limits { week: 0, ..limits }),
        ("weeks", limits),
    ] {
        let took = pieces(folder, &limits, || Ok(()))?;
        row(name, folder, &took)?;
    }
    let after = Sums::of(&days::files(folder)?, &of_image)?;
    println!("\n{}", after.compared(&before));
    Ok(())
}

/// What roll-ups took.
#[derive(Debug, Default)]
struct Took {
    processor: Duration,
    longest: Duration,
}

fn pieces(folder: &Path, limits: &Limits, mut told: impl FnMut() -> Result<()>) -> Result<Took> {
    let mut rollups = RollUps::new(Directory::new(folder)?);
    let mut took = Took::default();
    loop {
        let begun = (Instant::now(), days::processor()?);
        if rollups.step(LATER, None, limits)? == RollUpStep::Idle {
            return Ok(took);
        }
        took.processor += days::processor()?.saturating_sub(begun.1);
        took.longest = took.longest.max(begun.0.elapsed());
        told()?;
    }
}

fn row(name: &str, folder: &Path, took: &Took) -> Result<()> {
    println!(
        "| {name} | {:.1} | {} | {:.1} | {:.0} |",
        times::mib(folder)?,
        days::files(folder)?.len(),
        took.processor.as_secs_f64(),
        took.longest.as_secs_f64() * 1e3,
    );
    Ok(())
}

/// The image whose lists are compared: the one with the fewest samples that is a file and not idle,
/// as all would not find room in memory.
fn image(folder: &Path) -> Result<String> {
    let kinds = Kinds {
        values: false,
        branches: false,
        calls: false,
        ..Kinds::default()
    };
    let first = days::files(folder)?
        .into_iter()
        .next()
        .context("no database")?;
    let (profile, _) = Profile::load_kinds(&[first], &Filter::default(), kinds)?;
    let mut samples: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &profile.cycles {
        let image = &profile.images[profile.pcs[row.pc].image];
        if image.kind == profiledb::ImageKind::File {
            *samples.entry(&image.path).or_default() += row.samples;
        }
    }
    let all: u64 = samples.values().sum();
    // Of what hardly ran there is no list.
    samples.retain(|_, samples| *samples * 1_000 >= all);
    let least = samples.iter().min_by_key(|(_, samples)| **samples);
    Ok((*least.context("no image")?.0).to_owned())
}

/// Values of a list that stay in any case.
const MOST_VALUES: usize = 64;

/// What databases tell, added up.
#[derive(Debug, Default, PartialEq)]
struct Sums {
    exact: [u64; 5],
    /// A sum of numbers with fractions, in any order.
    cycles: f64,
    counters: BTreeMap<(String, String), u64>,
    /// Of one image: by address and parameter.
    lists: BTreeMap<(u64, String), BTreeMap<u64, f64>>,
    /// Events that were counted at least.
    counted: BTreeMap<(u64, String), f64>,
    reached: f64,
}

impl Sums {
    /// Those of databases or folders, of which one at a time is in memory.
    fn of(paths: &[PathBuf], image: &str) -> Result<Self> {
        let mut sums = Sums::default();
        let kinds = Kinds {
            values: false,
            ..Kinds::default()
        };
        for path in paths {
            let path = path.clone();
            let (profile, _) = Profile::load_kinds(&[path], &Filter::default(), kinds)?;
            sums.add(&profile);
        }
        let filter = Filter {
            images: vec![image.to_owned()],
            ..Filter::default()
        };
        let kinds = Kinds {
            values: true,
            cycles: false,
            branches: false,
            calls: false,
            stacks: false,
            counters: false,
        };
        for path in paths {
            let path = path.clone();
            let (profile, _) = Profile::load_kinds(&[path], &filter, kinds)?;
            sums.add_lists(&profile);
        }
        Ok(sums)
    }

    fn add(&mut self, profile: &Profile) {
        for row in &profile.cycles {
            self.exact[0] += row.samples;
            self.cycles += row.cycles;
        }
        for row in &profile.branches {
            let times = [row.taken, row.not_taken, row.unknown];
            for (sum, more) in self.exact[1..4].iter_mut().zip(times) {
                *sum += more;
            }
        }
        self.exact[4] += profile.calls.iter().map(|row| row.calls).sum::<u64>();
        for (key, value) in profile
            .counters
            .iter()
            .filter(|(key, _)| key.0 != "storage")
        {
            *self.counters.entry(key.clone()).or_default() += value;
        }
    }

    fn add_lists(&mut self, profile: &Profile) {
        for row in &profile.hotlists {
            let key = (profile.pcs[row.pc].address, row.parameter.to_string());
            self.reached += row.reached;
            let counted = row.list.tuples().map(|tuple| tuple.least).sum::<f64>();
            *self.counted.entry(key.clone()).or_default() += counted;
            let values = self.lists.entry(key).or_default();
            for tuple in row.list.tuples() {
                *values.entry(tuple.value).or_default() += tuple.estimate;
            }
        }
    }

    /// Whether what is never thinned is the same.
    fn is_exact(&self, before: &Sums) -> bool {
        let off = (self.cycles - before.cycles).abs();
        self.exact == before.exact
            && self.counters == before.counters
            && off <= 1e-9 * before.cycles
    }

    /// Both, in words.
    fn exactly(&self, before: &Sums) -> String {
        let [here, there] = [self, before].map(|sums| (sums.exact, sums.cycles));
        format!("{here:?} and not {there:?}")
    }

    /// What is not told once of what was before, if anything is not. Of lists of very many values
    /// the rare ones are drawn lots for, whatever room there is: these tell how often they were
    /// reached.
    fn wrong(&self, before: &Sums) -> Option<String> {
        if !self.is_exact(before) {
            return Some(self.exactly(before));
        }
        if self.reached != before.reached {
            return Some(format!("{} and not {}", self.reached, before.reached));
        }
        if self.lists.len() != before.lists.len() {
            let lists = [self.lists.len(), before.lists.len()];
            return Some(format!("{} lists and not {}", lists[0], lists[1]));
        }
        let whole = |values: &BTreeMap<u64, f64>| values.len() <= MOST_VALUES;
        let mut lists = before.lists.iter().filter(|(_, values)| whole(values));
        let (key, values) = lists.find(|(key, values)| self.lists.get(*key) != Some(*values))?;
        let here = self.lists.get(key);
        Some(format!("{key:?} has {here:?} and not {values:?}"))
    }

    /// How they differ from those of before, in words.
    fn compared(&self, before: &Sums) -> String {
        let exact = match self.is_exact(before) {
            true => "the same".to_owned(),
            false => self.exactly(before),
        };
        let (mut squares, mut shares, mut lists) = (0.0, 0, 0);
        for (key, values) in &before.lists {
            let all: f64 = values.values().sum();
            if before
                .counted
                .get(key)
                .is_none_or(|counted| *counted < ENOUGH)
            {
                continue;
            }
            lists += 1;
            let found = self.lists.get(key);
            let total = found
                .map_or(0.0, |values| values.values().sum::<f64>())
                .max(1.0);
            let mut largest: Vec<_> = values.iter().collect();
            largest.sort_by(|a, b| b.1.total_cmp(a.1));
            for (value, events) in largest.into_iter().take(5) {
                let here = found.and_then(|values| values.get(value)).unwrap_or(&0.0);
                squares += (100.0 * (here / total - events / all)).powi(2);
                shares += 1;
            }
        }
        format!(
            "Sums of cycles, branches, calls and counters: {exact}. Values reached, of one image: \
             {:+.3} %. The {shares} largest shares of its {lists} lists of {ENOUGH} events and \
             more: {:.3} points off (root of the mean square).",
            100.0 * (self.reached / before.reached.max(1.0) - 1.0),
            (squares / f64::from(shares.max(1))).sqrt(),
        )
    }
}

/// Kills what rolls up a folder again and again, and sees each time whether all is told once.
///
/// # Errors
/// If it is not, or something cannot be run.
pub(super) fn kills(xtask: &Path, folder: &Path, kills: u32) -> Result<()> {
    let mut coins = Generator::new(1);
    let image = image(folder)?;
    // Together: a kill may leave a week beside the days that it is made of, and readers leave these
    // out.
    let all = [folder.to_owned()];
    let before = Sums::of(&all, &image)?;
    let (mut killed, mut ends) = (0, 0);
    let original: Vec<PathBuf> = days::files(folder)?;
    let kept = folder.with_extension("kept");
    copy(&original, &kept)?;
    while killed < kills {
        let mut command = Command::new(xtask);
        command.arg("__roll").arg(folder).arg("--tell");
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .context("running xtask")?;
        let output = child.stdout.take().context("no output")?;
        let mut lines = BufReader::new(output).lines();
        for _ in 0..coins.next_u64() % 12 {
            lines.next();
        }
        // Somewhere in the next piece.
        let until = Instant::now() + Duration::from_micros(coins.next_u64() % 20_000);
        while Instant::now() < until {}
        child.kill()?;
        let status = child.wait()?;
        // What the next start of the service does first.
        Directory::new(folder)?.recover(|_| false, |_| {})?;
        if let Some(wrong) = Sums::of(&all, &image)?.wrong(&before) {
            bail!(
                "after {killed} kills not all is told once: {wrong}; see {}",
                folder.display()
            );
        }
        if status.success() {
            ends += 1;
            std::fs::remove_dir_all(folder)?;
            copy(&days::files(&kept)?, folder)?;
        } else {
            killed += 1;
        }
    }
    println!("{killed} kills, {ends} times all was rolled up: every event was told once");
    Ok(())
}

fn copy(files: &[PathBuf], folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    for path in files {
        let name = path.file_name().context("a file without a name")?;
        std::fs::copy(path, folder.join(name))?;
    }
    Ok(())
}
