//! `pgo`: from a running program to a faster one. Each step is another program's command, which is
//! printed before it runs.

mod steps;

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Subcommand;

use self::steps::{BOLT, CLANG, PERF2BOLT, PROFGEN, Step, vcpi, vcpid, version};
use crate::args::Common;
use crate::export::profgen::{FLAGS, RUST_FLAGS};
use crate::failure::Failure;
use crate::say;
use crate::trial::{self, Candidate, LEAST_ROUNDS, ROUNDS};

/// The steps from a program to a faster one.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Asked {
    /// Run a command and record it: `vcpid record`.
    Record {
        /// The database to write.
        #[arg(short, long, value_name = "FILE", default_value = "vcpi.db")]
        output: PathBuf,
        /// Samples per second and processor.
        #[arg(long, value_name = "HZ", default_value_t = 1000)]
        rate: u32,
        #[command(flatten)]
        how: How,
        /// The command.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// Build with the profile of the program that `--image` names; without `--image`, build for
    /// being recorded. C and C++ by clang, Rust by cargo.
    Build {
        /// Take more code for hot: the second build to try.
        #[arg(long)]
        hot: bool,
        /// Keep relocations in the program, which BOLT needs.
        #[arg(long)]
        relocations: bool,
        #[command(flatten)]
        from: Basis,
        #[command(flatten)]
        how: How,
        /// The command that builds: cargo, make, cmake, or another one that heeds CC and CXX.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
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

/// Options of a second build that takes more code for hot.
const HOT: &str = "-profile-summary-cutoff-hot=999000";
/// How BOLT lays out programs.
const LAYOUT: [&str; 5] = [
    "-reorder-blocks=ext-tsp",
    "-reorder-functions=cdsort",
    "-split-functions",
    "-split-all-cold",
    "-dyno-stats",
];

impl Asked {
    /// Takes the step.
    ///
    /// # Errors
    /// If the question makes no sense, a program is missing, or one fails.
    pub(crate) fn run(&self, common: &Common) -> Result<(), Failure> {
        match self {
            Asked::Record {
                output,
                rate,
                how,
                command,
            } => {
                how.take(&[record(output, *rate, command)])?;
                if !how.dry_run {
                    say(&format!(
                        "next: vcpi pgo build -i {} --image PROGRAM -- COMMAND",
                        output.display()
                    ));
                }
                Ok(())
            }
            Asked::Build {
                hot,
                relocations,
                from,
                how,
                command,
            } => {
                let wanted = Wanted {
                    hot: *hot,
                    relocations: *relocations,
                };
                how.take(&build(common, wanted, *from, *how, command)?)
            }
            Asked::Bolt {
                binary,
                output,
                from,
                how,
            } => how.take(&bolt(common, binary, output.as_deref(), *from, *how)?),
            Asked::Compare {
                a,
                b,
                rounds,
                how,
                command,
            } => compare(
                common,
                [a.as_os_str(), b.as_os_str()],
                *rounds,
                *how,
                command,
            ),
        }
    }
}

impl How {
    /// Takes steps, one behind the other.
    fn take(self, steps: &[Step]) -> Result<(), Failure> {
        for step in steps {
            if self.dry_run {
                writeln!(std::io::stdout(), "{step}")?;
                continue;
            }
            say(&format!("$ {step}"));
            step.run()?;
        }
        Ok(())
    }

    /// What the names of tools end in; where nothing is run, they need not be here.
    fn version(self, tools: &[steps::Tool]) -> Result<String, Failure> {
        match version(tools) {
            Err(failure) if self.dry_run => {
                say(&failure.to_string());
                Ok(String::new())
            }
            other => other,
        }
    }
}

fn record(output: &Path, rate: u32, command: &[OsString]) -> Step {
    let mut step = Step::new([vcpid()]);
    step.words.extend(["record", "-o"].map(OsString::from));
    step.words.push(output.into());
    step.words.push("--rate".into());
    step.words.push(rate.to_string().into());
    step.words.push("--".into());
    step.words.extend(command.iter().cloned());
    step
}

/// The export of a program's profile to a file.
fn export(common: &Common, kind: &str, image: &OsStr, output: &Path, from: Basis) -> Step {
    let mut step = Step::new([vcpi()]);
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
    if from.few {
        step.words.push("--few".into());
    }
    step
}

/// What a build is to be.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    hot: bool,
    relocations: bool,
}

fn build(
    common: &Common,
    wanted: Wanted,
    from: Basis,
    how: How,
    command: &[OsString],
) -> Result<Vec<Step>, Failure> {
    let is_cargo = command.first().is_some_and(|program| is(program, "cargo"));
    let image = match common.image.as_slice() {
        [] => None,
        [one] => Some(one),
        _ => {
            return Err(Failure::Usage(
                "pgo build: of one program; name its file with --image once".to_owned(),
            ));
        }
    };
    let Some(image) = image else {
        if wanted.hot {
            return Err(Failure::Usage(
                "pgo build: --hot is about a profile; name its program with --image".to_owned(),
            ));
        }
        let version = match is_cargo {
            true => String::new(),
            false => how.version(&[CLANG])?,
        };
        return Ok(vec![compile(command, &version, None, wanted)]);
    };
    let tools: &[steps::Tool] = match is_cargo {
        true => &[PROFGEN],
        false => &[CLANG, PROFGEN],
    };
    let version = how.version(tools)?;
    let counts = beside(image, "profgen")?;
    let profile = beside(image, "prof")?;
    let mut symbolize = Step::new([PROFGEN.of(&version)]);
    for (name, value) in [
        ("--unsymbolized-profile", counts.as_os_str()),
        ("--binary", OsStr::new(image)),
        ("--use-offset", OsStr::new("0")),
        ("--format", OsStr::new("text")),
        ("--output", profile.as_os_str()),
    ] {
        symbolize.words.push(joined(name, value));
    }
    if !how.dry_run {
        say("the build must compile anew: remove what an earlier build left, or change its folder");
    }
    Ok(vec![
        export(common, "profgen", image.as_ref(), &counts, from),
        symbolize,
        compile(command, &version, Some(&profile), wanted),
    ])
}

/// `name=value`.
fn joined(name: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(name);
    word.push("=");
    word.push(value);
    word
}

/// Whether a command is this program.
fn is(program: &OsStr, name: &str) -> bool {
    Path::new(program).file_name() == Some(OsStr::new(name))
}

/// A file of the current folder that goes by the program's name. Builds that run elsewhere find it.
fn beside(image: &str, kind: &str) -> Result<PathBuf, Failure> {
    let name = Path::new(image).file_name();
    let mut name = name.unwrap_or(OsStr::new("vcpi")).to_owned();
    name.push(".");
    name.push(kind);
    let folder = std::env::current_dir();
    let folder = folder.map_err(|error| Failure::Input(format!("the current folder: {error}")))?;
    Ok(folder.join(name))
}

/// The command that builds, with what makes compilers keep or use profiles.
fn compile(command: &[OsString], version: &str, profile: Option<&Path>, wanted: Wanted) -> Step {
    let mut step = Step::new(command.iter().cloned());
    let Some(program) = command.first() else {
        return step;
    };
    if is(program, "cargo") {
        let flags = of_rust(profile, wanted);
        // The flags for samples are among those that stable compilers keep for their own build.
        step.variables
            .push(("RUSTC_BOOTSTRAP", OsString::from("1")));
        step.variables.push(("RUSTFLAGS", flags));
        return step;
    }
    let flags = of_clang(profile, wanted);
    for (variable, name) in [("CC", "clang"), ("CXX", "clang++")] {
        let mut compiler = OsString::from(format!("{name}{version} "));
        compiler.push(&flags);
        // A makefile's own choice of a compiler yields to the command line alone.
        match is(program, "make") || is(program, "gmake") {
            true => step.words.push(joined(variable, &compiler)),
            false => step.variables.push((variable, compiler)),
        }
    }
    step
}

fn of_clang(profile: Option<&Path>, wanted: Wanted) -> OsString {
    let mut flags = OsString::from(FLAGS);
    if let Some(profile) = profile {
        flags.push(" -fprofile-sample-use=");
        flags.push(profile);
    }
    if wanted.hot {
        flags.push(" -mllvm ");
        flags.push(HOT);
    }
    if wanted.relocations {
        flags.push(" -Wno-unused-command-line-argument -Wl,--emit-relocs");
    }
    flags
}

fn of_rust(profile: Option<&Path>, wanted: Wanted) -> OsString {
    let mut flags = std::env::var_os("RUSTFLAGS").unwrap_or_default();
    if !flags.is_empty() {
        flags.push(" ");
    }
    flags.push(RUST_FLAGS);
    if let Some(profile) = profile {
        flags.push(" -Zprofile-sample-use=");
        flags.push(profile);
    }
    if wanted.hot {
        flags.push(" -Cllvm-args=");
        flags.push(HOT);
    }
    if wanted.relocations {
        flags.push(" -Clink-arg=-Wl,--emit-relocs");
    }
    flags
}

fn bolt(
    common: &Common,
    binary: &Path,
    output: Option<&Path>,
    from: Basis,
    how: How,
) -> Result<Vec<Step>, Failure> {
    if !common.image.is_empty() {
        return Err(Failure::Usage(
            "pgo bolt: the program is named by its file alone, not with --image".to_owned(),
        ));
    }
    let version = how.version(&[PERF2BOLT, BOLT])?;
    let image = binary.to_string_lossy();
    let counts = beside(&image, "preagg")?;
    let data = beside(&image, "fdata")?;
    let new = output.map_or_else(
        || {
            let mut name = binary.as_os_str().to_owned();
            name.push(".bolt");
            PathBuf::from(name)
        },
        Path::to_owned,
    );
    let words = |words: &[&OsStr]| -> Vec<OsString> {
        words.iter().map(|word| (*word).to_owned()).collect()
    };
    let word = OsStr::new;
    let read = Step::new(
        [
            words(&[PERF2BOLT.of(&version).as_ref(), binary.as_os_str()]),
            words(&[word("--pa"), word("-p"), counts.as_os_str()]),
            words(&[word("-o"), data.as_os_str()]),
        ]
        .concat(),
    );
    let mut lay_out = Step::new(words(&[
        BOLT.of(&version).as_ref(),
        binary.as_os_str(),
        word("-o"),
        new.as_os_str(),
        word("-data"),
        data.as_os_str(),
    ]));
    lay_out.words.extend(LAYOUT.map(OsString::from));
    Ok(vec![
        export(common, "bolt", binary.as_os_str(), &counts, from),
        read,
        lay_out,
    ])
}

/// The command that runs a build.
fn candidate(build: &OsStr, command: &[OsString]) -> Candidate {
    let is_whole = |word: &OsString| word.to_string_lossy().contains("{}");
    let words: Vec<OsString> = match command.iter().any(is_whole) {
        true => command
            .iter()
            .map(|word| match is_whole(word) {
                true => word
                    .to_string_lossy()
                    .replace("{}", &build.to_string_lossy())
                    .into(),
                false => word.clone(),
            })
            .collect(),
        false => std::iter::once(build.to_owned())
            .chain(command.iter().cloned())
            .collect(),
    };
    Candidate {
        text: Step::new(words.iter().cloned()).to_string(),
        words,
    }
}

fn compare(
    common: &Common,
    [a, b]: [&OsStr; 2],
    rounds: u16,
    how: How,
    command: &[OsString],
) -> Result<(), Failure> {
    let commands = [a, b].map(|build| candidate(build, command));
    if how.dry_run {
        for command in &commands {
            writeln!(std::io::stdout(), "{}", command.text)?;
        }
        return Ok(());
    }
    for command in &commands {
        say(&format!("$ {}", command.text));
    }
    let trial = trial::run(&commands, rounds)?;
    let text = common.format.renderer().render(&trial, common.names())?;
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    const PLAIN: Wanted = Wanted {
        hot: false,
        relocations: false,
    };

    /// Makefiles are told on the command line, cargo by its flags, others in the environment.
    #[test]
    fn builds() {
        let profile = Some(Path::new("/p/lua.prof"));
        let text =
            |command, profile, wanted| compile(&words(command), "-22", profile, wanted).to_string();
        let flags = "-g1 -fdebug-info-for-profiling -funique-internal-linkage-names";
        let uses = format!("{flags} -fprofile-sample-use=/p/lua.prof");
        assert_eq!(
            text("make -j2 lua", profile, PLAIN),
            format!("make -j2 lua 'CC=clang-22 {uses}' 'CXX=clang++-22 {uses}'")
        );
        assert_eq!(
            text("cmake -B build", None, PLAIN),
            format!("CC='clang-22 {flags}' CXX='clang++-22 {flags}' cmake -B build")
        );
        let wanted = Wanted {
            hot: true,
            relocations: true,
        };
        let rust = text("cargo build --release", profile, wanted);
        for part in [
            "RUSTC_BOOTSTRAP=1 ",
            "-Zprofile-sample-use=/p/lua.prof",
            "-Cllvm-args=-profile-summary-cutoff-hot=999000",
            "-Clink-arg=-Wl,--emit-relocs",
            " cargo build --release",
        ] {
            assert!(rust.contains(part), "{rust}");
        }
    }

    /// Builds are told the words of a command, or stand in it where it says so.
    #[test]
    fn commands() {
        let of = |command| candidate(OsStr::new("./a"), &words(command)).text;
        assert_eq!(of("bench.lua 10"), "./a bench.lua 10");
        assert_eq!(of("nice {} --x"), "nice ./a --x");
        assert_eq!(candidate(OsStr::new("./a"), &[]).text, "./a");
    }
}
