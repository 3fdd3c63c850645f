//! `pgo`: from a running program to a faster one. Each step is another program's command, which is
//! printed before it runs.

mod build;
mod cargo;
mod compare;
mod make;
mod routes;
mod steps;
mod unread;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::Subcommand;

use self::build::{Wanted, build};
use self::routes::{Route, major};
use self::steps::{BuildStep, vcpi, vcpid};
use crate::args::Common;
use crate::export::bolt::{has_relocations, layout};
use crate::export::output::is_same;
use crate::failure::Failure;
use crate::messages::say;
use crate::renderers::Format;
use crate::shell::quoted;
use crate::stdout;
use crate::toolchain::{BOLT, PERF2BOLT, Tool, version};
use crate::trial::{LEAST_ROUNDS, ROUNDS};

/// The steps from a program to a faster one.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum PgoCommand {
    /// Run a command and record it: `vcpid record`.
    Record {
        /// The database to write.
        #[arg(short, long, value_name = "FILE", default_value = "vcpi.db")]
        output: PathBuf,
        /// Samples per second and processor.
        #[arg(long, value_name = "HZ", default_value_t = 1000)]
        rate: u32,
        /// Callers of each sample that are recorded at most [default: vcpid's].
        #[arg(long, value_name = "N")]
        frames: Option<u8>,
        #[command(flatten)]
        how: How,
        /// The command.
        #[arg(required = true, trailing_var_arg = true)]
        command: Vec<OsString>,
    },
    /// Build with the profile of the program that `--image` names; without `--image`, build for
    /// being recorded. C and C++ by clang or gcc, Rust by cargo. Both builds take the same --by.
    Build {
        /// The kind of profile, which `vcpi export` writes. What is linked is laid out anew by
        /// `vcpi pgo bolt`.
        #[arg(long, value_enum, default_value_t)]
        by: Route,
        /// Where the compiler puts the code that it would instrument (--by proftext): a build
        /// without --image writes this folder, one with --image reads it.
        #[arg(long, value_name = "FOLDER")]
        skeleton: Option<PathBuf>,
        /// Take more code for hot: the second build to try.
        #[arg(long)]
        hot: bool,
        /// Tell the counts of a function apart by the calls that lead there (--by profgen).
        #[arg(long)]
        contexts: bool,
        /// Keep relocations in the program, which BOLT needs.
        #[arg(long)]
        relocations: bool,
        #[command(flatten)]
        from: Basis,
        #[command(flatten)]
        how: How,
        /// The command that builds: cargo, make, cmake, another one that heeds CC and CXX, or a
        /// compiler by its name.
        #[arg(required = true, trailing_var_arg = true)]
        command: Vec<OsString>,
    },
    /// Lay out a linked program anew with BOLT.
    Bolt {
        /// The program that was recorded.
        binary: PathBuf,
        /// The new program [default: its name with `.bolt` behind it].
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        from: Basis,
        #[command(flatten)]
        how: How,
    },
    /// Run two builds in turn, and tell which one takes less processor time.
    Compare {
        /// A build.
        a: OsString,
        /// Another one.
        b: OsString,
        /// Rounds: runs of each build.
        #[arg(long, value_name = "N", default_value_t = ROUNDS,
              value_parser = clap::value_parser!(u16).range(LEAST_ROUNDS..))]
        rounds: u16,
        #[command(flatten)]
        how: How,
        /// What the builds are told; or a whole command, in which `{}` stands for the build.
        #[arg(last = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
}

/// How steps are taken.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct How {
    /// Print the commands on standard output, and run none.
    #[arg(long)]
    dry_run: bool,
}

/// What profiles are taken from.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Basis {
    /// Take also what rests on fewer than 2500 samples.
    #[arg(long)]
    few: bool,
}

impl PgoCommand {
    /// Takes the step.
    ///
    /// # Errors
    /// If the question makes no sense, a program is missing, or one fails.
    pub(crate) fn run(&self, common: &Common) -> Result<(), Failure> {
        match self {
            PgoCommand::Record {
                output,
                rate,
                frames,
                how,
                command,
            } => {
                refuse("record", common, &[])?;
                let step = record(output, *rate, *frames, command);
                match how.dry_run {
                    true => how.take(&[step]),
                    false => run_record(&step, output),
                }
            }
            PgoCommand::Build {
                by,
                skeleton,
                hot,
                contexts,
                relocations,
                from,
                how,
                command,
            } => {
                match common.image.is_empty() {
                    true => refuse("build without --image", common, &[])?,
                    false => refuse("build", common, &EXPORTED)?,
                }
                let wanted = Wanted {
                    by: *by,
                    skeleton: skeleton.as_deref(),
                    hot: *hot,
                    contexts: *contexts,
                    relocations: *relocations,
                };
                how.take(&build(common, wanted, *from, *how, command)?)
            }
            PgoCommand::Bolt {
                binary,
                output,
                from,
                how,
            } => how.take(&bolt(common, binary, output.as_deref(), *from, *how)?),
            PgoCommand::Compare {
                a,
                b,
                rounds,
                how,
                command,
            } => {
                refuse("compare", common, &["--format"])?;
                let builds = [a.as_os_str(), b.as_os_str()];
                compare::run(common, builds, *rounds, *how, command)
            }
        }
    }
}

impl How {
    /// Takes steps, one behind the other.
    fn take(self, steps: &[BuildStep]) -> Result<(), Failure> {
        for step in steps {
            if self.dry_run {
                stdout::write(format!("{step}\n").as_bytes())?;
                continue;
            }
            say(&format!("$ {step}"));
            step.run()?;
        }
        Ok(())
    }

    /// What the names of tools end in; where nothing is run, they need not be here.
    fn version(self, tools: &[Tool]) -> Result<String, Failure> {
        match version(tools) {
            Err(failure) if self.dry_run => {
                say(&failure.to_string());
                Ok(String::new())
            }
            other => other,
        }
    }

    /// The version of GCC, for which an export writes; `None`: nothing is run, and it is not here.
    fn gcc(self) -> Result<Option<String>, Failure> {
        let asked = BuildStep::new(["gcc", "-dumpversion"]);
        let output = std::process::Command::new("gcc")
            .arg("-dumpversion")
            .output();
        match output {
            Ok(output) => match major(&output.stdout) {
                Some(version) => Ok(Some(version.to_owned())),
                None => Err(Failure::Program(format!("this told no version: {asked}"))),
            },
            Err(_) if self.dry_run => Ok(None),
            Err(error) => Err(Failure::Program(format!("cannot run {asked} ({error})"))),
        }
    }
}

/// Options that exports take from a step.
const EXPORTED: [&str; 7] = [
    "-i (--input)",
    "--image",
    "--pid",
    "--user",
    "--epoch",
    "--since",
    "--until",
];

/// Refuses options of reports that a step makes nothing of.
fn refuse(step: &str, common: &Common, takes: &[&str]) -> Result<(), Failure> {
    let others = [
        ("--format", common.format != Format::Text),
        ("--min-samples", common.min_samples.is_some()),
        ("-n (--lines)", common.lines.is_some()),
        ("--no-symbols", common.no_symbols),
        ("--full-names", common.full_names),
        ("--explain", common.explain),
    ];
    let input = ("-i (--input)", !common.input.is_empty());
    let mut given = [input].into_iter().chain(common.choices()).chain(others);
    let refused = |(name, is_given): &(&str, bool)| *is_given && !takes.contains(name);
    match given.find(refused) {
        None => Ok(()),
        Some((name, _)) => Err(Failure::Usage(format!(
            "pgo {step}: {name} means nothing here; leave it out"
        ))),
    }
}

/// Runs a recording, and says what comes next if it was saved. How the command ended is passed on,
/// as by the collector.
fn run_record(step: &BuildStep, output: &Path) -> Result<(), Failure> {
    let state = || {
        let file = std::fs::metadata(output).ok()?;
        Some((file.len(), file.modified().ok()?))
    };
    let before = state();
    say(&format!("$ {step}"));
    let status = step.status()?;
    let ended = status.code().and_then(|code| u8::try_from(code).ok());
    let is_saved = state().is_some_and(|now| before != Some(now));
    if !is_saved || ended.is_none() {
        return Err(step.failed(&format!("this step saved nothing ({status})")));
    }
    say(&format!(
        "next: vcpi pgo build -i {} --image PROGRAM -- COMMAND",
        quoted(output.as_os_str())
    ));
    match ended {
        None | Some(0) => Ok(()),
        Some(ended) => Err(Failure::Ended(ended)),
    }
}

fn record(output: &Path, rate: u32, frames: Option<u8>, command: &[OsString]) -> BuildStep {
    let mut step = BuildStep::new([vcpid()]);
    step.words.extend(["record", "-o"].map(OsString::from));
    step.words.push(output.into());
    step.words.push("--rate".into());
    step.words.push(rate.to_string().into());
    if let Some(frames) = frames {
        step.words.push("--frames".into());
        step.words.push(frames.to_string().into());
    }
    step.words.push("--".into());
    step.words.extend(command.iter().cloned());
    step
}

/// The export of a program's profile to a file.
fn export(common: &Common, kind: &str, image: &OsStr, output: &Path, from: Basis) -> BuildStep {
    let mut step = BuildStep::new([vcpi()]);
    step.words.extend(["export", kind].map(OsString::from));
    let mut option = |name: &str, value: &OsStr| {
        step.words.push(name.into());
        step.words.push(value.to_owned());
    };
    for input in &common.input {
        option("-i", input.as_os_str());
    }
    option("--image", image);
    for pid in &common.pid {
        option("--pid", pid.to_string().as_ref());
    }
    for user in &common.user {
        option("--user", user.as_ref());
    }
    for epoch in &common.epoch {
        option("--epoch", epoch.to_string().as_ref());
    }
    for (name, time) in [("--since", &common.since), ("--until", &common.until)] {
        if let Some(time) = time {
            option(name, time.as_ref());
        }
    }
    option("-o", output.as_os_str());
    for (is_given, name) in [
        (common.no_debuginfod, "--no-debuginfod"),
        (common.no_cache, "--no-cache"),
    ] {
        if is_given {
            step.words.push(name.into());
        }
    }
    step.is_followed = true;
    if from.few {
        step.words.push("--few".into());
    }
    step
}

fn here() -> Result<PathBuf, Failure> {
    let folder = std::env::current_dir();
    folder.map_err(|error| Failure::Input(format!("the current folder: {error}")))
}

/// A file of the current folder that goes by the program's name. Builds that run elsewhere find it.
fn beside(image: &str, kind: &str) -> Result<PathBuf, Failure> {
    let name = Path::new(image).file_name();
    let mut name = name.unwrap_or(OsStr::new("vcpi")).to_owned();
    name.push(".");
    name.push(kind);
    Ok(here()?.join(name))
}

fn bolt(
    common: &Common,
    binary: &Path,
    output: Option<&Path>,
    from: Basis,
    how: How,
) -> Result<Vec<BuildStep>, Failure> {
    if !common.image.is_empty() {
        return Err(Failure::Usage(
            "pgo bolt: the program is named by its file alone, not with --image".to_owned(),
        ));
    }
    refuse("bolt", common, &EXPORTED)?;
    let new = output.map_or_else(
        || {
            let mut name = binary.as_os_str().to_owned();
            name.push(".bolt");
            PathBuf::from(name)
        },
        Path::to_owned,
    );
    if is_same(&new, binary) {
        return Err(Failure::Usage(format!(
            "pgo bolt: {} is the program itself, which BOLT reads while it writes the new one: \
             name another file with -o",
            new.display()
        )));
    }
    let version = how.version(&[PERF2BOLT, BOLT])?;
    let image = binary.to_string_lossy();
    let counts = beside(&image, "preagg")?;
    let data = beside(&image, "fdata")?;
    let words = |words: &[&OsStr]| -> Vec<OsString> {
        words.iter().map(|word| (*word).to_owned()).collect()
    };
    let word = OsStr::new;
    let read = BuildStep::new(
        [
            words(&[PERF2BOLT.of(&version).as_ref(), binary.as_os_str()]),
            words(&[word("--pa"), word("-p"), counts.as_os_str()]),
            words(&[word("-o"), data.as_os_str()]),
        ]
        .concat(),
    );
    let mut lay_out = BuildStep::new(words(&[
        BOLT.of(&version).as_ref(),
        binary.as_os_str(),
        word("-o"),
        new.as_os_str(),
        word("-data"),
        data.as_os_str(),
    ]));
    let layout = layout(has_relocations(binary));
    lay_out.words.extend(layout.map(OsString::from));
    Ok(vec![
        export(common, "bolt", binary.as_os_str(), &counts, from),
        read,
        lay_out,
    ])
}
